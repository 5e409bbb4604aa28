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
    """Every case ends as ci/onnx-exclusions.txt and ci/onnx-failures.txt say."""
    command = [sys.executable, str(ROOT / "ci" / "onnx_backend.py"), "--generator", generator, "--part", part]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "compiler"), os.environ.get("PYTHONPATH", "")]),
    }
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]


def test_every_listed_case_has_a_reason() -> None:
    for name in ("onnx-exclusions.txt", "onnx-failures.txt"):
        lines = (ROOT / "ci" / name).read_text("utf-8").splitlines()
        rows = [line.partition(":") for line in lines if line and not line.startswith("#")]
        assert all(case.startswith("test_") and reason.strip() for case, _, reason in rows)
        assert len({case for case, _, _ in rows}) == len(rows)
