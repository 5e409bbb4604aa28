"""Inputs to try a model on when there are no real ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sterna_runtime.inputs import Array, TensorSpec

#: Strings that models need not know.
_WORDS = ("", "tern", "\u00fcber")


def random_inputs(specs: Iterable[TensorSpec], seed: int = 0, words: Sequence[str] = ()) -> dict[str, Array]:
    """An array for every tensor; the same seed gives the same arrays.

    Floats are normal with deviation 1; 8-bit integers take every value; wider integers, which are mostly indices, masks
    or lengths, are 0 or 1. Strings are those of `words`, which the model knows, and some that it does not.
    """
    generator = np.random.default_rng(seed)
    return {spec.name: _array(generator, spec, words) for spec in specs}


def _array(generator: np.random.Generator, spec: TensorSpec, words: Sequence[str]) -> Array:
    kind = spec.dtype
    if kind.kind == "O":
        known = np.array([*words, *_WORDS], object)
        texts: Array = known[generator.integers(0, len(known), spec.sizes)]
        return np.asarray(texts, object)
    if kind.kind in "iu" and kind.itemsize == 1:
        limits = np.iinfo(kind)
        drawn: Array = generator.integers(limits.min, limits.max, spec.sizes, dtype=np.int64, endpoint=True)
    elif kind.kind in "iub":
        drawn = generator.integers(0, 2, spec.sizes)
    else:
        drawn = generator.standard_normal(spec.sizes)
    return drawn.astype(kind)
