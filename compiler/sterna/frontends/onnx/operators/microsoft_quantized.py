"""ONNX Runtime's own quantized operators (com.microsoft), which its quantizer puts into models.

Their definitions: ContribOperators.md of ONNX Runtime. Weights of few bits stay so until they are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sterna.frontends.onnx.operators import convolution, recurrent
from sterna.frontends.onnx.operators import quantization as Q
from sterna.frontends.onnx.operators.microsoft import embedded, plain
from sterna.frontends.onnx.operators.quantization import dynamically_quantized, product, quantized, real
from sterna.frontends.onnx.translation import Translation, Translator, axes_of
from sterna.ir.graph import Value


def _scalar(t: Translation, value: Value | None) -> Value | None:
    return t.reshape(value, ()) if value is not None and value.type.elements == 1 else value


def _real(t: Translation, position: int) -> Value:
    """The quantized operand with the scale and zero point after it."""
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


def qlinear_add(t: Translation) -> Value:
    """QLinearAdd, in the order of ONNX Runtime's kernel: a / c and b / c are factors, and the zero points one addend.

    Its kernel multiplies and adds with one rounding where the machine can.
    """
    scales = [t.input(n) for n in (1, 4, 6)]
    zeros = [t.optional(n) for n in (2, 5, 7)]
    if any(v is not None and (v.data is None or v.type.elements != 1) for v in (*scales, *zeros)):
        return _rounded(t, t.op("add", _real(t, 0), _real(t, 3)), 6, t.input(0).dtype)
    a, b, c = (np.float32(v.data.reshape(-1)[0]) for v in scales if v.data is not None)
    za, zb, zc = (np.float32(0 if v is None or v.data is None else v.data.reshape(-1)[0]) for v in zeros)
    first, second = a / c, b / c
    y = t.scalar(zc - (first * za + second * zb), "float32")
    for position, factor in ((3, second), (0, first)):
        y = t.op("multiply_add", t.cast(t.input(position), "float32"), t.scalar(factor, "float32"), y)
    return quantized(t, y, None, zeros[2].dtype if zeros[2] is not None else t.input(0).dtype)


def _pooled(t: Translation, x: Value) -> Value:
    if t.attribute("channels_last", 0):
        return t.channels_last(convolution.average_pool(plain(t, [t.channels_first(x)])))
    return convolution.average_pool(plain(t, [x]))


def global_average_pool(t: Translation) -> Value:
    """The exact sum in int32, times one factor."""
    x, scale = t.input(0), _scalar(t, t.input(1))
    first = 1 if t.attribute("channels_last", 0) else 2
    axes = tuple(range(first, first + x.type.rank - 2))
    assert scale is not None
    if not all(x.shape[axis].is_const for axis in axes):
        return _rounded(t, t.op("reduce_mean", _real(t, 0), axes=axes, keep_dims=True), 3, x.dtype)
    count = math.prod(int(x.shape[axis]) for axis in axes)
    total = t.op("reduce_sum", Q.centered(t, x, _scalar(t, t.optional(2))), axes=axes, keep_dims=True)
    result, zero = _scalar(t, t.input(3)), _scalar(t, t.optional(4))
    assert result is not None
    factor = t.op("div", scale, t.op("mul", result, t.scalar(float(count), "float32")))
    y = t.op("mul", t.cast(total, "float32"), factor)
    return quantized(t, y, zero, zero.dtype if zero is not None else x.dtype)


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


def gemm(t: Translation) -> Value:
    """A product of matrices; a float unless the result has a scale. C counts in steps of the product of the scales."""
    a, b = t.input(0), t.input(3)
    zeros = [_scalar(t, t.optional(2)), _scalar(t, t.optional(5))]
    if t.attribute("transB", 0):
        # The zero points of B go with its columns, which are rows here.
        b = t.transpose(b, (1, 0))
    if t.attribute("transA", 0):
        a = t.transpose(a, (1, 0))
    y = product(t, a, b, *zeros)
    if t.has(6):
        y = t.op("add", y, t.cast(t.input(6), "int32"))
    scale = t.op("mul", _last(t, t.input(1)), _last(t, t.input(4)))
    alpha = t.attribute("alpha", 1.0)
    if alpha != 1.0:
        scale = t.op("mul", scale, t.scalar(alpha, scale.dtype))
    if t.has(7):
        y = t.op("mul", t.cast(y, scale.dtype), t.op("div", scale, _last(t, t.input(7))))
        zero = _scalar(t, t.optional(8))
        return quantized(t, y, zero, zero.dtype if zero is not None else a.dtype)
    return t.op("mul", t.cast(y, scale.dtype), scale)


def where(t: Translation) -> Value:
    return _rounded(t, t.op("where", t.input(0), _real(t, 1), _real(t, 4)), 7, t.input(1).dtype)


def reduce_mean(t: Translation) -> Value:
    x = _real(t, 0)
    given = t.attribute("axes")
    axes = axes_of(given, x.type.rank) if given else tuple(range(x.type.rank))
    y = t.op("reduce_mean", x, axes=axes, keep_dims=bool(t.attribute("keepdims", 1)))
    return _rounded(t, y, 3, t.input(0).dtype)


def conv(t: Translation) -> Value:
    """QLinearConv, whose activations may be channels-last."""
    if not t.attribute("channels_last", 0):
        return Q.qlinear_conv(t)
    return t.channels_last(Q.qlinear_conv(plain(t, [t.channels_first(t.input(0)), *t.inputs[1:]])))


def nhwc_max_pool(t: Translation) -> Value:
    (y, _) = convolution.max_pool(plain(t, [t.channels_first(t.input(0))]))
    assert y is not None
    return t.channels_last(y)


def embed_layer_normalization(t: Translation) -> tuple[Value | None, ...]:
    """EmbedLayerNormalization of tables in few bits."""

    def table(position: int) -> Value | None:
        """The operand, with its scale and zero point at fixed distances after it."""
        if not t.has(position):
            return None
        order = (2, 3, 4, 5, 6).index(position)
        scale, zero = _scalar(t, t.input(8 + order)), _scalar(t, t.optional(13 + order))
        assert scale is not None
        return real(t, t.input(position), scale, zero)

    operands = [t.optional(0), t.optional(1), *(table(n) for n in range(2, 7)), t.optional(7)]
    return embedded(plain(t, operands))[:2]


def lstm(t: Translation) -> tuple[Value | None, ...]:
    """An LSTM of weights in few bits, (directions, inputs, gates).

    ONNX Runtime rounds inputs and states to 8 bits too, with a scale of their own in every step, which costs
    accuracy: here they stay floats.
    """

    def weight(position: int, scale: int) -> Value:
        w, s, z = t.input(position), t.input(scale), t.optional(scale + 1)
        directions, _, gates = t.sizes(w, 3)

        def spread(x: Value) -> Value:
            return t.reshape(x, (directions, 1, gates if x.type.elements == directions * gates else 1))

        return t.transpose(real(t, w, spread(s), None if z is None else spread(z)), (0, 2, 1))

    operands = [t.input(0), weight(1, 8), weight(2, 10), *(t.optional(n) for n in range(3, 8))]
    return recurrent.TRANSLATORS["LSTM"](replaced(t, operands))  # type: ignore[return-value]


def replaced(t: Translation, inputs: list[Value | None]) -> Translation:
    """The node with other operands, its attributes as they are."""
    return Translation(
        replace(t.node, version=14), inputs, t.builder, origin=t.origin, used=t.used, sources=t.sources,
        declared=t.declared,
    )  # fmt: skip


#: Operators that differ from ONNX Runtime by design: how.
APPROXIMATED = {
    "DynamicQuantizeLSTM": "ONNX Runtime rounds the inputs and hidden states of DynamicQuantizeLSTM to 8 bits in every "
    "step; Sterna keeps them in floats",
}

MICROSOFT_TRANSLATORS: dict[str, Translator] = {
    "DynamicQuantizeLSTM": lstm,
    "DynamicQuantizeMatMul": dynamic_quantize_matmul,
    "MatMulIntegerToFloat": matmul_integer_to_float,
    "NhwcMaxPool": nhwc_max_pool,
    "QEmbedLayerNormalization": embed_layer_normalization,
    "QGemm": gemm,
    "QLinearAdd": qlinear_add,
    "QLinearAveragePool": _qlinear(_pooled),
    "QLinearConcat": qlinear_concat,
    "QLinearConv": conv,
    "QLinearGlobalAveragePool": global_average_pool,
    "QLinearLeakyRelu": _qlinear(lambda t, x: t.op("leaky_relu", x, alpha=t.attribute("alpha", 0.01))),
    "QLinearMul": _qlinear_binary("mul"),
    "QLinearReduceMean": reduce_mean,
    "QLinearSigmoid": _qlinear(lambda t, x: t.op("sigmoid", x)),
    "QLinearSoftmax": qlinear_softmax,
    "QLinearWhere": where,
}
