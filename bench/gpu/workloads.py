"""What is timed: networks with a batch and a precision, and kernels on their own; with the outputs that are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from batches import network_and_batch
from gpu.kernels import KERNELS, Sizes
from models import COUNTED, Model, Models
from reference import Case, unoptimized
from sterna.errors import Diagnostic, SternaError
from support.halves import in_halves
from worker import deviation

PRECISIONS = ("fp32", "tf32", "fp16")
#: Networks of which larger batches are timed, too.
BATCHED, BATCHES = ("resnet50", "minilm_128"), (8, 32)
#: What is no network.
PRODUCT, BANDWIDTH, START = "product", "bandwidth", "start"
#: Names that stand for several.
GROUPS = {"networks": COUNTED, "batches": tuple(f"{name}_b{batch}" for name in BATCHED for batch in BATCHES)}
USUAL = (*GROUPS, PRODUCT, BANDWIDTH, START)
#: Times of the error that the roundings of a model in float16 make: other orders of them make other errors.
SPREAD = 4.0


@dataclass(frozen=True)
class Workload(Model):
    """A model as it is timed.

    Args:
        network: the name without batch and precision; of a kernel, its own.
        kernel: one of KERNELS, timed by the device itself; "": a network.
        program: what torch exported beside it.
    """

    network: str = ""
    batch: int = 1
    precision: str = "fp32"
    kernel: str = ""
    program: Path | None = None


def names_of(given: Sequence[str]) -> list[str]:
    """The names, groups taken apart; what is usual where none is given."""
    return list(dict.fromkeys(name for each in given or USUAL for name in GROUPS.get(each, (each,))))


class Workloads:
    """Makes workloads of the models, and keeps what it made beside theirs."""

    def __init__(self, models: Models):
        self.models = models
        #: By name, why one cannot be had.
        self.failed: dict[str, str] = {}

    def find(self, names: Sequence[str], precisions: Sequence[str]) -> list[Workload]:
        """Of every network, in every precision.

        Raises:
            SternaError: E0006 for every name that is none.
        """
        wrong = [Diagnostic("E0006", f"{name} is no ONNX file") for name in names if name.endswith(".tflite")]
        if wrong:
            raise SternaError(wrong)
        found = []
        try:
            bases = self.models.find(names)
        except SternaError as problem:
            if problem.codes != ("E0004",):
                raise
            bases, self.failed[names[0]] = [], problem.diagnostics[0].title
        for base in bases:
            network, batch = network_and_batch(base.label)
            program = base.file.with_suffix(".pt2")
            for precision in precisions:
                model = self._in_precision(base, precision)
                found.append(
                    Workload(
                        **{name: getattr(model, name) for name in ("label", "file", "case", "rounding", "own_limit")},
                        network=network,
                        batch=batch,
                        precision=precision,
                        program=program if program.exists() else None,
                    )
                )
        self.failed |= self.models.failed
        return found

    def kernels(self, names: Sequence[str], sizes: Sizes) -> list[Workload]:
        """Kernels of these sizes."""
        found = []
        for name in names:
            kernel = KERNELS[name]
            label = f"{name}-{sizes.side if kernel.half else f'{sizes.rows}x{sizes.columns}'}"
            file = self.models.folder / "kernels" / f"{label}.onnx"
            file.parent.mkdir(parents=True, exist_ok=True)
            onnx.save(kernel.make(sizes), file)
            precision, rounding = ("fp16", 2.0**-8) if kernel.half else ("fp32", 0.0)
            found.append(Workload(label, file, None, rounding, network=name, precision=precision, kernel=name))
        return found

    def _in_precision(self, base: Model, precision: str) -> Model:
        if precision == "fp32":
            return base
        inputs, outputs, halves, spread = self._in_halves(base)
        label = f"{base.label}-{precision}"
        if precision == "tf32":  # factors have as many bits as in float16
            return replace(base, label=label, case=Case(inputs, outputs, spread))
        return Model(label, halves, Case({name: _half(array) for name, array in inputs.items()}, outputs, spread))

    def _in_halves(self, base: Model) -> tuple[dict[str, Any], list[Any], Path, float]:
        """Inputs and right outputs of a model, the file of the same in float16, and how far that is off."""
        with np.load(self.models.arrays(base)) as arrays:
            inputs = {key[3:]: arrays[key] for key in arrays.files if key.startswith("in:")}
            outputs = [arrays[key] for key in arrays.files if key.startswith("out:")]
        file = self.models.folder / "halves" / f"{base.label}-{base.digest}.onnx"
        note = file.with_suffix(".spread")
        if not note.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            onnx.save(in_halves(onnx.load(base.file)), file)
            rounded = unoptimized(file).run(None, {name: _half(array) for name, array in inputs.items()})
            note.write_text(str(SPREAD * deviation(rounded, outputs)))
        return inputs, outputs, file, float(note.read_text())


def _half(array: Any) -> Any:
    return array.astype(np.float16) if array.dtype == np.float32 else array
