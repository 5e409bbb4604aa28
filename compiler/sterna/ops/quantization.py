"""From real numbers to those of few bits: the step that ends every operator on quantized tensors of ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import TensorType
from sterna.ir.integer import ZERO, Int, as_int
from sterna.ops.formulas import at, map_elements, round_away
from sterna.ops.operator import Application, Attribute, Case, Fusion, Operator, Types, case
from sterna.ops.types import check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import SHIFTS, Expr
from sterna.te.tensor import Tensor, compute, reduce, reduce_axis

FEW_BITS = ("int8", "uint8", "int16", "uint16")
_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.5, 1.5, -0.5, -1.5, 251.5, 252.5, -0.0, 3e38], np.float32)


def to_integer(x: Expr, dtype: str, zero: int, halves: str) -> Expr:
    """The nearest integer to x (float32, float64), halves to even or away from 0, plus `zero`, within the range of the
    type; NaN gives its least.

    Clamped first, which changes nothing, for the limits are integers; then the sum with a large number rounds, so that
    all of it is a handful of instructions on every machine, vectors or not.
    """
    if halves == "even" and x.dtype == "float32":
        return E.Nearest(dtype, a=x, zero=zero)
    low, high = (float(limit - zero) for limit in dtypes.limits(dtype))
    above = E.select(x > low, x, low)
    inside = E.select(above < high, above, high)
    shift, shift_bits, integer = SHIFTS[x.dtype]
    bits = E.bitcast((round_away(inside) if halves == "away" else inside) + shift, integer)
    return E.cast(bits + (zero - shift_bits), dtype)


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, tuple(SHIFTS))
    return TensorType(attributes["to"], x.shape)


def _formula(applied: Application) -> Tensor:
    to, zero, halves = applied["to"], applied["zero"], applied["halves"]
    return map_elements(applied.name, [applied.input(0)], applied.output, lambda x: to_integer(x, to, zero, halves))


def _scale_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, ("float32",))
    return TensorType(x.dtype, (as_int(2),))


def _byte_scale(applied: Application) -> Tensor:
    """The greatest elements of x and of -x are found in one pass."""
    x = applied.input(0)
    places = [reduce_axis(f"r{n}", size) for n, size in enumerate(x.shape)]

    def extreme(k: Int) -> Expr:
        element = at(x, [axis.var if axis.extent != 1 else ZERO for axis in places])
        value = E.select(E.compare("eq", E.index_value(k, "int32"), 0), element, E.unary("neg", element))
        varying = [axis for axis in places if axis.extent != 1]
        return reduce("max", value, *varying) if varying else value

    extremes = compute(applied.stage("extremes"), (as_int(2),), extreme)
    above, below = (E.maximum(at(extremes, (as_int(n),)), 0.0) for n in range(2))
    span = above + below
    scale = E.select(E.compare("eq", span, 0.0), E.const(1.0, x.dtype), span) / 255.0
    zero = E.unary("rint", E.maximum(E.minimum(below / scale, 255.0), 0.0))
    return compute(
        applied.name, (as_int(2),), lambda k: E.select(E.compare("eq", E.index_value(k, "int32"), 0), scale, zero)
    )


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "byte_scale",
        "The scale and the zero point with which numbers of 8 bits without sign hold a tensor's elements and 0.",
        single(_scale_type),
        _byte_scale,
        Fusion.REDUCTION,
        cases=(
            case(("float32", (3, 40)), low=-2.0, high=5.0),
            case(("float32", (2, 5, 3)), low=1.0, high=2.0),
            case(("float32", (1, 1)), low=-2.0, high=-1.0),
            case(("float32", (1000,)), low=-7.0, high=-1.0),
            Case((np.zeros((2, 7), np.float32),), {}),
        ),
    ),
    Operator(
        "round_to_integer",
        "The nearest integer plus `zero`, saturated to a type of few bits; NaN gives its least.",
        single(_type),
        _formula,
        Fusion.BROADCAST,
        (
            Attribute("to", "dtype", "the element type of the result", choices=FEW_BITS),
            Attribute("zero", "int", "the zero point, a number of that type", 0),
            Attribute("halves", "string", "where halves go: to even numbers or away from 0", "even", ("even", "away")),
        ),
        cases=(
            case(("float32", (3, 40)), to="uint8", zero=128, low=-200.0, high=200.0),
            case(("float32", (3, 40)), to="int8", zero=-5, low=-200.0, high=200.0),
            case(("float32", (50,)), to="int8", low=-2.0, high=2.0),
            case(("float32", (7,)), to="uint16", zero=7, low=-1e5, high=1e5),
            case(("float32", (7,)), to="int16", zero=-3, low=-1e5, high=1e5),
            Case((_SPECIAL,), {"to": "uint8", "zero": 3}),
            Case((_SPECIAL,), {"to": "int8", "zero": -3, "halves": "away"}),
            case(("float64", (3, 40)), to="int8", zero=-5, low=-200.0, high=200.0),
            Case((np.append(np.arange(-300, 300) * 0.5, _SPECIAL),), {"to": "int8", "zero": 7, "halves": "away"}),
        ),
        tags=frozenset({"elementwise"}),
    ),
)
