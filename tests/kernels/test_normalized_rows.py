"""Rows combined with what a reduction makes of them: one kernel by groups of threads, and the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.loops.accesses import accesses
from sterna.ops import Builder
from sterna.targets.description import load_target
from support import opencl_host
from support.compiling import check

SHAPE = (3, 7, 96)
Norm = Callable[[Builder, Value], Value]


def root_mean_square(b: Builder, x: Value) -> Value:
    mean = b.add("reduce_mean", b.add("mul", x, x), axes=(2,), keep_dims=True)
    scale = b.add("reciprocal", b.add("sqrt", b.add("add", mean, b.scalar(1e-6, "float32"))))
    weights = b.constant(np.random.default_rng(2).standard_normal(SHAPE[-1]).astype(np.float32))
    return b.add("mul", weights, b.add("mul", x, scale))


def by_norm(b: Builder, x: Value) -> Value:
    """Of two axes, by the largest of them, and a number that keeps zeros."""
    largest = b.add("reduce_max", b.add("abs", x), axes=(1, 2), keep_dims=True)
    return b.add("div", x, b.add("add", largest, b.scalar(1e-3, "float32")))


def graph_of(norm: Norm) -> Graph:
    b = Builder()
    x = Value(b.name("x"), tensor_type("float32", SHAPE))
    y = norm(b, x)
    return Graph("norm", (x,), (y,), tuple(b.nodes))


def feeds() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)}


@pytest.mark.family("opencl")
@pytest.mark.parametrize("norm", [root_mean_square, by_norm])
def test_one_kernel(norm: Norm, tmp_path: Path) -> None:
    graph = graph_of(norm)
    compiled = compile_graph(graph, "norm", Options(opencl_host.opencl_target(groups=True)))
    (kernel,) = compiled.kernels
    found = accesses(kernel.function)
    assert found.coalesced == found.accesses
    check(opencl_host.Device(tmp_path).run(compiled, feeds()), interpret(graph, feeds()))


def test_cpus_have_two() -> None:
    compiled = compile_graph(graph_of(root_mean_square), "norm", Options(load_target("x86-64-v3")))
    assert len(compiled.kernels) == 2


@pytest.mark.parametrize(("shape", "joined"), [((2, 20000), False), ((500, 20000), True), ((2, 5000), True)])
def test_few_long_rows_are_spread_over_the_device(shape: tuple[int, int], joined: bool) -> None:
    """A group for each row would leave most multiprocessors without any."""
    b = Builder()
    x = Value(b.name("x"), tensor_type("float32", shape))
    y = b.add("div", x, b.add("reduce_sum", x, axes=(1,), keep_dims=True))
    graph = Graph("shares", (x,), (y,), tuple(b.nodes))
    places = Options(load_target("cuda-sm80"), device_for=(("*", "cuda"),))
    names = [k.function.name for k in compile_graph(graph, "shares", places).kernels]
    assert any("reduce_sum" in name and "div" in name for name in names) == joined


def test_what_stays_apart() -> None:
    """What others read, what goes along other axes, and what is made of another tensor."""

    def of_columns(b: Builder, x: Value) -> Value:
        return b.add("sub", x, b.add("reduce_max", x, axes=(0,), keep_dims=True))

    def of_another(b: Builder, x: Value) -> Value:
        other = b.constant(np.ones(SHAPE, np.float32) * np.arange(96, dtype=np.float32))
        return b.add("sub", other, b.add("reduce_max", x, axes=(2,), keep_dims=True))

    target = opencl_host.opencl_target(groups=True)
    assert len(compile_graph(graph_of(of_columns), "norm", Options(target)).kernels) == 2
    assert len(compile_graph(graph_of(of_another), "norm", Options(target)).kernels) == 2
    b = Builder()
    x = Value(b.name("x"), tensor_type("float32", SHAPE))
    largest = b.add("reduce_max", x, axes=(2,), keep_dims=True)
    graph = Graph("both", (x,), (b.add("sub", x, largest), b.add("relu", largest)), tuple(b.nodes))
    assert len(compile_graph(graph, "norm", Options(target)).kernels) > 1
