"""Scaling in fixed point by one product of 64 bits, as machines do it whose multiplier gives both words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int
from sterna.ops.formulas import broadcast_at
from sterna.ops.operator import Application, Attribute, Case, Fusion, Operator, Types
from sterna.ops.types import broadcast, check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute

#: Bits that a shift has: what is further to the right is not defined, and compilers need not look.
_COUNT = 31
#: The largest shift: half of 2^31 is no int32.
MOST_SHIFT = 30
#: The largest shift of results to which a zero point is added: before it that is less than 2^30, as the upper word is.
MOST_SHIFT_OF_ZERO = 21


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    operands = present(types, 0, 1, 2)
    for operand in operands:
        check_dtype(operand.dtype, ("int32",))
    return TensorType("int32", broadcast([operand.shape for operand in operands]))


def multiply_shift(applied: Application) -> Tensor:
    x, multiplier, shift = (applied.input(n) for n in range(3))

    def body(*index: Int) -> Expr:
        count = E.binary("and", broadcast_at(shift, index), _COUNT)
        # Where halves go up, half of what is shifted out and the zero point are one number.
        half = E.binary("shift_right", E.binary("shift_left", E.const(2 * applied["zero"] + 1, "int32"), count), 1)
        if applied["halves"] == "up" and not applied["bias"]:
            high = E.binary("upper_product", broadcast_at(x, index), broadcast_at(multiplier, index))
            return E.binary("shift_right", high + half, count)
        wide = E.cast(broadcast_at(x, index), "int64") * E.cast(broadcast_at(multiplier, index), "int64")
        wide = wide + applied["bias"]
        if applied["halves"] == "up":
            high = E.cast(E.binary("shift_right", wide, 32), "int32")
            return E.binary("shift_right", high + half, count)
        product = E.cast(E.binary("shift_right", wide, 31), "int32")
        return E.binary("shift_right", product + E.binary("shift_right", product, 31) + half, count)

    return compute(applied.name, applied.output.shape, body)


def _numbers() -> np.ndarray:
    random = np.random.default_rng(3)
    return np.concatenate([np.arange(-40, 40), random.integers(1 - (1 << 30), 1 << 30, 40)]).astype(np.int32)


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "multiply_shift",
        "(x multiplier + bias) / 2^32 / 2^shift, both rounded down but for the half that is added before the shift "
        "(halves up); or (x multiplier + bias) / 2^31 rounded down, then / 2^shift, halves away from zero. The shift "
        f"lies between 1 and {MOST_SHIFT}. With halves up a zero point may be added, if the shift is at most "
        f"{MOST_SHIFT_OF_ZERO}.",
        single(_type),
        multiply_shift,
        Fusion.BROADCAST,
        (
            Attribute("bias", "int", "added to the product of 64 bits", 0),
            Attribute("halves", "string", "how it ends", "up", choices=("up", "away")),
            Attribute("zero", "int", "added to the result, from -255 to 255; with halves up", 0),
        ),
        cases=(
            Case((_numbers(), np.array(1518500250, np.int32), np.array(7, np.int32)), {}),
            Case(
                (
                    _numbers().reshape(60, 2),
                    np.array([1 << 30, (1 << 31) - 1], np.int32),
                    np.array([1, 12], np.int32),
                ),
                {"bias": 1 << 30},
            ),
            Case(
                (
                    _numbers().reshape(60, 2),
                    np.array([1 << 30, (1 << 31) - 1], np.int32),
                    np.array([1, 21], np.int32),
                ),
                {"bias": 1 << 31, "zero": -128},
            ),
            Case((_numbers(), np.array(1518500250, np.int32), np.array(7, np.int32)), {"zero": 127}),
            Case(
                (
                    _numbers().reshape(60, 2),
                    np.array([1 << 30, 1234567890], np.int32),
                    np.array([3, 20], np.int32),
                ),
                {"bias": 1 << 30, "halves": "away"},
            ),
        ),
        tags=frozenset({"elementwise"}),
    ),
)
