"""Labels and normalization that TensorFlow Lite models bring along: kept in the bundle, used by `sterna run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.frontends import tflite
from sterna.frontends.tflite.metadata import BUFFER
from sterna_runtime import load
from support.tflite_builder import Scale
from support.tflite_metadata import LABELS, described, means_of_channels, with_labels


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
