"""What the cost model is told of a schedule, beside the loops that lowering makes of it."""

from __future__ import annotations

import random
from math import prod

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.choices import Trace
from sterna.errors import SternaError
from sterna.loops import program as P
from sterna.schedule.schedule import Schedule
from sterna.targets.description import load_target
from sterna.targets.target import Target
from sterna.tuning import kernels
from sterna.tuning.features import features_of
from sterna.tuning.kernels import Task
from sterna.tuning.tiling import Tiling
from support.counted_kernels import KERNELS
from support.wrong_description import task_of

TARGETS = ("x86-64-v4", "x86-64-v2", "arm64")


def drawn(task: Task, seed: int) -> Schedule | None:
    """A schedule by choices drawn at random; None where the strategies refuse them."""
    rng = random.Random(seed)
    try:
        return task.schedule(Trace(lambda knob: rng.choice(knob.values)))
    except SternaError:
        return None


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(KERNELS)), st.sampled_from(TARGETS), st.integers(0, 1 << 20))
def test_tiles_are_as_large_as_lowering_makes_them(name: str, target: str, seed: int) -> None:
    """The largest buffer that each stage has, in elements."""
    task = task_of(name, load_target(target))
    schedule = drawn(task, seed)
    if schedule is None:
        return
    try:
        function = kernels.lowered(task, schedule)
    except SternaError:
        return
    made: dict[str, int] = {}
    for stmt in P.walk(function.body):
        if isinstance(stmt, P.Alloc):
            made[stmt.buffer.name] = max(made.get(stmt.buffer.name, 0), stmt.buffer.elements)
    nests = Tiling(schedule).nests
    found = {name: prod(nests[name].shape) for name in made if name in nests}
    assert found == {name: made[name] for name in found}
    assert len(features_of(schedule, load_target(target))) == len(features_of(task.schedule(), load_target(target)))


@pytest.mark.parametrize("name", ["matmul", "matrix_vector"])
def test_every_term_of_a_product_is_counted_once(name: str) -> None:
    """However it is tiled, tails included: the nest in which the terms are added runs once for each."""
    task = task_of(name, load_target("x86-64-v4"))
    for seed in range(20):
        schedule = drawn(task, seed)
        if schedule is None or any("_rf" in stage for stage in schedule.stages):
            continue
        nests = Tiling(schedule).nests.values()
        runs = max(n.runs * prod(n.extents[leaf] for leaf in n.stage.leaves) for n in nests)
        assert runs == pytest.approx(task.multiply_adds)


def test_features_tell_a_spilled_tile_from_one_in_registers() -> None:
    """Both compute as much; the larger tile loads less and holds more."""

    def known(target: Target, tile: tuple[int, int]) -> tuple[float, ...]:
        task = task_of("matmul", target)
        trace = Trace(lambda knob: tile if knob.name == "tile" and tile in knob.values else knob.default)
        return features_of(task.schedule(trace), target)

    target = load_target("x86-64-v4")
    small, large = known(target, (1, 1)), known(target, (8, 2))
    elements, loads, registers = 1, 2, 12
    assert small[elements] == pytest.approx(large[elements], abs=0.1)
    assert small[loads] > large[loads]
    assert small[registers] < large[registers]
