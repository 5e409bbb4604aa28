"""Pooling and convolutions of images that lie channels first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.passes.layout import layout
from sterna.passes.planes import planes
from sterna.targets.description import load_target
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
    assert transposes(pooled("max_pool", 5, 2, 2, width=60)[0]) == 2
    graph, _ = pooled("max_pool", 3, 1, 1, behind="conv")
    assert transposes(graph) == 1
    assert layout(graph).nodes[0].op == "transpose"


def convolved(
    channels: tuple[int, int], kernel: int, *, stride: int = 1, groups: int = 1, width: int = 40, rate: int = 1,
    behind: str = "relu", dtype: str = "float32",
) -> tuple[Graph, dict[str, np.ndarray]]:  # fmt: skip
    """As front ends write it, with a bias, and something behind it."""
    b = Builder()
    random = np.random.default_rng(5)
    array = random.standard_normal((2, channels[0], 11, width)).astype(dtype)
    x = input_value(b, array)
    pad = (kernel - 1) // 2 * rate
    y = b.transpose(x, LAST)
    if pad:
        y = b.add("pad", y, before=(0, pad, pad, 0), after=(0, pad, pad, 0), mode="constant", value=0)
    w = b.constant(random.standard_normal((kernel, kernel, channels[0] // groups, channels[1])).astype(dtype))
    y = b.add("conv", y, w, strides=(stride, stride), dilations=(rate, rate), groups=groups)
    y = b.add("add", y, b.constant(random.standard_normal(channels[1]).astype(dtype)))
    if behind == "last":
        return Graph("convolved", (x,), (y,), tuple(b.nodes)), {x.name: array}
    y = b.transpose(y, FIRST)
    if behind == "relu":
        y = b.add("relu", y)
    if behind == "scale":
        scale = random.standard_normal((1, channels[1], 1, 1)).astype(dtype)
        y = b.add("mul", y, b.constant(scale))
    return Graph("convolved", (x,), (y,), tuple(b.nodes)), {x.name: array}


def on_planes(graph: Graph, target: str = "x86-64-v4") -> bool:
    """Whether a convolution is, and then nothing transposes an image."""
    made = planes(layout(graph), load_target(target))
    found = any(node.op == "conv_planes" for node in made.nodes)
    assert not found or not any(node.attributes.get("order") in (LAST, FIRST) for node in made.nodes)
    return found


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(
    ("channels", "settings"),
    [
        ((3, 5), {}),
        ((16, 24), {"kernel": 1}),
        ((20, 20), {"groups": 20}),
        ((20, 20), {"groups": 20, "stride": 2, "width": 65}),
        ((12, 24), {"groups": 4}),
        ((6, 18), {"groups": 6, "behind": "scale"}),
        ((1, 9), {}),
        ((8, 3), {"rate": 2, "width": 48}),
        ((2, 24), {"kernel": 4, "stride": 2, "width": 66}),
        ((1, 24), {"kernel": 2, "stride": 2, "width": 81}),
    ],
)
def test_planes_are_convolved_where_they_lie(
    channels: tuple[int, int], settings: dict[str, Any], generator: str, tmp_path: Path
) -> None:
    graph, feeds = convolved(channels, **{"kernel": 3, **settings})
    assert on_planes(graph)
    check(run(graph, feeds, tmp_path / "bundle", generator), interpret(graph, feeds))


@pytest.mark.parametrize(
    ("channels", "settings"),
    [
        ((64, 64), {"width": 7}),  # rows of less than a vector
        ((64, 64), {"width": 33}),  # and of little more, where transposes are few beside the products
        ((12, 24), {"stride": 2}),  # lanes two apart, for every product again
        ((20, 20), {"groups": 20, "stride": 3, "width": 90}),
        ((12, 24), {"behind": "last"}),  # who reads it wants channels last
        ((512, 1024), {"kernel": 1}),  # weights of more than half of L2 are walked once
        ((12, 24), {"rate": 9}),  # taps that read padding are left out
        ((12, 24), {"dtype": "float64"}),
    ],
)
def test_convolutions_stay_channels_last_where_that_is_faster(
    channels: tuple[int, int], settings: dict[str, Any]
) -> None:
    assert not on_planes(convolved(channels, **{"kernel": 3, **settings})[0])


def test_without_vectors_no_convolution_is_on_planes() -> None:
    graph, _ = convolved((3, 5), 3)
    assert not on_planes(graph, "cortex-m4")


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_positions_between_strides_are_not_transposed(generator: str, tmp_path: Path) -> None:
    graph, feeds = convolved((12, 24), 1, stride=2)
    made = planes(layout(graph), load_target("x86-64-v4"))
    moved = [node.operands[0].type.sizes for node in made.nodes if node.op == "transpose"]
    assert moved[0] == (2, 12, 6, 20)
    check(run(graph, feeds, tmp_path / "bundle", generator), interpret(graph, feeds))
