"""Other shapes, parts and repetitions of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.emitter import MOST_PARTS, axes_of
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import Int, IntLike, as_int


def _product(sizes: Sequence[IntLike]) -> Int:
    total = as_int(1)
    for size in sizes:
        total = total * size
    return total


def _inferred(t: Translation, row: Sequence[IntLike], whole: Int) -> list[Int]:
    """A shape whose one -1 stands for what is left."""
    known = _product([size for size in row if size != -1])
    unknown = [n for n, size in enumerate(row) if size == -1]
    if len(unknown) > 1:
        raise error("E0109", f"{t.kind} leaves two sizes open")
    result = [as_int(size) for size in row]
    if unknown:
        if known == 0:
            raise error("E0108", f"{t.kind} to {list(map(str, row))} of {t.input(0).type}")
        result[unknown[0]] = whole // known
    return result


def _bad_codes(t: Translation, codes: Sequence[int]) -> SternaError:
    return error("E0109", f"{t.kind} of {t.input(0).type} to {list(codes)[:16]}, which does not fit")


def _halves(t: Translation, size: Int, codes: Sequence[int], at: int) -> list[IntLike]:
    """The two sizes that one is split into, of which one may be -1."""
    if len(codes) < at + 2:
        raise _bad_codes(t, codes)
    a, b = codes[at], codes[at + 1]
    if a == b == -1 or min(a, b) < -1 or 0 in (a, b):
        raise _bad_codes(t, codes)
    return [size // b if a == -1 else a, size // a if b == -1 else b]


def _coded(t: Translation, codes: Sequence[int], shape: Sequence[Int]) -> list[IntLike]:
    """0: this size; -1: what is left; -2: all others; -3: two in one; -4: one in two, which follow."""
    row: list[IntLike] = []
    source, n = 0, 0
    while n < len(codes):
        code = codes[n]
        needed = {0: 1, -3: 2, -4: 1}.get(code, 0)
        if source + needed > len(shape) or code < -4:
            raise _bad_codes(t, codes)
        if code == 0:
            row.append(shape[source])
        elif code == -2:
            row += shape[source:]
            source = len(shape)
        elif code == -3:
            row.append(shape[source] * shape[source + 1])
        elif code == -4:
            row += _halves(t, shape[source], codes, n + 1)
            n += 2
        else:
            row.append(code)
        source += needed if needed else 0 if code == -2 else 1
        n += 1
    return row


def _coded_npx(t: Translation, codes: Sequence[int], shape: Sequence[Int]) -> list[IntLike]:
    """-1: what is left; -2: this size; -3: a size of 1 goes; -4: all others; -5: two in one; -6: one in two."""
    row: list[IntLike] = []
    source, n = 0, 0
    while n < len(codes):
        code = codes[n]
        needed = {-2: 1, -3: 1, -5: 2, -6: 1}.get(code, 0)
        if source + needed > len(shape) or code < -6:
            raise _bad_codes(t, codes)
        if code == -2:
            row.append(shape[source])
        elif code == -3:
            if shape[source] != 1:
                raise _bad_codes(t, codes)
        elif code == -4:
            row += shape[source:]
            source = len(shape)
        elif code == -5:
            row.append(shape[source] * shape[source + 1])
        elif code == -6:
            row += _halves(t, shape[source], codes, n + 1)
            n += 2
        else:
            row.append(code)
        source += needed if needed else 0 if code == -4 else 1
        n += 1
    return row


def _turned(codes: Sequence[int], split: int) -> list[int]:
    """The codes from right to left; those of a split stay behind it."""
    groups: list[list[int]] = []
    n = 0
    while n < len(codes):
        size = 3 if codes[n] == split else 1
        group = list(codes[n : n + size])
        groups.append([group[0], *group[:0:-1]])
        n += size
    return [code for group in reversed(groups) for code in group]


def reshape(t: Translation) -> Value:
    x = t.input(0)
    npx = t.kind.startswith("_npx_")
    codes = t.said.integers("newshape" if npx else "shape", ())
    if not codes and not npx:  # before 0.9
        codes = t.said.integers("target_shape", ())
        if t.said.flag("keep_highest") and codes:
            codes = (0, *codes[1:])
        elif codes.count(0) == 1:
            codes = tuple(-1 if code == 0 else code for code in codes)
    if not (codes or t.said.has("shape") or npx):
        raise error("E0109", f"{t.kind} has no shape")
    coded, split = (_coded_npx, -6) if npx else (_coded, -4)
    if t.said.flag("reverse"):
        row = coded(t, _turned(codes, split), x.shape[::-1])[::-1]
    else:
        row = coded(t, codes, x.shape)
    return t.reshape(x, _inferred(t, row, t.elements(x)))


def numpy_reshape(t: Translation) -> Value:
    x = t.input(0)
    codes = t.said.integers("newshape", ())
    if t.said.text("order", "C") != "C":
        raise t.unsupported("in the order of columns")
    if min(codes, default=0) < -1:
        raise _bad_codes(t, codes)
    return t.reshape(x, _inferred(t, codes, t.elements(x)))


def reshape_like(t: Translation) -> Value:
    """The shape of the second operand, or some of its dimensions in the place of some of the first's."""
    x, like = t.input(0), t.input(1)
    bounds = []
    for side, rank in (("lhs", x.type.rank), ("rhs", like.type.rank)):
        first, end = t.said.integer(f"{side}_begin", 0), t.said.optional(f"{side}_end")
        first, end = first + rank * (first < 0), rank if end is None else end + rank * (end < 0)
        if not 0 <= first <= end <= rank:
            raise error("E0109", f"{t.kind} from dimension {first} to {end} of {rank}")
        bounds.append((first, end))
    (a, b), (c, d) = bounds
    return t.reshape(x, [*x.shape[:a], *like.shape[c:d], *x.shape[b:]])


