"""Which convolutions are computed without the taps that read padding."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.te import expr as E
from sterna.te.tensor import Kernel
from support.compiling import compiled, input_value


def pyramid(size: int, *rates: int, weight: float = 1.0, value: float = 0.0) -> Graph:
    """Convolutions of one image by several rates, joined."""
    b = Builder()
    x = input_value(b, np.zeros((1, size, size, 8), np.float32))
    y = b.add("relu", x)
    branches = []
    for rate in rates:
        pads = (0, rate, rate, 0)
        padded = b.add("pad", y, before=pads, after=pads, mode="constant", value=value)
        w = b.constant(np.full((3, 3, 8, 16), weight, np.float32))
        branches.append(b.add("conv", padded, w, strides=(1, 1), dilations=(rate, rate), groups=1))
    out = b.add("concat", *branches, axis=3) if len(branches) > 1 else branches[0]
    return Graph("pyramid", (x,), (out,), tuple(b.nodes))


def padding(graph: Graph) -> list[bool]:
    """Of every convolution in order, whether its kernel pads."""
    kernels = [call.kernel for call in compiled(graph, generator="llvm").calls]
    return [
        any(isinstance(node, E.Select) for t in k.stages if t.body is not None for node in E.walk(t.body))
        for k in kernels
        if isinstance(k, Kernel) and any(t.reduction is not None for t in k.stages)
    ]


def test_a_pyramid_of_rates_reads_one_image() -> None:
    """Of three branches none makes a padded image: where rates are small, one does."""
    assert padding(pyramid(24, 6, 12, 18)) == [True, True, True]
    assert padding(pyramid(24, 1, 18)) == [False, True]


@pytest.mark.parametrize(
    ("size", "rate", "padded"),
    [(24, 1, False), (24, 3, False), (7, 2, True), (4, 1, False), (9, 8, True), (9, 9, False), (24, 30, False)],
)
def test_only_where_enough_is_left_out(size: int, rate: int, padded: bool) -> None:
    """From a rate of the image's size on, the outer taps only read padding and have left the weights already."""
    assert padding(pyramid(size, rate)) == [padded]


def test_what_is_not_zero_is_added_up() -> None:
    assert padding(pyramid(9, 8, value=1.0)) == [False]
    assert padding(pyramid(9, 8, weight=float("inf"))) == [False]
