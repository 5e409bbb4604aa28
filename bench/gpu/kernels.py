"""Kernels on their own: a product that is held to cuBLAS's rate, and kernels that do no more than move memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from one_operator import HALF, one
from operators import product


@dataclass(frozen=True)
class Sizes:
    """A square product's side, and the rows and columns of what memory kernels read."""

    side: int
    rows: int
    columns: int


#: What the goals are about, beyond every cache of today's GPUs; and what tries the benchmark on a CPU.
SIZES = {"full": Sizes(4096, 8192, 4096), "small": Sizes(128, 64, 256)}


@dataclass(frozen=True)
class Kernel:
    """One operator.

    Args:
        make: its model, of these sizes; half: in float16.
        tensors: how many of the large ones it reads and writes.
    """

    make: Callable[[Sizes], onnx.ModelProto]
    tensors: int
    half: bool = False

    def bytes(self, sizes: Sizes) -> int:
        """Read and written, each once."""
        elements = sizes.side**2 if self.half else sizes.rows * sizes.columns
        return self.tensors * elements * (2 if self.half else 4)

    def operations(self, sizes: Sizes) -> int:
        """Multiplications and additions of the product."""
        return 2 * sizes.side**3 if self.half else 0


def _rows(op: str, count: int = 1) -> Callable[[Sizes], onnx.ModelProto]:
    def make(sizes: Sizes) -> onnx.ModelProto:
        return one(op, {f"x{number}": (sizes.rows, sizes.columns) for number in range(count)})

    return make


def _layer_norm(sizes: Sizes) -> onnx.ModelProto:
    wide = (sizes.columns,)
    return one("LayerNormalization", {"x": (sizes.rows, sizes.columns), "scale": wide, "bias": wide})


PRODUCT = "product"
COPY = "copy"
#: By name; torch has the same ones in gpu/engines.py.
KERNELS = {
    PRODUCT: Kernel(lambda sizes: product(*[(sizes.side, sizes.side)] * 2, constant=False, dtype=HALF)(), 3, half=True),
    COPY: Kernel(_rows("Identity"), 2),
    "add": Kernel(_rows("Add", 2), 3),
    "relu": Kernel(_rows("Relu"), 2),
    "softmax": Kernel(_rows("Softmax"), 2),
    "layer_norm": Kernel(_layer_norm, 2),
}
#: Those that are held to the rate of a copy.
MEMORY = tuple(name for name in KERNELS if name != PRODUCT)


def rate(name: str, sizes: Sizes, us: float) -> float:
    """10^9 operations a second of the product, 10^9 bytes a second of others."""
    kernel = KERNELS[name]
    return (kernel.operations(sizes) or kernel.bytes(sizes)) / us / 1e3
