"""Functions of keras.ops on matrices, vectors, segments and spectra."""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends import decompositions, elimination, fourier, linear_algebra, rotations
from sterna.frontends.contractions import contracted, crossed, inverse_of_any, kronecker
from sterna.frontends.emitter import axes_of
from sterna.frontends.keras.layers.arguments import axes_in, option, tensor, two_operands
from sterna.frontends.keras.layers.functions import real
from sterna.frontends.keras.layers.rearranging import flat
from sterna.frontends.keras.translation import Result, Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value


def _inner(t: Translation) -> Value:
    """The sum over the last dimension of both."""
    a, b = two_operands(t)
    if not a.type.rank or not b.type.rank:
        return t.op("mul", a, b)
    return contracted(t, a, b, (a.type.rank - 1,), (b.type.rank - 1,))


def _tensordot(t: Translation) -> Value:
    a, b = two_operands(t)
    axes = option(t, 2, "axes", 2)
    if isinstance(axes, int):
        first, second = list(range(a.type.rank - axes, a.type.rank)), list(range(axes))
    else:
        first, second = ([n] if isinstance(n, int) else list(n) for n in axes)
    return contracted(t, a, b, axes_of(tuple(first), a.type.rank), axes_of(tuple(second), b.type.rank))


def _outer(t: Translation) -> Value:
    a, b = two_operands(t)
    a, b = flat(t, a), flat(t, b)
    return t.op("mul", t.reshape(a, (a.shape[0], 1)), b)


def _kron(t: Translation) -> Value:
    return kronecker(t, *two_operands(t))


def _cross(t: Translation) -> Value:
    """Of vectors of three elements in one dimension."""
    a, b = two_operands(t)
    axis = option(t, 5, "axis", None)
    places = [option(t, n + 2, key, -1) if axis is None else axis for n, key in enumerate(("axisa", "axisb", "axisc"))]
    a, b = (_last(t, x, int(at)) for x, at in zip((a, b), places, strict=False))
    if t.extent(a, -1) != 3 or t.extent(b, -1) != 3:
        raise t.unsupported("of vectors of two elements")

    made = crossed(t, a, b)
    rank = made.type.rank
    order = list(range(rank - 1))
    order.insert(int(places[2]) % rank, rank - 1)
    return t.transpose(made, order)


def _last(t: Translation, x: Value, axis: int) -> Value:
    """One dimension moved to the end."""
    at = axis % x.type.rank
    return t.transpose(x, (*(n for n in range(x.type.rank) if n != at), at))


def _vander(t: Translation) -> Value:
    x, rising = t.x, bool(option(t, 2, "increasing", False))
    count = int(option(t, 1, "N", None) or t.extent(x, 0))
    powers = np.arange(count) if rising else np.arange(count)[::-1]
    base = real(t, x)
    return t.op("pow", t.reshape(base, (x.shape[0], 1)), t.constant(powers, base.dtype))


def _norm(t: Translation) -> Value:
    """Of vectors, of any order; of matrices by their elements, their rows and columns, or their singular values."""
    x, order, axis = real(t, t.x), option(t, 1, "ord", None), option(t, 2, "axis", None)
    keep = bool(option(t, 3, "keepdims", False))
    axes = axes_in(t, x, 2)
    size = t.op("abs", x)
    if order is None or order in ("fro", "euclidean") or (order == 2 and len(axes) == 1):
        return t.op("sqrt", t.reduced("reduce_sum", t.op("mul", x, x), axes, keep))
    if len(axes) == 1 or (axis is None and x.type.rank == 1):
        if order in (math.inf, "inf", -math.inf):
            return t.reduced("reduce_min" if order == -math.inf else "reduce_max", size, axes, keep)
        if order == 0:
            hits = t.cast(t.op("logical_not", t.op("equal", x, t.scalar(0, x.dtype))), x.dtype)
            return t.reduced("reduce_sum", hits, axes, keep)
        if order == 1:
            return t.reduced("reduce_sum", size, axes, keep)
        total = t.reduced("reduce_sum", t.op("pow", size, t.scalar(float(order), x.dtype)), axes, keep)
        return t.op("pow", total, t.scalar(1 / float(order), x.dtype))
    if len(axes) != 2:
        raise error("E0108", f"a norm of the order {order} over {len(axes)} dimensions")
    rows, columns = axes
    if order in (1, -1, math.inf, -math.inf):
        summed, other = (rows, columns) if abs(order) == 1 else (columns, rows)
        sums = t.reduced("reduce_sum", size, (summed,), True)
        made = t.reduced("reduce_max" if order > 0 else "reduce_min", sums, (other,), True)
    elif order in ("nuc", 2, -2):
        rest = [n for n in range(x.type.rank) if n not in axes]
        _, s, _ = rotations.singular(t, t.transpose(x, (*rest, rows, columns)))
        operator = {"nuc": "reduce_sum", 2: "reduce_max", -2: "reduce_min"}[order]
        made = t.reduced(operator, s, (-1,))
        made = t.reshape(made, [1 if n in axes else x.shape[n] for n in range(x.type.rank)])
    else:
        raise t.unsupported(f"of the order {order}")
    return made if keep else t.reshape(made, [size for n, size in enumerate(made.shape) if n not in axes])


