"""Strings, and counts of n-grams."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.onnx.nodes import ML
from sterna.frontends.onnx.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.limits import check_table

#: Operators of which operands may be strings: they move them, compare them or look them up.
_MOVING = """
    Compress Concat ConcatFromSequence DepthToSpace Equal Expand Flatten Gather GatherElements GatherND Identity
    Optional OptionalGetElement OptionalHasElement Reshape ReverseSequence ScatterElements ScatterND SequenceAt
    SequenceConstruct SequenceErase SequenceInsert SequenceLength SequenceMap Shape Size Slice SpaceToDepth Split
    SplitToSequence Squeeze Tile Transpose Unsqueeze Where
"""
_LOOKING_UP = ("ArrayFeatureExtractor", "CategoryMapper", "LabelEncoder", "OneHotEncoder")
TAKING_STRINGS = frozenset(
    [*(("", op) for op in (*_MOVING.split(), "TfIdfVectorizer")), *((ML, op) for op in _LOOKING_UP)]
)


def tf_idf_vectorizer(t: Translation) -> Value:
    """How often each n-gram of a pool stands in each row, its elements up to `max_skip_count` others apart."""
    x = t.input(0)
    pool, words = t.attribute("pool_int64s") or (), t.attribute("pool_strings") or ()
    if (x.dtype == dtypes.STRING) != bool(words):
        raise error("E0108", f"TfIdfVectorizer of {x.type} with a pool of {'words' if words else 'integers'}")
    if words:  # which are compared by their numbers
        pool = dtypes.stored(t.builder.numbered(np.array(words, object))).tolist()
        x = t.op("bit_cast", x, to="int64")
    if x.type.rank not in (1, 2):
        raise error("E0108", f"TfIdfVectorizer of {x.type}")
    least, most = t.attribute("min_gram_length"), t.attribute("max_gram_length")
    starts, columns = t.attribute("ngram_counts"), t.attribute("ngram_indexes")
    rows = t.cast(x if x.type.rank == 2 else t.reshape(x, (1, *x.shape)), "int64")
    count, length = rows.shape[0], t.extent(rows, 1)
    width = max(columns) + 1
    check_table(width)
    total = t.op("expand", t.scalar(0, "float32"), shape=(count, width))
    begin_column = 0
    for gram in range(1, len(starts) + 1):
        end = starts[gram] if gram < len(starts) else len(pool)
        grams = np.array(pool[starts[gram - 1] : end], np.int64).reshape(-1, gram)
        columns_here = columns[begin_column : begin_column + len(grams)]
        begin_column += len(grams)
        if not least <= gram <= most or not len(grams):
            continue
        check_table(len(grams), width)
        where = np.zeros((len(grams), width), np.float32)
        where[np.arange(len(grams)), columns_here] = 1
        skips = min(t.attribute("max_skip_count", 0) + 1, length) if gram > 1 else 1
        check_table(skips, length)
        for skip in range(skips):
            places = length - (gram - 1) * (skip + 1)
            if places < 1:
                break
            check_table(places, gram)
            index = np.arange(places)[:, None] + np.arange(gram)[None] * (skip + 1)
            windows = t.reshape(t.op("gather", rows, t.constant(index, "int64"), axis=1), (count, places, 1, gram))
            same = t.op("reduce_all", t.op("equal", windows, t.constant(grams)), axes=(3,), keep_dims=False)
            found = t.op("reduce_sum", t.cast(same, "float32"), axes=(1,), keep_dims=False)
            total = t.op("add", total, t.op("matmul", found, t.constant(where)))
    y = _weighed(t, total, columns, width)
    return y if x.type.rank == 2 else t.reshape(y, (width,))


def _weighed(t: Translation, total: Value, columns: tuple[int, ...], width: int) -> Value:
    mode = t.attribute("mode")
    if mode == "TF":
        return total
    weights = np.ones(width, np.float32)
    if t.attribute("weights"):
        weights[list(columns)] = t.attribute("weights")
    if mode == "IDF":
        total = t.cast(t.op("less", t.scalar(0, "float32"), total), "float32")
    return t.op("mul", total, t.constant(weights))


TRANSLATORS: dict[str, Translator] = {"TfIdfVectorizer": tf_idf_vectorizer}
