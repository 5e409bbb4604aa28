"""Operators that choose elements by integers of another operand: index maps with positions from data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.ops.formulas import at
from sterna.ops.operator import Application, Attribute, Fusion, Onnx, Operator, Types, case, unfit
from sterna.ops.types import axis_of, check_dtype, present, single, with_dim
from sterna.te.expr import Expr
from sterna.te.position import position
from sterna.te.tensor import Tensor, compute


def _gather_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, indices = present(types, 0, 1)
    check_dtype(indices.dtype, ("int32", "int64"))
    axis = axis_of(attributes["axis"], x.rank)
    result = TensorType(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    if x.shape[axis] == 0 and result.elements != 0:
        raise unfit(f"there is nothing to choose along dimension {axis} of {x}")
    return result


def _gather(applied: Application) -> Tensor:
    x, indices = applied.input(0), applied.input(1)
    axis = axis_of(applied["axis"], len(x.shape))
    end = axis + len(indices.shape)

    def body(*index: Int) -> Expr:
        chosen = position(at(indices, index[axis:end]), x.shape[axis], from_end=True)
        return at(x, (*index[:axis], chosen, *index[end:]))

    return compute(applied.name, applied.output.shape, body)


def _gather_elements_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, indices = present(types, 0, 1)
    check_dtype(indices.dtype, ("int32", "int64"))
    if x.rank != indices.rank:
        raise unfit(f"{x} and the indices {indices} have different ranks")
    axis = axis_of(attributes["axis"], x.rank)
    for d, (size, wanted) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if d != axis and ((wanted - size).bounds()[0] or 0) > 0:
            raise unfit(f"the indices {indices} are beyond dimension {d} of {x}")
    return TensorType(x.dtype, indices.shape)


def _gather_elements(applied: Application) -> Tensor:
    x, indices = applied.input(0), applied.input(1)
    axis = axis_of(applied["axis"], len(x.shape))

    def body(*index: Int) -> Expr:
        return at(x, with_dim(index, axis, position(at(indices, index), x.shape[axis], from_end=True)))

    return compute(applied.name, applied.output.shape, body)


def _gather_nd_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, indices = present(types, 0, 1)
    check_dtype(indices.dtype, ("int32", "int64"))
    batch = attributes["batch_dims"]
    if indices.rank < 1 or not indices.shape[-1].is_const or batch + int(indices.shape[-1]) > x.rank:
        raise unfit(f"the indices {indices} do not fit {x}")
    if not 0 <= batch < indices.rank or x.shape[:batch] != indices.shape[:batch]:
        raise unfit(f"{x} and the indices {indices} do not share {batch} dimensions")
    return TensorType(x.dtype, (*indices.shape[:-1], *x.shape[batch + int(indices.shape[-1]) :]))


def _gather_nd(applied: Application) -> Tensor:
    x, indices = applied.input(0), applied.input(1)
    batch, depth, lead = applied["batch_dims"], int(indices.shape[-1]), len(indices.shape) - 1

    def body(*index: Int) -> Expr:
        chosen = [
            position(at(indices, (*index[:lead], as_int(k))), x.shape[batch + k], from_end=True) for k in range(depth)
        ]
        return at(x, (*index[:batch], *chosen, *index[lead:]))

    return compute(applied.name, applied.output.shape, body)


F = "float32"
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "gather",
        "Slices of the first operand chosen along an axis by the integers of the second; negative ones count from "
        "the end, those out of range are clamped.",
        single(_gather_type),
        _gather,
        Fusion.INJECTIVE,
        (Attribute("axis", "int", "where to choose", 0),),
        (Onnx("Gather"),),
        (
            case((F, (5, 3)), np.array([[0, 4], [-1, 2]], np.int64), axis=0),
            case((F, (2, 4, 3)), np.array([1, 3], np.int32), axis=1),
            case(("int64", (6,)), np.array(2, np.int64), axis=0),
        ),
    ),
    Operator(
        "gather_elements",
        "The element of the first operand at each position, with the coordinate along an axis taken from the second.",
        single(_gather_elements_type),
        _gather_elements,
        Fusion.INJECTIVE,
        (Attribute("axis", "int", "whose coordinate", 0),),
        (Onnx("GatherElements"),),
        (
            case((F, (3, 3)), np.array([[1, 2, 0], [2, 0, -3]], np.int64), axis=0),
            case((F, (2, 4)), np.array([[3, 0], [1, -1]], np.int32), axis=1),
        ),
        tags=frozenset({"lookup"}),
    ),
    Operator(
        "gather_nd",
        "Slices of the first operand at the coordinates in the second's last dimension.",
        single(_gather_nd_type),
        _gather_nd,
        Fusion.INJECTIVE,
        (Attribute("batch_dims", "int", "leading dimensions both share", 0),),
        (Onnx("GatherND"),),
        (
            case((F, (2, 3, 4)), np.array([[0, 1], [1, -1]], np.int64)),
            case((F, (2, 3, 4)), np.array([[1], [2]], np.int64), batch_dims=1),
        ),
        tags=frozenset({"lookup"}),
    ),
)
