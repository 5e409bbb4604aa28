"""Convolutions of planes: channels come before the positions, as front ends for images have them.

Beside `conv` (`ops.convolution`) this is the same sum in another order of dimensions: images are (N, C, spatial...),
weights (C / groups, spatial..., O).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int
from sterna.ops.contraction import summed
from sterna.ops.convolution import DILATIONS, GROUPS, SPATIAL, STRIDES, channel_read, spatial_rank, windows
from sterna.ops.formulas import at, widened
from sterna.ops.operator import Application, Fusion, Operator, Types, case, unfit
from sterna.ops.types import NUMBERS, check_dtype, present, same_dtype, single
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, reduce_axis


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, w = present(types, 0, 1)
    check_dtype(same_dtype((x, w)), NUMBERS)
    spatial_rank(x, attributes, "strides", "dilations")
    groups = attributes["groups"]
    if w.rank != x.rank:
        raise unfit(f"the weight {w} has another rank than the input {x}")
    if groups < 1 or w.shape[0] * groups != x.shape[1]:
        raise unfit(f"{x.shape[1]} channels do not fit the weight's {w.shape[0]} in {groups} groups")
    if w.shape[-1] % groups != 0:
        raise unfit(f"{w.shape[-1]} output channels do not fall into {groups} groups")
    sizes = windows(x.shape[2:], w.shape[1:-1], attributes["strides"], attributes["dilations"])
    return TensorType(x.dtype, (x.shape[0], w.shape[-1], *sizes))


def _compute(applied: Application) -> Tensor:
    x, w = applied.input(0), applied.input(1)
    names = SPATIAL[len(x.shape) - 3]
    ci = reduce_axis("ci", w.shape[0])
    kernel = [reduce_axis(f"k{name}", size) for name, size in zip(names, w.shape[1:], strict=False)]

    def element(n: Int, co: Int, *position: Int) -> Expr:
        steps = zip(position, kernel, applied["strides"], applied["dilations"], strict=True)
        source = [p * stride + k.var * dilation for p, k, stride, dilation in steps]
        value = at(x, (n, channel_read(co, ci.var, w.shape[0], w.shape[-1], applied["groups"]), *source))
        return widened(value) * widened(at(w, (ci.var, *(k.var for k in kernel), co)))

    axes = ["n", "co", *names]
    return summed(applied.name, applied.output.shape, axes, element, inner=[ci, *kernel], dtype=applied.output.dtype)


F = "float32"
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "conv_planes",
        "Convolution of 1 to 3 spatial dimensions without padding, of planes: (N, C, spatial...), weights "
        "(C / groups, spatial..., O).",
        single(_type),
        _compute,
        Fusion.COMPLEX,
        (STRIDES, DILATIONS, GROUPS),
        cases=(
            case((F, (1, 3, 6, 18)), (F, (3, 3, 3, 5)), strides=(1, 1), dilations=(1, 1)),
            case((F, (2, 4, 5, 7)), (F, (4, 1, 1, 6)), strides=(1, 1), dilations=(1, 1)),
            case((F, (1, 4, 9, 21)), (F, (1, 3, 3, 4)), strides=(2, 2), dilations=(1, 1), groups=4),
            case((F, (1, 4, 9, 20)), (F, (1, 3, 3, 12)), strides=(1, 1), dilations=(1, 1), groups=4),
            case((F, (1, 6, 7, 12)), (F, (2, 3, 2, 9)), strides=(2, 1), dilations=(1, 2), groups=3),
            case((F, (1, 2, 33)), (F, (2, 4, 3)), strides=(1,), dilations=(2,)),
            case((F, (1, 2, 4, 5, 6)), (F, (2, 2, 3, 3, 4)), strides=(1, 1, 1), dilations=(1, 1, 1)),
        ),
    ),
)
