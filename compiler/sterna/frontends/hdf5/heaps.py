"""Heaps of HDF5: names of groups (local), texts of any length (global), links and attributes (fractal).

Sections III.D to III.G of the specification.
"""

from __future__ import annotations

from typing import NamedTuple

from sterna.frontends.hdf5.indexes import bytes_of, records
from sterna.frontends.hdf5.storage import Cursor, Storage, damaged, not_read


def local_heap(storage: Storage, address: int | None) -> bytes:
    """The data segment of a local heap."""
    head = storage.block(address, b"HEAP", 8 + 2 * storage.length_size + storage.offset_size)
    head.take(4)
    size, _, segment = head.length(), head.length(), head.address()
    if segment is None:
        raise damaged("a local heap has no data")
    return storage.read(segment, size)


def global_heap(storage: Storage, address: int) -> dict[int, bytes]:
    """The objects of a collection in a global heap, by their numbers."""
    head = storage.block(address, b"GCOL", 8 + storage.length_size)
    head.take(4)
    size = head.length()
    cursor = storage.cursor(address, size)
    cursor.take(head.at)
    found: dict[int, bytes] = {}
    while cursor.left >= 8 + storage.length_size:
        number = cursor.number(2)
        if number == 0:  # what follows is free
            break
        cursor.take(6)
        found[number] = cursor.take(cursor.length())
        cursor.align(8)
    return found


class _Table(NamedTuple):
    """The doubling table of a fractal heap: `width` blocks in a row, whose sizes double from the third row on."""

    width: int
    start: int
    largest: int

    def size(self, row: int) -> int:
        """Of a block in that row."""
        return self.start << max(row - 1, 0)

    def direct_rows(self) -> int:
        """Rows of blocks that hold objects; later ones hold blocks."""
        return self.largest.bit_length() - self.start.bit_length() + 2


class FractalHeap:
    """A fractal heap: objects by their identifiers."""

    def __init__(self, storage: Storage, address: int | None):
        self._storage = storage
        head = storage.block(address, b"FRHP", 256)
        head.take(1)
        self._id_size, filters, self._flags, largest_managed = (head.number(size) for size in (2, 2, 1, 4))
        head.length()
        self._huge_index = head.address()
        head.length()
        head.address()
        for _ in range(8):
            head.length()
        width, start, largest, bits = head.number(2), head.length(), head.length(), head.number(2)
        head.number(2)
        self._root, self._rows = head.address(), head.number(2)
        if filters:
            raise not_read("the names in a group are compressed")
        powers = all(value and value & (value - 1) == 0 for value in (width, start, largest))
        if not powers or start > largest or not 0 < bits <= 64:
            raise damaged("the sizes of a heap are wrong")
        self._table = _Table(width, start, largest)
        self._bits = bits
        self._offset_size = (bits + 7) // 8
        self._size_size = min((largest.bit_length() + 6) // 8, bytes_of(largest_managed))
        self._huge: dict[int, tuple[int, int]] | None = None

    def __getitem__(self, identifier: bytes) -> bytes:
        """An object.

        Raises:
            SternaError: E0103, it is not there.
        """
        cursor = Cursor(self._storage, identifier)
        kind = cursor.number(1) >> 4 & 3
        if kind == 0:
            offset, size = cursor.number(self._offset_size), cursor.number(self._size_size)
            return self._storage.read(self._address(offset, size), size)
        if kind == 1:
            return self._huge_object(cursor)
        if kind == 2 and self._id_size <= 17:
            return cursor.take((identifier[0] & 15) + 1)
        raise damaged("an object of a heap is of an unknown kind")

    def _huge_object(self, cursor: Cursor) -> bytes:
        """An object outside of the blocks: its place is in the identifier or in a B-tree."""
        if self._id_size > self._storage.offset_size + self._storage.length_size:
            address, size = cursor.address(), cursor.length()
            if address is None:
                raise damaged("a large object of a heap is missing")
            return self._storage.read(address, size)
        if self._huge is None:
            self._huge = {}
            for record in records(self._storage, self._huge_index, 1):
                place, length, key = record.address(), record.length(), record.length()
                self._huge[key] = (place or 0, length)
        number = cursor.number(min(cursor.left, self._storage.length_size))
        if number not in self._huge:
            raise damaged("a large object of a heap is missing")
        return self._storage.read(*self._huge[number])

    def _address(self, offset: int, size: int) -> int:
        """Where an object lies in the file, which lies at an offset in the heap: through the blocks that hold it."""
        block, rows, begin = self._root, self._rows, 0
        table, storage = self._table, self._storage
        if rows == 0 and offset + size > table.start:
            raise damaged("an object of a heap lies past its block")
        while rows:
            row, row_begin = 0, begin
            while row_begin + table.width * table.size(row) <= offset:
                row_begin += table.width * table.size(row)
                row += 1
                if row >= rows:
                    raise damaged("an object of a heap lies past its blocks")
            column = (offset - row_begin) // table.size(row)
            head = 5 + storage.offset_size + self._offset_size
            place = head + (row * table.width + column) * storage.offset_size
            if block is None:
                raise damaged("a block of a heap is missing")
            if storage.read(block, 4) != b"FHIB":
                raise damaged(f"no block FHIB is at {block}")
            block = storage.cursor(block + place, storage.offset_size).address()
            begin = row_begin + column * table.size(row)
            if row < table.direct_rows():
                if offset - begin + size > table.size(row):
                    raise damaged("an object of a heap lies past its block")
                break
            inner = table.size(row).bit_length() - (table.start * table.width).bit_length() + 1
            if inner <= 0 or inner >= rows:
                raise damaged("the blocks of a heap do not get smaller")
            rows = inner
        if block is None:
            raise damaged("a block of a heap is missing")
        return block + offset - begin
