"""Matrix products and convolutions. Channels are last: (N, spatial..., C); weights are (spatial..., C / groups, O).

Padding is never part of these operators but a `pad` before them, so that the storage plan can turn it into a border of
the producer's buffer; a bias is an `add` after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from sterna.ir.extremum import minimum
from sterna.ir.graph import TensorType
from sterna.ir.integer import ZERO, Int, as_int, ceil_div
from sterna.ops.formulas import HALF, at, broadcast_at, rounded, wide, widened
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.types import NUMBERS, broadcast, check_dtype, present, same_dtype, single
from sterna.te import expr as E
from sterna.te.axis import Axis
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute, reduce, reduce_axis

SPATIAL = (("w",), ("h", "w"), ("d", "h", "w"))

STRIDES = Attribute("strides", "ints", "step of the window per spatial dimension")
DILATIONS = Attribute("dilations", "ints", "distance of neighbouring window elements per spatial dimension")
GROUPS = Attribute("groups", "int", "input and output channels fall into so many independent groups", 1)


def spatial_rank(x: TensorType, attributes: Mapping[str, Any], *per_dimension: str) -> int:
    """The number of spatial dimensions, which each of these attributes must have.

    Raises:
        SternaError: E0108, the rank is not 3 to 5 or an attribute has another length.
    """
    spatial = x.rank - 2
    if not 1 <= spatial <= 3:
        raise unfit(f"takes tensors of 3 to 5 dimensions (batch, 1 to 3 spatial, channels), not {x.rank}")
    for name in per_dimension:
        if len(attributes[name]) != spatial:
            raise unfit(f"{name} has {len(attributes[name])} entries for {spatial} spatial dimensions")
        if any((as_int(v).bounds()[0] or 0) < 1 for v in attributes[name]):
            raise unfit(f"{name} must be positive, not {list(attributes[name])}")
    return spatial


def windows(
    sizes: Sequence[Int], kernel: Sequence[Int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Int, ...]:
    """How many positions a window has along each dimension."""
    result = []
    for size, extent, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        count = (size - (extent - 1) * dilation - 1) // stride + 1
        if count.is_const and int(count) < 1:
            raise unfit(f"a window of {extent} (dilation {dilation}) does not fit into {size} elements")
        result.append(count)
    return tuple(result)


def summed(
    name: str, shape: Sequence[Int], axes: Sequence[str], element: Any, *, inner: Sequence[Axis], dtype: str
) -> Tensor:
    """A stage that sums `element(*axes)` over the inner axes that vary, rounded to `dtype` at the end."""
    varying = [axis for axis in inner if axis.extent != 1]

    def body(*index: Int) -> Expr:
        value: Expr = element(*index)
        return reduce("sum", value, *varying) if varying else value

    if wide(dtype) == dtype:
        return compute(name, shape, body, axes)
    return rounded(name, compute(f"{name}_wide", shape, body, axes), dtype)


CHUNK = Attribute(
    "chunk", "int", "of the channels, how many products are added up in the factors' own type; 0: all in float32", 0
)


def _check_chunk(depth: Int, chunk: int) -> None:
    if chunk and (chunk < 0 or not depth.is_const or int(depth) % chunk):
        raise unfit(f"{depth} channels do not fall into parts of {chunk}")


def chunked(
    name: str, shape: Sequence[Int], axes: Sequence[str], element: Any, taps: Sequence[Axis], depth: Axis, chunk: int
) -> Tensor:
    """A stage that sums `element(*axes)` over taps and depth: parts of the depth in the type of the factors, those in
    float32.

    Args:
        element: of the axes, and what stands for the taps and the depth.
    """
    count, inner = depth.extent // chunk, reduce_axis(depth.name, chunk)
    outer = [axis for axis in (*taps, reduce_axis(f"{depth.name}_parts", count)) if axis.extent != 1]
    varying = [axis.name for axis in outer]

    def part(*index: Int) -> Expr:
        places = dict(zip(varying, index, strict=False))
        at_taps = [places.get(axis.name, ZERO) for axis in taps]
        at_depth = places.get(f"{depth.name}_parts", ZERO) * chunk + inner.var
        return reduce("sum", element(index[len(varying) :], at_taps, at_depth), inner)

    parts = compute(f"{name}_parts", [*(a.extent for a in outer), *shape], part, [*(f"p_{n}" for n in varying), *axes])

    def body(*index: Int) -> Expr:
        value = E.cast(at(parts, (*(axis.var for axis in outer), *index)), "float32")
        return reduce("sum", value, *outer) if outer else value

    return compute(name, shape, body, axes)


# ---------------------------------------------------------------- matrix product
_FEW_BITS = ("int8", "uint8", "int16", "uint16")


class Sum(Enum):
    """What products are added up in, and given back."""

    OWN = "own"
    """the type of both factors, 16-bit floats rounded at the end"""
    INTEGER = "integer"
    """int32, of integers of few bits, of two types maybe"""
    WIDE = "wide"
    """float32, of 16-bit floats"""


def _accumulator(a: TensorType, b: TensorType, kind: Sum) -> str:
    """The result's element type."""
    if kind is Sum.INTEGER:
        check_dtype(a.dtype, _FEW_BITS)
        check_dtype(b.dtype, _FEW_BITS)
        return "int32"
    if kind is Sum.WIDE:
        check_dtype(same_dtype((a, b)), HALF)
        return "float32"
    check_dtype(same_dtype((a, b)), NUMBERS)
    return a.dtype


