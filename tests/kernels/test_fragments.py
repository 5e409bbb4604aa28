"""Fragments of matrices, which the threads of a subgroup hold together: what strategies make of them is run in random
orders of threads, by the interpreter and as CUDA's text over fibers; what may go wrong is refused."""

from __future__ import annotations

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
from sterna.intrinsics import FRAGMENTS
from sterna.ir.integer import Symbol, as_int, of
from sterna.loops import program as P
from sterna.loops.accesses import accesses
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.races import verify_threads
from sterna.schedule import saved
from sterna.schedule.decisions import Step
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context
from sterna.schedule.strategies.groups import propose
from sterna.targets.description import load_target
from sterna.te.expr import Load
from sterna.te.tensor import Kernel
from support.bound_axes import barriers, compare, results, threads
from support.cuda_host import CUDA
from support.fragment_products import convolution, feeds, product, proposed, with_fragments
from support.opencl_host import opencl_target

AMPERE = replace(CUDA, target=replace(load_target("cuda-sm80"), device=None))


@pytest.mark.parametrize(
    "kernel",
    [
        product(40, 33, 20),
        product(16, 70, 32, ("row", "col")),
        product(65, 16, 16, ("col", "row")),
        product(9, 9, 9, ("col", "col"), batch=2),
        product(9, 16, 16, ("col", "row"), batch=1),
        convolution(5, 16, 24, 3, 1),
        convolution(6, 3, 16, 3, 2),
        convolution(11, 3, 16, 3, 2),
    ],
    ids=[
        "rows",
        "columns on the right",
        "on the left",
        "batches",
        "a batch of one",
        "channels are the depth",
        "few channels",
        "windows of two rows",
    ],
)
def test_products(kernel: Kernel, tmp_path: Path) -> None:
    s = proposed(kernel)
    assert with_fragments(finish(lower(s)).body)
    compare(s, None, tmp_path, tolerance=0, orders=2, feeds=feeds(kernel))


def test_bfloat16(tmp_path: Path) -> None:
    kernel = product(20, 24, 32, dtype="bfloat16")
    compare(proposed(kernel), None, tmp_path, tolerance=0, orders=2, language=AMPERE, feeds=feeds(kernel))


@pytest.mark.parametrize(
    "kernel",
    [
        product(40, 33, 20, dtype="tf32"),
        product(16, 70, 32, ("row", "col"), dtype="tf32"),
        product(65, 16, 16, ("col", "row"), dtype="tf32"),
        product(9, 9, 9, ("col", "col"), batch=2, dtype="tf32"),
        convolution(5, 16, 24, 3, 1, "tf32"),
        convolution(6, 3, 16, 3, 2, "tf32"),
    ],
    ids=["rows", "columns on the right", "on the left", "batches", "channels are the depth", "few channels"],
)
def test_tf32(kernel: Kernel, tmp_path: Path) -> None:
    """Numbers of twelve bits, which are rounded, halves too; the other factor is small, so that sums are exact."""
    s = proposed(kernel)
    assert with_fragments(finish(lower(s)).body)
    random = np.random.default_rng(4)
    for long in ("x", "w"):
        given = feeds(kernel)
        given[long] = random.integers(-4095, 4096, given[long].shape).astype(np.float32)
        compare(s, None, tmp_path, tolerance=0, orders=2, language=AMPERE, feeds=given)


def test_tf32_is_as_far_from_float64_as_its_rounding() -> None:
    """Each factor is off by at most 2^-11 of itself, and the sums by what float32 loses."""
    kernel, random = product(48, 40, 72, dtype="tf32"), np.random.default_rng(5)
    given = {
        t.name: random.standard_normal([int(n) for n in t.shape]).astype(np.float32)
        for t in (*kernel.inputs, *kernel.params)
    }
    x, w, b = (given[n].astype(np.float64) for n in "xwb")
    exact = np.maximum(x @ w + b, 0)
    allowed = (2 * 2.0**-11 + 2.0**-22 + 80 * 2.0**-24) * (np.abs(x) @ np.abs(w) + np.abs(b))
    ((_, found),) = results(proposed(kernel), None, orders=1, feeds=given)
    off = np.abs(found["out"].reshape(exact.shape) - exact)
    assert (off <= allowed).all()
    assert off.max() > 1e-4, "nothing was rounded"


