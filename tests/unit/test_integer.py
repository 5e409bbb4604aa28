"""Symbolic integers against brute force: canonical forms keep the value, bounds contain it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from sterna.ir.division import ceil_div, divide_exactly
from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import Atom, FloorDiv, Int, Symbol, as_int, of, symbol
from sterna.ir.remainders import between, rejoined

RANGES = {"a": (0, 5), "b": (-3, 2), "c": (0, 0), "d": (2, 9)}
SYMBOLS = {name: symbol(name, lo, hi) for name, (lo, hi) in RANGES.items()}
ATOMS: dict[Atom, str] = {atom: n for n, s in SYMBOLS.items() for atom in s.atoms()}
GRID = itertools.product(*(range(lo, hi + 1) for lo, hi in RANGES.values()))
POINTS = [dict(zip(RANGES, p, strict=True)) for p in GRID]

#: An expression in two forms: the canonical integer and a plain function of the symbols' values.
Pair = tuple[Int, Callable[[dict[str, int]], int]]


def _binary(kind: str, x: Pair, y: Pair) -> Pair:
    (s, f), (t, g) = x, y
    if kind == "+":
        return s + t, lambda p: f(p) + g(p)
    if kind == "-":
        return s - t, lambda p: f(p) - g(p)
    if kind == "*":
        return s * t, lambda p: f(p) * g(p)
    if kind == "min":
        return minimum(s, t), lambda p: min(f(p), g(p))
    return maximum(s, t), lambda p: max(f(p), g(p))


def _divided(kind: str, x: Pair, d: int) -> Pair:
    s, f = x
    if kind == "//":
        return s // d, lambda p: f(p) // d
    if kind == "%":
        return s % d, lambda p: f(p) % d
    return ceil_div(s, d), lambda p: -(-f(p) // d)


def _grow(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        st.builds(_binary, st.sampled_from(["+", "+", "-", "*", "min", "max"]), inner, inner),
        st.builds(_divided, st.sampled_from(["//", "%", "ceil"]), inner, st.sampled_from([1, 2, 3, 4, 6, 8, 12])),
        st.builds(lambda x, c: (x[0] * c, lambda p: x[1](p) * c), inner, st.sampled_from([-4, -1, 2, 3, 4, 8])),
    )


LEAVES: st.SearchStrategy[Pair] = st.one_of(
    st.sampled_from([(s, lambda p, n=n: p[n]) for n, s in SYMBOLS.items()]),
    st.integers(-9, 9).map(lambda c: (as_int(c), lambda p: c)),
)
EXPRESSIONS = st.recursive(LEAVES, _grow, max_leaves=9)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS)
def test_values_and_bounds(pair: Pair) -> None:
    canonical, plain = pair
    lo, hi = canonical.bounds()
    for point in POINTS:
        value = canonical.evaluate(lambda atom, p=point: p[ATOMS[atom]])
        assert value == plain(point), f"{canonical} at {point}"
        inside = (lo is None or lo <= value) and (hi is None or value <= hi)
        assert inside, f"{canonical} at {point}: [{lo}, {hi}]"


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_substitution(pair: Pair, replacement: Pair) -> None:
    canonical, plain = pair
    other, value = replacement
    ((a, _),) = [(atom, n) for atom, n in ATOMS.items() if n == "d"]
    # A symbol stands for its range: only what stays inside may take its place.
    other = maximum(minimum(other, 9), 2)
    substituted = canonical.substitute({a: other})
    for point in POINTS[::7]:
        inside = {**point, "d": max(min(value(point), 9), 2)}
        assert substituted.evaluate(lambda atom, p=point: p[ATOMS[atom]]) == plain(inside)


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS)
def test_evaluation_over_arrays(pair: Pair) -> None:
    canonical, plain = pair
    columns = {n: np.array([p[n] for p in POINTS]) for n in RANGES}
    values: Any = canonical.evaluate(lambda atom: columns[ATOMS[atom]])
    np.testing.assert_array_equal(np.broadcast_to(values, len(POINTS)), [plain(p) for p in POINTS])


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_sums_and_products_do_not_depend_on_order(x: Pair, y: Pair) -> None:
    assert x[0] * y[0] == y[0] * x[0]
    assert hash(x[0] * y[0]) == hash(y[0] * x[0])
    assert x[0] - x[0] == 0


def test_symbols_of_one_name_are_in_one_order() -> None:
    """Loops of two kernels that are fused may have one name."""
    a, b, c = (of(Symbol("i", 0, hi)) for hi in (9, 5, 7))
    assert a * b == b * a
    assert (a // 2) * (b // 2) * c == c * (b // 2) * (a // 2)
    assert (a + b) * (a - b) == a * a - b * b


def test_splitting_and_fusing_cancel() -> None:
    f = symbol("f", 0, 111)
    outer, inner = symbol("o", 0, 7), symbol("i", 0, 13)
    assert (f // 14) * 14 + f % 14 == f
    assert (outer * 14 + inner) // 14 == outer
    assert (outer * 14 + inner) % 14 == inner
    assert (f // 4) // 7 == f // 28
    assert (outer * 28 + inner * 2) // 4 == outer * 7 + inner // 2
    assert (f // 4 % 7) * 4 + f // 28 * 28 == (f // 4) * 4


def test_divisors_must_be_positive_constants() -> None:
    with pytest.raises(ValueError, match="division"):
        symbol("x", 0, 3) // 0
    with pytest.raises(ValueError, match="not a constant"):
        symbol("x", 0, 3) // symbol("y", 1, 3)


@given(st.integers(1, 9), st.integers(1, 130), st.integers(1, 70), st.integers(0, 40), st.integers(0, 69))
def test_between_two_quotients_is_what_lies_between(c: int, divisor: int, many: int, block: int, own: int) -> None:
    """Also where a factor that the block's own size shares with the divisor was cancelled."""
    o, r = Symbol("o", 0, 40), Symbol("r", 0, many - 1)
    begin = of(o) * many
    apart = ((begin + of(r)) // divisor - begin // divisor) * c + 3
    found = between(apart)
    low, high = found.bounds()
    assert low is not None
    assert high is not None
    assert (low, high) >= (3, 3)
    assert high <= 3 + c * ((many - 1 + divisor - 1) // divisor)
    place = {o: block, r: own % many}
    assert found.evaluate(place.__getitem__) == apart.evaluate(place.__getitem__)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 40), st.integers(0, 40))
