"""Runs ONNX's own backend test suite: each case compiled, loaded and run in a process of its own.

    ci/onnx-backend                         every case, LLVM generator; a table per operator
    ci/onnx-backend --generator c --part 0/10
    ci/onnx-backend --kind node --match '^test_conv' --show
    ci/onnx-backend --target opencl         every kernel that the device can do, on the device
    ci/onnx-backend --target webgpu --on chromium --kind node

One process imports everything and forks a child for each case, so that a crash is a failure and costs nothing else.
Tolerances are the suite's own. What an excluded case needs is out of scope (onnx-exclusions.txt); a known failure
(onnx-failures.txt) is run and counted as one. Each stands there by name and with the reason, and the run fails if any
other case fails, or, where all cases are run, if a known failure passes: the numbers are just those of the two files.
"""

from __future__ import annotations

import argparse
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from children import Children, Ended
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import sterna
from sterna.api import compile_to
from sterna.cli.interrupts import orderly
from sterna.emulate.devices import device
from sterna.targets.description import load_target

HERE = Path(__file__).resolve().parent
EXCLUSIONS, FAILURES = HERE / "onnx-exclusions.txt", HERE / "onnx-failures.txt"
KINDS = ("real", "node", "simple", "pytorch-operator", "pytorch-converted")
LIMIT = 300  # seconds of one case
PROGRESS = 200  # cases between two lines that say how far it is
WARM = "test_softmax_example"  # compiled before the first fork, so that no child loads what all of them need


@dataclass(frozen=True)
class Outcome:
    """How a case ended: "passed", "refused" (a SternaError), "wrong", "crashed" or "excluded".

    Args:
        seconds: of processor time, compilers and linkers included.
    """

    kind: str
    name: str
    operator: str
    state: str
    detail: str = ""
    seconds: float = 0

    @property
    def failed(self) -> bool:
        return self.state not in ("passed", "excluded")


def reasons(path: Path) -> dict[str, str]:
    """Case -> reason, from lines of `name: reason`."""
    result = {}
    for line in path.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(":")
            result[name.strip()] = reason.strip()
    return result


def cases(kind: str) -> list[Any]:
    """The suite's cases of one kind, in its order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind != "node":
            return list(load_model_tests(kind=kind))
        from onnx.backend.test.case.node import collect_testcases  # noqa: PLC0415  takes seconds

        return list(collect_testcases(None))


def in_part(name: str, part: tuple[int, int]) -> bool:
    """Whether a case belongs to part K of N: by its name, so that new cases do not move the others."""
    return zlib.crc32(name.encode()) % part[1] == part[0]


def element(value: Any) -> np.ndarray | None:
    """A tensor of a case; None for an optional that is empty."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    return None if value is None else np.asarray(value)


def tensors(name: str, value: Any) -> dict[str, np.ndarray | None]:
    """An input or output by the names that a bundle knows: the elements of a sequence are tensors of their own."""
    if isinstance(value, (list, tuple)):
        return {f"{name}[{n}]": element(v) for n, v in enumerate(value)}
    return {name: element(value)}


def stored(path: Path, info: onnx.ValueInfoProto) -> Any:
    """What a file of a case holds."""
    kind = info.type.WhichOneof("value")
    if kind == "optional_type":
        kind = info.type.optional_type.elem_type.WhichOneof("value")
    if kind == "sequence_type":
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(path.read_bytes())
        return numpy_helper.to_list(sequence)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def data_sets(case: Any, model: onnx.ModelProto, path: Path | None) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Inputs and outputs by the model's names."""
    initialized = {tensor.name for tensor in model.graph.initializer}
    fed = [value for value in model.graph.input if value.name not in initialized]
    names = [value.name for value in model.graph.output]
    if case.data_sets:
        for inputs, outputs in case.data_sets:
            given = zip((value.name for value in model.graph.input), inputs, strict=False)
            yield dict(given), dict(zip(names, outputs, strict=True))
        return
    if case.kind == "real":  # the inputs that ONNX's runner makes up, and the results that are kept with the models
        assert path is not None
        results = [path.with_name(f"{path.stem}_output_{n}.pb") for n in range(len(names))]
        yield (
            {value.name: Runner.generate_dummy_data(value) for value in fed},
            {value.name: stored(file, value) for value, file in zip(model.graph.output, results, strict=True)},
        )
        return
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        inputs = {v.name: stored(folder / f"input_{n}.pb", v) for n, v in enumerate(fed)}
        yield inputs, {v.name: stored(folder / f"output_{n}.pb", v) for n, v in enumerate(model.graph.output)}


