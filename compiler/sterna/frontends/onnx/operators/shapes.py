"""Operators that move elements, ask for shapes or make constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import MOST_COUNTED
from sterna.frontends.onnx.file import element_type
from sterna.frontends.onnx.operators import runtime
from sterna.frontends.onnx.translation import Translation, Translator, axes_of, is_float
from sterna.ir import dtypes
from sterna.ir.division import ceil_div, divide_exactly
from sterna.ir.extremum import maximum, minimum
from sterna.ir.graph import TensorType, Value
from sterna.ir.integer import ZERO, Int, IntLike, as_int
from sterna.ir.limits import counting
from sterna.ir.sizes import sizes_wanted
from sterna.loops.prove import at_least_zero
from sterna.ops.types import broadcast, with_dim


# ---------------------------------------------------------------- constants
def constant(t: Translation) -> Value:
    attributes = t.node.attributes
    for key, dtype in (
        ("value_float", "float32"),
        ("value_floats", "float32"),
        ("value_int", "int64"),
        ("value_ints", "int64"),
        ("value_string", dtypes.STRING),
        ("value_strings", dtypes.STRING),
    ):
        if key in attributes:
            return t.constant(attributes[key], dtype)
    if "value" not in attributes:
        raise t.unsupported("of sparse tensors")
    value = np.asarray(attributes["value"])
    return t.constant(value, dtypes.STRING if value.dtype == object else "")


def constant_of_shape(t: Translation) -> Value:
    value = t.attribute("value")
    element = np.zeros((), np.float32) if value is None else np.asarray(value).reshape(())
    if not t.known(0):
        return runtime.filled(t, t.constant(element))
    return t.op("expand", t.constant(element), shape=tuple(t.dims(0, "a shape")))


def shape(t: Translation) -> Value:
    sizes = t.input(0).shape[slice(t.attribute("start", 0), t.attribute("end"))]
    return t.dimensions(sizes)


def size(t: Translation) -> Value:
    return t.reshape(t.dimensions([t.input(0).type.elements]), ())


def arange(t: Translation) -> Value:
    if t.known(0, 1, 2) and any(t.input(n).data is None for n in (0, 1)):
        return _open_range(t)
    if t.known(0, 2) and not t.known(1) and t.node.outputs[0] in t.data_sizes.limits:
        return _computed_range(t)
    if not t.known(0, 1, 2):
        return runtime.arange(t)
    start, limit, delta = (t.scalar_of(n, "bounds") for n in range(3))
    if delta == 0 or not all(map(math.isfinite, (start, limit, delta))) or not math.isfinite((limit - start) / delta):
        raise error("E0112", f"Range from {start} to {limit} by {delta} is too large")
    count = max(math.ceil((limit - start) / delta), 0)
    kind = dtypes.to_numpy(t.input(0).dtype)
    return t.constant((kind.type(start) + counting(count).astype(kind) * kind.type(delta)).astype(kind))


def _open_range(t: Translation) -> Value:
    """A range whose ends depend on dimensions."""
    delta = t.integer_of(2, "a step")
    (start,), (limit,) = t.dims(0, "a start"), t.dims(1, "an end")
    if delta < 1:
        raise t.unsupported("with open ends and a step that is not positive")
    dtype = t.input(0).dtype
    count = maximum(ceil_div(limit - start, delta), 0)
    if start.is_const:
        return t.op("arange", start=int(start), step=delta, size=(count,), to=dtype)
    first = t.cast(t.reshape(t.dimensions([start]), ()), dtype)
    return t.op("add", first, t.op("arange", start=0, step=delta, size=(count,), to=dtype))


def _computed_range(t: Translation) -> Value:
    """A range whose end is computed, and for whose length there is a bound."""
    start, delta = t.integer_of(0, "a start"), t.integer_of(2, "a step")
    if delta < 1 or is_float(t.input(1)):
        raise t.unsupported("of floats, or with a step that is not positive, up to an end that is computed")
    end = t.cast(t.reshape(t.input(1), ()), "int64")
    span = t.op("maximum", t.op("sub", end, t.scalar(start - (delta - 1), "int64")), t.scalar(0, "int64"))
    lo, hi = t.data_sizes.limits[t.node.outputs[0]]
    count = t.bound_size(t.op("div", span, t.scalar(delta, "int64")), lo, hi)
    return t.op("arange", start=start, step=delta, size=(count,), to=t.input(0).dtype)


def eye_like(t: Translation) -> Value:
    x = t.input(0)
    if x.type.rank != 2:
        raise error("E0108", f"EyeLike takes matrices, not {x.type}")
    dtype = element_type(t.attribute("dtype")) if t.attribute("dtype") else x.dtype
    return t.cast(_diagonals(t, x.shape[0], x.shape[1], "equal", t.attribute("k", 0)), dtype)


# ---------------------------------------------------------------- shapes
def reshape(t: Translation) -> Value:
    x = t.input(0)
    if not t.known(1):
        return runtime.reshape(t, copies=not t.attribute("allowzero", 0))
    wanted = t.dims(1, "a shape")
    if not t.attribute("allowzero", 0):
        for n, extent in enumerate(wanted):
            if extent == 0:
                if n >= x.type.rank:
                    raise error(
                        "E0108",
                        f"the shape {list(map(str, wanted))} copies dimension {n} of {x.type}, which it does not have",
                    )
                wanted[n] = x.shape[n]
    unknown = [n for n, extent in enumerate(wanted) if extent == -1]
    if len(unknown) > 1 or any(v.is_const and int(v) < -1 for v in wanted):
        raise error("E0108", f"the shape {list(map(str, wanted))} is not one")
    if unknown:
        rest = as_int(1)
        for n, extent in enumerate(wanted):
            rest = rest if n == unknown[0] else rest * extent
        inferred = None if rest == 0 else divide_exactly(x.type.elements, rest)
        if inferred is None:
            raise error("E0108", f"{x.type} cannot become {list(map(str, wanted))}")
        wanted[unknown[0]] = inferred
    return t.reshape(x, wanted)


def flatten(t: Translation) -> Value:
    x = t.input(0)
    rank, axis = x.type.rank, t.attribute("axis", 1)
    if not -rank <= axis <= rank:
        raise error("E0108", f"axis {axis} does not exist in {x.type}")
    axis = axis + rank if axis < 0 else axis
    return t.reshape(x, [TensorType("", x.shape[:axis]).elements, TensorType("", x.shape[axis:]).elements])


def _axes(t: Translation, rank: int) -> tuple[int, ...] | None:
    axes = t.attribute("axes")
    if axes is None and t.has(1):
        axes = t.integers(1, "axes")
    return None if axes is None else axes_of(axes, rank)


def squeeze(t: Translation) -> Value:
    x = t.input(0)
    if not t.known(1):
        return runtime.squeeze(t, inverse=False)
    axes = _axes(t, x.type.rank)
    if axes is None:
        axes = tuple(n for n, extent in enumerate(x.shape) if extent == 1)
    if any(x.shape[n] != 1 for n in axes):
        raise error("E0108", f"Squeeze of dimensions {list(axes)} of {x.type}, which are not all 1")
    return t.reshape(x, [extent for n, extent in enumerate(x.shape) if n not in axes])


def unsqueeze(t: Translation) -> Value:
    x = t.input(0)
    if not t.known(1):
        return runtime.squeeze(t, inverse=True)
    count = len(t.attribute("axes") or t.integers(1, "axes"))
    axes = _axes(t, x.type.rank + count) or ()
    if len(set(axes)) != len(axes):
        raise error("E0108", f"Unsqueeze names a dimension twice: {list(axes)}")
    rest = iter(x.shape)
    return t.reshape(x, [1 if n in axes else next(rest) for n in range(x.type.rank + count)])


def transpose(t: Translation) -> Value:
    x = t.input(0)
    return t.transpose(x, t.attribute("perm") or tuple(reversed(range(x.type.rank))))


def expand(t: Translation) -> Value:
    x = t.input(0)
    if not t.known(1):
        return runtime.expand(t)
    wanted = tuple(t.dims(1, "a shape"))
    shape = broadcast([x.shape, wanted])
    return x if shape == x.shape else t.op("expand", x, shape=shape)


def tile(t: Translation) -> Value:
    if not t.known(1):
        return runtime.tile(t)
    x, repeats = t.input(0), t.dims(1, "repeats")
    if len(repeats) != x.type.rank:
        raise error("E0108", f"{len(repeats)} repeats for {x.type}")
    static = x.type.is_static
    for axis, (extent, times) in enumerate(zip(x.shape, repeats, strict=True)):
        if times != 1 and not (times.is_const and static):
            # Positions cannot be divided by a size that is open: a dimension for the copies, then one of both.
            rows = t.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
            rows = t.op("expand", rows, shape=(*x.shape[:axis], times, *x.shape[axis:]))
            x = t.reshape(rows, with_dim(x.shape, axis, times * extent))
            repeats[axis] = as_int(1)
    return x if all(r == 1 for r in repeats) else t.op("tile", x, repeats=tuple(int(r) for r in repeats))


# ---------------------------------------------------------------- parts
def cut(
    t: Translation, x: Value, starts: Sequence[IntLike], sizes: Sequence[IntLike], steps: Sequence[int] | None = None
) -> Value:
    """`slice`, unless it takes everything."""
    steps = steps or (1,) * len(starts)
    counts = tuple(map(as_int, sizes))
    if counts == x.shape and all(s == 1 for s in steps):
        return x
    first = tuple(as_int(start if extent != 0 else 0) for start, extent in zip(starts, counts, strict=True))
    return t.op("slice", x, starts=first, sizes=counts, steps=tuple(steps))


def slice_(t: Translation) -> Value:
    x = t.input(0)
    if t.version < 10:
        starts, ends = ([as_int(n) for n in t.attribute(name)] for name in ("starts", "ends"))
        axes, steps = t.attribute("axes"), None
    elif not t.known(1, 2, 3, 4):
        return runtime.slice_(t)
    else:
        starts, ends = t.dims(1, "bounds"), t.dims(2, "bounds")
        axes = t.integers(3, "axes") if t.has(3) else None
        steps = t.integers(4, "steps") if t.has(4) else None
    rank = x.type.rank
    axes = axes_of(axes, rank) if axes is not None else tuple(range(len(starts)))
    steps = steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps or len(axes) > rank:
        bounds = f"starts {list(map(str, starts))}, ends {list(map(str, ends))}"
        raise error("E0108", f"Slice with {bounds}, axes {list(axes)}, steps {list(steps)}")
    begin, count, step = [as_int(0)] * rank, list(x.shape), [1] * rank
    for axis, a, b, d in zip(axes, starts, ends, steps, strict=True):
        # Clamped as ONNX says; NumPy's rule differs for a start in front of the tensor and a negative step.
        extent = count[axis]
        first, last = _from_end(t, a, extent), _from_end(t, b, extent)
        first = minimum(maximum(first, 0), extent if d > 0 else extent - 1)
        last = minimum(maximum(last, 0 if d > 0 else -1), extent)
        span = last - first if d > 0 else first - last
        begin[axis], count[axis], step[axis] = first, maximum(ceil_div(span, abs(d)), 0), d
    return cut(t, x, begin, count, step)


def _from_end(t: Translation, position: Int, extent: Int) -> Int:
    """A bound of a slice, counted from the start."""
    lo, hi = position.bounds()
    if lo is not None and lo >= 0:
        return position
    if hi is not None and hi < 0:
        return position + extent
    raise error("E0107", f"{t.node.op}: the bound {position} may count from either end")


def split(t: Translation) -> tuple[Value, ...]:
    x = t.input(0)
    (axis,) = axes_of((t.attribute("axis", 0),), x.type.rank)
    total = x.shape[axis]
    parts: Sequence[IntLike] | None
    if not t.known(1):
        declared = [t.wanted(1, "sizes of parts", n)[axis] for n in range(len(t.used))]
        x, parts = runtime.equal_to(t, x, 1, declared), declared
    else:
        parts = t.attribute("split") or (t.dims(1, "sizes of parts") if t.has(1) else None)
    if parts is None:
        count = len(t.used)
        if t.attribute("num_outputs", count) != count:
            raise error("E0109", f"num_outputs is {t.attribute('num_outputs')} for {count} outputs")
        each = ceil_div(total, count)
        parts = [minimum(each, total - n * each) for n in range(count)]
    sizes = [as_int(part) for part in parts]
    if sum(sizes, ZERO) != total or len(sizes) != len(t.used) or any(n.is_const and int(n) < 0 for n in sizes):
        raise error("E0108", f"Split of {total} elements into {', '.join(map(str, sizes))}")
    results, begin = [], ZERO
    for part in sizes:
        starts = [begin if n == axis else 0 for n in range(x.type.rank)]
        results.append(cut(t, x, starts, [part if n == axis else s for n, s in enumerate(x.shape)]))
        begin = begin + part
    return tuple(results)


def pad(t: Translation) -> Value:
    x = t.input(0)
    rank = x.type.rank
    mode = t.attribute("mode", "constant")
    if t.version >= 11 and not t.known(1, 2, 3):
        filler = t.reshape(t.input(2), ()) if t.has(2) else t.scalar(0, x.dtype)
        return _pad_at_run_time(t, filler, mode)
    pads = [as_int(n) for n in t.attribute("pads")] if t.version < 11 else t.dims(1, "pads")
    value: float | int | bool = 0
    if t.version < 11:
        value = t.attribute("value", 0.0)
    elif t.has(2):
        value = t.scalar_of(2, "a value")
    axes = axes_of(t.integers(3, "axes"), rank) if t.has(3) else tuple(range(rank))
    if len(pads) != 2 * len(axes):
        raise error("E0108", f"{len(pads)} pads for {len(axes)} dimensions")
    before, after = [ZERO] * rank, [ZERO] * rank
    for n, axis in enumerate(axes):
        before[axis], after[axis] = pads[n], pads[n + len(axes)]
    # Negative ones take elements away.
    starts, ends = ([maximum(-n, 0) for n in side] for side in (before, after))
    counts = [s - b - a for s, b, a in zip(x.shape, starts, ends, strict=True)]
    if any(not at_least_zero(count, {}) for count in counts):
        shown = ", ".join(map(str, pads))
        raise error("E0108", f"pads [{shown}] remove more than {x.type} has", fix=sizes_wanted(x.shape))
    x = cut(t, x, starts, counts)
    before, after = [maximum(n, 0) for n in before], [maximum(n, 0) for n in after]
    if all(n == 0 for n in (*before, *after)):
        return x
    return t.op("pad", x, before=tuple(before), after=tuple(after), mode=mode, value=value)


def _pad_at_run_time(t: Translation, filler: Value, mode: str) -> Value:
    x = t.input(0)
    if not t.known(1, 3):
        return runtime.pad(t, filler, mode)
    # Only the value to pad with is unknown: it is put where a padded mask says so.
    known = Translation(
        t.node, (x, *t.inputs[1:2], None, *t.inputs[3:]), t.builder, origin=t.origin, used=t.used, sources=t.sources
    )
    y = pad(known)
    if mode != "constant":
        return y
    inside = Translation(
        t.node,
        (t.op("expand", t.scalar(True, "bool"), shape=x.shape), *t.inputs[1:2], None, *t.inputs[3:]),
        t.builder, origin=t.origin, used=t.used, sources=t.sources,
    )  # fmt: skip
    return t.op("where", pad(inside), y, filler)


# ---------------------------------------------------------------- rearrangement
def _block(t: Translation) -> int:
    size: int = t.attribute("blocksize")
    if size < 1:
        raise error("E0109", f"blocksize is {size}")
    return size


def _image(t: Translation, x: Value) -> tuple[Int, ...]:
    if x.type.rank != 4:
        raise error("E0108", f"{t.node.op} takes tensors of 4 dimensions, not {x.type}")
    return x.shape


def depth_to_space(t: Translation) -> Value:
    x = t.input(0)
    n, c, h, w = _image(t, x)
    b = _block(t)
    if c % (b * b) != ZERO:
        raise error("E0108", f"{c} channels do not make blocks of {b} x {b}")
    if t.attribute("mode", "DCR") == "DCR":
        y = t.transpose(t.reshape(x, (n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    else:
        y = t.transpose(t.reshape(x, (n, c // (b * b), b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return t.reshape(y, (n, c // (b * b), h * b, w * b))


def space_to_depth(t: Translation) -> Value:
    x = t.input(0)
    n, c, h, w = _image(t, x)
    b = _block(t)
    if h % b != ZERO or w % b != ZERO:
        raise error("E0108", f"{h} x {w} does not fall into blocks of {b} x {b}")
    blocks = t.reshape(x, (n, c, h // b, b, w // b, b))
    y = t.transpose(blocks, (0, 3, 5, 1, 2, 4) if t.attribute("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4))
    return t.reshape(y, (n, c * b * b, h // b, w // b))


def _diagonals(t: Translation, rows: Int, columns: Int, comparison: str, k: int) -> Value:
    """Where column - row compares with k."""
    if rows.is_const and columns.is_const and int(rows) * int(columns) <= MOST_COUNTED:
        apart = np.arange(int(columns))[None] - np.arange(int(rows))[:, None]
        return t.constant(apart <= k if comparison == "less_equal" else apart == k)
    row, column = (t.op("arange", start=s, step=1, size=(n,), to="int64") for s, n in ((k, rows), (0, columns)))
    return t.op(comparison, column, t.reshape(row, (rows, 1)))


def trilu(t: Translation) -> Value:
    x = t.input(0)
    if x.type.rank < 2:
        raise error("E0108", f"Trilu of {x.type}, which is not a matrix")
    if not t.known(1):
        return runtime.triangle(t)
    k = t.integer_of(1, "a diagonal") if t.has(1) else 0
    upper = bool(t.attribute("upper", 1))
    below = _diagonals(t, x.shape[-2], x.shape[-1], "less_equal", k - 1 if upper else k)
    zero = t.scalar(0, x.dtype)
    return t.op("where", below, zero, x) if upper else t.op("where", below, x, zero)


def one_hot(t: Translation) -> Value:
    indices, values = t.input(0), t.input(2)
    rank = indices.type.rank + 1
    (axis,) = axes_of((t.attribute("axis", -1),), rank)
    if t.known(1):
        depth = t.integer_of(1, "a depth")
    else:
        depth = t.wanted(1, "a depth")[axis]
        values = runtime.equal_to(t, values, 1, depth)
    lead = t.cast(indices, "int64")
    lead = t.op("where", t.op("less", lead, t.scalar(0, "int64")), t.op("add", lead, t.scalar(depth, "int64")), lead)
    lead = t.reshape(lead, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    positions = t.reshape(t.counting(depth), [depth if n == axis else 1 for n in range(rank)])
    off, on = (t.reshape(cut(t, values, (n,), (1,)), ()) for n in range(2))
    return t.op("where", t.op("equal", lead, positions), on, off)


TRANSLATORS: dict[str, Translator] = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "EyeLike": eye_like,
    "Flatten": flatten,
    "OneHot": one_hot,
    "Pad": pad,
    "Range": arange,
    "Reshape": reshape,
    "Shape": shape,
    "Size": size,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Trilu": trilu,
    "Unsqueeze": unsqueeze,
}
