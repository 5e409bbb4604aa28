"""Random numbers: those of the node's name, the same at every run and never PyTorch's own, of the same distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sterna.errors import error
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.integer import IntLike


def _drawn(t: Translation, operator: str, shape: Sequence[IntLike], **settings: Any) -> Value:
    return standard(t, operator, t.full(shape, 0, "float32"), **settings)


def _uniform(t: Translation, shape: Sequence[IntLike], low: float = 0.0, high: float = 1.0) -> Value:
    """From `low` to `high`, without `high`."""
    return _drawn(t, "RandomUniformLike", shape, low=low, high=high)


def _normal(t: Translation, shape: Sequence[IntLike]) -> Value:
    return _drawn(t, "RandomNormalLike", shape)


def _of_size(draw: Any) -> Translator:
    return lambda t: t.cast(draw(t, t.sizes_of("size")), t.scalar_type("float32"))


def _like(draw: Any) -> Translator:
    """Of the shape and, unless another one is given, the type of a tensor."""
    return lambda t: t.cast(draw(t, t.tensor().shape), t.scalar_type(t.tensor().dtype))


def _integers(t: Translation, shape: Sequence[IntLike], dtype: str) -> Value:
    """From `low`, 0 where it is not given, to `high` without it."""
    low, high = t.integer("low", 0), t.integer("high")
    if high <= low:
        raise error("E0109", f"{t.kind} from {low} to {high}")
    shares = t.op("mul", _uniform(t, shape), t.scalar(high - low, "float32"))
    # The product of a share near 1 may be rounded up to the end, which is not part of the range.
    steps = t.op("minimum", t.op("floor", shares), t.scalar(high - low - 1, "float32"))
    return t.cast(t.op("add", t.cast(steps, "int64"), t.scalar(low, "int64")), dtype)


def normal(t: Translation) -> Value:
    """Numbers of a mean and a deviation, each a number or a tensor."""
    mean, deviation = (t.as_value(t.arg(name, default), "float32") for name, default in (("mean", 0.0), ("std", 1.0)))
    own = t.maybe("self")
    shape = t.sizes_of("size") if "size" in t.arguments else t.broadcast(mean, deviation) if own is None else own.shape
    y = t.op("add", t.op("mul", _normal(t, shape), deviation), mean)
    return t.cast(y, own.dtype if own is not None else t.scalar_type("float32"))


def uniform(t: Translation) -> Value:
    x = t.tensor()
    return t.cast(_uniform(t, x.shape, t.number("from", 0.0), t.number("to", 1.0)), x.dtype)


def exponential(t: Translation) -> Value:
    x = t.tensor()
    shares = t.op("sub", t.scalar(1, "float32"), _uniform(t, x.shape))
    return t.cast(t.op("mul", t.op("log", shares), t.scalar(-1 / t.number("lambd", 1.0), "float32")), x.dtype)


def bernoulli(t: Translation) -> Value:
    """1 with the probability that each element says, or `p`."""
    x = t.tensor()
    p = t.as_value(t.arg("p", x), "float32")
    return t.cast(t.op("less", _uniform(t, x.shape), p), x.dtype)


def multinomial(t: Translation) -> Value:
    """Positions drawn by weights; without replacement those of the greatest sums of a logarithm and Gumbel's noise.

    W. Kool and others, "Stochastic Beams and Where to Find Them" (2019).
    """
    x, count = t.cast(t.tensor(), "float32"), t.integer("num_samples")
    rows = x if x.type.rank == 2 else t.reshape(x, (1, x.shape[0]))
    scores = t.op("log", rows)
    if t.flag("replacement") or count == 1:
        drawn = standard(t, "Multinomial", scores, sample_size=count, dtype=7)
    else:
        least = t.scalar(2.0**-25, "float32")
        inner = t.op("neg", t.op("log", t.op("maximum", _uniform(t, rows.shape), least)))
        noise = t.op("neg", t.op("log", t.op("maximum", inner, least)))
        _, drawn = t.builder.add_all(
            "top_k", t.op("add", scores, noise), k=(count,), axis=1, largest=True, sources=t.sources, name=t.name
        )
    return t.reshape(drawn, (*x.shape[:-1], count))


def permutation(t: Translation) -> Value:
    """0 to n - 1 in the order of random numbers."""
    count = t.size_from(t.arg("n"))
    _, order = t.builder.add_all(
        "top_k", _uniform(t, (count,)), k=(count,), axis=0, largest=False, sources=t.sources, name=t.name
    )
    return t.cast(order, t.scalar_type("int64"))


def log_normal(t: Translation) -> Value:
    x = t.tensor()
    y = t.op("mul", _normal(t, x.shape), t.scalar(t.number("std", 2.0), "float32"))
    return t.cast(t.op("exp", t.op("add", y, t.scalar(t.number("mean", 1.0), "float32"))), x.dtype)


def cauchy(t: Translation) -> Value:
    x = t.tensor()
    angle = _uniform(t, x.shape, -math.pi / 2, math.pi / 2)
    y = t.op("mul", t.op("div", t.op("sin", angle), t.op("cos", angle)), t.scalar(t.number("sigma", 1.0), "float32"))
    return t.cast(t.op("add", y, t.scalar(t.number("median", 0.0), "float32")), x.dtype)


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(_of_size(_uniform), "rand.default", "rand.generator"),
    **_named(_of_size(_normal), "randn.default", "randn.generator"),
    **_named(_like(_uniform), "rand_like.default", "rand_like.generator"),
    **_named(_like(_normal), "randn_like.default", "randn_like.generator"),
    **_named(lambda t: _integers(t, t.sizes_of("size"), t.scalar_type("int64")), "randint.default", "randint.low",
             "randint.generator", "randint.low_generator"),
    **_named(lambda t: _integers(t, t.tensor().shape, t.scalar_type(t.tensor().dtype)), "randint_like.default",
             "randint_like.low_dtype"),
    **_named(normal, "normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor", "normal.float_float",
             "normal_functional.default", "normal.default"),
    **_named(uniform, "uniform.default"), **_named(exponential, "exponential.default"),
    **_named(bernoulli, "bernoulli.default", "bernoulli.p", "bernoulli.Tensor", "bernoulli.float"),
    **_named(multinomial, "multinomial.default"), **_named(permutation, "randperm.default", "randperm.generator"),
    **_named(log_normal, "log_normal.default"), **_named(cauchy, "cauchy.default"),
}  # fmt: skip
