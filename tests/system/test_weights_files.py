"""Models in two files: weights beside the description, in one folder with it, or where `--weights-file` says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import sterna
from sterna.cli import program
from sterna.debug.interpret import interpret
from sterna.debug.totals import model_facts
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.keras_files import functional, layer

KERNEL = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
BIAS = np.array([1, -2, 3], np.float32)
X = np.array([[1, 2, -3, 4]], np.float32)


def darknet(folder: Path) -> tuple[Path, Path]:
    """A dense layer of DarkNet: biases, then weights by output."""
    model, weights = folder / "dense.cfg", folder / "dense.weights"
    model.write_text("[net]\ninputs=4\n\n[connected]\noutput=3\nactivation=linear\n")
    header = np.array([0, 2, 0], "<i4").tobytes() + np.zeros(1, "<u8").tobytes()
    weights.write_bytes(header + BIAS.tobytes() + KERNEL.T.tobytes())
    return model, weights


def caffe(folder: Path) -> tuple[Path, Path]:
    """A dense layer of Caffe, whose weights are a message: layers (field 100) of a name, a type and blobs."""
    model, weights = folder / "dense.prototxt", folder / "dense.caffemodel"
    model.write_text(
        'name: "dense" input: "x" input_shape { dim: 1 dim: 4 }\n'
        'layer { name: "d" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 3 } }\n'
    )

    def field(number: int, content: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(content)) + content

    def varint(n: int) -> bytes:
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    def blob(array: np.ndarray) -> bytes:
        shape = field(1, b"".join(varint(n) for n in array.shape))
        return field(7, field(5, np.ascontiguousarray(array).tobytes()) + field(7, shape))

    weights.write_bytes(field(100, field(1, b"d") + field(2, b"InnerProduct") + blob(KERNEL.T) + blob(BIAS)))
    return model, weights


def keras(folder: Path, numbered: bool = False) -> tuple[Path, Path]:
    """The JSON of a model of Keras and its weights: by the layers' names, or numbered as version 3 writes them."""
    model, weights = folder / "dense.json", folder / "dense.weights.h5"
    config = functional(layer("Dense", "d", ["x"], units=3))
    model.write_text(json.dumps({"class_name": config["class_name"], "config": config["config"]}))
    with h5py.File(weights, "w") as file:
        if numbered:
            file["layers/dense/vars/0"], file["layers/dense/vars/1"] = KERNEL, BIAS
        else:
            file.attrs["layer_names"] = [b"d"]
            file["d/d/kernel:0"], file["d/d/bias:0"] = KERNEL, BIAS
            file["d"].attrs["weight_names"] = [b"d/kernel:0", b"d/bias:0"]
    return model, weights


PAIRS: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "darknet": darknet,
    "caffe": caffe,
    "keras": keras,
    "keras 3": lambda folder: keras(folder, numbered=True),
}


def answer(path: Path, weights: Path | None = None) -> np.ndarray:
    dims = {"batch": 1} if path.suffix == ".json" else {}
    graph = read_model(path, ReadOptions(dims=dims, weights_file=weights))
    return next(iter(interpret(graph, {graph.inputs[0].name: X.reshape(graph.inputs[0].type.sizes)}).values()))


@pytest.mark.parametrize("name", PAIRS)
def test_weights_beside_or_elsewhere(name: str, tmp_path: Path) -> None:
    model, weights = PAIRS[name](tmp_path)
    wanted = X @ KERNEL + BIAS
    np.testing.assert_allclose(answer(model).reshape(1, 3), wanted, 1e-6)
    elsewhere = tmp_path / "elsewhere" / "w.bin"
    elsewhere.parent.mkdir()
    shutil.move(weights, elsewhere)
    with pytest.raises(SternaError) as caught:
        read_model(model)
    assert caught.value.codes == ("E0101",)
    assert f'weights_file="{weights.name}"' in str(caught.value)
    np.testing.assert_allclose(answer(model, elsewhere).reshape(1, 3), wanted, 1e-6)
    facts = model_facts(model, weights_file=elsewhere)
    assert facts.file_bytes == model.stat().st_size + elsewhere.stat().st_size
    assert facts.weights == KERNEL.size + BIAS.size


@pytest.mark.parametrize("name", ["darknet", "caffe"])
def test_a_folder_with_both_is_the_model(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    _, weights = PAIRS[name](folder)
    weights.rename(folder / f"trained{weights.suffix}")
    np.testing.assert_allclose(answer(folder).reshape(1, 3), X @ KERNEL + BIAS, 1e-6)


def test_the_command_line(tmp_path: Path) -> None:
    model, weights = keras(tmp_path)
    elsewhere = weights.rename(tmp_path / "w.h5")
    missing = CliRunner().invoke(program, ["compile", str(model), "-o", str(tmp_path / "no")])
    assert missing.exit_code
    assert "--weights-file dense.weights.h5" in missing.output
    given = ["--weights-file", str(elsewhere), "--dim", "batch=1"]
    for command in (["compile", str(model), "-o", str(tmp_path / "bundle"), *given], ["verify", str(model), *given]):
        done = CliRunner().invoke(program, [*command, "--generator", "llvm"])
        assert done.exit_code == 0, done.output
    with sterna.load(tmp_path / "bundle") as bundle:
        np.testing.assert_allclose(next(iter(bundle.run({"x": X}).values())), X @ KERNEL + BIAS, 1e-6)
    shown = CliRunner().invoke(program, ["inspect", str(model), "--weights-file", str(elsewhere)])
    assert "15 weights" in shown.output


def test_what_is_no_file_of_weights(tmp_path: Path) -> None:
    model, _ = keras(tmp_path)
    wrong = tmp_path / "w.txt"
    wrong.write_text("no weights")
    for file, says in ((tmp_path / "none", "cannot be read"), (tmp_path, "it is a folder"), (wrong, "it is not HDF5")):
        with pytest.raises(SternaError, match=says) as caught:
            read_model(model, ReadOptions(weights_file=file))
        assert caught.value.codes == ("E0101",)
    onnx = Path(sterna.__file__).parent / "demo" / "digits.onnx"
    with pytest.raises(SternaError, match="no weights in a file of their own") as caught:
        sterna.compile(onnx, weights_file=wrong)
    assert caught.value.codes == ("E0106",)
    with pytest.raises(SternaError) as caught:
        sterna.compile(model, weights_file=7)  # type: ignore[arg-type]
    assert caught.value.codes == ("E0203",)