def _factor(value: Expr, dtype: str) -> Expr:
    """A factor in the type that products are added up in."""
    return E.cast(value, wide(dtype))


def _matmul_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    return _product_type(types, Sum.OWN)


def _matmul_integer_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    return _product_type(types, Sum.INTEGER)


def _matmul_widening_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    _check_chunk(present(types, 0)[0].shape[-1], attributes["chunk"])
    return _product_type(types, Sum.WIDE)


def _product_type(types: Types, kind: Sum) -> TensorType:
    a, b = present(types, 0, 1)
    dtype = _accumulator(a, b, kind)
    if a.rank < 2 or b.rank < 2:
        raise unfit("takes matrices, of two dimensions or more")
    if a.shape[-1] != b.shape[-2]:
        raise unfit(f"inner dimensions differ: {a} and {b}")
    return TensorType(dtype, (*broadcast([a.shape[:-2], b.shape[:-2]]), a.shape[-2], b.shape[-1]))


def _matmul(applied: Application) -> Tensor:
    a, b = applied.input(0), applied.input(1)
    k = reduce_axis("k", a.shape[-1])

    def element(*index: Int) -> Expr:
        *batch, i, j = index
        left, right = broadcast_at(a, (*batch, i, k.var)), broadcast_at(b, (*batch, k.var, j))
        return _factor(left, applied.output.dtype) * _factor(right, applied.output.dtype)

    shape = applied.output.shape
    axes = [*(f"b{n}" for n in range(len(shape) - 2)), "i", "j"]
    return summed(applied.name, shape, axes, element, inner=[k], dtype=applied.output.dtype)


def _matmul_widening(applied: Application) -> Tensor:
    if not applied["chunk"]:
        return _matmul(applied)
    a, b = applied.input(0), applied.input(1)

    def element(index: Sequence[Int], taps: Sequence[Int], k: Int) -> Expr:
        *batch, i, j = index
        return broadcast_at(a, (*batch, i, k)) * broadcast_at(b, (*batch, k, j))

    shape = applied.output.shape
    axes = [*(f"b{n}" for n in range(len(shape) - 2)), "i", "j"]
    return chunked(applied.name, shape, axes, element, (), reduce_axis("k", a.shape[-1]), applied["chunk"])


# ---------------------------------------------------------------- product with grouped rows
def _groups_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    if x.rank < 2:
        raise unfit("takes matrices, of two dimensions or more")
    group, columns = attributes["group"], attributes["columns"]
    *batch, rows, width = x.shape
    return TensorType(x.dtype, (*batch, ceil_div(rows, group), ceil_div(width, columns) * columns, as_int(group)))


def _groups(applied: Application) -> Tensor:
    x, group = applied.input(0), applied["group"]
    rows, width = x.shape[-2:]

    def element(*index: Int) -> Expr:
        *batch, g, j, r = index
        row = g * group + r
        inside = E.both(E.in_range(row, rows), E.in_range(j, width))
        if inside is None:
            return at(x, (*batch, row, j))
        value = at(x, (*batch, minimum(row, rows - 1), minimum(j, width - 1)))
        return E.select(inside, value, 0)

    return compute(applied.name, applied.output.shape, element)


