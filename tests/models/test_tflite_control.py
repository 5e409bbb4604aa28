"""Conditions, loops, signatures and variables of TensorFlow Lite models, against the reference runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import sterna
from sterna.bundle.writer import write_bundle
from sterna.cli import program
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends import tflite
from sterna.targets.description import load_target
from sterna_runtime import load
from support.tflite_builder import GraphWriter, ModelWriter, reference
from support.trained import digits

GENERATORS = [
    pytest.param("c", marks=pytest.mark.family("host-c")),
    pytest.param("llvm", marks=pytest.mark.family("host-llvm")),
]
X = np.array([[1.5, -2.0, 0.25], [4.0, 3.0, -7.5]], np.float32)


def check(model: ModelWriter, runs: Sequence[Mapping[str, np.ndarray]], folder: Path, generator: str) -> None:
    """A bundle gives what the reference runtime gives, run after run."""
    content = model.content()
    expected = reference(content, runs)
    file = folder / "model.tflite"
    file.write_bytes(content)
    compiled = compile_graph(tflite.read(file), "model", Options(load_target("host"), generator))
    with load(write_bundle(compiled, folder / "bundle")) as bundle:
        for feeds, want in zip(runs, expected, strict=True):
            for have, wanted in zip(bundle.run(feeds).values(), want, strict=True):
                np.testing.assert_allclose(have, wanted, rtol=1e-6)


def arithmetic(graph: GraphWriter, name: str, factor: float) -> None:
    """y = x (name) factor."""
    x = graph.input(X)
    y = graph.output("float32", X.shape)
    operands = [x, graph.constant(np.array(factor, np.float32))]
    graph.op(name, operands, [y], {"ADD": "AddOptions", "MUL": "MulOptions"}[name])


@pytest.mark.parametrize("generator", GENERATORS)
def test_if(generator: str, tmp_path: Path) -> None:
    model = ModelWriter()
    g = model.main
    condition, x = g.input(np.array([True])), g.input(X)
    arithmetic(model.graph("then"), "ADD", 10.0)
    arithmetic(model.graph("else"), "MUL", -3.0)
    y = g.output("float32", X.shape)
    g.op("IF", [condition, x], [y], "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    runs = [{"t0": np.array([value]), "t1": X} for value in (True, False, True)]
    check(model, runs, tmp_path, generator)


def counting() -> ModelWriter:
    """while i < limit: x = 2 x + bias, i = i + 1."""
    model = ModelWriter()
    g = model.main
    operands = [g.input(np.array(0, np.int32).reshape(1)), g.input(np.array([5], np.int32)), g.input(X), g.input(X)]
    results = [g.output("int32", (1,)), g.output("int32", (1,)), g.output("float32", X.shape)]
    results.append(g.output("float32", X.shape))
    condition, body = model.graph("condition"), model.graph("body")
    a = [condition.input(np.zeros(1, np.int32)) for _ in range(2)] + [condition.input(X) for _ in range(2)]
    condition.op("LESS", a[:2], [condition.output("bool", (1,))], "LessOptions")
    b = [body.input(np.zeros(1, np.int32)) for _ in range(2)] + [body.input(X) for _ in range(2)]
    following, doubled = body.output("int32", (1,)), body.tensor("float32", X.shape)
    body.outputs.append(b[1])
    last = body.output("float32", X.shape)
    body.outputs.append(b[3])
    body.op("ADD", [b[0], body.constant(np.ones(1, np.int32))], [following], "AddOptions")
    body.op("MUL", [b[2], body.constant(np.array(2, np.float32))], [doubled], "MulOptions")
    body.op("ADD", [doubled, b[3]], [last], "AddOptions")
    g.op("WHILE", operands, results, "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    return model


@pytest.mark.parametrize("generator", GENERATORS)
def test_while(generator: str, tmp_path: Path) -> None:
    model = counting()
    runs = [{**model.feeds, "t1": np.array([n], np.int32)} for n in (5, 0, 1)]
    check(model, runs, tmp_path, generator)


def test_a_graph_that_calls_itself_is_refused(tmp_path: Path) -> None:
    model = counting()
    for operator in model.main.operators:
        operator.builtinOptions.bodySubgraphIndex = 0
    file = tmp_path / "model.tflite"
    file.write_bytes(model.content())
    with pytest.raises(SternaError) as caught:
        tflite.read(file)
    assert set(caught.value.codes) == {"E0103"}
    assert "contains itself" in str(caught.value)


def two_signatures() -> ModelWriter:
    model = ModelWriter()
    second = model.graph("second")
    arithmetic(model.main, "ADD", 1.0)
    arithmetic(second, "MUL", 3.0)
    model.signature("plus", 0, {"image": 0}, {"more": 1})
    model.signature("times", 1, {"image": 0}, {"product": 1})
    return model


def test_signatures_by_name(tmp_path: Path) -> None:
    file = tmp_path / "model.tflite"
    file.write_bytes(two_signatures().content())
    graph = tflite.read(file, signature="times")
    assert [v.name for v in graph.inputs] == ["image"]
    assert graph.result_names == ("product",)
    with load(write_bundle(compile_graph(graph, "m", Options(load_target("host"), "llvm")), tmp_path / "b")) as bundle:
        np.testing.assert_array_equal(bundle.run({"image": X})["product"], X * 3)
    shown = CliRunner().invoke(program, ["inspect", str(file)]).output
    for part in ("TensorFlow Lite", "signatures: plus, times", "t0", "float32[2, 3]", "ADD", "MUL", "2 weights"):
        assert part in shown
    with pytest.raises(SternaError, match="plus, times"):
        tflite.read(file, signature="minus")
    shown = CliRunner().invoke(program, ["inspect", str(file), "--signature", "times"]).output
    assert "product" in shown
    assert "t1" not in shown
    verified = CliRunner().invoke(program, ["verify", str(file), "--signature", "times", "-g", "llvm", "--json"])
    assert verified.exit_code == 0, verified.output
    assert [row["name"] for row in json.loads(verified.output)["outputs"]] == ["product"]
    for command in (["inspect"], ["verify"], ["compile", "-o", str(tmp_path / "none")]):
        refused = CliRunner().invoke(program, [command[0], str(file), "--signature", "minus", *command[1:]])
        assert refused.exit_code == 1, refused.output
        assert "plus, times" in refused.output
    refused = CliRunner().invoke(program, ["inspect", str(digits().file), "--signature", "plus"])
    assert "E0106" in refused.output
    arguments = ["compile", str(file), "--signature", "plus", "-g", "llvm", "-o", str(tmp_path / "plus"), "--json"]
    shown = CliRunner().invoke(program, arguments)
    assert shown.exit_code == 0, shown.output
    with load(tmp_path / "plus") as bundle:
        np.testing.assert_array_equal(bundle.run({"image": X})["more"], X + 1)
    shown = CliRunner().invoke(program, [*arguments, "--golden", "1"])
    assert shown.exit_code == 0, shown.output
    (golden,) = json.loads((tmp_path / "plus" / "golden.json").read_text())["sets"]
    assert [row["name"] for row in golden["outputs"]] == ["more"]
    with pytest.raises(SternaError, match="E0106"):
        sterna.compile(digits().file, signature="plus")


@pytest.mark.parametrize("generator", GENERATORS)
def test_variables_keep_their_value_and_begin_with_what_call_once_gives(generator: str, tmp_path: Path) -> None:
    model = ModelWriter()
    g, first = model.main, model.graph("first")
    start = np.full((2, 3), 7, np.float32)
    handle = first.tensor("resource", ())
    first.op("VAR_HANDLE", [], [handle], "VarHandleOptions", container="", sharedName="sum")
    first.op("ASSIGN_VARIABLE", [handle, first.constant(start)], [], "AssignVariableOptions")
    g.op("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    x, own, old, new = g.input(X), g.tensor("resource", ()), g.tensor("float32", X.shape), g.output("float32", X.shape)
    g.op("VAR_HANDLE", [], [own], "VarHandleOptions", container="", sharedName="sum")
    g.op("READ_VARIABLE", [own], [old], "ReadVariableOptions")
    g.op("ADD", [old, x], [new], "AddOptions")
    g.op("ASSIGN_VARIABLE", [own, new], [], "AssignVariableOptions")
    content = model.content()
    file = tmp_path / "model.tflite"
    file.write_bytes(content)
    runs = [{f"t{x}": X}, {f"t{x}": -2 * X}, {f"t{x}": X}]
    expected = reference(content, runs)
    compiled = compile_graph(tflite.read(file), "model", Options(load_target("host"), generator))
    with load(write_bundle(compiled, tmp_path / "bundle")) as bundle:
        for feeds, (want,) in zip(runs, expected, strict=True):
            np.testing.assert_allclose(next(iter(bundle.run(feeds).values())), want, rtol=1e-6)
        bundle.reset_state()
        np.testing.assert_allclose(next(iter(bundle.run(runs[0]).values())), start + X)


def handle(graph: GraphWriter, name: str = "sum") -> int:
    made = graph.tensor("resource", ())
    graph.op("VAR_HANDLE", [], [made], "VarHandleOptions", container="", sharedName=name)
    return made


def read(graph: GraphWriter, variable: int) -> int:
    value = graph.tensor("float32", X.shape)
    graph.op("READ_VARIABLE", [variable], [value], "ReadVariableOptions")
    return value


def assign(graph: GraphWriter, variable: int, value: int) -> None:
    graph.op("ASSIGN_VARIABLE", [variable, value], [], "AssignVariableOptions")


def begin(model: ModelWriter, *names: str) -> None:
    """The variables hold threes before the first run."""
    first = model.graph("first")
    for name in names:
        assign(first, handle(first, name), first.constant(np.full(X.shape, 3, np.float32)))
    model.main.op("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=len(model.graphs) - 1)


@pytest.mark.parametrize("generator", GENERATORS)
def test_variables_assigned_in_one_branch_or_both(generator: str, tmp_path: Path) -> None:
    model = ModelWriter()
    g, then, otherwise = model.main, model.graph("then"), model.graph("else")
    condition, x = g.input(np.array([True])), g.input(X)
    for graph, names in ((then, ("sum", "last")), (otherwise, ("sum",))):
        taken, made = graph.input(X), graph.output("float32", X.shape)
        graph.op("MUL" if graph is then else "ADD", [read(graph, handle(graph)), taken], [made],
                 "MulOptions" if graph is then else "AddOptions")  # fmt: skip
        for name in names:
            assign(graph, handle(graph, name), made if name == "sum" else taken)
    begin(model, "sum", "last")
    y = g.output("float32", X.shape)
    g.op("IF", [condition, x], [y], "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    total, last = g.output("float32", X.shape), g.output("float32", X.shape)
    for name, result in (("sum", total), ("last", last)):
        g.op("ADD", [read(g, handle(g, name)), x], [result], "AddOptions")
    runs = [{"t0": np.array([way]), "t1": X / (n + 1)} for n, way in enumerate((False, True, True, False, False))]
    check(model, runs, tmp_path, generator)


@pytest.mark.parametrize("handed_on", [True, False])
@pytest.mark.parametrize("generator", GENERATORS)
def test_variables_assigned_in_a_loop(generator: str, handed_on: bool, tmp_path: Path) -> None:
    """While i < limit: sum = sum / 2 + x; the variable is an argument of the graphs, or they name it themselves."""
    model = ModelWriter()
    g, condition, body = model.main, model.graph("condition"), model.graph("body")
    start, limit, x = g.input(np.zeros(1, np.int32)), g.input(np.array([3], np.int32)), g.input(X)
    inner = []
    for graph in (condition, body):
        arguments = [graph.input(np.zeros(1, np.int32)), graph.input(np.zeros(1, np.int32)), graph.input(X)]
        if handed_on:
            arguments.append(graph.tensor("resource", ()))
            graph.inputs.append(arguments[-1])
        inner.append(arguments)
    condition.op("LESS", inner[0][:2], [condition.output("bool", (1,))], "LessOptions")
    following, half, new = (body.tensor(*kind) for kind in (("int32", (1,)), *[("float32", X.shape)] * 2))
    variable = inner[1][3] if handed_on else handle(body)
    body.op("ADD", [inner[1][0], body.constant(np.ones(1, np.int32))], [following], "AddOptions")
    body.op("MUL", [read(body, variable), body.constant(np.array(0.5, np.float32))], [half], "MulOptions")
    body.op("ADD", [half, inner[1][2]], [new], "AddOptions")
    assign(body, variable, new)
    body.outputs = [following, *inner[1][1:]]
    begin(model, "sum")
    operands = [start, limit, x, *([handle(g)] if handed_on else [])]
    results = [g.tensor(*kind) for kind in (("int32", (1,)), ("int32", (1,)), ("float32", X.shape), ("resource", ()))]
    g.op("WHILE", operands, results[: len(operands)], "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    y = g.output("float32", X.shape)
    g.op("ADD", [read(g, results[3] if handed_on else handle(g)), x], [y], "AddOptions")
    runs = [{**model.feeds, "t1": np.array([n], np.int32)} for n in (3, 0, 1, 4)]
    check(model, runs, tmp_path, generator)
