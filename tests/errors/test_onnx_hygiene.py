"""Models that are not as tidy as they should be: each is read as it is meant, or refused with an error that says why.

Duplicate and missing names, opset mixes, initializers which are inputs, the order of nodes, recursion, and constants
that are no numbers; at the top of a model, in the branches of an If, in the bodies of loops, and in functions. External
data and models of more than 2 GB: `test_onnx_errors.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser

from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.targets.description import load_target
from sterna_runtime import load

node = helper.make_node
BOOL, I64 = TensorProto.BOOL, TensorProto.INT64
ONES = np.ones(3, np.float32)


def value(name: str, shape: Sequence[int] | None = (2, 3), dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name: str = "w", array: Any = ONES) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    opsets: Sequence[tuple[str, int]] = (("", 17),),
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model whose inputs are of 2 x 3 floats; one that is called c is a bool, one that is called n a number."""
    kinds = {"c": (BOOL, []), "n": (I64, [])}
    fed = [value(name, kinds.get(name, (0, [2, 3]))[1], kinds.get(name, (TensorProto.FLOAT,))[0]) for name in inputs]
    graph = helper.make_graph(list(nodes), "net", fed, [value(name, None) for name in outputs], list(weights))
    imports = [helper.make_opsetid(*opset) for opset in opsets]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)


def branch(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    inputs: Sequence[onnx.ValueInfoProto] = (),
    outputs: Sequence[str] = ("t",),
) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "part", list(inputs), [value(name, None) for name in outputs], list(weights))


def choice(then: onnx.GraphProto) -> onnx.ModelProto:
    """An If with a branch, and another one that is good."""
    other = branch([node("Neg", ["x"], ["o"])], outputs=["o"])
    return model([node("If", ["c"], ["y"], then_branch=then, else_branch=other)], inputs=["x", "c"])


def loop(body: onnx.GraphProto) -> onnx.ModelProto:
    return model([node("Loop", ["n", "", "x"], ["y"], body=body)], inputs=["x", "n"])


def scan(body: onnx.GraphProto) -> onnx.ModelProto:
    return model([node("Scan", ["s", "x"], ["", "y"], body=body, num_scan_inputs=1)], [weight("s")])


def body(nodes: Sequence[onnx.NodeProto], weights: Sequence[onnx.TensorProto] = ()) -> onnx.GraphProto:
    """One of a Loop that carries s and makes t of it."""
    fed = [value("i", [], I64), value("going", [], BOOL), value("s")]
    return branch(nodes, weights, fed, ["going", "t"])


def element(nodes: Sequence[onnx.NodeProto], weights: Sequence[onnx.TensorProto] = ()) -> onnx.GraphProto:
    """One of a Scan that carries s and makes t of it, and of each row."""
    return branch(nodes, weights, [value("s", [3]), value("row", [3])], ["s", "t"])


Part = Callable[[Sequence[onnx.NodeProto], Sequence[onnx.TensorProto]], onnx.ModelProto]
#: A model around nodes that make t of x, at some place.
PLACES: dict[str, Part] = {
    "main": lambda nodes, weights: model(nodes, weights, outputs=["t"]),
    "if": lambda nodes, weights: choice(branch(nodes, weights)),
    "loop": lambda nodes, weights: loop(body(nodes, weights)),
    "scan": lambda nodes, weights: scan(element(nodes, weights)),
}


def refused(broken: onnx.ModelProto, code: str, said: str = "") -> None:
    with pytest.raises(SternaError) as caught:
        read(broken)
    assert set(caught.value.codes) == {code}, str(caught.value)
    assert said in str(caught.value)


