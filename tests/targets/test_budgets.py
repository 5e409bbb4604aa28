"""Budgets of firmware: what is chosen before a model is refused, that it is enough, and that it computes the same."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sterna import budgets
from sterna.api import compile_model, compile_to
from sterna.budgets import WAYS, within_budgets
from sterna.bundle.firmware import Footprint, firmware_archive
from sterna.cli import program
from sterna.compiled import Compiled
from sterna.errors import SternaError
from sterna.firmware.remote import BoardFunctions
from sterna.ir.graph import Graph
from sterna.ir.memory import Memory
from sterna.ops import Builder
from sterna.options import Options
from sterna.pipeline import VERIFY
from sterna.targets.description import load_target
from sterna_runtime import library, load
from support.compiling import input_value
from support.tools import need
from support.trained import agree, trained


def footprint(model: str, way: int) -> Footprint:
    target = WAYS[way].change(load_target("cortex-m4"))
    return firmware_archive(compile_model(trained(model).file, target, generator="llvm"))[1]


def test_a_model_in_patches_computes_the_same_on_a_board(tmp_path: Path) -> None:
    """Its leading layers are cut where their tensors take too much, and all that is said of it is so."""
    need("qemu-system-arm", "emulates Cortex-M boards")
    found = trained("mlperf_tiny_resnet_int8")
    done = CliRunner().invoke(
        program,
        [
            "compile",
            str(found.file),
            "-t",
            "cortex-m0plus",
            "-g",
            "llvm",
            "--max-ram",
            "34K",
            "-o",
            str(tmp_path / "b"),
        ],
    )
    assert done.exit_code == 0, done.output
    said = re.search(r"arena ([\d,]+) to ([\d,]+) bytes, ([\d.]+)% more multiply-adds", done.output)
    assert said is not None
    facts = json.loads((tmp_path / "b" / "firmware.json").read_text())
    before, after = facts["fitted"]["arena_bytes"]
    assert [int(n.replace(",", "")) for n in said.groups()[:2]] == [before, after]
    assert after == facts["arena_bytes"]
    assert after + facts["stack_bytes"] <= 34 << 10 < before
    assert 0 < float(said[3]) < 25  # rows that two patches share are computed twice
    shown = CliRunner().invoke(program, ["inspect", str(tmp_path / "b")]).output
    assert facts["fitted"]["text"] in shown
    with library.replaced_by(BoardFunctions()), load(tmp_path / "b") as running:
        outputs = running.run(list(found.cases[0].inputs.values()))
    agree(found, 0, [np.asarray(array) for array in outputs.values()])


def images() -> Graph:
    """Three padded convolutions of a small image, the second of every other position."""
    b = Builder()
    x = y = input_value(b, np.zeros((1, 24, 24, 3), np.float32))
    for stride in (1, 2, 1):
        y = b.add("pad", y, before=(0, 1, 1, 0), after=(0, 1, 1, 0))
        w = b.constant(np.ones((3, 3, int(y.shape[-1]), 6), np.float32))
        y = b.add("relu", b.add("conv", y, w, strides=(stride, stride), dilations=(1, 1), groups=1))
    return Graph("images", (x,), (b.add("reduce_mean", y, axes=(1, 2), keep_dims=False),), tuple(b.nodes))


def fitted(max_ram: int) -> Compiled:
    return within_budgets(images(), "images", Options(load_target("cortex-m4"), "llvm", max_ram=max_ram))


def test_the_cheapest_patches_that_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """More room, fewer multiply-adds. What no patches meet is refused with the least
    that was found."""
    monkeypatch.delenv(VERIFY, raising=False)  # other tests look at the same passes; here many graphs are planned
    monkeypatch.setattr(budgets, "GRIDS", ((2, 1), (2, 2), (4, 2)))
    monkeypatch.setattr(budgets, "MOST_FEW", 3)
    more = []
    for room in (18, 12):
        chosen = fitted(room << 10).fitted
        assert chosen is not None
        more.append(chosen.multiply_adds[1] - chosen.multiply_adds[0])
    assert 0 < more[0] < more[1]
    with pytest.raises(SternaError, match="E0207") as refused:
        fitted(4 << 10)
    (needed,) = re.findall(r"takes (\d+) bytes", str(refused.value))
    assert 4 << 10 < int(needed) < 12 << 10


def test_patches_share_their_weights() -> None:
    """Each patch has kernels of its own; what they read alike is stored once."""
    graph, target = images(), load_target("cortex-m4")
    whole = within_budgets(graph, "images", Options(target, "llvm"))
    cut = fitted(12 << 10)
    assert cut.fitted is not None
    assert len(cut.kernels) > len(whole.kernels)
    assert len(cut.params) == len(whole.params)


def pooled(**pools: int) -> Compiled:
    memories = tuple(Memory(name, "device", bytes=size, alignment=8) for name, size in pools.items())
    return within_budgets(images(), "images", Options(replace(load_target("cortex-m4"), memories=memories), "llvm"))


def test_memories_that_are_too_small_for_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patches are tried before they are; what no patches are enough for is refused with the least that was found."""
    monkeypatch.delenv(VERIFY, raising=False)
    monkeypatch.setattr(budgets, "GRIDS", ((2, 1), (2, 2), (4, 2)))
    monkeypatch.setattr(budgets, "MOST_FEW", 3)
    for pools in ({"sram": 18 << 10}, {"sram": 12 << 10}, {"dtcm": 4 << 10, "sram": 10 << 10}):
        found = pooled(**pools)
        assert found.fitted is not None
        assert found.fitted.patches is not None
        assert all(pool.bytes <= pools[pool.name] for pool in found.plan.pools)
    assert pooled(sram=64 << 10).fitted is None
    with pytest.raises(
        SternaError, match=r"in [\d x]+ patches, of all that were tried the least, \d+ bytes"
    ) as refused:
        pooled(sram=4 << 10)
    assert refused.value.codes == ("E0206",)


