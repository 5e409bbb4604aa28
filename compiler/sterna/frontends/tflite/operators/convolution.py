"""Convolutions, fully connected layers and pooling.

Integer sums are taken of the stored elements, and what the zero points add to them is taken off with the bias:
sum((x - x0) (w - w0)) = sum(x w') - x0 sum(w') with w' = w - w0, which is a constant; padding is x0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.tflite.operators import hybrid
from sterna.frontends.tflite.translation import QUANTIZED, Translation, Translator, quantization_of
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ir.integer import IntLike, as_int
from sterna.ir.limits import check_table
from sterna.ops.formulas import lowest

_SAME, _VALID = 0, 1
#: The greatest sum of weights by which numbers of 16 bits give sums of 32.
_MOST_WEIGHT = (1 << 16) - 1
#: Parts of a sum begin at multiples of so many channels: what dot products take at a time.
_WORDS = 16


# ---------------------------------------------------------------- windows
def padding(
    t: Translation, sizes: Sequence[int], reach: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """Elements before and after each spatial dimension (TensorFlow, SAME and VALID)."""
    kind = t.option("padding")
    if kind not in (_SAME, _VALID):
        raise error("E0109", f"the padding is {kind}")
    result = []
    for size, extent, stride in zip(sizes, reach, strides, strict=True):
        if kind == _VALID:
            if extent > size:
                raise error("E0108", f"a window of {extent} does not fit into {size} elements")
            result.append((0, 0))
            continue
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        result.append((total // 2, total - total // 2))
    return result


def steps(t: Translation, *names: str) -> tuple[int, ...]:
    """Positive settings such as strides."""
    values = tuple(int(t.option(name, 1)) for name in names)
    if any(value < 1 for value in values):
        raise error("E0109", f"{', '.join(names)} must be positive, not {list(values)}")
    return values


def padded(t: Translation, x: Value, amounts: Sequence[tuple[int, int]], value: float = 0) -> Value:
    """Spatial dimensions of a channels-last tensor, padded."""
    return t.pad(x, (0, *(b for b, _ in amounts), 0), (0, *(a for _, a in amounts), 0), value)


# ---------------------------------------------------------------- integers
def weight_factors(t: Translation, count: int) -> float | list[float]:
    """What a sum of products is multiplied with to become the result: one factor, or one per channel."""
    x, w, y = t.info(0), t.info(1), t.result()
    x_scale, y_scale = t.per_tensor(x)[0], t.per_tensor(y)[0]
    scales = quantization_of(w).scales
    if len(scales) == 1 and x.kind == "uint8":
        # The kernels of uint8 are older, and multiply the scales in float32.
        return float(np.float32(x_scale) * scales[0]) / y_scale
    if len(scales) not in (1, count):
        raise error("E0114", f'the tensor "{w.name}" has {len(scales)} scales for {count} channels')
    factors = [x_scale * float(scale) / y_scale for scale in scales]
    return factors[0] if len(factors) == 1 else factors


def signed_weight(t: Translation, position: int = 1) -> Array:
    """The constant weights without their zero point, in as few bits as hold them."""
    w = np.asarray(t.array(position, "weights"))
    q = quantization_of(t.info(position))
    if not q.zero_points.any():
        return w
    if len(q.zero_points) != 1:
        raise t.unsupported("with weights that have a zero point per channel")
    exact = w.astype(np.int16) - np.int16(q.zero_points[0])
    fits = exact.min() >= -128 and exact.max() <= 127
    return np.asarray(exact, np.int8 if fits else np.int16)


def _weight_zero(t: Translation) -> int:
    return int(quantization_of(t.info(1)).zero_points.max(initial=0))


def split_weights(x_kind: str, weights: Array, q_zero: int) -> tuple[Array, int]:
    """Weights as int8, and what has to be taken off each of them: dot products take bytes. (w - w0) = (w - 128) - (w0 -
    128), and the second part adds that number times the sum of the window, once for all channels."""
    if x_kind not in ("int8", "uint8") or weights.dtype != np.int16:
        return weights, 0
    return (weights + np.int16(q_zero - 128)).astype(np.int8), q_zero - 128


def requantized(t: Translation, total: Value, weights: Array, x_zero: int, bias: int) -> Value:
    """Sums of products as elements of the result.

    Args:
        weights: [..., channels], what each channel's sum was made with.
        bias: the position of the operand that is added.
    """
    channels = weights.shape[-1]
    offset = -x_zero * weights.astype(np.int64).reshape(-1, channels).sum(0)
    given = t.optional(bias)
    if t.info(0).kind == "int16":
        # A bias of 64 bits makes the sum one of 64 bits, and with it the rounding.
        if given is None or given.dtype == "int64":
            total = t.cast(total, "int64")
        total = total if given is None else t.op("add", t.cast(total, given.dtype), given)
        return _stored_sum(t, total, channels)
    if given is not None and given.data is None:
        total = t.op("add", total, given)
    elif given is not None:
        offset = offset + np.asarray(t.array(bias, "a bias")).astype(np.int64).reshape(-1)
    if offset.any():
        # Sums are taken modulo 2^32, so the correction may be too.
        total = t.op("add", total, t.constant(offset.astype(np.int32)))
    most = 1 << 31
    if given is None or given.data is not None:
        low, high = dtypes.limits(t.info(0).kind)
        reach = np.abs(weights.astype(np.int64)).reshape(-1, channels).sum(0) * max(-low, high)
        most = int((reach + np.abs(offset)).max(initial=0))
    return _stored_sum(t, total, channels, most)


def _stored_sum(t: Translation, total: Value, channels: int, most: int = 1 << 31) -> Value:
    """A sum of products, no larger than `most` in size, as elements of the result."""
    if t.kind != "FULLY_CONNECTED" or t.info(0).kind == "uint8":
        return t.stored(_scaled_sum(t, total, channels, most))
    # The reference kernel of this operator alone rounds once, in float64.
    x_scale, (y_scale, zero) = t.scale(0), t.per_tensor(t.result())
    factors = np.array([x_scale * float(scale) / y_scale for scale in quantization_of(t.info(1)).scales])
    if len(factors) not in (1, channels):
        raise error("E0114", f'the tensor "{t.info(1).name}" has {len(factors)} scales for {channels} channels')
    factor = t.constant(factors if len(factors) > 1 else factors.reshape(()), "float64")
    scaled = t.op("mul", t.cast(total, "float64"), factor)
    y = t.op("round_to_integer", scaled, to=t.result().kind, zero=zero, halves="away")
    low, high = t.bounds()
    return y if (low, high) == dtypes.limits(y.dtype) else t.op("clip", y, min=low, max=high)


def _scaled_sum(t: Translation, total: Value, channels: int, most: int = 1 << 31) -> Value:
    """A sum of products, no larger than `most` in size, in units of the result, as int32."""
    factors_or_one = weight_factors(t, channels)
    return (
        t.scaled_64(total, factors_or_one)
        if total.dtype == "int64"
        else t.scaled(total, factors_or_one, most, t.clamps_negative())
    )


def needs_64_bits(x_kind: str, weights: Array) -> bool:
    """Whether a sum of products with the last dimension's weights may leave int32."""
    if x_kind != "int16":
        return False
    return int(np.abs(weights.astype(np.int64)).reshape(-1, weights.shape[-1]).sum(0).max()) > _MOST_WEIGHT


