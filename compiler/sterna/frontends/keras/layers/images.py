"""Layers for pictures: their sizes and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value

#: From this version on resized pictures of integers are of integers again.
_WHOLE = (3, 6)

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


def filtered(t: Translation, x: Value, sizes: tuple[int, int], mode: str, antialias: bool) -> Value:
    """A picture (N, height, width, C) in another size, each dimension by a product with a matrix.

    With `antialias` the kernel is as wide as what a smaller picture leaves out.
    """
    batch, high, wide, channels = x.shape
    rows, columns = (
        t.weight(_shares(t.extent(x, 1 + n), size, KERNELS[mode], antialias), x) for n, size in enumerate(sizes)
    )
    y = t.op("matmul", rows, t.reshape(x, (batch, high, wide * channels)))
    y = t.transpose(t.reshape(y, (batch, sizes[0], wide, channels)), (0, 1, 3, 2))
    return t.transpose(t.op("matmul", y, t.transpose(columns, (1, 0))), (0, 1, 3, 2))


def _shares(size: int, wanted: int, kernel: Callable[[np.ndarray], np.ndarray], antialias: bool) -> np.ndarray:
    """What each pixel of a line (size) is of each pixel of the new one (wanted): (wanted, size)."""
    step = size / wanted
    place = (np.arange(wanted) + 0.5) * step - 0.5
    distance = np.abs(place[:, None] - np.arange(size)) / (max(step, 1.0) if antialias else 1.0)
    shares: np.ndarray = kernel(distance)
    shares /= shares.sum(1, keepdims=True)
    return shares


def _cubic(x: np.ndarray) -> np.ndarray:
    """Keys, "Cubic convolution interpolation for digital image processing", 1981, with a = -0.5."""
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _lanczos(radius: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.where(x < radius, np.sinc(x) * np.sinc(x / radius), 0.0)


#: Interpolations that weigh by the distance in pixels.
KERNELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "bilinear": lambda x: np.maximum(1 - x, 0.0),
    "bicubic": _cubic,
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
}


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
    mode, antialias = str(t.setting("interpolation", "bilinear")), bool(t.setting("antialias", False))
    if mode in KERNELS and (antialias or mode not in _MODES):
        y = filtered(t, x, (height, width), mode, antialias)
    else:
        y = resized(t, x, (height, width), mode)
    y = _given_back(t, y, lone)
    if dtypes.is_float(t.x.dtype) or t.context.version < _WHOLE:
        return y
    return t.cast(t.op("round", y), t.x.dtype)


def _middle(t: Translation, x: Value, sizes: tuple[int, int]) -> Value:
    for axis, size in zip((1, 2), sizes, strict=True):
        x = t.part(x, axis, (t.extent(x, axis) - size) // 2, size)
    return x


def _center_crop(t: Translation) -> Value:
    x, lone = _picture(t)
    height, width = int(t.setting("height", 1)), int(t.setting("width", 1))
    high, wide = t.extent(x, 1), t.extent(x, 2)
    if high >= height and wide >= width:
        return _given_back(t, _middle(t, x, (height, width)), lone)
    # A smaller picture is resized, its middle of the wanted shape.
    crop = max(min(int(wide * height / width), high), 1), max(min(int(high * width / height), wide), 1)
    return _given_back(t, resized(t, _middle(t, x, crop), (height, width), "bilinear"), lone)


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
