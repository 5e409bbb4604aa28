"""verify: agreement, and the first tensor that differs wherever the fault is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import sterna.debug.verify as verification
from sterna.api import options_of
from sterna.cli import program
from sterna.debug.verify import compare, verify_model
from sterna.errors import SternaError, error
from sterna.frontends import frontend
from sterna.passes.context import PassContext
from sterna.passes.stages import Outline, Packed, Sequenced
from sterna.pipeline import PIPELINE, graph_pass
from sterna_runtime.inputs import TensorSpec
from sterna_runtime.random_inputs import random_inputs
from support.planted import plant, put

DEMO = Path(__file__).resolve().parents[2] / "compiler" / "sterna" / "demo"
MODEL = DEMO / "digits.onnx"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_agreement_with_onnxruntime(generator: str, threads: int) -> None:
    pytest.importorskip("onnxruntime")
    report = verify_model(MODEL, options_of(generator=generator, threads=threads))
    assert report.ok
    assert report.reference.startswith("onnxruntime ")
    assert [check.name for check in report.outputs] == ["scores"]
    assert report.error < 1e-5
    assert report.first is None


def test_agreement_with_the_interpreter() -> None:
    report = verify_model(onnx.load(MODEL), against="interpreter", inputs={"image": np.load(DEMO / "images" / "4.npy")})
    assert report.ok
    assert report.reference == "the interpreter"
    assert report.outputs[0].largest > 0.5


def test_the_interpreter_stands_in_for_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "installed_version", lambda *distributions: None)
    report = verify_model(MODEL)
    assert (report.reference, report.missing) == ("the interpreter", "onnxruntime is not installed")
    shown = CliRunner().invoke(program, ["verify", str(MODEL)]).output
    assert "agrees with the interpreter" in shown
    assert "onnxruntime is not installed" in shown


def test_what_rounding_explains_is_no_difference() -> None:
    """Sums that cancel, and probabilities of almost nothing, which ONNX Runtime has in steps of 1.2e-7."""
    pytest.importorskip("onnxruntime")
    network = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[64] x) => (float[64] y, float[64] z)
        <float scale = {0.1}, float far = {17.0}, float large = {100000.0}, float larger = {3000000.0}>
        { a = Mul(x, scale)  b = Sub(a, far)  y = Sigmoid(b)
          c = Mul(x, large)  d = Add(c, larger)  e = Div(d, larger)  f = Mul(e, larger)  g = Sub(f, larger)
          z = Sub(g, c) }"""
    report = verify_model(onnx.parser.parse_model(network))
    assert report.ok
    assert report.error > report.tolerance
    assert all(check.spread > 0 for check in report.outputs if check.error > report.tolerance)


def spoil_weights(monkeypatch: pytest.MonkeyPatch, layer: str) -> None:
    """The weights of one layer are zero in the bundle."""

    def spoiled(packed: Packed) -> Packed:
        calls = packed.sequence.calls
        n = next(n for n, call in enumerate(calls) if layer in call.sources and call.constants)
        at, size = packed.params_at[n]
        return replace(packed, params=packed.params[:at] + bytes(size) + packed.params[at + size :])

    plant(monkeypatch, "pack", spoiled)


@pytest.mark.parametrize("layer", ["conv1", "conv2", "dense"])
@pytest.mark.parametrize("against", ["interpreter", "auto"])
def test_a_kernel_that_is_wrong(monkeypatch: pytest.MonkeyPatch, layer: str, against: str) -> None:
    spoil_weights(monkeypatch, layer)
    first = verify_model(MODEL, against=against).first
    assert first is not None
    assert first.stage == "kernels"
    assert layer in first.sources
    assert first.kernel


def test_errors_name_the_model_and_no_folder_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundle that is verified is temporary."""

    def refused(compiled: object, directory: Path) -> Path:
        raise error("E0507", f"{directory} cannot be loaded", str(directory / "model.so"))

    monkeypatch.setattr(verification, "write_bundle", refused)
    with pytest.raises(SternaError) as found:
        verify_model(MODEL)
    name = "digits"
    assert found.value.diagnostics[0].where == (f"{name}/model.so",)
    assert found.value.diagnostics[0].title == f"{name} cannot be loaded"


def test_the_command_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil_weights(monkeypatch, "conv2")
    result = CliRunner().invoke(program, ["verify", str(MODEL)])
    assert result.exit_code == 1
    assert "does not agree with" in result.stdout
    assert "the first tensor that differs" in result.stderr
    assert "it comes from the model's conv2" in result.stderr
    facts = json.loads(CliRunner().invoke(program, ["verify", str(MODEL), "--json"]).stdout)
    assert facts["ok"] is False
    assert "conv2" in facts["first_difference"]["sources"]
    assert facts["errors"][0]["code"] == "E0008"


def test_a_pass_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that changes the slope of every relu from 0 to 1, by making it an identity."""

    def forget_relu(graph: Any) -> Any:
        nodes = tuple(replace(n, op="identity", attributes={}) if n.op == "relu" else n for n in graph.nodes)
        return replace(graph, nodes=nodes)

    put(monkeypatch, (graph_pass("forget-relu", forget_relu), *PIPELINE))
    first = verify_model(MODEL, against="interpreter").first
    assert first is not None
    assert (first.stage, first.check.name) == ("forget-relu", "relu1.out")
    assert first.sources == ("relu1",)


