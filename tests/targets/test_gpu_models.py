"""`ci/gpu-models`: what counts as right, and names that are none. What it compares takes minutes, and is no test."""

from __future__ import annotations

import subprocess
import sys
from math import nan
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "ci"))

from gpu_models import ENLARGED, HALF, SPREAD, TOLERANCE, Errors  # noqa: E402


@pytest.mark.parametrize(
    ("errors", "good"),
    [
        (Errors(TOLERANCE), True),
        (Errors(2 * TOLERANCE), False),
        (Errors(2 * TOLERANCE, ENLARGED, ENLARGED), True),
        (Errors(2 * TOLERANCE, 2 * ENLARGED, 2 * ENLARGED), False),
        (Errors(2 * TOLERANCE, 2e-3, 1e-3), False),
        (Errors(nan), False),
        (Errors(0.1, HALF, 0.0, half=True), True),
        (Errors(0.1, SPREAD * 0.01, 0.01, half=True), True),
        (Errors(0.1, SPREAD * 0.011, 0.01, half=True), False),
        (Errors(nan, half=True), False),
    ],
)
def test_what_is_right(errors: Errors, good: bool) -> None:
    assert errors.good == good


@pytest.mark.parametrize("where", [(), ("--networks",)])
def test_a_name_that_is_none(where: tuple[str, ...]) -> None:
    words = [sys.executable, str(ROOT / "ci" / "gpu_models.py"), *where, "nosuch"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("error[E0006]: there is no model")
