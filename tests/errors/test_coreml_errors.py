"""Broken, damaged and hostile Core ML models are refused: with a code, and the name of what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.frontends.formats import read_model

ct = pytest.importorskip("coremltools", reason="Core ML models are built with coremltools")
from coremltools.converters.mil import Builder as mb  # noqa: E402, N813
from coremltools.models import datatypes  # noqa: E402
from coremltools.models.neural_network import NeuralNetworkBuilder  # noqa: E402
from coremltools.proto import Model_pb2  # noqa: E402

from support.coreml_programs import saved  # noqa: E402

WEIGHT = np.ones((16, 8), np.float32)


def refusal(path: Path) -> SternaError:
    with pytest.raises(SternaError) as caught:
        read_model(path)
    for problem in caught.value.diagnostics:
        assert problem.code != "E0901", problem
    return caught.value


def program(folder: Path, change: Callable[[Any], None]) -> Path:
    """A package whose program multiplies by a matrix and adds one, changed."""
    package = saved(
        lambda x: mb.add(x=mb.linear(x=x, weight=WEIGHT), y=np.float32(1)), [np.zeros((2, 8), np.float32)], folder
    )
    file = next(package.rglob("*.mlmodel"))
    model = Model_pb2.Model()
    model.ParseFromString(file.read_bytes())
    change(model)
    file.write_bytes(model.SerializeToString())
    return package


def block_of(model: Any) -> Any:
    function = model.mlProgram.functions["main"]
    return function.block_specializations[function.opset]


def operation(model: Any, kind: str) -> Any:
    return next(each for each in block_of(model).operations if each.type == kind)


def renamed(model: Any) -> None:
    operation(model, "add").type = "frobnicate"


def unbound(model: Any) -> None:
    operation(model, "add").inputs["x"].arguments[0].name = "nothing"


def without_argument(model: Any) -> None:
    del operation(model, "linear").inputs["x"]


def far_weights(model: Any) -> None:
    held = next(each for each in block_of(model).operations if each.attributes["val"].HasField("blobFileValue"))
    held.attributes["val"].blobFileValue.offset = 1 << 40


def outside(model: Any) -> None:
    held = next(each for each in block_of(model).operations if each.attributes["val"].HasField("blobFileValue"))
    held.attributes["val"].blobFileValue.fileName = "@model_path/../../../secret"


def of_another_size(model: Any) -> None:
    held = next(each for each in block_of(model).operations if each.attributes["val"].HasField("blobFileValue"))
    held.attributes["val"].type.tensorType.dimensions[0].constant.size = 17


def without_output(model: Any) -> None:
    model.description.output[0].name = "elsewhere"


def of_another_input(model: Any) -> None:
    model.description.input[0].name = "elsewhere"


def without_function(model: Any) -> None:
    del model.mlProgram.functions["main"]


def of_no_set(model: Any) -> None:
    function = model.mlProgram.functions["main"]
    function.opset = "CoreML99"
    function.block_specializations["CoreML98"].CopyFrom(block_of_any(function))


def block_of_any(function: Any) -> Any:
    return next(iter(function.block_specializations.values()))


PROGRAMS: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "an operation that nobody knows": (renamed, "E0104", "frobnicate"),
    "a value that nothing computes": (unbound, "E0103", '"nothing"'),
    "an argument that is missing": (without_argument, "E0103", "argument x"),
    "weights beyond the file": (far_weights, "E0101", "weight.bin"),
    "weights outside of the package": (outside, "E0101", "outside"),
    "weights of another size": (of_another_size, "E0109", "17"),
    "an output that nothing computes": (without_output, "E0103", '"elsewhere"'),
    "an input that the program lacks": (of_another_input, "E0103", '"elsewhere"'),
    "a program without functions": (without_function, "E0106", "main"),
    "a function of another operator set": (of_no_set, "E0103", "CoreML99"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_broken_programs(name: str, tmp_path: Path) -> None:
    change, code, words = PROGRAMS[name]
    mistake = refusal(program(tmp_path, change))
    assert code in mistake.codes
    assert words in str(mistake)


def network(folder: Path, change: Callable[[Any], None]) -> Path:
    b = NeuralNetworkBuilder([("x", datatypes.Array(8))], [("y", None)], disable_rank5_shape_mapping=True)
    b.add_inner_product("dense", WEIGHT, None, 8, 16, False, "x", "h")
    b.add_activation("relu", "RELU", "h", "y")
    change(b.spec)
    (folder / "net.mlmodel").write_bytes(b.spec.SerializeToString())
    return folder / "net.mlmodel"


def of_one_weight_less(spec: Any) -> None:
    del spec.neuralNetwork.layers[0].innerProduct.weights.floatValue[-1]


def of_unknown_operand(spec: Any) -> None:
    spec.neuralNetwork.layers[1].input[0] = "nothing"


def of_no_kind(spec: Any) -> None:
    spec.neuralNetwork.layers[1].ClearField("activation")


def custom(spec: Any) -> None:
    spec.neuralNetwork.layers[1].custom.className = "Frobnicate"


def unfitting(spec: Any) -> None:
    spec.neuralNetwork.layers[0].innerProduct.inputChannels = 16
    spec.neuralNetwork.layers[0].innerProduct.outputChannels = 8


def endless(spec: Any) -> None:
    spec.neuralNetwork.layers.add(name="loop").loop.SetInParent()


def nested(spec: Any) -> None:
    inner = spec.neuralNetwork
    for n in range(40):
        layer = inner.layers.add(name=f"b{n}", input=["x"])
        inner = layer.branch.ifBranch


NETWORKS: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "fewer weights than said": (of_one_weight_less, "E0109", "127 weights"),
    "an operand that nothing computes": (of_unknown_operand, "E0103", '"nothing"'),
    "a layer of no kind": (of_no_kind, "E0104", '"relu"'),
    "a custom layer": (custom, "E0104", "Frobnicate"),
    "a matrix of another size": (unfitting, "E0108", "dense"),
    "a loop without an end": (endless, "E0103", "loop"),
    "networks too deep": (nested, "E0101", "net.mlmodel"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_broken_networks(name: str, tmp_path: Path) -> None:
    change, code, words = NETWORKS[name]
    mistake = refusal(network(tmp_path, change))
    assert code in mistake.codes
    assert words in str(mistake)


def test_packages_whose_manifest_is_damaged(tmp_path: Path) -> None:
    package = program(tmp_path, lambda model: None)
    manifest = package / "Manifest.json"
    text = manifest.read_text()
    for broken in ("{", "[]", json.dumps({"itemInfoEntries": {}}), text.replace("com.apple.CoreML/", "../")):
        manifest.write_text(broken)
        assert "E0101" in refusal(package).codes


def test_files_that_are_cut_off(tmp_path: Path) -> None:
    package = program(tmp_path, lambda model: None)
    weights, file = next(package.rglob("weight.bin")), next(package.rglob("*.mlmodel"))
    whole = weights.read_bytes()
    weights.write_bytes(whole[:80])
    assert "E0101" in refusal(package).codes
    weights.write_bytes(whole[:64] + b"\0" * (len(whole) - 64))
    assert "damaged" in str(refusal(package))
    weights.unlink()
    assert "weight.bin" in str(refusal(package))
    file.write_bytes(file.read_bytes()[:50])
    assert "E0101" in refusal(package).codes
