"""Convolutions by minimal filtering: transforms of tiles, between which a convolution is products of few places.

A tile of m outputs of a filter of r taps reads n = m + r - 1 inputs d. Along one dimension its outputs are
A^T [(G g) * (B^T d)]: n products where the definition has m r. In several dimensions the transforms apply to each one
after the other, and what is multiplied are n_1 n_2 ... *places*. Summed over the channels, the product of a place is a
matrix product of its own (A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural Networks, 2016).

`winograd_input` is B^T d of all tiles, `winograd_output` is A^T of the products' results, and `filter_places` is G g,
for when the model is compiled. The matrices follow from the points at which polynomials are evaluated (Toom and Cook):
0, pairs of a number and its negative, and infinity. Points of a pair share the even and the odd part of every sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from sterna.ir.graph import Array, TensorType
from sterna.ir.integer import Int, as_int
from sterna.ops.formulas import at
from sterna.ops.operator import Application, Attribute, Fusion, Operator, Types, case, unfit
from sterna.ops.types import check_dtype, present, single
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Tensor, compute

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]

#: Pairs of points of tiles, by how many there are: the smallest rounding errors among simple numbers.
_PAIRS: tuple[tuple[Fraction, ...], ...] = tuple(
    tuple(map(Fraction, pairs)) for pairs in ((), ("1",), ("1", "2"), ("1", "2", "1/2"))
)
#: The most inputs that a tile may have along a dimension: 0, three pairs and infinity.
MOST_INPUTS = 2 * len(_PAIRS)


@dataclass(frozen=True)
class Transforms:
    """The matrices of F(outputs, taps) along one dimension: of inputs B^T, of filters G, of outputs A^T."""

    inputs: Matrix
    filters: Matrix
    outputs: Matrix


@cache
def transforms(outputs: int, taps: int) -> Transforms:
    """The transforms of tiles of so many outputs, for filters of so many taps; n = outputs + taps - 1 is even, or 1.

    The rows of a pair's points differ in the signs of every other number.
    """
    count = outputs + taps - 1
    if count == 1:
        one: Matrix = ((Fraction(1),),)
        return Transforms(one, one, one)
    points = [Fraction(0)]
    for pair in _PAIRS[count // 2 - 1]:
        points += [pair, -pair]
    inputs, filters = [], []
    for n, point in enumerate(points):
        others = points[:n] + points[n + 1 :]
        inputs.append(_roots(others, count))
        scale = prod((point - other for other in others), start=Fraction(1))
        filters.append(tuple(point**k / scale for k in range(taps)))
    inputs.append(_roots(points, count))
    filters.append((*[Fraction(0)] * (taps - 1), Fraction(1)))
    last = [Fraction(0)] * (outputs - 1) + [Fraction(1)]
    rows = tuple((*(point**k for point in points), last[k]) for k in range(outputs))
    return Transforms(tuple(inputs), tuple(filters), rows)


def _roots(roots: Sequence[Fraction], count: int) -> Row:
    """The coefficients of the polynomial with these roots and the leading coefficient 1, from the lowest on."""
    numbers = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *numbers], [*numbers, Fraction(0)]
        numbers = [a - root * b for a, b in zip(shifted, scaled, strict=True)]
    return (*numbers, *[Fraction(0)] * (count - len(numbers)))


def places(outputs: Sequence[int], taps: Sequence[int]) -> int:
    """The products of a tile and a channel."""
    return prod(m + r - 1 for m, r in zip(outputs, taps, strict=True))


def filter_places(weights: Array, outputs: Sequence[int]) -> Array:
    """G g in double precision: filters (taps..., C, K) as (places, C, K)."""
    turned = weights.astype(np.float64)
    for d, (m, r) in enumerate(zip(outputs, weights.shape[: len(outputs)], strict=True)):
        matrix = np.array([[float(n) for n in row] for row in transforms(m, r).filters])
        turned = np.moveaxis(np.tensordot(matrix, turned, axes=(1, d)), 0, d)
    return turned.reshape(-1, *weights.shape[-2:])


# ---------------------------------------------------------------- formulas
def _sum(numbers: Sequence[Fraction], values: Sequence[Expr]) -> Expr | None:
    """The sum of the products; None where all numbers are 0."""
    terms = [(number, value) for number, value in zip(numbers, values, strict=True) if number]
    terms.sort(key=lambda term: (abs(term[0]) != 1, term[0] < 0))  # What is only added comes first.
    total: Expr | None = None
    for number, value in terms:
        if total is None:
            total = value if number == 1 else value * float(number)
        elif abs(number) == 1:
            total = total + value if number > 0 else total - value
        else:
            total = E.fma(E.const(float(number), value.dtype), value, total)
    return total


def _in_halves(numbers: Sequence[Fraction], values: Sequence[Expr]) -> Expr:
    """The sum of the products as an even and an odd part, of which the points of a pair have the same."""
    even, odd = _sum(numbers[0::2], values[0::2]), numbers[1::2]
    negative = next((number < 0 for number in odd if number), False)
    rest = _sum([-number for number in odd] if negative else odd, values[1::2])
    if even is None or rest is None:
        only = rest if even is None else even
        assert only is not None
        return -only if even is None and negative else only
    return even - rest if negative else even + rest


def _by_points(numbers: Sequence[Fraction], values: Sequence[Expr]) -> Expr:
    """The sum of the products of one row of A^T, by points: 0, pairs, infinity; a pair's sum or difference first."""
    if len(numbers) == 1:
        return values[0]
    alone = [(numbers[0], values[0]), (numbers[-1], values[-1])]
    for n in range(1, len(numbers) - 1, 2):
        plus, minus = values[n], values[n + 1]
        alone.append((numbers[n], plus + minus if numbers[n] == numbers[n + 1] else plus - minus))
    total = _sum([number for number, _ in alone], [value for _, value in alone])
    assert total is not None
    return total


