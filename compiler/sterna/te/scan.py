"""Recurrence: stages with a serial time axis whose step reads the states of the step before.

    def step(h):  # h[t]: the state before step t
        k = reduce_axis("k", 64)
        product = compute("product", (100, 64), lambda t, j: total(h[t, k] * r[k, j], k))
        return (compute("h", (100, 64), lambda t, j: unary("tanh", x[t, j] + product[t, j])),)

    (h,) = scan("rnn", 100, init=(h0,), step=step)
    last = compute("last", (64,), lambda j: h[99, j])

Time is the first axis of every stage of the step, so that these are ordinary stages on whole sequences, and of the
tensor that stands for the state before each step, a leaf: a kernel stays a DAG for every pass. What closes the circle
is `Kernel.scan`, which pairs each such leaf with the stage that gives the next state and the one that gives the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sterna.ir.integer import Int, IntLike, as_int
from sterna.te.axis import Axis
from sterna.te.expr import Expr, Load, loads
from sterna.te.tensor import Carry, Scan, Tensor, compute


def scan(
    name: str,
    length: IntLike,
    init: Sequence[Tensor],
    step: Callable[..., tuple[Tensor, ...]],
    reverse: bool = False,
) -> tuple[Tensor, ...]:
    """The states after every step.

    Args:
        name: what the names of the stages and leaves made here begin with.
        length: number of steps.
        init: each state before the first step.
        step: from the states before each step, of shapes (length, *shape of the state), to those after it, of the same
            shapes. Its stages have time as their first axis, and read the states and each other at their own time only.
        reverse: time runs from length - 1 down to 0; the state before step t is that after step t + 1.
    """
    size = as_int(length)
    made = Scan(size, reverse)
    before = tuple(
        Tensor(f"{name}_before{n}", (size, *state.shape), state.dtype, scan=made) for n, state in enumerate(init)
    )
    starts = tuple(_start(f"{name}_start{n}", state) for n, state in enumerate(init))
    after = step(*before)
    carries = tuple(Carry(p, s, n) for p, s, n in zip(before, starts, after, strict=True))
    object.__setattr__(made, "carries", carries)
    for carry in carries:
        if carry.next.shape != carry.previous.shape or carry.next.dtype != carry.previous.dtype:
            raise ValueError(f"{carry.next!r} is no next state of {carry.start!r} in {size} steps")
    return after


def _start(name: str, state: Tensor) -> Tensor:
    return compute(name, state.shape, lambda *i: Load(state.dtype, tensor=state, indices=i))


def parts(scan: Scan, stages: Iterable[tuple[Tensor, Expr]]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Stages before the recurrence, those of its steps (sequences made of states at their own time included), and
    those after it. Of a single step, the last state is the whole sequence: what the next states need is the step.

    Args:
        stages: and their bodies, producers first.
    """
    stages = tuple(stages)
    needed = _needed(scan, stages) if scan.length == 1 else {stage.name for stage, _ in stages}
    before: list[Tensor] = []
    steps: list[Tensor] = []
    after: list[Tensor] = []
    inside = {carry.previous.name for carry in scan.carries}
    later: set[str] = set()
    for stage, body in stages:
        reads = [load for load in loads(body) if load.tensor.name in inside or load.tensor.name in later]
        if not reads:
            before.append(stage)
        elif stage.name in needed and all(
            load.tensor.name in inside and _at_own_time(scan, stage, load) for load in reads
        ):
            steps.append(stage)
            inside.add(stage.name)
        else:
            after.append(stage)
            later.add(stage.name)
    return before, steps, after


def _needed(scan: Scan, stages: Sequence[tuple[Tensor, Expr]]) -> set[str]:
    """The next states and the stages that they are made of."""
    needed = {carry.next.name for carry in scan.carries}
    for stage, body in reversed(stages):
        if stage.name in needed:
            needed |= {load.tensor.name for load in loads(body)}
    return needed


def _at_own_time(scan: Scan, stage: Tensor, load: Load) -> bool:
    if not stage.axes or stage.axes[0].extent != scan.length:
        return False
    return load.indices[0] == time_of(stage.axes[0])


def time_of(axis: Axis) -> Int:
    """The position along a time axis as stages write it: 0 where there is but one step."""
    return axis.var if axis.lo != axis.hi else as_int(0)
