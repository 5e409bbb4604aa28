"""Translation units compiled while later ones are still written.

    with Units(lambda text: compile_c(text, target)) as units:
        for text in texts:
            units.add(text, len(text))
        objects = units.results()

Compilers are processes of their own, or leave the interpreter's lock alone as LLVM does: threads are enough. What comes
out does not depend on how many there are.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable
from contextvars import Context, copy_context
from threading import Condition, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sterna.timing import Times, adopt, recording

if TYPE_CHECKING:
    from typing_extensions import Self


T = TypeVar("T")


class Units(Generic[T]):
    """A queue of texts, or of what else a unit is made from, and its workers, which begin with what will take longest.

    Leaving the `with` block early, by an error or a signal, gives up what nobody has begun, and waits for the rest.

    Args:
        compile: makes an object of a unit, in any thread.
        jobs: the most that run at once; the number of processors unless given. While texts are added it is one less,
            for whoever writes them works, too.
    """

    def __init__(self, compile: Callable[[T], bytes], jobs: int | None = None):
        self._compile = compile
        self._jobs = max(1, jobs or os.cpu_count() or 1)
        self._limit = max(1, self._jobs - 1)
        self._waiting: list[tuple[int, int, T, Context]] = []
        self._threads: list[Thread] = []
        self._running = self._count = 0
        self._results: dict[int, bytes | BaseException] = {}
        self._times: dict[int, Times] = {}
        self._changed = Condition()

    def __enter__(self) -> Units[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._waiting.clear()
        for thread in self._threads:
            thread.join()

    def add(self, unit: T, cost: int) -> None:
        """Another unit; of several that wait, that of the greatest cost is begun first."""
        with self._changed:
            heapq.heappush(self._waiting, (-cost, self._count, unit, copy_context()))
            self._count += 1
            self._start()

    def results(self) -> list[bytes]:
        """The objects, in the order of `add`, once all are there.

        Raises:
            BaseException: what the first of them that failed did.
        """
        with self._changed:
            self._limit = self._jobs
            self._start()
            while len(self._results) < self._count:
                self._changed.wait()
        adopt([self._times[n] for n in range(self._count)])
        objects = []
        for n in range(self._count):
            found = self._results[n]
            if isinstance(found, BaseException):
                raise found
            objects.append(found)
        return objects

    def _start(self) -> None:
        """Starts as many workers as may run and find work."""
        for _ in range(min(self._limit - self._running, len(self._waiting))):
            self._running += 1
            thread = Thread(target=self._work, name="sterna-units", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting or self._running > self._limit:
                    self._running -= 1
                    return
                _, number, unit, context = heapq.heappop(self._waiting)
            result, times = context.run(self._recorded, unit)
            with self._changed:
                self._results[number], self._times[number] = result, times
                self._changed.notify_all()

    def _recorded(self, unit: T) -> tuple[bytes | BaseException, Times]:
        with recording() as times:
            try:
                return self._compile(unit), times
            except BaseException as problem:
                return problem, times


class WithUnits:
    """Whoever hands texts to `Units`: its `with` block is theirs."""

    _units: Units[Any]

    def __enter__(self) -> Self:
        self._units.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._units.__exit__(kind, problem, trace)
