"""A measurer that counts a kernel's instructions under qemu-user, by the plugin of `bench/arm64`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from arm64.counting import Machine
from sterna.bundle.directory import write_files
from sterna.choices import Choice
from sterna.errors import SternaError
from sterna.te.tensor import Kernel
from sterna.tuning.kernels import Task
from sterna.tuning.worker import TOLERANCE, Trial, build


class Counting:
    """The instructions of a call: the same each time, on a machine however busy."""

    unit, devices, width = "instructions", ("counted",), 1

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sterna-tuner-")
        self._machine = Machine(Path(self._folder.name) / "machine")
        self._expected: dict[str, list[np.ndarray]] = {}
        self._number = 0

    def measure(self, task: Task, choice: Choice) -> Trial:
        if task.kernel not in self._expected:
            self._expected[task.kernel] = self._run(task, {})[1]
        return self._run(task, choice)[0]

    def measure_all(self, task: Task, choices: Sequence[Choice]) -> Generator[Trial, None, None]:
        for choice in choices:
            yield self.measure(task, choice)

    def turns(self, bundles: Sequence[Path]) -> Sequence[Sequence[float]] | str:
        return "only kernels are counted here"

    def _run(self, task: Task, choice: Choice) -> tuple[Trial, list[np.ndarray]]:
        built = build(task, choice)
        if built.error:
            return built.trial(error=built.error), []
        self._number += 1
        place = Path(self._folder.name) / str(self._number)
        try:
            bundle = write_files(dict(built.files), place).directory
            counted = self._machine.bundle(bundle, task.options.target, _inputs(task), place / "work")
        except SternaError as problem:
            return built.trial(error=str(problem).split("\n", 1)[0][:200]), []
        finally:
            shutil.rmtree(place, ignore_errors=True)
        found = [each.view(np.float32) for each in counted.outputs]
        for own, wanted in zip(found, self._expected.get(task.kernel, found), strict=True):
            off = float(np.max(np.abs(own - wanted))) / max(float(np.max(np.abs(wanted))), 1e-30)
            if not off <= TOLERANCE:
                return built.trial(error=f"wrong: {off:.1e} off"), []
        return built.trial((float(counted.run.total),)), found

    def __enter__(self) -> Counting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()


def _inputs(task: Task) -> list[np.ndarray]:
    kernel, random = task.call.kernel, np.random.default_rng(7)
    assert isinstance(kernel, Kernel)
    shapes = ([int(extent) for extent in tensor.shape] for tensor in kernel.inputs)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]
