"""Pooling, channels last or of planes, without padding: a `pad` with the neutral element comes before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int
from sterna.ops.convolution import DILATIONS, SPATIAL, STRIDES, spatial_rank, windows
from sterna.ops.formulas import at, rounded, wide, widened
from sterna.ops.operator import Application, Attribute, Case, Fusion, Operator, Types, case
from sterna.ops.types import NUMBERS, check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute, reduce, reduce_axis


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, NUMBERS)
    spatial_rank(x, attributes, "kernel", "strides", "dilations")
    kernel = [Int({}, int(k)) for k in attributes["kernel"]]
    places = image(x.shape, attributes)
    sizes = windows(x.shape[places], kernel, attributes["strides"], attributes["dilations"])
    return TensorType(attributes.get("to") or x.dtype, (*x.shape[: places.start], *sizes, *x.shape[places.stop :]))


def image(shape: Sequence[Int], attributes: Mapping[str, Any]) -> slice:
    """Where the spatial dimensions stand: before the channels, or behind them where these are planes."""
    return slice(2, len(shape)) if attributes.get("planes") else slice(1, len(shape) - 1)


def _pool(combiner: str) -> Callable[[Application], Tensor]:
    def formula(applied: Application) -> Tensor:
        x = applied.input(0)
        names = SPATIAL[len(x.shape) - 3]
        kernel = [reduce_axis(f"k{name}", int(size)) for name, size in zip(names, applied["kernel"], strict=True)]
        varying = [axis for axis in kernel if axis.extent != 1]

        places = image(x.shape, applied.attributes)

        def body(*index: Int) -> Expr:
            steps = zip(index[places], kernel, applied["strides"], applied["dilations"], strict=True)
            source = [p * stride + k.var * dilation for p, k, stride, dilation in steps]
            value = E.cast(at(x, (*index[: places.start], *source, *index[places.stop :])), wide(applied.output.dtype))
            return reduce(combiner, value, *varying) if varying else value

        axes = ["n", "c", *names] if applied["planes"] else ["n", *names, "c"]
        if applied.output.dtype == wide(applied.output.dtype):
            return compute(applied.name, applied.output.shape, body, axes)
        stage = compute(applied.stage("wide"), applied.output.shape, body, axes)
        return rounded(applied.name, stage, applied.output.dtype)

    return formula


def _index_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    return TensorType("int64", _type(types, attributes).shape)


def _index(applied: Application) -> Tensor:
    """Where the greatest elements lie in the tensor without padding, channels first, row by row or column by column."""
    x = applied.input(0)
    names = SPATIAL[len(x.shape) - 3]
    kernel = [reduce_axis(f"k{name}", int(size)) for name, size in zip(names, applied["kernel"], strict=True)]
    sizes = applied["sizes"]

    def body(n: Int, *rest: Int) -> Expr:
        *position, c = rest
        steps = zip(position, kernel, applied["strides"], applied["dilations"], strict=True)
        source = [p * stride + k.var * dilation for p, k, stride, dilation in steps]
        inside = [p - before for p, before in zip(source, applied["before"], strict=True)]
        order = list(zip(inside, sizes, strict=True))
        flat = Int({}, 0)
        for p, size in reversed(order) if applied["columns_first"] else order:
            flat = flat * size + p
        flat = flat + (n * x.shape[-1] + c) * math.prod(sizes)
        return reduce("argmax", widened(at(x, (n, *source, c))), *kernel, index=E.index_value(flat))

    return compute(applied.name, applied.output.shape, body, ["n", *names, "c"])


_ATTRIBUTES = (Attribute("kernel", "ints", "size of the window per spatial dimension"), STRIDES, DILATIONS)
_PLANES = Attribute("planes", "bool", "whether channels come before the positions", False)
_CASES = (
    case(("float32", (1, 8, 8, 5)), kernel=(2, 2), strides=(2, 2), dilations=(1, 1)),
    case(("float32", (2, 9, 7, 3)), kernel=(3, 2), strides=(1, 2), dilations=(2, 1)),
    case(("float32", (1, 12, 4)), kernel=(3,), strides=(3,), dilations=(1,)),
    case(("float32", (2, 3, 8, 21)), kernel=(3, 2), strides=(2, 1), dilations=(1, 2), planes=True),
    case(("int8", (1, 6, 6, 2)), kernel=(3, 3), strides=(1, 1), dilations=(1, 1), low=-9, high=9),
)

OPERATORS: tuple[Operator, ...] = (
    Operator(
        "max_pool",
        "The greatest element of each window; NaN if there is one.",
        single(_type),
        _pool("max"),
        Fusion.REDUCTION,
        (*_ATTRIBUTES, _PLANES),
        cases=_CASES,
    ),
    Operator(
        "max_pool_index",
        "The position of the greatest element of each window within the whole tensor, channels first, without padding.",
        single(_index_type),
        _index,
        Fusion.OPAQUE,
        (
            *_ATTRIBUTES,
            Attribute("before", "ints", "padding in front of each spatial dimension"),
            Attribute("sizes", "ints", "spatial dimensions without padding"),
            Attribute("columns_first", "bool", "whether positions count down columns", False),
        ),
        cases=(
            Case(
                (("float32", (2, 9, 7, 3)),),
                {"kernel": (3, 2), "strides": (1, 2), "dilations": (2, 1), "before": (0, 0), "sizes": (9, 7)},
            ),
        ),
    ),
    Operator(
        "sum_pool",
        "The sum of each window; an average is this divided by a constant count.",
        single(_type),
        _pool("sum"),
        Fusion.REDUCTION,
        (
            *_ATTRIBUTES,
            _PLANES,
            Attribute("to", "dtype", "the type that is summed in, where it is not the operand's", None),
        ),
        cases=(
            *_CASES,
            case(
                ("int8", (1, 6, 6, 2)), kernel=(3, 3), strides=(2, 1), dilations=(1, 1), to="int32", low=-128, high=128
            ),
        ),
    ),
)
