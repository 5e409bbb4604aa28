"""What a model says of its inputs and outputs: labels and normalization (TensorFlow Lite metadata, schema "M001").

The descriptions are a flatbuffer among the model's buffers; lists of labels are files of an archive after the model.
All of it is optional: what cannot be read is left out.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from mmap import mmap
from typing import Any

import numpy as np
from flatbuffers import encode, number_types, packer
from flatbuffers.table import Table

from sterna.frontends.archives import member_content

BUFFER = "TFLITE_METADATA"
_IDENTIFIER = b"M001"
#: Bytes of a list of labels, and rows of a table, beyond which something else is meant.
_LARGEST_FILE, _MOST_ROWS = 1 << 22, 1 << 16
_AXIS_LABELS, _VALUE_LABELS = 2, 3
_NORMALIZATION = 1
_MISTAKES = (IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError, struct.error, zlib.error)


def describe(
    content: bytes | mmap, model: Mapping[str, bytes], subgraph: int, inputs: Sequence[str], outputs: Sequence[str]
) -> dict[str, Any]:
    """The facts about a graph that Sterna makes use of.

    Args:
        content: the whole file, with what stands after the model.
        model: its buffers of metadata.
        inputs, outputs: names of the graph's tensors, in order.

    Returns:
        "normalization": input -> {"mean", "std"}, what images are to be made of pixels p: (p - mean) / std;
        "labels": output -> what its elements stand for. Keys without entries are missing.
    """
    raw = model.get(BUFFER, b"")
    if raw[4:8] != _IDENTIFIER:
        return {}
    try:
        graphs = _Row.root(raw).rows(3)
        if subgraph >= len(graphs):
            return {}
        graph = graphs[subgraph]
        found = {
            "normalization": _of_each(graph.rows(2), inputs, _normalization),
            "labels": _of_each(graph.rows(3), outputs, _Labels(content).of),
        }
    except _MISTAKES:
        return {}
    return {key: value for key, value in found.items() if value}


class _Row:
    """A table of a flatbuffer; fields by their numbers in the schema."""

    def __init__(self, table: Table):
        self.table = table

    @classmethod
    def root(cls, content: bytes) -> _Row:
        return cls(Table(content, encode.Get(packer.uoffset, content, 0)))

    def at(self, field: int) -> int:
        """Where a field's value stands; 0 if it is left out."""
        offset = int(self.table.Offset(4 + 2 * field))
        return self.table.Pos + offset if offset else 0

    def rows(self, field: int) -> list[_Row]:
        start, count = self.vector(field)
        return [_Row(Table(self.table.Bytes, self.table.Indirect(start + 4 * n))) for n in range(count)]

    def vector(self, field: int) -> tuple[int, int]:
        """(where the elements begin, how many there are)."""
        at = self.at(field)
        if not at:
            return 0, 0
        count = int(self.table.VectorLen(at - self.table.Pos))
        if count > _MOST_ROWS:
            raise ValueError("a table that claims too much")
        return int(self.table.Vector(at - self.table.Pos)), count

    def floats(self, field: int) -> list[float]:
        start, count = self.vector(field)
        if not count:
            return []
        numbers = np.frombuffer(self.table.Bytes, "<f4", count, start)
        if not np.isfinite(numbers).all():
            raise ValueError("no numbers")
        return [float(number) for number in numbers]

    def byte(self, field: int) -> int:
        at = self.at(field)
        return int(self.table.Get(number_types.Uint8Flags, at)) if at else 0

    def text(self, field: int) -> str:
        at = self.at(field)
        return bytes(self.table.String(at)).decode("utf-8", "replace") if at else ""

    def child(self, field: int) -> _Row | None:
        at = self.at(field)
        return _Row(Table(self.table.Bytes, self.table.Indirect(at))) if at else None


def _of_each(rows: Sequence[_Row], names: Sequence[str], fact: Callable[[_Row], Any]) -> dict[str, Any]:
    found = {}
    for row, name in zip(rows, names, strict=False):
        if (value := fact(row)) is not None:
            found[name] = value
    return found


def _normalization(tensor: _Row) -> dict[str, list[float]] | None:
    """How pixels become elements, by the tensor's processing unit of that kind."""
    for unit in tensor.rows(4):
        options = unit.child(1)
        if unit.byte(0) == _NORMALIZATION and options is not None:
            mean, std = options.floats(0), options.floats(1)
            if mean and std and all(std):
                return {"mean": mean, "std": std}
    return None


class _Labels:
    """Lists of labels in the archive after the model."""

    def __init__(self, content: bytes | mmap):
        self.archive: zipfile.ZipFile | None
        try:
            self.archive = zipfile.ZipFile(io.BytesIO(content))
        except zipfile.BadZipFile:
            self.archive = None

    def of(self, tensor: _Row) -> list[str] | None:
        """What the elements of a tensor stand for, one line each; the first list if there are several languages."""
        for file in tensor.rows(6):
            name = file.text(0)
            if self.archive is None or file.byte(2) not in (_AXIS_LABELS, _VALUE_LABELS):
                continue
            try:
                info = self.archive.getinfo(name)
                if info.file_size > _LARGEST_FILE:
                    continue
                return member_content(self.archive, info).decode("utf-8", "replace").splitlines()
            except (KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error):
                continue
        return None
