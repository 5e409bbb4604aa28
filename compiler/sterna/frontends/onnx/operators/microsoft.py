"""ONNX Runtime's own operators (com.microsoft), which its optimizer and quantizer put into models.

Their definitions: ContribOperators.md of ONNX Runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.operators import arithmetic, convolution
from sterna.frontends.onnx.operators.quantization import TRANSLATORS as QUANTIZATION
from sterna.frontends.onnx.operators.quantization import dynamically_quantized, product, quantized, real
from sterna.frontends.onnx.translation import Translation, Translator, axes_of
from sterna.ir.graph import Value

_ACTIVATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Relu": ("relu", ()),
    "Sigmoid": ("sigmoid", ()),
    "Tanh": ("tanh", ()),
    "LeakyRelu": ("leaky_relu", ("alpha",)),
    "HardSigmoid": ("hard_sigmoid", ("alpha", "beta")),
    "Clip": ("clip", ("min", "max")),
}


def _plain(t: Translation, inputs: list[Value | None], **attributes: Any) -> Translation:
    """The node with other operands and attributes."""
    node = replace(t.node, attributes={**t.node.attributes, **attributes}, version=13, given=frozenset(attributes))
    return Translation(node, inputs, t.builder, origin=t.origin, used=t.used, sources=t.sources, declared=t.declared)


def _activated(t: Translation, y: Value) -> Value:
    name = t.attribute("activation", "")
    if not name:
        return y
    if name not in _ACTIVATIONS:
        raise t.unsupported(f"with the activation {name}")
    operator, settings = _ACTIVATIONS[name]
    values = t.attribute("activation_params") or tuple(
        t.attribute(f"activation_{s}") for s in settings if t.attribute(f"activation_{s}") is not None
    )
    return t.op(operator, y, **dict(zip(settings, values, strict=False)))


def fused_conv(t: Translation) -> Value:
    y = convolution.convolved(t, t.input(0), t.input(1))
    if t.has(2):
        y = t.op("add", y, t.input(2))
    if t.has(3):
        y = t.op("add", y, t.channels_last(t.input(3)))
    return t.channels_first(_activated(t, y))


def fused_gemm(t: Translation) -> Value:
    return _activated(t, arithmetic.gemm(t))


def fused_matmul(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    for key in ("transBatchA", "transBatchB"):
        if t.attribute(key, 0):
            raise t.unsupported(f"with {key}")
    a, b = _turned(t, a, t.attribute("transA", 0)), _turned(t, b, t.attribute("transB", 0))
    y = arithmetic.matmul(_plain(t, [a, b]))
    alpha = t.attribute("alpha", 1.0)
    return y if alpha == 1.0 else t.op("mul", y, t.scalar(alpha, y.dtype))


def _turned(t: Translation, x: Value, turned: int) -> Value:
    rank = x.type.rank
    return t.transpose(x, (*range(rank - 2), rank - 1, rank - 2)) if turned and rank > 1 else x


# ---------------------------------------------------------------- activations
def gelu(t: Translation) -> Value:
    return t.op("gelu", t.input(0))


def bias_gelu(t: Translation) -> Value:
    return t.op("gelu", t.op("add", t.input(0), t.input(1)))


def fast_gelu(t: Translation) -> Value:
    x = t.op("add", t.input(0), t.input(1)) if t.has(1) else t.input(0)
    return t.op("gelu", x, approximate="tanh")


def quick_gelu(t: Translation) -> Value:
    x = t.input(0)
    alpha = t.scalar(t.attribute("alpha", 1.702), x.dtype)
    return t.op("mul", x, t.op("sigmoid", t.op("mul", x, alpha)))


# ---------------------------------------------------------------- normalization and embedding
def _normalized(t: Translation, x: Value, gamma: Value, beta: Value | None, epsilon: float) -> Value:
    y = t.op("mul", t.op("layer_norm", x, axis=-1, epsilon=epsilon), gamma)
    return y if beta is None else t.op("add", y, beta)


def _root_normalized(t: Translation, x: Value, gamma: Value, epsilon: float) -> Value:
    mean = t.op("reduce_mean", t.op("mul", x, x), axes=(x.type.rank - 1,), keep_dims=True)
    root = t.op("sqrt", t.op("add", mean, t.scalar(epsilon, x.dtype)))
    return t.op("mul", t.op("div", x, root), gamma)


def skip_layer_normalization(t: Translation) -> tuple[Value | None, ...]:
    total = t.op("add", t.input(0), t.input(1))
    if t.has(4):
        total = t.op("add", total, t.input(4))
    if any(t.used[1:3]):
        raise t.unsupported("with mean and inverse deviation as results")
    return (_normalized(t, total, t.input(2), t.optional(3), t.attribute("epsilon", 1e-12)), None, None, total)


def simplified_layer_normalization(t: Translation) -> Value:
    x = t.input(0)
    if t.attribute("axis", -1) not in (-1, x.type.rank - 1):
        raise t.unsupported("over several dimensions")
    return _root_normalized(t, x, t.input(1), t.attribute("epsilon", 1e-5))


def skip_simplified_layer_normalization(t: Translation) -> tuple[Value | None, ...]:
    total = t.op("add", t.input(0), t.input(1))
    if t.has(3):
        total = t.op("add", total, t.input(3))
    return (_root_normalized(t, total, t.input(2), t.attribute("epsilon", 1e-5)), None, None, total)


def embed_layer_normalization(t: Translation) -> tuple[Value | None, ...]:
    ids, segments, words, places, kinds, gamma, beta = (t.optional(n) for n in range(7))
    if ids is None or words is None or places is None or gamma is None or beta is None:
        raise error("E0103", "an operand is missing")
    batch, length = t.sizes(ids, 2)
    total = t.op("gather", words, ids, axis=0)
    chosen = t.optional(8) or t.constant(np.arange(length), "int64")
    total = t.op("add", total, t.op("gather", places, chosen, axis=0))
    if segments is not None and kinds is not None:
        total = t.op("add", total, t.op("gather", kinds, segments, axis=0))
    y = _normalized(t, total, gamma, beta, t.attribute("epsilon", 1e-12))
    if t.has(7):
        count = t.op("reduce_sum", t.cast(t.input(7), "int32"), axes=(1,), keep_dims=False)
    else:
        count = t.op("expand", t.scalar(0, "int32"), shape=(batch,))
    return (y, count, total)


# ---------------------------------------------------------------- attention
def _attended(t: Translation, q: Value, k: Value, v: Value, bias: Value | None, scale: float) -> Value:
    """softmax(q k^T scale + bias) v of tensors (batch, heads, length, size), as (batch, length, heads * size)."""
    scores = t.op("matmul", q, t.transpose(k, (0, 1, 3, 2)))
    scores = t.op("mul", scores, t.scalar(scale, scores.dtype))
    if bias is not None:
        scores = t.op("add", scores, bias)
    y = t.op("matmul", t.op("softmax", scores, axis=-1), v)
    batch, heads, length, size = t.static(y)
    return t.reshape(t.transpose(y, (0, 2, 1, 3)), (batch, length, heads * size))


def _heads(t: Translation, x: Value, heads: int) -> Value:
    batch, length, width = t.sizes(x, 3)
    if heads < 1 or width % heads:
        raise error("E0109", f"{width} elements do not make {heads} heads")
    return t.transpose(t.reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def _mask_bias(t: Translation, mask: Value | None, dtype: str, length: int, total: int) -> Value | None:
    """What is added to the scores where a mask (batch, total) or (batch, length, total) is 0."""
    if mask is None:
        return None
    if mask.type.rank == 1:
        count = int(mask.type.elements)
        column = t.reshape(t.cast(mask, "int64"), (count, 1))
        kept = t.op("less", t.constant(np.arange(total)[None, :], "int64"), column)
        kept = t.reshape(kept, (count, 1, 1, total))
    elif mask.type.rank == 2:
        kept = t.reshape(t.cast(mask, "bool"), (*mask.shape[:1], 1, 1, total))
    elif mask.type.rank == 3:
        kept = t.reshape(t.cast(mask, "bool"), (*mask.shape[:1], 1, length, total))
    else:
        raise t.unsupported(f"with a mask of {mask.type}")
    far = t.attribute("mask_filter_value", -10000.0)
    return t.op("where", kept, t.scalar(0, dtype), t.scalar(far, dtype))


def _causal(t: Translation, bias: Value | None, dtype: str, length: int, total: int) -> Value | None:
    if not t.attribute("unidirectional", 0):
        return bias
    seen = np.tri(length, total, total - length, dtype=bool)
    hidden = t.constant(np.where(seen, 0.0, float(np.finfo(np.float32).min)), dtype)
    return hidden if bias is None else t.op("add", bias, hidden)


def attention(t: Translation) -> tuple[Value | None, ...]:
    x, w = t.input(0), t.input(1)
    heads = t.attribute("num_heads", 0)
    if t.has(4) or (len(t.used) > 1 and any(t.used[1:])):
        raise t.unsupported("with past keys and values")
    width = t.static(w)[1]
    sizes = t.attribute("qkv_hidden_sizes") or (width // 3,) * 3
    y = arithmetic.matmul(_plain(t, [x, w]))
    if t.has(2):
        y = t.op("add", y, t.input(2))
    batch, length, _ = t.sizes(y, 3)
    parts, begin = [], 0
    for size in sizes:
        part = t.op("slice", y, starts=(0, 0, begin), sizes=(batch, length, size), steps=(1, 1, 1))
        parts.append(_heads(t, part, heads))
        begin += size
    q, k, v = parts
    bias = _causal(t, _mask_bias(t, t.optional(3), y.dtype, length, length), y.dtype, length, length)
    if t.has(5):
        bias = t.input(5) if bias is None else t.op("add", t.input(5), bias)
    scale = t.attribute("scale", 0.0) or 1 / math.sqrt(t.static(q)[3])
    return (_attended(t, q, k, v, bias, scale), None)


def multi_head_attention(t: Translation) -> tuple[Value | None, ...]:
    heads = t.attribute("num_heads", 0)
    if not (t.has(1) and t.has(2)) or t.has(6) or t.has(7) or any(t.used[1:]):
        raise t.unsupported("with packed or past keys and values")
    q, k, v = t.input(0), t.input(1), t.input(2)
    if t.has(3):
        widths = [t.static(x)[-1] for x in (q, k, v)] if v.type.rank == 3 else [t.static(q)[-1]] * 3
        begin, parts = 0, []
        for x, width in zip((q, k, v), widths, strict=True):
            part = t.op("slice", t.input(3), starts=(begin,), sizes=(width,), steps=(1,))
            parts.append(t.op("add", x, part) if x.type.rank == 3 else x)
            begin += width
        q, k, v = parts
    q, k, v = (_heads(t, x, heads) if x.type.rank == 3 else x for x in (q, k, v))
    length, total = t.static(q)[2], t.static(k)[2]
    bias = _causal(t, _mask_bias(t, t.optional(4), q.dtype, length, total), q.dtype, length, total)
    if t.has(5):
        bias = t.input(5) if bias is None else t.op("add", t.input(5), bias)
    scale = t.attribute("scale", 0.0) or 1 / math.sqrt(t.static(q)[3])
    return (_attended(t, q, k, v, bias, scale), None, None)


# ---------------------------------------------------------------- quantized
def _scalar(t: Translation, value: Value | None) -> Value | None:
    return t.reshape(value, ()) if value is not None and value.type.elements == 1 else value


def _real(t: Translation, position: int) -> Value:
    """The quantized operand with the scale and zero point behind it."""
    scale = _scalar(t, t.input(position + 1))
    assert scale is not None
    return real(t, t.input(position), scale, _scalar(t, t.optional(position + 2)))


def _rounded(t: Translation, y: Value, position: int, dtype: str) -> Value:
    """The result with the scale and zero point at a position."""
    scale, zero = _scalar(t, t.input(position)), _scalar(t, t.optional(position + 1))
    assert scale is not None
    return quantized(t, t.op("div", y, scale), zero, zero.dtype if zero is not None else dtype)


def _qlinear(make: Callable[[Translation, Value], Value]) -> Translator:
    """An operator of one quantized operand."""
    return lambda t: _rounded(t, make(t, _real(t, 0)), 3, t.input(0).dtype)


def _qlinear_binary(operator: str) -> Translator:
    return lambda t: _rounded(t, t.op(operator, _real(t, 0), _real(t, 3)), 6, t.input(0).dtype)


def _pooled(t: Translation, x: Value) -> Value:
    if t.attribute("channels_last", 0):
        return t.channels_last(convolution.average_pool(_plain(t, [t.channels_first(x)])))
    return convolution.average_pool(_plain(t, [x]))


def _pooled_globally(t: Translation, x: Value) -> Value:
    first = 1 if t.attribute("channels_last", 0) else 2
    return t.op("reduce_mean", x, axes=tuple(range(first, first + x.type.rank - 2)), keep_dims=True)


def qlinear_concat(t: Translation) -> Value:
    dtype = t.input(1).dtype
    parts = []
    for n in range(2, len(t.inputs), 3):
        parts.append(_rounded(t, _real(t, n), 0, dtype))
    return t.op("concat", *parts, axis=t.attribute("axis"))


def qlinear_softmax(t: Translation) -> Value:
    x = _real(t, 0)
    (axis,) = axes_of((t.attribute("axis", -1),), x.type.rank)
    return _rounded(t, t.op("softmax", x, axis=axis), 3, t.input(0).dtype)


def _scaled_product(
    t: Translation, a: Value, b: Value, zeros: tuple[Value | None, Value | None], scale: Value
) -> Value:
    return t.op("mul", t.cast(product(t, a, b, *zeros), "float32"), scale)


def dynamic_quantize_matmul(t: Translation) -> Value:
    a, scale, zero = dynamically_quantized(t, t.input(0))
    factor = t.op("mul", scale, _last(t, t.input(2)))
    y = _scaled_product(t, a, t.input(1), (zero, _scalar(t, t.optional(3))), factor)
    return t.op("add", y, t.input(4)) if t.has(4) else y


def _last(t: Translation, value: Value) -> Value:
    return t.reshape(value, ()) if value.type.elements == 1 else value


def matmul_integer_to_float(t: Translation) -> Value:
    scale = t.op("mul", _last(t, t.input(2)), _last(t, t.input(3)))
    y = _scaled_product(t, t.input(0), t.input(1), (t.optional(4), _scalar(t, t.optional(5))), scale)
    return t.op("add", y, t.input(6)) if t.has(6) else y


def matmul_nbits(t: Translation) -> Value:
    """The product with weights (N, blocks, bytes) of few bits, one scale per block of K."""
    x, packed, scales = t.input(0), t.array(1, "weights"), t.input(2)
    bits, block = t.attribute("bits", 4), t.attribute("block_size", 32)
    n, k = t.attribute("N"), t.attribute("K")
    if t.has(4) or bits not in (2, 4, 8) or not n or not k:
        raise t.unsupported(f"of {bits} bits or with an order of groups")
    blocks = -(-k // block)

    def unpacked(data: np.ndarray, count: int) -> np.ndarray:
        parts = np.stack([(data >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)], axis=-1)
        return parts.reshape(n, -1)[:, :count]

    weight = t.constant(unpacked(packed.reshape(n, -1), blocks * block).reshape(n, blocks, block).astype(np.uint8))
    wide = t.cast(weight, x.dtype)
    if t.has(3) and t.input(3).dtype == x.dtype:
        zero = t.reshape(t.input(3), (n, blocks, 1))
    elif t.has(3):
        zeros = unpacked(t.array(3, "zero points").reshape(n, -1), blocks).reshape(n, blocks, 1)
        zero = t.constant(zeros, x.dtype)
    else:
        zero = t.scalar(1 << (bits - 1), x.dtype)
    wide = t.op("mul", t.op("sub", wide, zero), t.reshape(t.cast(scales, x.dtype), (n, blocks, 1)))
    flat = t.reshape(wide, (n, blocks * block))
    if blocks * block != k:
        flat = t.op("slice", flat, starts=(0, 0), sizes=(n, k), steps=(1, 1))
    y = arithmetic.matmul(_plain(t, [x, t.transpose(flat, (1, 0))]))
    return t.op("add", y, t.input(5)) if t.has(5) else y


def _per_axis(name: str) -> Translator:
    """QuantizeLinear and DequantizeLinear, as ONNX has them since operator set 13."""
    return lambda t: QUANTIZATION[name](_plain(t, list(t.inputs), axis=t.attribute("axis", 1)))


MICROSOFT_TRANSLATORS: dict[str, Translator] = {
    "Attention": attention,
    "BiasGelu": bias_gelu,
    "DequantizeLinear": _per_axis("DequantizeLinear"),
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "EmbedLayerNormalization": embed_layer_normalization,
    "FastGelu": fast_gelu,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "Gelu": gelu,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "MatMulNBits": matmul_nbits,
    "MultiHeadAttention": multi_head_attention,
    "QLinearAdd": _qlinear_binary("add"),
    "QLinearAveragePool": _qlinear(_pooled),
    "QLinearConcat": qlinear_concat,
    "QLinearGlobalAveragePool": _qlinear(_pooled_globally),
    "QLinearLeakyRelu": _qlinear(lambda t, x: t.op("leaky_relu", x, alpha=t.attribute("alpha", 0.01))),
    "QLinearMul": _qlinear_binary("mul"),
    "QLinearSigmoid": _qlinear(lambda t, x: t.op("sigmoid", x)),
    "QLinearSoftmax": qlinear_softmax,
    "QuantizeLinear": _per_axis("QuantizeLinear"),
    "QuickGelu": quick_gelu,
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_simplified_layer_normalization,
}
#: Standard in ONNX Runtime, unknown to ONNX.
TRANSLATORS: dict[str, Translator] = {"SimplifiedLayerNormalization": simplified_layer_normalization}
