"""Vectors of floats to integers of every width: what is out of range is clamped, and NaN is 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.ir.integer import Int
from sterna.schedule.schedule import Schedule
from sterna.targets.description import host, load_target
from sterna.targets.features import features
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder
from support.compiling import run_schedule

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
LANES = 8
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 0.999, -0.999, 1e30, -1e30)


def ends() -> list[float]:
    """Numbers around the limits of every type."""
    limits = [limit for t in INTEGERS for limit in (np.iinfo(t).min, np.iinfo(t).max)]
    return [float(limit) + step for limit in limits for step in (-1.0, -0.5, 0.0, 0.5, 1.0)]


def converting(x: np.ndarray) -> Schedule:
    operand = placeholder("x", x.shape, str(x.dtype))

    def to(dtype: str) -> Callable[[Int], E.Expr]:
        return lambda i: E.cast(operand[i], dtype)

    outputs = tuple(compute(dtype, x.shape, to(dtype)) for dtype in INTEGERS)
    schedule = Schedule(Kernel("k", (operand,), (), outputs))
    for output in outputs:
        (axis,) = schedule.stages[output.name].leaves
        schedule.split(output.name, axis, LANES)
        schedule.vectorize(output.name, f"{axis}.i")
    return schedule


def converted(x: np.ndarray, generator: str, level: str = "host") -> None:
    schedule, target = converting(x), load_target(level)
    if not features(target) <= features(host()):
        pytest.skip("this processor lacks what the level has")
    found = run_schedule(schedule, {"x": x}, (), generator, target=target)
    for name, want in run_kernel(schedule.kernel, {"x": x}).items():
        np.testing.assert_array_equal(found[name], want, err_msg=name)


def numbers_of(source: str) -> np.ndarray:
    numbers = [*SPECIAL, *ends()]
    numbers += [0.25] * (-len(numbers) % LANES)
    return np.array(numbers, source)


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("level", ["host", "x86-64-v3"])
def test_limits(level: str, source: str, generator: str) -> None:
    converted(numbers_of(source), generator, level)


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.floats(width=32), min_size=3 * LANES, max_size=3 * LANES), st.sampled_from(["c", "llvm"]))
def test_any_float(numbers: list[float], generator: str) -> None:
    converted(np.array(numbers, np.float32), generator)
