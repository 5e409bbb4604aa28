"""Parts of tensors, and tensors of parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sterna.errors import error
from sterna.frontends.emitter import MOST_PARTS, MOST_TAPS
from sterna.frontends.pytorch.promotion import promoted
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.division import ceil_div
from sterna.ir.extremum import maximum, minimum
from sterna.ir.graph import Value
from sterna.ir.integer import ComputedSymbol, Int, as_int


def select(t: Translation) -> Value:
    x = t.tensor()
    axis, index = t.dim(), t.arg("index", 0)
    if isinstance(index, Value) and index.data is None and index.contents is None:
        computed = t.clamp_index(t.reshape(index, (1,)), x.shape[axis])
        found = t.op("gather", x, computed, axis=axis)
        return t.reshape(found, [size for n, size in enumerate(x.shape) if n != axis])
    place = t.size_from(index)
    return t.take(x, axis, place_in(x.shape[axis], place))


def place_in(size: Int, place: Int) -> Int:
    """A position that may count from the end, from the start.

    Raises:
        SternaError: E0108, it is not within.
    """
    low, high = place.bounds()
    if high is not None and high < 0:
        place = place + size
    elif low is None or low < 0:
        raise error("E0107", f"the position {place} may count from the start or from the end")
    if place.is_const and size.is_const and not 0 <= int(place) < int(size):
        raise error("E0108", f"there is no position {place} among {size}")
    return place


def _clamped(place: Int, size: Int) -> Int:
    """An end of a slice, within the dimension."""
    high = place.bounds()[1]
    if place.is_const and int(place) >= 1 << 40:
        return size
    if high is not None and high < 0:
        place = place + size
    return as_int(minimum(maximum(place, 0), size))


def bounds_of(t: Translation, size: Int) -> tuple[Int, Int, int]:
    """(start, count, step) of a slice."""
    step = t.integer("step", 1)
    if step < 1:
        raise error("E0109", f"the step of {t.kind} is {step}")
    start = _clamped(t.size_from(t.arg("start", 0)), size)
    end = t.arg("end")
    stop = size if end is None else _clamped(t.size_from(end), size)
    count = ceil_div(stop - start, step)
    low = count.bounds()[0]
    return start, count if low is not None and low >= 0 else as_int(maximum(count, 0)), step


def slice_(t: Translation) -> Value:
    x = t.tensor()
    axis = t.dim(default=0)
    start, count, step = bounds_of(t, x.shape[axis])
    return t.cut(x, axis, start, count, step)


def narrow(t: Translation) -> Value:
    x = t.tensor()
    axis = t.dim()
    return t.cut(x, axis, place_in(x.shape[axis] + 1, t.size_from(t.arg("start", 0))), t.size_from(t.arg("length")))


def split_sizes(t: Translation, size: Int) -> list[Int]:
    """How long each part of a split is."""
    given = t.arg("split_sizes", t.arg("split_size", t.arg("chunks", t.arg("sections", 1))))
    if isinstance(given, (list, tuple)):
        return [t.size_from(item) for item in given]
    if "chunks" in t.arguments or "sections" in t.arguments:
        if not size.is_const:
            raise error("E0107", f"{t.kind} needs a size that is constant")
        whole, parts = int(size), t.integer("chunks" if "chunks" in t.arguments else "sections")
        if not 1 <= parts <= MOST_PARTS:
            raise error("E0109", f"{t.kind} of {whole} into {parts} parts")
        if t.kind.startswith("aten.tensor_split"):
            return [as_int(whole // parts + (n < whole % parts)) for n in range(parts)]
        length = -(-whole // parts)
    else:
        step = t.size_from(given)
        if step == size:
            return [size]
        if not (size.is_const and step.is_const):
            count = sum(len(v) if k == "as_tensors" else 1 for k, v in t.node.outputs)
            return [*(step for _ in range(count - 1)), size - step * (count - 1)]
        whole, length = int(size), int(step)
    if length < 1:
        return [as_int(whole)]
    if whole > MOST_PARTS * length:
        raise error("E0109", f"{t.kind} of {whole} into parts of {length}")
    return [as_int(min(length, whole - n)) for n in range(0, whole, length)] or [as_int(0)]


def split(t: Translation) -> list[Value]:
    x = t.tensor()
    axis = t.dim(default=0)
    parts, start = [], as_int(0)
    for length in split_sizes(t, x.shape[axis]):
        parts.append(_rows(t, x, axis, start, length))
        start = start + length
    return parts


def _rows(t: Translation, x: Value, axis: int, start: Int, length: Int) -> Value:
    """Some elements along one dimension. Where the data decide how many, nothing here tells that they lie within the
    tensor, so they are found by positions, which are kept within it."""
    end = start + length
    least = (x.shape[axis] - end).bounds()[0]
    if not any(isinstance(symbol, ComputedSymbol) for symbol in end.symbols()) or (least is not None and least >= 0):
        return t.cut(x, axis, start, length)
    places = t.op("add", t.counting(length), t.as_value(start, "int64"))
    return t.op("gather", x, places, axis=axis)


def split_at(t: Translation) -> list[Value]:
    """tensor_split at given positions."""
    x = t.tensor()
    axis = t.dim(default=0)
    places = [as_int(0), *(_clamped(place, x.shape[axis]) for place in t.sizes_of("indices")), x.shape[axis]]
    return [
        t.cut(x, axis, a, maximum(b - a, 0)) for a, b in pairwise(places)
    ]  # fmt: skip


def unbind(t: Translation) -> list[Value]:
    x = t.tensor()
    axis = t.dim(default=0)
    return [t.take(x, axis, n) for n in range(t.extent(x, axis))]


def _common(t: Translation, values: Sequence[Value]) -> list[Value]:
    dtype = values[0].dtype
    for value in values[1:]:
        dtype = promoted(dtype, value.dtype)
    return [t.cast(value, dtype) for value in values]


def cat(t: Translation) -> Value:
    values = _common(t, t.tensors("tensors"))
    rank = max(value.type.rank for value in values)
    # A tensor of one empty dimension goes with any other, an old rule of PyTorch's.
    values = [
        value
        for value in values
        if value.type.rank == rank and not (value.type.rank == 1 and value.shape[0] == 0 and rank > 1)
    ] or values
    if len(values) == 1:
        return values[0]
    return t.op("concat", *values, axis=t.dim(rank=rank, default=0))


def stack(t: Translation) -> Value:
    values = _common(t, t.tensors("tensors"))
    axis = t.axis(t.integer("dim", 0), values[0].type.rank + 1)
    return t.op("concat", *(t.unsqueeze(value, axis) for value in values), axis=axis)


def stacked_along(least: int, axis: int) -> Translator:
    """hstack, vstack, dstack."""

    def translate(t: Translation) -> Value:
        values = []
        for value in _common(t, t.tensors("tensors")):
            shape = list(value.shape)
            while len(shape) < least:
                if least == 3 and len(shape) == 2:
                    shape.append(as_int(1))
                else:
                    shape.insert(0, as_int(1))
            values.append(t.reshape(value, shape))
        at = 0 if axis == 1 and values[0].type.rank == 1 else axis
        return values[0] if len(values) == 1 else t.op("concat", *values, axis=at)

    return translate


def columns(t: Translation) -> Value:
    """Vectors as columns beside each other, and beside matrices."""
    values = [t.reshape(v, (v.type.elements, 1)) if v.type.rank < 2 else v for v in _common(t, t.tensors("tensors"))]
    return values[0] if len(values) == 1 else t.op("concat", *values, axis=1)


def tiled(t: Translation, x: Value, repeats: Sequence[Int]) -> Value:
    """A tensor repeated along each of its dimensions, which may become more."""
    x = t.reshape(x, ((1,) * (len(repeats) - x.type.rank) + x.shape))
    if all(n.is_const for n in repeats):
        counts = tuple(int(n) for n in repeats)
        return x if all(n == 1 for n in counts) else t.op("tile", x, repeats=counts)
    wide = [size for n, old in zip(repeats, x.shape, strict=True) for size in (n, old)]
    spaced = t.reshape(x, [size for old in x.shape for size in (as_int(1), old)])
    return t.reshape(t.expand(spaced, wide), [n * old for n, old in zip(repeats, x.shape, strict=True)])


def repeat(t: Translation) -> Value:
    return tiled(t, t.tensor(), t.sizes_of("repeats"))


def tile(t: Translation) -> Value:
    x, repeats = t.tensor(), t.sizes_of("dims")
    return tiled(t, x, [*([as_int(1)] * (x.type.rank - len(repeats))), *repeats])


def repeat_interleave(t: Translation) -> Value:
    """Every element so many times, one after the other."""
    x, axis = t.tensor(), t.arg("dim")
    if axis is None:
        x, axis = t.reshape(x, (x.type.elements,)), 0
    axis = t.axis(int(axis), x.type.rank)
    many = t.size_from(t.arg("repeats"))
    wide = t.unsqueeze(x, axis + 1)
    shape = [*wide.shape[: axis + 1], many, *wide.shape[axis + 2 :]]
    return t.reshape(t.expand(wide, shape), (*x.shape[:axis], x.shape[axis] * many, *x.shape[axis + 1 :]))


def reversed_along(t: Translation, x: Value, axes: Sequence[int]) -> Value:
    starts = [size - 1 if n in axes else as_int(0) for n, size in enumerate(x.shape)]
    steps = [-1 if n in axes else 1 for n in range(x.type.rank)]
    return t.op("slice", x, starts=tuple(starts), sizes=x.shape, steps=tuple(steps)) if axes else x


def flip(t: Translation) -> Value:
    x = t.tensor()
    axes = (
        (1,)
        if t.kind.startswith("aten.fliplr")
        else (0,)
        if t.kind.startswith("aten.flipud")
        else tuple(t.axis(n, x.type.rank) for n in t.ints("dims"))
    )
    return reversed_along(t, x, axes)


def roll(t: Translation) -> Value:
    x = t.tensor()
    shifts, dims = t.sizes_of("shifts"), t.ints("dims")
    if not dims:
        flat = _rolled(t, t.reshape(x, (x.type.elements,)), 0, shifts[0])
        return t.reshape(flat, x.shape)
    for shift, axis in zip(shifts, dims, strict=True):
        x = _rolled(t, x, t.axis(axis, x.type.rank), shift)
    return x


def _rolled(t: Translation, x: Value, axis: int, shift: Int) -> Value:
    size = x.shape[axis]
    if size.is_const and shift.is_const:
        shift = as_int(int(shift) % max(int(size), 1))
    else:
        low, high = shift.bounds()
        if high is not None and high < 0:
            shift = shift + size
        elif low is None or low < 0:
            raise error("E0107", f"the shift {shift} may be to the left or to the right")
    if shift == 0:
        return x
    return t.op("concat", t.cut(x, axis, size - shift, shift), t.cut(x, axis, 0, size - shift), axis=axis)


def rot90(t: Translation) -> Value:
    x = t.tensor()
    turns = t.integer("k", 1) % 4
    a, b = (t.axis(n, x.type.rank) for n in t.ints("dims", (0, 1)))
    if turns == 2:
        return reversed_along(t, x, (a, b))
    order = list(range(x.type.rank))
    order[a], order[b] = b, a
    if turns == 1:
        return t.transpose(reversed_along(t, x, (b,)), order)
    return reversed_along(t, t.transpose(x, order), (b,)) if turns == 3 else x


def padded(t: Translation, x: Value, amounts: Sequence[Int], mode: str, value: Any = 0) -> Value:
    """A tensor padded as PyTorch says: pairs of amounts, those of the last dimension first. Negative ones crop."""
    before, after = [as_int(0)] * x.type.rank, [as_int(0)] * x.type.rank
    crops: dict[int, list[int]] = {}
    if len(amounts) % 2 or len(amounts) > 2 * x.type.rank:
        raise error("E0109", f"{len(amounts)} amounts of padding for {x.type}")
    for n in range(len(amounts) // 2):
        axis = x.type.rank - 1 - n
        ends = amounts[2 * n], amounts[2 * n + 1]
        crops[axis] = [-(int(v)) if v.is_const and int(v) < 0 else 0 for v in ends]
        before[axis], after[axis] = (as_int(0) if v.is_const and int(v) < 0 else v for v in ends)
    names = {"constant": "", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode not in names:
        raise error("E0109", f"the mode of {t.kind} is {mode!r}")

    def cropped(y: Value) -> Value:
        for axis, (first, last) in crops.items():
            y = t.cut(y, axis, first, y.shape[axis] - first - last)
        return y

    if mode == "constant":
        return t.pad(cropped(x), before, after, value)
    # What is cropped at one end still counts for what is padded at the other, unless it is what stands at that end.
    x = cropped(x) if mode == "circular" else x
    y = standard(t, "Pad", x, t.dimensions([*before, *after]), mode=names[mode])
    return y if mode == "circular" else cropped(y)


def pad(t: Translation) -> Value:
    value = t.arg("value", 0)
    number = float(value) if isinstance(value, (int, float)) else t.number("value")
    return padded(t, t.tensor(), t.sizes_of("pad"), str(t.arg("mode", "constant")), number)


def _pad_of(mode: str) -> Translator:
    return lambda t: padded(t, t.tensor(), t.sizes_of("padding"), mode)


def diagonal(t: Translation) -> Value:
    """The elements with the same position along two dimensions, last."""
    is_last = "linalg" in t.kind
    x = t.tensor("A" if is_last else "self")
    offset = t.integer("offset", 0)
    a, b = (t.axis(t.integer(name, default - 2 * is_last), x.type.rank) for name, default in (("dim1", 0), ("dim2", 1)))
    rows, columns = t.extent(x, a), t.extent(x, b)
    count = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    order = [n for n in range(x.type.rank) if n not in (a, b)]
    flat = t.transpose(x, (*order, a, b))
    flat = t.reshape(flat, (*flat.shape[:-2], rows * columns))
    first = offset if offset >= 0 else -offset * columns
    return t.cut(flat, flat.type.rank - 1, first, count, columns + 1)


def diagonal_matrices(t: Translation) -> Value:
    """diag_embed, and diag of a vector."""
    x, offset = t.tensor(), t.integer("offset", 0)
    size = x.shape[-1] + abs(offset)
    wide = t.unsqueeze(x, x.type.rank - 1)
    places = t.counting(size)
    row = t.op("sub", places, t.scalar(max(offset, 0), "int64"))
    # Row i of the result holds element i (moved by a negative offset) in column i + offset.
    index = t.op("sub", t.reshape(places, (size, 1)), t.scalar(max(-offset, 0), "int64"))
    hit = t.op(
        "logical_and", t.op("equal", index, t.reshape(row, (1, size))), t.op("less", index, t.as_value(x.shape[-1]))
    )
    hit = t.op("logical_and", hit, t.op("greater_equal", index, t.scalar(0, "int64")))
    column = t.op("clip", row, min=0)
    column = t.op("minimum", column, t.op("sub", t.as_value(x.shape[-1]), t.scalar(1, "int64")))
    spread = t.op("gather", wide, column, axis=wide.type.rank - 1)
    made = t.op("where", hit, spread, t.scalar(0, x.dtype))
    rank = made.type.rank
    at = tuple(t.axis(t.integer(name, default), rank) for name, default in (("dim1", -2), ("dim2", -1)))
    rest = iter(range(rank - 2))
    return t.transpose(made, [rank - 2 + at.index(n) if n in at else next(rest) for n in range(rank)])


def diag(t: Translation) -> Value:
    own = t.having(offset=t.integer("diagonal", 0))
    return diagonal_matrices(own) if t.tensor().type.rank == 1 else diagonal(own)


def differences(t: Translation) -> Value:
    """Each element less the one before it, `n` times over."""
    x, times = t.tensor(), t.integer("n", 1)
    if not times:  # as it is, whatever stands before and after
        return x
    axis = t.dim(default=-1)
    parts = [t.maybe("prepend"), x, t.maybe("append")]
    given = [part for part in parts if part is not None]
    x = given[0] if len(given) == 1 else t.op("concat", *_common(t, given), axis=axis)
    if times > MOST_TAPS:
        raise error("E0109", f"{t.kind} {times} times over")
    for _ in range(times):
        after, before = (t.cut(x, axis, first, x.shape[axis] - 1) for first in (1, 0))
        x = t.op("logical_xor" if x.dtype == "bool" else "sub", after, before)
    return x


def _triangle(upper: bool) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.tensor()
        rows, columns = x.shape[-2:]
        row, column = t.reshape(t.counting(rows), (rows, 1)), t.reshape(t.counting(columns), (1, columns))
        edge = t.op("add", row, t.scalar(t.integer("diagonal", 0), "int64"))
        kept = t.op("greater_equal" if upper else "less_equal", column, edge)
        return t.op("where", kept, x, t.scalar(0, x.dtype))

    return translate


def pixel_shuffle(t: Translation) -> Value:
    x, r = t.tensor(), t.integer("upscale_factor")
    *batch, c, h, w = x.shape
    y = t.reshape(x, (*batch, c // (r * r), r, r, h, w))
    n = len(batch)
    y = t.transpose(y, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return t.reshape(y, (*batch, c // (r * r), h * r, w * r))


def pixel_unshuffle(t: Translation) -> Value:
    x, r = t.tensor(), t.integer("downscale_factor")
    *batch, c, h, w = x.shape
    y = t.reshape(x, (*batch, c, h // r, r, w // r, r))
    n = len(batch)
    y = t.transpose(y, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return t.reshape(y, (*batch, c * r * r, h // r, w // r))


def channel_shuffle(t: Translation) -> Value:
    x, groups = t.tensor(), t.integer("groups")
    batch, c, *rest = x.shape
    y = t.reshape(x, (batch, groups, c // groups, *rest))
    return t.reshape(t.transpose(y, (0, 2, 1, *range(3, y.type.rank))), x.shape)


def meshgrid(t: Translation) -> list[Value]:
    values = [t.reshape(value, (value.type.elements,)) for value in t.tensors("tensors")]
    swap = str(t.arg("indexing", "ij")) == "xy" and len(values) > 1
    if swap:
        values[0], values[1] = values[1], values[0]
    shape = [value.shape[0] for value in values]
    grids = []
    for n, value in enumerate(values):
        lone = [size if m == n else as_int(1) for m, size in enumerate(shape)]
        grids.append(t.expand(t.reshape(value, lone), shape))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return grids


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(select, "select.int", "select_copy.int"), **_named(slice_, "slice.Tensor", "slice_copy.Tensor"),
    **_named(narrow, "narrow.default", "narrow_copy.default"),
    **_named(split, "split.Tensor", "split.sizes", "split_with_sizes.default", "chunk.default", "unsafe_split.Tensor",
             "split_copy.Tensor", "split_with_sizes_copy.default", "tensor_split.sections", "unsafe_chunk.default",
             "unsafe_split_with_sizes.default", "split.default"),
    **_named(split_at, "tensor_split.indices"),
    **_named(unbind, "unbind.int", "unbind_copy.int"),
    **_named(cat, "cat.default", "concat.default", "concatenate.default"),
    **_named(stack, "stack.default", "_stack.default"),
    **_named(stacked_along(1, 1), "hstack.default"),
    **_named(stacked_along(2, 0), "vstack.default", "row_stack.default"),
    **_named(stacked_along(3, 2), "dstack.default"),
    **_named(columns, "column_stack.default"), **_named(repeat, "repeat.default"), **_named(tile, "tile.default"),
    **_named(repeat_interleave, "repeat_interleave.self_int"),
    **_named(flip, "flip.default", "fliplr.default", "flipud.default"), **_named(roll, "roll.default"),
    **_named(rot90, "rot90.default"), **_named(pad, "pad.default", "constant_pad_nd.default"),
    **_named(_pad_of("reflect"), *(f"reflection_pad{n}d.default" for n in (1, 2, 3))),
    **_named(_pad_of("replicate"), *(f"replication_pad{n}d.default" for n in (1, 2, 3))),
    **_named(diagonal, "diagonal.default", "diagonal_copy.default", "linalg_diagonal.default"),
    **_named(diagonal_matrices, "diag_embed.default"),
    **_named(diag, "diag.default"), **_named(differences, "diff.default"),
    **_named(_triangle(True), "triu.default"), **_named(_triangle(False), "tril.default"),
    **_named(pixel_shuffle, "pixel_shuffle.default"), **_named(pixel_unshuffle, "pixel_unshuffle.default"),
    **_named(channel_shuffle, "channel_shuffle.default", "native_channel_shuffle.default"),
    **_named(meshgrid, "meshgrid.default", "meshgrid.indexing"),
}  # fmt: skip

__all__ = ["TRANSLATORS", "bounds_of", "padded", "place_in", "reversed_along"]
