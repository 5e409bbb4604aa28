"""The element type of a result of several operands (PyTorch, Tensor Attributes: type promotion).

Tensors with dimensions decide before tensors without, those before numbers of Python, as long as the kind (bool,
integer, float) of what comes later is not the higher one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Int

#: What may stand for a number: a tensor, a size, a number of Python.
Operand = Value | Int | bool | int | float

_DEFAULT_FLOAT = "float32"


def kind(dtype: str) -> int:
    """0: bool, 1: integer, 2: float."""
    return 0 if dtype == "bool" else 2 if dtypes.is_float(dtype) or dtype in dtypes.NARROW_FLOATS else 1


def promoted(a: str, b: str) -> str:
    """The type of two tensors of the same standing."""
    if a == b or kind(a) > kind(b):
        return a
    if kind(a) < kind(b):
        return b
    if kind(a) == 2:
        if {a, b} == {"float16", "bfloat16"}:
            return "float32"
        return a if dtypes.bits(a) > dtypes.bits(b) else b
    return str(np.promote_types(a, b).name)


def number_type(value: object) -> str:
    """The type that a number of Python stands for."""
    if isinstance(value, bool):
        return "bool"
    return _DEFAULT_FLOAT if isinstance(value, float) else "int64"


def result_type(operands: Iterable[Operand]) -> str:
    """The common type of operands."""
    ranks: list[str] = ["", "", ""]
    for operand in operands:
        if isinstance(operand, Value):
            place, dtype = (0 if operand.type.rank else 1), operand.dtype
        else:
            place, dtype = 2, number_type(operand)
        ranks[place] = promoted(ranks[place], dtype) if ranks[place] else dtype
    found = ranks[2]
    for dtype in (ranks[1], ranks[0]):
        if dtype:
            found = _over(dtype, found) if found else dtype
    return found


def _over(higher: str, lower: str) -> str:
    """The type of one that decides before another."""
    return higher if kind(higher) >= kind(lower) else promoted(higher, lower)


def float_type(dtype: str) -> str:
    """The type of what is computed of integers in floating point."""
    return dtype if kind(dtype) == 2 else _DEFAULT_FLOAT
