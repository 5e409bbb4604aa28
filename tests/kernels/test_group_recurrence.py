"""Recurrences whose steps a group of threads computes: in random orders of threads, by OpenCL and as CUDA's text over
fibers they give what the tensor expressions say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.group_recurrence import propose, threads_of
from sterna.te.collapse import collapse
from sterna.te.tensor import Kernel
from support import opencl_host
from support.bound_axes import compare
from support.recurrences import arrays, power_iteration, running_sums, shifting, tanh_layer, two_products

TARGET = opencl_host.opencl_target(groups=True)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl_host.Device:
    return opencl_host.Device(tmp_path_factory.mktemp("opencl"))


@pytest.mark.family("opencl")
@pytest.mark.parametrize(
    ("make", "threads"),
    [
        (lambda: tanh_layer(3, 2, 20), 64),
        (lambda: tanh_layer(4, 1, 33, reverse=True), 64),
        (lambda: tanh_layer(3, 1, 300, last=True), 256),
        (lambda: running_sums(5, 19), 32),
        (lambda: two_products(3, 20), 32),
    ],
)
def test_a_group_computes_the_steps(make: Callable[[], Kernel], threads: int, device: opencl_host.Device) -> None:
    kernel = collapse(make(), {}).kernel
    s = propose(kernel, Context(TARGET))
    assert s is not None
    assert threads_of(kernel, TARGET) == threads
    compare(s, device, orders=2, feeds=arrays(kernel))
    found = accesses(finish(lower(s)))
    assert found.coalesced == found.accesses


@pytest.mark.family("cuda")
def test_as_cuda(tmp_path: Path) -> None:
    kernel = collapse(tanh_layer(3, 2, 20), {}).kernel
    s = propose(kernel, Context(TARGET))
    assert s is not None
    compare(s, None, tmp_path, orders=2, feeds=arrays(kernel))


@pytest.mark.parametrize(
    "make",
    [
        # One number for each step.
        lambda: power_iteration(4, 21),
        lambda: shifting(6, 5),
        # 512 KB of states.
        lambda: tanh_layer(3, 64, 1024),
    ],
)
def test_what_a_group_declines(make: Callable[[], Kernel]) -> None:
    kernel = collapse(make(), {}).kernel
    assert threads_of(kernel, TARGET) == 0
    assert propose(kernel, Context(TARGET)) is None
