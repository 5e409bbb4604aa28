"""Layers for pictures: their sizes and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir.graph import Value

#: Keras' names: mode of ONNX's Resize and its settings.
_MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "nearest": ("nearest", {"nearest_mode": "floor"}),
    "bilinear": ("linear", {}),
    "bicubic": ("cubic", {"cubic_coeff_a": -0.5, "exclude_outside": 1}),
}


def resized(t: Translation, x: Value, sizes: tuple[int, int], mode: str) -> Value:
    """A picture (N, height, width, C) in another size; half pixel centres."""
    if mode not in _MODES:
        raise t.unsupported(f"with the interpolation {mode}")
    kind, settings = _MODES[mode]
    if mode == "nearest":
        settings = {**settings, "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    first = t.to_first(x)
    batch, channels = first.shape[:2]
    if not batch.is_const or not channels.is_const:
        scales = [1.0, 1.0, *(s / t.extent(first, 2 + n) for n, s in enumerate(sizes))]
        y = t.standard("Resize", first, None, t.constant(scales, "float32"), mode=kind, **settings)
    else:
        wanted = t.constant([int(batch), int(channels), *sizes], "int64")
        y = t.standard("Resize", first, None, None, wanted, mode=kind, **settings)
    return t.to_last(y)


def _picture(t: Translation) -> tuple[Value, bool]:
    """The first argument as (N, height, width, C), and whether a batch was added."""
    x = t.cast(t.x, "float32") if not t.x.dtype.startswith(("float", "bfloat")) else t.x
    lone = x.type.rank == 3
    if lone:
        x = t.reshape(x, (1, *x.shape))
    return (t.to_last(x) if t.channels_first else x), lone


def _given_back(t: Translation, x: Value, lone: bool) -> Value:
    y = t.to_first(x) if t.channels_first else x
    return t.reshape(y, y.shape[1:]) if lone else y


def _resizing(t: Translation) -> Value:
    x, lone = _picture(t)
    height, width = int(t.setting("height", 1)), int(t.setting("width", 1))
    if t.setting("crop_to_aspect_ratio", False) or t.setting("pad_to_aspect_ratio", False):
        high, wide = t.extent(x, 1), t.extent(x, 2)
        if t.setting("crop_to_aspect_ratio", False):
            crop = max(min(int(wide * height / width), high), 1), max(min(int(high * width / height), wide), 1)
            x = _middle(t, x, crop)
        else:
            pad = max(int(wide * height / width), high), max(int(high * width / height), wide)
            sides = [(new - old) // 2 for new, old in zip(pad, (high, wide), strict=True)]
            x = t.pad(x, (0, *sides, 0), (0, *sides, 0), float(t.setting("fill_value", 0.0)))
    if t.setting("antialias", False):
        raise t.unsupported("with antialiasing")
    return _given_back(t, resized(t, x, (height, width), str(t.setting("interpolation", "bilinear"))), lone)


def _middle(t: Translation, x: Value, sizes: tuple[int, int]) -> Value:
    for axis, size in zip((1, 2), sizes, strict=True):
        x = t.part(x, axis, (t.extent(x, axis) - size) // 2, size)
    return x


def _center_crop(t: Translation) -> Value:
    x, lone = _picture(t)
    height, width = int(t.setting("height", 1)), int(t.setting("width", 1))
    if t.extent(x, 1) < height or t.extent(x, 2) < width:
        raise t.unsupported(f"of {t.x.type}, which is smaller than {height} x {width},")
    return _given_back(t, _middle(t, x, (height, width)), lone)


def _rescaling(t: Translation) -> Value:
    x = t.x if t.x.dtype.startswith(("float", "bfloat")) else t.cast(t.x, "float32")
    scale, offset = (np.asarray(t.setting(key, value), np.float32) for key, value in (("scale", 1.0), ("offset", 0.0)))
    return t.op("add", t.op("mul", x, t.weight(scale, x)), t.weight(offset, x))


def _auto_contrast(t: Translation) -> Value:
    """The range of each plane stretched over the whole range of values; a plane of one value stays.

    Keras takes dimensions 1 and 2 whatever the layout is; of a lone picture they are the ones of the batch that it
    makes of it.
    """
    given = t.x
    x = given if given.dtype.startswith("float") else t.cast(given, "float32")
    if x.type.rank not in (3, 4):
        raise error("E0108", f"{t.kind} takes pictures, not {x.type}")
    axes = (1, 2) if x.type.rank == 4 else (0, 1)
    least, most = sorted(float(v) for v in t.setting("value_range", (0, 255)))
    low, high = (t.reduced(f"reduce_{end}", x, axes, keep=True) for end in ("min", "max"))
    spread = t.op("sub", high, low)
    flat = t.op("equal", spread, t.scalar(0.0, x.dtype))
    share = t.op("div", t.op("sub", x, low), t.op("where", flat, t.scalar(1.0, x.dtype), spread))
    return t.op("where", flat, x, t.shifted(t.scaled(share, most - least), least))


def _normalization(t: Translation) -> Value:
    """(x - mean) / sqrt(variance), by the features along some axes."""
    x = t.x if t.x.dtype.startswith("float") else t.cast(t.x, "float32")
    mean, variance = t.layer.config.get("mean"), t.layer.config.get("variance")
    if mean is None or variance is None:
        mean, variance, _ = t.variables("mean", "variance", "count")
    axis = t.setting("axis", -1)
    axes = sorted(a % x.type.rank for a in ([axis] if isinstance(axis, int) else axis or []))
    shape = tuple(t.extent(x, n) if n in axes else 1 for n in range(x.type.rank))
    middle, spread = (np.asarray(v, np.float32) for v in (mean, variance))
    if middle.size != np.prod(shape):
        middle, spread = (np.broadcast_to(v.reshape(-1)[0], shape) if v.size == 1 else v for v in (middle, spread))
    if middle.size != np.prod(shape):
        raise error("E0108", f"the mean has {middle.size} features; the input is {x.type}")
    divisor = np.maximum(np.sqrt(spread.reshape(shape)), np.float32(1e-7))
    middle = middle.reshape(shape)
    if t.setting("invert", False):
        return t.op("add", t.op("mul", x, t.weight(divisor, x)), t.weight(middle, x))
    return t.op("div", t.op("sub", x, t.weight(middle, x)), t.weight(divisor, x))


LAYERS: dict[str, Translator] = {
    "Resizing": _resizing,
    "CenterCrop": _center_crop,
    "Rescaling": _rescaling,
    "AutoContrast": _auto_contrast,
    "Normalization": _normalization,
}
