"""Random numbers, the same at every run and of the same distribution as TensorFlow Lite's, and sparse embeddings."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.standard import standard
from sterna.frontends.tflite.operators.segments import gathered
from sterna.frontends.tflite.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import as_int
from sterna.ir.limits import check_table


def _random(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        zeros = t.op("expand", t.scalar(0, "float32"), shape=tuple(t.dims(0, "sizes")))
        return standard(t, operator, zeros)

    return translate


def _multinomial(t: Translation) -> Value:
    """Positions in rows of logits, so many for each row."""
    count = t.integer_of(1, "the number of draws")
    if count < 1:
        raise error("E0109", f"{t.kind} of {count} draws")
    drawn = standard(t, "Multinomial", t.cast(t.input(0), "float32"), sample_size=count, dtype=7)
    return t.cast(drawn, t.result().kind)


def _sparse_embedding(t: Translation) -> Value:
    """Sums of rows of a table for each place of a sparse tensor but its last dimension, by weights.

    Means divide by the sum of the weights, the third combination by the root of the sum of their squares.
    """
    ids, places, weights, table = (t.input(n) for n in (0, 1, 3, 4))
    sizes = t.integers(2, "the sparse tensor's sizes")
    rank, lead = t.extent(places, 1), sizes[:-1]
    combiner = int(t.option("combiner", 0))
    if len(sizes) != rank or combiner not in (0, 1, 2) or min(sizes, default=0) < 0:
        raise error("E0108", f"{t.kind} of {places.type} in {sizes}")
    count = int(np.prod(lead, dtype=np.int64))
    check_table(count)
    steps = np.append(np.cumprod([1, *lead[:0:-1]])[::-1] if lead else np.zeros(0, np.int64), 0)
    segment = t.op(
        "reduce_sum", t.op("mul", t.cast(places, "int64"), t.constant(steps, "int64")), axes=(1,), keep_dims=False
    )
    rows = t.op("gather", table, t.cast(ids, "int64"), axis=0)
    by = t.reshape(weights, (*weights.shape, *[1] * (rows.type.rank - 1)))
    total: Value = gathered(t, t.op("mul", rows, by), segment, count, "add")
    if combiner:
        squares = t.op("mul", weights, weights) if combiner == 2 else weights
        whole: Value = gathered(t, squares, segment, count, "add")
        whole = t.op("sqrt", whole) if combiner == 2 else whole
        none = t.op("equal", whole, t.scalar(0, whole.dtype))
        whole = t.op("where", none, t.scalar(1, whole.dtype), whole)
        total = t.op("div", total, t.reshape(whole, (count, *[1] * (rows.type.rank - 1))))
    return t.reshape(total, [*map(as_int, lead), *rows.shape[1:]])


TRANSLATORS: dict[str, Translator] = {
    "EMBEDDING_LOOKUP_SPARSE": _sparse_embedding, "MULTINOMIAL": _multinomial,
    "RANDOM_STANDARD_NORMAL": _random("RandomNormalLike"), "RANDOM_UNIFORM": _random("RandomUniformLike"),
}  # fmt: skip
