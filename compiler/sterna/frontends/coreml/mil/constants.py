"""Numbers that stand in a program or in the file of weights beside it.

The file of weights: a header of 64 bytes, then at multiples of 64 bytes {u32 0xDEADBEEF, u32 type, u64 bytes, u64 where
they begin}. Elements below 8 bits are packed, the first in the lowest bits.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.coreml.package import Beside
from sterna.ir.graph import Array
from sterna.ir.limits import check_table

_MARK = 0xDEADBEEF
#: Names of the element types -> ours; those of less than 8 bits are widened.
TYPES = {
    "BOOL": "bool", "FLOAT16": "float16", "FLOAT32": "float32", "FLOAT64": "float64", "INT8": "int8", "INT16": "int16",
    "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
    "INT4": "int8", "UINT4": "uint8", "UINT6": "uint8", "UINT3": "uint8", "UINT2": "uint8", "UINT1": "uint8",
}  # fmt: skip
_BITS = {"INT4": 4, "UINT4": 4, "UINT6": 6, "UINT3": 3, "UINT2": 2, "UINT1": 1}


def type_name(number: int, types: Any) -> str:
    """The name of an element type."""
    found = types.DESCRIPTOR.enum_types_by_name["DataType"].values_by_number.get(number)
    return "" if found is None else str(found.name)


def sizes_of(kind: Any) -> tuple[int | str, ...]:
    """The sizes of a tensor type; "?" for those that are open."""
    return tuple(d.constant.size if d.WhichOneof("dimension") == "constant" else "?" for d in kind.dimensions)


class Constants:
    """Reads the values of a program.

    Args:
        module: the module of the program's messages.
        beside: reads the files of weights.
    """

    def __init__(self, module: Any, beside: Beside):
        self.module, self.beside = module, beside
        self.files: dict[str, Any] = {}

    def type_of(self, kind: Any) -> str:
        """The element type of a tensor type.

        Raises:
            SternaError: E0111.
        """
        name = type_name(kind.dataType, self.module)
        if name not in TYPES:
            raise error("E0111", f"elements of the type {name or kind.dataType} are not supported")
        return TYPES[name]

    def read(self, value: Any) -> Array | str | list[Any]:
        """A value: an array, a text, or a list of values.

        Raises:
            SternaError: E0101, E0103, E0109, E0111.
        """
        which = value.type.WhichOneof("type")
        if which in ("listType", "tupleType"):
            part = value.immediateValue
            parts = part.list.values if which == "listType" else part.tuple.values
            return [self.read(each) for each in parts]
        if which != "tensorType":
            raise error("E0111", f"a constant of {which} is not supported")
        kind = value.type.tensorType
        name = type_name(kind.dataType, self.module)
        if name == "STRING":
            texts = list(value.immediateValue.tensor.strings.values)
            return texts[0] if len(texts) == 1 and not kind.rank else texts
        dtype = np.dtype(self.type_of(kind))
        shape = sizes_of(kind)
        if any(isinstance(size, str) or size < 0 or size > 1 << 40 for size in shape):
            raise error("E0109", f"a constant of the shape {list(shape)}")
        sizes = tuple(int(size) for size in shape)
        count = math.prod(sizes)
        if value.WhichOneof("value") == "blobFileValue":
            flat = self._stored(value.blobFileValue, name, dtype, count)
        else:
            flat = self._immediate(value.immediateValue.tensor, name, dtype, count)
        if flat.size == 1 and count != 1:
            check_table(*sizes)
            flat = np.broadcast_to(flat, (count,))
        if flat.size != count:
            raise error("E0109", f"a constant of {list(sizes)} has {flat.size} elements")
        return flat.reshape(sizes)

    def _immediate(self, tensor: Any, name: str, dtype: np.dtype[Any], count: int) -> Array:
        which = tensor.WhichOneof("value")
        if which is None:
            return np.zeros(0, dtype)
        held = getattr(tensor, which).values
        if which == "bytes":
            return _unpacked(bytes(held), name, dtype, count)
        return np.array(list(held)).astype(dtype)

    def _stored(self, blob: Any, name: str, dtype: np.dtype[Any], count: int) -> Array:
        if blob.fileName not in self.files:
            self.files[blob.fileName] = self.beside(blob.fileName)
        content = self.files[blob.fileName]
        at = blob.offset
        where = f"{blob.fileName}, byte {at}"
        if at + 24 > len(content):
            raise error("E0101", "a file of weights is cut off", where, fix="export the model again")
        mark, _, size, start = struct.unpack_from("<IIQQ", content, at)
        if mark != _MARK:
            raise error("E0101", "a file of weights is damaged", where, fix="export the model again")
        if start + size > len(content):
            raise error("E0101", "a file of weights is cut off", where, fix="export the model again")
        return _unpacked(memoryview(content)[start : start + size], name, dtype, count)


def _unpacked(raw: bytes | memoryview, name: str, dtype: np.dtype[Any], count: int) -> Array:
    """Elements of their bytes."""
    bits = _BITS.get(name)
    if bits is None:
        whole = len(raw) // dtype.itemsize
        if name == "BOOL":
            return np.frombuffer(raw, np.uint8).astype(bool)
        return np.frombuffer(raw, dtype.newbyteorder("<"), whole)
    return unpacked_bits(np.frombuffer(raw, np.uint8), bits, count, name.startswith("INT"))


def unpacked_bits(raw: Array, bits: int, count: int, signed: bool = False) -> Array:
    """Numbers of a few bits, the first in the lowest bits of the first byte."""
    if raw.size * 8 < bits * count:
        raise error("E0109", f"{raw.size} bytes for {count} elements of {bits} bits")
    each = np.unpackbits(raw, bitorder="little", count=bits * count).reshape(count, bits)
    numbers = (each.astype(np.int16) << np.arange(bits, dtype=np.int16)).sum(axis=1)
    if signed:
        numbers = np.where(numbers >= 1 << (bits - 1), numbers - (1 << bits), numbers)
    return np.asarray(numbers, np.int8 if signed else np.uint8)