def transpose(t: Translation) -> Value:
    x = t.input(0)
    axes = axes_of(t.said.integers("axes", ()), x.type.rank) or tuple(range(x.type.rank))[::-1]
    if sorted(axes) != list(range(x.type.rank)):
        raise error("E0109", f"{t.kind} of {x.type} in the order {list(axes)}")
    return t.transpose(x, axes)


def swap(t: Translation) -> Value:
    x = t.input(0)
    a, b = axes_of((t.said.integer("dim1", 0), t.said.integer("dim2", 0)), x.type.rank)
    order = list(range(x.type.rank))
    order[a], order[b] = order[b], order[a]
    return t.transpose(x, order)


def expand_dims(t: Translation) -> Value:
    return t.spread(t.input(0), t.axis("axis", rank=t.input(0).type.rank + 1))


def squeeze(t: Translation) -> Value:
    x = t.input(0)
    named = axes_of(t.said.integers("axis", ()), x.type.rank)
    if any(x.shape[n] != 1 for n in named):
        raise error("E0108", f"{t.kind} of dimensions {list(named)} of {x.type}")
    kept = [size for n, size in enumerate(x.shape) if (n not in named if named else size != 1)]
    return t.reshape(x, kept or ([] if t.is_numpy or t.kind.startswith("_np") else [1]))


# ---------------------------------------------------------------- parts
def _range(size: Int, first: int | None, end: int | None, step: int | None, t: Translation) -> tuple[Int, Int, int]:
    """Where a slice begins, how many elements it has, and its step."""
    step = 1 if step in (None, 0) else step
    assert step is not None
    if not size.is_const:
        if step != 1 or ((first or 0) < 0 and end is not None) or (end is not None and end >= 0):
            low = 0 if first is None else first
            if step == 1 and low >= 0 and end is not None and end >= 0 and end <= (size.bounds()[0] or 0):
                return as_int(low), as_int(max(end - low, 0)), 1
            raise error("E0107", f"{t.kind} needs constant sizes", f"{t.input(0).name} is {t.input(0).type}")
        begin = as_int(0) if first is None else size + first if first < 0 else as_int(first)
        return begin, (size if end is None else size + end) - begin, 1
    places = range(int(size))[slice(first, end, step)]
    return as_int(places.start if len(places) else 0), as_int(len(places)), step


def _cut(t: Translation, x: Value, rows: Sequence[tuple[Int, Int, int]]) -> Value:
    if all(count == size and step == 1 for (_, count, step), size in zip(rows, x.shape, strict=True)):
        return t.op("identity", x)
    if not t.kind.startswith("_np") and any(count == 0 for _, count, _ in rows):
        raise error("E0108", f"{t.kind} of {x.type} leaves nothing")
    starts, sizes, steps = zip(*rows, strict=True)
    return t.op("slice", x, starts=starts, sizes=sizes, steps=steps)


