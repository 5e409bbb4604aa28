"""Pipelines: what an iteration reads of shared memory is brought while an earlier one computes. Run by threads in
random orders, in the interpreter, in OpenCL and as CUDA's text over fibers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sterna.errors import SternaError
from sterna.ir.integer import Symbol, as_int, of
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
    if buffers:
        s.pipeline("acc", block, buffers)
    return s


@pytest.mark.family("opencl")
@pytest.mark.parametrize("asynchronous", [False, True], ids=["loads", "asynchronous"])
@pytest.mark.parametrize(
    ("depth", "buffers"), [(24, 2), (28, 2), (24, 3), (28, 4), (8, 3), (4, 2), (12, 1), (4, 1)], ids=str
)
def test_a_product(depth: int, buffers: int, asynchronous: bool, device: opencl_host.Device, tmp_path: Path) -> None:
    s = tiled(10, 9, depth, buffers, asynchronous=asynchronous)
    compare(s, device, tmp_path if depth == 28 else None, orders=2)


def the_loop(program: P.Function) -> P.For:
    """That over the steps in depth."""
    (loop,) = (s for s in P.walk(program.body) if isinstance(s, P.For) and s.symbol.name == "acc_k_o")
    return loop


@pytest.mark.parametrize("buffers", [1, 2, 3, 4])
def test_one_barrier_an_iteration(buffers: int) -> None:
    """Behind each, or, of asynchronous copies, behind the wait for them; without a pipeline, and with one buffer, two.
    The loop is written once, whatever its depth is."""
    assert barriers(finish(lower(tiled(8, 8, 4 * 101, 0))).body) == 2
    program = finish(lower(tiled(8, 8, 4 * 101, buffers)))
    assert (barriers(program.body), barriers(the_loop(program).body)) == ((2, 1) if buffers > 1 else (3, 2))
    if buffers == 1:
        return
    program = finish(lower(tiled(8, 8, 4 * 101, buffers, asynchronous=True)))
    assert (barriers(program.body), barriers(the_loop(program).body)) == (1, 1)
    assert int(the_loop(program).extent) == 101
    (wait,) = (s for s in P.walk(program.body) if isinstance(s, P.Wait))
    assert wait.in_flight == buffers - 2


def test_loads_come_before_what_is_computed_and_stores_behind_it() -> None:
    """Threads wait for what they have loaded when they store it, not before they compute. The last iteration brings
    nothing."""
    for buffers in (1, 2):
        loop = the_loop(finish(lower(tiled(8, 8, 4 * 100, buffers))))
        assert loads_computes_stores(loop.body) == ["loads", "computes", "stores"]
        assert sum(isinstance(s, P.If) for s in P.walk(loop.body)) == 2


def loads_computes_stores(body: P.Stmt) -> list[str]:
    """What threads do, in order."""
    order = list[str]()
    for s in P.walk(body):
        for load in P.own_loads(s):
            assert isinstance(load.tensor, P.Buffer)
            order.append("computes" if load.tensor.scope == SHARED else "loads")
        if isinstance(s, P.Store):
            order.append("stores")
    return [kind for n, kind in enumerate(order) if n == 0 or order[n - 1] != kind]


def test_rounds_of_a_ring_are_looked_at_once() -> None:
    """What the verifier runs through does not grow with the number of iterations."""
    many = [finish(lower(tiled(8, 8, 4 * n, 3, asynchronous=True))) for n in (20, 2000)]
    assert [int(the_loop(program).extent) for program in many] == [20, 2000]


@pytest.mark.parametrize(
    ("buffers", "asynchronous"), [(2, False), (2, True), (3, False), (3, True), (1, False)], ids=str
)
def test_nothing_can_be_left_out(buffers: int, asynchronous: bool) -> None:
    """No barrier, no batch and no wait for copies."""
    program = finish(lower(tiled(10, 9, 40, buffers, asynchronous=asynchronous)))
    kinds = (P.Barrier, P.Wait, *((P.Commit,) if buffers > 2 else ()))
    count = sum(isinstance(s, kinds) for s in P.walk(program.body))
    assert count == (2 + 2 * (buffers - 2) if asynchronous else 2 if buffers > 1 else 3)
    for number in range(count):
        seen = -1

        def without(s: P.Stmt, number: int = number) -> P.Stmt:
            nonlocal seen
            if isinstance(s, kinds):
                seen += 1
                return P.seq() if seen == number else s
            return P.map_children(s, without)

        refused(replace(program, body=without(program.body)))


def refused(program: P.Function) -> None:
    with pytest.raises(SternaError) as caught:
        verify_threads(program)
    assert set(caught.value.codes) == {"E0306"}


def changed(program: P.Function, change: Callable[[P.Stmt], P.Stmt | None]) -> P.Function:
    def visit(s: P.Stmt) -> P.Stmt:
        return P.map_children(s, visit) if (other := change(s)) is None else other

    return replace(program, body=visit(program.body))


@pytest.mark.parametrize("buffers", [2, 3, 4])
def test_mistakes_of_a_ring_are_refused(buffers: int) -> None:
    """One batch more that may go on; an iteration that brings into the slot that is read, or one that others still
    read; batches that only some threads make."""
    program = finish(lower(tiled(10, 9, 4 * 40, buffers, asynchronous=True)))
    verify_threads(program)
    refused(changed(program, lambda s: replace(s, in_flight=s.in_flight + 1) if isinstance(s, P.Wait) else None))
    loop = the_loop(program)
    (ring,) = {s.destination for s in P.walk(loop.body) if isinstance(s, P.Copy) and s.source.name == "x"}
    for by in range(1, buffers):

        def moved(s: P.Stmt, by: int = by) -> P.Stmt | None:
            if not isinstance(s, P.Copy) or s.destination is not ring or loop.symbol not in s.to.symbols():
                return None
            return replace(s, to=s.to.substitute({loop.symbol: of(loop.symbol) + by}))

        refused(changed(program, moved))
    y = Symbol("y", 0, 3)
    refused(changed(program, lambda s: P.For(y, as_int(4), "thread.y", s) if isinstance(s, P.Commit) else None))


def test_more_than_registers_hold_is_brought_before_it_is_read() -> None:
    """Into one buffer, of which threads would have more than `MOST_ON_THE_WAY` elements each."""
    program = finish(lower(tiled(8, 8, 4 * 160, 1, step=160)))
    assert not any("_next" in s.buffer.name for s in P.walk(program.body) if isinstance(s, P.Alloc))
    assert barriers(program.body) == 2


def test_buffers_lie_apart() -> None:
    program = finish(lower(tiled(10, 9, 24, 3)))
    placed = [s.buffer for s in P.walk(program.body) if isinstance(s, P.Alloc) and s.buffer.scope == SHARED]
    assert [b.elements for b in placed] == [3 * 32, 3 * 32]
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
