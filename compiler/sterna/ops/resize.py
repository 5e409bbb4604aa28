"""Resampling to another size: nearest, linear and cubic (ONNX Resize).

Source positions are exact rationals (a i + b) / c, so the indices stay integer arithmetic and hold in every code
generator: no position depends on how a float was rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from sterna.ir.extremum import maximum, minimum
from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.ops.formulas import at, widened
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.types import check_dtype, present, same_dtype, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.position import position as place
from sterna.te.tensor import Tensor, compute

TRANSFORMS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
)
#: Those in which the position does not depend on the sizes, only on the scale: for dimensions that are open.
OPEN_TRANSFORMS = ("half_pixel", "asymmetric", "tf_half_pixel_for_nn")
_LARGEST_DENOMINATOR = 4096
_EXACT = 1 << 20  # of numerators below, halves of a quotient survive the rounding of float32


def ratio(scale: float, size: int, result: int) -> Fraction:
    """The scale as a rational: result / size where the float can mean that, else the nearest simple one."""
    exact = Fraction(result, size)
    if abs(float(exact) - scale) <= 1e-6 * scale:
        return exact
    return simple(scale)


def simple(scale: float) -> Fraction:
    """The nearest simple rational."""
    return Fraction(scale).limit_denominator(_LARGEST_DENOMINATOR)


def position(transform: str, scale: Fraction, size: int, result: int) -> tuple[Fraction, Fraction]:
    """The source position of element i as slope * i + offset.

    Args:
        transform: one of TRANSFORMS (ONNX Resize, coordinate_transformation_mode).
        size, result: the dimension before and after.
    """
    half = Fraction(1, 2)
    if transform == "align_corners":
        return (Fraction(size - 1, result - 1) if result > 1 else Fraction(0)), Fraction(0)
    slope = 1 / scale
    if transform == "asymmetric":
        return slope, Fraction(0)
    if transform == "tf_half_pixel_for_nn":
        return slope, slope * half
    if transform == "pytorch_half_pixel" and result <= 1:
        return Fraction(0), Fraction(0)
    offset = slope * half - half
    if transform == "half_pixel_symmetric":
        offset += Fraction(size, 2) * (1 - Fraction(result) / (scale * size))
    return slope, offset


def _rational(index: Int, slope: Fraction, offset: Fraction) -> tuple[Int, int]:
    """slope * index + offset as numerator and denominator."""
    denominator = (slope.denominator * offset.denominator) // _gcd(slope.denominator, offset.denominator)
    return index * int(slope * denominator) + int(offset * denominator), denominator


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def _nearest(index: Int, slope: Fraction, offset: Fraction, rounding: str) -> Int:
    top, bottom = _rational(index, slope, offset)
    if rounding == "floor":
        return top // bottom
    if rounding == "ceil":
        return (top + (bottom - 1)) // bottom
    doubled = top * 2
    if rounding == "round_prefer_ceil":
        return (doubled + bottom) // (2 * bottom)
    return (doubled + (bottom - 1)) // (2 * bottom)


def cubic_weights(t: Expr, a: float) -> list[Expr]:
    """Weights of the four neighbours at distance t from the second (Keys 1981)."""

    def near(d: Expr) -> Expr:
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0

    def far(d: Expr) -> Expr:
        return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]


def _type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    if len(attributes["sizes"]) != x.rank or len(attributes["scales"]) != x.rank:
        raise unfit(f"sizes and scales need {x.rank} entries each")
    results = tuple(as_int(size) for size in attributes["sizes"])
    for size, result, scale in zip(x.shape, results, attributes["scales"], strict=True):
        if result.is_const and int(result) < 1 and size != result:
            raise unfit(f"a dimension of {size} cannot become {result}")
        fixed = (size.is_const and result.is_const) or (size == result and scale == 1.0)
        if not fixed and attributes["transform"] not in OPEN_TRANSFORMS:
            raise unfit(f"{attributes['transform']} of a dimension that is only known at run time")
    return TensorType(x.dtype, results)


def _resize(applied: Application) -> Tensor:
    x = applied.input(0)
    sizes = x.shape
    moved = [
        n
        for n, (a, b, s) in enumerate(zip(sizes, applied["sizes"], applied["scales"], strict=True))
        if a != b or s != 1.0
    ]

    def body(*index: Int) -> Expr:
        taps: dict[int, list[tuple[Int, Expr | None]]] = {}
        for n in moved:
            result = as_int(applied["sizes"][n])
            if sizes[n].is_const and result.is_const:
                scale = ratio(applied["scales"][n], int(sizes[n]), int(result))
                slope, offset = position(applied["transform"], scale, int(sizes[n]), int(result))
            else:
                slope, offset = position(applied["transform"], simple(applied["scales"][n]), 2, 2)
            last = sizes[n] - 1
            if applied["mode"] == "nearest":
                taps[n] = [(_clamped(_nearest(index[n], slope, offset, applied["rounding"]), last), None)]
                continue
            top, bottom = _rational(index[n], slope, offset)
            base = top // bottom
            if bottom == 1:
                taps[n] = [(_clamped(base, last), None)]
                continue
            t = _fraction(top, bottom)
            if applied["mode"] == "linear":
                taps[n] = [(_clamped(base, last), 1.0 - t), (_clamped(base + 1, last), t)]
            else:
                weights = cubic_weights(t, applied["cubic_coefficient"])
                taps[n] = [(_clamped(base + k - 1, last), w) for k, w in enumerate(weights)]

        def blend(chosen: list[Int], rest: list[int]) -> Expr:
            if not rest:
                value = at(x, chosen)
                return value if applied["mode"] == "nearest" else E.cast(widened(value), "float32")
            n, *others = rest
            total: Expr | None = None
            for source, weight in taps[n]:
                inner = blend([*chosen[:n], source, *chosen[n + 1 :]], others)
                term = inner if weight is None else inner * weight
                total = term if total is None else total + term
            assert total is not None
            return total

        return E.cast(blend(list(index), moved), x.dtype)

    return compute(applied.name, applied.output.shape, body)


def _fraction(top: Int, bottom: int) -> Expr:
    """What top / bottom is more than a whole number, times 1 / bottom rounded."""
    low, high = top.bounds()
    if low is None or high is None or max(-low, high) >= _EXACT:
        return E.cast(E.index_value(top % bottom), "float32") * (1.0 / bottom)
    # The same to the bit, but nothing is divided that vectors of positions would have to be taken apart for: the
    # quotient is at least half a step away from the next whole number, which is more than it can be rounded by.
    value = E.cast(E.index_value(top, "int32"), "float32")
    whole = E.unary("floor", (value + 0.5) * (1.0 / bottom))
    return (value - whole * float(bottom)) * (1.0 / bottom)


def _clamped(index: Int, last: Int) -> Int:
    return maximum(minimum(index, last), 0)


# ---------------------------------------------------------------- weighted neighbours
def _neighbours_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    x, starts, weights = present(types, 0, 1, 2)
    axis = attributes["axis"]
    check_dtype(x.dtype, ("float32", "float64"))
    same_dtype((x, weights))
    check_dtype(starts.dtype, ("int32", "int64"))
    fitting = starts.rank == 1 and weights.rank == 2 and weights.shape[0] == starts.shape[0]
    if not fitting or not 0 <= axis < x.rank or not weights.shape[1].is_const:
        raise unfit(f"weights {weights} of neighbours from {starts} on for {x}")
    if not x.shape[axis].is_const or int(weights.shape[1]) > int(x.shape[axis]):
        raise unfit(f"{weights.shape[1]} neighbours along dimension {axis} of {x}")
    return TensorType(x.dtype, (*x.shape[:axis], starts.shape[0], *x.shape[axis + 1 :]))


def _neighbours(applied: Application) -> Tensor:
    x, starts, weights = applied.input(0), applied.input(1), applied.input(2)
    axis, count = applied["axis"], int(weights.shape[1])

    def body(*index: Int) -> Expr:
        new = index[axis]
        first = place(at(starts, (new,)), x.shape[axis] - (count - 1))

        def term(k: int) -> tuple[Expr, Expr]:
            return at(x, (*index[:axis], first + k, *index[axis + 1 :])), at(weights, (new, as_int(k)))

        value, weight = term(0)
        total = value * weight
        for k in range(1, count):
            total = E.fma(*term(k), total)
        return total

    return compute(applied.name, applied.output.shape, body)


_UP, _DOWN = (1, 8, 10, 2), (1, 3, 2, 2)
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "resize",
        "The tensor sampled at another size; positions outside it take the nearest edge.",
        single(_type),
        _resize,
        Fusion.INJECTIVE,
        (
            Attribute("sizes", "dims", "the result's dimensions"),
            Attribute("scales", "floats", "result / operand, per dimension"),
            Attribute("mode", "string", "how samples are made", "nearest", ("nearest", "linear", "cubic")),
            Attribute("transform", "string", "which source position an element has", "half_pixel", TRANSFORMS),
            Attribute(
                "rounding",
                "string",
                "which neighbour is the nearest",
                "round_prefer_floor",
                ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
            ),
            Attribute("cubic_coefficient", "float", "the cubic kernel's parameter", -0.75),
        ),
        cases=tuple(
            case(
                ("float32", (1, 4, 5, 2)),
                sizes=sizes,
                scales=tuple(b / a for a, b in zip((1, 4, 5, 2), sizes, strict=True)),
                mode=mode,
                transform=transform,
            )
            for sizes in (_UP, _DOWN)
            for mode, transform in (
                ("nearest", "asymmetric"),
                ("linear", "half_pixel"),
                ("linear", "align_corners"),
                ("cubic", "half_pixel"),
            )
        )
        + tuple(
            case(
                ("float32", (1, 2, 5, 20)),
                sizes=(1, 2, rows, columns),
                scales=(1.0, 1.0, rows / 5, columns / 20),
                mode=mode,
                transform="align_corners",
            )
            for rows, columns in ((7, 33), (3, 13))
            for mode in ("linear", "cubic")
        ),
    ),
    Operator(
        "weigh_neighbours",
        "Sums of neighbours along an axis: of each new position, those from its entry of the second operand on times "
        "its row of the third.",
        single(_neighbours_type),
        _neighbours,
        Fusion.OPAQUE,
        (Attribute("axis", "int", "of the neighbours"),),
        cases=(
            case(("float32", (2, 7, 5)), np.array([0, 3, 4, 1], np.int32), ("float32", (4, 3)), axis=1),
            case(("float64", (6, 3)), np.array([5, 0], np.int64), ("float64", (2, 1)), axis=0),
        ),
    ),
)
