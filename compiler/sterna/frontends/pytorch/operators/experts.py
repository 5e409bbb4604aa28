"""Mixtures of experts: products of groups of rows with a matrix of their own each."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.pytorch.operators.matrices import product
from sterna.frontends.pytorch.promotion import result_type
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value


def _group_of(t: Translation, ends: Value, count: Value) -> Value:
    """To which group each position belongs: how many groups end at or before it."""
    before = t.op("less_equal", t.reshape(ends, (1, ends.shape[0])), t.reshape(count, (count.shape[0], 1)))
    return t.op("reduce_sum", t.cast(before, "int64"), axes=(1,), keep_dims=False)


def _rows_grouped(t: Translation, x: Value, weights: Value, ends: Value) -> Value:
    """Rows (n, k) with the matrix (k, m) of their group, of (groups, k, m); rows of no group give 0."""
    groups, (rows, width) = t.extent(weights, 0), x.shape
    own = _group_of(t, ends, t.counting(rows, ends.dtype))
    low = rows.bounds()[1]
    if low is not None and low <= groups:
        # Fewer rows than matrices: only those that are used are read.
        known = t.op("minimum", own, t.scalar(groups - 1, "int64"))
        y = product(t, t.reshape(x, (rows, 1, width)), t.op("gather", weights, known, axis=0))
        y = t.reshape(y, (rows, weights.shape[2]))
        inside = t.op("less", t.reshape(own, (rows, 1)), t.scalar(groups, "int64"))
        return t.op("where", inside, y, t.scalar(0, y.dtype))
    own = t.reshape(own, (rows, 1))

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        matrix = t.take(t.op("gather", weights, t.reshape(number, (1,)), axis=0), 0, 0)
        chosen = t.op("equal", own, number)
        return [t.op("where", chosen, product(t, x, matrix), carried[0])], []

    (y,), _ = t.repeat(groups, [t.full((rows, weights.shape[2]), 0, x.dtype)], step)
    return y


def _sums_grouped(t: Translation, a: Value, b: Value, ends: Value) -> Value:
    """(n, k) @ (k, m) for each group of k: (groups, n, m)."""
    groups, length = t.extent(ends, 0), a.shape[1]
    own = _group_of(t, ends, t.counting(length, ends.dtype))
    mask = t.op("equal", t.reshape(own, (1, 1, length)), t.reshape(t.counting(groups), (groups, 1, 1)))
    return product(t, t.op("where", mask, t.unsqueeze(a, 0), t.scalar(0, a.dtype)), t.unsqueeze(b, 0))


def grouped_product(t: Translation) -> Value:
    """The groups are rows of the first, columns of the second, what is summed over, or matrices of both."""
    names = ("input", "weight") if "weight" in t.arguments else ("self", "mat2")
    a, b = t.tensor(names[0]), t.tensor(names[1])
    dtype = result_type((a, b))
    a, b, ends = t.cast(a, dtype), t.cast(b, dtype), t.maybe("offs")
    ranks = a.type.rank, b.type.rank
    if ranks == (3, 3):
        y = product(t, a, b)
    elif ends is None:
        raise error("E0103", f"{t.kind} lacks its argument offs")
    elif ranks == (2, 3):
        y = _rows_grouped(t, a, b, ends)
    elif ranks == (3, 2):
        turned = _rows_grouped(t, t.transpose(b, (1, 0)), t.transpose(a, (0, 2, 1)), ends)
        y = t.transpose(turned, (1, 0))
    elif ranks == (2, 2):
        y = _sums_grouped(t, a, b, ends)
    else:
        raise error("E0108", f"{t.kind} of {a.type} and {b.type}")
    bias = t.maybe("bias")
    if bias is not None:
        y = t.op("add", y, t.cast(bias, y.dtype))
    return t.cast(y, str(t.arg("out_dtype", y.dtype)))


#: transformers calls its own operator where PyTorch's would not run on the machine of the export.
TRANSLATORS: dict[str, Translator] = {
    "aten._grouped_mm.default": grouped_product,
    "transformers.grouped_mm_fallback.default": grouped_product,
}
