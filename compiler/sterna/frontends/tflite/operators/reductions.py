"""Reductions, matrix products of computed operands, and resampling."""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import axes_of
from sterna.frontends.tflite import fixed_point
from sterna.frontends.tflite.operators import hybrid
from sterna.frontends.tflite.translation import QUANTIZED, Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ir.limits import counting


# ---------------------------------------------------------------- reductions
def _axes(t: Translation) -> tuple[int, ...]:
    return tuple(sorted(set(axes_of(t.integers(1, "axes"), t.input(0).type.rank))))


def _reduced(t: Translation, x: Value, operator: str) -> Value:
    axes = _axes(t)
    keep = bool(t.option("keep_dims", False))
    return t.op(operator, x, axes=axes, keep_dims=keep) if axes else x


def _reduction(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        if operator == "reduce_prod" and t.input(0).dtype in QUANTIZED and t.is_quantized():
            raise t.unsupported(f"on quantized {t.input(0).dtype}")
        return _reduced(t, t.input(0), operator)

    return translate


def mean(t: Translation) -> Value:
    x = t.input(0)
    if x.dtype in QUANTIZED and t.is_quantized():
        return _fixed_mean(t)
    if dtypes.is_float(x.dtype):
        return _reduced(t, x, "reduce_mean")
    total = _reduced(t, t.cast(x, "int64"), "reduce_sum")
    return t.cast(t.op("div", total, t.scalar(_count(t), "int64")), x.dtype)


def _count(t: Translation) -> int:
    sizes = t.static(t.input(0))
    return math.prod(sizes[n] for n in _axes(t))


def total(t: Translation) -> Value:
    x = t.input(0)
    if x.dtype in QUANTIZED and t.is_quantized():
        return _quantized_sum(t)
    return _reduced(t, x, "reduce_sum")


def _fixed_mean(t: Translation) -> Value:
    """The mean with its divisor in the multiplier, at most as precise as 32 bits allow."""
    count = _count(t)
    y_scale, y_zero = t.per_tensor(t.result())
    multiplier, shift = fixed_point.quantize_multiplier(t.scale(0) / y_scale)
    if count:
        bits = min(count.bit_length() - 1, 32, 31 + shift)
        multiplier, shift = (multiplier << bits) // count, shift - bits
    sums = t.moved(_reduced(t, t.cast(t.input(0), "int32"), "reduce_sum"), -t.zero(0) * count)
    mean = t.fixed(sums, np.int32(multiplier), np.int32(shift))
    return t.stored(mean, y_zero, dtypes.limits(t.result().kind))


def _quantized_sum(t: Translation) -> Value:
    """The reference kernel scales sums in float32."""
    y_scale, y_zero = t.per_tensor(t.result())
    scale = np.float32(t.scale(0)) / np.float32(y_scale)
    bias = np.float32(-t.zero(0)) * scale * np.float32(_count(t))
    sums = t.cast(_reduced(t, t.cast(t.input(0), "int32"), "reduce_sum"), "float32")
    level = t.op("round_away", t.moved(t.op("mul", sums, t.scalar(scale, "float32")), float(bias)))
    near = t.cast(t.op("clip", level, min=-float(1 << 24), max=float(1 << 24)), "int32")
    return t.stored(near, y_zero, dtypes.limits(t.result().kind))


def _arg(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        (axis,) = axes_of(t.integers(1, "an axis"), t.input(0).type.rank)
        return t.cast(t.op(operator, t.input(0), axis=axis, keep_dims=False), t.result().kind)

    return translate


def cumsum(t: Translation) -> Value:
    (axis,) = axes_of(t.integers(1, "an axis"), t.input(0).type.rank)
    settings = {name: bool(t.option(name, False)) for name in ("exclusive", "reverse")}
    return t.op("cumulative_sum", t.input(0), axis=axis, **settings)


def top_k(t: Translation) -> tuple[Value, ...]:
    k = t.integer_of(1, "the number of elements")
    values, places = t.builder.add_all("top_k", t.input(0), k=(k,), axis=-1, sources=t.sources, name=f"{t.name}/top_k")
    return values, t.cast(places, t.result(1).kind)


# ---------------------------------------------------------------- products
def batch_matmul(t: Translation) -> Value:
    a, b = (_adjoint(t, n, name) for n, name in enumerate(("adj_x", "adj_y")))
    if dtypes.is_float(a.dtype) and dtypes.is_float(b.dtype):
        return t.op("matmul", a, b)
    if a.dtype == "float32" and b.dtype == "int8":
        return hybrid.batch_matmul(t, a, b)
    if a.dtype not in QUANTIZED or a.dtype != b.dtype:
        raise t.unsupported(f"of {a.dtype} and {b.dtype}")
    factor = float(np.float32(t.scale(0)) * np.float32(t.scale(1))) / t.per_tensor(t.result())[0]
    if a.dtype == "int16":
        product = t.op("matmul_long", a, b)
        return t.stored(t.scaled_64(product, factor))
    product = t.op("matmul", t.centered(a, t.zero(0)), t.centered(b, t.zero(1)))
    return t.stored(t.scaled(product, factor))


def _adjoint(t: Translation, position: int, name: str) -> Value:
    x = t.input(position)
    if not t.option(name, False):
        return x
    return t.transpose(x, (*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2))


# ---------------------------------------------------------------- resampling
def _new_sizes(t: Translation) -> tuple[tuple[int, ...], list[int]]:
    sizes, wanted = t.sizes(t.input(0), 4), t.integers(1, "sizes")
    if len(wanted) != 2 or min(wanted) < 1:
        raise error("E0108", f"the sizes are {wanted}")
    if t.option("align_corners", False) and t.option("half_pixel_centers", False):
        raise error("E0109", "align_corners and half_pixel_centers exclude each other")
    return sizes, wanted


def resize_bilinear(t: Translation) -> Value:
    x = t.input(0)
    sizes, wanted = _new_sizes(t)
    aligned, half = bool(t.option("align_corners", False)), bool(t.option("half_pixel_centers", False))
    if x.dtype == "uint8":
        return _resize_bytes(t, sizes, wanted, aligned, half)
    if x.dtype in QUANTIZED:
        return _resize_integers(t, sizes, wanted, aligned, half)
    result = (sizes[0], *wanted, sizes[3])
    if result == sizes:
        return x
    scales = tuple(float(new) / old for new, old in zip(result, sizes, strict=True))
    transform = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
    return t.op("resize", x, sizes=result, scales=scales, mode="linear", transform=transform)


def _real_places(size: int, result: int, aligned: bool, half: bool) -> tuple[Array, Array, Array]:
    """(lower neighbour, upper neighbour, part of the way in float32) of every new position."""
    scale = np.float32(size) / np.float32(result)
    if aligned and result > 1:
        scale = np.float32(size - 1) / np.float32(result - 1)
    at = counting(result).astype(np.float32)
    at = (at + np.float32(0.5)) * scale - np.float32(0.5) if half else at * scale
    low = np.maximum(np.floor(at), 0).astype(np.int64)
    high = np.minimum(np.ceil(at) if half else np.floor(at) + 1, size - 1).astype(np.int64)
    return low, np.maximum(high, 0), at - low.astype(np.float32)


def _resize_bytes(t: Translation, sizes: tuple[int, ...], wanted: list[int], aligned: bool, half: bool) -> Value:
    """The kernel of uint8 is older than those of the other integers, and interpolates in float32."""
    parts = []
    for axis in (1, 2):
        low, high, share = _real_places(sizes[axis], wanted[axis - 1], aligned, half)
        shape = [wanted[axis - 1] if n == axis else 1 for n in range(4)]
        shares = [t.constant(s.reshape(shape), "float32") for s in (np.float32(1) - share, share)]
        parts.append([(t.constant(p, "int32"), s) for p, s in zip((low, high), shares, strict=True)])
    total: Value | None = None
    for column, column_share in parts[1]:
        for row, row_share in parts[0]:
            chosen = t.op("gather", t.op("gather", t.input(0), row, axis=1), column, axis=2)
            term = t.op("mul", t.op("mul", t.cast(chosen, "float32"), row_share), column_share)
            total = term if total is None else t.op("add", total, term)
    assert total is not None
    return t.cast(t.op("floor", t.moved(total, 0.5)), "uint8")


def _fixed_places(size: int, result: int, aligned: bool, half: bool) -> tuple[Array, Array, Array]:
    """(lower neighbour, upper neighbour, 1024ths of the way) of every new position (ResizeBilinearInteger)."""
    scale = ((1 << 10) * size + result // 2) // result
    if aligned and result > 1:
        scale = ((1 << 10) * (size - 1) + (result - 1) // 2) // (result - 1)
    at = counting(result) * scale
    if half:
        at = at + scale // 2 - (1 << 9)
    whole = np.where(at < 0, -((-at) >> 10), at >> 10)
    low = np.maximum(whole, 0)
    high = np.minimum(((at + (1 << 10) - 1) >> 10) if half else whole + 1, size - 1)
    return low, np.maximum(high, 0), at - (low << 10)


def _resize_integers(t: Translation, sizes: tuple[int, ...], wanted: list[int], aligned: bool, half: bool) -> Value:
    x = t.input(0)
    wide = "int64" if x.dtype == "int16" else "int32"
    parts: list[tuple[Value, Value]] = []
    pairs = []
    for axis in (1, 2):
        low, high, share = _fixed_places(sizes[axis], wanted[axis - 1], aligned, half)
        shape = [wanted[axis - 1] if n == axis else 1 for n in range(4)]
        pairs.append((low, high))
        parts.append((t.constant(((1 << 10) - share).reshape(shape), wide), t.constant(share.reshape(shape), wide)))
    terms = []
    for row, row_share in zip(pairs[0], parts[0], strict=True):
        chosen = t.op("gather", x, t.constant(row, "int32"), axis=1)
        for column, column_share in zip(pairs[1], parts[1], strict=True):
            value = t.cast(t.op("gather", chosen, t.constant(column, "int32"), axis=2), wide)
            terms.append(t.op("mul", t.op("mul", value, row_share), column_share))
    sum_ = terms[0]
    for term in terms[1:]:
        sum_ = t.op("add", sum_, term)
    negative = t.op("less", sum_, t.scalar(0, wide))
    half_unit = t.op("where", negative, t.scalar(-(1 << 19), wide), t.scalar(1 << 19, wide))
    return t.cast(t.op("div", t.op("add", sum_, half_unit), t.scalar(1 << 20, wide)), x.dtype)


def resize_nearest(t: Translation) -> Value:
    x = t.input(0)
    sizes, wanted = _new_sizes(t)
    aligned, half = bool(t.option("align_corners", False)), bool(t.option("half_pixel_centers", False))
    for axis, result in zip((1, 2), wanted, strict=True):
        size = sizes[axis]
        scale = np.float32(size) / np.float32(result)
        if aligned and result > 1:
            scale = np.float32(size - 1) / np.float32(result - 1)
        at = (counting(result).astype(np.float32) + np.float32(0.5 if half else 0.0)) * scale
        near = np.floor(at + np.float32(0.5)) if aligned else np.floor(at)
        places = np.clip(near, 0, size - 1).astype(np.int32)
        if size != result or (places != np.arange(size)).any():
            x = t.op("gather", x, t.constant(places), axis=axis)
    return x


TRANSLATORS: dict[str, Translator] = {
    "ARG_MAX": _arg("arg_max"),
    "ARG_MIN": _arg("arg_min"),
    "BATCH_MATMUL": batch_matmul,
    "CUMSUM": cumsum,
    "MEAN": mean,
    "REDUCE_ALL": _reduction("reduce_all"),
    "REDUCE_ANY": _reduction("reduce_any"),
    "REDUCE_MAX": _reduction("reduce_max"),
    "REDUCE_MIN": _reduction("reduce_min"),
    "REDUCE_PROD": _reduction("reduce_prod"),
    "RESIZE_BILINEAR": resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest,
    "SUM": total,
    "TOPK_V2": top_k,
}
