"""Products of tensors over any of their dimensions, and what comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sterna.errors import error
from sterna.frontends import rotations
from sterna.frontends.emitter import Emitter
from sterna.frontends.linear_algebra import turned
from sterna.ir.graph import Value


def contracted(t: Emitter, a: Value, b: Value, first: Sequence[int], second: Sequence[int]) -> Value:
    """The sum over dimensions of both; of the others the first operand's come first.

    Raises:
        SternaError: E0108, the sizes of these dimensions differ.
    """
    if len(first) != len(second) or any(a.shape[m] != b.shape[n] for m, n in zip(first, second, strict=True)):
        raise error("E0108", f"{t.kind} of {a.type} and {b.type} over {list(first)} and {list(second)}")
    left = [n for n in range(a.type.rank) if n not in first]
    right = [n for n in range(b.type.rank) if n not in second]
    rows: Any = 1
    inner: Any = 1
    columns: Any = 1
    for n in left:
        rows = a.shape[n] * rows
    for n in first:
        inner = a.shape[n] * inner
    for n in right:
        columns = b.shape[n] * columns
    one = t.reshape(t.transpose(a, (*left, *first)), (rows, inner))
    other = t.reshape(t.transpose(b, (*second, *right)), (inner, columns))
    made = t.op("matmul", one, other)
    return t.reshape(made, [*(a.shape[n] for n in left), *(b.shape[n] for n in right)])


def kronecker(t: Emitter, a: Value, b: Value) -> Value:
    """Every element of `a` times `b`, side by side in every dimension."""
    rank = max(a.type.rank, b.type.rank)
    a, b = (t.reshape(x, (*(1,) * (rank - x.type.rank), *x.shape)) for x in (a, b))
    one = t.reshape(a, [size for n in range(rank) for size in (a.shape[n], 1)])
    other = t.reshape(b, [size for n in range(rank) for size in (1, b.shape[n])])
    return t.reshape(t.op("mul", one, other), [a.shape[n] * b.shape[n] for n in range(rank)])


def inverse_of_any(t: Emitter, x: Value, share: float | Value) -> Value:
    """The pseudo-inverse, without singular values that are at most so large a share of the largest."""
    u, s, v = rotations.singular(t, x)
    largest = t.op("reduce_max", s, axes=(s.type.rank - 1,), keep_dims=True)
    least = t.op("mul", largest, share if isinstance(share, Value) else t.scalar(share, s.dtype))
    counted = t.op("greater", s, least)
    one, zero = t.scalar(1, s.dtype), t.scalar(0, s.dtype)
    inverse = t.op("where", counted, t.op("div", one, t.op("where", counted, s, one)), zero)
    scaled = t.op("mul", v, t.reshape(inverse, (*s.shape[:-1], 1, s.shape[-1])))
    return t.op("matmul", scaled, turned(t, u))


def crossed(t: Emitter, a: Value, b: Value) -> Value:
    """The cross products of vectors of three elements, which the last dimensions are."""

    def moved(x: Value, order: tuple[int, ...]) -> Value:
        return t.op("gather", x, t.constant(order, "int64"), axis=x.type.rank - 1)

    first, second = (1, 2, 0), (2, 0, 1)
    return t.op("sub", t.op("mul", moved(a, first), moved(b, second)), t.op("mul", moved(a, second), moved(b, first)))
