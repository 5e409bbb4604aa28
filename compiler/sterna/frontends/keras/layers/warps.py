"""Functions of keras.ops.image that warp, blur and compare pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends import elimination
from sterna.frontends.interpolation import MODES, filled_where, numbers_of, projected, sampled
from sterna.frontends.keras.layers.arguments import option, tensor, two_operands
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ir.limits import check_table

#: Seed of displacements where the file says none.
_SEED = 7


def _pictures(t: Translation, x: Value) -> tuple[Value, Callable[[Value], Value]]:
    """(N, height, width, C) in floats, and what gives a result the operand's dimensions, layout and type."""
    if x.type.rank not in (3, 4):
        raise error("E0108", f"{t.kind} takes pictures, not {x.type}")
    first = str(option(t, 99, "data_format", None) or "channels_last") == "channels_first"
    lone, dtype = x.type.rank == 3, x.dtype
    y = x if dtype == "float32" else t.cast(x, "float32")
    y = t.reshape(y, (1, *y.shape)) if lone else y

    def back(made: Value) -> Value:
        made = t.to_first(made) if first else made
        made = t.reshape(made, made.shape[1:]) if lone else made
        return t.cast(made, dtype)

    return (t.to_last(y) if first else y), back


def _way(t: Translation, position: int) -> bool:
    """Whether pixels are interpolated."""
    found = str(option(t, position, "interpolation", "bilinear"))
    if found not in ("nearest", "bilinear"):
        raise t.unsupported(f"with the interpolation {found}")
    return found == "bilinear"


def _mode(t: Translation, position: int, default: str = "constant") -> str:
    found = str(option(t, position, "fill_mode", default))
    if found not in MODES:
        raise t.unsupported(f"with the fill mode {found}")
    return found


def _mapped(t: Translation) -> Value:
    """map_coordinates: (dimensions, ...) positions."""
    x, at = t.x, tensor(t, option(t, 1, "coordinates", None), None)
    order = int(option(t, 2, "order", 1))
    if at.type.rank < 2 or t.extent(at, 0) != x.type.rank or order not in (0, 1):
        raise error("E0108", f"{t.kind} of {x.type} at {at.type} in the order {order}")
    at = at if dtypes.is_float(at.dtype) else t.cast(at, "float32")
    places = [t.reshape(t.part(at, 0, n, 1), at.shape[1:]) for n in range(x.type.rank)]
    wide = x if dtypes.is_float(x.dtype) else t.cast(x, "float32")
    made = sampled(t, wide, places, order == 1, _mode(t, 3), float(option(t, 4, "fill_value", 0)))
    return t.cast(made if dtypes.is_float(x.dtype) else t.op("round", made), x.dtype)


def _warped(t: Translation, x: Value, matrix: Value, linear: bool, mode: str, fill: float) -> Value:
    height, width = t.extent(x, 1), t.extent(x, 2)
    matrix = t.cast(matrix, "float32")
    matrix = matrix if matrix.type.rank == 2 else t.reshape(matrix, (1, *matrix.shape))
    matrix = t.op("expand", matrix, shape=(x.shape[0], 8))
    y, across, nowhere = projected(t, matrix, height, width)
    made = sampled(t, x, (y, across), linear, mode, fill, (numbers_of(t, x, height, width),))
    return filled_where(t, nowhere, fill, made)


def _affine(t: Translation) -> Value:
    x, back = _pictures(t, t.x)
    matrix = tensor(t, option(t, 1, "transform", None), None)
    return back(_warped(t, x, matrix, _way(t, 2), _mode(t, 3), float(option(t, 4, "fill_value", 0))))


def _perspective(t: Translation) -> Value:
    """Four corners of the result come from four points: eight equations for the eight numbers of the matrix."""
    x, back = _pictures(t, t.x)
    start, end = (
        t.cast(tensor(t, option(t, n + 1, key, None), None), "float32")
        for n, key in enumerate(("start_points", "end_points"))
    )
    start, end = (p if p.type.rank == 3 else t.reshape(p, (1, *p.shape)) for p in (start, end))
    count = start.shape[0]

    def of(points: Value, axis: int) -> Value:
        """(count, 4, 1)"""
        return t.part(points, 2, axis, 1)

    zeros = t.op("mul", end, t.scalar(0, "float32"))
    none, one = of(zeros, 0), t.shifted(of(zeros, 0), 1.0)
    flat = t.op("concat", end, one, axis=2)
    nothing = t.op("concat", none, none, none, axis=2)
    rows = []
    for axis in (0, 1):
        tail = [t.op("neg", t.op("mul", of(start, axis), of(end, n))) for n in (0, 1)]
        head = (flat, nothing) if axis == 0 else (nothing, flat)
        rows.append(t.reshape(t.op("concat", *head, *tail, axis=2), (count, 4, 1, 8)))
    square = t.reshape(t.op("concat", *rows, axis=2), (count, 8, 8))
    matrix = t.reshape(elimination.solved(t, square, t.reshape(start, (count, 8, 1))), (count, 8))
    return back(_warped(t, x, matrix, _way(t, 3), "constant", float(option(t, 4, "fill_value", 0))))


