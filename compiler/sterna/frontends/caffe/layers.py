"""Layers of Caffe, as BVLC's and the forks of SSD, DeepLab, SegNet, MTCNN and Faster R-CNN run them. Tensors stand as
Caffe has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.caffe.detection import correlation, position_pooling, prior_box, roi_pooling
from sterna.frontends.caffe.detections import detection_output
from sterna.frontends.caffe.moving import filtered, flow_warp, reverse
from sterna.frontends.caffe.proposals import proposal
from sterna.frontends.caffe.prototxt import Message
from sterna.frontends.caffe.recurrent import long_memory, simple_recurrence
from sterna.frontends.caffe.translation import Translation, Translator
from sterna.frontends.caffe.windows import (
    choice,
    convolution,
    deconvolution,
    image_to_columns,
    lrn,
    pooling,
    spatial_pyramid,
    upsample,
)
from sterna.frontends.custom import translations
from sterna.ir.graph import Value


# ---------------------------------------------------------------- weights
def _flat(t: Translation, x: Value, axis: int) -> Value:
    return t.reshape(x, (*x.shape[:axis], t.product(x.shape[axis:])))


def inner_product(t: Translation) -> Value:
    s = t.settings("inner_product_param")
    axis = t.axis(s, 1)
    x = _flat(t, t.x, axis)
    outputs, inputs = s.integer("num_output"), t.extent(x, axis)
    if s.flag("transpose"):
        weight = t.fitted(0, "weights", inputs, outputs)
    else:
        weight = t.fitted(0, "weights", outputs, inputs).T
    y = t.op("matmul", x, t.numbers(weight))
    return t.op("add", y, t.numbers(t.fitted(1, "bias", outputs))) if s.flag("bias_term", True) else y


def batch_norm(t: Translation) -> Value:
    """The third blob divides the sums that the first two are."""
    x, epsilon = t.x, t.settings("batch_norm_param").number("eps", 1e-5)
    channels = t.extent(x, 1) if x.type.rank > 1 else 1
    mean, variance = (t.fitted(n, what, channels).astype(np.float64) for n, what in ((0, "mean"), (1, "variance")))
    count = float(t.blob(2, "scale factor").reshape(-1)[0]) if len(t.blobs) > 2 else 1.0
    factor = 0.0 if count == 0 else 1.0 / count
    scale = 1.0 / np.sqrt(variance * factor + epsilon)
    y = t.op("mul", x, t.along(scale, 1, x))
    return t.op("add", y, t.along(-mean * factor * scale, 1, x))


def bn(t: Translation) -> Value:
    """Of PSPNet and SegNet, whose files may hold factors and summands alone: scale, shift, mean, variance."""
    s, x, channels = t.settings("bn_param"), t.x, t.extent(t.x, 1)
    factor, shift = (t.fitted(n, what, channels).astype(np.float64) for n, what in ((0, "scale"), (1, "shift")))
    if len(t.blobs) > 2:
        mean, variance = (t.fitted(n, what, channels).astype(np.float64) for n, what in ((2, "mean"), (3, "variance")))
        factor = factor / np.sqrt(variance + s.number("eps", 1e-5))
        shift = shift - mean * factor
    return t.op("add", t.op("mul", x, t.along(factor, 1, x)), t.along(shift, 1, x))


def scale(t: Translation) -> Value:
    """A product along some dimensions, by weights or by a second operand; perhaps a sum after it."""
    s, x = t.settings("scale_param"), t.x
    axis = t.axis(s, 1)
    if t.has(1):
        factor = t.input(1)
        y = t.op("mul", x, t.reshape(factor, (*factor.shape, *(1,) * (x.type.rank - axis - factor.type.rank))))
        return t.op("add", y, t.along(t.blob(0, "bias"), axis, y)) if s.flag("bias_term") else y
    y = t.op("mul", x, t.along(_of_axes(t, s, 0, "scale"), axis, x))
    return t.op("add", y, t.along(_of_axes(t, s, 1, "bias"), axis, x)) if s.flag("bias_term") else y


def _of_axes(t: Translation, s: Message, position: int, what: str) -> np.ndarray:
    """A weight over `num_axes` dimensions from `axis` on; files of older versions have four dimensions for each."""
    axis, count = t.axis(s, 1), s.integer("num_axes", 1)
    end = t.x.type.rank if count == -1 else axis + count
    return t.fitted(position, what, *(t.extent(t.x, n) for n in range(axis, min(end, t.x.type.rank))))


def bias(t: Translation) -> Value:
    s, x = t.settings("bias_param"), t.x
    axis = t.axis(s, 1)
    if t.has(1):
        other = t.input(1)
        return t.op("add", x, t.reshape(other, (*other.shape, *(1,) * (x.type.rank - axis - other.type.rank))))
    return t.op("add", x, t.along(_of_axes(t, s, 0, "bias"), axis, x))


def prelu(t: Translation) -> Value:
    shared = t.settings("prelu_param").flag("channel_shared")
    slope = t.fitted(0, "slope", 1 if shared else t.extent(t.x, 1))
    return t.op("prelu", t.x, t.along(slope, 1, t.x))


def embed(t: Translation) -> Value:
    s = t.settings("embed_param")
    count, rows = s.integer("num_output"), s.integer("input_dim")
    table = t.numbers(t.fitted(0, "weights", rows, count))
    y = t.op("gather", table, t.cast(t.x, "int32"), axis=0)
    return t.op("add", y, t.numbers(t.fitted(1, "bias", count))) if s.flag("bias_term", True) else y


def normalize(t: Translation) -> Value:
    """SSD's: every place divided by the root of its squares' sum, times a weight for each channel."""
    s, x = t.settings("norm_param"), t.x
    axes = tuple(range(1, x.type.rank)) if s.flag("across_spatial", True) else (1,)
    square = t.op("reduce_sum", t.op("mul", x, x), axes=axes, keep_dims=True)
    y = t.op("div", x, t.op("sqrt", t.linear(square, 1.0, s.number("eps", 1e-10))))
    shared = s.flag("channel_shared", True)
    return t.op("mul", y, t.along(t.fitted(0, "scale", 1 if shared else t.extent(x, 1)), 1, x))


# ---------------------------------------------------------------- elements
def relu(t: Translation) -> Value:
    slope = t.settings("relu_param").number("negative_slope")
    return t.op("leaky_relu", t.x, alpha=slope) if slope else t.op("relu", t.x)


def swish(t: Translation) -> Value:
    return t.op("mul", t.x, t.op("sigmoid", t.linear(t.x, t.settings("swish_param").number("beta", 1.0), 0.0)))


def clip(t: Translation) -> Value:
    s = t.settings("clip_param")
    if not {"min", "max"} <= set(s.fields):
        raise error("E0109", "clip_param says no min and max")
    return t.op("clip", t.x, min=s.number("min"), max=s.number("max"))


def power(t: Translation) -> Value:
    s = t.settings("power_param")
    y = t.linear(t.x, s.number("scale", 1.0), s.number("shift"))
    exponent = s.number("power", 1.0)
    return y if exponent == 1.0 else t.op("pow", y, t.number(exponent))


def exponential(t: Translation) -> Value:
    s = t.settings("exp_param")
    base = s.number("base", -1.0)
    factor = 1.0 if base == -1.0 else math.log(base) if base > 0 else math.nan
    if math.isnan(factor):
        raise error("E0109", f"base is {base}")
    return t.op("exp", t.linear(t.x, factor * s.number("scale", 1.0), factor * s.number("shift")))


def logarithm(t: Translation) -> Value:
    s = t.settings("log_param")
    base = s.number("base", -1.0)
    if base != -1.0 and (base <= 0 or base == 1.0):
        raise error("E0109", f"base is {base}")
    y = t.op("log", t.linear(t.x, s.number("scale", 1.0), s.number("shift")))
    return y if base == -1.0 else t.linear(y, 1.0 / math.log(base), 0.0)


def threshold(t: Translation) -> Value:
    over = t.op("greater", t.x, t.number(t.settings("threshold_param").number("threshold")))
    return t.cast(over, "float32")


def eltwise(t: Translation) -> Value:
    s = t.settings("eltwise_param")
    kind = choice(s, "operation", "PROD", "SUM", "MAX", default="SUM")
    operators = {"PROD": "mul", "SUM": "add", "MAX": "maximum"}
    factors = s.numbers("coeff")
    if kind not in operators or (factors and (kind != "SUM" or len(factors) != len(t.inputs))):
        raise error("E0109", f"operation {kind} with the coefficients {factors}")
    values = [t.input(n) for n in range(len(t.inputs))]
    values = [t.linear(v, f, 0.0) for v, f in zip(values, factors, strict=True)] if factors else values
    y = values[0]
    for value in values[1:]:
        y = t.op(operators[kind], y, value)
    return y


def axpy(t: Translation) -> Value:
    """A factor for each channel times a tensor, plus another."""
    factor, x, y = (t.input(n) for n in range(3))
    wide = t.reshape(factor, (*factor.shape[:2], *(1,) * (x.type.rank - 2)))
    return t.op("add", t.op("mul", x, wide), y)


# ---------------------------------------------------------------- shapes
def reshape(t: Translation) -> Value:
    s, x = t.settings("reshape_param"), t.x
    wanted = s.message("shape").integers("dim")
    first = s.integer("axis")
    first = first + x.type.rank + 1 if first < 0 else first
    count = s.integer("num_axes", -1)
    end = x.type.rank if count == -1 else first + count
    if not 0 <= first <= end <= x.type.rank or wanted.count(-1) > 1:
        raise error("E0109", f"{wanted} from dimension {first} of {x.type}")
    sizes: list[Any] = []
    for n, size in enumerate(wanted):
        if size == 0 and first + n >= x.type.rank:
            raise error("E0109", f"{x.type} has no dimension {first + n} to copy")
        sizes.append(x.shape[first + n] if size == 0 else size)
    if -1 in wanted:
        known = t.product([size for size, given in zip(sizes, wanted, strict=True) if given != -1])
        total = t.product(x.shape[first:end])
        sizes[wanted.index(-1)] = total // int(known) if int(known) else 0
    return t.reshape(x, (*x.shape[:first], *sizes, *x.shape[end:]))


def flatten(t: Translation) -> Value:
    s, x = t.settings("flatten_param"), t.x
    first, last = t.axis(s, 1), t.axis(s, -1, name="end_axis")
    if last < first:
        raise error("E0109", f"end_axis {last} is before axis {first}")
    return t.reshape(x, (*x.shape[:first], t.product(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def permute(t: Translation) -> Value:
    order, rank = t.settings("permute_param").integers("order"), t.x.type.rank
    order += [n for n in range(rank) if n not in order]
    if sorted(order) != list(range(rank)):
        raise error("E0109", f"the order {order} of {t.x.type}")
    return t.transpose(t.x, order)


def concat(t: Translation) -> Value:
    s = t.settings("concat_param")
    axis = t.axis(s, s.integer("concat_dim", 1))
    values = [t.input(n) for n in range(len(t.inputs))]
    return t.op("concat", *values, axis=axis) if len(values) > 1 else values[0]


def slice_(t: Translation) -> Sequence[Value]:
    s, x, count = t.settings("slice_param"), t.x, len(t.layer.tops)
    axis = t.axis(s, s.integer("slice_dim", 1))
    size, points = t.extent(x, axis), s.integers("slice_point")
    if not points:
        if size % count:
            raise error("E0108", f"{size} elements do not fall into {count} parts")
        points = [n * (size // count) for n in range(1, count)]
    bounds = [0, *points, size]
    if len(bounds) != count + 1 or any(a >= b for a, b in pairwise(bounds)):
        raise error("E0109", f"slice_point is {points} for {count} parts of {size}")
    return [_part(t, x, axis, a, b - a) for a, b in pairwise(bounds)]


def _part(t: Translation, x: Value, axis: int, start: int, count: int) -> Value:
    starts = [0] * x.type.rank
    sizes: list[Any] = list(x.shape)
    starts[axis], sizes[axis] = start, count
    return t.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * x.type.rank)


def crop(t: Translation) -> Value:
    s, x, other = t.settings("crop_param"), t.x, t.input(1)
    first, offsets = t.axis(s, 2), s.integers("offset")
    count = x.type.rank - first
    if len(offsets) not in (0, 1, count):
        raise error("E0109", f"{len(offsets)} offsets for {count} dimensions")
    offsets = offsets * count if len(offsets) == 1 else offsets or [0] * count
    for n, offset in enumerate(offsets):
        axis = first + n
        size = t.extent(other, axis)
        if offset < 0 or offset + size > t.extent(x, axis):
            raise error("E0108", f"{size} elements from {offset} on are not in {x.type}")
        x = _part(t, x, axis, offset, size)
    return x


def tile(t: Translation) -> Value:
    s = t.settings("tile_param")
    axis, count = t.axis(s, 1), s.integer("tiles", 1)
    if not 1 <= count < 1 << 20:
        raise error("E0109", f"tiles is {count}")
    return t.op("tile", t.x, repeats=tuple(count if n == axis else 1 for n in range(t.x.type.rank)))


def shuffle_channel(t: Translation) -> Value:
    groups, x = t.settings("shuffle_channel_param").integer("group", 1), t.x
    channels = t.extent(x, 1)
    if groups < 1 or channels % groups:
        raise error("E0109", f"{channels} channels do not fall into {groups} groups")
    parts = t.reshape(x, (x.shape[0], groups, channels // groups, *x.shape[2:]))
    return t.reshape(t.transpose(parts, (0, 2, 1, *range(3, parts.type.rank))), x.shape)


def interp(t: Translation) -> Value:
    """DeepLab's: linear between corners that stay where they are."""
    s, x = t.settings("interp_param"), t.x
    before, after = s.integer("pad_beg"), s.integer("pad_end")
    if min(-before, -after) < 0:
        raise error("E0109", f"pad_beg {before} and pad_end {after} must not be positive")
    sizes = []
    for axis, key in ((2, "height"), (3, "width")):
        extent = t.extent(x, axis) + before + after
        if key in s.fields:
            size = s.integer(key)
        else:
            shrink, zoom = s.integer("shrink_factor", 1), s.integer("zoom_factor", 1)
            size = (extent - 1) // shrink + 1 if shrink > 0 else 0
            size = size + (size - 1) * (zoom - 1)
        if size < 1:
            raise error("E0108", f"nothing is left of {x.type}")
        x = _part(t, x, axis, -before, extent)
        sizes.append(size)
    wanted = t.constant([t.extent(x, 0), t.extent(x, 1), *sizes], "int64")
    return t.standard("Resize", x, None, None, wanted, mode="linear", coordinate_transformation_mode="align_corners")


