"""Rescaled sums: with every term comes an exponent, and the sum is of exp(exponent - the greatest exponent) times it.

The greatest so far is kept beside the sum. An iteration finds first what the sum is multiplied by, and what the term.
Axes of the stage that the exponent does not depend on share these.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod

from sterna.ir.integer import ZERO, Atom, Int, of
from sterna.ir.memory import REGISTER
from sterna.loops import program as P
from sterna.loops.bodies import Bodies, Place
from sterna.loops.nest import Cursor, Nest, Phase
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Reduce
from sterna.te.layout import dense_strides

#: What is kept, by the end of its name: the greatest exponent so far, and what sum and term are multiplied by.
KEPT = ("greatest", "of_sum", "of_term")


def kept(bodies: Bodies, nest: Nest) -> tuple[list[P.Stmt], dict[str, Place]]:
    """Storage beside the sums of a nest, in registers, and its first values."""
    body, name = _body(bodies, nest), nest.stage.name
    own = _own(nest, body)
    shape = tuple(nest.extent(a.name) for a in own)
    places: dict[str, Place] = {}
    stmts: list[P.Stmt] = []
    for each in KEPT:
        elements = prod(int(n) for n in shape)
        buffer = P.Buffer(
            bodies.unique(f"{name}_{each}"), body.a.dtype, shape, dense_strides(shape), elements, REGISTER
        )
        places[f"{name}_{each}"] = Place(buffer, tuple(_least(nest, a) for a in own))
        stmts.append(P.Alloc(buffer))
    lowest = E.const(-inf, body.a.dtype)
    first = places[f"{name}_{KEPT[0]}"]
    stmts.append(_loops(bodies, nest, own, lambda values: P.Store(first.buffer, _offset(first, own, values), lowest)))
    return stmts, places


def factors(bodies: Bodies, cursor: Cursor) -> P.Stmt | None:
    """What an iteration of a rescaled sum begins with: the greatest exponent with this one, and what sum and term are
    multiplied by. None where the cursor is at no such iteration."""
    nest, computed = cursor.nest, bodies.bodies[cursor.nest.stage.name]
    adds = isinstance(computed, Reduce) and computed.combiner == "rescaled" and cursor.phase is Phase.UPDATE
    if not adds or cursor.leaf not in nest.stage.reduction_leaves:
        return None
    body, name = _body(bodies, nest), nest.stage.name
    own, dtype = _own(nest, body), body.a.dtype
    greatest, of_sum, of_term = (bodies.places[f"{name}_{each}"] for each in KEPT)

    def step(values: dict[Atom, Int]) -> P.Stmt:
        known: dict[Atom, Int] = {**values, **{a: nest.value(a.name) or ZERO for a in body.axes}}
        exponent = bodies.resolved(body.a, known)
        at = _offset(greatest, own, values)
        before = E.Load(dtype, tensor=greatest.buffer, indices=(at,))
        after = E.maximum(before, exponent)
        # Where all were -infinity so far, nothing was added.
        shift = E.select(E.compare("eq", after, E.const(-inf, dtype)), E.const(0, dtype), after)
        return P.seq(
            P.Store(of_sum.buffer, at, E.unary("exp", before - shift)),
            P.Store(of_term.buffer, at, E.unary("exp", exponent - shift)),
            P.Store(greatest.buffer, at, after),
        )

    return _loops(bodies, nest, own, step)


def _body(bodies: Bodies, nest: Nest) -> Reduce:
    body = bodies.bodies[nest.stage.name]
    assert isinstance(body, Reduce)
    assert body.combiner == "rescaled"
    return body


def _own(nest: Nest, body: Reduce) -> list[Axis]:
    """The axes of the stage that the exponent depends on."""
    named = E.axes_of(body.a)
    return [a for a in nest.stage.tensor.axes if a in named]


def _least(nest: Nest, axis: Axis) -> Int:
    return nest.region.least[nest.stage.tensor.axes.index(axis)]


def _offset(place: Place, own: list[Axis], values: dict[Atom, Int]) -> Int:
    return place.offset([values[a] for a in own])


def _loops(bodies: Bodies, nest: Nest, own: list[Axis], statement: Callable[[dict[Atom, Int]], P.Stmt]) -> P.Stmt:
    """A statement for all positions along some axes, as far as no loop is around it that has them."""
    values: dict[Atom, Int] = {}
    loops = []
    for axis in own:
        known = nest.value(axis.name)
        extent = nest.extent(axis.name)
        if known is None:
            symbol = bodies.symbol(nest.stage, axis.name, extent)
            loops.append((symbol, extent))
            known = of(symbol)
        values[axis] = _least(nest, axis) + known
    body = statement(values)
    for symbol, extent in reversed(loops):
        body = P.For(symbol, extent, "unrolled", body)
    return body
