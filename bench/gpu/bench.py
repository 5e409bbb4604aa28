"""How devices are timed: by the protocol of `protocol.py`, but for what is different there.

* A call ends when the device is done; what counts is the median of wall time over all turns. Kernels on their own are
  timed by the device's events.
* The processes of one workload are loaded at the same time, and of all kernels that move memory together: what is
  compared runs in the same minutes.
* Clocks, power state and temperature are noted before the first round and after each.
* The first result is timed in fresh processes, after one that fills the driver's cache of compiled kernels.
* Where the time is limited, what is being timed ends with its round, and a peer's compiler has half of what is left.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from environments import Environments
from gpu.device import Device, State, state_of
from gpu.workloads import Workload
from models import Model, Models
from protocol import Bench, Record, Settings, Worker, interleave
from sterna.errors import SternaError

Pair = tuple[Workload, str]
"""With the name of an engine."""
#: Starts in fresh processes: with the device open already, and with all that opening it takes.
OPENED, FIRST = "sterna-opened", "sterna-copies"


class DeviceBench(Bench):
    """Runs workloads on a device.

    Args:
        threads: of peers on the CPU.
        bound: the error that Sterna may make where TF32 is allowed.
        seconds: that everything may take.
    """

    def __init__(
        self,
        models: Models,
        environments: Environments,
        settings: Settings,
        device: Device,
        bound: float,
        seconds: float = math.inf,
    ) -> None:
        super().__init__(models.folder / device.slug, environments, models, settings)
        self.device, self.bound, self.patient = device, bound, settings
        self.end = time.monotonic() + seconds
        #: Of every round: what was timed, the rounds that are done, and the device's state.
        self.states: list[State] = []

    @property
    def left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.left <= 0

    def measure_pairs(self, pairs: Sequence[Pair]) -> list[tuple[Pair, dict[str, Record]]]:
        """Times all of them in turns; records by stage, "compile" and "run"."""
        records = [{"compile": self._compiled(workload, name)} for workload, name in pairs]
        workers: dict[int, Worker] = {}
        try:
            for number, (workload, name) in enumerate(pairs):
                if "failed" in records[number]["compile"]:
                    continue
                self._hurry()
                worker = self._start(name, workload, self.settings.threads[0], "load")
                said = self._loaded(worker, self._limit(name, workload))
                records[number]["run"] = said
                if "failed" not in said:
                    workers[number] = worker
            if workers:
                self._timed(workers, records, pairs[0][0])
        finally:
            for worker in workers.values():
                worker.kill()
        return list(zip(pairs, records, strict=True))

    def starts(self, workload: Workload, count: int) -> Record:
        """Milliseconds from load to the first result in processes that have the device open, and in others."""
        found = self._starts(workload, count, FIRST)
        if "failed" in found:
            return found
        opened = self._starts(workload, count, OPENED)
        return (
            opened | {"cold_ms": found["cold_ms"], "alone_ms": found["first_ms"]} if "failed" not in opened else opened
        )

    def _starts(self, workload: Workload, count: int, engine: str) -> Record:
        """Of so many fresh processes, after one that does not count."""
        compiled = self._compiled(workload, engine)
        if "failed" in compiled:
            return compiled
        times = []
        for _ in range(count + 1):
            if self.is_over and len(times) > 1:
                break
            worker = self._start(engine, workload, self.settings.threads[0], "load")
            try:
                said = worker.answer(self.settings.answer_seconds)
            finally:
                worker.kill()
            if "failed" in said:
                return said
            times.append(said["first_ms"])
        return {"first_ms": statistics.median(times[1:]), "samples": times[1:], "cold_ms": times[0]}

    def _timed(self, workers: dict[int, Worker], records: list[dict[str, Record]], workload: Workload) -> None:
        where = workload.label if not workload.kernel else "kernels"

        def note(rounds: int) -> None:
            self.states.append({"where": where, "rounds": rounds, **state_of(self.device)})

        for number, turns in interleave(workers, self.settings, note, lambda: self.is_over).items():
            if turns.failed:
                records[number]["run"]["failed"] = turns.failed
            else:
                records[number]["run"] |= {"us": statistics.median(turns.wall), "samples": turns.wall}

    def _hurry(self, share: float = 1.0) -> None:
        """Lets compilers and answers have no more than a share of the time that is left."""
        most = max(1.0, share * self.left)
        own = self.patient
        compiling, answering = min(own.compile_seconds, most), min(own.answer_seconds, most)
        self.settings = replace(own, compile_seconds=compiling, answer_seconds=answering)

    def _compiled(self, workload: Workload, name: str) -> Record:
        self._hurry(1.0 if name.startswith("sterna") else 0.5)
        try:
            return self._compile(name, workload)
        except SternaError as problem:  # it cannot be installed here
            return {"failed": problem.diagnostics[0].title}

    def _task(self, model: Model) -> dict[str, Any]:
        assert isinstance(model, Workload)
        return {
            **super()._task(model),
            "target": self.device.target,
            "device": "cuda" if self.device.kind == "cuda" else "",
            "precision": model.precision,
            "bound": self.bound,
            "kernel": model.kernel,
            "program": model.program,
        }