def parts_of_32_bits(weights: Array) -> list[int] | None:
    """Where parts of the last dimension but one begin, and where the last one ends, so that no sum of a part's products
    with numbers of 16 bits leaves int32; None where that of a single channel may."""
    reach = np.abs(weights.astype(np.int64)).sum(tuple(range(weights.ndim - 2)))
    sums = np.cumsum(reach, axis=0)
    ends = [0]
    while ends[-1] < len(reach):
        begin = ends[-1]
        before = sums[begin - 1] if begin else np.zeros_like(sums[0])
        fit = int(((sums[begin:] - before) <= _MOST_WEIGHT).all(axis=1).sum())
        if not fit:
            return None
        if begin + fit < len(reach) and fit > _WORDS:
            fit -= fit % _WORDS
        ends.append(begin + fit)
    return ends


def _wide_sum(t: Translation, x: Value, weights: Array, op: str, settings: Mapping[str, Any]) -> Value:
    """Products with the channels of x, which its last dimension and the last but one of the weights are, summed in
    int64: the sums of parts in int32, where processors multiply fastest and weights are bytes.

    Args:
        op: "conv" or "matmul".
    """
    ends = parts_of_32_bits(weights)
    if ends is None:
        return t.op(op, t.cast(x, "int64"), t.constant(weights.astype(np.int64)), **settings)
    starts, steps_of_one = (0,) * (x.type.rank - 1), (1,) * x.type.rank
    total: Value | None = None
    for begin, end in pairwise(ends):
        part = t.op("slice", x, starts=(*starts, begin), sizes=(*x.shape[:-1], end - begin), steps=steps_of_one)
        products = t.op(f"{op}_integer", part, t.constant(weights[..., begin:end, :]), **settings)
        total = t.cast(products, "int64") if total is None else t.op("add", total, t.cast(products, "int64"))
    assert total is not None
    return total


