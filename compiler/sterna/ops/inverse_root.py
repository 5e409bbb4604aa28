"""1 / sqrt(x) of integers in fixed point, as TensorFlow Lite's integer kernels compute it, exact to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int
from sterna.ops.fixed_point import high_product, leading_zeros, rounding_shift, saturated_left, shifted_left
from sterna.ops.formulas import at
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case
from sterna.ops.types import check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute

#: sqrt(1 / 2) as Q0.31.
_HALF_ROOT = 1518500250
_LARGEST = 1 << 29  # of what is shifted to the left only


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, ("int32",))
    return x


def _normalized(x: Expr) -> tuple[Expr, Expr]:
    """A number of at least 2 times a power of four, between 2^27 and 2^29, and the shift to the right of its root."""
    is_large = x >= _LARGEST
    small = E.select(is_large, E.binary("shift_right", x, 2), x)
    pairs = E.binary("shift_right", leading_zeros(small) - 1, 1) - 1
    shift = E.select(is_large, E.const(12, "int32"), 11) - pairs
    return shifted_left(small, shifted_left(pairs, 1)), shift


def _root(normal: Expr) -> Expr:
    """sqrt(2^27 / y) as Q0.31: five steps of Newton and Raphson with three integer bits, from 1."""
    half = rounding_shift(E.binary("shift_right", normal, 1), 1)
    root: Expr = E.const(1 << 28, "int32")
    for _ in range(5):
        cube = saturated_left(high_product(high_product(root, root), root), 6)
        root = saturated_left(high_product(root, (1 << 28) + (1 << 27)) - high_product(half, cube), 3)
    return high_product(root, _HALF_ROOT)


def _inverse_root(applied: Application) -> Tensor:
    x = applied.input(0)

    def normal(*index: Int) -> Expr:
        return _normalized(E.maximum(at(x, index), 2))[0]

    def shift(*index: Int) -> Expr:
        return _normalized(E.maximum(at(x, index), 2))[1]

    def exponent(*index: Int) -> Expr:
        return E.select(at(x, index) <= 1, E.const(0, "int32"), E.maximum(shift(*index), 0))

    if applied["gives"] == "shift":
        return compute(applied.name, x.shape, exponent)
    normals = compute(applied.stage("normal"), x.shape, normal)
    roots = compute(applied.stage("root"), x.shape, lambda *index: _root(at(normals, index)))

    def multiplier(*index: Int) -> Expr:
        root = shifted_left(at(roots, index), E.maximum(0 - shift(*index), 0))
        return E.select(at(x, index) <= 1, E.const((1 << 31) - 1, "int32"), root)

    return compute(applied.name, x.shape, multiplier)


_NUMBERS = np.unique(
    np.concatenate([np.arange(70), (1 << np.arange(31)), (1 << np.arange(31)) - 1, [3, 12345678, (1 << 31) - 1]])
).astype(np.int32)
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "inverse_root_fixed",
        "1 / sqrt(x) of an int32 that is not negative, as multiplier / 2^(31 + shift); 0 counts as 1.",
        single(_type),
        _inverse_root,
        Fusion.BROADCAST,
        (Attribute("gives", "string", "which of the two", choices=("multiplier", "shift")),),
        cases=tuple(case(_NUMBERS, gives=gives) for gives in ("multiplier", "shift")),
        tags=frozenset({"elementwise"}),
    ),
)
