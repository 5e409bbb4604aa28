"""Memories of a microcontroller are given out by how often kernels touch what lies there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from sterna.api import compile_model, compile_to
from sterna.driver import Compiled
from sterna.ir.memory import Memory
from sterna.loops.traffic import traffic
from sterna.passes.memory_plan import traffic_of
from sterna.passes.pools import Life, lay_out
from support import boards
from support.trained import trained


def memory(name: str, size: int, speed: float) -> Memory:
    return Memory(name, "device", bytes=size, alignment=8, bytes_per_cycle=speed)


def life(size: int, first: int, last: int, touches: float) -> Life:
    return Life((), size, first, last, touches)


def test_what_waits_least_is_kept() -> None:
    """By touches of a byte the small buffer takes the room that the large one, of more traffic, needs."""
    fast, slow = memory("fast", 1024, 2.0), memory("slow", 1 << 16, 1.0)
    lives = [life(64, 0, 1, 3.0), life(1024, 0, 1, 2.0)]
    places, pools = lay_out(lives, [fast, slow], 8)
    assert [pools[pool].name for pool, _ in places] == ["slow", "fast"]
    lives[0] = life(64, 0, 1, 300.0)
    places, pools = lay_out(lives, [slow, fast], 8)
    assert [pools[pool].name for pool, _ in places] == ["fast", "slow"]


def placed(compiled: Compiled) -> dict[str, tuple[str, float]]:
    """Memory and touches of a word, of the buffer of each value."""
    plan = compiled.plan
    return {v.name: (plan.pools[plan.pool_of[v]].name, each.touches) for each in plan.lives for v in each.members}


def test_accesses_are_those_of_the_loops() -> None:
    """Counted by hand: of a scalar loop each element once."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[50] x) => (float[50] y) { y = Neg(x) }'
    model = onnx.parser.parse_model(text)
    compiled = compile_model(model, "cortex-m4")
    (kernel,) = compiled.kernels
    assert {buffer.scope.name: n for buffer, n in traffic(kernel.function).items()} == {"input": 50, "output": 50}


@pytest.mark.parametrize("model", ["mlperf_tiny_kws_int8", "mlperf_tiny_resnet_int8"])
def test_the_fast_memory_takes_more_than_its_share(model: str, tmp_path: Path) -> None:
    """Of the words that a run moves, more than its share of the bytes; and results are the same."""
    found = trained(model)
    given = {"pools": {"fast": 12 << 10, "slow": 64 << 10}, "shapes": found.shapes()}
    compiled = compile_model(found.file, "cortex-m4", **given)  # type: ignore[arg-type]
    plan = compiled.plan
    sizes = {pool.name: pool.bytes for pool in plan.pools}
    words = dict(zip(sizes, plan.words, strict=True))
    every = sum(words.values())
    assert words["fast"] / every > sizes["fast"] / sum(sizes.values())
    assert all(touches >= 1 for _, touches in placed(compiled).values())
    bundle = compile_to(tmp_path / "bundle", found.file, "cortex-m4", **given)  # type: ignore[arg-type]
    shares = re.findall(r"/\* (\w+): (\d+) % of what", (bundle / "model.h").read_text())
    assert [(name, int(n)) for name, n in shares] == [(n, round(100 * w / every)) for n, w in words.items()]
    case = found.cases[0]
    got = boards.run_on_board(bundle, list(case.inputs.values()), case.outputs)
    for array, wanted in zip(got, case.outputs, strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_scratch_is_counted_by_its_call() -> None:
    """The totals by pool are those of calls: nothing that lies in a memory is left out or counted twice."""
    found = trained("mlperf_tiny_kws_int8")
    compiled = compile_model(found.file, "cortex-m4", shapes=found.shapes(), pools={"fast": 9 << 10, "slow": 64 << 10})
    functions = [compiled.kernels[k].function for k in compiled.kernel_of]
    moved = traffic_of(compiled.calls, functions, compiled.views, compiled.control)
    inside = {v for each in compiled.plan.lives for v in each.members}
    total = sum(moved.scratch) + sum(n for v, n in moved.values.items() if v in inside)
    assert sum(moved.scratch) > 0
    assert sum(compiled.plan.words) == pytest.approx(total / 4, abs=2)
