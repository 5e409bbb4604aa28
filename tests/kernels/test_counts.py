"""Counts of shifts that are stored negated, for instructions that shift to the left."""

from __future__ import annotations

import numpy as np
import pytest

from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder
from support.dot_products import arrays


def shifted(channels: int, twice: bool = False) -> Kernel:
    """Numbers scaled down, each channel by its own power of two; `twice`: which is added, too."""
    x, count = placeholder("x", (5, channels), "int32"), placeholder("count", (channels,), "int32")

    def element(i: E.ExprLike, c: E.ExprLike) -> E.Expr:
        scaled = E.binary("round_shift", x[i, c], count[c])
        return scaled + count[c] if twice else scaled

    return Kernel("shifted", (x,), (count,), (compute("out", (5, channels), element),))


def steps(kernel: Kernel, target: str) -> list[str]:
    return [str(step) for step in propose(kernel, Context(load_target(target))).steps if step.primitive == "negate"]


@pytest.mark.parametrize("target", ["cortex-m55", "arm64"])
def test_counts_are_negated(target: str) -> None:
    kernel = shifted(11)
    assert steps(kernel, target) == ["negate(count)"]
    feeds = {"x": arrays(kernel, 1)["x"] * 1000, "count": np.arange(11, dtype=np.int32)}
    schedule = propose(kernel, Context(load_target(target)))
    (stored,) = schedule.stored([feeds["count"]])
    np.testing.assert_array_equal(stored, -feeds["count"])
    function = finish(lower(schedule))
    memory = {"x": feeds["x"].reshape(-1), function.params[0].name: stored, "out": np.zeros(55, np.int32)}
    run_function(function, memory)
    np.testing.assert_array_equal(memory["out"], run_kernel(kernel, feeds)["out"].reshape(-1))


def test_what_stays() -> None:
    """Counts that are read for something else, one for all channels, and targets whose shifts know no sign."""
    assert steps(shifted(11, twice=True), "cortex-m55") == []
    assert steps(shifted(1), "cortex-m55") == []
    assert steps(shifted(11), "cortex-m4") == []
    assert steps(shifted(11), "x86-64-v3") == []


def test_any_constant_can_be_negated() -> None:
    """The least number, too, whose negation does not fit: it is the same again."""
    kernel = shifted(4)
    schedule = Schedule(kernel)
    schedule.negate("count")
    numbers = np.array([3, -(2**31), 2**31 - 1, 0], np.int32)
    (stored,) = schedule.stored([numbers])
    np.testing.assert_array_equal(stored, np.array([-3, -(2**31), -(2**31) + 1, 0], np.int32))
