"""Resize with every setting (ONNX, Resize).

Where source positions are simple fractions of constants it is the core operator `resize`. Else each axis is sampled by
itself: nearest by computed positions, linear and cubic by a matrix of weights, which is constant unless the scales or
the region are only known at run time. Positions are float64, as in ONNX's reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.operators.runtime import Numbers
from sterna.frontends.onnx.translation import Translation, Translator, axes_of, is_float
from sterna.ir.division import divide_exactly
from sterna.ir.graph import Array, Value
from sterna.ir.integer import Int, as_int
from sterna.ir.limits import check_table
from sterna.ops.resize import OPEN_TRANSFORMS, simple

WIDE = "float64"
#: Neighbours that are added up one by one; more are a product with a matrix.
_MOST_TAPS = 32
#: Bytes of weights that are computed on the way, to see which are zero.
_MOST_FOLDED = 1 << 26
_NAMES = {"upsample": "nearest", "bilinear": "linear", "trilinear": "linear"}


@dataclass(frozen=True)
class _Axis:
    """One axis that is sampled anew.

    Args:
        old, new: its sizes; scale: a scalar of float64; begin, end: of the region, as shares of the axis, if there is.
    """

    position: int
    old: Int
    new: Int
    scale: Value
    begin: Value | None
    end: Value | None


class _Sampling:
    """The settings of a node."""

    def __init__(self, t: Translation):
        self.t = t
        mode = t.attribute("mode", "nearest")
        self.mode = _NAMES.get(mode, mode)
        old = t.version < 11
        self.transform = "asymmetric" if old else t.attribute("coordinate_transformation_mode", "half_pixel")
        self.rounding = "floor" if old else t.attribute("nearest_mode", "round_prefer_floor")
        self.antialias = bool(t.attribute("antialias", 0)) and self.mode != "nearest"
        self.exclude = bool(t.attribute("exclude_outside", 0))
        self.crops = self.transform == "tf_crop_and_resize"
        self.cubic = t.attribute("cubic_coeff_a", -0.75)

    @property
    def simple(self) -> bool:
        """Whether the core operator has these settings."""
        return not (self.crops or self.antialias or (self.exclude and self.mode != "nearest"))

    def number(self, value: float | Int) -> Value:
        if isinstance(value, Int) and not value.is_const:
            return self.t.cast(self.t.reshape(self.t.dimensions([value]), ()), WIDE)
        return self.t.scalar(float(int(value)) if isinstance(value, Int) else value, WIDE)

    def do(self, op: str, a: Value | float | Int, b: Value | float | Int) -> Value:
        left, right = (v if isinstance(v, Value) else self.number(v) for v in (a, b))
        return self.t.op(op, left, right)

    # -- one axis
    def positions(self, axis: _Axis) -> Value:
        """The source position of every element, as a vector."""
        i = self._counted(axis.new)
        width = self.do("mul", axis.scale, axis.old)
        last = axis.old - 1
        single = self.t.op("equal", width, self.number(1.0))

        def unless_single(value: Value, otherwise: Value | float) -> Value:
            other = otherwise if isinstance(otherwise, Value) else self.number(otherwise)
            return self.t.op("where", single, other, value)

        safe = self.do("sub", unless_single(width, 2.0), 1.0)
        if self.transform == "align_corners":
            return unless_single(self.do("div", self.do("mul", i, last), safe), 0.0)
        if self.transform == "asymmetric":
            return self.do("div", i, axis.scale)
        if self.crops:
            assert axis.begin is not None
            assert axis.end is not None
            span = self.do("mul", self.do("sub", axis.end, axis.begin), last)
            x = unless_single(self.do("div", self.do("mul", i, span), safe), self.do("mul", span, 0.5))
            return self.do("add", x, self.do("mul", axis.begin, last))
        if self.transform == "tf_half_pixel_for_nn":
            return self.do("div", self.do("add", i, 0.5), axis.scale)
        x = self.do("sub", self.do("div", self.do("add", i, 0.5), axis.scale), 0.5)
        if self.transform == "pytorch_half_pixel":
            return unless_single(x, -0.5)
        if self.transform == "half_pixel_symmetric":
            share = self.do("div", axis.new, width)
            return self.do("add", x, self.do("mul", self.do("sub", 1.0, share), self.do("mul", axis.old, 0.5)))
        if self.transform != "half_pixel":
            raise error("E0109", f"coordinate_transformation_mode is {self.transform!r}")
        return x

    def along(self, x: Value, axis: _Axis) -> Value:
        """The tensor sampled along one axis."""
        at = self.positions(axis)
        if self.mode == "nearest":
            return self.nearest(x, axis, at)
        return (self.weighted if axis.old.is_const and axis.new.is_const else self.tapped)(x, axis, at)

    def _counted(self, size: Int) -> Value:
        """0, 1, ..., size - 1 as float64."""
        return self.t.counting(size, WIDE)

    def picked(self, x: Value, axis: _Axis, near: Value) -> Value:
        """The elements at whole positions, those outside the axis taken from its edges."""
        last = self.do("minimum", self.do("maximum", near, 0.0), axis.old - 1)
        return self.t.op("gather", x, self.t.cast(last, "int64"), axis=axis.position)

    def tapped(self, x: Value, axis: _Axis, at: Value) -> Value:
        """The weighted sum of a few neighbours: where the axis is open there is no matrix of weights."""
        if self.antialias or self.exclude:
            raise self.t.unsupported(f"with antialias or exclude_outside over the open dimension {axis.old}")
        base = self.t.op("floor", at)
        total: Value | None = None
        for tap in (0, 1) if self.mode == "linear" else (-1, 0, 1, 2):
            near = self.do("add", base, float(tap))
            weight = self.t.cast(self.kernel(self.t.op("abs", self.do("sub", at, near))), x.dtype)
            shape = [axis.new if n == axis.position else as_int(1) for n in range(x.type.rank)]
            term = self.t.op("mul", self.picked(x, axis, near), self.t.reshape(weight, shape))
            total = term if total is None else self.t.op("add", total, term)
        assert total is not None
        return total

    def nearest(self, x: Value, axis: _Axis, at: Value) -> Value:
        if self.rounding == "round_prefer_floor":
            near = self.t.op("ceil", self.do("sub", at, 0.5))
        elif self.rounding == "round_prefer_ceil":
            near = self.t.op("floor", self.do("add", at, 0.5))
        else:
            near = self.t.op(self.rounding, at)
        if not axis.old.is_const:
            return self.picked(x, axis, near)
        inside = self.t.cast(self.t.op("clip", near, min=0.0, max=float(int(axis.old) - 1)), "int64")
        return self.t.op("gather", x, inside, axis=axis.position)

    def weighted(self, x: Value, axis: _Axis, at: Value) -> Value:
        """The product with a matrix of weights. Positions outside the axis count for its edges."""
        t = self.t
        known = axis.scale.data
        old, new = int(axis.old), int(axis.new)
        least = float(known) if known is not None else new / old
        reach = 2 + math.ceil(2 / min(least, 1.0)) if self.antialias else 3
        check_table(old + 2 * reach, max(old, new))
        places = np.arange(-reach, old + reach, dtype=np.float64)
        with t.builder.folding(_MOST_FOLDED):
            weights = self.weights(axis, at, places)
        # Column p of the matrix gathers all places that are clamped to p.
        edges = np.zeros((len(places), old))
        edges[np.arange(len(places)), np.clip(places, 0, old - 1).astype(int)] = 1
        if weights.data is not None and (taps := _taps(weights.data @ edges)) is not None:
            return self.summed(x, axis.position, *taps)
        matrix = t.cast(t.op("matmul", weights, t.constant(edges)), x.dtype)
        rank = x.type.rank
        order = [n for n in range(rank) if n != axis.position] + [axis.position]
        y = t.op("matmul", t.transpose(x, order), t.transpose(matrix, (1, 0)))
        return t.transpose(y, [order.index(n) for n in range(rank)])

    def weights(self, axis: _Axis, at: Value, places: Array) -> Value:
        """What the elements at some places, of which those outside the axis count for its edges, weigh in each new
        one: (new, places)."""
        t = self.t
        distance = t.op("abs", t.op("sub", t.constant(places), t.reshape(at, (axis.new, 1))))
        if self.antialias:
            distance = t.op("mul", distance, self.do("minimum", axis.scale, 1.0))
        weights = self.kernel(distance)
        if self.exclude:
            inside = t.constant((places >= 0) & (places < int(axis.old)))
            weights = t.op("where", inside, weights, self.number(0.0))
        if self.exclude or self.antialias:
            weights = t.op("div", weights, t.op("reduce_sum", weights, axes=(1,), keep_dims=True))
        return weights

    def summed(self, x: Value, axis: int, starts: Array, weights: Array) -> Value:
        """The weighted sums of a few neighbours, with vectors along another axis."""
        t, rank = self.t, x.type.rank
        order = list(range(rank))
        if axis == rank - 1 and rank > 1:
            order[-2:] = order[:-3:-1]
        given = (t.constant(starts, "int32"), t.constant(weights, x.dtype))
        y = t.op("weigh_neighbours", t.transpose(x, order), *given, axis=order.index(axis))
        return t.transpose(y, order)

    def kernel(self, distance: Value) -> Value:
        if self.mode == "linear":
            return self.t.op("relu", self.do("sub", 1.0, distance))
        a = self.cubic

        def polynomial(*coefficients: float) -> Value:
            total: Value = self.number(coefficients[0])
            for coefficient in coefficients[1:]:
                total = self.do("add", self.do("mul", total, distance), coefficient)
            return total

        near, far = polynomial(a + 2, -(a + 3), 0, 1), polynomial(a, -5 * a, 8 * a, -4 * a)
        outer = self.t.op("where", self.t.op("less", distance, self.number(2.0)), far, self.number(0.0))
        return self.t.op("where", self.t.op("less_equal", distance, self.number(1.0)), near, outer)

    # -- the whole
    def sampled(self, x: Value, axes: Sequence[_Axis]) -> Value:
        t = self.t
        dtype = x.dtype
        y = x if self.mode == "nearest" else t.cast(x, dtype if dtype in ("float32", "float64") else "float32")
        for axis in axes:
            y = self.along(y, axis)
        if self.crops:
            value = t.scalar(t.attribute("extrapolation_value", 0.0), y.dtype)
            for axis in axes:
                at = self.positions(axis)
                outside = Numbers(t).either(
                    t.op("less", at, self.number(0.0)), t.op("less", self.number(axis.old - 1), at)
                )
                shape = [axis.new if n == axis.position else as_int(1) for n in range(y.type.rank)]
                y = t.op("where", t.reshape(outside, shape), value, y)
        return t.cast(y, dtype)


def _taps(matrix: Array) -> tuple[Array, Array] | None:
    """Where the weights of every row of a matrix begin, and as many of each as the longest has; None where that is no
    small part of the matrix."""
    old = matrix.shape[1]
    used = matrix != 0
    first = np.where(used.any(1), used.argmax(1), 0)
    last = np.where(used.any(1), old - 1 - used[:, ::-1].argmax(1), 0)
    width = int((last - first).max(initial=0)) + 1
    if width > _MOST_TAPS or 2 * width > old:
        return None
    starts = np.minimum(first, old - width)
    return starts, np.take_along_axis(matrix, starts[:, None] + np.arange(width), 1)


def resize(t: Translation) -> Value:
    x = t.input(0)
    old = x.shape
    rank = len(old)
    if any(size == 0 for size in old):
        raise t.unsupported("of an empty tensor")
    s = _Sampling(t)
    axes = axes_of(t.attribute("axes"), rank) if t.attribute("axes") else tuple(range(rank))
    by_size = t.version >= 11 and t.has(3) and t.input(3).type.sizes != (0,)
    scales: Value | list[float] | None
    if not x.type.is_static:
        sizes, scales = _open_sizes(t, x, axes, by_size)
    elif by_size:
        now, scales, x = _from_sizes(t, x, axes)
        sizes = [as_int(size) for size in now]
    else:
        now, scales, x = _from_scales(t, x, axes)
        sizes = [as_int(size) for size in now]
    new = list(old)
    for n, a in enumerate(axes):
        new[a] = sizes[n]
    fixed = all(old[a].is_const and new[a].is_const for a in range(rank))
    if isinstance(scales, list) and s.simple and (fixed or s.transform in OPEN_TRANSFORMS):
        all_scales = [1.0] * rank
        for n, a in enumerate(axes):
            all_scales[a] = scales[n]
        if tuple(new) == tuple(old) and all(v == 1.0 for v in all_scales):
            return x
        return t.op(
            "resize", x, sizes=tuple(new), scales=tuple(all_scales), mode=s.mode, cubic_coefficient=s.cubic,
            transform=s.transform, rounding=s.rounding,
        )  # fmt: skip
    vector = None
    if scales is not None:
        vector = t.constant(scales, WIDE) if isinstance(scales, list) else t.cast(scales, WIDE)
    region = t.cast(t.input(1), WIDE) if s.crops else None

    def entry(value: Value, n: int) -> Value:
        return t.reshape(t.op("slice", value, starts=(n,), sizes=(1,), steps=(1,)), ())

    moved = []
    for n, a in enumerate(axes):
        if not s.crops and old[a] == new[a] and (old[a] == 1 or (isinstance(scales, list) and scales[n] == 1.0)):
            continue
        begin, end = (None, None) if region is None else (entry(region, n), entry(region, n + len(axes)))
        scale = s.do("div", new[a], old[a]) if vector is None else entry(vector, n)
        moved.append(_Axis(a, old[a], new[a], scale, begin, end))
    return s.sampled(x, moved)


def _open_sizes(t: Translation, x: Value, axes: Sequence[int], by_size: bool) -> tuple[list[Int], list[float] | None]:
    """New sizes and scales of the axes where dimensions are open; None for scales that depend on them."""
    old = [x.shape[a] for a in axes]
    if not by_size:
        position = 1 if t.version < 11 else 2
        factors = t.attribute("scales")
        if factors is None:
            factors = [float(v) for v in t.array(position, "scales").reshape(-1)]
        if len(factors) != len(axes) or any(not math.isfinite(f) or f <= 0 for f in factors):
            raise error("E0108", f"scales {list(factors)} for {len(axes)} dimensions")
        shares = [simple(f) for f in factors]
        return [n * s.numerator // s.denominator for n, s in zip(old, shares, strict=True)], list(factors)
    if t.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise t.unsupported("with keep_aspect_ratio_policy over an open dimension")
    wanted = t.dims(3, "sizes")
    if len(wanted) != len(axes):
        raise error("E0108", f"{len(wanted)} sizes for {len(axes)} dimensions")
    scales = []
    for a, b in zip(old, wanted, strict=True):
        if a.is_const and b.is_const:
            scales.append(int(b) / int(a))
        elif (more := divide_exactly(b, a)) is not None and more.is_const:
            scales.append(float(int(more)))
        else:
            return wanted, None
    return wanted, scales


def _from_sizes(t: Translation, x: Value, axes: Sequence[int]) -> tuple[list[int], Value | list[float], Value]:
    """New sizes and scales of the axes, from the operand `sizes`."""
    old = t.static(x)
    policy = t.attribute("keep_aspect_ratio_policy", "stretch")
    given = t.input(3)
    if given.type.sizes != (len(axes),):
        raise error("E0108", f"{given.type} gives sizes for {len(axes)} dimensions")
    if t.known(3):
        wanted = t.integers(3, "sizes")
        if policy == "stretch":
            return wanted, [w / old[a] for a, w in zip(axes, wanted, strict=True)], x
        pick = min if policy == "not_larger" else max
        factor = pick(w / old[a] for w, a in zip(wanted, axes, strict=True))
        return [math.floor(old[a] * factor + 0.5) for a in axes], [factor] * len(axes), x
    declared = t.wanted(3, "sizes")
    wanted = [declared[a] for a in axes]
    n = Numbers(t)
    if policy == "stretch":
        x = t.agree(x, n.do("equal", n.flat(given), wanted))
        return wanted, [w / old[a] for a, w in zip(axes, wanted, strict=True)], x
    extents = t.constant(np.array([old[a] for a in axes], np.float64))
    shares = t.op("div", t.cast(given, WIDE), extents)
    least = t.op("reduce_min" if policy == "not_larger" else "reduce_max", shares, axes=(0,), keep_dims=True)
    made = t.op("floor", t.op("add", t.op("mul", extents, least), t.scalar(0.5, WIDE)))
    x = t.agree(x, n.do("equal", t.cast(made, "int64"), wanted))
    return wanted, t.op("expand", least, shape=(len(axes),)), x


def _from_scales(t: Translation, x: Value, axes: Sequence[int]) -> tuple[list[int], Value | list[float], Value]:
    """New sizes and scales of the axes, from the operand `scales`."""
    old = t.static(x)
    position = 1 if t.version < 11 else 2
    factors = t.attribute("scales")
    if factors is None and not t.known(position):
        declared = t.wanted(position, "scales")
        given = t.input(position)
        if given.type.sizes != (len(axes),) or not is_float(given):
            raise error("E0108", f"{given.type} gives scales for {len(axes)} dimensions")
        extents = t.constant(np.array([old[a] for a in axes], np.float64))
        slack = t.scalar(1e-9, WIDE)
        made = t.op("floor", t.op("add", t.op("mul", t.cast(given, WIDE), extents), slack))
        wanted = [declared[a] for a in axes]
        n = Numbers(t)
        return wanted, given, t.agree(x, n.do("equal", t.cast(made, "int64"), wanted))
    if factors is None:
        factors = [float(v) for v in t.array(position, "scales").reshape(-1)]
    if len(factors) != len(axes) or any(not math.isfinite(f) or f <= 0 for f in factors):
        raise error("E0108", f"scales {list(factors)} for {len(axes)} dimensions")
    return [math.floor(old[a] * f + 1e-9) for a, f in zip(axes, factors, strict=True)], list(factors), x


TRANSLATORS: dict[str, Translator] = {"Resize": resize, "Upsample": resize}