# ---------------------------------------------------------------- convolution
def conv_2d(t: Translation) -> Value:
    return _convolution(t, ("stride_h", "stride_w"), ("dilation_h_factor", "dilation_w_factor"), depthwise=False)


def depthwise_conv_2d(t: Translation) -> Value:
    return _convolution(t, ("stride_h", "stride_w"), ("dilation_h_factor", "dilation_w_factor"), depthwise=True)


def conv_3d(t: Translation) -> Value:
    names = ("d", "h", "w")
    strides = tuple(f"stride_{n}" for n in names)
    return _convolution(t, strides, tuple(f"dilation_{n}_factor" for n in names), depthwise=False)


def _convolution(t: Translation, stride_names: Sequence[str], dilation_names: Sequence[str], depthwise: bool) -> Value:
    x, rank = t.input(0), len(stride_names)
    strides, dilations = steps(t, *stride_names), steps(t, *dilation_names)
    sizes, weight = t.sizes(x, rank + 2), t.sizes(t.input(1), rank + 2)
    extents = weight[:rank] if rank == 3 else weight[1:3]
    reach = [(extent - 1) * dilation + 1 for extent, dilation in zip(extents, dilations, strict=True)]
    amounts = padding(t, sizes[1:-1], reach, strides)
    channels = weight[-2] if rank == 3 else weight[-1]
    groups = sizes[-1]
    if depthwise:
        if channels % groups or weight[0] != 1:
            raise error("E0108", f"the weight {t.input(1).type} does not fit {groups} channels")
        order: tuple[int, ...] = (1, 2, 0, 3)
    else:
        if channels < 1 or groups % channels:
            raise error("E0108", f"the weight {t.input(1).type} does not fit {groups} channels")
        groups //= channels
        order = (0, 1, 2, 3, 4) if rank == 3 else (1, 2, 3, 0)
    settings = {"strides": strides, "dilations": dilations, "groups": groups}
    if t.info(0).kind == "float32" and t.info(1).kind in hybrid.INTEGERS:
        return hybrid.convolution(t, amounts, order, settings)
    if x.dtype not in QUANTIZED:
        y = t.op("conv", padded(t, x, amounts), t.transpose(t.input(1), order), **settings)
        return t.activated(t.op("add", y, t.input(2)) if t.has(2) else y)
    zero = t.zero(0)
    weights = signed_weight(t).transpose(order)
    last = padded(t, x, amounts, zero)
    if needs_64_bits(x.dtype, weights):
        if depthwise or groups > 1:
            total = t.op("conv", t.cast(last, "int64"), t.constant(weights.astype(np.int64)), **settings)
        else:
            total = _wide_sum(t, last, weights, "conv", settings)
    elif depthwise or groups > 1:
        total = t.op("conv_integer", last, t.constant(weights), **settings)
    else:
        small, rest = split_weights(x.dtype, weights, _weight_zero(t))
        total = t.op("conv_integer", last, t.constant(small), **settings)
        if rest:
            sums = t.op("reduce_sum", t.cast(last, "int32"), axes=(rank + 1,), keep_dims=True)
            if any(n > 1 for n in (*extents, *strides)):
                window = {"kernel": tuple(extents), "strides": strides, "dilations": dilations}
                sums = t.op("sum_pool", sums, **window, to="int32")
            total = t.op("sub", total, t.op("mul", sums, t.scalar(rest, "int32")))
    return requantized(t, total, weights, zero, 2)


