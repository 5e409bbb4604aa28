"""Operands that decide a shape and are only known at run time: the declared shape of the result decides in their place.

Where that shape leaves only one value for the operand, the graph is made for that value; where it leaves a few, all are
computed and the right one is chosen; where it leaves many, positions are computed. In every case the bundle tests at
run time that the operand agrees (`ops.checks`), and fails if it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.emitter import axes_of
from sterna.frontends.onnx import spans
from sterna.frontends.onnx.translation import Translation
from sterna.ir.graph import Value

MOST_VARIANTS = 24
I64 = "int64"


class Numbers:
    """Arithmetic on small tensors of int64 in the graph."""

    def __init__(self, t: Translation):
        self.t = t

    def of(self, value: Value | int | Sequence[int] | np.ndarray) -> Value:
        if isinstance(value, Value):
            return self.t.cast(value, I64)
        return self.t.constant(np.asarray(value, np.int64))

    def flat(self, value: Value) -> Value:
        """A vector of int64."""
        return self.of(self.t.reshape(value, (value.type.elements,)))

    def scalar(self, value: Value) -> Value:
        """The only element."""
        if value.type.elements != 1:
            raise error("E0108", f"{value.type} is not one element")
        return self.of(self.t.reshape(value, ()))

    def do(
        self, op: str, a: Value | int | Sequence[int] | np.ndarray, b: Value | int | Sequence[int] | np.ndarray
    ) -> Value:
        return self.t.op(op, self.of(a), self.of(b))

    def either(self, *conditions: Value) -> Value:
        result = conditions[0]
        for condition in conditions[1:]:
            result = self.t.op("logical_or", result, condition)
        return result

    def both(self, *conditions: Value) -> Value:
        result = conditions[0]
        for condition in conditions[1:]:
            result = self.t.op("logical_and", result, condition)
        return result

    def choose(self, condition: Value, a: Value | int | np.ndarray, b: Value | int | np.ndarray) -> Value:
        return self.t.op("where", condition, self.of(a), self.of(b))

    def everywhere(self, condition: Value) -> Value:
        """Whether a vector of bools holds everywhere."""
        rank = condition.type.rank
        return self.t.op("reduce_all", condition, axes=tuple(range(rank)), keep_dims=False) if rank else condition

    def from_start(self, value: Value, extent: int | np.ndarray) -> Value:
        """Positions of which negative ones count from the end."""
        return self.choose(self.do("less", value, 0), self.do("add", value, extent), value)


# ---------------------------------------------------------------- one value is left
def reshape(t: Translation, copies: bool) -> Value:
    """Reshape: the declared shape is the operand, up to -1 and 0."""
    x, n = t.input(0), Numbers(t)
    sizes = t.wanted(1, "a shape")
    given = n.flat(t.input(1))
    if given.type.sizes != (len(sizes),):
        raise error("E0108", f"a shape of {given.type.sizes[0]} entries for the declared {list(sizes)}")
    good = n.either(n.do("equal", given, sizes), n.do("equal", given, -1))
    if copies:
        same = [k < x.type.rank and x.shape[k] == size for k, size in enumerate(sizes)]
        good = n.either(good, n.both(n.do("equal", given, 0), t.constant(np.array(same))))
    return t.reshape(t.agree(x, good), sizes)


def expand(t: Translation) -> Value:
    """Expand: a 1 may stand where the operand's own size is declared."""
    x, n = t.input(0), Numbers(t)
    sizes = t.wanted(1, "a shape")
    given = n.flat(t.input(1))
    count = given.type.sizes[0]
    tail = sizes[len(sizes) - count :] if count else ()
    own = (1,) * (len(sizes) - x.type.rank) + t.static(x)
    kept = [own[len(sizes) - count + k] == size for k, size in enumerate(tail)]
    good = n.either(n.do("equal", given, tail), n.both(n.do("equal", given, 1), t.constant(np.array(kept, np.bool_))))
    x = t.agree(x, good) if count else x
    return x if t.static(x) == sizes else t.op("expand", x, shape=sizes)


def filled(t: Translation, element: Value) -> Value:
    """ConstantOfShape."""
    n = Numbers(t)
    sizes = t.wanted(0, "a shape")
    good = n.do("equal", n.flat(t.input(0)), sizes)
    return t.op("expand", t.agree(element, good), shape=sizes)


