"""Random numbers, counts of numbers, losses and the order of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from zlib import crc32

import numpy as np

from sterna.errors import error
from sterna.frontends.emitter import axes_of
from sterna.frontends.standard import standard
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.frontends.tflite.operators.segments import gathered
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Int
from sterna.ir.limits import check_table

_GATHERED: Callable[..., Value] = gathered  # it takes what all translations of operators have


# ---------------------------------------------------------------- random numbers
def _seed(t: Translation) -> int:
    """What the node says, or a constant operand; else one of the node's name."""
    said = int(t.option("seed", 0)) ^ int(t.option("seed2", 0))
    if t.kind.startswith("Stateless") and t.has(1) and t.known(1):
        said = crc32(np.asarray(t.array(1, "the seed")).tobytes())
    return (said or crc32(t.name.encode())) & 0x3FFFFFFF


def _uniform(t: Translation, shape: tuple[Int, ...]) -> Value:
    return t.op("random_uniform", shape=shape, seed=_seed(t))


def uniform(t: Translation) -> Value:
    return t.cast(_uniform(t, tuple(t.dims(0, "sizes"))), t.dtype("dtype"))


def integers(t: Translation) -> Value:
    """From a least number to another without it, which are the last two operands."""
    low, high = (t.integer_of(len(t.inputs) - n, "a bound") for n in (2, 1))
    dtype = t.dtype("Tout" if t.kind == "RandomUniformInt" else "dtype", "int32")
    least, most = dtypes.limits(dtype)
    if not least <= low < high <= most:
        raise error("E0109", f"{t.kind} from {low} to {high}")
    share = t.op("mul", _uniform(t, tuple(t.dims(0, "sizes"))), t.scalar(high - low, "float32"))
    step = t.op("minimum", t.op("floor", share), t.scalar(high - low - 1, "float32"))
    return t.cast(t.op("add", t.cast(step, "int64"), t.scalar(low, "int64")), dtype)


def normal(t: Translation) -> Value:
    like = t.op("expand", t.scalar(0, "float32"), shape=tuple(t.dims(0, "sizes")))
    return t.cast(standard(t, "RandomNormalLike", like, seed=float(_seed(t))), t.dtype("dtype"))


def truncated_normal(t: Translation) -> Value:
    """Normally distributed numbers no further than 2 from 0: the inverse of the distribution between both ends."""
    end = 0.5 * math.erfc(math.sqrt(2.0))
    share = t.op("mul", _uniform(t, tuple(t.dims(0, "sizes"))), t.scalar(1 - 2 * end, "float32"))
    y = t.op("ndtri", t.op("add", share, t.scalar(end, "float32")))
    return t.cast(t.op("clip", y, min=-2.0, max=2.0), t.dtype("dtype"))


def multinomial(t: Translation) -> Value:
    """Classes drawn by the logarithms of their shares."""
    count = t.integer_of(1, "the number of samples")
    if count < 1:
        raise error("E0109", f"{t.kind} of {count} samples")
    seed = crc32(np.asarray(t.array(2, "the seed")).tobytes()) if t.has(2) and t.known(2) else _seed(t)
    drawn = standard(t, "Multinomial", t.cast(t.input(0), "float32"), sample_size=count, dtype=7, seed=float(seed))
    return t.cast(drawn, t.dtype("output_dtype", "int64"))


def shuffled(t: Translation) -> Value:
    """RandomShuffle: rows in the order of random numbers."""
    x = t.input(0)
    if not x.type.rank:
        raise error("E0108", f"{t.kind} of {x.type}")
    count = x.shape[0]
    _, order = t.builder.add_all(
        "top_k", _uniform(t, (count,)), k=(count,), axis=0, largest=False, sources=t.sources, name=f"{t.name}/order"
    )
    return t.op("gather", x, order, axis=0)


def key_and_counter(t: Translation) -> tuple[Value, Value]:
    """StatelessRandomGetKeyCounter, whose key is the seed; its type of 64 bits has the same bits here."""
    seed = np.asarray(t.array(0, "the seed")).reshape(-1)
    return t.constant(seed[:1], "int64"), t.constant(np.zeros(2), "int64")


