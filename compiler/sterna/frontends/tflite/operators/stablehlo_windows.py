"""Reductions and windows of StableHLO, and elements put around and between others."""

from __future__ import annotations

from collections.abc import Sequence

from sterna.errors import error
from sterna.frontends.tflite.translation import Translation
from sterna.ir.graph import Value
from sterna.ir.integer import IntLike, as_int

#: Taps up to which the elements of a window are joined one by one.
_FEW = 8


def spread(t: Translation, x: Value, gaps: Sequence[int], value: Value) -> Value:
    """So many elements of a value between neighbours."""
    for n, gap in enumerate(gaps):
        if gap < 0:
            raise error("E0109", f"{t.kind} with gaps of {gap}")
        size = x.shape[n]
        if not gap or size == 0:
            continue
        wide = t.reshape(x, [*x.shape[: n + 1], 1, *x.shape[n + 1 :]])
        fill = t.op("expand", value, shape=(*x.shape[: n + 1], gap, *x.shape[n + 1 :]))
        both = t.op("concat", wide, fill, axis=n + 1)
        both = t.reshape(both, [size * (gap + 1) if m == n else s for m, s in enumerate(x.shape)])
        x = cut(t, both, n, 0, size * (gap + 1) - gap)
    return x


def cut(t: Translation, x: Value, axis: int, first: IntLike, size: IntLike) -> Value:
    starts = tuple(first if n == axis else 0 for n in range(x.type.rank))
    sizes = tuple(size if n == axis else s for n, s in enumerate(x.shape))
    return t.op("slice", x, starts=starts, sizes=sizes, steps=(1,) * x.type.rank)


def edged(t: Translation, x: Value, low: Sequence[int], high: Sequence[int], value: Value) -> Value:
    """A value around a tensor; where amounts are negative, less of it."""
    for n, (a, b) in enumerate(zip(low, high, strict=True)):
        x = cut(t, x, n, max(-a, 0), x.shape[n] - max(-a, 0) - max(-b, 0)) if min(a, b) < 0 else x
        for amount, is_first in ((a, True), (b, False)):
            if amount > 0:
                fill = t.op(
                    "expand", value, shape=tuple(as_int(amount) if m == n else s for m, s in enumerate(x.shape))
                )
                x = t.op("concat", *((fill, x) if is_first else (x, fill)), axis=n)
    return x


# ---------------------------------------------------------------- reductions
#: The one operator of an inner graph -> the reduction, and the join of two elements.
_REDUCERS: dict[str, tuple[str, str]] = {
    "ADD": ("reduce_sum", "add"), "MUL": ("reduce_prod", "mul"), "MULTIPLY": ("reduce_prod", "mul"),
    "MAXIMUM": ("reduce_max", "maximum"), "MINIMUM": ("reduce_min", "minimum"),
    "LOGICAL_AND": ("reduce_all", "logical_and"), "AND": ("reduce_all", "logical_and"),
    "LOGICAL_OR": ("reduce_any", "logical_or"), "OR": ("reduce_any", "logical_or"),
}  # fmt: skip
#: What these are of truths.
_OF_TRUTHS = {
    "add": ("reduce_any", "logical_or"), "maximum": ("reduce_any", "logical_or"),
    "mul": ("reduce_all", "logical_and"), "minimum": ("reduce_all", "logical_and"),
}  # fmt: skip


def reducer_of(t: Translation) -> tuple[str, str]:
    """The reduction that the inner graph says, and the join of two elements."""
    name = str(t.option("reducer", "")).removeprefix("STABLEHLO_")
    if name not in _REDUCERS:
        raise t.unsupported(f"by a graph that is not one sum, product, maximum or minimum ({name or 'several'})")
    found = _REDUCERS[name]
    return _OF_TRUTHS.get(found[1], found) if t.input(0).dtype == "bool" else found


def reduce(t: Translation) -> Value:
    if len(t.inputs) != 2:
        raise t.unsupported(f"of {len(t.inputs) // 2} tensors")
    x, start = t.input(0), t.reshape(t.input(1), ())
    operator, join = reducer_of(t)
    return t.op(join, t.op(operator, x, axes=tuple(t.option("dimensions", ())), keep_dims=False), start)


def _joined(t: Translation, x: Value, axis: int, size: int, step: int, count: int, join: str) -> Value:
    """The joins of `size` elements, `step` apart, from each of the first `count` positions on.

    Windows of 2, 4, 8 ... elements are each two of the half; those that `size` is the sum of are joined in order."""
    made: Value | None = None
    taken, power = 0, 1
    while True:
        if size & power:
            part = cut(t, x, axis, taken * step, count)
            made = part if made is None else t.op(join, made, part)
            taken += power
        if taken == size:
            assert made is not None
            return made
        rest = t.extent(x, axis) - power * step
        x = t.op(join, cut(t, x, axis, 0, rest), cut(t, x, axis, power * step, rest))
        power *= 2


