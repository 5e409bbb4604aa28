"""Orders of whole rows and of their first elements, compiled by both generators, against stable sorts of NumPy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sterna.ir.graph import Graph, Value
from sterna.ops.builder import Builder
from sterna.ops.sorting import COUNTED
from sterna.targets.description import host
from sterna.targets.target import Target
from support.compiling import build, input_value

TARGETS = [
    pytest.param("c", host(), id="c", marks=pytest.mark.family("host-c")),
    pytest.param("llvm", host(), id="llvm", marks=pytest.mark.family("host-llvm")),
    pytest.param(
        "c", replace(host(), dialect="plain", vector_bits=0), id="plain-c", marks=pytest.mark.family("host-c")
    ),
    pytest.param("llvm", replace(host(), vector_bits=128), id="llvm-narrow", marks=pytest.mark.family("host-llvm")),
]
LENGTH = 3 * COUNTED  # rows that are distributed, not counted


def hard_rows(dtype: str) -> np.ndarray:
    """Rising, falling, random, of few values, of one, and of numbers at the ends of the type."""
    random = np.random.default_rng(5)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        ends = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, np.finfo(kind).max], kind)
        x = random.standard_normal(LENGTH).astype(kind)
    else:
        limits = np.iinfo(kind)
        ends = np.array([limits.min, limits.max, 0, 1, limits.max - 1], kind)
        x = random.integers(limits.min, limits.max, LENGTH, dtype=kind, endpoint=True)
    rising = np.sort(x)
    few = random.integers(0, 3, LENGTH).astype(kind)
    return np.stack([rising, rising[::-1], x, few, np.ones(LENGTH, kind), random.choice(ends, LENGTH)])


def first_positions(x: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """Of every row; NaN is the greatest, of equal elements the first comes first."""
    ranks = np.unique(x, return_inverse=True)[1].reshape(x.shape).astype(np.int64)
    return np.argsort(-ranks if largest else ranks, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize(("generator", "target"), TARGETS)
def test_first_elements_of_hard_rows(generator: str, target: Target, tmp_path: Path) -> None:
    """Few of many, which are screened; some of them; all, which are sorted; along rows and down columns."""
    builder, feeds, expected = Builder(), {}, {}
    inputs: list[Value] = []
    results: list[Value] = []
    counts = (1, 5, LENGTH // 3, LENGTH)
    for n, dtype in enumerate(("float32", "float64", "float16", "uint32", "int8", "int64", "uint64", "int32")):
        x = hard_rows(dtype)
        turned = n % 2 == 1
        data = np.ascontiguousarray(x.T if turned else x)
        value = input_value(builder, data)
        inputs.append(value)
        feeds[value.name] = data
        for k in counts if dtype == "float32" else (counts[n % 4],):
            for largest in (True, False) if dtype == "float32" else (n % 3 == 0,):
                values, indices = builder.add_all("top_k", value, k=(k,), axis=0 if turned else 1, largest=largest)
                places = first_positions(x, k, largest)
                chosen = np.take_along_axis(x, places, 1)
                expected[values.name] = chosen.T if turned else chosen
                expected[indices.name] = places.T if turned else places
                results += (values, indices)
    graph = Graph("orders", tuple(inputs), tuple(results), tuple(builder.nodes))
    with build(graph, tmp_path / "bundle", target, generator) as bundle:
        found = bundle.run(feeds)
    for name, want in expected.items():
        np.testing.assert_array_equal(found[name], want, err_msg=name)


@pytest.mark.parametrize(("generator", "target"), TARGETS[:2])
def test_few_of_rows_of_medium_length(generator: str, target: Target, tmp_path: Path) -> None:
    """What is kept in order, with blocks that hold nothing better, blocks that do, and what is left over."""
    builder, feeds, expected = Builder(), {}, {}
    inputs: list[Value] = []
    results: list[Value] = []
    for dtype, length, k, turned in (
        ("float32", 257, 8, False), ("float64", 300, 5, True), ("int64", 321, 2, False), ("uint8", LENGTH, 3, False),
        ("int32", LENGTH, 1, True),
    ):  # fmt: skip
        x = np.ascontiguousarray(hard_rows(dtype)[:, :length])
        x[1] = x[1][::-1]
        data = np.ascontiguousarray(x.T if turned else x)
        value = input_value(builder, data)
        inputs.append(value)
        feeds[value.name] = data
        for largest in (True, False):
            found = builder.add_all("top_k", value, k=(k,), axis=0 if turned else 1, largest=largest)
            places = first_positions(x, k, largest)
            wanted = (np.take_along_axis(x, places, 1), places)
            expected |= {v.name: w.T if turned else w for v, w in zip(found, wanted, strict=True)}
            results += found
    graph = Graph("orders", tuple(inputs), tuple(results), tuple(builder.nodes))
    with build(graph, tmp_path / "bundle", target, generator) as bundle:
        got = bundle.run(feeds)
    for name, want in expected.items():
        np.testing.assert_array_equal(got[name], want, err_msg=name)


@pytest.mark.parametrize(("generator", "target"), TARGETS[:2])
@pytest.mark.parametrize("axis", [None, 0])
def test_different_elements_of_many(generator: str, target: Target, axis: int | None, tmp_path: Path) -> None:
    """Equal ones are found by sorting, however the elements are given."""
    builder, x = Builder(), hard_rows("float32")[5]
    value = input_value(builder, x)
    want = np.unique(x, return_inverse=True, return_counts=True)
    results = builder.add_all("unique", value, size=len(want[0]), axis=axis)
    graph = Graph("different", (value,), results, tuple(builder.nodes))
    with build(graph, tmp_path / "bundle", target, generator) as bundle:
        found = list(bundle.run({value.name: x}).values())
    np.testing.assert_array_equal(found[0], want[0])
    np.testing.assert_array_equal(found[2], want[1])
    np.testing.assert_array_equal(found[3], want[2])
    first = [int(np.flatnonzero(want[1] == n)[0]) for n in range(len(want[0]))]
    np.testing.assert_array_equal(found[1], first)


@pytest.mark.parametrize(("generator", "target"), TARGETS)
def test_extreme_positions_of_long_rows(generator: str, target: Target, tmp_path: Path) -> None:
    """As NumPy finds them: the first one, and a NaN before everything else; counted from the end, the last one."""
    builder, feeds, expected = Builder(), {}, {}
    inputs: list[Value] = []
    results: list[Value] = []
    for n, dtype in enumerate(("float32", "float16", "float64", "int64", "uint8")):
        x = hard_rows(dtype)
        value = input_value(builder, x)
        inputs.append(value)
        feeds[value.name] = x
        for op, find in (("arg_max", np.argmax), ("arg_min", np.argmin)):
            last = n % 2 == 1
            result = builder.add(op, value, axis=1, keep_dims=False, last=last)
            expected[result.name] = LENGTH - 1 - find(x[:, ::-1], axis=1) if last else find(x, axis=1)
            results.append(result)
    graph = Graph("extremes", tuple(inputs), tuple(results), tuple(builder.nodes))
    with build(graph, tmp_path / "bundle", target, generator) as bundle:
        found = bundle.run(feeds)
    for name, want in expected.items():
        np.testing.assert_array_equal(found[name], want, err_msg=name)
