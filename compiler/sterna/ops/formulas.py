"""Building blocks of tensor expressions that many operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import TensorType
from sterna.ir.integer import Int
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute

#: Types whose arithmetic is done in float32 and rounded once per operator, as ONNX's reference does.
HALF = dtypes.HALVES


def at(tensor: Tensor, indices: Sequence[Int]) -> E.Load:
    """An element; for tensors of any rank, none included."""
    return E.Load(tensor.dtype, tensor=tensor, indices=tuple(indices))


def broadcast_at(tensor: Tensor, indices: Sequence[Int]) -> E.Load:
    """The element that NumPy's broadcasting pairs with `indices` of a larger shape."""
    aligned = indices[len(indices) - len(tensor.shape) :]
    return at(tensor, [Int({}, 0) if size == 1 else index for index, size in zip(aligned, tensor.shape, strict=True)])


def widened(value: Expr) -> Expr:
    """Half-width floats as float32, everything else as it is."""
    return E.cast(value, "float32") if value.dtype in HALF else value


def half_away(x: Expr) -> Expr:
    """The nearest whole number, halves away from 0, as C's `round`."""
    size = E.maximum(x, -x)
    whole = E.unary("floor", size)
    nearest = E.select(size - whole < 0.5, whole, whole + 1.0)
    return E.select(x < 0.0, -nearest, nearest)


def wide(dtype: str) -> str:
    """The type in which arithmetic on `dtype` is done."""
    return "float32" if dtype in HALF else dtype


def map_elements(name: str, inputs: Sequence[Tensor], output: TensorType, function: Callable[..., Any]) -> Tensor:
    """A stage that applies a function of expressions to broadcast operands."""

    def body(*indices: Int) -> Expr:
        operands = [widened(broadcast_at(tensor, indices)) for tensor in inputs]
        return E.cast(E.as_expr(function(*operands), wide(output.dtype)), output.dtype)

    return compute(name, output.shape, body, dtype=output.dtype)


def round_away(x: Expr) -> Expr:
    """The nearest integer to a float32 or float64, halves away from 0: what is cut off after adding the number just
    below a half, for the sum rounds to the next integer exactly from a half on."""
    kind = dtypes.to_numpy(x.dtype).type
    half = float(np.nextafter(kind(0.5), kind(0)))
    return E.unary("trunc", x + E.select(x < 0, E.const(-half, x.dtype), E.const(half, x.dtype)))


def rounded(name: str, tensor: Tensor, dtype: str) -> Tensor:
    """The tensor in another type; itself if it has it."""
    if tensor.dtype == dtype:
        return tensor
    return compute(name, tensor.shape, lambda *i: E.cast(at(tensor, i), dtype))


def count(size: Int, dtype: str) -> Expr:
    """A size as a number of a type; a constant where the size is known."""
    return (
        E.const(float(int(size)) if dtypes.is_float(dtype) else int(size), dtype)
        if size.is_const
        else (E.cast(E.index_value(size), dtype))
    )


def lowest(dtype: str) -> float | int:
    """The neutral element of a maximum."""
    if dtypes.is_float(dtype):
        return float("-inf")
    return dtypes.limits(dtype)[0]


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The polynomial with these coefficients, the highest power first, by Horner."""
    total: Expr = E.const(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        total = total * x + c
    return total
