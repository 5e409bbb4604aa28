"""Integer quotients by float division: exact for every pair of every width."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.loops.quotients import divide_by_floats
from sterna.schedule.strategies.analysis import Context
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.division import QUOTIENTS
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder

Array = np.ndarray[Any, Any]
WIDTHS = (8, 16, 32, 64)
DTYPES = tuple(f"{sign}int{width}" for width in WIDTHS for sign in ("", "u"))


def divided(op: str, a: Array, b: Array) -> Array:
    x, y = placeholder("x", a.shape, str(a.dtype)), placeholder("y", b.shape, str(b.dtype))

    def body(i: Any) -> E.Expr:
        node = E.binary(op, x[i], y[i])
        assert isinstance(node, E.Binary)
        return divide_by_floats(node)

    with np.errstate(all="ignore"):
        return run_kernel(Kernel("k", (x, y), (), (compute("z", a.shape, body),)), {"x": a, "y": b})["z"]


def expected(op: str, a: int, b: int, dtype: str) -> int:
    """By Python's unlimited integers, wrapped to the type."""
    if b == 0:
        return 0
    quotient = a // b
    if op == "div" and quotient < 0 and a % b:
        quotient += 1
    value = a % b if op == "mod" else quotient
    info = np.iinfo(dtype)
    return (value - int(info.min)) % (int(info.max) - int(info.min) + 1) + int(info.min)


def compare(op: str, a: Array, b: Array) -> None:
    found = divided(op, a, b)
    wanted = [expected(op, int(x), int(y), str(a.dtype)) for x, y in zip(a, b, strict=True)]
    wrong = [(int(x), int(y), int(f), w) for x, y, f, w in zip(a, b, found, wanted, strict=True) if int(f) != w]
    assert not wrong, f"{op} of {a.dtype}: {wrong[:5]}"


@pytest.mark.parametrize("op", QUOTIENTS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_pair_of_bytes(dtype: str, op: str) -> None:
    info = np.iinfo(dtype)
    every = np.arange(int(info.min), int(info.max) + 1).astype(dtype)
    compare(op, np.repeat(every, 256), np.tile(every, 256))


@pytest.mark.parametrize("op", QUOTIENTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_multiples_and_their_neighbours(dtype: str, op: str) -> None:
    """Where a rounded quotient could come to lie on the other side of a whole number: at multiples, and beside them;
    ends of the range; and numbers of every magnitude."""
    info, random = np.iinfo(dtype), np.random.default_rng(5)
    sizes = 2.0 ** random.uniform(0, info.bits, 3000)
    signs = random.choice([-1, 1], 3000) if info.min < 0 else np.ones(3000, int)
    low, high = int(info.min), int(info.max)
    numbers = [min(max(int(size) * int(sign), low), high) for size, sign in zip(sizes, signs, strict=True)]
    ends = (low, high, -1, 0, 1, 3)
    pairs = [(a, b) for a in ends for b in ends]
    pairs += pairwise(numbers)
    for b in numbers[:1000]:
        if b:
            times = int(random.random() * (high // abs(b) + 1))
            pairs += [(times * b + beside, b) for beside in (-1, 0, 1)]
    pairs = [(a, b) for a, b in pairs if low <= a <= high and low <= b <= high]
    compare(op, np.array([a for a, _ in pairs], dtype), np.array([b for _, b in pairs], dtype))


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    info = np.iinfo(draw(st.sampled_from(DTYPES)))
    numbers = st.lists(st.integers(int(info.min), int(info.max)), min_size=4, max_size=4)
    return np.array(draw(numbers), info.dtype), np.array(draw(numbers), info.dtype)


@given(pairs=_pairs(), op=st.sampled_from(QUOTIENTS))
def test_any_pair(pairs: tuple[Array, Array], op: str) -> None:
    compare(op, *pairs)


@pytest.mark.parametrize(
    ("target", "dtype", "vectors"),
    [
        ("x86-64-v3", "int64", False),
        ("x86-64-v4", "int64", True),
        ("arm64", "uint64", False),
        ("browser", "int32", True),
    ],
)
def test_long_quotients_are_vectors_where_they_can_be_converted(target: str, dtype: str, vectors: bool) -> None:
    """By a constant, and of fewer bits, they are vectors everywhere."""
    x, y = (placeholder(name, (64,), dtype) for name in "xy")
    divided = Kernel("k", (x, y), (), (compute("z", (64,), lambda i: E.binary("div", x[i], y[i])),))
    seven = compute("seven", (64,), lambda i: E.const(7, dtype))
    context = Context(load_target(target))
    assert (context.lanes(divided) > 1) == vectors
    for by in (lambda i: E.const(7, dtype), lambda i: seven[i]):
        known = Kernel("k", (x,), (), (compute("z", (64,), lambda i, by=by: E.binary("div", x[i], by(i)), axes=["i"]),))
        assert context.lanes(known) > 1
