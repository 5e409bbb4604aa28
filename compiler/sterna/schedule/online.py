"""Softmax that weights a sum, block by block of its terms: online softmax (M. Milakov and N. Gimelshein, Online
Normalizer Calculation for Softmax, 2018), as a change of tensor expressions.

    out[i] = sum_j exp(s[i, j] - max_j s[i, j]) / sum_j exp(...) v[j]

needs all scores of a row before the first term. With the maximum m of each block of terms b, and the sums

    o[i, b] = sum over j in b of exp(s[i, j] - m[i, b]) v[j]     l[i, b] likewise with 1 for v

it is (sum_b exp(m[i, b] - M) o[i, b]) / (sum_b exp(m[i, b] - M) l[i, b]) with the greatest M of the m, and these sums
over b are `rescaled` ones (`te.expr.Reduce`), which need no M before they begin. So a block of scores can be made, used
and forgotten. `online_in_matrices` has sums for fragments of matrices: of 16-bit floats, to which the
exponentials are rounded, into float32; a thread has every few columns of the result, and so its neighbours' beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from sterna.ir import dtypes
from sterna.ir.division import ceil_div
from sterna.ir.extremum import minimum
from sterna.ir.integer import ZERO, Atom, Int, as_int, of
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
        guarded: whether shares that are no number are 0. All shares of a row are numbers, or none is.
    """

    scores: Load
    value: Expr
    key: Axis
    guarded: bool = False


def weighted_by_softmax(body: Expr, scores: str, stages: Mapping[str, StageSchedule]) -> Weighted | None:
    """How a body is a sum over one axis, weighted by the softmax of the stage `scores` along it; None if it is not.
    Where softmax rounds what it has to 16 bits does not matter."""

    def expand(node: Expr) -> Expr:
        def rule(inner: Expr, again: Callable[[Expr], Expr]) -> Expr | None:
            state = stages.get(inner.tensor.name) if isinstance(inner, Load) else None
            if isinstance(inner, E.Cast) and dtypes.is_float(inner.dtype) and dtypes.is_float(inner.a.dtype):
                return again(inner.a)
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
        whole, guarded = _unguarded(expand(share))
        load = _shares(whole, scores, stages, expand)
        if load is not None and load.indices[-1] == of(body.axes[0]):
            return Weighted(load, value, body.axes[0], guarded)
    return None


def _unguarded(share: Expr) -> tuple[Expr, bool]:
    """What a value is where it is a number, and whether it is 0 where it is none."""
    if not isinstance(share, E.Select) or not isinstance(share.a, E.Const) or share.a.value != 0:
        return share, False
    asked = share.condition
    while isinstance(asked, E.Cast) and not dtypes.is_float(asked.a.dtype):
        asked = asked.a
    guarded = isinstance(asked, E.Unary) and asked.op == "isnan" and asked.a == share.b
    return (share.b, True) if guarded else (share, False)


