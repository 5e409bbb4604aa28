"""Variables of a checkpoint: `variables.index`, a table of LevelDB, says where in the data files they lie.

The layout is that of LevelDB's doc/table_format.md and tensorflow/core/protobuf/tensor_bundle.proto.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.tensorflow.model import dtype_of
from sterna.frontends.tensorflow.schema import parsed
from sterna.frontends.tensorflow.tensors import MOST_ELEMENTS, sizes_of
from sterna.ir import dtypes
from sterna.ir.graph import Array

#: A part of a file: (name of the file, offset, bytes).
Fetch = Callable[[str, int, int], bytes]
_MAGIC = 0xDB4775248B80FB57
_FOOTER, _TRAILER = 48, 5
_MOST_BLOCK = 1 << 26


class Checkpoint:
    """A checkpoint's variables by name.

    Raises:
        SternaError: E0103, the index is damaged.
    """

    def __init__(self, index: bytes, fetch: Fetch, stem: str = "variables"):
        self._fetch, self._stem = fetch, stem
        self.entries: dict[str, bytes] = {}
        try:
            for key, value in _table(index):
                self.entries[key.decode("utf-8", "replace")] = value
        except (IndexError, struct.error, ValueError) as problem:
            raise _damaged(str(problem)) from None
        header = parsed("BundleHeader", self.entries.pop("", b""), "the checkpoint's index")
        if header.endianness:
            raise error("E0113", "checkpoints with the most significant byte first are not supported")
        self.shards = max(int(header.num_shards), 1)

    def weight(self, name: str) -> Array | None:
        """The value of a variable; None where the checkpoint has none of that name.

        Raises:
            SternaError: E0103, E0111, E0112.
        """
        content = self.entries.get(name)
        if content is None:
            return None
        entry = parsed("BundleEntry", content, f'the entry "{name}" of the checkpoint')
        sizes = sizes_of(entry.shape) or ()
        if entry.slices:
            raise error("E0113", f'the variable "{name}" is stored in slices, which is not supported')
        kind = dtypes.to_numpy(dtype_of(entry.dtype))
        count = math.prod(sizes)
        if any(n < 0 for n in sizes) or count > MOST_ELEMENTS or entry.offset < 0:
            raise error("E0112", f'the variable "{name}" of {list(sizes)} is too large')
        if entry.size != count * kind.itemsize or not 0 <= entry.shard_id < self.shards:
            raise _damaged(f'the variable "{name}" of {list(sizes)} has {entry.size} bytes')
        shard = f"{self._stem}.data-{entry.shard_id:05d}-of-{self.shards:05d}"
        data = self._fetch(shard, int(entry.offset), int(entry.size))
        if len(data) != entry.size:
            raise _damaged(f'{shard} ends within the variable "{name}"')
        return np.frombuffer(data, kind).reshape(sizes)


def _damaged(what: str) -> SternaError:
    return error("E0103", "the checkpoint of the model is damaged", what, fix="copy the folder again, all of it")


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a table, in order."""
    if len(data) < _FOOTER or struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise ValueError("variables.index is no table")
    footer = data[-_FOOTER:]
    _, place = _varint(footer, 0)
    _, place = _varint(footer, place)
    offset, place = _varint(footer, place)
    size, _ = _varint(footer, place)
    for _, handle in _entries(_block(data, offset, size)):
        start, place = _varint(handle, 0)
        length, _ = _varint(handle, place)
        yield from _entries(_block(data, start, length))


def _block(data: bytes, offset: int, size: int) -> bytes:
    """The contents of a block, whose last bytes are how it is compressed and a checksum."""
    if size > _MOST_BLOCK or offset + size + _TRAILER > len(data):
        raise ValueError("a block lies outside of variables.index")
    content, kind = data[offset : offset + size], data[offset + size]
    if kind == 1:
        return _snappy(content)
    if kind:
        raise ValueError(f"a block is compressed in an unknown way, {kind}")
    return content


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block; a key names only what differs from the one before."""
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise ValueError("a block has too many restarts")
    place, key = 0, b""
    while place < end:
        shared, place = _varint(block, place)
        unshared, place = _varint(block, place)
        length, place = _varint(block, place)
        if shared > len(key) or place + unshared + length > end:
            raise ValueError("an entry lies outside of its block")
        key = key[:shared] + block[place : place + unshared]
        place += unshared
        yield key, block[place : place + length]
        place += length


def _snappy(data: bytes) -> bytes:
    """A block in Snappy's format (google/snappy, format_description.txt), unpacked."""
    size, place = _varint(data, 0)
    if size > _MOST_BLOCK:
        raise ValueError("a block is too large")
    made = bytearray()
    while place < len(data):
        tag = data[place]
        place += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                more = length - 59
                length = int.from_bytes(data[place : place + more], "little")
                place += more
            made += data[place : place + length + 1]
            place += length + 1
        else:
            if tag & 3 == 1:
                length, distance, more = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[place], 1
            else:
                more = 2 if tag & 3 == 2 else 4
                length, distance = (tag >> 2) + 1, int.from_bytes(data[place : place + more], "little")
            place += more
            if not 0 < distance <= len(made):
                raise ValueError("a copy reaches before the block")
            for _ in range(length):
                made.append(made[-distance])
        if len(made) > size:
            raise ValueError("a block is longer than it says")
    if len(made) != size:
        raise ValueError("a block is shorter than it says")
    return bytes(made)
