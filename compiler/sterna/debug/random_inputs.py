"""Inputs to try a model on when there are no real ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sterna.runtime.inputs import Array, TensorSpec


def random_inputs(specs: Iterable[TensorSpec], seed: int = 0) -> dict[str, Array]:
    """An array for every tensor; the same seed gives the same arrays.

    Floats are normal with deviation 1; 8-bit integers take every value; wider integers, which are mostly indices, masks
    or lengths, are 0 or 1.
    """
    generator = np.random.default_rng(seed)
    return {spec.name: _array(generator, spec) for spec in specs}


def _array(generator: np.random.Generator, spec: TensorSpec) -> Array:
    kind = spec.dtype
    if kind.kind in "iu" and kind.itemsize == 1:
        limits = np.iinfo(kind)
        drawn: Array = generator.integers(limits.min, limits.max, spec.sizes, dtype=np.int64, endpoint=True)
    elif kind.kind in "iub":
        drawn = generator.integers(0, 2, spec.sizes)
    else:
        drawn = generator.standard_normal(spec.sizes)
    return drawn.astype(kind)
