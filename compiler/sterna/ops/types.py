"""Type rules that many operators share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sterna.ir import dtypes
from sterna.ir.graph import TensorType
from sterna.ir.integer import ONE, Int
from sterna.ir.sizes import equal_wanted
from sterna.ops.operator import TypeRule, Types, unfit

NUMBERS = (*dtypes.FLOATS, *dtypes.SIGNED, *dtypes.UNSIGNED)
SIGNED_NUMBERS = (*dtypes.FLOATS, *dtypes.SIGNED)
INTEGERS = (*dtypes.SIGNED, *dtypes.UNSIGNED)


def present(types: Types, *positions: int) -> tuple[TensorType, ...]:
    """The operands at some positions (all, if none is given), which must be there."""
    chosen = [types[p] if p < len(types) else None for p in positions] if positions else list(types)
    found = tuple(t for t in chosen if t is not None)
    if len(found) != len(chosen):
        raise unfit("an operand is missing")
    return found


def broadcast(shapes: Sequence[tuple[Int, ...]]) -> tuple[Int, ...]:
    """The shape that NumPy's rule gives; dimensions must be provably equal or 1."""
    rank = max((len(s) for s in shapes), default=0)
    result = [ONE] * rank
    for shape in shapes:
        for position, size in enumerate(shape, rank - len(shape)):
            if result[position] == 1:
                result[position] = size
            elif size != 1 and size != result[position]:
                listed = " and ".join("[" + ", ".join(map(str, s)) + "]" for s in shapes)
                raise unfit(f"shapes {listed} do not broadcast", equal_wanted(size, result[position]))
    return tuple(result)


def check_dtype(dtype: str, allowed: Sequence[str]) -> None:
    if dtype not in allowed:
        raise unfit(f"elements of type {dtype} are not allowed, only {', '.join(allowed)}")


def same_dtype(types: Sequence[TensorType]) -> str:
    """The element type all operands share."""
    found = dict.fromkeys(t.dtype for t in types)
    if len(found) != 1:
        raise unfit(f"operands have different element types: {', '.join(found)}")
    return types[0].dtype


def elementwise(allowed: Sequence[str], result: str | None = None, count: int | None = None) -> TypeRule:
    """Operands of one type that broadcast; the result has their type, or `result`."""

    def rule(types: Types, attributes: Mapping[str, Any]) -> tuple[TensorType, ...]:
        operands = present(types)
        if not operands or (count is not None and len(operands) != count):
            raise unfit(f"takes {count if count is not None else 'at least one'} operands, {len(operands)} given")
        dtype = same_dtype(operands)
        check_dtype(dtype, allowed)
        return (TensorType(result or dtype, broadcast([t.shape for t in operands])),)

    return rule


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """A non-negative axis from one that may count from the end."""
    if not -rank <= axis < rank:
        raise unfit(f"{what} {axis} does not exist in a tensor of {rank} dimensions")
    return axis % rank


def normalized_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes in rising order, each non-negative."""
    result = sorted(axis_of(axis, rank) for axis in axes)
    if len(set(result)) != len(result):
        raise unfit(f"axes {list(axes)} name one dimension twice")
    return tuple(result)


def with_dim(shape: tuple[Int, ...], axis: int, size: Int) -> tuple[Int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


Rule = Callable[[Types, Mapping[str, Any]], TensorType]


def single(rule: Rule) -> TypeRule:
    """A rule that gives the one result's type, as a type rule."""
    return lambda types, attributes: (rule(types, attributes),)
