"""UniformQuantized*: products and sums of integers with scales and zero points, rounded as TensorFlow's kernels round.

An integer q stands for (q - zero point) * scale. What is scaled anew goes through a multiplier of 31 bits and one
rounded shift (`uniform_quant_ops/math_utils.h`), so that results are TensorFlow's to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sterna.errors import error
from sterna.frontends.standard import standard
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.frontends.tflite.fixed_point import multipliers
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value

_LEAST, _MOST = -(2**31), 2**31 - 1


class _Scaled(NamedTuple):
    """Integers in int32 without their zero point, and their scales: one, or one for each place along an axis."""

    steps: Value
    scale: Array
    axis: int


def _known(t: Translation, position: int) -> Array:
    return np.asarray(t.array(position, "scales"), np.float64)


def _along(values: Array, axis: int, rank: int) -> Array:
    """One value for all, or one for each place along an axis."""
    if values.size == 1 or axis < 0:
        if values.size != 1:
            raise error("E0109", f"{values.size} scales without an axis")
        return values.reshape(())
    return values.reshape([values.size if n == axis else 1 for n in range(rank)])


def _operand(t: Translation, data: int, scales: int, side: str) -> _Scaled:
    x = t.input(data)
    axis = int(t.option(f"{side}_quantization_axis", -1))
    zero = _along(np.asarray(t.array(scales + 1, "zero points"), np.int64), axis, x.type.rank)
    steps = t.op("sub", t.cast(x, "int32"), t.constant(zero, "int32")) if zero.any() else t.cast(x, "int32")
    return _Scaled(steps, _along(_known(t, scales), axis, x.type.rank), axis)


def _scaled_anew(t: Translation, steps: Value, factor: Array) -> Value:
    """int32 times a factor, rounded to int32: halves up."""
    pairs = multipliers(factor.reshape(-1).tolist())
    multiplier, shift = (np.asarray(v, np.int64).reshape(factor.shape) for v in pairs)
    if (shift < -31).any() or (shift > 30).any():
        raise t.unsupported("with scales so far from each other")
    count = 31 - shift
    wide = t.op("mul", t.cast(steps, "int64"), t.constant(multiplier, "int64"))
    wide = t.op("add", wide, t.constant(np.int64(1) << (count - 1), "int64"))
    wide = t.op("bit_shift", wide, t.constant(count, "int64"), direction="RIGHT")
    low, high = (t.scalar(end, "int64") for end in (_LEAST, _MOST))
    return t.cast(t.op("minimum", t.op("maximum", wide, low), high), "int32")


def _result(t: Translation, steps: Value, scale: Array, scales: int, axis_of_channels: int | None = None) -> Value:
    """Steps of a scale as integers of the result's scale and zero point, kept within its bounds."""
    rank, axis = steps.type.rank, int(t.option("output_quantization_axis", -1))
    if axis_of_channels is not None and axis >= 0:
        axis = axis_of_channels
    factor = np.asarray(scale / _along(_known(t, scales), axis, rank))
    zero = _along(np.asarray(t.array(scales + 1, "zero points"), np.int64), axis, rank)
    moved = t.op("add", _scaled_anew(t, steps, factor), t.constant(zero, "int32"))
    return _bounded(t, moved, t.dtype("Tout", t.dtype("T", "int32")))


def _bounded(t: Translation, x: Value, dtype: str) -> Value:
    names = ("output_quantization_min_val", "output_quantization_max_val")
    low, high = (int(t.option(name, int(end))) for name, end in zip(names, dtypes.limits(dtype), strict=True))
    if low > _LEAST or high < _MOST:
        x = t.op("clip", x, min=low, max=high)
    return t.cast(x, dtype)


def requantize(t: Translation) -> Value:
    """From one scale to another: of all elements, or of each channel."""
    x = t.input(0)
    rank, axis = x.type.rank, int(t.option("input_quantization_axis", -1))
    zero = _along(np.asarray(t.array(2, "zero points"), np.int64), axis, rank)
    steps = t.op("sub", t.cast(x, "int32"), t.constant(zero, "int32"))
    return _result(t, steps, _along(_known(t, 1), axis, rank), 3)


# ---------------------------------------------------------------- products
def _matrices(t: Translation, a: Value, b: Value) -> Value:
    t.sizes(b, 2)
    return t.op("matmul", a, b)


def _of_columns(scale: Array) -> Array:
    return scale.reshape(-1) if scale.ndim else scale


def dot(t: Translation) -> Value:
    a, b = _operand(t, 0, 2, "lhs"), _operand(t, 1, 4, "rhs")
    made = _matrices(t, a.steps, b.steps)
    return _result(t, made, a.scale * _of_columns(b.scale), 6)