# ---------------------------------------------------------------- factors and solutions
def _cholesky(t: Translation) -> Value:
    lower = linear_algebra.cholesky(t, t.x)
    return linear_algebra.turned(t, lower) if option(t, 1, "upper", False) else lower


def _cholesky_inverse(t: Translation) -> Value:
    """The inverse of l l^T, of a factor."""
    factor = linear_algebra.turned(t, t.x) if option(t, 1, "upper", False) else t.x
    half = linear_algebra.triangular_solved(t, factor, linear_algebra.identity(t, factor))
    return t.op("matmul", linear_algebra.turned(t, half), half)


def _solve(t: Translation) -> Value:
    a, b = two_operands(t)
    vector = b.type.rank == a.type.rank - 1
    b = t.reshape(b, (*b.shape, 1)) if vector else b
    x = elimination.solved(t, a, b)
    return t.reshape(x, x.shape[:-1]) if vector else x


def _solve_triangular(t: Translation) -> Value:
    a, b = two_operands(t)
    vector = b.type.rank == a.type.rank - 1
    b = t.reshape(b, (*b.shape, 1)) if vector else b
    x = linear_algebra.triangular_solved(t, a, b, lower=bool(option(t, 2, "lower", False)))
    return t.reshape(x, x.shape[:-1]) if vector else x


def _qr(t: Translation) -> Result:
    q, r = decompositions.orthogonal(t, t.x)
    if str(option(t, 1, "mode", "reduced")) == "complete":
        return [q, r]
    count = min(t.extent(t.x, -2), t.extent(t.x, -1))
    return [t.part(q, -1, 0, count), t.part(r, -2, 0, count)]


def _svd(t: Translation) -> Result:
    u, s, v = rotations.singular(t, t.x)
    if not option(t, 2, "compute_uv", True):
        return s
    if option(t, 1, "full_matrices", True):
        u, v = decompositions.completed(t, u), decompositions.completed(t, v)
    return [u, s, linear_algebra.turned(t, v)]


def _pinv(t: Translation) -> Value:
    return inverse_of_any(t, t.x, float(option(t, 1, "rcond", 1e-15)))


def _rounding(t: Translation, x: Value) -> float:
    return float(np.finfo(dtypes.to_numpy(x.dtype)).eps) * max(t.extent(x, -2), t.extent(x, -1))


def _least_squares(t: Translation) -> Value:
    """lstsq: of many solutions the shortest one."""
    a, b = two_operands(t)
    share = option(t, 2, "rcond", None)
    share = _rounding(t, a) if share is None else float(share)
    vector = b.type.rank == 1
    x = t.op("matmul", inverse_of_any(t, a, share), t.reshape(b, (*b.shape, 1)) if vector else b)
    return t.reshape(x, x.shape[:-1]) if vector else x


def _rank(t: Translation) -> Value:
    """matrix_rank: how many singular values there are but those of rounding."""
    _, s, _ = rotations.singular(t, t.x)
    given = option(t, 1, "tol", None)
    if given is None:
        least = t.scaled(t.reduced("reduce_max", s, (-1,), True), _rounding(t, t.x))
    else:
        least = tensor(t, given, s)
    return t.reduced("reduce_sum", t.cast(t.op("greater", s, least), "int32"), (-1,))


def _lu(t: Translation) -> Result:
    """lu_factor: both factors in one matrix, and with which row every row was exchanged."""
    found = elimination.factors_of(t, t.x)
    return [found.both, t.cast(found.swaps, "int32")]


def _without(what: str, fix: str | None = None) -> Translator:
    """A function that is refused with the reason."""

    def translate(t: Translation) -> Value:
        raise t.unsupported(what, fix)

    return translate


# ---------------------------------------------------------------- segments, distances and spectra
def _segment(how: str, start: float | None) -> Translator:
    """Rows of equal numbers joined; numbers below 0 and beyond the last are left out."""

    def translate(t: Translation) -> Value:
        x, ids = t.x, t.cast(tensor(t, option(t, 1, "segment_ids", None), None), "int64")
        count = option(t, 2, "num_segments", None)
        if count is None:
            raise error("E0107", f"{t.kind} needs num_segments to be given")
        low = start
        if low is None and dtypes.is_float(x.dtype):
            low = -math.inf if how == "max" else math.inf
        elif low is None:
            low = dtypes.limits(x.dtype)[0 if how == "max" else 1]
        made = t.op("expand", t.scalar(low, x.dtype), shape=(int(count) + 1, *x.shape[1:]))
        outside = t.op("less", ids, t.scalar(0, "int64"))
        beyond = t.op("greater_equal", ids, t.scalar(int(count), "int64"))
        places = t.op("where", t.op("logical_or", outside, beyond), t.scalar(int(count), "int64"), ids)
        made = t.op("scatter_nd", made, t.reshape(places, (*ids.shape, 1)), x, reduction=how)
        return t.part(made, 0, 0, int(count))

    return translate


