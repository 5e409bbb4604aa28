"""Losses, which some models give beside their results."""

from __future__ import annotations

import math

from sterna.frontends.emitter import is_float
from sterna.frontends.log_sums import log_sum_of_two
from sterna.frontends.pytorch.operators.reductions import norm_of
from sterna.frontends.pytorch.promotion import float_type
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.special import entropy
from sterna.ir.graph import Value
from sterna.ir.integer import as_int

_NONE, _MEAN = 0, 1


def _mean_or_sum(t: Translation, loss: Value) -> Value:
    """As `reduction` says: every element (0), their mean (1) or their sum (2)."""
    kind = t.integer("reduction", _MEAN)
    if kind == _NONE or not loss.type.rank:
        return loss
    operator = "reduce_mean" if kind == _MEAN else "reduce_sum"
    return t.op(operator, loss, axes=tuple(range(loss.type.rank)), keep_dims=False)


def _number(t: Translation, value: float, like: Value) -> Value:
    return t.scalar(value, like.dtype)


def _two(t: Translation, first: str = "self", second: str = "target") -> tuple[Value, Value]:
    a, b = t.together(t.tensor(first), t.tensor(second), floats=True)
    return a, b


def _above_zero(t: Translation, x: Value) -> Value:
    return t.op("maximum", x, _number(t, 0, x))


def _square(t: Translation, x: Value) -> Value:
    return t.op("mul", x, x)


def absolute(t: Translation) -> Value:
    return _mean_or_sum(t, t.op("abs", t.op("sub", *_two(t))))


def squared(t: Translation) -> Value:
    return _mean_or_sum(t, _square(t, t.op("sub", *_two(t))))


def _bent(t: Translation, edge: float, factor: float) -> Value:
    """factor * gap^2 / 2 up to the edge, then a line."""
    size = t.op("abs", t.op("sub", *_two(t)))
    near = t.op("mul", _square(t, size), _number(t, factor / 2, size))
    far = t.op("mul", t.op("sub", size, _number(t, edge / 2, size)), _number(t, factor * edge, size))
    return _mean_or_sum(t, t.op("where", t.op("less", size, _number(t, edge, size)), near, far))


def smooth(t: Translation) -> Value:
    beta = t.number("beta", 1.0)
    return _bent(t, beta, 1 / beta) if beta else absolute(t)


def huber(t: Translation) -> Value:
    return _bent(t, t.number("delta", 1.0), 1.0)


def _weighted(t: Translation, loss: Value) -> Value:
    weight = t.maybe("weight")
    return _mean_or_sum(t, loss if weight is None else t.op("mul", loss, weight))


def binary_cross_entropy(t: Translation) -> Value:
    """Of probabilities; a logarithm counts as -100 at least."""
    x, y = _two(t)
    one, least = _number(t, 1, x), _number(t, -100, x)
    rest = t.op("mul", t.op("sub", one, y), t.op("maximum", t.op("log", t.op("sub", one, x)), least))
    own = t.op("mul", y, t.op("maximum", t.op("log", x), least))
    return _weighted(t, t.op("neg", t.op("add", own, rest)))


def binary_cross_entropy_of_logits(t: Translation) -> Value:
    x, y = _two(t)
    one, zero = _number(t, 1, x), _number(t, 0, x)
    log = log_sum_of_two(t, zero, t.op("neg", x))
    positive = t.maybe("pos_weight")
    if positive is not None:
        log = t.op("mul", log, t.op("add", t.op("mul", t.op("sub", positive, one), y), one))
    return _weighted(t, t.op("add", t.op("mul", t.op("sub", one, y), x), log))


def divergence(t: Translation) -> Value:
    """Kullback and Leibler's: target * (log(target) - x)."""
    x, y = _two(t)
    if t.flag("log_target"):
        return _mean_or_sum(t, t.op("mul", t.op("exp", y), t.op("sub", y, x)))
    return _mean_or_sum(t, t.op("neg", t.op("add", entropy(t, y), t.op("mul", y, x))))


