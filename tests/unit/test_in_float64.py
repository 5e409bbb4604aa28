"""What tests and sweeps measure roundings by: the same network in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import parser

from sterna.frontends.formats import read_model
from support.control_flow import CHOICE, model
from support.in_float64 import in_float64, run_in_float64


def test_nothing_is_rounded_but_the_outputs(tmp_path: Path) -> None:
    """(x + big) - big is x in float64, and zero in float32."""
    text = """agraph (float[4] x) => (float[4] y) <float[1] big = {1e8}> { a = Add(x, big)  y = Sub(a, big) }"""
    x = np.array([0.5, 1.25, -3.0, 1e-3], np.float32)
    found = run_in_float64(read_model(parser.parse_model(model(text))), {"x": x}, tmp_path / "bundle")["y"]
    np.testing.assert_allclose(found, x, atol=2e-8)
    assert found.dtype == np.float32


def test_control_flow_is_refused() -> None:
    with pytest.raises(ValueError, match="is computed in float32"):
        in_float64(read_model(parser.parse_model(model(CHOICE))))
