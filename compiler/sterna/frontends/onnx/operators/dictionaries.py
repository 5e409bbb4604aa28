"""Dictionaries whose keys are known: values of keys by tables, in a time that does not grow with the number of keys.

Keys that lie close together are positions in a table. Others are hashed without collisions: a key's bucket says by
what its place is moved so that no two keys share one (hash and displace; Pagh, 1999; Belazzougui, Botelho and
Dietzfelbinger, 2009), and what stands at its place is compared with it. Floats are hashed by their bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sterna.frontends.onnx.translation import Translation
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value

#: Entries of a table of positions for every key, at most, and entries that are always few enough.
_SPARSE, _FEW = 8, 1024
#: Multipliers that are tried.
_TRIES = 32
#: Displacements that are tried together at first.
_AT_FIRST = 64
_U64 = "uint64"


def look_up(t: Translation, x: Value, keys: Array, values: Array, otherwise: Array) -> Value:
    """For each element the value of its key, or a value for all others.

    Args:
        keys: different numbers in rising order, NaN last; values: one for each; otherwise: one element.
    """
    if keys.dtype.kind == "f":
        x, keys, values = _by_bits(t, x, keys, values)
    else:
        x, keys = t.cast(x, "int64"), keys.astype(np.int64)
    span = int(keys.max()) - int(keys.min()) + 1
    if span <= max(_FEW, _SPARSE * len(keys)):
        return _by_position(t, x, keys, values, otherwise, span)
    found = _displaced(keys)
    if found is None:  # not for any keys that somebody has not chosen for it
        order = np.argsort(keys)
        kept = (t.constant(keys[order]), t.constant(values[order]), t.constant(otherwise))
        return t.op("look_up", x, *kept)
    return _by_hash(t, x, found, values, otherwise)


def _by_bits(t: Translation, x: Value, keys: Array, values: Array) -> tuple[Value, Array, Array]:
    """Floats as integers that are equal where the floats are: there is one zero, and one NaN."""
    dtype = dtypes.from_numpy(keys.dtype)
    nan = np.array(np.nan, keys.dtype)
    bits = {16: "int16", 32: "int32", 64: "int64"}[dtypes.bits(dtype)]
    keys = np.where(np.isnan(keys), nan, np.where(keys == 0, np.zeros_like(keys), keys))
    x = t.cast(x, dtype)
    zero = t.scalar(0.0, dtype)
    x = t.op("where", t.op("is_nan", x), t.constant(nan), t.op("where", t.op("equal", x, zero), zero, x))
    return t.cast(t.op("bit_cast", x, to=bits), "int64"), keys.view(bits).astype(np.int64), values


def _by_position(t: Translation, x: Value, keys: Array, values: Array, otherwise: Array, span: int) -> Value:
    """By a table from the least key to the greatest, with what is found for all others at its end."""
    least = int(keys.min())
    table = np.full(span + 1, otherwise, values.dtype)
    table[keys - least] = values
    # What is less than the least key is greater than all as a number without sign.
    place = t.op("bit_cast", t.op("sub", x, t.scalar(least, "int64")), to=_U64)
    place = t.op("minimum", place, t.scalar(span, _U64))
    return t.op("gather", t.constant(table), t.cast(place, "int32"), axis=0)


@dataclass(frozen=True)
class _Hash:
    """A hash without collisions.

    Args:
        multiplier: of which products' highest bits say the bucket, and those below them the place.
        displacements: by bucket, what a place is combined with; places: by place, the number of the key, or -1.
        keys: by place.
    """

    multiplier: int
    displacements: Array
    places: Array
    keys: Array

    @property
    def bits(self) -> tuple[int, int]:
        """Of a bucket's number, and of a place."""
        return len(self.displacements).bit_length() - 1, len(self.places).bit_length() - 1


def _displaced(keys: Array) -> _Hash | None:
    """The hash of some keys, found by trying; None where no multiplier does it."""
    count = len(keys)
    size = 1 << max(3, (5 * count // 4).bit_length())
    buckets = 1 << max(1, (count // 3).bit_length())
    random = np.random.default_rng(count)
    for _ in range(_TRIES):
        multiplier = int(random.integers(0, 1 << 63, dtype=np.uint64)) * 2 + 1
        product = keys.view(np.uint64) * np.uint64(multiplier)
        bucket, place = _parts(product, buckets, size)
        displacements = _displacements(bucket, place, buckets, size)
        if displacements is not None:
            taken = place ^ displacements[bucket]
            places = np.full(size, -1)
            places[taken] = np.arange(count)
            # Where there is no key, one that belongs elsewhere stands: nothing is found there.
            return _Hash(multiplier, displacements, places, keys[np.maximum(places, 0)])
    return None


def _parts(product: Array, buckets: int, size: int) -> tuple[Array, Array]:
    high, low = buckets.bit_length() - 1, size.bit_length() - 1
    bucket = product >> np.uint64(64 - high)
    place = (product >> np.uint64(64 - high - low)) & np.uint64(size - 1)
    return bucket.astype(np.int64), place.astype(np.int64)


def _displacements(bucket: Array, place: Array, buckets: int, size: int) -> Array | None:
    """By bucket a number that, combined with the places of its keys, leads to free ones; the fullest first."""
    if len(np.unique(bucket * size + place)) != len(place):
        return None
    order = np.argsort(bucket, kind="stable")
    members = np.split(place[order], np.cumsum(np.bincount(bucket, minlength=buckets))[:-1])
    free, found = np.ones(size, bool), np.zeros(buckets, np.int64)
    alone = []
    for number in sorted(range(buckets), key=lambda n: -len(members[n])):
        mine = members[number]
        if len(mine) == 1:
            alone.append(number)
        elif len(mine):
            fit = _first_fit(mine, free)
            if fit is None:
                return None
            found[number] = fit
            free[mine ^ fit] = False
    # One key goes anywhere: there are more places than keys.
    if alone:
        found[alone] = np.concatenate([members[n] for n in alone]) ^ np.flatnonzero(free)[: len(alone)]
    return found


def _first_fit(mine: Array, free: Array) -> int | None:
    """The least number that, combined with some places, leads to free ones. Nearly always one of the first does, so
    that the time does not grow with the number of places."""
    start, count = 0, _AT_FIRST
    while start < len(free):
        tried = np.arange(start, min(start + count, len(free)))
        fits = free[mine[:, None] ^ tried].all(axis=0)
        if fits.any():
            return start + int(fits.argmax())
        start, count = start + count, 4 * count
    return None


def _by_hash(t: Translation, x: Value, found: _Hash, values: Array, otherwise: Array) -> Value:
    high, low = found.bits
    product = t.op("mul", t.op("bit_cast", x, to=_U64), t.scalar(found.multiplier, _U64))

    def shifted(by: int) -> Value:
        return t.op("bit_shift", product, t.scalar(by, _U64), direction="RIGHT")

    bucket = t.cast(shifted(64 - high), "int32")
    place = t.op("bitwise_and", t.cast(shifted(64 - high - low), "int32"), t.scalar((1 << low) - 1, "int32"))
    moved = t.op("gather", t.constant(found.displacements.astype(np.int32)), bucket, axis=0)
    place = t.op("bitwise_xor", place, moved)
    key = t.op("gather", t.constant(found.keys), place, axis=0)
    value = t.op("gather", t.constant(values[np.maximum(found.places, 0)]), place, axis=0)
    return t.op("where", t.op("equal", key, x), value, t.constant(otherwise))
