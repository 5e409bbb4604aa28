"""The digits' network and drawings: what it learned from, what it is tested with, how the page makes pixels of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.cli import demo
from support.tools import ROOT, need, run

DIGITS = ROOT / "examples" / "digits"
DRAWINGS = Path(__file__).with_name("drawings.json")
SCRIPT = """
import { readFileSync } from "node:fs";
import { seen } from "./strokes.js";
const drawings = JSON.parse(readFileSync(process.argv[2], "utf-8"));
console.log(JSON.stringify(drawings.map(({ strokes }) => [...seen(strokes)])));
"""


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return rows


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """The drawings as training would have made them into pixels."""
    sys.path.insert(0, str(DIGITS))
    try:
        from strokes import seen
    finally:
        sys.path.remove(str(DIGITS))
    return np.stack([seen([np.array(stroke, float) for stroke in row["strokes"]]) for row in _rows(DRAWINGS)])


def test_no_hand_of_the_test_was_seen_in_training() -> None:
    learned, tested = _rows(DIGITS / "strokes.json"), _rows(DRAWINGS)
    assert not {row["hand"] for row in learned} & {row["hand"] for row in tested}
    assert len({row["hand"] for row in tested}) == 15
    assert [sum(row["digit"] == digit for row in tested) for digit in range(10)] == [20] * 10
    small = [row for row in tested if np.ptp(np.concatenate(row["strokes"]), axis=0).max() < 80]
    assert len(small) > 50
    points = np.concatenate([np.concatenate(row["strokes"]) for row in tested])
    assert points.min() >= 0
    assert points.max() <= 320


def test_drawings_are_recognised(images: np.ndarray) -> None:
    session = pytest.importorskip("onnxruntime").InferenceSession(str(demo.DATA / "digits.onnx"))
    answers = [session.run(None, {"image": image[None, None]})[0].argmax() for image in images]
    rows = _rows(DRAWINGS)
    wrong = [f"{r['hand']} {r['digit']} as {a}" for r, a in zip(rows, answers, strict=True) if r["digit"] != a]
    assert len(wrong) <= 0.05 * len(rows), wrong


@pytest.mark.family("wasm32")
def test_the_page_makes_the_same_pixels(images: np.ndarray, tmp_path: Path) -> None:
    node = need("node", "runs the page's code")
    (tmp_path / "strokes.js").write_bytes((ROOT / "examples" / "browser" / "strokes.js").read_bytes())
    (tmp_path / "print.js").write_text(SCRIPT)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    made = json.loads(run(node, tmp_path / "print.js", DRAWINGS))
    np.testing.assert_array_equal(np.array(made).reshape(images.shape), images)