def _windows(
    t: Translation,
    x: Value,
    start: Value,
    sizes: Sequence[int],
    strides: Sequence[int],
    steps: Sequence[int],
    join: str,
) -> Value:
    """The join of all elements of each window, one dimension after the other."""
    for n, (size, stride, step) in enumerate(zip(sizes, strides, steps, strict=True)):
        if min(size, stride, step) < 1:
            raise error("E0109", f"{t.kind} of windows of {size} elements, {step} apart, by {stride}")
        count = max((t.extent(x, n) - (size - 1) * step - 1) // stride + 1, 0)
        if size == 1 and stride == 1:
            continue
        if count == 0:
            x = cut(t, x, n, 0, 0)
        elif size <= _FEW:
            taps = [_every(t, x, n, k * step, count, stride) for k in range(size)]
            x = taps[0]
            for tap in taps[1:]:
                x = t.op(join, x, tap)
        else:
            x = _every(t, _joined(t, x, n, size, step, (count - 1) * stride + 1, join), n, 0, count, stride)
    return t.op(join, x, start)


def _every(t: Translation, x: Value, axis: int, first: int, count: int, stride: int) -> Value:
    """So many elements along an axis, `stride` apart."""
    return t.op(
        "slice", x, starts=tuple(first if m == axis else 0 for m in range(x.type.rank)),
        sizes=tuple(as_int(count) if m == axis else s for m, s in enumerate(x.shape)),
        steps=tuple(stride if m == axis else 1 for m in range(x.type.rank)),
    )  # fmt: skip


#: Join -> the operator that joins every element with all before it, and what changes nothing; None: any start does.
_RUNNING: dict[str, tuple[str, float | None]] = {
    "add": ("cumulative_sum", 0), "mul": ("cumulative_product", 1), "maximum": ("cumulative_max", None),
}  # fmt: skip


def _running(t: Translation, x: Value, start: Value, sizes: list[int], pads: list[int], join: str) -> Value:
    """With the dimensions done whose windows are all elements up to each one, as those of JAX's `cumsum` are: their
    windows become 1."""
    operator, neutral = _RUNNING.get(join, ("", None))
    if not operator or (neutral is not None and (start.data is None or start.data.item() != neutral)):
        return x
    for n, size in enumerate(sizes):
        pair = pads[2 * n : 2 * n + 2]
        if size > _FEW and size == t.extent(x, n) and sorted(pair) == [0, size - 1]:
            x = t.op(operator, x, axis=n, reverse=pair[0] == 0)
            sizes[n], pads[2 * n : 2 * n + 2] = 1, [0, 0]
    return x


def reduce_window(t: Translation) -> Value:
    x = t.input(0)
    if len(t.inputs) != 2:
        raise t.unsupported(f"of {len(t.inputs) // 2} tensors")
    rank, start = x.type.rank, t.reshape(t.input(1), ())
    _, join = reducer_of(t)

    def option(name: str, default: int) -> tuple[int, ...]:
        values = tuple(t.option(name, ())) or (default,) * rank
        if len(values) != rank:
            raise error("E0108", f"{t.kind} of {x.type} with {name} {list(values)}")
        return values

    pads = [*t.option("padding", ())] or [0] * (2 * rank)
    if len(pads) != 2 * rank:
        raise error("E0108", f"{t.kind} of {x.type} with padding {pads}")
    sizes, strides, steps, apart = (
        option(name, 1) for name in ("window_dimensions", "window_strides", "window_dilations", "base_dilations")
    )
    if {*strides, *steps, *apart} == {1}:
        windows = [*sizes]
        x = _running(t, x, start, windows, pads, join)
        sizes = tuple(windows)
    x = edged(t, spread(t, x, [n - 1 for n in apart], start), pads[::2], pads[1::2], start)
    return _windows(t, x, start, sizes, strides, steps, join)


def reduce_window_of_lite(t: Translation) -> Value:
    """REDUCE_WINDOW: sizes, strides and distances are operands, and the reduction is a setting."""
    names = {1: "add", 2: "mul", 3: "minimum", 4: "maximum", 5: "logical_and", 6: "logical_or"}
    join = names.get(int(t.option("reduce_function", 0)))
    if t.input(0).dtype == "bool" and join in _OF_TRUTHS:
        join = _OF_TRUTHS[join][1]
    if join is None:
        raise t.unsupported(f"by the function {t.option('reduce_function')}")
    sizes, strides, steps = (t.integers(n, "windows") for n in (2, 3, 4))
    if not len(sizes) == len(strides) == len(steps) == t.input(0).type.rank:
        raise error("E0108", f"{t.kind} of {t.input(0).type} by windows {sizes}")
    return _windows(t, t.input(0), t.reshape(t.input(1), ()), sizes, strides, steps, join)