def _rows_in_8_bits(t: Translation, x: Value) -> tuple[Value, Value]:
    """Steps (int32) of every row of a batch from its own zero point, and its scale, so that 0 is one of 256 levels."""
    axes = tuple(range(1, x.type.rank))
    zero, one = t.scalar(0, "float32"), t.scalar(1, "float32")
    low = t.op("minimum", t.op("reduce_min", x, axes=axes, keep_dims=True), zero)
    high = t.op("maximum", t.op("reduce_max", x, axes=axes, keep_dims=True), zero)
    same = t.op("equal", low, high)
    scale = t.op("div", t.op("sub", high, low), t.scalar(255, "float32"))
    scale = t.op("where", same, one, scale)
    below, above = t.op("div", low, scale), t.op("div", high, scale)
    first, last = t.scalar(-128, "float32"), t.scalar(127, "float32")
    # The end with the smaller error says where 0 is.
    nearer = t.op(
        "less", t.op("add", t.scalar(128, "float32"), t.op("abs", below)),
        t.op("add", last, t.op("abs", above)),
    )  # fmt: skip
    place = t.op("where", nearer, t.op("sub", first, below), t.op("sub", last, above))
    place = t.op("clip", t.op("round_away", place), min=-128.0, max=127.0)
    place = t.op("where", same, zero, place)
    level = t.op("floor", t.op("add", t.op("mul", x, t.op("reciprocal", scale)), t.scalar(0.5, "float32")))
    level = t.op("clip", t.op("add", level, place), min=-128.0, max=127.0)
    return t.cast(t.op("sub", level, place), "int32"), scale


def hybrid_dot(t: Translation) -> Value:
    """Rows of floats are rounded to 8 bits, each by its own range; the result is of floats."""
    rows, scale = _rows_in_8_bits(t, t.input(0))
    b = _operand(t, 1, 2, "rhs")
    made = t.cast(_matrices(t, rows, b.steps), "float32")
    return t.op("mul", t.op("mul", made, scale), t.constant(_of_columns(b.scale), "float32"))


class _Places(NamedTuple):
    """Where batch, channels and space are in an operand, a kernel and a result."""

    operand: tuple[int, ...]
    kernel: tuple[int, ...]
    result: tuple[int, ...]


def _varints(data: bytes) -> dict[int, list[int]]:
    """The numbers of a message of integers, packed or one by one."""
    found: dict[int, list[int]] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(data) or shift > 63:
                raise error("E0109", "the dimensions of a convolution cannot be read")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            found.setdefault(tag >> 3, []).append(number())
            continue
        if tag & 7 != 2:
            raise error("E0109", "the dimensions of a convolution cannot be read")
        end = number() + at
        while at < end:
            found.setdefault(tag >> 3, []).append(number())
    return found


def _places(t: Translation, rank: int) -> _Places:
    raw = t.attributes.get("dimension_numbers") or b""
    if not raw:
        order = tuple(range(rank))
        return _Places(order, order, order)
    said = _varints(raw if isinstance(raw, bytes) else str(raw).encode("latin-1"))

    def place(number: int) -> int:
        return said.get(number, [0])[0]

    made = _Places(
        (place(1), place(2), *said.get(3, [])), (place(5), place(4), *said.get(6, [])),
        (place(7), place(8), *said.get(9, [])),
    )  # fmt: skip
    if any(sorted(order) != list(range(rank)) for order in made):
        raise error("E0109", f"{t.kind} of {rank} dimensions names {made.operand}, {made.kernel}, {made.result}")
    return made


def _convolved(t: Translation, x: Value, w: Value) -> tuple[Value, _Places]:
    """Channels first."""
    rank = x.type.rank
    if w.type.rank != rank or rank < 3:
        raise error("E0108", f"{t.kind} of {x.type} by {w.type}")
    places, spatial = _places(t, rank), rank - 2

    def steps(name: str) -> tuple[int, ...]:
        values = t.integers_of(name) or (1,) * spatial
        if len(values) != spatial or min(values) < 1:
            raise error("E0109", f"{name} of {t.kind} is {list(values)} for {spatial} dimensions")
        return values

    if any(n != 1 for n in steps("lhs_dilation")) or int(t.option("batch_group_count", 1)) != 1:
        raise t.unsupported("with lhs_dilation or batch_group_count")
    padding = str(t.option("padding", "VALID"))
    settings: dict[str, Any] = {"auto_pad": "SAME_UPPER" if padding == "SAME" else "VALID"}
    if padding == "EXPLICIT":
        amounts = t.integers_of("explicit_padding")
        if len(amounts) != 2 * spatial:
            raise error("E0109", f"explicit_padding of {t.kind} is {list(amounts)}")
        settings = {"pads": (*amounts[::2], *amounts[1::2])}
    y = standard(
        t, "Conv", t.transpose(x, places.operand), t.transpose(w, places.kernel), strides=steps("window_strides"),
        dilations=steps("rhs_dilation"), group=int(t.option("feature_group_count", 1)), **settings,
    )  # fmt: skip
    return y, places


def _back(t: Translation, y: Value, places: _Places) -> Value:
    return t.transpose(y, tuple(int(n) for n in np.argsort(places.result)))


def _of_channels(scale: Array, rank: int) -> Array:
    return scale.reshape((1, -1, *(1,) * (rank - 2))) if scale.ndim else scale


