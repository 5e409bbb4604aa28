"""The process that builds and measures one kernel after the other, so that one which crashes or hangs ends only this.

It reads pickled requests from standard input and writes pickled answers to standard output. Whoever starts it
(`tuning.measure`) is the same installation of Sterna. What builds (`build`) and what runs are apart: a farm
(`tuning.farm`) builds elsewhere.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sterna.bundle.directory import write_files
from sterna.bundle.writer import bundle_files
from sterna.choices import Choice, replay
from sterna.errors import SternaError, error
from sterna.runtime.remote import Failure, Functions
from sterna.schedule import saved
from sterna.tuning.features import features_of
from sterna.tuning.kernels import Task, alone
from sterna.tuning.unforeseen import UNFORESEEN, internal
from sterna_runtime import Bundle, load
from sterna_runtime.checks import compare
from sterna_runtime.inputs import Array
from sterna_runtime.random_inputs import random_inputs

#: The least time of one sample, and what runs less often than that is timed by the processor's clock.
LEAST_SECONDS, LONG_SECONDS = 0.004, 0.002
SAMPLES = 3
#: In pages, whose clocks move in steps of 5 us or more, this many seconds of runs are timed together, so many times.
TOGETHER_SECONDS, TOGETHER = 0.001, 6
#: The most runs that are.
MOST_TOGETHER = 100_000
#: What a device says whose clock did not move.
_TOO_SHORT = "too short for the clock of the device"
#: What takes so many times as long as the fastest choice so far has one sample: more would not bring it back.
BEHIND = 1.5
#: Of whole models: how often it is their turn, and about how long that is; of parts of models.
TURNS, TURN_SECONDS, PART_SECONDS = 5, 0.3, 0.03
#: The connection to a device is lost.
_LOST = "E0805"
#: What says nothing of a choice: what a machine lacks (a package, room on its disk, a compiler), here or at the device.
_LACKING = ("E0004", "E0010", "E0402", "E0806")
#: Of results, relative to the largest, between a choice and what the rules say.
TOLERANCE = 2e-5


@dataclass(frozen=True)
class Trial:
    """What became of a choice.

    Args:
        choice: as it was replayed; steps: of the schedule, as JSON.
        samples: costs of a call; error: why there are none.
        device: that ran it, as `Local` has it.
        unanswered: whether the error is that nothing came back, so that the device may be at fault.
    """

    choice: Choice
    steps: str
    samples: tuple[float, ...]
    error: str
    features: tuple[float, ...]
    device: str = ""
    unanswered: bool = False


@dataclass(frozen=True)
class Built:
    """A kernel by a choice, compiled: what goes to a device.

    Args:
        choice, steps, features: as of `Trial`.
        files: of a bundle of the kernel alone, by name; error: why there are none.
        copied: whether a device runs it, so that inputs and outputs are copied there and back.
    """

    choice: Choice
    steps: str
    features: tuple[float, ...]
    files: Mapping[str, bytes]
    error: str = ""
    copied: bool = False

    def trial(self, samples: tuple[float, ...] = (), error: str = "", unanswered: bool = False) -> Trial:
        """What became of it on a device."""
        return Trial(self.choice, self.steps, samples, error, self.features, "", unanswered)


@dataclass(frozen=True)
class Request:
    """A choice to measure.

    Args:
        kernel: its fingerprint; what: the choice, or what a builder made of one.
        first: the kernel's task, or what the rules make of it, where this process has not had it before.
    """

    kernel: str
    first: Task | Built | None
    what: Choice | Built


@dataclass(frozen=True)
class Turns:
    """Bundles of whole models to measure in turns, or of a `part` of one in several forms."""

    bundles: tuple[str, ...]
    part: bool = False


@dataclass
class _State:
    """A kernel that this process has had: what goes in, what comes out by the rules, the least cost so far."""

    on: str
    folder: Path
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    least: float = math.inf
    number: int = 0


def build(task: Task, choice: Choice) -> Built:
    """Compiles a choice; {} stands for the rules' own."""
    trace = replay(choice)
    steps, features = "", tuple[float, ...]()
    try:
        schedule = task.schedule(trace)
        steps = saved.to_json(schedule.steps)
        features = features_of(schedule, task.options.target)
        files, copied = bundle_files(alone(task, schedule)), task.options.target.device is not None
        return Built(trace.choice, steps, features, files, copied=copied)
    except SternaError as problem:
        _end_if_lacking(problem)
        why = first_line(problem)
    except UNFORESEEN as problem:
        why = internal(problem)
    return Built(trace.choice, steps, features, {}, why)