# ---------------------------------------------------------------- names
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("nodes", "weights", "said"),
    [
        pytest.param(["Relu x t", "Neg x t"], [], '"t" is defined twice', id="tensor"),
        pytest.param(["Relu x x", "Neg x t"], [], '"x" is defined twice', id="tensor-and-input"),
        pytest.param(["Relu x w", "Add x w t"], ["w"], '"w" is defined twice', id="tensor-and-weight"),
        pytest.param(["Add x w t"], ["w", "w"], 'the initializer "w" stands there twice', id="weight"),
        pytest.param(["Relu x t"], [""], "an initializer has no name", id="nameless-weight"),
        pytest.param(["Add x nowhere t"], [], 'nothing computes the tensor "nowhere"', id="missing-tensor"),
        pytest.param(["Relu x other"], [], 'nothing computes the output "t"', id="missing-result"),
        pytest.param(["Add x u t", "Relu t u"], [], "depend on each other", id="cycle"),
    ],
)
def test_names(place: str, nodes: Sequence[str], weights: Sequence[str], said: str) -> None:
    made = []
    for text in nodes:
        op, *operands, result = text.split()
        made.append(node(op, operands, [result]))
    said = 'nothing computes the tensor "t"' if "output" in said and place != "main" else said
    refused(PLACES[place](made, [weight(name) for name in weights]), "E0103", said)


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        (["x", "x"], ["y"], 'the input "x" stands there twice'),
        (["x", ""], ["y"], "an input has no name"),
        (["x"], ["y", "y"], 'the output "y" stands there twice'),
        (["x"], ["y", ""], "an output has no name"),
    ],
)
def test_names_of_the_signature(inputs: Sequence[str], outputs: Sequence[str], said: str) -> None:
    refused(model([node("Relu", ["x"], ["y"])], inputs=inputs, outputs=outputs), "E0103", said)


def test_names_of_a_body() -> None:
    step = body([node("Relu", ["s"], ["t"])])
    step.input[0].name = "s"
    refused(loop(step), "E0103", 'branch part: the input "s" stands there twice')
    step.input[0].name = ""
    refused(loop(step), "E0103", "branch part: an input has no name")


def test_names_that_nodes_share_or_lack() -> None:
    nodes = [node("Relu", ["x"], ["a"], name="n"), node("Neg", ["a"], ["b"], name="n"), node("Exp", ["b"], ["y"])]
    graph = read(model(nodes))
    assert len({n.name for n in graph.nodes}) == 3


def test_branches_do_not_see_each_other() -> None:
    """Both name a tensor in the same way, as exporters do."""
    then = branch([node("Relu", ["x"], ["same"]), node("Neg", ["same"], ["t"])])
    other = branch([node("Exp", ["x"], ["same"]), node("Neg", ["same"], ["t"])])
    proto = model([node("If", ["c"], ["y"], then_branch=then, else_branch=other)], inputs=["x", "c"])
    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    session = onnxruntime.InferenceSession(onnx.shape_inference.infer_shapes(proto).SerializeToString())
    for c in (True, False):
        feeds = {"x": x, "c": np.array(c)}
        np.testing.assert_allclose(interpret(read(proto), feeds)["y"], session.run(None, feeds)[0], rtol=1e-6)
    leaking = branch([node("Exp", ["x"], ["t"])])
    reading = branch([node("Neg", ["t"], ["o"])], outputs=["o"])
    refused(model([node("If", ["c"], ["y"], then_branch=leaking, else_branch=reading)], inputs=["x", "c"]), "E0103")


def test_branches_of_different_signatures() -> None:
    refused(choice(branch([node("Relu", ["x"], ["t"])], outputs=["t", "t"])), "E0103", "2 and 1 outputs")
    refused(choice(branch([node("Relu", ["x"], ["t"])], outputs=[])), "E0103", "0 and 1 outputs")
    refused(choice(branch([node("Relu", ["q"], ["t"])], inputs=[value("q")])), "E0103", '"q"')


# ---------------------------------------------------------------- initializers which are inputs
def test_an_initializer_that_is_an_input_is_a_constant() -> None:
    graph = read(model([node("Add", ["x", "w"], ["y"])], [weight()], inputs=["x", "w"]))
    assert [v.name for v in graph.inputs] == ["x"]


