"""Operators of MXNet's contrib: sliding windows of attention, spectra, windows as columns, densities."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sterna.errors import error
from sterna.frontends import fourier
from sterna.frontends.mxnet.operators.activations import scaled
from sterna.frontends.mxnet.operators.layers import TRANSLATORS as LAYERS
from sterna.frontends.mxnet.operators.layers import spatial
from sterna.frontends.mxnet.operators.shapes import TRANSLATORS as SHAPES
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir import dtypes
from sterna.ir.graph import Array, Value
from sterna.ir.integer import as_int
from sterna.ir.limits import check_table


def norm_and_relu(t: Translation) -> Value:
    made = LAYERS["BatchNorm"](t)
    y = made if isinstance(made, Value) else made[0]
    assert y is not None
    return t.op("relu", y)


def dynamic_reshape(t: Translation) -> Value:
    """To a shape that is an operand, which must be known."""
    t.said.given["shape"] = str(tuple(t.integers(1, "a shape")))
    made = SHAPES["Reshape"](t)
    assert isinstance(made, Value)
    return made


def log_of_masked_softmax(t: Translation) -> Value:
    """-inf where the mask is 0."""
    x, mask = scaled(t), t.truth(t.input(1))
    least = float(np.finfo(dtypes.to_numpy(x.dtype)).min)
    y = t.op("log_softmax", t.op("where", mask, x, t.number(least, x)), axis=t.axis("axis", -1))
    return t.op("where", mask, y, t.number(-math.inf, y))


# ---------------------------------------------------------------- windows
def windows_as_columns(t: Translation) -> Value:
    """im2col: (batch, channels times taps, windows)."""
    x = t.input(0)
    rank = x.type.rank - 2
    if not 1 <= rank <= 3:
        raise error("E0108", f"{t.kind} of {x.type}")
    kernel, dilations = spatial(t, "kernel", rank, 1), spatial(t, "dilate", rank, 1)
    strides, pads = spatial(t, "stride", rank, 1), spatial(t, "pad", rank, 0)
    x = t.pad(x, (0, 0, *pads), (0, 0, *pads))
    counts = []
    for n in range(rank):
        axis = 2 + 2 * n
        count = (x.shape[axis] - dilations[n] * (kernel[n] - 1) - 1) // strides[n] + 1
        starts = t.op("mul", t.counting(count), t.scalar(strides[n], "int64"))
        taps = t.op("mul", t.counting(kernel[n]), t.scalar(dilations[n], "int64"))
        places = t.op("add", t.reshape(taps, (kernel[n], 1)), t.reshape(starts, (1, count)))
        x = t.op("gather", x, places, axis=axis)
        counts.append(as_int(count))
    whole = math.prod(counts, start=as_int(1))
    x = t.transpose(x, (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)))
    return t.reshape(x, [x.shape[0], x.shape[1] * math.prod(kernel), whole])


def columns_as_windows(t: Translation) -> Value:
    """col2im: the sum of windows at their places."""
    sizes = t.said.integers("output_size")
    rank = len(sizes)
    kernel, pads = spatial(t, "kernel", rank, 1), spatial(t, "pad", rank, 0)
    return standard(
        t, "Col2Im", t.input(0), t.vector(list(sizes)), t.vector(list(kernel)), dilations=spatial(t, "dilate", rank, 1),
        pads=(*pads, *pads), strides=spatial(t, "stride", rank, 1),
    )  # fmt: skip


def _window(t: Translation, like: Value, heads: int) -> Array:
    """Positions (heads, length, taps) that each position looks at, some of them outside.

    A head looks at every `dilation`-th position, `w` of them before and, where symmetric, behind."""
    width, length = t.said.integer("w"), t.extent(like, 1)
    steps = np.asarray(t.array(_DILATION[t.kind], "dilations")).reshape(-1)
    if width < 0 or len(steps) != heads:
        raise error("E0108", f"{t.kind} of {heads} heads with {len(steps)} dilations")
    taps = np.arange(-width, width + 1 if t.said.flag("symmetric") else 1)
    check_table(heads, length, len(taps))
    return np.arange(length)[None, :, None] + steps.astype(np.int64)[:, None, None] * taps


_DILATION = {
    f"{prefix}sldwin_atten_{name}": position
    for prefix in ("_contrib_", "_npx_")
    for name, position in (("score", 2), ("context", 2), ("mask_like", 1))
}


def _seen(t: Translation, x: Value, places: Array) -> Value:
    """What each position of each head sees of (batch, length, heads, channels): (batch, heads, length, taps, channels);
    0 outside."""
    length = t.extent(x, 1)
    inside = (places >= 0) & (places < length)
    flat = np.where(inside, places, length) + np.arange(places.shape[0])[:, None, None] * (length + 1)
    rows = t.transpose(t.pad(x, (0, 0, 0, 0), (0, 1, 0, 0)), (0, 2, 1, 3))
    rows = t.reshape(rows, [x.shape[0], x.shape[2] * (length + 1), x.shape[3]])
    return t.op("gather", rows, t.constant(flat, "int64"), axis=1)


def window_scores(t: Translation) -> Value:
    """Products of a query with the keys of its window: (batch, length, heads, taps)."""
    query, key = t.input(0), t.input(1)
    places = _window(t, query, t.sizes(query, 4)[2])
    seen = _seen(t, key, places)
    rows = t.spread(t.transpose(query, (0, 2, 1, 3)), 3)
    return t.transpose(t.sum(t.op("mul", rows, seen), (4,), keep=False), (0, 2, 1, 3))


def window_context(t: Translation) -> Value:
    """The sum of the values of a window by scores."""
    score, value = t.input(0), t.input(1)
    places = _window(t, value, t.sizes(value, 4)[2])
    seen = _seen(t, value, places)
    rows = t.spread(t.transpose(score, (0, 2, 1, 3)), 4)
    return t.transpose(t.sum(t.op("mul", rows, seen), (3,), keep=False), (0, 2, 1, 3))


def window_mask(t: Translation) -> Value:
    """1 where both positions are within the sequence's length."""
    score = t.input(0)
    _, length, heads, _ = t.sizes(score, 4)
    places = _window(t, score, heads)
    lengths = t.reshape(t.integral(t.input(2)), [t.input(2).type.elements, 1, 1, 1])
    seen = np.moveaxis(places, 0, 1)
    within = t.op("logical_and", t.op("less", t.constant(seen, "int64"), lengths), t.constant(seen >= 0, "bool"))
    own = t.op("less", t.reshape(t.counting(length), [1, length, 1, 1]), lengths)
    return t.cast(t.op("logical_and", within, own), score.dtype)


