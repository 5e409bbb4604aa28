"""Which convolutions of small images become products whose results overlap, and that these compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.passes.overlap import overlap
from support.compiling import check, input_value, run


def convolved(
    size: int, kernel: int, pad: int, *, rate: int = 1, stride: int = 1, value: float = 0.0, weight: float = 0.0,
    channels: int = 40,
) -> tuple[Graph, dict[str, np.ndarray]]:  # fmt: skip
    b, random = Builder(), np.random.default_rng(7)
    array = random.standard_normal((2, size, size, channels)).astype(np.float32)
    x = input_value(b, array)
    w = random.standard_normal((kernel, kernel, channels, 48)).astype(np.float32)
    w.flat[3] += np.float32(weight)
    y = b.add("pad", x, before=(0, pad, pad, 0), after=(0, pad, pad, 0), mode="constant", value=value)
    y = b.add("conv", y, b.constant(w), strides=(stride, stride), dilations=(rate, rate), groups=1)
    y = b.add("relu", b.add("add", y, b.constant(random.standard_normal(48).astype(np.float32))))
    return Graph("convolved", (x,), (y,), tuple(b.nodes)), {x.name: array}


def overlaps(graph: Graph) -> bool:
    operators = [node.op for node in overlap(graph).nodes]
    assert ("overlap_add" in operators) != ("conv" in operators)
    return "overlap_add" in operators


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(("size", "kernel", "pad", "rate"), [(4, 4, 3, 1), (4, 4, 2, 1), (3, 7, 6, 1), (5, 4, 6, 2)])
def test_positions_meet_every_tap_once(
    size: int, kernel: int, pad: int, rate: int, generator: str, tmp_path: Path
) -> None:
    graph, feeds = convolved(size, kernel, pad, rate=rate)
    assert overlaps(graph)
    check(interpret(overlap(graph), feeds), interpret(graph, feeds))
    check(run(graph, feeds, tmp_path / "bundle", generator), interpret(graph, feeds))


def test_only_where_enough_is_left_out() -> None:
    assert not overlaps(convolved(8, 3, 1)[0])
    assert not overlaps(convolved(4, 3, 1)[0])
    assert not overlaps(convolved(1, 4, 3)[0])  # four parts of the result, each of one tap
    assert not overlaps(convolved(4, 4, 3, channels=2)[0])  # few products


def test_padding_that_counts_is_multiplied() -> None:
    assert not overlaps(convolved(4, 4, 3, value=1.0)[0])
    assert not overlaps(convolved(4, 4, 3, weight=float("inf"))[0])
    assert not overlaps(convolved(4, 4, 3, stride=2)[0])
