"""Which convolutions are computed without the taps that read padding."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.passes.crop_taps import crop_taps
from sterna.te import expr as E
from sterna.te.tensor import Kernel
from support.compiling import compiled, input_value, run


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


@st.composite
def cropped_convolutions(draw: st.DrawFn) -> tuple[Graph, np.ndarray]:
    """A padded convolution some of whose taps may read padding alone, with odd pads, strides and sizes."""
    b, random = Builder(), np.random.default_rng(draw(st.integers(0, 99)))
    height, width = draw(st.integers(2, 9)), draw(st.integers(2, 9))
    data = random.standard_normal((1, height, width, draw(st.sampled_from([3, 8])))).astype(np.float32)
    x = input_value(b, data)
    rates = draw(st.tuples(st.integers(1, 10), st.integers(1, 10)))
    pads = draw(st.lists(st.integers(0, 10), min_size=4, max_size=4))
    for d, size in enumerate((height, width)):  # at least one position
        pads[2 + d] = max(pads[2 + d], 2 * rates[d] + 1 - size - pads[d])
    strides = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    padded = b.add("pad", x, before=(0, *pads[:2], 0), after=(0, *pads[2:], 0), mode="constant", value=0.0)
    w = b.constant(random.standard_normal((3, 3, data.shape[-1], 8)).astype(np.float32))
    y = b.add("conv", padded, w, strides=strides, dilations=rates, groups=1)
    return Graph("g", (x,), (y,), tuple(b.nodes)), data


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_cropped_convolutions_are_compiled(generator: str) -> None:
    cropped = 0

    @settings(max_examples=8, deadline=None, derandomize=True, database=None)
    @given(cropped_convolutions())
    def check(drawn: tuple[Graph, np.ndarray]) -> None:
        nonlocal cropped
        graph, data = drawn
        cropped += not any(
            node.op == "conv" and node.operands[1].shape[:2] == (3, 3) for node in crop_taps(graph).nodes
        )
        feeds = {graph.inputs[0].name: data}
        (wanted,) = interpret(graph, feeds).values()
        with TemporaryDirectory() as folder:
            (found,) = run(graph, feeds, Path(folder), generator).values()
        assert np.abs(found - wanted).max() <= 1e-5 * max(np.abs(wanted).max(), 1)

    check()
    assert cropped, "no example had a tap to be left out"
