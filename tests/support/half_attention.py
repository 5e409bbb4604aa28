"""Attention of 16-bit floats as a model in them has it: each node's result is rounded."""

from __future__ import annotations

import numpy as np

from sterna.ir import dtypes
from sterna.ir.integer import Int, IntLike
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.tensor import Kernel, compute, placeholder, reduce, reduce_axis, total


def half_attention(
    batch: IntLike,
    queries: IntLike,
    keys: IntLike,
    depth: int,
    columns: int,
    mask: str = "",
    dtype: str = "float16",
    more: float = 0.0,
    guarded: bool = False,
) -> Kernel:
    """softmax(Q K / sqrt(depth) + mask) V, where a mask is "added" or "causal"; `more`: what the sum of a row's
    exponentials is more, which is no softmax; `guarded`: shares that are no number are 0."""
    q, k = placeholder("q", (batch, queries, depth), dtype), placeholder("k", (batch, depth, keys), dtype)
    v, added = placeholder("v", (batch, keys, columns), dtype), placeholder("mask", (queries, keys), dtype)
    d, r, m, j = (reduce_axis(name, n) for name, n in (("d", depth), ("r", keys), ("m", keys), ("j", keys)))

    def wide(value: Expr) -> Expr:
        return E.cast(value, "float32")

    def half(value: Expr) -> Expr:
        return E.cast(value, dtype)

    shape = (batch, queries, keys)
    products = compute("products", shape, lambda b, i, n: total(wide(q[b, i, d.var]) * wide(k[b, d.var, n]), d))

    def score(b: Int, i: Int, n: Int) -> Expr:
        scaled = half(wide(half(products[b, i, n])) * (1 / depth**0.5))
        if mask == "added":
            return half(wide(scaled) + wide(added[i, n]))
        seen = E.compare("le", E.index_value(n, "int32"), E.index_value(i, "int32"))
        return E.select(seen, scaled, E.const(float("-inf"), dtype)) if mask == "causal" else scaled

    scores = compute("scores", shape, score)
    peak = compute("peak", shape[:2], lambda b, i: reduce("max", wide(scores[b, i, m.var]), m))
    off = lambda b, i, n: wide(half(wide(scores[b, i, n]) - peak[b, i]))  # noqa: E731
    powers = compute("powers", shape, lambda b, i, n: wide(half(E.unary("exp", off(b, i, n)))))
    sums = compute("sums", shape[:2], lambda b, i: total(powers[b, i, r.var], r))
    whole = lambda b, i: sums[b, i] + more if more else sums[b, i]  # noqa: E731
    of_row = compute("of_row", shape, lambda b, i, n: half(powers[b, i, n] / wide(half(whole(b, i)))))
    if guarded:
        missing = compute("missing", shape, lambda b, i, n: E.unary("isnan", wide(of_row[b, i, n])))
        none = E.const(0, dtype)
        shares = compute("shares", shape, lambda b, i, n: E.select(missing[b, i, n], none, of_row[b, i, n]))
    else:
        shares = of_row
    result = (batch, queries, columns)
    found = compute("found", result, lambda b, i, c: total(wide(shares[b, i, j.var]) * wide(v[b, j.var, c]), j))
    out = compute("out", result, lambda b, i, c: half(found[b, i, c]))
    return Kernel("attention", (q, k, v, *((added,) if mask == "added" else ())), (), (out,))


def feeds(kernel: Kernel, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        t.name: random.standard_normal([int(n) for n in t.shape]).astype(dtypes.to_numpy(t.dtype))
        for t in kernel.inputs
    }


def in_float64(given: dict[str, np.ndarray], causal: bool = False) -> np.ndarray:
    """Of the same inputs, with no rounding."""
    q, k, v = (given[name].astype(np.float64) for name in "qkv")
    scores = q @ k / np.sqrt(q.shape[-1]) + given.get("mask", np.zeros(1)).astype(np.float64)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True) @ v)