def _shares(share: Expr, scores: str, stages: Mapping[str, StageSchedule], expand: Expand) -> Load | None:
    """The score whose share of its row a value is."""
    if not isinstance(share, E.Binary) or share.op not in ("mul", "div"):
        return None
    power, rest = share.a, share.b
    if share.op == "mul":
        if not isinstance(rest, E.Binary) or rest.op != "div" or not isinstance(rest.a, E.Const) or rest.a.value != 1:
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
        stages: of a block the scores, -infinity beyond the last, the greatest of each, their exponentials, and the sums
            of the block; the sums of all blocks come last.
        body: what the weighted sum becomes.
    """

    stages: tuple[Tensor, ...]
    body: Expr

    @property
    def sums(self) -> Tensor:
        """Of all blocks."""
        return self.stages[-1]


def online(stage: Tensor, found: Weighted, block: int, columns: int, groups: int) -> Online:
    """The stages that replace a weighted sum, whose last axis does not select the scores.

    Args:
        block: terms of a block; columns: of the result that have a column for the sum of weights beside them; groups:
            of so many columns, each of which has every so many-th.
    """
    blocks = _Blocks(stage, found, block)
    dtype, last = stage.dtype, stage.axes[-1]
    scores, peak = blocks.scores(), blocks.peak()
    powers = blocks.powers(dtype)

    own = blocks.axes(Axis("block", blocks.count), Axis("group", groups), Axis("column", columns + 1))
    each = Axis("key", block, reduction=True)
    column = of(own[-1]) * groups + of(own[-2])
    key = of(own[-3]) * block + of(each)
    of_weights = E.compare("lt", E.index_value(of(own[-1]), "int32"), E.const(columns, "int32"))
    # Weights beyond the keys are 0, but 0 times a value that is infinite or none is no number.
    given = {**blocks.moved(own), last: column, found.key: key}
    value = blocks.within(key, E.substitute_index(found.value, given), E.const(0, dtype))
    factor = E.select(of_weights, value, E.const(1, dtype))
    weight = powers[tuple(map(of, (*own[:-2], each)))]
    part = blocks.make("part", own, Reduce(dtype, combiner="sum", a=weight * factor, axes=(each,)))

    own = blocks.axes(Axis("group", groups), Axis("column", columns + 1))
    sums = blocks.rescaled(own, peak, lambda lead, each: _at(part, *lead, each, *map(of, own[-2:])))
    body = blocks.quotient(sums, of(last) % groups, of(last) // groups, columns)
    return Online((scores, peak, powers, part, sums), body)


def online_in_matrices(stage: Tensor, found: Weighted, block: int, groups: int, multiple: int, dtype: str) -> Online:
    """The same, where exponentials and values are matrices of numbers of 16 bits.

    Stages `values` and `weight` of a block are its values, zeros beyond the last, and the sums of its exponentials.

    Args:
        groups: of columns, every so many-th of which are one thread's, with a column for the sum of weights.
        multiple: that the columns of the matrices are filled up to; dtype: of the matrices.
    """
    blocks = _Blocks(stage, found, block)
    wide, last = stage.dtype, stage.axes[-1]
    columns = ceil_div(last.extent, multiple) * multiple
    each_has = ceil_div(columns, groups)
    scores, peak = blocks.scores(), blocks.peak()
    powers = blocks.powers(dtype)

    own, each = blocks.axes(Axis("block", blocks.count)), Axis("key", block, reduction=True)
    added = E.cast(powers[tuple(map(of, (*own, each)))], wide)
    weight = blocks.make("weight", own, Reduce(wide, combiner="sum", a=added, axes=(each,)))

    factor = found.value.a if isinstance(found.value, E.Cast) and found.value.a.dtype == dtype else found.value
    batch = [a for a in blocks.rows if a in E.axes_of(factor)]
    axes = tuple(Axis(a.name, a.extent) for a in batch)
    axes += (Axis("block", blocks.count), Axis("key", block), Axis("column", columns))
    key, column = of(axes[-3]) * block + of(axes[-2]), of(axes[-1])
    inside = column if columns == last.extent else minimum(column, last.extent - 1)
    moved: dict[Atom, Int] = {a: of(b) for a, b in zip(batch, axes, strict=False)}
    value = E.cast(E.substitute_index(factor, {**moved, last: inside, found.key: key}), dtype)
    value = blocks.within(key, value, E.const(0, dtype))
    if inside is not column:
        beside = E.compare("lt", E.index_value(column, "int32"), E.index_value(last.extent, "int32"))
        value = E.select(beside, value, E.const(0, dtype))
    values = blocks.make("values", axes, value)

    own, each = blocks.axes(Axis("block", blocks.count), Axis("column", columns)), Axis("key", block, reduction=True)
    left = powers[tuple(map(of, (*own[:-1], each)))]
    at = [of(own[blocks.rows.index(a)]) for a in batch]
    right = _at(values, *at, of(own[-2]), of(each), of(own[-1]))
    product = E.cast(left, wide) * E.cast(right, wide)
    part = blocks.make("part", own, Reduce(wide, combiner="sum", a=product, axes=(each,)))

    own = blocks.axes(Axis("group", groups), Axis("column", each_has + 1))

    def index(lead: tuple[Int, ...], each: Int) -> Expr:
        of_weights = E.compare("lt", E.index_value(of(own[-1]), "int32"), E.index_value(each_has, "int32"))
        element = _at(part, *lead, each, of(own[-1]) % each_has * groups + of(own[-2]))
        return E.select(of_weights, element, _at(weight, *lead, each))

    sums = blocks.rescaled(own, peak, index)
    body = blocks.quotient(sums, of(last) % groups, of(last) // groups, each_has)
    return Online((scores, peak, powers, weight, values, part, sums), body)


class _Blocks:
    """What both have: the stages of a block of scores, and the sums over all blocks."""

    def __init__(self, stage: Tensor, found: Weighted, block: int):
        self.stage, self.found, self.block = stage, found, block
        self.rows = stage.axes[:-1]
        self.count = ceil_div(found.key.extent, block)

    def axes(self, *more: Axis) -> tuple[Axis, ...]:
        """Those of the rows, and others."""
        return (*(Axis(a.name, a.extent) for a in self.rows), *more)

    def moved(self, own: tuple[Axis, ...]) -> dict[Atom, Int]:
        return {a: of(b) for a, b in zip(self.rows, own, strict=False)}

    def make(self, name: str, own: tuple[Axis, ...], body: Expr) -> Tensor:
        return Tensor(f"{self.stage.name}_{name}", tuple(a.extent for a in own), body.dtype, own, body)

    def within(self, key: Int, value: Expr, otherwise: Expr) -> Expr:
        """A value of a key, and another one for what the last block has beyond the keys."""
        keys = self.found.key.extent
        if keys % self.block == ZERO:
            return value
        return E.select(E.compare("lt", E.index_value(key, "int32"), E.index_value(keys, "int32")), value, otherwise)

    def scores(self) -> Tensor:
        own = self.axes(Axis("block", self.count), Axis("key", self.block))
        key, read = of(own[-2]) * self.block + of(own[-1]), self.found.scores
        at = tuple(i.substitute(self.moved(own)) for i in read.indices[:-1])
        element = E.cast(Load(read.dtype, tensor=read.tensor, indices=(*at, key)), self.stage.dtype)
        self._scores = self.make("scores", own, self.within(key, element, E.const(-inf, self.stage.dtype)))
        return self._scores

    def peak(self) -> Tensor:
        """The greatest score of a block."""
        own, each = self.axes(Axis("block", self.count)), Axis("key", self.block, reduction=True)
        score = self._scores[tuple(map(of, (*own, each)))]
        self._peak = self.make("peak", own, Reduce(self.stage.dtype, combiner="max", a=score, axes=(each,)))
        return self._peak

    def powers(self, dtype: str) -> Tensor:
        """The exponentials, in a type."""
        own = self.axes(Axis("block", self.count), Axis("key", self.block))
        places = tuple(map(of, own))
        greatest, lowest = self._peak[places[:-1]], E.const(-inf, self.stage.dtype)
        # A block of which every score is -infinity has no exponentials but 0.
        shift = E.select(E.compare("eq", greatest, lowest), E.const(0, self.stage.dtype), greatest)
        return self.make("powers", own, E.cast(E.unary("exp", self._scores[places] - shift), dtype))

    def rescaled(self, own: tuple[Axis, ...], peak: Tensor, index: Callable[[tuple[Int, ...], Int], Expr]) -> Tensor:
        """The sums of all blocks, of what a block has at a row."""
        each = Axis("block", self.count, reduction=True)
        lead = tuple(map(of, own[: len(self.rows)]))
        exponent, term = _at(peak, *lead, of(each)), index(lead, of(each))
        body = Reduce(self.stage.dtype, combiner="rescaled", a=exponent, index=term, axes=(each,))
        return self.make("sums", own, body)

    def quotient(self, sums: Tensor, group: Int, column: Int, weights: int | Int) -> Expr:
        """A sum by the sum of its weights; of no keys it is 0, and so is it of a row whose shares are no numbers, where
        these are 0: the sum of its weights is 0 then, or no number."""
        here, keys = tuple(map(of, self.rows)), self.found.key.extent
        whole = _at(sums, *here, group, as_int(weights))
        share = _at(sums, *here, group, column) / whole
        if self.found.guarded:
            return E.select(E.compare("lt", E.const(0, share.dtype), whole), share, E.const(0, share.dtype))
        if (least := keys.bounds()[0]) is not None and least > 0:
            return share
        return E.select(
            E.compare("lt", E.const(0, "int32"), E.index_value(keys, "int32")), share, E.const(0, share.dtype)
        )
