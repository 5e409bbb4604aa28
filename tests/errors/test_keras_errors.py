"""Broken, damaged and hostile Keras models are refused: with a code, and the name of what is wrong."""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import sterna
from sterna.errors import SternaError
from sterna.frontends.formats import read_model, reference_for
from sterna.frontends.frontend import ReadOptions
from support.keras_files import archive, functional, layer, tensor, weights

DENSE = layer("Dense", "d", ["x"], units=3, activation="relu")
KERNEL = [np.ones((4, 3), np.float32), np.zeros(3, np.float32)]


def refusal(path: Path, **options: Any) -> SternaError:
    with pytest.raises(SternaError) as caught:
        read_model(path, ReadOptions(**options))
    return caught.value


def test_what_is_here_is_read(tmp_path: Path) -> None:
    graph = read_model(archive(functional(DENSE), weights(dense=KERNEL), tmp_path))
    assert [value.name for value in graph.inputs] == ["x"]
    assert graph.output_names == ("d",)


TALL, TEXT = [np.ones((5, 3), np.float32), KERNEL[1]], [np.array([b"a"]), KERNEL[1]]
PAIRS = layer("Reshape", "r", ["x"], target_shape=[2, 2])


def relu(name: str, operand: str) -> dict[str, Any]:
    return layer("ReLU", name, [operand])


CASES: dict[str, tuple[Callable[[], tuple[Any, bytes]], str, str]] = {
    "custom": (lambda: (functional(layer("Mine", "m", ["x"], module="my.package")), weights()), "E0104", "Mine is"),
    "unknown": (lambda: (functional(layer("Hashing", "h", ["x"])), weights()), "E0104", 'register("keras", "Hashing"'),
    "lambda": (lambda: (functional(layer("Lambda", "l", ["x"])), weights()), "E0113", "code is not part"),
    "no weights": (lambda: (functional(DENSE), weights()), "E0103", "lack kernel, bias"),
    "one weight": (lambda: (functional(DENSE), weights(dense=KERNEL[:1])), "E0103", "lack bias"),
    "wrong shape": (lambda: (functional(DENSE), weights(dense=TALL)), "E0108", "inner dimensions"),
    "strings": (lambda: (functional(DENSE), weights(dense=TEXT)), "E0103", "not an array"),
    "activation": (
        lambda: (functional(layer("Dense", "d", ["x"], units=3, activation="sparkle")), weights(dense=KERNEL)),
        "E0113", "the activation sparkle",
    ),
    "subclass": (lambda: ({"class_name": "MyModel", "config": {"name": "m"}}, weights()), "E0104", "class MyModel"),
    "circle": (lambda: (functional(relu("a", "b"), relu("b", "a")), weights()), "E0103", "depends on itself"),
    "dangling": (lambda: (functional(relu("a", "nobody")), weights()), "E0103", "is of no layer"),
    "no result": (lambda: (functional(relu("a", "x"), output="c"), weights()), "E0103", "of no layer"),
    "twice": (lambda: (functional(relu("a", "x"), relu("a", "x")), weights()), "E0103", "two layers"),
    "keywords": (
        lambda: (functional(relu("a", "x") | {"inbound_nodes": [{"args": [tensor("x")], "kwargs": 7}]}), weights()),
        "E0103", "kwargs of a call of",
    ),
    "no json": (lambda: ("{", weights()), "E0103", "not JSON"),
    "list": (lambda: ("[]", weights()), "E0103", "not an object"),
    "strides": (
        lambda: (functional(PAIRS, layer("MaxPooling1D", "p", ["r"], pool_size=[0])), weights()),
        "E0109", "must be positive",
    ),
    "no list": (lambda: (functional(layer("Pipeline", "p", ["x"], layers=7)), weights()), "E0103", "no list of layers"),
    "window": (
        lambda: (functional(layer("MelSpectrogram", "s", ["x"], fft_length=4, window="kaiser")), weights()),
        "E0113", "the window kaiser",
    ),
    "short signal": (
        lambda: (functional(layer("MelSpectrogram", "s", ["x"], fft_length=64)), weights()),
        "E0108", "for a transform of 64",
    ),
    "picture": (lambda: (functional(layer("AutoContrast", "a", ["x"])), weights()), "E0108", "takes pictures"),
    "sparse": (
        lambda: (
            {"class_name": "Functional", "config": {
                "name": "n", "layers": [layer("InputLayer", "x", batch_shape=[None, 4], sparse=True)],
                "input_layers": [["x", 0, 0]], "output_layers": [["x", 0, 0]],
            }}, weights(),
        ),
        "E0111", "sparse",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refusals(name: str, tmp_path: Path) -> None:
    make, code, says = CASES[name]
    mistake = refusal(archive(*make(), tmp_path))
    assert set(mistake.codes) == {code}
    assert says in str(mistake)
    assert "model.keras" in str(mistake)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    mine = layer("Mine", "m", ["x"], module="my.package")
    other = layer("Hashing", "h", ["m"])
    said = str(refusal(archive(functional(mine, other), weights(), tmp_path)))
    assert "the layer Mine" in said
    assert "the layer Hashing" in said


def test_sizes_that_the_model_leaves_open(tmp_path: Path) -> None:
    config = functional(layer("ReLU", "r", ["x"]))
    config["config"]["layers"][0]["config"]["batch_shape"] = [None, None, 3]
    path = archive(config, weights(), tmp_path)
    mistake = refusal(path)
    assert mistake.codes == ("E0105",)
    assert '{"x": (1, <size>, 3)}' in str(mistake)
    assert refusal(path, dims={"time": 4}).codes[0] == "E0106"
    graph = read_model(path, ReadOptions(dims={"x_1": 5}))
    assert graph.inputs[0].type.sizes == (1, 5, 3)


def test_a_translation_of_ones_own(tmp_path: Path) -> None:
    path = archive(functional(layer("Mine", "m", ["x"], module="my.package", factor=3.0)), weights(), tmp_path)

    def mine(t: Any) -> Any:
        return t.op("mul", t.x, t.scalar(t.setting("factor"), t.x.dtype))

    with sterna.frontends.register("keras", "Mine", mine), sterna.compile(path, generator="llvm") as bundle:
        found = bundle.run({"x": np.ones((1, 4), np.float32)})["m"]
    np.testing.assert_array_equal(found, np.full((1, 4), 3, np.float32))


def test_weights_without_a_model(tmp_path: Path) -> None:
    path = tmp_path / "weights.h5"
    path.write_bytes(weights(dense=KERNEL))
    mistake = refusal(path)
    assert mistake.codes == ("E0103",)
    assert "save the whole model" in str(mistake)


def test_shards_stay_beside_the_model(tmp_path: Path) -> None:
    topology = {"model_config": functional(DENSE)}
    manifest = [{"paths": ["../secret"], "weights": []}]
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"modelTopology": topology, "weightsManifest": manifest}))
    mistake = refusal(path)
    assert mistake.codes == ("E0103",)
    assert "not a file beside" in str(mistake)


