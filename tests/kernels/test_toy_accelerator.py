"""The accelerator that docs/targets.md declares in a user's file: a scratchpad, asynchronous copies, a product of 4 x 4
bytes. The interpreter runs its kernels, whenever copies happen; the verifier proves them; C computes the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sterna.bundle.writer import write_bundle
from sterna.errors import SternaError
from sterna.ir.graph import Graph
from sterna.loops import program as P
from sterna.loops import races
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.loops.races import verify_threads
from sterna.loops.threads import run_threads
from sterna.loops.verify import verify
from sterna.ops import Builder
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.target import Target
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel
from sterna_runtime import load
from support.compiling import compiled, input_value, run, run_schedule
from support.dot_products import arrays
from support.toy_accelerator import NAME, matrix_product, pointwise, staged, toy, turned

KERNELS = [
    pytest.param(matrix_product(8, 12, 16), id="product"),
    pytest.param(matrix_product(4, 4, 4), id="one block"),
    pytest.param(pointwise(3, 8, 8, 4), id="1 x 1"),
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    return toy(tmp_path_factory.mktemp("toy"))


def instructions(program: P.Function) -> list[P.Instruction]:
    return [s for s in P.walk(program.body) if isinstance(s, P.Instruction)]


def without_waits(s: P.Stmt) -> P.Stmt:
    return P.seq() if isinstance(s, P.Wait) else P.map_children(s, without_waits)


def interpreted(schedule: Schedule, program: P.Function, seed: int) -> Iterator[np.ndarray]:
    """The output with copies that happen at once, and at any time until they are waited for."""
    feeds = arrays(schedule.kernel, seed)
    stored = schedule.stored([feeds[p.name] for p in schedule.kernel.params])
    for order in (None, 1, 2, 3):
        memory = {b.name: a.reshape(-1) for b, a in zip(program.params, stored, strict=True)}
        memory |= {t.name: feeds[t.name].reshape(-1) for t in schedule.kernel.inputs}
        memory["out"] = np.zeros(program.outputs[0].elements, np.int32)
        run_threads(program, memory, order=None if order is None else np.random.default_rng(order))
        yield memory["out"]


@pytest.mark.parametrize("by", ["hand", "strategy"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_interpreter_and_c_agree(kernel: Kernel, by: str, target: Target) -> None:
    schedule = staged(kernel, target) if by == "hand" else propose(kernel, Context(target))
    program = finish(lower(schedule))
    text = print_function(program)
    assert f"= {NAME}(x_local[" in text
    assert "asynchronous" in text
    assert "wait for group" in text
    feeds = arrays(kernel, 7)
    expected = run_kernel(kernel, feeds)["out"]
    for found in interpreted(schedule, program, 7):
        np.testing.assert_array_equal(found, expected.reshape(-1))
    constants = [feeds[p.name] for p in kernel.params]
    found = run_schedule(schedule, {"x": feeds["x"]}, constants, "c", target=target)
    np.testing.assert_array_equal(found["out"], expected)


def test_a_missing_wait_is_refused(target: Target) -> None:
    schedule = staged(matrix_product(4, 4, 8), target)
    program = finish(lower(schedule))
    hasty = replace(program, body=without_waits(program.body))
    verify_threads(verify(program))
    with pytest.raises(SternaError) as caught:
        verify_threads(verify(hasty))
    assert set(caught.value.codes) == {"E0306"}
    assert "x_local is used before the copy of x to x_local is waited for" in str(caught.value)
    expected = run_kernel(schedule.kernel, arrays(schedule.kernel, 3))["out"].reshape(-1)
    assert any((found != expected).any() for found in interpreted(schedule, hasty, 3)), "it does go wrong"


def test_long_loops_are_proved(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many blocks to look at one by one: loops that wait are taken as a whole, those that begin copies are not."""
    monkeypatch.setattr(races, "MOST_COUNTED_WAITS", 0)
    program = finish(lower(staged(matrix_product(4, 4, 8), target)))
    with pytest.raises(SternaError, match="is used before the copy of"):
        verify_threads(replace(program, body=without_waits(program.body)))


def refused(schedule: Schedule) -> str:
    with pytest.raises(SternaError) as caught:
        finish(lower(schedule))
    (problem,) = caught.value.diagnostics
    return f"{problem.code} {problem.title}"


