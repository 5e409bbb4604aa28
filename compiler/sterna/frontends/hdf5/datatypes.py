"""Datatypes of HDF5: numbers and texts; anything else is known by its size alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from sterna.frontends.hdf5.storage import Cursor, damaged
from sterna.ir.graph import Array

_MOST_DEPTH = 8  # of datatypes in datatypes
_INTEGER, _FLOAT, _TEXT, _ENUMERATION, _VARIABLE = 0, 1, 3, 8, 9
#: IEEE 754: bytes to where the exponent begins, its bits, where the mantissa begins, its bits, the bias.
_IEEE = {2: (10, 5, 0, 10, 15), 4: (23, 8, 0, 23, 127), 8: (52, 11, 0, 52, 1023)}
_BFLOAT16 = (7, 8, 0, 7, 127)


class Kind(Enum):
    """What elements are."""

    NUMBER = "number"
    TRUTH = "truth"  # an enumeration of FALSE and TRUE
    BFLOAT16 = "bfloat16"
    TEXT = "text"
    VARIABLE_TEXT = "variable text"  # in a global heap
    OTHER = "other"


@dataclass(frozen=True)
class Datatype:
    """Elements.

    Args:
        kind: what they are.
        stored: dtype in the file; of bytes where numpy has none.
    """

    kind: Kind
    stored: np.dtype[np.generic]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of arrays that are read: in the machine's byte order."""
        if self.kind is Kind.TRUTH:
            return np.dtype(np.bool_)
        if self.kind is Kind.BFLOAT16:
            return np.dtype(np.float32)
        native: np.dtype[np.generic] = self.stored.newbyteorder("=")
        return native

    def converted(self, array: Array) -> Array:
        """Stored elements as those of `dtype`."""
        if self.kind is Kind.TRUTH:
            return np.asarray(array != 0)
        if self.kind is Kind.BFLOAT16:
            bits: Array = array.astype(np.uint32) << np.uint32(16)
            return bits.view(np.float32)
        return array.astype(self.dtype, copy=False)


def datatype(cursor: Cursor, depth: int = 0) -> Datatype:
    """The datatype that a message describes; the cursor ends past it where that is needed."""
    head = cursor.number(1)
    flags = cursor.number(3)
    size = cursor.number(4)
    if not 0 < size < 1 << 31 or depth > _MOST_DEPTH:
        raise damaged(f"a datatype has {size} bytes")
    order = ">" if flags & 1 else "<"
    kind = head & 15
    if kind == _INTEGER:
        offset, precision = cursor.number(2), cursor.number(2)
        if size in (1, 2, 4, 8) and (offset, precision) == (0, 8 * size):
            return Datatype(Kind.NUMBER, np.dtype(f"{order}{'i' if flags & 8 else 'u'}{size}"))
    elif kind == _FLOAT:
        cursor.take(4)
        layout = (*(cursor.number(1) for _ in range(4)), cursor.number(4))
        if _IEEE.get(size) == layout and not flags & 0x40:
            return Datatype(Kind.NUMBER, np.dtype(f"{order}f{size}"))
        if size == 2 and layout == _BFLOAT16 and not flags & 0x40:
            return Datatype(Kind.BFLOAT16, np.dtype(f"{order}u2"))
    elif kind == _TEXT:
        return Datatype(Kind.TEXT, np.dtype(f"S{size}"))
    elif kind == _ENUMERATION:
        return _enumeration(cursor, flags & 0xFFFF, head >> 4, size, depth)
    elif kind == _VARIABLE and flags & 15 == 1:
        return Datatype(Kind.VARIABLE_TEXT, np.dtype(f"V{size}"))
    return Datatype(Kind.OTHER, np.dtype(f"V{size}"))


def _enumeration(cursor: Cursor, members: int, version: int, size: int, depth: int) -> Datatype:
    """Its integers; truth values, which are stored so."""
    base = datatype(cursor, depth + 1)
    if base.kind is not Kind.NUMBER or base.stored.itemsize != size:
        return Datatype(Kind.OTHER, np.dtype(f"V{size}"))
    names = set()
    for _ in range(members):
        begin = cursor.at
        names.add(cursor.text())
        if version < 3:
            cursor.at = min(begin + -(-(cursor.at - begin) // 8) * 8, len(cursor.data))
    truth = names == {"FALSE", "TRUE"} and size == 1
    return Datatype(Kind.TRUTH if truth else Kind.NUMBER, base.stored)
