"""ci/bench-arm64: mistakes, what was broken off, what takes too long; counts are held in test_arm64_counts.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sterna.emulate import counting
from sterna.errors import SternaError
from sterna.targets.description import load_target
from support.tools import ROOT

BENCH = ROOT / "bench"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCH)
    from arm64 import root as module

    return module


@pytest.mark.parametrize(
    "arguments", [("--generator", "none"), ("--generator", ""), ("--peers", "onnx"), ("fp64",), ("--on", "cortex-m4")]
)
def test_mistakes_are_told(arguments: tuple[str, ...], tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "compiler"), str(BENCH)])}
    command = [sys.executable, "-m", "arm64", "--work", str(tmp_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert "E0002" in done.stderr
    assert "Traceback" not in done.stderr


def test_peers_run_on_processors_that_have_a_root(root: ModuleType) -> None:
    found = {name: root.emulated(load_target(name).runs_on) for name in ("arm64", "arm64-i8mm", "cortex-a53", "armv7")}
    assert found == {"arm64": "cortex-a72", "arm64-i8mm": "max", "cortex-a53": "", "armv7": ""}


def test_a_root_that_was_broken_off_is_made_anew(
    root: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, run = [], root._run

    def recorded(command: list[str], folder: Path, settings: dict[str, str] | None = None) -> None:
        done.append(command[0])
        if command[0] == "cp":
            run(command, folder, settings)

    monkeypatch.setattr(root, "_run", recorded)
    (tmp_path / "base" / "usr").mkdir(parents=True)
    for name in root.PROCESSORS:
        (tmp_path / f"root.{name}" / "usr").mkdir(parents=True)
    (tmp_path / "root.cortex-a72" / "proc").mkdir()
    root.make_root(tmp_path)
    for name, processor in root.PROCESSORS.items():
        assert {path.name for path in (tmp_path / f"root.{name}").iterdir()} == {"usr", "proc"}
        assert processor.part in (tmp_path / f"root.{name}" / "proc" / "cpuinfo").read_text()
    assert done.count("cp") == len(root.PROCESSORS)
    done.clear()
    root.make_root(tmp_path)
    assert done == []


def test_a_program_that_does_not_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "SECONDS", 0.2)
    emulator = tmp_path / "emulator"
    emulator.write_text("#!/bin/sh\nexec sleep 30\n")
    emulator.chmod(0o755)
    machine = counting.Machine(tmp_path / "work")
    with pytest.raises(SternaError, match=r"did not end in 0\.2 s") as caught:
        machine.count([str(emulator)], ["program"], tmp_path, 1, counting.Asked(), {})
    assert caught.value.codes == ("E0004",)
