"""Bags of embeddings, and tensors of rows that are repeated, joined or reduced in groups."""

from __future__ import annotations

import math

from sterna.errors import error
from sterna.frontends.pytorch.operators.reductions import norm_of
from sterna.frontends.pytorch.operators.scattering import scatter
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int

_SUM, _MEAN, _MAX = 0, 1, 2


def _group_of(t: Translation, starts: Value, count: Int) -> Value:
    """To which group each position belongs, by where groups start."""
    before = t.op("less_equal", t.reshape(starts, (1, starts.shape[0])), t.reshape(t.counting(count), (count, 1)))
    reached = t.op("reduce_sum", t.cast(before, "int64"), axes=(1,), keep_dims=False)
    return t.op("sub", reached, t.scalar(1, "int64"))


def embedding_bag(t: Translation) -> tuple[Value | None, ...]:
    """The sum, the mean or the maximum of the rows of each bag; the padding's row does not count, empty bags give 0."""
    weight, indices = t.tensor("weight"), t.cast(t.tensor("indices"), "int64")
    offsets, mode = t.cast(t.tensor("offsets"), "int64"), t.integer("mode", _SUM)
    padding = t.arg("padding_idx")
    if padding is not None and int(padding) < 0 and "embedding_bag.padding_idx" in t.kind:
        padding = t.extent(weight, 0) + int(padding)
    if t.flag("include_last_offset"):
        offsets = t.cut(offsets, 0, 0, offsets.shape[0] - 1)
    bags, many = offsets.shape[0], indices.shape[0]
    own = _group_of(t, offsets, many)
    rows = t.op("gather", weight, indices, axis=0)
    scales = t.maybe("per_sample_weights")
    if scales is not None:
        rows = t.op("mul", rows, t.reshape(t.cast(scales, rows.dtype), (many, 1)))
    kept = t.full((many,), 1, rows.dtype)
    if padding is not None and int(padding) >= 0:
        kept = t.cast(t.op("logical_not", t.op("equal", indices, t.scalar(int(padding), "int64"))), rows.dtype)
    index, seen = t.reshape(own, (many, 1)), t.op("equal", t.reshape(kept, (many, 1)), t.scalar(1, rows.dtype))
    counts = t.op("scatter_nd", t.full((bags,), 0, rows.dtype), index, kept, reduction="add")
    counts = t.reshape(counts, (bags, 1))
    first = -math.inf if mode == _MAX else 0.0
    rows = t.op("where", seen, rows, t.scalar(first, rows.dtype))
    y = t.full((bags, weight.shape[1]), first, rows.dtype)
    y = t.op("scatter_nd", y, index, rows, reduction="max" if mode == _MAX else "add")
    if mode == _MAX:
        y = t.op("where", t.op("greater", counts, t.scalar(0, y.dtype)), y, t.scalar(0, y.dtype))
    if mode == _MEAN:
        y = t.op("div", y, t.op("maximum", counts, t.scalar(1, y.dtype)))
    said = next(iter(t.results[1:]), None)
    own = t.full((0,), 0, "int64") if said is not None and said.sizes == (0,) else own
    sizes = t.cast(t.reshape(counts, (bags,)), "int64")
    said = next(iter(t.results[2:]), None)
    longer = mode == _SUM if said is None else bags.is_const and said.sizes == (int(bags) + 1,)
    if t.flag("include_last_offset") and longer:
        sizes = t.pad(sizes, (0,), (1,))  # the end of the last bag counts as one more
    return y, own, sizes, None


def shortened_rows(t: Translation) -> Value:
    """A table in which the rows that are looked up are no longer than `max_norm` (embedding_renorm)."""
    table, indices = t.tensor(), t.cast(t.tensor("indices"), "int64")
    rows, many = table.shape[0], indices.type.elements
    used = t.op("scatter_nd", t.full((rows,), 0, "int32"), t.reshape(indices, (many, 1)), t.full((many,), 1, "int32"))
    most = t.scalar(t.number("max_norm"), table.dtype)
    size = norm_of(t, table, t.number("norm_type", 2.0), tuple(range(1, table.type.rank)), True)
    hit = t.op("logical_and", t.reshape(t.cast(used, "bool"), size.shape), t.op("greater", size, most))
    factor = t.op("div", most, t.op("add", size, t.scalar(1e-7, table.dtype)))
    return t.op("mul", table, t.op("where", hit, factor, t.scalar(1, table.dtype)))


def segment_reduce(t: Translation) -> Value:
    """Rows of one length after the other, reduced; those of `offsets` likewise. Empty segments give `initial`."""
    data, axis = t.tensor("data"), t.integer("axis", 0)
    lengths, offsets = t.maybe("lengths"), t.maybe("offsets")
    if axis or data.type.rank < 1 or (lengths is not None and lengths.type.rank != 1):
        raise t.unsupported("along another dimension than the first")
    if offsets is None:
        if lengths is None:
            raise error("E0103", f"{t.kind} lacks lengths and offsets")
        ends = t.op("cumulative_sum", t.cast(lengths, "int64"), axis=0)
        starts, count = t.op("sub", ends, t.cast(lengths, "int64")), lengths.shape[0]
    else:
        count = offsets.shape[0] - 1
        starts, ends = (t.cut(t.cast(offsets, "int64"), 0, first, count) for first in (0, 1))
    kind = str(t.arg("reduce"))
    names = {"max": "amax", "min": "amin"}
    empty = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}.get(kind, 0.0)
    # Rows before the first segment and behind the last one go to one more, which is left out.
    own = _group_of(t, starts, data.shape[0])
    behind = t.op("greater_equal", t.counting(data.shape[0]), t.cut(ends, 0, count - 1, 1))
    outside = t.op("logical_or", behind, t.op("less", own, t.scalar(0, "int64")))
    own = t.op("where", outside, t.as_value(as_int(count), "int64"), own)
    own = t.reshape(own, (data.shape[0], *(1 for _ in data.shape[1:])))
    initial = t.arg("initial")
    if kind == "mean":
        return t.cut(_segment_means(t, data, own, count + 1, initial), 0, 0, count)
    base = t.full((count + 1, *data.shape[1:]), empty if initial is None else initial, data.dtype)
    made = scatter(
        t.having(
            self=base, dim=0, index=t.expand(own, data.shape), src=data, reduce=names.get(kind, kind),
            include_self=initial is not None,
        )
    )  # fmt: skip
    return t.cut(made, 0, 0, count)