def first_line(problem: SternaError) -> str:
    """As records have it."""
    return str(problem).split("\n", 1)[0][:200]


@contextlib.contextmanager
def _machine(on: str) -> Iterator[None]:
    """Within it, bundles are loaded where `on` says."""
    if not on:
        yield
        return
    from sterna.emulate.devices import device  # noqa: PLC0415 (brings emulators)

    with device(on):
        yield


def _loaded(state: _State, files: Mapping[str, bytes]) -> Bundle:
    state.number += 1
    return load(write_files(dict(files), state.folder / str(state.number)).directory)


def _begin(rules: Built, on: str, folder: Path) -> _State:
    """Everything that the trials of a task have in common: inputs, and what comes of them by the rules."""
    state = _State(on, folder, {}, {})
    with _loaded(state, rules.files) as bundle:
        state.inputs = random_inputs(bundle.inputs, 7)
        state.expected = {name: array.copy() for name, array in bundle.run(dict(state.inputs)).items()}
    return state


def _begun(rules: Built, on: str, folder: Path) -> _State | str:
    """The same, or why there is nothing to compare with."""
    if rules.error:
        return rules.error
    try:
        folder.mkdir()
        return _begin(rules, on, folder)
    except SternaError as problem:
        _end_if_lost(problem)
        _end_if_lacking(problem)
        return str(problem).split("\n", 1)[0]


def is_lacking(problem: SternaError) -> bool:
    """Whether every other choice would fail there as well, so that it is nothing to be recorded."""
    return any(code in _LACKING for code in problem.codes)


def _end_if_lacking(problem: SternaError) -> None:
    """Raises it again where that is so, which ends this process and the search."""
    if is_lacking(problem):
        raise problem


def _end_if_lost(problem: SternaError) -> None:
    """Raises it again where the device is gone, which ends this process: another one connects anew."""
    if _LOST in problem.codes:
        raise problem


def _lost(problem: Failure) -> SternaError | None:
    """The same of a status; None where it says something else."""
    from sterna.rpc.frames import code_of  # noqa: PLC0415 (of devices only)

    is_lost = problem.status > 0 and code_of(problem.status) == _LOST
    return error(_LOST, problem.message.decode(errors="replace")) if is_lost else None


def _try(state: _State, built: Built) -> Trial:
    if built.error:
        return built.trial(error=built.error)
    try:
        with _loaded(state, built.files) as bundle:
            found = bundle.run(dict(state.inputs))
            wrong = [c for c in (compare(n, found[n], want) for n, want in state.expected.items()) if not _right(c)]
            if wrong:
                return built.trial(error=f"wrong: {wrong[0].error:.1e} off")
            samples = _counts(bundle) if counts(state.on) else times(bundle, state.on, built.copied, state.least)
            if any(not sample > 0 for sample in samples):
                return built.trial(error=_TOO_SHORT)
            state.least = min((state.least, *samples))
            return built.trial(samples)
    except SternaError as problem:
        _end_if_lost(problem)
        _end_if_lacking(problem)
        return built.trial(error=first_line(problem))
    except Failure as problem:
        if (lost := _lost(problem)) is not None:
            raise lost from None
        return built.trial(error=problem.message.decode(errors="replace")[:200])
    except UNFORESEEN as problem:
        return built.trial(error=internal(problem))
    finally:
        shutil.rmtree(state.folder / str(state.number), ignore_errors=True)


