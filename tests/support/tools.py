"""Programs that tests need beside the Python packages, and what their absence means."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ZIG = (sys.executable, "-m", "ziglang")


def need(tool: str, why: str) -> str:
    """The path of a program. Without it the test is skipped, which conftest.py makes a failure under CI=true."""
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"needs {tool}: {why}")
    return found


def run(*command: str | Path, cwd: Path | None = None, timeout: int = 300) -> str:
    """What a program prints; it must succeed."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, cwd=cwd, timeout=timeout
    )
    said = f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{said}"
    return done.stdout