def _segment_means(t: Translation, data: Value, own: Value, count: Int, initial: float | None) -> Value:
    """Sums, which begin with `initial`, by the lengths of the segments; without elements it is what is left."""
    index = t.reshape(own, (data.shape[0], 1))
    total = t.full((count, *data.shape[1:]), initial or 0.0, data.dtype)
    total = t.op("scatter_nd", total, index, data, reduction="add")
    ones = t.full((data.shape[0],), 1, data.dtype)
    lengths = t.op("scatter_nd", t.full((count,), 0, data.dtype), index, ones, reduction="add")
    lengths = t.reshape(lengths, (count, *(1 for _ in data.shape[1:])))
    empty = t.op("equal", lengths, t.scalar(0, data.dtype))
    rest = t.scalar(math.nan if initial is None else initial, data.dtype)
    return t.op("where", empty, rest, t.op("div", total, t.op("maximum", lengths, t.scalar(1, data.dtype))))


def index_reduce(t: Translation) -> Value:
    """Slices reduced into those that `index` says."""
    x, source, axis = t.tensor(), t.tensor("source"), t.dim()
    index = t.tensor("index")
    wide = t.reshape(index, [index.type.elements if n == axis else 1 for n in range(x.type.rank)])
    return scatter(t.having(index=t.expand(t.cast(wide, "int64"), source.shape), src=source, dim=axis))


def repeated(t: Translation) -> Value:
    """Each element, or the place of each, as often as `repeats` says. The size of the result must have a bound."""
    counts = t.cast(t.tensor("repeats"), "int64")
    own = t.maybe("self")
    axis = 0
    if own is not None:
        if t.arg("dim") is None:
            own = t.reshape(own, (own.type.elements,))
        else:
            axis = t.dim()
        counts = t.expand(counts, (own.shape[axis],))
    total = t.op("reduce_sum", counts, axes=(0,), keep_dims=False)
    size = _size(t, total, axis)
    ends = t.op("cumulative_sum", counts, axis=0)
    before = t.op("less_equal", t.reshape(ends, (1, ends.shape[0])), t.reshape(t.counting(size), (size, 1)))
    places = t.op("reduce_sum", t.cast(before, "int64"), axes=(1,), keep_dims=False)
    return places if own is None else t.op("gather", own, places, axis=axis)


def _size(t: Translation, total: Value, axis: int) -> Int:
    """The size that is given, or computed within the bounds that the program declares of the result."""
    given = t.arg("output_size")
    if given is not None:
        return t.size_from(given)
    if total.data is not None:
        return as_int(int(total.data))
    most = t.declared_limit(axis)
    if most is None:
        fix = "call repeat_interleave with output_size=, or say a bound by torch._check(result.shape[0] <= n)"
        raise error("E0107", f"{t.kind} of repeats that are computed gives a tensor without an upper bound", fix=fix)
    return t.bind(total, 0, most)


def joined_blocks(t: Translation) -> Value:
    """Matrices along the diagonal of one (block_diag)."""
    parts = [t.reshape(x, ((1,) * (2 - x.type.rank)) + x.shape) for x in t.tensors("tensors")]
    width = sum((x.shape[1] for x in parts), start=as_int(0))
    rows, left = [], as_int(0)
    for x in parts:
        rows.append(t.pad(x, (0, left), (0, width - left - x.shape[1])))
        left = left + x.shape[1]
    return t.op("concat", *rows, axis=0) if len(rows) > 1 else rows[0]


def padded_rows(t: Translation) -> Value:
    """Sequences of different lengths as one tensor (pad_sequence)."""
    parts, value = t.tensors("sequences"), t.number("padding_value", 0.0)
    longest = max(t.extent(x, 0) for x in parts)
    left = str(t.arg("padding_side", "right")) == "left"
    rows = []
    for x in parts:
        none, more = [0] * x.type.rank, [longest - t.extent(x, 0)] + [0] * (x.type.rank - 1)
        rows.append(t.unsqueeze(t.pad(x, more if left else none, none if left else more, value), 0))
    y = t.op("concat", *rows, axis=0) if len(rows) > 1 else rows[0]
    return y if t.flag("batch_first") else t.transpose(y, (1, 0, *range(2, y.type.rank)))


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(embedding_bag, "embedding_bag.default", "embedding_bag.padding_idx", "_embedding_bag.default",
             "_embedding_bag_forward_only.default"),
    **_named(shortened_rows, "embedding_renorm.default"),
    **_named(segment_reduce, "segment_reduce.default"), **_named(index_reduce, "index_reduce.default"),
    **_named(repeated, "repeat_interleave.Tensor", "repeat_interleave.self_Tensor"),
    **_named(joined_blocks, "block_diag.default"),
    **_named(padded_rows, "pad_sequence.default"),
}  # fmt: skip

__all__ = ["TRANSLATORS", "repeated"]
