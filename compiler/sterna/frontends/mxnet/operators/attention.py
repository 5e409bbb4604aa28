"""Attention over queries, keys and values that lie side by side, head by head (GluonNLP)."""

from __future__ import annotations

import math

from sterna.errors import error
from sterna.frontends.mxnet.operators.reductions import turned
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir.graph import Value


def _heads(t: Translation, x: Value, parts: int, which: int) -> Value:
    """(batch * heads, length, elements) of one of the parts."""
    heads = t.said.integer("heads")
    if x.type.rank != 3 or heads < 1 or t.extent(x, 2) % (heads * parts):
        raise error("E0108", f"{t.kind} of {x.type} with {heads} heads")
    length, batch, width = x.shape[0], x.shape[1], t.extent(x, 2) // (heads * parts)
    y = t.part(t.reshape(x, [length, batch * heads, parts, width]), 2, which, 1)
    return t.transpose(t.reshape(y, [length, batch * heads, width]), (1, 0, 2))


def _scores(t: Translation, queries: Value, keys: Value) -> Value:
    factor = 1 / math.sqrt(t.extent(queries, 2))
    return t.op("matmul", t.op("mul", queries, t.number(factor, queries)), turned(t, keys))


def _mixed(t: Translation, weights: Value, values: Value) -> Value:
    """(length, batch, heads * elements) of the values as the weights mix them."""
    heads = t.said.integer("heads")
    y = t.transpose(t.op("matmul", weights, values), (1, 0, 2))
    length, rows, width = y.shape
    return t.reshape(y, [length, rows // heads, width * heads])


def self_scores(t: Translation) -> Value:
    return _scores(t, _heads(t, t.input(0), 3, 0), _heads(t, t.input(0), 3, 1))


def self_values(t: Translation) -> Value:
    return _mixed(t, t.input(1), _heads(t, t.input(0), 3, 2))


def other_scores(t: Translation) -> Value:
    return _scores(t, _heads(t, t.input(0), 1, 0), _heads(t, t.input(1), 2, 0))


def other_values(t: Translation) -> Value:
    return _mixed(t, t.input(1), _heads(t, t.input(0), 2, 1))


TRANSLATORS: dict[str, Translator] = {
    "_contrib_interleaved_matmul_encdec_qk": other_scores,
    "_contrib_interleaved_matmul_encdec_valatt": other_values,
    "_contrib_interleaved_matmul_selfatt_qk": self_scores,
    "_contrib_interleaved_matmul_selfatt_valatt": self_values,
}
