"""Tensors made of the model's dimensions, which may be open until the model runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import ComputedSymbol, Int, as_int, of
from sterna.ir.sizes import BIND
from sterna.ops.formulas import at
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.types import check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute


def _dimensions(applied: Application) -> Tensor:
    sizes = [as_int(n) for n in applied["sizes"]]

    def body(i: Int) -> Expr:
        value = E.index_value(sizes[-1])
        for n in range(len(sizes) - 2, -1, -1):
            value = E.select(E.compare("eq", E.index_value(i), n), E.index_value(sizes[n]), value)
        return value

    return compute(applied.name, applied.output.shape, body)


def _arange(applied: Application) -> Tensor:
    return compute(
        applied.name,
        applied.output.shape,
        lambda i: E.cast(E.index_value(i * applied["step"] + applied["start"]), applied["to"]),
    )


def _bind_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (count,) = present(types, 0)
    check_dtype(count.dtype, ("int64",))
    if count.rank:
        raise unfit(f"the size {count} is no scalar")
    return count


OPERATORS: tuple[Operator, ...] = (
    Operator(
        BIND,
        "The operand, a scalar, which becomes the size of a dimension: of whatever mentions the symbol in `size`.",
        single(_bind_type),
        lambda applied: compute(applied.name, (), lambda: at(applied.input(0), [])),
        Fusion.OPAQUE,
        (Attribute("size", "dims", "the symbol: one number"),),
        cases=(case(np.array(3, np.int64), size=(of(ComputedSymbol("found", 0, 9)),)),),
    ),
    Operator(
        "dimensions",
        "The sizes given, as a vector: dimensions of the model as a tensor.",
        lambda types, a: (TensorType("int64", (as_int(len(a["sizes"])),)),),
        _dimensions,
        Fusion.INJECTIVE,
        (Attribute("sizes", "dims", "the elements"),),
        cases=(case(sizes=(3, 1, 7)),),
    ),
    Operator(
        "arange",
        "start, start + step, ...: so many integers.",
        lambda types, a: (TensorType(a["to"], (as_int(a["size"][0]),)),),
        _arange,
        Fusion.INJECTIVE,
        (
            Attribute("start", "int", "the first"),
            Attribute("step", "int", "the distance"),
            Attribute("size", "dims", "how many: one number"),
            Attribute("to", "dtype", "the element type"),
        ),
        cases=(case(start=2, step=3, size=(5,), to="int64"), case(start=0, step=1, size=(4,), to="float32")),
    ),
)
