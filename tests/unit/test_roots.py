"""Square roots by integers: NumPy's, bit for bit, and none is left to a function of libm."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from sterna.loops.roots import square_root
from sterna.targets.description import load_target, target_names
from sterna.targets.features import without_roots
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder

Array = np.ndarray[Any, Any]
#: Every mantissa with both parities of the exponent, or every 61st.
ALL = os.environ.get("STERNA_FIRMWARE") == "all"


def roots(x: Array) -> Array:
    given = placeholder("x", x.shape, str(x.dtype))

    def body(i: Any) -> E.Expr:
        node = E.unary("sqrt", given[i])
        assert isinstance(node, E.Unary)
        return square_root(node)

    z = compute("z", x.shape, body)
    return run_kernel(Kernel("k", (given,), (), (z,)), {"x": x})["z"]


def check(x: Array) -> None:
    with np.errstate(all="ignore"):
        got, wanted = roots(x), np.sqrt(x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    same = np.isnan(wanted) | (got.view(f"u{x.itemsize}") == wanted.view(f"u{x.itemsize}"))
    assert same.all(), x[~same][:8]


def words(dtype: str) -> Array:
    """The ends of every exponent, powers of two of the mantissa, both zeros, infinities, NaN and negative numbers."""
    kind = np.dtype(dtype)
    mantissa = np.finfo(kind).nmant
    word = np.uint32 if kind.itemsize == 4 else np.uint64
    fields = np.arange(1 << (8 * kind.itemsize - mantissa), dtype=word) << word(mantissa)
    ends = [word(n) for n in (0, 1, 2, 3, (1 << mantissa) - 1, (1 << mantissa) - 2)]
    ends += [word(1 << n) for n in range(mantissa)]
    return np.concatenate([fields + each for each in ends]).view(kind)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_every_exponent(dtype: str) -> None:
    check(words(dtype))


@pytest.mark.parametrize("exponent", [126, 127])
def test_of_every_mantissa(exponent: int) -> None:
    """The root's mantissa depends on nothing but the number's and the parity of its exponent."""
    begin = exponent << 23
    for start in range(begin, begin + (1 << 23), 1 << 21):
        check(np.arange(start, start + (1 << 21), 1 if ALL else 61, np.uint32).view(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_numbers_at_random_and_close_to_squares(dtype: str) -> None:
    """Roots that lie next to the middle of two numbers are those that a wrong last bit would be seen in."""
    random = np.random.default_rng(3)
    word, half = (np.uint32, np.uint32(12)) if dtype == "float32" else (np.uint64, np.uint64(26))
    kind = np.dtype(dtype)
    any_word = random.integers(0, np.iinfo(word).max, 40_000, word, endpoint=True)
    check(any_word.view(kind))
    halves = np.abs(any_word.view(kind))
    halves = halves[np.isfinite(halves) & (halves < np.sqrt(np.finfo(kind).max))]
    middle = (halves.view(word) >> half << half | word(1) << (half - word(1))).view(kind)
    with np.errstate(under="ignore"):
        squares = (middle * middle).view(word)
    check(np.concatenate([squares - word(1), squares, squares + word(1)]).view(kind))


def test_which_targets_have_none() -> None:
    """Microcontrollers alone: without an FPU none, with one of single precision none of float64."""
    found = {name: set(without_roots(load_target(name))) for name in target_names()}
    both, double = {"float32", "float64"}, {"float64"}
    expected = {
        **dict.fromkeys(("cortex-m0plus", "cortex-m3", "cortex-m4-nofpu", "riscv32imc"), both),
        **dict.fromkeys(("cortex-m4", "cortex-m33", "riscv32imafc"), double),
    }
    assert {name: types for name, types in found.items() if types} == expected
