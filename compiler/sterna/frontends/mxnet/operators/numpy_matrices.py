"""Functions of NumPy's interface on matrices, and factors that the older interface has too."""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends import decompositions, elimination, linear_algebra, rotations
from sterna.frontends.contractions import contracted, crossed, inverse_of_any, kronecker
from sterna.frontends.emitter import axes_of
from sterna.frontends.linear_algebra import turned
from sterna.frontends.mxnet.operators.reductions import numpy_dot
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int
from sterna.ir.limits import check_table


def _product(sizes: tuple[Int, ...]) -> Int:
    total = as_int(1)
    for size in sizes:
        total = total * size
    return total


# ---------------------------------------------------------------- products
def einsum(t: Translation) -> Value:
    return standard(t, "Einsum", *t.all_inputs(), equation=t.said.text("subscripts"))


def tensor_dot(t: Translation) -> Value:
    a, b = t.input(0), t.input(1)
    if t.said.has("axes"):
        count = t.said.integer("axes")
        if not 0 <= count <= min(a.type.rank, b.type.rank):
            raise error("E0109", f"{t.kind} of {a.type} and {b.type} over {count} dimensions")
        first, second = tuple(range(a.type.rank - count, a.type.rank)), tuple(range(count))
    else:
        first = axes_of(t.said.integers("a_axes_summed", ()), a.type.rank)
        second = axes_of(t.said.integers("b_axes_summed", ()), b.type.rank)
    return contracted(t, a, b, first, second)


def cross(t: Translation) -> Value:
    """Of vectors of three elements, or of two in the plane."""
    operands = [t.floats(t.input(n)) for n in range(2)]
    places = [axes_of((t.said.integer(f"axis{n}", -1),), x.type.rank)[0] for n, x in zip("ab", operands, strict=True)]
    a, b = (t.moved(x, at, x.type.rank - 1) for x, at in zip(operands, places, strict=True))
    sizes = t.extent(a, -1), t.extent(b, -1)
    if not {*sizes} <= {2, 3}:
        raise error("E0108", f"{t.kind} of {a.type} and {b.type}")
    a, b = (
        x if size == 3 else t.pad(x, [0] * x.type.rank, [*[0] * (x.type.rank - 1), 1])
        for x, size in zip((a, b), sizes, strict=True)
    )
    made = crossed(t, a, b)
    if sizes == (2, 2):
        return t.squeezed(t.part(made, made.type.rank - 1, 2, 1), made.type.rank - 1)
    return t.moved(made, made.type.rank - 1, axes_of((t.said.integer("axisc", -1),), made.type.rank)[0])


def khatri_rao(t: Translation) -> Value:
    """The Kronecker products of columns."""
    values = t.all_inputs()
    made = values[0]
    t.sizes(made, 2)
    for x in values[1:]:
        t.sizes(x, 2)
        rows = t.op("mul", t.spread(made, 1), t.spread(x, 0))
        made = t.reshape(rows, [made.shape[0] * x.shape[0], made.shape[1]])
    return made


# ---------------------------------------------------------------- factors
def _symmetric(t: Translation) -> Value:
    """The matrices that one triangle says."""
    a = t.floats(t.input(0))
    upper = t.said.text("UPLO", "L").strip("'\"") in ("U", "85")
    half = decompositions.triangle(t, a, upper)
    rest = decompositions.triangle(t, a, upper, 1 if upper else -1)
    return t.op("add", half, turned(t, rest))


def eigen(t: Translation) -> tuple[Value, Value]:
    """eigh: values from the least up, and vectors as columns."""
    return rotations.symmetric_eigen(t, _symmetric(t))


def eigen_rows(t: Translation) -> tuple[Value, Value]:
    """syevd: vectors as rows, then the values."""
    values, vectors = rotations.symmetric_eigen(t, t.input(0))
    return turned(t, vectors), values


