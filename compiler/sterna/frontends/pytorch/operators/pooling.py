"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import MOST_COUNTED, MOST_TAPS, is_float
from sterna.frontends.pytorch.operators.pointwise import truncated
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard, standard_results
from sterna.ir.graph import Value
from sterna.ir.integer import as_int
from sterna.ir.limits import check_table

_Pool = Callable[[Translation, Value, int], Value | tuple[Value, ...]]


def _batched(spatial: int, pool: _Pool) -> Translator:
    """Pooling of tensors with a batch dimension or without."""

    def translate(t: Translation) -> Value | tuple[Value, ...]:
        x = t.tensor("self")
        if x.type.rank == spatial + 2:
            return pool(t, x, spatial)
        if x.type.rank != spatial + 1:
            raise error("E0108", f"{t.kind} of {x.type}")
        made = pool(t, t.unsqueeze(x, 0), spatial)
        rows = made if isinstance(made, tuple) else (made,)
        flat = tuple(t.reshape(row, row.shape[1:]) for row in rows)
        return flat if isinstance(made, tuple) else flat[0]

    return translate


def _windows(t: Translation, spatial: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    kernel = t.spatial("kernel_size", spatial, 1)
    strides = t.spatial("stride", spatial, 1) if t.arg("stride") else kernel
    return kernel, strides, t.spatial("padding", spatial, 0)


def _settings(t: Translation, spatial: int) -> dict[str, Any]:
    kernel, strides, pads = _windows(t, spatial)
    return {
        "kernel_shape": kernel, "strides": strides, "pads": (*pads, *pads), "ceil_mode": int(t.flag("ceil_mode")),
    }  # fmt: skip


def max_pool(t: Translation, x: Value, spatial: int) -> Value:
    return standard(t, "MaxPool", x, dilations=t.spatial("dilation", spatial, 1), **_settings(t, spatial))


def max_pool_with_places(t: Translation, x: Value, spatial: int) -> tuple[Value, ...]:
    """The values, and their places in the plane of their channel."""
    dilations = t.spatial("dilation", spatial, 1)
    y, places = standard_results(t, "MaxPool", x, results=2, dilations=dilations, **_settings(t, spatial))
    plane = math.prod(x.shape[2:], start=as_int(1))
    return y, t.op("mod", places, t.as_value(plane))


def avg_pool(t: Translation, x: Value, spatial: int) -> Value:
    if not is_float(x):  # the quotients of integers are cut off
        return t.cast(truncated(t, avg_pool(t, t.cast(x, "float64"), spatial)), x.dtype)
    settings = _settings(t, spatial)
    counted = int(t.flag("count_include_pad", True))
    if t.arg("divisor_override") is None:
        return standard(t, "AveragePool", x, count_include_pad=counted, **settings)
    kernel = t.spatial("kernel_size", spatial, 1)
    pads = t.spatial("padding", spatial, 0)
    after = tuple(
        pad + _overhang(t.extent(x, n + 2), kernel[n], settings["strides"][n], pad) if settings["ceil_mode"] else pad
        for n, pad in enumerate(pads)
    )
    wide = t.pad(x, (0, 0, *pads), (0, 0, *after))
    y = standard(t, "AveragePool", wide, kernel_shape=kernel, strides=settings["strides"])
    return t.op("mul", y, t.scalar(math.prod(kernel) / t.integer("divisor_override"), y.dtype))


def _overhang(size: int, kernel: int, stride: int, pad: int) -> int:
    """How far the last window of `ceil_mode` reaches past the padding; it starts within the tensor or before it."""
    last = -(-(size + 2 * pad - kernel) // stride)
    if last * stride >= size + pad:
        last -= 1
    return max(0, last * stride + kernel - size - 2 * pad)


def _even(size: int, count: int) -> tuple[int, int] | None:
    """(kernel, stride) where windows of adaptive pooling are alike."""
    return (size // count, size // count) if count and size % count == 0 else None


def _adaptive(operator: str, reduction: str) -> _Pool:
    def pool(t: Translation, x: Value, spatial: int) -> Value:
        wanted = list(t.arg("output_size", ()))
        wanted = wanted * spatial if len(wanted) == 1 else wanted
        counts = [x.shape[n + 2] if size is None else t.size_from(size) for n, size in enumerate(wanted)]
        if all(count == 1 for count in counts):
            return t.op(reduction, x, axes=tuple(range(2, x.type.rank)), keep_dims=True)
        if all(count == size for count, size in zip(counts, x.shape[2:], strict=True)):
            return x
        sizes = [t.extent(x, n + 2) for n in range(spatial)]
        numbers = [int(count) for count in counts]
        even = [_even(size, count) for size, count in zip(sizes, numbers, strict=True)]
        if all(each is not None for each in even):
            kernel = tuple(each[0] for each in even if each)
            return standard(t, operator, x, kernel_shape=kernel, strides=kernel)
        for n, (size, count) in enumerate(zip(sizes, numbers, strict=True)):
            x = _uneven(t, x, n + 2, size, count, reduction)
        return x

    return pool


def _uneven(t: Translation, x: Value, axis: int, size: int, count: int, reduction: str) -> Value:
    """Windows of different lengths along one dimension: from floor(n size / count) to ceil((n + 1) size / count)."""
    if count > MOST_COUNTED:
        raise error("E0109", f"{t.kind} to {count} windows of {size} elements")
    check_table(count, -(-size // max(count, 1)) + 1)
    starts = [n * size // count for n in range(count)]
    ends = [-(-(n + 1) * size // count) for n in range(count)]
    longest = max((b - a for a, b in zip(starts, ends, strict=True)), default=1)
    places = np.array(
        [[min(a + m, b - 1) for m in range(longest)] for a, b in zip(starts, ends, strict=True)], np.int64
    )
    found = t.op("gather", x, t.constant(places), axis=axis)
    if reduction == "reduce_max":
        return t.op("reduce_max", found, axes=(axis + 1,), keep_dims=False)
    shares = np.array([[(m < b - a) / (b - a) for m in range(longest)] for a, b in zip(starts, ends, strict=True)])
    lone = [1] * (axis), [1] * (found.type.rank - axis - 2)
    weights = t.reshape(t.constant(shares, x.dtype), (*lone[0], count, longest, *lone[1]))
    return t.op("reduce_sum", t.op("mul", found, weights), axes=(axis + 1,), keep_dims=False)


def adaptive_max_with_places(t: Translation, x: Value, spatial: int) -> tuple[Value, ...]:
    """The values; their places only where all windows are alike."""
    sizes = [t.extent(x, n + 2) for n in range(spatial)]
    counts = t.spatial("output_size", spatial, 1)
    even = [_even(size, count) for size, count in zip(sizes, counts, strict=True)]
    if any(each is None for each in even):
        return _uneven_max(t, x, sizes, counts)
    kernel = tuple(each[0] for each in even if each)
    y, places = standard_results(t, "MaxPool", x, results=2, kernel_shape=kernel, strides=kernel)
    return y, t.op("mod", places, t.scalar(math.prod(sizes), "int64"))


def _uneven_max(t: Translation, x: Value, sizes: list[int], counts: tuple[int, ...]) -> tuple[Value, ...]:
    """Values and places of windows of different lengths: along one dimension after the other, the places carried."""
    place = t.reshape(t.counting(math.prod(sizes)), (1, 1, *sizes))
    place = t.expand(place, x.shape)
    for n, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        axis = n + 2
        if count > MOST_COUNTED:
            raise error("E0109", f"{t.kind} to {count} windows of {size} elements")
        check_table(count, -(-size // max(count, 1)) + 1)
        ends = [(m * size // count, -(-(m + 1) * size // count)) for m in range(count)]
        longest = max(b - a for a, b in ends)
        windows = np.array([[min(a + m, b - 1) for m in range(longest)] for a, b in ends], np.int64)
        wide = t.op("gather", x, t.constant(windows), axis=axis)
        found = t.op("arg_max", wide, axis=axis + 1, keep_dims=True)
        x = t.op("reduce_max", wide, axes=(axis + 1,), keep_dims=False)
        place = t.op("gather_elements", t.op("gather", place, t.constant(windows), axis=axis), found, axis=axis + 1)
        place = t.reshape(place, x.shape)
    return x, place


def max_unpool(t: Translation, x: Value, spatial: int) -> Value:
    """Values at their places in planes of the given size, 0 elsewhere."""
    sizes = t.sizes_of("output_size")[-spatial:]
    places = t.tensor("indices")
    plane = math.prod(sizes, start=as_int(1))
    rows = math.prod(x.shape[2:], start=as_int(1))
    flat = t.reshape(x, (*x.shape[:2], rows))
    index = t.reshape(t.cast(places, "int64"), flat.shape)
    zeros = t.full((*x.shape[:2], plane), 0, x.dtype)
    return t.reshape(t.op("scatter_elements", zeros, index, flat, axis=2), (*x.shape[:2], *sizes))


def fractional(t: Translation, x: Value, spatial: int) -> tuple[Value, ...]:
    """The greatest of windows at places that given numbers say, one for each plane (B. Graham, 2014), and where."""
    kernel, counts = t.spatial("kernel_size", spatial, 1), t.spatial("output_size", spatial, 1)
    samples = t.tensor("random_samples")
    sizes = [t.extent(x, n + 2) for n in range(spatial)]
    place = t.expand(t.reshape(t.counting(math.prod(sizes)), (1, 1, *sizes)), x.shape)
    for n, (size, count, width) in enumerate(zip(sizes, counts, kernel, strict=True)):
        axis = n + 2
        if width > MOST_TAPS:
            raise error("E0109", f"{t.kind} of windows of {width} elements")
        # PyTorch's samples are of the last dimension first.
        sample = t.take(samples, 2, spatial - 1 - n)
        starts = _fractional_starts(t, sample, size, count, width)
        lone = [count if m == axis else size_ if m < 2 else 1 for m, size_ in enumerate(x.shape)]
        wide = [count if m == axis else size_ for m, size_ in enumerate(x.shape)]
        best, where = x, place
        for offset in range(width):
            index = t.op("add", t.reshape(starts, lone), t.scalar(offset, "int64"))
            index = t.expand(index, wide)
            found, at = (t.op("gather_elements", v, index, axis=axis) for v in (x, place))
            better = None if not offset else t.op("greater", found, best)
            best = found if better is None else t.op("where", better, found, best)
            where = at if better is None else t.op("where", better, at, where)
        x, place = best, where
    return x, place


def _fractional_starts(t: Translation, sample: Value, size: int, count: int, width: int) -> Value:
    """(batch, channels, count): floor((n + u) a) - floor(u a), the last window at the end."""
    if count == 1:
        return t.full((*sample.shape, 1), size - width, "int64")
    step = t.scalar((size - width) / (count - 1), sample.dtype)
    u = t.unsqueeze(sample, 2)
    numbers = t.op("add", t.counting(count - 1, sample.dtype), u)
    starts = t.op("sub", t.op("floor", t.op("mul", numbers, step)), t.op("floor", t.op("mul", u, step)))
    last = t.full((*sample.shape, 1), size - width, "int64")
    return t.op("concat", t.cast(starts, "int64"), last, axis=2)


TRANSLATORS: dict[str, Translator] = {
    **{f"aten.max_pool{n}d.default": _batched(n, max_pool) for n in (1, 2, 3)},
    **{f"aten.max_pool{n}d_with_indices.default": _batched(n, max_pool_with_places) for n in (1, 2, 3)},
    **{f"aten.avg_pool{n}d.default": _batched(n, avg_pool) for n in (1, 2, 3)},
    **{f"aten.adaptive_avg_pool{n}d.default": _batched(n, _adaptive("AveragePool", "reduce_mean")) for n in (1, 2, 3)},
    **{f"aten._adaptive_avg_pool{n}d.default": _batched(n, _adaptive("AveragePool", "reduce_mean")) for n in (2, 3)},
    **{f"aten.adaptive_max_pool{n}d.default": _batched(n, adaptive_max_with_places) for n in (1, 2, 3)},
    **{f"aten.fractional_max_pool{n}d.default": _batched(n, fractional) for n in (2, 3)},
    **{f"aten.max_unpool{n}d.default": _batched(n, max_unpool) for n in (2, 3)},
}
