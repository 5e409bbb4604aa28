"""Chains, and what runs on the CPU: no CPU computes a chain, so that they are made of what stays on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

from sterna import pipeline
from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import compile_graph, reading
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.ir.graph import Graph
from sterna.passes.context import PassContext
from sterna.passes.device_cost import chain_of_call
from sterna.passes.kernels import CPU
from sterna_runtime import load
from support import device_bundles
from support.attention_graphs import Attention
from support.chains import CHAINS, Layers, calls, context
from support.compiling import check, input_value
from support.control_flow import TRIPS, model, numbers

DEVICES = ("opencl", "cuda", "metal", "webgpu")
BRANCH = """
    agraph (bool hot, float[7, 16] x, float[16, 16] a, float[16, 17] b) => (float[7, 17] z)
    {
      z = If (hot) <
        then_branch = one () => (float[7, 17] r)
          { p = MatMul(x, a)  q = Tanh(p)  s = MatMul(q, a)  t = Tanh(s)  r = MatMul(t, b) },
        else_branch = two () => (float[7, 17] u) { u = MatMul(x, b) }>
    }"""
STEPS = """
    agraph (int64 trips, float[7, 16] x, float[16, 16] a) => (float[7, 16] last)
    <bool on = {1}>
    {
      last = Loop (trips, on, x) <body = step
        (int64 i, bool going, float[7, 16] s) => (bool going, float[7, 16] r)
        { p = MatMul(s, a)  q = Tanh(p)  t = MatMul(q, a)  r = Tanh(t) }>
    }"""


def placed(graph: Graph, where: PassContext) -> list[tuple[str, bool]]:
    """The places of calls, and whether each is several kernels in one; loops are made of all of them."""
    made: dict[str, Any] = {}
    pipeline.walk(graph, where, "loops", lambda each, state: made.setdefault(each.name, state))
    return [(call.place, call.on_device) for call in made["loops"].sequence.calls]


def kept(where: PassContext, *names: tuple[str, str]) -> PassContext:
    """With names of what is to run elsewhere."""
    return replace(where, options=replace(where.options, device_for=names))


def on_device(where: PassContext, **changed: Any) -> PassContext:
    """With another device."""
    assert where.target.device is not None
    target = replace(where.target, device=replace(where.target.device, **changed))
    return replace(where, target=target, options=replace(where.options, target=target))


def perceptron(*widths: int, rows: int = 1, dtype: str = "float32") -> Graph:
    n = Layers(rows, widths[0], dtype=dtype)
    y = n.x
    for columns in widths[1:-1]:
        y = n.dense(y, columns, "tanh")
    return n.graph(n.dense(y, widths[-1]))


def imported(text: str, where: PassContext) -> Graph:
    graph = read_model(parser.parse_model(model(text)), reading(where.options))
    assert isinstance(graph, Graph)
    return graph


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("text", [BRANCH, STEPS, TRIPS], ids=["if", "loop", "short loop"])
def test_regions_have_no_chains(text: str, target: str) -> None:
    """Control over calls runs on the CPU, and so do they."""
    where = context(target)
    found = placed(imported(text, where), where)
    assert len(found) > 1
    assert not any(chain for _, chain in found)


@pytest.mark.family("opencl")
def test_branches_compute_the_same(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    where = context()
    graph = imported(BRANCH, where)
    made = write_bundle(compile_graph(graph, "small", where.options), tmp_path)
    with device_bundles.opencl(tmp_path_factory.mktemp("pocl")), load(made) as bundle:
        for hot in (True, False):
            given = {"hot": np.array(hot), "x": numbers(7, 16), "a": numbers(16, 16), "b": numbers(16, 17)}
            check(bundle.run(given), interpret(graph, given), 1e-5)


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("name", CHAINS)
def test_what_the_user_keeps_on_the_cpu(name: str, target: str) -> None:
    made, _ = CHAINS[name]
    found = placed(made(), kept(context(target), ("*", "cpu")))
    assert set(found) == {(CPU, False)}


@pytest.mark.family("opencl")
def test_a_layer_on_the_cpu(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    """The others are a chain."""
    graph = perceptron(16, 24, 12, 9, 5)
    where = kept(context(), (graph.outputs[0].name, "cpu"))
    assert placed(graph, where) == [("opencl", True), (CPU, False)]
    x = numbers(1, 16)
    made = write_bundle(compile_graph(graph, "small", where.options), tmp_path)
    with device_bundles.opencl(tmp_path_factory.mktemp("pocl")), load(made) as bundle:
        check(bundle.run({"x": x}), interpret(graph, {"x": x}), 1e-5)


def test_names_of_chains() -> None:
    """A kernel that is to be on the device by the name that a chain gives it is there; none is so called on the CPU."""
    graph, where = CHAINS["gates and a residual"][0](), context()
    (chain,) = calls(graph, where)
    assert placed(graph, kept(where, (chain.kernel.name, "opencl"))) == [("opencl", True)]
    with pytest.raises(SternaError, match="E0203"):
        placed(graph, kept(where, (chain.kernel.name, "cpu")))
    with pytest.raises(SternaError, match="E0203"):
        placed(graph, kept(where, ("nothing-like-it", "cpu")))


@pytest.mark.parametrize("target", ["metal", "opencl-mali"])
def test_types_that_a_device_lacks(target: str) -> None:
    assert placed(perceptron(16, 16, 8, dtype="float64"), context(target)) == [(CPU, False)] * 2
    assert placed(perceptron(16, 16, 8), context(target)) == [(target.partition("-")[0], True)]


def test_between_kernels_on_the_cpu() -> None:
    """Layers between two that are there are better there, too, where copies take long."""
    graph = perceptron(16, 24, 12, 9, 5)
    first = calls(graph, kept(context(), ("*", "cpu")))[0].name
    ends = (first, "cpu"), (graph.outputs[0].name, "cpu")
    where = kept(context(), *ends)
    assert placed(graph, on_device(where, copy_ns=1.0)) == [(CPU, False), ("opencl", True), (CPU, False)]
    assert placed(graph, on_device(where, copy_ns=1e5)) == [(CPU, False)] * 4


@pytest.mark.parametrize(("buffers", "launches"), [(3, 4), (4, 2), (5, 2), (6, 1)])
def test_more_operands_than_a_device_takes(buffers: int, launches: int) -> None:
    """Four layers, to each of which an input of its own is added."""
    n = Layers(1, 12)
    inputs, y = [n.x], n.x
    for each in range(4):
        inputs.append(input_value(n.builder, numbers(1, 12 + each), f"added{each}"))
        y = n.add("tanh", n.add("add", n.dense(y, 12 + each), inputs[-1]))
    graph = Graph("layers", tuple(inputs), (y,), tuple(n.builder.nodes))
    where = on_device(context(), buffers=buffers)
    found = placed(graph, where)
    assert ([place for place, _ in found], len(found)) == (["opencl"] * launches, launches)
    assert all(len(call.inputs) + len(call.outputs) <= buffers for call in calls(graph, where))


def test_chains_around_attention() -> None:
    """Attention stays a kernel of its own, and the layers behind it are a chain."""
    made = Attention()
    y = made.whole((), 9, 20, 8, 16)
    for columns in (12, 7):
        weights = made.builder.constant(numbers(int(y.shape[-1]), columns))
        y = made.builder.add("tanh", made.builder.add("matmul", y, weights))
    where = context()
    attention, chain = calls(made.graph(y), where)
    assert (attention.on_device, chain.on_device) == (False, True)
    assert [chain_of_call(call, where.target) is not None for call in (attention, chain)] == [False, True]


def test_places_are_asked_for_where_there_are_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """And once; not in other models."""
    asked: list[Any] = []
    real: Callable[..., Any] = pipeline.place.place
    monkeypatch.setattr(pipeline.place, "place", lambda *given, **named: asked.append(given) or real(*given, **named))
    n = Layers(1, 12)
    placed(n.graph(n.dense(n.x, 5)), context())
    assert not asked, "the list of passes has a reference of its own"
    placed(perceptron(16, 16, 8), context())
    assert len(asked) == 1
