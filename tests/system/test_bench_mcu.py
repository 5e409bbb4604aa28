"""ci/bench-mcu says what it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.tools import ROOT
from support.trained import trained


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["ad"], "needs qemu-system-arm, arm-none-eabi-gcc, gcc"),
        (["ad", "--targets", "cortex-m9"], "no target cortex-m9: one of cortex-m0plus"),
        (["ad", "--builds", "icc"], "no build icc: one of gcc"),
        (["no-such-model"], "no model no-such-model"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_built(asked: list[str], said: str, tmp_path: Path) -> None:
    trained("mlperf_tiny_ad_int8")  # skipped where there are no models
    paths = os.pathsep.join(str(ROOT / name) for name in ("compiler", "bench", "tests"))
    environment = {"PATH": str(tmp_path), "PYTHONPATH": paths, "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "mcu", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
