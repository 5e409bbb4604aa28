"""Schedules whose tasks are run by several threads: cooperative loads into shared memory, registers of each thread,
tiles that overhang. What is accepted is run in random orders, by OpenCL and as CUDA's text over fibers, and gives what
the tensor expressions say.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir.memory import REGISTER, SCRATCH, STACK
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.loops.races import verify_threads
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.target import Threads
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support import opencl_host
from support.bound_axes import SHARED, barriers, brought, compare, results, threads
from support.small_kernels import arrays, matmul, pointwise, row_sums, window

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> opencl_host.Device:
    return opencl_host.Device(tmp_path_factory.mktemp("opencl"))


def tiled(m: int, n: int, depth: int, rows: int = 2, columns: int = 4) -> Schedule:
    """A matrix product in blocks of 16 by 16 by 8: both operands through shared memory, sums in registers."""
    s = Schedule(matmul(m, n, depth), memories=(SHARED,))
    down, i = s.split("out", "i", 16, overhang=True)
    across, j = s.split("out", "j", 16, overhang=True)
    ty, row = s.split("out", i, rows)
    tx, column = s.split("out", j, columns)
    s.reorder("out", down, across, ty, tx, row, column)
    s.parallel("out", s.fuse("out", down, across))
    s.bind("out", ty, "thread.y")
    s.bind("out", tx, "thread.x")
    s.compute_at("acc", "out", tx, REGISTER)
    block, within = s.split("acc", "k", 8)
    s.reorder("acc", block, within, "i", "j")
    for stage, axis in (("acc", "i"), ("acc", "j"), ("out", row), ("out", column)):
        s.unroll(stage, axis)
    for name in ("x", "w"):
        local = s.cache_read(name, "acc")
        s.compute_at(local, "acc", block, SHARED)
        rest, x = s.split(local, s.fuse(local, "i0", "i1"), 16 // columns)
        _, y = s.split(local, rest, 16 // rows)
        s.bind(local, x, "thread.x")
        s.bind(local, y, "thread.y")
    return s


@pytest.mark.family("opencl")
@pytest.mark.parametrize("sizes", [(32, 32, 24), (30, 17, 21), (5, 3, 2), (1, 100, 9), (33, 1, 8)])
def test_a_tiled_product(sizes: tuple[int, int, int], device: opencl_host.Device, tmp_path: Path) -> None:
    compare(tiled(*sizes), device, tmp_path)


def test_no_barrier_too_many() -> None:
    """One after the operands are there, one before they are overwritten."""
    assert barriers(finish(lower(tiled(32, 32, 24))).body) == 2


def test_no_barrier_can_be_left_out() -> None:
    refused_without_each_barrier(finish(lower(tiled(30, 17, 21))))


def refused_without_each_barrier(program: P.Function) -> None:
    """Whichever barrier of a program is taken out, the verifier refuses what is left."""
    count = barriers(program.body)
    assert count > 0
    for number in range(count):
        seen = -1

        def without(s: P.Stmt, number: int = number) -> P.Stmt:
            nonlocal seen
            if isinstance(s, P.Barrier):
                seen += 1
                return P.seq() if seen == number else s
            return P.map_children(s, without)

        lesser = replace(program, body=without(program.body))
        assert barriers(lesser.body) == count - 1
        with pytest.raises(SternaError) as caught:
            verify_threads(lesser)
        assert set(caught.value.codes) == {"E0306"}


def test_memory_of_the_threads_is_shared_by_stages_one_after_the_other() -> None:
    """What lies at the same bytes as another stage is written only when nobody reads that any more."""
    program = finish(lower(tiled(30, 17, 21)))
    placed = [s.buffer for s in P.walk(program.body) if isinstance(s, P.Alloc) and s.buffer.scope == SHARED]
    assert len(placed) == 4
    assert placed[0].meets(placed[2])


def test_lanes_of_a_sum_are_threads(device: opencl_host.Device) -> None:
    """A reduction across the threads of a task: parts in shared memory, added up by one of them."""
    s = Schedule(row_sums(5, 96), memories=(SHARED,))
    _, lane = s.split("out", "k", 16)
    part = s.rfactor("out", lane)
    total = s.cache_write("out")
    row, one = s.split("out", "i", 1)
    s.parallel("out", row)
    s.bind("out", one, "thread.x")
    s.compute_at(part, "out", row, SHARED)
    s.bind(part, "lane", "thread.x")
    s.compute_at(total, "out", one, REGISTER)
    compare(s, device)


@pytest.mark.family("opencl")
@pytest.mark.parametrize("most", [16, 64, 256])
@pytest.mark.parametrize(
    ("kernel", "elements"),
    [
        (matmul(37, 21, 19, constant=True), False),
        (matmul(3, 5, 1030), False),  # few long sums
        (row_sums(70, 9, "max"), False),  # rows of a few, by way of shared memory
        (row_sums(3, 600, "min"), False),
        (pointwise(5, 7, 11), True),
        (window(40, 3, 6), False),
    ],
    ids=["tiles", "long sums", "sums", "a few long minima", "elements", "windows"],
)
def test_what_the_strategy_proposes(
    kernel: Kernel, elements: bool, most: int, device: opencl_host.Device, tmp_path: Path
) -> None:
    target = replace(opencl_host.opencl_target(groups=True), threads=Threads(most, most))
    s = propose(kernel, Context(target))
    assert s is not None
    program = finish(lower(s))
    assert 1 < threads(program) <= most
    assert barriers(program.body) == 0 or not elements
    compare(s, device, tmp_path if most == 64 else None)


def strided(m: int, n: int, depth: int) -> Schedule:
    """A product in blocks of 16 by 32 of which a thread has every eighth row and column: virtual threads."""
    s = Schedule(matmul(m, n, depth), memories=(SHARED,))
    down, i = s.split("out", "i", 16, overhang=True)
    across, j = s.split("out", "j", 32, overhang=True)
    vy, y = s.split("out", i, 8)
    vx, x = s.split("out", j, 8)
    s.reorder("out", down, across, vy, vx, y, x)
    for axis, kind in ((vy, "vthread"), (vx, "vthread"), (y, "thread.y"), (x, "thread.x")):
        s.bind("out", axis, kind)
    s.parallel("out", s.fuse("out", down, across))
    s.fold("acc", 1, 8)
    s.fold("acc", 0, 8)
    s.compute_at("acc", "out", x, REGISTER)
    block, within = s.split("acc", "k", 8)
    s.reorder("acc", block, within, *(a.name for a in s.stages["acc"].tensor.axes))
    for axis in s.stages["acc"].tensor.axes:
        s.unroll("acc", axis.name)
    for name in ("x", "w"):
        brought(s, name, "acc", block)
    return s


@pytest.mark.family("opencl")
@pytest.mark.parametrize("sizes", [(32, 64, 24), (30, 17, 21), (19, 33, 2)])
def test_virtual_threads(sizes: tuple[int, int, int], device: opencl_host.Device, tmp_path: Path) -> None:
    """The sums of a thread's virtual threads are registers of one loop over the depth, and share what they read."""
    s = strided(*sizes)
    program = finish(lower(s))
    (sums,) = (b.buffer for b in P.walk(lower(s).body) if isinstance(b, P.Alloc) and b.buffer.name == "acc")
    assert threads(program) == 64
    assert sums.elements == 8
    compare(s, device, tmp_path)


