"""Choices and loops, from the graph to the bundle: types, passes, memory, both generators, static code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.bundle.c_files import static_model
from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import Compiled, Options, compile_graph
from sterna.errors import SternaError
from sterna.ir.graph import Graph, TensorType, Value, tensor_type, with_unique_names
from sterna.ir.memory import Memory
from sterna.ir.printer import print_graph
from sterna.ir.verifier import verify
from sterna.ops import Builder, infer
from sterna.ops.control import CONDITION, NUMBER, branches, loop
from sterna.passes.linearize import Repeat
from sterna.pipeline import optimize
from sterna.targets.description import load_target
from sterna_runtime import load

MATRIX = tensor_type("float32", (4, 4))
Values = tuple[Value, ...]
Body = Callable[[Builder, Value, Values], tuple[Values, Values]]


def looped(
    types: list[TensorType],
    body: Body,
    *,
    limit: int = 9,
    count: int | None = None,
    until: Callable[[Builder, Values], Value] | None = None,
    after: Callable[[Builder, Value], Value] | None = None,
) -> Graph:
    """A graph that is one loop: over the inputs x (captured), trips where no count is given, and the initial values."""
    builder = Builder()
    x, trips = Value("x", MATRIX), Value("trips", NUMBER)
    initial = [Value(f"first{n}", kind) for n, kind in enumerate(types)]
    inner = Builder()
    number = Value("i", NUMBER)
    states = tuple(Value(f"s{n}", kind) for n, kind in enumerate(types))
    following, rows = body(inner, number, (*states, x))
    condition = () if until is None else (until(inner, following),)
    body = Graph("body", (number, *states), (*condition, *following, *rows), tuple(inner.nodes))
    results = [Value(f"last{n}", kind) for n, kind in enumerate(types)]
    results += [Value(f"rows{n}", tensor_type(row.dtype, (limit, *row.shape))) for n, row in enumerate(rows)]
    given = None if count is not None else trips
    node = loop(
        body, initial, results, sources=("Loop",), name="loop", limit=limit, count=count, trips=given,
        conditional=until is not None,
    )  # fmt: skip
    builder.keep(node)
    outputs = tuple(results) if after is None else (after(builder, results[0]), *results[1:])
    inputs = (x, *([] if given is None else [trips]), *initial)
    graph = Graph("looped", inputs, outputs, tuple(builder.nodes), tuple(f"y{n}" for n in range(len(outputs))))
    return verify(with_unique_names(graph), infer)


def fed(graph: Graph, **given: Any) -> dict[str, np.ndarray]:
    random = np.random.default_rng(len(graph.nodes))
    feeds = {v.name: random.standard_normal(v.type.sizes).astype(np.float32) for v in graph.inputs if v.name[0] != "t"}
    return feeds | {name: np.asarray(value) for name, value in given.items()}


def compiled(graph: Graph, generator: str = "c", debug: bool = False, target: str = "host") -> Compiled:
    return compile_graph(graph, "looped", Options(load_target(target), generator, debug=debug))


def check(
    graph: Graph, result: Compiled, place: Path, feeds: Mapping[str, np.ndarray], made: int | None = None
) -> None:
    """The bundle gives what the interpreter does, before and after the passes; `made`: rows that are made."""
    wanted = interpret(graph, feeds)
    with load(write_bundle(result, place / "bundle")) as bundle:
        got = bundle.run(feeds)
    for found in (got, interpret(optimize(graph, check=True), feeds)):
        for name, array in found.items():
            rows = made if array.ndim == 3 else None
            np.testing.assert_allclose(array[:rows], wanted[name][:rows], rtol=1e-4, atol=1e-5)


def swapping(b: Builder, number: Value, values: Values) -> tuple[Values, Values]:
    """Two states that take each other's place, as Fibonacci's numbers do."""
    s, u, x = values
    total = b.add("add", b.add("tanh", b.add("matmul", s, x)), u)
    return (u, total), (b.add("mul", total, b.add("cast", number, to="float32")),)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_a_loop_runs_as_often_as_an_input_says(generator: str, debug: bool, tmp_path: Path) -> None:
    graph = looped([MATRIX, MATRIX], swapping, after=lambda b, v: b.add("relu", v))
    result = compiled(graph, generator, debug)
    for trips in (-1, 0, 1, 2, 9):
        check(graph, result, tmp_path, fed(graph, trips=trips), made=max(trips, 0))
    with load(write_bundle(result, tmp_path / "bundle")) as bundle, pytest.raises(SternaError, match="more than its 9"):
        bundle.run(fed(graph, trips=10))


def growing(b: Builder, number: Value, values: Values) -> tuple[Values, Values]:
    s, x = values
    return (b.add("add", s, b.add("mul", x, x)),), ()


def still_small(b: Builder, values: Values) -> Value:
    total = b.add("reduce_sum", values[0], axes=(0, 1), keep_dims=False)
    return b.add("less", total, b.scalar(50.0, "float32"))


def test_a_loop_ends_when_its_condition_does(tmp_path: Path) -> None:
    graph = looped([MATRIX], growing, count=9, until=still_small)
    result = compiled(graph)
    for scale in (0.1, 1.0, 2.0, 9.0):
        feeds = fed(graph, first0=np.zeros((4, 4), np.float32))
        check(graph, result, tmp_path, {**feeds, "x": feeds["x"] * np.float32(scale)})


def test_what_is_computed_in_place_is_not_copied() -> None:
    """Only the first value is copied, since it is the caller's."""
    result = compiled(looped([MATRIX], growing, count=9))
    assert [call.kernel.name for call in result.calls] == ["copy", "mul_add"]
    assert next(control for control in result.control if isinstance(control, Repeat)).first == 1
    # A product reads all of the state for every element: its result cannot be made there.
    result = compiled(looped([MATRIX], lambda b, n, v: ((b.add("matmul", v[0], v[1]),), ()), count=9))
    assert [call.kernel.name for call in result.calls] == ["copy", "matmul", "copy"]


