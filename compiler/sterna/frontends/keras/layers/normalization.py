"""Normalizations. Statistics of a batch are constants outside of training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import axes_of
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir.graph import Array, Value


def _axes(t: Translation, default: object = -1) -> tuple[int, ...]:
    """The setting `axis`, one or several, in order."""
    axis = t.setting("axis", default)
    given = [axis] if isinstance(axis, int) else axis
    if not isinstance(given, (list, tuple)) or not all(isinstance(a, int) for a in given):
        raise error("E0109", f"axis is {axis}")
    return tuple(sorted(axes_of(given, t.x.type.rank)))


def _along(t: Translation, array: Array, axes: Sequence[int]) -> Array:
    """An array over some dimensions with one for each of the operand's."""
    return array.reshape([t.extent(t.x, n) if n in axes else 1 for n in range(t.x.type.rank)])


def batch_normalization(t: Translation) -> Value:
    names = [name for name, key in (("gamma", "scale"), ("beta", "center")) if t.setting(key, True)]
    found = dict(zip([*names, "mean", "var"], t.variables(*names, "moving_mean", "moving_variance"), strict=True))
    mean, var = (found[key].astype(np.float64) for key in ("mean", "var"))
    scale = found.get("gamma", np.float64(1.0)) / np.sqrt(var + float(t.setting("epsilon", 1e-3)))
    offset = found.get("beta", np.float64(0.0)) - mean * scale
    axes, x = _axes(t), t.x
    y = t.op("mul", x, t.weight(_along(t, scale, axes), x))
    return t.op("add", y, t.weight(_along(t, offset, axes), x))


def _scaled(t: Translation, y: Value, axes: Sequence[int], names: Sequence[str]) -> Value:
    """A normalized tensor times gamma, plus beta, as far as the layer has them."""
    for name, array in zip(names, t.variables(*names) if names else (), strict=True):
        y = t.op("add" if name == "beta" else "mul", y, t.weight(_along(t, array, axes), y))
    return y


def _affine(t: Translation) -> list[str]:
    return [name for name, key in (("gamma", "scale"), ("beta", "center")) if t.setting(key, True)]


def _standardized(t: Translation, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon) along some dimensions."""
    mean = t.reduced("reduce_mean", x, axes, keep=True)
    centered = t.op("sub", x, mean)
    variance = t.reduced("reduce_mean", t.op("mul", centered, centered), axes, keep=True)
    return t.op("div", centered, t.op("sqrt", t.shifted(variance, epsilon)))


def layer_normalization(t: Translation) -> Value:
    x, axes, epsilon = t.x, _axes(t), float(t.setting("epsilon", 1e-3))
    if t.setting("rms_scaling", False):
        square = t.reduced("reduce_mean", t.op("mul", x, x), axes, keep=True)
        y = t.op("div", x, t.op("sqrt", t.shifted(square, epsilon)))
        return _scaled(t, y, axes, ["gamma"])
    names = _affine(t)
    rank = x.type.rank
    if axes == tuple(range(rank - len(axes), rank)) and names == ["gamma", "beta"]:
        gamma, beta = t.variables(*names)
        shape = tuple(t.extent(x, n) for n in axes)
        values = [t.weight(array.reshape(shape), x) for array in (gamma, beta)]
        return t.standard("LayerNormalization", x, *values, axis=axes[0], epsilon=epsilon)
    return _scaled(t, _standardized(t, x, axes, epsilon), axes, names)


def group_normalization(t: Translation) -> Value:
    x, (axis,) = t.x, _axes(t)
    channels, groups = t.extent(x, axis), int(t.setting("groups", 32))
    groups = channels if groups == -1 else groups
    if groups < 1 or channels % groups:
        raise error("E0109", f"{channels} channels do not fall into {groups} groups")
    shape = (*x.shape[:axis], groups, channels // groups, *x.shape[axis + 1 :])
    grouped = t.reshape(x, shape)
    others = tuple(n for n in range(1, len(shape)) if n != axis)
    y = t.reshape(_standardized(t, grouped, others, float(t.setting("epsilon", 1e-3))), x.shape)
    return _scaled(t, y, (axis,), _affine(t))


def rms_normalization(t: Translation) -> Value:
    x, axes = t.x, _axes(t)
    square = t.reduced("reduce_mean", t.op("mul", x, x), axes, keep=True)
    y = t.op("div", x, t.op("sqrt", t.shifted(square, float(t.setting("epsilon", 1e-6)))))
    # Keras takes gamma, which has the sizes of `axis`, along the last dimensions, whatever `axis` is.
    (gamma,) = t.variables("gamma")
    return t.op("mul", y, t.weight(gamma, y))


def unit_normalization(t: Translation) -> Value:
    x = t.x
    square = t.reduced("reduce_sum", t.op("mul", x, x), _axes(t), keep=True)
    return t.op("div", x, t.op("sqrt", t.op("maximum", square, t.scalar(1e-12, x.dtype))))


def layer_scale(t: Translation) -> Value:
    """A factor for each channel, as the networks ConvNeXt of keras.applications have it; a layer of the same name may
    be anything."""
    if t.layer.config.get("projection_dim") is None:
        raise t.unsupported("that is not the one of keras.applications")
    (gamma,) = t.variables("gamma")
    return t.op("mul", t.x, t.weight(gamma, t.x))


LAYERS: dict[str, Translator] = {
    "BatchNormalization": batch_normalization,
    "SyncBatchNormalization": batch_normalization,
    "BatchNormalizationV1": batch_normalization,
    "LayerNormalization": layer_normalization,
    "LayerScale": layer_scale,
    "GroupNormalization": group_normalization,
    "RMSNormalization": rms_normalization,
    "UnitNormalization": unit_normalization,
}
