"""Linear algebra, and positions of elements as numbers and as coordinates."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends import decompositions, elimination, linear_algebra
from sterna.frontends.linear_algebra import turned
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.limits import check_table


def _scaled(t: Translation, x: Value) -> Value:
    factor = t.said.finite("alpha", 1.0)
    return x if factor == 1 else t.op("mul", x, t.number(factor, x))


def _lower(t: Translation) -> bool:
    return t.said.flag("lower", True)


def factor(t: Translation) -> Value:
    """potrf: the lower factor of Cholesky, or the upper one."""
    a = t.input(0)
    if _lower(t):
        return linear_algebra.cholesky(t, a)
    return turned(t, linear_algebra.cholesky(t, turned(t, a)))


def inverse_of_factor(t: Translation) -> Value:
    """potri: the inverse of the matrix whose factor is given."""
    a = decompositions.triangle(t, t.input(0), not _lower(t))
    whole = t.op("matmul", a, turned(t, a)) if _lower(t) else t.op("matmul", turned(t, a), a)
    return elimination.inverted(t, whole)


def _operand(t: Translation) -> tuple[Value, bool]:
    """The triangular matrix, transposed if that is said, and whether it is a lower one then."""
    a = decompositions.triangle(t, t.input(0), not _lower(t))
    return (turned(t, a), not _lower(t)) if t.said.flag("transpose") else (a, _lower(t))


def triangular_solve(t: Translation) -> Value:
    """trsm: the x of a x = alpha b, or of x a = alpha b."""
    (a, lower), b = _operand(t), _scaled(t, t.input(1))
    if not t.said.flag("rightside"):
        return linear_algebra.triangular_solved(t, a, b, lower=lower)
    return turned(t, linear_algebra.triangular_solved(t, turned(t, a), turned(t, b), lower=not lower))


def triangular_product(t: Translation) -> Value:
    """trmm: alpha a b, or alpha b a."""
    (a, _), b = _operand(t), t.input(1)
    return _scaled(t, t.op("matmul", b, a) if t.said.flag("rightside") else t.op("matmul", a, b))


def _vector(t: Translation, x: Value) -> Value:
    """Before NumPy's shapes there were none without dimensions: [1]."""
    return x if x.type.rank or t.is_numpy or t.kind.startswith("_np") else t.reshape(x, [1])


def determinant(t: Translation) -> Value:
    return _vector(t, standard(t, "Det", t.input(0)))


def sign_and_log(t: Translation) -> tuple[Value, Value]:
    sign, size = elimination.sign_and_log(t, t.input(0))
    return _vector(t, sign), _vector(t, size)


def _places(t: Translation, rows: int, offset: int) -> np.ndarray:
    """Where a diagonal of square matrices is, row after row."""
    size = rows - abs(offset)
    if size < 1:
        raise error("E0109", f"{t.kind} of the diagonal {offset} of {rows} rows")
    check_table(rows, rows)
    return max(-offset, 0) * rows + max(offset, 0) + np.arange(size) * (rows + 1)


def diagonal(t: Translation) -> Value:
    x = t.input(0)
    rows = linear_algebra.rows_of(t, x)
    flat = t.reshape(x, [*x.shape[:-2], rows * rows])
    places = _places(t, rows, t.said.integer("offset", 0))
    return t.op("gather", flat, t.constant(places, "int64"), axis=x.type.rank - 2)


def sum_of_logs(t: Translation) -> Value:
    """sumlogdiag: the logarithms of a diagonal, added up."""
    x = t.input(0)
    y = t.sum(t.op("log", linear_algebra.diagonal(t, x)), (x.type.rank - 2,), keep=False)
    return _vector(t, y)


def from_diagonal(t: Translation) -> Value:
    """makediag: square matrices of a diagonal, 0 elsewhere."""
    x = t.input(0)
    offset, length = t.said.integer("offset", 0), t.extent(x, -1)
    rows = length + abs(offset)
    check_table(rows, rows)
    places = np.full(rows * rows, length, np.int64)  # one more element, which is 0
    places[_places(t, rows, offset)] = np.arange(length)
    none = [0] * (x.type.rank - 1)
    wide = t.pad(x, (*none, 0), (*none, 1))
    return t.op("gather", wide, t.constant(places.reshape(rows, rows)), axis=x.type.rank - 1)


def _sizes(t: Translation) -> tuple[int, ...]:
    sizes = t.said.integers("shape")
    if not sizes or min(sizes) < 1:
        raise error("E0109", f"{t.kind} in a tensor of {list(sizes)}")
    return tuple(sizes)


def raveled(t: Translation) -> Value:
    """The numbers of elements of which the coordinates are given, a row for each dimension."""
    x, sizes = t.input(0), _sizes(t)
    if x.type.rank < 1 or t.extent(x, 0) != len(sizes):
        raise error("E0108", f"{t.kind} of {x.type} in a tensor of {list(sizes)}")
    total: Value | None = None
    for n, size in enumerate(sizes):
        row = t.reshape(t.part(x, 0, n, 1), x.shape[1:])
        total = row if total is None else t.op("add", t.op("mul", total, t.number(size, x)), row)
    assert total is not None
    return total


def unraveled(t: Translation) -> Value:
    """The coordinates of elements by their numbers, a row for each dimension."""
    rest, rows = t.integral(t.input(0)), []
    for size in reversed(_sizes(t)):
        rows.append(t.spread(t.op("mod", rest, t.scalar(size, "int64")), 0))
        rest = t.op("div", rest, t.scalar(size, "int64"))
    y = rows[0] if len(rows) == 1 else t.op("concat", *reversed(rows), axis=0)
    return t.cast(y, t.input(0).dtype)


_LINEAR: dict[str, Translator] = {
    "det": determinant, "extractdiag": diagonal, "inverse": lambda t: elimination.inverted(t, t.input(0)),
    "makediag": from_diagonal, "potrf": factor, "potri": inverse_of_factor, "slogdet": sign_and_log,
    "sumlogdiag": sum_of_logs, "trmm": triangular_product, "trsm": triangular_solve,
}  # fmt: skip
TRANSLATORS: dict[str, Translator] = {
    **{f"{prefix}{name}": function for name, function in _LINEAR.items() for prefix in ("linalg_", "_linalg_")},
    "_npi_cholesky": factor, "_npi_det": determinant, "_npi_inv": _LINEAR["inverse"], "_npi_slogdet": sign_and_log,
    **dict.fromkeys(("_ravel_multi_index", "ravel_multi_index"), raveled),
    **dict.fromkeys(("_unravel_index", "unravel_index"), unraveled),
}  # fmt: skip