def singular(t: Translation) -> tuple[Value, Value, Value]:
    """(u, s, v) of a = u diag(s) v, of matrices that are no taller than wide."""
    u, s, v = rotations.singular(t, t.floats(t.input(0)))
    return u, s, turned(t, v)


def orthogonal_rows(t: Translation) -> tuple[Value, Value]:
    """gelqf: (q, l) of a = l q."""
    a = t.input(0)
    rows = t.extent(a, -2)
    q, r = decompositions.orthogonal(t, turned(t, a))
    first = r.type.rank - 2
    return turned(t, t.part(q, first + 1, 0, rows)), turned(t, t.part(r, first, 0, rows))


def orthogonal(t: Translation) -> tuple[Value, Value]:
    a = t.floats(t.input(0))
    count = min(t.extent(a, -1), t.extent(a, -2))
    q, r = decompositions.orthogonal(t, a)
    return t.part(q, q.type.rank - 1, 0, count), t.part(r, r.type.rank - 2, 0, count)


def _triangle_places(t: Translation, rows: int) -> list[int]:
    """Where a triangle is in a square matrix: of a lower one row after row, of an upper one column after column."""
    lower, offset = t.said.flag("lower", default=True), t.said.integer("offset", 0)
    if offset > 0:
        lower = False
    elif offset < 0:
        lower = True
    check_table(rows, rows)
    found, across = np.nonzero(np.tril(np.ones((rows, rows)), -abs(offset)))
    return [int(n) for n in (found * rows + across if lower else across * rows + found)]


def triangle_out(t: Translation) -> Value:
    """extracttrian: the elements of a triangle as a vector."""
    x = t.input(0)
    rows = linear_algebra.rows_of(t, x)
    flat = t.reshape(x, [*x.shape[:-2], rows * rows])
    return t.op("gather", flat, t.vector(_triangle_places(t, rows)), axis=x.type.rank - 2)


def triangle_in(t: Translation) -> Value:
    """maketrian: a triangle of a vector's elements, 0 elsewhere."""
    x = t.input(0)
    count, offset = t.extent(x, -1), t.said.integer("offset", 0)
    small = int((np.sqrt(8 * count + 1) - 1) / 2)
    rows = small + abs(offset)
    found = _triangle_places(t, rows)
    if len(found) != count:
        raise error("E0108", f"{t.kind} of {x.type}")
    places = np.full(rows * rows, count, np.int64)  # one more element, which is 0
    places[found] = np.arange(count)
    none = [0] * (x.type.rank - 1)
    wide = t.pad(x, (*none, 0), (*none, 1))
    return t.op("gather", wide, t.constant(places.reshape(rows, rows)), axis=x.type.rank - 1)


# ---------------------------------------------------------------- solutions
def solve(t: Translation) -> Value:
    a, b = t.floats(t.input(0)), t.floats(t.input(1))
    vector = b.type.rank == a.type.rank - 1
    x = elimination.solved(t, a, t.spread(b, b.type.rank) if vector else b)
    return t.reshape(x, x.shape[:-1]) if vector else x


def pseudo_inverse(t: Translation) -> Value:
    a = t.floats(t.input(0))
    if t.said.has("rcond") or len(t.inputs) < 2:
        return inverse_of_any(t, a, t.said.finite("rcond", 1e-15))
    share = t.cast(t.input(1), a.dtype)
    return inverse_of_any(t, a, t.spread(share, share.type.rank) if share.type.rank else share)


def _rounding(t: Translation, x: Value) -> float:
    return float(np.finfo(dtypes.to_numpy(x.dtype)).eps) * max(t.extent(x, -2), t.extent(x, -1))