@pytest.mark.parametrize("name", [n for n in FRAGMENTS if n.startswith("wmma") and FRAGMENTS[n].dtype == "float32"])
def test_every_intrinsic_in_ptx(name: str) -> None:
    intrinsic = FRAGMENTS[name]
    left, right = intrinsic.settings["orders"]
    word, shape = intrinsic.settings["type"], intrinsic.settings["shape"]
    kernel = product(16, 16, 16, (left, right), dtype=intrinsic.settings["rounding"] or intrinsic.operands[0])
    text = ptx.source(KernelSet("model", [finish(lower(proposed(kernel)))], [()]), load_target("cuda-sm80"))
    kinds = "f32.f32" if word == "f16" else f"f32.{word}.{word}.f32"
    assert f"wmma.mma.sync.aligned.{left}.{right}.{shape}.{kinds}" in text
    assert f"wmma.load.a.sync.aligned.{left}.{shape}.shared.{word}" in text
    assert f"wmma.load.b.sync.aligned.{right}.{shape}.shared.{word}" in text
    assert ("cvt.rna.tf32.f32" in text) == (word == "tf32")


@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(*(st.integers(8, 40) for _ in range(3)), st.sampled_from(["row", "col"]), st.sampled_from(["row", "col"]))
def test_any_size(m: int, n: int, depth: int, left: str, right: str) -> None:
    kernel = product(m, n, depth, (left, right))
    s = proposed(kernel)
    assert with_fragments(finish(lower(s)).body)
    compare(s, None, tolerance=0, orders=2, feeds=feeds(kernel))


