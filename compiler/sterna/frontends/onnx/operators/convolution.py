"""Convolutions and pooling: channels move last, padding becomes an operator of its own, a bias an addition."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.translation import Translation, Translator
from sterna.ir.division import ceil_div
from sterna.ir.extremum import maximum
from sterna.ir.graph import Value
from sterna.ir.integer import Int, IntLike, as_int
from sterna.ir.limits import check_table
from sterna.ir.sizes import sizes_wanted
from sterna.ops.formulas import lowest
from sterna_runtime.advice import Advice

LARGEST_DIMENSION = 1 << 24  # windows; more can only be a mistake, and tables of them are made


def _spatial(t: Translation, x: Value) -> int:
    spatial = x.type.rank - 2
    if not 1 <= spatial <= 3:
        raise error("E0108", f"{t.node.op} takes tensors of 3 to 5 dimensions, not {x.type}")
    return spatial


def _per_dimension(t: Translation, name: str, spatial: int) -> tuple[int, ...]:
    values = t.attribute(name) or (1,) * spatial
    if len(values) != spatial:
        raise error("E0109", f"{name} has {len(values)} entries for {spatial} spatial dimensions")
    if any(v < 1 for v in values):
        raise error("E0109", f"{name} must be positive, not {list(values)}")
    return tuple(values)


def _windows(
    t: Translation, sizes: Sequence[Int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[IntLike], list[IntLike], list[int]]:
    """Padding before and after each spatial dimension, and the number of windows (ONNX, AveragePool and Conv).

    The padding after is what the windows reach, no more: elements that no window reads are not made. Of a dimension
    whose size is open it may be more, and the number of windows stands as 0.
    """
    spatial = len(sizes)
    mode = t.attribute("auto_pad", "NOTSET")
    pads = t.attribute("pads") or (0,) * (2 * spatial)
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise error("E0109", f"auto_pad is {mode!r}")
    if len(pads) != 2 * spatial:
        raise error("E0109", f"pads has {len(pads)} entries for {spatial} spatial dimensions")
    if any(p < 0 for p in pads):
        raise t.unsupported("with negative pads")
    before: list[IntLike] = []
    after: list[IntLike] = []
    counts: list[int] = []
    for n, (extent_of, extent, stride, dilation) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        reach = (extent - 1) * dilation + 1
        first, last = (0, 0) if mode == "VALID" else (pads[n], pads[n + spatial])
        if not extent_of.is_const:
            ends = _open_padding(t, extent_of, mode, (first, last), (reach, stride))
            before.append(ends[0])
            after.append(ends[1])
            counts.append(0)
            continue
        size = int(extent_of)
        if mode.startswith("SAME"):
            count = -(-size // stride)
            total = max((count - 1) * stride + reach - size, 0)
            first = total // 2 if mode == "SAME_UPPER" else total - total // 2
        elif t.attribute("ceil_mode", 0):
            count = -(-(size + first + last - reach) // stride) + 1
            # A window that starts after the operand and its padding before is dropped.
            if (count - 1) * stride >= size + first:
                count -= 1
        else:
            count = (size + first + last - reach) // stride + 1
        if count < 1:
            raise error("E0108", f"a window of {reach} does not fit into {size} elements and {first + last} of padding")
        if count > LARGEST_DIMENSION:
            raise error("E0112", f"{count} windows along one dimension")
        before.append(first)
        after.append(max((count - 1) * stride + reach - size - first, 0))
        counts.append(count)
    return before, after, counts


def _open_padding(
    t: Translation, size: Int, mode: str, pads: tuple[int, int], window: tuple[int, int]
) -> tuple[IntLike, IntLike]:
    """Padding of a dimension of open size, so that the number of windows comes out as ONNX says for every size."""
    reach, stride = window
    first, last = pads
    if mode.startswith("SAME"):
        # What is missing depends on the size modulo the stride; more at the end than needed makes no further window.
        missing = maximum(reach - 1 - (size + (stride - 1)) % stride, 0)
        begin = missing // 2 if mode == "SAME_UPPER" else ceil_div(missing, 2)
        return begin, reach - 1 - begin
    if t.attribute("ceil_mode", 0) and stride > 1:
        if first:
            raise t.unsupported(f"with ceil_mode and padding over the open dimension {size}", sizes_wanted([size]))
        last += stride - 1
    least = size.bounds()[0]
    if least is not None and least + first + last < reach:
        raise error(
            "E0108",
            f"a window of {reach} does not fit into {least} elements, the least of {size}",
            fix=Advice(f"a range from {reach - first - last} elements on, or ", sizes_wanted([size]) or "one size"),
        )
    return first, last


def _padded(t: Translation, x: Value, before: Sequence[IntLike], after: Sequence[IntLike], value: float = 0) -> Value:
    """A channels-last tensor with its spatial dimensions padded."""
    return t.pad(x, (0, *before, 0), (0, *after, 0), value)


def conv(t: Translation) -> Value:
    y = convolved(t, t.input(0), t.input(1))
    return t.channels_first(t.op("add", y, t.input(2)) if t.has(2) else y)


def convolved(t: Translation, x: Value, w: Value, padding: int = 0, operator: str = "conv") -> Value:
    """A convolution with the node's settings, its result channels last; the border is filled with `padding`."""
    spatial = _spatial(t, x)
    if w.type.rank != x.type.rank:
        raise error("E0108", f"the weight {w.type} has another rank than the input {x.type}")
    strides, dilations = _per_dimension(t, "strides", spatial), _per_dimension(t, "dilations", spatial)
    kernel = t.static(w)[2:]
    if t.attribute("kernel_shape") not in (None, (), kernel):
        raise error("E0108", f"kernel_shape is {list(t.attribute('kernel_shape'))} but the weight is {w.type}")
    before, after, _ = _windows(t, x.shape[2:], kernel, strides, dilations)
    last = _padded(t, t.channels_last(x), before, after, padding)
    weight = t.transpose(w, (*range(2, w.type.rank), 1, 0))
    return t.op(operator, last, weight, strides=strides, dilations=dilations, groups=t.attribute("group", 1))


