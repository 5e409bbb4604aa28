"""Labels and normalization that TensorFlow Lite models bring along: kept in the bundle, used by `sterna run`."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.frontends import tflite
from sterna.frontends.tflite.metadata import BUFFER
from sterna.runtime import load
from support.tflite_builder import ModelWriter, Scale

LABELS = ("cat", "dog", "tern")


class Writer:
    """Tables of a flatbuffer by their fields' numbers."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(256)

    def table(self, fields: dict[int, Any]) -> int:
        """Numbers are bytes, strings are strings, (position,) another table, lists vectors of floats or tables."""
        places = {field: self.place(value) for field, value in fields.items()}
        self.builder.StartObject(max(fields, default=0) + 1)
        for field, (place, is_byte) in places.items():
            if is_byte:
                self.builder.PrependUint8Slot(field, place, 0)
            else:
                self.builder.PrependUOffsetTRelativeSlot(field, place, 0)
        return int(self.builder.EndObject())

    def place(self, value: Any) -> tuple[int, bool]:
        if isinstance(value, int):
            return value, True
        if isinstance(value, str):
            return int(self.builder.CreateString(value)), False
        if isinstance(value, tuple):
            return value[0], False
        self.builder.StartVector(4, len(value), 4)
        for item in reversed(value):
            if isinstance(item, float):
                self.builder.PrependFloat32(item)
            else:
                self.builder.PrependUOffsetTRelative(item)
        return int(self.builder.EndVector()), False

    def finish(self, root: int) -> bytes:
        self.builder.Finish(root, b"M001")
        return bytes(self.builder.Output())


def described(mean: list[float], std: list[float], file: str = "labels.txt") -> bytes:
    w = Writer()
    unit = w.table({0: 1, 1: (w.table({0: mean, 1: std}),)})
    image = w.table({0: "image", 4: [unit]})
    scores = w.table({0: "scores", 6: [w.table({0: file, 2: 2})]})
    graph = w.table({2: [image], 3: [scores]})
    return w.finish(w.table({0: "net", 3: [graph]}))


def with_labels(content: bytes, name: str = "labels.txt") -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, "\n".join(LABELS) + "\n")
    return content + archive.getvalue()


def means_of_channels(dtype: str, scale: Scale | None) -> ModelWriter:
    """The mean of each of three channels, named after what the channel shows."""
    model = ModelWriter()
    g = model.main
    x = g.input(np.zeros((1, 5, 6, 3), dtype), scale)
    y = g.output(dtype, (1, 3), scale)
    g.op("MEAN", [x, g.constant(np.array([1, 2], np.int32))], [y], "ReducerOptions", keepDims=False)
    return model


@pytest.mark.parametrize(
    ("dtype", "scale", "expected"),
    [
        ("float32", None, (np.array([250, 20, 120]) - 127.5) / [127.5, 64, 2]),
        ("int8", Scale(1.0, 3), np.round((np.array([250, 20, 120]) - 127.5) / [127.5, 64, 2])),
    ],
)
def test_an_image_is_normalized_as_the_model_says(
    dtype: str, scale: Scale | None, expected: np.ndarray, tmp_path: Path
) -> None:
    model = means_of_channels(dtype, scale)
    model.metadata(BUFFER, described([127.5] * 3, [127.5, 64.0, 2.0]))
    file = tmp_path / "net.tflite"
    file.write_bytes(with_labels(model.content()))
    bundle = compile_to(tmp_path / "bundle", file, generator="llvm")
    Image.new("RGB", (6, 5), (250, 20, 120)).save(tmp_path / "picture.png")
    shown = CliRunner().invoke(
        program, ["run", str(bundle), "-i", str(tmp_path / "picture.png"), "--top", "3", "--json"]
    )
    assert shown.exit_code == 0, shown.output
    (output,) = json.loads(shown.output)["outputs"]
    by_label = {row["label"]: row["value"] for row in output["top"]}
    np.testing.assert_allclose([by_label[label] for label in LABELS], expected, rtol=1e-5, atol=1e-5)
    table = CliRunner().invoke(program, ["run", str(bundle), "-i", str(tmp_path / "picture.png"), "--top", "1"])
    assert "cat" in table.output
    own = ["--mean", "0", "--scale", "1"] if dtype == "float32" else ["--mean", "128", "--scale", "1"]
    picture = str(tmp_path / "picture.png")
    shown = CliRunner().invoke(program, ["run", str(bundle), "-i", picture, *own, "--top", "1", "--json"])
    (output,) = json.loads(shown.output)["outputs"]
    assert output["top"][0]["value"] == (250 if dtype == "float32" else 119)
    assert output["top"][0].get("raw") == (None if dtype == "float32" else 122)


def facts(content: bytes, folder: Path) -> dict[str, Any]:
    file = folder / "net.tflite"
    file.write_bytes(content)
    return dict(tflite.read(file).metadata)


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    def written(about: bytes) -> bytes:
        model = means_of_channels("float32", None)
        model.metadata(BUFFER, about)
        return model.content()

    good = described([0.0], [1.0])
    labels = {"labels": {"t1": list(LABELS)}}
    normalization = {"normalization": {"t0": {"mean": [0.0], "std": [1.0]}}}
    assert facts(with_labels(written(good)), tmp_path) == labels | normalization
    assert facts(written(good), tmp_path) == normalization, "no archive"
    assert facts(with_labels(written(good), "other.txt"), tmp_path) == normalization
    assert facts(with_labels(written(described([0.0], [0.0]))), tmp_path) == labels, "nothing is divided by 0"
    assert facts(written(b"....M000" + good[8:]), tmp_path) == {}
    for size in range(8, len(good), 3):
        found = facts(written(good[:size]), tmp_path)
        assert set(found) <= {"normalization", "labels"}
    random = np.random.default_rng(0)
    for _ in range(100):
        damaged = bytearray(good)
        damaged[int(random.integers(8, len(good)))] = int(random.integers(256))
        assert set(facts(with_labels(written(bytes(damaged))), tmp_path)) <= {"normalization", "labels"}


def test_python_and_the_header_know_scales_and_labels(tmp_path: Path) -> None:
    model = means_of_channels("int8", Scale(0.05, 3))
    model.metadata(BUFFER, described([127.5], [127.5]))
    file = tmp_path / "net.tflite"
    file.write_bytes(with_labels(model.content()))
    with load(compile_to(tmp_path / "bundle", file, generator="llvm")) as bundle:
        known = bundle.quantization("t1")
        assert known is not None
        assert (known.zero_points, known.axis) == ((3,), None)
        assert known.scales == (float(np.float32(0.05)),)
        assert known.real(np.array([3, 23], np.int8)) == pytest.approx([0, 1])
        assert str(known) == "0.05 * (q - 3)"
        assert bundle.labels("t1") == tuple(LABELS)
        assert bundle.labels("t0") == ()
        with pytest.raises(SternaError) as caught:
            bundle.quantization("t9")
        assert caught.value.codes == ("E0509",)
    header = (tmp_path / "bundle" / "model.h").read_text()
    assert "#define NET_T1_SCALE 0.05" in header
    assert "#define NET_T1_ZERO_POINT (3)" in header
    assert "_SCALE" not in model_h(means_of_channels("float32", None), tmp_path)


def model_h(model: Any, folder: Path) -> str:
    file = folder / "float.tflite"
    file.write_bytes(model.content())
    return (compile_to(folder / "float", file, generator="llvm") / "model.h").read_text()
