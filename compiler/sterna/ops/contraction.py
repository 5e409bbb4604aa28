"""Sums of products: what matrix products and convolutions share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from sterna.ir.graph import TensorType
from sterna.ir.integer import ZERO, Int
from sterna.ops.formulas import HALF, at, rounded, wide
from sterna.ops.operator import Attribute, unfit
from sterna.ops.types import NUMBERS, check_dtype, same_dtype
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute, reduce, reduce_axis


def summed(
    name: str, shape: Sequence[Int], axes: Sequence[str], element: Any, *, inner: Sequence[Axis], dtype: str
) -> Tensor:
    """A stage that sums `element(*axes)` over the inner axes that vary, rounded to `dtype` at the end."""
    varying = [axis for axis in inner if axis.extent != 1]

    def body(*index: Int) -> Expr:
        value: Expr = element(*index)
        return reduce("sum", value, *varying) if varying else value

    if wide(dtype) == dtype:
        return compute(name, shape, body, axes)
    return rounded(name, compute(f"{name}_wide", shape, body, axes), dtype)


FACTORS = Attribute(
    "factors",
    "string",
    "what factors of float32 are rounded to before they are multiplied; empty: they are of 16 bits",
    "",
    ("", "tf32"),
)
CHUNK = Attribute(
    "chunk", "int", "of the channels, how many products are added up in the factors' own type; 0: all in float32", 0
)


def check_chunk(depth: Int, chunk: int, factors: str) -> None:
    if chunk and factors:
        raise unfit("factors that are rounded to tf32 are added up in float32")
    if chunk and (chunk < 0 or not depth.is_const or int(depth) % chunk):
        raise unfit(f"{depth} channels do not fall into parts of {chunk}")


def chunked(
    name: str, shape: Sequence[Int], axes: Sequence[str], element: Any, taps: Sequence[Axis], depth: Axis, chunk: int
) -> Tensor:
    """A stage that sums `element(*axes)` over taps and depth: parts of the depth in the type of the factors, those in
    float32.

    Args:
        element: of the axes, and what stands for the taps and the depth.
    """
    count, inner = depth.extent // chunk, reduce_axis(depth.name, chunk)
    outer = [axis for axis in (*taps, reduce_axis(f"{depth.name}_parts", count)) if axis.extent != 1]
    varying = [axis.name for axis in outer]

    def part(*index: Int) -> Expr:
        places = dict(zip(varying, index, strict=False))
        at_taps = [places.get(axis.name, ZERO) for axis in taps]
        at_depth = places.get(f"{depth.name}_parts", ZERO) * chunk + inner.var
        return reduce("sum", element(index[len(varying) :], at_taps, at_depth), inner)

    parts = compute(f"{name}_parts", [*(a.extent for a in outer), *shape], part, [*(f"p_{n}" for n in varying), *axes])

    def body(*index: Int) -> Expr:
        value = E.cast(at(parts, (*(axis.var for axis in outer), *index)), "float32")
        return reduce("sum", value, *outer) if outer else value

    return compute(name, shape, body, axes)


FEW_BITS = ("int8", "uint8", "int16", "uint16")


class Sum(Enum):
    """What products are added up in, and given back."""

    OWN = "own"
    """the type of both factors, 16-bit floats rounded at the end"""
    INTEGER = "integer"
    """int32, of integers of few bits, of two types maybe"""
    LONG = "long"
    """int64, of integers of few bits, of two types maybe"""
    WIDE = "wide"
    """float32, of 16-bit floats"""
    ROUNDED = "rounded"
    """float32, of factors in it that are rounded"""


def accumulator(a: TensorType, b: TensorType, kind: Sum) -> str:
    """The result's element type."""
    if kind in (Sum.INTEGER, Sum.LONG):
        check_dtype(a.dtype, FEW_BITS)
        check_dtype(b.dtype, FEW_BITS)
        return "int32" if kind is Sum.INTEGER else "int64"
    if kind is Sum.WIDE:
        check_dtype(same_dtype((a, b)), HALF)
        return "float32"
    check_dtype(same_dtype((a, b)), ("float32",) if kind is Sum.ROUNDED else NUMBERS)
    return a.dtype


def widening(factors: str) -> Sum:
    """What products of factors are added up in that have few bits, or are rounded to few."""
    return Sum.ROUNDED if factors else Sum.WIDE


def factor(value: Expr, dtype: str, rounding: str = "") -> Expr:
    """A factor in the type that products are added up in; `rounding`: one of `FACTORS`."""
    return E.unary(rounding, value) if rounding else E.cast(value, wide(dtype))
