"""Operators that count: how often numbers occur, and how many elements of a sorted row come before a number."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sterna.errors import error
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Node, Value
from sterna.ir.limits import counting


def _reduced(t: Translation, operator: str, x: Value) -> Value:
    """Along the last dimension, which goes."""
    return t.op(operator, x, axes=(x.type.rank - 1,), keep_dims=False)


def _count_of(t: Translation, rows: Value, x: Value, comparison: str, dtype: str) -> Value:
    """How many elements of the last dimension of `rows` compare so with each element of x; rows broadcast to x."""
    before = t.op(comparison, rows, t.reshape(x, (*x.shape, 1)))
    return _reduced(t, "reduce_sum", t.cast(before, dtype))


def bucketize(t: Translation) -> Value:
    x = t.input(0)
    bounds = t.constant(np.asarray(t.option("boundaries", ()), np.float32))
    return _count_of(t, bounds, t.cast(x, "float32"), "less_equal", "int32")


def _bound(comparison: str) -> Translator:
    """Where the values of each row would stand in the sorted row beside it."""

    def translate(t: Translation) -> Value:
        rows, x = t.input(0), t.input(1)
        wide = t.reshape(rows, (rows.shape[0], 1, rows.shape[1]))
        return _count_of(t, wide, x, comparison, t.dtype("out_type", "int32"))

    return translate


def _size(t: Translation) -> int:
    """How many numbers are counted: a constant, or what is held to one by a minimum and a maximum, as tf.math.bincount
    holds it with `minlength` and `maxlength`."""
    if not t.known(1):
        made = {value: node for node in t.builder.nodes for value in node.outputs}
        least, most = _limit(made, t.input(1), "maximum"), _limit(made, t.input(1), "minimum")
        if least is not None and most is not None and least >= most:
            return most
    return t.integer_of(1, "the size")


def _limit(made: Mapping[Value, Node], x: Value, kind: str) -> int | None:
    """The constant that a maximum or a minimum among the last steps of a number holds it to."""
    while (node := made.get(x)) is not None and node.op in ("cast", "minimum", "maximum"):
        known = [int(v.data) for v in node.inputs if v is not None and v.data is not None and v.data.size == 1]
        if node.op == kind and known:
            return known[0]
        rest = [v for v in node.inputs if v is not None and v.data is None]
        if len(rest) != 1:
            return None
        x = rest[0]
    return None


def bincount(t: Translation) -> Value:
    """How often 0 ... size - 1 occur in a row, or the sums of the weights of their places; larger ones do not count."""
    x, size, weights = t.input(0), _size(t), t.input(2)
    if size < 0:
        raise error("E0109", f"{t.kind} of {size} numbers")
    dtype = weights.dtype
    if t.kind == "Bincount":
        x = t.reshape(x, (x.type.elements,))
    numbers = t.reshape(t.constant(counting(size), x.dtype), (size, 1))
    hits = t.op("equal", t.reshape(x, (*x.shape[:-1], 1, x.shape[-1])), numbers)
    if t.option("binary_output", False):
        return t.cast(_reduced(t, "reduce_any", hits), dtype)
    counted = t.cast(hits, dtype)
    if weights.type.elements != 0:
        counted = t.op("mul", counted, t.reshape(weights, (*x.shape[:-1], 1, x.shape[-1])))
    return _reduced(t, "reduce_sum", counted)


TRANSLATORS: dict[str, Translator] = {
    "Bincount": bincount, "Bucketize": bucketize, "DenseBincount": bincount, "LowerBound": _bound("less"),
    "UpperBound": _bound("less_equal"),
}  # fmt: skip
