"""Instructions that kernels take on 64-bit ARM, compared with a file, as test_instruction_counts.py does for x86-64.

Counted under qemu-user by a plugin (sterna.emulate.counting), exactly. A change of more than 5 % either way
fails: `STERNA_UPDATE_COUNTS=1 pytest tests/targets/test_arm64_counts.py` writes the file anew, and the commit says why.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna.api
from sterna.targets.description import load_target
from support.counted_kernels import INTEGERS, KERNELS, hold, random_input
from support.tools import ROOT, need

COUNTS = Path(__file__).with_suffix(".json")
LEVELS = ("arm64", "arm64-dotprod", "arm64-i8mm")
ROWS = {
    **{name: (name, "arm64") for name in KERNELS},
    **{f"{name}, {target}": (name, target) for name in INTEGERS for target in LEVELS},
}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The emulator with the plugin, both built here."""
    need("qemu-aarch64", "runs what is counted")
    sys.path.append(str(ROOT / "bench"))
    try:
        from arm64.counting import Machine
    finally:
        sys.path.remove(str(ROOT / "bench"))
    return Machine(tmp_path_factory.mktemp("counted"))


@pytest.mark.family("arm64")
@pytest.mark.parametrize("row", ROWS)
def test_instructions(row: str, machine: Any, tmp_path: Path) -> None:
    name, target = ROWS[row]
    model = {**KERNELS, **INTEGERS}[name]()
    bundle = sterna.api.compile_to(tmp_path / "bundle", model, target)
    counted = machine.bundle(bundle, load_target(target), [random_input(model)], tmp_path / "run")
    assert counted.run.kinds["vmac"] > 0 or name in ("max_pool", "softmax")
    hold(COUNTS, row, counted.run.total)


def test_every_count_has_a_kernel() -> None:
    assert set(json.loads(COUNTS.read_text())) == set(ROWS)


@pytest.mark.family("arm64")
def test_blocks_mnemonics_nodes_and_caches(machine: Any, tmp_path: Path) -> None:
    """Every way of counting adds up to the same, and a model that fits the caches leaves memory alone."""
    from arm64.counting import Asked

    model, target = KERNELS["conv_1x1"](), load_target("arm64")
    bundle = sterna.api.compile_to(tmp_path / "bundle", model, "arm64")
    inputs = [random_input(model)]
    plain = machine.bundle(bundle, target, inputs, tmp_path / "run").run
    everything = Asked(mnemonics=True, blocks=True, nodes=True, caches=target)
    found = machine.bundle(bundle, target, inputs, tmp_path / "run", asked=everything)
    assert sum(len(words) * count for words, count in found.run.blocks.items()) == found.run.total
    assert sum(found.run.mnemonics.values()) == found.run.total
    assert 0 <= found.run.total - sum(each.total for _, _, each in found.nodes) < 200, "the end of a run"
    assert abs(found.run.total - plain.total) < 1000, "calls that name nodes"
    assert found.run.kinds["l1"] > 0
    assert found.run.kinds["l2"] == 0 == found.run.kinds["back"]
    small = Asked(caches=load_target("armv6"))
    assert machine.bundle(bundle, target, inputs, tmp_path / "run", asked=small).run.kinds["l1"] > found.run.kinds["l1"]
    assert plain.kinds["l1"] == 0


@pytest.mark.family("arm64")
def test_cycles_of_code_that_ran(machine: Any, tmp_path: Path) -> None:
    """A core that multiplies one vector at a time takes longer than one that multiplies four."""
    need("llvm-mca", "estimates cycles")
    from arm64.counting import Asked
    from arm64.cycles import estimate

    model, target = KERNELS["matmul"](), load_target("arm64")
    bundle = sterna.api.compile_to(tmp_path / "bundle", model, "arm64")
    run = machine.bundle(bundle, target, [random_input(model)], tmp_path / "run", asked=Asked(blocks=True)).run
    cycles = estimate(run.blocks)
    assert run.total / 4 < cycles["apple-m1"] < cycles["cortex-a55"] < 4 * run.total


@pytest.mark.family("arm64")
def test_the_newest_llvm_estimates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two versions the newer one; Cortex-A76 by the model of Neoverse N1, as LLVM has none of its own for it."""
    cycles = "*=neoverse-n1*) echo Total Cycles: 64;; *) echo Total Cycles: 128;;"
    for number, estimates in (("14", "*) exit 1;;"), ("19", cycles)):
        version_of = f"*--version) echo '  LLVM version {number}';;"
        _program(tmp_path / f"llvm-mca-{number}", f'case "$*" in {version_of} {estimates} esac')
        _program(tmp_path / f"llvm-mc-{number}", r"printf '\tnop\n'")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from arm64.cycles import estimate, version

    assert version() == "LLVM version 19"
    assert estimate({("d503201f",): 5}, ("cortex-a72", "cortex-a76")) == {"cortex-a72": 10.0, "cortex-a76": 5.0}


def _program(place: Path, script: str) -> None:
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(0o755)


@pytest.mark.family("arm64")
def test_the_benchmark_prints_a_table(tmp_path: Path) -> None:
    need("qemu-aarch64", "runs what is counted")
    command = [str(ROOT / "ci" / "bench-arm64"), "--models", str(tmp_path / "model.onnx"), "--peers", "none"]
    (tmp_path / "model.onnx").write_bytes(KERNELS["conv_1x1"]().SerializeToString())
    done = subprocess.run([*command, "fp32", "--work", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "fp32, Cortex-A72: millions of instructions" in done.stdout
    wrong = subprocess.run([*command, "int4"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "E0002" in wrong.stderr
    assert np.isfinite(float(done.stdout.split("model ")[-1].split("│")[1]))
