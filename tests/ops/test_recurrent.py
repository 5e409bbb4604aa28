"""LSTM, GRU and RNN nodes with random settings against ONNX Runtime, and ONNX's own node cases compiled."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from sterna.api import compile_to
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.pipeline import optimize
from sterna_runtime import load

QUICK = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

#: Gates, activations and results.
KINDS = {"LSTM": (4, 3, ("Y", "Y_h", "Y_c")), "GRU": (3, 2, ("Y", "Y_h")), "RNN": (1, 1, ("Y", "Y_h"))}
#: Activations, and how many of alpha and beta they take.
ACTIVATIONS = {
    **dict.fromkeys(("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"), 0),
    **dict.fromkeys(("Elu", "LeakyRelu", "ThresholdedRelu"), 1),
    **dict.fromkeys(("Affine", "HardSigmoid", "ScaledTanh"), 2),
}


def model_of(
    op: str, feeds: dict[str, np.ndarray], operands: list[str], opset: int = 14, **attributes: Any
) -> onnx.ModelProto:
    results = KINDS[op][2]
    node = helper.make_node(op, operands, results, name="layer", **attributes)
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()
    ]
    graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info(r) for r in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


@st.composite
def layers(draw: Any) -> tuple[str, dict[str, np.ndarray], list[str], dict[str, Any]]:
    """(operator, inputs, names of the operands, attributes)."""
    op = draw(st.sampled_from(sorted(KINDS)))
    gates, functions, _ = KINDS[op]
    steps, batch, inputs, hidden = (draw(st.integers(1, most)) for most in (6, 3, 6, 8))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    random = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    if draw(st.booleans()):
        count = functions * directions
        names = draw(st.lists(st.sampled_from(sorted(ACTIVATIONS)), min_size=count, max_size=count))
        attributes["activations"] = names
        for key, least in (("activation_alpha", 1), ("activation_beta", 2)):
            if needed := sum(ACTIVATIONS[name] >= least for name in names):
                attributes[key] = random.uniform(0.2, 0.9, needed).tolist()
    if draw(st.booleans()):
        attributes["clip"] = float(random.uniform(0.1, 0.8))
    flag = {"LSTM": "input_forget", "GRU": "linear_before_reset"}.get(op)
    if flag is not None:
        attributes[flag] = draw(st.integers(0, 1))

    def numbers(*shape: int) -> np.ndarray:
        return random.uniform(-0.7, 0.7, shape).astype(np.float32)

    feeds = {
        "X": numbers(steps, batch, inputs),
        "W": numbers(directions, gates * hidden, inputs),
        "R": numbers(directions, gates * hidden, hidden),
    }
    more = {
        "B": numbers(directions, 2 * gates * hidden),
        "lengths": random.integers(1, steps + 1, batch).astype(np.int32),
        "initial_h": numbers(directions, batch, hidden),
    }
    if op == "LSTM":
        more |= {"initial_c": numbers(directions, batch, hidden), "P": numbers(directions, 3 * hidden)}
    given_too = [name for name in more if draw(st.booleans())]
    operands = ["X", "W", "R", *(name if name in given_too else "" for name in more)]
    return op, {**feeds, **{name: more[name] for name in given_too}}, operands, attributes


@QUICK
@given(layers())
def test_random_layers_equal_onnx_runtime(layer: tuple[str, dict[str, np.ndarray], list[str], dict[str, Any]]) -> None:
    op, feeds, operands, attributes = layer
    model = model_of(op, feeds, operands, **attributes)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    found = interpret(optimize(read(model), check=True), feeds)
    for have, want in zip(found.values(), expected, strict=True):
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(want).max())))


@pytest.mark.parametrize("op", sorted(KINDS))
def test_layout_with_the_batch_first_is_the_same_layer_transposed(op: str) -> None:
    gates, _, results = KINDS[op]
    random = np.random.default_rng(5)
    x = random.standard_normal((4, 3, 5)).astype(np.float32)
    weights = {
        "W": random.standard_normal((2, gates * 6, 5)).astype(np.float32),
        "R": random.standard_normal((2, gates * 6, 6)).astype(np.float32),
    }
    h = random.standard_normal((2, 3, 6)).astype(np.float32)
    operands = ["X", "W", "R", "", "", "h"]
    feeds = {"X": x, **weights, "h": h}
    want = interpret(read(model_of(op, feeds, operands, direction="bidirectional", hidden_size=6)), feeds)
    feeds = {"X": x.swapaxes(0, 1).copy(), **weights, "h": h.swapaxes(0, 1).copy()}
    model = model_of(op, feeds, operands, direction="bidirectional", hidden_size=6, layout=1)
    found = interpret(optimize(read(model)), feeds)
    for name in results:
        order = (2, 0, 1, 3) if name == "Y" else (1, 0, 2)
        np.testing.assert_allclose(found[name], want[name].transpose(order), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"activations": ["Cosine"]}, "E0109"),
        ({"activations": ["Tanh", "Tanh"]}, "E0109"),
        ({"direction": "sideways"}, "E0109"),
        ({"hidden_size": 7}, "E0109"),
    ],
)
def test_wrong_settings_are_refused(change: dict[str, Any], code: str) -> None:
    feeds = {
        name: np.zeros(shape, np.float32) for name, shape in {"X": (2, 1, 3), "W": (1, 4, 3), "R": (1, 4, 4)}.items()
    }
    node = helper.make_node("RNN", list(feeds), ["Y", "Y_h"], **{"hidden_size": 4, **change})
    inputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, a.shape) for n, a in feeds.items()]
    graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info("Y")])
    with pytest.raises(SternaError, match=code):
        read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8))


@cache
def backend_cases() -> dict[str, Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {c.name: c for c in collect_testcases(None) if any(n.op_type in KINDS for n in c.model.graph.node)}


@pytest.mark.parametrize(
    "generator",
    [
        pytest.param("c", marks=pytest.mark.family("host-c")),
        pytest.param("llvm", marks=pytest.mark.family("host-llvm")),
    ],
)
def test_node_cases_of_onnx(generator: str, tmp_path: Path) -> None:
    cases = backend_cases()
    assert len(cases) >= 15
    for name, case in cases.items():
        for number, (inputs, outputs) in enumerate(case.data_sets):
            feeds = {value.name: array for value, array in zip(case.model.graph.input, inputs, strict=True)}
            path = compile_to(tmp_path / f"{name}_{number}", case.model, generator=generator)
            with load(path) as bundle:
                found = bundle.run(feeds)
            for value, want in zip(case.model.graph.output, outputs, strict=True):
                assert found[value.name].dtype == want.dtype, name
                np.testing.assert_allclose(found[value.name], want, rtol=case.rtol, atol=case.atol, err_msg=name)


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("op", sorted(KINDS))
def test_steps_and_batch_may_stay_open(op: str, direction: str, tmp_path: Path) -> None:
    gates, _, results = KINDS[op]
    directions = 2 if direction == "bidirectional" else 1
    random = np.random.default_rng(1)
    shapes = {"W": (directions, gates * 20, 7), "R": (directions, gates * 20, 20), "B": (directions, gates * 40)}
    weights = [
        onnx.numpy_helper.from_array(random.uniform(-0.5, 0.5, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    node = helper.make_node(op, ["x", *shapes], results, hidden_size=20, direction=direction)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["steps", "batch", 7])
    graph = helper.make_graph([node], "one", [x], [helper.make_empty_tensor_value_info(r) for r in results], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    open_dims = {"steps": (1, 9), "batch": (1, 5)}
    with load(compile_to(tmp_path / "bundle", model, dims=open_dims, generator="llvm")) as bundle:
        for steps, batch in ((1, 1), (9, 5), (2, 3), (5, 4), (6, 1)):
            feeds = {"x": random.standard_normal((steps, batch, 7)).astype(np.float32)}
            found = bundle.run(feeds)
            for have, want in zip(found.values(), session.run(None, feeds), strict=True):
                assert have.shape == want.shape
                np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
