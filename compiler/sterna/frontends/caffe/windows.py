"""Layers of Caffe with windows: convolutions, pools, pyramids, and what undoes a pool."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.caffe.prototxt import Message
from sterna.frontends.caffe.translation import Translation
from sterna.frontends.emitter import MOST_TAPS
from sterna.ir.graph import Value

_Pair = tuple[int, int]
_POOLS = ("MAX", "AVE", "STOCHASTIC")
#: What pools a whole picture.
_WHOLE = {"MAX": "reduce_max", "AVE": "reduce_mean"}
#: Bounds of what a description may ask for.
_MOST_LEVELS, _MOST_PLACES = 12, 1 << 26


def _pair(s: Message, key: str, default: int, *, height: str = "", width: str = "") -> tuple[int, int]:
    """A setting for both directions: one number, two, or one for each under names of their own."""
    height, width = height or f"{key}_h", width or f"{key}_w"
    if height in s.fields or width in s.fields:
        return s.integer(height, default), s.integer(width, default)
    values = s.integers(key)
    if not values:
        return default, default
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


def choice(s: Message, key: str, *names: str, default: str = "") -> str:
    """A setting that is one of some names, or its number."""
    value = (s.all(key) or [default or names[0]])[-1]
    if isinstance(value, float) and 0 <= value < len(names):
        return names[int(value)]
    return str(value)


def _windows(t: Translation, s: Message) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Kernel, strides, padding and dilations of a convolution."""
    kernel = _pair(s, "kernel_size", 0, height="kernel_h", width="kernel_w")
    strides, pads, dilations = _pair(s, "stride", 1), _pair(s, "pad", 0), _pair(s, "dilation", 1)
    if min(*kernel, *strides, *dilations) < 1 or min(pads) < 0:
        raise error("E0109", f"kernel {kernel}, stride {strides}, pad {pads}, dilation {dilations}")
    if t.x.type.rank != 4:
        raise t.unsupported(f"of {t.x.type}")
    return kernel, strides, pads, dilations


def _channels(t: Translation, s: Message) -> tuple[int, int]:
    # Depthwise layers of forks need not say their groups: every channel is one.
    alone = t.extent(t.x, 1) if t.kind == "ConvolutionDepthwise" else 1
    outputs, groups = s.integer("num_output"), s.integer("group", alone)
    if outputs < 1 or groups < 1 or outputs % groups or t.extent(t.x, 1) % groups:
        raise error("E0109", f"{t.extent(t.x, 1)} channels and {outputs} outputs do not fall into {groups} groups")
    return outputs, groups