def conv_transpose(t: Translation) -> Value:
    """The weight is padded to a multiple of the stride and the input by the weight's reach; see `ops.convolution`."""
    x, w = t.input(0), t.input(1)
    spatial = _spatial(t, x)
    strides, dilations = _per_dimension(t, "strides", spatial), _per_dimension(t, "dilations", spatial)
    groups = t.attribute("group", 1)
    sizes, weights = x.shape[2:], t.static(w)
    if groups < 1 or len(weights) != spatial + 2 or x.shape[1] != weights[0] or weights[0] % groups:
        raise error("E0108", f"the weight {w.type} does not fit the input {x.type} in {groups} groups")
    extra = t.attribute("output_padding") or (0,) * spatial
    wanted = t.attribute("output_shape")
    pads = t.attribute("pads") or (0,) * (2 * spatial)
    if wanted and (len(wanted) < spatial or any(size < 1 for size in wanted)):
        raise error("E0109", f"output_shape is {list(wanted)}")
    if len(extra) != spatial or len(pads) != 2 * spatial or any(p < 0 for p in (*extra, *pads)):
        raise error("E0109", "output_padding or pads do not fit the spatial dimensions")
    mode = t.attribute("auto_pad", "NOTSET")
    begins: list[int] = []
    lengths: list[Int] = []
    reaches: list[int] = []
    for n in range(spatial):
        reach = (weights[n + 2] - 1) * dilations[n] + 1
        full = (sizes[n] - 1) * strides[n] + (extra[n] + reach)
        begin, length = pads[n], full - (pads[n] + pads[n + spatial])
        if wanted or mode.startswith("SAME"):
            if wanted and not sizes[n].is_const:
                raise t.unsupported(f"with output_shape over the open dimension {sizes[n]}", sizes_wanted([sizes[n]]))
            length = as_int(wanted[-spatial:][n]) if wanted else sizes[n] * strides[n]
            total = max(int(full - length), 0)
            begin = total // 2 if mode != "SAME_LOWER" else total - total // 2
            if mode == "NOTSET" and wanted:
                begin = total // 2
        elif mode == "VALID":
            begin, length = 0, full
        if (length.bounds()[0] or 0) < 1:
            raise error("E0108", f"nothing is left of {full} elements without {pads[n] + pads[n + spatial]} of padding")
        begins.append(begin)
        lengths.append(length)
        reaches.append(reach)
    weight = _spread(t, w, dilations)
    tail = [-reach % stride for reach, stride in zip(reaches, strides, strict=True)]
    weight = t.pad(weight, (0,) * (spatial + 2), (0, 0, *tail))
    extents = [reach + more for reach, more in zip(reaches, tail, strict=True)]
    # (C, O / groups, k...) -> (k..., C / groups, O)
    channels, outputs = weights[0], weights[1]
    grouped = t.reshape(weight, (groups, channels // groups, outputs, *extents))
    grouped = t.transpose(grouped, (*range(3, 3 + spatial), 1, 0, 2))
    grouped = t.reshape(grouped, (*extents, channels // groups, groups * outputs))
    before: list[int] = []
    after: list[Int] = []
    for n in range(spatial):
        taps = extents[n] // strides[n] - 1
        before.append(taps)
        after.append(maximum((lengths[n] + (begins[n] - 1)) // strides[n] + 1 - sizes[n], 0))
    last = _padded(t, t.channels_last(x), before, after)
    y = t.op(
        "conv_transpose", last, grouped, strides=strides, begins=tuple(begins), sizes=tuple(lengths), groups=groups
    )
    if t.has(2):
        y = t.op("add", y, t.input(2))
    return t.channels_first(y)


def _spread(t: Translation, w: Value, dilations: Sequence[int]) -> Value:
    """The weight with zeros between its elements."""
    for n, dilation in enumerate(dilations, 2):
        if dilation == 1:
            continue
        sizes = t.static(w)
        rank, extent = len(sizes), sizes[n]
        split = t.reshape(w, (*sizes[: n + 1], 1, *sizes[n + 1 :]))
        split = t.pad(split, (0,) * (rank + 1), tuple((dilation - 1) * (d == n + 1) for d in range(rank + 1)))
        joined = t.reshape(split, (*sizes[:n], extent * dilation, *sizes[n + 1 :]))
        kept = (*sizes[:n], (extent - 1) * dilation + 1, *sizes[n + 1 :])
        w = t.op("slice", joined, starts=(0,) * rank, sizes=kept, steps=(1,) * rank)
    return w


def _kernel(t: Translation, spatial: int) -> tuple[int, ...]:
    kernel = tuple(t.attribute("kernel_shape") or ())
    if len(kernel) != spatial or any(k < 1 for k in kernel):
        raise error("E0109", f"kernel_shape is {list(kernel)} for {spatial} spatial dimensions")
    return kernel


def max_pool(t: Translation) -> tuple[Value | None, ...]:
    x = t.input(0)
    spatial = _spatial(t, x)
    kernel = _kernel(t, spatial)
    strides, dilations = _per_dimension(t, "strides", spatial), _per_dimension(t, "dilations", spatial)
    before, after, _ = _windows(t, x.shape[2:], kernel, strides, dilations)
    last = _padded(t, t.channels_last(x), before, after, lowest(x.dtype))
    window = {"kernel": kernel, "strides": strides, "dilations": dilations}
    y = t.channels_first(t.op("max_pool", last, **window))
    if len(t.used) < 2 or not t.used[1]:
        return (y, None)
    columns_first = bool(t.attribute("storage_order", 0))
    where = {"before": tuple(before), "sizes": x.shape[2:], "columns_first": columns_first}
    return (y, t.channels_first(t.op("max_pool_index", last, **window, **where)))


def _sum_pool(t: Translation, x: Value) -> tuple[Value, np.ndarray | Value, tuple[int, ...]]:
    """Sums of windows, channels last, and how many elements each window has, by the count mode: a tensor where
    that depends on open dimensions."""
    spatial = _spatial(t, x)
    kernel = _kernel(t, spatial)
    strides, dilations = _per_dimension(t, "strides", spatial), _per_dimension(t, "dilations", spatial)
    before, after, counts = _windows(t, x.shape[2:], kernel, strides, dilations)
    include = bool(t.attribute("count_include_pad", 0))
    if any(not n.is_const for n in x.shape[2:]):
        last = _padded(t, t.channels_last(x), before, after)
        pooled = t.op("sum_pool", last, kernel=kernel, strides=strides, dilations=dilations)
        if t.attribute("ceil_mode", 0) or (any(p != 0 for p in (*before, *after)) and not include):
            return pooled, _counts(t, x, before, after, include, (kernel, strides, dilations)), kernel
        return pooled, np.array([math.prod(kernel)]), kernel
    sizes = [int(n) for n in x.shape[2:]]
    pads = t.attribute("pads") or (0,) * (2 * spatial)
    automatic = t.attribute("auto_pad", "NOTSET") != "NOTSET"
    if math.prod(counts) * max(kernel) > LARGEST_DIMENSION:
        raise error("E0112", f"{math.prod(counts)} windows of {max(kernel)} elements")
    table = np.ones((), np.int64)
    front, behind = [int(p) for p in before], [int(p) for p in after]
    for n in range(spatial):
        check_table(counts[n], kernel[n])
        taps = np.arange(counts[n])[:, None] * strides[n] + np.arange(kernel[n])[None] * dilations[n] - front[n]
        low, high = (
            (-front[n], sizes[n] + (behind[n] if automatic else pads[n + spatial])) if include else (0, sizes[n])
        )
        table = table[..., None] * ((taps >= low) & (taps < high)).sum(1)
    last = _padded(t, t.channels_last(x), before, after)
    return t.op("sum_pool", last, kernel=kernel, strides=strides, dilations=dilations), table, kernel


def _counts(
    t: Translation,
    x: Value,
    before: Sequence[IntLike],
    after: Sequence[IntLike],
    include: bool,
    window: tuple[Sequence[int], ...],
) -> Value:
    """How many elements every window has: the sum of ones in the place of elements that count."""
    spatial = len(before)
    pads = t.attribute("pads") or (0,) * (2 * spatial)
    automatic = t.attribute("auto_pad", "NOTSET") != "NOTSET"
    behind: list[IntLike] = [(after[n] if automatic else pads[n + spatial]) if include else 0 for n in range(spatial)]
    front: list[IntLike] = list(before) if include else [0] * spatial
    sizes = [n + p + q for n, p, q in zip(x.shape[2:], front, behind, strict=True)]
    ones = t.op("expand", t.scalar(1, x.dtype), shape=(as_int(1), *sizes, as_int(1)))
    rest = [p - q for p, q in zip(before, front, strict=True)], [p - q for p, q in zip(after, behind, strict=True)]
    kernel, strides, dilations = window
    return t.op("sum_pool", _padded(t, ones, *rest), kernel=kernel, strides=strides, dilations=dilations)


def average_pool(t: Translation) -> Value:
    x = t.input(0)
    total, table, _ = _sum_pool(t, x)
    if isinstance(table, Value):
        divisor = table
    elif (table == table.flat[0]).all():
        divisor = t.scalar(float(table.flat[0]), x.dtype)
    else:
        divisor = t.constant(table[..., None].astype(np.float64), x.dtype)
    return t.channels_first(t.op("div", total, divisor))


def _norm(t: Translation) -> float:
    p = float(t.attribute("p", 2))
    if p < 1:
        raise error("E0109", f"p is {p}")
    return p


def lp_pool(t: Translation) -> Value:
    x = t.input(0)
    p = _norm(t)
    powers = t.op("pow", t.op("abs", x), t.scalar(p, x.dtype))
    total, _, _ = _sum_pool(t, powers)
    return t.channels_first(t.op("pow", total, t.scalar(1.0 / p, x.dtype)))


def _global(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.input(0)
        return t.op(operator, x, axes=tuple(range(2, x.type.rank)), keep_dims=True)

    return translate


def global_lp_pool(t: Translation) -> Value:
    x = t.input(0)
    p = _norm(t)
    powers = t.op("pow", t.op("abs", x), t.scalar(p, x.dtype))
    total = t.op("reduce_sum", powers, axes=tuple(range(2, x.type.rank)), keep_dims=True)
    return t.op("pow", total, t.scalar(1.0 / p, x.dtype))


def local_response_normalization(t: Translation) -> Value:
    x = t.input(0)
    size, alpha, beta, bias = (t.attribute(key) for key in ("size", "alpha", "beta", "bias"))
    n, c, *spatial = x.shape
    before = (size - 1) // 2
    squares = t.reshape(t.op("mul", x, x), (n, c, math.prod(spatial), 1))
    padded = t.pad(squares, (0, before, 0, 0), (0, size - 1 - before, 0, 0))
    total = t.op("sum_pool", padded, kernel=(size, 1), strides=(1, 1), dilations=(1, 1))
    scaled = t.op("mul", t.reshape(total, x.shape), t.scalar(alpha / size, x.dtype))
    base = t.op("add", scaled, t.scalar(bias, x.dtype))
    return t.op("div", x, t.op("pow", base, t.scalar(beta, x.dtype)))


TRANSLATORS: dict[str, Translator] = {
    "AveragePool": average_pool,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "GlobalAveragePool": _global("reduce_mean"),
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": _global("reduce_max"),
    "LRN": local_response_normalization,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
}
