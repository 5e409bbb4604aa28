"""What the elements of a tensor stand for: real numbers behind integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Quantization:
    """Integers q that stand for real numbers scale * (q - zero point).

    Args:
        scales, zero_points: one of each for the whole tensor, or one for every index along `axis`.
        axis: None where there is one of each.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    def real(self, array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The real numbers that an array of the tensor's shape stands for."""
        scale, zero = np.array(self.scales, np.float32), np.array(self.zero_points, np.float64)
        if self.axis is not None:
            shape = [1] * array.ndim
            shape[self.axis] = -1
            scale, zero = scale.reshape(shape), zero.reshape(shape)
        return ((array.astype(np.float64) - zero) * scale).astype(np.float32)

    def __str__(self) -> str:
        if self.axis is not None:
            return f"one scale and zero point for each index of axis {self.axis}"
        zero = self.zero_points[0]
        return (
            f"{self.scales[0]:.6g} * q"
            if zero == 0
            else f"{self.scales[0]:.6g} * (q {'-' if zero > 0 else '+'} {abs(zero)})"
        )
