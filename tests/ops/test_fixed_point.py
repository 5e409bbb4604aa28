"""Fixed-point multiplication: the short ways give what the long one gives, wherever they may be used."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.frontends.tflite.fixed_point import multiply
from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.ops.fixed_point import leading_zeros, reciprocal
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder
from support.compiling import input_value, run

MOST = (1 << 30) - 1


def numbers(multiplier: int, right: int) -> np.ndarray:
    """Where results are halfway between integers, beside those, the limits, and random numbers."""
    ties = ((2 * np.arange(-60, 60, dtype=np.int64) + 1) << (right - 1)) * (1 << 31) // max(multiplier, 1)
    near = np.concatenate([ties - 1, ties, ties + 1])
    random = np.random.default_rng(right)
    several = (random.integers(-MOST, MOST, 200), random.integers(-300, 300, 200), [0, 1, -1, MOST, -MOST])
    return np.concatenate([near[np.abs(near) <= MOST], *several]).astype(np.int32)


def product(x: np.ndarray, multiplier: int, right: int, known: str) -> Graph:
    b = Builder()
    v = input_value(b, x)
    operands = (b.constant(np.array(n, np.int32)) for n in (multiplier, right))
    y = b.add("fixed_multiply", v, *operands, range=known)
    return Graph("g", (v,), (y,), tuple(b.nodes), ("y",))


@pytest.mark.parametrize("right", [1, 2, 9, 30, 31])
@pytest.mark.parametrize("multiplier", [1 << 30, (1 << 30) + 1, 1518500250, (1 << 31) - 1])
def test_known_ranges(multiplier: int, right: int) -> None:
    x = numbers(multiplier, right)
    want = multiply(x, multiplier, -right)
    np.testing.assert_array_equal(interpret(product(x, multiplier, right, "any"), {"x": x})["y"], want)
    np.testing.assert_array_equal(interpret(product(x, multiplier, right, "small"), {"x": x})["y"], want)
    for known in ("positive", "small_positive"):
        found = interpret(product(x, multiplier, right, known), {"x": x})["y"]
        np.testing.assert_array_equal(np.maximum(found, 0), np.maximum(want, 0))


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("known", ["any", "small", "small_positive"])
def test_generated_code(known: str, generator: str, tmp_path: object) -> None:
    x = numbers(1518500250, 9)
    graph = product(x, 1518500250, 9, known)
    found = run(graph, {"x": x}, tmp_path, generator)["y"]  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, interpret(graph, {"x": x})["y"])


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_sums_of_what_is_looked_up(generator: str, tmp_path: object) -> None:
    """Elements are looked up one by one, and added to sums that begin as vectors."""
    x = np.random.default_rng(2).integers(-128, 128, (6, 6, 40)).astype(np.int8)
    b = Builder()
    v = input_value(b, x)
    table = np.random.default_rng(3).integers(-128, 128, 256).astype(np.int8)
    found = b.add("cast", b.add("lookup", v, b.constant(table)), to="int32")
    total = b.add("reduce_sum", found, axes=(0, 1), keep_dims=False)
    y = b.add("add", total, b.constant(np.array(3, np.int32)))
    graph = Graph("g", (v,), (y,), tuple(b.nodes), ("y",))
    want = table[x.astype(np.int64) + 128].astype(np.int32).sum((0, 1)) + 3
    np.testing.assert_array_equal(run(graph, {"x": x}, tmp_path, generator)["y"], want)  # type: ignore[arg-type]


def reciprocals(x: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """gemmlowp's, which saturates each step, in 64 bits."""

    def high_product(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
        return (a * b + (1 << 30)) >> 31

    def saturated(a: np.ndarray) -> np.ndarray:
        return np.clip(a, -(1 << 31), (1 << 31) - 1)

    half = (x << zeros) >> 1
    estimate = 1515870810 + high_product(half, -1010580540)
    for _ in range(3):
        missing = (1 << 29) - high_product(half, estimate)
        estimate = estimate + saturated(high_product(estimate, missing) << 2)
    return saturated(estimate << 1)


def test_reciprocals() -> None:
    """Of powers of two, whose reciprocals saturate, numbers beside them, and random ones."""
    powers = 1 << np.arange(31, dtype=np.int64)
    random = np.random.default_rng(4).integers(1, 1 << 31, 5000) >> np.random.default_rng(5).integers(0, 31, 5000)
    x = np.concatenate([powers, powers + 1, np.maximum(powers - 1, 1), random, [(1 << 31) - 1]])
    x = np.minimum(np.maximum(x, 1), (1 << 31) - 1)
    given = placeholder("x", (len(x),), "int32")
    zeros = compute("zeros", (len(x),), lambda i: leading_zeros(given[i]))
    inverse = compute("inverse", (len(x),), lambda i: reciprocal(given[i], zeros[i]))
    found = run_kernel(Kernel("reciprocals", (given,), (), (zeros, inverse)), {"x": x.astype(np.int32)})
    lengths = np.array([int(n).bit_length() for n in x])
    np.testing.assert_array_equal(found["zeros"], 32 - lengths)
    np.testing.assert_array_equal(found["inverse"], reciprocals(x, 32 - lengths))