def test_what_was_taken_apart_is_rejoined(b: int, c: int, first: int, place: int) -> None:
    """A dense position, by the axes that were fused."""
    x = Symbol("x", 0, 50)
    fused = of(x) + first
    rows = fused // c
    position = (rows // b) * (b * c) + (rows % b) * c + fused % c
    assert rejoined(position) == fused
    other = (rows // b) * (b * c + 1) + (rows % b) * c + fused % c
    assert rejoined(other).evaluate(lambda _: place) == other.evaluate(lambda _: place)


@st.composite
def polynomials(draw: st.DrawFn) -> Int:
    """Of up to three terms of sizes, with a constant."""
    total = as_int(draw(st.integers(-4, 4)))
    for _ in range(draw(st.integers(0, 3))):
        term = as_int(draw(st.integers(-4, 4)))
        for name in draw(st.lists(st.sampled_from("abd"), min_size=1, max_size=2)):
            term = term * SYMBOLS[name]
        total = total + term
    return total


@given(polynomials(), polynomials(), st.integers(1, 7))
def test_products_are_divided_by_their_factors(a: Int, b: Int, more: int) -> None:
    """Sums too, such as lengths of what was kept and of what is new; and nothing else is."""
    if not b.terms:
        return
    assert divide_exactly(a * b, b) == a
    other = divide_exactly(a * b + more, b)
    assert other is None or other * b == a * b + more


def test_halves_of_halves_are_one_quotient() -> None:
    """Sizes of layers with steps, one after another, are the same as of one with all steps."""
    x = symbol("x", 1, 4096)
    half = ceil_div(ceil_div(x, 2), 2)
    assert half == ceil_div(x, 4) == (x + 3) // 4
    assert ((half - 1) // 2 + 1) == (x + 7) // 8
    assert (x // 3 - 2) // 5 == (x - 6) // 15


def test_remainders_within_a_remainder_of_a_factor_go() -> None:
    w, n = symbol("w", 8, 50), symbol("n", 0, 9)
    assert (w - w % 2) % 2 == 0
    assert (w % 8 + n) % 4 == (w + n) % 4
    assert (n - w % 6 * 5) % 3 == (n - w * 5) % 3
    assert (w % 6 + n) % 4 != (w + n) % 4


def test_what_is_made_one_quotient_stays_within_32_bits() -> None:
    """Of a split "in tiles of all of it": generated code computes with int32, where the merged divisor would be 0."""
    x = symbol("x")
    quotient = next(ceil_div(ceil_div(x, 4), 1 << 30).atoms())
    assert isinstance(quotient, FloorDiv)
    assert quotient.divisor == 1 << 30
    assert quotient.value == (x + 3) // 4 + (1 << 30) - 1
