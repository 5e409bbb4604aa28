"""Translation units: how kernels are cut into them, and that they are compiled while later ones are written."""

from __future__ import annotations

import random
import threading
import time

import pytest

from sterna.codegen.cut import LEAST, MOST, Cut
from sterna.timing import recording, timed
from sterna.toolchain.units import Units


# ---------------------------------------------------------------- the cut
def cut(sizes: list[int]) -> list[list[int]]:
    """The numbers of the kernels in each unit."""
    found: Cut[int] = Cut(len(sizes))
    units = [unit for n, size in enumerate(sizes) if (unit := found.add(n, size))]
    assert found.closed == len(units)
    return [*units, found.open]


@pytest.mark.parametrize("seed", range(20))
def test_units_are_all_kernels_in_order(seed: int) -> None:
    pick = random.Random(seed)
    sizes = [int(pick.lognormvariate(8, 1.5)) for _ in range(pick.randrange(1, 300))]
    units = cut(sizes)
    assert [n for unit in units for n in unit] == list(range(len(sizes)))
    for unit in units[:-1]:
        assert sum(sizes[n] for n in unit) >= LEAST
        assert sum(sizes[n] for n in unit[:-1]) < MOST, "a unit is closed once it is long enough"
    assert units[-1], "the last unit has the table and a kernel"


def test_units_are_small_at_first_and_at_the_end() -> None:
    sizes = [4000] * 400
    lengths = [sum(sizes[n] for n in unit) for unit in cut(sizes)]
    assert lengths[0] <= LEAST + 4000
    assert max(lengths) <= MOST + 4000
    assert max(lengths) in lengths[2:-4]
    assert lengths[-2] <= 2 * LEAST


def test_little_text_is_one_unit() -> None:
    assert len(cut([1000] * 20)) == 1


# ---------------------------------------------------------------- the queue
def test_results_stand_in_the_order_of_units() -> None:
    def compile_slowly(text: str) -> bytes:
        time.sleep(0.02 if text == "0" else 0)
        return text.encode()

    with Units(compile_slowly, jobs=3) as units:
        for n in range(10):
            units.add(str(n), n)
        assert units.results() == [str(n).encode() for n in range(10)]


def test_it_begins_before_the_last_unit_is_there() -> None:
    begun = threading.Event()

    def compile(text: str) -> bytes:
        begun.set()
        return b""

    with Units(compile, jobs=2) as units:
        units.add("first", 1)
        assert begun.wait(10)
        units.add("second", 1)
        assert units.results() == [b"", b""]


@pytest.mark.parametrize(("jobs", "adding", "then"), [(1, 1, 1), (4, 3, 4)])
def test_one_processor_is_left_to_whoever_adds(jobs: int, adding: int, then: int) -> None:
    running, most, go = 0, 0, threading.Event()
    lock = threading.Lock()

    def compile(text: str) -> bytes:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        go.wait(10)
        with lock:
            running -= 1
        return b""

    with Units(compile, jobs) as units:
        for n in range(8):
            units.add(str(n), 1)
        deadline = time.monotonic() + 10
        while most < adding and time.monotonic() < deadline:
            time.sleep(0.001)
        assert most == adding
        waiting = threading.Thread(target=units.results)
        waiting.start()
        while most < then and time.monotonic() < deadline:
            time.sleep(0.001)
        go.set()
        waiting.join()
        assert most == then


def test_the_longest_that_wait_are_begun_first() -> None:
    order: list[str] = []
    go = threading.Event()

    def compile(text: str) -> bytes:
        order.append(text)
        go.wait(10)
        return b""

    with Units(compile, jobs=1) as units:
        units.add("first", 1)
        deadline = time.monotonic() + 10
        while not order and time.monotonic() < deadline:
            time.sleep(0.001)
        for cost in (2, 9, 5):
            units.add(str(cost), cost)
        go.set()
        units.results()
    assert order == ["first", "9", "5", "2"]


def test_the_first_failure_is_raised_whichever_came_first() -> None:
    def compile(text: str) -> bytes:
        if text == "1":
            time.sleep(0.02)
        if text in ("1", "2"):
            raise ValueError(text)
        return b""

    with Units(compile, jobs=4) as units:
        for n in range(4):
            units.add(str(n), 1)
        with pytest.raises(ValueError, match="1"):
            units.results()


def test_who_leaves_early_waits_for_what_runs_and_no_more() -> None:
    done: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def compile(text: str) -> bytes:
        begun.set()
        go.wait(10)
        done.append(text)
        return b""

    def interrupted() -> None:
        with Units(compile, jobs=1) as units:
            for n in range(5):
                units.add(str(n), 5 - n)
            begun.wait(10)
            threading.Timer(0.02, go.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["0"]
    assert not [t for t in threading.enumerate() if t.name == "sterna-units"]


def test_what_workers_time_stands_where_results_are_asked_for() -> None:
    def compile(text: str) -> bytes:
        with timed(f"compile {text}"):
            return b""

    with recording() as times, Units(compile, jobs=2) as units:
        with timed("loops"):
            units.add("a", 1)
            units.add("b", 1)
        with timed("libraries"):
            units.results()
    loops, libraries = times.stages
    assert loops.parts == []
    assert [part.name for part in libraries.parts] == ["compile a", "compile b"]
