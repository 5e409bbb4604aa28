"""Operators that choose elements by their values: they are loop programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sterna.ir.extremum import minimum
from sterna.ir.graph import TensorType
from sterna.ir.integer import ZERO, Int, as_int
from sterna.loops.build import (
    Array,
    Index,
    ProgramBuilder,
    Variable,
    either,
    equal,
    integer,
    number,
    product,
    unequal,
    unflatten,
)
from sterna.loops.group_sort import coordinates, shared_least
from sterna.loops.groups import GroupBuilder
from sterna.ops.operator import Attribute, Operator, Types, case, opaque, unfit
from sterna.ops.sorting import (
    BLOCK,
    Pairs,
    gather_least,
    greater,
    key_type,
    sort,
    sort_key,
    visit_few,
    visit_least,
)
from sterna.ops.types import axis_of, check_dtype, present, with_dim
from sterna.te import expr as E
from sterna.te.expr import Expr

Attributes = Mapping[str, Any]
FEW = 32  # a row that is not worth screening
FIRST = 8  # so many of a row of at most SHORT elements are found one after the other
SHORT = 256
MEDIUM = 2048  # elements of a row of which a few are kept as they come: slow where each is better than those before it


# ---------------------------------------------------------------- top_k
def _top_k_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    (x,) = present(types, 0)
    if x.rank == 0:
        raise unfit("a scalar has no elements to choose from")
    axis, k = axis_of(attributes["axis"], x.rank), as_int(attributes["k"][0])
    if (k.bounds()[1] or 0) < 0 or ((x.shape[axis] - k).bounds()[1] or 0) < 0:
        raise unfit(f"{k} of {x.shape[axis]} elements cannot be chosen")
    shape = with_dim(x.shape, axis, k)
    return (TensorType(x.dtype, shape), TensorType("int64", shape))


def _top_k(p: ProgramBuilder, attributes: Attributes) -> None:
    x, (values, indices) = p.input(0), p.outputs
    axis, k = axis_of(attributes["axis"], len(x.shape)), as_int(attributes["k"][0])
    extent = x.shape[axis]
    outer = (*x.shape[:axis], *x.shape[axis + 1 :])
    if k == 0:
        return
    most, longest = int(k.bounds()[1] or 1), int(extent.bounds()[1] or 1)
    screened = longest > FEW and 2 * most <= longest
    capacity = min(longest, 2 * most + 4 * BLOCK) + 2 * BLOCK if screened else extent
    with p.places(outer, "row") as at:

        def element(n: Index) -> Expr:
            where: tuple[Index, ...] = (*at[:axis], n, *at[axis:])
            return x[where]

        def key(n: Int) -> Expr:
            return p.let(sort_key(element(n), attributes["largest"]), "key")

        def chosen(n: Int, place: Expr) -> None:
            to = (*at[:axis], n, *at[axis:])
            values[to] = element(place)
            indices[to] = E.cast(place, "int64")

        def row_keys() -> Array:
            row = p.array("row_keys", key_type(x.dtype), (extent,))
            with p.loop(extent, "n") as n:
                row[n] = key(n)
            return row

        if most <= FIRST and most < longest <= (MEDIUM if most == 1 else SHORT):
            visit_least(p, row_keys(), k, chosen)
            return
        if screened:
            # What lies apart is read once: it is looked at twice, and vectors want it side by side.
            read: Callable[[Int], Expr] = key if x.buffer.strides[axis] == 1 else row_keys().__getitem__
        if screened and k.is_const and most <= FIRST and longest <= MEDIUM and (extent.bounds()[0] or 0) >= most:
            visit_few(p, read, extent, most, chosen)
            return
        pairs = Pairs(p, key_type(x.dtype), integer(extent), capacity)
        if screened:
            count = p.bound(gather_least(p, pairs, read, extent, k), capacity)
        else:
            count = extent
            with p.loop(extent, "n") as n:
                pairs.put(n, key(n), number(n, pairs.places.dtype))
        pairs.visit_sorted(count, k, chosen)


def _shared_top_k(p: GroupBuilder, attributes: Attributes) -> bool:
    """The same by groups of threads, which sort a row."""
    x, (values, indices) = p.input(0), p.outputs
    axis, k = axis_of(attributes["axis"], len(x.shape)), as_int(attributes["k"][0])

    def key(row: Int, n: Int) -> Expr:
        return sort_key(x[coordinates(row, n, x.shape, axis)], attributes["largest"])

    def chosen(row: Int, n: Int, place: Expr) -> None:
        to = coordinates(row, n, x.shape, axis)
        values[to] = x[coordinates(row, place, x.shape, axis)]
        indices[to] = E.cast(place, "int64")

    return shared_least(p, x.shape, axis, k, key_type(x.dtype), key, chosen)


# ---------------------------------------------------------------- non_zero, compress
def count_type() -> TensorType:
    return TensorType("int64", ())


def places(attributes: Attributes) -> Int:
    if attributes["size"] < 0:
        raise unfit(f"{attributes['size']} elements")
    return as_int(attributes["size"])


def room(array: Array, dimension: int, count: Variable) -> Expr:
    """Whether there is a place left."""
    return count.value < number(array.shape[dimension], count.dtype)


def _clear_behind(p: ProgramBuilder, array: Array, dimension: int, count: Variable) -> None:
    """Zeros in the places of a dimension that were not filled."""
    first = p.bound(count, array.shape[dimension])
    outer, inner = array.shape[:dimension], array.shape[dimension + 1 :]
    with p.nest(outer) as i, p.loop(array.shape[dimension], "n", start=first) as n, p.nest(inner) as j:
        place: tuple[Index, ...] = (*i, n, *j)
        array[place] = 0


def _non_zero_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    (x,) = present(types, 0)
    return (TensorType("int64", (as_int(x.rank), places(attributes))), count_type())


def _non_zero(p: ProgramBuilder, attributes: Attributes) -> None:
    x, (places, total) = p.input(0), p.outputs
    count = p.variable("count", 0, integer(product(x.shape)))
    with p.nest(x.shape) as i, p.when(unequal(x[i], 0)):
        with p.when(room(places, 1, count)):
            for dimension, place in enumerate(i):
                places[dimension, count] = number(place, "int64")
        count.add(1)
    _clear_behind(p, places, 1, count)
    total[()] = E.cast(count.value, "int64")


def _compress_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    x, condition = present(types, 0, 1)
    check_dtype(condition.dtype, ("bool",))
    if condition.rank != 1:
        raise unfit(f"the condition {condition} is no vector")
    if attributes["axis"] is None:
        return (TensorType(x.dtype, (places(attributes),)), count_type())
    axis = axis_of(attributes["axis"], x.rank)
    return (TensorType(x.dtype, with_dim(x.shape, axis, places(attributes))), count_type())


def _compress(p: ProgramBuilder, attributes: Attributes) -> None:
    x, condition, (kept, total) = p.input(0), p.input(1), p.outputs
    flat = attributes["axis"] is None
    axis = 0 if flat else axis_of(attributes["axis"], len(x.shape))
    extent = product(x.shape) if flat else x.shape[axis]
    count = p.variable("count", 0, integer(extent))
    # Entries beyond the tensor are left out, elements beyond the condition are not chosen.
    length = minimum(condition.shape[0], extent)
    with p.loop(length, "n") as n, p.when(condition[n]):
        with p.when(room(kept, axis, count)):
            place = p.index(count, kept.shape[axis])
            if flat:
                kept[place] = x[unflatten(n, x.shape)]
            else:
                with p.nest((*x.shape[:axis], *x.shape[axis + 1 :])) as i:
                    to: tuple[Index, ...] = (*i[:axis], place, *i[axis:])
                    source: tuple[Index, ...] = (*i[:axis], n, *i[axis:])
                    kept[to] = x[source]
        count.add(1)
    _clear_behind(p, kept, axis, count)
    total[()] = E.cast(count.value, "int64")


# ---------------------------------------------------------------- unique
def _unique_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    (x,) = present(types, 0)
    size = places(attributes)
    shape: tuple[Int, ...] = (size,)
    if attributes["axis"] is None:
        extent = x.elements
    else:
        axis = axis_of(attributes["axis"], x.rank)
        shape, extent = with_dim(x.shape, axis, size), x.shape[axis]
    return (
        TensorType(x.dtype, shape), TensorType("int64", (size,)), TensorType("int64", (extent,)),
        TensorType("int64", (size,)), count_type(),
    )  # fmt: skip


def _unique(p: ProgramBuilder, attributes: Attributes) -> None:
    x, (values, first, inverse, counts, total) = p.input(0), p.outputs
    flat = attributes["axis"] is None
    axis = 0 if flat else axis_of(attributes["axis"], len(x.shape))
    extent = inverse.shape[0]
    rest = () if flat else (*x.shape[:axis], *x.shape[axis + 1 :])
    kind = integer(extent)

    single = all(size == 1 for size in rest)  # elements, or slices of one

    def element(n: Expr | Int, inner: tuple[Int, ...]) -> Expr:
        if flat:
            return x[unflatten(p.index(n, extent), x.shape)]
        where: tuple[Index, ...] = (*inner[:axis], n, *inner[axis:])
        return x[where]

    def key(n: Expr | Int) -> Expr:
        return p.let(sort_key(element(n, (ZERO,) * len(rest)), descending=False))

    def before(i: Expr, j: Expr) -> Expr:
        """In the order of the slices' elements, compared one by one; equal slices by position."""
        result = p.variable("earlier", i < j)
        with p.loop(product(rest), "m") as m:
            inner = unflatten(m, rest)
            a, b = element(i, inner), element(j, inner)
            less, more = p.let(greater(b, a)), p.let(greater(a, b))
            with p.when(either(less, more)):
                result.set(less)
            p.leave_if(either(less, more))
        return result.value

    def same(i: Expr, j: Expr) -> Expr:
        if single:
            return equal(key(i), key(j))
        result = p.variable("same", True, "bool")
        with p.loop(product(rest), "m") as m:
            inner = unflatten(m, rest)
            a, b = element(i, inner), element(j, inner)
            with p.when(either(greater(a, b), greater(b, a))):
                result.set(False)
            p.leave_if(E.unary("logical_not", result.value))
        return result.value

    p.fill(values, 0)
    for array in (first, counts):
        p.fill(array, 0)
    order = p.array("order", kind, (extent,))
    group = p.array("group", kind, (extent,))  # of each element in the order of the groups' values
    if single:
        pairs = Pairs(p, key_type(x.dtype), kind, extent)
        with p.loop(extent, "n") as n:
            pairs.put(n, key(n), number(n, kind))
        pairs.visit_sorted(extent, extent, order.__setitem__)
    else:
        with p.loop(extent, "n") as n:
            order[n] = number(n, kind)
        sort(p, order, extent, before)
    # The first element of a group is the one of the least position.
    count = p.variable("count", 0, kind)
    lead = p.array("lead", kind, (extent,))
    with p.loop(extent, "n") as n:
        here = order[n]
        fresh = p.variable("fresh", True, "bool")
        with p.when(number(n, kind) > 0):
            fresh.set(E.unary("logical_not", same(order[p.index(n - 1, extent)], here)))
        with p.when(fresh.value):
            lead[count] = here
            count.add(1)
        group[here] = count.value - 1
    groups = p.bound(count, extent)
    # Where each group goes: in the order of its values, or in that of its first elements.
    rank = p.array("rank", kind, (extent,))
    if attributes["sorted"]:
        with p.loop(groups, "g") as g:
            rank[g] = number(g, kind)
    else:
        taken = p.variable("taken", 0, kind)
        with p.loop(extent, "n") as n:
            mine = group[n]
            with p.when(E.compare("eq", lead[mine], number(n, kind))):
                rank[mine] = taken.value
                taken.add(1)
    with p.loop(extent, "n") as n:
        place = rank[group[n]]
        inverse[n] = E.cast(place, "int64")
        with p.when(place < number(counts.shape[0], kind)):
            counts[place] = counts[place] + 1
    with p.loop(groups, "g") as g:
        place, source = rank[g], lead[g]
        with p.when(place < number(first.shape[0], kind)):
            first[place] = E.cast(source, "int64")
            if flat:
                values[place] = element(source, ())
            else:
                with p.nest(rest) as i:
                    to: tuple[Index, ...] = (*i[:axis], place, *i[axis:])
                    values[to] = element(source, i)
    total[()] = E.cast(count.value, "int64")


