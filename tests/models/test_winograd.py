"""Convolutions in minimal form, compiled: the results of the definition, in kernels that copy nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sterna.bundle.writer import write_bundle
from sterna.debug.interpret import interpret
from sterna.driver import Options, compile_graph
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.targets.description import host
from sterna_runtime import load
from support.compiling import check


def residual(size: int, channels: int = 32) -> tuple[Graph, dict[str, np.ndarray]]:
    """Two padded convolutions of 3 x 3 with biases and activations, around which the input is added."""
    random = np.random.default_rng(33)
    b = Builder()
    x = Value(b.name("x"), tensor_type("float32", (1, size, size, channels)))
    y = x
    for _ in range(2):
        weights = (random.standard_normal((3, 3, channels, channels)) / 17).astype(np.float32)
        bias = b.constant(random.standard_normal(channels).astype(np.float32))
        y = b.add("pad", y, before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=0.0)
        y = b.add("conv", y, b.constant(weights), strides=(1, 1), dilations=(1, 1), groups=1)
        y = b.add("relu", b.add("add", y, bias))
    graph = Graph("residual", (x,), (b.add("add", x, y),), tuple(b.nodes))
    return graph, {x.name: random.standard_normal((1, size, size, channels)).astype(np.float32)}


@pytest.mark.parametrize("tile", [2, 4, 6])
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("size", [6, 7])
def test_compiled_equals_interpreted(size: int, generator: str, tile: int, tmp_path: Path) -> None:
    graph, feeds = residual(size)
    tiles = tuple((node.output.name, (tile, tile)) for node in graph.nodes if node.op == "conv")
    compiled = compile_graph(graph, "residual", Options(host(), generator, tiles=tiles))
    kernels = Counter(call.kernel.name for call in compiled.calls)
    assert kernels["matmul"] == kernels["winograd_input"] == 2
    assert kernels["winograd_output_add_relu"] == 2
    assert kernels["add"] == 0, "what is added is added where the result is stored"
    assert kernels["copy"] <= 1, "the transforms write where their results belong"
    for threads in (1, 2):
        with load(write_bundle(compiled, tmp_path / "bundle"), threads) as bundle:
            check(bundle.run(feeds), interpret(graph, feeds), 1e-5)
