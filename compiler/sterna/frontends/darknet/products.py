"""Layers of DarkNet that multiply by weights: convolutions, with a kernel for every place too, and products of rows."""

from __future__ import annotations

from collections.abc import Callable

from sterna.errors import error
from sterna.frontends.darknet.activations import activated
from sterna.frontends.darknet.translation import Translation
from sterna.frontends.emitter import MOST_TAPS
from sterna.ir.graph import Value

#: Settings of a convolution that compute something else.
_REFUSED = (
    "binary", "xnor", "antialiasing", "deform", "sway", "rotate", "stretch", "stretch_sway", "share_index", "reverse",
)  # fmt: skip


def convolutional(t: Translation) -> Value:
    """Weights: biases, [scales, means, variances], kernels (filters, channels / groups, height, width)."""
    s, x = t.section, t.picture()
    t.refuse(*_REFUSED)
    return activated(t, convolved(t, x, s.positive("filters"), bool(s.integer("batch_normalize"))), "logistic")


def convolved(t: Translation, x: Value, filters: int, normalize: bool) -> Value:
    """A convolution with its weights and the windows of the section; no activation.

    Raises:
        SternaError: E0103, E0108, E0109.
    """
    return convolution_of(t, t.extent(x, 1), filters, normalize)(x)


def convolution_of(t: Translation, channels: int, filters: int, normalize: bool) -> Callable[[Value], Value]:
    """A convolution that has taken its weights, and is applied later. Errors: as `convolved`."""
    s = t.section
    size, groups, stride = s.positive("size"), s.positive("groups"), s.positive("stride")
    strides = s.positive("stride_y", stride), s.positive("stride_x", stride)
    dilation = s.positive("dilation") if size > 1 else 1
    padding = (size // 2 if s.integer("pad") else s.integer("padding")) * dilation
    if padding < 0:
        raise error("E0109", f"padding is {padding}")
    if channels % groups or filters % groups:
        raise error("E0109", f"{channels} channels and {filters} filters do not fall into {groups} groups")
    finish = _finish(t, filters, normalize)
    kernel = t.weights.take(filters, channels // groups, size, size)

    def apply(x: Value) -> Value:
        return finish(
            t.standard(
                "Conv", x, t.numbers(kernel), strides=strides, pads=(padding,) * 4, dilations=(dilation, dilation),
                group=groups,
            )
        )  # fmt: skip

    return apply


def _finish(t: Translation, filters: int, normalize: bool) -> Callable[[Value], Value]:
    """What follows the products of a convolution: biases, perhaps of a normalization, whose weights it takes."""
    biases = t.weights.take(filters)
    if not normalize:
        return lambda y: t.op("add", y, t.per_channel(biases, y))
    scales, mean, variance = (t.weights.take(filters) for _ in range(3))
    return lambda y: t.normalized(y, scales, mean, variance, biases)


def deconvolutional(t: Translation) -> Value:
    """Of Redmon's own DarkNet. Weights: biases, [scales, means, variances], kernels (channels, filters, size, size)."""
    s, x = t.section, t.picture()
    filters, size, stride = s.positive("filters"), s.positive("size"), s.positive("stride")
    padding = size // 2 if s.integer("pad") else s.integer("padding")
    if padding < 0 or any((t.extent(x, axis) - 1) * stride + size - 2 * padding < 1 for axis in (2, 3)):
        raise error("E0109", f"padding is {padding} for windows of {size}")
    finish = _finish(t, filters, bool(s.integer("batch_normalize")))
    kernel = t.weights.take(t.extent(x, 1), filters, size, size)
    y = t.standard("ConvTranspose", x, t.numbers(kernel), strides=(stride, stride), pads=(padding,) * 4)
    return activated(t, finish(y), "logistic")


def connected(t: Translation) -> Value:
    y = product(t, t.row(), t.section.positive("output"), bool(t.section.integer("batch_normalize")))
    return activated(t, y, "logistic")


def product(t: Translation, x: Value, outputs: int, normalize: bool) -> Value:
    """A product of rows with its weights; no activation. They are biases, a matrix (outputs, inputs), [scales, means,
    variances]."""
    inputs = t.extent(x, 1)
    biases = t.weights.take(outputs)
    matrix = t.weights.take(inputs, outputs) if t.weights.is_transposed else t.weights.take(outputs, inputs).T
    y = t.op("matmul", x, t.numbers(matrix))
    if normalize:
        scales, mean, variance = (t.weights.take(outputs) for _ in range(3))
        return t.normalized(y, scales, mean, variance, biases)
    return t.op("add", y, t.numbers(biases))


def local(t: Translation) -> Value:
    """A convolution with a kernel for every place: weights are biases of all results, then (places, filters, taps)."""
    s, x = t.section, t.picture()
    filters, size, stride = s.positive("filters"), s.positive("size"), s.positive("stride")
    if size * size > MOST_TAPS:
        raise error("E0109", f"a window of {size} x {size}; it has {MOST_TAPS} elements at most")
    pad = size // 2 if s.integer("pad") else 0
    channels, height, width = (t.extent(x, n) for n in (1, 2, 3))
    high, wide = (((n if pad else n - size) - 1 if pad else n - size) // stride + 1 for n in (height, width))
    if high < 1 or wide < 1:
        raise error("E0108", f"a window of {size} does not fit into {height} x {width}")
    reach_y = max((high - 1) * stride + size - height - pad, 0)
    reach_x = max((wide - 1) * stride + size - width - pad, 0)
    padded = t.pad(x, (0, 0, pad, pad), (0, 0, reach_y, reach_x))
    taps = []
    for row in range(size):
        for column in range(size):
            part = t.op(
                "slice", padded, starts=(0, 0, row, column), sizes=(x.shape[0], channels, high, wide),
                steps=(1, 1, stride, stride),
            )  # fmt: skip
            taps.append(t.reshape(part, (x.shape[0], channels, 1, high * wide)))
    columns = t.reshape(
        t.op("concat", *taps, axis=2) if len(taps) > 1 else taps[0], (x.shape[0], channels * size * size, high * wide)
    )
    biases = t.weights.take(filters, high * wide)
    kernels = t.weights.take(high * wide, filters, channels * size * size)
    y = t.standard("Einsum", t.numbers(kernels), columns, equation="lnk,bkl->bnl")
    y = t.reshape(t.op("add", y, t.numbers(biases)), (x.shape[0], filters, high, wide))
    return activated(t, y, "logistic")
