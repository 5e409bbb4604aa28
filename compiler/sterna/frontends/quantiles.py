"""Quantiles: elements at known shares of the way from the least to the greatest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.frontends.interpolation import between
from sterna.frontends.standard import standard_results
from sterna.ir.graph import Array, Value


def quantiles(t: Emitter, x: Value, shares: Array, axes: Sequence[int], method: str, keep: bool = False) -> Value:
    """The elements at `shares` (0 to 1) of the dimensions `axes`, as NumPy's `quantile` finds them; NaN
    where one of them is.

    Args:
        shares: a number, or a vector, whose dimension is the result's first.
        method: what stands for a place between two elements: linear, lower, higher, midpoint or nearest.
        keep: whether `axes` stay, of size 1.

    Raises:
        SternaError: E0113, a method that is not one of these.
    """
    rest = [n for n in range(x.type.rank) if n not in axes]
    count = int(np.prod([t.extent(x, n) for n in axes]))
    wide = t.reshape(t.transpose(x, (*rest, *axes)), (*(x.shape[n] for n in rest), count))
    ordered, _ = standard_results(
        t, "TopK", wide, t.constant([count], "int64"), results=2, axis=-1, largest=0, sorted=1
    )
    places = np.asarray(shares * (count - 1)).reshape(-1)
    low, high = np.floor(places), np.ceil(places)
    part = {
        "linear": places - low, "lower": places * 0, "higher": (high > low) * 1.0,
        "midpoint": (high > low) * 0.5, "nearest": np.rint(places) - low,
    }.get(method)  # fmt: skip
    if part is None:
        raise error("E0113", f"{t.kind} with the method {method} is not supported")
    below, above = (t.op("gather", ordered, t.constant(n.astype(np.int64)), axis=len(rest)) for n in (low, high))
    made = between(t, below, above, t.constant(part, x.dtype))
    lost = t.op("reduce_any", t.op("is_nan", wide), axes=(len(rest),), keep_dims=True)
    made = t.op("where", lost, t.scalar(math.nan, x.dtype), made)
    made = t.transpose(made, (len(rest), *range(len(rest))))
    ends = [1 if n in axes else x.shape[n] for n in range(x.type.rank)] if keep else [x.shape[n] for n in rest]
    return t.reshape(made, ends if np.ndim(shares) == 0 else [len(places), *ends])
