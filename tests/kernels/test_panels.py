"""Constants that are fetched by panels: the kernel computes the same, whenever a fetch that is under way happens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.errors import SternaError
from sterna.ir.memory import REGISTER, SCRATCH
from sterna.loops import program as P
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.panels import Panels, fetched, fetches
from sterna.loops.races import verify_threads
from sterna.loops.threads import run_threads
from sterna.passes.stream_weights import streamed
from sterna.schedule.schedule import Schedule
from sterna.targets.description import load_target
from sterna.targets.target import Flash, Target
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total


def product(rows: int, columns: int, depth: int, per_row: bool = True) -> P.Function:
    """(2 x) w + b with a row of 2 x in scratch: channels inside of rows, or with `per_row` false rows in channels."""
    x, w, b = placeholder("x", (rows, depth)), placeholder("w", (columns, depth)), placeholder("b", (columns,))
    k = reduce_axis("k", depth)
    wide = compute("wide", (rows, depth), lambda i, d: x[i, d] * 2.0)
    acc = compute("acc", (rows, columns), lambda i, j: total(wide[i, k.var] * w[j, k.var], k))
    out = compute("out", (rows, columns), lambda i, j: acc[i, j] + b[j])
    s = Schedule(Kernel("product", (x,), (w, b), (out,)))
    if not per_row:
        s.reorder("out", "j", "i")
    s.compute_at("acc", "out", "j" if per_row else "i", REGISTER)
    s.compute_at("wide", "out", "i", SCRATCH)
    return lower(s)


def results(function: P.Function, seed: int | None) -> np.ndarray:
    """By the interpreter; with a seed what is fetched while the kernel computes comes at random times."""
    random = np.random.default_rng(3)
    memory = {
        b.name: random.standard_normal(b.elements).astype(np.float32) for b in (*function.inputs, *function.params)
    }
    (out,) = function.outputs
    memory[out.name] = np.zeros(out.elements, np.float32)
    run_threads(function, memory, order=None if seed is None else np.random.default_rng(seed))
    return memory[out.name]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 6), st.booleans(), st.booleans(), st.data())
def test_every_way_gives_the_same(
    rows: int, columns: int, depth: int, per_row: bool, doubled: bool, data: st.DataObject
) -> None:
    plain = product(rows, columns, depth, per_row)
    wanted = results(finish(plain), None)
    param = data.draw(st.sampled_from(plain.params))
    panels = data.draw(st.sampled_from(list(Panels.of(plain, param, doubled))))
    function = finish(fetched(plain, panels, 0))
    assert {copy.source for copy in fetches(function)} == {param}
    for seed in (None, 0, 1):
        np.testing.assert_array_equal(results(function, seed), wanted)


def test_panels_divide_the_loop_over_channels() -> None:
    function = product(3, 12, 4)
    weights, bias = function.params
    assert [panels.count for panels in Panels.of(function, weights, doubled=False)] == [1, 2, 3, 4, 6, 12]
    assert [panels.count for panels in Panels.of(function, weights, doubled=True)] == [1, 2, 4, 6, 12]
    (_, halves, *_) = Panels.of(function, weights, doubled=True)
    assert halves.bytes == 2 * halves.elements * 4 == weights.elements * 4
    assert [panels.count for panels in Panels.of(function, bias, doubled=False)] == [1, 2, 3, 4, 6, 12]


def test_what_is_read_beside_the_loop_must_not_be_overwritten() -> None:
    """`wide` is made of x again for every panel: x must last. As a whole, nothing is done again."""
    function = product(3, 12, 4)
    assert [panels.count for panels in Panels.of(function, function.params[0], False, in_place=(0,))] == [1]


def test_a_constant_that_is_read_along_two_loops_comes_as_a_whole() -> None:
    """Every pair of its elements is wanted, of which two may lie in different panels."""
    x, w = placeholder("x", (8,)), placeholder("w", (8,))
    out = compute("out", (8, 8), lambda i, j: x[i] * w[i] * w[j])
    function = lower(Schedule(Kernel("pairs", (x,), (w,), (out,))))
    (whole,) = Panels.of(function, function.params[0], doubled=False)
    np.testing.assert_array_equal(results(finish(fetched(function, whole, 0)), None), results(finish(function), None))


def test_a_missing_wait_is_found() -> None:
    function = product(2, 8, 4)
    (_, halves, *_) = Panels.of(function, function.params[0], doubled=True)
    broken = fetched(function, halves, 0)

    def without(s: P.Stmt) -> P.Stmt:
        return P.seq() if isinstance(s, P.Wait) else P.map_children(s, without)

    with pytest.raises(SternaError, match="before the copy of w to w_panels is waited for") as found:
        verify_threads(replace(broken, body=without(broken.body)))
    assert found.value.codes == ("E0306",) * len(found.value.codes)


def slow(**keys: float) -> Target:
    return replace(load_target("cortex-m4"), flash=Flash(**{"bytes_per_cycle": 0.25, **keys}))  # type: ignore[arg-type]


def test_it_is_done_where_it_pays() -> None:
    """Weights that many rows read; not those that one row reads once, unless the core computes meanwhile; nor where
    flash is fast, or a cache keeps them."""
    many, one = product(64, 32, 16), product(1, 32, 16)
    assert fetches(streamed(many, slow()))
    assert not fetches(streamed(one, slow()))
    assert not fetches(streamed(many, slow(bytes_per_cycle=4.0)))
    assert not fetches(streamed(many, slow(cache_bytes=1 << 16)))
    assert any(
        copy.asynchronous for copy in fetches(streamed(one, slow(bytes_per_cycle=1.0, fetch_cycles=1, dma=True)))
    )


def test_panels_stay_within_their_room() -> None:
    many = product(64, 32, 16)
    for most in (0, 256, 1024, 4096):
        function = streamed(many, slow(panel_bytes=most))
        rooms = {copy.destination for copy in fetches(function)}
        assert sum(room.elements * 4 for room in rooms) <= most
        assert bool(rooms) == (most > 0)