# ---------------------------------------------------------------- reductions
def softmax(t: Translation) -> Value:
    return t.op("softmax", t.x, axis=t.axis(t.settings("softmax_param"), 1))


def reduction(t: Translation) -> Value:
    s, x = t.settings("reduction_param"), t.x
    kind = choice(s, "operation", "", "SUM", "ASUM", "SUMSQ", "MEAN", default="SUM")
    if kind not in ("SUM", "ASUM", "SUMSQ", "MEAN"):
        raise error("E0109", f"operation is {kind}")
    x = t.op("abs", x) if kind == "ASUM" else t.op("mul", x, x) if kind == "SUMSQ" else x
    axes = tuple(range(t.axis(s, 0), x.type.rank))
    y = t.op("reduce_mean" if kind == "MEAN" else "reduce_sum", x, axes=axes, keep_dims=False)
    return t.linear(y, s.number("coeff", 1.0), 0.0)


def arg_max(t: Translation) -> Value:
    """Positions of the largest, of each along an axis; without an axis of each of the batch, as (N, 1 or 2, k)."""
    s, x = t.settings("argmax_param"), t.x
    count, both = s.integer("top_k", 1), s.flag("out_max_val")
    lone = "axis" not in s.fields
    x = _flat(t, x, 1) if lone else x
    axis = 1 if lone else t.axis(s, 1)
    if not 1 <= count <= t.extent(x, axis):
        raise error("E0109", f"top_k is {count} of {x.type}")
    values, places = t.standard_results("TopK", x, t.constant([count], "int64"), results=2, axis=axis)
    found = t.cast(places, "float32")
    if not lone:
        return values if both else found
    parts = [t.reshape(v, (v.shape[0], 1, count)) for v in ([found, values] if both else [found])]
    return t.op("concat", *parts, axis=1) if both else parts[0]


