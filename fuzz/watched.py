"""Hostile inputs one after the other in a process of their own, which another one watches.

A crash of a native library, a hang and memory without end are then one finding each, and the run goes on. The process
that forks has imported everything, so that an input costs what reading it costs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import mmap
import os
import resource
import select
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

from frame import Budget, Finding
from sterna.errors import SternaError

SECONDS = 10.0  # of processor time that one input may take
STUCK = 90.0  # seconds without progress after which the process is ended from outside: a native library hangs
MEMORY = 2 << 30  # bytes beyond what the process has when it begins


class HangError(BaseException):
    """Not to be taken for an ordinary failure by anyone between."""


@dataclass(frozen=True)
class Bad:
    """What an input showed."""

    kind: str
    text: str


class Inputs(Protocol):
    """Inputs by number."""

    def __getitem__(self, number: int) -> bytes: ...


Execute = Callable[[bytes, Path], Bad | None]


def guarded(attempt: Callable[[bytes, Path], Bad | None], content: bytes, folder: Path) -> Bad | None:
    """What an attempt at an input shows: a coded refusal is none; warnings are.

    Args:
        folder: for files of the attempt.
    """
    caught: list[warnings.WarningMessage]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bad = _attempted(attempt, content, folder)
    if bad is None and caught:
        first = caught[0]
        bad = Bad("warning", f"{first.category.__name__}: {first.message} ({_short(first.filename)}:{first.lineno})")
    return bad


def _attempted(attempt: Execute, content: bytes, folder: Path) -> Bad | None:
    try:
        return attempt(content, folder)
    except SternaError as refusal:
        if "E0901" in refusal.codes:
            ours = next(d for d in refusal.diagnostics if d.code == "E0901")
            return Bad("uncaught error", f"E0901 {ours.title} {' '.join(ours.where)}"[:600])
        if "E0117" in refusal.codes:
            return Bad("memory", str(refusal)[:600])
        str(refusal)
        return None
    except HangError as problem:
        return Bad("hang", _place(problem))
    except MemoryError as problem:
        return Bad("memory", _place(problem))
    except Exception as problem:
        return Bad("uncaught error", _place(problem))


def _place(problem: BaseException) -> str:
    """An exception and the innermost places that it went through."""
    frames = traceback.extract_tb(problem.__traceback__)
    places = [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
    own = [place for place in places if not place.startswith("fuzz/")]
    return f"{type(problem).__name__}: {str(problem)[:200]}\n    " + " <- ".join(reversed(own[-6:]))


def _short(path: str) -> str:
    parts = Path(path).parts
    return "/".join(parts[-3:] if "sterna" in parts else parts[-2:])


def note(found: dict[str, Finding], bad: Bad, content: bytes, budget: Budget, origin: str = "") -> None:
    """Keeps the smallest input of each place that a failure comes from, at once in the budget's folder.

    Args:
        origin: what input that is, to be printed with it.
    """
    where = bad.text.rpartition("\n    ")[2].split(" <- ")[0] if "\n" in bad.text else bad.text[:60]
    if bad.text.startswith("E0901"):
        where = bad.text.rpartition(" at ")[2]
    known = found.get(f"{bad.kind} {where}")
    if known is None:
        print(f"  found{origin}: {bad.kind}: {bad.text}", flush=True)
    if known is None or len(content) < len(known.data):
        finding = found[f"{bad.kind} {where}"] = Finding(bad.kind, bad.text, content)
        if budget.findings is not None:
            finding.save(budget.findings)
            if known is not None:
                known.path(budget.findings).unlink(missing_ok=True)


def batch(
    inputs: Inputs, numbers: range, execute: Execute, budget: Budget, work: Path
) -> Iterator[tuple[int, Bad | None]]:
    """What each of some inputs shows, from one process; up to the one that ends it."""
    progress = mmap.mmap(-1, 8)
    progress[:] = struct.pack("<q", numbers.start)
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        try:
            _child(inputs, numbers, execute, progress, writing, work)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(3)
    os.close(writing)
    last, since, done = numbers.start, time.monotonic(), numbers.start
    pending, ended = b"", False
    try:
        while True:
            (now,) = struct.unpack("<q", progress[:])  # first: what was found before it is in the pipe then
            ready, _, _ = select.select([reading], [], [], 1.0)
            if ready:
                data = os.read(reading, 1 << 16)
                if not data:
                    ended = True
                    break
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    place, kind, text = json.loads(line)
                    yield from _passed(done, place, budget)
                    done = max(done, place + 1)
                    budget.count()
                    yield place, Bad(kind, text)
            yield from _passed(done, now, budget)
            done = max(done, now)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > STUCK:
                os.kill(process, signal.SIGKILL)
            if budget.spent:
                os.kill(process, signal.SIGKILL)
    except BaseException:  # the run is ended, or nobody wants the rest
        os.kill(process, signal.SIGKILL)
        raise
    finally:
        os.close(reading)
        if not ended:  # nobody asks for more, or a signal ends the run
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
    (now,) = struct.unpack("<q", progress[:])
    yield from _passed(done, now, budget)
    if status and not budget.spent:
        budget.count()
        stuck = time.monotonic() - since > STUCK
        yield now, Bad("hang" if stuck else "crash", f"ended with status {status:#x}; {_last_words(work)}")


def _passed(first: int, end: int, budget: Budget) -> Iterator[tuple[int, None]]:
    for place in range(first, end):
        budget.count()
        yield place, None


def _last_words(work: Path) -> str:
    path = work / "output"
    lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
    return "\n    ".join(lines[:12])


def _child(inputs: Inputs, numbers: range, execute: Execute, progress: mmap.mmap, writing: int, work: Path) -> None:
    output = os.open(work / "output", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    faulthandler.enable(2)
    base = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (base + MEMORY, base + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _hang)
    tempfile.tempdir = str(work)  # what libraries leave when this process is killed goes with the run's folder
    for number in numbers:
        progress[:] = struct.pack("<q", number)
        content = inputs[number]
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            bad = execute(content, work)
        except HangError as problem:  # between two places that guard against it
            bad = Bad("hang", _place(problem))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.flush()
        sys.stderr.flush()
        if bad is None and os.fstat(output).st_size:
            bad = Bad("warning", f"printed: {_last_words(work)}"[:400])
        os.ftruncate(output, 0)
        os.lseek(output, 0, os.SEEK_SET)
        if bad is not None:
            os.write(writing, json.dumps([number, bad.kind, bad.text]).encode() + b"\n")
        if bad is not None and bad.kind in ("memory", "hang"):
            # A process that ran into a limit is not to be judged by what it does next.
            progress[:] = struct.pack("<q", number + 1)
            os._exit(0)
    progress[:] = struct.pack("<q", numbers.stop)


def _hang(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(ValueError):
        signal.setitimer(signal.ITIMER_PROF, 2.0)  # should someone swallow the exception
    raise HangError(f"more than {SECONDS:.0f} s")
