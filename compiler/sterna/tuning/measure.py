"""Measurers: they turn choices of one kernel into what a call costs on a device."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from sterna.choices import Choice
from sterna.errors import SternaError, error
from sterna.scratch import temporary_directory
from sterna.tuning.kernels import Task
from sterna.tuning.worker import Built, Request, Trial, Turns, counts, first_line, is_lacking, receive, send

#: What building and measuring one kernel may take, and what measuring whole models in turns may.
SECONDS, TURNS_SECONDS = 60.0, 900.0
#: Seconds before each attempt to open a device again that did not answer.
PAUSES = (0.0, 2.0, 8.0)
#: What a search that ends without its devices tells.
AGAIN = "start it again, and then this command: what was measured is kept"

_MORE_ROOM = "free space there, or start its server with a scratch folder on another disk; what was measured is kept"


class Measurer(Protocol):
    """Measures choices of kernels on a device, for as long as its context lasts."""

    @property
    def unit(self) -> str:
        """Of what is measured: "s" or "instructions"."""
        ...

    @property
    def devices(self) -> tuple[str, ...]:
        """What it measures on, as records name it."""
        ...

    @property
    def width(self) -> int:
        """How many choices it measures at a time."""
        ...

    def measure(self, task: Task, choice: Choice) -> Trial:
        """What a choice costs; {} stands for the rules' own. One call after the other has the same device for as long
        as that one lives."""
        ...

    def measure_all(self, task: Task, choices: Sequence[Choice]) -> Generator[Trial, None, None]:
        """What each costs, in the order in which that is known. What is not taken of it need not be measured."""
        ...

    def turns(self, bundles: Sequence[Path], part: bool = False) -> Sequence[Sequence[float]] | str:
        """What a run of each of these bundles costs, measured in turns; or why that is not known.

        Args:
            part: they are the same part of a model in different forms, which takes less time to measure than a model,
                and what they call alike has to be equal.
        """
        ...

    def __enter__(self) -> Measurer: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Local:
    """In a process of this machine, or on a device that it opens. A kernel that crashes or hangs ends
    the process: that costs one trial, and the next one has a new process. A device that cannot be opened again after
    that is lost, and costs none.

    Args:
        on: "" for this machine, else a device as `emulate.devices` has it.
        seconds: that a trial may take.

    Raises:
        SternaError: of measuring: as of `emulate.devices.device` where it is not there; E0805, it does not answer any
            more.
    """

    def __init__(self, on: str = "", seconds: float = SECONDS):
        self._on, self._seconds = on, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._known: set[str] = set()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def unit(self) -> str:
        return "instructions" if counts(self._on) else "s"

    @property
    def devices(self) -> tuple[str, ...]:
        return (self._on,)

    @property
    def width(self) -> int:
        return 1

    def measure(self, task: Task, choice: Choice) -> Trial:
        return self._tried(task.kernel, task, choice, choice)

    def measure_all(self, task: Task, choices: Sequence[Choice]) -> Generator[Trial, None, None]:
        for choice in choices:
            yield self.measure(task, choice)

    def time(self, kernel: str, rules: Built, built: Built) -> Trial:
        """What a kernel costs that was built elsewhere, by the rules and by a choice."""
        return self._tried(kernel, rules, built, built.choice)

    def turns(self, bundles: Sequence[Path], part: bool = False) -> Sequence[Sequence[float]] | str:
        asked, seconds = Turns(tuple(map(str, bundles)), part), self._seconds if part else TURNS_SECONDS
        found: Sequence[Sequence[float]] | str = self._ask(asked, seconds)
        return found

    def _tried(self, kernel: str, first: Task | Built, what: Choice | Built, choice: Choice) -> Trial:
        new = kernel not in self._known
        self._known.add(kernel)
        found: Trial | str = self._ask(Request(kernel, first if new else None, what), self._seconds)
        trial = Trial(choice, "", (), found, (), unanswered=True) if isinstance(found, str) else found
        return replace(trial, device=self._on)

    def __enter__(self) -> Local:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process, if there is one; the next choice begins another one."""
        process, self._process = self._process, None
        self._known.clear()
        if process is None:
            return
        _kill(process)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.wait()
        if self._folder is not None:
            self._folder.cleanup()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "from sterna.tuning.worker import main; main()"]
        path = os.pathsep.join(filter(None, (*sys.path, os.environ.get("PYTHONPATH", ""))))
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path}, start_new_session=os.name == "posix",
        )  # fmt: skip
        assert self._process.stdin is not None
        # It is this process's to remove: the other one may be ended at any moment.
        self._folder = temporary_directory("tuning")
        with contextlib.suppress(OSError):
            send(self._process.stdin, (self._on, self._folder.name))
        return self._process

    def _ask(self, request: Request | Turns, seconds: float) -> Any:
        """What the process answers, or why it does not."""
        try:
            if self._process is None and (why := self._open()):
                return why
            process = self._process
            assert process is not None
            assert process.stdin is not None
            with contextlib.suppress(OSError):  # A process that has ended answers nothing.
                send(process.stdin, request)
            found = self._answer(process, seconds)
            if isinstance(found, SternaError):
                self.close()
                if is_lacking(found):
                    raise self._lacking(found)
                found = first_line(found)
            if self._process is None and self._on:
                self._open_again(found)
            return found
        except KeyboardInterrupt:
            self.close()  # Its answer would be taken for that to the next request.
            raise

    def _lacking(self, problem: SternaError) -> SternaError:
        """What ends the search."""
        (said, *_), where = problem.diagnostics, (self._on,) if self._on else ()
        return error(said.code, said.title, *where, fix=said.fix or _MORE_ROOM)

    def _open(self) -> str:
        """Starts the process, and waits for its device; why that failed on this machine, "" where it did not."""
        said = self._answer(self._start(), self._seconds)
        if isinstance(said, SternaError):
            self.close()
            raise said
        if said is not None and self._on:
            raise error("E0805", said, self._on)
        return said or ""

    def _open_again(self, why: str) -> None:
        """Tells a kernel that ended its process from a device that is gone."""
        reason = ""
        for pause in PAUSES:
            time.sleep(pause)
            try:
                self._open()
            except SternaError as problem:
                reason = first_line(problem)
            else:
                return
        raise error("E0805", "the device does not answer any more", self._on, why, reason, fix=AGAIN)

    def _answer(self, process: subprocess.Popen[bytes], seconds: float) -> Any:
        assert process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _kill(process)

        watchdog = threading.Timer(seconds, give_up)
        watchdog.start()
        try:
            return receive(process.stdout)
        except EOFError:
            status = process.wait()
            self.close()
            return f"no answer in {seconds:g} s" if late.is_set() else f"the process ended with status {status}"
        finally:
            watchdog.cancel()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and what it has started: a browser and an emulator do not see that nobody asks any more."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left of its session
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