def _chosen(index: Int, choices: Sequence[Expr]) -> Expr:
    """One of several values, by a position."""
    *first, value = choices
    for n, choice in reversed(list(enumerate(first))):
        value = E.select(E.compare("eq", E.index_value(index), n), choice, value)
    return value


def _transformed(
    matrices: Sequence[Matrix],
    rows: Sequence[Int],
    combine: Callable[[Row, Sequence[Expr]], Expr],
    element: Callable[[tuple[int, ...]], Expr],
    fixed: tuple[int, ...] = (),
) -> Expr:
    """An element of a tile after a transform along every dimension: of row `rows[d]` of every matrix."""
    if len(fixed) == len(matrices):
        return element(fixed)
    matrix = matrices[len(fixed)]
    values = [_transformed(matrices, rows, combine, element, (*fixed, n)) for n in range(len(matrix[0]))]
    return _chosen(rows[len(fixed)], [combine(row, values) for row in matrix])


def _mixed(index: Int, sizes: Sequence[int]) -> list[Int]:
    """A position among several dimensions as one along each."""
    found: list[Int] = []
    for size in reversed(sizes):
        found.insert(0, index % size)
        index = index // size
    return found


# ---------------------------------------------------------------- operators
_OUTPUTS = Attribute("outputs", "ints", "outputs of a tile, per spatial dimension")
_TAPS = Attribute("taps", "ints", "the filter's size, per spatial dimension")


