"""What random TensorFlow Lite operators are made of: shapes, quantization parameters, elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from support.tflite_builder import GraphWriter, ModelWriter, Scale

#: Makes a model of one operator.
Maker = Callable[["Draw"], ModelWriter]
MAKERS: dict[str, Maker] = {}
INTEGERS = ("int8", "uint8", "int16")


class Draw:
    """Random choices for one case; the seed alone decides them."""

    def __init__(self, seed: Sequence[int]):
        self.random = np.random.default_rng(list(seed))

    def below(self, end: int, start: int = 0) -> int:
        return int(self.random.integers(start, end))

    def pick(self, choices: Sequence[str]) -> str:
        return choices[self.below(len(choices))]

    def number(self, *choices: int) -> int:
        return choices[self.below(len(choices))]

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def shape(self, rank: int, most: int = 7) -> tuple[int, ...]:
        return tuple(self.below(most + 1, 1) for _ in range(rank))

    def scale(self, dtype: str, low: float = 0.004, high: float = 0.2, zero: int | None = None) -> Scale | None:
        """Quantization of a tensor of this type; None for floats. Zero points are any, and 0 for 16 bits."""
        if dtype not in INTEGERS:
            return None
        limits = np.iinfo(dtype)
        if dtype == "int16":
            low, high, zero = low / 128, high / 128, 0
        size = float(np.exp(self.random.uniform(np.log(low), np.log(high))))
        return Scale(float(np.float32(size)), self.below(limits.max + 1, limits.min) if zero is None else zero)

    def elements(self, dtype: str, shape: Sequence[int], low: float = -3.0, high: float = 3.0) -> np.ndarray:
        """Floats in a range; integers of few bits of any value; others between -20 and 20."""
        if dtype == "bool":
            return self.random.integers(0, 2, shape).astype(bool)
        if dtype in INTEGERS:
            limits = np.iinfo(dtype)
            return self.random.integers(limits.min, limits.max + 1, shape).astype(dtype)
        if dtype.startswith("float"):
            return self.random.uniform(low, high, shape).astype(dtype)
        return self.random.integers(-20, 21, shape).astype(dtype)

    def input(self, graph: GraphWriter, dtype: str, shape: Sequence[int], scale: Scale | None = None) -> int:
        return graph.input(self.elements(dtype, shape), scale or self.scale(dtype))

    def weights(
        self,
        graph: GraphWriter,
        dtype: str,
        shape: Sequence[int],
        axis: int,
        *,
        symmetric: bool = True,
        per_channel: bool | None = None,
    ) -> tuple[int, np.ndarray]:
        """Constant weights and their scales; those of int8 may have one per element of an axis."""
        if dtype == "float32":
            return graph.constant(self.elements(dtype, shape, -1, 1)), np.ones(1, np.float32)
        if per_channel is None:
            per_channel = dtype == "int8" and self.chance()
        count = shape[axis] if per_channel else 1
        scales = np.exp(self.random.uniform(np.log(0.002), np.log(0.05), count)).astype(np.float32)
        zero = [0] * count if symmetric else [self.below(256)]
        data = self.elements(dtype, shape)
        if dtype == "int8":
            data = np.maximum(data, -127)
        return graph.constant(data, Scale(scales.tolist(), zero, axis)), scales


def register(*names: str) -> Callable[[Maker], Maker]:
    """Adds the maker of an operator's cases to the table."""

    def add(maker: Maker) -> Maker:
        for name in names:
            assert name not in MAKERS
            MAKERS[name] = maker
        return maker

    return add


def broadcasting(d: Draw, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Two shapes and that of their element-wise result."""
    whole = d.shape(rank, 5)
    if d.chance(0.4):
        return whole, whole, whole
    first = tuple(1 if d.chance(0.2) else size for size in whole)
    second = tuple(1 if d.chance(0.3) else size for size in whole)
    result = tuple(max(a, b) for a, b in zip(first, second, strict=True))
    return first, second, result


def activation(d: Draw) -> int:
    """A fused activation that all kernels know: none, ReLU, ReLU between -1 and 1, ReLU6."""
    return d.number(0, 0, 1, 2, 3)
