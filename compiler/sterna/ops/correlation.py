"""How alike two images are around every place, for each of several displacements (a cost volume).

A. Dosovitskiy et al., "FlowNet: Learning Optical Flow with Convolutional Networks" (2015), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.ops.contraction import summed
from sterna.ops.convolution import windows
from sterna.ops.formulas import at, widened
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.types import check_dtype, present, same_dtype, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, reduce_axis


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    a, b = present(types, 0, 1)
    dtype = same_dtype((a, b))
    check_dtype(dtype, ("float16", "float32", "float64"))
    if any(
        len(attributes[name]) != 2 or min(attributes[name]) < 1 for name in ("kernel", "strides", "counts", "steps")
    ):
        raise unfit("kernel, strides, counts and steps have a positive entry for both spatial dimensions")
    if a.rank != 4 or b.rank != 4 or a.shape[0] != b.shape[0] or a.shape[3] != b.shape[3]:
        raise unfit(f"of {a} and {b}")
    kernel = tuple(map(as_int, attributes["kernel"]))
    sizes = windows(a.shape[1:3], kernel, attributes["strides"], (1, 1))
    for have, size, extent, stride, count, step in zip(
        b.shape[1:3], sizes, kernel, attributes["strides"], attributes["counts"], attributes["steps"], strict=True
    ):
        least = (size - 1) * stride + extent + (count - 1) * step
        if have.is_const and least.is_const and int(have) < int(least):
            raise unfit(f"the second image is {b}: {have} places, where displacements lead to {least}")
    high, wide = attributes["counts"]
    return TensorType(dtype, (a.shape[0], *sizes, as_int(high * wide)))


def _compute(applied: Application) -> Tensor:
    a, b = applied.input(0), applied.input(1)
    rows, columns = (reduce_axis(f"k{name}", size) for name, size in zip("yx", applied["kernel"], strict=True))
    channels = reduce_axis("c", a.shape[3])
    wide = applied["counts"][1]
    products = applied["kind"] == "product"

    def element(n: Int, y: Int, x: Int, d: Int) -> Expr:
        top, left = y * applied["strides"][0] + rows.var, x * applied["strides"][1] + columns.var
        below, beside = d // wide * applied["steps"][0], d % wide * applied["steps"][1]
        first = widened(at(a, (n, top, left, channels.var)))
        second = widened(at(b, (n, top + below, left + beside, channels.var)))
        return first * second if products else E.unary("abs", first - second)

    return summed(
        applied.name, applied.output.shape, ["n", "y", "x", "d"], element, inner=[rows, columns, channels],
        dtype=a.dtype,
    )  # fmt: skip


OPERATORS: tuple[Operator, ...] = (
    Operator(
        "correlation",
        "The sum over the windows of an image [N, H, W, C] and those of a second one, displaced by each of counts[0] x "
        "counts[1] multiples of the steps, of their products: [N, positions..., displacements], the vertical one "
        "outside. The second image begins where the first displacement leads.",
        single(_type),
        _compute,
        Fusion.COMPLEX,
        (
            Attribute("kernel", "ints", "elements of a window per spatial dimension"),
            Attribute("strides", "ints", "from window to window"),
            Attribute("counts", "ints", "displacements per spatial dimension"),
            Attribute("steps", "ints", "elements from displacement to displacement"),
            Attribute("kind", "string", "products, or sizes of differences", "product", ("product", "difference")),
        ),
        cases=(
            case(
                ("float32", (2, 4, 5, 3)),
                ("float32", (2, 6, 9, 3)),
                kernel=(1, 1),
                strides=(1, 1),
                counts=(3, 3),
                steps=(1, 2),
            ),
            case(
                ("float32", (1, 7, 8, 2)),
                ("float32", (1, 9, 9, 2)),
                kernel=(3, 3),
                strides=(2, 1),
                counts=(2, 2),
                steps=(2, 1),
                kind="difference",
            ),
        ),
    ),
)
