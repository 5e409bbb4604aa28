"""Loops over taps that begin and end where a tile reads what is not padding: the step, and convolutions that use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.ir.extremum import maximum, minimum
from sterna.ir.graph import Graph
from sterna.ir.integer import Int
from sterna.loops import interpreter
from sterna.loops import program as P
from sterna.ops import Builder
from sterna.passes.fuse import fuse
from sterna.passes.padded import find_padded
from sterna.passes.partition import Partition
from sterna.passes.views import Views
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support.compiling import build, check, compiled, input_value
from support.small_kernels import arrays, interpreted, run


def windows(size: int, before: int, after: int, taps: int, step: int = 1, rate: int = 1, value: float = 0.0) -> Kernel:
    """Sums over windows of a padded row, times weights."""
    x, w = placeholder("x", (size, 3)), placeholder("w", (taps, 3, 4))

    def pad(i: Int, c: Int) -> Expr:
        inside = E.in_range(i - before, size)
        assert inside is not None
        return E.select(inside, x[maximum(minimum(i - before, size - 1), 0), c], value)

    padded = compute("padded", (before + size + after, 3), pad)
    k, ci = reduce_axis("k", taps), reduce_axis("ci", 3)
    count = (before + size + after - (taps - 1) * rate - 1) // step + 1

    def element(i: Int, c: Int) -> Expr:
        return total(padded[i * step + k.var * rate, ci.var] * w[k.var, ci.var, c], k, ci)

    sums = compute("sums", (count, 4), element, ["i", "c"])
    out = compute("out", (count, 4), lambda i, c: sums[i, c] + 1.0, ["i", "c"])
    return Kernel("windows", (x,), (w,), (out,))


def clipped(kernel: Kernel, rows: int, inlined: bool = False) -> Schedule:
    s = Schedule(kernel)
    outer, _ = s.split("out", "i", rows)
    s.compute_at("sums", "out", outer, "stack")
    s.reorder("sums", "k", "ci", "i", "c")
    if inlined:
        s.inline("padded")
    else:
        s.reorder("out", "c", outer, "i.i")
        s.compute_at("padded", "out", "c", "scratch")
        s.partition("padded", "i")
    s.clip("sums", "k")
    return s


@pytest.mark.parametrize("inlined", [False, True])
@pytest.mark.parametrize(
    ("size", "before", "after", "taps", "step", "rate", "rows"),
    [
        (9, 8, 8, 17, 1, 1, 4),
        (9, 8, 7, 16, 1, 1, 3),
        (10, 5, 9, 6, 2, 2, 2),
        (3, 20, 30, 5, 1, 1, 4),  # tiles that read padding alone
        (4, 9, 3, 4, 3, 2, 1),
        (6, 0, 5, 5, 1, 1, 100),
    ],
)
def test_loops_over_taps_leave_out_padding(
    size: int, before: int, after: int, taps: int, step: int, rate: int, rows: int, inlined: bool
) -> None:
    kernel = windows(size, before, after, taps, step, rate)
    feeds = arrays(kernel)
    found = interpreted(clipped(kernel, rows, inlined), feeds)
    np.testing.assert_allclose(found, run_kernel(kernel, feeds)["out"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_loops_that_may_not_run_at_all(generator: str) -> None:
    run(clipped(windows(3, 20, 30, 5), 4), generator)


def test_each_tile_runs_the_taps_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """17 taps over 9 positions and 8 zeros at either end, four results a tile: 12 taps twice, and 9 for the last."""
    s = clipped(windows(9, 8, 8, 17), 4)
    counted: list[int] = []
    execute = interpreter.Run.stmt

    def stmt(self: interpreter.Run, statement: P.Stmt) -> None:
        if isinstance(statement, P.For) and statement.symbol.name.startswith("sums_k"):
            counted.append(self.position(statement.extent))
        execute(self, statement)

    monkeypatch.setattr(interpreter.Run, "stmt", stmt)
    interpreted(s, arrays(s.kernel))
    assert counted == [12, 12, 9] * 4


ILLEGAL: dict[str, Callable[[], Any]] = {
    "no reduction": lambda: Schedule(windows(9, 8, 8, 17)).clip("out", "i"),
    "no such axis": lambda: Schedule(windows(9, 8, 8, 17)).clip("sums", "q"),
    "not padded along it": lambda: Schedule(windows(9, 8, 8, 17)).clip("sums", "ci"),
    "not zero": lambda: Schedule(windows(9, 8, 8, 17, value=1.0)).clip("sums", "k"),
}


@pytest.mark.parametrize("action", ILLEGAL.values(), ids=ILLEGAL.keys())
def test_illegal_clips_are_coded(action: Callable[[], Any]) -> None:
    with pytest.raises(SternaError) as caught:
        action()
    assert caught.value.diagnostics[0].code == "E0302"


# ---------------------------------------------------------------- convolutions in groups
def row(size: int, taps: int, groups: int = 4, channels: int = 16, weight: float = 1.0, batch: int = 1) -> Graph:
    """A convolution of a row as long as before."""
    b = Builder()
    x = input_value(b, np.zeros((batch, size, groups * channels), np.float32))
    ends = {"before": (0, taps // 2, 0), "after": (0, (taps - 1) // 2, 0)}
    padded = b.add("pad", b.add("relu", x), mode="constant", value=0.0, **ends)
    w = b.constant(np.full((taps, channels, groups * channels), weight, np.float32))
    y = b.add("conv", padded, w, strides=(1,), dilations=(1,), groups=groups)
    return Graph("row", (x,), (y,), tuple(b.nodes))


def padded_in(graph: Graph, target: Target) -> int:
    """How many kernels pad what they add up."""
    views = Views(written={node: (False,) for node in graph.nodes if node.op == "pad"})
    return len(find_padded(Partition(graph, views, fuse(graph, views)), target))


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (row(199, 128), True),
        (row(199, 9), False),  # of few taps too few read padding
        (row(199, 128, groups=1), False),
        (row(199, 128, channels=1), False),
        (row(199, 128, weight=float("nan")), False),
        (row(9000, 8000), False),  # a padded row that L2 does not hold
        (row(199, 128, groups=3), False),  # for two workers
    ],
)
def test_long_windows_in_groups_are_padded_by_their_kernel(graph: Graph, expected: bool) -> None:
    target = replace(load_target("x86-64-v4"), cores=2)
    assert padded_in(graph, target) == expected


def test_their_loops_over_taps_are_clipped_and_read_weights_in_order() -> None:
    target = replace(load_target("x86-64-v4"), cores=1)
    kernels = [c.kernel for c in compiled(row(40, 32), target, "llvm").calls if isinstance(c.kernel, Kernel)]
    schedules = [propose(k, Context(target)) for k in kernels]
    steps = [(s.primitive, s.arguments) for schedule in schedules for s in schedule.steps]
    assert ("clip", ("kw",)) in steps
    assert "partition" in dict(steps)
    # Weights are taps, channels, groups, columns: those of a group are read one after the other.
    (packing,) = (p for schedule in schedules for p in schedule.packings.values())
    assert packing.order == ((2, ""), (3, "o"), (0, ""), (1, ""), (3, "i"))


def rows_in_groups(count: int, seed: int) -> tuple[Graph, dict[str, np.ndarray]]:
    """Windows with odd pads, strides and rates, among them tiles that read padding alone."""
    random, b = np.random.default_rng(seed), Builder()
    inputs, outputs, feeds = [], [], {}
    for _ in range(count):
        size, taps, groups = int(random.integers(1, 60)), int(random.integers(8, 40)), int(random.choice([2, 4]))
        channels, columns = int(random.choice([2, 3, 8])), int(random.choice([16, 17, 50]))
        rate, stride = (int(n) for n in random.integers(1, 3, 2))
        span = (taps - 1) * rate + 1
        before = int(random.integers(8, span + 20))
        after = max(span - size - before, 0) + int(random.integers(0, 40))
        data = random.standard_normal((random.integers(1, 3), size, groups * channels)).astype(np.float32)
        inputs.append(input_value(b, data))
        feeds[inputs[-1].name] = data
        ends = {"before": (0, before, 0), "after": (0, after, 0)}
        padded = b.add("pad", inputs[-1], mode="constant", value=0.0, **ends)
        w = b.constant(random.standard_normal((taps, channels, groups * columns)).astype(np.float32))
        y = b.add("conv", padded, w, strides=(stride,), dilations=(rate,), groups=groups)
        outputs.append(b.add("relu", y))
    return Graph("rows", tuple(inputs), tuple(outputs), tuple(b.nodes)), feeds


KINDS: dict[str, tuple[str, Target]] = {
    "shared": ("llvm", replace(host(), cores=2, share_cycles=1)),
    "narrow": ("llvm", replace(host(), vector_bits=128, vector_registers=16)),
    "plain": ("c", replace(host(), dialect="plain", vector_bits=0)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_groups_are_compiled(kind: str, tmp_path: Path) -> None:
    generator, target = KINDS[kind]
    graph, feeds = rows_in_groups(2, list(KINDS).index(kind))
    assert padded_in(graph, target)
    with build(graph, tmp_path / "bundle", target, generator, 2) as bundle:
        check(bundle.run(feeds), interpret(graph, feeds))
