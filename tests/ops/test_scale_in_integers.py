"""Scalings of sums as one product of 64 bits: the same numbers as in float64, and as in two roundings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph
from sterna.ops.builder import Builder
from sterna.passes.eliminate_dead_code import eliminate_dead_code
from sterna.passes.scale_in_integers import in_integers, in_two_words, scale_in_integers
from support.compiling import input_value, run


def by_float64(x: np.ndarray, factor: float) -> np.ndarray:
    scaled = x * factor
    return np.asarray(np.sign(scaled) * np.floor(np.abs(scaled) + 0.5))


def by_integers(x: np.ndarray, multiplier: int, shift: int) -> np.ndarray:
    return np.asarray((((x.astype(np.int64) * multiplier) >> 32) + (1 << (shift - 1))) >> shift)


@settings(deadline=None, max_examples=60, derandomize=True, database=None)
@given(st.floats(1e-8, 0.24), st.integers(-128, 127), st.integers(0, 1 << 30))
def test_every_result_of_float64(factor: float, zero: int, seed: int) -> None:
    low, high = -128 - zero, 127 - zero
    found = in_integers(factor, low, high)
    if found is None:
        return
    random = np.random.default_rng(seed)
    near = (np.arange(low - 2, high + 3)[:, None] + 0.5) / factor + np.arange(-2, 3)
    anywhere = random.integers(-(1 << 31), 1 << 31, 500)
    x = np.clip(np.concatenate([near.reshape(-1), anywhere]), -(1 << 31), (1 << 31) - 1).astype(np.int32)
    np.testing.assert_array_equal(np.clip(by_integers(x, *found), low, high), np.clip(by_float64(x, factor), low, high))


@pytest.mark.parametrize("halves", ["even", "away"])
@settings(deadline=None, max_examples=60, derandomize=True, database=None)
@given(st.floats(2.0**-16, 0.234375, width=32), st.integers(-128, 127), st.integers(0, 1 << 30))
@example(0.125, 0, 0)
@example(0.0078125, -128, 0)
def test_every_result_of_float32(halves: str, factor: float, zero: int, seed: int) -> None:
    """ONNX's way: sums and products are rounded to 24 bits, which makes halves of what is near them."""
    low, high = -128 - zero, 127 - zero
    if (found := in_integers(np.float32(factor), low, high, halves)) is None:
        return
    near = (np.arange(low - 2, high + 3)[:, None] + 0.5) / factor + np.arange(-3, 4)
    anywhere = np.random.default_rng(seed).integers(-(1 << 31), 1 << 31, 500)
    x = np.clip(np.concatenate([near.reshape(-1), anywhere]), -(1 << 31), (1 << 31) - 1).astype(np.int32)
    product = x.astype(np.float32) * np.float32(factor)
    expected = np.rint(product) if halves == "even" else np.sign(product) * np.floor(abs(product.astype(float)) + 0.5)
    np.testing.assert_array_equal(np.clip(by_integers(x, *found), low, high), np.clip(expected, low, high))


def test_most_factors_of_float32_are_found() -> None:
    """Small ones are not: sums that are rounded to halves are too many, and go to even numbers."""
    factors = np.random.default_rng(0).uniform(0.002, 0.2, 100).astype(np.float32)
    assert sum(in_integers(factor, -128, 127, "even") is not None for factor in factors) > 95
    assert in_integers(np.float32(1 / 8), -128, 127, "even") is None


def requantized(x: np.ndarray, factors: np.ndarray) -> Graph:
    """int32 to uint8 as ONNX's QLinearConv does it."""
    b = Builder()
    v = input_value(b, x)
    scaled = b.add("mul", b.add("cast", v, to="float32"), b.constant(factors))
    y = b.add("round_to_integer", scaled, to="uint8", zero=117)
    return Graph("requantized", (v,), (y,), tuple(b.nodes), ("y",))


