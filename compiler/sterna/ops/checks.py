"""Tests that a bundle makes at run time: that an input agrees with what the bundle was compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import ZERO
from sterna.ops.formulas import at
from sterna.ops.operator import Application, Fusion, Operator, Types, case
from sterna.ops.types import check_dtype, present, single
from sterna.te.tensor import Tensor, compute, reduce, reduce_axis


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (condition,) = present(types, 0)
    check_dtype(condition.dtype, ("bool",))
    return TensorType("bool", ())


def _require(applied: Application) -> Tensor:
    condition = applied.input(0)
    inner = {n: reduce_axis(f"r{n}", size) for n, size in enumerate(condition.shape) if size != 1}
    element = at(condition, [inner[n].var if n in inner else ZERO for n in range(len(condition.shape))])
    axes = tuple(inner.values())
    return compute(applied.name, (), lambda: reduce("all", element, *axes) if axes else element, must_hold=True)


_TRUE = np.ones((3,), np.bool_)
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "require",
        "True, if every element of a bool tensor holds; else the kernel fails, and with it the run.",
        single(_type),
        _require,
        Fusion.OPAQUE,
        cases=(case(_TRUE), case(np.array(True)), case(np.ones((2, 1, 40), np.bool_))),
    ),
)
