"""Convolutions: of one to three dimensions, depthwise, separable and transposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.keras.layers.activations import activated
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir.graph import Array, Value


def _channels(t: Translation, x: Value) -> Value:
    """The operand with channels first."""
    return x if t.channels_first else t.to_first(x)


def _given_back(t: Translation, y: Value) -> Value:
    return y if t.channels_first else t.to_last(y)


def _first(kernel: Array) -> Array:
    """(spatial..., inputs, outputs) as ONNX has weights: (outputs, inputs, spatial...)."""
    result: Array = kernel.transpose(kernel.ndim - 1, kernel.ndim - 2, *range(kernel.ndim - 2))
    return result


def _convolved(
    t: Translation, x: Value, kernel: Array, groups: int, dilated: bool = True, plain: bool = False
) -> Value:
    """A convolution of channels first; `plain`: of one element, without strides."""
    rank = x.type.rank - 2
    if kernel.ndim != rank + 2:
        raise error("E0108", f"the kernel has {kernel.ndim} dimensions for {x.type}")
    settings: dict[str, Any] = {"group": groups}
    if not plain:
        strides = t.positive("strides", rank)
        dilations = t.positive("dilation_rate", rank) if dilated else (1,) * rank
        padding = str(t.setting("padding", "valid")).lower()
        settings |= {"strides": strides, "dilations": dilations}
        if padding == "causal" and rank == 1:
            settings["pads"] = ((kernel.shape[0] - 1) * dilations[0], 0)
        elif padding == "same":
            settings["auto_pad"] = "SAME_UPPER"
        elif padding != "valid":
            raise t.unsupported(f"with the padding {padding}")
    return t.standard("Conv", x, t.weight(_first(kernel), x), **settings)


def _with_bias(t: Translation, y: Value, bias: list[Array]) -> Value:
    """A result of channels first with its bias, its activation applied, in the layout of the layer."""
    y = _given_back(t, y)
    if bias:
        shape = (-1, *(1,) * (y.type.rank - 2)) if t.channels_first else (-1,)
        y = t.op("add", y, t.weight(bias[0].reshape(shape), y))
    return activated(t, y)


def _names(t: Translation, *kernels: str) -> tuple[str, ...]:
    return (*kernels, "bias") if t.setting("use_bias", True) else kernels


def convolution(t: Translation) -> Value:
    kernel, *bias = t.variables(*_names(t, "kernel"))
    groups = int(t.setting("groups", 1))
    return _with_bias(t, _convolved(t, _channels(t, t.x), kernel, groups), bias)


def _per_channel(kernel: Array) -> Array:
    """(spatial..., channels, multiplier) as a kernel of so many groups: (spatial..., 1, channels * multiplier)."""
    *spatial, channels, multiplier = kernel.shape
    return kernel.reshape(*spatial, 1, channels * multiplier)


def depthwise(t: Translation) -> Value:
    first = "depthwise_kernel" if t.context.major < 3 else "kernel"
    kernel, *bias = t.variables(*_names(t, first))
    x = _channels(t, t.x)
    return _with_bias(t, _convolved(t, x, _per_channel(kernel), t.extent(x, 1)), bias)


def separable(t: Translation) -> Value:
    depth, point, *bias = t.variables(*_names(t, "depthwise_kernel", "pointwise_kernel"))
    x = _channels(t, t.x)
    y = _convolved(t, x, _per_channel(depth), t.extent(x, 1))
    return _with_bias(t, _convolved(t, y, point, 1, plain=True), bias)


def transposed_borders(
    kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], same: bool, more: Sequence[int] | None
) -> dict[str, tuple[int, ...]]:
    """What ONNX says of the borders of a transposed convolution, whose result is the operand of one of those strides.

    Args:
        more: `output_padding`; None: as many results as a convolution has operands at the most.
    """
    begins, ends, further = [], [], []
    for n, (size, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=False)):
        reach = (size - 1) * dilation + 1
        # Results beyond what a convolution of stride `stride` would have: full = (count - 1) * stride + reach.
        if more is None:
            missing = reach - stride if same else min(reach - stride, 0)
        else:
            missing = (2 * (reach // 2) if same else 0) - more[n]
        begin = max(missing, 0) // 2
        begins.append(begin)
        ends.append(max(missing - begin, 0))
        further.append(max(-missing, 0))
    return {"pads": (*begins, *ends), "output_padding": tuple(further)}


def transposed(t: Translation) -> Value:
    """The gradient of a convolution: kernel (spatial..., outputs, inputs)."""
    kernel, *bias = t.variables(*_names(t, "kernel"))
    x = _channels(t, t.x)
    rank = x.type.rank - 2
    if kernel.ndim != rank + 2:
        raise error("E0108", f"the kernel has {kernel.ndim} dimensions for {x.type}")
    strides, dilations = t.positive("strides", rank), t.positive("dilation_rate", rank)
    same = str(t.setting("padding", "valid")).lower() == "same"
    extra = t.layer.config.get("output_padding")
    given = None if extra is None else t.integers_of("output_padding", rank)
    weight = t.weight(np.ascontiguousarray(_first(kernel)), x)
    borders = transposed_borders(kernel.shape[:rank], strides, dilations, same, given)
    y = t.standard("ConvTranspose", x, weight, strides=strides, dilations=dilations, **borders)
    return _with_bias(t, y, bias)


LAYERS: dict[str, Translator] = {
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D", "Convolution1D", "Convolution2D", "Convolution3D"), convolution),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), depthwise),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D", "SeparableConvolution2D"), separable),
    **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), transposed),
}
