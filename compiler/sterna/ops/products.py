"""Matrix products, of tensors that are stored plain or in groups of rows, and sums over labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sterna.ir.division import ceil_div
from sterna.ir.extremum import minimum
from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.ops.contraction import CHUNK, FACTORS, Sum, accumulator, check_chunk, chunked, factor, summed, widening
from sterna.ops.formulas import HALF, at, broadcast_at, widened
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.types import NUMBERS, broadcast, check_dtype, present, same_dtype, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute, reduce_axis


def _matmul_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    return _product_type(types, Sum.OWN)


def _matmul_integer_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    return _product_type(types, Sum.INTEGER)


def _matmul_long_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    return _product_type(types, Sum.LONG)


def _matmul_widening_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    check_chunk(present(types, 0)[0].shape[-1], attributes["chunk"], attributes["factors"])
    return _product_type(types, widening(attributes["factors"]))


def _product_type(types: Types, kind: Sum) -> TensorType:
    a, b = present(types, 0, 1)
    dtype = accumulator(a, b, kind)
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
        return factor(left, dtype, rounding) * factor(right, dtype, rounding)

    shape, dtype, rounding = applied.output.shape, applied.output.dtype, applied.attributes.get("factors", "")
    axes = [*(f"b{n}" for n in range(len(shape) - 2)), "i", "j"]
    return summed(applied.name, shape, axes, element, inner=[k], dtype=dtype)


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
    dtype = accumulator(a, b, Sum.INTEGER)
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


F = "float32"
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
        "matmul_integer",
        "The product of matrices of 8 or 16 bits, of two types maybe, exact in int32.",
        single(_matmul_integer_type),
        _matmul,
        Fusion.COMPLEX,
        cases=_FEW_BITS_PRODUCTS,
    ),
    Operator(
        "matmul_long",
        "The product of matrices of 8 or 16 bits, of two types maybe, exact in int64.",
        single(_matmul_long_type),
        _matmul,
        Fusion.COMPLEX,
        cases=(
            case(("int16", (8, 16)), ("int16", (16, 24)), low=-32768, high=32768),
            case(("int16", (2, 5, 7)), ("int16", (2, 7, 3)), low=-32768, high=32768),
            case(("int16", (3, 9)), ("int8", (9, 4)), low=-128, high=128),
        ),
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
        "matmul_widening",
        "The product of matrices of 16-bit floats, or of float32 rounded to TF32, added up and given in float32.",
        single(_matmul_widening_type),
        _matmul_widening,
        Fusion.COMPLEX,
        (CHUNK, FACTORS),
        cases=(
            *(case((t, (5, 18)), (t, (18, 37))) for t in HALF),
            case(("float32", (9, 20)), ("float32", (20, 37)), factors="tf32"),
            case(("float16", (9, 32)), ("float16", (32, 20)), chunk=8),
            case(("float16", (2, 3, 8)), ("float16", (2, 8, 20)), chunk=8),
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
)
