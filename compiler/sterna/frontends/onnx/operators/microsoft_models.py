"""ONNX Runtime's own operators (com.microsoft) of language, diffusion and speech models: positions, padding, spectra.

Their definitions: ContribOperators.md of ONNX Runtime.
"""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends import fourier
from sterna.frontends.onnx.operators import arithmetic, convolution, selection
from sterna.frontends.onnx.operators.attention import multi_head_attention, part
from sterna.frontends.onnx.operators.convolution import TRANSLATORS as CONVOLUTIONS
from sterna.frontends.onnx.operators.microsoft import activated, plain
from sterna.frontends.onnx.translation import Translation, Translator, axes_of
from sterna.ir.graph import Value
from sterna.ir.integer import as_int
from sterna.ir.limits import check_table


def _number(t: Translation, value: float, like: Value) -> Value:
    return t.scalar(value, like.dtype)


def sigmoid_times(t: Translation, x: Value, alpha: float = 1.0) -> Value:
    inner = x if alpha == 1 else t.op("mul", x, _number(t, alpha, x))
    return t.op("mul", x, t.op("sigmoid", inner))


# ---------------------------------------------------------------- sums and normalization
def bias_softmax(t: Translation) -> Value:
    """Over all dimensions from the axis on."""
    x, bias = t.input(0), t.input(1)
    (axis,) = axes_of((t.attribute("axis", 1),), x.type.rank)
    if not t.attribute("is_inner_broadcast", 1) and bias.type.rank < x.type.rank:
        bias = t.reshape(bias, (*[1] * (x.type.rank - bias.type.rank), *bias.shape))
    total = t.op("add", x, bias)
    rows, width = as_int(1), as_int(1)
    for n, size in enumerate(total.shape):
        rows, width = (rows * size, width) if n < axis else (rows, width * size)
    return t.reshape(t.op("softmax", t.reshape(total, (rows, width)), axis=1), total.shape)


def dropped(t: Translation) -> tuple[Value | None, ...]:
    """Nothing is dropped: the tensor, a bias where the operator has one, and what is added to it."""
    if any(t.used[1:]):
        raise t.unsupported("with a mask as a result")
    y = t.input(0)
    if "Bias" in t.node.op:
        y = t.op("add", y, t.input(1))
        y = t.op("add", y, t.input(2)) if t.has(2) else y
    return (y, None)