def test_an_initializer_that_is_an_input_of_a_body_gives_way_to_the_operand() -> None:
    default = weight("s", np.full((2, 3), 9, np.float32))
    proto = loop(body([node("Add", ["s", "s"], ["t"])], [default]))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(interpret(read(proto), {"x": x, "n": np.int64(2)})["y"], 4 * x)


# ---------------------------------------------------------------- order
@pytest.mark.parametrize("place", PLACES)
def test_unsorted_nodes(place: str) -> None:
    nodes = [node("Neg", ["b"], ["t"]), node("Exp", ["a"], ["b"]), node("Relu", ["x"], ["a"])]
    sorted_, unsorted = (interpret(read(PLACES[place](n, [])), feeds(place)) for n in (nodes[::-1], nodes))
    for name, array in sorted_.items():
        np.testing.assert_array_equal(unsorted[name], array)


def feeds(place: str) -> dict[str, np.ndarray]:
    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    extra = {"if": {"c": np.array(True)}, "loop": {"n": np.array(3)}}
    return {"x": x, **extra.get(place, {})}


# ---------------------------------------------------------------- operator sets
@pytest.mark.parametrize(
    ("opsets", "said"),
    [
        ([("", 13), ("ai.onnx", 17)], "the model uses ai.onnx 13 and 17"),
        ([("ai.onnx.ml", 3), ("ai.onnx.ml", 1), ("", 17)], "the model uses ai.onnx.ml 3 and 1"),
        ([("", 17), ("ai.onnx.ml", 99)], "the installed onnx package knows"),
        ([("ai.onnx.ml", 3)], "does not say which operator set of ai.onnx it uses"),
        ([("", -1)], "the oldest supported is 1"),
    ],
)
def test_operator_sets_that_do_not_go_together(opsets: Sequence[tuple[str, int]], said: str) -> None:
    refused(model([node("Relu", ["x"], ["y"])], opsets=opsets), "E0102", said)


def test_operator_sets_that_do() -> None:
    for opsets in ([("", 17), ("", 17)], [("ai.onnx", 17)], [("", 17), ("com.acme", 3), ("ai.onnx.training", 1)]):
        assert [n.op for n in read(model([node("Relu", ["x"], ["y"])], opsets=opsets)).nodes] == ["relu"]
    scaler = node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[0.0], scale=[2.0])
    refused(model([scaler]), "E0102", "operator set of ai.onnx.ml")
    refused(choice(branch([node("Scaler", ["x"], ["t"], domain="ai.onnx.ml")])), "E0102", "operator set of ai.onnx.ml")


# ---------------------------------------------------------------- functions
def function(name: str, nodes: Sequence[onnx.NodeProto], opset: int = 17, **rest: Any) -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], list(nodes), imports, **rest)


def calling(functions: Sequence[onnx.FunctionProto], **attributes: Any) -> onnx.ModelProto:
    call = node(functions[-1].name, ["x"], ["y"], domain="own", **attributes)
    return model([call], opsets=[("", 17), ("own", 1)], functions=functions)


def own(name: str, a: str = "a", b: str = "b") -> onnx.NodeProto:
    return node(name, [a], [b], domain="own")


def test_functions_that_call_themselves() -> None:
    refused(calling([function("F", [own("F")])]), "E0103", "own.F calls itself")
    refused(calling([function("F", [own("G")]), function("G", [own("F")])]), "E0103", "calls itself")
    inside = branch([own("F", "a", "t")])
    recursive = node("If", ["c"], ["b"], then_branch=inside, else_branch=branch([node("Neg", ["a"], ["t"])]))
    condition = node("Constant", [], ["c"], value=weight("c", True))
    refused(calling([function("F", [condition, recursive])]), "E0103", "own.F calls itself")


def test_functions_of_functions_without_end() -> None:
    """Each calls the one before ten times: a billion nodes, counted and not made."""
    functions = [function("F0", [node("Relu", ["a"], ["b"])])]
    for n in range(1, 10):
        names = ["a", *(f"v{k}" for k in range(9)), "b"]
        functions.append(function(f"F{n}", [own(f"F{n - 1}", *pair) for pair in pairwise(names)]))
    refused(calling(functions), "E0112", "1000000000 nodes")


