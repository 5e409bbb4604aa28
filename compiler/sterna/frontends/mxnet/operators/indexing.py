"""Elements chosen by positions and by conditions, and parts of sequences."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.emitter import axes_of
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int


def within(t: Translation, indices: Value, size: Int, mode: str = "clip") -> Value:
    """Positions in the range of a dimension: the nearest in it ("clip", "raise"), or counted around ("wrap")."""
    places = t.integral(indices)
    count = t.scalar(int(size), "int64") if size.is_const else t.reshape(t.dimensions([size]), [])
    if mode == "wrap":
        return t.op("mod", places, count)
    places = t.op("maximum", places, t.scalar(0, "int64"))
    return t.op("minimum", places, t.op("sub", count, t.scalar(1, "int64")))


def embedding(t: Translation) -> Value:
    weight = t.input(1)
    t.sizes(weight, 2)
    return t.op("gather", weight, within(t, t.input(0), weight.shape[0]), axis=0)


def take(t: Translation) -> Value:
    x, axis = t.input(0), t.axis("axis", 0)
    mode = t.said.choice("mode", "clip", "clip", "wrap", "raise")
    places = t.input(1)
    if mode == "raise":  # NumPy's: negative ones count from the end
        size = x.shape[axis]
        return t.op("gather", x, t.integral(places), axis=axis) if size else x
    return t.op("gather", x, within(t, places, x.shape[axis], mode), axis=axis)


def pick(t: Translation) -> Value:
    """One element of every row along an axis."""
    x, places = t.input(0), t.input(1)
    rank = x.type.rank
    axis = t.axis("axis", -1) if t.said.given.get("axis", "-1") != "None" else -1
    if axis < 0:
        flat = t.reshape(x, [t.elements(x)])
        return t.op("gather", flat, within(t, places, t.elements(x)), axis=0)
    if places.type.rank == rank - 1:
        places = t.spread(places, axis)
    wanted = tuple(as_int(1) if n == axis else size for n, size in enumerate(x.shape))
    if places.shape != wanted:
        raise error("E0108", f"{t.kind} of {x.type} at {t.input(1).type}")
    mode = t.said.choice("mode", "clip", "clip", "wrap")
    y = t.op("gather_elements", x, within(t, places, x.shape[axis], mode), axis=axis)
    return y if t.said.flag("keepdims") else t.squeezed(y, axis)


def batch_take(t: Translation) -> Value:
    x, places = t.input(0), t.input(1)
    if x.type.rank != 2:
        raise error("E0108", f"{t.kind} takes a matrix, not {x.type}")
    rows = t.reshape(places, [x.shape[0], 1])
    y = t.op("gather_elements", x, within(t, rows, x.shape[1]), axis=1)
    return t.reshape(y, [x.shape[0]])


def gather_nd(t: Translation) -> Value:
    """The coordinates of an element lie along the first dimension."""
    x, places = t.input(0), t.integral(t.input(1))
    return t.op("gather_nd", x, t.moved(places, 0, places.type.rank - 1), batch_dims=0)


def scatter_nd(t: Translation) -> Value:
    """Zeros, but for elements at given coordinates."""
    x, places = t.input(0), t.integral(t.input(1))
    shape = t.said.integers("shape")
    if min(shape, default=1) < 1:
        raise error("E0109", f"{t.kind} to {list(shape)}")
    zeros = t.op("expand", t.number(0, x), shape=tuple(map(as_int, shape)))
    return standard(t, "ScatterND", zeros, t.moved(places, 0, places.type.rank - 1), x)


def one_hot(t: Translation) -> Value:
    places, depth = t.integral(t.input(0)), t.said.integer("depth")
    if not 0 < depth <= 1 << 24:
        raise error("E0109", f"{t.kind} of {depth}")
    dtype = t.dtype("float32")
    same = t.op("equal", t.spread(places, places.type.rank), t.counting(depth))
    on, off = t.said.finite("on_value", 1.0), t.said.finite("off_value", 0.0)
    return t.op("where", same, t.scalar(on, dtype), t.scalar(off, dtype))


def where(t: Translation) -> Value:
    """A vector as the condition chooses rows."""
    condition, a, b = t.truth(t.input(0)), t.input(1), t.input(2)
    if condition.type.rank == 1 and a.type.rank > 1 and not t.kind.startswith("_np"):
        condition = t.along(condition, 0, a.type.rank)
    return t.op("where", condition, a, b)


def where_scalar(t: Translation) -> Value:
    """One choice, or both, are numbers of the settings."""
    condition = t.truth(t.input(0))
    if t.kind.endswith("scalar2"):
        numbers = [t.scalar(t.said.number(name), "float32") for name in ("x", "y")]
        return t.op("where", condition, *numbers)
    x = t.input(1)
    number = t.number(t.said.number("scalar", 0.0), x)
    return t.op("where", condition, number, x) if "lscalar" in t.kind else t.op("where", condition, x, number)


# ---------------------------------------------------------------- sequences
def _lengths(t: Translation, position: int = 1) -> Value | None:
    """How long each sequence is; None if all of it counts."""
    return t.integral(t.input(position)) if t.said.flag("use_sequence_length") else None


def _time(t: Translation) -> tuple[int, int]:
    """The axes of time and of the sequences."""
    axis = t.said.integer("axis", 0)
    if axis not in (0, 1) or t.input(0).type.rank < 2:
        raise error("E0109", f"{t.kind} along dimension {axis} of {t.input(0).type}")
    return axis, 1 - axis


def sequence_mask(t: Translation) -> Value:
    x, lengths = t.input(0), _lengths(t)
    if lengths is None:
        return t.op("identity", x)
    time, batch = _time(t)
    places = t.along(t.counting(x.shape[time]), time, x.type.rank)
    inside = t.op("less", places, t.along(lengths, batch, x.type.rank))
    return t.op("where", inside, x, t.number(t.said.finite("value", 0.0), x))


def sequence_last(t: Translation) -> Value:
    x, lengths = t.input(0), _lengths(t)
    time, batch = _time(t)
    if lengths is None:
        return t.squeezed(t.part(x, time, x.shape[time] - 1, 1), time)
    inner = t.moved(x, batch, 0) if batch else x  # sequences first, then time
    last = t.op("sub", lengths, t.scalar(1, "int64"))
    return t.op("gather_nd", inner, t.reshape(last, [inner.shape[0], 1]), batch_dims=1)


def sequence_reverse(t: Translation) -> Value:
    x, lengths = t.input(0), _lengths(t)
    if lengths is None:
        starts = (x.shape[0] - 1, *([as_int(0)] * (x.type.rank - 1)))
        return t.op("slice", x, starts=starts, sizes=x.shape, steps=(-1, *([1] * (x.type.rank - 1))))
    return standard(t, "ReverseSequence", x, lengths, time_axis=0, batch_axis=1)


def cumulative_sum(t: Translation) -> Value:
    x = t.input(0)
    x = t.cast(x, t.dtype(x.dtype))
    if not t.said.has("axis"):
        return t.op("cumulative_sum", t.reshape(x, [t.elements(x)]), axis=0)
    return t.op("cumulative_sum", x, axis=t.axis("axis"))


def diagonal(t: Translation) -> Value:
    """The diagonal of two dimensions, which becomes the last one, or the matrix of a diagonal."""
    x, k = t.input(0), t.said.integer("k", t.said.integer("offset", 0))
    if x.type.rank == 1:
        (size,) = t.static(x)
        side = size + abs(k)
        if side > 1 << 13:
            raise error("E0109", f"{t.kind} of a matrix of {side} rows")
        before = (max(-k, 0), max(k, 0))
        flat = t.pad(t.spread(x, 1), (0, 0), (0, side))  # an element every side + 1
        flat = t.reshape(flat, [size * (side + 1)])
        flat = t.pad(flat, (before[0] * side + before[1],), (0,))
        whole = max(size * (side + 1) + before[0] * side + before[1], side * side)
        flat = t.pad(flat, (0,), (whole - int(flat.type.elements),))
        return t.reshape(t.part(flat, 0, 0, side * side), [side, side])
    pair = axes_of([t.said.integer(name, n) for n, name in enumerate(("axis1", "axis2"))], x.type.rank)
    if pair[0] == pair[1]:
        raise error("E0109", f"{t.kind} of {x.type} along the dimension {pair[0]} twice")
    rest = [n for n in range(x.type.rank) if n not in pair]
    rows, columns = (t.extent(x, n) for n in pair)
    first = (max(-k, 0), max(k, 0))
    count = min(rows - first[0], columns - first[1])
    if count < 1 and not t.kind.startswith("_np"):
        raise error("E0109", f"{t.kind} {k} of {x.type}")
    places = t.vector([(first[0] + n) * columns + first[1] + n for n in range(count)])
    flat = t.reshape(t.transpose(x, (*rest, *pair)), [*(x.shape[n] for n in rest), rows * columns])
    return t.op("gather", flat, places, axis=len(rest))


TRANSLATORS: dict[str, Translator] = {
    **dict.fromkeys(("Embedding", "_contrib_SparseEmbedding", "_npx_embedding"), embedding),
    "SequenceLast": sequence_last,
    **dict.fromkeys(("SequenceMask", "_npx_sequence_mask"), sequence_mask),
    "SequenceReverse": sequence_reverse,
    "batch_take": batch_take,
    **dict.fromkeys(("cumsum", "_np_cumsum"), cumulative_sum),
    **dict.fromkeys(("diag", "_np_diag"), diagonal),
    **dict.fromkeys(("gather_nd", "_npi_gather_nd", "_npx_gather_nd"), gather_nd),
    **dict.fromkeys(("one_hot", "_npx_one_hot"), one_hot),
    **dict.fromkeys(("pick", "choose_element_0index", "_npx_pick"), pick),
    "scatter_nd": scatter_nd,
    **dict.fromkeys(("take", "_npi_take"), take),
    **dict.fromkeys(("where", "_npi_where"), where),
    **dict.fromkeys(("_npi_where_lscalar", "_npi_where_rscalar", "_npi_where_scalar2"), where_scalar),
}