def _group_normalized(t: Translation, x: Value, gamma: Value, beta: Value) -> Value:
    """Of channels last."""
    n, *spatial, c = x.shape
    groups = t.attribute("groups", 0)
    if groups < 1 or (c.is_const and int(c) % groups):
        raise error("E0109", f"{groups} groups of {c} channels")
    whole = as_int(1)
    for size in spatial:
        whole = whole * size
    wide = t.cast(x, "float32")
    apart = t.reshape(wide, (n, whole, groups, c // groups))
    mean = t.op("reduce_mean", apart, axes=(1, 3), keep_dims=True)
    centred = t.op("sub", apart, mean)
    variance = t.op("reduce_mean", t.op("mul", centred, centred), axes=(1, 3), keep_dims=True)
    deviation = t.op("sqrt", t.op("add", variance, t.scalar(t.attribute("epsilon", 1e-5), "float32")))
    y = t.reshape(t.op("div", centred, deviation), x.shape)
    y = t.op("add", t.op("mul", y, t.cast(gamma, "float32")), t.cast(beta, "float32"))
    if t.attribute("activation", 0) == 1:
        y = sigmoid_times(t, y)
    elif t.attribute("activation", 0):
        raise t.unsupported(f"with the activation {t.attribute('activation')}")
    return t.cast(y, x.dtype)


def group_norm(t: Translation) -> Value:
    x, is_last = t.input(0), t.attribute("channels_last", 1)
    y = _group_normalized(t, x if is_last else t.channels_last(x), t.input(1), t.input(2))
    return y if is_last else t.channels_first(y)


def skip_group_norm(t: Translation) -> tuple[Value | None, ...]:
    """The sum with another tensor, or one value for each channel, and a bias, normalized; and the sum."""
    x, skip, is_last = t.input(0), t.input(3), t.attribute("channels_last", 1)
    x = x if is_last else t.channels_last(x)
    if skip.type.rank == 2:
        skip = t.reshape(skip, (skip.shape[0], *[1] * (x.type.rank - 2), skip.shape[1]))
    elif not is_last:
        skip = t.channels_last(skip)
    total = t.op("add", x, skip)
    total = t.op("add", total, t.input(4)) if t.has(4) else total
    y = _group_normalized(t, total, t.input(1), t.input(2))
    return (y, total) if is_last else (t.channels_first(y), t.channels_first(total))


def gated_root_normalization(t: Translation) -> Value:
    """Rows, or parts of them as long as the scale, over their root mean square, times a gate."""
    x, scale, gate = (t.cast(t.input(n), "float32") for n in range(3))
    (count,) = t.sizes(scale, 1)
    kind = t.attribute("activation", "silu")
    if kind not in ("silu", "swish", "sigmoid"):
        raise t.unsupported(f"with the activation {kind}")
    apart = t.reshape(x, (*x.shape[:-1], x.shape[-1] // count, count))
    squares = t.op("reduce_mean", t.op("mul", apart, apart), axes=(apart.type.rank - 1,), keep_dims=True)
    root = t.op("sqrt", t.op("add", squares, t.scalar(t.attribute("epsilon", 1e-6), "float32")))
    y = t.reshape(t.op("mul", t.op("div", apart, root), scale), x.shape)
    gate = t.op("sigmoid", gate) if kind == "sigmoid" else sigmoid_times(t, gate)
    return t.cast(t.op("mul", y, gate), t.input(0).dtype)


def gated_sum(t: Translation) -> Value:
    if t.has(3):
        raise t.unsupported("with a projection of the gate")
    return t.op("add", t.input(0), t.op("mul", t.input(1), t.input(2)))


# ---------------------------------------------------------------- convolutions channels last
def channels_last_convolution(t: Translation) -> Value:
    """X, and what is added, are (N, H, W, C); weights are as of Conv."""
    x = t.channels_first(t.input(0))
    y = convolution.convolved(plain(t, [x, t.input(1)]), x, t.input(1))
    y = t.op("add", y, t.input(2)) if t.has(2) else y
    y = t.op("add", y, t.input(3)) if t.has(3) else y
    return activated(t, y)


def transposed_convolution(t: Translation) -> Value | tuple[Value | None, ...]:
    """Paddings are an operand, which must be known."""
    pads = {"pads": tuple(t.integers(2, "paddings"))} if t.has(2) else {}
    return CONVOLUTIONS["ConvTranspose"](plain(t, [t.input(0), t.input(1), t.optional(3)], **pads))


# ---------------------------------------------------------------- activations
def swiglu(t: Translation) -> Value:
    """A gate, kept below a limit, times its sigmoid, times the other half, kept within the limit, and an offset."""
    gate = t.cast(t.input(0), "float32")
    if t.has(1):
        up = t.cast(t.input(1), "float32")
    else:
        half = t.extent(gate, -1) // 2
        gate, up = (part(t, gate, -1, n * half, half) for n in range(2))
    y = gated(t, gate, up, t.attribute("activation_alpha", 1.0), t.attribute("activation_beta", 0.0),
               t.attribute("limit", 0.0) or math.inf)  # fmt: skip
    return t.cast(y, t.input(0).dtype)


def gated(t: Translation, gate: Value, up: Value, alpha: float, beta: float, limit: float) -> Value:
    if limit < math.inf:
        gate = t.op("minimum", gate, _number(t, limit, gate))
        up = t.op("clip", up, min=-limit, max=limit)
    up = t.op("add", up, _number(t, beta, up)) if beta else up
    return t.op("mul", sigmoid_times(t, gate, alpha), up)


def product_and_gelu(t: Translation) -> Value:
    y = arithmetic.matmul(plain(t, [t.input(0), t.input(1)]))
    return t.op("gelu", t.op("add", y, t.input(2)) if t.has(2) else y, approximate="tanh")


# ---------------------------------------------------------------- positions
def relative_position_bias(t: Translation) -> Value:
    """T5's: a value for every head and distance, far distances sharing values by their logarithm."""
    table = t.input(0)
    buckets, heads = t.sizes(table, 2)
    rows, columns = (t.integer_of(n, "a length") for n in (1, 2))
    check_table(heads, rows, columns)
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    found = np.zeros(distance.shape, np.int64)
    count = buckets
    if t.attribute("is_bidirectional", 0):
        count //= 2
        found += (distance > 0) * count
        distance = np.abs(distance)
    else:
        distance = -np.minimum(distance, 0)
    exact = count // 2
    most = t.attribute("max_distance", 0)
    if exact < 1 or most <= exact:
        raise error("E0109", f"{t.kind} of {buckets} values up to a distance of {most}")
    far = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact)) / np.log(np.float32(most / exact))
    far = np.minimum(exact + (far * (count - exact)).astype(np.int64), count - 1)
    found += np.where(distance < exact, distance, far)
    y = t.op("gather", t.transpose(table, (1, 0)), t.constant(found, "int64"), axis=1)
    return t.reshape(y, (1, heads, rows, columns))


def gated_position_bias(t: Translation) -> Value:
    """WavLM's: a bias of positions, larger or smaller by a gate that the query makes for each head."""
    if t.has(6):
        raise t.unsupported("of packed tokens")
    heads = t.attribute("num_heads", 0)
    query = t.op("add", t.input(0), t.input(1))
    if query.type.rank != 3 or heads < 1:
        raise error("E0108", f"{heads} heads of {query.type}")
    batch, length, width = query.shape
    q = t.transpose(t.reshape(query, (batch, length, heads, width // heads)), (0, 2, 1, 3))
    gates = t.op("add", t.op("matmul", q, t.input(3)), t.input(4))
    half = t.extent(gates, -1) // 2
    gates = t.op("reduce_sum", t.reshape(gates, (batch, heads, length, 2, half)), axes=(4,), keep_dims=False)
    gates = t.op("sigmoid", gates)
    u, r = (part(t, gates, -1, n, 1) for n in range(2))
    inner = t.op("sub", t.op("mul", r, t.input(5)), _number(t, 1.0, r))
    share = t.op("add", t.op("mul", u, inner), _number(t, 2.0, u))
    return t.op("mul", share, t.input(2))


def gemma_rotary(t: Translation) -> tuple[Value, Value]:
    """Queries and keys turned by angles that are operands; the other half of each comes with its sign."""
    angle = t.input(0)
    sine, cosine = (t.op(name, angle) for name in ("sin", "cos"))
    sine, cosine = (t.reshape(t.cast(v, t.input(1).dtype), (v.shape[0], 1, *v.shape[1:])) for v in (sine, cosine))
    q, k = (
        t.op("add", t.op("mul", t.input(n), cosine), t.op("mul", t.input(n + 1), sine)) for n in (1, 3)
    )  # fmt: skip
    return q, k


def masked_attention(t: Translation) -> tuple[Value | None, ...]:
    """DecoderMaskedMultiHeadAttention: that of one more token, with keys and values of those before."""
    if t.attribute("past_present_share_buffer", 0) or t.has(9):
        raise t.unsupported("with a buffer that past and present share, or with beams")
    operands = [t.optional(n) for n in (0, 1, 2, 10, 3, 4, 5, 6)]
    return multi_head_attention(plain(t, operands))


# ---------------------------------------------------------------- padding
def without_padding(t: Translation) -> tuple[Value, ...]:
    """Rows that count, one after the other; where each row of the padded tensor was, those that count first; where each
    sequence begins; the length of the longest."""
    x, counts = t.input(0), t.cast(t.input(1), "int64")
    batch, length = t.static(x)[:2]
    places = t.counting(length)
    counted = t.op("less", places, t.reshape(counts, (batch, 1)))
    flat = t.reshape(counted, (batch * length,))
    rows = t.reshape(x, (batch * length, *x.shape[2:]))
    kept = selection.compress(plain(t, [rows, flat], axis=0))
    # Positions that count keep their order before those that do not.
    whole = t.counting(batch * length)
    rank = t.op("where", flat, whole, t.op("add", whole, t.scalar(batch * length, "int64")))
    _, order = t.builder.add_all(
        "top_k", rank, k=(batch * length,), axis=0, largest=False, sources=t.sources, name=f"{t.name}/order"
    )
    starts = t.op("cumulative_sum", counts, axis=0)
    starts = t.op("concat", t.constant([0], "int64"), starts, axis=0)
    longest = t.op("reduce_max", counts, axes=(0,), keep_dims=True)
    return (
        kept, t.cast(t.reshape(order, (batch, length)), "int32"), t.cast(starts, "int32"), t.cast(longest, "int32"),
    )  # fmt: skip


def with_padding(t: Translation) -> Value:
    """Rows where they were before, zeros between them."""
    rows, places = t.input(0), t.cast(t.input(1), "int64")
    batch, length = t.sizes(places, 2)
    count = rows.shape[0]
    flat = t.reshape(places, (batch * length, 1))
    chosen = t.op("gather", flat, t.counting(count), axis=0)
    zeros = t.op("expand", _number(t, 0, rows), shape=(batch * length, *rows.shape[1:]))
    made = t.op("scatter_nd", zeros, chosen, rows, reduction="none")
    return t.reshape(made, (batch, length, *rows.shape[1:]))


# ---------------------------------------------------------------- integers, spectra, tokens
def integer_product(t: Translation) -> Value:
    """(A - its zero) times (B - its zero) in int32."""
    parts = []
    for n in (0, 2):
        x = t.cast(t.input(n), "int32")
        parts.append(t.op("sub", x, t.cast(t.input(n + 1), "int32")) if t.has(n + 1) else x)
    return t.op("mul", *parts)


def integer_sum(t: Translation) -> Value:
    x = t.cast(t.input(0), "int32")
    axes = axes_of(t.attribute("axes") or tuple(range(x.type.rank)), x.type.rank)
    return t.op("reduce_sum", x, axes=tuple(sorted(axes)), keep_dims=bool(t.attribute("keepdims", 1)))


def _one_dimension(t: Translation) -> None:
    if t.attribute("signal_ndim", 1) != 1 or t.attribute("normalized", 0) or not t.attribute("onesided", 1):
        raise t.unsupported("of several dimensions, normalized, or of two sides")


def real_transform(t: Translation) -> Value:
    _one_dimension(t)
    x = t.input(0)
    pairs = t.op("concat", *(t.reshape(v, (*x.shape, 1)) for v in (x, t.op("sub", x, x))), axis=x.type.rank)
    return fourier.transform(t, pairs, x.type.rank - 1, t.extent(x, -1), False, True)


def inverse_transform(t: Translation) -> Value:
    """The real numbers of half a spectrum, an even number of them."""
    _one_dimension(t)
    x = t.input(0)
    rank, bins = x.type.rank, t.extent(x, -2)
    length = 2 * (bins - 1)
    if t.extent(x, -1) != 2 or length < 2:
        raise error("E0108", f"{t.kind} of {x.type}")
    # The other half is the mirror image, of the opposite sign in its imaginary part.
    inner = t.op(
        "slice", x, starts=(*[0] * (rank - 2), bins - 2, 0), sizes=(*x.shape[:-2], bins - 2, 2),
        steps=(*[1] * (rank - 2), -1, 1),
    )  # fmt: skip
    whole = t.op("concat", x, t.op("mul", inner, t.constant([1.0, -1.0], x.dtype)), axis=rank - 2)
    y = fourier.transform(t, whole, rank - 2, length, True, False)
    return t.reshape(part(t, y, -1, 0, 1), (*x.shape[:-2], length))


def _complex_product(conjugate: bool) -> Translator:
    def translate(t: Translation) -> Value:
        (a, b), (c, d) = ([part(t, t.input(n), -1, k, 1) for k in range(2)] for n in range(2))
        d = t.op("neg", d) if conjugate else d
        real = t.op("sub", t.op("mul", a, c), t.op("mul", b, d))
        imaginary = t.op("add", t.op("mul", a, d), t.op("mul", b, c))
        return t.op("concat", real, imaginary, axis=real.type.rank - 1)

    return translate


def no_repetition(t: Translation) -> Value:
    """NGramRepeatBlock: -inf for tokens that would repeat a row of tokens that there was."""
    ids, scores, size = t.cast(t.input(0), "int64"), t.input(1), t.attribute("ngram_size", 0)
    batch, length = t.sizes(ids, 2)
    tokens = t.extent(scores, 1)
    if size < 1:
        raise error("E0109", f"rows of {size} tokens")
    count = length - size + 1
    if count < 1:
        return t.op("identity", scores)
    check_table(batch, count, tokens)
    same: Value = t.constant(np.ones((1, count), bool), "bool")
    for n in range(size - 1):
        own = part(t, ids, 1, length - size + 1 + n, 1)
        same = t.op("logical_and", same, t.op("equal", part(t, ids, 1, n, count), own))
    following = t.reshape(part(t, ids, 1, size - 1, count), (batch, count, 1))
    hit = t.op("logical_and", t.op("equal", following, t.counting(tokens)), t.reshape(same, (same.shape[0], count, 1)))
    found = t.op("reduce_any", hit, axes=(1,), keep_dims=False)
    return t.op("where", found, _number(t, -math.inf, scores), scores)


def embedding(t: Translation) -> Value:
    return t.op("gather", t.input(0), t.input(1), axis=0)


MICROSOFT_TRANSLATORS: dict[str, Translator] = {
    "BiasDropout": dropped,
    "BiasSoftmax": bias_softmax,
    "BitmaskBiasDropout": dropped,
    "BitmaskDropout": dropped,
    "ComplexMul": _complex_product(conjugate=False),
    "ComplexMulConj": _complex_product(conjugate=True),
    "ConvTransposeWithDynamicPads": transposed_convolution,
    "DecoderMaskedMultiHeadAttention": masked_attention,
    "GatedAdd": gated_sum,
    "GatedRMSNorm": gated_root_normalization,
    "GatedRelativePositionBias": gated_position_bias,
    "GemmFastGelu": product_and_gelu,
    "GemmaRotaryEmbedding": gemma_rotary,
    "GroupNorm": group_norm,
    "Irfft": inverse_transform,
    "MulInteger": integer_product,
    "NGramRepeatBlock": no_repetition,
    "NhwcConv": channels_last_convolution,
    "NhwcFusedConv": channels_last_convolution,
    "ReduceSumInteger": integer_sum,
    "RelativePositionBias": relative_position_bias,
    "RemovePadding": without_padding,
    "RestorePadding": with_padding,
    "Rfft": real_transform,
    "SampleOp": lambda t: t.op("identity", t.input(0)),
    "SkipGroupNorm": skip_group_norm,
    "SwiGLU": swiglu,
    "TorchEmbedding": embedding,
}