@dataclass(frozen=True)
class _Spread:
    """How a transposed convolution becomes `conv_transpose` (`ops.convolution`).

    The weight is padded to a multiple of the stride and the input by the weight's reach.

    Args:
        before, after: padding of the input's spatial dimensions.
        tail: padding after the weight's.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    tail: tuple[int, ...]
    settings: dict[str, Any]

    @classmethod
    def of(
        cls, sizes: Sequence[int], wanted: Sequence[int], extents: Sequence[int], strides: Sequence[int], same: bool
    ) -> _Spread:
        begins, before, after, tails = [], [], [], []
        for size, result, extent, stride in zip(sizes, wanted, extents, strides, strict=True):
            begin = max((-(-result // stride) - 1) * stride + extent - result, 0) // 2 if same else 0
            tail = -extent % stride
            begins.append(begin)
            tails.append(tail)
            before.append((extent + tail) // stride - 1)
            after.append(max((begin + result - 1) // stride + 1 - size, 0))
        settings = {"strides": tuple(strides), "begins": tuple(begins), "sizes": tuple(wanted), "groups": 1}
        return cls(tuple(before), tuple(after), tuple(tails), settings)

    def apply(self, t: Translation, x: Value, w: Value, order: Sequence[int] = (1, 2, 3, 0)) -> Value:
        """The sums for an input (n, ..., channels) and weights that `order` makes (..., channels, outputs)."""
        arranged = t.pad(t.transpose(w, order), (0,) * len(order), (*self.tail, 0, 0))
        return t.op(
            "conv_transpose", padded(t, x, list(zip(self.before, self.after, strict=True))), arranged, **self.settings
        )


def spread_convolution(
    t: Translation, x: Value, w: Value, wanted: Sequence[int], strides: Sequence[int], same: bool
) -> Value:
    """A transposed convolution of floats without bias; `wanted` are the result's rows and columns."""
    _, *sizes, channels = t.sizes(x, 4)
    _, *extents, given = t.sizes(w, 4)
    if given != channels or min(wanted) < 1:
        raise error("E0108", f"the weight {w.type} and the sizes {list(wanted)} do not fit the input {x.type}")
    return _Spread.of(sizes, wanted, extents, strides, same).apply(t, x, w)


def transpose_conv(t: Translation) -> Value:
    wanted, w, x = t.integers(0, "sizes"), t.input(1), t.input(2)
    strides = steps(t, "stride_h", "stride_w")
    n, *sizes, channels = t.sizes(x, 4)
    outputs, *extents, given = t.sizes(w, 4)
    if given != channels or len(wanted) != 4 or wanted[0] != n or wanted[3] != outputs or min(wanted) < 1:
        raise error("E0108", f"the weight {w.type} and the sizes {wanted} do not fit the input {x.type}")
    same = t.option("padding") == _SAME
    if t.info(2).kind == "float32" and t.info(1).kind in hybrid.INTEGERS:
        weights, scales = hybrid.signed_weights(t), hybrid.scales_of(t, outputs)
        q, scale, offset = hybrid.asymmetric(t, x, (1, 2, 3))
        spread = _Spread.of(sizes, wanted[1:3], extents, strides, same)
        total = spread.apply(t, t.op("sub", t.cast(q, "int32"), offset), t.constant(weights.astype(np.int32)))
        y = t.op("mul", t.cast(total, "float32"), t.op("mul", scale, t.constant(scales, "float32")))
        return t.activated(t.op("add", y, t.input(3)) if t.has(3) else y)
    if x.dtype not in QUANTIZED:
        y = spread_convolution(t, x, w, wanted[1:3], strides, same)
        return t.activated(t.op("add", y, t.input(3)) if t.has(3) else y)
    weights = signed_weight(t)
    channels_last = weights.transpose(1, 2, 3, 0)
    wide = "int64" if needs_64_bits(x.dtype, channels_last) else "int32"
    # An output at the border has fewer terms, so the zero point is taken off before the sum.
    centered = t.cast(t.centered(x, t.zero(2)), wide)
    total = _Spread.of(sizes, wanted[1:3], extents, strides, same).apply(t, centered, t.constant(weights.astype(wide)))
    swapped = Translation(
        t.node, t.name, [x, w, t.optional(3)], t.builder, [t.info(2), t.info(1)], t.results, lambda _: ""
    )
    return requantized(swapped, total, channels_last, 0, 2)


