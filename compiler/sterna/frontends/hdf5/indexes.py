"""Indexes of HDF5: B-trees of both versions, fixed arrays.

Sections III.A and VII.C of the specification.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sterna.frontends.hdf5.storage import Cursor, Storage, damaged

_MOST_DEPTH = 64


@dataclass(frozen=True)
class Chunk:
    """Stored elements of a dataset.

    Args:
        address: in the file.
        size: in bytes, as stored.
        skipped: bits of the filters that were not applied.
        offset: of its first element, in elements of each dimension.
    """

    address: int
    size: int
    skipped: int
    offset: tuple[int, ...]


def tree_children(storage: Storage, root: int | None, kind: int, key_size: int) -> Iterator[tuple[bytes, int]]:
    """The keys and children of the leaves of a B-tree of version 1, from left to right.

    Args:
        kind: 0 of groups, 1 of chunks.
    """
    waiting, seen = [root], set[int]()
    while waiting:
        address = waiting.pop()
        if address in seen:
            raise damaged("a B-tree leads back to itself")
        head_size = 8 + 2 * storage.offset_size
        head = storage.block(address, b"TREE", head_size)
        assert address is not None
        seen.add(address)
        found, level, used = head.number(1), head.number(1), head.number(2)
        if found != kind:
            raise damaged("a B-tree is of another kind")
        entries = storage.cursor(address + head_size, used * (key_size + storage.offset_size))
        children: list[tuple[bytes, int | None]] = [(entries.take(key_size), entries.address()) for _ in range(used)]
        if level:
            waiting += [child for _, child in reversed(children)]
            continue
        for key, child in children:
            if child is None:
                raise damaged("a B-tree has a child without an address")
            yield key, child


def records(storage: Storage, address: int | None, kind: int) -> Iterator[Cursor]:
    """The records of a B-tree of version 2."""
    head = storage.block(address, b"BTHD", 22 + storage.offset_size + storage.length_size)
    head.take(1)
    found, node_size, size, depth = head.number(1), head.number(4), head.number(2), head.number(2)
    head.take(2)
    root, count = head.address(), head.number(2)
    if found != kind or size == 0 or node_size <= 10 + size or depth > _MOST_DEPTH:
        raise damaged("a B-tree has a wrong head")
    if root is None:
        return
    most = [(node_size - 10) // size]  # records of a node at each depth, and in all that is below it
    below, below_size = [most[0]], [0]
    count_size = bytes_of(most[0])
    for level in range(1, depth + 1):
        pointer = storage.offset_size + count_size + below_size[level - 1]
        most.append((node_size - 10 - pointer) // (size + pointer))
        if most[-1] <= 0:
            raise damaged("a B-tree has nodes that are too small")
        below.append((most[-1] + 1) * below[-1] + most[-1])
        below_size.append(bytes_of(below[-1]))
    waiting, seen = [(root, count, depth)], set[int]()
    while waiting:
        place, count, level = waiting.pop()
        if place in seen or count > most[level]:
            raise damaged("a B-tree leads back to itself, or has too many records in a node")
        seen.add(place)
        node = storage.block(place, b"BTIN" if level else b"BTLF", node_size)
        node.take(2)
        for _ in range(count):
            yield node.within(size)
        for _ in range(count + 1 if level else 0):
            child, held = node.address(), node.number(count_size)
            node.take(below_size[level - 1])
            if child is None:
                raise damaged("a B-tree has a child without an address")
            waiting.append((child, held, level - 1))


def fixed_array(storage: Storage, address: int | None, filtered: bool) -> Iterator[tuple[int, int | None, int, int]]:
    """The chunks in a fixed array: their numbers, addresses, sizes (0 if not filtered) and filters left out."""
    head = storage.block(address, b"FAHD", 8 + storage.length_size + storage.offset_size)
    head.take(2)
    size, page_bits, count, block = head.number(1), head.number(1), head.length(), head.address()
    if block is None:
        return
    if size < storage.offset_size or page_bits > 63 or count * size > storage.size:
        raise damaged("an array of chunks has a wrong head")
    begin = 6 + storage.offset_size
    page = 1 << page_bits
    storage.block(block, b"FADB", 4)
    if count <= page:
        pages = [(block + begin, 0, count)]
    else:
        number = -(-count // page)
        bitmap = storage.read(block + begin, (number + 7) // 8)
        at = block + begin + len(bitmap) + 4
        pages = [
            (at + n * (page * size + 4), n * page, min(page, count - n * page))
            for n in range(number)
            if bitmap[n // 8] >> (7 - n % 8) & 1
        ]
    for place, first, held in pages:
        cursor = storage.cursor(place, held * size)
        for n in range(held):
            entry = cursor.within(size)
            chunk = entry.address()
            stored = entry.number(size - storage.offset_size - 4) if filtered else 0
            yield first + n, chunk, stored, entry.number(4) if filtered else 0


def bytes_of(limit: int) -> int:
    """Bytes of an integer up to a limit."""
    return max(limit.bit_length() + 7, 8) // 8
