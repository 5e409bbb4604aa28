"""Tensors beside what they should be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sterna.runtime.inputs import Array

Inputs = Mapping[str, Array]
Run = Callable[[Inputs], Mapping[str, Array]]
Again = Callable[[Inputs, Iterable[str]], Mapping[str, Array]]


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
    got: float = 0.0
    wanted: float = 0.0
    spread: float = 0.0

    def within(self, tolerance: float) -> bool:
        """Whether the error is at most the tolerance, or four times what the reference differs from itself; a
        tolerance of 0 asks for equal bits."""
        return self.error <= (max(tolerance, 4 * self.spread) if tolerance else 0)


Checks = tuple[TensorCheck, ...]


@dataclass(frozen=True)
class Difference:
    """The first tensor that is wrong.

    Args:
        stage: what made it so: "import", a pass, "kernels" or "memory".
        node, kernel: the bundle's node and kernel that compute it, where a kernel is at fault.
        sources: the names of the model's nodes in it.
    """

    check: TensorCheck
    stage: str
    node: str = ""
    kernel: str = ""
    sources: tuple[str, ...] = ()


def compare(name: str, got: Array, wanted: Array) -> TensorCheck:
    """How far a tensor is from what it should be."""
    if got.shape != wanted.shape or got.size == 0:
        worst = 0.0 if got.shape == wanted.shape else np.inf
        return TensorCheck(name, str(got.dtype), got.shape, worst, 0.0)
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


def worst(runs: Iterable[Sequence[TensorCheck]], tolerance: float) -> Checks:
    """Of every tensor the worst of several runs."""
    found: dict[str, TensorCheck] = {}
    for check in (check for checks in runs for check in checks):
        known = found.get(check.name)
        if known is None or (known.within(tolerance), -known.error) > (check.within(tolerance), -check.error):
            found[check.name] = check
    return tuple(found.values())


def with_spread(
    checks: Checks, run: Run, inputs: Inputs, wanted: Mapping[str, Array], again: Again | None = None
) -> Checks:
    """The checks with how far the reference is from itself: in another order of operations, and for inputs that are
    one unit in the last place away. What lies between 0 and 1 is taken to be made of terms of that size, and to be
    rounded with them.

    Args:
        run, wanted: the reference, and what it gives for `inputs`.
        again: the reference in another order of operations.
    """
    random = np.random.default_rng(0)

    def beside(array: Array) -> Array:
        if array.dtype.kind != "f":
            return array
        away = np.where(random.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
        result: Array = np.nextafter(array, away)
        return result

    others = [run({name: beside(array) for name, array in inputs.items()})]
    if again is not None:
        others.append(again(inputs, ()))
    result = []
    for check in checks:
        array = wanted[check.name]
        spread = max(
            (compare(check.name, other[check.name], array).error for other in others if check.name in other),
            default=0.0,
        )
        if array.dtype.kind == "f" and array.size and (array >= 0).all() and (array <= 1).all() and check.largest > 0:
            spread = max(spread, float(np.finfo(array.dtype).eps) / 4 / check.largest)
        result.append(replace(check, spread=spread if math.isfinite(spread) else 0.0))
    return tuple(result)
