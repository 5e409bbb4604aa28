"""Float models as bundles for OpenCL, or for WebGPU in Chromium, beside ones for this machine: those of the
development sets, of all formats, and of `sterna demo`, or the networks of ci/bench.

Where the two are further apart than `TOLERANCE`, both are compared with the same model in float64: networks that
enlarge roundings tell any two computations in float32 apart, and the device's is right if it is no further off than the
CPU's, and that is not far. With `--half` the same models in float16 are compared with those weights and inputs in
float64: a device is right if it is no further off than `SPREAD` times what the CPU is, which rounds as often. A device
that has tensors in float16 between kernels is held to the interpreter instead, which rounds every tensor. Results that
are infinite or no number on both sides, in the same places, are counted and said.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, Protocol

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("compiler", "tests", "bench")]

import sterna  # noqa: E402
import sterna.api  # noqa: E402
from environments import Environments  # noqa: E402
from models import COUNTED, Models  # noqa: E402
from sterna.bundle.writer import write_bundle  # noqa: E402
from sterna.compiled import Compiled  # noqa: E402
from sterna.debug.interpret import interpret  # noqa: E402
from sterna.driver import compile_graph  # noqa: E402
from sterna.emulate.devices import device  # noqa: E402
from sterna.frontends.formats import read_model  # noqa: E402
from sterna.frontends.frontend import ReadOptions  # noqa: E402
from sterna.ir.graph import Graph  # noqa: E402
from sterna.targets.description import load_target  # noqa: E402
from support import wgsl_host  # noqa: E402
from support.cuda_driver import Driver, build  # noqa: E402
from support.float_models import float_models  # noqa: E402
from support.retyped import HALF, as_types, in_halves, run_in_float64  # noqa: E402

#: Of the largest output.
TOLERANCE = 1e-4
#: What is left of float32 in a network that enlarges roundings, at most.
ENLARGED = 1e-2
#: Of a model in float16: how much further from float64 than the CPU's results, and from what on that is looked at: half
#: the distance between numbers near 1.
SPREAD, HALF_STEP = 2.0, 2.0**-11
#: Names of `--on`: Mesa's driver of Vulkan for CPUs, which runs WGSL without a browser; the tests' driver of CUDA,
#: which runs PTX over fibers.
LAVAPIPE, TEST_DRIVER = "lavapipe", "test-driver"
Inputs = Mapping[str, np.ndarray[Any, Any]]
Compare = Callable[..., "Errors"]


@dataclass(frozen=True)
class Errors:
    """Differences relative to the largest output; NaN where something is no number on one side.

    Args:
        apart: of the device from this machine, NaN where nothing was compared; there, here: of each from float64, 0
            where that was not computed.
        half: whether they compute in float16; rounded: whether this machine's are the interpreter's.
        lost: results that are infinite or no number, in the same places on both.
        notes: what is to be known of the model in float16.
    """

    apart: float
    there: float = 0.0
    here: float = 0.0
    half: bool = False
    lost: int = 0
    notes: tuple[str, ...] = ()
    rounded: bool = False

    @property
    def good(self) -> bool:
        if self.half:
            return not isnan(self.apart) and self.there <= max(HALF_STEP, SPREAD * self.here)
        return self.apart <= TOLERANCE or 0 < self.there <= min(self.here, ENLARGED)

    def __str__(self) -> str:
        other = "every tensor rounded" if self.rounded else "the CPU"
        exact = f" (from float64: {self.there:.1e}, {other} {self.here:.1e})" if self.half or self.there else ""
        lost = (f"{self.lost} results are infinite or no number on both",) if self.lost else ()
        return "; ".join((f"{self.apart:.1e}{exact}", *lost, *self.notes))


class Runs(Protocol):
    """A model that is loaded somewhere."""

    def run(self, inputs: Inputs) -> Inputs: ...


@dataclass(frozen=True)
class _OnLavapipe:
    device: wgsl_host.Device
    compiled: Compiled

    def run(self, inputs: Inputs) -> Inputs:
        return self.device.run(self.compiled, dict(inputs))


@dataclass(frozen=True)
class Device:
    """What models are compiled for, and what their bundles run on, if that is not this process: of `--on`."""

    target: str
    on: str = ""

    @property
    def rounds(self) -> bool:
        """Whether tensors between kernels are in float16 if a model's are."""
        known = load_target(self.target)
        converts = known.threads is not None and known.threads.converts_halves
        return converts or "float16" in known.fragment_types

    @contextmanager
    def bundle(self, graph: Graph, folder: Path) -> Iterator[Runs]:
        if self.on == LAVAPIPE:
            options = sterna.api.options_of(wgsl_host.wgsl_target(groups=True))
            yield _OnLavapipe(wgsl_host.Device(), compile_graph(graph, "model", options))
            return
        # The estimate would leave small models to the CPU.
        described = load_target(self.target).device
        places = {"*": described.kind} if described is not None else None
        options = sterna.api.options_of(self.target, device_for=places)
        output = write_bundle(compile_graph(graph, "model", options), folder)
        elsewhere = device(self.on) if self.on and self.on != TEST_DRIVER else nullcontext()
        with elsewhere, sterna.load(output) as there:
            yield there


