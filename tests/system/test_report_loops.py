"""Reports of models with loops and choices, of scratch in the arena, and of what is traded for speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from sterna.cli import program
from sterna.cli.demo import DATA
from support.control_flow import detector
from support.trained import digits, sample


def subject_of(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(program, ["report", *(str(a) for a in arguments), "--json"])
    assert result.exit_code == 0, result.output
    (subject,) = json.loads(result.stdout)["subjects"]
    return dict(subject)


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A report on a model that takes boxes while one is likely, with times for one threshold and errors for two."""
    place = tmp_path_factory.mktemp("boxes")
    onnx.save(detector(), place / "detector.onnx")
    image = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    np.save(place / "image.npy", image)
    np.save(place / "least.npy", np.float32(0.999))
    np.savez(place / "samples.npz", image=np.concatenate([image, image]), least=np.array([0.55, 0.9], np.float32))
    given = [part for name in ("image", "least") for part in ("--input", f"{name}={place / name}.npy")]
    return subject_of(place / "detector.onnx", "-g", "llvm", *given, "--repeat", 2, "--data", place / "samples.npz")


def test_a_loop_and_the_choice_in_it(boxes: dict[str, Any]) -> None:
    loop, choice = (next(row for row in boxes["control"] if row["op"] == op) for op in ("loop", "if"))
    assert loop["count"] == 64
    assert not loop["exact"], "the data may end it before"
    assert loop["nodes"][0] < choice["nodes"][0] < choice["nodes"][-1] < loop["nodes"][-1]
    (carried,) = (n for n, node in enumerate(boxes["nodes"]) if node["name"].startswith("left:"))
    again = {target for source, target, _, back in boxes["links"] if back and source == carried}
    reads = {
        n for n, node in enumerate(boxes["nodes"]) if any(boxes["tensors"][v]["name"] == "left" for v in node["inputs"])
    }
    assert again == {n for n in reads if loop["nodes"][0] <= n < carried}


def test_frames_around_loops_hold_nothing_else(boxes: dict[str, Any]) -> None:
    places = boxes["picture"]["nodes"]
    for row in boxes["control"]:
        first, end = row["nodes"][0], row["nodes"][-1]
        top = min(y - height / 2 for _, y, _, height in places[first:end])
        bottom = max(y + height / 2 for _, y, _, height in places[first:end])
        for n, (_, y, _, height) in enumerate(places):
            assert first <= n < end or y + height / 2 < top or y - height / 2 > bottom, n


def test_rates_are_of_single_iterations(boxes: dict[str, Any]) -> None:
    """What a run never comes to has no rate; what it does several times has that of one."""
    time, loop = boxes["time"], next(row for row in boxes["control"] if row["op"] == "loop")
    inside = range(loop["nodes"][0], loop["nodes"][-1])
    iterations = time["calls"][inside[0]]
    assert 1 < iterations <= 64
    assert all(n == 1 for n in time["calls"][: inside[0]])
    for n in inside:
        rate, node = time["rates"][n], boxes["nodes"][n]
        if time["calls"][n] == 0:
            assert rate["gbytes"] is None
        else:
            assert rate["gbytes"] == pytest.approx(node["moved_bytes"] * time["calls"][n] / time["nodes"][n])


def test_numbers_through_a_loop(boxes: dict[str, Any]) -> None:
    """Scalars are samples, too."""
    numbers = boxes["numbers"]
    assert numbers["samples"] == 2
    assert {row["name"]: row["error"] for row in numbers["outputs"]}["found"] == 0
    assert all(row["error"] < 1e-5 for row in numbers["layers"])


def test_scratch_has_its_place_in_the_arena_of_firmware() -> None:
    """The peak is then what the arena takes."""
    subject = subject_of(sample("mlperf_tiny_kws_int8").file, "-g", "llvm", "--target", "cortex-m4")
    memory = subject["memory"]
    blocks = [block for block in memory["blocks"] if block["class"] == "scratch"]
    assert blocks, "kernels work in scratch"
    assert all(block["tensors"] == [] and block["first"] == block["last"] for block in blocks)
    assert memory["peak"]["bytes"] == memory["live_bytes"] == memory["arena_bytes"]


def test_errors_of_fast_arithmetic(tmp_path: Path) -> None:
    images = [np.load(path).reshape(1, 1, 8, 8) for path in sorted(DATA.glob("images/*.npy"))[:2]]
    np.savez(tmp_path / "samples.npz", image=np.concatenate(images))
    subject = subject_of(digits().file, "-g", "llvm", "--math", "fast=0.01", "--data", tmp_path / "samples.npz")
    assert subject["numbers"]["trade"] == "fast arithmetic within 0.01"
    errors = [row["error"] for row in subject["numbers"]["layers"]]
    assert errors == sorted(errors, reverse=True)
    assert 1e-7 < errors[0] < 0.01
    assert all(row["error"] <= 0.01 for row in subject["numbers"]["outputs"])
    assert "--math fast=0.01" in subject["command"]
