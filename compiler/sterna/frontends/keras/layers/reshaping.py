"""Layers that only move elements: reshaping, padding, cropping, repeating; and UpSampling, which may interpolate."""

from __future__ import annotations

import math
from typing import Any

from sterna.errors import error
from sterna.frontends.keras.layers.images import resized
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir.graph import Value


def flatten(t: Translation) -> Value:
    x = t.x
    if t.channels_first and x.type.rank > 2:
        x = t.to_last(x)
    if x.type.rank == 1:
        return t.reshape(x, (x.shape[0], 1))
    sizes: Any = 1
    for size in x.shape[1:]:
        sizes = size * sizes
    return t.reshape(x, (x.shape[0], sizes))


def _reshape(t: Translation) -> Value:
    x, wanted = t.x, list(t.setting("target_shape", ()))
    if any(not isinstance(n, int) for n in wanted) or wanted.count(-1) > 1:
        raise error("E0109", f"target_shape is {wanted}")
    if -1 in wanted:
        known = math.prod(n for n in wanted if n != -1)
        sizes: Any = 1
        for size in x.shape[1:]:
            sizes = size * sizes
        wanted[wanted.index(-1)] = sizes // known if known else 0
    return t.reshape(x, (x.shape[0], *wanted))


def _permute(t: Translation) -> Value:
    dims = t.setting("dims", ())
    if sorted(dims) != list(range(1, t.x.type.rank)):
        raise error("E0109", f"dims is {list(dims)} for {t.x.type}")
    return t.transpose(t.x, (0, *dims))


def _repeat_vector(t: Translation) -> Value:
    x, count = t.x, int(t.setting("n", 1))
    return t.op("expand", t.reshape(x, (x.shape[0], 1, x.shape[1])), shape=(x.shape[0], count, x.shape[1]))


def _pairs(value: Any, rank: int) -> list[tuple[int, int]]:
    """Elements before and after each spatial dimension: one number, one for each, or pairs."""
    if isinstance(value, int):
        value = [value] * rank
    if isinstance(value, (list, tuple)) and rank == 1 and len(value) == 2 and all(isinstance(v, int) for v in value):
        value = [tuple(value)]
    if not isinstance(value, (list, tuple)) or len(value) != rank:
        raise error("E0109", f"padding or cropping is {value} for {rank} dimensions")
    found = [(v, v) if isinstance(v, int) else tuple(v) for v in value]
    if any(len(pair) != 2 or not all(isinstance(n, int) and n >= 0 for n in pair) for pair in found):
        raise error("E0109", f"padding or cropping is {value}")
    return [(pair[0], pair[1]) for pair in found]


def _spatial(t: Translation, rank: int) -> int:
    """The first of the spatial dimensions."""
    t_rank = t.x.type.rank
    if t_rank != rank + 2:
        raise error("E0108", f"{t.kind} takes tensors of {rank + 2} dimensions, not {t.x.type}")
    return 2 if t.channels_first else 1


def _zero_padding(rank: int) -> Translator:
    def translate(t: Translation) -> Value:
        first, pairs = _spatial(t, rank), _pairs(t.setting("padding", 1), rank)
        before, after = [0] * (rank + 2), [0] * (rank + 2)
        for n, (low, high) in enumerate(pairs):
            before[first + n], after[first + n] = low, high
        return t.pad(t.x, before, after)

    return translate


def _cropping(rank: int) -> Translator:
    def translate(t: Translation) -> Value:
        x, first, pairs = t.x, _spatial(t, rank), _pairs(t.setting("cropping", 1), rank)
        starts = [0] * (rank + 2)
        sizes: list[Any] = list(x.shape)
        for n, (low, high) in enumerate(pairs):
            starts[first + n], sizes[first + n] = low, x.shape[first + n] - (low + high)
            least = sizes[first + n].bounds()[0]
            if least is not None and least < 1:
                raise error("E0108", f"nothing is left of {x.type} when {low} and {high} are cropped")
        return t.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * (rank + 2))

    return translate


def _up_sampling(rank: int) -> Translator:
    def translate(t: Translation) -> Value:
        factors = t.positive("size", rank, 2)
        first, x = _spatial(t, rank), t.x
        mode = str(t.setting("interpolation", "nearest"))
        if mode == "nearest":
            for n, factor in enumerate(factors):
                x = _repeated(t, x, first + n, factor)
            return x
        sizes = [t.extent(x, first + n) * factor for n, factor in enumerate(factors)]
        last = x if first == 1 else t.to_last(x)
        y = resized(t, last, (sizes[0], sizes[1]), mode)
        return y if first == 1 else t.to_first(y)

    return translate


def _repeated(t: Translation, x: Value, axis: int, count: int) -> Value:
    """Every element so many times."""
    if count == 1:
        return x
    wide = t.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    wide = t.op("expand", wide, shape=(*x.shape[: axis + 1], count, *x.shape[axis + 1 :]))
    return t.reshape(wide, (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]))


LAYERS: dict[str, Translator] = {
    "Flatten": flatten,
    "Reshape": _reshape,
    "Permute": _permute,
    "RepeatVector": _repeat_vector,
    "ZeroPadding1D": _zero_padding(1),
    "ZeroPadding2D": _zero_padding(2),
    "ZeroPadding3D": _zero_padding(3),
    "Cropping1D": _cropping(1),
    "Cropping2D": _cropping(2),
    "Cropping3D": _cropping(3),
    "UpSampling1D": _up_sampling(1),
    "UpSampling2D": _up_sampling(2),
    "UpSampling3D": _up_sampling(3),
}
