"""Normalizations."""

from __future__ import annotations

import math

import numpy as np

from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import as_int

_TRAINING = "export the module after model.eval()"


def _per_channel(t: Translation, value: Value | None, like: Value, number: float) -> Value:
    return t.full((like.shape[1],), number, like.dtype) if value is None else value


def batch_norm(t: Translation) -> Value:
    """Of the running statistics; of the batch's own where there are none."""
    x = t.tensor("input")
    weight, bias = (_per_channel(t, t.maybe(name), x, number) for name, number in (("weight", 1), ("bias", 0)))
    mean, variance = t.maybe("running_mean"), t.maybe("running_var")
    if mean is None or variance is None or t.flag("training"):
        if mean is not None:
            raise t.unsupported("in training, which changes its statistics,", _TRAINING)
        axes = (0, *range(2, x.type.rank))
        return _affine(t, x, _normalized(t, x, axes, t.number("eps", 1e-5)), weight, bias)
    return standard(t, "BatchNormalization", x, weight, bias, mean, variance, epsilon=t.number("eps", 1e-5))


def _normalized(t: Translation, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon) over some dimensions; over the last ones it is one kernel."""
    if axes == tuple(range(axes[0], x.type.rank)):
        return t.op("layer_norm", x, axis=axes[0], epsilon=epsilon)
    gap = t.op("sub", x, t.op("reduce_mean", x, axes=axes, keep_dims=True))
    variance = t.op("reduce_mean", t.op("mul", gap, gap), axes=axes, keep_dims=True)
    return t.op("div", gap, t.op("sqrt", t.op("add", variance, t.scalar(epsilon, x.dtype))))


def _affine(t: Translation, x: Value, y: Value, weight: Value | None, bias: Value | None) -> Value:
    """Times a factor per channel, plus a bias per channel."""
    for operator, value in (("mul", weight), ("add", bias)):
        if value is not None:
            y = t.op(operator, y, t.reshape(value, (value.shape[0], *(1 for _ in range(x.type.rank - 2)))))
    return y


def native_batch_norm(t: Translation) -> tuple[Value | None, ...]:
    """With the statistics of training, which are empty in inference."""
    empty = t.full((0,), 0, t.tensor("input").dtype)
    return batch_norm(t), empty, empty, None, None


def native_batch_norm_of_batch(t: Translation) -> tuple[Value, Value, Value]:
    """With the mean and the reciprocal of the deviation of the batch, per channel."""
    x = t.tensor("input")
    axes = (0, *range(2, x.type.rank))
    return batch_norm(t), *_mean_and_reciprocal(t, x, axes, keep=False)


def _mean_and_reciprocal(t: Translation, x: Value, axes: tuple[int, ...], *, keep: bool) -> tuple[Value, Value]:
    """The mean, and one over the square root of variance + eps."""
    gap = t.op("sub", x, t.op("reduce_mean", x, axes=axes, keep_dims=True))
    variance = t.op("reduce_mean", t.op("mul", gap, gap), axes=axes, keep_dims=keep)
    root = t.op("sqrt", t.op("add", variance, t.scalar(t.number("eps", 1e-5), x.dtype)))
    return t.op("reduce_mean", x, axes=axes, keep_dims=keep), t.op("reciprocal", root)


def _layer(t: Translation) -> tuple[Value, int]:
    x = t.tensor("input")
    return x, x.type.rank - len(t.ints("normalized_shape"))


def layer_norm(t: Translation) -> Value:
    x, axis = _layer(t)
    weight = t.maybe("weight")
    if weight is None:
        weight = t.full(x.shape[axis:], 1, x.dtype)
    return standard(
        t, "LayerNormalization", x, t.cast(weight, x.dtype), t.maybe("bias"), axis=axis, epsilon=t.number("eps", 1e-5)
    )


def native_layer_norm(t: Translation) -> tuple[Value, ...]:
    """With the mean and the reciprocal of the deviation."""
    x, axis = _layer(t)
    axes = tuple(range(axis, x.type.rank))
    return layer_norm(t), *_mean_and_reciprocal(t, x, axes, keep=True)


def _root_of_squares(t: Translation) -> tuple[Value, Value]:
    """A tensor, in float32 at least, and the root of the mean of its squares + eps."""
    x, axis = _layer(t)
    dtype = x.dtype if dtypes.bits(x.dtype) > 16 else "float32"
    eps = t.arg("eps")
    epsilon = float(np.finfo(dtypes.to_numpy(dtype)).eps) if eps is None else float(eps)
    x = t.cast(x, dtype)
    squares = t.op("reduce_mean", t.op("mul", x, x), axes=tuple(range(axis, x.type.rank)), keep_dims=True)
    return x, t.op("sqrt", t.op("add", squares, t.scalar(epsilon, dtype)))


def rms_norm(t: Translation) -> Value:
    x, root = _root_of_squares(t)
    y, weight = t.op("div", x, root), t.maybe("weight")
    y = y if weight is None else t.op("mul", y, t.cast(weight, y.dtype))
    return t.cast(y, t.tensor("input").dtype)


def fused_rms_norm(t: Translation) -> tuple[Value, Value]:
    """With the reciprocal of the root."""
    return rms_norm(t), t.op("reciprocal", _root_of_squares(t)[1])


def grouped(t: Translation, x: Value, groups: int) -> Value:
    """Channels normalized in groups."""
    batch, channels = x.shape[0], t.extent(x, 1)
    rest = math.prod(x.shape[2:], start=as_int(channels // groups))
    flat = t.reshape(x, (batch, groups, rest))
    y = t.reshape(_normalized(t, flat, (2,), t.number("eps", 1e-5)), x.shape)
    return _affine(t, x, y, t.maybe("weight"), t.maybe("bias"))


def group_norm(t: Translation) -> Value:
    return grouped(t, t.tensor("input"), t.integer("num_groups"))


def native_group_norm(t: Translation) -> tuple[Value, ...]:
    """With the mean of every group and the reciprocal of its deviation."""
    x, groups = t.tensor("input"), t.integer("group")
    flat = t.reshape(x, (x.shape[0], groups, math.prod(x.shape[2:], start=as_int(t.extent(x, 1) // groups))))
    return grouped(t, x, groups), *_mean_and_reciprocal(t, flat, (2,), keep=False)


def instance_norm(t: Translation) -> Value:
    x = t.tensor("input")
    if not t.flag("use_input_stats", True):
        return batch_norm(t)
    if t.maybe("running_mean") is not None:
        raise t.unsupported("in training, which changes its statistics,", _TRAINING)
    y = _normalized(t, x, tuple(range(2, x.type.rank)), t.number("eps", 1e-5))
    return _affine(t, x, y, t.maybe("weight"), t.maybe("bias"))


def weight_norm(t: Translation) -> Value:
    """v * g / |v|, the norm over all dimensions but one."""
    v, g = t.tensor("v"), t.tensor("g")
    axis = t.integer("dim", 0)
    kept = -1 if axis == -1 else t.axis(axis, v.type.rank)  # -1: one norm of the whole tensor
    axes = tuple(n for n in range(v.type.rank) if n != kept)
    norm = t.op("sqrt", t.op("reduce_sum", t.op("mul", v, v), axes=axes, keep_dims=True))
    return t.op("mul", v, t.op("div", g, norm))


def weight_norm_interface(t: Translation) -> tuple[Value, Value | None]:
    return weight_norm(t), None


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}.default": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(batch_norm, "batch_norm"),
    **_named(native_batch_norm, "native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm",
             "_native_batch_norm_legit", "_batch_norm_no_update"),
    "aten._native_batch_norm_legit.no_stats": native_batch_norm_of_batch,
    **_named(layer_norm, "layer_norm"), **_named(native_layer_norm, "native_layer_norm"),
    **_named(weight_norm, "_weight_norm"), **_named(weight_norm_interface, "_weight_norm_interface"),
    **_named(rms_norm, "rms_norm"), **_named(fused_rms_norm, "_fused_rms_norm"), **_named(group_norm, "group_norm"),
    **_named(native_group_norm, "native_group_norm"), **_named(instance_norm, "instance_norm"),
}  # fmt: skip