def test_float32_becomes_integers() -> None:
    x = numbers()
    graph = requantized(x, np.array([0.0137, 0.0317, 0.0213], np.float32))
    changed = eliminate_dead_code(scale_in_integers(graph))
    assert [node.op for node in changed.nodes] == ["multiply_shift", "clip", "cast"]
    np.testing.assert_array_equal(interpret(changed, {"x": x})["y"], interpret(graph, {"x": x})["y"])
    kept = scale_in_integers(graph, all_of_them=False)
    assert [node.op for node in kept.nodes] == [node.op for node in graph.nodes]


def test_most_factors_are_found() -> None:
    random = np.random.default_rng(0)
    factors = 10 ** random.uniform(-6, -0.7, 200)
    assert sum(in_integers(float(f), -128, 127) is not None for f in factors) > 180
    # Halves of both signs go away from zero: a multiplier that is larger by the last bit takes them there.
    assert in_integers(0.125, -128, 127) == ((1 << 30) + 1, 1)
    assert in_integers(0.3, -128, 127) is None
    assert in_integers(2.0**-40, -128, 127) is None


@settings(deadline=None, max_examples=60, derandomize=True, database=None)
@given(st.integers(1, 255), st.floats(-2, 2), st.sampled_from([-128, 127]), st.sampled_from([0.0, 1.0]))
@example(116, -1.0, -128, 0.0)
def test_results_that_begin_at_the_ends_of_int32(result: int, beyond: float, zero: int, towards: float) -> None:
    """Results whose first number is the last of int32, or just outside of it."""
    low, high = -128 - zero, 127 - zero
    factor = float(np.nextafter((result - 0.5) / ((1 << 31) + beyond), towards))
    if (found := in_integers(factor, low, high)) is None:
        return
    limits = np.iinfo(np.int32)
    x = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max])
    np.testing.assert_array_equal(np.clip(by_integers(x, *found), low, high), np.clip(by_float64(x, factor), low, high))


def dense(x: np.ndarray, factors: np.ndarray) -> Graph:
    """int32 to int8 as TensorFlow Lite's fully connected layers do it."""
    b = Builder()
    v = input_value(b, x)
    scaled = b.add("mul", b.add("cast", v, to="float64"), b.constant(factors))
    y = b.add("round_to_integer", scaled, to="int8", zero=-7, halves="away")
    return Graph("dense", (v,), (y,), tuple(b.nodes), ("y",))


def conv(x: np.ndarray, known: str, right: list[int]) -> Graph:
    b = Builder()
    v = input_value(b, x)
    # The factor of a channel whose shift is 0 is 0, too.
    multipliers = np.where(np.array(right) == 0, 0, [1518500250, 1 << 30, (1 << 31) - 1])
    operands = [multipliers.astype(np.int32), np.array(right, np.int32)]
    y = b.add("fixed_multiply", v, *map(b.constant, operands), range=known)
    return Graph("conv", (v,), (y,), tuple(b.nodes), ("y",))


