"""What numbers refute is negative somewhere."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import ONE, Int, Symbol, as_int, of
from sterna.loops.refute import Box, is_refuted, numbers_of
from sterna.te.position import position
from sterna.te.tensor import placeholder

X, Y = Symbol("x", 0, 5), Symbol("y", 2, 6)
x, y = of(X), of(Y)

numbers = st.integers(-4, 4)
integers = st.recursive(
    st.sampled_from([x, y, x * y, as_int(1)]),
    lambda inner: st.one_of(
        st.tuples(inner, inner, numbers).map(lambda t: t[0] + t[1] * t[2]),
        st.tuples(inner, st.integers(2, 4)).map(lambda t: t[0] // t[1]),
        st.tuples(inner, st.integers(2, 4)).map(lambda t: t[0] % t[1]),
        st.tuples(inner, inner).map(lambda t: minimum(*t)),
        st.tuples(inner, inner).map(lambda t: maximum(*t)),
    ),
    max_leaves=5,
)


def least(value: Int) -> int:
    points = product(range(6), range(2, 7))
    return min(int(value.evaluate({X: a, Y: b}.__getitem__)) for a, b in points)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(integers)
def test_what_is_refuted_is_negative_somewhere(value: Int) -> None:
    if is_refuted(value):
        assert least(value) < 0


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(integers, st.integers(1, 3), integers, integers)
def test_a_box_refutes_what_is_negative_somewhere(value: Int, times: int, less: Int, weight: Int) -> None:
    if Box([value, less, weight]).refutes(value, times, less, weight):
        assert least(value * times - less * weight) < 0


def test_wrong_at_the_ends() -> None:
    assert is_refuted(x - 1)
    assert is_refuted(y - x)
    assert is_refuted((y - x * 2) // 3 + 2)
    assert not is_refuted(y - 2)
    assert Box([x, y]).refutes(y, 1, x, ONE)
    assert not Box([x, y]).refutes(y, 3, x, ONE)


def test_what_something_else_decides_is_not_refuted() -> None:
    """Positions that data give, and symbols that are no number."""
    picked = position(placeholder("index", (4,), "int32")[0], 8)
    assert not is_refuted(picked - 1)
    assert not Box([picked, x]).refutes(x, 1, picked, ONE)
    none = Symbol("none", 3, 1)
    assert numbers_of(none) is None
    assert not is_refuted(of(none) - 9)


def test_symbols_without_ends() -> None:
    assert is_refuted(-of(Symbol("size", 0, None)) + 7)
    assert is_refuted(of(Symbol("below", None, 3)) + 20)
    assert is_refuted(of(Symbol("any", None, None)))
