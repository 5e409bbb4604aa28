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
        nbytes: of all that it reads and writes, each byte once.
        integers: whether bytes are multiplied.
    """

    name: str
    kernel: str
    us: float
    multiply_adds: int
    nbytes: int
    integers: bool = False

    def bound(self, limits: Limits) -> tuple[float, str]:
        """Least microseconds by the machine's limits, and which limit that is."""
        dots = self.integers and limits.gops > 0
        compute = 2 * self.multiply_adds / (limits.gops if dots else limits.gflops) / 1e3
        memory = self.nbytes / limits.gbytes / 1e3
        return (compute, "dot products" if dots else "FMA") if compute >= memory else (memory, "memory")


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
    layers = []
    for time, call in zip(times, compiled.calls, strict=True):
        work, size, integers = 0, 0, False  # a kernel written as a loop program does not say what it computes
        if isinstance(call.kernel, Kernel):
            work, size = multiply_adds(call.kernel), nbytes(call.kernel)
            integers = any(p.dtype in ("int8", "uint8") for p in call.kernel.params)
        layers.append(Layer(time.name, time.kernel, time.nanoseconds / 1e3, work, size, integers))
    return layers
