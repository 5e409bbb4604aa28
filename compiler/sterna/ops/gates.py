"""Gates of recurrent layers in 16 bits: the logistic function and tanh as gemmlowp computes them, exact to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int
from sterna.ops.fixed_point import rounding_shift, shifted_left
from sterna.ops.formulas import at
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.types import check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr, ExprLike
from sterna.te.tensor import Tensor, compute


def _product_16(a: Expr, b: ExprLike) -> Expr:
    """2 a b / 2^16 of two int16 in int32, halves up."""
    return E.binary("shift_right", a * b + (1 << 14), 15)


def _short(value: int) -> int:
    """A constant of 32 bits rounded to its upper 16."""
    return (value + (1 << 15)) >> 16


def _saturated_16(x: Expr) -> Expr:
    return E.minimum(E.maximum(x, -32768), 32767)


def _wrapped_16(x: Expr) -> Expr:
    return E.cast(E.cast(x, "int16"), "int32")


def exp_16(a: Expr, integer_bits: int) -> Expr:
    """e^a as Q0.15 for a <= 0 with so many integer bits: a series near 0, a factor for every bit above a quarter."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    inside = E.binary("and", a, quarter - 1) - quarter
    x = _saturated_16(shifted_left(inside, integer_bits)) + (1 << 12)
    square = _product_16(x, x)
    cube, fourth = _product_16(square, x), _product_16(square, square)
    tail = _product_16(rounding_shift(fourth, 2) + cube, _short(715827883)) + square
    eighth = _short(1895147668)
    result = _saturated_16(eighth + _product_16(x + rounding_shift(tail, 1), eighth))
    rest = inside - a
    factors = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
    for exponent, factor in zip(range(-2, 5), factors, strict=True):
        if integer_bits > exponent:
            has = E.compare("ne", E.binary("and", rest, 1 << (fraction + exponent)), 0)
            result = _product_16(result, E.select(has, E.const(_short(factor), "int32"), 1 << 15))
    return E.select(E.compare("eq", a, 0), 32767, result)


def _newton_16(x: Expr) -> Expr:
    """2 / (1 + x) with two integer bits, for x of Q0.15 between 0 and 1."""
    half_denominator = E.binary("shift_right", x + (1 << 15), 1)
    estimate = _product_16(half_denominator, _short(-1010580540)) + _short(1515870810)
    for _ in range(3):
        missing = (1 << 13) - _product_16(half_denominator, estimate)
        estimate = _wrapped_16(estimate + _saturated_16(shifted_left(_product_16(estimate, missing), 2)))
    return estimate


def _gate_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, ("int16",))
    if not 0 <= attributes["integer_bits"] <= 4:
        raise unfit(f"numbers of 16 bits with {attributes['integer_bits']} integer bits")
    return x


def _gate(applied: Application) -> Tensor:
    x, bits = applied.input(0), applied["integer_bits"]

    def body(*index: Int) -> Expr:
        a = E.cast(at(x, index), "int32")
        size = _wrapped_16(E.unary("abs", a))
        nothing = E.compare("eq", a, 0)
        if applied["function"] == "tanh":
            low = E.select(a < 0, a, _wrapped_16(-a))
            value = _saturated_16(shifted_left(_newton_16(exp_16(low, bits + 1)) - (1 << 13), 2))
            sign = E.binary("shift_right", a, 31)
            return E.cast(E.select(nothing, 0, E.binary("xor", value, sign) - sign), "int16")
        value = _saturated_16(shifted_left(_newton_16(exp_16(_wrapped_16(-size), bits)), 1))
        # 32767 - value of a number of 15 bits, without naming it twice.
        mirrored = E.binary("xor", value, E.select(a > 0, E.const(0, "int32"), 32767))
        return E.cast(E.select(nothing, 1 << 14, mirrored), "int16")

    return compute(applied.name, x.shape, body)


_SHORT = np.linspace(-32768, 32767, 300).astype(np.int16).reshape(3, 100)
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "gate_fixed",
        "The logistic function or tanh of numbers of 16 bits, so many of them before the point, as Q0.15: exp in fixed "
        "point, then three steps of Newton and Raphson.",
        single(_gate_type),
        _gate,
        Fusion.BROADCAST,
        (
            Attribute("function", "string", "which one", choices=("logistic", "tanh")),
            Attribute("integer_bits", "int", "0 to 4", 3),
        ),
        cases=(
            case(_SHORT, function="logistic"),
            case(_SHORT, function="tanh"),
            case(_SHORT, function="tanh", integer_bits=0),
        ),
        tags=frozenset({"elementwise"}),
    ),
)
