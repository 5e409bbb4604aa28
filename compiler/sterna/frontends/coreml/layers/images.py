"""Layers on (..., C, H, W), as networks of all specifications have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.coreml.layers.translation import Layer, Translator
from sterna.frontends.coreml.mil.elementwise import gelu
from sterna.frontends.coreml.sampling import ALIGN, DEFAULT, OFFSET, STRICT, UNALIGN, resized, upsampling_of
from sterna.frontends.standard import standard
from sterna.ir.graph import Value


def _edges(amounts: Any) -> list[int]:
    """ONNX's pads of border amounts of H and W."""
    edges = list(amounts.borderAmounts)
    starts, ends = [int(e.startEdgeSize) for e in edges] or [0, 0], [int(e.endEdgeSize) for e in edges] or [0, 0]
    return [*starts, *ends]


def _padding(params: Any, which: str) -> dict[str, Any]:
    if which == "same":
        return {"auto_pad": "SAME_LOWER" if params.same.asymmetryMode == 1 else "SAME_UPPER"}
    return {"pads": _edges(params.valid.paddingAmounts)}


def _pair(values: Any, default: int) -> list[int]:
    return [int(n) for n in values] or [default, default]


def _convolution(t: Layer) -> Value:
    p = t.params
    x, groups = t.images(t.input(0)), int(p.nGroups) or 1
    kernel, out = _pair(p.kernelSize, 3), int(p.outputChannels)
    padding = _padding(p, p.WhichOneof("ConvolutionPaddingType") or "valid")
    settings: dict[str, Any] = {
        "strides": _pair(p.stride, 1), "dilations": _pair(p.dilationFactor, 1), "group": groups,
    }  # fmt: skip
    bias = t.vector(p.bias, out) if p.hasBias else None
    if len(t.inputs) > 1:
        weight = t.images(t.input(1))
    elif p.isDeconvolution:
        weight = t.constant(t.weights(p.weights, int(p.kernelChannels), out // groups, *kernel))
    else:
        weight = t.constant(t.weights(p.weights, out, int(p.kernelChannels), *kernel))
    if not p.isDeconvolution:
        return t.restored(standard(t, "Conv", x, weight, bias, **settings, **padding), t.input(0))
    if p.outputShape:
        arguments = {"output_shape": [1, out, *p.outputShape]}
        kind = (
            "custom" if "pads" in padding else {"SAME_UPPER": "same", "SAME_LOWER": "same_lower"}[padding["auto_pad"]]
        )
        pads = padding.get("pads", [0] * 4)
        made = t.mil(
            "conv_transpose", x=x, weight=weight, bias=bias, strides=settings["strides"], groups=groups,
            dilations=settings["dilations"], pad_type=kind, pad=[pads[0], pads[2], pads[1], pads[3]], **arguments,
        )  # fmt: skip
        return t.restored(made, t.input(0))
    return t.restored(standard(t, "ConvTranspose", x, weight, bias, **settings, **padding), t.input(0))


def _pooling(t: Layer) -> Value:
    p = t.params
    x, operator = t.images(t.input(0)), ("MaxPool", "AveragePool", "LpPool")[p.type]
    if p.globalPooling:
        return t.restored(standard(t, f"Global{operator}", x, p=2 if p.type == 2 else None), t.input(0))
    which = p.WhichOneof("PoolingPaddingType") or "valid"
    if which == "includeLastPixel":
        amounts = _pair(p.includeLastPixel.paddingAmounts, 0)
        padding: dict[str, Any] = {"pads": [*amounts, *amounts], "ceil_mode": 1}
    else:
        padding = _padding(p, which)
    if p.type == 1:
        padding["count_include_pad"] = int(not p.avgPoolExcludePadding)
    if p.type == 2:
        padding["p"] = 2
    made = standard(t, operator, x, kernel_shape=_pair(p.kernelSize, 3), strides=_pair(p.stride, 1), **padding)
    return t.restored(made, t.input(0))


def activation(t: Layer, p: Any, x: Value) -> Value:
    """An `ActivationParams` of `x`."""
    kind = p.WhichOneof("NonlinearityType")
    if kind is None:
        raise error("E0103", "an activation of no kind")
    s = getattr(p, kind)
    if kind in ("PReLU", "parametricSoftplus"):
        channels = t.extent(x, -3) if x.type.rank > 2 else t.extent(x, -1)

        def along(held: Any) -> Value:
            many = len(held.floatValue) or len(held.float16Value) // 2
            size = channels if many != 1 else 1
            array = t.weights(held, size)
            return t.constant(array.reshape((-1, 1, 1) if x.type.rank > 2 else (-1,)))

        if kind == "PReLU":
            return standard(t, "PRelu", x, along(s.alpha))
        return t.op("mul", along(s.alpha), standard(t, "Softplus", t.op("mul", x, along(s.beta))))
    plain = {
        "ReLU": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "softsign": "softsign", "softplus": "softplus",
    }  # fmt: skip
    if kind in plain:
        return t.mil(plain[kind], x=x)  # type: ignore[no-any-return]
    if kind in ("leakyReLU", "thresholdedReLU", "ELU"):
        name = {"leakyReLU": "leaky_relu", "thresholdedReLU": "thresholded_relu", "ELU": "elu"}[kind]
        return t.mil(name, x=x, alpha=s.alpha)  # type: ignore[no-any-return]
    name = {"linear": "linear_activation", "scaledTanh": "scaled_tanh", "sigmoidHard": "sigmoid_hard"}[kind]
    return t.mil(name, x=x, alpha=s.alpha, beta=s.beta)  # type: ignore[no-any-return]


def _unary(t: Layer) -> Value:
    p = t.params
    x = t.input(0)
    x = x if p.scale in (0.0, 1.0) else t.op("mul", x, t.scalar(p.scale, x.dtype))
    x = x if not p.shift else t.op("add", x, t.scalar(p.shift, x.dtype))
    name = ("sqrt", "rsqrt", "inverse", "pow", "exp", "log", "abs", "threshold")[p.type]
    if name == "pow":
        return t.mil("pow", x=x, y=t.scalar(p.alpha, x.dtype))  # type: ignore[no-any-return]
    if name == "threshold":
        return t.mil(name, x=x, alpha=p.alpha)  # type: ignore[no-any-return]
    epsilon = {"epsilon": p.epsilon or 1e-6} if name in ("rsqrt", "inverse") else {}
    epsilon = {"epsilon": 0.0} if name == "log" else epsilon
    return t.mil(name, x=x, **epsilon)  # type: ignore[no-any-return]


def _inner_product(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    weight = t.constant(t.weights(p.weights, int(p.outputChannels), int(p.inputChannels)).T.copy())
    rank = x.type.rank
    deep = rank >= 4 or (rank == 3 and x.shape[-1] == 1 and x.shape[-2] == 1 and p.inputChannels != 1)
    # C, H and W of an old network are one row.
    size: Any = 1
    for extent in x.shape[rank - 3 :] if deep else ():
        size = size * extent
    rows = t.reshape(x, (*x.shape[: rank - 3], size)) if deep else x
    made = standard(t, "MatMul", rows, weight)
    made = t.op("add", made, t.vector(p.bias, int(p.outputChannels))) if p.hasBias else made
    return t.reshape(made, (*made.shape, 1, 1)) if deep else made


def _embedding(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    table = t.weights(p.weights, int(p.outputChannels), int(p.inputDim)).T
    table = table + t.weights(p.bias, int(p.outputChannels)) if p.hasBias else table
    found = standard(t, "Gather", t.constant(table.copy()), t.cast(x, "int64"), axis=0)
    # (..., 1, 1, 1) becomes (..., C, 1, 1).
    return t.reshape(found, (*x.shape[: x.type.rank - 3], int(p.outputChannels), 1, 1))


def _batchnorm(t: Layer) -> Value:
    p, x = t.params, t.images(t.input(0))
    count, epsilon = int(p.channels), p.epsilon or 1e-5
    gamma, beta = t.vector(p.gamma, count), t.vector(p.beta, count)
    if p.computeMeanVar:
        if not p.instanceNormalization:
            raise t.unsupported("with the mean and variance of the batch")
        return t.restored(standard(t, "InstanceNormalization", x, gamma, beta, epsilon=epsilon), t.input(0))
    mean, variance = t.vector(p.mean, count), t.vector(p.variance, count)
    return t.restored(standard(t, "BatchNormalization", x, gamma, beta, mean, variance, epsilon=epsilon), t.input(0))


def _last(x: Value, count: int) -> list[int]:
    return list(range(x.type.rank - count, x.type.rank))


def _mvn(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    axes = t.i64(_last(x, 3 if p.acrossChannels else 2))
    centred = t.op("sub", x, standard(t, "ReduceMean", x, axes))
    if not p.normalizeVariance:
        return centred
    variance = standard(t, "ReduceMean", t.op("mul", centred, centred), axes)
    root = standard(t, "Sqrt", t.op("add", variance, t.scalar(p.epsilon or 1e-5, x.dtype)))
    return t.op("div", centred, root)


def _lrn(t: Layer) -> Value:
    p, x = t.params, t.images(t.input(0))
    made = standard(t, "LRN", x, size=int(p.localSize), alpha=p.alpha, beta=p.beta, bias=p.k or 1.0)
    return t.restored(made, t.input(0))


def _crop(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    rank = x.type.rank
    if len(t.inputs) > 1:
        start = [int(n) for n in p.offset] or [0, 0]
        end = [start[n] + t.extent(t.input(1), n - 2) for n in (0, 1)]
    else:
        edges = _edges(p.cropAmounts)
        start, end = edges[:2], [t.extent(x, n - 2) - edges[2 + n] for n in (0, 1)]
    return standard(t, "Slice", x, t.i64(start), t.i64(end), t.i64([rank - 2, rank - 1]))


def _padding_layer(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    which = p.WhichOneof("PaddingType") or "constant"
    mode = {"constant": "constant", "reflection": "reflect", "replication": "edge"}[which]
    value = t.scalar(p.constant.value, x.dtype) if mode == "constant" else None
    return standard(t, "Pad", x, t.i64(_edges(p.paddingAmounts)), value, t.i64(_last(x, 2)), mode=mode)


def _upsample(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    factors = [float(n) for n in p.fractionalScalingFactor] or [float(n) for n in p.scalingFactor] or [1.0, 1.0]
    sizes = [upsampling_of(t.extent(x, n - 2), factors[n]) for n in (0, 1)]
    if p.mode == 0:
        return resized(t, x, sizes, False, DEFAULT)
    return resized(t, x, sizes, True, (DEFAULT, STRICT, UNALIGN)[p.linearUpsampleMode])


def _resize_bilinear(t: Layer) -> Value:
    p = t.params
    return resized(t, t.input(0), _pair(p.targetSize, 1), True, (STRICT, ALIGN, DEFAULT, OFFSET)[p.mode.samplingMethod])


def _reduce(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    axes = {0: (-3, -2, -1), 1: (-2, -1), 2: (-3,), 3: (-2,), 4: (-1,)}[p.axis]
    if p.mode == 9:
        made = standard(t, "ArgMax", x, axis=axes[0], keepdims=1)
        return t.cast(made, x.dtype)
    if p.mode == 3:
        x = t.op("add", x, t.scalar(p.epsilon or 1e-6, x.dtype))
        return standard(t, "ReduceSum", standard(t, "Log", x), t.i64(axes))
    names = ["Sum", "Mean", "Prod", "LogSum", "SumSquare", "L1", "L2", "Max", "Min"]
    return standard(t, f"Reduce{names[p.mode]}", x, t.i64(axes))


def _shaped(t: Layer, held: Any, shape: list[int]) -> Value:
    """Weights of C, (1, C), (C, H, W), that are added to images."""
    array = t.weights(held, *shape)
    return t.constant(array.reshape(-1, 1, 1) if array.ndim == 1 and array.size > 1 else array)


def _scale(t: Layer) -> Value:
    p = t.params
    made = t.op("mul", t.input(0), _shaped(t, p.scale, [int(n) for n in p.shapeScale]))
    return t.op("add", made, _shaped(t, p.bias, [int(n) for n in p.shapeBias])) if p.hasBias else made


def _constant(t: Layer) -> Value:
    shape = [int(n) for n in t.params.shape]
    return t.constant(t.weights(t.params.data, *shape).reshape([1] * (5 - len(shape)) + shape))


def _reshape(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    target = [int(n) for n in p.targetShape]
    rank = x.type.rank
    if p.mode == 1:
        x = t.transpose(x, (*range(rank - 3), rank - 2, rank - 1, rank - 3))
        target = [*target[:-3], target[-2], target[-1], target[-3]]
    lead = list(x.shape[: rank - 3]) if len(target) == 3 else [target[0], *x.shape[1 : rank - 3]]
    made = t.reshape(x, (*lead, *target[-3:]))
    last = len(lead)
    return t.transpose(made, (*range(last), last + 2, last, last + 1)) if p.mode == 1 else made


def _flatten(t: Layer) -> Value:
    x = t.input(0)
    rank = x.type.rank
    if t.params.mode == 1:
        x = t.transpose(x, (*range(rank - 3), rank - 2, rank - 1, rank - 3))
    c, h, w = x.shape[rank - 3 :]
    return t.reshape(x, (*x.shape[: rank - 3], c * h * w, 1, 1))


def _permute(t: Layer) -> Value:
    """The axes are those of (Seq, C, H, W); the batch stays where it is."""
    x, axes = t.input(0), [int(n) for n in t.params.axis]
    if sorted(axes) != [0, 1, 2, 3]:
        raise error("E0109", f"the axes {axes} are no order of four")
    if x.type.rank == 4:
        return t.transpose(x, axes)
    if x.type.rank == 3:
        return t.transpose(x, [n - 1 for n in axes if n])
    place = (0, 2, 3, 4)
    order = [place[n] for n in axes]
    return t.transpose(x, [order[0], 1, *order[1:]])


def _slice(t: Layer) -> Value:
    p = t.params
    axis = p.axis - 3
    end = int(p.endIndex) if p.endIndex else np.iinfo(np.int64).max
    return standard(t, "Slice", t.input(0), *(t.i64([n]) for n in (int(p.startIndex), end, axis, int(p.stride) or 1)))


def _dot(t: Layer) -> Value:
    a, b = t.input(0), t.input(1)
    axis = t.i64([-3])
    if t.params.cosineSimilarity:
        a, b = (t.op("div", v, standard(t, "ReduceL2", v, axis)) for v in (a, b))
    return standard(t, "ReduceSum", t.op("mul", a, b), axis)


def _many(operator: str) -> Translator:
    def translate(t: Layer) -> Value:
        return standard(t, operator, *(t.input(n) for n in range(len(t.inputs))))

    return translate


def _arithmetic(operator: str) -> Translator:
    def translate(t: Layer) -> Value:
        made = t.input(0)
        if len(t.inputs) == 1:
            return standard(t, operator, made, t.scalar(t.params.alpha, made.dtype))
        for n in range(1, len(t.inputs)):
            made = standard(t, operator, made, t.input(n))
        return made

    return translate


def _split(t: Layer) -> Any:
    axis = max(t.input(0).type.rank - 3, 0)
    return t.mil("split", x=t.input(0), num_splits=int(t.params.nOutputs), axis=axis)


def _reorganize(t: Layer) -> Value:
    p, x = t.params, t.images(t.input(0))
    names = ("space_to_depth", "depth_to_space", "pixel_shuffle")
    setting = "upscale_factor" if p.mode == 2 else "block_size"
    return t.restored(t.mil(names[p.mode], x=x, **{setting: int(p.blockSize)}), t.input(0))


def _repeat(t: Layer) -> Value:
    x = t.input(0)
    return standard(t, "Tile", x, t.i64([int(t.params.nRepetitions) or 1, *([1] * (x.type.rank - 1))]))


def _l2(t: Layer) -> Value:
    return t.mil("l2_norm", x=t.input(0), epsilon=t.params.epsilon or 1e-6)  # type: ignore[no-any-return]


def _concat(t: Layer) -> Value:
    values = [t.input(n) for n in range(len(t.inputs))]
    axis = -values[0].type.rank if t.params.sequenceConcat else -3
    return standard(t, "Concat", *values, axis=axis)


TRANSLATORS: dict[str, Translator] = {
    "activation": lambda t: activation(t, t.params, t.input(0)),
    "add": _arithmetic("Add"),
    "average": _many("Mean"),
    "batchnorm": _batchnorm,
    "bias": lambda t: t.op("add", t.input(0), _shaped(t, t.params.bias, [int(n) for n in t.params.shape])),
    "concat": _concat,
    "convolution": _convolution,
    "copy": lambda t: t.input(0),
    "crop": _crop,
    "dot": _dot,
    "embedding": _embedding,
    "flatten": _flatten,
    "gelu": lambda t: gelu(t, t.input(0), ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")[t.params.mode]),
    "innerProduct": _inner_product,
    "l2normalize": _l2,
    "loadConstant": _constant,
    "lrn": _lrn,
    "max": _many("Max"),
    "min": _many("Min"),
    "multiply": _arithmetic("Mul"),
    "mvn": _mvn,
    "padding": _padding_layer,
    "permute": _permute,
    "pooling": _pooling,
    "reduce": _reduce,
    "reorganizeData": _reorganize,
    "reshape": _reshape,
    "resizeBilinear": _resize_bilinear,
    "scale": _scale,
    "sequenceRepeat": _repeat,
    "slice": _slice,
    "softmax": lambda t: standard(t, "Softmax", t.input(0), axis=-3 if t.input(0).type.rank > 2 else -1),
    "split": _split,
    "unary": _unary,
    "upsample": _upsample,
}
