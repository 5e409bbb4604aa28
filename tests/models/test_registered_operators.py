"""Operators that Sterna does not know, in a model of each format: the translations listed in docs/frontends.md.

Every model multiplies its input by a setting of a made-up operator. Without the translation it is refused, and the
message says how to register one; with it the compiled model gives the product.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import sterna
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from support import caffe_networks, darknet_networks, keras_files
from support.exported_programs import Program
from support.graph_defs import GraphWriter
from support.mxnet_symbols import parameters
from support.tools import ROOT

FACTOR = 3.0


def onnx_model(folder: Path) -> Path:
    text = '<ir_version: 8, opset_import: ["": 17, "com.example": 1]> net (float[1, 4] x) => (float[1, 4] y)'
    model = onnx.parser.parse_model(text + f" {{ y = com.example.Scaled <factor = {FACTOR}> (x) }}")
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def tflite_model(folder: Path) -> Path:
    from flatbuffers import flexbuffers

    builder = pytest.importorskip("support.tflite_builder", exc_type=ImportError)
    model = builder.ModelWriter()
    x = model.main.input(np.zeros((1, 4), np.float32))
    settings = bytes(flexbuffers.Dumps({"factor": FACTOR}))
    model.main.op("Scaled", [x], [model.main.output("float32", (1, 4))], custom=settings)
    (folder / "model.tflite").write_bytes(model.content())
    return folder / "model.tflite"


def pytorch_model(folder: Path) -> Path:
    program = Program()
    x = program.input("x", (1, 4))
    program.output(program.call("mylib.scaled.default", "y", x=x, factor=FACTOR))
    return program.write(folder / "model.pt2")


def tensorflow_model(folder: Path) -> Path:
    graph = GraphWriter()
    graph.input("x", (1, 4))
    graph.node("Scaled", ["x"], name="y", factor=FACTOR)
    return graph.write(folder)


def graph_model(folder: Path) -> Path:
    """A graph model of TensorFlow.js."""
    shape = {"shape": {"dim": [{"size": "1"}, {"size": "4"}]}}
    nodes = [
        {"name": "x", "op": "Placeholder", "attr": {"dtype": {"type": "DT_FLOAT"}, "shape": shape}},
        {"name": "y", "op": "Scaled", "input": ["x"], "attr": {"factor": {"f": FACTOR}}},
    ]
    model = {"format": "graph-model", "modelTopology": {"node": nodes}, "weightsManifest": []}
    (folder / "model.json").write_text(json.dumps(model))
    return folder / "model.json"


def _keras_config() -> Any:
    return keras_files.functional(keras_files.layer("Scaled", "y", ["x"], module="mine", factor=FACTOR))


def keras_model(folder: Path) -> Path:
    return keras_files.archive(_keras_config(), keras_files.weights(), folder)


def layers_model(folder: Path) -> Path:
    """A layers model of TensorFlow.js."""
    topology = {"keras_version": "tfjs-layers 4.22.0", "model_config": _keras_config()}
    model = {"format": "layers-model", "modelTopology": topology, "weightsManifest": []}
    (folder / "model.json").write_text(json.dumps(model))
    return folder / "model.json"


def program_of_core_ml(folder: Path) -> Path:
    """An ML program; coremltools writes no operator that it does not know, so one of its own gets another name."""
    ct = pytest.importorskip("coremltools", reason="Core ML is read with coremltools")
    from coremltools.converters.mil import Builder as mb  # noqa: N813

    ios = ct.target.iOS17
    program = mb.program(input_specs=[mb.TensorSpec(shape=(1, 4))], opset_version=ios)(
        lambda x: mb.leaky_relu(x=x, alpha=np.float32(FACTOR), name="y")
    )
    model = ct.convert(
        program, convert_to="mlprogram", compute_precision=ct.precision.FLOAT32, skip_model_load=True,
        minimum_deployment_target=ios, pass_pipeline=ct.PassPipeline.EMPTY,
    )  # fmt: skip
    path = folder / "model.mlpackage"
    model.save(path)
    (file,) = path.rglob("*.mlmodel")
    spec = model.get_spec()
    (operation,) = (
        each
        for function in spec.mlProgram.functions.values()
        for block in function.block_specializations.values()
        for each in block.operations
        if each.type == "leaky_relu"
    )
    operation.type = "scaled"
    operation.inputs["factor"].CopyFrom(operation.inputs.pop("alpha"))
    file.write_bytes(spec.SerializeToString())
    return path


def network_of_core_ml(folder: Path) -> Path:
    """A neural network with a custom layer, which the file names by its class."""
    pytest.importorskip("coremltools", reason="Core ML is read with coremltools")
    from coremltools.proto import Model_pb2

    model = Model_pb2.Model(specificationVersion=4)
    for end, name in ((model.description.input, "x"), (model.description.output, "y")):
        array = end.add(name=name).type.multiArrayType
        array.shape.extend((1, 4))
        array.dataType = 65568  # float32
    model.neuralNetwork.arrayInputShapeMapping = 1  # as many dimensions as the description says
    layer = model.neuralNetwork.layers.add(name="y", input=["x"], output=["y"])
    layer.custom.className = "Scaled"
    layer.custom.parameters["factor"].doubleValue = FACTOR
    (folder / "model.mlmodel").write_bytes(model.SerializeToString())
    return folder / "model.mlmodel"


def mxnet_model(folder: Path) -> Path:
    nodes = [
        {"op": "null", "name": "x", "inputs": [], "attrs": {"__shape__": "(1, 4)"}},
        {"op": "Scaled", "name": "y", "inputs": [[0, 0]], "attrs": {"factor": str(FACTOR)}},
    ]
    file = folder / "net-symbol.json"
    file.write_text(json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0]]}))
    (folder / "net-0000.params").write_bytes(parameters({}))
    return file


def darknet_model(folder: Path) -> Path:
    return darknet_networks.network(folder, f"[scaled]\nfactor={FACTOR}\n", [], (4,))


def caffe_model(folder: Path) -> Path:
    layer = caffe_networks.layer("Scaled", f"scaled_param {{ factor: {FACTOR} }}")
    return caffe_networks.network(folder, layer, {}, (1, 4))


#: By the first column of the table, the kinds of files that its row is for.
MODELS: dict[str, tuple[Callable[[Path], Path], ...]] = {
    "onnx": (onnx_model,),
    "tflite": (tflite_model,),
    "keras": (keras_model, layers_model),
    "pytorch": (pytorch_model,),
    "tensorflow": (tensorflow_model, graph_model),
    "coreml, programs": (program_of_core_ml,),
    "coreml, neural networks": (network_of_core_ml,),
    "mxnet": (mxnet_model,),
    "darknet": (darknet_model,),
    "caffe": (caffe_model,),
}


def rows() -> dict[str, tuple[str, str]]:
    """The table: what it is for, the operator's name, the translation."""
    text = (ROOT / "docs" / "frontends.md").read_text()
    table = text.split("<!-- translations -->")[1].split("<!-- end -->")[0]
    found = re.findall(r"^\| ([a-z][^|]*?) \| `([^`]+)` \| `([^`]+)` \|$", table, re.MULTILINE)
    return {what: (name, code) for what, name, code in found}


