"""Pooling of images that lie channels first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.passes.layout import layout
from support.compiling import check, input_value, run

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def pooled(
    op: str, kernel: int, stride: int, pad: int, width: int = 30, behind: str = ""
) -> tuple[Graph, dict[str, np.ndarray]]:
    """As front ends write it: between transposes to channels last and back, with something behind it maybe."""
    b = Builder()
    array = np.random.default_rng(3).standard_normal((2, 5, 21, width)).astype(np.float32)
    x = input_value(b, array)
    y = b.transpose(x, LAST)
    if pad:
        value = float("-inf") if op == "max_pool" else 0.0
        y = b.add("pad", y, before=(0, pad, pad, 0), after=(0, pad, pad, 0), mode="constant", value=value)
    y = b.add(op, y, kernel=(kernel, kernel), strides=(stride, stride), dilations=(1, 1))
    if op == "sum_pool":
        y = b.add("mul", y, b.constant(np.float32(0.125)))
    y = b.transpose(y, FIRST)
    if behind == "pool":
        y = b.transpose(y, LAST)
        y = b.add("max_pool", y, kernel=(2, 2), strides=(1, 1), dilations=(1, 1))
        y = b.transpose(y, FIRST)
    if behind == "conv":
        weights = b.constant(np.random.default_rng(4).standard_normal((1, 1, 5, 7)).astype(np.float32))
        y = b.add("conv", b.transpose(y, LAST), weights, strides=(1, 1), dilations=(1, 1), groups=1)
    return Graph("pooled", (x,), (y,), tuple(b.nodes)), {x.name: array}


def transposes(graph: Graph) -> int:
    return [node.op for node in layout(graph).nodes].count("transpose")


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("op", ["max_pool", "sum_pool"])
@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "behind"), [(3, 1, 1, ""), (3, 2, 1, ""), (2, 2, 0, ""), (5, 1, 2, "pool")]
)
def test_planes_are_pooled_where_they_lie(
    op: str, kernel: int, stride: int, pad: int, behind: str, generator: str, tmp_path: Path
) -> None:
    graph, feeds = pooled(op, kernel, stride, pad, behind=behind)
    assert transposes(graph) == 0
    check(run(graph, feeds, tmp_path / "bundle", generator), interpret(graph, feeds))


def test_only_where_that_is_faster() -> None:
    """Not where rows are short, where lanes lie far apart, or where a convolution wants channels last anyway."""
    assert transposes(pooled("max_pool", 3, 2, 1, width=14)[0]) == 2
    assert transposes(pooled("max_pool", 3, 3, 1, width=60)[0]) == 2
    graph, _ = pooled("max_pool", 3, 1, 1, behind="conv")
    assert transposes(graph) == 1
    assert layout(graph).nodes[0].op == "transpose"
