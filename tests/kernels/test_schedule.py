"""Schedules: every primitive where it is legal and where it is not, lowered, compiled and compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.ir.dtypes import to_numpy
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.schedule import saved
from sterna.schedule.decisions import Step
from sterna.schedule.schedule import Schedule
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce, reduce_axis
from support.compiling import check, run_schedule
from support.small_kernels import arrays, matmul, pointwise, row_sums, run, window


def code(action: Callable[[], Any]) -> str:
    with pytest.raises(SternaError) as caught:
        action()
    return caught.value.diagnostics[0].code


# ---------------------------------------------------------------- each primitive
def inlined() -> Schedule:
    s = Schedule(pointwise(6, 40))
    s.inline("mid")
    return s


def tiled() -> Schedule:
    s = Schedule(matmul(7, 20, 9))
    s.tile("out", {"i": 3, "j": 8})
    s.compute_at("acc", "out", "j.o", "stack")
    return s


def test_split_gives_tails() -> None:
    s = inlined()
    assert s.split("out", "i1", 16) == ("i1.o", "i1.i")
    s.vectorize("out", "i1.i")
    text = print_function(lower(s))
    assert text.count("(vectorized)") == 2
    assert "< 16" in text
    assert "< 8" in text
    run(s)


def test_fuse_walks_both_axes() -> None:
    s = inlined()
    assert s.fuse("out", "i0", "i1") == "i0+i1"
    assert "< 240" in print_function(lower(s))
    run(s)


def test_reorder_changes_the_nest() -> None:
    s = inlined()
    s.reorder("out", "i1", "i0")
    text = print_function(lower(s))
    assert text.index("< 40") < text.index("< 6")
    run(s)


def test_parallel_makes_tasks() -> None:
    s = inlined()
    s.parallel("out", "i0")
    assert lower(s).n_tasks == 6
    for threads in (1, 3):
        run(s, threads=threads)


def test_unroll_writes_out() -> None:
    s = inlined()
    s.reorder("out", "i1", "i0")
    s.unroll("out", "i0")
    body = finish(lower(s)).body
    assert sum(isinstance(x, P.Store) for x in P.walk(body)) == 6
    run(s)


def test_compute_at_needs_what_an_iteration_needs() -> None:
    s = tiled()
    sizes = {x.buffer.elements for x in P.walk(lower(s).body) if isinstance(x, P.Alloc)}
    assert sizes == {24, 12, 8, 4}, "a tile, and its tails"
    run(s)


def test_compute_at_of_a_window_keeps_a_halo() -> None:
    s = Schedule(window(20, 3, 5))
    s.split("out", "p", 4)
    s.compute_at("scaled", "out", "p.o")
    assert {x.buffer.elements for x in P.walk(lower(s).body) if isinstance(x, P.Alloc)} == {(4 + 2) * 5}
    run(s)


@pytest.mark.parametrize("scope", ["stack", "scratch", "register"])
def test_cache_write_scopes(scope: str) -> None:
    kernel = row_sums(10, 12)
    s = Schedule(kernel)
    assert s.cache_write("out") == "out_acc"
    s.split("out", "i", 5)
    s.compute_at("out_acc", "out", "i.o", scope)
    if scope == "register":
        s.reorder("out_acc", "k", "i")
        s.unroll("out_acc", "i")
        s.unroll("out", "i.i")
    function = finish(lower(s))
    assert (function.scratch_bytes > 0) is (scope == "scratch")
    allocated = [x for x in P.walk(function.body) if isinstance(x, P.Alloc)]
    assert bool(allocated) is (scope != "register")
    run(s)


def test_a_large_stack_array_goes_to_scratch() -> None:
    s = Schedule(row_sums(600, 3))
    s.cache_write("out")
    s.split("out", "i", 600)
    s.compute_at("out_acc", "out", "i.o", "stack")
    assert lower(s).scratch_bytes >= 2400
    run(s)


def test_cache_read_copies_what_is_read() -> None:
    s = tiled()
    assert s.cache_read("w", "acc") == "w_local"
    s.compute_at("w_local", "acc", "j", "scratch")
    run(s)


@pytest.mark.parametrize("depth", [3, 8, 21, 64])
@pytest.mark.parametrize("combiner", ["sum", "max", "min", "prod"])
def test_rfactor_keeps_lanes(depth: int, combiner: str) -> None:
    kernel = row_sums(4, depth, combiner)
    s = Schedule(kernel)
    acc = s.cache_write("out")
    s.split(acc, "k", 8)
    partial = s.rfactor(acc, "k.i")
    for stage in (partial, acc):
        s.compute_at(stage, "out", "i", "register")
    s.reorder(partial, "k", "i", "lane")
    s.unroll(partial, "i")
    s.vectorize(partial, "lane")
    s.unroll(acc, "lane")
    s.unroll(acc, "i")
    run(s)
    run(s, "c")


@pytest.mark.parametrize("depth", [3, 8, 21])
def test_rfactor_keeps_vectors(depth: int) -> None:
    """Several sums of each result, the results in vectors."""
    k = reduce_axis("k", depth)
    x = placeholder("x", (depth, 21))
    out = compute("out", (21,), lambda i: reduce("sum", x[k.var, i], k))
    s = Schedule(Kernel("column_sums", (x,), (), (out,)))
    acc = s.cache_write("out")
    outer, lane = s.split("out", "i", 8)
    s.vectorize("out", lane)
    s.split(acc, "k", 4)
    partial = s.rfactor(acc, "k.i", outermost=True)
    assert [str(size) for size in s.stages[partial].tensor.shape] == [str(min(4, depth)), "21"]
    for stage in (partial, acc):
        s.compute_at(stage, "out", outer, "register")
        vector, within = s.split(stage, "i", 8)
        s.reorder(stage, *s.stages[stage].reduction_leaves, *(["lane"] if stage == partial else []), vector, within)
        for axis in ("lane", vector):
            s.unroll(stage, axis)
        s.vectorize(stage, within)
    run(s)
    run(s, "c")


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_names_stay_apart(generator: str) -> None:
    """Registers, tails and copies of unrolled loops, all of one stage, within one block."""
    s = Schedule(row_sums(3, 12))
    acc = s.cache_write("out")
    s.split("out", "i", 2)
    s.compute_at(acc, "out", "i.o", "register")
    s.reorder(acc, "k", "i")
    for stage, axis in ((acc, "i"), ("out", "i.i"), ("out", "i.o")):
        s.unroll(stage, axis)
    run(s, generator)
    s = Schedule(pointwise(3, 3, 4))
    s.compute_at("mid", "out", "i1", "stack")
    s.unroll("out", "i0")
    s.unroll("out", "i1")
    run(s, generator)


def test_stages_placed_at_lanes() -> None:
    """An axis of lanes within which something else is computed cannot be one vector: it is written out."""
    s = Schedule(matmul(2, 8, 3))
    s.vectorize("out", "j")
    s.compute_at("acc", "out", "j", "stack")
    s.reorder("acc", "k", "i", "j")
    s.vectorize("acc", "j")
    s.cache_read("w", "acc")
    s.compute_at("w_local", "out", "j", "stack")
    s.vectorize("w_local", "i1")
    run(s)
    run(s, "c")


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("factors", [(), (0,), (1,), (0, 1)])
def test_by_runs_brings_terms_together(factors: tuple[int, ...], generator: str) -> None:
    """Of a sum of products: a run of its terms, or of either factor, in registers as one vector."""
    s = Schedule(matmul(3, 5, 24))
    stages = s.by_runs("acc", 4, *factors)
    assert len(stages) == max(1, len(factors))
    s.compute_at("acc", "out", "j", "register")
    for stage in stages:
        s.compute_at(stage, "acc", "run", "register")
        s.vectorize(stage, "term")
    s.unroll("acc", "term")
    text = print_function(finish(lower(s)))
    assert "x4" in text
    assert "acc_terms.3" in text
    run(s, generator)


@pytest.mark.parametrize(("shape", "many"), [((6, 8), 4), ((5, 6), 2), ((3, 4), 3)])
def test_by_runs_of_several_axes(shape: tuple[int, int], many: int) -> None:
    """Terms are counted through in the order of the axes, also where a run goes beyond the last one."""
    x, axes = placeholder("x", (3, *shape)), (reduce_axis("h", shape[0]), reduce_axis("w", shape[1]))
    kernel = Kernel(
        "sums", (x,), (), (compute("out", (3,), lambda i: reduce("max", x[i, axes[0].var, axes[1].var], *axes)),)
    )
    s = Schedule(kernel)
    s.by_runs("out", many)
    s.compute_at("out_terms", "out", "run", "stack")
    run(s)
    assert [int(a.extent) for a in s.stages["out"].axes] == [3, shape[0] * shape[1] // many, many]


@pytest.mark.parametrize("columns", [5, 16, 23])
def test_pack_stores_panels(columns: int) -> None:
    s = Schedule(matmul(6, columns, 10, constant=True))
    s.split("out", "j", 8)
    s.reorder("out", "j.o", "i", "j.i")
    s.compute_at("acc", "out", "j.o")
    s.pack("w", {1: 8}, [(1, "o"), (0, ""), (1, "i")])
    packing = s.packings["w"]
    data = np.arange(10.0 * columns).reshape(10, columns)
    packed = packing.apply(data)
    assert packed.shape == (-(-columns // 8), 10, 8)
    assert packed[(columns - 1) // 8, 3, (columns - 1) % 8] == data[3, columns - 1]
    run(s)
    run(s, "c")


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_rounds_what_is_stored_and_nothing_else(dtype: str, generator: str) -> None:
    kernel = matmul(6, 23, 10, constant=True)
    s = Schedule(kernel)
    s.split("out", "j", 8)
    s.reorder("out", "j.o", "i", "j.i")
    s.vectorize("out", "j.i")
    s.compute_at("acc", "out", "j.o", "stack")
    s.pack("w", {1: 8}, [(1, "o"), (0, ""), (1, "i")])
    s.narrow("w", dtype)
    again = saved.apply(kernel, saved.from_json(saved.to_json(s.steps)))
    assert again.steps == s.steps
    feeds = arrays(kernel)
    assert again.stored([feeds["w"], feeds["b"]])[0].dtype == to_numpy(dtype)
    found = run_schedule(again, {"x": feeds["x"]}, [feeds["w"], feeds["b"]], generator)
    rounded = {**feeds, "w": feeds["w"].astype(to_numpy(dtype)).astype(np.float32)}
    check(found, run_kernel(kernel, rounded), 1e-6)
    assert np.abs(found["out"] - run_kernel(kernel, feeds)["out"]).max() > 1e-4


# ---------------------------------------------------------------- illegal steps
def _narrow_and(step: str, *arguments: Any) -> None:
    s = Schedule(matmul(2, 3, 4, True))
    s.narrow("w", "float16")
    getattr(s, step)("w", *arguments)


def _prefetch(axis: str, part: str, rounds: list[str], pack: bool = True, place: bool = True) -> None:
    s = Schedule(matmul(4, 6, 4, True))
    s.tile("out", {"i": 2, "j": 3})
    if place:
        s.compute_at("acc", "out", "i.o", "register")
    if pack:
        s.pack("w", {1: 3}, [(1, "o"), (0, ""), (1, "i")])
    s.prefetch("acc", axis, "w", part, rounds)


def rows_as_lanes() -> None:
    """What is not reduced is no lane."""
    s = Schedule(row_sums(6, 8))
    _, lane = s.split("out", "i", 2)
    s.rfactor("out", lane)


ILLEGAL: dict[str, Callable[[], Any]] = {
    "by_last_tasks: no outputs": lambda: Schedule(matmul(2, 3, 4)).by_last_tasks("out", "acc", "w"),
    "split: no such axis": lambda: inlined().split("out", "q", 4),
    "split: factor": lambda: inlined().split("out", "i0", 0),
    "split: no such stage": lambda: inlined().split("nothing", "i0", 2),
    "fuse: not neighbours": lambda: Schedule(pointwise(2, 3, 4)).fuse("out", "i0", "i2"),
    "fuse: wrong order": lambda: inlined().fuse("out", "i1", "i0"),
    "fuse: kinds": lambda: Schedule(matmul(2, 3, 4)).fuse("acc", "j", "k"),
    "reorder: twice": lambda: inlined().reorder("out", "i0", "i0"),
    "reorder: no such axis": lambda: inlined().reorder("out", "i0", "i7"),
    "unroll: twice": lambda: (s := inlined()).unroll("out", "i0") or s.unroll("out", "i0"),
    "vectorize: not innermost": lambda: inlined().vectorize("out", "i0"),
    "vectorize: reduced": lambda: Schedule(row_sums(3, 8)).vectorize("out", "k"),
    "by_lane: no such vector": lambda: Schedule(matmul(2, 3, 4)).by_lane("acc", "k", 3),
    "prefetch: not reduced": lambda: _prefetch("j", "j.o", ["i.o"]),
    "prefetch: no such axis": lambda: _prefetch("k", "j.o", ["z"]),
    "prefetch: in one piece": lambda: _prefetch("k", "j.o", ["i.o"], pack=False),
    "prefetch: without reader": lambda: _prefetch("k", "j.o", ["i.o"], place=False),
    "tensorize: no such intrinsic": lambda: Schedule(matmul(2, 3, 4)).tensorize("acc", "j", "k", "levitate"),
    "offset: no integers": lambda: Schedule(matmul(2, 3, 4)).offset("acc", "x"),
    "couple: no integers": lambda: Schedule(matmul(2, 3, 4)).couple("acc", "w", "k"),
    "negate: no constant": lambda: Schedule(matmul(2, 3, 4)).negate("x"),
    "parallel: not outermost": lambda: inlined().parallel("out", "i1"),
    "parallel: not an output": lambda: Schedule(pointwise(4, 4)).parallel("mid", "i0"),
    "parallel: reduced": lambda: (s := Schedule(row_sums(3, 8))).reorder("out", "k", "i") or s.parallel("out", "k"),
    "bind: no such threads": lambda: inlined().bind("out", "i0", "thread.w"),
    "bind: reduced": lambda: Schedule(row_sums(3, 8)).bind("out", "k", "thread.x"),
    "bind: twice": lambda: (s := inlined()).bind("out", "i0", "thread.x") or s.bind("out", "i1", "thread.x"),
    "split: not an output": lambda: Schedule(pointwise(4, 4)).split("mid", "i0", 2, overhang=True),
    "partition: a reduction": lambda: Schedule(matmul(2, 3, 4)).partition("acc", "i"),
    "partition: no such axis": lambda: Schedule(pointwise(4, 4)).partition("mid", "k"),
    "clip: not reduced": lambda: Schedule(matmul(2, 3, 4)).clip("acc", "i"),
    "clip: not padded": lambda: Schedule(matmul(2, 3, 4)).clip("acc", "k"),
    "inline: an output": lambda: Schedule(pointwise(4, 4)).inline("out"),
    "inline: a reduction": lambda: Schedule(matmul(2, 3, 4)).inline("acc"),
    "compute_at: an output": lambda: Schedule(matmul(2, 3, 4)).compute_at("out", "acc", "i"),
    "transfer: computes": lambda: Schedule(matmul(2, 3, 4)).transfer("acc"),
    "compute_at: scope": lambda: Schedule(matmul(2, 3, 4)).compute_at("acc", "out", "i", "moon"),
    "compute_at: no such axis": lambda: Schedule(matmul(2, 3, 4)).compute_at("acc", "out", "z"),
    "cache_read: not read": lambda: Schedule(matmul(2, 3, 4)).cache_read("x", "out"),
    "cache_read: narrower": lambda: Schedule(matmul(2, 3, 4)).cache_read("x", "acc", "int8"),
    "cache_write: twice": lambda: (s := Schedule(row_sums(2, 3))).cache_write("out") and s.cache_write("out"),
    "recompute: not read": lambda: Schedule(matmul(2, 3, 4)).recompute("acc", "acc"),
    "recompute: too late": lambda: (s := Schedule(pointwise(4, 4))).split("mid", "i0", 2) and s.recompute("mid", "out"),
    "fold: one position": lambda: Schedule(matmul(2, 3, 4)).fold("acc", 1, 1),
    "fold: an output": lambda: Schedule(matmul(2, 3, 4)).fold("out", 1, 2),
    "fold: too late": lambda: (s := Schedule(matmul(2, 3, 4))).split("acc", "j", 2) and s.fold("acc", 1, 2),
    "permute: an output": lambda: Schedule(matmul(2, 3, 4)).permute("out", 1, 0),
    "permute: one dimension twice": lambda: Schedule(matmul(2, 3, 4)).permute("acc", 1, 1),
    "permute: too late": lambda: (s := Schedule(matmul(2, 3, 4))).split("acc", "j", 2) and s.permute("acc", 1, 0),
    "pad_rows: all dimensions": lambda: Schedule(matmul(2, 3, 4)).pad_rows("acc", 4, 2),
    "pad_rows: an output": lambda: Schedule(matmul(2, 3, 4)).pad_rows("out", 4),
    "swizzle: an output": lambda: Schedule(matmul(2, 3, 4)).swizzle("out"),
    "swizzle: by nothing": lambda: Schedule(matmul(2, 3, 4)).swizzle("acc", 0),
    "swizzle: twice": lambda: (s := Schedule(matmul(2, 3, 4))).swizzle("acc") or s.swizzle("acc"),
    "pad_rows: twice": lambda: (s := Schedule(matmul(2, 3, 4))).pad_rows("acc", 4) or s.pad_rows("acc", 4),
    "pipeline: no buffer": lambda: Schedule(matmul(2, 3, 4)).pipeline("acc", "k", 0),
    "pipeline: twice": lambda: (s := Schedule(matmul(2, 3, 4))).pipeline("acc", "k", 2) or s.pipeline("acc", "k", 2),
    "pipeline: unrolled": lambda: (s := Schedule(matmul(2, 3, 4))).unroll("acc", "k") or s.pipeline("acc", "k", 2),
    "as_matrices: no product": lambda: Schedule(row_sums(3, 8)).as_matrices("out", [], ["k"], 4),
    "as_matrices: an output": lambda: Schedule(window(8, 3, 4)).as_matrices("out", [], ["k"], 4),
    "as_matrices: no such axis": lambda: Schedule(matmul(2, 3, 4)).as_matrices("acc", ["q"], ["k"], 4),
    "as_matrices: swapped": lambda: Schedule(matmul(2, 3, 4)).as_matrices("acc", [], ["k"], 4, swapped=True),
    "stride: no copy": lambda: Schedule(matmul(2, 3, 4)).stride("acc", 0, 2),
    "stride: read between": lambda: (s := Schedule(matmul(2, 3, 4))).stride(s.cache_read("x", "acc"), 0, 2),
    "stride: one by one": lambda: (s := Schedule(matmul(2, 3, 4))).stride(s.cache_read("x", "acc"), 0, 1),
    "online: no softmax": lambda: Schedule(matmul(2, 3, 4)).online("acc", "out", 8, 4, 1),
    "online_in_matrices: no softmax": lambda: Schedule(matmul(2, 3, 4)).online_in_matrices(
        "acc", "out", 8, 4, 16, "float16"
    ),
    "rfactor: fused with what is not reduced": rows_as_lanes,
    "across: not reduced": lambda: Schedule(row_sums(3, 8)).across("out", "i", 4),
    "across: no power of two": lambda: Schedule(row_sums(3, 8)).across("out", "k", 12),
    "across: more iterations than threads": lambda: Schedule(row_sums(3, 8)).across("out", "k", 4),
    "by_runs: no reduction": lambda: inlined().by_runs("out", 2),
    "by_runs: no runs": lambda: Schedule(row_sums(3, 10)).by_runs("out", 4),
    "by_runs: no products": lambda: Schedule(row_sums(3, 8)).by_runs("out", 4, 0),
    "by_runs: has steps": lambda: tiled().by_runs("acc", 3),
    "gather: no factor": lambda: Schedule(matmul(2, 3, 4)).gather("acc", "b"),
    "gather: no sum": lambda: Schedule(matmul(2, 3, 4)).gather("out", "x"),
    "fill_up: not reduced": lambda: Schedule(matmul(2, 3, 5)).fill_up("acc", "i", 4),
    "fill_up: no zeros": lambda: Schedule(matmul(2, 3, 5, True)).fill_up("acc", "k", 4),
    "fill_up: has steps": lambda: tiled().fill_up("acc", "k", 4),
    "rfactor: no reduction": lambda: inlined().rfactor("out", "i1"),
    "rfactor: not split": lambda: Schedule(row_sums(3, 8)).rfactor("out", "k"),
    "pack: no constant": lambda: Schedule(matmul(2, 3, 4)).pack("x", {0: 2}, [(0, "o"), (1, ""), (0, "i")]),
    "narrow: no constant": lambda: Schedule(matmul(2, 3, 4)).narrow("w", "float16"),
    "narrow: no such type": lambda: Schedule(matmul(2, 3, 4, True)).narrow("w", "float64"),
    "narrow: twice": lambda: _narrow_and("narrow", "float16"),
    "narrow: packed afterwards": lambda: _narrow_and("pack", {0: 2}, [(0, "o"), (1, ""), (0, "i")]),
    "pack: order": lambda: Schedule(matmul(2, 3, 4, True)).pack("w", {0: 2}, [(0, "o"), (1, "")]),
}


@pytest.mark.parametrize("action", ILLEGAL.values(), ids=ILLEGAL.keys())
def test_illegal_steps_are_coded(action: Callable[[], Any]) -> None:
    assert code(action) == "E0302"


def test_an_unknown_primitive() -> None:
    assert code(lambda: saved.apply(pointwise(4, 4), [Step("levitate", "out", ("i0",))])) == "E0301"


def test_a_schedule_without_loops() -> None:
    """E0303: a stage that is neither inlined nor placed, and one that is read before it is computed."""
    assert code(lambda: lower(Schedule(pointwise(4, 4)))) == "E0303"
    s = Schedule(matmul(4, 5, 6))
    s.split("out", "j", 2)
    s.cache_read("w", "acc")
    s.compute_at("acc", "out", "j.o")
    s.compute_at("w_local", "out", "j.i")
    assert code(lambda: lower(s)) == "E0303"


def test_registers_need_constant_indices() -> None:
    s = Schedule(row_sums(10, 12))
    s.cache_write("out")
    s.split("out", "i", 5)
    s.compute_at("out_acc", "out", "i.o", "register")
    assert code(lambda: finish(lower(s))) == "E0304"


def test_accesses_are_proved() -> None:
    """E0305: an index formula that leaves its tensor is refused, with what it reaches."""
    x = placeholder("x", (8,))
    out = compute("out", (8,), lambda i: x[i + 1])
    schedule = Schedule(Kernel("bad", (x,), (), (out,)))
    with pytest.raises(SternaError, match=r"E0305.*reaches 1 to 8, the buffer has 8"):
        finish(lower(schedule))


def test_a_schedule_is_json() -> None:
    s = tiled()
    s.vectorize("out", "j.i")
    text = json.loads(saved.to_json(s.steps))
    assert all(step[0] in saved.PRIMITIVES for step in text)
    assert text[-1] == ["vectorize", "out", "j.i"]


def test_every_primitive_is_tested() -> None:
    used = {name.split(":")[0] for name in ILLEGAL} | {"from_tiles"}  # in test_fragments.py, as it takes fragments
    assert used == set(saved.PRIMITIVES)
