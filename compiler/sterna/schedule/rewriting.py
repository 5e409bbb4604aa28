"""What steps of a schedule make of stages: new bodies, and stages of their own. Whether a step is legal is asked
before, in `schedule.schedule`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import NamedTuple

from sterna.ir.division import ceil_div
from sterna.ir.extremum import minimum
from sterna.ir.integer import ZERO, Int, as_int, of
from sterna.schedule.decisions import Derived, Fuse, RaggedTail
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.couples import restored, with_shift
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.position import taken_apart
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


# A search factors a stage the same way in thousands of schedules; what it makes is never changed.
@lru_cache(256)
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


def in_runs(stage: Tensor, reduction: Reduce, many: int, factors: Sequence[int]) -> tuple[list[Tensor], Reduce]:
    """Stages of the terms of a stage's reduction, or of so numbered factors of them, in runs of `many`; and the
    reduction of these, over runs and within each."""
    terms = prod(int(a.extent) for a in reduction.axes)
    run, term = Axis("run", terms // many, reduction=True), Axis("term", many, reduction=True)
    at = taken_apart(reduction.axes, of(run) * many + of(term))
    made: list[Tensor] = []

    @lru_cache
    def apart(value: Expr) -> Expr:
        """An element of a stage of its own, which has those axes of the reduction's stage that the value names; of a
        square the only one."""
        named = E.axes_of(value)
        kept = tuple(a for a in stage.axes if a in named)
        own = {a: Axis(a.name, a.extent) for a in kept}
        runs, within = Axis("run", run.extent), Axis("term", term.extent)
        values = {a: of(b) for a, b in own.items()} | taken_apart(reduction.axes, of(runs) * many + of(within))
        axes = (*own.values(), runs, within)
        name = f"{stage.name}_terms{len(made) + 1 if made else ''}"
        made.append(Tensor(name, tuple(a.extent for a in axes), value.dtype, axes, E.substitute_index(value, values)))
        return made[-1][tuple(of(a) for a in (*kept, run, term))]

    element = reduction.a
    if factors:
        assert isinstance(element, E.Binary)
        both = enumerate((element.a, element.b))
        new = [apart(e) if n in factors else E.substitute_index(e, at) for n, e in both]
        element = replace(element, a=new[0], b=new[1])
    else:
        element = apart(element)
    index = None if reduction.index is None else E.substitute_index(reduction.index, at)
    return made, replace(reduction, a=element, index=index, axes=(run, term))


def gathered(stage: Tensor, reduction: Reduce, factor: Load, name: str) -> tuple[Tensor, Reduce]:
    """A stage of what a factor of a stage's sum of products is, by the axes that it is read by; and the sum that reads
    it."""
    kept = [a for a in (*stage.axes, *reduction.axes) if any(a in i.symbols() for i in factor.indices)]
    own = {a: Axis(a.name, a.extent) for a in kept}
    body = E.substitute_index(factor, {a: of(b) for a, b in own.items()})
    made = Tensor(name, tuple(a.extent for a in kept), factor.dtype, tuple(own.values()), body)
    read = made[tuple(of(a) for a in kept)]
    return made, replace(reduction, a=redirect(reduction.a, factor.tensor.name, lambda _: read))


def filled_up(reduction: Reduce, axis: Axis, multiple: int) -> Reduce:
    """A reduction one of whose axes has as many iterations as are a multiple of a number."""
    longer = Axis(axis.name, ceil_div(axis.extent, multiple) * multiple, reduction=True)
    axes = tuple(longer if a is axis else a for a in reduction.axes)
    return replace(reduction, a=E.substitute_index(reduction.a, {axis: of(longer)}), axes=axes)


def copied(stage: Tensor, body: Expr, name: str) -> Tensor:
    """A stage that computes the same by axes of its own."""
    renamed = {a: Axis(a.name, a.extent) for a in stage.axes}
    computed = E.substitute_index(body, {a: of(b) for a, b in renamed.items()})
    return Tensor(name, stage.shape, stage.dtype, tuple(renamed.values()), computed)


def folded(stage: Tensor, body: Expr, dimension: int, factor: int) -> Tensor:
    """A stage of which a dimension is two, the second of `factor` positions."""
    split = stage.axes[dimension]
    outer, inner = Axis(f"{split.name}.o", ceil_div(split.extent, factor)), Axis(f"{split.name}.i", as_int(factor))
    own = {a: Axis(a.name, a.extent) for a in stage.axes if a is not split}
    axes = [own[a] for a in stage.axes if a is not split]
    axes[dimension:dimension] = [outer, inner]
    values = {**{a: of(b) for a, b in own.items()}, split: of(outer) * factor + of(inner)}
    shape = tuple(a.extent for a in axes)
    return Tensor(stage.name, shape, stage.dtype, tuple(axes), E.substitute_index(body, values))


def folded_at(indices: Sequence[Int], dimension: int, factor: int) -> tuple[Int, ...]:
    """Where an element of a stage is once a dimension of it is folded."""
    at = indices[dimension]
    return (*indices[:dimension], at // factor, at % factor, *indices[dimension + 1 :])


def permuted(stage: Tensor, order: Sequence[int]) -> Tensor:
    """A stage with its dimensions in another order."""
    axes = tuple(stage.axes[d] for d in order)
    return replace(stage, shape=tuple(stage.shape[d] for d in order), axes=axes)


def thinned(stage: Tensor, body: Expr, dimension: int, step: int) -> Tensor:
    """A stage with every `step`-th position of a dimension."""
    axes = [Axis(a.name, ceil_div(a.extent, step) if d == dimension else a.extent) for d, a in enumerate(stage.axes)]
    values = {a: of(b) * (step if d == dimension else 1) for d, (a, b) in enumerate(zip(stage.axes, axes, strict=True))}
    shape = tuple(a.extent for a in axes)
    return Tensor(stage.name, shape, stage.dtype, tuple(axes), E.substitute_index(body, values))


def thinned_at(indices: Sequence[Int], dimension: int, step: int) -> tuple[Int, ...]:
    """Where an element of a stage is once it has every `step`-th position of a dimension alone."""
    return (*indices[:dimension], indices[dimension] // step, *indices[dimension + 1 :])


def with_fused_axes(reduction: Reduce, fuses: Sequence[Fuse]) -> Reduce:
    """A reduction over the axes that fuses make of its own."""
    for fuse in fuses:
        first, second = (next(a for a in reduction.axes if a.name == name) for name in (fuse.first, fuse.second))
        fused = Axis(fuse.fused, first.extent * second.extent, reduction=True)
        values = {first: of(fused) // second.extent, second: of(fused) % second.extent}
        axes = [fused if a is first else a for a in reduction.axes if a is not second]
        reduction = replace(reduction, a=E.substitute_index(reduction.a, values), axes=tuple(axes))
    return reduction


def with_other_sign(x: Expr, w: Load, reduction: Reduce) -> tuple[Reduce, Reduce]:
    """A sum of products x w of which x is read as bytes of the other signedness, and the sum of w alone that is to be
    added to it."""
    signed = x.dtype == "int8"
    flipped = E.unary("flip_sign", E.cast(x, "uint8" if signed else "int8"))
    wide = tuple(E.cast(e, reduction.dtype) for e in (flipped, w))
    rest = wide[1] * E.const(-128 if signed else 128, reduction.dtype)
    return replace(reduction, a=E.binary("mul", *wide)), replace(reduction, a=rest)


def constant_sum(total: Reduce, stage: Tensor) -> tuple[Derived, Callable[[Load], Load]]:
    """A sum of constants, over axes of a stage and those that it reduces, as a constant of its own; and which of its
    elements goes with an element of the stage."""
    kept = tuple(a for a in stage.axes if any(a in i.symbols() for e in E.loads(total.a) for i in e.indices))
    axes = {a: Axis(a.name, a.extent, a.reduction) for a in (*kept, *total.axes)}
    element = E.substitute_index(total.a, {a: of(b) for a, b in axes.items()})
    body = replace(total, a=element, axes=tuple(axes[a] for a in total.axes))
    shape = tuple(a.extent for a in kept) or (as_int(1),)
    lead = tuple(axes[a] for a in kept) or (Axis("one", 1),)
    given = Tensor(f"{stage.name}_offset", shape, total.dtype)
    positions = [stage.axes.index(a) for a in kept]

    def element_for(load: Load) -> Load:
        return given[tuple(load.indices[p] for p in positions) or (as_int(0),)]

    return Derived(replace(given, axes=lead, body=body)), element_for


def sum_with(e: Expr, stage: str) -> tuple[Load, Load] | None:
    """The load of a stage and that of another tensor, if an expression is the sum of both."""
    if isinstance(e, E.Binary) and e.op == "add":
        for a, b in ((e.a, e.b), (e.b, e.a)):
            if isinstance(a, Load) and isinstance(b, Load) and a.tensor.name == stage != b.tensor.name:
                return a, b
    return None


def negation(constant: Tensor) -> Tensor:
    """The stage that negates a constant."""
    axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(constant.shape))
    body = E.unary("neg", constant[tuple(of(a) for a in axes)])
    return Tensor(f"{constant.name}_negated", constant.shape, constant.dtype, axes, body)


def with_longer_rows(constant: Tensor, elements: int) -> tuple[Derived, Tensor]:
    """A constant with so many zeros behind each row, and as what it is read."""
    *outer, n = constant.shape
    axes = tuple(Axis(f"i{d}", size) for d, size in enumerate((*outer, n + elements)))
    *places, last = (of(a) for a in axes)
    at = (*places, minimum(last, n - 1))
    element, zero = constant[at], E.const(0, constant.dtype)
    inside = E.compare("lt", E.index_value(last, "int64"), E.index_value(n, "int64"))
    longer = Tensor(f"{constant.name}_longer", tuple(a.extent for a in axes), constant.dtype)
    return Derived(replace(longer, axes=axes, body=E.select(inside, element, zero))), longer


def is_row(t: Tensor) -> bool:
    """Whether a tensor has positions along its last axis alone."""
    return all(n == 1 for n in t.shape[:-1])


def with_rest(constant: Tensor, rest: Derived) -> Derived:
    """A constant that is added to a sum over couples and the rest that is subtracted from it, one element each for
    every position along their last axes, as one constant."""
    axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(constant.shape))
    taken = rest.stage[(of(axes[-1]),)]
    body = with_shift(constant[tuple(of(a) for a in axes)], taken)
    return Derived(Tensor(f"{constant.name}_corrected", constant.shape, constant.dtype, axes, body), (rest.stage,))


def restored_with(e: Expr, stage: str, constant: Tensor) -> Expr | None:
    """The sum of a stage's sum over couples and a constant, of the one that `with_rest` made of it; None of another
    expression."""
    if (found := sum_with(e, stage)) is None:
        return None
    read, other = found
    return restored(read, constant[other.indices])


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