def test_functions_that_are_defined_twice_or_never() -> None:
    relu = function("F", [node("Relu", ["a"], ["b"])])
    refused(calling([relu, relu]), "E0103", "own.F is defined twice")
    refused(calling([function("F", [own("G")])]), "E0104", "own.G")


@pytest.mark.parametrize("opset", [11, 17, 18])
def test_functions_of_another_operator_set(opset: int) -> None:
    """Softmax of operator set 11 takes all dimensions from the axis on together."""
    softmax = node("Softmax", ["a"], ["b"])
    softmax.attribute.add(name="axis", ref_attr_name="along", type=onnx.AttributeProto.INT)
    default = helper.make_attribute("along", 1)
    rest = {"attribute_protos": [default]}
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7
    for given_ in ({}, {"along": 1}, {"along": 2}):
        proto = calling([function("F", [softmax], opset, **rest)], **given_)
        proto.graph.input[0].CopyFrom(value("x", [2, 3, 4]))
        axis = given_.get("along", 1)
        axes = tuple(range(axis, 3)) if opset < 13 else (axis,)
        e = np.exp(x)
        found = interpret(read(proto), {"x": x})["y"]
        np.testing.assert_allclose(found, e / e.sum(axis=axes, keepdims=True), rtol=1e-5)


# ---------------------------------------------------------------- recursion
def nested(depth: int) -> onnx.ModelProto:
    """Ifs within each other, made in place: copies of messages may be nested 100 deep at most."""
    result = model([], inputs=["x", "c"], outputs=["t0"])
    graph = result.graph
    for n in range(depth):
        inner = graph.node.add(op_type="If", input=["c"], output=[f"t{n}"])
        other = inner.attribute.add(name="else_branch", type=onnx.AttributeProto.GRAPH)
        other.g.CopyFrom(branch([node("Neg", ["x"], ["o"])], outputs=["o"]))
        then = inner.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH)
        then.g.name = "then"
        then.g.output.append(value(f"t{n + 1}", None))
        graph = then.g
    graph.node.append(node("Relu", ["x"], [f"t{depth}"]))
    return result


def test_graphs_within_graphs(tmp_path: Path) -> None:
    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    for c, want in ((True, np.maximum(x, 0)), (False, -x)):
        np.testing.assert_array_equal(interpret(read(nested(20)), {"x": x, "c": np.array(c)})["t0"], want)
    for depth in (80, 5000):
        refused(nested(depth), "E0103", "nested")
    (tmp_path / "net.onnx").write_bytes(nested(90).SerializeToString())
    with pytest.raises(SternaError, match=r"E010[13]"):
        read(tmp_path / "net.onnx")


@pytest.mark.parametrize("good", [True, False])
def test_loops_within_loops(good: bool) -> None:
    """Eight iterations are written out, but not eight times eight times eight ...; nor is any way tried twice."""
    inner = body([node("Relu", ["s"], ["t"])] if good else [node("Reshape", ["s", "s"], ["t"])])
    for _ in range(20):
        inner = body([node("Loop", ["trips", "", "s"], ["t"], body=inner)])
        for n, name in enumerate(("i", "going", "s")):  # names are those of one body only
            inner.input[n].name = name
    proto = model([node("Loop", ["trips", "", "x"], ["y"], body=renamed(inner))], [weight("trips", np.int64(8))])
    started = time.process_time()
    if good:
        read(proto)
    else:
        refused(proto, "E0107")
    assert time.process_time() - started < 20


