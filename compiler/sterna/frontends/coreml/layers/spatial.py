"""Layers of three spatial dimensions, boxes of images, and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.coreml.layers.translation import Layer, Translator
from sterna.frontends.coreml.sampling import ALIGN, DEFAULT, OFFSET, STRICT
from sterna.frontends.coreml.suppression import suppressed
from sterna.frontends.standard import standard
from sterna.ir.graph import Value

_SIDES = ("Front", "Back", "Top", "Bottom", "Left", "Right")
_AXES = ("Depth", "Height", "Width")


def _triple(p: Any, name: str) -> list[int]:
    """A setting of depth, height and width; 1 where the file leaves it out."""
    return [int(getattr(p, f"{name}{axis}")) or 1 for axis in _AXES]


def _padding(p: Any) -> dict[str, Any]:
    kind = ("custom", "valid", "same")[p.paddingType]
    if kind != "custom":
        return {"pad_type": kind}
    return {"pad_type": kind, "pad": [int(getattr(p, f"customPadding{side}")) for side in _SIDES]}


def _convolution(t: Layer) -> Value:
    p, x = t.params, t.input(0)
    inputs, out, groups = int(p.inputChannels), int(p.outputChannels), int(p.nGroups) or 1
    if inputs % groups or out % groups:
        raise error("E0109", f"{inputs} and {out} channels in {groups} groups")
    kernel = _triple(p, "kernel")
    shape = (inputs, out // groups) if p.isDeconvolution else (out, inputs // groups)
    settings: dict[str, Any] = {
        "x": x, "weight": t.constant(t.weights(p.weights, *shape, *kernel)), "strides": _triple(p, "stride"),
        "dilations": _triple(p, "dilation"), "groups": groups, "bias": t.vector(p.bias, out) if p.hasBias else None,
        **_padding(p),
    }  # fmt: skip
    if not p.isDeconvolution:
        return t.mil("conv", **settings)  # type: ignore[no-any-return]
    if p.outputShape:
        settings["output_shape"] = [1, out, *(int(n) for n in list(p.outputShape)[-3:])]
    return t.mil("conv_transpose", **settings)  # type: ignore[no-any-return]


def _pool(t: Layer) -> Value:
    p = t.params
    settings: dict[str, Any] = {"kernel_sizes": _triple(p, "kernel"), "strides": _triple(p, "stride"), **_padding(p)}
    if p.type == 1:
        settings["exclude_padding_from_average"] = bool(p.countExcludePadding)
    return t.mil(("max_pool", "avg_pool")[p.type], x=t.input(0), **settings)  # type: ignore[no-any-return]


def _global_pool(t: Layer) -> Value:
    return standard(t, ("GlobalMaxPool", "GlobalAveragePool")[t.params.type], t.input(0))


def _crop_resize(t: Layer) -> Value:
    """Of images (1, B, C, H, W)."""
    p, x = t.params, t.input(0)
    if x.type.rank == 5:
        x = t.reshape(x, x.shape[1:])
    height, width = [int(n) for n in p.targetSize] or [1, 1]
    kinds = ("CORNERS_HEIGHT_FIRST", "CORNERS_WIDTH_FIRST", "CENTER_SIZE_HEIGHT_FIRST", "CENTER_SIZE_WIDTH_FIRST")
    return t.mil(  # type: ignore[no-any-return]
        "crop_resize", x=x, roi=t.input(1), target_height=height, target_width=width,
        normalized_coordinates=p.normalizedCoordinates, spatial_scale=np.float32(p.spatialScale or 1.0),
        box_coordinate_mode=kinds[p.boxIndicesMode.boxMode],
        sampling_mode=(STRICT, ALIGN, DEFAULT, OFFSET)[p.mode.samplingMethod],
    )  # fmt: skip


def _suppress(t: Layer) -> tuple[Value, ...]:
    """Operands after boxes and scores stand in place of the settings: overlap, least score, most boxes."""
    p = t.params
    overlap = t.input(2) if t.has(2) else t.scalar(p.iouThreshold, "float32")
    least = t.input(3) if t.has(3) else t.scalar(p.scoreThreshold, "float32")
    most = t.integer_of(4, "the most boxes") if t.has(4) else int(p.maxBoxes)
    found = suppressed(t, t.input(0), t.input(1), overlap, least, most, p.perClassSuppression, never_empty=True)
    return found.boxes, found.scores, t.cast(found.places, "float32"), t.cast(found.counts, "float32")


def _slice_by_size(t: Layer) -> Value:
    """So many elements of a dimension, from a place that is computed."""
    p, x = t.params, t.input(0)
    axis = int(p.axis) % x.type.rank
    start = t.reshape(t.cast(t.input(1), "int64"), (1,))
    places = t.op("add", start, t.counting(int(p.size)))
    return standard(t, "Gather", x, places, axis=axis)


def _random(operation: str, **settings: str) -> dict[str, Translator]:
    """A distribution of a shape that is a setting, an operand, or another operand's.

    Args:
        settings: the operation's argument -> the layer's setting.
    """

    def made(t: Layer, shape: Any) -> Value:
        numbers = {name: np.float32(getattr(t.params, field)) for name, field in settings.items()}
        return t.mil(operation, shape=shape, seed=int(t.params.seed), **numbers)  # type: ignore[no-any-return]

    first, *rest = operation.split("_")
    name = first + "".join(word.capitalize() for word in rest)
    return {
        f"{name}Dynamic": lambda t: made(t, t.cast(t.input(0), "int32")),
        f"{name}Like": lambda t: made(t, t.cast(t.dimensions(t.input(0).shape), "int32")),
        f"{name}Static": lambda t: made(t, [int(n) for n in t.params.outputShape]),
    }


def _categorical(t: Layer) -> Value:
    """Probabilities, or with `isLogits` their logarithms, divided by the temperature."""
    p, x = t.params, t.input(0)
    if not p.isLogits:
        x = standard(t, "Log", t.op("add", x, t.scalar(p.eps or 1e-10, x.dtype)))
    temperature = p.temperature or 1.0
    x = x if temperature == 1.0 else t.op("div", x, t.scalar(temperature, x.dtype))
    return t.mil("random_categorical", x=x, size=int(p.numSamples) or 1, seed=int(p.seed))  # type: ignore[no-any-return]


TRANSLATORS: dict[str, Translator] = {
    **_random("random_bernoulli", prob="prob"),
    **_random("random_normal", mean="mean", stddev="stdDev"),
    **_random("random_uniform", low="minVal", high="maxVal"),
    "NonMaximumSuppression": _suppress,
    "categoricalDistribution": _categorical,
    "convolution3d": _convolution,
    "cropResize": _crop_resize,
    "globalPooling3d": _global_pool,
    "pooling3d": _pool,
    "sliceBySize": _slice_by_size,
}