def least_squares(t: Translation) -> tuple[Value, ...]:
    """(x, residuals, rank, singular values) of the shortest x for which |a x - b| is least."""
    a, b = t.floats(t.input(0)), t.floats(t.input(1))
    rows, width = t.sizes(a, 2)
    share = t.said.finite("rcond", -1.0)
    if t.said.flag("new_default"):
        share = _rounding(t, a)
    elif share < 0:
        share = float(np.finfo(dtypes.to_numpy(a.dtype)).eps)
    vector = b.type.rank == 1
    wide = t.spread(b, 1) if vector else b
    x = t.op("matmul", inverse_of_any(t, a, share), wide)
    s = rotations.singular(t, a)[1]
    largest = t.op("reduce_max", s, axes=(0,), keep_dims=True)
    counted = t.op("greater", s, t.op("mul", largest, t.number(share, s)))
    rank = t.sum(t.cast(counted, "int64"), (0,), keep=False)
    apart = t.op("sub", t.op("matmul", a, x), wide)
    rest = t.sum(t.op("mul", apart, apart), (0,), keep=False) if rows > width else t.constant(np.zeros(0), a.dtype)
    return t.reshape(x, [width]) if vector else x, rest, rank, s


def rank(t: Translation) -> Value:
    """How many singular values there are but those of rounding."""
    a = t.floats(t.input(0))
    if a.type.rank < 2:
        any_ = t.op("reduce_any", t.truth(a), axes=tuple(range(a.type.rank)), keep_dims=False)
        return t.cast(any_, "int64")
    s = rotations.singular(t, a)[1]
    axis = s.type.rank - 1
    if t.kind.endswith("none_tol"):
        least = t.op("mul", t.op("reduce_max", s, axes=(axis,), keep_dims=True), t.number(_rounding(t, a), s))
    else:
        least = t.cast(t.input(1), s.dtype)
        least = t.spread(least, least.type.rank) if least.type.rank else least
    return t.sum(t.cast(t.op("greater", s, least), "int64"), (axis,), keep=False)


def tensor_inverse(t: Translation) -> Value:
    """Of a tensor as a matrix, whose rows are its first `ind` dimensions."""
    a, count = t.floats(t.input(0)), t.said.integer("ind", 2)
    if not 0 < count < a.type.rank:
        raise error("E0109", f"{t.kind} of {a.type} after {count} dimensions")
    rows, width = a.shape[:count], a.shape[count:]
    square = t.reshape(a, [_product(rows), _product(width)])
    return t.reshape(elimination.inverted(t, square), [*width, *rows])


def tensor_solve(t: Translation) -> Value:
    """The x whose product with a tensor, summed over all dimensions of x, is another one."""
    a, b = t.floats(t.input(0)), t.floats(t.input(1))
    moved = axes_of(t.said.integers("a_axes", ()), a.type.rank)
    a = t.transpose(a, (*(n for n in range(a.type.rank) if n not in moved), *moved))
    width, count = a.shape[b.type.rank :], t.elements(b)
    x = elimination.solved(t, t.reshape(a, [count, _product(width)]), t.reshape(b, [count, 1]))
    return t.reshape(x, width)


def _matrix_norm(t: Translation, x: Value, flag: int, order: float) -> Value:
    """Of matrices in the last two dimensions, which stay with the size 1: Frobenius's, the nuclear one, or by order.

    MXNet takes every positive order but 1 and 2 for infinity, and every other one but -1 and -2 for -infinity.
    """
    rows, across = x.type.rank - 2, x.type.rank - 1
    if flag == 1:
        return t.op("sqrt", t.sum(t.op("mul", x, x), (rows, across)))
    best = "reduce_max" if order > 0 else "reduce_min"
    if flag == 2 or abs(order) == 2:
        s = rotations.singular(t, x)[1]
        last = s.type.rank - 1
        made = t.sum(s, (last,)) if flag == 2 else t.op(best, s, axes=(last,), keep_dims=True)
        return t.spread(made, last)
    first, second = (rows, across) if abs(order) == 1 else (across, rows)
    return t.op(best, t.sum(t.op("abs", x), (first,)), axes=(second,), keep_dims=True)