def test_memory_and_flash_that_cannot_both_be_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what either would take."""
    monkeypatch.delenv(VERIFY, raising=False)
    monkeypatch.setattr(budgets, "GRIDS", ((2, 1), (2, 2)))
    options = Options(load_target("cortex-m4"), "llvm", max_ram=12 << 10, max_flash=1 << 10)
    with pytest.raises(SternaError, match="E0207") as refused:
        within_budgets(images(), "images", options)
    taken = re.findall(r"or with (.+): flash (\d+), memory (\d+)", str(refused.value))
    assert taken
    assert any("patches" not in how and int(memory) > 12 << 10 for how, _, memory in taken)


def test_smaller_code_before_a_refusal() -> None:
    """The fastest code that is small enough is taken."""
    model = "mlperf_tiny_kws_int8"
    flash = [footprint(model, n).flash or 0 for n in range(len(WAYS))]
    for most in (flash[0] - 1, min(flash)):
        compiled = compile_model(trained(model).file, "cortex-m4", generator="llvm", max_flash=most)
        way = next(n for n, taken in enumerate(flash) if taken <= most)
        assert compiled.fitted is not None
        assert compiled.fitted.code == WAYS[way].words
        assert compiled.fitted.patches is None
        assert firmware_archive(compiled)[1].flash == flash[way]


def test_less_stack_before_a_refusal(tmp_path: Path) -> None:
    model = "mlperf_tiny_kws_int8"
    stacks = [footprint(model, n).stack or 0 for n in range(len(WAYS))]
    assert min(stacks) < stacks[0]
    bundle = compile_to(tmp_path / "b", trained(model).file, "cortex-m4", generator="llvm", max_stack=stacks[0] - 1)
    facts = json.loads((bundle / "firmware.json").read_text())
    assert facts["stack_bytes"] < stacks[0]
    assert "small code" in facts["fitted"]["text"]


def test_a_target_that_asks_for_small_code(tmp_path: Path) -> None:
    """A description may: `code` is a member of it; what is none is refused."""
    sizes = []
    for code in ("fast", "small"):
        for generator in ("c", "llvm"):
            target = replace(load_target("cortex-m4"), code=code)
            compiled = compile_model(trained("tflm_hello_world_int8").file, target, generator=generator)
            sizes.append(firmware_archive(compiled)[1].code or 0)
    assert sizes[2] < sizes[0]
    assert sizes[3] < sizes[1]
    (tmp_path / "tiny.toml").write_text('extends = "cortex-m4"\ncode = "tiny"\n')
    with pytest.raises(SternaError, match=r'code is "tiny"'):
        load_target(str(tmp_path / "tiny.toml"))