# ---------------------------------------------------------------- spectra
def spectrum(t: Translation) -> Value:
    """fft of the last dimension: real and imaginary parts side by side."""
    x = t.floats(t.input(0))
    pairs = t.op("concat", t.spread(x, x.type.rank), t.spread(t.op("sub", x, x), x.type.rank), axis=x.type.rank)
    y = fourier.transform(t, pairs, x.type.rank - 1, t.extent(x, -1), False, False)
    return t.reshape(y, [*x.shape[:-1], x.shape[-1] * 2])


def from_spectrum(t: Translation) -> Value:
    """ifft: the real part, without the division by the length."""
    x = t.floats(t.input(0))
    length = t.extent(x, -1) // 2
    if length < 1:
        raise error("E0108", f"{t.kind} of {x.type}")
    pairs = t.reshape(x, [*x.shape[:-1], length, 2])
    y = fourier.transform(t, pairs, x.type.rank - 1, length, True, False)
    y = t.squeezed(t.part(y, x.type.rank, 0, 1), x.type.rank)
    return t.op("mul", y, t.number(length, y))


def sketch(t: Translation) -> Value:
    """count_sketch: every column added to the one that `h` says, with the sign of `s`."""
    x, size = t.input(0), t.said.integer("out_dim")
    places, signs = (t.reshape(t.input(n), [t.input(n).type.elements]) for n in (1, 2))
    width = t.extent(x, -1)
    if size < 1:
        raise error("E0109", f"{t.kind} to {size} columns")
    check_table(width, size)
    hits = t.op("equal", t.spread(t.integral(places), 1), t.counting(size))
    table = t.op("mul", t.cast(hits, x.dtype), t.spread(t.cast(signs, x.dtype), 1))
    return t.op("matmul", x, table)


# ---------------------------------------------------------------- densities
Density = Callable[[Translation, Value, list[Value]], Value]


def _log(t: Translation, x: Value) -> Value:
    return t.op("log", x)


def _normal(t: Translation, x: Value, given: list[Value]) -> Value:
    mean, deviation = given
    z = t.op("div", t.op("sub", x, mean), deviation)
    rest = t.op("add", t.op("mul", t.op("mul", z, z), t.number(0.5, z)), t.number(math.log(2 * math.pi) / 2, z))
    return t.op("neg", t.op("add", rest, _log(t, deviation)))


def _uniform(t: Translation, x: Value, given: list[Value]) -> Value:
    low, high = given
    return t.op("neg", t.op("add", _log(t, t.op("sub", high, low)), t.op("mul", x, t.number(0, x))))