def model_of(case: Any) -> tuple[onnx.ModelProto, Path | None]:
    """A case's model, and its file if it has one."""
    if case.model is not None:
        return case.model, None
    if case.kind == "real":
        path = Path(onnx.__file__).parent.parent / case.url
        if not case.url.startswith("onnx/backend/test/data/light/"):
            raise AssertionError(f"{case.url} is not one of the models that come with the suite")
    else:
        path = Path(case.model_dir) / "model.onnx"
    return onnx.load(path), path


@dataclass(frozen=True)
class Way:
    """How cases are compiled and where they run.

    Args:
        generator: "c" or "llvm".
        target: a target's name. One with a device gets every kernel that the device can do, whatever it costs.
        on: where bundles run, as `sterna run --on`; None for this process.
    """

    generator: str = "llvm"
    target: str | None = None
    on: str | None = None

    def compiled(self, place: Path, model: onnx.ModelProto, shapes: dict[str, tuple[int, ...] | None]) -> Path:
        """The bundle of a model.

        Raises:
            SternaError: it is refused.
        """
        if self.target is None:
            return compile_to(place, model, shapes=shapes, generator=self.generator)
        machine = load_target(self.target)
        try:
            everywhere = {"*": machine.device.kind} if machine.device is not None else None
            return compile_to(place, model, shapes=shapes, target=machine, device_for=everywhere)
        except sterna.SternaError as refused:
            if not any(d.code == "E0203" for d in refused.diagnostics):
                raise
        return compile_to(place, model, shapes=shapes, target=machine)  # no kernel at all


def check(case: Any, way: Way) -> None:
    """Compiles and runs a case.

    Raises:
        SternaError: it is refused. AssertionError: a result is wrong.
    """
    model, path = model_of(case)
    shapes: dict[str, tuple[int, ...] | None] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for number, (given, wanted) in enumerate(data_sets(case, model, path)):
            inputs = {key: array for name, value in given.items() for key, array in tensors(name, value).items()}
            outputs = {key: array for name, value in wanted.items() for key, array in tensors(name, value).items()}
            if shapes != (now := {name: None if a is None else a.shape for name, a in inputs.items()}):
                place = Path(folder) / f"bundle{number}"
                bundle, shapes = sterna.load(way.compiled(place, model, now)), now
            found = bundle.run({spec.name: inputs[spec.name] for spec in bundle.inputs})
            assert list(found) == list(outputs), f"outputs {', '.join(found)}, not {', '.join(outputs)}"
            for name, want in outputs.items():
                agree(found[name], want, case.rtol, case.atol)


def agree(have: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> None:
    """The comparison of ONNX's runner (onnx/backend/test/runner)."""
    assert have.shape == want.shape, f"shape {have.shape}, not {want.shape}"
    if want.dtype == object:
        np.testing.assert_array_equal(have, want)
        return
    assert have.dtype == want.dtype, f"elements of type {have.dtype}, not {want.dtype}"
    if have.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)
    if have.dtype.kind not in "iub":  # ml_dtypes' types have no arithmetic of their own in assert_allclose
        have, want = have.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)


