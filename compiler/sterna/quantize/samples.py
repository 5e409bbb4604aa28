"""Samples of what a model will see: arrays by the names of its inputs, from files or from memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Union

import numpy as np
import onnx

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.onnx.file import element_type
from sterna.ir import dtypes
from sterna.ir.graph import Array
from sterna_runtime.inputs import read_archive

#: A file, a folder of files, or arrays by name.
Data = Union[str, "os.PathLike[str]", Mapping[str, Array]]
LABELS = "labels"


@dataclass(frozen=True)
class Input:
    """An input of a model; None is a size that is open."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join('?' if size is None else str(size) for size in self.shape)}]"


@dataclass(frozen=True)
class Samples:
    """What a model is run on, one after the other.

    Args:
        feeds: all inputs of one run, by name.
        labels: the right class of every row of the first output over all runs; None if they are not known.
    """

    feeds: tuple[dict[str, Array], ...]
    labels: Array | None = None

    def __len__(self) -> int:
        return len(self.feeds)


def model_inputs(model: onnx.ModelProto) -> tuple[Input, ...]:
    """The inputs of a prepared model.

    Raises:
        SternaError: E0111, one is not a tensor.
    """
    found = []
    for value in model.graph.input:
        if not value.type.HasField("tensor_type"):
            raise error("E0111", f'the input "{value.name}" is not a tensor, which quantization needs')
        kind = value.type.tensor_type
        shape = tuple(
            int(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else None for d in kind.shape.dim
        )
        found.append(Input(value.name, element_type(kind.elem_type), shape))
    return tuple(found)


def read_samples(data: Data, inputs: tuple[Input, ...]) -> Samples:
    """The samples, cut into runs.

    An array has all samples along its first dimension: that of the input's own, where it has as many dimensions as the
    input, or one more in front of them. Arrays `NAME.0`, `NAME.1` ... are joined, and may differ in what the input
    leaves open; so are the files of a folder. An input with a single sample has the same for all runs. An array
    `labels` that is no input has the right class of every row of the first output.

    Raises:
        SternaError: E0003 a file cannot be read, E0601 to E0604 the arrays do not fit, E0702 there are none, E0703 they
            have NaNs or infinities; everything at once.
    """
    names = {given.name for given in inputs}
    runs: list[dict[str, Array]] = []
    labels: list[Array] = []
    problems: list[Diagnostic] = []
    for where, arrays in _archives(data):
        if LABELS in arrays and LABELS not in names:
            labels.append(np.asarray(arrays[LABELS]).reshape(-1))
            del arrays[LABELS]
        try:
            runs += _runs(arrays, inputs, where)
        except SternaError as mistake:
            problems += mistake.diagnostics
    if problems:
        raise SternaError(problems)
    if not runs:
        fix = "numpy.savez(file, input=array), the samples along its first dimension"
        raise error("E0702", "there are no samples to calibrate with", *_place(data), fix=fix)
    return Samples(tuple(runs), np.concatenate(labels).astype(np.int64) if labels else None)


def _place(data: Data) -> list[str]:
    return [os.fspath(data)] if isinstance(data, (str, os.PathLike)) else []


def _archives(data: Data) -> Iterator[tuple[str, dict[str, Array]]]:
    """The arrays of every file, and what messages call it."""
    if isinstance(data, Mapping):
        yield "", {name: np.asarray(array) for name, array in data.items()}
        return
    path = Path(data)
    files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    for file in files:
        yield str(file), read_archive(file)


def _runs(arrays: Mapping[str, Array], inputs: tuple[Input, ...], where: str) -> list[dict[str, Array]]:
    given: dict[str, list[Array]] = {}
    problems: list[Diagnostic] = []
    names = {each.name for each in inputs}
    single: dict[str, dict[int, Array]] = {}
    for name, array in arrays.items():
        numbered = re.fullmatch(r"(.*)\.(\d+)", name)
        if name not in names and numbered and numbered[1] in names:
            single.setdefault(numbered[1], {})[int(numbered[2])] = array
        elif name not in names:
            listed = ", ".join(f'"{each.name}"' for each in inputs)
            problems.append(
                Diagnostic("E0602", f'the model has no input "{name}"', _at(where), f"its inputs: {listed}")
            )
    for each in inputs:
        try:
            if each.name in single:
                parts = [single[each.name][n] for n in sorted(single[each.name])]
                given[each.name] = [run for part in parts for run in _cut(part, each, where)]
            elif each.name in arrays:
                given[each.name] = _cut(arrays[each.name], each, where)
            else:
                raise error("E0601", f'there are no samples of the input "{each.name}"', *_at(where))
        except SternaError as mistake:
            problems += mistake.diagnostics
    counts = {name: len(rows) for name, rows in given.items()}
    most = max(counts.values(), default=0)
    if not problems and any(count not in (1, most) for count in counts.values()):
        text = ", ".join(f'{count} of "{name}"' for name, count in counts.items())
        problems.append(Diagnostic("E0604", f"the inputs have different numbers of samples: {text}", _at(where)))
    if problems:
        raise SternaError(problems)
    return [{name: rows[n if len(rows) > 1 else 0] for name, rows in given.items()} for n in range(most)]


def _at(where: str) -> tuple[str, ...]:
    return (where,) if where else ()


def _check(array: Array, given: Input, where: str) -> None:
    kind = dtypes.to_numpy(given.dtype)
    if array.dtype != kind:
        fix = f"array.astype(numpy.{given.dtype})"
        raise error(
            "E0603", f'the samples of "{given.name}" are {array.dtype}, not {given.dtype}', *_at(where), fix=fix
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        count = int(array.size - np.isfinite(array).sum())
        raise error("E0703", f'the samples of "{given.name}" have {count} NaNs or infinities', *_at(where))


def _cut(array: Array, given: Input, where: str) -> list[Array]:
    """The arrays of single runs."""
    _check(array, given, where)
    rank = len(given.shape)
    if array.ndim == rank + 1:
        if len(array):
            _fits(array.shape[1:], given, where)
        return [array[n, ...] for n in range(len(array))]  # a scalar too stays an array
    if array.ndim == rank == 0:
        return [array]
    if array.ndim != rank:
        title = f'the samples of "{given.name}" have {array.ndim} dimensions; the input is {given}'
        raise error("E0604", title, *_at(where), fix="one dimension more than the input, or samples along its first")
    batch = given.shape[0] or 1
    if len(array) % batch:
        title = f'{len(array)} samples of "{given.name}" are not a multiple of the {batch} that the input {given} takes'
        raise error("E0604", title, *_at(where))
    if len(array):
        _fits((batch, *array.shape[1:]), given, where)
    return [array[n : n + batch] for n in range(0, len(array), batch)]


def _fits(shape: tuple[int, ...], given: Input, where: str) -> None:
    if len(shape) != len(given.shape) or any(b not in (None, a) for a, b in zip(shape, given.shape, strict=True)):
        raise error("E0604", f'a sample of "{given.name}" is {list(shape)}; the input is {given}', *_at(where))