def tile(t: Translation) -> Value:
    x, n = t.input(0), Numbers(t)
    sizes, old = t.wanted(1, "repeats"), t.static(t.input(0))
    if len(sizes) != len(old) or any(b and (not a or b % a) for a, b in zip(old, sizes, strict=True)):
        raise error("E0108", f"{x.type} cannot be repeated to {list(sizes)}")
    repeats = [b // a if a else 1 for a, b in zip(old, sizes, strict=True)]
    free = [not a for a in old]
    good = n.either(n.do("equal", n.flat(t.input(1)), repeats), t.constant(np.array(free)))
    return t.op("tile", t.agree(x, good), repeats=tuple(repeats))


def equal_to(t: Translation, x: Value, position: int, expected: Sequence[int] | int) -> Value:
    """`x`, after a test that an operand is just this."""
    n = Numbers(t)
    return t.agree(x, n.do("equal", n.flat(t.input(position)), np.atleast_1d(expected)))


def arange(t: Translation) -> Value:
    """Range: as many elements as are declared, or as lie between bounds whose distance is known."""
    count = _counted(t)
    start, limit, delta = (t.reshape(t.input(k), ()) for k in range(3))
    dtype = start.dtype
    steps = t.counting(count)
    y = t.op("add", start, t.op("mul", t.cast(steps, dtype), delta))
    wide = "float64" if start.dtype.startswith(("float", "bfloat")) else I64
    # count = ceil((limit - start) / delta): the last element lies before the limit, one more would not.
    span = t.op("sub", t.cast(limit, wide), t.cast(start, wide))
    step = t.cast(delta, wide)
    ahead = t.op("less", t.scalar(0, wide), step)

    def before(k: int) -> Value:
        reach = t.op("mul", step, t.scalar(k, wide))
        return t.op("where", ahead, t.op("less", reach, span), t.op("less", span, reach))

    good = t.op("logical_not", before(count))
    if count:
        good = t.op("logical_and", good, before(count - 1))
    return t.agree(y, good)


def _counted(t: Translation) -> int:
    """How many elements a Range has."""
    start, limit, delta = (t.input(k) for k in range(3))
    if delta.data is not None and delta.data.size == 1 and delta.data.reshape(-1)[0] > 0:
        first, last = (spans.positions(value, t.builder.nodes) for value in (start, limit))
        apart = spans.distance(first[0], last[0]) if first and last else None
        if apart is not None:
            return max(math.ceil(apart / float(delta.data.reshape(-1)[0])), 0)
    (count,) = t.wanted(1, "bounds")
    return count


# ---------------------------------------------------------------- a few values are left
def mask_of_axes(t: Translation, axes: Value, rank: int) -> Value:
    """Which of `rank` dimensions a vector of axes names."""
    n = Numbers(t)
    given = n.flat(axes)
    count = given.type.sizes[0]
    if not count:
        return t.constant(np.zeros(rank, np.bool_))
    column = t.reshape(given, (count, 1))
    hit = n.either(n.do("equal", column, np.arange(rank)), n.do("equal", column, np.arange(rank) - rank))
    return t.op("reduce_any", hit, axes=(0,), keep_dims=False)


def _is_mask(t: Translation, mask: Value, axes: Sequence[int]) -> Value:
    n = Numbers(t)
    rank = mask.type.sizes[0]
    wanted = t.constant(np.isin(np.arange(rank), list(axes)))
    return n.everywhere(t.op("equal", mask, wanted))


def squeeze(t: Translation, inverse: bool) -> Value:
    """Squeeze and Unsqueeze: dimensions of size 1 that lead to the declared shape."""
    x = t.input(0)
    sizes = t.wanted(1, "axes")
    long, short = (sizes, t.static(x)) if inverse else (t.static(x), sizes)
    count = int(t.input(1).type.elements)
    fitting = [
        axes
        for axes in combinations(range(len(long)), count)
        if all(long[a] == 1 for a in axes) and tuple(s for k, s in enumerate(long) if k not in axes) == short
    ]
    if not fitting:
        raise error("E0108", f"{x.type} cannot become {list(sizes)} by {count} axes")
    mask = mask_of_axes(t, t.input(1), len(long))
    good = Numbers(t).either(*(_is_mask(t, mask, axes) for axes in fitting))
    return t.reshape(t.agree(x, good), sizes)


def choose(t: Translation, variants: Sequence[tuple[Value, Value]]) -> Value:
    """The second of the first pair whose first, a scalar bool, holds; the kernel fails if none does."""
    result = variants[-1][1]
    for condition, value in reversed(variants[:-1]):
        result = t.op("where", condition, value, result)
    return t.agree(result, Numbers(t).either(*(condition for condition, _ in variants)))


def reduction(t: Translation, reduce: Callable[[Value, tuple[int, ...] | None], Value]) -> Value:
    """A reduction over axes given at run time: all sets of axes that lead to the declared shape."""
    x = t.input(0)
    rank = x.type.rank
    sizes = t.wanted(1, "axes")
    count = int(t.input(1).type.elements)
    if not count:
        return reduce(x, None if t.attribute("noop_with_empty_axes", 0) else tuple(range(rank)))
    mask = mask_of_axes(t, t.input(1), rank)
    keep = bool(t.attribute("keepdims", 1))
    variants = []
    for axes in combinations(range(rank), count):
        shape = tuple(1 if k in axes else s for k, s in enumerate(t.static(x)) if keep or k not in axes)
        if shape == sizes:
            variants.append((_is_mask(t, mask, axes), reduce(x, axes)))
    if not 0 < len(variants) <= MOST_VARIANTS:
        raise t.unknown(1, "axes")
    return choose(t, variants)


def along(t: Translation, position: int, x: Value, make: Callable[[int], Value]) -> Value:
    """One axis given at run time: the results for all axes that lead to the same type (the declared one, if any)."""
    n = Numbers(t)
    given = n.scalar(t.input(position))
    rank = x.type.rank
    declared = t.declared[0] if t.declared else None
    variants = []
    for axis in range(rank):
        try:
            y = make(axis)
        except SternaError:
            continue
        if declared is None or y.type.sizes == declared:
            variants.append((n.do("equal", n.from_start(given, rank), axis), y))
    if not 0 < len(variants) <= MOST_VARIANTS or len({y.type for _, y in variants}) > 1:
        raise t.unknown(position, "an axis")
    return choose(t, variants)


# ---------------------------------------------------------------- positions are computed
def taken(t: Translation, x: Value, positions: Sequence[Value | None]) -> Value:
    """x[positions[0]][:, positions[1]] ...; None takes the whole dimension."""
    for axis, chosen in enumerate(positions):
        if chosen is not None:
            x = t.op("gather", x, chosen, axis=axis)
    return x


def slice_(t: Translation) -> Value:
    """Slice: the sizes are declared, those between bounds whose distance is known, or computed; first elements and
    steps are computed."""
    x, n = t.input(0), Numbers(t)
    old = t.static(x)
    sizes = _lengths(t, old) or (None if _is_one_part(t) else t.wanted(1, "bounds"))
    if sizes is None:
        return _part(t, x, old)
    rank = len(old)
    if len(sizes) != rank:
        raise error("E0108", f"a slice of {x.type} is declared as {list(sizes)}")
    starts, ends = n.flat(t.input(1)), n.flat(t.input(2))
    count = starts.type.sizes[0]
    axes = n.flat(t.input(3)) if t.has(3) else n.of(np.arange(count))
    steps = n.flat(t.input(4)) if t.has(4) else n.of(np.ones(count, np.int64))
    if any(v.type.sizes != (count,) for v in (ends, axes, steps)):
        raise error("E0108", "starts, ends, axes and steps of different lengths")
    extents = np.array(old, np.int64)
    # hit[i, d]: entry i is that of dimension d. Every dimension takes its entry's value, or the default.
    column = t.reshape(n.from_start(axes, rank), (count, 1))
    hit = n.do("equal", column, np.arange(rank))
    named = t.op("reduce_any", hit, axes=(0,), keep_dims=False)

    def per_dimension(values: Value, default: np.ndarray) -> Value:
        spread = n.choose(hit, t.reshape(values, (count, 1)), 0)
        return n.choose(named, t.op("reduce_sum", spread, axes=(0,), keep_dims=False), default)

    step = per_dimension(steps, np.ones(rank, np.int64))
    ahead = n.do("less", 0, step)
    first = n.from_start(per_dimension(starts, np.zeros(rank, np.int64)), extents)
    last = per_dimension(ends, extents)
    last = n.from_start(last, extents)
    top = n.choose(ahead, extents, extents - 1)
    first = n.do("maximum", n.do("minimum", first, top), 0)
    last = n.do("minimum", n.do("maximum", last, n.choose(ahead, 0, n.of(-np.ones(rank, np.int64)))), extents)
    span = n.do("sub", last, first)
    size = n.choose(ahead, n.do("sub", n.do("add", span, step), 1), n.do("add", n.do("add", span, step), 1))
    number = n.do("maximum", n.do("div", size, step), 0)
    if 0 in sizes:
        return t.op("expand", t.scalar(0, x.dtype), shape=sizes)
    x = t.agree(x, n.do("equal", number, sizes))
    positions: list[Value | None] = []
    for d, extent in enumerate(sizes):
        a, b = (t.op("slice", v, starts=(d,), sizes=(1,), steps=(1,)) for v in (first, step))
        positions.append(n.do("add", a, n.do("mul", b, t.counting(extent))))
    return taken(t, x, positions)


def _lengths(t: Translation, old: Sequence[int]) -> tuple[int, ...] | None:
    """The sizes of a Slice, if the model's bounds leave one length each."""
    nodes = t.builder.nodes
    starts, ends = (spans.positions(t.input(k), nodes) for k in (1, 2))
    if starts is None or ends is None or not t.known(3, 4):
        return None
    axes = axes_of(t.integers(3, "axes"), len(old)) if t.has(3) else range(len(starts))
    steps = t.integers(4, "steps") if t.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    sizes = list(old)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        apart = spans.distance(start, end)
        if apart is None or step < 1:
            return None
        if start.base is None:  # both are constant, and may count from the end
            sizes[axis] = len(range(*slice(int(start.plus), int(end.plus), step).indices(old[axis])))
        else:
            sizes[axis] = min(max(math.ceil(apart / step), 0), old[axis])
    return tuple(sizes)


def _is_one_part(t: Translation) -> bool:
    """Whether a Slice whose result has no declared shape takes neighbours along one known axis."""
    if not t.known(3, 4) or t.input(1).type.sizes != (1,):
        return False
    return t.declared[:1] in ((), (None,)) and (not t.has(4) or t.integers(4, "steps") == [1])


def _part(t: Translation, x: Value, old: Sequence[int]) -> Value:
    """x[first:last] along one axis, of a size that is known when the bundle runs."""
    n = Numbers(t)
    (axis,) = axes_of(t.integers(3, "axes"), len(old)) if t.has(3) else (0,)
    extent = old[axis]
    first, last = (
        n.do("maximum", n.do("minimum", n.from_start(n.scalar(t.input(k)), extent), extent), 0) for k in (1, 2)
    )
    count = n.do("maximum", n.do("sub", last, first), 0)
    size = t.bound_size(count, *t.size_limits(extent))
    if first.data is not None:
        starts = [int(first.data) if d == axis else 0 for d in range(len(old))]
        sizes = [size if d == axis else extent for d, extent in enumerate(old)]
        return t.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * len(old))
    places = n.do("add", t.counting(size), first)
    return t.op("gather", x, places, axis=axis)