def slice_(t: Translation) -> Value:
    x = t.input(0)
    begins, ends = t.said.optional_integers("begin"), t.said.optional_integers("end")
    steps = t.said.optional_integers("step", ())
    if max(len(begins), len(ends), len(steps)) > x.type.rank:
        raise error("E0109", f"{t.kind} of {x.type} from {list(begins)} to {list(ends)}")

    def nth(values: Sequence[int | None], n: int) -> int | None:
        return values[n] if n < len(values) else None

    rows = [_range(size, nth(begins, n), nth(ends, n), nth(steps, n), t) for n, size in enumerate(x.shape)]
    return _cut(t, x, rows)


def slice_axis(t: Translation) -> Value:
    x, axis = t.input(0), t.axis("axis")
    rows = [(as_int(0), size, 1) for size in x.shape]
    rows[axis] = _range(x.shape[axis], t.said.integer("begin"), t.said.optional("end"), 1, t)
    return _cut(t, x, rows)


def slice_like(t: Translation) -> Value:
    x, like = t.input(0), t.input(1)
    named = t.said.integers("axes", ()) or tuple(range(x.type.rank))
    axes = axes_of(named, x.type.rank)
    if any(n >= like.type.rank for n in axes):
        raise error("E0108", f"{t.kind} of {x.type} like {like.type}")
    sizes = [like.shape[n] if n in axes else size for n, size in enumerate(x.shape)]
    for size, whole in zip(sizes, x.shape, strict=True):
        if size.is_const and whole.is_const and int(size) > int(whole):
            raise error("E0108", f"{t.kind} of {x.type} like {like.type}, which is larger")
    return _cut(t, x, [(as_int(0), size, 1) for size in sizes])


