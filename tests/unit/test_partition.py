"""Parts of a stage: together they are the stage, and a border of one constant is cut no further than it has to be."""

from __future__ import annotations

import pytest

from sterna.ir.integer import Int, as_int
from sterna.loops.partition import Part, parts_of
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute, placeholder


def padded(height: int, width: int, edge: int, values: tuple[float, float]) -> Tensor:
    """An image with a border, of one value above and below it and of another to its sides."""
    x = placeholder("x", (height, width))

    def body(h: Int, w: Int) -> Expr:
        inside = E.in_range(w - edge, width)
        row = E.in_range(h - edge, height)
        assert inside is not None
        assert row is not None
        return E.select(row, E.select(inside, x[h - edge, w - edge], values[1]), values[0])

    return compute("padded", (height + 2 * edge, width + 2 * edge), body)


def spans(part: Part) -> list[range]:
    return [range(*cut) for cut in part.ranges if cut is not None]


@pytest.mark.parametrize("values", [(7.0, 7.0), (7.0, 3.0)])
def test_a_border_is_filled_from_edge_to_edge(values: tuple[float, float]) -> None:
    t = padded(4, 6, 2, values)
    assert t.body is not None
    parts = [*parts_of(t.body, t, [a.name for a in t.axes])]
    assert len(parts) == 5
    places = [(h, w) for part in parts for h in spans(part)[0] for w in spans(part)[1]]
    assert sorted(places) == [(h, w) for h in range(8) for w in range(10)]
    for part in parts:
        rows, columns = spans(part)
        image = rows[0] in range(2, 6) and columns[0] in range(2, 8)
        assert isinstance(part.body, E.Load) == image
        if not image:
            assert part.body == E.const(values[0] if rows[0] not in range(2, 6) else values[1], t.dtype)


def test_neighbours_that_differ_stay_apart() -> None:
    """A stage that is 1 on its left half and 2 on its right one."""
    one, two = E.const(1.0, "float32"), E.const(2.0, "float32")

    def body(i: Int, j: Int) -> Expr:
        return E.select(E.compare("lt", E.index_value(j), E.index_value(as_int(4))), one, two)

    t = compute("halves", (2, 8), body)
    assert t.body is not None
    assert [spans(part)[-1] for part in parts_of(t.body, t, [a.name for a in t.axes])] == [range(4), range(4, 8)]
