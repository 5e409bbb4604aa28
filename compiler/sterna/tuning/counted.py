"""A measurer that counts instructions of kernels and models under qemu-user, for processors that are not here."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from sterna.bundle.directory import write_files
from sterna.choices import Choice
from sterna.emulate.counting import Machine
from sterna.errors import SternaError
from sterna.scratch import temporary_directory
from sterna.targets.target import Target
from sterna.te.tensor import Kernel, Tensor
from sterna.tuning.kernels import Task
from sterna.tuning.worker import TOLERANCE, Trial, build
from sterna_runtime.checks import compare
from sterna_runtime.inputs import TensorSpec, dtype_from_name
from sterna_runtime.random_inputs import random_inputs


class Counting:
    """The instructions of a call: the same each time, on a machine however busy.

    Args:
        target: of whole models that are counted; on: what records name.

    Raises:
        SternaError: as of `Machine`.
    """

    unit, width = "instructions", 1

    def __init__(self, target: Target, on: str) -> None:
        self._target, self.devices = target, (on,)
        self._folder = temporary_directory("counted")
        self._machine = Machine(Path(self._folder.name) / "machine")
        self._expected: dict[str, list[np.ndarray[Any, Any]]] = {}
        self._number = 0

    def measure(self, task: Task, choice: Choice) -> Trial:
        if task.kernel not in self._expected:
            rules, outputs = self._run(task, {})
            if rules.error:  # nothing to compare other choices with
                return Trial(choice, "", (), rules.error, (), self.devices[0])
            self._expected[task.kernel] = outputs
        return replace(self._run(task, choice)[0], device=self.devices[0])

    def measure_all(self, task: Task, choices: Sequence[Choice]) -> Generator[Trial, None, None]:
        for choice in choices:
            yield self.measure(task, choice)

    def turns(self, bundles: Sequence[Path], part: bool = False) -> Sequence[Sequence[float]] | str:
        try:
            return [[float(self._whole(bundle))] for bundle in bundles]
        except SternaError as problem:
            return str(problem).split("\n", 1)[0]

    def _whole(self, bundle: Path) -> int:
        graph = json.loads((bundle / "graph.json").read_text())
        values = [graph["values"][n] for n in graph["inputs"]]
        specs = [TensorSpec(v["name"], dtype_from_name(v["dtype"]), tuple(v["dims"])) for v in values]
        with tempfile.TemporaryDirectory(dir=self._folder.name) as work:
            return self._machine.bundle(bundle, self._target, _inputs(specs), Path(work)).run.total

    def _run(self, task: Task, choice: Choice) -> tuple[Trial, list[np.ndarray[Any, Any]]]:
        built, kernel = build(task, choice), task.call.kernel
        assert isinstance(kernel, Kernel)
        if built.error:
            return built.trial(error=built.error), []
        self._number += 1
        place = Path(self._folder.name) / str(self._number)
        try:
            bundle = write_files(dict(built.files), place).directory
            inputs = _inputs([_spec(t) for t in kernel.inputs])
            counted = self._machine.bundle(bundle, self._target, inputs, place / "work")
        except SternaError as problem:
            return built.trial(error=str(problem).split("\n", 1)[0][:200]), []
        finally:
            shutil.rmtree(place, ignore_errors=True)
        specs = map(_spec, kernel.outputs)
        found = [each.view(spec.dtype) for each, spec in zip(counted.outputs, specs, strict=True)]
        for own, wanted in zip(found, self._expected.get(task.kernel, found), strict=True):
            if not (off := compare("", own, wanted).error) <= TOLERANCE:
                return built.trial(error=f"wrong: {off:.1e} off"), []
        return built.trial((float(counted.run.total),)), found

    def __enter__(self) -> Counting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()


def _spec(tensor: Tensor) -> TensorSpec:
    return TensorSpec(tensor.name, dtype_from_name(tensor.dtype), tuple(int(extent) for extent in tensor.shape))


def _inputs(specs: Sequence[TensorSpec]) -> list[np.ndarray[Any, Any]]:
    return [*random_inputs(specs, 7).values()]