def _grouped_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    a, b = present(types, 0, 1)
    dtype = _accumulator(a, b, Sum.INTEGER)
    if a.rank < 2 or b.rank != a.rank + 1 or a.shape[:-2] != b.shape[:-3]:
        raise unfit(f"takes matrices and as many with grouped rows, not {a} and {b}")
    columns, room = as_int(attributes["columns"]), b.shape[-2]
    fits = b.shape[-1].is_const and b.shape[-3] == ceil_div(a.shape[-1], int(b.shape[-1]))
    if not fits or not room.is_const or int(room) < int(columns):
        raise unfit(f"{a} and {b} do not fit, or have no {columns} columns")
    return TensorType(dtype, (*a.shape[:-1], columns))


def _grouped_product(applied: Application) -> Tensor:
    a, b = applied.input(0), applied.input(1)
    group = int(b.shape[-1])
    k = reduce_axis("k", a.shape[-1])

    def element(*index: Int) -> Expr:
        *batch, i, j = index
        left, right = at(a, (*batch, i, k.var)), at(b, (*batch, k.var // group, j, k.var % group))
        return E.cast(left, "int32") * E.cast(right, "int32")

    axes = [*(f"b{n}" for n in range(len(a.shape) - 2)), "i", "j"]
    return summed(applied.name, applied.output.shape, axes, element, inner=[k], dtype="int32")


# ---------------------------------------------------------------- sums of products
def _einsum_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    operands = present(types)
    check_dtype(same_dtype(operands), NUMBERS)
    extents = label_sizes([t.shape for t in operands], attributes["labels"])
    if any(label not in extents for label in attributes["to"]):
        raise unfit("the result has a label that no operand has")
    return TensorType(operands[0].dtype, tuple(extents[label] for label in attributes["to"]))


def label_sizes(shapes: Sequence[tuple[Int, ...]], labels: Sequence[Sequence[int]]) -> dict[int, Int]:
    """The size of every label; dimensions of size 1 broadcast.

    Raises:
        SternaError: E0108, dimensions of one label differ.
    """
    extents: dict[int, Int] = {}
    for shape, row in zip(shapes, labels, strict=True):
        if len(row) != len(shape):
            raise unfit(f"{len(row)} labels for {len(shape)} dimensions")
        for label, size in zip(row, shape, strict=True):
            known = extents.get(label)
            if known is None or known == 1:
                extents[label] = size
            elif size not in (1, known):
                raise unfit(f"dimensions of {known} and {size} have one label")
    return extents


def _einsum(applied: Application) -> Tensor:
    tensors = [applied.input(n) for n in range(len(applied.inputs))]
    labels, result = applied["labels"], applied["to"]
    extents = label_sizes([t.shape for t in tensors], labels)
    inner = {label: reduce_axis(f"r{label}", size) for label, size in extents.items() if label not in result}
    zero = Int({}, 0)

    def element(*index: Int) -> Expr:
        places = {**{label: axis.var for label, axis in inner.items()}, **dict(zip(result, index, strict=True))}
        total: Expr | None = None
        for tensor, row in zip(tensors, labels, strict=True):
            where = [zero if size == 1 else places[label] for label, size in zip(row, tensor.shape, strict=True)]
            value = widened(at(tensor, where))
            total = value if total is None else total * value
        assert total is not None
        return total

    axes = [f"i{n}" for n in range(len(result))]
    return summed(
        applied.name, applied.output.shape, axes, element, inner=list(inner.values()), dtype=applied.output.dtype
    )


# ---------------------------------------------------------------- convolution
def _grouped(
    types: Types, attributes: Mapping[str, Any], spatial: int, kind: Sum = Sum.OWN
) -> tuple[TensorType, TensorType]:
    """Operands of a convolution, checked against the groups."""
    x, w = present(types, 0, 1)
    _accumulator(x, w, kind)
    groups = attributes["groups"]
    if w.rank != x.rank:
        raise unfit(f"the weight {w} has another rank than the input {x}")
    if groups < 1 or w.shape[spatial] * groups != x.shape[-1]:
        raise unfit(f"{x.shape[-1]} channels do not fit the weight's {w.shape[spatial]} in {groups} groups")
    if w.shape[-1] % groups != 0:
        raise unfit(f"{w.shape[-1]} output channels do not fall into {groups} groups")
    return x, w


def channel_read(co: Int, ci: Int, of_group: Int, outputs: Int, groups: int) -> Int:
    """The input channel that output channel `co`, of so many outputs, reads for channel `ci` of its group."""
    if groups == 1:
        return ci
    return (co // (int(outputs) // groups)) * of_group + ci


def _channel(co: Int, ci: Int, w: Tensor, groups: int) -> Int:
    """The same by the weights of channels last."""
    return channel_read(co, ci, w.shape[-2], w.shape[-1], groups)


def _conv_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    return _convolved_type(types, attributes, Sum.OWN)


def _conv_integer_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    return _convolved_type(types, attributes, Sum.INTEGER)


def _conv_widening_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    _check_chunk(present(types, 0, 1)[1].shape[-2], attributes["chunk"])
    return _convolved_type(types, attributes, Sum.WIDE)


def _convolved_type(types: Types, attributes: Mapping[str, Any], kind: Sum) -> TensorType:
    spatial = spatial_rank(present(types, 0)[0], attributes, "strides", "dilations")
    x, w = _grouped(types, attributes, spatial, kind)
    sizes = windows(x.shape[1:-1], w.shape[:spatial], attributes["strides"], attributes["dilations"])
    return TensorType(_accumulator(x, w, kind), (x.shape[0], *sizes, w.shape[-1]))


def _conv(applied: Application) -> Tensor:
    x, w = applied.input(0), applied.input(1)
    names = SPATIAL[len(x.shape) - 3]
    kernel = [reduce_axis(f"k{name}", size) for name, size in zip(names, w.shape, strict=False)]
    ci = reduce_axis("ci", w.shape[-2])

    def element(n: Int, *rest: Int) -> Expr:
        *position, co = rest
        steps = zip(position, kernel, applied["strides"], applied["dilations"], strict=True)
        source = [p * stride + k.var * dilation for p, k, stride, dilation in steps]
        value = at(x, (n, *source, _channel(co, ci.var, w, applied["groups"])))
        weight = at(w, (*(k.var for k in kernel), ci.var, co))
        return _factor(value, applied.output.dtype) * _factor(weight, applied.output.dtype)

    dtype = applied.output.dtype
    return summed(applied.name, applied.output.shape, ["n", *names, "co"], element, inner=[*kernel, ci], dtype=dtype)


def _conv_widening(applied: Application) -> Tensor:
    if not applied["chunk"]:
        return _conv(applied)
    x, w = applied.input(0), applied.input(1)
    names = SPATIAL[len(x.shape) - 3]
    kernel = [reduce_axis(f"k{name}", size) for name, size in zip(names, w.shape, strict=False)]

    def element(index: Sequence[Int], taps: Sequence[Int], ci: Int) -> Expr:
        n, *position, co = index
        steps = zip(position, taps, applied["strides"], applied["dilations"], strict=True)
        source = [p * stride + k * dilation for p, k, stride, dilation in steps]
        return at(x, (n, *source, _channel(co, ci, w, applied["groups"]))) * at(w, (*taps, ci, co))

    axes, depth = ["n", *names, "co"], reduce_axis("ci", w.shape[-2])
    return chunked(applied.name, applied.output.shape, axes, element, kernel, depth, applied["chunk"])


# ---------------------------------------------------------------- transposed convolution
def _taps(extent: Int, stride: int) -> int:
    return -(-int(extent) // stride)


def _conv_transpose_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    spatial = spatial_rank(present(types, 0)[0], attributes, "strides", "sizes")
    x, w = _grouped(types, attributes, spatial)
    rows = zip(x.shape[1:-1], w.shape, attributes["strides"], attributes["begins"], attributes["sizes"], strict=False)
    for size, extent, stride, begin, length in rows:
        if int(extent) % stride:
            raise unfit(f"the weight's extent {extent} is not a multiple of the stride {stride}")
        last = (as_int(length) + (begin - 1)) // stride + _taps(extent, stride) - 1
        if begin < 0 or ((size - 1 - last).bounds()[1] or 0) < 0:
            raise unfit(f"elements {begin} to {length + (begin - 1)} reach beyond the padded input of {size}")
    return TensorType(x.dtype, (x.shape[0], *map(as_int, attributes["sizes"]), w.shape[-1]))


def _conv_transpose(applied: Application) -> Tensor:
    """Gathers instead of scattering: output o of stride s meets the weight's elements (o mod s) + s j and nothing else.

    The input has J - 1 zeros on each side (J = weight extent / s), so that every index is in bounds without a test.
    """
    x, w = applied.input(0), applied.input(1)
    names = SPATIAL[len(x.shape) - 3]
    strides = applied["strides"]
    taps = [
        reduce_axis(f"k{name}", _taps(extent, stride))
        for name, extent, stride in zip(names, w.shape, strides, strict=False)
    ]
    ci = reduce_axis("ci", w.shape[-2])

    def element(n: Int, *rest: Int) -> Expr:
        *position, co = rest
        source, weight = [], []
        for p, tap, stride, begin in zip(position, taps, strides, applied["begins"], strict=True):
            source.append((p + begin) // stride + (tap.extent - 1) - tap.var)
            weight.append((p + begin) % stride + tap.var * stride)
        value = at(x, (n, *source, _channel(co, ci.var, w, applied["groups"])))
        return widened(value) * widened(at(w, (*weight, ci.var, co)))

    return summed(applied.name, applied.output.shape, ["n", *names, "co"], element, inner=[*taps, ci], dtype=x.dtype)


F = "float32"
_CONVOLUTIONS = (
    case((F, (1, 8, 8, 3)), (F, (3, 3, 3, 16)), strides=(1, 1), dilations=(1, 1)),
    case((F, (2, 9, 7, 4)), (F, (3, 2, 4, 5)), strides=(2, 1), dilations=(1, 2)),
    case((F, (1, 6, 6, 8)), (F, (1, 1, 8, 24)), strides=(1, 1), dilations=(1, 1)),
    case((F, (1, 9, 9, 8)), (F, (3, 3, 1, 8)), strides=(2, 2), dilations=(1, 1), groups=8),
    case((F, (1, 7, 7, 4)), (F, (3, 3, 1, 8)), strides=(1, 1), dilations=(1, 1), groups=4),
    case((F, (1, 5, 5, 6)), (F, (3, 3, 2, 9)), strides=(1, 1), dilations=(1, 1), groups=3),
    case((F, (2, 11, 3)), (F, (4, 3, 5)), strides=(2,), dilations=(1,)),
    case((F, (1, 4, 5, 6, 2)), (F, (2, 3, 3, 2, 4)), strides=(1, 1, 2), dilations=(1, 1, 1)),
    case(("int32", (1, 6, 6, 3)), ("int32", (3, 3, 3, 4)), strides=(1, 1), dilations=(1, 1)),
)
_TRANSPOSED = (
    case((F, (1, 4, 4, 3)), (F, (2, 2, 3, 5)), strides=(2, 2), begins=(0, 0), sizes=(8, 8)),
    case((F, (1, 6, 5, 4)), (F, (4, 3, 4, 2)), strides=(2, 1), begins=(1, 2), sizes=(6, 1)),
    case((F, (1, 7, 4)), (F, (6, 2, 6)), strides=(3,), begins=(2,), sizes=(15,), groups=2),
)
_PRODUCTS = (
    case((F, (8, 16)), (F, (16, 24))),
    case((F, (1, 7)), (F, (7, 3))),
    case((F, (2, 3, 4, 5)), (F, (3, 5, 6))),
    case((F, (2, 4, 5)), (F, (5, 6))),
    case((F, (33, 17)), (F, (17, 65))),
    case(("int32", (3, 4)), ("int32", (4, 5))),
    case(("float16", (3, 8)), ("float16", (8, 5))),
)

_FEW_BITS_PRODUCTS = (
    case(("uint8", (8, 16)), ("int8", (16, 24)), low=-128, high=256),
    case(("int8", (2, 5, 7)), ("int8", (7, 3)), low=-128, high=128),
)
_FEW_BITS_CONVOLUTIONS = (
    case(("uint8", (1, 8, 8, 3)), ("int8", (3, 3, 3, 16)), strides=(1, 1), dilations=(1, 1), low=-128, high=128),
    case(("int8", (1, 9, 9, 8)), ("int8", (3, 3, 1, 8)), strides=(2, 2), dilations=(1, 1), groups=8),
)
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "matmul",
        "The product of matrices; dimensions before the last two broadcast.",
        single(_matmul_type),
        _matmul,
        Fusion.COMPLEX,
        cases=_PRODUCTS,
    ),
    Operator(
        "conv",
        "Convolution (cross-correlation) of 1 to 3 spatial dimensions, channels last, without padding.",
        single(_conv_type),
        _conv,
        Fusion.COMPLEX,
        (STRIDES, DILATIONS, GROUPS),
        cases=_CONVOLUTIONS,
    ),
    Operator(
        "matmul_integer",
        "The product of matrices of 8 or 16 bits, of two types maybe, exact in int32.",
        single(_matmul_integer_type),
        _matmul,
        Fusion.COMPLEX,
        cases=_FEW_BITS_PRODUCTS,
    ),
    Operator(
        "group_rows",
        "Matrices with neighbouring rows side by side, (groups of rows, columns, rows of a group); what is left over, "
        "and columns up to a multiple of `columns`, is zero.",
        single(_groups_type),
        _groups,
        Fusion.INJECTIVE,
        (
            Attribute("group", "int", "rows of a group"),
            Attribute("columns", "int", "what the number of columns is made a multiple of", 1),
        ),
        cases=(
            case(("int8", (2, 8, 16)), group=4, columns=16, low=-128, high=128),
            case(("int8", (7, 5)), group=4, columns=4, low=-128, high=128),
        ),
    ),
    Operator(
        "matmul_grouped",
        "The product of matrices of 8 or 16 bits, exact in int32, of which the right ones have grouped rows and maybe "
        "more columns than are taken.",
        single(_grouped_type),
        _grouped_product,
        Fusion.COMPLEX,
        (Attribute("columns", "int", "of the result"),),
        cases=(
            case(("uint8", (2, 5, 8)), ("int8", (2, 2, 16, 4)), columns=16, low=-128, high=256),
            case(("int8", (9, 7)), ("int8", (2, 8, 4)), columns=6, low=-128, high=128),
            case(("uint8", (3, 17, 12)), ("int8", (3, 3, 48, 4)), columns=37, low=-128, high=256),
        ),
    ),
    Operator(
        "conv_integer",
        "The same convolution of tensors of 8 or 16 bits, of two types maybe, exact in int32.",
        single(_conv_integer_type),
        _conv,
        Fusion.COMPLEX,
        (STRIDES, DILATIONS, GROUPS),
        cases=_FEW_BITS_CONVOLUTIONS,
    ),
    Operator(
        "matmul_widening",
        "The product of matrices of 16-bit floats, added up and given in float32.",
        single(_matmul_widening_type),
        _matmul_widening,
        Fusion.COMPLEX,
        (CHUNK,),
        cases=(
            *(case((t, (5, 18)), (t, (18, 37))) for t in HALF),
            case(("float16", (9, 32)), ("float16", (32, 20)), chunk=8),
            case(("float16", (2, 3, 8)), ("float16", (2, 8, 20)), chunk=8),
        ),
    ),
    Operator(
        "conv_widening",
        "The same convolution of 16-bit floats, added up and given in float32.",
        single(_conv_widening_type),
        _conv_widening,
        Fusion.COMPLEX,
        (STRIDES, DILATIONS, GROUPS, CHUNK),
        cases=(
            case(("bfloat16", (1, 8, 8, 3)), ("bfloat16", (3, 3, 3, 16)), strides=(1, 1), dilations=(1, 1)),
            case(("float16", (1, 9, 9, 8)), ("float16", (3, 3, 4, 8)), strides=(2, 2), dilations=(1, 1), groups=2),
            case(("float16", (1, 7, 6, 8)), ("float16", (3, 3, 8, 20)), strides=(1, 1), dilations=(1, 1), chunk=4),
        ),
    ),
    Operator(
        "einsum",
        "The sum, over every label that the result does not have, of the product of elements with the same labels.",
        single(_einsum_type),
        _einsum,
        Fusion.COMPLEX,
        (
            Attribute("labels", "labels", "numbers that name the dimensions, a tuple per operand"),
            Attribute("to", "ints", "labels of the result"),
        ),
        cases=(
            case((F, (3, 4)), (F, (4, 5)), labels=((0, 1), (1, 2)), to=(2, 0)),
            case((F, (2, 3, 3)), labels=((0, 1, 1),), to=(0, 1)),
            case((F, (2, 3)), (F, (3, 4)), (F, (4,)), labels=((0, 1), (1, 2), (2,)), to=()),
        ),
    ),
    Operator(
        "conv_transpose",
        "Transposed convolution, channels last: the elements from `begins` on of the full result, for an "
        "input padded by (weight extent / stride - 1) zeros on each side, or more at the end.",
        single(_conv_transpose_type),
        _conv_transpose,
        Fusion.COMPLEX,
        (
            STRIDES,
            Attribute("begins", "ints", "first element of the full result, per spatial dimension"),
            Attribute("sizes", "ints", "number of elements, per spatial dimension"),
            GROUPS,
        ),
        cases=_TRANSPOSED,
    ),
)