def mvn(t: Translation) -> Value:
    s, x = t.settings("mvn_param"), t.x
    axes = tuple(range(1 if s.flag("across_channels") else 2, x.type.rank))
    y = t.op("sub", x, t.op("reduce_mean", x, axes=axes, keep_dims=True))
    if not s.flag("normalize_variance", True):
        return y
    spread = t.op("sqrt", t.op("reduce_mean", t.op("mul", y, y), axes=axes, keep_dims=True))
    return t.op("div", y, t.linear(spread, 1.0, s.number("eps", 1e-9)))


def batch_reindex(t: Translation) -> Value:
    """The rows that the second operand names."""
    places = t.input(1)
    count = t.product(places.shape)
    return t.op("gather", t.x, t.cast(t.reshape(places, (count,)), "int64"), axis=0)


def parameter(t: Translation) -> Value:
    """A weight as it is."""
    shape = t.settings("parameter_param").message("shape").integers("dim")
    return t.numbers(t.fitted(0, "parameter", *shape) if shape else t.blob(0, "parameter"))


def unchanged(t: Translation) -> Sequence[Value]:
    """As many results as there are names."""
    return [t.x] * max(len(t.layer.tops), 1)


LAYERS: dict[str, Translator] = {
    "Convolution": convolution, "ConvolutionDepthwise": convolution, "DepthwiseConvolution": convolution,
    "Deconvolution": deconvolution, "Pooling": pooling, "LRN": lrn, "InnerProduct": inner_product,
    "BatchNorm": batch_norm, "Scale": scale, "Bias": bias, "PReLU": prelu, "Embed": embed, "Normalize": normalize,
    "ReLU": relu, "ReLU6": lambda t: t.op("clip", t.x, min=0.0, max=6.0),
    "ELU": lambda t: t.op("elu", t.x, alpha=t.settings("elu_param").number("alpha", 1.0)),
    "Sigmoid": lambda t: t.op("sigmoid", t.x), "TanH": lambda t: t.op("tanh", t.x),
    "AbsVal": lambda t: t.op("abs", t.x),
    "BNLL": lambda t: t.op("softplus", t.x), "Swish": swish, "Clip": clip, "BN": bn, "Power": power,
    "Exp": exponential, "Log": logarithm, "Threshold": threshold, "Eltwise": eltwise, "Axpy": axpy, "Reshape": reshape,
    "Flatten": flatten, "Permute": permute, "Concat": concat, "Slice": slice_, "Crop": crop, "Tile": tile,
    "ShuffleChannel": shuffle_channel, "Interp": interp, "Upsample": upsample, "Softmax": softmax,
    "Reduction": reduction, "ArgMax": arg_max, "MVN": mvn, "ROIPooling": roi_pooling, "PSROIPooling": position_pooling,
    "Correlation": correlation, "Correlation1D": correlation, "FlowWarp": flow_warp, "Filter": filtered,
    "Reverse": reverse, "PriorBox": prior_box,
    "DetectionOutput": detection_output, "SPP": spatial_pyramid, "Im2col": image_to_columns, "LSTM": long_memory,
    "RNN": simple_recurrence, "Proposal": proposal, "ProposalLayer": proposal, "BatchReindex": batch_reindex,
    "Parameter": parameter,
    "Dropout": unchanged, "Split": unchanged,
}  # fmt: skip


def translator_of(kind: str) -> Translator | None:
    """What translates a layer: what users registered, or Sterna's own."""
    return translations("caffe").get(kind) or LAYERS.get(kind)