def convolution(t: Translation) -> Value:
    s = t.settings("convolution_param")
    kernel, strides, pads, dilations = _windows(t, s)
    outputs, groups = _channels(t, s)
    weight = t.fitted(0, "weights", outputs, t.extent(t.x, 1) // groups, *kernel)
    bias = t.numbers(t.fitted(1, "bias", outputs)) if s.flag("bias_term", True) else None
    return t.standard(
        "Conv", t.x, t.numbers(weight), bias, strides=strides, pads=(*pads, *pads), dilations=dilations, group=groups
    )


def deconvolution(t: Translation) -> Value:
    s = t.settings("convolution_param")
    kernel, strides, pads, dilations = _windows(t, s)
    outputs, groups = _channels(t, s)
    weight = t.fitted(0, "weights", t.extent(t.x, 1), outputs // groups, *kernel)
    bias = t.numbers(t.fitted(1, "bias", outputs)) if s.flag("bias_term", True) else None
    return t.standard(
        "ConvTranspose", t.x, t.numbers(weight), bias, strides=strides, pads=(*pads, *pads), dilations=dilations,
        group=groups,
    )  # fmt: skip


def pooling(t: Translation) -> Value | list[Value]:
    """Windows are counted up, unless `round_mode` says otherwise; averages count the padding.

    A second result of MAX holds the places of the greatest elements in their planes, as floats.
    """
    s, x = t.settings("pooling_param"), t.x
    kind = choice(s, "pool", *_POOLS)
    masked = len(t.layer.tops) > 1 and kind == "MAX"
    if s.flag("global_pooling"):
        if kind in _WHOLE and not masked:
            return t.op(_WHOLE[kind], x, axes=(2, 3), keep_dims=True)
        kernel, strides, pads = (t.extent(x, 2), t.extent(x, 3)), (1, 1), (0, 0)
    else:
        kernel, strides, pads, _ = _windows(t, s)
    up = s.all("round_mode")[-1:] not in (["FLOOR"], [1.0]) and s.flag("ceil_mode", True)
    if masked:
        settings = _pool_settings(kernel, strides, pads, up)
        y, places = t.standard_results("MaxPool", x, results=2, **settings)
        plane = t.extent(x, 2) * t.extent(x, 3)
        return [y, t.cast(t.op("mod", places, t.scalar(plane, "int64")), "float32")]
    return _pooled(t, x, kind, kernel, strides, pads, up)


def _pool_settings(kernel: _Pair, strides: _Pair, pads: _Pair, up: bool) -> dict[str, Any]:
    return {"kernel_shape": kernel, "strides": strides, "pads": (*pads, *pads), "ceil_mode": int(up)}


def _pooled(t: Translation, x: Value, kind: str, kernel: _Pair, strides: _Pair, pads: _Pair, up: bool) -> Value:
    """The greatest element of each window, the mean, or (STOCHASTIC) the mean weighted by the elements themselves."""
    settings = _pool_settings(kernel, strides, pads, up)
    if any(pad >= size for pad, size in zip(pads, kernel, strict=True)) or (kind == "STOCHASTIC" and any(pads)):
        raise error("E0109", f"pad is {pads} for {kind} of windows of {kernel}")
    if kind == "MAX":
        return t.standard("MaxPool", x, **settings)
    if kind == "AVE":
        return t.standard("AveragePool", x, count_include_pad=1, **settings)
    if kind != "STOCHASTIC":
        raise error("E0109", f"pool is {kind}")
    squares, sums = (t.standard("AveragePool", value, **settings) for value in (t.op("mul", x, x), x))
    return t.op("div", squares, t.linear(sums, 1.0, float(np.finfo(np.float32).tiny)))


def spatial_pyramid(t: Translation) -> Value:
    """SPP: the picture pooled in 1, 4, 16 ... windows, as rows. One level alone keeps its dimensions."""
    s, x = t.settings("spp_param"), t.x
    levels, kind = s.integer("pyramid_height"), choice(s, "pool", *_POOLS)
    if not 1 <= levels <= _MOST_LEVELS:
        raise error("E0109", f"pyramid_height is {levels}")
    sizes = t.extent(x, 2), t.extent(x, 3)
    parts = []
    for level in range(levels):
        bins = 1 << level
        high, wide = (-(-size // bins) for size in sizes)
        pads = ((high * bins - sizes[0] + 1) // 2, (wide * bins - sizes[1] + 1) // 2)
        parts.append(_pooled(t, x, kind, (high, wide), (high, wide), pads, up=True))
    if levels == 1:
        return parts[0]
    rows = [t.reshape(part, (part.shape[0], t.product(part.shape[1:]))) for part in parts]
    return t.op("concat", *rows, axis=1)


def image_to_columns(t: Translation) -> Value:
    """Im2col: (batch, channels x taps, rows, columns), of each channel all taps of its window."""
    x = t.x
    (high, wide), strides, pads, dilations = _windows(t, t.settings("convolution_param"))
    if high * wide > MOST_TAPS:
        raise error("E0109", f"a window of {high} x {wide}")
    x = t.pad(x, (0, 0, *pads), (0, 0, *pads))
    counts = []
    for axis, (size, stride, dilation) in enumerate(zip((high, wide), strides, dilations, strict=True), 2):
        counts.append((t.extent(x, axis) - dilation * (size - 1) - 1) // stride + 1)
    if min(counts) < 1:
        raise error("E0108", f"a window of {high} x {wide} does not fit into {x.type}")
    batch, channels = x.shape[:2]
    taps = []
    for row in range(high):
        for column in range(wide):
            starts = (0, 0, row * dilations[0], column * dilations[1])
            part = t.op("slice", x, starts=starts, sizes=(batch, channels, *counts), steps=(1, 1, *strides))
            taps.append(t.reshape(part, (batch, channels, 1, *counts)))
    joined = t.op("concat", *taps, axis=2) if len(taps) > 1 else taps[0]
    return t.reshape(joined, (batch, channels * high * wide, *counts))


def lrn(t: Translation) -> Value:
    s, x = t.settings("lrn_param"), t.x
    size, alpha, beta, k = (
        s.integer("local_size", 5),
        s.number("alpha", 1.0),
        s.number("beta", 0.75),
        s.number("k", 1.0),
    )
    region = s.all("norm_region")[-1:] or ["ACROSS_CHANNELS"]
    if region[0] in ("ACROSS_CHANNELS", 0.0):
        return t.standard("LRN", x, size=size, alpha=alpha, beta=beta, bias=k)
    pad = (size - 1) // 2
    square = t.op("mul", x, x)
    mean = t.standard(
        "AveragePool", square, kernel_shape=(size, size), pads=(pad,) * 4, count_include_pad=1, ceil_mode=1
    )
    return t.op("div", x, t.op("pow", t.linear(mean, alpha, 1.0), t.number(beta)))


def upsample(t: Translation) -> Value:
    """Every element as a square; with a second operand, SegNet's, each at the place that its pool took it from."""
    if t.has(1):
        return _unpooled(t)
    factor, x = t.settings("upsample_param").integer("scale", 2), t.x
    if not 1 <= factor <= 64 or x.type.rank != 4:
        raise error("E0109", f"scale is {factor} for {x.type}")
    batch, channels, height, width = x.shape
    wide = t.reshape(x, (batch, channels, height, 1, width, 1))
    wide = t.op("expand", wide, shape=(batch, channels, height, factor, width, factor))
    return t.reshape(wide, (batch, channels, height * factor, width * factor))


def _unpooled(t: Translation) -> Value:
    s, x, places = t.settings("upsample_param"), t.x, t.input(1)
    if x.type.rank != 4 or places.shape != x.shape:
        raise error("E0108", f"{x.type} and its places {places.type} differ")
    factor = s.integer("scale", 2)
    sizes = []
    for axis, end in ((2, "h"), (3, "w")):
        scaled = t.extent(x, axis) * s.integer(f"scale_{end}", factor) - int(s.flag(f"pad_out_{end}"))
        sizes.append(s.integer(f"upsample_{end}", scaled))
    plane, count = sizes[0] * sizes[1], t.extent(x, 2) * t.extent(x, 3)
    if min(sizes) < 1 or plane > _MOST_PLACES:
        raise error("E0109", f"{x.type} becomes {sizes[0]} x {sizes[1]}")
    outer = x.shape[:2]
    index = t.cast(t.reshape(places, (*outer, count)), "int64")
    none = t.op("expand", t.number(0.0), shape=(*outer, plane))
    y = t.op("scatter_elements", none, index, t.reshape(x, (*outer, count)), axis=2)
    return t.reshape(y, (*outer, *sizes))