def test_no_barrier_of_virtual_threads_can_be_left_out() -> None:
    assert barriers(finish(lower(strided(32, 64, 24))).body) == 2
    refused_without_each_barrier(finish(lower(strided(30, 40, 21))))


def loaded_by_virtual_threads() -> Schedule:
    """A tile of 4 by 16 in shared memory, of which each of 16 threads loads a column as four virtual threads."""
    x = placeholder("x", (8, 32))
    twice = compute("out", (8, 32), lambda i, j: x[i, j] * 2.0)
    s = Schedule(Kernel("twice", (x,), (), (twice,)), memories=(SHARED,))
    down, i = s.split("out", "i", 4)
    across, j = s.split("out", "j", 16)
    s.reorder("out", down, across, i, j)
    task = s.fuse("out", down, across)
    s.parallel("out", task)
    s.bind("out", j, "thread.x")
    local = s.cache_read("x", "out")
    s.compute_at(local, "out", task, SHARED)
    _, tile = s.split(local, s.fuse(local, "i0", "i1"), 64)
    virtual, lane = s.split(local, tile, 16)
    s.bind(local, virtual, "vthread")
    s.bind(local, lane, "thread.x")
    return s


@pytest.mark.parametrize("apart", [1, 15, 16])
def test_virtual_threads_that_meet(apart: int) -> None:
    """Two that are different threads' may not store one element; a thread's own are one after the other, and as far
    apart as there are threads they do not meet."""
    s = loaded_by_virtual_threads()
    compare(s, None)
    program = finish(lower(s))
    stores: list[P.Store] = []

    def planted(stmt: P.Stmt) -> P.Stmt:
        if isinstance(stmt, P.Store) and stmt.buffer.scope == SHARED:
            stores.append(stmt)
            return replace(stmt, index=stores[0].index + apart) if len(stores) == 2 else stmt
        return P.map_children(stmt, planted)

    changed = replace(program, body=planted(program.body))
    assert len(stores) == 4
    if apart == 16:
        verify_threads(changed)
        return
    with pytest.raises(SternaError, match="two threads of a task touch the same element of x_local") as caught:
        verify_threads(changed)
    assert set(caught.value.codes) == {"E0306"}


