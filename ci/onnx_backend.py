"""Runs ONNX's own backend test suite: each case compiled, loaded and run in a process of its own.

    ci/onnx-backend                         every case, LLVM generator; a table per operator
    ci/onnx-backend --generator c --part 0/6
    ci/onnx-backend --kind node --match '^test_conv' --show

One process imports everything and forks a child for each case, so that a crash is a failure and costs nothing else.
Tolerances are the suite's own. Cases that cannot be run are listed in onnx-exclusions.txt, by name and with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import sterna
from sterna.api import compile_to

HERE = Path(__file__).resolve().parent
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")
LIMIT = 120  # seconds of one case
BATCH_PROGRESS = 200


@dataclass(frozen=True)
class Outcome:
    """How a case ended: "passed", "refused" (a SternaError), "wrong", "crashed" or "excluded"."""

    kind: str
    name: str
    operator: str
    state: str
    detail: str = ""


def exclusions() -> dict[str, str]:
    """Case -> reason, from lines of `name: reason`."""
    result = {}
    for line in (HERE / "onnx-exclusions.txt").read_text("utf-8").splitlines():
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


class NotATensorError(Exception):
    """An input or output is a sequence, an optional or a map."""


def array(value: Any) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if not isinstance(value, (np.ndarray, np.generic, float, int)):
        raise NotATensorError(type(value).__name__)
    return np.asarray(value)


def stored(path: Path, info: onnx.ValueInfoProto) -> np.ndarray:
    if not info.type.HasField("tensor_type"):
        raise NotATensorError(str(info.type.WhichOneof("value")))
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def data_sets(case: Any, model: onnx.ModelProto) -> Iterator[tuple[dict[str, np.ndarray], list[np.ndarray]]]:
    """Inputs by name, and outputs in order."""
    initialized = {tensor.name for tensor in model.graph.initializer}
    if case.data_sets:
        for inputs, outputs in case.data_sets:
            names = [value.name for value in model.graph.input]
            yield {n: array(a) for n, a in zip(names, inputs, strict=False)}, [array(a) for a in outputs]
        return
    fed = [value for value in model.graph.input if value.name not in initialized]
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        inputs = {v.name: stored(folder / f"input_{n}.pb", v) for n, v in enumerate(fed)}
        yield inputs, [stored(folder / f"output_{n}.pb", v) for n, v in enumerate(model.graph.output)]


def check(case: Any, generator: str) -> None:
    """Compiles and runs a case.

    Raises:
        SternaError, NotATensorError: it is refused. AssertionError: a result is wrong.
    """
    model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
    shapes: dict[str, tuple[int, ...]] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for inputs, outputs in data_sets(case, model):
            if shapes != (now := {name: a.shape for name, a in inputs.items()}):
                path = compile_to(Path(folder) / f"bundle{len(shapes or ())}", model, shapes=now, generator=generator)
                bundle, shapes = sterna.load(path), now
            found = bundle.run({spec.name: inputs[spec.name] for spec in bundle.inputs})
            for have, want in zip(found.values(), outputs, strict=True):
                agree(have, want, case.rtol, case.atol)


def agree(have: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> None:
    assert have.shape == want.shape, f"shape {have.shape}, not {want.shape}"
    assert have.dtype == want.dtype, f"elements of type {have.dtype}, not {want.dtype}"
    if have.dtype.kind not in "iub":  # ml_dtypes' types have no arithmetic of their own in assert_allclose
        have, want = have.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)


def in_child(case: Any, generator: str) -> tuple[str, str]:
    """The state and detail of a case that is run in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(LIMIT)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(case, generator)
            result = ("passed", "")
        except sterna.SternaError as mistake:
            result = ("refused", str(mistake.diagnostics[0]).split("\n")[0])
        except NotATensorError as problem:
            result = ("refused", f"an input or output is a {problem}")
        except AssertionError as problem:
            result = ("wrong", " ".join(str(problem).split())[:300])
        except BaseException:
            result = ("crashed", traceback.format_exc().strip().split("\n")[-1])
        os.write(writing, json.dumps(result).encode()[:60000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    if status != 0 or not content:
        return "crashed", f"the process ended with {status}"
    state, detail = json.loads(content)
    return state, detail


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


def run(kinds: list[str], generator: str, part: tuple[int, int], match: str, show: bool) -> list[Outcome]:
    import re  # noqa: PLC0415

    reasons = exclusions()
    outcomes: list[Outcome] = []
    started = time.monotonic()
    for kind in kinds:
        for number, case in enumerate(cases(kind)):
            if number % part[1] != part[0] or not re.search(match, case.name):
                continue
            operator = operator_of(kind, case)
            if case.name in reasons:
                outcomes.append(Outcome(kind, case.name, operator, "excluded", reasons[case.name]))
                continue
            state, detail = in_child(case, generator)
            outcomes.append(Outcome(kind, case.name, operator, state, detail))
            if show and state != "passed":
                print(f"{case.name}: {state}: {detail}", flush=True)
            if len(outcomes) % BATCH_PROGRESS == 0:
                print(f"{len(outcomes)} cases, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this kind; may be given again")
    parser.add_argument("--generator", choices=("c", "llvm"), default="llvm")
    parser.add_argument("--part", default="0/1", help="K/N: every Nth case, from the Kth on")
    parser.add_argument("--match", default="", help="only cases whose name matches")
    parser.add_argument("--show", action="store_true", help="name every failure")
    parser.add_argument(
        "--at-least", type=float, default=0, help="fail below so many percent of the cases not excluded"
    )
    given = parser.parse_args()
    first, _, parts = given.part.partition("/")
    outcomes = run(given.kind or list(KINDS), given.generator, (int(first), int(parts)), given.match, given.show)
    report(outcomes)
    kept = [o for o in outcomes if o.state != "excluded"]
    return int(100 * sum(o.state == "passed" for o in kept) < given.at_least * len(kept))


if __name__ == "__main__":
    sys.exit(main())
