"""Convolutions, pooling and normalization, in both layouts and with every padding."""

from __future__ import annotations

from typing import Any

from sterna.errors import error
from sterna.frontends.standard import standard
from sterna.frontends.tensorflow.operators.arithmetic import fused_tail, normalized, per_channel
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Value


def padding_of(t: Translation) -> dict[str, Any]:
    """How ONNX says what the node says of padding."""
    kind = t.option("padding", None)
    if kind is None:
        raise error("E0109", f"{t.kind} lacks the attribute padding")
    if kind == "SAME":
        return {"auto_pad": "SAME_UPPER"}
    if kind == "VALID":
        return {"auto_pad": "VALID"}
    amounts = t.integers_of("explicit_paddings")
    pairs = [amounts[n : n + 2] for n in range(0, len(amounts), 2)]
    inner = pairs[2:] if t.first else pairs[1:-1]
    if not inner or any(len(pair) != 2 for pair in inner):
        known = "SAME, VALID, or EXPLICIT with two numbers for each dimension"
        raise error("E0109", f"{t.kind} has the padding {str(kind)[:40]} {list(amounts)}, not {known}")
    return {"pads": (*(p[0] for p in inner), *(p[1] for p in inner))}


def _steps(t: Translation, name: str, rank: int) -> tuple[int, ...]:
    values = t.integers_of(name) or (1,) * rank
    if name == "strides" and t.attributes.get(name) is None:
        raise error("E0109", f"{t.kind} lacks the attribute {name}")
    if len(values) != rank:
        raise error("E0109", f"{name} of {t.kind} is {list(values)} for {rank} dimensions")
    return t.spatial(values)


def conv(t: Translation) -> Value:
    """Conv2D, Conv3D: weights are (spatial..., inputs of a group, outputs)."""
    x, w = t.input(0), t.input(1)
    rank = x.type.rank
    if w.type.rank != rank:
        raise error("E0108", f"{t.kind} of {x.type} by {w.type}")
    channels = t.extent(x, 1 if t.first else rank - 1)
    inner, _ = t.extent(w, rank - 2), t.extent(w, rank - 1)
    if not inner or channels % inner:
        raise error("E0108", f"{channels} channels in groups of {inner}")
    weights = t.transpose(w, (rank - 1, rank - 2, *range(rank - 2)))
    y = standard(
        t, "Conv", t.channels_first(x), weights, strides=_steps(t, "strides", rank),
        dilations=_steps(t, "dilations", rank), group=channels // inner, **padding_of(t),
    )  # fmt: skip
    return t.back(y)


def depthwise(t: Translation) -> Value:
    """Weights are (height, width, channels, results of a channel)."""
    x, w = t.input(0), t.input(1)
    h, wide, channels, times = t.sizes(w, 4)
    weights = t.reshape(t.transpose(w, (2, 3, 0, 1)), (channels * times, 1, h, wide))
    y = standard(
        t, "Conv", t.channels_first(x), weights, strides=_steps(t, "strides", 4),
        dilations=_steps(t, "dilations", 4), group=channels, **padding_of(t),
    )  # fmt: skip
    return t.back(y)


