"""verify --bisect: a fault planted anywhere between the model and the bundle is found by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from sterna import pipeline
from sterna.api import options_of
from sterna.cli import program
from sterna.codegen import c, llvm
from sterna.codegen import source as c_source
from sterna.debug.bisect import Bisection, Fault
from sterna.debug.verify import bisect_model
from sterna.ir.graph import Graph
from sterna.loops import finish
from sterna.loops import program as P
from sterna.passes.context import PassContext
from sterna.passes.stages import Lowered, Outline, Packed, Sequenced
from sterna.runtime.here import why_not_here
from sterna.targets.description import load_target
from support.data_sized import detector
from support.planted import least_in_place_of_greatest, plant, put

MODEL = Path(__file__).resolve().parents[2] / "compiler" / "sterna" / "demo" / "digits.onnx"


def bisected(**settings: Any) -> Bisection:
    return bisect_model(MODEL, options_of(**settings), against="interpreter")


def fault(**settings: Any) -> Fault:
    found = bisected(**settings).fault
    assert found is not None
    return found


def not_relu(graph: Graph) -> Graph:
    nodes = tuple(replace(n, op="identity", attributes={}) if n.op == "relu" else n for n in graph.nodes)
    return replace(graph, nodes=nodes)


# ---------------------------------------------------------------- what is right
def test_a_model_that_is_right(tmp_path: Path) -> None:
    found = bisect_model(MODEL)
    assert found.fault is None
    assert found.reference.startswith("onnxruntime ") or found.reference == "the interpreter"
    assert (found.kernels, found.calls) == (7, 7)
    assert set(found.generators) == {"c", "llvm"}
    assert "layout" in found.passes
    result = CliRunner().invoke(program, ["verify", str(MODEL), "--bisect", "--generator", "llvm"])
    assert result.exit_code == 0
    assert "7 kernels in 7 nodes, by llvm and c, and the bundle" in result.stdout
    facts = json.loads(CliRunner().invoke(program, ["verify", str(MODEL), "--bisect", "--json"]).stdout)
    assert (facts["ok"], facts["fault"], facts["kernels"]) == (True, None, 7)


def test_options_that_trade_accuracy_are_no_fault() -> None:
    for settings in ({"weights": "bf16"}, {"weights": "fp16", "math": "fast"}):
        assert bisected(generator="llvm", **settings).fault is None


def network(batch: int | str) -> onnx.ModelProto:
    """Two convolutions with padding, a concatenation, and transposes: views, borders and copies."""
    random = np.random.default_rng(4)
    weights = {"k1": (8, 3, 3, 3), "k2": (8, 8, 3, 3), "w": (256, 5)}
    nodes = [
        helper.make_node("Conv", ["x", "k1"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "bent"),
        helper.make_node("Conv", ["b", "k2"], ["d"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("Concat", ["b", "d"], ["e"], "both", axis=1),
        helper.make_node("Flatten", ["e"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "w"], ["y"], "dense"),
    ]
    return helper.make_model(
        helper.make_graph(
            nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 4, 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])],
            [numpy_helper.from_array(random.standard_normal(s).astype(np.float32), n) for n, s in weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )


def test_what_rounding_explains_is_no_fault() -> None:
    """Sums that cancel, within a kernel and from one to the next."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        net (float[64] x) => (float[64] y, float[64] z)
        <float scale = {0.1}, float far = {17.0}, float large = {100000.0}, float larger = {3000000.0}>
        { a = Mul(x, scale)  b = Sub(a, far)  y = Sigmoid(b)
          c = Mul(x, large)  d = Add(c, larger)  e = Div(d, larger)  f = Mul(e, larger)  g = Sub(f, larger)
          z = Sub(g, c) }""")
    for against in ("auto", "interpreter"):
        assert bisect_model(model, options_of(generator="llvm"), against=against).fault is None


def test_rounding_of_a_model_of_integers() -> None:
    """x * 0.1 is x / 10 but for the last bit, which decides about the nearest of multiples of 0.2. No input is a float
    that could be a bit off."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (int64[2, 32] x, float[32, 32] w) => (float[2, 32] y)
        <float ten = {10.0}, float fifth = {0.2}, int8 zero = {0}>
        { a = Cast <to = 1> (x)  b = Div(a, ten)  c = MatMul(b, w)  d = QuantizeLinear(c, fifth, zero)
          y = DequantizeLinear(d, fifth, zero) }"""
    model = onnx.parser.parse_model(text)
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(np.eye(32, dtype=np.float32), "w"))
    inputs = {"x": np.arange(64).reshape(2, 32)}
    found = bisect_model(model, options_of(generator="llvm"), inputs=inputs, against="interpreter")
    assert found.fault is None


def test_open_sizes_are_bound() -> None:
    found = bisect_model(network("batch"), options_of(dims={"batch": (1, 9)}, generator="llvm"), against="interpreter")
    assert found.fault is None
    (note,) = found.notes
    assert note.startswith("with batch = ")


def test_sizes_that_depend_on_the_data() -> None:
    found = bisect_model(detector(12, 3, None), options_of(generator="llvm"), against="interpreter")
    assert found.fault is None
    assert "depend on the data" in found.notes[0]


LOOP = """<ir_version: 8, opset_import: ["" : 17]>
net (float[4] x, bool go) => (float[4] y)
<int64 n = {5}, float[4] one = {1.0, 2.0, 3.0, 4.0}> {
  y = Loop (n, go, x) <body = step (int64 i, bool c, float[4] a) => (bool d, float[4] b)
    { d = Identity(c)  t = Tanh(a)  b = Add(t, one) }>
}"""


def test_control_flow() -> None:
    model = onnx.parser.parse_model(LOOP)
    inputs = {"x": np.ones(4, np.float32), "go": np.array(True)}
    found = bisect_model(model, options_of(generator="llvm"), inputs=inputs, against="interpreter")
    assert found.fault is None
    assert found.calls >= 2
    still = bisect_model(
        model, options_of(generator="llvm"), inputs={**inputs, "go": np.array(False)}, against="interpreter"
    )
    assert still.fault is None
    assert any("do not run with these inputs" in note for note in still.notes)


# ---------------------------------------------------------------- passes over the graph
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("remove-empty-tensors", "relu1"),
        ("layout", "conv2"),  # it renames the tensor of relu1: the next one is the first that both graphs have
        ("simplify", "relu1"),
        ("materialize-outputs", "relu1"),
    ],
)
def test_a_wrong_pass_over_the_graph(monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> None:
    plant(monkeypatch, name, not_relu)
    found = fault()
    assert found.stage == name
    assert found.check is not None
    assert found.check.error > 1e-3
    assert found.sources == (source,)


def test_a_pass_over_the_graph_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Graph) -> Graph:
        raise KeyError("no such node")

    plant(monkeypatch, "hoist-elementwise", broken)
    found = fault()
    assert (found.stage, found.check) == ("hoist-elementwise", None)
    assert found.problem == "KeyError: 'no such node'"


def test_a_pass_that_leaves_a_malformed_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "fold-batch-norm", lambda graph: replace(graph, nodes=graph.nodes[1:]))
    assert fault().stage == "fold-batch-norm"


def test_an_import_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    from sterna.debug import verify

    real = verify.read_model
    monkeypatch.setattr(verify, "read_model", lambda *given: not_relu(real(*given)))
    found = bisect_model(MODEL).fault
    assert found is not None
    assert (found.stage, found.sources) == ("import", ("relu1",))


# ---------------------------------------------------------------- calls, weights, memory
def test_wrong_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(sequenced: Sequenced) -> Sequenced:
        calls = tuple(
            replace(call, constants=tuple(array * 2 for array in call.constants)) if "dense" in call.sources else call
            for call in sequenced.sequence.calls
        )
        return replace(sequenced, sequence=replace(sequenced.sequence, calls=calls))

    plant(monkeypatch, "linearize", doubled)
    found = fault()
    assert found.stage == "linearize"
    assert found.sources == ("dense",)


def test_wrong_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(packed: Packed) -> Packed:
        n = next(n for n, call in enumerate(packed.sequence.calls) if "conv2" in call.sources and call.constants)
        at, size = packed.params_at[n]
        return replace(packed, params=packed.params[:at] + bytes(size) + packed.params[at + size :])

    plant(monkeypatch, "pack", spoiled)
    found = fault(generator="llvm")
    assert found.stage == "pack"
    assert "conv2" in found.sources
    assert found.kernel == "k4_conv_add_relu"


def test_a_wrong_memory_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verification says so at once; what that does not see is found by what the bundle gives."""
    entry = next(each for each in pipeline.PIPELINE if each.name == "memory")

    def plan(sequenced: Sequenced, context: PassContext) -> Outline:
        good: Outline = entry.run(sequenced, context)
        offsets = {v: 1024 * n for n, v in enumerate(good.plan.offsets)}
        return good if context.options.debug else replace(good, plan=replace(good.plan, offsets=offsets))

    spoiled = tuple(replace(each, run=plan) if each is entry else each for each in pipeline.PIPELINE)
    put(monkeypatch, spoiled)
    found = fault()
    assert (found.stage, found.check) == ("memory", None)
    assert "overlap" in found.problem
    put(monkeypatch, tuple(replace(e, verify=None) if e.verify is entry.verify else e for e in spoiled))
    found = fault(generator="llvm")
    assert found.stage == "memory"
    assert found.check is not None


