"""Operators that move elements, and those that compute shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import MOST_PARTS, axes_of
from sterna.frontends.tflite.translation import QUANTIZED, Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int
from sterna.ir.limits import counting
from sterna_runtime.advice import Advice, Option

_MOST = (1 << 31) - 1

#: What mends most refusals of open dimensions.
_ONE_SIZE = Advice(Option("dims"), " with one size")


def _same_scale(t: Translation, position: int = 0) -> bool:
    """Whether an operand's integers mean what the result's do."""
    if t.input(position).dtype not in QUANTIZED or t.info(position).quantization is None:
        return True
    if t.result().quantization is None:
        return True
    return t.per_tensor(t.info(position)) == t.per_tensor(t.result())


# ---------------------------------------------------------------- shape
def reshape(t: Translation) -> Value:
    x = t.input(0)
    if t.has(1):
        wanted = t.dims(1, "sizes")
    else:
        wanted = [as_int(n) for n in t.option("new_shape", ())]
    if not t.has(1) and wanted == [as_int(0)]:
        wanted = []  # how old converters wrote a scalar
    unknown = [n for n, size in enumerate(wanted) if size == -1]
    if len(unknown) > 1:
        raise error("E0108", "more than one size is left open")
    if unknown:
        rest = math.prod((size for size in wanted if size != -1), start=as_int(1))
        if x.type.elements.is_const and rest.is_const and (rest == 0 or int(x.type.elements) % int(rest)):
            raise error("E0108", f"{x.type} cannot be reshaped to {[str(n) for n in wanted]}")
        total = x.type.elements
        wanted[unknown[0]] = total // int(rest) if rest.is_const else _quotient(t, x, wanted)
    return t.reshape(x, wanted)


def _quotient(t: Translation, x: Value, wanted: Sequence[Int]) -> Int:
    """The open size where others are symbols: those that both shapes have cancel."""
    left = list(x.shape)
    for size in wanted:
        if size in left:
            left.remove(size)
        elif size not in (-1, 1):
            raise t.unsupported("of open dimensions that do not cancel", _ONE_SIZE)
    return math.prod(left, start=as_int(1))


def expand_dims(t: Translation) -> Value:
    x = t.input(0)
    axis = t.integer_of(1, "an axis")
    if not -x.type.rank - 1 <= axis <= x.type.rank:
        raise error("E0108", f"axis {axis} does not exist in a tensor of {x.type.rank + 1} dimensions")
    axis %= x.type.rank + 1
    return t.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


def squeeze(t: Translation) -> Value:
    x = t.input(0)
    axes = axes_of(t.option("squeeze_dims", ()), x.type.rank) or [n for n, s in enumerate(x.shape) if s == 1]
    if any(x.shape[n] != 1 for n in axes):
        raise error("E0108", f"dimensions {list(axes)} of {x.type} are not all of size 1")
    return t.reshape(x, [size for n, size in enumerate(x.shape) if n not in axes])


def shape(t: Translation) -> Value:
    return t.cast(t.dimensions(t.input(0).shape), t.result().kind)


def rank(t: Translation) -> Value:
    return t.constant(t.input(0).type.rank, "int32")


def transpose(t: Translation) -> Value:
    order = axes_of(t.integers(1, "the order of dimensions"), t.input(0).type.rank)
    if sorted(order) != list(range(t.input(0).type.rank)):
        raise error("E0108", f"{list(order)} is not an order of the dimensions of {t.input(0).type}")
    return t.transpose(t.input(0), order)


# ---------------------------------------------------------------- joining and cutting
def concatenation(t: Translation) -> Value:
    axis = axes_of([t.option("axis")], t.input(0).type.rank)[0]
    parts = [_rescaled(t, n) for n in range(len(t.inputs))]
    y = parts[0] if len(parts) == 1 else t.op("concat", *parts, axis=axis)
    return t.activated(y) if dtypes.is_float(y.dtype) else y


def _rescaled(t: Translation, position: int) -> Value:
    """An operand in the result's scale: uint8 alone may have another one."""
    x = t.input(position)
    if _same_scale(t, position):
        return x
    if x.dtype != "uint8":
        raise t.unsupported(f"of {x.dtype} tensors with different scales")
    (scale, zero), (y_scale, y_zero) = t.per_tensor(t.info(position)), t.per_tensor(t.result())
    factor = np.float32(scale) * (np.float32(1.0) / np.float32(y_scale))
    level = t.moved(t.op("mul", t.cast(x, "float32"), t.scalar(factor, "float32")), float(np.float32(-zero) * factor))
    return t.stored(t.cast(t.op("round_away", level), "int32"), y_zero, dtypes.limits("uint8"))