# ---------------------------------------------------------------- counts and order
def histogram(t: Translation) -> Value:
    """HistogramFixedWidth: how many numbers lie in each of equal parts of a range; others count at its ends."""
    x, bounds = t.input(0), t.cast(t.input(1), "float32")
    count = t.integer_of(2, "the number of parts") if t.has(2) else 100
    if count < 1:
        raise error("E0109", f"{t.kind} of {count} parts")
    check_table(count)
    low, high = (t.reshape(t.op("slice", bounds, starts=(n,), sizes=(1,), steps=(1,)), ()) for n in (0, 1))
    step = t.op("div", t.op("sub", high, low), t.scalar(count, "float32"))
    place = t.op("div", t.op("sub", t.cast(x, "float32"), low), step)
    place = t.op("clip", place, min=0.0, max=float(count - 1))
    dtype = t.dtype("dtype", "int32")
    ones = t.op("expand", t.scalar(1, dtype), shape=x.shape)
    return _GATHERED(t, ones, t.cast(place, "int32"), count, "add")


def approximate_top_k(t: Translation) -> tuple[Value, Value]:
    """ApproxTopK, exactly."""
    x, k = t.input(0), int(t.option("k", 1))
    (axis,) = axes_of((int(t.option("reduction_dimension", -1)),), x.type.rank)
    if not 1 <= k <= t.extent(x, axis):
        raise error("E0108", f"{t.kind} of {k} elements of {x.type}")
    values, places = t.builder.add_all(
        "top_k", x, k=(k,), axis=axis, largest=bool(t.option("is_max_k", True)), sources=t.sources,
        name=f"{t.name}/order",
    )  # fmt: skip
    return values, t.cast(places, "int32")


def bits(t: Translation) -> Value:
    """PopulationCount: how many bits of each integer are 1, as uint8."""
    x = t.input(0)
    width = 8 * dtypes.to_numpy(x.dtype).itemsize
    if not x.dtype.startswith("uint"):
        x = t.op("bit_cast", x, to=f"uint{width}")
    total: Value | None = None
    for n in range(width):
        bit = t.op("bit_shift", x, t.scalar(n, x.dtype), direction="RIGHT") if n else x
        bit = t.op("bitwise_and", bit, t.scalar(1, x.dtype))
        total = bit if total is None else t.op("add", total, bit)
    assert total is not None
    return t.cast(total, "uint8")


# ---------------------------------------------------------------- losses
def cross_entropy(t: Translation) -> tuple[Value, Value]:
    """The loss of each row of scores, of shares or of one class each; and its derivative."""
    scores, labels = t.input(0), t.input(1)
    axis = scores.type.rank - 1
    if t.kind.startswith("Sparse"):
        count = t.extent(scores, axis)
        own = t.op("equal", t.reshape(labels, (*labels.shape, 1)), t.counting(count, labels.dtype))
        labels = t.cast(own, scores.dtype)
    loss = t.op("mul", labels, t.op("log_softmax", scores, axis=axis))
    loss = t.op("neg", t.op("reduce_sum", loss, axes=(axis,), keep_dims=False))
    return loss, t.op("sub", t.op("softmax", scores, axis=axis), labels)


def _versions(name: str, function: Translator) -> dict[str, Translator]:
    return {f"Stateless{name}": function, f"Stateless{name}V2": function}


TRANSLATORS: dict[str, Translator] = {
    **_versions("RandomNormal", normal), **_versions("RandomUniform", uniform),
    **_versions("RandomUniformInt", integers), **_versions("TruncatedNormal", truncated_normal),
    "ApproxTopK": approximate_top_k, "HistogramFixedWidth": histogram, "Multinomial": multinomial,
    "PopulationCount": bits, "RandomShuffle": shuffled, "RandomUniformInt": integers,
    "SoftmaxCrossEntropyWithLogits": cross_entropy, "SparseSoftmaxCrossEntropyWithLogits": cross_entropy,
    "StatelessMultinomial": multinomial, "TruncatedNormal": truncated_normal,
    "StatelessRandomGetAlg": lambda t: t.constant(1, "int32"), "StatelessRandomGetKeyCounter": key_and_counter,
}  # fmt: skip