def _exponential(t: Translation, x: Value, given: list[Value]) -> Value:
    return t.op("sub", _log(t, given[0]), t.op("mul", given[0], x))


def _gamma(t: Translation, x: Value, given: list[Value]) -> Value:
    shape, rate = given
    y = t.op("add", t.op("mul", shape, _log(t, rate)), t.op("mul", t.op("sub", shape, t.number(1, x)), _log(t, x)))
    return t.op("sub", t.op("sub", y, t.op("mul", rate, x)), t.op("lgamma", shape))


def _poisson(t: Translation, x: Value, given: list[Value]) -> Value:
    y = t.op("sub", t.op("mul", x, _log(t, given[0])), given[0])
    return t.op("sub", y, t.op("lgamma", t.op("add", x, t.number(1, x))))


def _negative_binomial(t: Translation, x: Value, given: list[Value]) -> Value:
    """Of so many failures `k`, each of the probability `p`."""
    k, p = given
    one = t.number(1, x)
    ways = t.op("sub", t.op("lgamma", t.op("add", x, k)), t.op("lgamma", t.op("add", x, one)))
    ways = t.op("sub", ways, t.op("lgamma", k))
    return t.op("add", ways, t.op("add", t.op("mul", k, _log(t, p)), t.op("mul", x, _log(t, t.op("sub", one, p)))))


def _negative_binomial_of_mean(t: Translation, x: Value, given: list[Value]) -> Value:
    mean, alpha = given
    k, one = t.op("reciprocal", alpha), t.number(1, x)
    return _negative_binomial(t, x, [k, t.op("reciprocal", t.op("add", t.op("mul", mean, alpha), one))])


def _pdf(density: Density, count: int) -> Translator:
    """Of samples, several for every element of the parameters."""

    def translate(t: Translation) -> Value:
        x = t.floats(t.input(0))
        given = []
        for n in range(1, count + 1):
            each = t.cast(t.input(n), x.dtype)
            given.append(t.reshape(each, [*each.shape, *[1] * (x.type.rank - each.type.rank)]))
        y = t.op("expand", density(t, x, given), shape=x.shape)
        return y if t.said.flag("is_log") else t.op("exp", y)

    return translate


def dirichlet(t: Translation) -> Value:
    """Of samples (..., classes), several for every row of the parameters."""
    x, alpha = t.floats(t.input(0)), t.cast(t.input(1), t.floats(t.input(0)).dtype)
    lead = alpha.type.rank - 1
    alpha = t.reshape(alpha, [*alpha.shape[:lead], *[1] * (x.type.rank - alpha.type.rank), alpha.shape[-1]])
    last = (x.type.rank - 1,)
    y = t.sum(t.op("mul", t.op("sub", alpha, t.number(1, x)), _log(t, x)), last, keep=False)
    whole = t.op("lgamma", t.sum(alpha, last, keep=False))
    y = t.op("sub", t.op("add", y, whole), t.sum(t.op("lgamma", alpha), last, keep=False))
    return y if t.said.flag("is_log") else t.op("exp", y)


_DENSITIES: dict[str, Translator] = {
    "dirichlet": dirichlet, "exponential": _pdf(_exponential, 1), "gamma": _pdf(_gamma, 2),
    "generalized_negative_binomial": _pdf(_negative_binomial_of_mean, 2),
    "negative_binomial": _pdf(_negative_binomial, 2), "normal": _pdf(_normal, 2), "poisson": _pdf(_poisson, 1),
    "uniform": _pdf(_uniform, 2),
}  # fmt: skip
TRANSLATORS: dict[str, Translator] = {
    **{f"{prefix}random_pdf_{name}": each for name, each in _DENSITIES.items() for prefix in ("", "_")},
    **dict.fromkeys(("_contrib_sldwin_atten_context", "_npx_sldwin_atten_context"), window_context),
    **dict.fromkeys(("_contrib_sldwin_atten_mask_like", "_npx_sldwin_atten_mask_like"), window_mask),
    **dict.fromkeys(("_contrib_sldwin_atten_score", "_npx_sldwin_atten_score"), window_scores),
    **dict.fromkeys(("masked_log_softmax", "_npx_masked_log_softmax"), log_of_masked_softmax),
    "_contrib_BatchNormWithReLU": norm_and_relu,
    "_contrib_count_sketch": sketch,
    "_contrib_dynamic_reshape": dynamic_reshape,
    "_contrib_fft": spectrum,
    "_contrib_ifft": from_spectrum,
    "col2im": columns_as_windows,
    "im2col": windows_as_columns,
}