def layer(x: np.ndarray, known: str, right: list[int], bias: int) -> Graph:
    """Sums with a bias, scaled to bytes of which the least stands for zero."""
    b = Builder()
    v = input_value(b, x // 4)
    y = b.add("add", v, b.constant(np.array([bias, -7, 1 - bias], np.int32)))
    operands = [np.array([1518500250, 1 << 30, (1 << 31) - 1], np.int32), np.array(right, np.int32)]
    y = b.add("fixed_multiply", y, *map(b.constant, operands), range=known)
    y = b.add("clip", b.add("add", y, b.constant(np.array(-128, np.int32))), min=-128, max=127)
    return Graph("layer", (v,), (y,), tuple(b.nodes), ("y",))


EXTREMES = [-(1 << 31), 1 - (1 << 31), -1, 0, 1, (1 << 31) - 1]


@settings(deadline=None, max_examples=60, derandomize=True, database=None)
@given(
    st.lists(st.one_of(st.sampled_from(EXTREMES), st.integers(-(1 << 31), (1 << 31) - 1)), min_size=1, max_size=20),
    st.one_of(st.just(0), st.just((1 << 31) - 1), st.integers(1 << 30, (1 << 31) - 1)),
    st.integers(1, 31),
    st.sampled_from(["small", "small_positive", "positive"]),
)
@example([5, -5, (1 << 30) - 1], 1518500250, 31, "small")
@example([-(1 << 31), (1 << 31) - 1], (1 << 31) - 1, 31, "positive")
def test_numbers_and_shifts_of_every_size(x: list[int], multiplier: int, right: int, known: str) -> None:
    """Against integers without bounds, whether the pass takes the node or leaves it."""
    if known.startswith("small"):
        x = [n // 4 + (n < 0) for n in x]  # smaller than 2^30 in size
    b, numbers = Builder(), np.array(x, np.int32)
    v = input_value(b, numbers)
    operands = [b.constant(np.array(each, np.int32)) for each in (multiplier, right)]
    y = b.add("fixed_multiply", v, *operands, range=known)
    changed = scale_in_integers(Graph("scaled", (v,), (y,), tuple(b.nodes), ("y",)))
    least = 0 if known.endswith("positive") else -(1 << 31)
    wanted = [max(exact(n, multiplier, right), least) for n in x]
    np.testing.assert_array_equal(np.maximum(interpret(changed, {"x": numbers})["y"], least), wanted)


def exact(x: int, multiplier: int, right: int) -> int:
    """Rounded twice: halves up, then halves away from zero."""
    product = (x * multiplier + (1 << 30)) >> 31
    size = (abs(product) + (1 << (right - 1))) >> right
    return size if product > 0 else -size


@pytest.mark.parametrize("channels", [0, 3])
def test_shapes_stay(channels: int) -> None:
    """Factors that are equal stand as one number, unless the result's shape comes from them."""
    x = np.ones((4, 1), np.int32)
    for graph in (dense(x, np.full(channels, 0.0029795)), broadcast_conv(x, channels)):
        changed = scale_in_integers(graph)
        assert changed.outputs[0].type == graph.outputs[0].type
        np.testing.assert_array_equal(interpret(changed, {"x": x})["y"], interpret(graph, {"x": x})["y"])


def broadcast_conv(x: np.ndarray, channels: int) -> Graph:
    b = Builder()
    v = input_value(b, x)
    operands = [b.constant(np.full(channels, n, np.int32)) for n in (1 << 30, 5)]
    y = b.add("fixed_multiply", v, *operands, range="small")
    return Graph("conv", (v,), (y,), tuple(b.nodes), ("y",))


def numbers() -> np.ndarray:
    random = np.random.default_rng(1)
    x = random.integers(-60000, 60000, (60, 3)).astype(np.int32)
    x[:20] = np.arange(-30, 30).reshape(20, 3)
    x[20:50] = (1 << np.arange(30))[:, None] * np.array([1, -1, -1])
    return x


X = numbers()


@pytest.mark.parametrize(
    ("graph", "ops"),
    [
        (dense(X, np.array(0.0029795)), ["multiply_shift", "clip", "cast"]),
        (dense(X, np.array([0.0029795, 0.00071, 0.031])), ["multiply_shift", "clip", "cast"]),
        (dense(X, np.array(1e-7)), ["multiply_shift", "add", "clip", "cast"]),
        (layer(X, "small_positive", [2, 5, 21], 5000), ["mul", "add", "multiply_shift", "clip"]),
        (layer(X, "small_positive", [2, 5, 22], 5000), ["mul", "add", "multiply_shift", "add", "clip"]),
        (layer(X, "small_positive", [2, 5, 9], 1 << 30), ["add", "multiply_shift", "clip"]),
        (layer(X, "small", [2, 5, 9], 5000), ["add", "multiply_shift", "add", "clip"]),
        (layer(X, "positive", [2, 5, 9], 5000), ["add", "multiply_shift", "clip"]),
        (dense(X, np.array([0.0029795, 0.00071, 0.5])), ["cast", "mul", "round_to_integer"]),
        (conv(X, "small", [2, 5, 9]), ["multiply_shift"]),
        (conv(X, "small", [7, 7, 7]), ["multiply_shift"]),
        (conv(X, "small_positive", [2, 5, 9]), ["multiply_shift"]),
        (conv(X, "positive", [2, 5, 9]), ["multiply_shift"]),
        (conv(X, "positive", [2, 5, 0]), ["multiply_shift"]),
        (conv(X, "positive", [2, 1, 9]), ["fixed_multiply"]),
        (conv(X, "small", [1, 5, 9]), ["fixed_multiply"]),
        (conv(X, "any", [2, 5, 9]), ["fixed_multiply"]),
    ],
)
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_the_pass_keeps_every_result(graph: Graph, ops: list[str], generator: str, tmp_path: Path) -> None:
    changed = eliminate_dead_code(scale_in_integers(graph))
    assert [n.op for n in changed.nodes] == ops
    wanted = interpret(graph, {"x": X})["y"]
    both = interpret(changed, {"x": X})["y"], run(changed, {"x": X}, tmp_path, generator)["y"]
    least = 0 if graph.nodes[-1].attributes.get("range", "").endswith("positive") else np.iinfo(wanted.dtype).min
    for found in both:
        np.testing.assert_array_equal(np.maximum(found, least), np.maximum(wanted, least))


# ---------------------------------------------------------------- results of 16 bits
LOW, HIGH = -(1 << 15), (1 << 15) - 1


def by_two_words(x: np.ndarray, multiplier: int, shift: int, most: int) -> np.ndarray:
    near = np.clip(x, -most, most).astype(np.int64)
    product = near * (multiplier >> 31) + (near * (multiplier & (1 << 31) - 1) >> 31)
    return np.asarray((product + (1 << (shift - 1))) >> shift)


@settings(deadline=None, max_examples=20, derandomize=True, database=None)
@given(st.floats(2.0**-14.9, 0.24), st.integers(0, 1 << 30))
@example(2.0**-5, 0)
@example(3 * 2.0**-9, 0)
def test_every_result_of_16_bits(factor: float, seed: int) -> None:
    found = in_two_words(np.array([factor]), LOW, HIGH)
    assert found is not None
    (multiplier,), shift, most = found
    near = np.floor((np.arange(LOW - 2, HIGH + 3)[:, None] + 0.5) / factor) + np.arange(-1, 3)
    anywhere = np.random.default_rng(seed).integers(-(1 << 40), 1 << 40, 500)
    x = np.concatenate([near.reshape(-1).astype(np.int64), anywhere])
    have = np.clip(by_two_words(x, int(multiplier), shift, most), LOW, HIGH)
    np.testing.assert_array_equal(have, np.clip(by_float64(x, factor), LOW, HIGH))


def test_factors_that_two_words_do_not_hold() -> None:
    for factors in ([0.25], [2.0**-16], [0.1, 2.0**-16]):
        assert in_two_words(np.array(factors), LOW, HIGH) is None


@pytest.mark.parametrize(
    ("dtype", "generator", "factors"),
    [
        ("int32", "llvm", np.array(0.0029795123)),
        ("int64", "c", np.array([0.00029795123, 0.0625, 0.00007123456789])),
    ],
)
def test_results_of_16_bits_need_no_float64(factors: np.ndarray, dtype: str, generator: str, tmp_path: Path) -> None:
    x = X.astype(dtype)
    if dtype == "int64":
        x = np.concatenate([x, x << 17])
    b = Builder()
    v = input_value(b, x)
    scaled = b.add("mul", b.add("cast", v, to="float64"), b.constant(factors))
    y = b.add("round_to_integer", scaled, to="int16", zero=0, halves="away")
    graph = Graph("dense", (v,), (y,), tuple(b.nodes), ("y",))
    changed = eliminate_dead_code(scale_in_integers(graph))
    assert "float64" not in {output.dtype for node in changed.nodes for output in node.outputs}
    wanted = interpret(graph, {"x": x})["y"]
    np.testing.assert_array_equal(interpret(changed, {"x": x})["y"], wanted)
    np.testing.assert_array_equal(run(changed, {"x": x}, tmp_path, generator)["y"], wanted)
    # Vectors that have high products have float64, too.
    assert "float64" in {o.dtype for n in scale_in_integers(graph, False).nodes for o in n.outputs}
