"""What a model's kernels compute, and how near each comes to the machine's limits."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sterna
from machine import Limits
from sterna.api import compile_model
from sterna.bundle.writer import write_bundle
from sterna.ir import dtypes
from sterna.te.expr import Binary
from sterna.te.tensor import Kernel


@dataclass(frozen=True)
class Layer:
    """One node of a bundle, timed alone.

    Args:
        us: median microseconds; multiply_adds: of its sums of products.
        nbytes: of all that it reads and writes, each byte once; between: of all that the model does, so that this much
            lies between two uses of a weight.
        streamed: bytes of weights that the steps of a recurrence read, each of them all.
        integers: whether bytes are multiplied.
    """

    name: str
    kernel: str
    us: float
    multiply_adds: int
    nbytes: int
    between: int
    streamed: int = 0
    steps: int = 1
    integers: bool = False

    def bound(self, limits: Limits) -> tuple[float, str]:
        """Least microseconds by the machine's limits, and which limit that is."""
        dots = self.integers and limits.gops > 0
        compute = 2 * self.multiply_adds / (limits.gops if dots else limits.gflops) / 1e3
        bounds = [(compute, "dot products" if dots else "FMA")]
        bounds.append((self.nbytes / limits.rate(self.between) / 1e3, "memory"))
        bounds.append((self.streamed / limits.rate(self.streamed // self.steps) / 1e3, "cache"))
        return max(bounds, key=lambda found: found[0])


def _product(sizes: Iterable[Any]) -> int:
    result = 1
    for size in sizes:
        result *= int(size)
    return result


def multiply_adds(kernel: Kernel) -> int:
    """Of all sums of products, those of a recurrence's steps included."""
    total = 0
    for stage in kernel.stages:
        sums = stage.reduction
        if sums is not None and isinstance(sums.a, Binary) and sums.a.op == "mul":
            total += _product(a.extent for a in stage.axes) * _product(a.extent for a in sums.axes)
    return total


def nbytes(kernel: Kernel) -> int:
    tensors = (*kernel.inputs, *kernel.params, *kernel.outputs)
    return sum(_product(t.shape) * dtypes.size(t.dtype) for t in tensors)


def streamed(kernel: Kernel) -> tuple[int, int]:
    """Bytes of weights that the steps of a recurrence read in all, and the number of steps."""
    if kernel.scan is None:
        return 0, 1
    read = {load.tensor.name for stage in kernel.stages if stage.reduction is not None for load in stage.reads()}
    weights = [p for p in kernel.params if p.name in read]
    steps = int(kernel.scan.length)
    return steps * sum(_product(p.shape) * dtypes.size(p.dtype) for p in weights), steps


def measure(model: Path, inputs: Mapping[str, Any], threads: int, repeat: int = 30) -> list[Layer]:
    """Compiles the model (constant shapes) and times every node of it."""
    compiled = compile_model(str(model), shapes={name: a.shape for name, a in inputs.items()}, threads=threads)
    with tempfile.TemporaryDirectory() as folder:
        write_bundle(compiled, Path(folder) / "bundle")
        with sterna.load(Path(folder) / "bundle", threads) as bundle:
            bundle.run(inputs)
            for name, array in inputs.items():
                bundle.set_input(name, array)
            times = bundle.profile(repeat)
            memory = bundle.memory()
    layers = []
    for time, call in zip(times, compiled.calls, strict=True):
        us, between = time.nanoseconds / 1e3, memory["params"] + memory["arena"]
        if not isinstance(call.kernel, Kernel):  # a loop program does not say what it computes
            layers.append(Layer(time.name, time.kernel, us, 0, 0, between))
            continue
        work, size = multiply_adds(call.kernel), nbytes(call.kernel)
        integers = any(p.dtype in ("int8", "uint8") for p in call.kernel.params)
        layers.append(Layer(time.name, time.kernel, us, work, size, between, *streamed(call.kernel), integers))
    return layers
