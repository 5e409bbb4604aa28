"""What is timed, and that nothing is where nobody asks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from sterna.timing import Timed, recording, timed


def names(rows: list[Timed]) -> list[object]:
    return [(row.name, names(row.parts)) if row.parts else row.name for row in rows]


def test_parts_stand_below_their_stage() -> None:
    with recording() as times:
        with timed("first"), timed("part"), timed("of it"):
            pass
        with timed("second"):
            pass
    assert names(times.stages) == [("first", [("part", ["of it"])]), "second"]
    assert times.seconds == sum(each.seconds for each in times.stages)
    first = times.stages[0]
    assert first.seconds >= first.parts[0].seconds >= first.parts[0].parts[0].seconds >= 0


def test_nothing_is_recorded_outside() -> None:
    with recording() as times:
        pass
    with timed("later"):
        pass
    assert times.stages == []


def test_what_fails_is_timed_too() -> None:
    with recording() as times:
        try:
            with timed("it"):
                raise ValueError
        except ValueError:
            pass
        with timed("next"):
            pass
    assert names(times.stages) == ["it", "next"]


def test_threads_that_copy_the_context() -> None:
    with recording() as times, timed("stage"), ThreadPoolExecutor(2) as pool:
        contexts = [copy_context() for _ in range(4)]

        def work(number: int) -> None:
            with timed(f"part {number}"):
                pass

        list(pool.map(lambda c, n: c.run(work, n), contexts, range(4)))
    (stage,) = times.stages
    assert sorted(part.name for part in stage.parts) == [f"part {n}" for n in range(4)]