# ---------------------------------------------------------------- kernels
def _per_channel(t: Translation, x: Value, kernel: Array, padding: str) -> Value:
    """Every channel of (N, height, width, C) by one kernel (height, width)."""
    channels = t.extent(x, 3)
    check_table(channels, *kernel.shape)
    weight = np.ascontiguousarray(np.broadcast_to(kernel, (channels, 1, *kernel.shape)))
    return t.to_last(t.standard("Conv", t.to_first(x), t.weight(weight, x), group=channels, auto_pad=padding))


def _bell(size: int, sigma: float) -> Array:
    check_table(size)
    at = np.arange(size) - (size - 1) / 2
    bell = np.exp(-0.5 * (at / sigma) ** 2)
    made: Array = bell / bell.sum()
    return made


def _two(value: Any) -> tuple[float, float]:
    pair = np.broadcast_to(np.asarray(value, np.float64).reshape(-1), (2,))
    return float(pair[0]), float(pair[1])


def _blurred(t: Translation) -> Value:
    x, back = _pictures(t, t.x)
    sizes, sigmas = _two(option(t, 1, "kernel_size", 3)), _two(option(t, 2, "sigma", 1.0))
    kernel = np.outer(_bell(int(sizes[1]), sigmas[1]), _bell(int(sizes[0]), sigmas[0]))
    return back(_per_channel(t, x, kernel, "SAME_UPPER"))


def _elastic(t: Translation) -> Value:
    """Pixels displaced by random numbers that are blurred: of Keras' distribution, the same at every run."""
    x, back = _pictures(t, t.x)
    alpha, sigma = float(option(t, 1, "alpha", 20.0)), float(option(t, 2, "sigma", 5.0))
    height, width = t.extent(x, 1), t.extent(x, 2)
    size = int(6 * sigma) | 1
    seed = option(t, 99, "seed", None)
    seed = _SEED if not isinstance(seed, int) else seed
    kernel = np.outer(_bell(size, sigma), _bell(size, sigma)) * (alpha * sigma)
    shape = (x.shape[0], height, width)
    grids = np.meshgrid(np.arange(height, dtype=np.float32), np.arange(width, dtype=np.float32), indexing="ij")
    places = []
    for n, grid in enumerate(grids):
        like = t.op("expand", t.scalar(0, "float32"), shape=(*shape, 1))
        drawn = t.standard("RandomNormalLike", like, seed=float(seed * 2 + n & 0x3FFFFFFF))
        moved = t.reshape(_per_channel(t, drawn, kernel, "SAME_UPPER"), shape)
        places.append(t.op("add", moved, t.constant(grid[None])))
    mode, fill = _mode(t, 4, "reflect"), float(option(t, 5, "fill_value", 0.0))
    return back(sampled(t, x, places, _way(t, 3), mode, fill, (numbers_of(t, x, height, width),)))


def _edges(t: Translation) -> Value:
    """sobel_edges: differences down and across; backends differ in what lies outside, here it is 0 as in JAX."""
    x, first = t.x, str(option(t, 99, "data_format", None) or "channels_last") == "channels_first"
    x = t.to_last(x) if first else x
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    made = [_per_channel(t, x, kernel, "SAME_UPPER") for kernel in (across.T, across)]
    made = [t.to_first(y) if first else y for y in made]
    return t.op("concat", *(t.reshape(y, (*y.shape, 1)) for y in made), axis=4)