def split(t: Translation) -> tuple[Value, ...]:
    (axis,) = axes_of(t.integers(0, "an axis"), t.input(1).type.rank)
    x, count = t.input(1), t.option("num_splits", len(t.results))
    size = x.shape[axis]
    if not 1 <= count <= MOST_PARTS or (size.is_const and int(size) % count):
        raise error("E0108", f"{size} elements cannot be split into {count} equal parts")
    return _parts(t, x, axis, [size // count] * count)


def split_v(t: Translation) -> tuple[Value, ...]:
    x = t.input(0)
    (axis,) = axes_of(t.integers(2, "an axis"), x.type.rank)
    sizes = t.integers(1, "sizes")
    if sizes.count(-1) == 1 and x.shape[axis].is_const:
        sizes[sizes.index(-1)] = int(x.shape[axis]) - sum(s for s in sizes if s != -1)
    if min(sizes, default=0) < 0 or x.shape[axis] != sum(sizes):
        raise error("E0108", f"{x.shape[axis]} elements cannot be split into {sizes}")
    return _parts(t, x, axis, [as_int(size) for size in sizes])


def _parts(t: Translation, x: Value, axis: int, sizes: Sequence[Int]) -> tuple[Value, ...]:
    start, parts = as_int(0), []
    for size in sizes:
        starts = [start if n == axis else as_int(0) for n in range(x.type.rank)]
        shape = [size if n == axis else length for n, length in enumerate(x.shape)]
        parts.append(t.op("slice", x, starts=tuple(starts), sizes=tuple(shape), steps=(1,) * x.type.rank))
        start = start + size
    return tuple(parts)


def pack(t: Translation) -> Value:
    first = t.input(0)
    axis = t.option("axis")
    if not -first.type.rank - 1 <= axis <= first.type.rank:
        raise error("E0108", f"axis {axis} does not exist in the result")
    axis %= first.type.rank + 1
    parts = []
    for n in range(len(t.inputs)):
        x = t.input(n)
        parts.append(t.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])))
    return parts[0] if len(parts) == 1 else t.op("concat", *parts, axis=axis)


def unpack(t: Translation) -> tuple[Value, ...]:
    x = t.input(0)
    (axis,) = axes_of([t.option("axis")], x.type.rank)
    if x.shape[axis] != len(t.results):
        raise error("E0108", f"{x.type} has not {len(t.results)} slices along dimension {axis}")
    parts = _parts(t, x, axis, [as_int(1)] * len(t.results))
    return tuple(t.reshape(part, (*x.shape[:axis], *x.shape[axis + 1 :])) for part in parts)


def slice_(t: Translation) -> Value:
    x = t.input(0)
    starts, sizes = t.dims(1, "starts"), t.dims(2, "sizes")
    if not len(starts) == len(sizes) == x.type.rank:
        raise error("E0108", f"{len(starts)} starts and {len(sizes)} sizes for {x.type}")
    full = [n - s if size == -1 else size for n, s, size in zip(x.shape, starts, sizes, strict=True)]
    return t.op("slice", x, starts=tuple(starts), sizes=tuple(full), steps=(1,) * x.type.rank)


def strided_slice(t: Translation) -> Value:
    x = t.input(0)
    begins, steps = t.dims(1, "starts"), t.integers(3, "steps")
    ends = t.dims(2, "ends")
    if not len(begins) == len(ends) == len(steps) or 0 in steps:
        raise error("E0108", f"{len(begins)} starts, {len(ends)} ends, steps {steps}")
    masks = {name: int(t.option(f"{name}_mask")) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}

    def has(name: str, bit: int) -> bool:
        return bool(masks[name] >> bit & 1)

    ellipses = [n for n in range(len(begins)) if has("ellipsis", n)]
    if len(ellipses) > 1:
        raise error("E0108", "more than one ellipsis")
    new = [n for n in range(len(begins)) if has("new_axis", n) and n not in ellipses]
    missing = x.type.rank - (len(begins) - len(new) - len(ellipses))
    if missing < 0:
        raise error("E0108", f"{len(begins)} starts for {x.type}")
    starts, sizes, strides, result = [], [], [], []
    dimension = 0

    def whole(count: int) -> None:
        nonlocal dimension
        for _ in range(count):
            starts.append(as_int(0))
            sizes.append(x.shape[dimension])
            strides.append(1)
            result.append(x.shape[dimension])
            dimension += 1

    for n, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if n in ellipses:
            whole(missing)
        elif n in new:
            result.append(as_int(1))
        else:
            size = x.shape[dimension]
            if has("shrink_axis", n):
                first = begin + size if begin.is_const and int(begin) < 0 else begin
                if first.is_const and size.is_const and not 0 <= int(first) < int(size):
                    raise error("E0108", f"element {begin} does not exist in dimension {dimension} of {x.type}")
                starts.append(first)
                sizes.append(as_int(1))
                strides.append(1)
            else:
                stop = begin + end if t.option("offset", False) else end
                first, count = _range(
                    t, size, None if has("begin", n) else begin, None if has("end", n) else stop, step
                )
                starts.append(first)
                sizes.append(count)
                strides.append(step)
                result.append(count)
            dimension += 1
    if not ellipses:
        whole(missing)
    y = t.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(strides))
    return t.reshape(y, result)


