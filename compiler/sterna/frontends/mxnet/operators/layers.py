"""Convolutions, fully connected layers and normalizations."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int

_CHANNELS_LAST = ("NWC", "NHWC", "NDHWC")


def spatial(t: Translation, name: str, rank: int, default: int) -> tuple[int, ...]:
    """A setting with a value per spatial dimension; one value stands for all."""
    values = t.said.integers(name, ()) or (default,) * rank
    values = values * rank if len(values) == 1 else values
    if len(values) != rank or any(v < 0 for v in values) or (default and 0 in values):
        raise error("E0109", f"{t.kind}: {name} is {list(values)} for {rank} spatial dimensions")
    return values


def is_channels_last(t: Translation, rank: int) -> bool:
    """Whether the layout is NHWC or alike.

    Raises:
        SternaError: E0113, it is one that is not supported.
    """
    layout = t.said.text("layout", ("NCW", "NCHW", "NCDHW")[rank - 3])
    if layout not in (("NCW", "NWC"), ("NCHW", "NHWC"), ("NCDHW", "NDHWC"))[rank - 3]:
        raise t.unsupported(f"with the layout {layout[:20]}")
    return layout in _CHANNELS_LAST


def _prepared(t: Translation, *positions: int) -> tuple[list[Value], bool]:
    """Operands channels first, and whether they were channels last."""
    rank = t.input(0).type.rank
    if not 3 <= rank <= 5:
        raise error("E0108", f"{t.kind} takes tensors of 3 to 5 dimensions, not {t.input(0).type}")
    last = is_channels_last(t, rank)
    values = [t.input(n) for n in positions]
    if any(value.type.rank != rank for value in values):
        raise error("E0108", f"{t.kind} of {values[0].type} with weights {values[-1].type}")
    return [t.moved(value, rank - 1, 1) if last else value for value in values], last


def _kernel_fits(t: Translation, weight: Value, channels_at: int) -> None:
    """The declared kernel and number of filters must be the weights'."""
    rank = weight.type.rank - 2
    kernel = spatial(t, "kernel", rank, 1) if t.said.has("kernel") else t.static(weight)[2:]
    count = t.said.integer("num_filter", t.static(weight)[channels_at])
    groups = t.said.integer("num_group", 1) if channels_at else 1
    if kernel != t.static(weight)[2:] or count != t.static(weight)[channels_at] * groups:
        raise error("E0108", f"{t.kind} says {count} filters of {list(kernel)}; its weights are {weight.type}")


def convolution(t: Translation) -> Value:
    (x, weight), last = _prepared(t, 0, 1)
    rank = x.type.rank - 2
    _kernel_fits(t, weight, 0)
    bias = None if t.said.flag("no_bias") else t.input(2)
    pads = spatial(t, "pad", rank, 0)
    y = standard(
        t, "Conv", x, weight, bias, strides=spatial(t, "stride", rank, 1), pads=(*pads, *pads),
        dilations=spatial(t, "dilate", rank, 1), group=t.said.integer("num_group", 1),
    )  # fmt: skip
    return t.back(y, rank + 1, 1) if last else y