def _turns(bundles: Sequence[str], on: str, part: bool = False) -> list[list[float]] | str:
    """The costs of a run of each; or why they cannot be had. One is loaded at a time, as whoever deploys it does."""
    costs: list[list[float]] = [[] for _ in bundles]
    alike = Alike()
    try:
        for _ in range(1 if counts(on) else TURNS):
            for found, place in zip(costs, bundles, strict=True):
                with load(place) as bundle:
                    feed = random_inputs(bundle.inputs, 7)
                    results = bundle.run(feed)
                    if part and (why := alike.compared(feed, results)):
                        return why
                    seconds = PART_SECONDS if part else TURN_SECONDS
                    found.extend(_counts(bundle) if counts(on) else (_sum_of_nodes(bundle, seconds),))
    except SternaError as problem:
        _end_if_lost(problem)
        return str(problem).split("\n", 1)[0]
    if not all(costs):
        return "the device counts no instructions of it"
    return costs if all(cost > 0 for each in costs for cost in each) else _TOO_SHORT


class Alike:
    """Whether parts of models in different forms compute the same: what the first one made of inputs is kept."""

    def __init__(self) -> None:
        self._inputs: Mapping[str, Array] = {}
        self._results: dict[str, Array] = {}

    def compared(self, inputs: Mapping[str, Array], results: Mapping[str, Array]) -> str:
        """What is wrong with results, "" if nothing is. Only tensors of the same name and shape are compared, and only
        where all inputs are: other forms may have them in another order."""
        if not self._results:
            self._inputs, self._results = dict(inputs), {name: array.copy() for name, array in results.items()}
        shapes = ({name: array.shape for name, array in each.items()} for each in (self._inputs, inputs))
        if len({*map(str, shapes)}) > 1:
            return ""
        both = [name for name in results if name in self._results and results[name].shape == self._results[name].shape]
        wrong = [c for c in (compare(n, results[n], self._results[n]) for n in both) if not _right(c)]
        return f"wrong: {wrong[0].error:.1e} off" if wrong else ""


def _sum_of_nodes(bundle: Bundle, seconds: float) -> float:
    """Seconds of a run: of each node the fastest of many, which others on the machine rarely disturb; in pages of all
    nodes together."""
    if (page := _page(bundle)) is not None and all(node.kernel != "copy" for node in bundle.profile(1)):
        return _together(page, max(3, int(seconds / TOGETHER_SECONDS)))
    once = sum(node.fastest for node in bundle.profile(1)) * 1e-9
    repeat = max(3, min(200, int(seconds / max(once, 1e-8))))
    return sum(node.fastest for node in bundle.profile(repeat)) * 1e-9


def _right(check: Any) -> bool:
    return bool(check.within(TOLERANCE if check.dtype.startswith(("float", "bfloat")) else 0))


def counts(on: str) -> bool:
    """Whether a device counts instructions in place of time."""
    from sterna.emulate.devices import counts as counts_there  # noqa: PLC0415 (brings emulators)

    return bool(on) and counts_there(on)


def times(bundle: Bundle, on: str, copied: bool, least: float) -> tuple[float, ...]:
    """Seconds of a run: the fastest of many where it is short, which others on the machine rarely disturb, else, if a
    thread of this process computes it, by the clock of that. What is far behind `least` is measured once.

    Args:
        on: as of `_machine`; copied: as of `Built`.
    """
    if (found := _by_the_board(bundle, LEAST_SECONDS)) is not None:
        return tuple(sorted(sample * 1e-9 for sample in found)[:SAMPLES])
    if not copied and (page := _page(bundle)) is not None:
        first = _together(page)
        return (first,) if first > BEHIND * least else (first, *(_together(page) for _ in range(SAMPLES - 1)))
    kernel = next(node.index for node in bundle.profile(1) if node.kernel != "copy") if copied else 0
    once = _fastest(bundle, 2, kernel)
    if not on and not copied and once > LONG_SECONDS:
        return tuple(_timed(bundle.run) for _ in range(SAMPLES))
    repeat = max(3, min(20000, int(LEAST_SECONDS / max(once, 1e-8))))
    first = _fastest(bundle, repeat, kernel)
    if first > BEHIND * least:
        return (first,)
    return tuple(_fastest(bundle, repeat, kernel) for _ in range(SAMPLES))