def error_in_halves(model: Path, cases: Sequence[Inputs], given: Mapping[str, Any], there: Device) -> Errors:
    """The same of a model in float16."""
    half = in_halves(read_model(model, ReadOptions(**given)))
    notes = []
    if half.beyond:
        notes.append(f"constants beyond float16: {', '.join(half.beyond)}")
    if half.kept:
        notes.append(f"in float32: {', '.join(half.kept)}")
    rounded = [as_types(case, HALF) for case in fitting(cases, given)]
    return replace(error_of_graph(half.graph, rounded, there, half=True), notes=tuple(notes))


def error_of(model: Path, cases: Sequence[Inputs], given: Mapping[str, Any], there: Device) -> Errors:
    """How far the device is from this machine's own results, and where that is far, both from those in float64.

    Args:
        given: the shapes and values that the model is compiled for; cases of other shapes are left out.
    """
    return error_of_graph(read_model(model, ReadOptions(**given)), fitting(cases, given), there)


def fitting(cases: Sequence[Inputs], given: Mapping[str, Any]) -> list[Inputs]:
    """The cases of the shapes that a model is compiled for."""
    shapes = given.get("shapes")
    return [c for c in cases if not shapes or {name: x.shape for name, x in c.items()} == shapes]


def error_of_graph(graph: Graph, cases: Sequence[Inputs], there: Device, half: bool = False) -> Errors:
    """The same of a graph, and of cases that have its types."""
    # The interpreter begins anew with each case.
    cases = cases[:1] if half and there.rounds else cases
    with tempfile.TemporaryDirectory() as folder:
        with there.bundle(graph, Path(folder) / "there") as far:
            found = [copied(far.run(inputs)) for inputs in cases]
        options = sterna.api.options_of("host")
        if rounded := half and there.rounds:
            every = [interpret(graph, inputs) for inputs in cases]  # states, too
            wanted = [{name: each[name] for name in graph.result_names} for each in every]
        else:
            with sterna.load(write_bundle(compile_graph(graph, "model", options), Path(folder) / "here")) as here:
                wanted = [copied(here.run(inputs)) for inputs in cases]
        apart = worst(found, wanted)
        if not half and apart <= TOLERANCE:
            return Errors(apart)
        exact = run_in_float64(graph, cases, Path(folder) / "exact")
    lost = sum(int((~np.isfinite(a) & same(a, b)).sum()) for a, b in pairs(found, wanted))
    off = worst(found, exact, wanted), worst(wanted, exact, wanted)
    return Errors(apart, *off, half, lost, rounded=rounded)


def copied(outputs: Inputs) -> Inputs:
    return {name: array.copy() for name, array in outputs.items()}


