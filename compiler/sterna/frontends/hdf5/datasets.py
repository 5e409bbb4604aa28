"""Datasets of HDF5: contiguous, compact or in chunks, which may be compressed.

Sections IV.A.2.h (layouts) and IV.A.2.l (filters) of the specification.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sterna.frontends.hdf5 import headers
from sterna.frontends.hdf5.datatypes import Datatype, datatype
from sterna.frontends.hdf5.headers import Message, body
from sterna.frontends.hdf5.indexes import Chunk, fixed_array, records, tree_children
from sterna.frontends.hdf5.storage import Cursor, Storage, damaged, not_read
from sterna.ir.graph import Array

_COMPACT, _CONTIGUOUS, _CHUNKED, _VIRTUAL = range(4)
_SINGLE, _IMPLICIT, _FIXED, _EXTENSIBLE, _TREE = range(1, 6)
_DEFLATE, _SHUFFLE, _CHECKSUM = 1, 2, 3
_OLD_TREE = 0  # index of chunks in a B-tree of version 1, for which a layout has no number


class Filter(NamedTuple):
    """What a chunk went through; `values`: of the filter, for shuffling the bytes of an element."""

    number: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Where the elements of a dataset are.

    Args:
        kind: compact, contiguous, in chunks or in other files.
        address: of the elements, or of the index of chunks; None if there are none.
        size: in bytes, where the file tells it; of a single compressed chunk.
        content: of a compact dataset.
        chunk: shape of a chunk.
        index: of chunks.
        skipped: filters that were not applied to a single chunk.
    """

    kind: int
    address: int | None = None
    size: int | None = None
    content: bytes = b""
    chunk: tuple[int, ...] = ()
    index: int = _OLD_TREE
    skipped: int = 0


