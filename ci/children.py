"""Checks that run in processes of their own, some at a time: a crash or a hang is a failure and costs nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import traceback
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar

Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True)
class Ended(Generic[Item]):
    """How the check of an item ended: "crashed", or what it said.

    Args:
        seconds: of processor time, compilers and linkers included.
    """

    item: Item
    state: str
    detail: str
    seconds: float


class Children(Generic[Item]):
    """Forked processes, one for each item. As a context it ends those that still run when it is left.

    Args:
        check: an item's (state, detail); jobs: how many run at a time; limit: seconds of one.
    """

    def __init__(self, check: Callable[[Item], tuple[str, str]], jobs: int, limit: int):
        self.check, self.jobs, self.limit = check, jobs, limit
        self.running: dict[int, tuple[Item, int]] = {}

    def __enter__(self) -> Children[Item]:
        return self

    def __exit__(self, *_: object) -> None:
        for child, (_item, reading) in self.running.items():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
            os.close(reading)
        self.running = {}

    def start(self, item: Item) -> Iterator[Ended[Item]]:
        """Starts an item's check; gives those that had to end before that."""
        while len(self.running) >= self.jobs:
            yield self.ended()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._try(item, writing)
        with contextlib.suppress(OSError):  # so that whoever comes first makes the group: there is one from here on
            os.setpgid(child, child)
        self.running[child] = (item, reading)
        os.close(writing)

    def _try(self, item: Item, writing: int) -> NoReturn:
        """What the forked process does. It never goes on with what its parent does."""
        status = 1
        try:
            os.setpgid(0, 0)
            signal.alarm(self.limit)
            os.write(writing, json.dumps(self.check(item)).encode()[:60000])
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def ended(self) -> Ended[Item]:
        """The next one that ends. What it left running is ended with it."""
        child, status, used = os.wait4(-1, 0)
        item, reading = self.running.pop(child)
        if status != 0:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        with os.fdopen(reading, "rb") as pipe:
            content = pipe.read()
        state, detail = "crashed", f"the process ended with {status}"
        if status == 0 and content:
            state, detail = json.loads(content)
        return Ended(item, state, detail, used.ru_utime + used.ru_stime)

    def rest(self) -> Iterator[Ended[Item]]:
        """Those that still run."""
        while self.running:
            yield self.ended()
