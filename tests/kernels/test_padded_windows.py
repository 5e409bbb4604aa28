"""Windows over what is padded for them: which kernels pad by themselves, a few rows at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.debug.interpret import interpret
from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.options import Options
from sterna.pipeline import outline_of
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from support.compiling import build, check, input_value

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
Feeds = dict[str, np.ndarray]


def windows(
    op: str, *, size: tuple[int, int] = (19, 40), kernel: tuple[int, int] = (3, 3), stride: tuple[int, int] = (1, 1),
    before: tuple[int, int] = (1, 1), after: tuple[int, int] = (1, 1), channels: int = 5, batch: int = 2,
    first: bool = True, made: bool = False,
) -> tuple[Graph, Feeds]:  # fmt: skip
    """Pooling or a depthwise convolution of an input, channels first or last; `made`: of what another kernel makes."""
    b, random = Builder(), np.random.default_rng(3)
    shape = (batch, channels, *size) if first else (batch, *size, channels)
    array = random.standard_normal(shape).astype(np.float32)
    x = y = input_value(b, array)
    if made:
        y = b.add("sigmoid", y)
    if first:
        y = b.transpose(y, LAST)
    neutral = float("-inf") if op == "max_pool" else 0.0
    y = b.add("pad", y, before=(0, *before, 0), after=(0, *after, 0), mode="constant", value=neutral)
    if op == "conv":
        w = b.constant(random.standard_normal((*kernel, 1, channels)).astype(np.float32))
        y = b.add("conv", y, w, strides=stride, dilations=(1, 1), groups=channels)
        y = b.add("add", y, b.constant(random.standard_normal(channels).astype(np.float32)))
    else:
        y = b.add(op, y, kernel=kernel, strides=stride, dilations=(1, 1))
        if op == "sum_pool":
            y = b.add("mul", y, b.constant(random.standard_normal((1, *y.type.sizes[1:3], 1)).astype(np.float32)))
    if first:
        y = b.transpose(y, FIRST)
    return Graph("windows", (x,), (b.add("relu", y),), tuple(b.nodes)), {x.name: array}


def kernels(graph: Graph) -> list[str]:
    return [call.kernel.name for call in outline_of(graph, Options(load_target("x86-64-v4"))).sequence.calls]


@pytest.mark.parametrize("op", ["max_pool", "sum_pool", "conv"])
@pytest.mark.parametrize("first", [True, False])
def test_one_kernel_pads_and_does_what_follows(op: str, first: bool) -> None:
    """An average's own factor for each position goes along, too."""
    graph, _ = windows(op, first=first)
    assert len(kernels(graph)) == 1


def block(residual: bool) -> Graph:
    """Two padded convolutions of floats, to whose result their input is added, or not."""
    b = Builder()
    x = input_value(b, np.zeros((1, 16, 16, 8), np.float32))
    first = y = b.add("relu", x)
    for _ in range(2):
        w = b.constant(np.ones((3, 3, 8, 8), np.float32))
        y = b.add("pad", y, before=(0, 1, 1, 0), after=(0, 1, 1, 0), mode="constant", value=0.0)
        y = b.add("relu", b.add("conv", y, w, strides=(1, 1), dilations=(1, 1), groups=1))
    out = b.add("add", y, first) if residual else y
    return Graph("block", (x,), (b.add("relu", out),), tuple(b.nodes))


def test_what_is_added_has_no_border_where_memory_is_short() -> None:
    """The sum takes the place of what is added; without one, rows that a kernel pads are more than borders."""
    for target, residual, pads in (("cortex-m4", True, 2), ("cortex-m4", False, 0), ("x86-64-v4", True, 0)):
        calls = outline_of(block(residual), Options(load_target(target))).sequence.calls
        assert sum("pad_conv" in call.kernel.name for call in calls) == pads, (target, residual)


def test_what_can_be_written_into_its_border_is() -> None:
    graph, _ = windows("max_pool", made=True, first=False)
    assert [name for name in kernels(graph) if "pad" in name] == []
    assert "fill_border" in kernels(graph)


def test_windows_of_one_row_are_not_padded_row_by_row() -> None:
    graph, _ = windows("conv", kernel=(1, 5), before=(0, 2), after=(0, 2))
    assert [name for name in kernels(graph) if "pad" in name] == []


#: Generator and machine, and how many examples.
MACHINES: dict[str, tuple[str, Target, int]] = {
    "c": ("c", host(), 3),
    "llvm": ("llvm", host(), 8),
    "narrow": ("llvm", replace(host(), vector_bits=128, vector_registers=16), 4),
    "plain": ("c", replace(host(), dialect="plain", vector_bits=0), 3),
    "shared": ("llvm", replace(host(), cores=4, share_cycles=1), 4),
}


@pytest.mark.parametrize("kind", MACHINES)
def test_padded_windows_compute_the_same(kind: str, tmp_path: Path) -> None:
    """Of any shape: with rows that no block divides, windows along one axis, padding on one side."""
    generator, target, examples = MACHINES[kind]
    number = 0

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    @given(st.data())
    def check_one(data: st.DataObject) -> None:
        nonlocal number
        pair = st.tuples(st.integers(1, 4), st.integers(1, 4))
        kernel, stride = data.draw(pair), data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
        before, after = data.draw(pair), data.draw(pair)
        graph, feeds = windows(
            data.draw(st.sampled_from(["max_pool", "sum_pool", "conv"])),
            size=(data.draw(st.integers(4, 37)), data.draw(st.integers(4, 70))), kernel=kernel, stride=stride,
            before=tuple(min(p, k - 1) for p, k in zip(before, kernel, strict=True)),
            after=tuple(min(p, k - 1) for p, k in zip(after, kernel, strict=True)),
            channels=data.draw(st.sampled_from([2, 3, 17])), batch=data.draw(st.integers(1, 2)),
            first=data.draw(st.booleans()),
        )  # fmt: skip
        number += 1
        expected = interpret(graph, feeds)
        for threads in (1, 2):
            with build(graph, tmp_path / f"{number}.{threads}", target, generator, threads) as bundle:
                check(bundle.run(feeds), expected)

    check_one()