class Dataset:
    """An array in a file, which `dataset[()]` reads.

    Args:
        storage: of the file.
        found: messages of its header.
        attrs: its attributes.

    Attributes:
        shape: its sizes.
        type: of its elements.

    Raises:
        SternaError: E0103, its header is damaged.
    """

    def __init__(self, storage: Storage, found: Sequence[Message], attrs: Mapping[str, Any]):
        self._storage, self.attrs = storage, attrs
        self._messages = {message.kind: message for message in found}
        missing = {headers.DATASPACE, headers.DATATYPE, headers.LAYOUT} - self._messages.keys()
        if missing:
            raise damaged("a dataset lacks its shape, its type or its place")
        shape = headers.shape_of(self._body(headers.DATASPACE))
        self.shape: tuple[int, ...] = (0,) if shape is None else shape
        self.type: Datatype = datatype(self._body(headers.DATATYPE))

    def _body(self, kind: int) -> Cursor:
        return body(self._storage, self._messages[kind])

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of the array."""
        return self.type.dtype

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Of the array."""
        return self.size * self.dtype.itemsize

    @property
    def external(self) -> bool:
        """Whether its elements are in another file."""
        return headers.EXTERNAL in self._messages

    @property
    def is_virtual(self) -> bool:
        """Whether its elements are in other datasets."""
        return self._layout.kind == _VIRTUAL

    @cached_property
    def _layout(self) -> Layout:
        return _layout(self._body(headers.LAYOUT))

    def __getitem__(self, _: tuple[()]) -> Array:
        """The whole array, in the machine's byte order.

        Raises:
            SternaError: E0103, it is damaged, stored in a way that is not read, or larger than the file can hold.
        """
        if self.external or self.is_virtual:
            raise not_read("an array lies in another file")
        stored = self.type.stored
        size = self.size * stored.itemsize
        self._storage.charge(size)
        layout = self._layout
        if size == 0:
            return np.zeros(self.shape, self.dtype)
        if layout.kind == _CHUNKED and layout.address is not None:
            return self._converted(self._from_chunks())
        if layout.kind == _COMPACT:
            if len(layout.content) < size:
                raise damaged("an array is shorter than its shape")
            return self._converted(np.frombuffer(layout.content[:size], stored).copy())
        if layout.address is None:
            return self._converted(self._filled(self.size))
        if layout.size is not None and layout.size < size:
            raise damaged("an array is shorter than its shape")
        if layout.address + size > self._storage.size:  # before memory is taken for it
            raise damaged(f"{size} bytes at {layout.address} lie past its end, at {self._storage.size}")
        array = np.empty(self.size, stored)
        self._storage.fill(array.view(np.uint8), layout.address)
        return self._converted(array)

    def _converted(self, array: Array) -> Array:
        return self.type.converted(array.reshape(self.shape))

    def _filled(self, count: int) -> Array:
        """Elements that were never written."""
        value = b""
        if headers.FILL in self._messages:
            cursor = self._body(headers.FILL)
            version, flags = cursor.number(1), cursor.number(1)
            if version == 3:
                value = cursor.take(cursor.number(4)) if flags & 0x20 else b""
            else:
                cursor.take(1)
                value = cursor.take(cursor.number(4)) if cursor.number(1) and cursor.left >= 4 else b""
        elif headers.OLD_FILL in self._messages:
            cursor = self._body(headers.OLD_FILL)
            value = cursor.take(cursor.number(4))
        stored = self.type.stored
        if len(value) != stored.itemsize or not any(value):
            return np.zeros(count, stored)
        return np.full(count, np.frombuffer(value, stored)[0])

    def _from_chunks(self) -> Array:
        shape, chunk, stored = self.shape, self._layout.chunk, self.type.stored
        if not shape or len(chunk) != len(shape) or not all(chunk):
            raise damaged("an array in chunks has chunks of another shape")
        count = math.prod(chunk)
        size = count * stored.itemsize
        array = self._filled(self.size).reshape(shape)
        filters = _filters(self._body(headers.FILTERS)) if headers.FILTERS in self._messages else ()
        for each in self._chunks(size, bool(filters)):
            along = zip(each.offset, shape, chunk, strict=True)
            if any(begin >= whole or begin % step for begin, whole, step in along):
                raise damaged("a chunk lies outside of its array")
            self._storage.charge(size)
            content = self._storage.read_data(each.address, each.size)
            content = _unfiltered(content, filters, each.skipped, size, stored.itemsize)
            whole = np.frombuffer(content, stored).reshape(chunk)
            place = tuple(slice(begin, begin + step) for begin, step in zip(each.offset, chunk, strict=True))
            part = array[place]
            part[...] = whole[tuple(slice(length) for length in part.shape)]
        return array

    def _chunks(self, size: int, filtered: bool) -> Iterator[Chunk]:
        """The chunks that are stored, none twice."""
        seen: set[tuple[int, ...]] = set()
        for chunk in self._indexed(size, filtered):
            if chunk.offset in seen:
                raise damaged("an array has a chunk twice")
            seen.add(chunk.offset)
            yield chunk

    def _indexed(self, size: int, filtered: bool) -> Iterator[Chunk]:
        layout, storage, rank = self._layout, self._storage, len(self.shape)
        address = layout.address
        assert address is not None
        grid = tuple(-(-whole // step) for whole, step in zip(self.shape, layout.chunk, strict=True))

        def offset(number: int) -> tuple[int, ...]:
            places = []
            for along, step in zip(reversed(grid), reversed(layout.chunk), strict=True):
                number, place = divmod(number, along)
                places.append(place * step)
            return tuple(reversed(places))

        if layout.index == _OLD_TREE:
            for key, child in tree_children(storage, address, 1, 8 + 8 * (rank + 1)):
                entry = Cursor(storage, key)
                length, skipped = entry.number(4), entry.number(4)
                yield Chunk(child, length, skipped, tuple(entry.number(8) for _ in range(rank)))
        elif layout.index == _SINGLE:
            yield Chunk(address, size if layout.size is None else layout.size, layout.skipped, (0,) * rank)
        elif layout.index == _IMPLICIT:
            for number in range(math.prod(grid)):
                yield Chunk(address + number * size, size, 0, offset(number))
        elif layout.index == _FIXED:
            for number, place, length, skipped in fixed_array(storage, address, filtered):
                if place is not None and number < math.prod(grid):
                    yield Chunk(place, length if filtered else size, skipped, offset(number))
        elif layout.index == _TREE:
            for entry in records(storage, address, 11 if filtered else 10):
                place = entry.address()
                length = entry.number(entry.left - 4 - 8 * rank) if filtered else size
                skipped = entry.number(4) if filtered else 0
                at = tuple(entry.number(8) * step for step in layout.chunk)
                if place is not None:
                    yield Chunk(place, length, skipped, at)
        else:
            raise not_read("an array that can grow is stored in the newest form of the format")


def _layout(cursor: Cursor) -> Layout:
    version = cursor.number(1)
    if version in (1, 2):
        rank, kind = cursor.number(1), cursor.number(1)
        cursor.take(5)
        address = None if kind == _COMPACT else cursor.address()
        sizes = tuple(cursor.number(4) for _ in range(rank))
        content = cursor.take(cursor.number(4)) if kind == _COMPACT else b""
        return Layout(kind, address, None, content, sizes[:-1] if kind == _CHUNKED else ())
    if version not in (3, 4, 5):
        raise damaged(f"a layout is of version {version}")
    kind = cursor.number(1)
    if kind == _COMPACT:
        return Layout(kind, content=cursor.take(cursor.number(2)))
    if kind == _CONTIGUOUS:
        return Layout(kind, cursor.address(), cursor.length())
    if kind == _CHUNKED:
        return _old_chunks(cursor) if version == 3 else _new_chunks(cursor)
    if kind == _VIRTUAL:
        return Layout(kind)
    raise damaged(f"a layout is of kind {kind}")


def _old_chunks(cursor: Cursor) -> Layout:
    rank = cursor.number(1)
    address = cursor.address()
    return Layout(_CHUNKED, address, chunk=tuple(cursor.number(4) for _ in range(rank))[:-1])


def _new_chunks(cursor: Cursor) -> Layout:
    flags, rank, width = (cursor.number(1) for _ in range(3))
    chunk = tuple(cursor.number(width) for _ in range(rank))[:-1]
    index = cursor.number(1)
    size, skipped = None, 0
    if index == _SINGLE and flags & 2:
        size, skipped = cursor.length(), cursor.number(4)
    else:  # sizes of the index, which its own head repeats
        cursor.take({_FIXED: 1, _EXTENSIBLE: 5, _TREE: 6}.get(index, 0))
    return Layout(_CHUNKED, cursor.address(), size, chunk=chunk, index=index, skipped=skipped)


def _filters(cursor: Cursor) -> tuple[Filter, ...]:
    """In the order in which they were applied."""
    version, count = cursor.number(1), cursor.number(1)
    if version == 1:
        cursor.take(6)
    found = []
    for _ in range(count):
        number = cursor.number(2)
        name = cursor.number(2) if version == 1 or number >= 256 else 0
        cursor.take(2)
        values = cursor.number(2)
        cursor.take(-(-name // 8) * 8 if version == 1 else name)
        found.append(Filter(number, tuple(cursor.number(4) for _ in range(values))))
        if version == 1 and values % 2:
            cursor.take(4)
    return tuple(found)


def _unfiltered(content: bytes, filters: Sequence[Filter], skipped: int, size: int, width: int) -> bytes:
    """The bytes of a chunk, `size` of them, of elements of `width` bytes."""
    for place, each in reversed(list(enumerate(filters))):
        if skipped >> place & 1:
            continue
        if each.number == _DEFLATE:
            content = _inflated(content, size)
        elif each.number == _SHUFFLE:
            step = each.values[0] if each.values and each.values[0] else width
            whole = len(content) // step * step
            planes = np.frombuffer(content[:whole], np.uint8).reshape(step, -1)
            content = planes.T.tobytes() + content[whole:]
        elif each.number == _CHECKSUM:
            content, sums = content[:-4], content[-4:]
            # HDF5 1.6.2 and earlier wrote both sums with their bytes swapped, and the library reads either.
            if sums not in (found := _fletcher32(content), found[1::-1] + found[:1:-1]):
                raise damaged("the checksum of a chunk does not match its content")
        else:
            raise not_read(f"an array went through filter {each.number}, which is neither deflate nor shuffle")
    if len(content) != size:
        raise damaged(f"a chunk has {len(content)} bytes instead of {size}")
    return content


def _fletcher32(content: bytes) -> bytes:
    """HDF5's form of Fletcher's checksum: 16-bit words, the high byte first, modulo 65,535; 0 only if all words are."""
    words = np.frombuffer(content + b"\0" * (len(content) % 2), ">u2").astype(np.int64)
    modulus = 0xFFFF
    second = int((words * (np.arange(words.size, 0, -1) % modulus) % modulus).sum())
    low, high = (0 if not words.any() else (total - 1) % modulus + 1 for total in (int(words.sum()), second))
    return low.to_bytes(2, "little") + high.to_bytes(2, "little")


def _inflated(content: bytes, size: int) -> bytes:
    """What was compressed, with the checksum that may have been added before; never more."""
    unpacker = zlib.decompressobj()
    try:
        return unpacker.decompress(content, size + 4)
    except zlib.error as problem:
        raise damaged(f"a chunk cannot be unpacked: {problem}") from None
