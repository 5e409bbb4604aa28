"""Object headers of HDF5, of both versions, and the messages in them that several kinds of objects have.

Section IV of the specification.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sterna.frontends.hdf5.storage import Cursor, Storage, damaged, not_read

DATASPACE, LINK_INFO, DATATYPE, OLD_FILL, FILL, LINK, EXTERNAL, LAYOUT = range(1, 9)
FILTERS, ATTRIBUTE, _CONTINUATION, SYMBOL_TABLE, ATTRIBUTE_INFO = 0x0B, 0x0C, 0x10, 0x11, 0x15
_SHARED = 2
MOST_DIMENSIONS = 32
_MOST_BESIDE_ZERO = 1 << 31  # what the other sizes of an array without elements may multiply to: numpy bounds them too


@dataclass(frozen=True)
class Message:
    """A message of an object header.

    Args:
        kind: one of the numbers above.
        data: its content; of a shared one, where that is.
        shared: whether another object has it.
    """

    kind: int
    data: bytes
    shared: bool


def messages(storage: Storage, address: int) -> list[Message]:
    """The messages of the object at an address."""
    if storage.read(address, 4) == b"OHDR":
        return list(_second_version(storage, address))
    return list(_first_version(storage, address))


def _blocks(storage: Storage, waiting: list[tuple[int, int]]) -> Iterator[Cursor]:
    """A header's blocks by place and size, those too that are found in one of them and appended; none twice."""
    seen = set[int]()
    while waiting:
        place, size = waiting.pop(0)
        if place in seen:
            raise damaged("an object's header leads back to itself")
        seen.add(place)
        yield storage.cursor(place, size)


def _first_version(storage: Storage, address: int) -> Iterator[Message]:
    head = storage.cursor(address, 12)
    if head.number(1) != 1:
        raise damaged(f"no object is at {address}")
    head.take(1)
    count = head.number(2)
    head.take(4)
    waiting = [(address + 16, head.number(4))]
    for block in _blocks(storage, waiting):
        while block.left >= 8 and count > 0:
            count -= 1
            kind, length, flags = block.number(2), block.number(2), block.number(1)
            block.take(3)
            message = Message(kind, block.take(length), bool(flags & _SHARED))
            if kind == _CONTINUATION:
                waiting.append(_continuation(storage, message.data))
            else:
                yield message


def _second_version(storage: Storage, address: int) -> Iterator[Message]:
    head = storage.cursor(address, min(34, storage.size - address))
    head.take(5)
    flags = head.number(1)
    head.take((16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0))
    size = head.number(1 << (flags & 3))
    order = 2 if flags & 4 else 0
    waiting = [(address + head.at, size)]
    for block in _blocks(storage, waiting):
        while block.left >= 4 + order:  # less is a gap
            kind, length, shared = block.number(1), block.number(2), block.number(1)
            block.take(order)
            message = Message(kind, block.take(length), bool(shared & _SHARED))
            if kind != _CONTINUATION:
                yield message
                continue
            inner, length = _continuation(storage, message.data)
            storage.block(inner, b"OCHK", 4)
            waiting.append((inner + 4, length - 8))  # its signature and checksum are no messages


def _continuation(storage: Storage, data: bytes) -> tuple[int, int]:
    cursor = Cursor(storage, data)
    address, size = cursor.address(), cursor.length()
    if address is None:
        raise damaged("an object's header goes on nowhere")
    return address, size


def body(storage: Storage, message: Message) -> Cursor:
    """A cursor over a message, which another object may have."""
    return shared_body(storage, message.kind, message.data) if message.shared else Cursor(storage, message.data)


def shared_body(storage: Storage, kind: int, data: bytes) -> Cursor:
    """A cursor over the message of that kind which a shared one refers to."""
    cursor = Cursor(storage, data)
    version, form = cursor.number(1), cursor.number(1)
    if version == 1:
        cursor.take(6)
    elif version == 3 and form != _SHARED:
        raise not_read("a message is in the table of shared messages")
    address = cursor.address()
    for message in messages(storage, address) if address is not None else ():
        if message.kind == kind and not message.shared:
            return Cursor(storage, message.data)
    raise damaged("a shared message is missing")


def shape_of(cursor: Cursor) -> tuple[int, ...] | None:
    """The sizes that a dataspace has in each dimension; () for a scalar, None if it has no elements at all."""
    version, rank, _, kind = (cursor.number(1) for _ in range(4))
    if version == 1:
        cursor.take(4)
    elif version != 2:
        raise damaged(f"a dataspace is of version {version}")
    if rank > MOST_DIMENSIONS:
        raise damaged(f"a dataspace has {rank} dimensions")
    if version == 2 and kind == 2:
        return None
    shape = tuple(cursor.length() for _ in range(rank))
    if 0 in shape and math.prod(length for length in shape if length) > _MOST_BESIDE_ZERO:
        raise damaged(f"an array without elements has the shape {shape}")
    return shape
