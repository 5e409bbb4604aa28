"""Operations that move elements, or make tensors of a shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.coreml.mil.elementwise import agreed
from sterna.frontends.coreml.mil.translation import Translation, Translator
from sterna.frontends.standard import standard, standard_results
from sterna.ir.graph import Value
from sterna.ir.integer import as_int
from sterna.ir.limits import check_table


def _concat(t: Translation) -> Value:
    values = t.many("values")
    wide = values[0]
    for value in values[1:]:
        wide, _ = agreed(t, wide, value)
    values = [t.cast(value, wide.dtype) for value in values]
    axis = t.integer("axis")
    if not t.flag("interleave"):
        return standard(t, "Concat", *values, axis=axis)
    axis %= values[0].type.rank
    stacked = _stacked(t, values, axis + 1)
    shape = [*values[0].shape]
    shape[axis] = shape[axis] * len(values)
    return t.reshape(stacked, shape)


def _stacked(t: Translation, values: list[Value], axis: int) -> Value:
    return standard(t, "Concat", *(standard(t, "Unsqueeze", v, t.i64([axis])) for v in values), axis=axis)


def _stack(t: Translation) -> Value:
    return _stacked(t, t.many("values"), t.integer("axis"))


def _split(t: Translation) -> tuple[Value, ...]:
    x, axis = t.arg("x"), t.integer("axis") % t.arg("x").type.rank
    if t.given("split_sizes"):
        sizes = t.ints("split_sizes")
    else:
        count, size = t.integer("num_splits"), t.extent(x, axis)
        if count < 1 or size % count:
            raise error("E0109", f"{size} elements in {count} parts")
        sizes = [size // count] * count
    return standard_results(t, "Split", x, t.i64(sizes), results=len(sizes), axis=axis)


def _reshape(t: Translation) -> Value:
    """0 stands for the size of the operand there, counted from the last one, or 1 where it has none; -1 for what is
    left."""
    x, shape = t.arg("x"), t.arg("shape")
    if shape.data is not None and 0 in shape.data and shape.data.size != x.type.rank:
        short = shape.data.size - x.type.rank
        own = [x.shape[n - short] if n >= short else as_int(1) for n in range(shape.data.size)]
        sizes = [own[n] if wanted == 0 else as_int(int(wanted)) for n, wanted in enumerate(shape.data)]
        left = [n for n, wanted in enumerate(shape.data) if wanted == -1]
        if len(left) == 1:
            rest = as_int(1)
            for n, size in enumerate(sizes):
                rest = rest if n == left[0] else rest * size
            sizes[left[0]] = as_int(x.type.elements) // rest
        return t.reshape(x, sizes)
    return standard(t, "Reshape", x, t.cast(shape, "int64"))


def _reshape_like(t: Translation) -> Value:
    x, others = t.arg("x"), t.many("ref_tensors")
    begins, ends, masks = t.ints("begins"), t.ints("ends"), t.ints("end_masks")
    shape: list[Any] = []
    for other, begin, end, masked in zip(others, begins, ends, masks, strict=True):
        rank = other.type.rank
        shape += other.shape[begin % rank if begin else 0 : rank if masked else end]
    return t.reshape(x, shape)


def _slice_by_index(t: Translation) -> Value:
    x = t.arg("x")
    rank = x.type.rank
    strides, squeezed = t.ints("stride", [1] * rank), t.flags("squeeze_mask", rank)
    from_start, to_end = t.flags("begin_mask", rank), t.flags("end_mask", rank)
    begin, end = t.cast(t.arg("begin"), "int64"), t.cast(t.arg("end"), "int64")
    whole = [n for n in range(rank) if strides[n] == 1 and from_start[n] and to_end[n] and not squeezed[n]]
    for axis in (n for n in range(rank) if n not in whole):
        start = standard(t, "Slice", begin, t.i64([axis]), t.i64([axis + 1]))
        if squeezed[axis]:
            kept = standard(t, "Gather", x, start if not from_start[axis] else t.i64([0]), axis=axis)
            x = kept
            continue
        stop = standard(t, "Slice", end, t.i64([axis]), t.i64([axis + 1]))
        if from_start[axis]:
            start = t.i64([0 if strides[axis] > 0 else np.iinfo(np.int64).max])
        if to_end[axis]:
            stop = t.i64([np.iinfo(np.int64).max if strides[axis] > 0 else np.iinfo(np.int64).min])
        x = standard(t, "Slice", x, start, stop, t.i64([axis]), t.i64([strides[axis]]))
    axes = [n for n in range(rank) if squeezed[n]]
    return standard(t, "Squeeze", x, t.i64(axes)) if axes else x


def _slice_by_size(t: Translation) -> Value:
    """From a start; -1 stands for all that follows."""
    x = t.arg("x")
    begin, size = t.cast(t.arg("begin"), "int64"), t.cast(t.arg("size"), "int64")
    end = t.op("add", begin, size)
    rest = t.op("less", size, t.scalar(0, "int64"))
    end = t.op("where", rest, t.scalar(np.iinfo(np.int32).max, "int64"), end)
    return standard(t, "Slice", x, begin, end)


def _slice_update(t: Translation) -> Value:
    """A part of `x`, which may have steps, replaced."""
    x, update = t.arg("x"), t.cast(t.arg("update"), t.arg("x").dtype)
    rank = x.type.rank
    sizes = t.static(x)
    if t.arg("begin").data is None or t.arg("end").data is None:
        return _placed(t, x, update, sizes)
    begin, end = t.ints("begin"), t.ints("end")
    stride, squeezed = t.ints("stride", [1] * rank), t.flags("squeeze_mask", rank)
    from_start, to_end = t.flags("begin_mask", rank), t.flags("end_mask", rank)
    taken = []
    for n, size in enumerate(sizes):
        first = None if from_start[n] else begin[n]
        if squeezed[n]:
            taken.append([(first or 0) % size])
        else:
            taken.append(list(range(size))[slice(first, None if to_end[n] else end[n], stride[n])])
    shape = [len(rows) for rows in taken]
    if any(n == 0 for n in shape):
        return x
    update = t.reshape(update, shape)
    if all(rows == list(range(rows[0], rows[0] + len(rows))) for rows in taken):
        starts = [rows[0] for rows in taken]
        ends = [size - rows[-1] - 1 for size, rows in zip(sizes, taken, strict=True)]
        inside = np.zeros(sizes, bool)
        inside[tuple(slice(rows[0], rows[-1] + 1) for rows in taken)] = True
        return t.op("where", t.constant(inside), t.pad(update, starts, ends), x)
    places = np.stack(np.meshgrid(*taken, indexing="ij"), -1)
    return standard(t, "ScatterND", x, t.constant(places, "int64"), update)


def _placed(t: Translation, x: Value, update: Value, sizes: tuple[int, ...]) -> Value:
    """A part that begins at computed positions, as in caches of keys and values; its sizes are those of `update`."""
    rank = len(sizes)
    strides, squeezed = t.ints("stride", [1] * rank), t.flags("squeeze_mask", rank)
    from_start, to_end = t.flags("begin_mask", rank), t.flags("end_mask", rank)
    given = iter(t.static(update))
    shape = [1 if squeezed[n] else next(given, 0) for n in range(rank)]
    whole = [from_start[n] and to_end[n] and strides[n] == 1 and not squeezed[n] for n in range(rank)]
    count = max(n + 1 for n in range(rank) if not whole[n]) if not all(whole) else 0
    if next(given, None) is not None or any(shape[n] != sizes[n] for n in range(rank) if whole[n]):
        raise error("E0108", f"{update.type} does not fit into {x.type}")
    if not count:
        return update
    begin = t.cast(t.arg("begin"), "int64")
    parts = []
    for n in range(count):
        if from_start[n]:
            start = t.constant([0 if strides[n] > 0 else sizes[n] - 1], "int64")
        else:
            start = t.op("slice", begin, starts=(n,), sizes=(1,), steps=(1,))
            behind = t.op("add", start, t.scalar(sizes[n], "int64"))
            start = t.op("where", t.op("less", start, t.scalar(0, "int64")), behind, start)
        steps = t.constant(np.arange(shape[n]) * strides[n], "int64")
        along = [shape[n] if m == n else 1 for m in range(count)]
        rows = t.reshape(t.op("add", start, steps), (*along, 1))
        parts.append(t.op("expand", rows, shape=(*shape[:count], 1)))
    places = t.op("concat", *parts, axis=count) if len(parts) > 1 else parts[0]
    return standard(t, "ScatterND", x, places, t.reshape(update, shape))


def _transpose(t: Translation) -> Value:
    x = t.arg("x")
    return t.transpose(x, [axis % x.type.rank for axis in t.ints("perm")])


def _expand_dims(t: Translation) -> Value:
    return standard(t, "Unsqueeze", t.arg("x"), t.i64(t.ints("axes")))


def _squeeze(t: Translation) -> Value:
    x = t.arg("x")
    ones = [n for n, size in enumerate(x.shape) if size == 1]
    axes = t.ints("axes", ones)
    return standard(t, "Squeeze", x, t.i64(axes)) if axes else x


def _reverse(t: Translation) -> Value:
    x = t.arg("x")
    axes = t.ints("axes", list(range(x.type.rank)))
    lowest = np.iinfo(np.int64).min
    return standard(
        t, "Slice", x, t.i64([-1] * len(axes)), t.i64([lowest] * len(axes)), t.i64(axes), t.i64([-1] * len(axes))
    )


def _reverse_sequence(t: Translation) -> Value:
    x = t.arg("x")
    rank = x.type.rank
    time, batch = t.integer("seq_axis", 0) % rank, t.integer("batch_axis", 0) % rank
    if time == batch:
        raise error("E0109", f"sequences along the dimension {time} of the batch")
    # ONNX's operator takes the first two dimensions.
    order = [batch, time, *(n for n in range(rank) if n not in (batch, time))]
    lengths = t.cast(t.arg("lengths"), "int64")
    made = standard(t, "ReverseSequence", t.transpose(x, order), lengths, batch_axis=0, time_axis=1)
    return t.transpose(made, [order.index(n) for n in range(rank)])


def _flatten(t: Translation) -> Value:
    return standard(t, "Flatten", t.arg("x"), axis=t.integer("axis", 1))


def _pad(t: Translation) -> Value:
    """The amounts are those of the last dimensions."""
    x, amounts = t.arg("x"), t.ints("pad")
    mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}[t.text("mode", "constant")]
    count = len(amounts) // 2
    axes = list(range(x.type.rank - count, x.type.rank))
    value = t.constant(np.asarray(t.number("constant_val", 0.0)), x.dtype) if mode == "constant" else None
    return standard(t, "Pad", x, t.i64([*amounts[0::2], *amounts[1::2]]), value, t.i64(axes), mode=mode)


def _tile(t: Translation) -> Value:
    return standard(t, "Tile", t.arg("x"), t.cast(t.arg("reps"), "int64"))


def _shape(t: Translation) -> Value:
    return t.cast(t.dimensions(t.arg("x").shape), "int32")


def _fill(t: Translation) -> Value:
    value = t.maybe("value") or t.scalar(0.0, "float32")
    return standard(t, "Expand", t.reshape(value, ()), t.cast(t.arg("shape"), "int64"))


def _fill_like(t: Translation) -> Value:
    value = t.maybe("value") or t.scalar(0.0, "float32")
    return standard(t, "Expand", t.reshape(value, ()), t.dimensions(t.arg("ref_tensor").shape))


def _range(t: Translation) -> Value:
    bounds = (t.reshape(t.arg(name), ()) for name in ("start", "end", "step"))
    return standard(t, "Range", *bounds)


def _band_part(t: Translation) -> Value:
    """Elements further from the diagonal are 0; a negative bound keeps all."""
    x = t.arg("x")
    rows, columns = t.extent(x, -2), t.extent(x, -1)
    lower, upper = t.integer("lower", -1), t.integer("upper", -1)
    check_table(rows, columns)
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    kept = ((lower < 0) | (-distance <= lower)) & ((upper < 0) | (distance <= upper))
    return t.op("where", t.constant(kept), x, t.scalar(0, x.dtype))


def _depth_to_space(t: Translation) -> Value:
    return standard(t, "DepthToSpace", t.arg("x"), blocksize=t.integer("block_size"), mode="DCR")


def _space_to_depth(t: Translation) -> Value:
    return standard(t, "SpaceToDepth", t.arg("x"), blocksize=t.integer("block_size"))


def _pixel_shuffle(t: Translation) -> Value:
    return standard(t, "DepthToSpace", t.arg("x"), blocksize=t.integer("upscale_factor"), mode="CRD")


def _pixel_unshuffle(t: Translation) -> Value:
    x, by = t.arg("x"), t.integer("downscale_factor")
    n, c, h, w = t.static(x)
    parts = t.reshape(x, (n, c, h // by, by, w // by, by))
    return t.reshape(t.transpose(parts, (0, 1, 3, 5, 2, 4)), (n, c * by * by, h // by, w // by))


def _batch_to_space(t: Translation) -> Value:
    x = t.arg("x")
    (by_h, by_w), crops = t.ints("block_shape"), t.ints("crops")
    n, c, h, w = t.static(x)
    parts = t.reshape(x, (by_h, by_w, n // (by_h * by_w), c, h, w))
    whole = t.reshape(t.transpose(parts, (2, 3, 4, 0, 5, 1)), (n // (by_h * by_w), c, h * by_h, w * by_w))
    ends = [h * by_h - crops[1], w * by_w - crops[3]]
    return standard(t, "Slice", whole, t.i64(crops[0::2]), t.i64(ends), t.i64([2, 3]))


def _space_to_batch(t: Translation) -> Value:
    (by_h, by_w), pads = t.ints("block_shape"), t.ints("paddings")
    x = t.pad(t.arg("x"), (0, 0, pads[0], pads[2]), (0, 0, pads[1], pads[3]))
    n, c, h, w = t.static(x)
    parts = t.reshape(x, (n, c, h // by_h, by_h, w // by_w, by_w))
    return t.reshape(t.transpose(parts, (3, 5, 0, 1, 2, 4)), (n * by_h * by_w, c, h // by_h, w // by_w))


def _sliding_windows(t: Translation) -> Value:
    x = t.arg("x")
    axis, size, step = t.integer("axis") % x.type.rank, t.integer("size"), t.integer("stride", 1)
    if size < 1 or step < 1 or t.extent(x, axis) < size:
        raise error("E0109", f"windows of {size} every {step} of {t.extent(x, axis)}")
    check_table((t.extent(x, axis) - size) // step + 1, size)
    starts = np.arange(0, t.extent(x, axis) - size + 1, step)
    return t.op("gather", x, t.constant(starts[:, None] + np.arange(size)[None, :], "int64"), axis=axis)


def _crop(t: Translation) -> Value:
    x, (top, bottom), (left, right) = t.arg("x"), t.ints("crop_height"), t.ints("crop_width")
    ends = [t.extent(x, -2) - bottom, t.extent(x, -1) - right]
    rank = x.type.rank
    return standard(t, "Slice", x, t.i64([top, left]), t.i64(ends), t.i64([rank - 2, rank - 1]))


TRANSLATORS: dict[str, Translator] = {
    "band_part": _band_part,
    "batch_to_space": _batch_to_space,
    "concat": _concat,
    "crop": _crop,
    "depth_to_space": _depth_to_space,
    "expand_dims": _expand_dims,
    "fill": _fill,
    "fill_like": _fill_like,
    "flatten2d": _flatten,
    "pad": _pad,
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    "range_1d": _range,
    "reshape": _reshape,
    "reshape_like": _reshape_like,
    "reverse": _reverse,
    "reverse_sequence": _reverse_sequence,
    "shape": _shape,
    "slice_by_index": _slice_by_index,
    "slice_by_size": _slice_by_size,
    "slice_update": _slice_update,
    "sliding_windows": _sliding_windows,
    "space_to_batch": _space_to_batch,
    "space_to_depth": _space_to_depth,
    "split": _split,
    "squeeze": _squeeze,
    "stack": _stack,
    "tile": _tile,
    "transpose": _transpose,
}
