"""The last of the tasks that share a result adds up their parts: in any order of tasks and threads the same comes out,
and programs in which it might not are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sterna.codegen.generators import KernelSet, source
from sterna.errors import SternaError
from sterna.ir.integer import Int, Symbol, as_int, of
from sterna.ir.memory import STACK
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.loops.races import verify_threads
from sterna.loops.threads import run_threads
from sterna.loops.traffic import traffic
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import load_target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.split_sums import shared_sum, split_sum
from sterna.te.tensor import Kernel, Tensor
from support.cuda_host import Program, cuda_target
from support.fragment_products import feeds as feeds_of
from support.fragment_products import product
from support.opencl_host import opencl_target
from support.small_kernels import matmul, times_vector

PARTS = 4


def sum_of(kernel: Kernel) -> Tensor:
    return next(t for t in kernel.stages if t.reduction is not None)


def shared(kernel: Kernel, results: int = 64, axis: int = 0) -> Kernel:
    stage = sum_of(kernel)
    assert stage.reduction is not None
    return shared_sum(kernel, stage, stage.reduction.axes[axis], PARTS, results)


def scheduled(kernel: Kernel, target: str = "cuda-sm80") -> tuple[Schedule, P.Function]:
    s = propose(kernel, Context(load_target(target)))
    assert any(stage.last_of for stage in s.stages.values())
    return s, finish(lower(s))


def memory_of(kernel: Kernel, s: Schedule, function: P.Function) -> dict[str, np.ndarray]:
    feeds = feeds_of(kernel)
    stored = s.stored([feeds[p.name] for p in kernel.params])
    given = dict(zip((b.name for b in function.params), stored, strict=True)) | {
        t.name: feeds[t.name] for t in kernel.inputs
    }
    memory = {name: np.ascontiguousarray(a).reshape(-1) for name, a in given.items()}
    return memory | {b.name: np.zeros(b.elements, b.dtype) for b in function.outputs}


KERNELS = {
    "tiles": lambda: shared(matmul(9, 72, 64)),
    "rows": lambda: shared(times_vector(24, 256)),
    "fragments": lambda: shared(product(16, 72, 64)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_any_order(name: str) -> None:
    """Of tasks and of threads: sums are the same bits, those of the parts in their order, and counters are zeros."""
    kernel = KERNELS[name]()
    s, function = scheduled(kernel)
    assert int(function.n_tasks) > PARTS
    first: dict[str, np.ndarray] = {}
    for n in range(2):
        memory = memory_of(kernel, s, function)
        run_threads(function, memory, None, np.random.default_rng(n + 1) if n else None)
        wanted = run_kernel(kernel, feeds_of(kernel))
        for out in kernel.outputs:
            np.testing.assert_allclose(memory[out.name].reshape(wanted[out.name].shape), wanted[out.name], 2e-3, 2e-3)
        first = first or memory
        assert all(np.array_equal(first[out.name], memory[out.name]) for out in kernel.outputs)


@pytest.mark.parametrize("name", ["tiles", "rows"])
def test_cuda_text(name: str, tmp_path: Path) -> None:
    """Run after run, in the same memory."""
    kernel = KERNELS[name]()
    s = propose(kernel, Context(cuda_target()))
    function = finish(lower(s))
    compiled, memory = Program.of(function, tmp_path), memory_of(kernel, s, function)
    wanted = run_kernel(kernel, feeds_of(kernel))
    for seed in range(3):
        for out in kernel.outputs[:2]:
            memory[out.name][:] = 7
        compiled.run_function(function, memory, seed)
        for out in kernel.outputs:
            np.testing.assert_allclose(memory[out.name].reshape(wanted[out.name].shape), wanted[out.name], 1e-4, 1e-4)


# ---------------------------------------------------------------- faults
def replaced(function: P.Function, change: Callable[[P.LastTask], P.Stmt]) -> P.Function:
    def rule(s: P.Stmt) -> P.Stmt:
        return change(s) if isinstance(s, P.LastTask) else P.map_children(s, rule)

    return replace(function, body=rule(function.body))


def task_of(function: P.Function) -> P.For:
    return next(s for s in P.walk(function.body) if isinstance(s, P.For) and s.kind == "parallel")


def moved(s: P.LastTask, by: int) -> P.Stmt:
    """The body with what it reads of parts moved."""

    def rule(e: E.Expr) -> E.Expr | None:
        reads = isinstance(e, E.Load) and isinstance(e.tensor, P.Buffer) and e.tensor.name == "parts"
        return e.changed(indices=(e.indices[0] + by,)) if reads and isinstance(e, E.Load) else None

    return s.changed(body=P.map_values(s.body, rule))


def with_store(s: P.LastTask, to: P.Buffer, at: Int, value: E.Expr) -> P.Stmt:
    return s.changed(body=P.seq(s.body, P.Store(to, at, value)))


def counter(s: P.LastTask) -> E.Load:
    return E.Load("uint32", tensor=s.counters, indices=(of(s.symbol),))


FAULTS = {
    "parts of another index": (lambda f, s: moved(s, 64), "of parts that one of another index does"),
    "another order of indices": (lambda f, s: s.changed(index=of(task_of(f).symbol) // PARTS), "of another index does"),
    "fewer are waited for": (lambda f, s: s.changed(count=s.count - 1), f"not {PARTS - 1} tasks have the same"),
    "not every task comes": (
        lambda f, s: P.If(of(task_of(f).symbol), task_of(f).extent - 1, s),
        "not every task comes by once",
    ),
    "tasks come twice": (
        lambda f, s: P.For(Symbol("again", 0, 1), as_int(2), "serial", s),
        "not every task comes by once|counted twice",
    ),
    "the number of the task": (
        lambda f, s: with_store(s, f.outputs[0], of(task_of(f).symbol), E.const(0, "float32")),
        "may be the last",
    ),
    "counters are read": (
        lambda f, s: with_store(s, f.outputs[0], of(s.symbol), E.cast(counter(s), "float32")),
        "counts tasks, and is used",
    ),
    "counters are written": (
        lambda f, s: with_store(s, s.counters, of(s.symbol), E.const(1, "uint32")),
        "counts tasks, and is used",
    ),
    "counters are written before": (
        lambda f, s: P.seq(P.Store(s.counters, s.index, E.const(1, "uint32")), s),
        "counts tasks, and is used",
    ),
    "something comes behind": (
        lambda f, s: P.seq(s, P.Store(f.outputs[0], as_int(0), E.const(0, "float32"))),
        "behind what the last one does",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_refused(fault: str) -> None:
    change, problem = FAULTS[fault]
    _, function = scheduled(shared(matmul(9, 136, 64)))
    with pytest.raises(SternaError, match=problem) as caught:
        verify_threads(replaced(function, lambda s: change(function, s)))
    assert {d.code for d in caught.value.diagnostics} == {"E0306"}


def test_what_one_task_has_is_no_business_of_the_last() -> None:
    """A value that a task has computed is not what another one has, and any of them may be the last."""
    _, function = scheduled(shared(matmul(9, 136, 64)))
    kept = P.Buffer("kept", "float32", (), (), 1, STACK)

    def change(s: P.LastTask) -> P.Stmt:
        load = E.Load("float32", tensor=kept, indices=(as_int(0),))
        return P.seq(P.Alloc(kept), s.changed(body=P.seq(s.body, P.Store(function.outputs[0], as_int(0), load))))

    with pytest.raises(SternaError, match="kept of one task is read"):
        verify_threads(replaced(function, change))


def test_tasks_of_one_thread_are_not_counted() -> None:
    def single(s: P.Stmt) -> P.Stmt:
        done = P.map_children(s, single)
        return done.changed(kind="serial") if isinstance(done, P.For) and done.kind in P.THREADS else done

    _, function = scheduled(shared(matmul(16, 16, 64)))
    with pytest.raises(SternaError, match="one thread each"):
        verify_threads(replace(function, body=single(function.body)))


# ---------------------------------------------------------------- what it is made of
def test_more_results_than_counters() -> None:
    with pytest.raises(SternaError, match="are not shared by"):
        lower(propose(shared(matmul(9, 136, 64), results=2), Context(load_target("cuda-sm80"))))


def test_tasks_are_counted_in_zeros() -> None:
    kernel = shared(matmul(9, 136, 64))
    with pytest.raises(SternaError, match="parts is not zeros of uint32"):
        Schedule(kernel).by_last_tasks("out", "arrivals", "parts")


def test_languages_without_order_decline() -> None:
    _, function = scheduled(shared(matmul(16, 16, 64)))
    for target in (opencl_target(groups=True), load_target("metal"), load_target("webgpu")):
        with pytest.raises(SternaError, match="no order between what tasks write"):
            source(KernelSet("kernel", [function], [()]), replace(target, device=None))


def test_text() -> None:
    _, function = scheduled(shared(matmul(9, 136, 64)))
    assert "last of 4 tasks with out_i_o_j_o = (parts_part_i_o_j_o) % 3, counted in arrivals" in print_function(
        function
    )


def test_memory_is_counted_once() -> None:
    """The last tasks' accesses count as one task's for each result: as much as two kernels', with other loops."""
    kernel = matmul(64, 192, 512)
    stage = sum_of(kernel)
    assert stage.reduction is not None
    context = Context(load_target("cuda-sm80"))
    one = finish(lower(propose(shared(kernel), context)))
    two = [finish(lower(propose(k, context))) for k in split_sum(kernel, stage, stage.reduction.axes[0], PARTS)]
    found = accesses(one)
    assert found.requested_bytes == pytest.approx(sum(accesses(f).requested_bytes for f in two), rel=0.02)
    assert found.moved_bytes == pytest.approx(sum(accesses(f).moved_bytes for f in two), rel=0.25)
    parts = next(b for b in one.outputs if b.name == "parts")
    assert traffic(one)[parts] == 2 * parts.elements


@pytest.mark.parametrize(("columns", "once"), [(256, True), (254, True), (255, False)])
def test_results_beside_one_another_are_one_access(columns: int, once: bool) -> None:
    """Where the threads of a tile store elements one by one, another kernel has neighbours in neighbouring threads."""
    s = propose(shared(matmul(256, columns, 512, constant=True)), Context(load_target("cuda-sm80")))
    assert any(stage.last_of for stage in s.stages.values()) == once
