"""Operators that move elements, and those that compute shapes. What TensorFlow Lite has too is translated there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import MOST_COUNTED, axes_of
from sterna.frontends.tensorflow.bounds import upper_bound
from sterna.frontends.tensorflow.translation import Complex, Item, Translation, Translator
from sterna.frontends.tflite.operators import shapes as lite
from sterna.ir import dtypes
from sterna.ir.extremum import maximum
from sterna.ir.graph import Value
from sterna.ir.integer import Int

#: A translator of TensorFlow Lite: our translation answers what it asks.
_Lite = Callable[[Any], Any]


def _lite(function: _Lite, **defaults: Any) -> Translator:
    def translate(t: Translation) -> Any:
        missing = {name: value for name, value in defaults.items() if t.node.attributes.get(name) is None}
        return function(t.again(*t.items, **missing) if missing else t)

    return translate


def concat_v1(t: Translation) -> Item:
    return concat(t.again(*t.items[1:], t.items[0]))


def concat(t: Translation) -> Item:
    axis = t.integer_of(len(t.items) - 1, "the axis")
    parts = [t.input(n) for n in range(len(t.items) - 1)]
    (place,) = axes_of((axis,), parts[0].type.rank)
    parts = [p for p in parts if p.shape[place] != 0] or parts[:1]
    return parts[0] if len(parts) == 1 else t.op("concat", *parts, axis=place)


def shape(t: Translation) -> Value:
    return t.cast(t.dimensions(t.input(0).shape), t.dtype("out_type", "int32"))


def shapes(t: Translation) -> tuple[Value, ...]:
    kind = t.dtype("out_type", "int32")
    return tuple(t.cast(t.dimensions(t.input(n).shape), kind) for n in range(len(t.inputs)))


def size(t: Translation) -> Value:
    return t.cast(t.reshape(t.dimensions([t.input(0).type.elements]), ()), t.dtype("out_type", "int32"))


def range_(t: Translation) -> Any:
    """Numbers up to a limit; one that is computed needs a bound, and the range is as long as the data say."""
    if all(t.input(n).data is not None for n in range(3)):
        return lite.range_(t)  # type: ignore[arg-type]
    limit = t.input(1)
    if not dtypes.is_integer(limit.dtype) or t.integer_of(2, "the step") != 1:
        raise t.unknown(1, "the limit")
    start = t.integer_of(0, "the start")
    if limit.contents is not None:
        return _counted(t, start, maximum(t.dims(1, "the limit")[0] - start, 0))
    most = upper_bound(t.builder, limit)
    if most is None:
        raise t.unknown(1, "the limit")
    count = t.op("maximum", t.op("sub", t.reshape(limit, ()), t.scalar(start, limit.dtype)), t.scalar(0, limit.dtype))
    symbol, most = t.builder.name("count"), max(most - start, 0)
    return _counted(t, start, t.builder.bind_size(t.cast(count, "int64"), symbol, 0, most, sources=t.sources))


def _counted(t: Translation, start: int, count: Int) -> Value:
    dtype = t.input(1).dtype
    return t.op("add", t.counting(count, dtype), t.scalar(start, dtype))


def squeeze(t: Translation) -> Any:
    axes = t.option("squeeze_dims", ()) or t.option("axis", ())
    return lite.squeeze(t.again(*t.items, squeeze_dims=axes))  # type: ignore[arg-type]


def mirror_pad(t: Translation) -> Any:
    return lite.mirror_pad(t.again(*t.items, mode=0 if t.option("mode") == "REFLECT" else 1))  # type: ignore[arg-type]


def pad(t: Translation) -> Value | Complex:
    """Pad and PadV2; complex numbers are padded with 0."""
    item = t.item(0)
    if isinstance(item, Complex) and len(t.items) == 2:
        wide = np.concatenate([np.asarray(t.array(1, "paddings")).reshape(-1, 2), [[0, 0]]])
        return Complex(_padded(t.again(item.value, t.constant(wide, "int32"))))
    return _padded(t)


def _padded(t: Translation) -> Value:
    x, amounts = t.input(0), t.dims(1, "paddings")
    most = [n.bounds()[1] for n in amounts]
    if len(amounts) != 2 * x.type.rank or any(n is not None and n < 0 for n in most):
        raise error("E0108", f"the paddings [{', '.join(map(str, amounts))}] do not fit {x.type}")
    value = t.scalar_of(2, "the value") if t.has(2) else 0
    return t.pad(x, amounts[::2], amounts[1::2], value)


def tile(t: Translation) -> Value:
    repeats = t.dims(1, "repeats")
    if len(repeats) != t.input(0).type.rank:
        raise error("E0108", f"{len(repeats)} repeats for {t.input(0).type}")
    if all(n.is_const for n in repeats):
        return t.op("tile", t.input(0), repeats=tuple(int(n) for n in repeats))
    x = t.input(0)  # open repeats: a dimension of its own that is spread, then joined with the one it repeats
    wide = t.reshape(x, [n for extent in x.shape for n in (1, extent)])
    spread = t.op("expand", wide, shape=tuple(n for pair in zip(repeats, x.shape, strict=True) for n in pair))
    return t.reshape(spread, [a * b for a, b in zip(repeats, x.shape, strict=True)])


def _filled(number: int) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.input(0)
        return t.op("expand", t.scalar(number, x.dtype), shape=x.shape)

    return translate


def linspace(t: Translation) -> Value:
    start, stop = (float(t.scalar_of(n, "a bound")) for n in range(2))
    count = t.integer_of(2, "how many")
    if not 0 < count <= MOST_COUNTED:
        raise error("E0112", f"{t.kind} of {count} numbers")
    made = np.linspace(start, stop, count)
    return t.constant(made, t.input(0).dtype)


def batched(function: _Lite) -> Translator:
    """SpaceToBatch and BatchToSpace of images: a block size, and paddings or crops."""

    def translate(t: Translation) -> Any:
        block = int(t.option("block_size", 1))
        return function(t.again(t.item(0), t.constant([block, block], "int32"), t.item(1)))

    return translate


def _layout(function: _Lite) -> Translator:
    """DepthToSpace and SpaceToDepth, in either layout."""

    def translate(t: Translation) -> Any:
        if t.option("data_format", "NHWC") == "NCHW_VECT_C":
            raise t.unsupported("in the layout NCHW_VECT_C")
        if not t.first:
            return function(t)
        turned = t.again(t.transpose(t.input(0), (0, 2, 3, 1)), data_format="NHWC")
        return t.transpose(function(turned), (0, 3, 1, 2))

    return translate


def broadcast_args(t: Translation) -> Any:
    return lite.broadcast_args(t)  # type: ignore[arg-type]


def bitcast(t: Translation) -> Value:
    """The same bits as another type of the same width."""
    x, to = t.input(0), t.dtype("type")
    if x.dtype == to:
        return x
    if dtypes.to_numpy(x.dtype).itemsize != dtypes.to_numpy(to).itemsize:
        raise t.unsupported(f"of {x.dtype} to {to}")
    return t.op("bit_cast", x, to=to)


def zeros(t: Translation) -> Value:
    """Empty, whose elements nothing says."""
    return t.op("expand", t.scalar(0, t.dtype("dtype")), shape=tuple(t.dims(0, "sizes")))


def parallel_concat(t: Translation) -> Value:
    parts = [t.input(n) for n in range(len(t.inputs))]
    return parts[0] if len(parts) == 1 else t.op("concat", *parts, axis=0)


def concat_offset(t: Translation) -> tuple[Value, ...]:
    """Where each of several tensors, whose sizes are known, begins in what they are joined to."""
    axis, place = t.integer_of(0, "the axis"), 0
    made = []
    for n in range(1, len(t.inputs)):
        sizes = t.integers(n, "sizes")
        (at,) = axes_of((axis,), len(sizes))
        start = np.zeros(len(sizes))
        start[at] = place
        place += sizes[at]
        made.append(t.constant(start, t.input(n).dtype))
    return tuple(made)


def is_there(t: Translation) -> Value:
    """ToBool: a number that is not 0, or a tensor that has elements."""
    x = t.input(0)
    if not x.type.rank:
        return t.op("logical_not", t.op("equal", x, t.scalar(0, x.dtype)))
    return t.constant(all(t.extent(x, n) for n in range(x.type.rank)), "bool")


def data_format_dim_map(t: Translation) -> Value:
    source, to = str(t.option("src_format", "NHWC")), str(t.option("dst_format", "NCHW"))
    table = t.constant([to.index(letter) for letter in source], t.input(0).dtype)
    return t.op("gather", table, t.input(0), axis=0)


def data_format_permute(t: Translation) -> Value:
    source, to = str(t.option("src_format", "NHWC")), str(t.option("dst_format", "NCHW"))
    return t.op("gather", t.input(0), t.constant([source.index(letter) for letter in to], "int32"), axis=0)


TRANSLATORS: dict[str, Translator] = {
    "BatchToSpace": batched(lite.batch_to_space), "BatchToSpaceND": _lite(lite.batch_to_space),
    "Bitcast": bitcast, "ConcatOffset": concat_offset, "Empty": zeros, "ParallelConcat": parallel_concat,
    "ToBool": is_there, "VariableShape": shape,
    "BroadcastArgs": broadcast_args, "BroadcastTo": _lite(lite.broadcast_to), "Concat": concat_v1, "ConcatV2": concat,
    "DataFormatDimMap": data_format_dim_map, "DataFormatVecPermute": data_format_permute,
    "DepthToSpace": _layout(lite.depth_to_space), "ExpandDims": _lite(lite.expand_dims), "Fill": _lite(lite.fill),
    "LinSpace": linspace, "MirrorPad": mirror_pad, "OnesLike": _filled(1),
    "Pack": _lite(lite.pack, axis=0), "Pad": pad, "PadV2": pad, "Range": range_, "Rank": _lite(lite.rank),
    "Reshape": _lite(lite.reshape), "Shape": shape, "ShapeN": shapes, "Size": size, "Slice": _lite(lite.slice_),
    "SpaceToBatch": batched(lite.space_to_batch), "SpaceToBatchND": _lite(lite.space_to_batch),
    "SpaceToDepth": _layout(lite.space_to_depth), "Split": _lite(lite.split), "SplitV": _lite(lite.split_v),
    "Squeeze": squeeze, "StridedSlice": _lite(lite.strided_slice), "Tile": tile, "Transpose": _lite(lite.transpose),
    "Unpack": _lite(lite.unpack, axis=0), "ZerosLike": _filled(0),
}  # fmt: skip
