"""How devices are timed: by the protocol of `protocol.py`, but for what is different there.

* A call ends when the device is done; what counts is the median of wall time over all turns. Kernels on their own are
  timed by the device's events.
* The processes of one workload are loaded at the same time, and of all kernels that move memory together: what is
  compared runs in the same minutes.
* Clocks, power state and temperature are noted before the first round and after each.
* The first result is timed in fresh processes, after one that fills the driver's cache of compiled kernels.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from environments import Environments
from gpu.device import Device, State, state_of
from gpu.workloads import Workload
from models import Model, Models
from protocol import Bench, Record, Settings, Worker, interleave
from sterna.errors import SternaError

Pair = tuple[Workload, str]
"""With the name of an engine."""
#: Starts in fresh processes.
FIRST = "sterna-copies"


class DeviceBench(Bench):
    """Runs workloads on a device.

    Args:
        threads: of peers on the CPU.
        bound: the error that Sterna may make where TF32 is allowed.
    """

    def __init__(
        self, models: Models, environments: Environments, settings: Settings, device: Device, bound: float
    ) -> None:
        super().__init__(models.folder / device.slug, environments, models, settings)
        self.device, self.bound = device, bound
        #: Of every round: what was timed, the rounds that are done, and the device's state.
        self.states: list[State] = []

    def measure_pairs(self, pairs: Sequence[Pair]) -> list[tuple[Pair, dict[str, Record]]]:
        """Times all of them in turns; records by stage, "compile" and "run"."""
        records = [{"compile": self._compiled(workload, name)} for workload, name in pairs]
        workers: dict[int, Worker] = {}
        try:
            for number, (workload, name) in enumerate(pairs):
                if "failed" in records[number]["compile"]:
                    continue
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
        """Milliseconds from load to the first result, of so many fresh processes, after one that does not count."""
        compiled = self._compiled(workload, FIRST)
        if "failed" in compiled:
            return compiled
        times = []
        for _ in range(count + 1):
            worker = self._start(FIRST, workload, self.settings.threads[0], "load")
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

        for number, turns in interleave(workers, self.settings, note).items():
            if turns.failed:
                records[number]["run"]["failed"] = turns.failed
            else:
                records[number]["run"] |= {"us": statistics.median(turns.wall), "samples": turns.wall}

    def _compiled(self, workload: Workload, name: str) -> Record:
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
