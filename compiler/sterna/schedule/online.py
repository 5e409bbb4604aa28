"""Softmax that weights a sum, block by block of its terms: online softmax (M. Milakov and N. Gimelshein, Online
Normalizer Calculation for Softmax, 2018), as a change of tensor expressions.

    out[i] = sum_j exp(s[i, j] - max_j s[i, j]) / sum_j exp(...) v[j]

needs all scores of a row before the first term. With the maximum m of each block of terms b, and the sums

    o[i, b] = sum over j in b of exp(s[i, j] - m[i, b]) v[j]     l[i, b] likewise with 1 for v

it is (sum_b exp(m[i, b] - M) o[i, b]) / (sum_b exp(m[i, b] - M) l[i, b]) with the greatest M of the m, and these sums
over b are `rescaled` ones (`te.expr.Reduce`), which need no M before they begin. So a block of scores can be made, used
and forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from sterna.ir.integer import ZERO, Atom, Int, as_int, ceil_div, of
from sterna.schedule.decisions import StageSchedule
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.tensor import Tensor

Expand = Callable[[Expr], Expr]


@dataclass(frozen=True)
class Weighted:
    """A sum weighted by softmax.

    Args:
        scores: the load of a score in it; value: the other factor; key: the axis that is added up.
    """

    scores: Load
    value: Expr
    key: Axis


def weighted_by_softmax(body: Expr, scores: str, stages: Mapping[str, StageSchedule]) -> Weighted | None:
    """How a body is a sum over one axis, weighted by the softmax of the stage `scores` along it; None if it is not."""

    def expand(node: Expr) -> Expr:
        def rule(inner: Expr, again: Callable[[Expr], Expr]) -> Expr | None:
            state = stages.get(inner.tensor.name) if isinstance(inner, Load) else None
            if state is None or state.name == scores or isinstance(state.body, Reduce):
                return None
            assert isinstance(inner, Load)
            return again(E.substitute_index(state.body, dict(zip(state.tensor.axes, inner.indices, strict=True))))

        return E.rewrite_within(node, rule)

    if not isinstance(body, Reduce) or body.combiner != "sum" or len(body.axes) != 1:
        return None
    term = body.a
    if not isinstance(term, E.Binary) or term.op != "mul":
        return None
    for share, value in ((term.a, term.b), (term.b, term.a)):
        load = _shares(expand(share), scores, stages, expand)
        if load is not None and load.indices[-1] == of(body.axes[0]):
            return Weighted(load, value, body.axes[0])
    return None


def _shares(share: Expr, scores: str, stages: Mapping[str, StageSchedule], expand: Expand) -> Load | None:
    """The score whose share of its row a value is."""
    if not isinstance(share, E.Binary) or share.op not in ("mul", "div"):
        return None
    power, rest = share.a, share.b
    if share.op == "mul":
        if not isinstance(rest, E.Binary) or rest.op != "div" or rest.a != E.const(1, share.dtype):
            return None
        rest = rest.b
    found = _power(power, scores, stages)
    if found is None or not isinstance(rest, Load) or rest.tensor.name not in stages:
        return None
    load, peak = found
    total = stages[rest.tensor.name]
    rows = _reduced(total, "sum", rest)
    # What is added up, and what the greatest is found of, is the row of this score.
    if rows is None or not isinstance(total.body, Reduce):
        return None
    added = _power(expand(total.body.a), scores, stages)
    if added is None or not _same_row(added[0], total, rest, load):
        return None
    greatest = stages[peak.tensor.name]
    if _reduced(greatest, "max", peak) is None or not isinstance(greatest.body, Reduce):
        return None
    element = expand(greatest.body.a)
    if not isinstance(element, Load) or element.tensor.name != scores or not _same_row(element, greatest, peak, load):
        return None
    return load if added[1].tensor.name == peak.tensor.name else None


def _power(value: Expr, scores: str, stages: Mapping[str, StageSchedule]) -> tuple[Load, Load] | None:
    """(score, greatest score) of exp(score - greatest)."""
    if not isinstance(value, E.Unary) or value.op != "exp":
        return None
    off = value.a
    if not isinstance(off, E.Binary) or off.op != "sub" or not isinstance(off.a, Load) or not isinstance(off.b, Load):
        return None
    known = off.a.tensor.name == scores and off.b.tensor.name in stages
    return (off.a, off.b) if known else None


def _reduced(state: StageSchedule, combiner: str, load: Load) -> Reduce | None:
    body = state.body
    plain = isinstance(body, Reduce) and body.combiner == combiner and len(body.axes) == 1
    return body if plain and isinstance(body, Reduce) else None


def _same_row(element: Load, state: StageSchedule, load: Load, score: Load) -> bool:
    """Whether a stage reduces the row of a score: an element of it, seen from where the stage is read."""
    assert isinstance(state.body, Reduce)
    values: dict[Atom, Int] = dict(zip(state.tensor.axes, load.indices, strict=True))
    *row, last = (index.substitute(values) for index in element.indices)
    return tuple(row) == score.indices[:-1] and last == of(state.body.axes[0])


def _at(tensor: Tensor, *place: Int) -> Load:
    return tensor[place]


@dataclass(frozen=True)
class Online:
    """The stages of a weighted sum in blocks.

    Args:
        scores: of a block, -infinity beyond the last; peak: the greatest of each; powers: their exponentials; part:
            the sums of a block; sums: of all of them; body: what the weighted sum becomes.
    """

    scores: Tensor
    peak: Tensor
    powers: Tensor
    part: Tensor
    sums: Tensor
    body: Expr

    @property
    def stages(self) -> tuple[Tensor, ...]:
        return (self.scores, self.peak, self.powers, self.part, self.sums)


def online(stage: Tensor, found: Weighted, block: int, columns: int) -> Online:
    """The stages that replace a weighted sum, whose last axis does not select the scores.

    Args:
        block: terms of a block; columns: of the result that have a column for the sum of weights beside them.
    """
    dtype = stage.dtype
    rows, last = stage.axes[:-1], stage.axes[-1]
    keys = found.key.extent
    blocks, groups = ceil_div(keys, block), ceil_div(last.extent, columns)
    at = found.scores.indices[:-1]

    def axes(*more: Axis) -> tuple[Axis, ...]:
        return (*(Axis(a.name, a.extent) for a in rows), *more)

    def make(name: str, own: tuple[Axis, ...], body: Expr) -> Tensor:
        return Tensor(f"{stage.name}_{name}", tuple(a.extent for a in own), dtype, own, body)

    def moved(own: tuple[Axis, ...]) -> dict[Atom, Int]:
        return {a: of(b) for a, b in zip(rows, own, strict=False)}

    def within(key: Int, value: Expr, otherwise: Expr) -> Expr:
        """A value of a key, and another one for what the last block has beyond the keys."""
        if keys % block == ZERO:
            return value
        return E.select(E.compare("lt", E.index_value(key, "int32"), E.index_value(keys, "int32")), value, otherwise)

    lowest = E.const(-inf, dtype)
    own = axes(Axis("block", blocks), Axis("key", block))
    key = of(own[-2]) * block + of(own[-1])
    element = Load(dtype, tensor=found.scores.tensor, indices=(*(i.substitute(moved(own)) for i in at), key))
    scores = make("scores", own, within(key, element, lowest))

    own, each = axes(Axis("block", blocks)), Axis("key", block, reduction=True)
    peak = make("peak", own, Reduce(dtype, combiner="max", a=scores[tuple(map(of, (*own, each)))], axes=(each,)))

    own = axes(Axis("block", blocks), Axis("key", block))
    places = tuple(map(of, own))
    greatest = peak[places[:-1]]
    # A block of which every score is -infinity has no exponentials but 0.
    shift = E.select(E.compare("eq", greatest, lowest), E.const(0, dtype), greatest)
    powers = make("powers", own, E.unary("exp", scores[places] - shift))

    own = axes(Axis("block", blocks), Axis("group", groups), Axis("column", columns + 1))
    each = Axis("key", block, reduction=True)
    column = of(own[-2]) * columns + of(own[-1])
    key = of(own[-3]) * block + of(each)
    of_weights = E.compare("lt", E.index_value(of(own[-1]), "int32"), E.const(columns, "int32"))
    # Weights beyond the keys are 0, but 0 times a value that is infinite or none is no number.
    given = {**moved(own), last: column, found.key: key}
    value = within(key, E.substitute_index(found.value, given), E.const(0, dtype))
    factor = E.select(of_weights, value, E.const(1, dtype))
    weight = powers[tuple(map(of, (*own[:-2], each)))]
    part = make("part", own, Reduce(dtype, combiner="sum", a=weight * factor, axes=(each,)))

    own = axes(Axis("group", groups), Axis("column", columns + 1))
    each = Axis("block", blocks, reduction=True)
    lead = tuple(map(of, own[:-2]))
    body = Reduce(
        dtype,
        combiner="rescaled",
        a=_at(peak, *lead, of(each)),
        index=_at(part, *lead, of(each), *map(of, own[-2:])),
        axes=(each,),
    )
    sums = make("sums", own, body)
    here = tuple(map(of, rows))
    place = of(last)
    group = place // columns
    result = _at(sums, *here, group, place % columns) / _at(sums, *here, group, as_int(columns))
    return Online(scores, peak, powers, part, sums, result)
