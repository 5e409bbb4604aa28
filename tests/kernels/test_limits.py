"""Vectors of floats that a target does not compare: what limits them is extrema, and functions that only limit their
arguments are computed in vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from sterna.ir import dtypes
from sterna.ir.integer import Int
from sterna.loops import program as P
from sterna.loops.finish import Arithmetic, finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import compares_floats
from sterna.te import expr as E
from sterna.te.tensor import Kernel, compute, placeholder

FLOATS = st.one_of(st.floats(width=32), st.sampled_from((0.0, -0.0, 1.0, -1.0)))


def of_function(op: str, count: int = 24) -> Schedule:
    x = placeholder("x", (count,))
    return in_vectors(Kernel("k", (x,), (), (compute("y", x.shape, lambda i: E.unary(op, x[i])),)))


def in_vectors(kernel: Kernel) -> Schedule:
    schedule = Schedule(kernel)
    (axis,) = schedule.stages["y"].leaves
    schedule.split("y", axis, 4)
    schedule.vectorize("y", f"{axis}.i")
    return schedule


def result(function: P.Function, x: ArrayLike) -> np.ndarray:
    memory = {"x": np.asarray(x, np.float32), "y": np.zeros(np.size(x), np.float32)}
    run_function(function, memory)
    return memory["y"]


def comparisons(function: P.Function) -> list[E.Expr]:
    """Of vectors of floats."""
    values = [v for s in P.walk(function.body) if (v := P.value_of(s)) is not None]
    found = (node for value in values for node in E.walk(value) if isinstance(node, E.Compare))
    return [node for node in found if node.lanes > 1 and dtypes.is_float(node.a.dtype)]


@pytest.mark.parametrize("op", ["exp", "sigmoid", "tanh", "erf"])
def test_functions_that_only_limit_their_argument(op: str) -> None:
    schedule = of_function(op)
    assert not compares_floats(schedule.kernel)
    assert comparisons(finish(lower(schedule)))
    function = finish(lower(schedule), Arithmetic(comparisons=False))
    assert not comparisons(function)
    x = np.concatenate([[np.nan, np.inf, -np.inf, 0.0, -0.0, 88.0, -104.0], np.linspace(-12, 12, 17)])
    found, want = (result(each, x) for each in (function, finish(lower(schedule))))
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("op", ["log", "expm1", "log1p"])
def test_functions_that_compare_otherwise(op: str) -> None:
    assert compares_floats(of_function(op).kernel)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(("lt", "gt")), st.floats(width=32, allow_nan=False), st.lists(FLOATS, min_size=4, max_size=4))
def test_a_limit_is_an_extremum(relation: str, limit: float, numbers: list[float]) -> None:
    """Whatever the numbers: NaN stays NaN. (Of zeros of both signs either may be the result.)"""
    x = placeholder("x", (4,))

    def limited(i: Int) -> E.Expr:
        bound = E.const(limit, "float32")
        return E.select(E.compare(relation, x[i], bound), bound, x[i])

    schedule = in_vectors(Kernel("k", (x,), (), (compute("y", x.shape, limited),)))
    function = finish(lower(schedule), Arithmetic(comparisons=False))
    assert not comparisons(function)
    np.testing.assert_array_equal(result(function, numbers), result(lower(schedule), numbers))


def leaky(slope: float) -> Schedule:
    x = placeholder("x", (24,))
    body = lambda i: E.select(x[i] < 0.0, slope * x[i], x[i])  # noqa: E731
    return in_vectors(Kernel("k", (x,), (), (compute("y", x.shape, body),)))


@pytest.mark.parametrize("slope", [0.01, 0.3, 0.999])
def test_a_leaky_rectifier_is_the_greater_of_both(slope: float) -> None:
    """Bit for bit, of infinities, subnormal numbers and both zeros, too."""
    schedule = leaky(slope)
    assert not compares_floats(schedule.kernel)
    function = finish(lower(schedule), Arithmetic(comparisons=False))
    assert not comparisons(function)
    x = np.concatenate([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, -3e38], np.linspace(-2, 2, 16)])
    found, want = (result(each, x) for each in (function, finish(lower(schedule))))
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found[1:]), np.signbit(want[1:]))


@pytest.mark.parametrize("slope", [0.0, -0.5, 1.5])
def test_other_slopes_are_compared(slope: float) -> None:
    """0 times infinity is no number, and the others are the lesser below 0."""
    assert compares_floats(leaky(slope).kernel)
