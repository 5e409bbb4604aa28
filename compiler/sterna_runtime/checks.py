"""A tensor beside what it should be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sterna_runtime.inputs import Array


@dataclass(frozen=True)
class TensorCheck:
    """A tensor beside what it should be.

    Args:
        error: largest difference, relative to `largest`; infinite where NaN, infinities or the shape differ.
        largest: the greatest finite magnitude of the reference.
        at: index of the worst element; got, wanted: its values.
        spread: how far the reference is from itself where it rounds otherwise, relative to `largest`; looked for only
            where the error needs an excuse.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    error: float
    largest: float
    at: tuple[int, ...] = ()
    got: float | str = 0.0
    wanted: float | str = 0.0
    spread: float = 0.0

    def within(self, tolerance: float) -> bool:
        """Whether the error is at most the tolerance, or four times what the reference differs from itself; a
        tolerance of 0 asks for equal bits."""
        return self.error <= (max(tolerance, 4 * self.spread) if tolerance else 0)


def compare(name: str, got: Array, wanted: Array) -> TensorCheck:
    """How far a tensor is from what it should be."""
    if got.shape != wanted.shape or got.size == 0:
        worst = 0.0 if got.shape == wanted.shape else np.inf
        return TensorCheck(name, str(got.dtype), got.shape, worst, 0.0)
    if "O" in (got.dtype.kind, wanted.dtype.kind):
        return _compare_strings(name, got.astype(object), wanted.astype(object))
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    largest = float(np.abs(b[finite]).max()) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        difference = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    difference = np.where(same, 0.0, np.where(np.isfinite(difference), difference, np.inf))
    at = tuple(int(i) for i in np.unravel_index(int(difference.argmax()), difference.shape))
    scale = largest if largest > 0 else 1.0
    error_ = float(difference[at]) / scale
    return TensorCheck(name, str(got.dtype), got.shape, error_, largest, at, float(a[at]), float(b[at]))


def _compare_strings(name: str, got: Array, wanted: Array) -> TensorCheck:
    """The same for strings, which are equal or not."""
    different = got != wanted
    at = tuple(int(i) for i in np.unravel_index(int(different.argmax()), different.shape))
    error = np.inf if different.any() else 0.0
    return TensorCheck(name, "string", got.shape, error, 0.0, at, str(got[at]), str(wanted[at]))
