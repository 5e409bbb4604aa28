"""Inputs of ONNX models whose values the user says (`--value`): constants, on which sizes and choices may depend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import parser

import sterna
from sterna.cli import program
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from support.control_flow import model

#: A choice by a number, whose branches have other sizes, and a range up to another.
CHOSEN = """
agraph (float[4] x, int64 rate, int64[1] count) => (float[N] y, int64[M] places)
<int64 wanted = {16000}, int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}>
{
  fast = Equal(rate, wanted)
  y = If (fast) <then_branch = t () => (float[4] p) { p = Neg(x) },
                 else_branch = e () => (float[8] q) { q = Concat <axis = 0> (x, x) }>
  end = Squeeze(count, axis)  places = Range(zero, end, one)
}"""
VALUES = {"rate": 8000, "count": 3}


def chosen(folder: Path) -> Path:
    file = folder / "chosen.onnx"
    onnx.save(parser.parse_model(model(CHOSEN)), file)
    return file


def test_values_become_constants(tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.float32)
    with sterna.compile(chosen(tmp_path), values=VALUES, generator="llvm") as bundle:
        assert [spec.name for spec in bundle.inputs] == ["x"]
        found = bundle.run({"x": x})
    assert found["y"].tolist() == [*x, *x]
    assert found["places"].tolist() == [0, 1, 2]


def test_what_depends_on_a_value_names_it(tmp_path: Path) -> None:
    with pytest.raises(sterna.SternaError) as caught:
        read_model(chosen(tmp_path))
    assert set(caught.value.codes) == {"E0107"}
    assert "rate" in str(caught.value.diagnostics[0].fix)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sparkle": 1}, 'no input "sparkle"'),
        ({"rate": [1, 2]}, "does not fit"),
        ({"x": 1}, "[4], which 1 does not fit"),
    ],
)
def test_values_that_do_not_fit(wrong: dict[str, object], says: str, tmp_path: Path) -> None:
    with pytest.raises(sterna.SternaError, match="E0106") as caught:
        read_model(chosen(tmp_path), ReadOptions(values=VALUES | wrong))
    assert says in str(caught.value)


def test_verify_gives_the_runtime_the_same_values(tmp_path: Path) -> None:
    words = ["verify", str(chosen(tmp_path)), "--value", "rate=16000", "--value", "count=2", "--generator", "llvm"]
    run = CliRunner().invoke(program, words)
    assert run.exit_code == 0, run.output
    assert "agrees with onnxruntime" in run.output
