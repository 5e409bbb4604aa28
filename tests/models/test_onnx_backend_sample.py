"""A fixed sample of ONNX's backend test suite, with both generators; ci/onnx-backend runs all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each case is a forked process")
@pytest.mark.parametrize(("generator", "part"), [("llvm", "5/20"), ("c", "7/90")])
def test_sample(generator: str, part: str) -> None:
    command = [sys.executable, str(ROOT / "ci" / "onnx_backend.py"), "--generator", generator, "--part", part]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "compiler"), os.environ.get("PYTHONPATH", "")]),
    }
    result = subprocess.run(
        [*command, "--show", "--at-least", "95"], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]


def test_every_excluded_case_has_a_reason() -> None:
    lines = (ROOT / "ci" / "onnx-exclusions.txt").read_text("utf-8").splitlines()
    rows = [line.partition(":") for line in lines if line and not line.startswith("#")]
    assert all(name.startswith("test_") and reason.strip() for name, _, reason in rows)
    assert len({name for name, _, _ in rows}) == len(rows)