def outcome_of(case: Any, way: Way) -> tuple[str, str]:
    """The state and detail of a case that is run in this process."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with device(way.on) if way.on else nullcontext():
                check(case, way)
    except sterna.SternaError as mistake:
        return "refused", str(mistake.diagnostics[0]).split("\n")[0]
    except AssertionError as problem:
        return "wrong", " ".join(str(problem).split())[:300]
    except BaseException:
        return "crashed", traceback.format_exc().strip().split("\n")[-1]
    return "passed", ""


def operator_of(kind: str, case: Any) -> str:
    if kind != "node":
        return f"({kind})"
    nodes = case.model.graph.node
    return str(nodes[0].op_type) if len(nodes) == 1 else "(several nodes)"


def report(outcomes: list[Outcome]) -> None:
    """A table per operator, then the counts per kind."""
    names = sorted({o.operator for o in outcomes})
    print(f"{'operator':34} {'passed':>7} {'failed':>7} {'excluded':>9}")
    for name in names:
        mine = Counter(o.state for o in outcomes if o.operator == name)
        failed = sum(mine.values()) - mine["passed"] - mine["excluded"]
        print(f"{name:34} {mine['passed']:7} {failed:7} {mine['excluded']:9}")
    print()
    for kind in dict.fromkeys(o.kind for o in outcomes):
        mine = Counter(o.state for o in outcomes if o.kind == kind)
        total, kept = sum(mine.values()), sum(mine.values()) - mine["excluded"]
        share = 100 * mine["passed"] / max(kept, 1)
        print(f"{kind}: {mine['passed']} of {total} passed, {mine['excluded']} excluded; {share:.1f} % of the others")
    passed = sum(o.state == "passed" for o in outcomes)
    print(f"all: {passed} of {len(outcomes)}, {100 * passed / max(len(outcomes), 1):.1f} %")


def unexpected(outcomes: list[Outcome]) -> list[str]:
    """The failures that onnx-failures.txt does not list."""
    known = reasons(FAILURES)
    return [f"{o.name}: {o.state}: {o.detail}" for o in outcomes if o.failed and o.name not in known]


def stale(outcomes: list[Outcome]) -> list[str]:
    """What is no longer true in the two files, from the outcomes of all cases."""
    excluded, failing = reasons(EXCLUSIONS), reasons(FAILURES)
    state = {o.name: o.state for o in outcomes}
    problems = [f"{name} is no case of the suite" for name in {**excluded, **failing} if name not in state]
    problems += [f"{name} is excluded and a known failure" for name in excluded if name in failing]
    return problems + [
        f"{name} passes: take it out of {FAILURES.name}" for name in failing if state.get(name) == "passed"
    ]


def run(
    suite: list[tuple[str, Any]], way: Way, part: tuple[int, int], match: str, jobs: int, show: bool
) -> list[Outcome]:
    """The outcomes of the cases of one part whose names match, in the suite's order."""
    excluded = reasons(EXCLUSIONS)
    outcomes: dict[tuple[str, str], Outcome] = {}
    started = time.monotonic()
    known = {(kind, case.name): (case, operator_of(kind, case)) for kind, case in suite}

    def outcome(key: tuple[str, str]) -> tuple[str, str]:
        return outcome_of(known[key][0], way)

    def ended(end: Ended[tuple[str, str]]) -> None:
        keep(Outcome(*end.item, known[end.item][1], end.state, end.detail, end.seconds))

    def keep(outcome: Outcome) -> None:
        outcomes[outcome.kind, outcome.name] = outcome
        if show and outcome.failed:
            print(f"{outcome.name}: {outcome.state}: {outcome.detail}", flush=True)
        if len(outcomes) % PROGRESS == 0:
            print(f"{len(outcomes)} cases, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

    chosen = [(kind, case) for kind, case in suite if in_part(case.name, part) and re.search(match, case.name)]
    with orderly(), Children(outcome, jobs, LIMIT) as children:
        for kind, case in chosen:
            key = (kind, case.name)
            if case.name in excluded:
                keep(Outcome(*key, known[key][1], "excluded", excluded[case.name]))
                continue
            for end in children.start(key):
                ended(end)
        for end in children.rest():
            ended(end)
    return [outcomes[kind, case.name] for kind, case in chosen]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this kind; may be given again")
    parser.add_argument("--generator", choices=("c", "llvm"), default="llvm")
    parser.add_argument("--target", help="instead of this machine")
    parser.add_argument("--on", help="where bundles run, as of `sterna run`")
    parser.add_argument("--part", default="0/1", help="K/N: the cases whose names' hash leaves K when divided by N")
    parser.add_argument("--match", default="", help="only cases whose name matches")
    parser.add_argument("--jobs", type=int, default=2, help="how many cases run at a time")
    parser.add_argument("--show", action="store_true", help="name every failure as it happens")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="list the N cases that took longest")
    given = parser.parse_args()
    way = Way(given.generator, given.target, given.on)
    first, _, parts = given.part.partition("/")
    started = time.monotonic()
    suite = [(kind, case) for kind in given.kind or KINDS for case in cases(kind)]
    for kind, case in suite:
        if kind == "node" and case.name == WARM:
            outcome_of(case, Way(given.generator))  # not on a device: a fork has none of a driver's threads
    outcomes = run(suite, way, (int(first), int(parts)), given.match, given.jobs, given.show)
    report(outcomes)
    for o in sorted(outcomes, key=lambda o: -o.seconds)[: given.slowest]:
        print(f"{o.seconds:7.2f} s {o.name}")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(u.ru_utime + u.ru_stime for u in used)
    with_what = given.target or given.generator
    print(f"{seconds:.0f} s of processor time, {time.monotonic() - started:.0f} s in all, with {with_what}")
    problems = unexpected(outcomes)
    if not given.kind and not given.match and parts == "1" and way == Way():
        problems += stale(outcomes)
    for problem in problems:
        print(f"not as expected: {problem}")
    passed = sum(o.state == "passed" for o in outcomes)
    excluded = sum(o.state == "excluded" for o in outcomes)
    known = sum(o.failed and o.name in reasons(FAILURES) for o in outcomes)
    print(f"known failures: {known}, excluded: {excluded}; they are listed as skipped")
    print(f"{passed} passed, {len(outcomes) - passed - excluded - known} failed, {known + excluded} skipped")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
