"""Random numbers. They are those of the node's seed, or of its name where it has none: the same at every run."""

from __future__ import annotations

import math
import struct
import zlib

from sterna.errors import error
from sterna.frontends.onnx.file import element_type
from sterna.frontends.onnx.translation import Translation, Translator
from sterna.ir import dtypes
from sterna.ir.graph import Value


def _shares(t: Translation, shape: tuple[object, ...], stream: int = 0) -> Value:
    """Numbers from 0 to 1, without 1; streams of one node are independent."""
    given = t.attribute("seed")
    base = zlib.crc32(t.name.encode() if given is None else struct.pack("<f", given))
    return t.op("random_uniform", shape=shape, seed=zlib.crc32(struct.pack("<II", base, stream)))


def _positive(t: Translation, shares: Value) -> Value:
    """The same, without 0 and with 1: what a logarithm can be taken of."""
    return t.op("sub", t.scalar(1, "float32"), shares)


def _number(t: Translation, name: str, default: float) -> Value:
    return t.scalar(t.attribute(name, default), "float32")


def _uniform(t: Translation, shape: tuple[object, ...], dtype: str) -> Value:
    low, high = t.attribute("low", 0.0), t.attribute("high", 1.0)
    y = t.op("mul", _shares(t, shape), t.scalar(high - low, "float32"))
    return t.cast(t.op("add", y, t.scalar(low, "float32")), dtype)


def _normal(t: Translation, shape: tuple[object, ...], dtype: str) -> Value:
    """G. E. P. Box and M. E. Muller, "A Note on the Generation of Random Normal Deviates" (1958)."""
    logarithm = t.op("log", _positive(t, _shares(t, shape, 0)))
    radius = t.op("sqrt", t.op("mul", logarithm, t.scalar(-2, "float32")))
    angle = t.op("mul", _shares(t, shape, 1), t.scalar(2 * math.pi, "float32"))
    y = t.op("mul", t.op("mul", radius, t.op("cos", angle)), _number(t, "scale", 1.0))
    return t.cast(t.op("add", y, _number(t, "mean", 0.0)), dtype)


def _dtype(t: Translation, default: str) -> str:
    code = t.attribute("dtype")
    dtype = default if code is None else element_type(code)
    if not dtypes.is_float(dtype):
        raise error("E0109", f"{t.node.op} of elements of type {dtype}")
    return dtype


def _of_shape(t: Translation) -> tuple[int, ...]:
    shape = tuple(t.attribute("shape"))
    if any(size < 0 for size in shape):
        raise error("E0109", f"the shape is {list(shape)}")
    return shape


def bernoulli(t: Translation) -> Value:
    """1 with the probability that the operand gives. (What ONNX expands it to draws 1 where it should 0.)"""
    p = t.input(0)
    code = t.attribute("dtype")
    ones = t.op("less", _shares(t, p.shape), t.cast(p, "float32"))
    return t.cast(ones, p.dtype if code is None else element_type(code))


def multinomial(t: Translation) -> Value:
    """Classes drawn by log-probabilities: where they are greatest with Gumbel noise added (E. J. Gumbel, 1954)."""
    x = t.input(0)
    if x.type.rank != 2:
        raise error("E0108", f"Multinomial of {x.type}")
    rows, classes = x.shape[0], t.extent(x, 1)
    count = t.attribute("sample_size", 1)
    if count < 1 or not classes:
        raise error("E0109", f"{count} samples of {classes} classes")
    inner = t.op("neg", t.op("log", _positive(t, _shares(t, (rows, count, classes)))))
    # -log of a share near 1 is 0; half a step of the numbers in its place keeps the next logarithm finite.
    noise = t.op("neg", t.op("log", t.op("maximum", inner, t.scalar(2.0**-25, "float32"))))
    scores = t.op("add", noise, t.reshape(t.cast(x, "float32"), (rows, 1, classes)))
    drawn = t.op("arg_max", scores, axis=2, keep_dims=False)
    return t.cast(drawn, element_type(t.attribute("dtype", 6)))


TRANSLATORS: dict[str, Translator] = {
    "Bernoulli": bernoulli,
    "Multinomial": multinomial,
    "RandomNormal": lambda t: _normal(t, _of_shape(t), _dtype(t, "float32")),
    "RandomNormalLike": lambda t: _normal(t, t.input(0).shape, _dtype(t, t.input(0).dtype)),
    "RandomUniform": lambda t: _uniform(t, _of_shape(t), _dtype(t, "float32")),
    "RandomUniformLike": lambda t: _uniform(t, t.input(0).shape, _dtype(t, t.input(0).dtype)),
}
