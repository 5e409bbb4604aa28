"""Float models as bundles for OpenCL, or for WebGPU in Chromium, beside ones for this machine: those of the
development sets, of all formats, and of `sterna demo`, or the networks of ci/bench.

Where the two are further apart than `TOLERANCE`, both are compared with the same model in float64: networks that
enlarge roundings tell any two computations in float32 apart, and the device's is right if it is no further off than the
CPU's, and that is not far. With `--half` the same models in float16 are compared with those weights and inputs in
float64: a device is right if it is no further off than `SPREAD` times what the CPU is, which rounds as often.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("compiler", "tests", "bench")]

import sterna  # noqa: E402
import sterna.api  # noqa: E402
from environments import Environments  # noqa: E402
from models import COUNTED, Models  # noqa: E402
from sterna.compiled import Compiled  # noqa: E402
from sterna.emulate.devices import device  # noqa: E402
from sterna.errors import error  # noqa: E402
from sterna.frontends.formats import read_model  # noqa: E402
from sterna.frontends.frontend import ReadOptions  # noqa: E402
from support import wgsl_host  # noqa: E402
from support.frontend_models import frontend_model, frontend_model_names  # noqa: E402
from support.halves import in_halves  # noqa: E402
from support.in_float64 import run_in_float64  # noqa: E402
from support.trained import FOLDER, sample  # noqa: E402

#: Of the largest output.
TOLERANCE = 1e-4
#: What is left of float32 in a network that enlarges roundings, at most.
ENLARGED = 1e-2
#: Of a model in float16: how much further from float64 than the CPU's results, and from what on that is looked at: half
#: the distance between numbers near 1.
SPREAD, HALF = 2.0, 2.0**-11
#: The name of `--on` of Mesa's driver of Vulkan for CPUs, which runs WGSL without a browser.
LAVAPIPE = "lavapipe"
Inputs = Mapping[str, np.ndarray[Any, Any]]
Compare = Callable[..., "Errors"]


@dataclass(frozen=True)
class Errors:
    """Differences relative to the largest output; NaN where something is no number on one side.

    Args:
        apart: of the device from this machine, NaN where nothing was compared; there, here: of each from float64, 0
            where that was not computed.
        half: whether they compute in float16.
    """

    apart: float
    there: float = 0.0
    here: float = 0.0
    half: bool = False

    @property
    def good(self) -> bool:
        if self.half:
            return not isnan(self.apart) and self.there <= max(HALF, SPREAD * self.here)
        return self.apart <= TOLERANCE or 0 < self.there <= min(self.here, ENLARGED)

    def __str__(self) -> str:
        exact = f" (from float64: {self.there:.1e}, the CPU {self.here:.1e})" if self.there else ""
        return f"{self.apart:.1e}{exact}"


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

    @contextmanager
    def bundle(self, model: Path, given: Mapping[str, Any], folder: Path) -> Iterator[Runs]:
        if self.on == LAVAPIPE:
            compiled = sterna.api.compile_model(model, wgsl_host.wgsl_target(groups=True), **given)
            yield _OnLavapipe(wgsl_host.Device(), compiled)
            return
        output = sterna.compile_to(folder, model, self.target, **given)
        with device(self.on) if self.on else nullcontext(), sterna.load(output) as there:
            yield there


def error_in_halves(model: Path, cases: Sequence[Inputs], given: Mapping[str, Any], there: Device) -> Errors:
    """The same of an ONNX model in float16."""
    with tempfile.TemporaryDirectory() as folder:
        half = Path(folder) / model.name
        onnx.save(in_halves(onnx.load(model)), half)
        rounded = [{n: x.astype(np.float16) if x.dtype == np.float32 else x for n, x in c.items()} for c in cases]
        return error_of(half, rounded, given, there, half=True)


def error_of(
    model: Path, cases: Sequence[Inputs], given: Mapping[str, Any], there: Device, half: bool = False
) -> Errors:
    """How far the device is from this machine's own results, and where that is far, both from those in float64.

    Args:
        given: the shapes and values that the model is compiled for; cases of other shapes are left out.
    """
    shapes = given.get("shapes")
    cases = [c for c in cases if not shapes or {name: x.shape for name, x in c.items()} == shapes]
    apart, there_off, here_off = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        with there.bundle(model, given, Path(folder) / "there") as far:
            found = [far.run(inputs) for inputs in cases]
        with sterna.compile(model, "host", **given, output=Path(folder) / "here") as here:
            wanted = [here.run(inputs) for inputs in cases]
        for inputs, ours, want in zip(cases, found, wanted, strict=True):
            apart.append(difference(ours, want))
            if half or apart[-1] > TOLERANCE:
                exact = run_in_float64(read_model(model, ReadOptions(**given)), inputs, Path(folder) / "exact")
                there_off.append(difference(ours, exact))
                here_off.append(difference(want, exact))
    worst = (float(np.max(each)) if each else 0.0 for each in (there_off, here_off))
    return Errors(float(np.max(apart)) if apart else float("nan"), *worst, half)


def difference(found: Inputs, wanted: Inputs) -> float:
    """The largest of all outputs that are numbers, relative to each one's largest."""
    errors = [
        float(np.abs(found[name].astype(np.float64) - want).max() / max(1e-30, np.abs(want.astype(np.float64)).max()))
        for name, want in wanted.items()
        if want.dtype.kind in "fiub" and want.size
    ]
    return float(np.max(errors)) if errors else float("nan")


def trained(names: Sequence[str], there: Device, compare: Compare) -> Iterator[tuple[str, Callable[[], Errors]]]:
    folders = sorted(FOLDER.iterdir()) if FOLDER.is_dir() else []
    own, others = ["digits", *(p.name for p in folders if p.name.endswith("_f32"))], frontend_model_names()
    every = (*own, *others)
    if unknown := [name for name in names if name not in every and not (FOLDER / name).is_dir()]:
        raise error("E0006", f"there is no model {', '.join(unknown)}", fix=f"float models are {', '.join(every)}")
    for name in names or every:
        model = frontend_model(name) if name in others else sample(name)
        if compare is error_in_halves and model.file.suffix != ".onnx":
            print(f"{name}: left out, it is no ONNX model", flush=True)
            continue
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
        help="as of `sterna run`; lavapipe, Mesa's, for webgpu; default: here, of webgpu in chromium",
    )
    parser.add_argument("--half", action="store_true", help="ONNX models in float16")
    arguments = parser.parse_args()
    there = Device(arguments.target, arguments.on or ("chromium" if arguments.target == "webgpu" else ""))
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
        f"no further than {SPREAD:g} times as far from float64 as the CPU"
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
