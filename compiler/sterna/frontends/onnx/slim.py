"""An ONNX file without its large weights: where they lie in it stands in their place, as if they were external data.

A message of protobuf is parsed as a whole, every byte of it copied, and copied again where it is asked for. Weights are
nearly all of those bytes and nobody needs them before they are packed, so they stay in the file, which is mapped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from mmap import mmap

from sterna.ir import dtypes

#: Bytes of a weight from which on it stays in the file; smaller ones are looked at for what they say.
LARGE = 1 << 20

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Numbers of the fields in onnx.proto.
_GRAPH = 7
_INITIALIZER = 5
_DIMS, _DATA_TYPE, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 1, 2, 9, 13, 14
_KEY, _VALUE = 1, 2
_EXTERNAL = 1
_LONGEST_VARINT = 10


class _DamagedError(ValueError):
    """No message of protobuf, or one that is written in an odd way."""


def slim(content: mmap, name: str, types: Mapping[int, str]) -> bytes | None:
    """The message of a model file whose large weights refer to the file itself; None where that cannot be done.

    Args:
        name: the file's; types: element types by their number in the format.
    """
    try:
        return b"".join(_model(content, name.encode(), types))
    except (_DamagedError, UnicodeEncodeError):
        return None


def _model(content: mmap, name: bytes, types: Mapping[int, str]) -> Iterator[bytes]:
    for number, kind, first, start, end in _fields(content, 0, len(content)):
        if (number, kind) == (_GRAPH, _BYTES):
            yield _message(_GRAPH, b"".join(_graph(content, start, end, name, types)))
        else:
            yield content[first:end]


def _graph(content: mmap, start: int, end: int, name: bytes, types: Mapping[int, str]) -> Iterator[bytes]:
    for number, kind, first, at, stop in _fields(content, start, end):
        if (number, kind) == (_INITIALIZER, _BYTES) and stop - at > LARGE:
            yield _message(_INITIALIZER, _tensor(content, at, stop, name, types))
        else:
            yield content[first:stop]


def _tensor(content: mmap, start: int, end: int, name: bytes, types: Mapping[int, str]) -> bytes:
    """A tensor, with a reference in place of its data if those are what its shape says."""
    rest, data, dims, dtype = [], [], [], ""
    for number, kind, first, at, stop in _fields(content, start, end):
        if number in (_EXTERNAL_DATA, _DATA_LOCATION):
            return content[start:end]
        if (number, kind) == (_RAW_DATA, _BYTES):
            data.append((at, stop))
            continue
        if number == _DIMS:
            dims += [_varint(content, at, stop)[0]] if kind == _VARINT else _varints(content, at, stop)
        elif (number, kind) == (_DATA_TYPE, _VARINT):
            dtype = types.get(_varint(content, at, stop)[0], "")
        rest.append((first, stop))
    if len(data) != 1 or dtype in ("", dtypes.STRING) or sum(stop - first for first, stop in rest) > LARGE:
        return content[start:end]
    ((at, stop),) = data
    if stop - at < LARGE or stop - at != math.prod(dims) * dtypes.size(dtype):
        return content[start:end]
    said = {b"location": name, b"offset": b"%d" % at, b"length": b"%d" % (stop - at)}
    entries = (_message(_EXTERNAL_DATA, _message(_KEY, k) + _message(_VALUE, v)) for k, v in said.items())
    return b"".join(
        [*(content[first:stop] for first, stop in rest), *entries, _number(_DATA_LOCATION << 3), _number(_EXTERNAL)]
    )


# ---------------------------------------------------------------- protobuf's encoding
def _fields(content: mmap, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields of a message: (number, wire type, where it starts, where its value starts, where that ends)."""
    while at < end:
        first = at
        tag, at = _varint(content, at, end)
        kind = tag & 7
        if kind == _VARINT:
            _, stop = _varint(content, at, end)
        elif kind == _BYTES:
            length, at = _varint(content, at, end)
            stop = at + length
        elif kind in (_FIXED32, _FIXED64):
            stop = at + (4 if kind == _FIXED32 else 8)
        else:
            raise _DamagedError
        if stop > end or tag >> 3 == 0:
            raise _DamagedError
        yield tag >> 3, kind, first, at, stop
        at = stop


def _varint(content: mmap, at: int, end: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = 0
    for n in range(_LONGEST_VARINT):
        if at + n >= end:
            raise _DamagedError
        byte = content[at + n]
        value |= (byte & 127) << 7 * n
        if byte < 128:
            return value, at + n + 1
    raise _DamagedError


def _varints(content: mmap, at: int, end: int) -> list[int]:
    found = []
    while at < end:
        value, at = _varint(content, at, end)
        found.append(value)
    return found


def _message(number: int, value: bytes) -> bytes:
    return _number(number << 3 | _BYTES) + _number(len(value)) + value


def _number(value: int) -> bytes:
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])
