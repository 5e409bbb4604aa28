"""Where the time of a compilation goes.

    with recording() as times:
        sterna.compile("model.onnx")
    for each in times.stages: print(each.name, each.seconds)

A part of the compiler that is worth a row says `with timed("its name"):`; parts within it are rows below it. Outside of
`recording` that costs next to nothing. What threads do at once is added up, so that parts may take longer than their
stage.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class Timed:
    """A stage of the compiler, or a part of one; `seconds` is 0 while it runs."""

    name: str
    seconds: float = 0.0
    parts: list[Timed] = field(default_factory=list)


@dataclass
class Times:
    """What was recorded.

    Args:
        stages: in the order in which they began.
    """

    stages: list[Timed] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """All stages together."""
        return sum(each.seconds for each in self.stages)


_open: ContextVar[list[Timed] | None] = ContextVar("timing", default=None)


@contextmanager
def recording() -> Iterator[Times]:
    """Within it, everything that is `timed` is recorded, in this thread and in those that copy its context."""
    times = Times()
    token = _open.set(times.stages)
    try:
        yield times
    finally:
        _open.reset(token)


def adopt(all_times: Iterable[Times]) -> None:
    """What others have recorded, as parts of the stage that runs: of threads that began before it."""
    if (rows := _open.get()) is not None:
        for times in all_times:
            rows += times.stages


@contextmanager
def timed(name: str) -> Iterator[None]:
    """A stage, or a part of the one that runs."""
    rows = _open.get()
    if rows is None:
        yield
        return
    row = Timed(name)
    rows.append(row)
    token = _open.set(row.parts)
    start = time.perf_counter()
    try:
        yield
    finally:
        row.seconds = time.perf_counter() - start
        _open.reset(token)