@pytest.mark.parametrize("form", ["config", "weights", "file", "hdf5"])
def test_damaged_files_are_refused_or_read(form: str, tmp_path: Path) -> None:
    """A few hundred of them, never with anything but a coded error."""
    chance = random.Random(3)
    conv = layer("Dense", "e", ["d"], units=2, activation={"class_name": "ReLU", "config": {"name": "r"}})
    config = json.dumps(functional(DENSE, conv))
    content = weights(dense=KERNEL, dense_1=[np.ones((3, 2), np.float32), np.zeros(2, np.float32)])
    whole = archive(config, content, tmp_path).read_bytes()
    if form == "hdf5":
        file = io.BytesIO()
        with h5py.File(file, "w") as made:
            made.attrs["model_config"] = config
            made.attrs["keras_version"] = "2.9.0"
            group = made.create_group("model_weights/d")
            group.attrs["weight_names"] = [b"d/kernel:0", b"d/bias:0"]
            group["d/kernel:0"], group["d/bias:0"] = KERNEL
        whole = file.getvalue()
    codes = set()
    for _ in range(120):
        if form == "config":
            path = archive(damaged(config.encode(), chance).decode("utf-8", "replace"), content, tmp_path)
        elif form == "weights":
            path = archive(config, damaged(content, chance), tmp_path)
        else:
            path = tmp_path / ("model.h5" if form == "hdf5" else "model.keras")
            path.write_bytes(damaged(whole, chance))
        try:
            read_model(path)
        except SternaError as mistake:
            codes |= set(mistake.codes)
    assert codes
    assert not {code for code in codes if code.startswith("E09")}


def damaged(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 3, 9))):
        at = chance.randrange(len(changed))
        kind = chance.randrange(4)
        if kind == 0:
            changed[at] = chance.randrange(256)
        elif kind == 1:
            del changed[at : at + chance.randrange(1, 40)]
        elif kind == 2:
            changed[at:at] = changed[chance.randrange(len(changed)) :][: chance.randrange(1, 40)]
        else:
            changed[at] ^= 1 << chance.randrange(8)
    return bytes(changed) or b"x"


def test_a_model_of_keras_2_is_compared_with_tf_keras(tmp_path: Path) -> None:
    """Keras 3 refuses a setting that Keras 1 and 2 wrote."""
    if find_spec("tf_keras") is not None:
        pytest.skip("tf-keras is installed")
    os.environ.setdefault("KERAS_BACKEND", "numpy")
    keras = pytest.importorskip("keras")
    path = tmp_path / "model.h5"
    keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(3)]).save(path)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"][1]["config"]["implementation"] = 1
        file.attrs["model_config"], file.attrs["keras_version"] = json.dumps(config), "2.2.4"
    assert "install tf-keras" in reference_for(path).missing
    with pytest.raises(sterna.SternaError, match="E0009") as caught:
        reference_for(path, "keras")
    (problem,) = caught.value.diagnostics
    assert problem.fix == "pip install tf-keras"
    assert all(len(line) <= 200 for line in problem.where)


@pytest.mark.parametrize("kind", ["layers-model", "graph-model"])
def test_tensorflow_js_has_no_reference_here(kind: str, tmp_path: Path) -> None:
    topology = {"model_config": {"class_name": "Sequential"}} if kind == "layers-model" else {"node": []}
    text = json.dumps({"format": kind, "modelTopology": topology, "weightsManifest": []})
    (tmp_path / "model.json").write_text(text)
    assert "browsers and Node" in reference_for(tmp_path / "model.json").missing
    with pytest.raises(sterna.SternaError, match="E0203"):
        reference_for(tmp_path / "model.json", "keras" if kind == "layers-model" else "tensorflow")


@pytest.mark.parametrize("kind", ["Float8QuantizationConfig", "Int4QuantizationConfig"])
def test_quantized_weights_say_what_to_do_instead(kind: str, tmp_path: Path) -> None:
    """Of 8-bit floats, and of what should be integers of 4 bits and is not."""
    quantized = layer("Dense", "d", ["x"], units=3, quantization_config={"class_name": kind})
    mistake = refusal(archive(functional(quantized), weights(dense=KERNEL), tmp_path))
    (problem,) = mistake.diagnostics
    assert problem.code == "E0113"
    assert "sterna quantize" in str(problem.fix)