def _range(t: Translation, size: Int, begin: Int | None, end: Int | None, step: int) -> tuple[Int, Int]:
    """(first element, how many) of a dimension."""
    if size.is_const and (begin is None or begin.is_const) and (end is None or end.is_const):
        chosen = range(
            *slice(None if begin is None else int(begin), None if end is None else int(end), step).indices(int(size))
        )
        return as_int(chosen.start if chosen else 0), as_int(len(chosen))
    if step != 1:
        raise t.unsupported("with a step over an open dimension", _ONE_SIZE)
    first = as_int(0) if begin is None else begin + size if begin.is_const and int(begin) < 0 else begin
    last = size if end is None else end + size if end.is_const and int(end) < 0 else end
    least = (size - last).bounds()[0]
    if least is None or least < 0:
        raise t.unsupported("to an end that may lie behind an open dimension", _ONE_SIZE)
    return first, last - first


# ---------------------------------------------------------------- padding and repeating
def _amounts(t: Translation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    x, amounts = t.input(0), np.asarray(t.array(1, "paddings"))
    if amounts.shape != (x.type.rank, 2) or (amounts < 0).any():
        raise error("E0108", f"the paddings {amounts.tolist()} do not fit {x.type}")
    return tuple(int(n) for n in amounts[:, 0]), tuple(int(n) for n in amounts[:, 1])


def pad(t: Translation) -> Value:
    x = t.input(0)
    before, after = _amounts(t)
    value: float | int | bool = 0
    if t.kind == "PADV2":
        value = t.scalar_of(2, "the value")
    elif x.dtype in QUANTIZED and t.result().quantization is not None:
        value = t.per_tensor(t.result())[1]
    return t.pad(x, before, after, value)


def mirror_pad(t: Translation) -> Value:
    before, after = _amounts(t)
    if not any(before) and not any(after):
        return t.input(0)
    mode = t.option("mode")
    if mode == 0:
        return t.op("pad", t.input(0), before=before, after=after, mode="reflect")
    return _symmetric(t, t.input(0), before, after)


def _symmetric(t: Translation, x: Value, before: Sequence[int], after: Sequence[int]) -> Value:
    """The mirror image with the outermost elements twice."""
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        size = t.static(x)[axis]
        if max(first, last) > size:
            raise error("E0108", f"{max(first, last)} elements of padding for {size}")
        places = [*range(first - 1, -1, -1), *range(size), *range(size - 1, size - 1 - last, -1)]
        if len(places) != size:
            x = t.op("gather", x, t.constant(places, "int32"), axis=axis)
    return x


def tile(t: Translation) -> Value:
    repeats = t.integers(1, "repeats")
    if len(repeats) != t.input(0).type.rank:
        raise error("E0108", f"{len(repeats)} repeats for {t.input(0).type}")
    return t.op("tile", t.input(0), repeats=tuple(repeats))


def broadcast_to(t: Translation) -> Value:
    return t.op("expand", t.input(0), shape=tuple(t.dims(1, "sizes")))


def broadcast_args(t: Translation) -> Value:
    """The shape of what two shapes broadcast to."""
    a, b = t.input(0), t.input(1)
    longest = max(t.sizes(a, 1)[0], t.sizes(b, 1)[0])
    ones = t.scalar(1, a.dtype)
    first, second = (t.pad(x, (longest - t.extent(x, 0),), (0,), 1) for x in (a, b))
    return t.op("where", t.op("equal", first, ones), second, first)


def fill(t: Translation) -> Value:
    value = t.input(1)
    return t.op("expand", t.reshape(value, ()), shape=tuple(t.dims(0, "sizes")))


def zeros_like(t: Translation) -> Value:
    x = t.input(0)
    return t.op("expand", t.scalar(0, x.dtype), shape=x.shape)


def range_(t: Translation) -> Value:
    start, limit, step = (np.asarray(t.array(n, "bounds")).reshape(()) for n in range(3))
    if step == 0:
        raise error("E0108", "the step is 0")
    count = math.ceil(abs((float(limit) - float(start)) / float(step))) if (limit - start) * step > 0 else 0
    return t.constant((start + counting(count).astype(start.dtype) * step).astype(start.dtype))


# ---------------------------------------------------------------- space, depth, batch
def depth_to_space(t: Translation) -> Value:
    x, block = t.input(0), t.option("block_size")
    n, h, w, c = t.sizes(x, 4)
    if block < 1 or c % (block * block):
        raise error("E0108", f"{c} channels in blocks of {block}")
    depth = c // (block * block)
    y = t.transpose(t.reshape(x, (n, h, w, block, block, depth)), (0, 1, 3, 2, 4, 5))
    return t.reshape(y, (n, h * block, w * block, depth))


def space_to_depth(t: Translation) -> Value:
    x, block = t.input(0), t.option("block_size")
    n, h, w, c = t.sizes(x, 4)
    if block < 1 or h % block or w % block:
        raise error("E0108", f"{x.type} in blocks of {block}")
    y = t.transpose(t.reshape(x, (n, h // block, block, w // block, block, c)), (0, 1, 3, 2, 4, 5))
    return t.reshape(y, (n, h // block, w // block, block * block * c))


def space_to_batch(t: Translation) -> Value:
    x = t.input(0)
    blocks, amounts = t.integers(1, "blocks"), np.asarray(t.array(2, "paddings"))
    count = len(blocks)
    if amounts.shape != (count, 2) or (amounts < 0).any() or min(blocks, default=0) < 1 or x.type.rank < count + 1:
        raise error("E0108", f"blocks {blocks} and paddings {amounts.tolist()} for {x.type}")
    rest = (0,) * (x.type.rank - count - 1)
    zero = t.zero(0) if x.dtype in QUANTIZED and t.is_quantized() else 0
    x = t.pad(x, (0, *map(int, amounts[:, 0]), *rest), (0, *map(int, amounts[:, 1]), *rest), zero)
    batch, *sizes = t.static(x)
    tail = sizes[count:]
    if any(size % block for size, block in zip(sizes, blocks, strict=False)):
        raise error("E0108", f"{sizes} elements in blocks of {blocks}")
    cut = [n for size, block in zip(sizes, blocks, strict=False) for n in (size // block, block)]
    y = t.reshape(x, (batch, *cut, *tail))
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    y = t.transpose(y, (*inner, 0, *outer, *range(2 * count + 1, 2 * count + 1 + len(tail))))
    shape = [size // block for size, block in zip(sizes, blocks, strict=False)]
    return t.reshape(y, (batch * math.prod(blocks), *shape, *tail))


def batch_to_space(t: Translation) -> Value:
    x = t.input(0)
    blocks, crops = t.integers(1, "blocks"), np.asarray(t.array(2, "crops"))
    batch, *sizes = t.static(x)
    count = len(blocks)
    if crops.shape != (count, 2) or (crops < 0).any() or min(blocks, default=0) < 1 or batch % math.prod(blocks):
        raise error("E0108", f"blocks {blocks} and crops {crops.tolist()} for {x.type}")
    tail = sizes[count:]
    y = t.reshape(x, (*blocks, batch // math.prod(blocks), *sizes))
    pairs = [n for d in range(count) for n in (count + 1 + d, d)]
    y = t.transpose(y, (count, *pairs, *range(2 * count + 1, 2 * count + 1 + len(tail))))
    full = [size * block for size, block in zip(sizes, blocks, strict=False)]
    y = t.reshape(y, (batch // math.prod(blocks), *full, *tail))
    starts = (0, *(int(n) for n in crops[:, 0]), *(0 for _ in tail))
    kept = [size - int(crop.sum()) for size, crop in zip(full, crops, strict=True)]
    if min(kept, default=1) < 1:
        raise error("E0108", f"nothing is left of {full} without {crops.tolist()}")
    shape = (batch // math.prod(blocks), *kept, *tail)
    return t.op("slice", y, starts=starts, sizes=shape, steps=(1,) * len(shape))


TRANSLATORS: dict[str, Translator] = {
    "BATCH_TO_SPACE_ND": batch_to_space,
    "BROADCAST_ARGS": broadcast_args,
    "BROADCAST_TO": broadcast_to,
    "CONCATENATION": concatenation,
    "DEPTH_TO_SPACE": depth_to_space,
    "EXPAND_DIMS": expand_dims,
    "FILL": fill,
    "MIRROR_PAD": mirror_pad,
    "PACK": pack,
    "PAD": pad,
    "PADV2": pad,
    "RANGE": range_,
    "RANK": rank,
    "RESHAPE": reshape,
    "SHAPE": shape,
    "SLICE": slice_,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "SPACE_TO_DEPTH": space_to_depth,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "SQUEEZE": squeeze,
    "STRIDED_SLICE": strided_slice,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
    "ZEROS_LIKE": zeros_like,
}