def pad(t: Translation, value: Value, mode: str) -> Value:
    """Pad: the sizes are declared, the position of the operand within them is computed."""
    x, n = t.input(0), Numbers(t)
    old = t.static(x)
    rank = len(old)
    if t.known(1, 3):
        raise error("E0901", "pads that are known")
    sizes = t.wanted(1, "pads")
    given = n.flat(t.input(1))
    axes = n.flat(t.input(3)) if t.has(3) else n.of(np.arange(rank))
    count = axes.type.sizes[0]
    if given.type.sizes != (2 * count,) or len(sizes) != rank:
        raise error("E0108", f"{given.type.sizes[0]} pads for {count} dimensions")
    hit = n.do("equal", t.reshape(n.from_start(axes, rank), (count, 1)), np.arange(rank))

    def per_dimension(begin: int) -> Value:
        part = t.op("slice", given, starts=(begin,), sizes=(count,), steps=(1,))
        return t.op("reduce_sum", n.choose(hit, t.reshape(part, (count, 1)), 0), axes=(0,), keep_dims=False)

    before, after = per_dimension(0), per_dimension(count)
    x = t.agree(x, n.do("equal", n.do("add", n.do("add", before, after), old), sizes))
    inside: Value | None = None
    positions: list[Value | None] = []
    for d, (size, extent) in enumerate(zip(old, sizes, strict=True)):
        here = n.do("sub", t.counting(extent), t.op("slice", before, starts=(d,), sizes=(1,), steps=(1,)))
        if mode == "reflect" and size > 1:
            period = 2 * (size - 1)
            turned = t.op("mod", here, n.of(period))
            here = n.do("minimum", turned, n.do("sub", period, turned))
        elif mode == "wrap":
            here = t.op("mod", here, n.of(size))
        bounded = n.do("maximum", n.do("minimum", here, size - 1), 0)
        positions.append(bounded)
        if mode == "constant":
            fits = t.reshape(n.do("equal", here, bounded), [extent if k == d else 1 for k in range(rank)])
            inside = fits if inside is None else n.both(inside, fits)
    y = taken(t, x, positions)
    return y if inside is None else t.op("where", inside, y, value)


def triangle(t: Translation) -> Value:
    """Trilu with a diagonal given at run time."""
    x, n = t.input(0), Numbers(t)
    rows, columns = t.static(x)[-2:]
    distance = n.do("sub", t.counting(columns), t.reshape(t.counting(rows), (rows, 1)))
    kept = n.do("greater_equal" if t.attribute("upper", 1) else "less_equal", distance, n.scalar(t.input(1)))
    return t.op("where", kept, x, t.scalar(0, x.dtype))
