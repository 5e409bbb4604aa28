"""Signals that end a command: steps that they must not cut in two, such as making a folder and noting that it has to be
removed; and those after which a command goes on for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class _Whole:
    """Within it the ends that `postponed` is asked for wait, on the thread that handles signals."""

    def __init__(self) -> None:
        self.depth = 0
        self.waiting: Callable[[], object] | None = None

    def __enter__(self) -> None:
        self.depth += threading.current_thread() is threading.main_thread()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.depth -= threading.current_thread() is threading.main_thread()
        if not self.depth and self.waiting is not None and threading.current_thread() is threading.main_thread():
            end, self.waiting = self.waiting, None
            end()

    def postponed(self, end: Callable[[], object]) -> bool:
        """Whether this is within a step, after which `end` is called; to be asked by handlers of signals."""
        if self.depth:
            self.waiting = end
        return self.depth > 0


#: `with whole:` around a step.
whole = _Whole()


class Ended(KeyboardInterrupt):
    """Somebody told the process to end (SIGTERM, SIGHUP), and did not just press Ctrl-C: nothing new is begun."""


class _Wish:
    """An interrupt that is taken for a wish: to end one thing and to begin another.

    Who handles signals may not listen any more after the first one, so that nothing disturbs the cleaning up; `listen`
    makes it do so again.
    """

    def __init__(self) -> None:
        self.listen: Callable[[], object] | None = None

    def taken(self) -> None:
        """The interrupt has been dealt with, and the next one is to be heard, too."""
        if self.listen is not None:
            self.listen()


#: To be told by who goes on after an interrupt.
wish = _Wish()