def _tile(attributes: Mapping[str, Any], spatial: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Outputs, taps and inputs of a tile, per dimension.

    Raises:
        SternaError: E0108, there are no transforms of that size.
    """
    outputs, taps = tuple(attributes["outputs"]), tuple(attributes["taps"])
    if len(outputs) != spatial or len(taps) != spatial:
        raise unfit(f"a tile needs outputs and taps for {spatial} spatial dimensions")
    inputs = tuple(m + r - 1 for m, r in zip(outputs, taps, strict=True))
    for m, r, n in zip(outputs, taps, inputs, strict=True):
        if m < 1 or r < 1 or (n != 1 and (n % 2 or n > MOST_INPUTS)):
            raise unfit(f"there is no transform of {m} outputs and {r} taps")
    return outputs, taps, inputs


def _tiles(type_: TensorType, attributes: Mapping[str, Any]) -> tuple[Int, ...]:
    """Tiles along every spatial dimension of an input that holds whole ones."""
    outputs, taps, _ = _tile(attributes, type_.rank - 2)
    return tuple((size - (r - 1)) // m for size, m, r in zip(type_.shape[1:-1], outputs, taps, strict=True))


def _product(sizes: Sequence[Int]) -> Int:
    return prod(sizes, start=as_int(1))


def _input_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, ("float32", "float64"))
    if not 3 <= x.rank <= 4:
        raise unfit(f"takes tensors of 3 or 4 dimensions (batch, 1 or 2 spatial, channels), not {x.rank}")
    outputs, taps, inputs = _tile(attributes, x.rank - 2)
    tiles = _tiles(x, attributes)
    for size, count, m, r in zip(x.shape[1:-1], tiles, outputs, taps, strict=True):
        if count * m + (r - 1) != size or (count.bounds()[0] or 0) < 1:
            raise unfit(f"{size} elements are not a whole number of tiles of {m} outputs and {r} taps")
    return TensorType(x.dtype, (as_int(prod(inputs)), _product((x.shape[0], *tiles)), x.shape[-1]))


def _input(applied: Application) -> Tensor:
    x = applied.input(0)
    outputs, taps, inputs = _tile(applied.attributes, len(x.shape) - 2)
    tiles = _tiles(TensorType(x.dtype, x.shape), applied.attributes)
    matrices = [transforms(m, r).inputs for m, r in zip(outputs, taps, strict=True)]

    def element(place: Int, tile: Int, channel: Int) -> Expr:
        position: list[Int] = []
        for count in reversed(tiles):
            position.insert(0, tile % count)
            tile = tile // count
        steps = list(zip(position, outputs, strict=True))

        def load(within: tuple[int, ...]) -> Expr:
            return at(x, (tile, *(p * m + n for (p, m), n in zip(steps, within, strict=True)), channel))

        return _transformed(matrices, _mixed(place, inputs), _in_halves, load)

    return compute(applied.name, applied.output.shape, element, ["p", "t", "c"])


def _output_type(types: Types, attributes: Mapping[str, Any]) -> TensorType:
    (x,) = present(types, 0)
    check_dtype(x.dtype, ("float32", "float64"))
    sizes = tuple(map(as_int, attributes["sizes"]))
    outputs, _, inputs = _tile(attributes, len(sizes) - 1)
    tiles = [-(-size // m) for size, m in zip(sizes[1:], outputs, strict=True)]
    if x.rank != 3 or x.shape[0] != prod(inputs) or x.shape[1] != _product((sizes[0], *tiles)):
        raise unfit(f"{x} does not hold the {prod(inputs)} places of the tiles of {', '.join(map(str, sizes))}")
    return TensorType(x.dtype, (*sizes, x.shape[-1]))


def _output(applied: Application) -> Tensor:
    x = applied.input(0)
    _, *sizes, _ = applied.output.shape
    outputs, taps, inputs = _tile(applied.attributes, len(sizes))
    matrices = [transforms(m, r).outputs for m, r in zip(outputs, taps, strict=True)]
    tiles = [-(-size // m) for size, m in zip(sizes, outputs, strict=True)]

    def element(batch: Int, *rest: Int) -> Expr:
        *position, channel = rest
        tile = batch
        for p, m, count in zip(position, outputs, tiles, strict=True):
            tile = tile * count + p // m

        def load(within: tuple[int, ...]) -> Expr:
            place = 0
            for n, size in zip(within, inputs, strict=True):
                place = place * size + n
            return at(x, (as_int(place), tile, channel))

        rows = [p % m for p, m in zip(position, outputs, strict=True)]
        return _transformed(matrices, rows, _by_points, load)

    names = ("w",) if len(sizes) == 1 else ("h", "w")
    return compute(applied.name, applied.output.shape, element, ["n", *names, "co"])


F = "float32"
_TILES = tuple(product((2, 4, 6), (3,)))
OPERATORS: tuple[Operator, ...] = (
    Operator(
        "winograd_input",
        "The places of all tiles of an input, channels last, of which each is a matrix of tiles and channels: "
        "the first transform of a convolution by minimal filtering.",
        single(_input_type),
        _input,
        Fusion.COMPLEX,
        (_OUTPUTS, _TAPS),
        cases=(
            *(case((F, (2, m + r - 1, 2 * m + r - 1, 5)), outputs=(m, m), taps=(r, r)) for m, r in _TILES),
            case((F, (1, 10, 3)), outputs=(4,), taps=(3,)),
            case((F, (1, 8, 3, 4)), outputs=(2, 1), taps=(5, 1)),
        ),
    ),
    Operator(
        "winograd_output",
        "What the places of a convolution's tiles, multiplied, add up to: the last transform of a convolution by "
        "minimal filtering. What of the last tiles lies beyond the result is left out.",
        single(_output_type),
        _output,
        Fusion.COMPLEX,
        (_OUTPUTS, _TAPS, Attribute("sizes", "dims", "batch and spatial sizes of the result")),
        cases=(
            *(
                case((F, ((m + r - 1) ** 2, 4, 5)), outputs=(m, m), taps=(r, r), sizes=(2, m, 2 * m - 1))
                for m, r in _TILES
            ),
            case((F, (6, 3, 17)), outputs=(4,), taps=(3,), sizes=(1, 10)),
            case((F, (6, 6, 4)), outputs=(2, 1), taps=(5, 1), sizes=(1, 4, 3)),
        ),
    ),
)  # fmt: skip
