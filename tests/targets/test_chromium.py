"""In a real browser: golden sets by the runtime, and the page of `sterna serve`."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper
from PIL import Image

from sterna.api import compile_to
from sterna.cli import program
from sterna.cli.serve import roots_of
from sterna.frontends.tflite.metadata import BUFFER
from sterna_runtime import load
from support.browser_models import TARGETS, TOLERANCE, TRIED, golden_bundle
from support.javascript import chromium, served
from support.tflite_builder import Scale
from support.tflite_metadata import described, means_of_channels, with_labels
from support.tools import ROOT, need
from support.trained import digits, sample

pytestmark = pytest.mark.family("wasm32")


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_golden_sets_of_the_digits(generator: str, tmp_path: Path) -> None:
    """Every variant that the browser runs, one and two threads."""
    need("chromium", "the browser that pages are tested in")
    golden_bundle(digits(), "browser", tmp_path / "plain", generator)
    for target in ("browser-baseline", "browser-relaxed", "browser-threads", "browser-relaxed-threads"):
        bundle = compile_to(tmp_path / target, digits().file, target, generator=generator)
        for name in ("golden.json", "golden.bin"):
            (bundle / name).write_bytes((tmp_path / "plain" / name).read_bytes())
    names = sorted(path.name for path in tmp_path.iterdir())
    with served(bundles=tmp_path) as base:
        one = json.loads(chromium("replay", base, "1", *names))
        two = json.loads(chromium("replay", base, "2", "browser-threads", "browser-relaxed-threads"))
    for name, result in [*one.items(), *two.items()]:
        assert result["error"] <= (1e-4 if "relaxed" in name else 1e-5), (name, result)


@pytest.mark.parametrize("target", TARGETS)
def test_models_give_what_the_host_gives(target: str, tmp_path: Path) -> None:
    """Trained float models, one after another in one page; the generators take turns."""
    need("chromium", "the browser that pages are tested in")
    for n, name in enumerate(TRIED):
        golden_bundle(sample(name), target, tmp_path / name, "llvm" if n % 2 else "c")
    with served(bundles=tmp_path) as base:
        results = json.loads(chromium("replay", base, "1", *TRIED))
    assert set(results) == set(TRIED)
    for name, result in results.items():
        assert result.get("error", 1.0) <= TOLERANCE[target], (name, result)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, what is none, and bundles to show them to."""
    place = tmp_path_factory.mktemp("given")
    shutil.copyfile(ROOT / "examples" / "digits" / "3.png", place / "three.png")
    across, down = np.meshgrid(np.arange(90), np.arange(70))
    colours = np.stack([across * 2, down * 3, 255 - across - down], -1)
    Image.fromarray(colours.astype(np.uint8)).save(place / "picture.png")
    head = (place / "picture.png").read_bytes()
    (place / "damaged.png").write_bytes(head[:60] + b"damage")
    (place / "huge.png").write_bytes(head[:16] + struct.pack(">II", 100000, 100000) + head[24:])
    (place / "empty.png").touch()
    (place / "notes.txt").write_text("no picture")
    model = means_of_channels("int8", Scale(1.0, 3))
    model.metadata(BUFFER, described([127.5] * 3, [127.5, 64.0, 2.0]))
    (place / "means.tflite").write_bytes(with_labels(model.content()))
    compile_to(place / "means", place / "means.tflite", "browser", generator="llvm")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16]) for name in "xy")
    vector = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "vector", [x], [y])
    compile_to(place / "vector", helper.make_model(vector), "browser", generator="llvm")
    return place


def test_the_page(given: Path, tmp_path: Path) -> None:
    """Drawn upon, shown pictures and wrong files, measured; its answers are those of `sterna run`."""
    bundle = compile_to(tmp_path / "digits", digits().file, "browser", all_variants=True)
    with served(**roots_of(bundle)) as base:
        said = json.loads(chromium("page", base, tmp_path, given))
    tabs, devices = ("draw", "picture", "measure"), ("wide", "tablet", "phone")
    assert {path.name for path in tmp_path.glob("*.png")} == {f"{t}-{d}.png" for t in tabs for d in devices}
    host = compile_to(tmp_path / "host", given / "means.tflite", generator="llvm")
    arguments = ["run", str(host), "-i", str(given / "picture.png"), "--top", "5", "--json"]
    (output,) = json.loads(CliRunner().invoke(program, arguments).stdout)["outputs"]
    assert [label for label, _, _ in said] == [row["label"] for row in output["top"]]
    # Integers stand for real numbers, which are shown; one step is what rounding the picture's pixels may make.
    with load(host) as model:
        known = model.quantization(model.outputs[0].name)
    assert known is not None
    step, zero = known.scales[0], known.zero_points[0]
    real = [row["value"] if isinstance(row["value"], float) else step * (row["value"] - zero) for row in output["top"]]
    np.testing.assert_allclose([float(value) for _, _, value in said], real, atol=step)
