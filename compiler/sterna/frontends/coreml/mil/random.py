"""Random numbers: of the distribution that a program names, the same at every run, never Core ML's own."""

from __future__ import annotations

from typing import Any

from sterna.errors import error
from sterna.frontends.coreml.mil.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value


def _seed(t: Translation) -> float | None:
    seed = t.integer("seed", -1)
    return None if seed < 0 else float(seed)


def _shape(t: Translation) -> Value:
    """Zeros of the shape that is asked for, constant or made of sizes."""
    zero = t.scalar(0.0, "float32")
    return standard(t, "Expand", zero, t.cast(t.arg("shape"), "int64"))


def _drawn(t: Translation, operator: str, dtype: str, **settings: Any) -> Value:
    return t.cast(standard(t, f"{operator}Like", _shape(t), dtype=1, seed=_seed(t), **settings), dtype)


def _kind(t: Translation, *names: str) -> str:
    """The element type of a result: that of its parameters."""
    return next((t.arg(name).dtype for name in names if t.given(name)), "float32")


def _uniform(t: Translation) -> Value:
    low, high = t.number("low", 0.0), t.number("high", 1.0)
    return _drawn(t, "RandomUniform", _kind(t, "low", "high"), low=low, high=high)


def _normal(t: Translation) -> Value:
    mean, scale = t.number("mean", 0.0), t.number("stddev", 1.0)
    return _drawn(t, "RandomNormal", _kind(t, "mean", "stddev"), mean=mean, scale=scale)


def _bernoulli(t: Translation) -> Value:
    drawn = _drawn(t, "RandomUniform", "float32")
    return t.cast(t.op("less", drawn, t.scalar(t.number("prob", 0.5), "float32")), _kind(t, "prob"))


def _categorical(t: Translation) -> Value:
    """Classes drawn by the last dimension, of logarithms of probabilities or of probabilities."""
    x, mode, count = t.arg("x"), t.text("mode", "logits"), t.integer("size", 1)
    if mode not in ("logits", "probs") or not x.type.rank:
        raise error("E0109", f"{mode} of {x.type}")
    lead, classes = x.shape[:-1], t.extent(x, -1)
    rows: Any = 1
    for size in lead:
        rows = rows * size
    scores = t.reshape(t.cast(x, "float32"), (rows, classes))
    scores = standard(t, "Log", scores) if mode == "probs" else scores
    drawn = standard(t, "Multinomial", scores, sample_size=count, dtype=6, seed=_seed(t))
    return t.cast(t.reshape(drawn, (*lead, count)), x.dtype)


TRANSLATORS: dict[str, Translator] = {
    "random_bernoulli": _bernoulli,
    "random_categorical": _categorical,
    "random_normal": _normal,
    "random_uniform": _uniform,
}
