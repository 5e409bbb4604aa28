"""The fuzzer of the server of devices: a short run finds nothing, and it finds a defect that is put in.

`ci/fuzz --only devices` is the long run.
"""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

import devices
import native
from frame import Budget
from support.tools import need

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="gcc's sanitizers are those of Linux")


def test_nothing_is_found(tmp_path: Path) -> None:
    need("gcc", "builds the server of devices with sanitizers")
    budget = Budget(100, 4000)
    assert devices.fuzz_with(devices.build(tmp_path), [], budget, 1, tmp_path) == []
    assert budget.made == 4000
    frames, runs = (tmp_path / "sanitizer.log").read_text().split(" frames, ")
    assert int(frames) > 8 * 4000
    assert int(runs.split()[0]) > 300, "models are loaded and run"


def test_a_defect_is_found(tmp_path: Path) -> None:
    """One byte that is read past a payload."""
    need("gcc", "builds the server of devices with sanitizers")
    copy = shutil.copytree(native.RUNTIME / "rpc", tmp_path / "rpc")
    text = (copy / "protocol.c").read_text()
    assert "bytes > r->left)" in text
    (copy / "protocol.c").write_text(text.replace("bytes > r->left)", "bytes > r->left + 600)"))
    for name in ("include", "src", "port"):
        (tmp_path / name).symlink_to(native.RUNTIME / name)
    (finding, *_) = devices.fuzz_with(devices.build(tmp_path, copy), [], Budget(60, 4000), 1, tmp_path)
    assert finding.kind == "crash"