def conv_3d_transpose(t: Translation) -> Value:
    wanted, w, x = t.integers(0, "sizes"), t.input(1), t.input(2)
    strides = steps(t, "stride_d", "stride_h", "stride_w")
    if any(step != 1 for step in steps(t, *(f"dilation_{n}_factor" for n in "dhw"))):
        raise t.unsupported("with dilations")
    n, *sizes, channels = t.sizes(x, 5)
    *extents, outputs, given = t.sizes(w, 5)
    if given != channels or len(wanted) != 5 or wanted[0] != n or wanted[4] != outputs or min(wanted) < 1:
        raise error("E0108", f"the weight {w.type} and the sizes {wanted} do not fit the input {x.type}")
    spread = _Spread.of(sizes, wanted[1:4], extents, strides, t.option("padding") == _SAME)
    y = spread.apply(t, x, w, (0, 1, 2, 4, 3))
    return t.activated(t.op("add", y, t.input(3)) if t.has(3) else y)


# ---------------------------------------------------------------- fully connected
def fully_connected(t: Translation) -> Value:
    x, w = t.input(0), t.input(1)
    if t.option("weights_format"):
        raise t.unsupported("with shuffled weights")
    units, depth = t.sizes(w, 2)
    sizes = x.shape
    shape: tuple[IntLike, ...]
    if sizes and sizes[-1] == depth:
        rows = math.prod(sizes[:-1], start=as_int(1))
        shape = (*sizes[:-1], units) if t.option("keep_num_dims", False) else (rows, units)
    elif depth and x.type.elements.is_const and not int(x.type.elements) % depth:
        rows = x.type.elements // depth
        shape = (rows, units)
    else:
        raise error("E0108", f"the weight {w.type} does not fit the input {x.type}")
    flat = t.reshape(x, (rows, depth))
    if t.info(0).kind == "float32" and t.info(1).kind in hybrid.INTEGERS:
        return t.reshape(hybrid.fully_connected(t, flat), shape)
    if x.dtype not in QUANTIZED:
        y = t.op("matmul", flat, t.transpose(w, (1, 0)))
        return t.reshape(t.activated(t.op("add", y, t.input(2)) if t.has(2) else y), shape)
    zero = t.zero(0)
    if w.data is None:
        return t.reshape(_computed_weights(t, flat, zero), shape)
    weights = signed_weight(t).T
    if needs_64_bits(x.dtype, weights):
        total = _wide_sum(t, flat, weights, "matmul", {})
    else:
        small, rest = split_weights(x.dtype, weights, _weight_zero(t))
        total = t.op("matmul_integer", flat, t.constant(small))
        if rest:
            sums = t.op("reduce_sum", t.cast(flat, "int32"), axes=(1,), keep_dims=True)
            total = t.op("sub", total, t.op("mul", sums, t.scalar(rest, "int32")))
    return t.reshape(requantized(t, total, weights, zero, 2), shape)