def chosen(condition: TensorType = CONDITION) -> Graph:
    """hot ? relu(x y) : (x - y, captured y itself), with a result that both branches give and one that is a view."""
    hot, x, y = Value("hot", condition), Value("x", MATRIX), Value("y", MATRIX)
    then, otherwise = Builder(), Builder()
    product = then.add("relu", then.add("matmul", x, y))
    first = Graph("then", (), (product, then.reshape(product, (16,))), tuple(then.nodes))
    difference = otherwise.add("sub", x, y)
    second = Graph("else", (), (difference, otherwise.reshape(y, (16,))), tuple(otherwise.nodes))
    results = (Value("a", MATRIX), Value("b", tensor_type("float32", (16,))))
    node = branches(hot, (first, second), results, ("If",), "if")
    after = Builder(["a", "b"])
    c = after.add("exp", results[0])
    return verify(with_unique_names(Graph("chosen", (hot, x, y), (*results, c), (node, *after.nodes))), infer)


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_one_branch_runs(generator: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    graph = chosen(tensor_type("bool", shape))
    result = compiled(graph, generator)
    for hot in (False, True):
        check(graph, result, tmp_path, fed(graph, hot=np.full(shape, hot)))
    with load(write_bundle(result, tmp_path / "bundle")) as bundle:
        names = {time.name for time in bundle.profile() if time.nanoseconds > 0}
        assert len(names) < len(result.calls)


def test_a_constant_condition_leaves_one_branch() -> None:
    graph = chosen()
    constant = replace(graph.inputs[0], data=np.array(True))
    node = replace(graph.nodes[0], inputs=(constant,))
    optimized = optimize(replace(graph, inputs=graph.inputs[1:], nodes=(node, *graph.nodes[1:])), check=True)
    assert all(not node.regions for node in optimized.nodes)
    assert "matmul" in [node.op for node in optimized.nodes]


def nested() -> Graph:
    """A loop in a loop, with a choice inside of it, all over captured values."""

    def outer(b: Builder, number: Value, values: Values) -> tuple[Values, Values]:
        s, x = values
        inner = Builder()
        j, t = Value("j", NUMBER), Value("t", MATRIX)
        both = inner.add("add", j, number)
        odd = inner.add("equal", inner.add("mod", both, inner.scalar(2, "int64")), inner.scalar(1, "int64"))
        then, otherwise = Builder(), Builder()
        more, less = then.add("add", t, x), otherwise.add("mul", t, otherwise.add("tanh", s))
        regions = (Graph("then", (), (more,), tuple(then.nodes)), Graph("else", (), (less,), tuple(otherwise.nodes)))
        result = Value("chosen", MATRIX)
        inner.keep(branches(odd, regions, (result,), ("If",), "if"))
        body = Graph("inner", (j, t), (result,), tuple(inner.nodes))
        last = Value("inner_last", MATRIX)
        trips = b.add("add", number, b.scalar(1, "int64"))
        b.keep(loop(body, [s], [last], sources=("Inner",), name="inner", limit=20, trips=trips))
        return (last,), (b.add("neg", last),)

    return looped([MATRIX], outer)


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_nesting(generator: str, tmp_path: Path) -> None:
    graph = nested()
    result = compiled(graph, generator)
    for trips in (0, 1, 5):
        check(graph, result, tmp_path, fed(graph, trips=trips), made=trips)
    assert print_graph(graph).count("graph ") == 5
    source = static_model(compiled(graph, target="cortex-m4"))
    assert (source.count("for (int64_t n1"), source.count("for (int64_t n2"), source.count("} else {")) == (1, 1, 1)


def test_types_that_do_not_go_together() -> None:
    graph = looped([MATRIX], growing, count=9)
    (node,) = graph.nodes
    body = node.regions[0]
    for wrong in (
        replace(node, attributes={**node.attributes, "count": 10}),
        replace(node, regions=(replace(body, inputs=body.inputs[1:]),)),
        replace(node, regions=(replace(body, outputs=(body.inputs[0],), output_names=("i",)),)),
        replace(node, attributes={**node.attributes, "conditional": True}),
    ):
        with pytest.raises(SternaError, match="E0108"):
            infer(wrong)


def test_what_a_loop_touches_lies_in_the_fastest_memory() -> None:
    """Its body runs again and again: what it carries is touched more than what is there once."""
    graph = looped(
        [MATRIX],
        lambda b, n, v: ((b.add("matmul", v[0], v[1]),), ()),
        count=9,
        after=lambda b, y: b.add("matmul", b.add("softmax", y, axis=1), y),
    )
    fast = Memory("fast", "device", bytes=64, bytes_per_cycle=8)
    large = Memory("large", "device", bytes=4096, bytes_per_cycle=1)
    target = replace(load_target("cortex-m4"), memories=(large, fast))
    plan = compile_graph(graph, "looped", Options(target, "llvm")).plan
    inside = {v.name: life.touches for life in plan.lives for v in life.members}
    assert min(inside.values()) < 9 <= max(inside.values())
    carried = max(plan.lives, key=lambda life: life.touches)
    assert {plan.pools[plan.pool_of[v]].name for v in carried.members} == {"fast"}
