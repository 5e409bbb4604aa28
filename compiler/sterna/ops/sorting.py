"""Orders within loop programs: comparisons that are total, heaps of positions."""

from __future__ import annotations

from collections.abc import Callable

from sterna.ir import dtypes
from sterna.ir.integer import IntLike, as_int
from sterna.loops.build import Array, ProgramBuilder, Variable, both, either, negated, number
from sterna.te import expr as E
from sterna.te.expr import Expr

#: Whether the element at one position comes before that at another; may emit statements.
Before = Callable[[Expr, Expr], Expr]


def greater(a: Expr, b: Expr) -> Expr:
    """a > b in an order in which NaN is the greatest and equal to itself."""
    if not dtypes.is_float(a.dtype):
        return E.cast(a, "int32") > E.cast(b, "int32") if a.dtype == "bool" else a > b
    return either(a > b, both(E.unary("isnan", a), negated(E.unary("isnan", b))))


def ranked(a: Expr, b: Expr, i: Expr, j: Expr, largest: bool) -> Expr:
    """Whether a at position i comes before b at position j: by value, and where they are equal by position."""
    first, second = (a, b) if largest else (b, a)
    return either(greater(first, second), both(negated(greater(second, first)), i < j))


def sift_down(p: ProgramBuilder, heap: Array, start: Expr | Variable, size: Expr | Variable, before: Before) -> None:
    """Restores the order of a heap whose element at `start` may belong further down.

    The root of the heap is the position that comes last. `size` is how many there are, at least one.
    """
    n = heap.shape[0]
    count = p.let(size.value if isinstance(size, Variable) else size)
    hole = p.variable("hole", start.value if isinstance(start, Variable) else start)
    item = heap[hole]
    most = max(int(n.bounds()[1] or 1), 1).bit_length()
    with p.loop(most, "level"):
        left = p.let(hole.value + hole.value + 1)
        p.leave_if(left >= count)
        child = p.variable("child", left)
        with p.when(left + 1 < count), p.when(before(heap[left], heap[left + 1])):
            child.set(left + 1)
        later = heap[child]
        p.leave_if(before(later, item))
        heap[hole] = later
        hole.set(child.value)
    heap[hole] = item


def make_heap(p: ProgramBuilder, heap: Array, size: IntLike, before: Before) -> None:
    """Turns an array of positions into a heap."""
    half = as_int(size) // 2
    with p.loop(half, "n") as n:
        sift_down(p, heap, number(half - 1 - n, heap.dtype), number(as_int(size), heap.dtype), before)


def sort_heap(p: ProgramBuilder, heap: Array, size: IntLike, before: Before) -> None:
    """Turns a heap into the positions in their order."""
    with p.loop(as_int(size) - 1, "n") as n:
        last = as_int(size) - 1 - n
        worst, moved = heap[0], heap[last]
        heap[0] = moved
        heap[last] = worst
        sift_down(p, heap, E.const(0, heap.dtype), number(last, heap.dtype), before)


def sort(p: ProgramBuilder, positions: Array, size: IntLike, before: Before) -> None:
    """Sorts positions."""
    make_heap(p, positions, size, before)
    sort_heap(p, positions, size, before)


__all__ = ["Before", "greater", "make_heap", "ranked", "sift_down", "sort", "sort_heap"]
