"""Schedules drawn at random: what is lowered is right."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from support.small_kernels import matmul, pointwise, row_sums, run, window

#: What lowering may say of a schedule that it cannot make loops of; accesses that it cannot prove are among it.
REFUSALS = ("E0303", "E0304", "E0305")
MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))
fixed = settings(
    max_examples=20 * MORE, deadline=None, derandomize=MORE == 1, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31])


def shuffle(draw: Any, s: Schedule, stage: str, splits: int = 3) -> None:
    """Splits, fuses and reorders the axes of a stage at random."""
    for _ in range(draw(st.integers(0, splits))):
        leaves = s.stages[stage].leaves
        leaf = draw(st.sampled_from(leaves))
        if draw(st.booleans()) or len(leaves) < 2:
            if leaf.count(".") < 2:
                s.split(stage, leaf, draw(st.sampled_from([1, 2, 3, 4, 5, 8, 16])))
        else:
            at = draw(st.integers(0, len(leaves) - 2))
            snapshot = saved.apply(s.kernel, s.steps)
            try:
                snapshot.fuse(stage, leaves[at], leaves[at + 1])
            except SternaError:
                continue
            s.fuse(stage, leaves[at], leaves[at + 1])
    if draw(st.booleans()):
        s.reorder(stage, *draw(st.permutations(s.stages[stage].leaves)))


def annotate(draw: Any, s: Schedule, stage: str, output: bool) -> None:
    """Marks the innermost axis as lanes, the outermost as tasks, another to be written out."""
    state = s.stages[stage]
    if draw(st.booleans()) and state.leaves[-1] not in state.reduction_leaves:
        s.vectorize(stage, state.leaves[-1])
    outer = state.leaves[0]
    if output and draw(st.booleans()) and outer not in state.annotations and outer not in state.reduction_leaves:
        s.parallel(stage, outer)
    free = [leaf for leaf in state.leaves if leaf not in state.annotations]
    if free and draw(st.booleans()):
        axis = draw(st.sampled_from(free))
        if draw(st.booleans()):
            s.unroll(stage, axis)
        else:
            s.by_lane(stage, axis, draw(st.sampled_from([2, 4, 8])))


def small(s: Schedule) -> bool:
    """Whether unrolled code stays of a size that compiles in a moment."""
    return sum(1 for _ in P.walk(finish(lower(s)).body)) < 4000


def right_or_refused(s: Schedule, draw: Any) -> None:
    try:
        fits = small(s)
    except SternaError as problem:
        if problem.diagnostics[0].code not in REFUSALS:
            raise
        event("refused")
        return
    event("compiled" if fits else "too large")
    if not fits:
        return
    run(s, draw(st.sampled_from(["llvm", "llvm", "llvm", "c"])), draw(st.sampled_from([1, 2])))


@fixed
@given(st.data())
def test_random_pointwise(data: st.DataObject) -> None:
    draw = data.draw
    s = Schedule(pointwise(*(draw(SIZES) for _ in range(draw(st.integers(1, 3))))))
    shuffle(draw, s, "out", 4)
    if draw(st.booleans()):
        s.inline("mid")
    else:
        shuffle(draw, s, "mid")
        s.compute_at(
            "mid", "out", draw(st.sampled_from(s.stages["out"].leaves)), draw(st.sampled_from(["stack", "scratch"]))
        )
        annotate(draw, s, "mid", False)
    annotate(draw, s, "out", True)
    right_or_refused(s, draw)


@fixed
@given(st.data())
def test_random_matmul(data: st.DataObject) -> None:
    draw = data.draw
    constant = draw(st.booleans())
    kernel = matmul(draw(SIZES), draw(SIZES), draw(SIZES), constant)
    s = Schedule(kernel)
    shuffle(draw, s, "out", 4)
    shuffle(draw, s, "acc", 4)
    s.compute_at(
        "acc",
        "out",
        draw(st.sampled_from(s.stages["out"].leaves)),
        draw(st.sampled_from(["stack", "scratch", "register"])),
    )
    if draw(st.booleans()):
        tensor = draw(st.sampled_from(["x", "w"]))
        copy = s.cache_read(tensor, "acc")
        shuffle(draw, s, copy, 2)
        consumer = draw(st.sampled_from(["acc", "out"]))
        s.compute_at(copy, consumer, draw(st.sampled_from(s.stages[consumer].leaves)), "scratch")
        annotate(draw, s, copy, False)
    elif constant and draw(st.booleans()):
        s.pack("w", {1: draw(st.sampled_from([2, 4, 8]))}, [(1, "o"), (0, ""), (1, "i")])
    annotate(draw, s, "acc", False)
    annotate(draw, s, "out", True)
    right_or_refused(s, draw)


@fixed
@given(st.data())
def test_random_windows(data: st.DataObject) -> None:
    draw = data.draw
    s = Schedule(window(draw(SIZES), draw(st.integers(1, 4)), draw(SIZES), draw(st.integers(1, 2))))
    acc = "out"
    if draw(st.booleans()):
        acc = s.cache_write("out")
        shuffle(draw, s, "out", 3)
        s.compute_at(acc, "out", draw(st.sampled_from(s.stages["out"].leaves)), "scratch")
        annotate(draw, s, "out", True)
    shuffle(draw, s, acc, 3)
    if draw(st.booleans()):
        s.inline("scaled")
    else:
        shuffle(draw, s, "scaled", 2)
        s.compute_at("scaled", acc, draw(st.sampled_from(s.stages[acc].leaves)), "scratch")
        annotate(draw, s, "scaled", False)
    annotate(draw, s, acc, acc == "out")
    right_or_refused(s, draw)


@fixed
@given(st.data())
def test_random_factored_reductions(data: st.DataObject) -> None:
    draw = data.draw
    s = Schedule(row_sums(draw(SIZES), draw(SIZES), draw(st.sampled_from(["sum", "max"]))))
    acc = s.cache_write("out")
    shuffle(draw, s, "out", 2)
    place = draw(st.sampled_from(s.stages["out"].leaves))
    s.split(acc, "k", draw(st.sampled_from([2, 4, 8])))
    partial = s.rfactor(acc, "k.i")
    s.compute_at(partial, "out", place, "scratch")
    s.compute_at(acc, "out", place, "scratch")
    if draw(st.booleans()):
        s.reorder(partial, *draw(st.permutations(s.stages[partial].leaves)))
    annotate(draw, s, partial, False)
    annotate(draw, s, acc, False)
    right_or_refused(s, draw)
