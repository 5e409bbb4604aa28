"""How peers are timed on a machine that is never quite quiet.

* compile: in a process of its own, once per model, kept by the model's digest.
* load: a fresh process per peer, model and number of threads. The peer's library is imported first; then load, first
  inference and reading the outputs are timed as one: what a program that runs once pays. Memory is the peak of the
  process right after it, less what Python and NumPy had taken.
* check: the outputs against those of ONNX Runtime without graph optimization, or of LiteRT's reference kernels.
* time: the processes of all peers live at the same time, but only the one whose turn it is runs; the others are
  stopped, so that no spinning pool of threads robs another. Turns go round: A B C A B C. A turn is one call that does
  not count and then so many milliseconds of timed calls.

What the tables show is CPU time per call for one thread (the median over turns; it leaves out the time spent waiting
for a core, and equals wall time on a quiet machine), and the best decile of wall time for more (threads that spin make
CPU time useless there).
"""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from environments import Environments
from models import Model, Models
from peers import ENGINES
from sterna.errors import SternaError

Key = TypeVar("Key")
Record = dict[str, Any]
"""Of one peer on one model with one number of threads: what its worker said, `wrong`, and `us`, the tables' figure."""

#: An output further from the reference than this, in parts of its largest element, is wrong: its time does not count.
WRONG = 1e-3
#: The same where engines round integers each in its own way: some levels of the 256, which later layers of random
#: weights spread.
WRONG_INTEGER = 0.25


@dataclass(frozen=True)
class Settings:
    """Peers and numbers of threads to run; `rounds` of turns of `turn_ms` each; `least` timed calls in all.

    `wrong`: the error from which on a time does not count, unless the reference runtimes of a model differ by more.
    Compiling may take `compile_seconds`, and a load or a turn `answer_seconds`.
    """

    peers: Sequence[str]
    threads: Sequence[int]
    rounds: int = 8
    turn_ms: float = 150.0
    least: int = 30
    wrong: float = WRONG
    compile_seconds: float = 300.0
    answer_seconds: float = 90.0


