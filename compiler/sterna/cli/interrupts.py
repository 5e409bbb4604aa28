"""Signals that end a command: in order, so that nothing temporary is left behind."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sterna_runtime.interruption import Ended, whole, wish

#: Ctrl-C, the wish of the system or of another process, a terminal that was closed; Windows has Ctrl-Break.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))

#: Those that a user gives by a key.
_WISHES = tuple(getattr(signal, name) for name in ("SIGINT", "SIGBREAK") if hasattr(signal, name))


@contextmanager
def orderly() -> Iterator[None]:
    """Within it, the first signal raises KeyboardInterrupt, and later ones do not disturb the cleaning up, unless
    `wish.taken` says that the command goes on. Those that are no Ctrl-C raise `Ended`.

    Signals that the process was started to ignore (nohup, jobs in the background) stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in SIGNALS}
    before = {each: handler for each, handler in before.items() if handler is not signal.SIG_IGN}
    ended, hook = False, sys.unraisablehook

    def interrupt() -> None:
        raise KeyboardInterrupt

    def leave() -> None:
        raise Ended

    def end(number: int, frame: Any) -> None:
        nonlocal ended
        if not ended:
            ended = True
            sys.unraisablehook = _without_late_signals(hook)
            for other in before:  # not by a handler, which the interpreter takes away before it ends
                signal.signal(other, signal.SIG_IGN)
            action = interrupt if number in _WISHES else leave
            if not whole.postponed(action):
                action()

    def listen() -> None:
        nonlocal ended
        if threading.current_thread() is threading.main_thread():
            ended = False
            for each in before:
                signal.signal(each, end)

    listen()
    wish.listen = listen
    try:
        yield
    finally:
        wish.listen = None
        if not ended:  # else the process is about to exit
            for each, handler in before.items():
                signal.signal(each, handler)


def _without_late_signals(hook: Callable[[Any], object]) -> Callable[[Any], object]:
    """A hook that keeps quiet about signals that came while they were being set to be ignored.

    The interpreter reports such a one as an unraisable `OSError("Signal N ignored due to race condition")`.
    """

    def report(unraisable: Any) -> None:
        problem = unraisable.exc_value
        if not (isinstance(problem, OSError) and "ignored due to race condition" in str(problem)):
            hook(unraisable)

    return report
