"""Weights of 8 bits stored two by two in 16: the sums are those of the weights as they were, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.loops.finish import finish
from sterna.loops.interpreter import run_function
from sterna.loops.lower import lower
from sterna.schedule import saved
from sterna.schedule.decisions import Step
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, KnownWeights, propose
from sterna.targets.description import load_target
from sterna.te.couples import MOST_SUM
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, placeholder
from support.dot_products import arrays, product

KNOWN = KnownWeights(frozenset({"w"}), frozenset({("w", ""), ("w", "b")}))


def run(schedule: Schedule, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """What the loops give, before and after they are finished."""
    kernel = schedule.kernel
    (out,) = kernel.outputs
    stored = schedule.stored([feeds[p.name] for p in kernel.params])
    found = []
    for program in (lower(schedule), finish(lower(schedule))):
        memory = {b.name: a.reshape(-1) for b, a in zip(program.params, stored, strict=True)}
        memory |= {t.name: feeds[t.name].reshape(-1) for t in kernel.inputs}
        memory[out.name] = np.zeros([int(n) for n in out.shape], out.dtype).reshape(-1)
        run_function(program, memory)
        found.append(memory[out.name])
    np.testing.assert_array_equal(*found)
    return found[0]


def symmetric(kernel: Kernel, seed: int) -> dict[str, np.ndarray]:
    """Feeds whose weights have no -128."""
    feeds = arrays(kernel, seed)
    return {**feeds, "w": np.maximum(feeds["w"], -127)}


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(
    m=st.integers(1, 3),
    n=st.integers(2, 9),
    depth=st.integers(1, 24).map(lambda half: 2 * half),
    bias=st.booleans(),
    seed=st.integers(0, 999),
)
def test_sums_over_couples(m: int, n: int, depth: int, bias: bool, seed: int) -> None:
    """Without an intrinsic, and as a strategy takes one, with the bias in the same constant and apart."""
    kernel = product(m, n, depth, "int8")
    feeds = symmetric(kernel, seed)
    wanted = run_kernel(kernel, feeds)["out"].reshape(-1)
    plain = Schedule(kernel)
    plain.couple("acc", "w", "k", *(["b"] if bias else []))
    plain.compute_at("acc", "out", "j", "register")
    np.testing.assert_array_equal(run(plain, feeds), wanted)
    known = KNOWN if bias else KnownWeights(KNOWN.symmetric, frozenset({("w", "")}))
    proposed = propose(kernel, Context(load_target("cortex-m4"), known=known))
    np.testing.assert_array_equal(run(proposed, feeds), wanted)


def test_the_widest_sums() -> None:
    """As great and as small as 24 bits hold."""
    kernel = product(1, 2, 516, "int8")
    for x, w in ((-128, 127), (-128, -127), (127, 127)):
        sums = 516 * x * w
        room = MOST_SUM - abs(sums)
        feeds = {"x": np.full((1, 516), x, np.int8), "w": np.full((516, 2), w, np.int8)}
        feeds["b"] = np.full(2, room if sums > 0 else -room, np.int32)
        schedule = Schedule(kernel)
        schedule.couple("acc", "w", "k", "b")
        schedule.compute_at("acc", "out", "j", "register")
        assert abs(sums + int(feeds["b"][0])) == MOST_SUM
        np.testing.assert_array_equal(run(schedule, feeds), sums + feeds["b"])


def takes(kernel: Kernel, known: KnownWeights, target: str = "cortex-m4") -> bool:
    """Whether the strategies couple weights."""
    steps = propose(kernel, Context(load_target(target), known=known)).steps
    return any(step.primitive == "couple" for step in steps)


def test_when_it_is_proposed() -> None:
    one = product(1, 8, 64, "int8")
    assert takes(one, KNOWN)
    assert not takes(one, KNOWN, "cortex-m0plus")
    assert not takes(one, KnownWeights())
    assert not takes(one, KnownWeights(KNOWN.symmetric))
    assert not takes(one, KnownWeights(light=KNOWN.light))
    assert not takes(product(1, 8, 63, "int8"), KNOWN)
    assert not takes(product(1, 8, 64, "uint8"), KNOWN)


def refusal(kernel: Kernel, *steps: Step) -> str:
    with pytest.raises(SternaError) as caught:
        saved.apply(kernel, steps)
    (problem,) = caught.value.diagnostics
    assert problem.code == "E0302"
    return problem.title


def test_what_couple_refuses() -> None:
    kernel = product(2, 8, 16, "int8")
    step = Step("couple", "acc", ("w", "k", "b"))
    again = saved.apply(kernel, saved.from_json(saved.to_json([step])))
    assert again.steps == (step,)
    assert [t.name for t in map(again.stored_tensor, kernel.params)] == ["w_coupled", "b_corrected"]
    assert "not a sum of products" in refusal(kernel, Step("couple", "out", ("w", "k")))
    assert "not a constant" in refusal(kernel, Step("couple", "acc", ("x", "k")))
    assert "even extent" in refusal(kernel, Step("couple", "acc", ("w", "i")))
    assert "even extent" in refusal(product(2, 8, 15, "int8"), step)
    assert "multiplies uint8" in refusal(product(2, 8, 16, "uint8"), step)
    assert "changed already" in refusal(kernel, Step("split", "acc", ("k", 4)), step)
    assert "not one constant" in refusal(kernel, Step("couple", "acc", ("w", "k", "w")))
    alone = Kernel("alone", kernel.inputs, kernel.params[:1], (kernel.tensor("acc"),))
    assert "no reader" in refusal(alone, Step("couple", "acc", ("w", "k")))
    free = Kernel("free", (*kernel.inputs, kernel.params[0]), kernel.params[1:], kernel.outputs)
    assert "not a constant" in refusal(free, step)


def test_other_constants_stay() -> None:
    """Only what is added to the sums and read nowhere else becomes one with what is taken off."""
    kernel = product(2, 8, 16, "int8")
    assert Schedule(kernel).addend("acc") == "b"
    assert Schedule(kernel).addend("out") == ""
    other = placeholder("b", (8,), "int32")
    assert Schedule(Kernel("read", (*kernel.inputs, other), kernel.params[:1], kernel.outputs)).addend("acc") == ""