def test_the_table_has_all_formats_with_operators() -> None:
    assert rows().keys() == MODELS.keys()
    forests = {"xgboost", "lightgbm"}
    assert {what.partition(",")[0] for what in MODELS} == set(sterna.frontends.formats.frontends()) - forests


@pytest.mark.parametrize(
    ("what", "made"), [pytest.param(what, made, id=made.__name__) for what, all_ in MODELS.items() for made in all_]
)
def test_registered(what: str, made: Callable[[Path], Path], tmp_path: Path) -> None:
    name, code = rows()[what]
    format_, *_ = what.split(",")
    path = made(tmp_path)
    with pytest.raises(SternaError) as caught:
        read_model(path)
    assert "E0104" in caught.value.codes
    assert f'sterna.frontends.register("{format_}", "' in str(caught.value)

    from flatbuffers import flexbuffers

    translate = eval(code, {"flexbuffers": flexbuffers})
    x = np.array([[0.5, -1, 2, 0]], np.float32)
    with (
        sterna.frontends.register(format_, name, translate),
        sterna.compile(path, generator="llvm") as bundle,
    ):
        (given,) = bundle.inputs
        (got,) = bundle.run({given.name: x.reshape(given.shape)}).values()
    np.testing.assert_array_equal(got.reshape(x.shape), x * np.float32(FACTOR))
