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
from onnx import parser

import sterna
from sterna.api import compile_model
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.frontends.onnx import read
from sterna.targets.description import load_target
from support import wgsl_host
from support.compiling import check
from support.control_flow import model
from support.every_operator import agree, every_operator
from support.half_networks import CONVERSIONS, every_number, half_convolutions, wrong_numbers
from support.javascript import with_halves
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
    trained = sample(name)
    compiled = compile_model(trained.file, wgsl_host.wgsl_target(groups), shapes=trained.shapes())
    for case in trained.cases[:2]:
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


@pytest.mark.parametrize("own", [False, True])
def test_every_number_of_16_bits(own: bool, device: wgsl_host.Device) -> None:
    """Kernels widen it by integers, or where it is as exact by the language's own function; all of them round it by
    integers."""
    compiled = compile_model(parser.parse_model(model(CONVERSIONS)), wgsl_host.wgsl_target(groups=True))
    assert "shader-f16" not in compiled.source
    assert "pack2x16float" not in compiled.source
    if own:
        compiled = replace(compiled, source=with_halves(compiled.source))
    assert wrong_numbers(device.run(compiled, every_number())) == []


def test_tensors_stay_in_16_bits(device: wgsl_host.Device) -> None:
    """No tensor between kernels is of float32, and results are what the model's own roundings give."""
    network = half_convolutions()
    compiled = compile_model(network, wgsl_host.wgsl_target(groups=True))
    assert {value.dtype for call in compiled.calls for value in call.outputs} == {"float16"}
    given = {"x": np.random.default_rng(1).standard_normal((1, 3, 24, 24)).astype(np.float16)}
    (wanted,) = interpret(read(network), given).values()
    (found,) = device.run(compiled, given).values()
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), 0, 4e-3 * np.abs(wanted).max())