F = "float32"
SIZE = Attribute("size", "int", "places for what is found; the rest is filled, what is too much is left out")
AXIS = Attribute("axis", "int", "where to choose", -1)
OPERATORS: tuple[Operator, ...] = (
    opaque(
        "top_k",
        "The k greatest (or least) elements along an axis in their order, and their positions. Of equal elements the "
        "first comes first; NaN is greater than everything.",
        _top_k_types,
        _top_k,
        (
            Attribute("k", "dims", "how many: one number"),
            AXIS,
            Attribute("largest", "bool", "the greatest, or the least", True),
        ),
        shared=_shared_top_k,
        cases=(
            case((F, (3, 10)), k=(4,)),
            case((F, (4, 5, 3)), k=(2,), axis=1, largest=False),
            case(("int32", (2, 20)), k=(20,), axis=-1, low=0, high=5),
            case(("float16", (7,)), k=(1,), axis=0),
            case(("uint8", (6, 2)), k=(3,), axis=0, low=0, high=3),
            case(np.array([[1, np.nan, 2, np.nan, -np.inf, 2, np.nan]], np.float32), k=(4,)),
            case(np.array([[1, np.nan, 2, np.nan, np.inf, 1, np.nan]], np.float32), k=(6,), largest=False),
            case(np.array([[-128, 127, 127, -128, 0] * 9], np.int8), k=(8,), largest=False),
        ),
    ),
    opaque(
        "non_zero",
        "The coordinates of all elements that are not 0, in row-major order, one column for each; then zeros. And how "
        "many there are.",
        _non_zero_types,
        _non_zero,
        (SIZE,),
        cases=(
            case(("int32", (3, 5)), low=-1, high=2, size=12),
            case(("bool", (4, 2, 2)), size=5),
            case((np.array([0.0, np.nan, -0.0, 2.0], np.float32)), size=2),
        ),
    ),
    opaque(
        "compress",
        "The slices along an axis (or the elements in row-major order) where a condition holds, then zeros. And how "
        "many there are.",
        _compress_types,
        _compress,
        (SIZE, Attribute("axis", "int", "of the slices; None takes elements", None)),
        cases=(
            case((F, (3, 4)), np.array([False, True, True]), axis=0, size=2),
            case((F, (3, 4)), np.array([True, False, True]), axis=1, size=4),
            case(("int16", (2, 3)), np.array([False, True, False, False, True, True, True]), size=3),
        ),
    ),
    opaque(
        "unique",
        "The different elements, or slices along an axis; the position of the first of each; for every element which "
        "it is; how often each occurs; how many there are. NaN equals itself.",
        _unique_types,
        _unique,
        (
            SIZE,
            Attribute("axis", "int", "of the slices; None takes elements", None),
            Attribute("sorted", "bool", "by value, or by first occurrence", True),
        ),
        cases=(
            case(("int32", (3, 5)), low=0, high=5, size=5),
            case(("float32", (12,)), low=-1, high=1, size=12, sorted=False),
            case(np.array([[2, 1, 2], [0, 3, 0]], np.int64), size=3, axis=1),
            case(np.array([[1, 0], [1, 0], [0, 7], [1, 0], [0, 2]], np.float32), size=4, axis=0, sorted=False),
            case(np.array([np.nan, 1, np.nan, 0, 1], np.float32), size=3),
        ),
    ),
)