def _similarity(t: Translation) -> Value:
    """ssim: structural similarity, the mean over pixels and channels."""
    (a, _), (b, _) = (_pictures(t, x) for x in two_operands(t, ("image1", "image2")))
    peak, size = float(option(t, 2, "max_val", 1.0)), int(option(t, 3, "filter_size", 11))
    bell = _bell(size, float(option(t, 4, "filter_sigma", 1.5)))
    c1, c2 = ((float(option(t, 5 + n, key, k)) * peak) ** 2 for n, (key, k) in enumerate((("k1", 0.01), ("k2", 0.03))))

    def mean(x: Value, y: Value | None = None) -> Value:
        return _per_channel(t, x if y is None else t.op("mul", x, y), np.outer(bell, bell), "VALID")

    ma, mb = mean(a), mean(b)
    aa, bb, ab = (t.op("mul", *pair) for pair in ((ma, ma), (mb, mb), (ma, mb)))
    va, vb, cov = t.op("sub", mean(a, a), aa), t.op("sub", mean(b, b), bb), t.op("sub", mean(a, b), ab)
    above = t.op("mul", t.shifted(t.scaled(ab, 2.0), c1), t.shifted(t.scaled(cov, 2.0), c2))
    below = t.op("mul", t.shifted(t.op("add", aa, bb), c1), t.shifted(t.op("add", va, vb), c2))
    made = t.reduced("reduce_mean", t.op("div", above, below), (1, 2, 3))
    lone = t.x.type.rank == 3
    return t.cast(t.reshape(made, ()) if lone else made, t.x.dtype)


# ---------------------------------------------------------------- scaling
def _cubic(x: Array) -> Array:
    near = ((1.5 * x - 2.5) * x) * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x >= 2.0, 0.0, np.where(x >= 1.0, far, near))


def _lanczos(radius: float) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        y = radius * np.sin(np.pi * x) * np.sin(np.pi * x / radius)
        made = np.where(x > 1e-3, y / np.where(x != 0, np.pi**2 * x**2, 1), 1.0)
        return np.where(x > radius, 0.0, made)

    return kernel


_KERNELS: dict[str, Callable[[Array], Array]] = {
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), lambda x: np.maximum(0.0, 1.0 - np.abs(x))),
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), _cubic),
    "lanczos3": _lanczos(3.0), "lanczos5": _lanczos(5.0),
}  # fmt: skip


def _scaled(t: Translation) -> Value:
    """scale_and_translate: every dimension by a matrix of the kernel's values."""
    x = t.x if dtypes.is_float(t.x.dtype) else t.cast(t.x, "float32")
    given = [option(t, n + 1, key, None) for n, key in enumerate(("output_shape", "scale", "translation"))]
    if any(isinstance(each, Value) and each.data is None for each in given):
        raise error("E0107", f"{t.kind} needs its sizes, scales and translations to be constant")
    shape, scales, shifts = (np.asarray(each.data if isinstance(each, Value) else each) for each in given)
    method, smooth = str(option(t, 5, "method", "linear")), bool(option(t, 6, "antialias", True))
    axes = [int(n) % x.type.rank for n in option(t, 4, "spatial_dims", ())]
    if method not in _KERNELS or not len(axes) == scales.size == shifts.size:
        raise t.unsupported(f"by {method} along {axes}")
    for axis, scale, shift in zip(axes, scales.reshape(-1), shifts.reshape(-1), strict=True):
        size, wanted = t.extent(x, axis), int(shape[axis])
        check_table(size, wanted)
        step = 1 / np.float32(scale)
        at = (np.arange(wanted) + 0.5) * step - shift * step - 0.5
        wide = max(step, 1.0) if smooth else 1.0
        weights = _KERNELS[method](np.abs(at[None, :] - np.arange(size)[:, None]) / wide)
        total = weights.sum(0, keepdims=True)
        held = np.abs(total) > 1000 * np.finfo(np.float32).eps
        weights = np.where(held, weights / np.where(total != 0, total, 1), 0.0)
        weights = np.where((at >= -0.5) & (at <= size - 0.5), weights, 0.0)
        order = [*(n for n in range(x.type.rank) if n != axis), axis]
        y = t.op("matmul", t.transpose(x, order), t.weight(weights, x))
        x = t.transpose(y, [order.index(n) for n in range(x.type.rank)])
    return x


OPERATIONS: dict[str, Translator] = {
    "affine_transform": _affine,
    "elastic_transform": _elastic,
    "gaussian_blur": _blurred,
    "map_coordinates": _mapped,
    "perspective_transform": _perspective,
    "scale_and_translate": _scaled,
    "sobel_edges": _edges,
    "ssim": _similarity,
}
