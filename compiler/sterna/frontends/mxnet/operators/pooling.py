"""Pooling in MXNet's conventions, and resampling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import MOST_COUNTED
from sterna.frontends.mxnet.operators.layers import is_channels_last, spatial
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.limits import check_table


def pooling(t: Translation) -> Value:
    """Windows of `full` and `same` may reach beyond the padding: what lies there counts for nothing."""
    x = t.input(0)
    rank = x.type.rank - 2
    if not 1 <= rank <= 3:
        raise error("E0108", f"{t.kind} takes tensors of 3 to 5 dimensions, not {x.type}")
    kind = t.said.choice("pool_type", "max", "max", "avg", "sum", "lp")
    last = is_channels_last(t, rank + 2)
    x = t.moved(x, rank + 1, 1) if last else x
    y = _whole(t, x, kind) if t.said.flag("global_pool") else _windows(t, x, kind)
    return t.back(y, rank + 1, 1) if last else y


def _lp(t: Translation) -> int:
    p = t.said.integer("p_value", 2)
    if p not in (1, 2, 3):
        raise t.unsupported(f"with the norm {p}")
    return p


def _raised(t: Translation, x: Value, p: int) -> Value:
    size = t.op("abs", x)
    return size if p == 1 else t.power(size, p)


def _rooted(t: Translation, x: Value, p: int) -> Value:
    return x if p == 1 else t.op("sqrt", x) if p == 2 else t.power(x, 1.0 / p)


def _whole(t: Translation, x: Value, kind: str) -> Value:
    axes = tuple(range(2, x.type.rank))
    if kind == "max":
        return t.op("reduce_max", x, axes=axes, keep_dims=True)
    if kind == "avg":
        return t.mean(x, axes)
    if kind == "sum":
        return t.sum(x, axes)
    p = _lp(t)
    return _rooted(t, t.sum(_raised(t, x, p), axes), p)


def _windows(t: Translation, x: Value, kind: str) -> Value:
    rank = x.type.rank - 2
    kernel, strides, pads = (
        spatial(t, name, rank, least) for name, least in (("kernel", 1), ("stride", 1), ("pad", 0))
    )
    convention = t.said.choice("pooling_convention", "valid", "valid", "full", "same")
    ends = list(pads)
    if convention != "valid":
        for n in range(rank):
            extent = t.extent(x, n + 2) + 2 * pads[n]
            count = (
                -(-extent // strides[n]) if convention == "same" else 1 + -(-max(extent - kernel[n], 0) // strides[n])
            )
            ends[n] += max((count - 1) * strides[n] + kernel[n] - extent, 0)
    everywhere = [0, 0, *pads], [0, 0, *ends]
    if kind == "max":
        return standard(t, "MaxPool", t.pad(x, *everywhere, value=_least(x)), kernel_shape=kernel, strides=strides)
    p = _lp(t) if kind == "lp" else 1
    padded = t.pad(_raised(t, x, p) if kind == "lp" else x, *everywhere)
    mean = standard(t, "AveragePool", padded, kernel_shape=kernel, strides=strides)
    whole = math.prod(kernel)
    if kind in ("sum", "lp"):
        return _rooted(t, t.op("mul", mean, t.number(whole, mean)), p)
    if t.said.flag("count_include_pad", default=True):
        if ends == list(pads):
            return mean
        outside = pads
    elif not any((*pads, *ends)):
        return mean
    else:
        outside = (0,) * rank
    return t.op("mul", mean, t.constant(_shares(t, x, kernel, strides, pads, outside, whole), mean.dtype))


def _least(x: Value) -> float | int:
    return -math.inf if dtypes.is_float(x.dtype) else dtypes.limits(x.dtype)[0]


def _shares(
    t: Translation, x: Value, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    outside: Sequence[int], whole: int,
) -> np.ndarray:  # fmt: skip
    """For every window its elements over those of it that count: within the tensor, and so many around it."""
    counts = np.ones((), np.float64)
    ends = t.said.text("pooling_convention", "valid")
    for n, (size, step, pad, more) in enumerate(zip(kernel, strides, pads, outside, strict=True)):
        extent = t.extent(x, n + 2)
        padded = extent + 2 * pad
        if ends == "same":
            places = -(-padded // step)
        elif ends == "full":
            places = 1 + -(-max(padded - size, 0) // step)
        else:
            places = (padded - size) // step + 1
        check_table(*counts.shape, places)
        first = np.arange(places) * step - pad
        row = np.minimum(first + size, extent + more) - np.maximum(first, -more)
        counts = counts[..., None] * np.maximum(row, 1)
    return whole / counts


def upsampling(t: Translation) -> Value:
    """Nearest neighbours, or a transposed convolution with given weights ("bilinear")."""
    scale = t.said.integer("scale")
    if scale < 1:
        raise error("E0109", f"{t.kind} by {scale}")
    if t.said.choice("sample_type", "nearest", "nearest", "bilinear") == "bilinear":
        x, weight = t.input(0), t.input(1)
        channels, pad = t.extent(x, 1), math.ceil((scale - 1) / 2)
        return standard(
            t, "ConvTranspose", x, weight, strides=(scale,) * 2, pads=(pad,) * 4, group=channels
        )  # fmt: skip
    values = t.all_inputs()
    first = t.sizes(values[0], 4)
    made = []
    for value in values:
        sizes = t.sizes(value, 4)
        factors = [first[n] * scale // sizes[n] for n in (2, 3)]
        if any(f < 1 or sizes[n + 2] * f != first[n + 2] * scale for n, f in enumerate(factors)):
            raise error("E0108", f"{t.kind} of {value.type} to {first[2] * scale} x {first[3] * scale}")
        tall, wide = factors
        y = t.reshape(value, [*sizes[:2], sizes[2], 1, sizes[3], 1])
        y = t.op("expand", y, shape=(*sizes[:2], sizes[2], tall, sizes[3], wide))
        made.append(t.reshape(y, [*sizes[:2], sizes[2] * tall, sizes[3] * wide]))
    if t.said.choice("multi_input_mode", "concat", "concat", "sum") == "sum":
        total = made[0]
        for value in made[1:]:
            total = t.op("add", total, value)
        return total
    return made[0] if len(made) == 1 else t.op("concat", *made, axis=1)


def bilinear_resize(t: Translation) -> Value:
    """To a size, by a factor, or to the size of another tensor; corners stay corners by default."""
    x = t.input(0)
    sizes = t.sizes(x, 4)[2:]
    mode = t.said.text("mode", "size")
    wanted = [t.said.integer("height", 1), t.said.integer("width", 1)]
    if mode == "like":
        wanted = list(t.sizes(t.input(1), 4)[2:])
    elif mode == "odd_scale":
        scales = [t.said.finite(f"scale_{name}") for name in ("height", "width")]
        wanted = [int(s * f) if s % 2 == 0 else int((s - 1) * f) + 1 for s, f in zip(sizes, scales, strict=True)]
    elif mode in ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up"):
        parity = 0 if "even" in mode else 1
        step = -1 if "down" in mode else 1
        wanted = [s if s % 2 == parity else s + step for s in sizes]
    elif mode != "size":
        raise t.unsupported(f"in the mode {mode[:30]}")
    elif t.said.has("scale_height") or t.said.has("scale_width"):
        scales = [t.said.finite(f"scale_{name}", 1.0) for name in ("height", "width")]
        wanted = [int(s * f) for s, f in zip(sizes, scales, strict=True)]
    if min(wanted) < 1:
        raise error("E0109", f"{t.kind} to {wanted}")
    corners = "align_corners" if t.said.flag("align_corners", default=True) else "half_pixel"
    target = t.vector([*(t.static(x)[:2]), *wanted])
    return standard(
        t, "Resize", x, None, None, target, mode="linear", coordinate_transformation_mode=corners
    )  # fmt: skip


def adaptive_average(t: Translation) -> Value:
    """The means of so many parts of the image, each from floor(n * size / parts) to ceil((n + 1) * size / parts)."""
    x = t.input(0)
    if x.type.rank != 4:
        raise error("E0108", f"{t.kind} takes tensors of 4 dimensions, not {x.type}")
    wanted = t.said.integers("output_size", (1,)) or (1,)
    wanted = wanted * 2 if len(wanted) == 1 else wanted
    if len(wanted) != 2 or not 1 <= min(wanted) <= max(wanted) <= MOST_COUNTED:
        raise error("E0109", f"{t.kind} to {list(wanted)}")
    if wanted == (1, 1):
        return t.mean(x, (2, 3))
    sizes = [t.extent(x, n) for n in (2, 3)]
    if all(size % n == 0 for size, n in zip(sizes, wanted, strict=True)):
        kernel = [size // n for size, n in zip(sizes, wanted, strict=True)]
        return standard(t, "AveragePool", x, kernel_shape=kernel, strides=kernel)
    tall, wide = (_parts(size, n) for size, n in zip(sizes, wanted, strict=True))
    y = t.op("matmul", x, t.constant(wide.T, x.dtype))
    return t.op("matmul", t.constant(tall, x.dtype), y)


def _parts(size: int, count: int) -> np.ndarray:
    check_table(count, size)
    matrix = np.zeros((count, size))
    for n in range(count):
        first, end = n * size // count, -(-(n + 1) * size // count)
        matrix[n, first:end] = 1 / (end - first)
    return matrix


TRANSLATORS: dict[str, Translator] = {
    "Pooling": pooling,
    "Pooling_v1": pooling,
    "UpSampling": upsampling,
    "_contrib_AdaptiveAvgPooling2D": adaptive_average,
    "_contrib_BilinearResize2D": bilinear_resize,
    "_npx_pooling": pooling,
}