def _page(bundle: Bundle) -> Callable[[int], float] | None:
    """What times so many runs of a bundle together, in seconds, where a page runs it."""
    from sterna.emulate.engines import BrowserFunctions  # noqa: PLC0415 (brings emulators)

    functions, pointer = bundle.of_runtime()
    return (lambda runs: functions.timed(pointer, runs) * 1e-9) if isinstance(functions, BrowserFunctions) else None


def _together(time_of: Callable[[int], float], times: int = TOGETHER) -> float:
    """Seconds of a run: the fastest of so many times that runs were timed together."""
    runs = 1
    while (taken := time_of(runs)) < TOGETHER_SECONDS and runs < MOST_TOGETHER:
        runs = min(MOST_TOGETHER, max(2 * runs, int(runs * TOGETHER_SECONDS / taken) + 1 if taken > 0 else 8 * runs))
    return min(time_of(runs) for _ in range(times)) / runs


def _fastest(bundle: Bundle, runs: int, kernel: int) -> float:
    """Seconds of the fastest of so many runs, of that node alone."""
    functions, pointer = bundle.of_runtime()
    if isinstance(functions, Functions):
        return min(functions.profiled(pointer, runs, kernel)) * 1e-9
    return bundle.profile(runs)[kernel].fastest * 1e-9


def _timed(run: Callable[[], object]) -> float:
    start = time.thread_time()
    run()
    return time.thread_time() - start


def _counts(bundle: Bundle) -> tuple[float, ...]:
    """Instructions of a run on an emulated board."""
    from sterna.firmware.remote import counted  # noqa: PLC0415 (brings emulators)

    if (samples := _by_the_board(bundle, 0.0)) is not None:
        return (float(min(samples)),)
    bundle.run()
    found = counted(bundle)
    return () if found is None else (float(found.instructions),)


def _by_the_board(bundle: Bundle, least: float) -> tuple[int, ...] | None:
    """Runs that firmware behind a serial line has timed or counted itself; None where a bundle runs elsewhere."""
    from sterna.rpc.serial import SerialFunctions  # noqa: PLC0415 (brings emulators)
    from sterna.rpc.timing import timed  # noqa: PLC0415

    functions, _ = bundle.of_runtime()
    if not isinstance(functions, SerialFunctions):
        return None
    return timed(functions, bundle, (1, SAMPLES, 100), least).samples


def send(stream: IO[bytes], message: object) -> None:
    """One message: its length and it."""
    data = pickle.dumps(message)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """The next message.

    Raises:
        EOFError: the other side is gone.
    """
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


def main() -> None:
    """Answers until standard input ends. What the kernel or a compiler prints goes to standard error.

    A request is a choice of a kernel, or bundles to measure in turns. The first answer is None once the device is open.
    A `SternaError` is the last one: the device is not there, or not any more.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    with contextlib.suppress(EOFError, BrokenPipeError):
        on, scratch = receive(requests)
        tempfile.tempdir = scratch  # whoever ends this process removes what it leaves
        try:
            with _machine(on):
                send(answers, None)
                _answer(requests, answers, on, Path(scratch))
        except SternaError as problem:
            send(answers, problem)


def _answer(requests: IO[bytes], answers: IO[bytes], on: str, folder: Path) -> None:
    tasks: dict[str, Task] = {}
    states: dict[str, _State | str] = {}
    while True:
        asked = receive(requests)
        if isinstance(asked, Turns):
            send(answers, _turns(asked.bundles, on, asked.part))
            continue
        kernel, first, what = asked.kernel, asked.first, asked.what
        if isinstance(first, Task):
            tasks[kernel], first = first, build(first, {})
        if first is not None:
            states[kernel] = _begun(first, on, folder / kernel)
        state = states[kernel]
        if isinstance(state, str):
            choice = what.choice if isinstance(what, Built) else what
            send(answers, Trial(choice, "", (), state, ()))
        else:
            send(answers, _try(state, what if isinstance(what, Built) else build(tasks[kernel], what)))
