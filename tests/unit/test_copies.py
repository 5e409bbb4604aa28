"""Operands and results staged through memories of a target: copies, waits, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.ir.integer import ZERO, Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT, Memory
from sterna.loops import program as P
from sterna.loops.copies import with_waits
from sterna.loops.finish import finish
from sterna.loops.lower import lower
from sterna.loops.printer import print_function
from sterna.loops.races import verify_threads
from sterna.loops.threads import run_threads
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.te.interpreter import run_kernel
from support.small_kernels import arrays, matmul, pointwise

PAD = Memory("pad", "block", bytes=4096)
FAR = Memory("far", "block", "copy", bytes=4096)


def staged(asynchronous: bool, memory: Memory = PAD, rows: int = 10) -> Schedule:
    """A product in tiles of four rows, with both operands and the result staged; ten rows leave a tail."""
    s = Schedule(matmul(rows, 12, 8), memories=(memory,))
    inner = s.cache_write("out")
    outer, _ = s.split("out", "i", 4)
    s.compute_at(inner, "out", outer, memory)
    s.compute_at("acc", inner, "i", memory)
    for name in ("x", "w"):
        s.compute_at(s.cache_read(name, "acc"), "out", outer, memory)
        s.transfer(f"{name}_local", asynchronous)
    s.transfer("out", asynchronous)
    return s


def copies(function: P.Function) -> list[P.Copy]:
    return [s for s in P.walk(function.body) if isinstance(s, P.Copy)]


def waits(function: P.Function) -> list[int]:
    return [s.group for s in P.walk(function.body) if isinstance(s, P.Wait)]


def check_orders(function: P.Function, s: Schedule) -> None:
    """Runs with asynchronous copies happening whenever they may."""
    feeds = arrays(s.kernel)
    expected = run_kernel(s.kernel, feeds)["out"].reshape(-1)
    for seed in range(6):
        memory = {name: array.reshape(-1).copy() for name, array in feeds.items()}
        memory["out"] = np.full(expected.size, np.nan, np.float32)
        run_threads(function, memory, order=np.random.default_rng(seed))
        np.testing.assert_allclose(memory["out"], expected, rtol=1e-5)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_operands_and_results_go_through_a_memory(asynchronous: bool) -> None:
    s = staged(asynchronous)
    function = finish(lower(s))
    found = copies(function)
    assert {c.elements for c in found} == {4 * 8, 8 * 12, 4 * 12, 2 * 8, 2 * 12}
    assert all(c.asynchronous is asynchronous for c in found)
    assert bool(waits(function)) is asynchronous
    assert {b.buffer.scope for b in P.walk(function.body) if isinstance(b, P.Alloc)} == {PAD}
    check_orders(function, s)


def test_every_wait_is_needed() -> None:
    """What `with_waits` puts in, `verify_threads` misses where it is left out."""
    s = staged(True, rows=8)
    function = finish(lower(s))
    assert len(set(waits(function))) == 3

    def without(group: int, stmt: P.Stmt) -> P.Stmt:
        if isinstance(stmt, P.Wait) and stmt.group == group:
            return P.Seq(())
        return P.map_children(stmt, lambda inner: without(group, inner))

    for group in set(waits(function)):
        with pytest.raises(SternaError, match="waited for") as caught:
            verify_threads(replace(function, body=without(group, function.body)))
        assert set(caught.value.codes) == {"E0306"}


def test_operands_are_copied_beside_one_another() -> None:
    """Both copies begin before the first of them is waited for."""
    text = print_function(finish(lower(staged(True, rows=4))))
    lines = [line.strip() for line in text.splitlines()]
    copied = [n for n, line in enumerate(lines) if line.startswith("copy ") and "_local[" in line.split("=")[0]]
    waited = [n for n, line in enumerate(lines) if line.startswith("wait ")]
    assert len(copied) == 2
    assert max(copied) < min(waited)


def test_a_memory_that_is_too_small() -> None:
    with pytest.raises(SternaError) as caught:
        lower(staged(False, replace(PAD, bytes=500)))
    assert caught.value.codes == ("E0307",)
    assert "it has 384 bytes, and of the 500 of pad, 128 are taken" in str(caught.value)
    # x 128, w 384, out_acc 192, a row of acc 48; a tail has the same place.
    lower(staged(False, replace(PAD, bytes=752)))
    with pytest.raises(SternaError, match="acc does not fit"):
        lower(staged(False, replace(PAD, bytes=751)))


def test_expressions_do_not_reach_a_memory_of_copies_only() -> None:
    with pytest.raises(SternaError) as caught:
        finish(lower(staged(False, FAR)))
    assert set(caught.value.codes) == {"E0308"}
    said = str(caught.value)
    assert "x_local is loaded, it lies in far" in said
    assert "acc is stored, it lies in far" in said


def test_what_comes_in_and_goes_out_by_copies_alone_is_accepted() -> None:
    s = Schedule(pointwise(6, 40), memories=(FAR,))
    s.inline("mid")
    x = Symbol("i", 0, 5)
    buffers = [
        P.dense_buffer("x", "float32", (as_int(240),), INPUT),
        P.dense_buffer("y", "float32", (as_int(240),), OUTPUT),
    ]
    far = P.dense_buffer("there", "float32", (as_int(40),), FAR)
    body = P.For(
        x, as_int(6), "serial",
        P.seq(
            P.Alloc(far),
            P.Copy(far, ZERO, buffers[0], of(x) * 40, 40, True, 0),
            P.Copy(buffers[1], of(x) * 40, far, ZERO, 40, True, 1),
        ),
    )  # fmt: skip
    function = finish(P.Function("through", (buffers[0],), (), (buffers[1],), as_int(1), 0, body))
    assert waits(function) == [0, 1]
    memory = {"x": np.arange(240, dtype=np.float32), "y": np.zeros(240, np.float32)}
    run_threads(function, memory, order=np.random.default_rng(0))
    np.testing.assert_array_equal(memory["x"], memory["y"])


def test_a_copy_goes_on_while_the_loop_does() -> None:
    """A copy out of memory that stays: one wait behind the loop, as its iterations write elements of their own."""
    i = Symbol("i", 0, 7)
    x, y = P.dense_buffer("x", "int32", (as_int(64),), INPUT), P.dense_buffer("y", "int32", (as_int(64),), OUTPUT)
    copy = P.Copy(y, of(i) * 8, x, of(i) * 8, 8, True, 3)
    placed = with_waits(P.For(i, as_int(8), "serial", copy))
    assert [type(s) for s in P.members(placed)] == [P.For, P.Wait]
    same = with_waits(P.For(i, as_int(8), "serial", replace(copy, to=ZERO)))
    assert [type(s) for s in P.walk(same)] == [P.For, P.Seq, P.Copy, P.Wait]


ILLEGAL: dict[str, Callable[[Schedule], object]] = {
    "it computes": lambda s: s.transfer("acc"),
    "no stage": lambda s: s.transfer("nothing"),
    "unknown scope": lambda s: s.compute_at("acc", "out", "i", "moon"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_steps(name: str) -> None:
    with pytest.raises(SternaError) as caught:
        ILLEGAL[name](Schedule(matmul(2, 3, 4), memories=(PAD,)))
    assert caught.value.codes == ("E0302",)


def test_an_unknown_memory_is_told_which_there_are() -> None:
    with pytest.raises(SternaError, match="one of register, stack, scratch, state, fragment, pad"):
        Schedule(matmul(2, 3, 4), memories=(PAD,)).compute_at("acc", "out", "i", "moon")


def test_registers_are_no_end_of_a_copy() -> None:
    s = Schedule(matmul(4, 4, 4))
    inner = s.cache_write("out")
    s.compute_at(inner, "out", "i", "register")
    s.compute_at("acc", inner, "j", "register")
    s.transfer("out")
    with pytest.raises(SternaError, match="in registers, which no copy reaches") as caught:
        lower(s)
    assert caught.value.codes == ("E0303",)


def test_a_saved_schedule_names_the_memory() -> None:
    s = staged(True)
    again = saved.apply(s.kernel, saved.from_json(saved.to_json(s.steps)), memories=(PAD,))
    assert print_function(lower(again)) == print_function(lower(s))
    with pytest.raises(SternaError, match="unknown scope pad"):
        saved.apply(s.kernel, s.steps)


@pytest.mark.parametrize("reach", ["block", "device"])
def test_tasks_do_not_share_memory_of_the_device(reach: str) -> None:
    """Each task has its own part of memory of reach "block"; that of the device is one for all."""
    memory = Memory("pad", reach, bytes=4096)  # type: ignore[arg-type]
    s = Schedule(pointwise(6, 40), memories=(memory,))
    s.compute_at("mid", "out", "i0", memory)
    s.parallel("out", "i0")
    if reach == "block":
        finish(lower(s))
        return
    with pytest.raises(SternaError, match="two tasks touch the same element of mid") as caught:
        finish(lower(s))
    assert caught.value.codes == ("E0306",)


def test_many_tiles_are_verified() -> None:
    """The proof does not walk every iteration of long loops that only wait."""
    function = finish(lower(staged(True, rows=40_000)))
    assert len(waits(function)) == 3
