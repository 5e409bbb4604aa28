"""TensorFlow graphs whose sizes inputs or data decide: values of inputs, arrays that grow, choices of other sizes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import sterna
from sterna.cli import program
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.frontend_models import frontend_model
from support.graph_defs import Function, GraphWriter, Kind
from support.trained import agree

Array = np.ndarray


def growing() -> GraphWriter:
    """while i < n: the array gets the numbers of x that are greater than i; then all of them, one after the other."""
    g = GraphWriter()
    g.input("x", (6,))
    g.input("n", (), "int32")
    g.constant(np.int32(0), name="zero")
    g.node("TensorArrayV3", ["zero"], name="array", dtype=Kind("float32"), dynamic_size=True)
    g.node("Enter", ["array"], name="handle", frame_name="loop", is_constant=True)
    g.node("Enter", ["x"], name="inside", frame_name="loop", is_constant=True)
    g.node("Enter", ["n"], name="most", frame_name="loop", is_constant=True)
    for name, first in (("i", "zero"), ("flow", "array:1")):
        g.node("Enter", [first], name=f"{name}/enter", frame_name="loop")
        g.node("Merge", [f"{name}/enter", f"{name}/next"], name=f"{name}/merge")
    g.node("Less", ["i/merge", "most"], name="less")
    g.node("LoopCond", ["less"], name="going")
    for name in ("i", "flow"):
        g.node("Switch", [f"{name}/merge", "going"], name=f"{name}/switch")
        g.node("Identity", [f"{name}/switch:1"], name=f"{name}/inside")
        g.node("Exit", [f"{name}/switch"], name=f"{name}/exit")
    g.node("Cast", ["i/inside"], name="number", DstT=Kind("float32"))
    g.node("Greater", ["inside", "number"], name="mask")
    g.node("Where", ["mask"], name="places")
    g.node("Squeeze", ["places"], name="rows", squeeze_dims=(1,))
    g.node("Gather", ["inside", "rows"], name="chosen")
    g.node("TensorArrayWriteV3", ["handle", "i/inside", "chosen", "flow/inside"], name="write")
    g.node("AddV2", ["i/inside", g.constant(np.int32(1))], name="after")
    g.node("NextIteration", ["after"], name="i/next")
    g.node("NextIteration", ["write"], name="flow/next")
    g.node("TensorArrayConcatV3", ["array", "flow/exit"], name="all", dtype=Kind("float32"))
    g.node("Identity", ["all"], name="y")
    return g


@pytest.mark.family("host-llvm")
def test_an_array_of_elements_of_different_sizes(tmp_path: Path) -> None:
    x = np.array([0.5, 1.5, 2.5, -1, 3.5, 0], np.float32)
    wanted = np.concatenate([x[x > n] for n in range(3)])
    file = growing().write(tmp_path)
    graph = read_model(file, ReadOptions(values={"n": 3}))
    np.testing.assert_array_equal(interpret(graph, {"x": x})["y"], wanted)
    with sterna.compile(file, values={"n": 3}, generator="llvm") as bundle:
        assert [tensor.name for tensor in bundle.inputs] == ["x"]
        np.testing.assert_array_equal(bundle.run({"x": x})["y"], wanted)
        np.testing.assert_array_equal(bundle.run({"x": -x})["y"], np.concatenate([-x[-x > n] for n in range(3)]))


def choosing() -> GraphWriter:
    """With p the numbers above 0 and their squares, else two numbers of either."""
    g = GraphWriter()
    g.input("x", (6,))
    g.input("p", (), "bool")
    g.node("Switch", ["x", "p"], name="switch")
    g.node("Greater", ["switch:1", g.constant(np.float32(0))], name="mask")
    g.node("Reshape", ["mask", g.constant(np.array([-1], np.int32))], name="flat")
    for n, mask in ((0, "mask"), (1, "flat")):  # as tf.where and tf.boolean_mask do it
        g.node("Where", [mask], name=f"places{n}")
        g.node("Reshape", [f"places{n}", g.constant(np.array([-1], np.int32))], name=f"rows{n}")
        g.node("Gather", ["switch:1", f"rows{n}"], name=f"chosen{n}")
    g.node("Mul", ["chosen0", "chosen1"], name="squares")
    begin, size = g.constant(np.array([1], np.int32)), g.constant(np.array([2], np.int32))
    g.node("Slice", ["switch", begin, size], name="two")
    g.node("Neg", ["two"], name="negative")
    g.node("Merge", ["two", "chosen0"], name="numbers")
    g.node("Merge", ["negative", "squares"], name="others")
    g.node("AddV2", ["numbers", "others"], name="y")
    return g


@pytest.mark.family("host-llvm")
def test_a_choice_between_results_of_different_sizes(tmp_path: Path) -> None:
    """Merges of one choice have one size, so that what they give can be added."""
    x = np.array([0.5, 1.5, 2.5, -1, 3.5, 0], np.float32)
    file = choosing().write(tmp_path)
    above = x[x > 0]
    with sterna.compile(file, generator="llvm") as bundle:
        np.testing.assert_allclose(bundle.run({"x": x, "p": np.array(True)})["y"], above + above * above)
        np.testing.assert_array_equal(bundle.run({"x": x, "p": np.array(False)})["y"], [0, 0])
        assert bundle.run({"x": -np.abs(x), "p": np.array(True)})["y"].shape == (0,)


def test_the_results_of_a_choice_are_in_the_models_order(tmp_path: Path) -> None:
    """So that the same model gives the same bundle in every process."""
    g = GraphWriter()
    g.input("x", (2,))
    g.input("p", (), "bool")
    g.node("Switch", ["x", "p"], name="switch")
    names = [f"merge{n}" for n in range(12)]
    for n, name in enumerate(names):
        g.node("Mul", ["switch", g.constant(np.array(n, np.float32))], name=f"no{n}")
        g.node("Mul", ["switch:1", g.constant(np.array(-n, np.float32))], name=f"yes{n}")
        g.node("Merge", [f"no{n}", f"yes{n}"], name=name)
    g.node("AddN", names, name="y")
    (chosen,) = [node for node in read_model(g.write(tmp_path)).nodes if node.regions]
    found = [value.name for value in chosen.regions[0].outputs]
    first, *rest = (int(name.split("/")[1].removeprefix("yes")) for name in found)
    assert rest == [n for n in range(len(names)) if n != first]


@pytest.mark.parametrize(("p", "q"), [(False, True), (True, True)])
def test_choices_that_need_each_others_results(tmp_path: Path, p: bool, q: bool) -> None:
    """Two by p and two by q, of which neither pair can be computed at once."""
    g = GraphWriter()
    g.input("x", (2,))
    g.input("p", (), "bool")
    g.input("q", (), "bool")
    for name, source, condition in (("c", "x", "q"), ("b", "x", "p"), ("a", "c", "p"), ("d", "b", "q")):
        g.node("Switch", [source, condition], name=f"{name}/switch")
        g.node("Neg", [f"{name}/switch"], name=f"{name}/no")
        g.node("Exp", [f"{name}/switch:1"], name=f"{name}/yes")
        g.node("Merge", [f"{name}/no", f"{name}/yes"], name=name)
    g.node("Sub", ["a", "d"], name="y")
    x = np.array([0.5, -1.0], np.float32)
    one, other = ((lambda v, way=way: np.exp(v) if way else -v) for way in (p, q))
    found = interpret(read_model(g.write(tmp_path)), {"x": x, "p": np.array(p), "q": np.array(q)})["y"]
    np.testing.assert_allclose(found, one(other(x)) - other(one(x)), rtol=1e-6)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_graphs_of_an_if_may_give_different_sizes(
    tmp_path_factory: pytest.TempPathFactory, one: int, other: int, holds: bool
) -> None:
    g = GraphWriter()
    g.input("x", (5,))
    g.input("p", (), "bool")
    for name, count in (("yes", one), ("no", other)):
        bounds = [("Const", [], word, {"value": np.array([n], np.int32)}) for word, n in (("at", 0), ("count", count))]
        g.function(
            name, {"a": "float32"}, [*bounds, ("Slice", ["a", "at:output:0", "count:output:0"], "made", {})],
            {"r": ("made:output:0", "float32")},
        )  # fmt: skip
    g.node("If", ["p", "x"], name="y", then_branch=Function("yes"), else_branch=Function("no"))
    x = np.arange(5, dtype=np.float32)
    graph = read_model(g.write(tmp_path_factory.mktemp("if")))
    found = interpret(graph, {"x": x, "p": np.array(holds)})["y"]
    np.testing.assert_array_equal(found, x[: one if holds else other])


@pytest.mark.parametrize("holds", [True, False])
def test_one_result_of_a_graph_beside_two_of_the_other(tmp_path: Path, holds: bool) -> None:
    """Each result has the room that its own pair needs, though both are one tensor on one side."""
    g = GraphWriter()
    g.input("x", (5,))
    g.input("p", (), "bool")
    nodes = [("Const", [], "at", {"value": np.array([0], np.int32)})]
    for count in (1, 2, 3):
        nodes.append(("Const", [], f"count{count}", {"value": np.array([count], np.int32)}))
        nodes.append(("Slice", ["a", "at:output:0", f"count{count}:output:0"], f"made{count}", {}))
    for name, counts in (("yes", (2, 2)), ("no", (1, 3))):
        results = {word: (f"made{n}:output:0", "float32") for word, n in zip("rs", counts, strict=True)}
        g.function(name, {"a": "float32"}, nodes, results)
    g.node("If", ["p", "x"], name="chosen", then_branch=Function("yes"), else_branch=Function("no"))
    g.node("Identity", ["chosen"], name="y")
    g.node("Identity", ["chosen:1"], name="z")
    x = np.arange(5, dtype=np.float32)
    found = interpret(read_model(g.write(tmp_path)), {"x": x, "p": np.array(holds)})
    assert {name: len(array) for name, array in found.items()} == ({"y": 2, "z": 2} if holds else {"y": 1, "z": 3})
    assert all(np.array_equal(array, x[: len(array)]) for array in found.values())


def test_graphs_of_an_if_that_do_not_fit_together(tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("x", (5,))
    g.input("p", (), "bool")
    one = ("Const", [], "one", {"value": np.array(1, np.float32)})
    g.function("yes", {"a": "float32"}, [one], {"r": ("one:output:0", "float32")})
    g.function("no", {"a": "float32"}, [("Neg", ["a"], "minus", {})], {"r": ("minus:y:0", "float32")})
    g.node("If", ["p", "x"], name="y", then_branch=Function("yes"), else_branch=Function("no"))
    with pytest.raises(SternaError) as caught:
        read_model(g.write(tmp_path))
    assert caught.value.codes == ("E0107",)


def test_a_value_makes_an_input_a_constant(tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("x", (2,))
    g.input("factor", (2,))
    g.input("count", (), "int32")
    g.node("Mul", ["x", "factor"], name="double")
    g.node("Pack", ["count", "count"], name="shape")
    g.node("Fill", ["shape", g.constant(np.float32(1))], name="ones")
    g.node("AddV2", ["ones", "double"], name="y")
    file = g.write(tmp_path)
    with pytest.raises(SternaError) as caught:
        read_model(file)
    assert caught.value.codes == ("E0107",)
    assert "count" in str(caught.value)
    values = {"count": 2, "factor": np.array([2.0, -1.0])}
    graph = read_model(file, ReadOptions(values=values))
    assert [value.name for value in graph.inputs] == ["x"]
    assert interpret(graph, {"x": np.ones(2, np.float32)})["y"].tolist() == [[3, 0], [3, 0]]
    for wrong, says in (({"sparkle": 1}, 'no input "sparkle"'), ({"count": (1, 2)}, "does not fit")):
        with pytest.raises(SternaError) as caught:
            read_model(file, ReadOptions(values=values | wrong))
        assert caught.value.codes == ("E0106",)
        assert says in str(caught.value)


def test_values_are_checked(tmp_path: Path) -> None:
    file = growing().write(tmp_path)
    with pytest.raises(SternaError) as caught:
        sterna.compile(file, values={"n": "three"})
    assert caught.value.codes == ("E0203",)
    run = CliRunner().invoke(program, ["compile", str(file), "--value", "n=three", "-o", str(tmp_path / "out")])
    assert run.exit_code == 2
    assert "E0002" in run.output
    run = CliRunner().invoke(
        program, ["compile", str(file), "--value", "n=2", "-g", "llvm", "--json", "-o", str(tmp_path / "out")]
    )
    assert run.exit_code == 0
    graph = json.loads((tmp_path / "out" / "graph.json").read_text())
    assert [graph["values"][n]["name"] for n in graph["inputs"]] == ["x"]


def test_other_formats_have_no_values(tmp_path: Path) -> None:
    (tmp_path / "net.cfg").write_text("[net]\ninputs=3\n[logistic]\n")
    (tmp_path / "net.weights").write_bytes(bytes(20))
    with pytest.raises(SternaError) as caught:
        read_model(tmp_path / "net.cfg", ReadOptions(values={"data": 1}))
    assert caught.value.codes == ("E0106",)
    assert "TensorFlow" in str(caught.value)


def test_a_cascade_of_detectors() -> None:
    """MTCNN in one graph: a pyramid in a loop, boxes that data decide, networks for as many pictures as boxes."""
    model = frontend_model("tf_pb_mtcnn")
    graph = read_model(model.file, ReadOptions(shapes=model.shapes(), values=model.values))
    agree(model, 0, list(interpret(graph, model.cases[0].inputs).values()))
