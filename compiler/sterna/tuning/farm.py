"""Measuring past one machine, by Dask: builders compile, devices run, and this process says who does what.

A worker with the resource "build" compiles; one with "device-NAME" runs kernels on that device. Every device has one
job at a time, so that one that is gone, hangs or drifts leaves one candidate, which another one measures.
Who is at fault where no answer came, a kernel or its device, is told by the reference: a kernel by the rules, which has
run before.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from sterna.choices import Choice
from sterna.errors import SternaError, error
from sterna.tuning import farm_worker
from sterna.tuning.cluster import BUILD, Cluster, resource
from sterna.tuning.farm_worker import HERE, Opener, open_device
from sterna.tuning.kernels import Task
from sterna.tuning.measure import AGAIN, SECONDS, TURNS_SECONDS
from sterna.tuning.worker import Trial, counts, first_line

#: Trials of a device between two runs of the reference kernel, and how far its cost may be from what it was.
EVERY, DRIFT = 16, 0.25
#: So many runs in turn that are too far off are no accident.
DOUBTS = 3
#: Seconds for which a worker may be gone, before what it had goes elsewhere; and between two looks at all workers.
GRACE, LOOK = 15.0, 0.25


@dataclass
class _Candidate:
    """A choice on its way: `built` is a future. It is not given to a device again that has not answered."""

    choice: Choice
    built: Any
    silent: set[str] = field(default_factory=set)


@dataclass
class _Job:
    """What a device does: `found` is a future, of a candidate or, without one, of the reference."""

    found: Any
    began: float
    candidate: _Candidate | None


@dataclass
class _Device:
    """Args:
    since: trials since the reference ran; doubts: runs of it in turn that were too far off.
    job: what it does; suspect: what it gave no answer to, until the reference tells who is at fault.
    seen: when a worker last had it.
    """

    name: str
    seen: float
    since: int = EVERY
    doubts: int = 0
    job: _Job | None = None
    suspect: tuple[_Candidate, Trial] | None = None
    out: str = ""


@dataclass(frozen=True)
class _Reference:
    kernel: str
    rules: Any
    cost: float
    device: str


class Farm:
    """A measurer on all devices of a cluster that are named. They are of one kind: what one measures is compared with
    what another one does.

    Args:
        devices: as --on names them; "host": the machines of workers.
        seconds: that a trial may take; grace: that a worker may be gone.
        opener: opens a device, where its worker is.
        told: gets a line for each device that is left out.

    Raises:
        SternaError: E0805, no builder or no device is left.
    """

    def __init__(
        self,
        cluster: Cluster,
        devices: Sequence[str] = (HERE,),
        seconds: float = SECONDS,
        grace: float = GRACE,
        opener: Opener = open_device,
        told: Callable[[str], None] = lambda line: None,
    ):
        now = time.monotonic()
        self._cluster, self._seconds, self._grace, self._opener, self._told = cluster, seconds, grace, opener, told
        self._devices = [_Device(name, now) for name in devices]
        self._builders_seen, self._looked = now, 0.0
        self._id, self._woken = uuid.uuid4().hex, threading.Event()
        self._kernels: dict[str, tuple[Any, Any]] = {}
        self._reference: _Reference | None = None

    @property
    def unit(self) -> str:
        return "instructions" if counts(self._devices[0].name) else "s"

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(_recorded(each.name) for each in self._devices)

    @property
    def width(self) -> int:
        return len(self._left())

    def measure(self, task: Task, choice: Choice) -> Trial:
        (found,) = self._measured(task, [choice], 1)
        return found

    def measure_all(self, task: Task, choices: Sequence[Choice]) -> Generator[Trial, None, None]:
        return self._measured(task, choices, len(self._devices))

    def turns(self, bundles: Sequence[Path], part: bool = False) -> Sequence[Sequence[float]] | str:
        files = [{each.name: each.read_bytes() for each in bundle.iterdir() if each.is_file()} for bundle in bundles]
        name = self._left()[0].name
        words = (self._opener, self._id, name, self._seconds, files, part)
        future = self._submit(resource(name), farm_worker.turned, *words)
        try:
            found: Sequence[Sequence[float]] | str | None
            found = self._cluster.result(future, TURNS_SECONDS + self._grace)
        except Exception as problem:  # A worker that is gone, or what it says.
            return f"{name}: {type(problem).__name__}: {problem}".split("\n", 1)[0][:200]
        return f"no answer of {name} in {TURNS_SECONDS:g} s" if found is None else found

    def __enter__(self) -> Farm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        there = self._cluster.resources()
        names = [each.name for each in self._devices if resource(each.name) in there]
        self._cluster.finish([self._submit(resource(name), farm_worker.closed, self._id, name) for name in names])

    def _measured(self, task: Task, choices: Sequence[Choice], width: int) -> Generator[Trial, None, None]:
        """What the first `width` devices that are left say of choices."""
        held, rules = self._kernel(task)
        building = [_Candidate(choice, self._submit(BUILD, farm_worker.built, held, choice)) for choice in choices]
        ready, left = deque[_Candidate](), len(building)
        try:
            while left:
                self._woken.clear()
                found = [*self._collect(task, rules, ready)]
                done = [each for each in building if _is_done(each.built)]
                building = [each for each in building if each not in done]
                for each in done:
                    if each.built.status == "finished":
                        ready.append(each)
                    else:  # Those who built it died of it, one after the other.
                        if isinstance(problem := _problem(each.built), SternaError):
                            raise problem  # What a builder lacks says nothing of the choice.
                        found.append(Trial(each.choice, "", (), _why(each.built), ()))
                silent = ready[0].silent if ready else ()
                for device in [each for each in self._left() if each.name not in silent][:width]:
                    self._assign(device, task, rules, ready)
                left -= len(found)
                yield from found
                if left and not found:
                    self._woken.wait(LOOK)
                    self._look(ready)
        finally:
            self._leave([*building, *ready])

    def _kernel(self, task: Task) -> tuple[Any, Any]:
        """The futures of a task and of what the rules make of it."""
        if task.kernel not in self._kernels:
            held = self._submit(BUILD, farm_worker.held, task)
            self._kernels[task.kernel] = held, self._submit(BUILD, farm_worker.built, held, {})
        return self._kernels[task.kernel]

    def _submit(self, needs: str, function: Callable[..., object], *words: object) -> Any:
        future = self._cluster.submit(function, *words, needs=needs)
        future.add_done_callback(lambda _: self._woken.set())
        return future

    def _left(self) -> list[_Device]:
        return [each for each in self._devices if not each.out]

    def _assign(self, device: _Device, task: Task, rules: Any, ready: deque[_Candidate]) -> None:
        """Gives a device that is idle its next job: the reference where it is due, else a candidate."""
        if device.job is not None:
            return
        own = next((each for each in ready if device.name not in each.silent), None)
        reference = self._reference
        if reference is not None and (device.suspect or (own and device.since >= EVERY)):
            self._begin(device, reference.kernel, reference.rules, reference.rules, None)
        elif own is not None:
            ready.remove(own)
            self._begin(device, task.kernel, rules, own.built, own)

    def _begin(self, device: _Device, kernel: str, rules: Any, what: Any, candidate: _Candidate | None) -> None:
        words = (self._opener, self._id, device.name, self._seconds, kernel, rules, what)
        found = self._submit(resource(device.name), farm_worker.timed, *words)
        device.job = _Job(found, time.monotonic(), candidate)

    def _collect(self, task: Task, rules: Any, ready: deque[_Candidate]) -> Iterator[Trial]:
        """The trials that devices have finished."""
        for device in self._left():
            job = device.job
            if job is None or not _is_done(job.found):
                continue
            if job.found.status != "finished":
                self._leave_out(device, _why(job.found), ready)
            elif (trial := self._cluster.result(job.found)) is not None:
                device.job = None
                if job.candidate is None:
                    yield from self._judge(device, trial, ready)
                else:
                    yield from self._take(device, task, rules, job.candidate, trial, ready)

    def _take(
        self, device: _Device, task: Task, rules: Any, candidate: _Candidate, trial: Trial, ready: deque[_Candidate]
    ) -> Iterator[Trial]:
        """A candidate's result; it waits for the reference where no answer came."""
        device.since += 1
        trial = replace(trial, device=_recorded(device.name))
        if not trial.unanswered:
            if self._reference is None and trial.samples and not candidate.choice:
                self._reference = _Reference(task.kernel, rules, min(trial.samples), device.name)
                device.since = 0
            yield trial
        elif self._reference is not None:
            device.suspect = candidate, trial
        else:
            candidate.silent.add(device.name)
            if all(each.name in candidate.silent for each in self._left()):
                yield trial
            else:
                ready.appendleft(candidate)

    def _judge(self, device: _Device, found: Trial, ready: deque[_Candidate]) -> Iterator[Trial]:
        """What the reference says of a device."""
        reference, suspect = self._reference, device.suspect
        assert reference is not None
        if not found.samples:
            self._leave_out(device, f"the reference kernel failed there: {found.error}", ready)
            return
        times = min(found.samples) / reference.cost
        if not 1 / (1 + DRIFT) <= times <= 1 + DRIFT:
            device.doubts += 1
            if device.doubts >= DOUBTS:
                was = "at first" if reference.device == device.name else f"on {reference.device}"
                self._leave_out(device, f"the reference kernel takes {times:.2f} times as long as {was}", ready)
            return
        device.doubts = device.since = 0
        device.suspect = None
        if suspect is not None:
            yield suspect[1]

    def _leave_out(self, device: _Device, why: str, ready: deque[_Candidate]) -> None:
        """A device gets nothing any more; what it had goes to others."""
        device.out = why
        job = device.job
        if device.suspect is not None:
            ready.appendleft(device.suspect[0])
        if job is not None:
            self._cluster.cancel([job.found])
            if job.candidate is not None:
                ready.appendleft(job.candidate)
        device.job = device.suspect = None
        self._told(f"{device.name} is left out: {why}")
        if not self._left():
            notes = [f"{each.name}: {each.out}" for each in self._devices]
            raise error("E0805", "no device is left to measure on", *notes, fix=AGAIN)

    def _look(self, ready: deque[_Candidate]) -> None:
        """Who is gone for too long, and whose worker has stopped."""
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        there = self._cluster.resources()
        if BUILD in there:
            self._builders_seen = now
        elif now - self._builders_seen > self._grace:
            raise error("E0805", "no worker of the cluster builds any more", fix=f'start one with "{BUILD}=1"')
        for device in self._left():
            if resource(device.name) in there:
                device.seen = now
            elif now - device.seen > self._grace:
                self._leave_out(device, "its worker is gone", ready)
                continue
            # A worker ends what takes too long; by then it has begun twice at most, and done the rules' own.
            if device.job is not None and now - device.job.began > 3 * self._seconds + self._grace:
                self._leave_out(device, "its worker does not answer", ready)

    def _leave(self, rest: Sequence[_Candidate]) -> None:
        """What is not wanted any more is not begun. What a device has begun it ends, for nobody."""
        self._cluster.cancel([each.built for each in rest])
        for device in self._devices:
            device.suspect = None
            if device.job is not None and device.job.candidate is not None:
                self._cluster.cancel([device.job.found])
                device.job = None


def _is_done(future: Any) -> bool:
    return future.status in ("finished", "error", "cancelled")


def _problem(future: Any) -> object:
    """What ended a future that failed."""
    return future.exception() if future.status == "error" else "it was cancelled"


def _why(future: Any) -> str:
    """The same in a line."""
    problem = _problem(future)
    if isinstance(problem, SternaError):
        return first_line(problem)
    name = f"{type(problem).__name__}: " if isinstance(problem, BaseException) else ""
    return f"{name}{problem}".split("\n", 1)[0][:200]


def _recorded(name: str) -> str:
    """A device as records have it."""
    return "" if name == HERE else name
