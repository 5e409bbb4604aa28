"""Weights of an MXNet model: `.params`, as `mx.nd.save` writes them, of every version.

u64 0x112, u64 0, u64 count; the arrays; u64 count, names (u64 length, text). An array: u32 magic, then by version (2)
i32 storage, u32 rank, i64 sizes; (1) u32 rank, i64 sizes; before there was a magic: u32 rank, u32 sizes. Then, if there
is anything in it, i32 device, i32 number of it, i32 type, and the elements.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.source import content_of
from sterna.ir.graph import Array

MAGIC = struct.pack("<Q", 0x112)
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_BFLOAT16 = 12
_TYPES = {0: "<f4", 1: "<f8", 2: "<f2", 3: "u1", 4: "<i4", 5: "i1", 6: "<i8", 7: "?"}
_DEEPEST = 32  # dimensions
_LONGEST = 1 << 16  # bytes of a name
#: What `mx.nd.save` puts before the names of a model's weights.
_PREFIXES = ("arg:", "aux:")


@dataclass(frozen=True)
class Parameters:
    """Weights by name; `auxiliary`: those that training does not learn, as running means."""

    arrays: dict[str, Array]
    auxiliary: frozenset[str]


class _Stream:
    """Numbers one after the other, of content that may end too early."""

    def __init__(self, content: bytes | mmap, where: str):
        self.content, self.where, self.at = content, where, 0

    def broken(self, why: str) -> SternaError:
        return error(
            "E0101", f"{self.where} is not a file of weights of MXNet, or it is damaged", f"byte {self.at}: {why}",
            fix="copy it again, or save it again by `save_checkpoint`, `export` or `save_parameters`",
        )  # fmt: skip

    def take(self, size: int) -> memoryview:
        if size > len(self.content) - self.at:
            raise self.broken(f"{size} bytes are missing")
        self.at += size
        return memoryview(self.content)[self.at - size : self.at]

    def numbers(self, form: str, count: int = 1) -> tuple[int, ...]:
        form = f"<{count}{form}"
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def number(self, form: str) -> int:
        return self.numbers(form)[0]


def load_parameters(path: Path) -> Parameters:
    """The weights in a file.

    Raises:
        SternaError: E0101, it is none, or damaged; E0111, an array is of a type that is not supported.
    """
    try:
        content = content_of(path)
    except OSError as problem:
        raise error("E0101", f"{path} cannot be read: {problem.strerror or problem}") from None
    stream = _Stream(content, path.name)
    if stream.numbers("Q", 2) != (0x112, 0):
        stream.at = 0
        raise stream.broken("it does not begin as one")
    count = stream.number("Q")
    if count > len(content) // 4:
        raise stream.broken(f"it claims {count} arrays")
    arrays = [_array(stream) for _ in range(count)]
    named = stream.number("Q")
    if named not in (0, count):
        raise stream.broken(f"it has {named} names for {count} arrays")
    names = [_name(stream) for _ in range(named)]
    found: dict[str, Array] = {}
    auxiliary = set()
    for name, array in zip(names, arrays, strict=False):
        short = name[4:] if name.startswith(_PREFIXES) else name
        if array is not None:
            found[short] = array
        if name.startswith("aux:"):
            auxiliary.add(short)
    return Parameters(found, frozenset(auxiliary))


def _name(stream: _Stream) -> str:
    size = stream.number("Q")
    if size > _LONGEST:
        raise stream.broken(f"it claims a name of {size} bytes")
    return bytes(stream.take(size)).decode("utf-8", "replace")


def _array(stream: _Stream) -> Array | None:
    first = stream.number("I")
    if first in (_V2, _V3):
        storage = stream.number("i")
        if storage not in (-1, 0):
            raise error("E0111", f"{stream.where} has sparse weights", fix="save them with `.tostype('default')`")
        shape = stream.numbers("q", _rank(stream, stream.number("i")))
        is_none = first == _V2 and not shape
    elif first == _V1:
        shape = stream.numbers("q", _rank(stream, stream.number("I")))
        is_none = not shape
    else:
        shape = stream.numbers("I", _rank(stream, first))
        is_none = not shape
    if is_none:
        return None
    if any(size < 0 for size in shape):
        raise stream.broken(f"an array of {list(shape)}")
    stream.numbers("i", 2)  # where it was: a processor
    number = stream.number("i")
    if number != _BFLOAT16 and number not in _TYPES:
        if 0 <= number < 32:
            raise error("E0111", f"{stream.where} has weights of MXNet's type {number}, which are not supported")
        raise stream.broken(f"an array of the type {number}")
    kind = np.dtype("<u2" if number == _BFLOAT16 else _TYPES[number])
    raw = np.frombuffer(stream.take(math.prod(shape) * kind.itemsize), kind).reshape(shape)
    if number == _BFLOAT16:
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw


def _rank(stream: _Stream, rank: int) -> int:
    if not 0 <= rank <= _DEEPEST:
        raise stream.broken(f"an array of {rank} dimensions")
    return rank
