"""Operators that write elements to places given at run time: a copy, then one write after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import as_int
from sterna.loops.build import Array, Index, ProgramBuilder, number
from sterna.ops.movement import SHAPE
from sterna.ops.operator import Attribute, Operator, Types, case, opaque, unfit
from sterna.ops.types import axis_of, check_dtype, present, same_dtype, with_dim
from sterna.te import expr as E
from sterna.te.expr import Expr

Attributes = Mapping[str, Any]
REDUCTIONS = ("none", "add", "mul", "max", "min")


def _reduced(old: Expr, update: Expr, how: str) -> Expr:
    """What is written where `old` stands."""
    if how == "none":
        return update
    if old.dtype == "bool":
        return E.binary("or" if how in ("add", "max") else "and", old, update)
    operation = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}[how]
    return E.binary(operation, old, update)


def _write(target: Array, where: tuple[Index, ...], update: Expr, how: str) -> None:
    fixed = tuple(target.program.index(i, n) for i, n in zip(where, target.shape, strict=True))
    target[fixed] = update if how == "none" else _reduced(target[fixed], update, how)


# ---------------------------------------------------------------- scatter_elements
def _elements_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, indices, updates = present(types, 0, 1, 2)
    check_dtype(indices.dtype, ("int32", "int64"))
    same_dtype((x, updates))
    if x.rank != indices.rank or indices.shape != updates.shape:
        raise unfit(f"indices {indices} and updates {updates} do not fit {x}")
    axis = axis_of(attributes["axis"], x.rank)
    for n, (size, limit) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if n != axis and size.is_const and limit.is_const and int(size) > int(limit):
            raise unfit(f"indices {indices} reach beyond {x}")
    return (x,)


def _elements(p: ProgramBuilder, attributes: Attributes) -> None:
    x, indices, updates, result = p.input(0), p.input(1), p.input(2), p.output
    axis = axis_of(attributes["axis"], len(x.shape))
    p.copy(result, x)
    with p.nest(indices.shape) as i:
        place = p.index(indices[i], x.shape[axis], from_end=True)
        _write(result, with_dim(i, axis, place), updates[i], attributes["reduction"])


# ---------------------------------------------------------------- scatter_nd
def _nd_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, indices, updates = present(types, 0, 1, 2)
    check_dtype(indices.dtype, ("int32", "int64"))
    same_dtype((x, updates))
    first = attributes["axis"]
    if indices.rank < 1 or not indices.shape[-1].is_const or not 0 <= first <= x.rank - int(indices.shape[-1]):
        raise unfit(f"the indices {indices} do not fit {x}")
    if updates.shape != (*x.shape[:first], *indices.shape[:-1], *x.shape[first + int(indices.shape[-1]) :]):
        raise unfit(f"updates {updates} for {x} at {indices}")
    return (x,)


def _nd(p: ProgramBuilder, attributes: Attributes) -> None:
    x, indices, updates, result = p.input(0), p.input(1), p.input(2), p.output
    depth, first = int(indices.shape[-1]), attributes["axis"]
    p.copy(result, x)
    with p.nest(x.shape[:first], "o") as outer, p.nest(indices.shape[:-1]) as i:
        place = []
        for k in range(depth):
            entry: tuple[Index, ...] = (*i, k)
            place.append(p.index(indices[entry], x.shape[first + k], from_end=True))
        with p.nest(x.shape[first + depth :], "j") as j:
            source: tuple[Index, ...] = (*outer, *i, *j)
            _write(result, (*outer, *place, *j), updates[source], attributes["reduction"])


# ---------------------------------------------------------------- scattered
def _scattered_type(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    usual, places, values = present(types, 0, 1, 2)
    check_dtype(places.dtype, ("int32", "int64"))
    same_dtype((usual, values))
    shape = tuple(map(as_int, attributes["shape"]))
    if usual.rank or places.shape != (*values.shape, as_int(len(shape))):
        raise unfit(f"values {values} at {places} do not fit {len(shape)} dimensions")
    return (TensorType(usual.dtype, shape),)


def _scattered(p: ProgramBuilder, attributes: Attributes) -> None:
    usual, places, values, result = p.input(0), p.input(1), p.input(2), p.output
    p.fill(result, p.let(usual[()]))
    with p.loop(values.shape[0], "k") as k:
        where: tuple[Index, ...] = tuple(places[k, n] for n in range(len(result.shape)))
        _write(result, where, values[k], "none")


# ---------------------------------------------------------------- tensor_scatter
def _cache_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    cache, update = present(types, 0, 1)
    same_dtype((cache, update))
    axis = axis_of(attributes["axis"], cache.rank)
    if axis == 0 or cache.rank != update.rank or with_dim(update.shape, axis, cache.shape[axis]) != cache.shape:
        raise unfit(f"{update} does not fit into {cache} along dimension {axis}")
    if len(types) > 2 and types[2] is not None:
        check_dtype(types[2].dtype, ("int32", "int64"))
        if types[2].shape != cache.shape[:1]:
            raise unfit(f"positions {types[2]} for {cache}")
    return (cache,)


def _cache(p: ProgramBuilder, attributes: Attributes) -> None:
    cache, update, result = p.input(0), p.input(1), p.output
    starts = p.inputs[2] if len(p.inputs) > 2 else None
    axis = axis_of(attributes["axis"], len(cache.shape))
    extent = cache.shape[axis]
    p.copy(result, cache)
    with p.nest(update.shape) as i:
        place: Index = i[axis]
        if starts is not None:
            at = E.cast(starts[i[0]], "int64") + number(i[axis], "int64")
            if attributes["mode"] == "circular":
                at = E.binary("mod", at, number(extent, "int64"))
            place = at
        to: tuple[Index, ...] = (*i[:axis], place, *i[axis + 1 :])
        result[to] = update[i]


F = "float32"
_INDICES = np.array([[1, 0, 2], [0, -1, 0]], np.int64)
_COORDINATES = np.array([[[0, 1], [2, -1]], [[0, 1], [1, 1]]], np.int32)
_REDUCTION = Attribute("reduction", "string", "what a write does with what stands there", "none", REDUCTIONS)


OPERATORS: tuple[Operator, ...] = (
    opaque(
        "scatter_elements",
        "The first operand with the elements of the third written to it in row-major order, each at its own position "
        "but for the coordinate along an axis, which the second gives; negative ones count from the end.",
        _elements_types,
        _elements,
        (Attribute("axis", "int", "whose coordinate", 0), _REDUCTION),
        cases=(
            case((F, (3, 3)), _INDICES, (F, (2, 3))),
            *(case((F, (3, 3)), _INDICES, (F, (2, 3)), reduction=how) for how in REDUCTIONS[1:]),
            case(("int8", (2, 5)), np.array([[1, 1], [4, 0]], np.int32), ("int8", (2, 2)), axis=-1, reduction="add"),
            case(("float16", (4,)), np.array([0, 0, 3], np.int64), ("float16", (3,)), reduction="max"),
            case(("bool", (4,)), np.array([0, 0, 3], np.int64), ("bool", (3,)), reduction="add"),
        ),
    ),
    opaque(
        "scatter_nd",
        "The first operand with the slices of the third written to it in row-major order, at the coordinates in the "
        "second's last dimension, which begin with that along an axis; what stands before it is the third's, too.",
        _nd_types,
        _nd,
        (Attribute("axis", "int", "the first one that the coordinates are of", 0), _REDUCTION),
        cases=(
            case((F, (3, 2, 4)), _COORDINATES, (F, (2, 2, 4))),
            case((F, (3, 2)), _COORDINATES, (F, (2, 2)), reduction="add"),
            case(("int64", (5,)), np.array([[4], [1], [4]], np.int64), ("int64", (3,)), reduction="min"),
            case((F, (3, 2)), _COORDINATES, (F, (2, 2)), reduction="mul"),
            case((F, (3, 4, 5)), np.array([[1], [-1], [1]], np.int64), (F, (3, 3, 5)), axis=1, reduction="add"),
            case(("int8", (2, 3, 2, 4)), _COORDINATES, ("int8", (2, 2, 2, 4)), axis=1),
        ),
    ),
    opaque(
        "scattered",
        "A tensor that is one number but for some elements: that number, the others' coordinates, a row for each, and "
        "what stands there.",
        _scattered_type,
        _scattered,
        (SHAPE,),
        cases=(
            case((F, ()), np.array([[1, 0], [2, 3]], np.int32), (F, (2,)), shape=(3, 4)),
            case(("bool", ()), np.array([[4]], np.int64), ("bool", (1,)), shape=(5,)),
            case(("int64", ()), np.array([[1, 0, 33]], np.int32), ("int64", (1,)), shape=(2, 2, 70)),
        ),
    ),
    opaque(
        "tensor_scatter",
        "A cache with new entries written to it along an axis, from a position on that is given for every row of the "
        "batch (0, if left out).",
        _cache_types,
        _cache,
        (
            Attribute("axis", "int", "of the entries", -2),
            Attribute("mode", "string", "what happens at the end", "linear", ("linear", "circular")),
        ),
        cases=(
            case((F, (2, 4, 3)), (F, (2, 2, 3)), np.array([1, 2], np.int64)),
            case((F, (2, 1, 4, 3)), (F, (2, 1, 2, 3)), np.array([3, 7], np.int64), mode="circular"),
            case((F, (2, 4, 3)), (F, (2, 2, 3)), None),
        ),
    ),
)