def _computed_weights(t: Translation, x: Value, zero: int) -> Value:
    """Weights that other operators compute."""
    w = t.input(1)
    if x.dtype == "int16" or w.dtype not in QUANTIZED:
        raise t.unsupported("with activations of 16 bits and weights that are computed")
    total = t.op("matmul", t.centered(x, zero), t.transpose(t.centered(w, t.zero(1)), (1, 0)))
    if t.has(2):
        total = t.op("add", total, t.input(2))
    return _stored_sum(t, total, int(w.shape[0]))


# ---------------------------------------------------------------- pooling
def _window(t: Translation) -> tuple[Value, dict[str, tuple[int, ...]], list[tuple[int, int]]]:
    x = t.input(0)
    sizes = t.sizes(x, 4)
    kernel, strides = steps(t, "filter_height", "filter_width"), steps(t, "stride_h", "stride_w")
    amounts = padding(t, sizes[1:3], kernel, strides)
    # What no window reads is not made.
    for n, (size, extent, stride) in enumerate(zip(sizes[1:3], kernel, strides, strict=True)):
        before, after = amounts[n]
        count = (size + before + after - extent) // stride + 1
        amounts[n] = (before, max((count - 1) * stride + extent - size - before, 0))
    return x, {"kernel": kernel, "strides": strides, "dilations": (1, 1)}, amounts


def max_pool(t: Translation) -> Value:
    x, window, amounts = _window(t)
    y = t.op("max_pool", padded(t, x, amounts, lowest(x.dtype)), **window)
    return _clamped(t, y) if x.dtype in QUANTIZED else t.activated(y)


def _clamped(t: Translation, y: Value) -> Value:
    low, high = t.bounds()
    return y if (low, high) == dtypes.limits(y.dtype) else t.op("clip", y, min=low, max=high)


def _counts(x: Value, window: dict[str, tuple[int, ...]], amounts: Sequence[tuple[int, int]]) -> Array:
    """How many elements of the operand each window has: [rows, columns, 1], or one number for all."""
    table = np.ones((), np.int64)
    for size, extent, stride, (before, after) in zip(
        x.type.sizes[1:3], window["kernel"], window["strides"], amounts, strict=True
    ):
        count = (size + before + after - extent) // stride + 1
        check_table(count, extent)
        taps = np.arange(count)[:, None] * stride + np.arange(extent)[None] - before
        table = table[..., None] * ((taps >= 0) & (taps < size)).sum(1)
    return table.flat[0].reshape(()) if (table == table.flat[0]).all() else table[..., None]


def average_pool(t: Translation) -> Value:
    x, window, amounts = _window(t)
    counts = _counts(x, window, amounts)
    if x.dtype not in QUANTIZED:
        total = t.op("sum_pool", padded(t, x, amounts), **window)
        return t.activated(t.op("div", total, t.constant(counts, x.dtype)))
    total = t.op("sum_pool", padded(t, x, amounts), **window, to="int32")
    half = t.constant(counts // 2, "int32")
    if x.dtype == "uint8":
        moved = t.op("add", total, half)
    else:
        above = t.op("greater", total, t.scalar(0, "int32"))
        moved = t.op("where", above, t.op("add", total, half), t.op("sub", total, half))
    return t.stored(t.op("div", moved, t.constant(counts, "int32")), zero=0)


def l2_pool(t: Translation) -> Value:
    x, window, amounts = _window(t)
    total = t.op("sum_pool", padded(t, t.op("mul", x, x), amounts), **window)
    mean = t.op("div", total, t.constant(_counts(x, window, amounts), x.dtype))
    return t.activated(t.op("sqrt", mean))


TRANSLATORS: dict[str, Translator] = {
    "AVERAGE_POOL_2D": average_pool,
    "CONV_2D": conv_2d,
    "CONV_3D": conv_3d,
    "CONV_3D_TRANSPOSE": conv_3d_transpose,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "FULLY_CONNECTED": fully_connected,
    "L2_POOL_2D": l2_pool,
    "MAX_POOL_2D": max_pool,
    "TRANSPOSE_CONV": transpose_conv,
}
