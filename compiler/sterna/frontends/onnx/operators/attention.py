"""Attention as ONNX Runtime fuses it (com.microsoft): one node for projections, heads, masks, cached keys and values.

Definitions: ContribOperators.md of ONNX Runtime. Caches are ordinary operands and results here: what a node is given as
the past comes back, with the new keys and values after it, as the present.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.operators.quantization import product
from sterna.frontends.onnx.operators.shapes import cut
from sterna.frontends.onnx.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import Int, IntLike, as_int

_LOWEST = float(np.finfo(np.float32).min)


def part(t: Translation, x: Value, axis: int, start: IntLike, size: IntLike) -> Value:
    """Some elements along one dimension."""
    axis %= x.type.rank
    starts: list[IntLike] = [0] * x.type.rank
    sizes: list[IntLike] = list(x.shape)
    starts[axis], sizes[axis] = start, size
    return cut(t, x, starts, sizes)


def count_to(t: Translation, size: IntLike, dtype: str = "int64") -> Value:
    """0, 1, 2 ..."""
    return t.op("arange", start=0, step=1, size=(as_int(size),), to=dtype)


def root_normalized(t: Translation, x: Value, gamma: Value, epsilon: float) -> Value:
    """x over the root of the mean of its squares, along the last dimension, times gamma."""
    mean = t.op("reduce_mean", t.op("mul", x, x), axes=(x.type.rank - 1,), keep_dims=True)
    root = t.op("sqrt", t.op("add", mean, t.scalar(epsilon, x.dtype)))
    return t.op("mul", t.op("div", x, root), gamma)


# ---------------------------------------------------------------- heads, masks, softmax
def _heads(t: Translation, x: Value, heads: int) -> Value:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    if x.type.rank != 3:
        raise error("E0108", f"{t.node.op} takes tensors of 3 dimensions, not {x.type}")
    width = _known(t, x.shape[2])
    if heads < 1 or width % heads:
        raise error("E0109", f"{width} elements do not make {heads} heads")
    return t.transpose(t.reshape(x, (*x.shape[:2], heads, width // heads)), (0, 2, 1, 3))


def _known(t: Translation, size: Int) -> int:
    if not size.is_const:
        raise error("E0107", f"{t.node.op} needs constant sizes", f"{size} is not")
    return int(size)


def _joined(t: Translation, x: Value) -> Value:
    """(batch, heads, length, size) as (batch, length, heads * size)."""
    batch, heads, length, size = x.shape
    return t.reshape(t.transpose(x, (0, 2, 1, 3)), (batch, length, heads * size))


def _plus(t: Translation, a: Value | None, b: Value | None) -> Value | None:
    return b if a is None else a if b is None else t.op("add", a, b)


def _scores(t: Translation, q: Value, k: Value, scale: float) -> Value:
    scores = t.op("matmul", q, t.transpose(k, (0, 1, 3, 2)))
    return t.op("mul", scores, t.scalar(scale, scores.dtype))


def _attended(t: Translation, q: Value, k: Value, v: Value, bias: Value | None) -> Value:
    """softmax(q k^T scale + bias) v of tensors (batch, heads, length, size), as (batch, length, heads * size)."""
    scale = t.attribute("scale", 0.0) or 1 / math.sqrt(_known(t, q.shape[3]))
    scores = _plus(t, _scores(t, q, k, scale), bias)
    assert scores is not None
    return _joined(t, t.op("matmul", t.op("softmax", scores, axis=-1), v))


def _mask_bias(
    t: Translation, mask: Value | None, batch: IntLike, dtype: str, past: IntLike, total: Int
) -> Value | None:
    """What is added to the scores where a mask hides a key.

    Args:
        mask: numbers of keys (batch,); their ends and beginnings (2 batch,); (3 batch + 2,), of which the first count;
            or not 0 where a key is seen, as (batch, total), (batch, length, total) or (batch, 1, most, most).
        past: positions before the first query.
    """
    if mask is None:
        return None
    if mask.type.rank == 1:
        places = t.reshape(count_to(t, total), (1, 1, 1, total))
        wide, many = t.cast(mask, "int64"), as_int(batch)

        def bound(start: IntLike) -> Value:
            return t.reshape(part(t, wide, 0, start, many), (many, 1, 1, 1))

        kept = t.op("less", places, bound(0))
        if mask.shape[0] == many * 2 and mask.shape[0] != many:
            kept = t.op("logical_and", kept, t.op("less_equal", bound(many), places))
        elif mask.shape[0] not in (many, many * 3 + 2):
            raise error("E0108", f"a mask of {mask.type} for {many} sequences")
    elif mask.type.rank == 2:
        kept = t.reshape(t.cast(mask, "bool"), (mask.shape[0], 1, 1, mask.shape[1]))
    elif mask.type.rank == 3:
        kept = t.reshape(t.cast(mask, "bool"), (mask.shape[0], 1, *mask.shape[1:]))
    elif mask.type.rank == 4:
        kept = part(t, part(t, t.cast(mask, "bool"), 2, past, total - past), 3, 0, total)
    else:
        raise t.unsupported(f"with a mask of {mask.type}")
    far = t.attribute("mask_filter_value", -10000.0)
    return t.op("where", kept, t.scalar(0, dtype), t.scalar(far, dtype))


def _causal(
    t: Translation, bias: Value | None, dtype: str, past: IntLike, length: IntLike, total: IntLike
) -> Value | None:
    """Hides keys after the query's own position."""
    if not t.attribute("unidirectional", 0):
        return bias
    rows = t.reshape(t.op("add", count_to(t, length), t.dimensions([as_int(past)])), (length, 1))
    seen = t.op("less_equal", t.reshape(count_to(t, total), (1, total)), rows)
    return _plus(t, bias, t.op("where", seen, t.scalar(0, dtype), t.scalar(_LOWEST, dtype)))