def test_an_operand_elsewhere_is_refused(target: Target) -> None:
    kernel = matrix_product(8, 8, 16)
    assert "E0309 kernel product: x lies in input" in refused(staged(kernel, target, x=""))
    assert "E0309 kernel product: w_local lies in scratch" in refused(staged(kernel, target, w="scratch"))


def test_a_scratchpad_that_is_too_small_is_refused(tmp_path: Path) -> None:
    """Two blocks of 16 bytes, each at a multiple of 64."""
    kernel = matrix_product(8, 8, 16)
    finish(lower(staged(kernel, toy(tmp_path, ("bytes = 1024", "bytes = 80")))))
    small = toy(tmp_path, ("bytes = 1024", "bytes = 79"))
    assert refused(staged(kernel, small)).startswith("E0307 kernel product: w_local does not fit")
    assert "tensorize" not in [s.primitive for s in propose(kernel, Context(small)).steps]


def test_a_wrong_extent_is_refused(target: Target) -> None:
    kernel = matrix_product(10, 8, 16)
    assert "E0303" in refused(staged(kernel, target))
    with pytest.raises(SternaError, match=r"E0302[\s\S]*i\.i does not have 4 iterations"):
        staged(matrix_product(8, 8, 16), target, rows=8)
    assert "tensorize" not in [s.primitive for s in propose(kernel, Context(target)).steps]


def test_the_strategy_asks_what_is_faster(target: Target, tmp_path: Path) -> None:
    """64 products in 4 cycles and 2 for the copies; vectors of 16 take 64 of them in two cycles."""
    kernel = matrix_product(8, 8, 16)
    slow = toy(tmp_path, ("cycles = 4.0", "cycles = 400.0"))
    wide = toy(tmp_path, ("vector_bits = 0\n", ""), ('dialect = "plain"', 'dialect = "vector"'))
    for other in (slow, wide) if wide.vector_bits >= 512 else (slow,):
        assert NAME not in [s.arguments[-1] for s in propose(kernel, Context(other)).steps if s.arguments]
    steps = propose(kernel, Context(target)).steps
    again = saved.apply(kernel, saved.from_json(saved.to_json(propose(kernel, Context(target)).steps)),
                           target.known_intrinsics, target.memories)  # fmt: skip
    assert again.steps == steps


def test_the_strategy_fits_random_kernels(target: Target) -> None:
    """Whatever the sizes and the order of dimensions, what it proposes becomes loops that compute the same."""
    random, used = np.random.default_rng(11), 0
    for seed in range(12):
        m, n, depth = (int(size) for size in random.choice([2, 4, 6, 8, 12], 3))
        kernel = turned(m, n, depth, *(bool(flag) for flag in random.integers(0, 2, 3)))
        schedule = propose(kernel, Context(target))
        program = finish(lower(schedule))
        used += len(instructions(program)) > 0
        feeds = arrays(kernel, seed)
        memory = {t.name: feeds[t.name].reshape(-1) for t in kernel.inputs}
        memory |= {b.name: a.reshape(-1) for b, a in zip(program.params, schedule.stored([feeds["w"]]), strict=True)}
        memory["out"] = np.zeros(m * n, np.int32)
        run_function(program, memory)
        np.testing.assert_array_equal(memory["out"].reshape(m, n), run_kernel(kernel, feeds)["out"])
    assert 1 <= used < 12


def test_a_model_runs_on_it(target: Target, tmp_path: Path) -> None:
    """Whole graphs: the kernels whose sizes fit use the instruction, the others do not, and all compute the same."""
    random = np.random.default_rng(3)
    x = random.integers(-128, 128, (1, 6, 8, 8)).astype(np.int8)
    b = Builder()
    v = input_value(b, x)
    weights = [b.constant(random.integers(-9, 9, shape).astype(np.int8)) for shape in ((1, 1, 8, 12), (3, 3, 12, 5))]
    attributes = {"strides": (1, 1), "dilations": (1, 1), "groups": 1}
    y = b.add("conv_integer", v, weights[0], **attributes)
    y = b.add("conv_integer", b.add("cast", y, to="int8"), weights[1], **attributes)
    graph = Graph("g", (v,), (y,), tuple(b.nodes), ("y",))
    made = compiled(graph, target)
    assert [len(instructions(k.function)) for k in made.kernels].count(1) == 1
    assert "toy_mac4(" in made.source
    plain = run(graph, {"x": x}, tmp_path / "plain")
    with load(write_bundle(made, tmp_path / "toy")) as bundle:
        np.testing.assert_array_equal(bundle.run({"x": x})["y"], plain["y"])