def test_virtual_threads_are_refused() -> None:
    s = Schedule(matmul(8, 8, 8), memories=(SHARED,))
    s.compute_at("acc", "out", "j", REGISTER)
    with pytest.raises(SternaError, match="bind virtual threads before compute_at"):
        s.bind("out", "j", "vthread")
    with pytest.raises(SternaError, match="use rfactor"):
        s.bind("acc", "k", "vthread")


def transposed(m: int, n: int, turned: int) -> Schedule:
    """Tiles of 32 by 32 through shared memory, stored in rows and read in columns."""
    x = placeholder("x", (n, m))
    s = Schedule(Kernel("transposed", (x,), (), (compute("out", (m, n), lambda i, j: x[j, i]),)), memories=(SHARED,))
    down, i = s.split("out", "i", 32, overhang=True)
    across, j = s.split("out", "j", 32, overhang=True)
    rest, y = s.split("out", i, 4)
    s.reorder("out", down, across, rest, y, j)
    task = s.fuse("out", down, across)
    s.parallel("out", task)
    s.bind("out", y, "thread.y")
    s.bind("out", j, "thread.x")
    local = s.cache_read("x", "out")
    s.compute_at(local, "out", task, SHARED)
    _, y = s.split(local, "i0", 4)
    _, j = s.split(local, "i1", 32)
    s.bind(local, y, "thread.y")
    s.bind(local, j, "thread.x")
    if turned:
        s.swizzle(local, turned)
    return s


@pytest.mark.family("opencl")
@pytest.mark.parametrize("turned", [1, 3, 33])
def test_turned_rows(turned: int, device: opencl_host.Device, tmp_path: Path) -> None:
    """A transpose reads columns of a tile: every thread another bank, and the tile takes no byte more."""
    plain, s = (accesses(finish(lower(transposed(64, 96, n)))) for n in (0, turned))
    assert plain.conflicts > 0
    assert (s.conflicts, s.shared_bytes, s.coalesced) == (0, plain.shared_bytes, s.accesses)
    compare(transposed(64, 96, turned), device, tmp_path if turned == 3 else None)
    compare(transposed(45, 70, turned), device)