class Worker:
    """The process of one peer."""

    def __init__(self, python: str, peer: str, described: Path, log: Path, environment: Mapping[str, str]):
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [python, str(Path(__file__).with_name("worker.py")), peer, str(described)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def answer(self, seconds: float) -> Record:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            self.kill()
            return {"failed": f"no answer in {seconds:.0f} s"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"failed": f"ended with status {self.process.wait()}"}

    def turn(self, milliseconds: float, patience: float) -> Record:
        """Lets it run for so long, alone; an answer may take `patience` seconds."""
        assert self.process.stdin is not None
        self.signal(signal.SIGCONT)
        self.process.stdin.write(f"{milliseconds}\n")
        self.process.stdin.flush()
        said = self.answer(patience)
        if self.process.poll() is None:
            self.signal(signal.SIGSTOP)
        return said

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
        self.process.wait()


@dataclass
class Turns:
    """What a worker said in all its turns: wall times of calls and CPU time of a call in each turn, in microseconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    failed: str = ""


def interleave(
    workers: Mapping[Key, Worker],
    settings: Settings,
    note: Callable[[int], None],
    is_over: Callable[[], bool] = lambda: False,
) -> dict[Key, Turns]:
    """Lets stopped workers run one at a time, in turns that go round.

    Args:
        note: called before the first round and after each, with the number of rounds that are done.
        is_over: asked after each round: whether it was the last one, because the time is up.
    """
    found = {key: Turns() for key in workers}
    note(0)
    for turn in range(100):
        alive = [key for key, turns in found.items() if not turns.failed]
        if turn >= settings.rounds and all(len(found[key].wall) >= settings.least for key in alive):
            break
        for key in alive:
            said = workers[key].turn(settings.turn_ms, settings.answer_seconds)
            if "failed" in said:
                found[key].failed = said["failed"]
            else:
                found[key].wall += said["us"]
                found[key].cpu.append(said["cpu_us"])
        note(turn + 1)
        if is_over():
            break
    return found


class Bench:
    """Runs models by the protocol; `folder` keeps what was compiled, inputs and logs."""

    def __init__(self, folder: Path, environments: Environments, models: Models, settings: Settings):
        self.folder, self.environments, self.models, self.settings = folder, environments, models, settings
        for name in ("compiled", "logs", "tasks"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def measure(self, model: Model) -> dict[str, dict[str, Record]]:
        """Records by peer and then by stage: "compile", "1", "2" ..."""
        records: dict[str, dict[str, Record]] = {}
        for peer in self.settings.peers:
            try:
                records[peer] = {"compile": self._compile(peer, model)}
            except SternaError as problem:  # it cannot be installed here
                records[peer] = {"compile": {"failed": problem.diagnostics[0].title}}
        for threads in self.settings.threads:
            workers: dict[str, Worker] = {}
            try:
                for peer in self.settings.peers:
                    if "failed" in records[peer]["compile"]:
                        continue
                    worker = self._start(peer, model, threads, "load")
                    said = records[peer][str(threads)] = self._loaded(worker, self._limit(peer, model))
                    if "failed" not in said:
                        workers[peer] = worker
                self._turns(workers, {peer: records[peer][str(threads)] for peer in workers}, threads)
            finally:
                for worker in workers.values():
                    worker.kill()
        return records

    def _loaded(self, worker: Worker, limit: float) -> Record:
        """What a worker says of its first inference, after which it is stopped, or killed if it failed."""
        said = worker.answer(self.settings.answer_seconds)
        if "failed" in said:
            worker.kill()
        else:
            worker.signal(signal.SIGSTOP)
            said["wrong"] = not said["error"] < limit
        return said

    def _limit(self, peer: str, model: Model) -> float:
        """The error from which on a peer's time does not count."""
        if model.own_limit is not None and peer.startswith("sterna"):
            return model.own_limit
        return max(self.settings.wrong, model.spread)

    def _turns(self, workers: dict[str, Worker], records: dict[str, Record], threads: int) -> None:
        for peer, turns in interleave(workers, self.settings, lambda _: None).items():
            if turns.failed:
                records[peer]["failed"] = turns.failed
                continue
            decile = float(np.percentile(turns.wall, 10))
            figure = statistics.median(turns.cpu) if threads == 1 else decile
            records[peer].update(us=figure, median_us=statistics.median(turns.wall), decile_us=decile)

    def _task(self, model: Model) -> dict[str, Any]:
        """What workers are told of a model, for `peers.Task`."""
        return {"onnx": model.file, "arrays": self.models.arrays(model)}

    def _own(self, peer: str, model: Model) -> Path:
        """The folder of what a peer makes of a model."""
        return self.folder / "compiled" / peer / f"{model.label}-{model.digest}"

    def _compile(self, peer: str, model: Model) -> Record:
        kept = self._own(peer, model) / "compile.json"
        # The project's own compiler is what changes; what failed may have lacked something that is there by now.
        if not kept.exists() or peer.startswith("sterna") or "failed" in json.loads(kept.read_text()):
            worker = self._start(peer, model, 2, "compile")
            try:
                said = worker.answer(self.settings.compile_seconds)
            finally:
                worker.kill()
            kept.write_text(json.dumps(said))
        found: Record = json.loads(kept.read_text())
        return found

    def _start(self, peer: str, model: Model, threads: int, stage: str) -> Worker:
        own = self._own(peer, model)
        own.mkdir(parents=True, exist_ok=True)
        name = f"{peer}-{model.label}-{threads}-{stage}"
        described = self.folder / "tasks" / f"{name}.json"
        task = self._task(model) | {"folder": own, "threads": threads, "stage": stage}
        described.write_text(json.dumps(task, default=str))
        settings = dict.fromkeys(("OMP_NUM_THREADS", "TVM_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        if ENGINES[peer].converter and stage == "compile" and model.file.suffix == ".onnx":
            settings["BENCH_CONVERTER"] = self.environments.converter(peer)
        if ENGINES[peer].node:
            settings["BENCH_MODULES"] = str(self.environments.modules(peer))
        python = self.environments.python(peer)
        return Worker(python, peer, described, self.folder / "logs" / f"{name}.txt", settings)
