"""From real numbers to those of few bits: the step that ends every operator on quantized tensors of ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import TensorType
from sterna.ops.formulas import map_elements
from sterna.ops.operator import Attribute, Call, Case, Fusion, Operator, Types, case
from sterna.ops.types import check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor

FEW_BITS = ("int8", "uint8", "int16", "uint16")
#: 1.5 * 2**23: added to a float of size below 2**22, it leaves the nearest integer (halves to even, as floats are
#: rounded) in the low bits of the sum.
_SHIFT = 12582912.0
_SHIFT_BITS = 0x4B400000
_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.5, 1.5, -0.5, -1.5, 251.5, 252.5, -0.0, 3e38], np.float32)


def rounded(x: Expr, dtype: str, zero: int) -> Expr:
    """The nearest integer to x (float32), halves to even, plus `zero`, within the range of the type; NaN gives its
    least.

    Clamped first, which changes nothing, for the limits are integers; then the sum with a large number rounds, so that
    all of it is a handful of instructions on every machine, vectors or not.
    """
    low, high = (float(limit - zero) for limit in dtypes.limits(dtype))
    above = E.select(x > low, x, low)
    inside = E.select(above < high, above, high)
    bits = E.bitcast(inside + _SHIFT, "int32")
    return E.cast(bits + (zero - _SHIFT_BITS), dtype)


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, ("float32",))
    return TensorType(attributes["to"], x.shape)


def _formula(call: Call) -> Tensor:
    return map_elements(call.name, [call.input(0)], call.output, lambda x: rounded(x, call["to"], call["zero"]))


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "round_to_integer",
        "The nearest integer, halves to even, plus `zero`, saturated to a type of few bits; NaN gives its least.",
        single(_type),
        _formula,
        Fusion.BROADCAST,
        (
            Attribute("to", "dtype", "the element type of the result", choices=FEW_BITS),
            Attribute("zero", "int", "the zero point, a number of that type", 0),
        ),
        cases=(
            case(("float32", (3, 40)), to="uint8", zero=128, low=-200.0, high=200.0),
            case(("float32", (3, 40)), to="int8", zero=-5, low=-200.0, high=200.0),
            case(("float32", (50,)), to="int8", low=-2.0, high=2.0),
            case(("float32", (7,)), to="uint16", zero=7, low=-1e5, high=1e5),
            case(("float32", (7,)), to="int16", zero=-3, low=-1e5, high=1e5),
            Case((_SPECIAL,), {"to": "uint8", "zero": 3}),
        ),
        tags=frozenset({"elementwise"}),
    ),
)