def renamed(graph: onnx.GraphProto, depth: int = 0) -> onnx.GraphProto:
    """Names that no surrounding graph has."""
    result = onnx.GraphProto()
    result.CopyFrom(graph)
    for part in (result.input, result.output):
        for info in part:
            info.name += str(depth)
    for inner in result.node:
        for names in (inner.input, inner.output):
            names[:] = [name if name in ("trips", "") else f"{name}{depth}" for name in names]
        for attribute in inner.attribute:
            attribute.g.CopyFrom(renamed(attribute.g, depth + 1))
    return result


# ---------------------------------------------------------------- constants that are no numbers
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(("generator", "dialect"), [("llvm", "vector"), ("c", "vector"), ("c", "plain")])
def test_nan_and_infinity_as_constants(generator: str, dialect: str, tmp_path: Path) -> None:
    """As elements of tensors, as tensors of one value, as attributes and as bounds; in float32, 64 and 16."""
    proto = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        special (float[3, 4] x, double[4] d, float16[4] h)
            => (float[3, 4] a, float[3, 4] b, float[3, 4] e, float[5, 6] f, double[4] g, float16[4] k, float[3, 4] m)
        {
          a = Add(x, row)
          b = Clip(x, low, high)
          less = Less(x, zero)
          e = Where(less, nan, x)
          f = Pad(x, pads, low)
          g = Mul(d, wide)
          k = Max(h, half)
          t = LeakyRelu <alpha = 0.5> (x)
          m = Add(t, filled)
        }"""
    )
    constants = {
        "row": np.array([NAN, INF, -INF, -0.0], np.float32),
        "low": np.array(-INF, np.float32), "high": np.array(INF, np.float32), "zero": np.array(0, np.float32),
        "nan": np.array(NAN, np.float32), "pads": np.array([1, 1, 1, 1]), "wide": np.array([NAN, INF, -INF, 1.0]),
        "half": np.array([NAN, INF, -INF, 1.0], np.float16), "filled": np.full((3, 4), -INF, np.float32),
    }  # fmt: skip
    proto.graph.initializer.extend(weight(name, array) for name, array in constants.items())
    proto.graph.node[7].attribute[0].f = INF
    x = np.array([[1, -2, 0, 3], [INF, -INF, NAN, -0.0], [4, 5, -6, 7]], np.float32)
    given_ = {"x": x, "d": np.array([1, 0, -2, NAN]), "h": np.array([1, 2, 3, NAN], np.float16)}
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, given_)
    graph = read(proto)
    machine = load_target("host")
    if dialect == "plain":
        machine = replace(machine, dialect="plain", vector_bits=0)
    with load(write_bundle(compile_graph(graph, "special", Options(machine, generator)), tmp_path / "b")) as bundle:
        every = (interpret(graph, given_), bundle.run(given_))
    for found in every:
        for (name, have), want in zip(found.items(), wanted, strict=True):
            np.testing.assert_array_equal(have, want, err_msg=name)


# ---------------------------------------------------------------- damaged files
def control() -> bytes:
    """A model with a function, a choice and a loop."""
    text = """
    <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    net (bool c, int64 n, float[2, 3] x) => (float[2, 3] y)
    <bool on = {1}, float[3] w = {1, 2, 3}>
    {
      a = own.F(x)
      z = If (c) <then_branch = one () => (float[2, 3] p) { p = Add(a, w) },
                  else_branch = two () => (float[2, 3] q) { q = Neg(a) }>
      y = Loop (n, on, z) <body = step
        (int64 i, bool going, float[2, 3] s) => (bool going, float[2, 3] t) { u = Mul(s, w)  t = Tanh(u) }>
    }
    <domain: "own", opset_import: ["" : 17]>
    F (a) => (b) { r = Relu(a)  b = Exp(r) }"""
    content: bytes = parser.parse_model(text).SerializeToString()
    return content


CONTROL = control()


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_control_flow_never_crashes(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    content = bytearray(CONTROL)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.mktemp("fuzz") / "net.onnx"
    path.write_bytes(content)
    codes: tuple[str, ...] = ()
    try:
        read(path)
    except SternaError as mistake:
        codes = mistake.codes
    assert all(code.startswith("E01") for code in codes)