def soft_margin(t: Translation) -> Value:
    """log(1 + exp(-target * x)), infinite where PyTorch's power is: in float16 from 11 on."""
    x, y = _two(t)
    product = t.op("neg", t.op("mul", x, y))
    soft = log_sum_of_two(t, _number(t, 0, x), product)
    return _mean_or_sum(t, t.op("where", t.op("is_inf", t.op("exp", product)), _number(t, math.inf, x), soft))


def hinge(t: Translation) -> Value:
    x, y = _two(t)
    far = _above_zero(t, t.op("sub", _number(t, t.number("margin", 1.0), x), x))
    one, zero = _number(t, 1, x), _number(t, 0, x)
    own = t.op("where", t.op("equal", y, one), zero, far)
    return _mean_or_sum(t, t.op("add", own, t.op("where", t.op("equal", y, t.op("neg", one)), zero, x)))


def poisson(t: Translation) -> Value:
    x, y = _two(t, "input")
    if t.flag("log_input", True):
        loss = t.op("sub", t.op("exp", x), t.op("mul", y, x))
    else:
        shifted = t.op("add", x, _number(t, t.number("eps", 1e-8), x))
        loss = t.op("sub", x, t.op("mul", y, t.op("log", shifted)))
    if t.flag("full"):
        logs = t.op("log", t.op("maximum", y, _number(t, 1, y)))
        circle = t.op("mul", t.op("add", logs, _number(t, math.log(2 * math.pi), y)), _number(t, 0.5, y))
        stirling = t.op("add", t.op("sub", t.op("mul", y, logs), y), circle)
        loss = t.op("add", loss, t.op("where", t.op("greater", y, _number(t, 1, y)), stirling, _number(t, 0, y)))
    return _mean_or_sum(t, loss)


def ranking(t: Translation) -> Value:
    """max(0, -target * (input1 - input2) + margin), in the operands' own type: integers wrap."""
    a, b = t.together(t.tensor("input1"), t.tensor("input2"))
    gap, target = t.op("sub", a, b), t.tensor("target")
    if not is_float(target) and not is_float(gap) and gap.dtype.startswith("u"):
        # Of unsigned integers -target is 2^n - target, which is what its product is subtracted for.
        gap = t.op("sub", _number(t, 0, gap), t.op("mul", t.cast(target, gap.dtype), gap))
    else:
        gap = t.op("mul", *t.together(t.op("neg", target), gap))
    gap, margin = t.together(gap, t.number("margin", 0.0))
    return _mean_or_sum(t, _above_zero(t, t.op("add", gap, margin)))


def cosine(t: Translation) -> Value:
    a, b = _two(t, "input1", "input2")
    axis, least = (max(a.type.rank, b.type.rank) - 1,), _number(t, 1e-12, a)

    def dot(u: Value, v: Value) -> Value:
        return t.op("reduce_sum", t.op("mul", u, v), axes=axis, keep_dims=False)

    lengths = t.op("sqrt", t.op("mul", t.op("add", dot(a, a), least), t.op("add", dot(b, b), least)))
    similar = t.op("div", dot(a, b), lengths)
    far = _above_zero(t, t.op("sub", similar, _number(t, t.number("margin", 0.0), a)))
    same = t.op("equal", t.tensor("target"), _number(t, 1, t.tensor("target")))
    return _mean_or_sum(t, t.op("where", same, t.op("sub", _number(t, 1, a), similar), far))


