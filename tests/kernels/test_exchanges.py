"""Values that threads of a subgroup exchange in registers: what is refused, what each language writes, and PTX read
back. `test_group_rows.py` runs what the strategy makes of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.codegen import ptx
from sterna.codegen.generators import KernelSet, source
from sterna.errors import SternaError
from sterna.ir.integer import as_int
from sterna.ir.memory import REGISTER
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.races import verify_threads
from sterna.loops.threads import run_threads
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import load_target
from sterna.targets.target import Target, Threads
from sterna.te import expr as E
from sterna.te.expr import Binary, Const
from sterna.te.tensor import Kernel, compute, placeholder, reduce, reduce_axis
from support import opencl_host
from support.bound_axes import barriers, compare, memory_of
from support.cuda_host import cuda_target, metal_target
from support.small_kernels import arrays, row_sums

MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))


def shared(
    depth: int = 70, threads: int = 16, bound: int = 16, combiner: str = "sum", dtype: str = "float32", rows: int = 1
) -> Schedule:
    """Sums of rows, of which the threads of a task each have a part and exchange it; one of them stores. A task has so
    many rows, each of other threads."""
    s = Schedule(row_sums(5, depth, combiner, dtype))
    total = s.cache_write("out")
    row, own = s.split("out", "i", rows, overhang=True)
    own, one = s.split("out", own, 1)
    s.parallel("out", row)
    s.bind("out", own, "thread.y")
    s.bind("out", one, "thread.x")
    _, lane = s.split(total, "k", bound)
    s.across(total, lane, threads)
    s.compute_at(total, "out", own, REGISTER)
    return s


@settings(max_examples=20 * MORE, deadline=None, derandomize=MORE == 1, database=None)
@given(
    st.integers(1, 70), st.integers(1, 5), st.integers(1, 4), st.sampled_from(["sum", "max", "min"]),
    st.sampled_from(["float16", "bfloat16", "float64", "int8", "int16", "int64", "uint16"]), st.integers(0, 9),
)  # fmt: skip
def test_exchanges_of_any_type(
    tmp_path_factory: pytest.TempPathFactory, depth: int, power: int, rows: int, combiner: str, dtype: str, way: int
) -> None:
    """16 bits are exchanged as 32, 64 by a function of the language or in halves."""
    s = shared(depth, 1 << power, 1 << power, combiner, dtype, rows)
    assert P.exchanged(finish(lower(s)).body) == 1 << power
    compare(s, None, tmp_path_factory.mktemp("cuda") if way == 0 else None)


@pytest.mark.parametrize("combiner", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize(("depth", "threads"), [(70, 16), (3, 4), (64, 32), (1, 2)])
def test_a_shared_reduction_has_no_barrier(combiner: str, depth: int, threads: int) -> None:
    s = shared(depth, threads, threads, combiner)
    program = finish(lower(s))
    assert barriers(program.body) == 0
    assert P.exchanged(program.body) == threads
    compare(s, None)


def changed(program: P.Function, change: Callable[[P.Stmt], P.Stmt | None]) -> P.Function:
    """With the statement for which `change` gives one replaced by it."""

    def walk(s: P.Stmt) -> P.Stmt:
        new = change(s)
        return P.map_children(s, walk) if new is None else new

    return replace(program, body=walk(program.body))


def is_exchange(s: P.Stmt) -> bool:
    return isinstance(s, P.Let) and isinstance(s.value, P.Exchange)


def parted(s: P.Stmt) -> P.Stmt | None:
    """Only half of the threads come by the exchanges."""
    whole = isinstance(s, P.For) and any(is_exchange(inner) for inner in P.members(s.body))
    return replace(s, extent=as_int(8)) if whole and isinstance(s, P.For) else None


def apart(distance: int) -> Callable[[P.Stmt], P.Stmt | None]:
    def change(s: P.Stmt) -> P.Stmt | None:
        if isinstance(s, P.Let) and isinstance(s.value, P.Exchange):
            return replace(s, value=replace(s.value, distance=distance))
        return None

    return change


def within(s: P.Stmt) -> P.Stmt | None:
    """The exchange is a part of a sum."""
    if isinstance(s, P.Let) and isinstance(s.value, P.Exchange):
        both = Binary("float32", op="add", a=s.value, b=Const("float32", value=1.0))
        return replace(s, value=both)
    return None


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (parted, "in a loop over 8 of 16 threads is not reached by all threads"),
        (apart(16), "comes from 16 threads away, and a task has 16 along x"),
        (apart(3), "comes from 3 threads away"),
        (within, "an exchange is a part of another value"),
    ],
)
def test_planted_mistakes_are_refused(plant: Callable[[P.Stmt], P.Stmt | None], message: str) -> None:
    planted = changed(finish(lower(shared())), plant)
    with pytest.raises(SternaError, match=message) as caught:
        verify_threads(planted)
    assert set(caught.value.codes) == {"E0306"}


def test_the_interpreter_waits_for_all_of_a_subgroup() -> None:
    program = changed(finish(lower(shared())), parted)
    memory = memory_of(program, arrays(shared().kernel))
    with pytest.raises(SternaError, match="wait for an exchange that others never reach"):
        run_threads(program, memory, order=np.random.default_rng(1))


def test_one_exchange_too_few_gives_another_result() -> None:
    """So the exchanges that are there are the ones that are needed."""
    s = shared()
    program, seen = finish(lower(s)), [0]

    def lesser(stmt: P.Stmt) -> P.Stmt | None:
        if isinstance(stmt, P.Let) and isinstance(stmt.value, P.Exchange):
            seen[0] += 1
            if seen[0] == 3:
                return P.Let(stmt.variable, Const("float32", value=0.0))
        return None

    memory = memory_of(program, arrays(s.kernel))
    run_threads(changed(program, lesser), memory)
    assert not np.allclose(memory["out"], arrays(s.kernel)["x"].sum(1), 1e-3, 1e-3)


def test_steps_that_are_refused() -> None:
    with pytest.raises(SternaError, match="use a power of two") as caught:
        shared(threads=12, bound=12)
    assert set(caught.value.codes) == {"E0302"}
    with pytest.raises(SternaError, match="32 iterations for 16 threads"):
        shared(threads=16, bound=32)
    s = Schedule(row_sums(5, 70))
    with pytest.raises(SternaError, match="i is not reduced"):
        s.across("out", "i", 8)


def test_schedules_that_cannot_be_lowered() -> None:
    wide = Schedule(row_sums(64, 70))
    total = wide.cache_write("out")
    row, x = wide.split("out", "i", 32)
    wide.parallel("out", row)
    wide.bind("out", x, "thread.x")
    _, lane = wide.split(total, "k", 16)
    wide.across(total, lane, 16)
    wide.compute_at(total, "out", x, REGISTER)
    with pytest.raises(SternaError, match="have different elements of it") as caught:
        lower(wide)
    assert set(caught.value.codes) == {"E0303"}
    outside = Schedule(row_sums(64, 70))
    _, lane = outside.split("out", "k", 16)
    outside.across("out", lane, 16)
    with pytest.raises(SternaError, match="not in registers"):
        lower(outside)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (cuda_target(), "__shfl_xor_sync(0xffffu, "),
        (metal_target(), "simd_shuffle_xor("),
        (replace(opencl_host.opencl_target(groups=True), threads=Threads(subgroup=32)), "sub_group_shuffle_xor("),
        (replace(load_target("webgpu"), device=None, threads=Threads(subgroup=32)), "subgroupShuffleXor("),
        (replace(cuda_target(), device=load_target("cuda").device), "shfl.sync.bfly.b32"),
    ],
    ids=["cuda", "metal", "opencl", "webgpu", "ptx"],
)
def test_every_language_says_it(target: Target, words: str) -> None:
    kernels = KernelSet("kernel", [finish(lower(shared()))], [()])
    text = (ptx.source if words.startswith("shfl") else source)(kernels, target)
    assert words in text
    assert ("#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable" in text) == ("sub_group" in words)
    assert ("enable subgroups;" in text) == ("subgroupShuffle" in words)


def test_subgroups_that_a_target_lacks() -> None:
    program = finish(lower(shared()))
    with pytest.raises(SternaError, match="exchanges among 16 threads of a subgroup") as caught:
        source(KernelSet("kernel", [program], [()]), opencl_host.opencl_target(groups=True))
    assert set(caught.value.codes) == {"E0205"}


def test_equal_values_take_the_first_place(tmp_path: Path) -> None:
    """As of one thread, also among NaN; the same in every order of threads."""
    source_, k = placeholder("x", (6, 70)), reduce_axis("k", 70)
    place = compute("out", (6,), lambda i: reduce("argmax", source_[i, k.var], k, index=E.index_value(k.var, "int64")))
    kernel = Kernel("argmax", (source_,), (), (place,))
    s = propose(kernel, Context(replace(opencl_host.opencl_target(groups=True), threads=Threads(64, 32, subgroup=32))))
    assert P.exchanged(lower(s).body) == 32
    x = np.random.default_rng(3).integers(0, 3, (6, 70)).astype(np.float32)
    x[1, 7] = x[1, 30] = np.nan
    x[2] = -np.inf
    x[3, 39] = 9
    x[4, 66:] = np.inf
    compare(s, None, tmp_path, feeds={"x": x}, orders=2)
    assert barriers(finish(lower(s)).body) == 0
