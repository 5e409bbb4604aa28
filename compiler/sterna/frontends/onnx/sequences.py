"""Sequences and optionals of tensors that are resolved at compile time: in the graph only their tensors are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.translation import Translation, axes_of
from sterna.ir.graph import Value


@dataclass(frozen=True)
class TensorList:
    """A sequence, or (`optional`) an optional tensor: of one, or of none. An optional sequence is the sequence."""

    values: tuple[Value, ...]
    optional: bool = False


Operand = Value | TensorList | None
OPERATORS = frozenset(
    (
        "ConcatFromSequence",
        "Optional",
        "OptionalGetElement",
        "OptionalHasElement",
        "SequenceAt",
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceErase",
        "SequenceInsert",
        "SequenceLength",
        "SequenceMap",
        "SplitToSequence",
    )
)


def translate(t: Translation, operands: Sequence[Operand]) -> Value | TensorList:
    """The result of a node that takes or gives sequences or optionals.

    Args:
        t: the node, whose operands are None where they are lists.

    Raises:
        SternaError: E0104, E0107 or E0108.
    """
    op = t.node.op
    first = operands[0] if operands else None
    if op == "Identity" and isinstance(first, TensorList):
        return first
    if op == "SequenceEmpty":
        return TensorList(())
    if op == "Optional":
        return first if isinstance(first, TensorList) else TensorList(() if first is None else (first,), optional=True)
    if op == "SequenceConstruct":
        return TensorList(tuple(t.input(n) for n in range(len(operands))))
    if op == "OptionalHasElement":
        empty = isinstance(first, TensorList) and first.optional and not first.values
        return t.constant(first is not None and not empty, "bool")
    if op == "OptionalGetElement" and isinstance(first, Value):
        return first
    if op == "SplitToSequence":
        return _split(t)
    if not isinstance(first, TensorList):
        raise error("E0104", f"{op} of a sequence that is only known at run time is not supported")
    values = list(first.values)
    if op == "OptionalGetElement":
        if not first.optional:
            return first
        if len(values) != 1:
            raise error("E0108", "OptionalGetElement of an empty optional")
        return values[0]
    if op == "SequenceLength":
        return t.constant(len(values), "int64")
    if op == "SequenceAt":
        return values[_place(t, 1, len(values))]
    if op == "SequenceErase":
        del values[_place(t, 1, len(values)) if t.has(1) else -1]
        return TensorList(tuple(values))
    if op == "SequenceInsert":
        place = t.integer_of(2, "a position") if t.has(2) else len(values)
        if not -len(values) <= place <= len(values):
            raise error("E0108", f"position {place} of a sequence of {len(values)}")
        values.insert(place, t.input(1))
        return TensorList(tuple(values))
    if op == "ConcatFromSequence":
        return _joined(t, values)
    raise error("E0104", f"{op} of a sequence is not supported")


def _place(t: Translation, position: int, count: int) -> int:
    place = t.integer_of(position, "a position")
    if not -count <= place < count:
        raise error("E0108", f"position {place} of a sequence of {count}")
    return place % count


def _split(t: Translation) -> TensorList:
    x = t.input(0)
    sizes = t.static(x)
    (axis,) = axes_of((t.attribute("axis", 0),), len(sizes))
    whole = sizes[axis]
    parts = [1] * whole
    if t.has(1) and not whole and t.input(1).type.rank == 1:
        parts = [0] * int(t.input(1).type.elements)  # whatever it says, there is nothing to split
    elif t.has(1):
        given = t.integers(1, "sizes of parts")
        if t.input(1).type.rank == 0:
            if given[0] < 1:
                raise error("E0108", f"parts of {given[0]} elements")
            parts = [min(given[0], whole - begin) for begin in range(0, whole, given[0])]
        else:
            parts = given
    if sum(parts) != whole or min(parts, default=0) < 0:
        raise error("E0108", f"{whole} elements in parts of {parts}")
    dropped = not t.attribute("keepdims", 1) and not t.has(1)
    values = []
    for begin, size in zip(np.cumsum([0, *parts]).tolist(), parts, strict=False):
        starts = tuple(begin if n == axis else 0 for n in range(len(sizes)))
        taken = tuple(size if n == axis else s for n, s in enumerate(sizes))
        part = t.op("slice", x, starts=starts, sizes=taken, steps=(1,) * len(sizes))
        values.append(t.reshape(part, (*sizes[:axis], *sizes[axis + 1 :])) if dropped else part)
    return TensorList(tuple(values))


def _joined(t: Translation, values: list[Value]) -> Value:
    if not values:
        raise error("E0108", "ConcatFromSequence of an empty sequence")
    rank = values[0].type.rank
    if not t.attribute("new_axis", 0):
        return t.op("concat", *values, axis=axes_of((t.attribute("axis"),), rank)[0])
    (axis,) = axes_of((t.attribute("axis"),), rank + 1)
    wide = [t.reshape(v, (*v.shape[:axis], 1, *v.shape[axis:])) for v in values]
    return t.op("concat", *wide, axis=axis)


def known(table: Mapping[tuple[str, str], object]) -> set[tuple[str, str]]:
    """The operators of a table, and those here."""
    return {*table, *(("", name) for name in OPERATORS)}