def convolution(t: Translation) -> Value:
    a, b = _operand(t, 0, 2, "lhs"), _operand(t, 1, 4, "rhs")
    y, places = _convolved(t, a.steps, b.steps)
    return _back(t, _result(t, y, a.scale * _of_channels(b.scale, y.type.rank), 6, axis_of_channels=1), places)


def hybrid_convolution(t: Translation) -> Value:
    x = t.input(0)
    order = _places(t, x.type.rank).operand
    if order[0] != 0:
        raise t.unsupported("whose batch is not the first dimension")
    rows, scale = _rows_in_8_bits(t, x)
    b = _operand(t, 1, 2, "rhs")
    y, places = _convolved(t, rows, b.steps)
    y = t.op("mul", t.cast(y, "float32"), t.reshape(scale, scale.shape))
    y = t.op("mul", y, t.constant(_of_channels(b.scale, y.type.rank), "float32"))
    return _back(t, y, places)


# ---------------------------------------------------------------- on integers
def add(t: Translation) -> Value:
    """Both operands in the result's scale; a vector is one of channels, the last dimension."""
    parts = []
    scales = _known(t, 6)
    for data, position, side in ((0, 2, "lhs"), (1, 4, "rhs")):
        part = _operand(t, data, position, side)
        rank = part.steps.type.rank
        axis = int(t.option("output_quantization_axis", -1)) if rank > 1 or scales.size == 1 else 0
        parts.append(_scaled_anew(t, part.steps, np.asarray(part.scale / _along(scales, axis, rank))))
    made = t.op("add", *parts)
    axis = int(t.option("output_quantization_axis", -1))
    zero = _along(np.asarray(t.array(7, "zero points"), np.int64), axis, made.type.rank)
    return _bounded(t, t.op("add", made, t.constant(zero, "int32")), t.dtype("T", "int32"))


def clipped(t: Translation) -> Value:
    x = t.input(0)
    axis = int(t.option("quantization_axis", -1))
    shape: Sequence[Any] = [size if n == axis else 1 for n, size in enumerate(x.shape)] if axis >= 0 else []
    low, high = (t.reshape(t.input(n), shape) for n in (1, 2))
    return t.op("minimum", t.op("maximum", x, low), high)


# ---------------------------------------------------------------- pictures of integers
_FRACTION = {"uint8": 7, "int32": 30}


def _neighbours(t: Translation, size: int, wanted: int, bits: int) -> tuple[Array, Array, Array]:
    """For each place of a result the two places beside it, and the share of the second in so many bits."""
    if t.option("align_corners", False) and wanted > 1:
        scale = np.float32(size - 1) / np.float32(wanted - 1)
    else:
        scale = np.float32(size) / np.float32(wanted)
    at = np.arange(wanted, dtype=np.float32)
    half = bool(t.option("half_pixel_centers", False))
    at = (at + np.float32(0.5)) * scale - np.float32(0.5) if half else at * scale
    below = np.floor(at)
    share = (at - below).astype(np.float64)
    above = np.ceil(at) if half else below + 1
    first, second = (np.clip(v, 0, size - 1).astype(np.int64) for v in (below, above))
    return first, second, (share * (1 << bits)).astype(np.int64)


def resized(t: Translation) -> tuple[Value, Value, Value]:
    """QuantizedResizeBilinear: shares of 7 bits (of int32: 30), and quotients that are cut, as TensorFlow has them."""
    x = t.input(0)
    _, height, width, _ = t.sizes(x, 4)
    wanted = t.integers(1, "sizes")
    if len(wanted) != 2 or min(wanted) < 1:
        raise error("E0109", f"{t.kind} to {list(wanted)}")
    bits = _FRACTION.get(x.dtype)
    if bits is None:
        raise t.unsupported(f"of {x.dtype}")
    wide = t.cast(x, "int64")
    one = t.scalar(1 << bits, "int64")

    def between(values: Value, axis: int, size: int, cut: bool) -> Value:
        first, second, share = _neighbours(t, size, wanted[axis - 1], bits)
        low, high = (t.op("gather", values, t.constant(n, "int64"), axis=axis) for n in (first, second))
        part = t.constant(share.reshape([-1 if n == axis else 1 for n in range(4)]), "int64")
        apart = t.op("sub", high, low)
        if cut:
            return t.op("add", low, t.op("mul", standard(t, "Div", apart, one), part))
        return t.op("add", t.op("mul", low, one), t.op("mul", apart, part))

    made = between(between(wide, 2, width, False), 1, height, True)
    made = standard(t, "Div", t.op("add", made, t.scalar(1 << (bits - 1), "int64")), one)
    return t.cast(made, x.dtype), t.input(2), t.input(3)


TRANSLATORS: dict[str, Translator] = {
    "QuantizedResizeBilinear": resized, "UniformQuantizedAdd": add, "UniformQuantizedClipByValue": clipped,
    "UniformQuantizedConvolution": convolution, "UniformQuantizedConvolutionHybrid": hybrid_convolution,
    "UniformQuantizedDot": dot, "UniformQuantizedDotHybrid": hybrid_dot, "UniformRequantize": requantize,
}  # fmt: skip