def _distances(t: Translation) -> Value:
    """Of every row of one operand to every row of the other."""
    a, b = two_operands(t, ("x", "y"))
    p = float(option(t, 2, "p", 2.0))
    gap = t.op("sub", t.reshape(a, (*a.shape[:-1], 1, a.shape[-1])), t.reshape(b, (*b.shape[:-2], 1, *b.shape[-2:])))
    if p == 2.0:
        return t.op("sqrt", t.reduced("reduce_sum", t.op("mul", gap, gap), (-1,)))
    size = t.op("abs", gap)
    if math.isinf(p):
        return t.reduced("reduce_max", size, (-1,))
    if p == 1.0:
        return t.reduced("reduce_sum", size, (-1,))
    total = t.reduced("reduce_sum", t.op("pow", size, t.scalar(p, size.dtype)), (-1,))
    return t.op("pow", total, t.scalar(1 / p, size.dtype))


def _in_top_k(t: Translation) -> Value:
    targets, scores = (tensor(t, option(t, n, key, None), None) for n, key in enumerate(("targets", "predictions")))
    own = t.standard("GatherElements", scores, t.reshape(t.cast(targets, "int64"), (*targets.shape, 1)), axis=1)
    better = t.reduced("reduce_sum", t.cast(t.op("greater", scores, own), "int32"), (-1,))
    return t.op("less", better, t.scalar(int(option(t, 2, "k", 1)), "int32"))


def _windows(t: Translation) -> Value:
    """Stretches of the last dimension, which may overlap."""
    x, length = t.x, int(option(t, 1, "sequence_length", 1))
    step, size = int(option(t, 2, "sequence_stride", 1)), t.extent(t.x, -1)
    starts = np.arange(0, size - length + 1, step)
    places = t.constant(starts[:, None] + np.arange(length), "int64")
    return t.op("gather", x, places, axis=x.type.rank - 1)


def _spectrum(inverse: bool, onesided: bool, axes: tuple[int, ...] = (-1,)) -> Translator:
    """Transforms of Fourier; complex numbers are pairs of tensors."""

    def translate(t: Translation) -> Result:
        given = t.several if not (onesided and not inverse) else [t.x]
        parts = [t.reshape(x, (*x.shape, 1)) for x in given]
        x = t.op("concat", *parts, axis=parts[0].type.rank - 1) if len(parts) > 1 else parts[0]
        rank = x.type.rank - 1
        for axis in axes:
            size = t.extent(x, rank + axis)
            length = option(t, 1, "fft_length", None) if onesided else None
            length = (2 * (size - 1) if inverse and onesided else size) if length is None else int(length)
            x = fourier.transform(t, x, rank + axis, length, inverse, onesided)
        if inverse and onesided:
            return t.reshape(x, x.shape[:-1])
        return [t.reshape(t.part(x, -1, n, 1), x.shape[:-1]) for n in (0, 1)]

    return translate


OPERATIONS: dict[str, Translator] = {
    "cdist": _distances,
    "cholesky": _cholesky,
    "cholesky_inverse": _cholesky_inverse,
    "cross": _cross,
    "det": lambda t: elimination.determinant(t, t.x),
    "eig": _without("(its results are complex numbers)", "use eigh where the matrix is symmetric"),
    "eigh": lambda t: list(rotations.symmetric_eigen(t, t.x)),
    "extract_sequences": _windows,
    "fft": _spectrum(False, False),
    "fft2": _spectrum(False, False, (-1, -2)),
    "ifft2": _spectrum(True, False, (-1, -2)),
    "irfft": _spectrum(True, True),
    "rfft": _spectrum(False, True),
    "in_top_k": _in_top_k,
    "inner": _inner,
    "inv": lambda t: elimination.inverted(t, t.x),
    "kron": _kron,
    "jvp": _without("(the function that it takes is not part of the file)"),
    "logdet": lambda t: elimination.sign_and_log(t, t.x)[1],
    "lstsq": _least_squares,
    "lu_factor": _lu,
    "matrix_rank": _rank,
    "norm": _norm,
    "outer": _outer,
    "pinv": _pinv,
    "qr": _qr,
    "segment_max": _segment("max", None),
    "segment_min": _segment("min", None),
    "segment_prod": _segment("mul", 1.0),
    "segment_sum": _segment("add", 0.0),
    "slogdet": lambda t: list(elimination.sign_and_log(t, t.x)),
    "solve": _solve,
    "solve_triangular": _solve_triangular,
    "svd": _svd,
    "tensordot": _tensordot,
    "vander": _vander,
    "vdot": lambda t: t.op(
        "reduce_sum", t.op("mul", *(flat(t, x) for x in two_operands(t))), axes=(0,), keep_dims=False
    ),
}