def triplet(t: Translation) -> Value:
    anchor, positive, negative = t.together(*(t.tensor(name) for name in ("anchor", "positive", "negative")))

    def distance(a: Value, b: Value) -> Value:
        gap = t.op("sub", a, b)  # of unsigned integers, it wraps
        gap = t.cast(gap, float_type(gap.dtype))
        gap = t.op("add", gap, _number(t, t.number("eps", 1e-6), gap))
        return norm_of(t, gap, t.number("p", 2.0), (gap.type.rank - 1,), False)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if t.flag("swap"):
        far = t.op("minimum", far, distance(positive, negative))
    gap = t.op("add", t.op("sub", near, far), _number(t, t.number("margin", 1.0), near))
    return _mean_or_sum(t, _above_zero(t, gap))


def margins(t: Translation) -> Value:
    """How far the target's score is short of leading every other by a margin (multi_margin_loss)."""
    x, target = t.floating(), t.tensor("target")
    single = x.type.rank < 2
    x = t.reshape(x, (1, x.type.elements)) if single else x
    rows, classes = x.shape
    index = t.reshape(target, (rows, 1))
    own = t.op("gather_elements", x, index, axis=1)
    gap = _above_zero(t, t.op("add", t.op("sub", x, own), _number(t, t.number("margin", 1.0), x)))
    gap = _square(t, gap) if t.number("p", 1.0) == 2 else gap
    weight = t.maybe("weight")
    if weight is not None:
        gap = t.op("mul", gap, t.op("gather", weight, index, axis=0))
    gap = t.op("where", t.op("equal", t.counting(classes), index), _number(t, 0, x), gap)
    loss = t.op("div", t.op("reduce_sum", gap, axes=(1,), keep_dims=False), t.as_value(classes, x.dtype))
    return _mean_or_sum(t, t.reshape(loss, ()) if single else loss)


def label_margins(t: Translation) -> tuple[Value, Value]:
    """How far the scores of some classes, listed up to the first -1, are short of leading every other by 1, as a share
    of all classes; and which classes are listed (multilabel_margin_loss)."""
    x, target = t.floating(), t.tensor("target")
    single = x.type.rank < 2
    width = x.type.elements if single else x.shape[1]
    rows = as_int(1) if single else x.shape[0]
    scores, listed = t.reshape(x, (rows, width)), t.cast(t.reshape(target, (rows, width)), "int64")
    ended = t.op("cumulative_sum", t.cast(t.op("less", listed, t.scalar(0, "int64")), "int64"), axis=1)
    counts = t.op("equal", ended, t.scalar(0, "int64"))
    index = t.op("where", counts, listed, t.scalar(0, "int64"))
    own = t.op("gather_elements", scores, index, axis=1)
    same = t.op("equal", t.unsqueeze(index, 2), t.reshape(t.counting(width), (1, 1, width)))
    named = t.op("reduce_any", t.op("logical_and", same, t.unsqueeze(counts, 2)), axes=(1,), keep_dims=False)
    gap = t.op("sub", t.op("add", t.unsqueeze(scores, 1), _number(t, 1, x)), t.unsqueeze(own, 2))
    counted = t.op("logical_and", t.unsqueeze(counts, 2), t.op("logical_not", t.unsqueeze(named, 1)))
    gap = t.op("where", counted, _above_zero(t, gap), _number(t, 0, x))
    total = t.op("reduce_sum", gap, axes=(1, 2), keep_dims=False)
    loss = t.op("div", total, t.as_value(width, x.dtype))
    if single:
        loss = t.reshape(loss, ())
    return _mean_or_sum(t, loss), t.reshape(t.cast(named, x.dtype), target.shape)


