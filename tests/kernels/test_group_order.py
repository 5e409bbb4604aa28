"""The order in which tiles of products are computed: panels of columns, where a cache does not hold both operands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.choices import Knob, Trace, Value
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.group_order import panel_of
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.te.tensor import Kernel
from support.bound_axes import compare
from support.fragment_products import feeds, product
from support.small_kernels import matmul


def device(cache_bytes: int) -> Target:
    known = load_target("cuda-sm80")
    assert known.threads is not None
    return replace(known, device=None, threads=replace(known.threads, cache_bytes=cache_bytes))


def moved(kernel: Kernel, target: Target, panel: int | None) -> int:
    """Bytes from memory and to it, in panels of so many columns of tiles, or as the rule says."""

    def pick(knob: Knob) -> Value:
        return panel if knob.name == "panel" and panel is not None else knob.default

    s = propose(kernel, Context(target, chooser=Trace(pick)))
    assert s is not None
    assert target.threads is not None
    return round(sum(accesses(finish(lower(s)), cache_bytes=target.threads.cache_bytes).moved.values()))


@pytest.mark.parametrize(
    ("kernel", "bytes_"),
    [(product(512, 512, 256), 2), (matmul(512, 512, 256), 4)],
    ids=["fragments", "tiles"],
)
def test_panels_move_less_than_rows_or_columns(kernel: Kernel, bytes_: int) -> None:
    """Of a cache that holds an operand, but not a row of the other one and of the result beside it."""
    target = device(512 * 256 * bytes_)
    found = {panel: moved(kernel, target, panel) for panel in (1, 2, 4, 8)}
    by_rule = moved(kernel, target, None)
    assert by_rule == min(found.values())
    assert by_rule < min(found[1], found[8])


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(*(st.integers(1, 1 << 24) for _ in range(4)), st.integers(1, 64), st.integers(1, 64), st.booleans())
def test_a_panel_is_a_whole_part(
    left: int, right: int, result: int, room: int, high: int, wide: int, known: bool
) -> None:
    panel = panel_of((left, right), result, high, wide, Context(device(room)), known)
    assert wide % panel == 0
    assert known or panel in (1, wide)
    if left + 2 * right + result <= room:
        assert panel == wide


@pytest.mark.parametrize("kernel", [product(100, 140, 32), matmul(100, 20, 140)], ids=["fragments", "tiles"])
@pytest.mark.parametrize("panel", [1, 3])
def test_results(kernel: Kernel, panel: int) -> None:
    def pick(knob: Knob) -> Value:
        return panel if knob.name == "panel" and panel in knob.values else knob.default

    s = propose(kernel, Context(device(1 << 20), chooser=Trace(pick)))
    assert s is not None
    compare(s, None, tolerance=1e-5, orders=1, feeds=feeds(kernel))
