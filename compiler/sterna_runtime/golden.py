"""Golden sets of a bundle: inputs with the outputs that a reference gave for them, read and replayed.

`golden.json` names the tensors; `golden.bin` holds them, dense and little-endian, each aligned as weights are:

    {"reference": "onnxruntime 1.22", "tolerance": 1e-4,
     "sets": [{"inputs": [{"name", "dtype", "dims", "offset", "bytes"}], "outputs": [...]}]}

Floats may differ by `tolerance` times the output's largest magnitude, or by an output's own `tolerance`; everything
else is equal. A tensor of strings has "dtype": "string" and its elements in `strings`, in place of an offset. Every set
begins with the states that the model has after loading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sterna_runtime.advice import Advice, Compile, Option
from sterna_runtime.checks import TensorCheck, compare
from sterna_runtime.errors import SternaError, error
from sterna_runtime.inputs import Array, dtype_from_name
from sterna_runtime.library import hash64

NAMES = ("golden.json", "golden.bin")
STRING = "string"


@dataclass(frozen=True)
class GoldenSet:
    """Arrays by name; `tolerances` of outputs that need more than the others."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    tolerances: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ReplayedOutput:
    """An output of one set beside the reference's.

    Args:
        number: of the set, from 0.
        tolerance: of floats, relative to the output's largest magnitude; 0 for everything else.
    """

    number: int
    check: TensorCheck
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether it is what it should be."""
        return self.check.error <= self.tolerance


@dataclass(frozen=True)
class Replay:
    """All golden sets of a bundle, run again.

    Args:
        reference: what gave the outputs that are wanted.
    """

    reference: str
    sets: int
    outputs: tuple[ReplayedOutput, ...]

    @property
    def ok(self) -> bool:
        """Whether every output of every set is what it should be."""
        return all(output.ok for output in self.outputs)

    @property
    def error(self) -> float:
        """The largest relative error of all outputs."""
        return max((output.check.error for output in self.outputs), default=0.0)


class Replayable(Protocol):
    """A loaded bundle, as far as its golden sets need it."""

    @property
    def directory(self) -> Path: ...
    def reset_state(self) -> None: ...
    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]: ...


def replay(bundle: Replayable, tolerance: float | None = None) -> Replay:
    """Runs a bundle on the inputs of its golden sets and compares every output.

    Args:
        tolerance: in place of the sets' own.

    Raises:
        SternaError: E0503, it has no golden sets; E0504 or E0505, they are malformed or damaged.
    """
    reference, usual, sets = read_golden(bundle.directory)
    outputs = []
    for number, each in enumerate(sets):
        bundle.reset_state()
        got = bundle.run(each.inputs)
        if got.keys() != each.outputs.keys():
            raise _malformed(bundle.directory, f"set {number} has other outputs than the bundle")
        for name, wanted in each.outputs.items():
            allowed = max(usual, each.tolerances.get(name, 0.0)) if tolerance is None else tolerance
            allowed = allowed if is_float(wanted) else 0.0
            outputs.append(ReplayedOutput(number, compare(name, got[name], wanted), allowed))
    return Replay(reference, len(sets), tuple(outputs))


def read_golden(directory: Path) -> tuple[str, float, list[GoldenSet]]:
    """The reference's name, the tolerance, and the sets of a bundle; errors as of `replay`."""
    try:
        text, data = ((directory / name).read_bytes() for name in NAMES)
    except FileNotFoundError:
        fix = Advice("`", Compile("MODEL", str(directory), (Option("golden", 3),)), "` at the command line adds some")
        raise error("E0503", "the bundle has no golden sets", str(directory), fix=fix) from None
    except OSError as problem:
        raise error("E0503", f"{problem.filename} cannot be read: {problem.strerror}") from None
    _check_hashes(directory, dict(zip(NAMES, (text, data), strict=True)))
    try:
        golden = json.loads(text)
        sets = [
            GoldenSet(
                {row["name"]: _array(row, data) for row in each["inputs"]},
                {row["name"]: _array(row, data) for row in each["outputs"]},
                {row["name"]: float(row["tolerance"]) for row in each["outputs"] if "tolerance" in row},
            )
            for each in golden["sets"]
        ]
        return str(golden["reference"]), float(golden["tolerance"]), sets
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise _malformed(directory, "not what compile writes") from None


def _array(row: Mapping[str, Any], data: bytes) -> Array:
    dims = tuple(int(n) for n in row["dims"])
    if row["dtype"] == STRING:
        array = np.empty(len(row["strings"]), object)
        array[:] = [str(text) for text in row["strings"]]
        return array.reshape(dims)
    at, count = int(row["offset"]), int(row["bytes"])
    if not 0 <= at <= at + count <= len(data):
        raise ValueError("outside of the file")
    return np.frombuffer(data[at : at + count], dtype_from_name(str(row["dtype"]))).reshape(dims)


def is_float(array: Array) -> bool:
    """Whether an array holds floats, of NumPy or of `ml_dtypes`."""
    return array.dtype.kind == "f" or "float" in array.dtype.name


def _check_hashes(directory: Path, files: Mapping[str, bytes]) -> None:
    """Compares the files with what graph.json says of them, as far as it says anything."""
    try:
        entries = json.loads((directory / "graph.json").read_bytes())["files"]
        wrong = [
            name
            for name, content in files.items()
            if name in entries and (len(content), hash64(content)) != (entries[name]["bytes"], entries[name]["hash"])
        ]
    except (OSError, ValueError, LookupError, TypeError):
        return  # the runtime has said what there is to say when it loaded the bundle
    if wrong:
        title = f"{' and '.join(wrong)}: not what was written when it was compiled"
        raise error("E0505", title, str(directory), fix="compile the model again")


def _malformed(directory: Path, what: str) -> SternaError:
    return error("E0504", f"golden.json is malformed: {what}", str(directory), fix="compile the model again")