def test_no_barrier_of_turned_rows_can_be_left_out() -> None:
    refused_without_each_barrier(finish(lower(transposed(64, 96, 1))))


def test_rows_that_cannot_be_turned() -> None:
    s = Schedule(matmul(8, 8, 8), memories=(SHARED,))
    with pytest.raises(SternaError, match="cannot be turned"):
        s.swizzle("out")
    local = s.cache_read("x", "acc")
    s.transfer(local)
    with pytest.raises(SternaError, match="row by row"):
        s.swizzle(local)
    other = s.cache_read("w", "acc")
    s.swizzle(other)
    with pytest.raises(SternaError, match="in place of swizzle"):
        s.transfer(other)


KERNELS = {
    "matmul": lambda draw: matmul(*(draw(st.integers(1, 20)) for _ in range(3))),
    "pointwise": lambda draw: pointwise(*(draw(st.integers(1, 12)) for _ in range(draw(st.integers(1, 3))))),
    "window": lambda draw: window(draw(st.integers(1, 30)), draw(st.integers(1, 4)), draw(st.integers(1, 9))),
    "row_sums": lambda draw: row_sums(
        draw(st.integers(1, 20)),
        draw(st.integers(1, 20)),
        draw(st.sampled_from(["sum", "max", "min"])),
        draw(st.sampled_from(DTYPES)),
    ),
}
#: What threads exchange: 32 bits as they are, 16 as 32, 64 in two halves where a language has no more.
DTYPES = ("float32", "float16", "int16", "float64", "int64")


def drawn(kernel: Kernel, draw: Any) -> Schedule:
    """A schedule at random: tiles that overhang or not, axes bound to threads, stages in any memory at any place."""
    s = Schedule(kernel, memories=(SHARED,))
    inner = s.cache_write("out") if draw(st.booleans()) else ""
    outer, threads, rest = [], [], []
    kinds = draw(st.permutations(["thread.x", "thread.y", "thread.z"]))
    for axis in [a.name for a in s.stages["out"].tensor.axes]:
        if axis in s.stages["out"].reduction_leaves:
            continue
        block, within = s.split("out", axis, draw(st.sampled_from([2, 3, 4, 8])), overhang=draw(st.booleans()))
        thread, own = s.split("out", within, draw(st.sampled_from([1, 2, 3])))
        outer.append(block)
        threads.append(thread)
        rest.append(own)
    s.reorder("out", *outer, *threads, *rest)
    bound = threads[: draw(st.integers(0, len(threads)))]
    for axis, kind in zip(bound, kinds, strict=False):
        s.bind("out", axis, kind)
    for axis in rest:
        if draw(st.integers(0, 2)) == 0:
            s.bind("out", axis, "vthread")
    if draw(st.booleans()):
        s.parallel("out", outer[0])
    for stage in [*([inner] if inner else []), *(t.name for t in reversed(kernel.stages) if t.name != "out")]:
        readers = [n for n, r in s.stages.items() if any(load.tensor.name == stage for load in E.loads(r.body))]
        consumer = readers[-1]
        axes = s.stages[consumer].leaves
        if len(s.stages[stage].tensor.axes) > 1 and draw(st.integers(0, 3)) == 0:
            s.permute(stage, *draw(st.permutations(range(len(s.stages[stage].tensor.axes)))))
        s.compute_at(
            stage, consumer, draw(st.sampled_from(axes)), draw(st.sampled_from([SHARED, SCRATCH, STACK, REGISTER]))
        )
        if s.stages[stage].scope == SHARED and len(s.stages[stage].tensor.axes) > 1 and draw(st.booleans()):
            s.swizzle(stage, draw(st.integers(1, 5)))
        if len(s.stages[stage].tensor.axes) > 1 and draw(st.integers(0, 3)) == 0:
            s.pad_rows(stage, draw(st.integers(1, 5)), draw(st.integers(1, len(s.stages[stage].tensor.axes) - 1)))
        if draw(st.booleans()):
            own = [a for a in s.stages[stage].leaves if a not in s.stages[stage].reduction_leaves]
            _, within = s.split(stage, own[-1], draw(st.sampled_from([2, 4])))
            s.bind(stage, within, kinds[0])
        if (reduced := [a for a in s.stages[stage].leaves if a in s.stages[stage].reduction_leaves]) and draw(
            st.booleans()
        ):
            threads = draw(st.sampled_from([2, 4]))
            _, lane = s.split(stage, reduced[-1], threads)
            s.across(stage, lane, threads)
    return s