def test_an_import_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    real = verification.read_model

    def read(*arguments: Any, **settings: Any) -> Any:
        graph = real(*arguments, **settings)
        nodes = [n for n in graph.nodes if n.op == "relu"]
        changed = tuple(replace(n, op="tanh") if n is nodes[1] else n for n in graph.nodes)
        return replace(graph, nodes=changed)

    monkeypatch.setattr(verification, "read_model", read)
    first = verify_model(MODEL).first
    assert first is not None
    assert (first.stage, first.check.name) == ("import", "relu2.out")


def test_a_memory_plan_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = next(each for each in PIPELINE if each.name == "memory")

    def plan(sequenced: Sequenced, context: PassContext) -> Outline:
        good: Outline = entry.run(sequenced, context)
        if context.options.debug:
            return good
        offsets = {v: 1024 * n for n, v in enumerate(good.plan.offsets)}
        return replace(good, plan=replace(good.plan, offsets=offsets))

    unseen = replace(entry, run=plan, verify=None)
    put(monkeypatch, tuple(unseen if each is entry else each for each in PIPELINE))
    report = verify_model(MODEL, against="interpreter")
    assert not report.ok, "the second convolution writes into what it still reads"
    assert report.first is not None
    assert report.first.stage == "memory"


def test_comparison_of_tensors() -> None:
    one = np.array([1.0, -4.0, 2.0], np.float32)
    assert compare("t", one, one).error == 0
    check = compare("t", one + np.array([0, 0, 1], np.float32), one)
    assert (check.error, check.largest, check.at, check.got, check.wanted) == (0.25, 4.0, (2,), 3.0, 2.0)
    special = np.array([np.nan, np.inf, 1.0])
    assert compare("t", special, special).error == 0
    assert compare("t", np.array([0.0, np.inf, 1.0]), special).error == np.inf
    assert compare("t", np.array([np.nan, -np.inf, 1.0]), special).error == np.inf
    assert compare("t", np.zeros(2), np.zeros(3)).error == np.inf
    assert compare("t", np.zeros(0), np.zeros(0)).error == 0
    assert compare("t", np.array([1e-3]), np.array([0.0])).error == 1e-3
    assert compare("t", np.array([3]), np.array([4])).error == 0.25
    assert compare("t", np.array([True]), np.array([False])).error == 1


def test_random_inputs() -> None:
    specs = [TensorSpec(d, np.dtype(d), (50, 4)) for d in ("float32", "float16", "int8", "uint8", "int64", "bool")]
    arrays = random_inputs(specs, 5)
    assert {name: (a.dtype.name, a.shape) for name, a in arrays.items()} == {s.name: (s.name, (50, 4)) for s in specs}
    assert set(np.unique(arrays["int64"])) == {0, 1}
    assert arrays["int8"].min() < 0
    assert all(np.array_equal(a, random_inputs(specs, 5)[name]) for name, a in arrays.items())


def test_refusals(tmp_path: Path) -> None:
    for wanted, options in (
        ("E0203", {"against": "oracle"}),
        ("E0507", {"options": options_of("esp32")}),
        ("E0601", {"inputs": {}}),
        ("E0602", {"inputs": {"image": np.zeros((1, 1, 8, 8), np.float32), "more": np.zeros(1)}}),
    ):
        with pytest.raises(SternaError) as caught:
            verify_model(MODEL, **options)  # type: ignore[arg-type]
        assert caught.value.codes == (wanted,)
    np.savez(tmp_path / "x.npz", image=np.load(DEMO / "images" / "2.npy"))
    result = CliRunner().invoke(program, ["verify", str(MODEL), "--inputs", str(tmp_path / "x.npz")])
    assert result.exit_code == 0
    assert "agrees with" in result.stdout


@pytest.mark.parametrize("operator", ["SUM", "ELU"])
def test_operators_whose_reference_kernel_is_flawed_or_missing(operator: str, tmp_path: Path) -> None:
    """The runtime's own kernels are asked then."""
    tflite_builder = pytest.importorskip("tflite_builder", exc_type=ImportError)
    model = tflite_builder.ModelWriter()
    graph, scale = model.main, tflite_builder.Scale(0.1, 3)
    if operator == "SUM":
        x = graph.input(np.arange(-60, 60, dtype=np.int8).reshape(2, 60), scale)
        y = graph.output("int8", (2,), tflite_builder.Scale(2.0, -5))
        graph.op("SUM", [x, graph.constant(np.array([1], np.int32))], [y], "ReducerOptions", keepDims=False)
    else:
        graph.op("ELU", [graph.input(np.ones((2, 6), np.float32))], [graph.output("float32", (2, 6))])
    file = tmp_path / "model.tflite"
    file.write_bytes(model.content())
    assert verify_model(file, options_of(generator="llvm")).ok