# ---------------------------------------------------------------- Attention, QAttention
def _split_attention(
    t: Translation, y: Value, sizes: Sequence[int], mask: int, past: int, bias: int
) -> tuple[Value | None, ...]:
    """Attention of projected queries, keys and values side by side; the last arguments are positions of operands."""
    heads, parts, begin = t.attribute("num_heads", 0), [], 0
    for size in sizes:
        parts.append(_heads(t, part(t, y, 2, begin, size), heads))
        begin += size
    q, k, v = parts
    before: IntLike = 0
    if t.has(past):
        given = t.input(past)
        if given.type.rank != 5 or given.shape[0] != 2:
            raise error("E0108", f"a past of {given.type}, not (2, batch, heads, length, size)")
        before = given.shape[3]
        halves = (t.reshape(part(t, given, 0, n, 1), given.shape[1:]) for n in range(2))
        k, v = (t.op("concat", old, new, axis=2) for old, new in zip(halves, (k, v), strict=True))
    present = None
    if len(t.used) > 1 and t.used[1]:
        present = t.op("concat", *(t.reshape(x, (1, *x.shape)) for x in (k, v)), axis=0)
    length, total = q.shape[2], k.shape[2]
    hidden = _mask_bias(t, t.optional(mask), q.shape[0], y.dtype, before, total)
    hidden = _causal(t, hidden, y.dtype, before, length, total)
    if bias >= 0:
        hidden = _plus(t, t.optional(bias), hidden)
    return (_attended(t, q, k, v, hidden), present)


def _refuse(t: Translation, *names: str) -> None:
    for name in names:
        if t.attribute(name, 0):
            raise t.unsupported(f"with {name}")