def _of_classes(t: Translation, log: Value, target: Value) -> tuple[Value, Value]:
    """(loss, total weight) of log-probabilities and numbers of classes; -100 is of no class."""
    axis = 0 if log.type.rank == 1 else 1
    weight = t.maybe("weight")
    ignored = t.op("equal", target, t.scalar(t.integer("ignore_index", -100), target.dtype))
    kept = t.op("logical_not", ignored)
    index = t.op("where", kept, target, t.scalar(0, target.dtype))
    weights = t.full(target.shape, 1, log.dtype) if weight is None else t.op("gather", weight, index, axis=0)
    weights = t.op("where", kept, weights, t.scalar(0, log.dtype))

    def of_target(x: Value) -> Value:
        found = t.op("gather_elements", x, t.unsqueeze(index, axis), axis=axis)
        return t.reshape(found, target.shape)

    loss = t.op("neg", t.op("mul", of_target(log), weights))
    smoothing = t.number("label_smoothing", 0.0)
    if smoothing:
        wide = [log.shape[axis] if n == axis else 1 for n in range(log.type.rank)]
        each = log if weight is None else t.op("mul", log, t.reshape(weight, wide))
        spread = t.op("neg", t.op("reduce_sum", each, axes=(axis,), keep_dims=False))
        spread = t.op("where", kept, spread, t.scalar(0, log.dtype))
        count = t.as_value(log.shape[axis], log.dtype)
        loss = t.op("add", t.op("mul", loss, t.scalar(1 - smoothing, log.dtype)),
                    t.op("mul", t.op("div", spread, count), t.scalar(smoothing, log.dtype)))  # fmt: skip
    axes = tuple(range(target.type.rank))
    total = t.op("reduce_sum", weights, axes=axes, keep_dims=False) if axes else weights
    kind = t.integer("reduction", _MEAN)
    if kind != _NONE:
        loss = t.op("reduce_sum", loss, axes=axes, keep_dims=False) if axes else loss
    return t.op("div", loss, total) if kind == _MEAN else loss, total


def likelihood(t: Translation) -> Value:
    return _of_classes(t, t.tensor(), t.tensor("target"))[0]


def likelihood_and_weight(t: Translation) -> tuple[Value, Value]:
    return _of_classes(t, t.tensor(), t.tensor("target"))


def cross_entropy(t: Translation) -> Value:
    """Of logits, and numbers of classes or their probabilities."""
    x, target = t.floating(), t.tensor("target")
    axis = 0 if x.type.rank == 1 else 1
    log = t.op("log_softmax", x, axis=axis)
    if not is_float(target):
        return _of_classes(t, log, target)[0]
    smoothing, classes = t.number("label_smoothing", 0.0), t.as_value(x.shape[axis], x.dtype)
    if smoothing:
        kept = t.op("mul", target, t.scalar(1 - smoothing, x.dtype))
        target = t.op("add", kept, t.op("div", t.scalar(smoothing, x.dtype), classes))
    weight = t.maybe("weight")
    if weight is not None:
        log = t.op("mul", log, t.reshape(weight, [x.shape[n] if n == axis else 1 for n in range(x.type.rank)]))
    loss = t.op("neg", t.op("reduce_sum", t.op("mul", log, target), axes=(axis,), keep_dims=False))
    return _mean_or_sum(t, loss)


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}.default": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(absolute, "l1_loss"), **_named(squared, "mse_loss"), **_named(smooth, "smooth_l1_loss"),
    **_named(huber, "huber_loss"), **_named(binary_cross_entropy, "binary_cross_entropy"),
    **_named(binary_cross_entropy_of_logits, "binary_cross_entropy_with_logits"), **_named(divergence, "kl_div"),
    **_named(soft_margin, "soft_margin_loss"), **_named(hinge, "hinge_embedding_loss"),
    **_named(poisson, "poisson_nll_loss"), **_named(ranking, "margin_ranking_loss"),
    **_named(margins, "multi_margin_loss"), **_named(lambda t: label_margins(t)[0], "multilabel_margin_loss"),
    **_named(label_margins, "multilabel_margin_loss_forward"),
    **_named(cosine, "cosine_embedding_loss"), **_named(triplet, "triplet_margin_loss"),
    **_named(likelihood, "nll_loss", "nll_loss_nd", "nll_loss2d"),
    **_named(likelihood_and_weight, "nll_loss_forward", "nll_loss2d_forward"),
    **_named(cross_entropy, "cross_entropy_loss"),
}  # fmt: skip
