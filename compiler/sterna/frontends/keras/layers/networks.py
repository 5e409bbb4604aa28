"""Functions of keras.ops that layers are made of: windows, normalizations, attention, losses, and pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import axes_of
from sterna.frontends.keras.layers.arguments import axes_in, option, tensor, two_operands
from sterna.frontends.keras.layers.images import resized
from sterna.frontends.keras.translation import Result, Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value


def _first(t: Translation, name: str = "data_format", position: int = 99) -> bool:
    return str(option(t, position, name, "channels_last") or "channels_last") == "channels_first"


def _several(value: Any, rank: int) -> tuple[int, ...]:
    return (int(value),) * rank if isinstance(value, (int, np.integer)) else tuple(int(n) for n in value)


def _pool(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x, first = t.x, _first(t, position=4)
        rank = x.type.rank - 2
        size = _several(option(t, 1, "pool_size", 2), rank)
        strides = option(t, 2, "strides", None)
        x = x if first else t.to_first(x)
        y = t.standard(
            operator, x, kernel_shape=size, strides=size if strides is None else _several(strides, rank),
            auto_pad=_padding(t, 3),
        )  # fmt: skip
        return y if first else t.to_last(y)

    return translate


def _padding(t: Translation, position: int) -> str:
    found = str(option(t, position, "padding", "valid")).lower()
    if found not in ("same", "valid"):
        raise t.unsupported(f"with the padding {found}")
    return "SAME_UPPER" if found == "same" else "VALID"


def _conv(t: Translation, depthwise: bool = False) -> Value:
    """The kernel is (spatial..., inputs / groups, outputs), depthwise (spatial..., channels, multiplier)."""
    x, first = t.x, _first(t, position=4)
    kernel = tensor(t, option(t, 1, "kernel", None), t.x)
    rank = x.type.rank - 2
    if kernel.type.rank != rank + 2:
        raise error("E0108", f"the kernel is {kernel.type} for {x.type}")
    x = x if first else t.to_first(x)
    if depthwise:
        channels, multiplier = t.extent(kernel, -2), t.extent(kernel, -1)
        kernel = t.reshape(kernel, (*kernel.shape[:-2], 1, channels * multiplier))
    weight = t.transpose(kernel, (rank + 1, rank, *range(rank)))
    y = t.standard(
        "Conv", x, weight, strides=_several(option(t, 2, "strides", 1), rank), auto_pad=_padding(t, 3),
        dilations=_several(option(t, 5, "dilation_rate", 1), rank), group=t.extent(x, 1) // t.extent(weight, 1),
    )  # fmt: skip
    return y if first else t.to_last(y)


def _separable(t: Translation) -> Value:
    """A kernel for each channel, then one of one element that mixes them."""
    x, first = t.x, _first(t, position=5)
    depth, point = (tensor(t, option(t, n + 1, key, None), x) for n, key in enumerate(_SEPARABLE))
    rank = x.type.rank - 2
    x = x if first else t.to_first(x)
    depth = t.reshape(depth, (*depth.shape[:-2], 1, t.extent(depth, -2) * t.extent(depth, -1)))
    order = (rank + 1, rank, *range(rank))
    y = t.standard(
        "Conv", x, t.transpose(depth, order), strides=_several(option(t, 3, "strides", 1), rank),
        auto_pad=_padding(t, 4), dilations=_several(option(t, 6, "dilation_rate", 1), rank), group=t.extent(x, 1),
    )  # fmt: skip
    y = t.standard("Conv", y, t.transpose(point, order))
    return y if first else t.to_last(y)


_SEPARABLE = ("depthwise_kernel", "pointwise_kernel")


def _moments(t: Translation) -> Result:
    x = t.x
    axes, keep = axes_of(_listed(option(t, 1, "axes", -1)), x.type.rank), bool(option(t, 2, "keepdims", False))
    mean = t.reduced("reduce_mean", x, axes, True)
    apart = t.op("sub", x, mean)
    variance = t.reduced("reduce_mean", t.op("mul", apart, apart), axes, keep)
    return [t.reduced("reduce_mean", x, axes, keep), variance]


def _listed(value: Any) -> tuple[int, ...]:
    return (int(value),) if isinstance(value, (int, np.integer)) else tuple(int(n) for n in value)


def _optional(t: Translation, position: int, key: str, like: Value) -> Value | None:
    value = option(t, position, key, None)
    return None if value is None else t.cast(tensor(t, value, like), like.dtype)


def _layer_norm(t: Translation) -> Value:
    x = t.x
    gamma, beta = (_optional(t, n + 1, key, x) for n, key in enumerate(("gamma", "beta")))
    axes, epsilon = axes_of(_listed(option(t, 3, "axis", -1)), x.type.rank), float(option(t, 4, "epsilon", 1e-7))
    centred = t.op("sub", x, t.reduced("reduce_mean", x, axes, True))
    variance = t.reduced("reduce_mean", t.op("mul", centred, centred), axes, True)
    y = t.op("div", centred, t.op("sqrt", t.shifted(variance, epsilon)))
    shape = [x.shape[n] if n in axes else 1 for n in range(x.type.rank)]
    y = y if gamma is None else t.op("mul", y, t.reshape(gamma, shape))
    return y if beta is None else t.op("add", y, t.reshape(beta, shape))


def _rms_norm(t: Translation) -> Value:
    x = t.x
    scale = _optional(t, 1, "scale", x)
    axes, epsilon = (
        axes_of(_listed(option(t, 2, "axis", -1)), x.type.rank),
        float(option(t, 3, "epsilon", 1e-7)),
    )
    square = t.reduced("reduce_mean", t.op("mul", x, x), axes, True)
    y = t.op("div", x, t.op("sqrt", t.shifted(square, epsilon)))
    return y if scale is None else t.op("mul", y, scale)


def _batch_norm(t: Translation) -> Value:
    x = t.x
    axis = axes_of((int(option(t, 99, "axis", -1)),), x.type.rank)[0]
    shape = [x.shape[n] if n == axis else 1 for n in range(x.type.rank)]
    given = {key: _optional(t, n, key, x) for n, key in ((1, "mean"), (2, "variance"), (3, "offset"), (4, "scale"))}
    mean, variance, offset, scale = (None if v is None else t.reshape(v, shape) for v in given.values())
    if mean is None or variance is None:
        raise error("E0108", "batch_normalization takes a mean and a variance")
    root = t.op("sqrt", t.shifted(variance, float(option(t, 99, "epsilon", 1e-3))))
    y = t.op("div", t.op("sub", x, mean), root)
    y = y if scale is None else t.op("mul", y, scale)
    return y if offset is None else t.op("add", y, offset)


def _attention(t: Translation) -> Value:
    """(batch, steps, heads, size); heads of keys and values may each stand for several of queries."""
    q, k, v = (tensor(t, option(t, n, key, None), None) for n, key in enumerate(("query", "key", "value")))
    bias, mask = (option(t, n + 3, key, None) for n, key in enumerate(("bias", "mask")))
    if q.type.rank != 4:
        raise error("E0108", f"attention of {q.type}")
    scale = option(t, 5, "scale", None)
    scale = 1 / math.sqrt(t.extent(q, -1)) if scale is None else float(scale)
    heads, own = t.extent(q, 2), t.extent(k, 2)
    if own != heads:
        places = t.constant(np.repeat(np.arange(own), heads // own), "int64")
        k, v = (t.op("gather", x, places, axis=2) for x in (k, v))
    scores = t.op("matmul", t.transpose(t.scaled(q, scale), (0, 2, 1, 3)), t.transpose(k, (0, 2, 3, 1)))
    scores = scores if bias is None else t.op("add", scores, t.cast(tensor(t, bias, scores), scores.dtype))
    # Not minus infinity: a query whose keys are all masked sees all of them alike.
    least = np.finfo("float16" if scores.dtype == "float16" else "float32").min
    low = t.scalar(float(least) * 0.7, scores.dtype)
    if mask is not None:
        scores = t.op("where", t.cast(tensor(t, mask, None), "bool"), scores, low)
    if option(t, 6, "is_causal", False):
        steps = np.arange(t.extent(q, 1))[:, None] >= np.arange(t.extent(k, 1))[None, :]
        scores = t.op("where", t.constant(steps), scores, low)
    made = t.op("matmul", t.op("softmax", scores, axis=-1), t.transpose(v, (0, 2, 1, 3)))
    return t.transpose(made, (0, 2, 1, 3))


def _multi_hot(t: Translation) -> Value:
    ids, count = t.x, int(option(t, 1, "num_classes", 1))
    axis = 1 if ids.type.rank > 1 else 0
    hits = t.op("equal", t.reshape(ids, (*ids.shape, 1)), t.constant(np.arange(count), ids.dtype))
    return t.cast(t.reduced("reduce_any", hits, (axis,)), str(option(t, 3, "dtype", "float32") or "float32"))


def _clipped(t: Translation, x: Value) -> Value:
    return t.op("clip", x, min=1e-7, max=1 - 1e-7)


def _binary_loss(t: Translation) -> Value:
    target, output = (tensor(t, option(t, n, key, None), None) for n, key in enumerate(("target", "output")))
    target = t.cast(target, output.dtype)
    if option(t, 2, "from_logits", False):
        output = t.op("sigmoid", output)
    output, one = _clipped(t, output), t.scalar(1.0, output.dtype)
    near = t.op("mul", target, t.op("log", output))
    far = t.op("mul", t.op("sub", one, target), t.op("log", t.op("sub", one, output)))
    return t.op("neg", t.op("add", near, far))


def _class_loss(sparse: bool) -> Translator:
    def translate(t: Translation) -> Value:
        target, output = (tensor(t, option(t, n, key, None), None) for n, key in enumerate(("target", "output")))
        axis = axes_of((int(option(t, 3, "axis", -1)),), output.type.rank)[0]
        if sparse:
            if axis != output.type.rank - 1:
                raise t.unsupported(f"along the axis {axis}")
            ids = t.reshape(target, target.shape[:-1]) if target.type.rank == output.type.rank else target
            wide = t.reshape(t.cast(ids, "int64"), (*ids.shape, 1))
            target = t.op("equal", wide, t.constant(np.arange(t.extent(output, axis)), "int64"))
        target = t.cast(target, output.dtype)
        if option(t, 2, "from_logits", False):
            log = t.op("log_softmax", output, axis=axis)
        else:
            share = t.op("div", output, t.reduced("reduce_sum", output, (axis,), True))
            log = t.op("log", _clipped(t, share))
        return t.op("neg", t.reduced("reduce_sum", t.op("mul", target, log), (axis,)))

    return translate


def _blocks(operator: str) -> Translator:
    """depth_to_space and space_to_depth."""

    def translate(t: Translation) -> Value:
        first = _first(t, position=2)
        x = t.x if first else t.to_first(t.x)
        settings = {"mode": "DCR"} if operator == "DepthToSpace" else {}
        y = t.standard(operator, x, blocksize=int(option(t, 1, "block_size", 2)), **settings)
        return y if first else t.to_last(y)

    return translate


# ---------------------------------------------------------------- pictures
def _gray(t: Translation) -> Value:
    x, first = t.x, _first(t, position=1)
    axis = x.type.rank - 3 if first else x.type.rank - 1
    weights = np.array([0.2989, 0.5870, 0.1140], np.float32).reshape((3, 1, 1) if first else (3,))
    wide = x if dtypes.is_float(x.dtype) else t.cast(x, "float32")
    gray = t.reduced("reduce_sum", t.op("mul", wide, t.constant(weights, wide.dtype)), (axis,), True)
    return t.cast(gray, x.dtype)


def _spatial(t: Translation, x: Value, first: bool) -> tuple[int, int]:
    rank = x.type.rank
    return (rank - 2, rank - 1) if first else (rank - 3, rank - 2)


def _pad_images(t: Translation) -> Value:
    """Zeros around pictures, by amounts or to a size."""
    x, first = t.x, _first(t, position=7)
    axes = _spatial(t, x, first)
    before, after = [0] * x.type.rank, [0] * x.type.rank
    names = (("top_padding", "bottom_padding", "target_height"), ("left_padding", "right_padding", "target_width"))
    for axis, (low, high, size) in zip(axes, names, strict=True):
        begin, end, wanted = (option(t, 99, name, None) for name in (low, high, size))
        extent = t.extent(x, axis)
        if begin is None:
            begin = int(wanted) - extent - int(end or 0) if end is not None and wanted is not None else 0
        if end is None:
            end = int(wanted) - extent - int(begin) if wanted is not None else 0
        before[axis], after[axis] = int(begin), int(end)
    return t.pad(x, before, after)


def _crop_images(t: Translation) -> Value:
    x, first = t.x, _first(t, position=7)
    names = (("top_cropping", "bottom_cropping", "target_height"), ("left_cropping", "right_cropping", "target_width"))
    for axis, (low, high, size) in zip(_spatial(t, x, first), names, strict=True):
        begin, end, wanted = (option(t, 99, name, None) for name in (low, high, size))
        extent = t.extent(x, axis)
        if begin is None:
            begin = extent - int(wanted) - int(end) if end is not None and wanted is not None else 0
        if end is None:
            end = extent - int(wanted) - int(begin) if wanted is not None else 0
        x = t.part(x, axis, int(begin), extent - int(begin) - int(end))
    return x


def _resize(t: Translation) -> Value:
    x, first = t.x, _first(t, position=7)
    if any(
        option(t, n, key, False)
        for n, key in ((3, "antialias"), (4, "crop_to_aspect_ratio"), (5, "pad_to_aspect_ratio"))
    ):
        raise t.unsupported("with antialiasing, or that keeps the ratio of the sizes")
    x = t.cast(x, "float32") if not dtypes.is_float(x.dtype) else x
    lone = x.type.rank == 3
    x = t.reshape(x, (1, *x.shape)) if lone else x
    height, width = (int(n) for n in option(t, 1, "size", ()))
    y = resized(t, t.to_last(x) if first else x, (height, width), str(option(t, 2, "interpolation", "bilinear")))
    y = t.to_first(y) if first else y
    return t.reshape(y, y.shape[1:]) if lone else y


def _channels(t: Translation, first: bool) -> tuple[int, list[Value]]:
    axis = t.x.type.rank - 3 if first else t.x.type.rank - 1
    return axis, [t.part(t.x, axis, n, 1) for n in range(3)]


def _hue(t: Translation) -> Value:
    """RGB as hue, saturation and value, each from 0 to 1."""
    axis, (r, g, b) = _channels(t, _first(t, position=1))
    value, low = t.reduced("reduce_max", t.x, (axis,), True), t.reduced("reduce_min", t.x, (axis,), True)
    zero, one = t.scalar(0, t.x.dtype), t.scalar(1, t.x.dtype)
    spread = t.op("sub", value, low)
    safe = t.op("where", t.op("greater", spread, zero), spread, one)
    saturation = t.op("div", spread, t.op("where", t.op("greater", value, zero), value, one))
    saturation = t.op("where", t.op("greater", value, zero), saturation, zero)
    sixth = t.scaled(t.op("div", one, safe), 1 / 6)
    of_red = t.op("mul", sixth, t.op("sub", g, b))
    of_green = t.shifted(t.op("mul", sixth, t.op("sub", b, r)), 2 / 6)
    of_blue = t.shifted(t.op("mul", sixth, t.op("sub", r, g)), 4 / 6)
    hue = t.op("where", t.op("equal", g, value), of_green, of_blue)
    hue = t.op("where", t.op("equal", r, value), of_red, hue)
    hue = t.op("where", t.op("greater", spread, zero), hue, zero)
    hue = t.op("where", t.op("less", hue, zero), t.shifted(hue, 1.0), hue)
    return t.op("concat", hue, saturation, value, axis=axis)


def _from_hue(t: Translation) -> Value:
    axis, (hue, saturation, value) = _channels(t, _first(t, position=1))
    six = t.scaled(hue, 6.0)
    one = t.scalar(1, t.x.dtype)
    shares = (
        t.shifted(t.op("abs", t.shifted(six, -3.0)), -1.0),
        t.op("sub", t.scalar(2, t.x.dtype), t.op("abs", t.shifted(six, -2.0))),
        t.op("sub", t.scalar(2, t.x.dtype), t.op("abs", t.shifted(six, -4.0))),
    )
    rest = t.op("sub", one, saturation)
    made = [
        t.op("mul", t.op("add", rest, t.op("mul", saturation, t.op("clip", share, min=0.0, max=1.0))), value)
        for share in shares
    ]
    return t.op("concat", *made, axis=axis)


def _psnr(t: Translation) -> Value:
    a, b = two_operands(t)
    gap = t.op("sub", a, b)
    error_of = t.reduced("reduce_mean", t.op("mul", gap, gap), axes_in(t, gap, 99))
    peak = float(option(t, 2, "max_val", 1.0))
    log = t.scaled(t.op("log", error_of), -10 / math.log(10))
    return t.shifted(log, 20 * math.log10(peak))


OPERATIONS: dict[str, Translator] = {
    "average_pool": _pool("AveragePool"),
    "batch_norm": _batch_norm,
    "binary_crossentropy": _binary_loss,
    "categorical_crossentropy": _class_loss(False),
    "conv": _conv,
    "crop_images": _crop_images,
    "depth_to_space": _blocks("DepthToSpace"),
    "depthwise_conv": lambda t: _conv(t, depthwise=True),
    "dot_product_attention": _attention,
    "layer_norm": _layer_norm,
    "max_pool": _pool("MaxPool"),
    "moments": _moments,
    "multi_hot": _multi_hot,
    "pad_images": _pad_images,
    "psnr": _psnr,
    "rgbtograyscale": _gray,
    "rms_norm": _rms_norm,
    "separable_conv": _separable,
    "resize": _resize,
    "hsvtorgb": _from_hue,
    "rgbtohsv": _hue,
    "space_to_depth": _blocks("SpaceToDepth"),
    "sparse_categorical_crossentropy": _class_loss(True),
}
