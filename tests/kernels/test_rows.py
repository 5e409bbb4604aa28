"""Reductions of short rows, in vectors narrower than the machine's: how they are scheduled, and what they find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph, Value
from sterna.ops import Builder
from sterna.options import Options
from sterna.pipeline import outline_of
from sterna.schedule.decisions import Split
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import host, load_target
from sterna.te import expr as E
from sterna.te.tensor import Kernel
from support.compiling import build, check, input_value


def reduced(op: str, columns: int) -> Graph:
    b = Builder()
    x = input_value(b, np.zeros((100, columns), np.float32))
    y = b.add(op, x, axes=(1,), keep_dims=False)
    return Graph("rows", (x,), (y,), tuple(b.nodes))


@pytest.mark.parametrize(("columns", "lanes"), [(40, 16), (31, 8), (16, 8), (15, 4), (8, 4), (7, 1)])
def test_rows_are_reduced_in_vectors_of_at_most_half_their_elements(columns: int, lanes: int) -> None:
    target = load_target("x86-64-v4")
    (call,) = outline_of(reduced("reduce_max", columns), Options(target)).sequence.calls
    assert isinstance(call.kernel, Kernel)
    s = propose(call.kernel, Context(target))
    vectors = [
        split.factor
        for state in s.stages.values()
        for split in state.relations
        if isinstance(split, Split) and state.annotations.get(split.inner) == "vectorized"
    ]
    assert max(vectors, default=1) == lanes


def middle(shape: tuple[int, ...]) -> Graph:
    """A sum along the second of several dimensions."""
    b = Builder()
    x = input_value(b, np.zeros(shape, np.float32))
    return Graph("middle", (x,), (b.add("reduce_sum", x, axes=(1,), keep_dims=True),), tuple(b.nodes))


@pytest.mark.parametrize(("shape", "vectors"), [((4, 64, 1024), 16), ((8, 70, 48), 3), ((5, 9, 272), 9)])
def test_sums_over_a_middle_axis_read_long_parts_of_rows(shape: tuple[int, ...], vectors: int) -> None:
    """Neighbours have nothing in common: with those of several images at once, every row of all of them would be read
    in another page for the sake of one vector."""
    target = load_target("x86-64-v4")
    (call,) = outline_of(middle(shape), Options(target)).sequence.calls
    assert isinstance(call.kernel, Kernel)
    s = propose(call.kernel, Context(replace(target, cores=1)))
    out = s.stages[s.outputs[0]]
    factors = [r.factor for r in out.relations if isinstance(r, Split)]
    assert 16 * vectors in factors
    images = next(r.outer for r in out.relations if isinstance(r, Split) and r.parent == out.tensor.axes[0].name)
    parts = next(r.outer for r in out.relations if isinstance(r, Split) and r.factor == 16 * vectors)
    assert out.leaves.index(images) < out.leaves.index(parts)


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_sums_over_a_middle_axis_are_those_of_the_interpreter(generator: str, tmp_path: Path) -> None:
    for n, shape in enumerate([(3, 20, 300), (2, 7, 5), (2, 2100, 40)]):
        graph, x = middle(shape), np.random.default_rng(n).standard_normal(shape, dtype=np.float32)
        with build(graph, tmp_path / str(n), generator=generator) as bundle:
            check(bundle.run({"x": x}), interpret(graph, {"x": x}))


def sampling(channels: int, mode: str) -> Kernel:
    """The kernel that samples an image."""
    b = Builder()
    x = input_value(b, np.zeros((1, 20, 20, channels), np.float32), "x")
    grid = input_value(b, np.zeros((1, 30, 30, 2), np.float32), "grid")
    y = b.add("grid_sample", x, grid, mode=mode, padding="zeros", align_corners=False)
    target = Options(load_target("x86-64-v4"))
    (call,) = outline_of(Graph("samples", (x, grid), (y,), tuple(b.nodes)), target).sequence.calls
    assert isinstance(call.kernel, Kernel)
    return call.kernel


@pytest.mark.parametrize(("mode", "products"), [("linear", 8), ("cubic", 20)])
def test_cubic_samples_are_summed_by_rows_first(mode: str, products: int) -> None:
    """16 elements by weights of columns, 4 sums by weights of rows. Linear: 4 products of weights, and of elements."""
    (out,) = sampling(3, mode).outputs
    assert out.body is not None
    assert sum(isinstance(n, E.Binary) and n.op == "mul" for n in set(E.walk(out.body))) == products


@pytest.mark.parametrize("channels", [1, 3, 40])
def test_positions_of_samples_are_computed_in_vectors_once_for_all_channels(channels: int) -> None:
    s = propose(sampling(channels, "linear"), Context(load_target("x86-64-v4")))
    apart = [state for state in s.stages.values() if state.scope is not None]
    assert len(apart) == 8
    assert all("vectorized" in state.annotations.values() for state in apart)


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_samples_at_no_position_at_one_and_at_more_than_a_block(generator: str, tmp_path: Path) -> None:
    b, random, feeds, results = Builder(), np.random.default_rng(0), dict[str, np.ndarray](), list[Value]()
    inputs = list[Value]()
    for n, (images, *places) in enumerate([(1, 1, 1), (1, 0, 5), (0, 4, 4), (2, 3, 67)]):
        x = random.standard_normal((images, 5, 4, 3)).astype(np.float32)
        grid = random.uniform(-1.5, 1.5, (images, *places, 2)).astype(np.float32)
        values = [input_value(b, x, f"x{n}"), input_value(b, grid, f"grid{n}")]
        inputs += values
        feeds |= {v.name: a for v, a in zip(values, (x, grid), strict=True)}
        results.append(b.add("grid_sample", *values, mode="linear", padding="zeros", align_corners=False))
    graph = Graph("samples", tuple(inputs), tuple(results), tuple(b.nodes))
    expected = interpret(graph, feeds)
    with build(graph, tmp_path / "bundle", host(), generator) as bundle:
        check(bundle.run(feeds), expected)


@pytest.mark.parametrize("generator", ["c", "llvm"])
@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_short_rows_are_reduced_as_by_numpy(
    generator: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Sums, and extremes with NaN among the elements; positions are those of the first extreme."""
    b, inputs, results = Builder(), list[Value](), list[Value]()
    feeds, expected = {}, {}
    for columns in data.draw(st.lists(st.integers(2, 40), min_size=4, max_size=4, unique=True)):
        x = np.random.default_rng(columns).integers(-9, 9, (5, columns)).astype(np.float32)
        x[2, data.draw(st.integers(0, columns - 1))] = np.nan
        given_value = input_value(b, x, f"x{columns}")
        inputs.append(given_value)
        feeds[given_value.name] = x
        for op, find in (("reduce_sum", np.sum), ("reduce_max", np.max), ("reduce_min", np.min)):
            results.append(b.add(op, given_value, axes=(1,), keep_dims=False))
            expected[results[-1].name] = find(x, axis=1)
        for op, find in (("arg_max", np.argmax), ("arg_min", np.argmin)):
            results.append(b.add(op, given_value, axis=1, keep_dims=False, last=False))
            expected[results[-1].name] = find(x, axis=1)
    graph = Graph("rows", tuple(inputs), tuple(results), tuple(b.nodes))
    with build(graph, tmp_path_factory.mktemp("rows") / "bundle", host(), generator) as bundle:
        found = bundle.run(feeds)
    for name, want in expected.items():
        np.testing.assert_array_equal(found[name], want, err_msg=name)


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_long_sums_without_vectors_are_several(generator: str, tmp_path: Path) -> None:
    """One sum of n terms rounds n times, eight an eighth as often each: that of 6,906 is off by 3.1e-5 or 0.9e-5."""
    b, feeds, inputs, totals = Builder(), dict[str, np.ndarray](), list[Value](), list[Value]()
    for columns in (7, 64, 67, 6906):
        feeds[f"x{columns}"] = np.full((2, columns), 0.1, np.float32)
        inputs.append(input_value(b, feeds[f"x{columns}"], f"x{columns}"))
        totals.append(b.add("reduce_sum", inputs[-1], axes=(1,), keep_dims=False))
    graph = Graph("rows", tuple(inputs), tuple(totals), tuple(b.nodes))
    target = replace(load_target("x86-64-v2"), vector_bits=0)
    with build(graph, tmp_path / "bundle", target, generator) as bundle:
        found = bundle.run(feeds)
    for x, total in zip(feeds.values(), found.values(), strict=True):
        np.testing.assert_allclose(total, x.astype(np.float64).sum(axis=1), rtol=max(2e-7, x.shape[1] / 8 * 1.1e-8))
