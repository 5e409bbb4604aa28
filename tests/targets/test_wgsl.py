"""The WGSL dialect: what loop programs compute in WGSL on lavapipe, against the interpreter and trained models'
references.

STERNA_WGSL=all runs every part of the operators.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.api import compile_model
from sterna.driver import Options, compile_graph
from sterna.targets.description import load_target
from support import wgsl_host
from support.compiling import check
from support.every_operator import agree, every_operator
from support.quantized_networks import network, quantized
from support.trained import sample

PARTS = 16
SAMPLED = range(PARTS) if os.environ.get("STERNA_WGSL") == "all" else (3,)


@pytest.fixture(scope="module")
def device() -> wgsl_host.Device:
    return wgsl_host.Device()


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("part", SAMPLED)
def test_every_operator(part: int, groups: bool, device: wgsl_host.Device) -> None:
    graph, inputs, expected = every_operator(part=part, parts=PARTS)
    compiled = compile_graph(graph, "small", Options(wgsl_host.wgsl_target(groups)))
    assert any(kernel.function.has_threads for kernel in compiled.kernels) == groups
    agree(device.run(compiled, inputs), expected)


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("name", ["digits", "mlperf_tiny_kws_int8"])
def test_a_network(name: str, groups: bool, device: wgsl_host.Device) -> None:
    model = sample(name)
    compiled = compile_model(model.file, wgsl_host.wgsl_target(groups), shapes=model.shapes())
    for case in model.cases[:2]:
        found = device.run(compiled, case.inputs)
        check(found, dict(zip(found, case.outputs, strict=True)), 1e-4)


@pytest.mark.parametrize("signs", ["int8", "uint8"])
def test_bytes(signs: str, device: wgsl_host.Device, tmp_path: Path) -> None:
    """Words of bytes, and runs of two of them, which share a word with another thread's."""
    file = quantized(network, tmp_path, signs, "int8", channels=True)
    given = {"x": np.random.default_rng(6).standard_normal((1, 3, 18, 18)).astype(np.float32)}
    with sterna.compile(file) as host:
        wanted = {name: np.array(array) for name, array in host.run(given).items()}
    check(device.run(compile_model(file, replace(load_target("webgpu"), device=None)), given), wanted, 0)
