"""Attention: dot-product, additive, of several heads and of grouped heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import axes_of
from sterna.frontends.keras import masks
from sterna.frontends.keras.layers.quantized import is_rounding, kernel_of, rounded
from sterna.frontends.keras.stores import Store
from sterna.frontends.keras.translation import Translation, Translator, values_in
from sterna.ir.graph import Value


def _low(x: Value) -> float:
    """What is added to scores that do not count."""
    return -6.5e4 if x.dtype == "float16" else -1e9


def _biased(t: Translation, scores: Value, mask: Value) -> Value:
    """Scores of what does not count (False) moved far below."""
    return t.op("add", scores, t.op("where", mask, t.scalar(0.0, scores.dtype), t.scalar(_low(scores), scores.dtype)))


def _causal(t: Translation, queries: int, keys: int) -> Value:
    return t.constant(np.arange(queries)[:, None] >= np.arange(keys)[None], "bool")


def _both(t: Translation, one: Value | None, other: Value | None) -> Value | None:
    if one is None or other is None:
        return one if other is None else other
    return t.op("logical_and", one, other)


# ---------------------------------------------------------------- Attention and AdditiveAttention
def _qkv(t: Translation) -> tuple[Value, Value, Value]:
    values = t.several
    if len(values) not in (2, 3):
        raise error("E0108", f"{t.kind} takes a query, a value and perhaps a key, not {len(values)} tensors")
    query, value = values[:2]
    return query, value, values[2] if len(values) == 3 else value


def _weighted(t: Translation, scores: Value, query: Value, value: Value) -> Value | list[Value | None]:
    """The values by the softmax of their scores; steps of the query that do not count become 0."""
    said = t.argument(1, "mask")
    given = list(said) if isinstance(said, (list, tuple)) else [t.context.masks.get(v) for v in (query, value)]
    keep = None
    if len(given) > 1 and isinstance(given[1], Value):
        keep = t.reshape(given[1], (given[1].shape[0], 1, given[1].shape[1]))
    if t.argument(4, "use_causal_mask", t.setting("causal", False)):
        keep = _both(t, keep, _causal(t, t.extent(scores, -2), t.extent(scores, -1)))
    weights = t.op("softmax", scores if keep is None else _biased(t, scores, keep), axis=-1)
    y = t.op("matmul", weights, value)
    if given and isinstance(given[0], Value):
        counts = t.reshape(given[0], (*given[0].shape, 1))
        y = t.op("where", counts, y, t.scalar(0.0, y.dtype))
        t.context.masks[y] = given[0]
    return [y, weights] if t.argument(2, "return_attention_scores", False) else y


def dot_attention(t: Translation) -> Value | list[Value | None]:
    query, value, key = _qkv(t)
    mode = t.setting("score_mode", "dot")
    names = ["scale"] if t.setting("use_scale", False) else []
    names += ["concat_score_weight"] if mode == "concat" else []
    found = dict(zip(names, t.variables(*names), strict=True)) if names else {}
    if mode == "dot":
        scores = t.op("matmul", query, t.transpose(key, (0, 2, 1)))
        if "scale" in found:
            scores = t.op("mul", scores, t.weight(found["scale"], scores))
    elif mode == "concat":
        scores = _sums(t, query, key, found.get("scale"))
        scores = t.op("mul", scores, t.weight(found["concat_score_weight"], scores))
    else:
        raise t.unsupported(f"with score_mode {mode}")
    return _weighted(t, scores, query, value)


def _sums(t: Translation, query: Value, key: Value, scale: np.ndarray | None) -> Value:
    """The sum over features of tanh(query + key), times a scale, for every pair."""
    wide = t.reshape(query, (query.shape[0], query.shape[1], 1, query.shape[2]))
    other = t.reshape(key, (key.shape[0], 1, key.shape[1], key.shape[2]))
    both = t.op("add", wide, other)
    if scale is not None and scale.ndim == 0:
        both = t.op("mul", both, t.weight(scale, both))
    both = t.op("tanh", both)
    if scale is not None and scale.ndim:
        both = t.op("mul", both, t.weight(scale, both))
    return t.reduced("reduce_sum", both, (-1,))


def additive_attention(t: Translation) -> Value | list[Value | None]:
    query, value, key = _qkv(t)
    scale = t.variables("scale")[0] if t.setting("use_scale", True) else None
    return _weighted(t, _sums(t, query, key, scale), query, value)


# ---------------------------------------------------------------- several heads
def _projection(t: Translation, store: Store, x: Value, heads: int, sigmoid: bool = False) -> Value:
    """(N, ..., features) times a kernel (features, heads, size), plus a bias; of that the sigmoid, if it is wanted."""
    bias = bool(t.setting("use_bias", True))
    names = ("kernel", *(("bias",) if bias else ()))
    kernel, *rest = kernel_of(t, store, names, shape=(t.extent(x, -1), heads, -1))
    if kernel.ndim < 2:
        raise error("E0103", f"a kernel of {t.layer.name} has {kernel.ndim} dimensions")
    x = rounded(t, x, (-1,)) if is_rounding(t, store, names) else x
    flat = t.op("matmul", x, t.weight(kernel.reshape(kernel.shape[0], -1), x))
    if rest:
        flat = t.op("add", flat, t.weight(rest[0].reshape(-1), flat))
    y = t.reshape(flat, (*x.shape[:-1], *kernel.shape[1:]))
    return t.op("sigmoid", y) if sigmoid else y


def _heads(t: Translation) -> tuple[Value, Value, Value]:
    """Query, value and key of the call, by position or keyword."""
    found = [t.argument(n, name) for n, name in enumerate(("query", "value", "key"))]
    if isinstance(found[0], (list, tuple)):
        found = [*values_in(found[0]), None, None][:3]
    query, value, key = found
    if not isinstance(query, Value) or not isinstance(value, Value):
        raise error("E0108", f"{t.kind} takes a query and a value")
    return query, value, key if isinstance(key, Value) else value


def _attention_mask(t: Translation, query: Value, value: Value, key: Value, scores: Value) -> Value | None:
    """What each query may look at: (N, 1, queries, keys), or without the first dimensions."""
    keep: Value | None = None
    for name, tensor, is_query in (("query", query, True), ("value", value, False), ("key", key, False)):
        given = t.kwargs.get(f"{name}_mask")
        given = None if is_query and t.kind == "MultiHeadAttention" and masks.is_taking(t.context) else given
        mask = given if isinstance(given, Value) else t.context.masks.get(tensor)
        if mask is not None:
            sizes = (mask.shape[0], mask.shape[1], 1) if is_query else (mask.shape[0], 1, mask.shape[1])
            keep = _both(t, keep, t.reshape(mask, sizes))
    if t.kwargs.get("use_causal_mask"):
        keep = _both(t, keep, _causal(t, t.extent(scores, -2), t.extent(scores, -1)))
    if (window := t.layer.config.get("sliding_window")) is not None:
        reach = np.subtract.outer(np.arange(t.extent(scores, -2)), np.arange(t.extent(scores, -1)))
        keep = _both(t, keep, t.constant(np.abs(reach) < int(window), "bool"))
    given = t.kwargs.get("attention_mask")
    if isinstance(given, Value):
        keep = _both(t, keep, t.cast(given, "bool"))
    if keep is not None and keep.type.rank == 3:
        keep = t.reshape(keep, (keep.shape[0], *(1,) * (scores.type.rank - 3), *keep.shape[1:]))
    return keep


def multi_head_attention(t: Translation) -> Value | list[Value | None]:
    query, value, key = _heads(t)
    rank = query.type.rank
    axes = t.layer.config.get("attention_axes")
    given = range(1, rank - 1) if axes is None else [axes] if isinstance(axes, int) else axes
    along = axes_of(tuple(given), rank)
    if any(axis in (0, rank - 1) for axis in along) or list(along) != sorted(along):
        raise t.unsupported(f"of {query.type} along the axes {axes}")
    parts = ("query", "key", "value", "output", *(("gate",) if t.setting("use_gate", False) else ()))
    stores = {name: t.store.child(f"_{name}_dense") for name in parts}
    own = int(t.setting("num_query_heads", t.setting("num_heads", 1)))
    other = int(t.setting("num_key_value_heads", own))
    apart = [n for n in range(1, rank - 1) if n not in along]  # dimensions of which each place attends by itself
    q, k, v = (
        _by_heads(t, _projection(t, stores[name], x, own if name == "query" else other), apart, along)
        for name, x in (("query", query), ("key", key), ("value", value))
    )
    heads = q.type.rank - 3
    groups = t.extent(q, heads) // max(t.extent(k, heads), 1)
    if groups > 1:  # of grouped-query attention: several heads share keys and values
        k, v = (_shared(t, each, groups) for each in (k, v))
    scale = float(t.extent(q, -1)) ** -0.5
    order = (*range(heads + 1), heads + 2, heads + 1)
    scores = t.op("matmul", t.scaled(q, scale), t.transpose(k, order))
    keep = _attention_mask(t, query, value, key, scores)
    if keep is not None and len(along) > 1:
        raise t.unsupported("with a mask along several axes")
    weights = t.op("softmax", scores if keep is None else _biased(t, scores, keep), axis=-1)
    joined = t.op("matmul", weights, v)  # (N, apart..., heads, steps, size)
    places = [query.shape[n] for n in (*apart, *along)]
    joined = t.transpose(joined, (*range(heads), heads + 1, heads, heads + 2))
    joined = t.reshape(joined, (joined.shape[0], *places, *joined.shape[-2:]))
    back = [0, *(1 + (*apart, *along).index(n) for n in range(1, rank - 1)), rank - 1, rank]
    joined = t.transpose(joined, back)
    if "gate" in stores:
        joined = t.op("mul", joined, _projection(t, stores["gate"], query, own, sigmoid=True))
    bias = bool(t.setting("use_bias", True))
    names = ("kernel", *(("bias",) if bias else ()))
    wanted = t.setting("output_shape", [-1])
    sizes = [wanted] if isinstance(wanted, int) else wanted
    kernel, *rest = kernel_of(t, stores["output"], names, shape=(own, t.extent(joined, -1), *sizes))
    flat = t.reshape(joined, (*joined.shape[:-2], joined.shape[-2] * joined.shape[-1]))
    flat = rounded(t, flat, (-1,)) if is_rounding(t, stores["output"], names) else flat
    inner = kernel.shape[0] * kernel.shape[1]
    y = t.op("matmul", flat, t.weight(kernel.reshape(inner, -1), flat))
    if rest:
        y = t.op("add", y, t.weight(rest[0].reshape(-1), y))
    y = t.reshape(y, (*y.shape[:-1], *kernel.shape[2:]))
    if (mask := t.context.masks.get(query)) is not None:
        t.context.masks[y] = mask
    if t.kind == "MultiHeadAttention" and masks.is_taking(t.context):
        for each in (query, value, key):
            t.context.masks.pop(each, None)
    if not t.kwargs.get("return_attention_scores"):
        return y
    if len(along) > 1:
        raise t.unsupported("that gives scores along several axes")
    return [y, weights]


def _by_heads(t: Translation, x: Value, apart: Sequence[int], along: Sequence[int]) -> Value:
    """(N, ..., heads, size) as (N, apart..., heads, steps, size)."""
    rank = x.type.rank
    moved = t.transpose(x, (0, *apart, rank - 2, *along, rank - 1))
    steps: Any = 1
    for axis in along:
        steps = x.shape[axis] * steps
    return t.reshape(moved, (*moved.shape[: len(apart) + 2], steps, x.shape[-1]))


def _shared(t: Translation, x: Value, groups: int) -> Value:
    """Each head of keys or values, as often as heads of queries share it."""
    *outer, heads, steps, size = x.shape
    wide = t.reshape(x, (*outer, heads, 1, steps, size))
    return t.reshape(
        t.op("expand", wide, shape=(*outer, heads, groups, steps, size)), (*outer, heads * groups, steps, size)
    )


LAYERS: dict[str, Translator] = {
    "Attention": dot_attention,
    "AdditiveAttention": additive_attention,
    "MultiHeadAttention": multi_head_attention,
    "GroupedQueryAttention": multi_head_attention,
    "GroupQueryAttention": multi_head_attention,
}