def deconvolution(t: Translation) -> Value:
    (x, weight), last = _prepared(t, 0, 1)
    rank = x.type.rank - 2
    _kernel_fits(t, weight, 1)
    strides, dilations = spatial(t, "stride", rank, 1), spatial(t, "dilate", rank, 1)
    pads, extra = spatial(t, "pad", rank, 0), spatial(t, "adj", rank, 0)
    target = t.said.integers("target_shape", ())
    if any(target):
        if len(target) != rank:
            raise error("E0109", f"{t.kind}: target_shape is {list(target)} for {rank} spatial dimensions")
        kernel = t.static(weight)[2:]
        sizes = [t.extent(x, n + 2) for n in range(rank)]
        full = [s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in zip(strides, sizes, dilations, kernel, strict=True)]
        over = [f - n for f, n in zip(full, target, strict=True)]
        if min(over) < 0:
            raise error("E0109", f"{t.kind}: target_shape {list(target)} is larger than the result {full}")
        extra = tuple(n % 2 for n in over)
        pads = tuple((n + 1) // 2 for n in over)
    bias = None if t.said.flag("no_bias", default=True) else t.input(2)
    y = standard(
        t, "ConvTranspose", x, weight, bias, strides=strides, pads=(*pads, *pads), dilations=dilations,
        group=t.said.integer("num_group", 1), output_padding=extra,
    )  # fmt: skip
    return t.back(y, rank + 1, 1) if last else y


def rows(t: Translation, x: Value) -> Value:
    """A tensor as a matrix of its first dimension."""
    width = as_int(1)
    for size in x.shape[1:]:
        width = width * size
    return t.reshape(x, [x.shape[0], width]) if x.type.rank != 2 else x


def flatten(t: Translation) -> Value:
    return rows(t, t.input(0))


def fully_connected(t: Translation) -> Value:
    x, weight = t.input(0), t.input(1)
    t.sizes(weight, 2)
    if x.type.rank < 1 or t.said.integer("num_hidden", t.static(weight)[0]) != t.static(weight)[0]:
        raise error("E0108", f"{t.kind} says {t.said.text('num_hidden')} units; its weights are {weight.type}")
    x = rows(t, x) if t.said.flag("flatten", default=True) else x
    y = t.op("matmul", x, t.transpose(weight, (1, 0)))
    return y if t.said.flag("no_bias") else t.op("add", y, t.input(2))


# ---------------------------------------------------------------- normalizations
def batch_norm(t: Translation) -> tuple[Value, ...]:
    """With the running statistics; gamma is 1 where it is said to be fixed, which is the default."""
    x = t.input(0)
    axis = t.axis("axis", 1)
    gamma, beta, mean, variance = (t.input(n) for n in (1, 2, 3, 4))
    if t.said.flag("fix_gamma", default=True):
        gamma = t.op("add", t.op("mul", gamma, t.number(0, gamma)), t.number(1, gamma))
        if t.input(1).data is not None:
            gamma = t.op("expand", t.number(1, t.input(1)), shape=t.input(1).shape)
    inner = t.moved(x, axis, 1)
    # A model of 16 bits keeps these in 32.
    gamma, beta, mean, variance = (t.cast(v, x.dtype) for v in (gamma, beta, mean, variance))
    y = standard(t, "BatchNormalization", inner, gamma, beta, mean, variance, epsilon=t.said.finite("eps", 1e-3))
    return t.back(y, axis, 1), mean, variance


def _shifted(t: Translation, x: Value, axes: tuple[int, ...], epsilon: float) -> tuple[Value, Value, Value]:
    """x with mean 0 and variance 1, the mean, and the standard deviation."""
    mean = t.mean(x, axes)
    centered = t.op("sub", x, mean)
    variance = t.mean(t.op("mul", centered, centered), axes)
    deviation = t.op("sqrt", t.op("add", variance, t.number(epsilon, x)))
    return t.op("div", centered, deviation), mean, deviation


def layer_norm(t: Translation) -> tuple[Value, ...]:
    x = t.input(0)
    rank, axis = x.type.rank, t.axis("axis", -1)
    epsilon = t.said.finite("eps", 1e-5)
    gamma, beta = t.input(1), t.input(2)
    if axis == rank - 1 and t.asked == 1:
        return (standard(t, "LayerNormalization", x, gamma, beta, axis=-1, epsilon=epsilon),)
    y, mean, deviation = _shifted(t, x, (axis,), epsilon)
    y = t.op("add", t.op("mul", y, t.along(gamma, axis, rank)), t.along(beta, axis, rank))
    return y, mean, deviation


def instance_norm(t: Translation) -> Value:
    return standard(
        t, "InstanceNormalization", t.input(0), t.input(1), t.input(2), epsilon=t.said.finite("eps", 1e-3)
    )  # fmt: skip


def group_norm(t: Translation) -> tuple[Value, ...]:
    """gamma and beta have an element per channel (1.6 and later), or per group."""
    x, gamma, beta = t.input(0), t.input(1), t.input(2)
    groups, channels = t.said.integer("num_groups", 1), t.extent(x, 1)
    if groups < 1 or channels % groups:
        raise error("E0109", f"{t.kind} of {channels} channels in {groups} groups")
    inner = t.reshape(x, [x.shape[0], groups, channels // groups, *x.shape[2:]])
    y, mean, deviation = _shifted(t, inner, tuple(range(2, inner.type.rank)), t.said.finite("eps", 1e-5))
    if gamma.type.elements == groups and groups != channels:
        y = t.op("add", t.op("mul", y, t.along(gamma, 1, y.type.rank)), t.along(beta, 1, y.type.rank))
        y = t.reshape(y, x.shape)
    else:
        y, rank = t.reshape(y, x.shape), x.type.rank
        y = t.op("add", t.op("mul", y, t.along(gamma, 1, rank)), t.along(beta, 1, rank))
    shape: list[Int] = [x.shape[0], as_int(groups)]
    return y, t.reshape(mean, shape), t.reshape(deviation, shape)


def l2_normalization(t: Translation) -> Value:
    x = t.input(0)
    mode = t.said.choice("mode", "instance", "instance", "channel", "spatial")
    rank = x.type.rank
    axes = {"instance": tuple(range(1, rank)), "channel": (1,), "spatial": tuple(range(2, rank))}[mode]
    if not axes or max(axes) >= rank:
        raise error("E0108", f"{t.kind} over {mode} of {x.type}")
    total = t.sum(t.op("mul", x, x), axes)
    return t.op("div", x, t.op("sqrt", t.op("add", total, t.number(t.said.finite("eps", 1e-10), x))))


def local_response(t: Translation) -> Value:
    return standard(
        t, "LRN", t.input(0), size=t.said.integer("nsize"), alpha=t.said.finite("alpha", 1e-4),
        beta=t.said.finite("beta", 0.75), bias=t.said.finite("knorm", 2.0),
    )  # fmt: skip


TRANSLATORS: dict[str, Translator] = {
    "BatchNorm": batch_norm,
    "BatchNorm_v1": batch_norm,
    "Convolution": convolution,
    "Convolution_v1": convolution,
    "Deconvolution": deconvolution,
    "Flatten": flatten,
    "FullyConnected": fully_connected,
    "GroupNorm": group_norm,
    "InstanceNorm": instance_norm,
    "L2Normalization": l2_normalization,
    "LRN": local_response,
    "LayerNorm": layer_norm,
    "_contrib_SyncBatchNorm": batch_norm,
    "_npx_batch_flatten": flatten,
    "_npx_batch_norm": batch_norm,
    "_npx_convolution": convolution,
    "_npx_deconvolution": deconvolution,
    "_npx_fully_connected": fully_connected,
    "_npx_group_norm": group_norm,
    "_npx_instance_norm": instance_norm,
    "_npx_layer_norm": layer_norm,
    "flatten": flatten,
}
