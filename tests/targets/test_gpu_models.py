"""`ci/gpu-models`: what counts as right, and names that are none. What it compares takes minutes, and is no test."""

from __future__ import annotations

import subprocess
import sys
from math import nan
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "ci"))

from gpu_models import ENLARGED, HALF_STEP, SPREAD, TOLERANCE, Errors, worst  # noqa: E402


@pytest.mark.parametrize(
    ("errors", "good"),
    [
        (Errors(TOLERANCE), True),
        (Errors(2 * TOLERANCE), False),
        (Errors(2 * TOLERANCE, ENLARGED, ENLARGED), True),
        (Errors(2 * TOLERANCE, 2 * ENLARGED, 2 * ENLARGED), False),
        (Errors(2 * TOLERANCE, 2e-3, 1e-3), False),
        (Errors(nan), False),
        (Errors(0.1, HALF_STEP, 0.0, half=True), True),
        (Errors(0.1, SPREAD * 0.01, 0.01, half=True), True),
        (Errors(0.1, SPREAD * 0.011, 0.01, half=True), False),
        (Errors(nan, half=True), False),
    ],
)
def test_what_is_right(errors: Errors, good: bool) -> None:
    assert errors.good == good


@pytest.mark.parametrize(
    ("found", "off"),
    [
        ((1.0, np.inf, np.nan), 0.0),
        ((1.5, np.inf, np.nan), 0.5),
        ((1.0, -np.inf, np.nan), np.inf),
        ((1.0, np.inf, 3.0), np.nan),
        ((np.nan, np.inf, np.nan), np.nan),
    ],
)
def test_what_is_infinite_on_both_is_no_difference(found: tuple[float, ...], off: float) -> None:
    wanted = [{"y": np.array([1.0, np.inf, np.nan], np.float16)}]
    assert worst([{"y": np.array(found, np.float16)}], wanted) == pytest.approx(off, nan_ok=True)


def test_what_is_infinite_here_is_not_compared_with_float64() -> None:
    """Its own infinity where the CPU has a number is an infinite error."""
    exact, here = [{"y": np.array([1.0, 1e6])}], [{"y": np.array([1.0, np.inf], np.float16)}]
    assert worst(here, exact, here) == 0
    there = [{"y": np.array([np.inf, np.inf], np.float16)}]
    assert worst(there, exact, here) == np.inf


@pytest.mark.parametrize("where", [(), ("--networks",)])
def test_a_name_that_is_none(where: tuple[str, ...]) -> None:
    words = [sys.executable, str(ROOT / "ci" / "gpu_models.py"), *where, "nosuch"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("error[E0006]: there is no model")
