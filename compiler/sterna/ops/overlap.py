"""The sum of products of positions and taps that belong to the same element: the second half of a convolution whose
first half is a product of matrices (`passes.overlap`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sterna.ir.extremum import maximum, minimum
from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.ops.contraction import summed
from sterna.ops.convolution import DILATIONS, SPATIAL
from sterna.ops.formulas import at, widened
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.types import NUMBERS, check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, reduce_axis


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, NUMBERS)
    rank = len(attributes["sizes"])
    if not 1 <= rank <= len(SPATIAL) or x.rank != 2 * rank + 2:
        raise unfit(f"takes (batch, positions, taps, channels) of {rank} spatial dimensions, not {x}")
    if any(len(attributes[name]) != rank for name in ("dilations", "begins")):
        raise unfit("dilations and begins have an entry for every spatial dimension")
    return TensorType(x.dtype, (x.shape[0], *map(as_int, attributes["sizes"]), x.shape[-1]))


def _compute(applied: Application) -> Tensor:
    """Position p and tap k belong to element p + k * dilation - begin of the result."""
    x = applied.input(0)
    names = SPATIAL[len(applied["sizes"]) - 1]
    counts = x.shape[1 : 1 + len(names)]
    taps = [reduce_axis(f"k{name}", size) for name, size in zip(names, x.shape[1 + len(names) :], strict=False)]

    def element(n: Int, *rest: Int) -> Expr:
        *position, c = rest
        inside: Expr | None = None
        source = []
        for p, tap, rate, begin, count in zip(
            position, taps, applied["dilations"], applied["begins"], counts, strict=True
        ):
            at_tap = p + begin - tap.var * rate
            inside = E.both(inside, E.in_range(at_tap, count))
            source.append(maximum(minimum(at_tap, count - 1), 0))
        value = widened(at(x, (n, *source, *(tap.var for tap in taps), c)))
        return value if inside is None else E.select(inside, value, 0)

    return summed(applied.name, applied.output.shape, ["n", *names, "c"], element, inner=taps, dtype=x.dtype)


F = "float32"
_CASES = (
    case((F, (1, 4, 4, 3, 2, 5)), dilations=(1, 1), begins=(0, 0), sizes=(6, 5)),
    case((F, (2, 3, 5, 4, 3, 17)), dilations=(1, 2), begins=(2, 1), sizes=(3, 8)),
    case((F, (1, 7, 4, 6)), dilations=(3,), begins=(-1,), sizes=(18,)),
)
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "overlap_add",
        "The sum of what positions have for the same element of the result: position p and tap k for element "
        "p + k * dilation - begin. The operand is (N, positions..., taps..., C).",
        single(_type),
        _compute,
        Fusion.COMPLEX,
        (
            DILATIONS,
            Attribute("begins", "ints", "positions before the first element of the result, per spatial dimension"),
            Attribute("sizes", "ints", "elements of the result, per spatial dimension"),
        ),
        cases=_CASES,
    ),
)
