"""`sterna quantize`: what it prints and writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import sterna
from sterna.cli import program
from support.tools import ROOT

MODEL = ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
IMAGES = [np.load(file).astype(np.float32) for file in sorted((MODEL.parent / "images").glob("*.npy"))]


def sterna_cli(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("samples") / "digits.npz"
    np.savez(place, image=np.concatenate(IMAGES), labels=np.arange(10))
    return place


@pytest.mark.family("host-c")
def test_a_model_a_report_and_a_bundle(data: Path, tmp_path: Path) -> None:
    places = {"--output": tmp_path / "small.onnx", "--report": tmp_path / "r.json", "--bundle": tmp_path / "small"}
    result = sterna_cli("quantize", MODEL, "--data", data, *(part for pair in places.items() for part in pair))
    assert result.exit_code == 0, result.output
    for expected in ("conv1", "Gemm", "3 of 3 layers on integers", "times smaller", "accuracy 100.00% -> 100.00%"):
        assert expected in result.stdout
    facts = json.loads(places["--report"].read_text())
    assert facts["bytes_after"] == places["--output"].stat().st_size < 0.6 * facts["bytes_before"]
    assert [layer["name"] for layer in facts["layers"]] == ["conv1", "conv2", "dense"]
    onnx.checker.check_model(onnx.load(places["--output"]), full_check=True)
    with sterna.load(places["--bundle"]) as bundle:
        found = [bundle.run({"image": image})["scores"].argmax() for image in IMAGES]
    assert found == list(range(10))


def test_json_and_the_report_as_text(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = sterna_cli("quantize", MODEL, "-d", data, "--method", "entropy", "--report", "report.txt", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["output"], facts["method"], facts["samples"]) == ("digits-int8.onnx", "entropy", 10)
    assert Path("digits-int8.onnx").is_file()
    text = Path("report.txt").read_text()
    assert "3 of 3 layers on integers" in text
    assert max(map(len, text.splitlines())) <= 120


def test_layers_are_kept_float(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.onnx"
    result = sterna_cli("quantize", MODEL, "-d", data, "-o", out, "--keep-float", "conv1", "--exclude", "Gemm")
    assert result.exit_code == 0, result.output
    assert "1 of 3 layers" in result.stdout
    assert result.stdout.count("asked for") == 2
    assert "float because" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["--data", "missing.npz"], "E0003", 1),
        ([], "E0001", 2),
        (["--data", "DATA", "--method", "guess"], "E0001", 2),
        (["--data", "DATA", "--percentile", "10"], "E0203", 1),
        (["--data", "DATA", "--keep-float", "conv9"], "E0706", 1),
        (["--data", "DATA", "-o", "no/such/folder/m.onnx"], "E0007", 1),
    ],
)
def test_mistakes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: str, status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    result = sterna_cli("quantize", MODEL, *(str(data) if a == "DATA" else a for a in arguments))
    assert result.exit_code == status, result.output
    assert result.stderr.startswith(f"error[{code}]: ")
    assert "Traceback" not in result.output