def _vector_norm(t: Translation, x: Value, axis: int, order: float) -> Value:
    """Of an order that may be 0, infinite or negative, along a dimension, which stays with the size 1."""
    size = t.op("abs", x)
    if math.isinf(order):
        return t.op("reduce_max" if order > 0 else "reduce_min", size, axes=(axis,), keep_dims=True)
    given = t.truth(x)
    if order == 0:
        return t.sum(t.cast(given, x.dtype), (axis,))
    if order == 2:
        return t.op("sqrt", t.sum(t.op("mul", x, x), (axis,)))
    if order > 0:
        return t.power(t.sum(t.power(size, order), (axis,)), 1 / order)
    # MXNet leaves zeros out, whose negative powers are infinite.
    one, zero = t.number(1, x), t.number(0, x)
    powers = t.op("where", given, t.power(t.op("where", given, size, one), order), zero)
    whole = t.sum(powers, (axis,))
    none = t.op("equal", whole, zero)
    return t.op("where", none, zero, t.power(t.op("where", none, one, whole), 1 / order))


def norm(t: Translation) -> Value:
    """By the flags that `numpy.linalg.norm` of MXNet writes: the root of squares of all elements (-2), Frobenius's norm
    (1), the nuclear norm (2), or by `ord` (-1, 0). Without an axis matrices are the last two dimensions."""
    x, flag, order = t.floats(t.input(0)), t.said.integer("flag", -1), t.said.number("ord", 2.0)
    if flag not in (-2, -1, 0, 1, 2) or math.isnan(order):
        raise t.unsupported(f"of the kind {flag} and the order {order}")
    rank = x.type.rank
    named = axes_of(t.said.integers("axis", ()), rank)
    if flag == -2:
        named = named or tuple(range(rank))
        made = t.op("sqrt", t.sum(t.op("mul", x, x), tuple(range(rank))))
    else:
        named = named or tuple(range(max(rank - 2, 0), rank))
    if (len(named) != rank if flag == -2 else len(named) not in (1, 2)) or len({*named}) < len(named):
        raise error("E0109", f"{t.kind} {flag} of {x.type} over {list(named)}")
    if flag != -2 and len(named) == 2:
        rest = [n for n in range(rank) if n not in named]
        made = _matrix_norm(t, t.transpose(x, (*rest, *named)), flag, order)
    elif flag == 2:
        raise error("E0108", f"{t.kind} {flag} of vectors of {x.type}")
    elif flag != -2:
        made = _vector_norm(t, x, named[0], 2 if flag == 1 else order)
    keep = t.said.flag("keepdims")
    return t.reshape(made, [1 if n in named else x.shape[n] for n in range(rank) if keep or n not in named])


TRANSLATORS: dict[str, Translator] = {
    **dict.fromkeys(("_linalg_extracttrian", "linalg_extracttrian"), triangle_out),
    **dict.fromkeys(("_linalg_gelqf", "linalg_gelqf"), orthogonal_rows),
    **dict.fromkeys(("_linalg_maketrian", "linalg_maketrian"), triangle_in),
    **dict.fromkeys(("_linalg_syevd", "linalg_syevd"), eigen_rows),
    **dict.fromkeys(("_npi_matrix_rank", "_npi_matrix_rank_none_tol"), rank),
    **dict.fromkeys(("_npi_pinv", "_npi_pinv_scalar_rcond"), pseudo_inverse),
    **dict.fromkeys(("_npi_tensordot", "_npi_tensordot_int_axes"), tensor_dot),
    "_npi_cross": cross,
    "_npi_dot": numpy_dot,
    "_npi_eigh": eigen,
    "_npi_eigvalsh": lambda t: rotations.symmetric_eigen(t, _symmetric(t))[0],
    "_npi_einsum": einsum,
    "_npi_kron": lambda t: kronecker(t, t.input(0), t.input(1)),
    "_npi_lstsq": least_squares,
    "_npi_norm": norm,
    "_npi_qr": orthogonal,
    "_npi_solve": solve,
    "_npi_svd": singular,
    "_npi_tensorinv": tensor_inverse,
    "_npi_tensorsolve": tensor_solve,
    "khatri_rao": khatri_rao,
}
