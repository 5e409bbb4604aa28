"""Windows of an image as rows of a matrix (im2col), so that a convolution is one product of matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.ops.convolution import DILATIONS, STRIDES, spatial_rank, windows
from sterna.ops.formulas import at
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.types import present, single
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    spatial = spatial_rank(x, attributes, "kernel", "strides", "dilations")
    if not x.shape[-1].is_const:
        raise unfit(f"takes a known number of channels, not {x.shape[-1]}")
    kernel = tuple(map(as_int, attributes["kernel"]))
    sizes = windows(x.shape[1:-1], kernel, attributes["strides"], attributes["dilations"])
    depth = x.shape[-1]
    for extent in kernel[:spatial]:
        depth = depth * extent
    return TensorType(x.dtype, (x.shape[0], *sizes, depth))


def _compute(applied: Application) -> Tensor:
    x = applied.input(0)
    channels = int(x.shape[-1])

    def element(n: Int, *rest: Int) -> Expr:
        *position, k = rest
        source: list[Int] = []
        tap = k // channels
        steps = zip(position, applied["kernel"], applied["strides"], applied["dilations"], strict=True)
        for p, extent, stride, dilation in reversed(list(steps)):
            source.insert(0, p * stride + tap % extent * dilation)
            tap = tap // extent
        return at(x, (n, *source, k % channels))

    return compute(applied.name, applied.output.shape, element, dtype=applied.output.dtype)


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "im2col",
        "The elements of each window of an image side by side, channels innermost: (N, positions..., kernel... * C).",
        single(_type),
        _compute,
        Fusion.INJECTIVE,
        (Attribute("kernel", "ints", "elements of a window per spatial dimension"), STRIDES, DILATIONS),
        cases=(
            case(("int8", (1, 12, 9, 1)), kernel=(5, 3), strides=(2, 2), dilations=(1, 1)),
            case(("float32", (2, 7, 6, 3)), kernel=(3, 2), strides=(1, 2), dilations=(2, 1)),
            case(("int16", (1, 19, 2)), kernel=(4,), strides=(3,), dilations=(1,)),
            case(("uint8", (1, 4, 5, 6, 1)), kernel=(2, 3, 2), strides=(1, 1, 2), dilations=(1, 1, 1)),
        ),
    ),
)