@pytest.mark.family("opencl")
@settings(
    max_examples=60 * MORE, deadline=None, derandomize=MORE == 1, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.data())
def test_schedules_at_random(device: opencl_host.Device, tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    kernel = KERNELS[data.draw(st.sampled_from(sorted(KERNELS)))](data.draw)
    try:
        s = drawn(kernel, data.draw)
        program = finish(lower(s))
    except SternaError as refusal:
        event(", ".join(refusal.codes))
        return
    shared = "" if P.exchanged(program.body) == 1 else f", with exchanges of {program.outputs[0].dtype}"
    event(f"accepted{shared}")
    (wanted,) = run_kernel(kernel, arrays(kernel)).values()
    compiled = data.draw(st.integers(0, 7))
    folder = tmp_path_factory.mktemp("cuda") if compiled == 0 else None
    # No driver of OpenCL here has subgroups.
    driver = device if compiled in (1, 2) and P.exchanged(program.body) == 1 else None
    for way, found in results(s, driver, folder):
        np.testing.assert_allclose(
            found["out"].reshape(wanted.shape), wanted, 1e-4, 1e-4, err_msg=f"{way}\n{print_function(program)}"
        )


@settings(
    max_examples=6 * MORE,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(m=st.integers(8, 70), n=st.integers(2, 150), depth=st.integers(1, 20))
def test_threads_have_rows_and_columns_apart(device: opencl_host.Device, m: int, n: int, depth: int) -> None:
    """Sums of tiles are folded, so that neighbouring threads have neighbouring columns, also where tiles overhang."""
    kernel = matmul(m, n, depth)
    s = propose(kernel, Context(opencl_host.opencl_target(groups=True)))
    assert s is not None
    assert any(step.primitive == "fold" for step in s.steps)
    compare(s, device, orders=1)


@pytest.mark.parametrize(("m", "n", "depth"), [(32, 40, 24), (21, 30, 9)])
def test_a_strided_copy(m: int, n: int, depth: int, device: opencl_host.Device) -> None:
    """Every second row of an operand is multiplied, and no other row comes to shared memory."""
    x, w = placeholder("x", (2 * m, depth)), placeholder("w", (depth, n))
    k = reduce_axis("k", depth)
    out = compute("out", (m, n), lambda i, j: total(x[i * 2, k.var] * w[k.var, j], k))
    s = propose(Kernel("every_second", (x, w), (), (out,)), Context(opencl_host.opencl_target(groups=True)))
    assert s is not None
    assert any(step.primitive == "stride" for step in s.steps)
    compare(s, device, orders=1)
    found = accesses(finish(lower(s)))
    rows = next(b for b in found.least if b.name == "x")
    assert found.least[rows] <= m * (depth * 4 // 32 + 2) * 32


@pytest.mark.parametrize(("m", "n", "depth"), [(128, 128, 64), (49, 384, 40), (64, 96, 16)])
def test_threads_of_a_product_read_and_store_side_by_side(m: int, n: int, depth: int) -> None:
    """No access to shared memory waits for a bank, and all of those to the device's memory are coalesced."""
    s = propose(matmul(m, n, depth), Context(opencl_host.opencl_target(groups=True)))
    assert s is not None
    found = accesses(finish(lower(s)))
    assert found.shared_accesses > 0
    assert found.conflicts == 0
    assert found.coalesced == found.accesses