def conv_transposed(t: Translation) -> Value:
    """Conv2DBackpropInput and Conv3DBackpropInputV2, which say how large the result is."""
    wanted, w, x = t.dims(0, "sizes"), t.input(1), t.input(2)
    rank = x.type.rank
    if w.type.rank != rank or len(wanted) not in (rank, rank - 2):
        raise error("E0108", f"{t.kind} of {x.type} by {w.type} to {len(wanted)} sizes")
    strides, dilations = _steps(t, "strides", rank), _steps(t, "dilations", rank)
    sizes = wanted if len(wanted) == rank - 2 else wanted[2:] if t.first else wanted[1:-1]
    x = t.channels_first(x)
    kernel = [t.extent(w, n) for n in range(rank - 2)]
    padding = padding_of(t)
    before, after, more = [], [], []
    for n, (size, stride, dilation, extent) in enumerate(zip(sizes, strides, dilations, kernel, strict=True)):
        reach = (extent - 1) * dilation + 1
        if "pads" in padding:
            first, last = padding["pads"][n], padding["pads"][n + rank - 2]
        elif padding["auto_pad"] == "VALID":
            first = last = 0
        else:
            if not size.is_const:
                raise t.open_sizes(t.input(2))
            total = max((-(-int(size) // stride) - 1) * stride + reach - int(size), 0)
            first, last = total // 2, total - total // 2
        rest = 0
        if size.is_const and x.shape[2 + n].is_const:
            rest = int(size) - ((int(x.shape[2 + n]) - 1) * stride + reach - first - last)
        if not 0 <= rest < max(stride, dilation):
            raise error("E0108", f"{t.kind} of {t.input(2).type} does not give {[str(s) for s in wanted]}")
        before.append(first)
        after.append(last)
        more.append(rest)
    weights = t.transpose(w, (rank - 1, rank - 2, *range(rank - 2)))
    inner = t.extent(weights, 0)
    channels = t.extent(x, 1)
    if channels != inner:
        raise error("E0108", f"{t.kind}: {channels} channels for weights of {inner}")
    y = standard(
        t, "ConvTranspose", x, weights, strides=strides, dilations=dilations, pads=(*before, *after),
        output_padding=tuple(more),
    )  # fmt: skip
    return t.back(y)


def _pool(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.input(0)
        rank = x.type.rank
        ksize, strides = t.option("ksize", ()), t.option("strides", ())
        if t.kind == "MaxPoolV2":
            ksize, strides = t.integers(1, "the window"), t.integers(2, "the strides")
        if len(ksize) != rank or len(strides) != rank:
            raise error("E0109", f"{t.kind} of {x.type} has windows {list(ksize)} and strides {list(strides)}")
        outer = [v for values in (ksize, strides) for v in (values[0], values[1 if t.first else -1])]
        if any(v != 1 for v in outer):
            raise t.unsupported("over the batch or channels")
        more: dict[str, Any] = {"count_include_pad": 0} if operator == "AveragePool" else {}
        y = standard(
            t, operator, t.channels_first(x), kernel_shape=t.spatial(ksize), strides=t.spatial(strides),
            **padding_of(t), **more,
        )  # fmt: skip
        return t.back(y)

    return translate


def batch_norm(t: Translation) -> tuple[Value, ...]:
    """FusedBatchNorm; where it is training, by the mean and the variance of the batch itself."""
    x, scale, offset, mean, variance = (t.input(n) for n in range(5))
    if t.option("is_training", True):
        axes = (0, *range(2, x.type.rank)) if t.first else tuple(range(x.type.rank - 1))
        mean = t.op("reduce_mean", x, axes=axes, keep_dims=False)
        distance = t.op("sub", x, per_channel(t, x, mean))
        variance = t.op("reduce_mean", t.op("mul", distance, distance), axes=axes, keep_dims=False)
    y = normalized(t, x, scale, offset, mean, variance)
    return y, mean, variance, mean, variance, mean


def batch_norm_old(t: Translation) -> Value:
    """BatchNormWithGlobalNormalization: tensor, mean, variance, beta, gamma."""
    x, mean, variance, beta, gamma = (t.input(n) for n in range(5))
    options = t.again(*t.items, epsilon=t.option("variance_epsilon", 1e-3))
    return normalized(options, x, gamma, beta, mean, variance)


def lrn(t: Translation) -> Value:
    x = t.input(0)
    size = 2 * int(t.option("depth_radius", 5)) + 1
    y = standard(
        t, "LRN", t.channels_first(x), size=size, alpha=float(t.option("alpha", 1.0)) * size,
        beta=float(t.option("beta", 0.5)), bias=float(t.option("bias", 1.0)),
    )  # fmt: skip
    return t.back(y)


def batch_norm_ex(t: Translation) -> tuple[Value, ...]:
    """_FusedBatchNormEx of Grappler: a further operand is added, and an activation follows."""
    y, *rest = batch_norm(t)
    if int(t.option("num_side_inputs", 0)):
        y = t.op("add", y, t.input(5))
    kind = str(t.option("activation_mode", "Identity"))
    if kind not in ("Identity", "Relu"):
        raise t.unsupported(f"with {kind[:40]}")
    return (t.op("relu", y) if kind == "Relu" else y, *rest)


def _fused(product: Any) -> Translator:
    return lambda t: fused_tail(t, product(t))


TRANSLATORS: dict[str, Translator] = {
    "AvgPool": _pool("AveragePool"), "AvgPool3D": _pool("AveragePool"),
    "BatchNormWithGlobalNormalization": batch_norm_old,
    "Conv2D": conv, "Conv2DBackpropInput": conv_transposed, "Conv3D": conv, "Conv3DBackpropInputV2": conv_transposed,
    "DepthwiseConv2dNative": depthwise, "FusedBatchNorm": batch_norm, "FusedBatchNormV2": batch_norm,
    "FusedBatchNormV3": batch_norm, "FusedDepthwiseConv2dNative": _fused(depthwise), "LRN": lrn,
    "MaxPool": _pool("MaxPool"), "MaxPool3D": _pool("MaxPool"), "MaxPoolV2": _pool("MaxPool"),
    "_FusedBatchNormEx": batch_norm_ex, "_FusedConv2D": _fused(conv), "_FusedConv3D": _fused(conv),
    "_FusedDepthwiseConv2dNative": _fused(depthwise),
}  # fmt: skip
