"""Operators that choose elements by their values: they are loop programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sterna.ir.graph import TensorType
from sterna.ir.integer import as_int
from sterna.loops.build import Index, Program, integer, number, product, unflatten
from sterna.ops.operator import Attribute, Operator, Types, case, opaque, unfit
from sterna.ops.sorting import make_heap, ranked, sift_down, sort_heap
from sterna.ops.types import axis_of, present, with_dim
from sterna.te import expr as E
from sterna.te.expr import Expr

Attributes = Mapping[str, Any]


# ---------------------------------------------------------------- top_k
def _top_k_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    (x,) = present(types, 0)
    axis, k = axis_of(attributes["axis"], x.rank), attributes["k"]
    if x.rank == 0:
        raise unfit("a scalar has no elements to choose from")
    if k < 0 or (x.shape[axis].is_const and k > int(x.shape[axis])):
        raise unfit(f"{k} of {x.shape[axis]} elements cannot be chosen")
    shape = with_dim(x.shape, axis, as_int(k))
    return (TensorType(x.dtype, shape), TensorType("int64", shape))


def _top_k(p: Program, attributes: Attributes) -> None:
    x, (values, indices) = p.input(0), p.outputs
    axis, k = axis_of(attributes["axis"], len(x.shape)), attributes["k"]
    extent = x.shape[axis]
    outer = (*x.shape[:axis], *x.shape[axis + 1 :])
    if k == 0:
        return
    with p.tasks(product(outer), "row") as row:
        at = unflatten(row, outer)

        def element(n: Expr) -> Expr:
            where: tuple[Index, ...] = (*at[:axis], n, *at[axis:])
            return x[where]

        def before(i: Expr, j: Expr) -> Expr:
            return ranked(element(i), element(j), i, j, attributes["largest"])

        # A heap of the best k so far; its root is the worst of them, which a better one replaces.
        kind = integer(extent)
        heap = p.array("heap", kind, (k,))
        with p.loop(k, "n") as n:
            heap[n] = number(n, kind)
        make_heap(p, heap, k, before)
        with p.loop(extent, "n", start=k) as n:
            candidate = number(n, kind)
            with p.when(before(candidate, heap[0])):
                heap[0] = candidate
                sift_down(p, heap, E.const(0, kind), E.const(k, kind), before)
        sort_heap(p, heap, k, before)
        with p.loop(k, "n") as n:
            chosen = heap[n]
            to = (*at[:axis], n, *at[axis:])
            values[to] = element(chosen)
            indices[to] = E.cast(chosen, "int64")


F = "float32"
AXIS = Attribute("axis", "int", "where to choose", -1)
OPERATORS: tuple[Operator, ...] = (
    opaque(
        "top_k",
        "The k greatest (or least) elements along an axis in their order, and their positions. Of equal elements the "
        "first comes first; NaN is greater than everything.",
        _top_k_types,
        _top_k,
        (
            Attribute("k", "int", "how many"),
            AXIS,
            Attribute("largest", "bool", "the greatest, or the least", True),
        ),
        cases=(
            case((F, (3, 10)), k=4),
            case((F, (4, 5, 3)), k=2, axis=1, largest=False),
            case(("int32", (2, 20)), k=20, axis=-1, low=0, high=5),
            case(("float16", (7,)), k=1, axis=0),
            case(("uint8", (6, 2)), k=3, axis=0, low=0, high=3),
        ),
    ),
)
