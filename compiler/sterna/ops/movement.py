"""Operators that move elements and compute nothing: index maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sterna.ir.extremum import maximum, minimum
from sterna.ir.graph import Array, TensorType
from sterna.ir.integer import ONE, ZERO, Int, as_int
from sterna.ops.formulas import at, broadcast_at
from sterna.ops.operator import Application, Attribute, Fusion, Onnx, Operator, Types, case, unfit
from sterna.ops.types import axis_of, broadcast, present, same_dtype, single, with_dim
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.position import position
from sterna.te.tensor import Tensor, compute


def _sizes(attributes: Mapping[str, Any], name: str) -> tuple[int, ...]:
    return tuple(int(v) for v in attributes[name])


# ---------------------------------------------------------------- transpose
def _transpose_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    order = attributes["order"]
    if sorted(order) != list(range(x.rank)):
        raise unfit(f"the order {list(order)} is no permutation of the {x.rank} dimensions of {x}")
    return TensorType(x.dtype, tuple(x.shape[n] for n in order))


def _transpose(applied: Application) -> Tensor:
    x, order = applied.input(0), applied["order"]
    place = [order.index(n) for n in range(len(order))]
    return compute(applied.name, applied.output.shape, lambda *i: at(x, [i[p] for p in place]))


# ---------------------------------------------------------------- reshape
def _reshape_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    result = TensorType(x.dtype, tuple(as_int(size) for size in attributes["shape"]))
    if result.elements != x.elements:
        raise unfit(f"{x} ({x.elements} elements) cannot become {result} ({result.elements} elements)")
    return result


def groups(old: Sequence[Int], new: Sequence[Int]) -> list[tuple[list[int], list[int]]]:
    """Splits a reshape into the smallest independent parts: (old dimensions, new dimensions) with equal products.

    Dimensions of size 1 join a neighbouring part, or make one of their own that is empty on the other side.
    """
    parts: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        mine, theirs = [], []
        left = right = ONE
        if i < len(old):
            mine.append(i)
            left = old[i]
            i += 1
        if j < len(new) and (left != 1 or not mine or new[j] == 1):
            theirs.append(j)
            right = new[j]
            j += 1
        while left != right:
            lo, hi = (left - right).bounds()
            if i < len(old) and (j >= len(new) or (hi is not None and hi < 0) or not (lo is not None and lo > 0)):
                left = left * old[i]
                mine.append(i)
                i += 1
            elif j < len(new):
                right = right * new[j]
                theirs.append(j)
                j += 1
            else:
                return [(list(range(len(old))), list(range(len(new))))]
        parts.append((mine, theirs))
    return parts


def has_index_map(old: Sequence[Int], new: Sequence[Int]) -> bool:
    """Whether the formula of a reshape can be written: nothing is divided by a size that is open."""
    return all(old[n].is_const for mine, _ in groups(old, new) for n in mine[1:])


def flat_index(index: Sequence[Int], shape: Sequence[Int]) -> Int:
    """The position in row-major order."""
    result = ZERO
    for i, size in zip(index, shape, strict=True):
        result = result * size + i
    return result


def _product(sizes: Iterable[Int]) -> Int:
    total = as_int(1)
    for size in sizes:
        total = total * size
    return total


def _apart(flat: Int, size: Int, rows: Int) -> tuple[Int, Int]:
    """Quotient, less than `rows`, and remainder of a position; by a size that is only known at run time they are
    computed as values."""
    if size.is_const:
        return flat // int(size), flat % int(size)
    value, by = E.index_value(flat, "int64"), E.index_value(size, "int64")
    return position(E.binary("floor_div", value, by), rows), position(E.binary("mod", value, by), size)


def _reshape(applied: Application) -> Tensor:
    x = applied.input(0)
    new = applied.output.shape

    def body(*index: Int) -> Expr:
        if any(size == 0 for size in new):
            return E.const(0, x.dtype)
        source = [ZERO] * len(x.shape)
        for mine, theirs in groups(x.shape, new):
            rest = flat_index([index[j] for j in theirs], [new[j] for j in theirs])
            for n in reversed(mine[1:]):
                if x.shape[n] != 1:
                    rest, source[n] = _apart(rest, x.shape[n], _product(x.shape[m] for m in mine[: mine.index(n)]))
            if mine:
                source[mine[0]] = rest
        return at(x, source)

    return compute(applied.name, new, body)


# ---------------------------------------------------------------- slice
def _slice_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    shape = []
    rows = [attributes["starts"], attributes["sizes"], attributes["steps"]]
    if any(len(row) != x.rank for row in rows):
        raise unfit(f"starts, sizes and steps need {x.rank} entries each")
    for extent, begin, count, step in zip(x.shape, *rows, strict=True):
        start, size = as_int(begin), as_int(count)
        last = start + (size - 1) * step
        fixed = all(n.is_const for n in (extent, start, size))
        if size.is_const and int(size) < 0:
            raise unfit(f"{size} elements of a dimension of {extent}")
        if fixed and size != 0 and not (0 <= int(start) < int(extent) and 0 <= int(last) < int(extent)):
            raise unfit(f"elements {start} to {last} do not lie in a dimension of {extent}")
        shape.append(size)
    return TensorType(x.dtype, tuple(shape))


def _slice(applied: Application) -> Tensor:
    x = applied.input(0)
    starts, steps = applied["starts"], applied["steps"]
    return compute(
        applied.name,
        applied.output.shape,
        lambda *i: at(x, [p * d + s for p, s, d in zip(i, starts, steps, strict=True)]),
    )


def _slice_view(data: Array, attributes: Mapping[str, Any]) -> Array:
    ranges = []
    for begin, count, step in zip(attributes["starts"], attributes["sizes"], attributes["steps"], strict=True):
        start, size = int(begin), int(count)
        stop = start + size * step
        ranges.append(slice(start, stop if stop >= 0 else None, step) if size else slice(0, 0))
    return data[tuple(ranges)]


# ---------------------------------------------------------------- strided
def _strided_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    axis = axis_of(attributes["axis"], x.rank)
    sizes, steps = tuple(map(as_int, attributes["sizes"])), attributes["steps"]
    if len(sizes) != len(steps):
        raise unfit(f"{len(sizes)} sizes and {len(steps)} steps")
    ends = [(size - 1) * step for size, step in zip(sizes, steps, strict=True)]
    start, extent = as_int(attributes["start"]), x.shape[axis]
    first = start + sum((end for end, step in zip(ends, steps, strict=True) if step < 0), ZERO)
    last = start + sum((end for end, step in zip(ends, steps, strict=True) if step > 0), ZERO)
    fixed = all(n.is_const for n in (first, last, extent, *sizes))
    if fixed and 0 not in sizes and not 0 <= int(first) <= int(last) < int(extent):
        raise unfit(f"elements {first} to {last} do not lie in a dimension of {extent}")
    return TensorType(x.dtype, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


def _strided(applied: Application) -> Tensor:
    x, start, steps = applied.input(0), as_int(applied["start"]), applied["steps"]
    axis = axis_of(applied["axis"], len(x.shape))
    end = axis + len(steps)

    def body(*index: Int) -> Expr:
        place = sum((n * step for n, step in zip(index[axis:end], steps, strict=True)), start)
        return at(x, (*index[:axis], place, *index[end:]))

    return compute(applied.name, applied.output.shape, body)


# ---------------------------------------------------------------- concat
def _concat_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    parts = present(types)
    if not parts:
        raise unfit("nothing to join")
    if parts[0].rank == 0:
        raise unfit("scalars cannot be joined")
    axis = axis_of(attributes["axis"], parts[0].rank)
    total = ZERO
    for part in parts:
        if part.rank != parts[0].rank or with_dim(part.shape, axis, ONE) != with_dim(parts[0].shape, axis, ONE):
            raise unfit(f"{parts[0]} and {part} differ outside dimension {axis}")
        total = total + part.shape[axis]
    return TensorType(same_dtype(parts), with_dim(parts[0].shape, axis, total))


def _concat(applied: Application) -> Tensor:
    axis = axis_of(applied["axis"], len(applied.output.shape))
    parts: list[tuple[Int, Tensor]] = []
    offset = ZERO
    for tensor in applied.inputs:
        assert tensor is not None
        if tensor.shape[axis] != 0:
            parts.append((offset, tensor))
        offset = offset + tensor.shape[axis]

    def body(*index: Int) -> Expr:
        def element(begin: Int, tensor: Tensor) -> Expr:
            # Every part is read at every position, so positions outside it move to its edge.
            inside = maximum(minimum(index[axis] - begin, tensor.shape[axis] - 1), 0)
            return at(tensor, with_dim(index, axis, inside))

        if not parts:
            return E.const(0, applied.output.dtype)
        value = element(*parts[-1])
        for (begin, tensor), (end, _) in zip(reversed(parts[:-1]), reversed(parts[1:]), strict=True):
            here = E.compare("lt", E.index_value(index[axis]), E.index_value(end))
            value = E.select(here, element(begin, tensor), value)
        return value

    return compute(applied.name, applied.output.shape, body)


# ---------------------------------------------------------------- pad
def _pad_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    before, after = (tuple(map(as_int, attributes[end])) for end in ("before", "after"))
    if len(before) != x.rank or len(after) != x.rank:
        raise unfit(f"pads need {x.rank} entries at each end")
    if any((p.bounds()[0] or 0) < 0 for p in (*before, *after)):
        raise unfit("pads must not be negative; a slice removes elements")
    mode = attributes["mode"]
    for size, b, a in zip(x.shape, before, after, strict=True):
        most = maximum(b, a)
        if mode == "constant" or most == 0:
            continue
        needed = {"reflect": most + 1, "wrap": most, "edge": ONE}[mode]
        if ((size - needed).bounds()[0] or 0) < 0:
            raise unfit(f"{most} elements of padding by {mode} need {needed} in the tensor, which has {size}")
    return TensorType(x.dtype, tuple(size + (b + a) for size, b, a in zip(x.shape, before, after, strict=True)))


def _pad(applied: Application) -> Tensor:
    x = applied.input(0)
    mode = applied["mode"]

    def body(*index: Int) -> Expr:
        inside: Expr | None = None
        source = []
        for i, size, before, after in zip(index, x.shape, applied["before"], applied["after"], strict=True):
            place = i - before
            if before == 0 and after == 0:
                source.append(i)
                continue
            last = size - 1
            if mode == "reflect":
                place = maximum(place, -place)
                mirrored = minimum(place, last * 2 - place)
                # Of an open size it is not seen at once that this stays inside.
                source.append(mirrored if size.is_const else maximum(minimum(mirrored, last), 0))
            elif mode == "wrap" and size.is_const:
                source.append((place + size) % int(size))
            elif mode == "wrap":
                # Positions cannot be divided by a size that is open; there are no more around it than in it.
                first, count = E.index_value(place), E.index_value(size)
                behind = E.select(E.compare("ge", first, count), first - count, first)
                source.append(position(E.select(E.compare("lt", first, 0), first + count, behind), size))
            else:
                source.append(maximum(minimum(place, last), 0))
            if mode == "constant":
                inside = E.both(inside, E.in_range(place, size))
        if mode == "constant" and any(size == 0 for size in x.shape):
            return E.const(applied["value"], x.dtype)
        value: Expr = at(x, source)
        return value if inside is None else E.select(inside, value, applied["value"])

    return compute(applied.name, applied.output.shape, body)


# ---------------------------------------------------------------- expand, tile
def _expand_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    shape = tuple(as_int(size) for size in attributes["shape"])
    if broadcast([x.shape, shape]) != shape:
        raise unfit(f"{x} does not broadcast to [{', '.join(map(str, shape))}]")
    return TensorType(x.dtype, shape)


def _tile_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    if len(attributes["repeats"]) != x.rank:
        raise unfit(f"repeats need {x.rank} entries")
    return TensorType(x.dtype, tuple(size * count for size, count in zip(x.shape, attributes["repeats"], strict=True)))


def _tile(applied: Application) -> Tensor:
    x = applied.input(0)

    def body(*index: Int) -> Expr:
        if any(size == 0 for size in applied.output.shape):
            return E.const(0, x.dtype)
        places = zip(index, x.shape, applied["repeats"], strict=True)
        return at(x, [ZERO if size == 1 else i if count == 1 else i % int(size) for i, size, count in places])

    return compute(applied.name, applied.output.shape, body)


F = "float32"
SHAPE = Attribute("shape", "dims", "the result's dimensions")
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "transpose",
        "Dimensions in another order: dimension n of the result is `order[n]` of the operand.",
        single(_transpose_type),
        _transpose,
        Fusion.INJECTIVE,
        (Attribute("order", "ints", "a permutation"),),
        cases=(
            case((F, (2, 3, 4, 5)), order=(0, 2, 3, 1)),
            case((F, (3, 4)), order=(1, 0)),
            case(("int8", (2, 3, 4)), order=(2, 0, 1)),
        ),
        view=lambda data, a: data.transpose(a["order"]),
    ),
    Operator(
        "reshape",
        "The same elements in row-major order, with other dimensions.",
        single(_reshape_type),
        _reshape,
        Fusion.INJECTIVE,
        (SHAPE,),
        cases=(
            case((F, (2, 3, 4)), shape=(6, 4)),
            case((F, (4, 6)), shape=(3, 8)),
            case((F, (5,)), shape=(1, 5, 1)),
            case(("int32", (1, 1)), shape=()),
            case((F, (2, 12)), shape=(2, 3, 4)),
        ),
        view=lambda data, a: data.reshape([int(s) for s in a["shape"]]),
    ),
    Operator(
        "slice",
        "`sizes` elements from `starts` on, `steps` apart (which may be negative), in every dimension.",
        single(_slice_type),
        _slice,
        Fusion.INJECTIVE,
        (
            Attribute("starts", "dims", "first element"),
            Attribute("sizes", "dims", "how many"),
            Attribute("steps", "ints", "distance"),
        ),
        cases=(
            case((F, (5, 6)), starts=(1, 0), sizes=(3, 3), steps=(1, 2)),
            case((F, (7,)), starts=(6,), sizes=(7,), steps=(-1,)),
        ),
        view=_slice_view,
    ),
    Operator(
        "strided",
        "Elements along an axis from `start` on, `steps` apart (which may be negative), in dimensions of `sizes` that "
        "take the place of the axis: windows that overlap, among others.",
        single(_strided_type),
        _strided,
        Fusion.INJECTIVE,
        (
            Attribute("axis", "int", "the dimension"),
            Attribute("start", "int", "first element"),
            Attribute("sizes", "dims", "how many"),
            Attribute("steps", "ints", "distance along each dimension"),
        ),
        cases=(
            case((F, (2, 20)), axis=1, start=1, sizes=(5, 7), steps=(3, 1)),
            case((F, (19, 3)), axis=0, start=18, sizes=(4, 3), steps=(-2, -5)),
        ),
    ),
    Operator(
        "concat",
        "Tensors one behind the other along an axis.",
        single(_concat_type),
        _concat,
        Fusion.INJECTIVE,
        (Attribute("axis", "int", "where they are joined"),),
        (Onnx("Concat"),),
        (
            case((F, (2, 3)), (F, (2, 1)), (F, (2, 4)), axis=1),
            case((F, (1, 3, 2)), (F, (2, 3, 2)), axis=0),
            case(("int64", (2,)), ("int64", (1,)), axis=0),
        ),
    ),
    Operator(
        "pad",
        "Elements added at both ends of every dimension: a constant, the mirror image (`reflect`), the outermost "
        "element (`edge`) or the other end (`wrap`).",
        single(_pad_type),
        _pad,
        Fusion.INJECTIVE,
        (
            Attribute("before", "dims", "how many before"),
            Attribute("after", "dims", "how many behind"),
            Attribute("mode", "string", "what they are", "constant", ("constant", "reflect", "edge", "wrap")),
            Attribute("value", "float", "the constant", 0),
        ),
        cases=(
            case((F, (1, 4, 5, 2)), before=(0, 1, 1, 0), after=(0, 1, 2, 0)),
            case((F, (3, 4)), before=(2, 0), after=(0, 1), value=float("-inf")),
            *(case((F, (4, 5)), before=(2, 1), after=(3, 4), mode=mode) for mode in ("reflect", "edge", "wrap")),
            case(("int8", (3,)), before=(1,), after=(2,), value=-7),
        ),
    ),
    Operator(
        "expand",
        "Broadcast to a shape.",
        single(_expand_type),
        lambda applied: compute(applied.name, applied.output.shape, lambda *i: broadcast_at(applied.input(0), i)),
        Fusion.INJECTIVE,
        (SHAPE,),
        cases=(case((F, (3, 1)), shape=(2, 3, 4)), case((F, ()), shape=(5,))),
        view=lambda data, a: np.broadcast_to(data, [int(s) for s in a["shape"]]),
    ),
    Operator(
        "tile",
        "The tensor repeated along every dimension.",
        single(_tile_type),
        _tile,
        Fusion.INJECTIVE,
        (Attribute("repeats", "ints", "how often"),),
        cases=(case((F, (2, 3)), repeats=(2, 2)), case((F, (3, 1)), repeats=(1, 4))),
    ),
)
