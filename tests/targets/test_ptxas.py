"""NVIDIA's compilers take both texts for three compute capabilities, and no register spills; `ci/gpu-compile` compiles
more than this sample."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from sterna.api import compile_model
from sterna.codegen.generators import KernelSet, source
from sterna.debug.roofline import roofline
from sterna.options import Options
from sterna.targets.description import load_target
from sterna.toolchain import ptxas
from sterna.toolchain.ptxas import Registers
from support.half_networks import half_network
from support.quantized_networks import network, quantized
from support.trained import digits

TARGETS = {"sm_75": "cuda-sm75", "sm_80": "cuda-sm80", "sm_90": "cuda-sm90"}


@pytest.fixture(scope="module")
def program() -> Path:
    found = ptxas.find()
    if found is None:
        pytest.skip("ptxas is not installed: pip install nvidia-cuda-nvcc")
    return found


@pytest.mark.parametrize("capability", TARGETS)
@pytest.mark.parametrize("name", ["digits", "half", "bytes", "words"])
def test_no_register_spills(capability: str, name: str, program: Path, tmp_path: Path) -> None:
    model: Path | onnx.ModelProto = digits().file if name == "digits" else half_network()
    if name in ("bytes", "words"):
        model = quantized(network, tmp_path, "uint8", "int8", channels=True)
    target = load_target(TARGETS[capability])
    if name == "words":
        assert target.threads is not None
        target = replace(target, threads=replace(target.threads, fragments=()))
    made = compile_model(model, target)
    as_ptx = ptxas.registers_of(made.module, capability, program)
    assert {k.function.name for k in made.kernels if k.place} == set(as_ptx)
    file = tmp_path / "kernels.cu"
    file.write_text(compile_model(model, replace(target, device=None)).source)
    assert all(("dp4a" in text) == (name == "words") for text in (made.module, file.read_text()))
    assert ("s32.s8.s8.s32" in made.module) == (name == "bytes")
    assert ("16, signed char" in file.read_text()) == (name == "bytes")
    as_cuda = ptxas.said_of(ptxas.nvcc(program, capability, file))
    assert len(as_cuda) >= len(as_ptx)
    for each in (*as_ptx.values(), *as_cuda.values()):
        assert each.registers > 0
        assert each.spilled == 0, each


@pytest.mark.parametrize("capability", TARGETS)
def test_sums_in_parts_at_once(capability: str, program: Path, tmp_path: Path) -> None:
    """Of a row, of tiles and of fragments."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[1,1024] x, float[20,256] a, float16[20,2048] b) '
        "=> (float[1,136] y, float[20,96] z, float16[20,96] h) "
        "{ y = MatMul(x, w) z = MatMul(a, v) h = MatMul(b, u) }"
    )
    sizes = {"w": (1024, 136, np.float32), "v": (256, 96, np.float32), "u": (2048, 96, np.float16)}
    tensors = (numpy_helper.from_array(np.ones(size, dtype), name) for name, (*size, dtype) in sizes.items())
    model.graph.initializer.extend(tensors)
    target = load_target(TARGETS[capability])
    made = compile_model(model, target)
    at_once = {call.key for call in made.calls if call.counters}
    file = tmp_path / "kernels.cu"
    functions = [kernel.function for kernel in made.kernels]
    file.write_text(source(KernelSet("net", functions, [()] * len(functions)), replace(target, device=None)))
    assert made.module.count("atom.global.inc.u32") == file.read_text().count("if (last_task(") == len(at_once) == 3
    as_cuda = ptxas.said_of(ptxas.nvcc(program, capability, file))
    for each in (*ptxas.registers_of(made.module, capability, program).values(), *as_cuda.values()):
        assert each.spilled == 0, each


def test_products_of_warpgroups(program: Path, tmp_path: Path) -> None:
    """Sums that fill half of a thread's registers or more stay there, nothing touches them while a product goes on, and
    the instructions are not waited for one by one, of which ptxas would warn."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float16[2048,512] x, float16[512,2048] w) '
        "=> (float16[2048,2048] y) { y = MatMul(x, w) }"
    )
    made = compile_model(model, "cuda-sm90a")
    loop = made.module[made.module.index("wgmma.mma_async") : made.module.index("wgmma.wait_group.sync.aligned 0")]
    assert "wgmma.wait_group.sync.aligned 1;" in loop
    sums = set(re.findall(r"%r\d+", loop[: loop.index("}")]))
    assert len(sums) == 64
    others = [line for line in loop.splitlines() if "wgmma" not in line and sums & set(re.findall(r"%r\d+", line))]
    assert others == []
    (found,) = ptxas.registers_of(made.module, "sm_90a", program).values()
    assert found.spilled == 0
    (tmp_path / "k.ptx").write_text(made.module)
    command = [program, "-arch=sm_90a", tmp_path / "k.ptx", "-o", tmp_path / "k.cubin"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout + said.stderr == ""


@pytest.mark.parametrize("target", ["cuda", "cuda-sm90"])
def test_later_gpus_take_the_text(target: str, program: Path) -> None:
    """What is compiled for a GPU is compiled by the drivers of all later ones: here of Blackwell's."""
    for model in (digits().file, half_network()):
        module = compile_model(model, target).module
        for capability in ("sm_100", "sm_120"):
            assert all(each.spilled == 0 for each in ptxas.registers_of(module, capability, program).values())


def test_what_is_no_program_is_refused(program: Path) -> None:
    with pytest.raises(RuntimeError, match="rror"):
        ptxas.registers_of(".version 7.0\n.target sm_80\nnothing", "sm_80", program)


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "capability", "share"),
    [
        (32, 0, 256, "sm_80", 1.0),
        (64, 0, 256, "sm_80", 0.5),
        (65, 0, 256, "sm_80", 0.375),  # registers are given to warps by 256
        (16, 48 << 10, 256, "sm_80", 0.375),  # shared memory has room for three groups
        (16, 0, 32, "sm_80", 0.5),  # as many groups as a multiprocessor has
        (16, 0, 32, "sm_75", 0.5),
        (255, 0, 1024, "sm_90", 0.0),
    ],
)
def test_occupancy(registers: int, shared: int, threads: int, capability: str, share: float) -> None:
    assert Registers("k", registers, 0, shared).occupancy(capability, threads) == share


def test_a_roofline_has_it(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = roofline(digits().file, Options(load_target("cuda-sm80")))
    assert all(k.registers and k.spilled == 0 and 0 < (k.occupancy or 0) <= 1 for k in facts.kernels)
    assert not facts.lacks
    shares = [k.occupancy or 0 for k in facts.kernels]
    assert min(shares) <= (facts.occupancy() or 0) <= max(shares)
    old = tmp_path / "ptxas"
    old.write_text("#!/bin/sh\necho 'ptxas fatal: Unsupported .version' >&2\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setattr(ptxas, "find", lambda: old)
    assert "refuses the kernels: ptxas fatal" in roofline(digits().file, Options(load_target("cuda-sm80"))).lacks
    monkeypatch.setattr(ptxas, "find", lambda: None)
    without = roofline(digits().file, Options(load_target("cuda-sm80")))
    assert "nvidia-cuda-nvcc" in without.lacks
    assert all(k.occupancy is None for k in without.kernels)
    assert without.occupancy() is None
