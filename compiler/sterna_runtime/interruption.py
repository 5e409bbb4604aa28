"""Steps that a signal must not cut in two, such as making a folder and noting that it has to be removed."""

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