def crop(t: Translation) -> Value:
    """The height and width of another tensor, or as said; from a corner, or from the middle."""
    x = t.input(0)
    sizes = t.sizes(x, 4)
    wanted = t.sizes(t.input(1), 4)[2:] if t.said.integer("num_args", 1) == 2 else t.said.integers("h_w", (0, 0))
    offset = t.said.integers("offset", (0, 0))
    if len(wanted) != 2 or len(offset) != 2:
        raise error("E0109", f"{t.kind} to {list(wanted)} at {list(offset)}")
    if t.said.flag("center_crop"):
        offset = tuple((size - n) // 2 for size, n in zip(sizes[2:], wanted, strict=True))
    if any(o < 0 or n < 1 or o + n > s for o, n, s in zip(offset, wanted, sizes[2:], strict=True)):
        raise error("E0108", f"{t.kind} of {x.type} to {list(wanted)} at {list(offset)}")
    return t.part(t.part(x, 2, offset[0], wanted[0]), 3, offset[1], wanted[1])


def split(t: Translation) -> tuple[Value, ...]:
    """Equal parts, without their axis if it is left with size 1 and that is asked for."""
    x, axis, count = t.input(0), t.axis("axis", 1), t.said.integer("num_outputs")
    if not 1 <= count <= MOST_PARTS:
        raise error("E0109", f"{t.kind} into {count} parts")
    if x.shape[axis].is_const and int(x.shape[axis]) % count:
        raise error("E0108", f"{t.kind} of {x.type} into {count} parts along dimension {axis}")
    size = x.shape[axis] // count
    parts = tuple(t.part(x, axis, size * n, size) for n in range(count))
    return tuple(t.squeezed(part, axis) for part in parts) if t.said.flag("squeeze_axis") else parts


def split_v2(t: Translation) -> tuple[Value, ...]:
    """Equal sections, or parts that begin at given positions."""
    axis = t.axis("axis", 0)
    x = t.input(0)
    size = t.extent(x, axis)
    sections = t.said.integer("sections", 0)
    places = list(t.said.integers("indices", ())) or [0]
    if sections > 0:
        if size % sections or sections > MOST_PARTS:
            raise error("E0108", f"{t.kind} of {x.type} into {sections} parts along dimension {axis}")
        places = [size // sections * n for n in range(sections)]
    elif t.kind.startswith("_np") and places[0] != 0:
        places = [0, *places]
    ends = [*places[1:], size]
    if any(not 0 <= a <= b <= size for a, b in zip(places, ends, strict=True)):
        raise error("E0109", f"{t.kind} of {x.type} at {places}")
    parts = tuple(t.part(x, axis, a, b - a) for a, b in zip(places, ends, strict=True))
    return tuple(t.squeezed(part, axis) for part in parts) if t.said.flag("squeeze_axis") else parts


# ---------------------------------------------------------------- joined and repeated
def concat(t: Translation) -> Value:
    name = "dim" if t.said.has("dim") or not t.said.has("axis") else "axis"
    default = 0 if t.kind == "_npi_concatenate" else 1
    values = t.all_inputs()
    if t.kind == "_npi_concatenate" and t.said.given.get("axis", "0") == "None":
        return t.op("concat", *(t.reshape(v, [t.elements(v)]) for v in values), axis=0)
    kinds = {value.dtype for value in values}
    if len(kinds) > 1:
        raise error("E0108", f"{t.kind} of {', '.join(sorted(kinds))}")
    return t.op("concat", *values, axis=t.axis(name, default)) if len(values) > 1 else values[0]


def concat_parameters(t: Translation) -> Value:
    """The weights of a recurrent layer, one after the other."""
    parts, axis = t.all_inputs(), t.axis("dim", 0)
    if all(part.data is not None for part in parts):  # at once, so that they can be taken apart while compiling
        return t.constant(np.concatenate([np.asarray(part.data) for part in parts], axis), parts[0].dtype)
    return t.op("concat", *parts, axis=axis)


def stack(t: Translation) -> Value:
    values = t.all_inputs()
    axis = t.axis("axis", 0, rank=values[0].type.rank + 1)
    return t.op("concat", *(t.spread(value, axis) for value in values), axis=axis)


def tile(t: Translation) -> Value:
    x, counts = t.input(0), t.said.integers("reps", ())
    rank = max(x.type.rank, len(counts))
    counts = (1,) * (rank - len(counts)) + tuple(counts)
    shape = [as_int(1)] * (rank - x.type.rank) + list(x.shape)
    if min(counts, default=1) < 1:
        raise error("E0109", f"{t.kind} so many times: {list(counts)}")
    before = [size for pair in zip([1] * rank, shape, strict=True) for size in pair]
    after = [size for pair in zip(counts, shape, strict=True) for size in pair]
    y = t.op("expand", t.reshape(x, before), shape=tuple(map(as_int, after)))
    return t.reshape(y, [size * count for size, count in zip(shape, counts, strict=True)])


def repeat(t: Translation) -> Value:
    x, count = t.input(0), t.said.integer("repeats")
    if not t.said.has("axis"):
        x, axis = t.reshape(x, [t.elements(x)]), 0
    else:
        axis = t.axis("axis")
    if count < 1:
        raise error("E0109", f"{t.kind} {count} times")
    y = t.spread(x, axis + 1)
    shape = list(y.shape)
    shape[axis + 1] = as_int(count)
    y = t.op("expand", y, shape=tuple(shape))
    return t.reshape(y, [size * count if n == axis else size for n, size in enumerate(x.shape)])


def broadcast_to(t: Translation) -> Value:
    """A size of 0 stays as it is."""
    x, wanted = t.input(0), t.said.integers("shape", ())
    shape = [as_int(1)] * (len(wanted) - x.type.rank) + list(x.shape)
    if len(shape) != len(wanted):
        raise error("E0108", f"{t.kind} of {x.type} to {list(wanted)}")
    zero = () if t.is_numpy else (0,)
    sizes = [size if n in zero or n == -1 else as_int(n) for n, size in zip(wanted, shape, strict=True)]
    return t.op("expand", t.reshape(x, shape), shape=tuple(sizes))


def broadcast_axis(t: Translation) -> Value:
    x = t.input(0)
    axes, sizes = axes_of(t.said.integers("axis", ()), x.type.rank), t.said.integers("size", ())
    if len(axes) != len(sizes) or any(x.shape[n] != 1 for n in axes) or min(sizes, default=1) < 1:
        raise error("E0108", f"{t.kind} of dimensions {list(axes)} of {x.type} to {list(sizes)}")
    wanted = dict(zip(axes, map(as_int, sizes), strict=True))
    return t.op("expand", x, shape=tuple(wanted.get(n, size) for n, size in enumerate(x.shape)))


def broadcast_like(t: Translation) -> Value:
    x, like = t.input(0), t.input(1)
    if not t.said.has("lhs_axes"):
        return t.op("expand", x, shape=like.shape)
    a, b = axes_of(t.said.integers("lhs_axes"), x.type.rank), axes_of(t.said.integers("rhs_axes"), like.type.rank)
    if len(a) != len(b):
        raise error("E0109", f"{t.kind} of dimensions {list(a)} like {list(b)}")
    wanted = {n: like.shape[m] for n, m in zip(a, b, strict=True)}
    return t.op("expand", x, shape=tuple(wanted.get(n, size) for n, size in enumerate(x.shape)))


def pad(t: Translation) -> Value:
    x, widths = t.input(0), t.said.integers("pad_width")
    if len(widths) != 2 * x.type.rank or min(widths) < 0:
        raise error("E0109", f"{t.kind} of {x.type} by {list(widths)}")
    mode = t.said.choice("mode", "constant", "constant", "edge", "reflect")
    before, after = widths[::2], widths[1::2]
    if mode == "constant":
        return t.pad(x, before, after, value=t.said.finite("constant_value", 0.0))
    return t.op("pad", x, before=before, after=after, mode=mode)


def reverse(t: Translation) -> Value:
    x = t.input(0)
    axes = axes_of(t.said.integers("axis", tuple(range(x.type.rank))), x.type.rank)
    starts = tuple(size - 1 if n in axes else as_int(0) for n, size in enumerate(x.shape))
    return t.op(
        "slice", x, starts=starts, sizes=x.shape, steps=tuple(-1 if n in axes else 1 for n in range(len(starts)))
    )


def depth_to_space(t: Translation) -> Value:
    x, block = t.input(0), t.said.integer("block_size")
    n, c, h, w = x.shape if x.type.rank == 4 else t.sizes(x, 4)
    if block < 1:
        raise error("E0109", f"{t.kind} by {block}")
    if t.kind == "space_to_depth":
        y = t.transpose(t.reshape(x, [n, c, h // block, block, w // block, block]), (0, 3, 5, 1, 2, 4))
        return t.reshape(y, [n, c * block * block, h // block, w // block])
    y = t.transpose(t.reshape(x, [n, block, block, c // (block * block), h, w]), (0, 3, 4, 1, 5, 2))
    return t.reshape(y, [n, c // (block * block), h * block, w * block])


TRANSLATORS: dict[str, Translator] = {
    **dict.fromkeys(("Concat", "concat", "_npi_concatenate"), concat),
    **dict.fromkeys(("_rnn_param_concat", "_npi_rnn_param_concat"), concat_parameters),
    **dict.fromkeys(("Crop",), crop),
    **dict.fromkeys(("Pad", "pad"), pad),
    **dict.fromkeys(("Reshape", "reshape", "_npx_reshape"), reshape),
    **dict.fromkeys(("_np_reshape", "_npi_reshape"), numpy_reshape),
    **dict.fromkeys(("SliceChannel", "split"), split),
    **dict.fromkeys(("_split_v2", "_npi_split"), split_v2),
    **dict.fromkeys(("SwapAxis", "swapaxes", "_npi_swapaxes"), swap),
    **dict.fromkeys(("broadcast_axes", "broadcast_axis"), broadcast_axis),
    "broadcast_like": broadcast_like,
    **dict.fromkeys(("broadcast_to", "_npi_broadcast_to"), broadcast_to),
    **dict.fromkeys(("depth_to_space", "space_to_depth"), depth_to_space),
    **dict.fromkeys(("expand_dims", "_npi_expand_dims"), expand_dims),
    **dict.fromkeys(("flip", "reverse", "_npi_flip"), reverse),
    **dict.fromkeys(("repeat", "_np_repeat"), repeat),
    **dict.fromkeys(("reshape_like", "_npx_reshape_like"), reshape_like),
    **dict.fromkeys(("slice", "_npx_slice", "_npi_slice", "crop"), slice_),
    "slice_axis": slice_axis,
    "slice_like": slice_like,
    **dict.fromkeys(("squeeze", "_np_squeeze"), squeeze),
    **dict.fromkeys(("stack", "_npi_stack"), stack),
    **dict.fromkeys(("tile", "_npi_tile"), tile),
    **dict.fromkeys(("transpose", "_np_transpose"), transpose),
}
