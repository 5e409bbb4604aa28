"""Dot products of 16-bit floats: machine code computes what `exact` says to the last bit, and strategies use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from sterna.intrinsics import FLOAT_DOTS
from sterna.intrinsics.rounding import odd_pairs, two_fused
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import host, load_target, target_names
from sterna.targets.target import Target
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel
from support.compiling import run_schedule
from support.dot_products import tiled
from support.float_products import BFLOAT16, RANGES, feeds_of, interpreted, parts, product


def able() -> Iterator[tuple[Target, str]]:
    """Targets whose code this machine runs, with each intrinsic on floats that they name."""
    here = set(host().cpu_features)
    for name in target_names():
        target = load_target(name)
        if target.triple.split("-")[0] == host().triple.split("-")[0] and set(target.cpu_features) <= here:
            for intrinsic in target.float_dot:
                yield target, intrinsic


@pytest.mark.parametrize("numbers", RANGES)
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(("target", "name"), [pytest.param(t, i, id=f"{t.name}-{i}") for t, i in able()])
def test_machine_code_computes_every_bit(target: Target, name: str, generator: str, numbers: str) -> None:
    intrinsic = FLOAT_DOTS[name]
    for seed, (m, n, depth) in enumerate([(5, 2 * intrinsic.lanes + 1, 37), (2, 64, 96), (1, 1, 1)]):
        kernel = kernel_for(name, m, n, depth)
        feeds = feeds_of(kernel, seed, numbers)
        schedule = tiled(kernel, intrinsic)
        constants = [feeds[p.name] for p in kernel.params]
        found = run_schedule(schedule, {"x": feeds["x"]}, constants, generator, target=target)
        np.testing.assert_array_equal(found["out"], interpreted(schedule, feeds))


def kernel_for(name: str, m: int, n: int, depth: int) -> Kernel:
    return product(m, n, depth, FLOAT_DOTS[name].operands[0], FLOAT_DOTS[name].dtype)


def near(name: str, found: np.ndarray, want: np.ndarray) -> None:
    """As far as sums of so many digits are."""
    tolerance = 4e-3 if FLOAT_DOTS[name].dtype == "float16" else 1e-4
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance * float(np.abs(want).max()))


@pytest.mark.parametrize("name", FLOAT_DOTS)
def test_what_is_exact_is_near_the_behaviour(name: str) -> None:
    kernel = kernel_for(name, 3, FLOAT_DOTS[name].lanes + 3, 9)
    feeds = feeds_of(kernel, 1, "ordinary")
    found = interpreted(tiled(kernel, FLOAT_DOTS[name]), feeds)
    near(name, found, run_kernel(kernel, feeds)["out"])


@pytest.mark.parametrize("generator", ["c", "llvm", "plain"])
@pytest.mark.parametrize("name", FLOAT_DOTS)
def test_a_machine_without_it_computes_the_behaviour(name: str, generator: str) -> None:
    """What a bundle's variants for lesser machines do, and plain C."""
    plain = {"dialect": "plain", "vector_bits": 0} if generator == "plain" else {}
    target = replace(host(), int_dot=(), float_dot=(), **plain)
    kernel = kernel_for(name, 2, FLOAT_DOTS[name].lanes + 1, 7)
    feeds = feeds_of(kernel, 3, "ordinary")
    schedule, constants = tiled(kernel, FLOAT_DOTS[name]), [feeds[p.name] for p in kernel.params]
    found = run_schedule(schedule, {"x": feeds["x"]}, constants, generator.replace("plain", "c"), target=target)
    near(name, found["out"], run_kernel(kernel, feeds)["out"])


def numbers(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def pairs(low: float, high: float) -> np.ndarray:
    return np.array([[low, high]], BFLOAT16)


def test_the_order_and_the_roundings_of_sums() -> None:
    """By hand: a half of the accumulator's last digit is lost when it is added first, and kept where pairs are."""
    one, half = numbers(1.0), 2.0**-12
    # The upper product is added first: 1 + 2^-24 is 1, and so is that and the lower one.
    assert two_fused(one, pairs(half, half), pairs(half, half)) == 1.0
    # The pair is 2^-23, which is the last digit.
    assert odd_pairs(one, pairs(half, half), pairs(half, half)) == 1.0 + 2.0**-23
    # Rounded to odd, what does not fit makes the last digit 1.
    assert odd_pairs(one, pairs(half, 0.0), pairs(half, 1.0)) == 1.0 + 2.0**-23
    # One fused rounding of 2^24 + 1 + 1 in either order: the upper product first.
    assert two_fused(numbers(2.0**24), pairs(1.0, 1.0), pairs(1.0, 1.0)) == 2.0**24
    assert two_fused(numbers(-1.0), pairs(1.0, 2.0**24), pairs(1.0, 1.0)) == 2.0**24


def test_what_is_too_small_is_zero() -> None:
    tiny = 2.0**-130
    for exact in (two_fused, odd_pairs):
        assert exact(numbers(tiny), pairs(0.0, 0.0), pairs(0.0, 0.0)) == 0.0
        assert exact(numbers(0.0), pairs(tiny, 0.0), pairs(2.0**100, 0.0)) == 0.0
        assert exact(numbers(0.0), pairs(2.0**-70, 0.0), pairs(2.0**-70, 0.0)) == 0.0
        assert exact(numbers(0.0), pairs(2.0**100, 0.0), pairs(2.0**100, 0.0)) == np.inf


@pytest.mark.parametrize("target", ["host", "c99", "x86-64-v4-amx", "arm64-fp16"])
@pytest.mark.parametrize(("rows", "columns", "depth", "part"), [(9, 37, 64, 32), (1, 16, 75, 25), (30, 8, 24, 8)])
def test_sums_in_parts(target: str, rows: int, columns: int, depth: int, part: int) -> None:
    """By the schedule of any target, with the intrinsic or without; those of other machines on this one."""
    kernel = parts(rows, columns, depth, part)
    feeds = feeds_of(kernel, 4, "ordinary")
    machine = load_target(target)
    schedule = propose(kernel, Context(machine))
    took = [s.arguments[-1] for s in schedule.steps if s.primitive == "tensorize"]
    assert took == [name for name in machine.float_dot if FLOAT_DOTS[name].dtype == "float16"]
    want = run_kernel(kernel, feeds)["out"]
    near("fmla.128", interpreted(schedule, feeds), want)
    for generator in ("c", "llvm"):
        constants = [feeds[p.name] for p in kernel.params]
        found = run_schedule(schedule, {"x": feeds["x"]}, constants, generator, target=host())
        near("fmla.128", found["out"], want)


@pytest.mark.parametrize("name", ["x86-64-v4-bf16", "arm64-bf16"])
def test_strategies_take_what_the_target_has(name: str) -> None:
    target = load_target(name)
    steps = propose(product(64, 64, 64), Context(target)).steps
    taken = [s.arguments[-1] for s in steps if s.primitive == "tensorize"]
    assert taken == [target.float_dot[0]]
    assert not [s for s in propose(product(64, 64, 64, "float16"), Context(target)).steps if s.primitive == "tensorize"]