def pairs(found: Sequence[Inputs], wanted: Sequence[Inputs]) -> Iterator[tuple[Any, Any]]:
    """Those outputs of all cases that are numbers, in float64."""
    for ours, theirs in zip(found, wanted, strict=True):
        for name, want in theirs.items():
            if want.dtype.kind in "fiub" and want.size:
                yield ours[name].astype(np.float64), want.astype(np.float64)


def same(found: Any, wanted: Any) -> Any:
    """Where two agree on what is no finite number."""
    return (found == wanted) | (np.isnan(found) & np.isnan(wanted))


def worst(found: Sequence[Inputs], wanted: Sequence[Inputs], finite: Sequence[Inputs] = ()) -> float:
    """The largest difference of all outputs, relative to each one's largest; NaN where nothing was compared.

    Args:
        finite: results that say which elements are compared; none: those that are not equal infinities or no numbers.
    """
    errors = []
    for (ours, want), (_, chosen) in zip(pairs(found, wanted), pairs(finite or wanted, finite or wanted), strict=True):
        off = np.zeros_like(want)
        left = np.isfinite(chosen) if finite else ~(~np.isfinite(want) & same(ours, want))
        with np.errstate(invalid="ignore"):
            off[left] = np.abs(ours - want)[left]
        scale = np.abs(want[np.isfinite(want) & left]).max(initial=1e-30)
        errors.append(float(off.max() / scale))
    return float(np.max(errors)) if errors else float("nan")


def trained(names: Sequence[str], there: Device, compare: Compare) -> Iterator[tuple[str, Callable[[], Errors]]]:
    for name, model in float_models(names):
        given = {"shapes": model.shapes(), **({"values": model.values} if model.values else {})}
        yield name, partial(compare, model.file, [case.inputs for case in model.cases[:2]], given, there)


def networks(
    names: Sequence[str], there: Device, work: Path, compare: Compare
) -> Iterator[tuple[str, Callable[[], Errors]]]:
    models = Models(work, Environments(work / "environments"))
    for model in models.find(names or COUNTED):
        yield model.label, partial(compare, model.file, [models.inputs(model)], {}, there)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of models; all, if none is named")
    parser.add_argument("--networks", action="store_true", help="those of ci/bench, which torch writes once")
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench", help="where these are kept")
    parser.add_argument(
        "--on",
        help="as of `sterna run`; lavapipe, Mesa's, for webgpu; test-driver of cuda; default: here, webgpu in chromium",
    )
    parser.add_argument("--half", action="store_true", help="models in float16")
    arguments = parser.parse_args()
    there = Device(arguments.target, arguments.on or ("chromium" if arguments.target == "webgpu" else ""))
    if there.on == TEST_DRIVER:
        built = tempfile.TemporaryDirectory()
        driver = Driver(build(Path(built.name)))
        driver.set("capability", 90)
        driver.set("version", 12000)
    compare = error_in_halves if arguments.half else error_of
    if arguments.networks:
        rows = networks(arguments.names, there, arguments.work.resolve(), compare)
    else:
        rows = trained(arguments.names, there, compare)
    good, bad = 0, list[str]()
    for name, measured in rows:
        start = time.monotonic()
        try:
            errors = measured()
        except sterna.SternaError as problem:
            bad.append(name)
            print(f"{name}: {problem}", flush=True)
            continue
        except wgsl_host.UnsupportedModelError as reason:
            print(f"{name}: left out on lavapipe, {reason}", flush=True)
            continue
        print(f"{name}: {errors}, {time.monotonic() - start:.0f} s", flush=True)
        good += errors.good
        bad += [] if errors.good else [name]
    named = f"; not: {', '.join(bad)}" if bad else ""
    near = (
        f"no further than {SPREAD:g} times as far from float64 as what it is held to"
        if arguments.half
        else (f"within {TOLERANCE:g}, or as near to float64 as the CPU")
    )
    print(f"{good} of {good + len(bad)} {near}{named}")
    return int(bool(bad) or not good)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except sterna.SternaError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
