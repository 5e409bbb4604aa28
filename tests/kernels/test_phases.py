"""Transposed convolutions by phases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.options import Options
from sterna.passes import phases as pass_of_phases
from sterna.passes.context import context_of
from sterna.passes.eliminate_dead_code import eliminate_dead_code
from sterna.passes.phases import phases
from sterna.pipeline import optimize
from sterna.targets.description import load_target
from support.compiling import check, input_value, run


def transposed(
    extents: tuple[int, ...],
    strides: tuple[int, ...],
    begins: tuple[int, ...],
    sizes: tuple[int, ...],
    groups: int = 1,
    epilogue: bool = True,
    constant: bool = True,
) -> tuple[Graph, dict[str, np.ndarray]]:
    """With weights of these extents, padded to multiples of the strides, and an input just as large as needed."""
    rng = np.random.default_rng(7)
    b = Builder()
    taps = [-(-k // s) for k, s in zip(extents, strides, strict=True)]
    padded = [t * s for t, s in zip(taps, strides, strict=True)]
    needed = [
        (n + begin - 1) // s + t - 2 * (t - 1) for n, begin, s, t in zip(sizes, begins, strides, taps, strict=True)
    ]
    inner = [max(n, 1) for n in needed]
    x = rng.standard_normal((2, *inner, 2 * groups)).astype(np.float32)
    w = np.zeros((*padded, 2, 3 * groups), np.float32)
    w[tuple(slice(0, k) for k in extents)] = rng.standard_normal((*extents, 2, 3 * groups))
    given = input_value(b, x)
    ends = (0, *(t - 1 for t in taps), 0)
    value = b.add("pad", given, before=ends, after=ends, mode="constant", value=0.0)
    weights = b.constant(w) if constant else input_value(b, w, "w")
    y = b.add("conv_transpose", value, weights, strides=strides, begins=begins, sizes=sizes, groups=groups)
    if epilogue:
        y = b.add("relu", b.add("add", y, b.constant(rng.standard_normal(3 * groups).astype(np.float32))))
        y = b.add("mul", y, b.add("sigmoid", y))
    inputs = (given,) if constant else (given, weights)
    return Graph("transposed", inputs, (y,), tuple(b.nodes)), {v.name: a for v, a in zip(inputs, (x, w), strict=False)}


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_of_phases, "LEAST_PRODUCTS", 0)


CASES = (
    ((3, 3), (2, 2), (1, 1), (10, 8)),
    ((3, 3), (2, 2), (1, 1), (9, 7)),
    ((3, 3), (2, 2), (0, 0), (9, 11)),
    ((5, 3), (2, 2), (2, 1), (8, 5)),
    ((3, 3), (2, 1), (1, 1), (8, 5)),
    ((4,), (3,), (1,), (13,)),
    ((3, 2, 3), (2, 2, 2), (1, 0, 1), (4, 6, 5)),
    ((8,), (4,), (2,), (21,)),
)


@pytest.mark.parametrize(("extents", "strides", "begins", "sizes"), CASES)
@pytest.mark.parametrize("groups", [1, 2])
def test_phases_compute_the_same(
    extents: tuple[int, ...], strides: tuple[int, ...], begins: tuple[int, ...], sizes: tuple[int, ...], groups: int
) -> None:
    graph, feeds = transposed(extents, strides, begins, sizes, groups)
    changed = eliminate_dead_code(phases(graph))
    assert "conv_transpose" not in [node.op for node in changed.nodes]
    check(dict(zip(graph.output_names, interpret(changed, feeds).values(), strict=True)), interpret(graph, feeds))


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("sizes", [(10, 8), (9, 7)])
def test_phases_are_written_where_they_belong(generator: str, sizes: tuple[int, int], tmp_path: Path) -> None:
    """What follows for every element is computed by the kernels of the phases, and nothing is copied."""
    graph, feeds = transposed((3, 3), (2, 2), (1, 1), sizes)
    check(run(graph, feeds, tmp_path / "bundle", generator), interpret(graph, feeds))


def test_only_padded_weights_are_worth_it() -> None:
    for case in (
        transposed((4, 4), (2, 2), (1, 1), (8, 8)),
        transposed((3, 3), (2, 2), (1, 1), (8, 8), constant=False),
    ):
        assert phases(case[0]).nodes == case[0].nodes


@pytest.mark.parametrize(
    ("extents", "strides", "begins", "sizes"), [((4, 4), (2, 2), (1, 1), (8, 9)), ((2,), (2,), (0,), (12,))]
)
def test_groups_of_threads_have_all_phases_apart(
    extents: tuple[int, ...], strides: tuple[int, ...], begins: tuple[int, ...], sizes: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Also of weights that are not padded, as rows of one product meet the same weights; but not of small ones."""
    graph, feeds = transposed(extents, strides, begins, sizes)
    assert phases(graph, groups=True).nodes == graph.nodes
    monkeypatch.setattr(pass_of_phases, "LEAST_BY_GROUPS", 0)
    changed = eliminate_dead_code(phases(graph, groups=True))
    assert [node.op for node in changed.nodes].count("conv") == np.prod(strides)
    check(dict(zip(graph.output_names, interpret(changed, feeds).values(), strict=True)), interpret(graph, feeds))


def test_targets_with_groups_of_threads_ask_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_of_phases, "LEAST_BY_GROUPS", 0)
    graph, _ = transposed((4, 4), (2, 2), (1, 1), (8, 8))
    for target, many in (("opencl", 4), ("host", 0)):
        found = optimize(graph, context_of(Options(load_target(target), host=load_target("host"))))
        assert [node.op for node in found.nodes].count("conv") == many


def test_the_only_phase_is_a_convolution_of_what_is_padded() -> None:
    """No slice of more padding, behind which other passes would not see that taps read nothing else."""
    graph, feeds = transposed((4, 4), (1, 1), (1, 1), (5, 5))
    changed = eliminate_dead_code(phases(graph))
    assert [node.op for node in changed.nodes if node.op in ("pad", "slice", "conv")] == ["pad", "conv"]
    check(dict(zip(graph.output_names, interpret(changed, feeds).values(), strict=True)), interpret(graph, feeds))


def test_many_phases_of_a_row_are_apart() -> None:
    """Of the outputs side by side in a tile, few would read the same weights."""
    many, short = transposed((8,), (4,), (2,), (64,)), transposed((8,), (4,), (2,), (12,))
    assert [node.op for node in phases(many[0]).nodes].count("conv") == 4
    assert phases(short[0]).nodes == short[0].nodes


def test_small_ones_stay_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = transposed((3, 3), (2, 2), (1, 1), (8, 8))
    monkeypatch.setattr(pass_of_phases, "LEAST_PRODUCTS", 1 << 18)
    assert "conv_transpose" in [node.op for node in phases(graph).nodes]


def test_what_is_done_to_every_element_goes_along() -> None:
    """A bias and an activation are part of every phase; what reads two values is behind them."""
    graph, _ = transposed((3, 3), (2, 2), (1, 1), (8, 8))
    ops = [node.op for node in phases(graph).nodes]
    assert [ops.count(op) for op in ("conv", "add", "relu", "sigmoid")] == [4, 4, 4, 1]
