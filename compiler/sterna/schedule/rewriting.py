"""What steps of a schedule make of stages: new bodies, and stages of their own. Whether a step is legal is asked
before, in `schedule.schedule`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from sterna.ir.integer import ZERO, Int, as_int, ceil_div, of
from sterna.schedule.decisions import Derived, RaggedTail
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.tensor import Tensor


class Factored(NamedTuple):
    """A reduction in two steps.

    Args:
        partial: a new stage of partial results, one for every lane.
        tail: of its reduction, where the extent is not a multiple of the lanes.
        body: combines the lanes.
    """

    partial: Tensor
    tail: RaggedTail | None
    body: Reduce


def factored(stage: Tensor, reduction: Reduce, parent: Axis, factor: int, name: str, outermost: bool) -> Factored:
    """A stage's reduction by lanes: partial results over every `factor`-th position of an axis, then over the lanes.

    Args:
        stage: whose elements the reduction gives.
        parent: the reduced axis, of which each lane takes part.
        name: of the partial results, whose axis of lanes is the last one, or the first (`outermost`).
    """
    extent = parent.extent
    factor = min(factor, int(extent)) if extent.is_const else factor
    lane = Axis("lane", factor)
    spatial = {a: Axis(a.name, a.extent) for a in stage.axes}
    full, ragged = extent // factor, extent % factor
    blocks = Axis("vector" if parent.name == lane.name else parent.name, ceil_div(extent, factor), reduction=True)
    # Where in a block the part of a tail begins whose size is only known at run time.
    part = None if ragged.is_const else Axis("part", 1, reduction=True)
    others = tuple(Axis(a.name, a.extent, reduction=True) for a in reduction.axes if a is not parent)
    names = dict(zip((a for a in reduction.axes if a is not parent), others, strict=True))
    values = {a: of(b) for a, b in {**spatial, **names}.items()}
    values[parent] = of(blocks) * factor + of(lane) + (ZERO if part is None else Int({(part,): 1}, 0))
    element = E.substitute_index(reduction.a, values)
    reduced = (*others, blocks) if part is None else (*others, blocks, part)
    kept, sizes = [*spatial.values()], [*stage.shape]
    kept.insert(0 if outermost else len(kept), lane)
    sizes.insert(0 if outermost else len(sizes), as_int(factor))
    body = Reduce(reduction.dtype, combiner=reduction.combiner, a=element, axes=reduced)
    partial = Tensor(name, tuple(sizes), stage.dtype, tuple(kept), body)
    tail = None
    if ragged != ZERO:
        tail = RaggedTail(blocks.name, "lane", factor, full, ragged, "" if part is None else part.name)
    rest = Axis("lane", factor, reduction=True)
    at = tuple(of(a) for a in ((rest, *stage.axes) if outermost else (*stage.axes, rest)))
    return Factored(partial, tail, Reduce(reduction.dtype, combiner=reduction.combiner, a=partial[at], axes=(rest,)))


def with_other_sign(x: Expr, w: Load, reduction: Reduce) -> tuple[Reduce, int]:
    """A sum of products x w of which x is read as bytes of the other signedness, and what the sum of w times is to be
    added to it."""
    signed = x.dtype == "int8"
    flipped = E.unary("flip_sign", E.cast(x, "uint8" if signed else "int8"))
    wide = tuple(E.cast(e, reduction.dtype) for e in (flipped, w))
    return replace(reduction, a=E.binary("mul", *wide)), -128 if signed else 128


def sum_of(w: Load, times: int, stage: Tensor, reduction: Reduce) -> tuple[Derived, Callable[[Load], Expr]]:
    """The sum of a constant, a factor of a stage's sum of products, as a constant of its own; and what a load of the
    stage becomes to have it added."""
    kept = tuple(a for a in stage.axes if any(a in i.symbols() for i in w.indices))
    axes = {a: Axis(a.name, a.extent, a.reduction) for a in (*kept, *reduction.axes)}
    weight = E.substitute_index(E.cast(w, reduction.dtype), {a: of(b) for a, b in axes.items()})
    total = Reduce(
        reduction.dtype,
        combiner="sum",
        a=weight * E.const(times, reduction.dtype),
        axes=tuple(axes[a] for a in reduction.axes),
    )
    shape = tuple(a.extent for a in kept) or (as_int(1),)
    lead = tuple(axes[a] for a in kept) or (Axis("one", 1),)
    name = f"{stage.name}_offset"
    given = Tensor(name, shape, reduction.dtype)
    positions = [stage.axes.index(a) for a in kept]

    def corrected(load: Load) -> Expr:
        at = tuple(load.indices[p] for p in positions) or (as_int(0),)
        return E.binary("add", load, given[at])

    return Derived(Tensor(name, shape, reduction.dtype, lead, total)), corrected


def widened(narrow: Load) -> Expr:
    """A number of 16 bits in float32."""
    return E.cast(narrow, "float32")


def widened_bits(narrow: Load) -> Expr:
    """A finite float16 in float32: exponent and fraction are moved into place, the sign is there already, and a factor
    makes up for the other bias, which serves subnormal numbers too."""
    bits = E.cast(E.bitcast(narrow, "int16"), "int32")
    placed = E.binary("and", E.binary("shift_left", bits, E.const(13, "int32")), E.const(~0x70001FFF, "int32"))
    return E.binary("mul", E.bitcast(placed, "float32"), E.const(2.0**112, "float32"))


def redirect(body: Expr, tensor: str, change: Callable[[Load], Expr]) -> Expr:
    return E.rewrite(body, lambda node: change(node) if isinstance(node, Load) and node.tensor.name == tensor else None)


def read_from(body: Expr, tensor: str, copy: Tensor) -> Expr:
    """A body that reads a copy of a tensor in its place, whose elements may be wider before they are widened."""

    def rule(node: Expr) -> Expr | None:
        load = node.a if isinstance(node, E.Cast) else node
        if not isinstance(load, Load) or load.tensor.name != tensor:
            return None
        copied = replace(load, tensor=copy, dtype=copy.dtype)
        return copied if load is node else E.cast(copied, node.dtype)

    return E.rewrite(body, rule)