def attention(t: Translation) -> tuple[Value | None, ...]:
    _refuse(t, "past_present_share_buffer", "do_rotary")
    if t.has(6):
        raise t.unsupported("with past_sequence_length")
    x, w = t.input(0), t.input(1)
    width = _known(t, w.shape[-1])
    sizes = t.attribute("qkv_hidden_sizes") or (width // 3,) * 3
    y = t.op("matmul", x, w)
    if t.has(2):
        y = t.op("add", y, t.input(2))
    return _split_attention(t, y, sizes, 3, 4, 5)


def quantized_attention(t: Translation) -> tuple[Value | None, ...]:
    """The projection in integers, everything else in floats."""
    _refuse(t, "past_present_share_buffer", "do_rotary")
    x, w, bias, x_scale, w_scale = (t.input(n) for n in range(5))
    zeros = [t.optional(n) for n in (6, 7)]
    zeros = [t.reshape(z, ()) if z is not None and z.type.elements == 1 else z for z in zeros]
    scale = t.op("mul", t.reshape(x_scale, ()), t.reshape(w_scale, ()) if w_scale.type.elements == 1 else w_scale)
    y = t.op("mul", t.cast(product(t, x, w, *zeros), bias.dtype), scale)
    return _split_attention(t, t.op("add", y, bias), (_known(t, w.shape[-1]) // 3,) * 3, 5, 8, -1)


# ---------------------------------------------------------------- MultiHeadAttention
def _unpacked(t: Translation, x: Value, many: int) -> list[Value]:
    """Of (batch, length, heads, many, size): each of the many as (batch, heads, length, size)."""
    batch, length, heads, _, size = x.shape
    return [
        t.transpose(t.reshape(part(t, x, 3, n, 1), (batch, length, heads, size)), (0, 2, 1, 3)) for n in range(many)
    ]


def multi_head_attention(t: Translation) -> tuple[Value | None, ...]:
    heads = t.attribute("num_heads", 0)
    for position, name in ((8, "past_sequence_length"), (9, "cache_indirection")):
        if t.has(position):
            raise t.unsupported(f"with {name}")
    if not t.has(1):
        if t.input(0).type.rank != 5:
            raise error("E0108", f"packed queries, keys and values of {t.input(0).type}")
        q, k, v = _unpacked(t, t.input(0), 3)
    elif not t.has(2):
        q = _heads(t, t.input(0), heads)
        k, v = _unpacked(t, t.input(1), 2)
    else:
        q, k, v = (_heads(t, x, heads) if x.type.rank == 3 else x for x in (t.input(n) for n in range(3)))
    if t.has(3):
        # A key or value of four dimensions is the output of another node, and has its bias already.
        begin: IntLike = 0
        parts = []
        for n, x in enumerate((q, k, v)):
            width = x.shape[1] * x.shape[3]
            own = part(t, t.input(3), 0, begin, width)
            given = t.optional(n)
            done = n > 0 and given is not None and given.type.rank == 4
            parts.append(x if done else t.op("add", x, t.reshape(own, (1, x.shape[1], 1, x.shape[3]))))
            begin = width + begin
        q, k, v = parts
    past: IntLike = 0
    if t.has(6) and t.has(7):
        past = t.input(6).shape[2]
        k, v = (t.op("concat", t.input(n), x, axis=2) for n, x in ((6, k), (7, v)))
    length, total = q.shape[2], k.shape[2]
    bias = _mask_bias(t, t.optional(4), q.shape[0], q.dtype, past, total)
    bias = _plus(t, t.optional(5), _causal(t, bias, q.dtype, past, length, total))
    if len(t.used) > 3 and t.used[3]:
        raise t.unsupported("with the scores as a result")
    return (_attended(t, q, k, v, bias), k, v, None)


# ---------------------------------------------------------------- rotary embedding
def rotated(t: Translation, x: Value, positions: Value, cosines: Value, sines: Value, interleaved: bool) -> Value:
    """Pairs of elements of (batch, heads, length, size) turned by the angle of their position (Su et al., RoFormer).

    Args:
        positions: (batch or 1, length).
        cosines, sines: (positions, turned / 2); elements of a head beyond `turned` stay.
    """
    batch, heads, length, size = x.shape
    half = _known(t, cosines.shape[1])
    turned, rest = half * 2, _known(t, size) - half * 2
    if rest < 0:
        raise error("E0108", f"angles of {cosines.type} for heads of {size} elements")

    def chosen(table: Value) -> Value:
        rows = t.op("gather", table, positions, axis=0)
        return t.reshape(rows, (positions.shape[0], 1, length, half))

    cosine, sine = chosen(cosines), chosen(sines)
    y = part(t, x, 3, 0, turned)
    if interleaved:
        pairs = t.reshape(y, (batch, heads, length, half, 2))
        a, b = (t.reshape(part(t, pairs, 4, n, 1), (batch, heads, length, half)) for n in range(2))
    else:
        a, b = part(t, y, 3, 0, half), part(t, y, 3, half, half)
    first = t.op("sub", t.op("mul", a, cosine), t.op("mul", b, sine))
    second = t.op("add", t.op("mul", a, sine), t.op("mul", b, cosine))
    if interleaved:
        wide = (batch, heads, length, half, 1)
        y = t.op("concat", t.reshape(first, wide), t.reshape(second, wide), axis=4)
        y = t.reshape(y, (batch, heads, length, turned))
    else:
        y = t.op("concat", first, second, axis=3)
    return y if not rest else t.op("concat", y, part(t, x, 3, turned, rest), axis=3)


def rotary_embedding(t: Translation) -> Value:
    _refuse(t, "is_packed_batching")
    if t.attribute("scale", 1.0) != 1.0:
        raise t.unsupported("with a scale")
    x, positions, cosines, sines = (t.input(n) for n in range(4))
    if x.type.rank == 3:
        width = _known(t, x.shape[2])
        heads = t.attribute("num_heads", 0) or width // (2 * _known(t, cosines.shape[1]))
        y = _heads(t, x, heads)
    elif x.type.rank == 4:
        y = x
    else:
        raise error("E0108", f"RotaryEmbedding of {x.type}")
    positions = t.cast(positions, "int64")
    if positions.type.rank == 1:
        length = y.shape[2]
        positions = t.op("add", t.reshape(positions, (1, 1)), t.reshape(count_to(t, length), (1, length)))
    y = rotated(t, y, positions, cosines, sines, bool(t.attribute("interleaved", 0)))
    return y if x.type.rank == 4 else _joined(t, y)


# ---------------------------------------------------------------- GroupQueryAttention
class _Grouped:
    """A GroupQueryAttention: several heads of queries share one head of keys and values, which a cache holds.

    The cache has a fixed capacity; new keys and values follow the `before` valid ones of each sequence.
    """

    def __init__(self, t: Translation):
        self.t = t
        self.heads, self.shared = t.attribute("num_heads", 0), t.attribute("kv_num_heads", 0)
        if self.heads < 1 or self.shared < 1 or self.heads % self.shared:
            raise error("E0109", f"{self.heads} heads of queries for {self.shared} of keys and values")
        _refuse(t, "qk_output", "kv_cache_bit_width", "sliding_window_cache")
        if any(t.attribute(name, "NONE") not in ("NONE", "") for name in ("k_quant_type", "v_quant_type")):
            raise t.unsupported("with quantized keys and values")
        x = t.input(0)
        if t.has(1):
            q, k, v = x, t.input(1), t.input(2)
        else:
            size = _known(t, x.shape[2]) // (self.heads + 2 * self.shared)
            widths = [self.heads * size, self.shared * size, self.shared * size]
            q, k, v = (part(t, x, 2, sum(widths[:n]), widths[n]) for n in range(3))
        self.q = _heads(t, q, self.heads)
        self.k, self.v = (_heads(t, y, self.shared) for y in (k, v))
        self.batch, self.length = self.q.shape[0], self.q.shape[2]

    def translate(self) -> tuple[Value | None, ...]:
        t = self.t
        capacity = t.input(3).shape[2] if t.has(3) else as_int(0)
        total = self._total(capacity)
        seen = t.op("add", t.reshape(t.cast(t.input(5), "int64"), (self.batch, 1)), t.scalar(1, "int64"))
        # Where the queries are the whole sequence, shorter ones of a batch are filled up after their end.
        before = t.op("maximum", t.op("sub", seen, t.dimensions([self.length])), t.scalar(0, "int64"))
        positions = t.op("add", before, t.reshape(count_to(t, self.length), (1, self.length)))
        q, k = self.q, self.k
        if t.has(14) and t.has(15):
            epsilon = t.attribute("qk_norm_epsilon", 1e-6)
            q, k = (root_normalized(t, x, t.input(n), epsilon) for x, n in ((q, 14), (k, 15)))
        if t.attribute("do_rotary", 0):
            places = t.cast(t.input(9), "int64") if t.has(9) else positions
            turn = bool(t.attribute("rotary_interleaved", 0))
            q, k = (rotated(t, x, places, t.input(7), t.input(8), turn) for x in (q, k))
        present_k, present_v = (self._present(3 + n, x, before, capacity, total) for n, x in enumerate((k, self.v)))
        return (self._attended(q, present_k, present_v, positions), present_k, present_v)

    def _total(self, capacity: Int) -> Int:
        """The length of the present."""
        t = self.t
        if t.known(6):
            (total,) = t.dims(6, "a length")
            return capacity if capacity.is_const and total.is_const and int(capacity) >= int(total) else total
        declared = t.declared[1] if len(t.declared) > 1 else None
        return capacity + self.length if declared is None else as_int(declared[2])

    def _present(self, position: int, new: Value, before: Value, capacity: Int, total: Int) -> Value:
        """(batch, heads, total, size): the valid past of every sequence, the new, then what the past holds there."""
        t = self.t
        size = new.shape[3]
        rows = [t.transpose(new, (0, 2, 1, 3))]
        if t.has(position) and capacity != 0:
            rows.insert(0, t.transpose(t.input(position), (0, 2, 1, 3)))
        held = capacity + self.length
        flat = rows[0] if len(rows) == 1 else t.op("concat", *rows, axis=1)
        flat = t.reshape(flat, (self.batch * held, self.shared * size))
        place = t.reshape(count_to(t, total), (1, total))
        behind = t.op("sub", place, before)
        fresh = t.op("logical_and", *(
            t.op("less_equal", t.scalar(0, "int64"), behind), t.op("less", behind, t.dimensions([self.length]))
        ))  # fmt: skip
        new_place = t.op("add", behind, t.dimensions([capacity]))
        place = t.op("where", fresh, new_place, place)
        place = t.op("minimum", place, t.dimensions([held - 1]))
        offset = t.op("mul", t.reshape(count_to(t, self.batch), (self.batch, 1)), t.dimensions([held]))
        y = t.op("gather", flat, t.op("add", place, offset), axis=0)
        return t.transpose(t.reshape(y, (self.batch, total, self.shared, size)), (0, 2, 1, 3))

    def _attended(self, q: Value, k: Value, v: Value, positions: Value) -> Value:
        t = self.t
        size = _known(t, q.shape[3])
        total, group = k.shape[2], self.heads // self.shared
        # Queries of the heads that share keys stand below each other, so that one product serves them.
        grouped = t.reshape(q, (self.batch, self.shared, group * self.length, size))
        scores = _scores(t, grouped, k, t.attribute("scale", 0.0) or 1 / math.sqrt(size))
        scores = t.reshape(scores, (self.batch, self.heads, self.length, total))
        if cap := t.attribute("softcap", 0.0):
            limit = t.scalar(cap, scores.dtype)
            scores = t.op("mul", t.op("tanh", t.op("div", scores, limit)), limit)
        if t.has(10):
            bias = t.input(10)
            scores = t.op("add", scores, part(t, bias, 3, 0, total) if bias.shape[3] != total else bias)
        scores = t.op("where", self._visible(positions, total), scores, t.scalar(_LOWEST, scores.dtype))
        weights = t.reshape(self._softmax(scores), (self.batch, self.shared, group * self.length, total))
        y = t.op("matmul", weights, v)
        return _joined(t, t.reshape(y, (self.batch, self.heads, self.length, v.shape[3])))

    def _visible(self, positions: Value, total: Int) -> Value:
        t = self.t
        rows = t.reshape(positions, (self.batch, 1, self.length, 1))
        places = t.reshape(count_to(t, total), (1, 1, 1, total))
        seen = t.op("less_equal", places, rows)
        if not t.attribute("causal", 1):
            raise t.unsupported("that is not causal")
        window = t.attribute("local_window_size", -1)
        if window > 0:
            near = t.op("less", rows, t.op("add", places, t.scalar(window, "int64")))
            seen = t.op("logical_and", seen, near)
        return seen

    def _softmax(self, scores: Value) -> Value:
        """Softmax, with one more score to each row that takes its share and gives nothing, if there is a sink."""
        t = self.t
        if t.has(11):
            sink = t.reshape(t.cast(t.input(11), scores.dtype), (1, self.heads, 1, 1))
        elif t.attribute("smooth_softmax", 0) > 0:
            sink = t.scalar(0, scores.dtype)
        else:
            return t.op("softmax", scores, axis=-1)
        rows = (self.batch, self.heads, self.length, 1)
        wide = t.op("concat", scores, t.op("expand", sink, shape=rows), axis=3)
        return part(t, t.op("softmax", wide, axis=-1), 3, 0, scores.shape[3])


def group_query_attention(t: Translation) -> tuple[Value | None, ...]:
    return _Grouped(t).translate()


MICROSOFT_TRANSLATORS: dict[str, Translator] = {
    "Attention": attention,
    "GroupQueryAttention": group_query_attention,
    "MultiHeadAttention": multi_head_attention,
    "QAttention": quantized_attention,
    "RotaryEmbedding": rotary_embedding,
}
