"""The generated parts of the documentation are what the code prints today."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("script", ["update.py", "operators.py"])
def test_generated_parts_are_up_to_date(script: str) -> None:
    command = [sys.executable, str(ROOT / "docs" / script), "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
