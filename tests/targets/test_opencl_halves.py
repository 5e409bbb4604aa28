"""Models in float16 for OpenCL, on PoCL: their tensors stay in 16 bits, and numbers are widened and rounded by the
language's own functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import sterna
from sterna.api import compile_model, compile_to
from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from sterna_runtime import load
from support import device_bundles
from support.control_flow import model
from support.half_networks import CONVERSIONS, every_number, half_convolutions, half_network, wrong_numbers

pytestmark = pytest.mark.family("opencl")


@pytest.fixture(scope="module", autouse=True)
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with device_bundles.opencl(tmp_path_factory.mktemp("pocl")):
        yield


def test_every_number_is_converted() -> None:
    """To float32 exactly, to 16 bits to nearest, and ties to even."""
    with sterna.compile(parser.parse_model(model(CONVERSIONS)), "opencl", device_for={"*": "opencl"}) as there:
        assert wrong_numbers(there.run(every_number())) == []


@pytest.mark.parametrize("target", ["opencl", "opencl-mali", "opencl-adreno"])
def test_tensors_stay_in_16_bits(target: str, tmp_path: Path) -> None:
    """No tensor between kernels is of float32, and results are no further from those of the model's own roundings than
    these are from exact ones."""
    network = half_convolutions()
    made = compile_to(tmp_path / "net", network, target)
    graph = json.loads((made / "graph.json").read_text())
    # But parts of sums that are added up by a second kernel.
    parts = {
        n
        for node in graph["nodes"]
        if "op" not in node and "_parts" in graph["kernels"][node["kernel"]]["name"]
        for n in node["out"]
    }
    assert {value["dtype"] for n, value in enumerate(graph["values"]) if n not in parts} == {"float16"}
    x = np.random.default_rng(1).standard_normal((1, 3, 24, 24)).astype(np.float16)
    (wanted,) = interpret(read(network), {"x": x}).values()
    with load(made) as there:
        (found,) = there.run({"x": x}).values()
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), 0, 4e-3 * np.abs(wanted).max())


def test_operands_are_widened_once() -> None:
    """On their way to shared memory, where products read float32: nothing is widened in their innermost loop."""
    text = compile_model(half_convolutions(), "opencl").module
    products = [kernel for kernel in text.split("__kernel")[1:] if re.search(r"k\d_(pad_)?conv_(relu|add)", kernel)]
    assert len(products) == 2
    assert not any(re.search(r"fma\([^;]*widen_f16", kernel) for kernel in products)
    assert any(re.search(r"ushort8 wide\d+ = \*\(__global", kernel) for kernel in products)
    assert "vload_half(0, " in text
    assert "vstore_half_rte(" in text


def test_networks_with_attention_are_widened(tmp_path: Path) -> None:
    """Attention is one kernel in float32."""
    made = compile_to(tmp_path / "net", half_network(), "opencl")
    graph = json.loads((made / "graph.json").read_text())
    between = {value["dtype"] for value in graph["values"] if value["storage"]["class"] == "arena"}
    assert between == {"float32"}
