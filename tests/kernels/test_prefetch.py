"""Weights that are asked for before they are read: which, that nothing else changes, and where it is done."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sterna.ir.integer import Int
from sterna.loops import interpreter
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import host, load_target
from sterna.te import expr as E
from sterna.te.interpreter import run_kernel
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total
from support import dot_products
from support.compiling import run_schedule
from support.small_kernels import arrays, interpreted

SERVER = load_target("x86-64-v4-vnni")


def convolution(size: int, cin: int, cout: int, taps: int = 3) -> Kernel:
    """Over an image that is padded already, and a rectifier."""
    x = placeholder("x", (size + taps - 1, size + taps - 1, cin))
    w = placeholder("w", (taps, taps, cin, cout))
    axes = h, v, c = reduce_axis("h", taps), reduce_axis("v", taps), reduce_axis("c", cin)

    def sums(i: Int, j: Int, o: Int) -> E.Expr:
        return total(x[i + h.var, j + v.var, c.var] * w[h.var, v.var, c.var, o], *axes)

    acc = compute("acc", (size, size, cout), sums)
    out = compute("out", (size, size, cout), lambda i, j, o: E.maximum(acc[i, j, o], 0.0))
    return Kernel("conv", (x,), (w,), (out,))


def asked(schedule: Schedule) -> list[P.Prefetch]:
    return [s for s in P.walk(lower(schedule).body) if isinstance(s, P.Prefetch)]


def test_the_last_layers_of_networks_ask_for_the_next_panel() -> None:
    """A panel of 512 channels at 7 x 7 is read seven times, the first time from memory."""
    assert len(asked(propose(convolution(7, 512, 512), Context(SERVER)))) == 1
    integers = dot_products.product(49, 512, 4608, "uint8")
    assert asked(propose(integers, Context(SERVER)))
    assert not asked(propose(convolution(7, 512, 512), Context(replace(SERVER, prefetches=False))))


@pytest.mark.parametrize(("size", "channels"), [(56, 64), (7, 64)])
def test_weights_that_stay_in_l2_are_not_asked_for(size: int, channels: int) -> None:
    assert not asked(propose(convolution(size, channels, channels), Context(SERVER)))


def test_each_panel_asks_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of it, each place once, and none of another."""
    kernel = convolution(4, 4, 256, taps=2)
    schedule = propose(kernel, Context(replace(SERVER, l2_bytes=8192)))
    panels, *within = (int(n) for n in schedule.packings["w"].packed.shape)
    size = int(np.prod(within))
    places: list[int] = []
    run = interpreter.Run.stmt

    def stmt(self: interpreter.Run, s: P.Stmt) -> None:
        if isinstance(s, P.Prefetch):
            places.append(self.position(s.index))
        run(self, s)

    monkeypatch.setattr(interpreter.Run, "stmt", stmt)
    feeds = arrays(kernel)
    found = interpreted(schedule, feeds)
    np.testing.assert_allclose(found, run_kernel(kernel, feeds)["out"], rtol=1e-4, atol=1e-4)
    by_panel = [sorted(p for p in places if p // size == n) for n in range(panels)]
    assert panels > 2
    assert not by_panel[0]
    for lines in by_panel[1:-1]:
        assert len(set(lines)) == len(lines)
        assert 16 * len({p // 16 for p in lines}) >= size / 2


@pytest.mark.parametrize(
    ("size", "cin", "cout", "taps", "generator"),
    [
        (2, 9, 40, 3, "llvm"),
        (5, 12, 33, 2, "llvm"),
        (9, 7, 120, 3, "llvm"),
        (7, 40, 90, 1, "llvm"),
        (7, 8, 100, 3, "c"),
    ],
)
def test_what_asks_computes_the_same(size: int, cin: int, cout: int, taps: int, generator: str) -> None:
    """Whatever the tile, with what is left over of rows and columns."""
    kernel = convolution(size, cin, cout, taps)
    schedule = propose(kernel, Context(host()))
    sums = schedule.stages["acc"]
    loop = next(n for n in sums.leaves if n in sums.reduction_leaves and n not in sums.annotations)
    schedule.prefetch("acc", loop, "w", "o.o", ["i", "j.o"])
    assert asked(schedule)
    finish(lower(schedule))  # which proves that every place lies within the weights
    feeds = arrays(kernel)
    found = run_schedule(schedule, {"x": feeds["x"]}, [feeds["w"]], generator)
    np.testing.assert_allclose(found["out"], run_kernel(kernel, feeds)["out"], rtol=1e-4, atol=1e-4)
