"""Names of classes beside a model, and what pictures become: both reach the bundle, and `sterna run` heeds them."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from sterna.cli import program
from sterna.frontends.class_names import names_of
from sterna.frontends.formats import read_model
from support.caffe_networks import layer
from support.caffe_networks import network as caffe_network
from support.darknet_networks import drawn, network
from support.graph_defs import GraphWriter

os.environ.setdefault("KERAS_BACKEND", "numpy")
keras = pytest.importorskip("keras")

NAMES = ["cat", "dog", "newt"]


def classifier(folder: Path) -> Path:
    """The mean of each colour, and a softmax: a picture's class is its strongest colour."""
    text = "[avgpool]\n[softmax]\n"
    return network(folder, text, [], (3, 4, 4))


def labels(path: Path) -> list[str]:
    return read_model(path).metadata.get("labels", {}).get("layer1_softmax", [])  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["model.names", "coco.names", "labels.txt", "classes.txt"])
def test_names_beside_a_model(name: str, tmp_path: Path) -> None:
    path = classifier(tmp_path)
    (tmp_path / name).write_text("cat\ndog\nnewt\n\n")
    assert labels(path) == NAMES


def test_a_list_of_another_length_and_several_lists_are_passed_over(tmp_path: Path) -> None:
    path = classifier(tmp_path)
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    assert not labels(path)
    for name in ("one.names", "two.names"):
        (tmp_path / name).write_text("cat\ndog\nnewt\n")
    assert not labels(path)
    (tmp_path / "model.names").write_text("a\nb\nc\n")
    assert labels(path) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("n01440764 tench, Tinca tinca\nn01443537 goldfish\n", ["tench, Tinca tinca", "goldfish"]),
        ("n01440764\nn01443537\n", ["n01440764", "n01443537"]),
        ('["cat", "dog"]', ["cat", "dog"]),
        ('{"labels": ["cat", "dog"], "tmVersion": "2"}', ["cat", "dog"]),
        ('{"0": ["n02123045", "tabby"], "1": ["n02099601", "retriever"]}', ["tabby", "retriever"]),
        ('{"a": "cat"}', []), ("[1, 2]", []), ("[" * 9999, []), ("\x00", ["\x00"]), ("", []),
    ],
)  # fmt: skip
def test_forms_of_lists(content: str, names: list[str]) -> None:
    assert list(names_of(content.encode())) == names


def test_what_is_no_text_has_no_names() -> None:
    assert names_of(b"\xff\xfe\x00\x80") == ()


def test_names_in_an_archive_of_a_pair(tmp_path: Path) -> None:
    path = classifier(tmp_path)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for each in (path, path.with_suffix(".weights")):
            archive.write(each, each.name)
        archive.writestr("data/obj.names", "\n".join(NAMES))
        archive.writestr("obj.names", "\n".join(NAMES))
    assert labels(tmp_path / "all.zip") == NAMES


def test_names_of_caffe_and_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "synset_words.txt").write_text("n1\nn2\nn3\n")
    path = caffe_network(tmp_path, layer("Softmax"), {}, (1, 3))
    assert read_model(path).metadata["labels"] == {"y": ["n1", "n2", "n3"]}
    writer = GraphWriter()
    writer.input("x", (1, 3))
    writer.node("Softmax", ["x"], name="scores")
    assert read_model(writer.write(tmp_path)).metadata["labels"] == {"scores": ["n1", "n2", "n3"]}


def test_a_picture_and_its_best_class(tmp_path: Path) -> None:
    """From the file to `sterna run`: DarkNet divides pixels by 255, and a green picture is a dog."""
    path = classifier(tmp_path)
    (tmp_path / "model.names").write_text("\n".join(NAMES))
    Image.new("RGB", (9, 7), (30, 200, 40)).save(tmp_path / "green.png")
    bundle = tmp_path / "bundle"
    runner = CliRunner()
    made = runner.invoke(program, ["compile", str(path), "-g", "llvm", "-o", str(bundle)])
    assert made.exit_code == 0, made.output
    metadata = json.loads((bundle / "graph.json").read_text())["metadata"]
    assert metadata["normalization"] == {"data": {"mean": [0.0], "std": [255.0]}}
    run = runner.invoke(program, ["run", str(bundle), "--input", str(tmp_path / "green.png"), "--top", "2"])
    assert run.exit_code == 0, run.output
    assert "dog" in run.output
    score = np.exp(np.array([30, 200, 40]) / 255)
    assert f"{score[1] / score.sum():.3f}" in run.output


@pytest.mark.parametrize("sequential", [True, False])
def test_layers_of_keras_that_prepare_pixels(sequential: bool, tmp_path: Path) -> None:
    """A model that rescales pixels itself takes them as they are."""
    layers = [keras.layers.Rescaling(1 / 127.5, offset=-1), keras.layers.GlobalAveragePooling2D()]
    if sequential:
        model = keras.Sequential([keras.Input((4, 4, 3)), *layers])
    else:
        first = value = keras.Input((4, 4, 3), name="image")
        for each in layers:
            value = each(value)
        model = keras.Model(first, value)
    model.save(tmp_path / "model.keras")
    (tmp_path / "labels.txt").write_text("\n".join(NAMES))
    graph = read_model(tmp_path / "model.keras")
    (name,) = (value.name for value in graph.inputs)
    assert graph.metadata["normalization"] == {name: {"mean": [0.0], "std": [1.0]}}
    assert list(graph.metadata["labels"].values()) == [NAMES]


def test_other_models_of_keras_say_nothing_of_pixels(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.GlobalAveragePooling2D()])
    model.save(tmp_path / "model.keras")
    assert not read_model(tmp_path / "model.keras").metadata


def test_drawn_weights_are_not_names(tmp_path: Path) -> None:
    """A network with weights of its own beside the list."""
    path = network(tmp_path, "[connected]\noutput=3\nactivation=linear\n", [drawn(3), drawn(3, 48)], (3, 4, 4))
    (tmp_path / "labels.txt").write_text("\n".join(NAMES))
    assert read_model(path).metadata["labels"] == {"layer0_connected": NAMES}
