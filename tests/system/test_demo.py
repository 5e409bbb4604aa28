"""`sterna demo`, its model and its pictures."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from rich.console import Console

from sterna.cli import demo, program
from sterna.frontends.onnx.reference import run_onnxruntime

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_demo(tmp_path: Path, generator: str) -> None:
    place = tmp_path / "d"
    result = CliRunner().invoke(program, ["demo", "-o", str(place), "--generator", generator])
    assert result.exit_code == 0, result.output
    assert "10 of 10 pictures right" in result.stdout
    for path in place.iterdir():
        assert path.name in result.stdout
    assert str(place) in result.stdout
    assert "\x1b" not in result.stdout
    drawing = [line for line in result.stdout.splitlines() if "█" in line or "▀" in line]
    assert len(drawing) >= 12
    assert max(map(len, drawing)) <= 80


def test_demo_as_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(program, ["demo", "-o", str(tmp_path / "d"), "--json"])
    facts = json.loads(result.stdout)
    assert facts["right"] == len(facts["answers"]) == 10
    assert facts["median_seconds"] > 0
    assert facts["files"] == {p.name: p.stat().st_size for p in (tmp_path / "d").iterdir()}


def test_demo_where_the_terminal_has_only_ascii(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler"), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "sterna", "demo", "-o", "d"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "#####" in done.stdout
    assert "?" not in done.stdout


def test_the_model_is_small_and_complete() -> None:
    path = demo.DATA / "digits.onnx"
    assert path.stat().st_size < 300_000
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == ["image"]
    assert [value.name for value in model.graph.output] == ["scores"]
    images = sorted((demo.DATA / "images").glob("*.npy"))
    assert [path.stem for path in images] == [str(digit) for digit in range(10)]


def test_the_model_is_as_good_as_it_says() -> None:
    """On all the data, which include what it was trained on; and on each picture that is shipped."""
    datasets = pytest.importorskip("sklearn.datasets")
    pytest.importorskip("onnxruntime")
    data = datasets.load_digits()
    images = (data.images / 16).astype(np.float32)[:, None, None]
    right = 0
    for image, label in zip(images[::10], data.target[::10], strict=True):
        right += run_onnxruntime(demo.DATA / "digits.onnx", {"image": image})["scores"].argmax() == label
    assert right / len(images[::10]) >= 0.985
    shipped = [np.load(path)[0, 0] for path in sorted((demo.DATA / "images").glob("*.npy"))]
    known = {image.tobytes() for image in images[:, 0, 0]}
    assert all(image.tobytes() in known for image in shipped)


def test_drawing() -> None:
    image = np.zeros((8, 8), np.float32)
    image[2:6, 3:5] = 1
    plain = Console(file=io.StringIO(), force_terminal=False)
    text = demo.draw(image, plain).plain.split("\n")
    assert [len(line) for line in text] == [16] * 8
    assert text[3] == "      ████      "
    coloured = Console(file=io.StringIO(), force_terminal=True, color_system="256", no_color=False)
    assert set(demo.draw(image, coloured).plain) == {"▀", "\n"}


def test_enlarging_keeps_the_mean_and_the_range() -> None:
    image = np.random.default_rng(1).random((8, 8)).astype(np.float32)
    fine = demo.enlarge(image)
    assert fine.shape == (16, 16)
    assert fine.min() >= image.min()
    assert fine.max() <= image.max()
    assert np.allclose(demo.enlarge(np.full((8, 8), 0.3)), 0.3)
