"""Random numbers of both interfaces: of the same distribution, the same at every run, never MXNet's own.

They are uniform numbers put through the inverse of a distribution's function. Distributions whose inverse has no such
form (gamma, Poisson, binomial) are drawn by rejection in MXNet, and refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sterna.errors import error
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int
from sterna.ops.types import broadcast

Shape = Sequence[Int]
#: From a shape and the parameters, which broadcast to it, to numbers.
Draw = Callable[[Translation, Shape, Sequence[Value]], Value]
_LEAST = 2.0**-25


def _zeros(t: Translation, shape: Shape) -> Value:
    return t.op("expand", t.scalar(0, "float32"), shape=tuple(shape))


def shares(t: Translation, shape: Shape) -> Value:
    """From 0 to 1, without 1."""
    return standard(t, "RandomUniformLike", _zeros(t, shape), low=0.0, high=1.0)


def _inner(t: Translation, shape: Shape) -> Value:
    """From 0 to 1 without both, so that it has a logarithm."""
    return t.op("clip", shares(t, shape), min=_LEAST, max=1 - 2.0**-24)


def _uniform(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    low, high = given
    return t.op("add", t.op("mul", shares(t, shape), t.op("sub", high, low)), low)


def _normal(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    return t.op("add", t.op("mul", standard(t, "RandomNormalLike", _zeros(t, shape)), given[1]), given[0])


def _waiting(t: Translation, shape: Shape) -> Value:
    """Exponential numbers of the mean 1."""
    return t.op("neg", t.op("log", _inner(t, shape)))


def _of_rate(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    return t.op("div", _waiting(t, shape), given[0])


def _of_scale(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    return t.op("mul", _waiting(t, shape), given[0])


def _gumbel(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    return t.op("sub", given[0], t.op("mul", t.op("log", _waiting(t, shape)), given[1]))


def _logistic(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    u = _inner(t, shape)
    odds = t.op("log", t.op("div", u, t.op("sub", t.number(1, u), u)))
    return t.op("add", given[0], t.op("mul", odds, given[1]))


def _laplace(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    side = t.op("sub", _inner(t, shape), t.scalar(0.5, "float32"))
    size = t.op("sub", t.number(1, side), t.op("mul", t.op("abs", side), t.number(2, side)))
    tail = t.op("mul", t.op("sign", side), t.op("log", t.op("maximum", size, t.number(_LEAST, side))))
    return t.op("sub", given[0], t.op("mul", tail, given[1]))


def _pareto(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    return t.op("expm1", t.op("div", _waiting(t, shape), given[0]))


def _weibull(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    return t.op("pow", _waiting(t, shape), t.op("reciprocal", given[0]))


def _power(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    return t.op("pow", _inner(t, shape), t.op("reciprocal", given[0]))


def _rayleigh(t: Translation, shape: Shape, given: Sequence[Value]) -> Value:
    waiting = _waiting(t, shape)
    return t.op("mul", t.op("sqrt", t.op("add", waiting, waiting)), given[0])


def _number(t: Translation, name: str, default: float | None) -> Value:
    return t.scalar(t.said.finite(name, default), "float32")


def _shape(t: Translation, name: str) -> list[Int]:
    sizes = t.said.integers(name, () if t.is_numpy or t.kind.startswith("_np") else (1,))
    if min(sizes, default=0) < 0:
        raise error("E0109", f"{t.kind} of {list(sizes)}")
    return [as_int(size) for size in sizes]


def _type(t: Translation) -> str:
    return t.dtype("float32")


def _of_numbers(draw: Draw, *names: tuple[str, float]) -> Translator:
    """Parameters and the shape are settings."""
    return lambda t: t.cast(draw(t, _shape(t, "shape"), [_number(t, *name) for name in names]), _type(t))


def _like(draw: Draw, *names: tuple[str, float]) -> Translator:
    """Of the shape and the type of an operand."""
    return lambda t: t.cast(
        draw(t, t.input(0).shape, [_number(t, *name) for name in names]), t.input(0).dtype
    )  # fmt: skip


def _of_tensors(draw: Draw, count: int) -> Translator:
    """So many numbers for every element of the parameters, which are operands."""

    def translate(t: Translation) -> Value:
        given = [t.cast(t.input(n), "float32") for n in range(count)]
        more = [as_int(n) for n in t.said.integers("shape", ())]
        wide = [t.reshape(x, [*x.shape, *[1] * len(more)]) for x in given]
        return t.cast(draw(t, [*given[0].shape, *more], wide), _type(t))

    return translate


def _numpy(draw: Draw, *names: tuple[str, float], before: bool = False) -> Translator:
    """Parameters are settings, or operands where they are not; `size` is the shape, or comes before theirs."""

    def translate(t: Translation) -> Value:
        operands = iter(range(len(t.inputs)))
        given = [
            _number(t, name, default)
            if t.said.has(name) or not t.inputs
            else t.cast(t.input(next(operands)), "float32")
            for name, default in names
        ]
        shape = list(broadcast([x.shape for x in given]))
        if t.said.has("size"):
            wanted = [as_int(n) for n in t.said.integers("size")]
            shape = [*wanted, *shape] if before else wanted
        return t.cast(draw(t, shape, given), _type(t))

    return translate


def _below(t: Translation, shape: Shape, end: Int) -> Value:
    """Integers from 0 to `end` without it, as int64.

    One share has 24 bits. For ends above, which are at most 2^62, the remainder of 63 bits is taken: then the
    probabilities of any two numbers differ by a factor of at most 1 + end / 2^62.
    """
    if end.is_const and int(end) > 1 << 24:
        made: Value | None = None
        for _ in range(3):
            bits = t.cast(t.op("mul", shares(t, shape), t.scalar(2.0**21, "float32")), "int64")
            made = bits if made is None else t.op("add", t.op("mul", made, t.scalar(1 << 21, "int64")), bits)
        assert made is not None
        return t.op("mod", made, t.scalar(int(end), "int64"))
    count = t.reshape(t.dimensions([end]), [])
    steps = t.cast(t.op("floor", t.op("mul", shares(t, shape), t.cast(count, "float32"))), "int64")
    # The product of a share near 1 may be rounded up to the end, which is not part of the range.
    return t.op("minimum", steps, t.op("sub", count, t.scalar(1, "int64")))


def integers(t: Translation) -> Value:
    """From `low` to `high` without it."""
    low, high = t.said.integer("low"), t.said.integer("high")
    if high <= low:
        raise error("E0109", f"{t.kind} from {low} to {high}")
    if high - low > 1 << 62:
        raise t.unsupported(f"from {low} to {high}")
    dtype = t.dtype("int32")
    return t.cast(t.op("add", _below(t, _shape(t, "shape"), as_int(high - low)), t.scalar(low, "int64")), dtype)


def bernoulli(t: Translation) -> Value:
    """1 with a probability, or by its logit."""
    name = "logit" if t.said.flag("is_logit") else "prob"
    p = _number(t, name, None) if t.said.has(name) else t.cast(t.input(0), "float32")
    p = t.op("sigmoid", p) if name == "logit" else p
    shape = [as_int(n) for n in t.said.integers("size")] if t.said.has("size") else list(p.shape)
    return t.cast(t.op("less", shares(t, shape), p), _type(t))


def shuffled(t: Translation) -> Value:
    """Rows in the order of random numbers."""
    x = t.input(0)
    if not x.type.rank:
        raise error("E0108", f"{t.kind} of {x.type}")
    return t.op("gather", x, _order(t, x.shape[0], x.shape[0]), axis=0)


def _order(t: Translation, size: Int, count: Int, scores: Value | None = None) -> Value:
    _, order = t.builder.add_all(
        "top_k", shares(t, [size]) if scores is None else scores, k=(count,), axis=0, largest=True,
        sources=t.sources, name=t.name,
    )  # fmt: skip
    return order


def _usable(t: Translation, weights: Value, size: Int) -> Value:
    """Weights of which none is below 0, and one at least is above it: a run with others fails."""
    if weights.shape != (size,):
        raise error("E0108", f"{t.kind} of {size} by {weights.type}")
    if weights.data is not None and not (np.all(weights.data >= 0) and np.any(weights.data > 0)):
        raise error("E0109", f"{t.kind} by weights that are below 0, or all 0")
    zero, axes = t.number(0, weights), (0,)
    some = t.op("reduce_any", t.op("greater", weights, zero), axes=axes, keep_dims=False)
    right = t.op("reduce_all", t.op("greater_equal", weights, zero), axes=axes, keep_dims=False)
    return weights if weights.data is not None else t.agree(weights, some, right)


def chosen(t: Translation) -> Value:
    """choice: numbers below `a`, or elements of a vector, each by its weight if there are weights.

    Without replacement they are those of the greatest sums of a logarithm and Gumbel's noise (W. Kool and others,
    "Stochastic Beams and Where to Find Them", 2019).
    """
    operands = list(t.all_inputs()) if t.inputs else []
    weights = operands.pop() if t.said.flag("weighted") else None
    rows = operands[0] if operands else None
    size = as_int(t.said.integer("a")) if rows is None else rows.shape[0]
    if size.is_const and int(size) < 1:
        raise error("E0109", f"{t.kind} of {size}")
    if weights is not None:
        weights = _usable(t, t.cast(weights, "float32"), size)
    shape = _shape(t, "size")
    count = as_int(1)
    for each in shape:
        count = count * each
    if t.said.flag("replace", default=True):
        if weights is None:
            places = _below(t, [count], size)
        else:
            ends = t.op("cumulative_sum", weights, axis=0)
            passed = t.op("less_equal", ends, t.spread(shares(t, [count]), 1))
            last = t.op("sub", t.reshape(t.dimensions([size]), []), t.scalar(1, "int64"))
            places = t.op("minimum", t.sum(t.cast(passed, "int64"), (1,), keep=False), last)
    elif count.is_const and size.is_const and int(count) > int(size):
        raise error("E0109", f"{t.kind} of {count} out of {size}")
    else:
        scores = None
        if weights is not None:
            noise = _gumbel(t, [size], [t.scalar(0, "float32"), t.scalar(1, "float32")])
            scores = t.op("add", t.op("log", weights), noise)
        places = _order(t, size, count, scores)
    places = t.reshape(places, shape)
    return places if rows is None else t.op("gather", rows, places, axis=0)


def categories(t: Translation) -> tuple[Value, ...]:
    """sample_multinomial: positions in rows by their weights, and the logarithms of these weights if asked for."""
    x = t.cast(t.input(0), "float32")
    more = [as_int(n) for n in t.said.integers("shape", ())]
    count = as_int(1)
    for each in more:
        count = count * each
    rows = t.reshape(x, [1, *x.shape]) if x.type.rank == 1 else x
    if rows.type.rank != 2 or not count.is_const:
        raise error("E0108", f"{t.kind} of {x.type}")
    ends = t.op("cumulative_sum", rows, axis=1)
    whole = t.part(ends, 1, t.extent(rows, 1) - 1, 1)
    u = t.op("mul", shares(t, [rows.shape[0], count]), whole)
    passed = t.op("less_equal", t.spread(ends, 1), t.spread(u, 2))
    places = t.sum(t.cast(passed, "int64"), (2,), keep=False)
    places = t.op("minimum", places, t.scalar(t.extent(rows, 1) - 1, "int64"))
    shape = [*x.shape[:-1], *more]
    shape = shape if shape or t.is_numpy else [as_int(1)]
    found = t.cast(t.reshape(places, shape), t.dtype("int32"))
    if not t.said.flag("get_prob"):
        return (found,)
    return found, t.reshape(t.op("log", t.op("gather_elements", rows, places, axis=1)), shape)


def tallies(t: Translation) -> Value:
    """multinomial: of n draws by probabilities, how many fall to each."""
    if t.said.has("pvals"):
        p = t.constant(np.array(t.said.numbers("pvals", ())), "float32")
    else:
        p = t.cast(t.input(0), "float32")
    (count,) = t.sizes(p, 1)
    draws, more = t.said.integer("n"), [as_int(n) for n in t.said.integers("size", ())]
    if draws < 0:
        raise error("E0109", f"{t.kind} of {draws} draws")
    ends = t.op("cumulative_sum", p, axis=0)
    u = shares(t, [*more, as_int(draws)])
    passed = t.sum(t.cast(t.op("less_equal", ends, t.spread(u, u.type.rank)), "int64"), (u.type.rank,), keep=False)
    places = t.op("minimum", passed, t.scalar(count - 1, "int64"))
    hits = t.op("equal", t.spread(places, places.type.rank), t.counting(count))
    return t.sum(t.cast(hits, "int64"), (places.type.rank - 1,), keep=False)


def _old(name: str, draw: Draw, *names: tuple[str, float]) -> dict[str, Translator]:
    return {
        f"_random_{name}": _of_numbers(draw, *names),
        f"random_{name}": _of_numbers(draw, *names),
        f"_random_{name}_like": _like(draw, *names),
        f"_sample_{name}": _of_tensors(draw, len(names)),
        f"sample_{name}": _of_tensors(draw, len(names)),
    }


_RANGE, _PLACE = (("low", 0.0), ("high", 1.0)), (("loc", 0.0), ("scale", 1.0))
TRANSLATORS: dict[str, Translator] = {
    **_old("exponential", _of_rate, ("lam", 1.0)),
    **_old("normal", _normal, *_PLACE),
    **_old("uniform", _uniform, *_RANGE),
    **dict.fromkeys(("_random_randint", "random_randint", "_npi_random_randint"), integers),
    **dict.fromkeys(
        ("_sample_multinomial", "sample_multinomial", "_sample_categorical", "sample_categorical"), categories
    ),
    **dict.fromkeys(("_shuffle", "shuffle", "_npi_shuffle"), shuffled),
    "_npi_bernoulli": bernoulli,
    "_npi_choice": chosen,
    "_npi_exponential": _numpy(_of_scale, ("scale", 1.0)),
    "_npi_gumbel": _numpy(_gumbel, *_PLACE),
    "_npi_laplace": _numpy(_laplace, *_PLACE),
    "_npi_logistic": _numpy(_logistic, *_PLACE),
    "_npi_multinomial": tallies,
    "_npi_normal": _numpy(_normal, *_PLACE),
    "_npi_normal_n": _numpy(_normal, *_PLACE, before=True),
    "_npi_pareto": _numpy(_pareto, ("a", 1.0)),
    "_npi_powerd": _numpy(_power, ("a", 1.0)),
    "_npi_rayleigh": _numpy(_rayleigh, ("scale", 1.0)),
    "_npi_uniform": _numpy(_uniform, *_RANGE),
    "_npi_uniform_n": _numpy(_uniform, *_RANGE, before=True),
    "_npi_weibull": _numpy(_weibull, ("a", 1.0)),
    "normal": _of_numbers(_normal, *_PLACE),
    "uniform": _of_numbers(_uniform, *_RANGE),
}