def test_few_barriers_and_conflicts() -> None:
    """One for all steps in depth, which are written once, one before sums take the place of what was multiplied, and
    one before what follows with them."""
    program = finish(lower(proposed(product(512, 512, 256))))
    assert barriers(program.body) == 1 + 1 + 1
    assert threads(program) == 128
    found = accesses(program, widths=ptx.widths(load_target("cuda-sm80")))
    assert found.fragments == 512 * 512 * 256
    assert found.coalesced == found.accesses
    # All that 64 tasks bring of both matrices comes 16 bytes at a time, and so does what follows with the sums.
    assert found.bytes == 64 * 2 * 64 * 256 * 2 + 2 * 4 * 512 * 512
    assert found.wide_bytes == found.bytes
    # Fragments wait for no bank, nor do copies of 16 bytes: eight of them are of rows that lie apart.
    assert found.conflicts == 0


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((250, 256, 48), (256, 128)),
        ((120, 256, 48), (128, 128)),
        ((250, 40, 32), (128, 64)),
        ((40, 256, 32), (64, 128)),
    ],
    ids=["most", "both", "rows", "columns"],
)
def test_large_tiles(sizes: tuple[int, int, int], tile: tuple[int, int], tmp_path: Path) -> None:
    """Where there are tasks enough, here for a device of one multiprocessor. Sums are stored a part of the tile at a
    time, in the memory that the matrices had."""
    kernel, device = product(*sizes), load_target("cuda-sm80")
    assert device.threads is not None
    small = replace(device, device=None, threads=replace(device.threads, multiprocessors=1))
    s = propose(kernel, Context(small))
    assert s is not None
    program = finish(lower(s))
    rows, columns, _ = sizes
    assert int(program.n_tasks) == -(-rows // tile[0]) * -(-columns // tile[1])
    taken = {s.buffer.end for s in P.walk(program.body) if isinstance(s, P.Alloc) and s.buffer.scope.name == "shared"}
    assert max(taken) < tile[0] * tile[1] * 4
    found = accesses(program, widths=ptx.widths(device))
    assert found.conflicts == 0
    assert found.coalesced == found.accesses
    compare(s, None, tmp_path, tolerance=0, orders=1, feeds=feeds(kernel))


@pytest.mark.parametrize("depth", [24, 40, 72, 100, 201, 257, 326])
def test_rows_that_are_no_whole_sectors(depth: int) -> None:
    """A step in depth has the whole row: parts of it would begin in the midst of sectors, which two steps ask for; or
    as much of a longer one as the threads of a subgroup copy at once, so that each access is to one row."""
    program = finish(lower(proposed(product(49, 512, depth))))
    found = accesses(program, widths=ptx.widths(load_target("cuda-sm80")))
    assert with_fragments(program.body)
    assert found.coalesced == found.accesses
    assert found.conflicts == 0


@pytest.mark.parametrize("depth", [100, 201])
def test_a_last_step_that_a_row_does_not_fill(depth: int) -> None:
    kernel = product(40, 48, depth)
    compare(proposed(kernel), None, orders=1, feeds=feeds(kernel))


@pytest.mark.parametrize("layer", [(28, 3, 16, 3, 2), (37, 3, 64, 7, 2), (32, 3, 24, 6, 2), (26, 24, 40, 3, 1)])
def test_windows_over_few_channels(layer: tuple[int, int, int, int, int]) -> None:
    """What windows slide over comes to shared memory as it lies in memory, and is gathered from there."""
    found = accesses(finish(lower(proposed(convolution(*layer)))))
    assert found.conflicts == 0
    assert found.coalesced >= 0.95 * found.accesses


@pytest.mark.parametrize("columns", [16, 32, 48, 160])
def test_no_product_waits_for_a_bank(columns: int) -> None:
    for depth in (48, 128):
        for left, right in (("row", "row"), ("row", "col"), ("col", "row"), ("col", "col")):
            found = accesses(finish(lower(proposed(product(96, columns, depth, (left, right))))))
            assert found.conflicts == 0, (depth, left, right)


@pytest.mark.parametrize(
    "kernel",
    [product(7, 64, 64), product(64, 1, 64), product(64, 64, 64, dtype="float32")],
    ids=["few rows", "one column", "float32"],
)
def test_what_others_compute(kernel: Kernel) -> None:
    context = Context(replace(load_target("cuda-sm80"), device=None))
    s = propose(kernel, context)
    assert s is not None
    assert not with_fragments(finish(lower(s)).body)


def test_a_target_without_fragments() -> None:
    s = propose(product(64, 64, 64), Context(opencl_target(groups=True)))
    assert s is None or not with_fragments(finish(lower(s)).body)


# ---------------------------------------------------------------- what is refused
def changed(program: P.Function, change: Callable[[P.Stmt], P.Stmt | None]) -> P.Function:
    """A program with some statements in the place of others."""

    def again(s: P.Stmt) -> P.Stmt:
        found = change(s)
        return P.map_children(s, again) if found is None else found

    return replace(program, body=again(program.body))


def refusal(program: P.Function) -> str:
    with pytest.raises(SternaError) as caught:
        verify_threads(program)
    assert set(caught.value.codes) == {"E0306"}
    return str(caught.value)


def test_no_barrier_can_be_left_out() -> None:
    program = finish(lower(proposed(product(40, 33, 20))))
    for number in range(count := barriers(program.body)):
        seen = -1

        def without(s: P.Stmt, number: int = number) -> P.Stmt | None:
            nonlocal seen
            if isinstance(s, P.Barrier):
                seen += 1
                return P.seq() if seen == number else s
            return None

        lesser = changed(program, without)
        assert barriers(lesser.body) == count - 1
        refusal(lesser)


def test_a_part_of_a_subgroup() -> None:
    program = finish(lower(proposed(product(40, 33, 20))))
    thread = Symbol("some", 0, 30)

    def fewer(s: P.Stmt) -> P.Stmt | None:
        return P.For(thread, as_int(31), "thread.x", s) if isinstance(s, P.Store) and s.rows else None

    assert "is not reached by all threads of a subgroup" in refusal(changed(program, fewer))


def test_threads_of_a_subgroup_disagree() -> None:
    program = finish(lower(proposed(product(40, 33, 20))))
    thread = Symbol("each", 0, 31)

    def apart(s: P.Stmt) -> P.Stmt | None:
        if isinstance(s, P.Store) and s.rows:
            return P.For(thread, as_int(32), "thread.x", replace(s, index=s.index + of(thread)))
        return None

    assert "disagree where" in refusal(changed(program, apart))


def test_subgroups_that_are_not_whole() -> None:
    program = finish(lower(proposed(product(40, 33, 20))))

    def narrower(s: P.Stmt) -> P.Stmt | None:
        if isinstance(s, P.For) and s.kind == "thread.x":
            return P.For(s.symbol, as_int(24), s.kind, s.body)
        return None

    assert "subgroups of 32 threads" in refusal(changed(program, narrower))


def test_a_tile_that_overlaps_another() -> None:
    """Of one subgroup, too: another thread of it may have stored the element."""
    program = finish(lower(proposed(product(16, 16, 16))))

    def twice(s: P.Stmt) -> P.Stmt | None:
        return P.seq(s, replace(s, index=s.index + 4)) if isinstance(s, P.Store) and s.rows else None

    grown = changed(program, twice)
    assert "touch the same element" in refusal(grown)


def test_two_kinds_in_a_kernel() -> None:
    program = lower(proposed(product(16, 16, 16)))
    other = FRAGMENTS["wmma.bf16.row.row"]

    def again(s: P.Stmt) -> P.Stmt | None:
        if isinstance(s, P.Store) and isinstance(s.value, P.Apply):
            return P.seq(s, replace(s, value=replace(s.value, intrinsic=other)))
        return None

    with pytest.raises(SternaError, match=r"E0304.*fragments of several kinds"):
        finish(changed(program, again))


def test_rows_that_lie_too_near() -> None:
    """Fragments are loaded from rows that lie whole pieces of 16 bytes apart."""
    s = proposed(product(64, 64, 64))
    padded = [step for step in s.steps if step.primitive == "pad_rows"]
    steps = [replace(step, arguments=(step.arguments[0] + 1,)) if step in padded else step for step in s.steps]
    with pytest.raises(SternaError, match=r"E0303.*16 bytes"):
        lower(saved.apply(s.kernel, steps, memories=s.memories))


@pytest.mark.parametrize("stage", ["acc_left", "acc_right", "acc_sums", "acc_sums_local"])
def test_rows_that_are_turned(stage: str) -> None:
    """No fragment is loaded from rows of which each begins elsewhere, nor stored to them."""
    s = proposed(product(40, 33, 20))
    steps = (*s.steps, Step("swizzle", stage, (8,)))
    with pytest.raises(SternaError, match=r"(wmma.*|tiles) in stage acc_sums") as caught:
        lower(saved.apply(s.kernel, steps, memories=s.memories))
    assert set(caught.value.codes) == {"E0303"}


@pytest.mark.parametrize("stage", ["acc_left", "acc_right"])
def test_rows_that_are_turned_once_around(stage: str) -> None:
    """They lie as they did."""
    s = proposed(product(40, 33, 20))
    (padded,) = (step for step in s.steps if step.primitive == "pad_rows" and step.stage == stage)
    columns = {"acc_left": 32, "acc_right": 48}[stage]  # whole rows of 33
    steps = (*s.steps, Step("swizzle", stage, (columns + padded.arguments[0],)))
    again = saved.apply(s.kernel, steps, memories=s.memories)
    assert with_fragments(finish(lower(again)).body)
    compare(again, None, tolerance=0, orders=2, feeds=feeds(s.kernel))


@pytest.mark.parametrize("name", ["opencl", "metal"])
def test_languages_without_fragments(name: str) -> None:
    program = finish(lower(proposed(product(16, 16, 16))))
    with pytest.raises(SternaError, match=r"E0205.*fragments of matrices") as caught:
        source(KernelSet("model", [program], [()]), replace(load_target(name), device=None))
    assert set(caught.value.codes) == {"E0205"}


def test_a_product_of_matrices_needs_matrices() -> None:
    """The left factor may not depend on the columns."""
    s = Schedule(product(16, 16, 16))
    with pytest.raises(SternaError, match=r"E0302.*no matrices"):
        s.as_matrices("acc", [], ["k"], 16, swapped=True)


def test_tiles_of_another_subgroup() -> None:
    """Each subgroup stores what it has computed itself."""

    def of_the_first(s: P.Stmt) -> P.Stmt | None:
        load = s.value if isinstance(s, P.Store) and s.rows else None
        if not isinstance(load, Load) or not isinstance(load.tensor, P.Buffer) or not load.tensor.scope.is_tiles:
            return None
        return replace(s, value=replace(load, indices=(as_int(load.indices[0].const),)))

    with pytest.raises(SternaError, match=r"E0304.*that another one has"):
        finish(changed(lower(proposed(product(64, 64, 32))), of_the_first))


def from_steps(change: Callable[[list[Step]], list[Step]]) -> P.Function:
    s = proposed(product(40, 33, 20))
    return finish(lower(saved.apply(s.kernel, change([*s.steps]), memories=s.memories)))


def test_elements_of_tiles() -> None:
    with pytest.raises(SternaError, match=r"E0304.*are read one by one"):
        from_steps(lambda steps: [step for step in steps if step.primitive not in ("from_tiles", "pad_rows")])


def test_no_tiles_where_some_are_stored() -> None:
    def elsewhere(step: Step) -> Step:
        is_sums = step.primitive == "compute_at" and step.stage == "acc_sums"
        return replace(step, arguments=(*step.arguments[:-1], "shared")) if is_sums else step

    with pytest.raises(SternaError, match=r"E0303.*acc_sums is in no tiles"):
        from_steps(lambda steps: [*map(elsewhere, steps)])


def test_no_product_in_tiles() -> None:
    def elsewhere(step: Step) -> Step:
        is_left = step.primitive == "compute_at" and step.stage == "acc_left"
        return replace(step, arguments=(*step.arguments[:-1], "fragment")) if is_left else step

    with pytest.raises(SternaError, match=r"E0303.*acc_left is no product of tiles"):
        from_steps(lambda steps: [*map(elsewhere, steps)])


@pytest.mark.parametrize("stage", ["acc_left", "acc_sums"])
def test_what_stores_no_tiles(stage: str) -> None:
    s = proposed(product(40, 33, 20))
    row, lane = s.stages[stage].leaves[-2:]
    with pytest.raises(SternaError, match=r"E0302.*computes its elements"):
        s.from_tiles(stage, row, lane)


def test_axes_that_are_not_innermost() -> None:
    s = proposed(product(40, 33, 20))
    first, second = s.stages["acc_sums_local"].leaves[:2]
    with pytest.raises(SternaError, match=r"E0302.*not the innermost axes"):
        s.from_tiles("acc_sums_local", first, second)
