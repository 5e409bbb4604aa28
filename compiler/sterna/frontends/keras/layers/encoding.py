"""Preprocessing of numbers into categories."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.limits import counting


def _one_hot(t: Translation, ids: Value, count: int, dtype: str = "float32") -> Value:
    """(..., count): 1 where an integer says."""
    wide = t.reshape(ids, (*ids.shape, 1))
    return t.cast(t.op("equal", wide, t.constant(counting(count), ids.dtype)), dtype)


def _encoded(t: Translation, ids: Value, count: int, mode: str, weights: Value | None = None) -> Value:
    """Integers below `count` as Keras' output_mode says."""
    if mode == "int":
        return ids
    hot = _one_hot(t, ids, count)
    if mode == "one_hot":
        last = ids.type.rank - 1
        if ids.type.rank > 1 and ids.shape[last].is_const and int(ids.shape[last]) == 1:
            return t.reshape(hot, (*ids.shape[:-1], count))
        return hot
    if ids.type.rank == 1:
        return hot
    if mode == "multi_hot":
        return t.reduced("reduce_max", hot, (-2,))
    if mode == "count":
        hot = hot if weights is None else t.op("mul", hot, t.reshape(weights, (*weights.shape, 1)))
        return t.reduced("reduce_sum", hot, (-2,))
    raise t.unsupported(f"with output_mode {mode}")


def _category_encoding(t: Translation) -> Value:
    count = t.layer.config.get("num_tokens")
    if not isinstance(count, int) or count < 1:
        raise error("E0109", f"num_tokens is {count}")
    ids = t.x if t.x.dtype in ("int32", "int64") else t.cast(t.x, "int32")
    weights = t.kwargs.get("count_weights")
    return _encoded(
        t, ids, count, str(t.setting("output_mode", "multi_hot")), weights if isinstance(weights, Value) else None
    )


def _discretization(t: Translation) -> Value:
    """How many boundaries are at most the value."""
    bounds = t.layer.config.get("bin_boundaries")
    if bounds is None:
        raise t.unsupported("whose boundaries are not in the file")
    x = t.cast(t.x, "float32")
    edges = np.asarray(bounds, np.float32)
    over = t.op("greater_equal", t.reshape(x, (*x.shape, 1)), t.constant(edges, "float32"))
    ids = t.reduced("reduce_sum", t.cast(over, "int32"), (-1,))
    return _encoded(t, ids, edges.size + 1, str(t.setting("output_mode", "int")))


def _integer_lookup(t: Translation) -> Value:
    """The position of an integer in the vocabulary; out of it, 0 (after the mask token)."""
    words = t.layer.config.get("vocabulary")
    if not isinstance(words, list) or not all(isinstance(w, int) for w in words):
        raise t.unsupported("whose vocabulary is not in the file")
    unknown = int(t.setting("num_oov_indices", 1))
    if unknown > 1:
        raise t.unsupported("with several indices for what is not in the vocabulary")
    x: Any = t.x if t.x.dtype in ("int32", "int64") else t.cast(t.x, "int64")
    mask = t.layer.config.get("mask_token")
    mode = str(t.setting("output_mode", "int"))
    first = unknown + (1 if mask is not None and mode == "int" else 0)
    hits = _one_hot_of(t, x, words)
    places = t.constant(np.arange(first, first + len(words)), "int64")
    known = t.reduced("reduce_sum", t.op("mul", t.cast(hits, "int64"), places), (-1,))
    found = t.reduced("reduce_any", hits, (-1,))
    if not unknown:
        known = t.agree(known, found)
        ids = known
    else:
        ids = t.op("where", found, known, t.scalar(first - unknown, "int64"))
    if mask is not None and mode == "int":
        ids = t.op("where", t.op("equal", x, t.scalar(int(mask), x.dtype)), t.scalar(0, "int64"), ids)
    return _encoded(t, ids, first + len(words), mode)


def _one_hot_of(t: Translation, x: Value, words: list[int]) -> Value:
    return t.op("equal", t.reshape(x, (*x.shape, 1)), t.constant(np.asarray(words), x.dtype))


LAYERS: dict[str, Translator] = {
    "CategoryEncoding": _category_encoding,
    "Discretization": _discretization,
    "IntegerLookup": _integer_lookup,
}