# ---------------------------------------------------------------- kernels
def test_a_wrong_lowering(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(lowered: Lowered) -> Lowered:
        functions = tuple(replace(f, body=least_in_place_of_greatest(f.body)) for f in lowered.lowered)
        return replace(lowered, lowered=functions)

    plant(monkeypatch, "lower", spoiled)
    found = fault()
    assert found.stage == "lower"
    assert found.kernel == "k2_conv_add_relu"
    assert found.sources == ("conv1", "relu1")
    assert found.check is not None


@pytest.mark.parametrize("name", ["vectorize", "registers", "share"])
def test_a_wrong_pass_over_loops(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def spoiled(each: finish.LoopPass) -> finish.LoopPass:
        def run(function: P.Function) -> P.Function:
            made = each.run(function)
            return replace(made, body=least_in_place_of_greatest(made.body))

        return replace(each, run=run) if each.name == name else each

    monkeypatch.setattr(finish, "LOOP_PASSES", tuple(map(spoiled, finish.LOOP_PASSES)))
    found = fault()
    assert found.stage == f"loops/{name}"
    assert found.kernel == "k2_conv_add_relu"


def test_a_wrong_generator_of_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first kernel copies an image into the middle of a buffer, to which element 11 of that is the first."""
    real: Callable[..., str] = c.unit_text
    monkeypatch.setattr(c, "unit_text", lambda *given, **named: real(*given, **named).replace(" + 11)", " + 12)"))
    found = fault()
    assert (found.stage, found.generators, found.kernel) == ("generator", ("c",), "k0_copy")


def test_a_wrong_generator_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    real = llvm.module_text
    monkeypatch.setattr(llvm, "module_text", lambda *given, **named: real(*given, **named).replace(" fdiv ", " fmul "))
    found = fault(generator="llvm")
    assert (found.stage, found.generators, found.kernel) == ("generator", ("llvm",), "k6_softmax")
    result = CliRunner().invoke(program, ["verify", str(MODEL), "--bisect", "--against", "interpreter"])
    assert result.exit_code == 1
    assert "the code that the generator llvm makes of a kernel is wrong" in result.stdout
    assert "error[E0008]" in result.stderr
    assert 'computed by kernel k6_softmax of node "scores"' in result.stderr


def test_code_that_a_compiler_rejects(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., str] = c.unit_text
    monkeypatch.setattr(c, "unit_text", lambda *given, **named: f"#error no\n{real(*given, **named)}")
    found = fault()
    assert (found.stage, found.generators) == ("generator", ("c",))
    assert "E0403" in found.problem


def test_a_wrong_idiom(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instruction in place of a maximum, which is that of the minimum."""
    if (reason := why_not_here(load_target("x86-64-v2"))) is not None:
        pytest.skip(f"this processor: {reason}")
    real: Callable[..., Any] = c_source.find_idioms

    def spoiled(*given: Any) -> Any:
        return (replace(each, c=each.c.replace("_maxps", "_minps")) for each in real(*given))

    monkeypatch.setattr(c_source, "find_idioms", spoiled)
    found = fault(target="x86-64-v2")
    assert (found.stage, found.generators, found.kernel) == ("generator", ("c",), "k2_conv_add_relu")
