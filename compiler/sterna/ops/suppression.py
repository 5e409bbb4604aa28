"""Boxes of a detector that overlap better ones are left out; a loop program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.loops.build import (
    Array,
    ProgramBuilder,
    both,
    equal,
    integer,
    number,
    unequal,
)
from sterna.ops.operator import Attribute, Operator, Types, case, opaque, unfit
from sterna.ops.selection import SIZE, count_type, places, room
from sterna.ops.sorting import (
    BLOCK,
    make_heap,
    ranked,
    sift_down,
)
from sterna.ops.types import check_dtype, present
from sterna.te import expr as E
from sterna.te.expr import Expr

Attributes = Mapping[str, Any]


def _suppression_types(types: Types, attributes: Attributes) -> tuple[TensorType, ...]:
    boxes, scores = present(types, 0, 1)
    check_dtype(boxes.dtype, ("float32", "float64"))
    check_dtype(scores.dtype, ("float32", "float64"))
    for place, kinds in ((2, ("int64",)), (3, ("float32",)), (4, (scores.dtype,))):
        given = types[place] if place < len(types) else None
        if given is not None:
            check_dtype(given.dtype, kinds)
            if given.elements == 0:
                raise unfit(f"a number is {given}, which has no elements")
    if boxes.rank != 3 or scores.rank != 3 or boxes.shape[2] != 4 or scores.shape[2] != boxes.shape[1]:
        raise unfit(f"boxes {boxes} and scores {scores} do not fit")
    return (TensorType("int64", (places(attributes), as_int(3))), count_type())


def _first_element(p: ProgramBuilder, position: int, otherwise: float, dtype: str) -> Expr:
    array = p.inputs[position]
    return E.const(otherwise, dtype) if array is None else array[(0,) * len(array.shape)]


def _suppression(p: ProgramBuilder, attributes: Attributes) -> None:
    boxes, scores, (chosen, total) = p.input(0), p.input(1), p.outputs
    batches, n_boxes, n_classes = boxes.shape[0], boxes.shape[1], scores.shape[1]
    kind = integer(n_boxes)
    most = _first_element(p, 2, 0, "int64")
    limit = p.let(_first_element(p, 3, 0.0, "float32"), "limit")
    p.fill(chosen, -1)
    count = p.variable("count", 0, "int32")
    candidates = p.array("candidates", kind, (n_boxes,))
    rounded_up = (n_boxes + (BLOCK - 1)) // BLOCK * BLOCK
    kept = p.array("kept", boxes.dtype, (4, rounded_up))  # the corners of the boxes that were chosen
    with p.loop(batches, "batch") as batch, p.loop(n_classes, "class") as c:
        found = p.variable("found", 0, kind)
        with p.loop(n_boxes, "n") as n:
            good = None if p.inputs[4] is None else scores[batch, c, n] > _first_element(p, 4, 0.0, scores.dtype)
            with p.when(good if good is not None else E.const(True, "bool")):
                candidates[found] = number(n, kind)
                found.add(1)

        def behind(i: Expr, j: Expr, batch: Int = batch, c: Int = c) -> Expr:
            return ranked(scores[batch, c, j], scores[batch, c, i], j, i, largest=True)

        # The root of the heap is the best box left; most often only a few are looked at.
        n_found = p.bound(found, n_boxes)
        make_heap(p, candidates, n_found, behind)
        n_kept = p.variable("n_kept", 0, kind)
        with p.loop(n_found, "n") as n:
            p.leave_if(E.cast(n_kept.value, "int64") >= most)
            mine = candidates[0]
            left = p.let(number(n_found - n - 1, kind))
            candidates[0] = candidates[left]
            sift_down(p, candidates, E.const(0, kind), left, behind)
            box = _corners(p, boxes, batch, mine, attributes["center_point_box"])
            hidden = p.variable("hidden", 0, "int32")
            # Whole blocks at once: those beyond the boxes kept are empty, and overlap nothing.
            with p.loop(p.bound(n_kept.value + (BLOCK - 1), n_boxes + (BLOCK - 1)) // BLOCK, "m") as m:
                with p.loop(BLOCK, "lane") as lane:
                    other = tuple(kept[side, m * BLOCK + lane] for side in range(4))
                    hidden.set(E.binary("or", hidden.value, E.cast(_overlap(p, box, other, limit), "int32")))
                p.leave_if(unequal(hidden.value, 0))
            with p.when(equal(hidden.value, 0)):
                block = p.bound(n_kept, n_boxes) // BLOCK * BLOCK
                with p.when(equal(n_kept.value, number(block, kind))), p.nest((4, BLOCK)) as (side_, lane):
                    kept[side_, block + lane] = 0.0
                for side, corner in enumerate(box):
                    kept[side, n_kept] = corner
                n_kept.add(1)
                with p.when(room(chosen, 0, count)):
                    for column, value in enumerate((number(batch, "int64"), number(c, "int64"), E.cast(mine, "int64"))):
                        chosen[count, column] = value
                count.add(1)
    total[()] = E.cast(count.value, "int64")


def _corners(p: ProgramBuilder, boxes: Array, batch: Int, n: Expr, centered: bool) -> tuple[Expr, ...]:
    """(least y, least x, greatest y, greatest x) of a box."""
    a, b, c, d = (boxes[batch, n, k] for k in range(4))
    if centered:
        half_width, half_height = c * 0.5, d * 0.5
        corners = (b - half_height, a - half_width, b + half_height, a + half_width)
    else:
        corners = (E.minimum(a, c), E.minimum(b, d), E.maximum(a, c), E.maximum(b, d))
    return tuple(p.let(corner, "corner") for corner in corners)


def _overlap(p: ProgramBuilder, a: tuple[Expr, ...], b: tuple[Expr, ...], limit: Expr) -> Expr:
    """Whether the intersection of two boxes is more than a part of their union."""
    height = p.let(E.minimum(a[2], b[2]) - E.maximum(a[0], b[0]))
    width = p.let(E.minimum(a[3], b[3]) - E.maximum(a[1], b[1]))
    shared = p.let(height * width)
    first, second = p.let((a[2] - a[0]) * (a[3] - a[1])), p.let((b[2] - b[0]) * (b[3] - b[1]))
    union = p.let(first + second - shared)
    real = both(height > 0.0, width > 0.0, first > 0.0, second > 0.0, union > 0.0)
    return both(real, shared / union > E.cast(limit, shared.dtype))


_BOXES = np.array(
    [[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [1, 11.1, 0, 10.1], [0, 100, 1, 101]]],
    np.float32,
)
_SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.75, 0.75, 0.2, 0.5, 0.9]]], np.float32)


def _one(value: float, dtype: str = "float32") -> Any:
    return np.array([value], dtype)


OPERATORS: tuple[Operator, ...] = (
    opaque(
        "non_max_suppression",
        "Boxes in the order of their scores, without those that overlap a better one of their class too much: rows of "
        "batch, class and box, then -1. And how many there are. Operands: boxes [N, B, 4] as two opposite corners "
        "(y, x, y, x) or as center and size (x, y, width, height); scores [N, C, B]; the most boxes of a class (none, "
        "if left out), the greatest overlap as a part of the union (0), the score that must be exceeded.",
        _suppression_types,
        _suppression,
        (SIZE, Attribute("center_point_box", "bool", "boxes are given by center and size", False)),
        cases=(
            case(_BOXES, _SCORES, _one(3, "int64"), _one(0.5), _one(0.2), size=6),
            case(_BOXES, _SCORES, _one(2, "int64"), None, None, size=3),
            case(_BOXES, _SCORES, None, None, None, size=2),
            case(_BOXES, _SCORES, _one(9, "int64"), _one(0.3), None, size=10, center_point_box=True),
        ),
    ),
)
