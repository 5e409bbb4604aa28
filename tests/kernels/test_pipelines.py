"""Pipelines: what an iteration reads of shared memory is brought while an earlier one computes. Run by threads in
random orders, in the interpreter, in OpenCL and as CUDA's text over fibers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sterna.errors import SternaError
from sterna.ir.memory import REGISTER
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.races import verify_threads
from sterna.schedule.schedule import Schedule
from support import opencl_host
from support.bound_axes import SHARED, barriers, brought, compare
from support.small_kernels import matmul


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl_host.Device:
    return opencl_host.Device(tmp_path_factory.mktemp("opencl"))


def tiled(m: int, n: int, depth: int, buffers: int, step: int = 4, asynchronous: bool = False) -> Schedule:
    """A matrix product in blocks of 8 by 8, `step` terms at a time."""
    s = Schedule(matmul(m, n, depth), memories=(SHARED,))
    down, i = s.split("out", "i", 8, overhang=True)
    across, j = s.split("out", "j", 8, overhang=True)
    s.reorder("out", down, across, i, j)
    s.parallel("out", s.fuse("out", down, across))
    s.bind("out", i, "thread.y")
    s.bind("out", j, "thread.x")
    s.compute_at("acc", "out", j, REGISTER)
    block, within = s.split("acc", "k", step)
    s.reorder("acc", block, within, "i", "j")
    for name in ("x", "w"):
        local = brought(s, name, "acc", block)
        if asynchronous:
            s.transfer(local, asynchronous=True)
    if buffers > 1:
        s.pipeline("acc", block, buffers)
    return s


@pytest.mark.family("opencl")
@pytest.mark.parametrize("asynchronous", [False, True], ids=["loads", "asynchronous"])
@pytest.mark.parametrize(("depth", "buffers"), [(24, 2), (28, 2), (24, 3), (8, 3), (4, 2)], ids=str)
def test_a_product(depth: int, buffers: int, asynchronous: bool, device: opencl_host.Device, tmp_path: Path) -> None:
    s = tiled(10, 9, depth, buffers, asynchronous=asynchronous)
    compare(s, device, tmp_path if depth == 28 else None, orders=2)


def test_one_barrier_an_iteration() -> None:
    """Before the loop, and behind each of the two iterations that it has written out; without a pipeline two for each
    iteration."""
    assert barriers(finish(lower(tiled(8, 8, 4 * 101, 1))).body) == 2
    program = finish(lower(tiled(8, 8, 4 * 101, 2)))
    assert barriers(program.body) == 3
    (loop,) = (s for s in P.walk(program.body) if isinstance(s, P.For) and s.symbol.name.endswith("round"))
    assert barriers(loop.body) == 2
    assert int(loop.extent) == 50


@pytest.mark.parametrize("asynchronous", [False, True], ids=["loads", "asynchronous"])
def test_nothing_can_be_left_out(asynchronous: bool) -> None:
    """No barrier, and no wait for copies."""
    program = finish(lower(tiled(10, 9, 24, 2, asynchronous=asynchronous)))
    kinds = (P.Barrier, P.Wait) if asynchronous else (P.Barrier,)
    count = sum(isinstance(s, kinds) for s in P.walk(program.body))
    assert count >= 4
    for number in range(count):
        seen = -1

        def without(s: P.Stmt, number: int = number) -> P.Stmt:
            nonlocal seen
            if isinstance(s, kinds):
                seen += 1
                return P.seq() if seen == number else s
            return P.map_children(s, without)

        with pytest.raises(SternaError) as caught:
            verify_threads(replace(program, body=without(program.body)))
        assert set(caught.value.codes) == {"E0306"}


def test_buffers_lie_apart() -> None:
    program = finish(lower(tiled(10, 9, 24, 3)))
    placed = [s.buffer for s in P.walk(program.body) if isinstance(s, P.Alloc) and s.buffer.scope == SHARED]
    assert len(placed) == 6
    assert not any(a.meets(b) for a in placed for b in placed if a is not b)


def test_what_is_no_pipeline() -> None:
    s = Schedule(matmul(8, 8, 16))
    block, _ = s.split("acc", "k", 4)
    s.compute_at("acc", "out", "i", "stack")
    s.pipeline("acc", block, 2)
    with pytest.raises(SternaError, match=r"E0303.*is no pipeline"):
        lower(s)


def test_a_memory_that_is_full() -> None:
    s = tiled(64, 64, 4096, 3, step=1024)
    with pytest.raises(SternaError) as caught:
        lower(s)
    assert set(caught.value.codes) == {"E0307"}
