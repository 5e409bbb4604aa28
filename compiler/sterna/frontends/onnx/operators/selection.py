"""Operators that choose elements by their values, and those that write to computed places.

Where the data decide how much is found, the size of the result is computed when the bundle runs: within room for the
most that there can be, everything after it works on what was found. Or the model declares the shape of the result, and
the bundle tests that as much is found (`DataSizes`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.translation import Translation, Translator, axes_of
from sterna.ir.extremum import minimum
from sterna.ir.graph import Value
from sterna.ir.integer import Int, IntLike, as_int
from sterna.ir.limits import walked
from sterna.ir.sizes import sizes_wanted
from sterna.loops.prove import at_least_zero
from sterna.ops.types import with_dim


def results(t: Translation, operator: str, *inputs: Value | None, **attributes: Any) -> tuple[Value, ...]:
    """A core operator with several results."""
    name = f"{t.node.name}/{operator}"
    return t.builder.add_all(operator, *inputs, sources=t.sources, name=name, **attributes)


def top_k(t: Translation) -> tuple[Value, ...]:
    x = t.input(0)
    (axis,) = axes_of((t.attribute("axis", -1),), x.type.rank)
    extent = x.shape[axis]
    condition: Value | None = None
    if t.version < 10:
        k = as_int(t.attribute("k"))
    elif t.known(1):
        (k,) = t.dims(1, "a number of elements")
    else:
        given = t.cast(t.reshape(t.input(1), ()), "int64")
        declared = next((sizes for sizes in t.declared if sizes is not None), None)
        if declared is not None:
            k = as_int(declared[axis])
            condition = t.op("equal", given, t.scalar(int(k), "int64"))
        else:
            lo, hi = t.size_limits(extent)
            k = t.bound_size(given, lo, hi)
            if not extent.is_const:
                condition = t.op("less_equal", given, t.reshape(t.dimensions([extent]), ()))
    if condition is None and not at_least_zero(extent - k, {}):
        raise error("E0108", f"{k} of {extent} elements cannot be chosen", fix=sizes_wanted([k, extent]))
    found = results(t, "top_k", x, k=(k,), axis=axis, largest=bool(t.attribute("largest", 1)))
    return found if condition is None else tuple(t.agree(value, condition) for value in found)


def _found(t: Translation, values: tuple[Value, ...], count: Value, size: int) -> tuple[Value, ...]:
    """The results, after a test that just so many elements were found."""
    if count.data is not None:
        return values
    good = t.op("equal", count, t.scalar(size, "int64"))
    return tuple(t.agree(value, good) for value in values)


def _first(t: Translation, x: Value, axis: int, size: Int) -> Value:
    """The first slices of a tensor: of those that there is room for, those that were found."""
    sizes = with_dim(x.shape, axis, size)
    return t.op("slice", x, starts=(0,) * x.type.rank, sizes=sizes, steps=(1,) * x.type.rank)


def non_zero(t: Translation) -> Value:
    x = t.input(0)
    size = int(np.count_nonzero(walked(x.data))) if x.data is not None else t.declared_size(1)
    if size is not None:
        places, count = results(t, "non_zero", x, size=size)
        return _found(t, (places,), count, size)[0]
    (places,), found = t.sized("non_zero", x, most=x.type.elements)
    return _first(t, places, 1, found)


def compress(t: Translation) -> Value:
    x, condition = t.input(0), t.input(1)
    axis = t.attribute("axis")
    if axis is not None:
        (axis,) = axes_of((axis,), x.type.rank)
    elif not x.type.is_static:
        x, axis = t.reshape(x, (x.type.elements,)), 0
    extent = x.type.elements if axis is None else x.shape[axis]
    if condition.data is not None and extent.is_const:
        size: int | None = int(np.count_nonzero(condition.data[: int(extent)]))
    else:
        size = t.declared_size(0 if axis is None else axis)
    if size is not None:
        kept, count = results(t, "compress", x, condition, size=size, axis=axis)
        return _found(t, (kept,), count, size)[0]
    if axis is None:
        x, axis = t.reshape(x, (extent,)), 0
    (kept,), found = t.sized("compress", x, condition, most=minimum(extent, condition.type.elements), axis=axis)
    return _first(t, kept, axis, found)


def unique(t: Translation) -> tuple[Value, ...]:
    x = t.input(0)
    axis = t.attribute("axis")
    if axis is not None:
        (axis,) = axes_of((axis,), x.type.rank)
    if x.data is not None:
        size: int | None = np.unique(walked(x.data), axis=axis).shape[0 if axis is None else axis]
    else:
        declared = [t.declared_size(0 if axis is None else axis), t.declared_size(0, 1), t.declared_size(0, 3)]
        size = next((n for n in declared if n is not None), None)
    in_order = bool(t.attribute("sorted", 1))
    if not x.type.is_static:
        return _unique_slices(t, x, axis, size, in_order)
    if size is not None:
        *values, count = results(t, "unique", x, size=size, axis=axis, sorted=in_order)
        return _found(t, tuple(values), count, size)
    if axis is None:
        x, axis = t.reshape(x, (x.type.elements,)), 0
    (values_, first, inverse, counts), found = t.sized("unique", x, most=x.shape[axis], axis=axis, sorted=in_order)
    return _first(t, values_, axis, found), _first(t, first, 0, found), inverse, _first(t, counts, 0, found)


def _unique_slices(t: Translation, x: Value, axis: int | None, size: int | None, in_order: bool) -> tuple[Value, ...]:
    """`unique` of a tensor with open dimensions: slices are rows of a matrix, so that no position is divided."""
    rest: tuple[Int, ...] = ()
    if axis is None:
        rows = t.reshape(x, (x.type.elements,))
    else:
        order = (axis, *(n for n in range(x.type.rank) if n != axis))
        first = t.transpose(x, order)
        rest = first.shape[1:]
        rows = t.reshape(first, (first.shape[0], math.prod(rest, start=as_int(1))))
    if size is not None:
        *found, count = results(t, "unique", rows, size=size, axis=0, sorted=in_order)
        values, *others = _found(t, tuple(found), count, size)
    else:
        found, number = t.sized("unique", rows, most=rows.shape[0], axis=0, sorted=in_order)
        values = _first(t, found[0], 0, number)
        others = [_first(t, found[1], 0, number), found[2], _first(t, found[3], 0, number)]
    if axis is not None:
        values = t.reshape(values, (values.shape[0], *rest))
        values = t.transpose(values, [order.index(n) for n in range(x.type.rank)])
    return (values, *others)


#: More boxes than there are.
_ALL_BOXES = (1 << 31) - 1


def non_max_suppression(t: Translation) -> Value:
    size = t.declared_size(0)
    boxes, scores, *settings = (t.optional(n) for n in range(5))
    centered = bool(t.attribute("center_point_box", 0))
    operands = (boxes, scores, *settings)
    if size is not None:
        chosen, count = results(t, "non_max_suppression", *operands, size=size, center_point_box=centered)
        return _found(t, (chosen,), count, size)[0]
    kind = t.input(1).type
    if kind.rank != 3:
        raise error("E0108", f"the scores {kind} are not [batches, classes, boxes]")
    each: IntLike = kind.shape[2]
    if t.known(2):  # PyTorch writes the greatest integer for all of them
        each = minimum(each, min(max(int(t.scalar_of(2, "a number of boxes")), 0), _ALL_BOXES)) if t.has(2) else 0
    most = kind.shape[0] * kind.shape[1] * each
    (chosen,), found = t.sized("non_max_suppression", *operands, most=most, center_point_box=centered)
    return _first(t, chosen, 0, found)


# ---------------------------------------------------------------- writes to computed places
def _reduction(t: Translation) -> str:
    how: str = t.attribute("reduction", "none")
    if how not in ("none", "add", "mul", "max", "min"):
        raise error("E0109", f"reduction is {how}")
    return how


def scatter_elements(t: Translation) -> Value:
    x, indices, updates = (t.input(n) for n in range(3))
    return t.op("scatter_elements", x, indices, updates, axis=t.attribute("axis", 0), reduction=_reduction(t))


def scatter_nd(t: Translation) -> Value:
    x, indices, updates = (t.input(n) for n in range(3))
    return t.op("scatter_nd", x, indices, updates, reduction=_reduction(t))


def tensor_scatter(t: Translation) -> Value:
    cache, update = t.input(0), t.input(1)
    mode = t.attribute("mode", "linear")
    return t.op("tensor_scatter", cache, update, t.optional(2), axis=t.attribute("axis", -2), mode=mode)


# ---------------------------------------------------------------- images
def max_unpool(t: Translation) -> Value:
    x, indices = t.input(0), t.input(1)
    sizes = x.shape
    kernel, rank = t.attribute("kernel_shape"), x.type.rank - 2
    strides, pads = t.attribute("strides") or (1,) * rank, t.attribute("pads") or (0,) * 2 * rank
    if not len(kernel) == len(strides) == rank or len(pads) != 2 * rank:
        raise error("E0109", f"kernel, strides or pads do not fit {x.type}")
    spatial = [
        (n - 1) * s + k - pads[d] - pads[d + rank]
        for d, (n, s, k) in enumerate(zip(sizes[2:], strides, kernel, strict=True))
    ]
    shape = (*sizes[:2], *spatial)
    if any((n.bounds()[0] or 0) < 1 for n in spatial) or indices.shape != x.shape:
        raise error("E0108", f"indices {indices.type} do not unpool {x.type} to {list(map(str, shape))}")
    zeros = t.op("expand", t.scalar(0, x.dtype), shape=(math.prod(shape, start=as_int(1)),))
    flat = (x.type.elements,)
    y = t.op("scatter_elements", zeros, t.reshape(indices, flat), t.reshape(x, flat), axis=0)
    y = t.reshape(y, shape)
    if not t.has(2):
        return y
    wanted = t.dims(2, "sizes") if t.known(2) else [as_int(n) for n in t.wanted(2, "sizes")]
    if len(wanted) != len(shape) or not all(at_least_zero(w - s, {}) for w, s in zip(wanted, shape, strict=True)):
        raise error("E0108", f"a result of {list(map(str, shape))} does not fit {list(map(str, wanted))}")
    if not t.known(2):
        y = t.agree(y, t.op("equal", t.input(2), t.constant([int(n) for n in wanted], "int64")))
    return t.pad(y, (0,) * len(shape), tuple(w - s for w, s in zip(wanted, shape, strict=True)))


def roi_align(t: Translation) -> Value:
    half = t.version >= 16 and t.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    y = t.op(
        "roi_align", t.channels_last(t.input(0)), t.input(1), t.input(2), height=t.attribute("output_height", 1),
        width=t.attribute("output_width", 1), sampling_ratio=t.attribute("sampling_ratio", 0),
        scale=t.attribute("spatial_scale", 1.0), mode=t.attribute("mode", "avg"), half_pixel=half,
    )  # fmt: skip
    return t.channels_first(y)


def max_roi_pool(t: Translation) -> Value:
    x, rois = t.input(0), t.input(1)
    height, width = t.attribute("pooled_shape")
    wide = "float64" if x.dtype == "float64" else "float32"
    y = t.op(
        "roi_pool", t.channels_last(t.cast(x, wide)), t.cast(rois, wide),
        height=height, width=width, scale=t.attribute("spatial_scale", 1.0),
    )  # fmt: skip
    return t.cast(t.channels_first(y), x.dtype)


TRANSLATORS: dict[str, Translator] = {
    "Compress": compress,
    "MaxRoiPool": max_roi_pool,
    "MaxUnpool": max_unpool,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": non_zero,
    "RoiAlign": roi_align,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
    "TopK": top_k,
    "Unique": unique,
}
