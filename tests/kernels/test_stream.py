"""One row times a computed matrix: how it is walked."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.options import Options
from sterna.pipeline import outline_of
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import load_target
from sterna.te.tensor import Kernel
from support.compiling import input_value


def scheduled(graph: Graph, name: str) -> Schedule:
    target = load_target(name)
    (call,) = outline_of(graph, Options(target)).sequence.calls
    assert isinstance(call.kernel, Kernel)
    return propose(call.kernel, Context(target))


def product(left: tuple[int, ...], right: tuple[int, ...], constant: bool = False) -> Graph:
    b = Builder()
    x, w = np.zeros(left, np.float32), np.zeros(right, np.float32)
    a = input_value(b, x)
    c = b.constant(w + np.arange(w.size, dtype=np.float32).reshape(right)) if constant else input_value(b, w, "w")
    y = b.add("matmul", a, c)
    return Graph("product", (a,) if constant else (a, c), (y,), tuple(b.nodes))


def unrolled(s: Schedule) -> set[str]:
    """Axes of the output that are written out."""
    return {axis for axis, how in s.stages[s.outputs[0]].annotations.items() if how == "unrolled"}


def placed(s: Schedule) -> set[str]:
    return {str(state.scope) for state in s.stages.values() if state.scope is not None}


@pytest.mark.parametrize("columns", [37, 64, 512])
def test_matrices_of_a_batch_are_walked_one_after_the_other(columns: int) -> None:
    """A tile of rows would walk all of them at once, each in another place."""
    s = scheduled(product((12, 1, 512), (12, 512, columns)), "x86-64-v4")
    assert not any(axis.startswith("b0") for axis in unrolled(s))


def test_sums_of_long_rows_lie_in_a_cache() -> None:
    """Whole rows are read, not parts of them with pages between."""
    scopes = {}
    for columns in (64, 4096):
        s = scheduled(product((1, 64), (64, columns)), "x86-64-v3")
        scopes[columns] = placed(s)
    assert scopes == {64: {"register"}, 4096: {"register", "scratch"}}


def test_long_parts_of_rows_are_walked_by_themselves() -> None:
    """Registers of 512 bits hold sums of 256 columns: two parts of a row of 512."""
    s = scheduled(product((1, 64), (64, 512)), "x86-64-v4")
    assert placed(s) == {"register"}
    assert "scratch" in placed(scheduled(product((1, 64), (64, 512)), "x86-64-v3"))


def test_packed_matrices_and_several_rows_are_computed_in_tiles() -> None:
    for graph in (product((1, 64), (64, 4096), constant=True), product((5, 64), (64, 4096))):
        s = scheduled(graph, "x86-64-v3")
        assert "scratch" not in placed(s)


def test_rows_that_overlap_are_no_matrix() -> None:
    """A depthwise convolution in one dimension reads each element for several taps: these stay in registers."""
    b = Builder()
    x = input_value(b, np.zeros((1, 32, 400), np.float32))
    w = b.constant(np.arange(32 * 9, dtype=np.float32).reshape(1, 9, 32))
    y = b.add("conv_planes", x, w, strides=(1,), dilations=(1,), groups=32)
    s = scheduled(Graph("windows", (x,), (y,), tuple(b.nodes)), "x86-64-v4")
    assert "scratch" not in placed(s)
