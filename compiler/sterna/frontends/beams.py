"""The likeliest texts of the probabilities of symbols: prefix beam search for connectionist temporal classification.

A. Hannun and others, First-pass large vocabulary continuous speech recognition using bi-directional recurrent DNNs,
2014. Of every step as many texts are kept as beams are wide, each with the probability of all ways to it that end with
a blank, and of those that do not.
"""

from __future__ import annotations

from typing import NamedTuple

from sterna.errors import error
from sterna.frontends.emitter import Emitter
from sterna.frontends.log_sums import log_sum_of_two
from sterna.ir.graph import Value

#: The logarithm of nothing: finite, so that differences of two are no NaN.
_NONE, _LEAST = -1e30, -1e29
#: Elements of the comparison of all texts of a step.
_MOST = 1 << 26


class _Beams(NamedTuple):
    """Texts (batch, beams, steps), -1 after their ends; their lengths and last symbols (batch, beams); and the
    logarithms of the probabilities of ways that end with a blank, and of others."""

    text: Value
    length: Value
    last: Value
    blank: Value
    other: Value


def searched(
    t: Emitter, x: Value, lengths: Value, width: int, paths: int, blank: int
) -> tuple[Value, Value, Value]:  # fmt: skip
    """The likeliest texts.

    Args:
        x: scores (steps, batch, symbols) in float32, of which the logarithm of softmax is taken.
        lengths: how many steps of each of the batch count, (batch,) in int64.
        width: how many texts are kept; paths: how many are wanted; blank: the symbol between others.

    Returns:
        Texts (batch, paths, steps) in int64, -1 after their ends; their lengths (batch, paths); the logarithms of their
        probabilities (batch, paths).

    Raises:
        SternaError: E0109 or E0112.
    """
    steps, batch, symbols = t.sizes(x, 3)
    if not 1 <= paths <= width or min(steps, batch, symbols) < 1:
        raise error("E0109", f"{t.kind} of {paths} of {width} texts of {x.type}")
    if batch * width * max(width * steps, (symbols + 1) * steps) > _MOST:
        raise error("E0112", f"{t.kind} with beams of {width} over {x.type} is too large")
    logs = t.op("log_softmax", x, axis=2)

    def filled(value: float, dtype: str, *shape: int) -> Value:
        return t.op("expand", t.scalar(value, dtype), shape=(batch, *shape))

    first = t.op("equal", t.counting(width), t.scalar(0, "int64"))
    start = _Beams(
        filled(-1, "int64", width, steps), filled(0, "int64", width), filled(-1, "int64", width),
        t.op("expand", t.op("where", first, t.scalar(0, "float32"), t.scalar(_NONE, "float32")), shape=(batch, width)),
        filled(_NONE, "float32", width),
    )  # fmt: skip

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        beams = _Beams(*carried)
        scores = t.reshape(t.op("gather", logs, t.reshape(number, (1,)), axis=0), (batch, symbols))
        counts = t.reshape(t.op("less", t.reshape(number, (1,)), lengths), (batch, 1))
        following = _step(t, beams, scores, blank)
        wide = t.reshape(counts, (batch, 1, 1))
        kept = [t.op("where", wide, following[0], beams[0])]
        kept += [t.op("where", counts, *pair) for pair in zip(following[1:], beams[1:], strict=True)]
        return kept, []

    found, _ = t.repeat(steps, list(start), step)
    beams = _Beams(*found)
    total = log_sum_of_two(t, beams.blank, beams.other)
    total = t.op("where", t.op("less", total, t.scalar(_LEAST, "float32")), t.scalar(-float("inf"), "float32"), total)

    def best(value: Value) -> Value:
        sizes = (batch, paths, *value.shape[2:])
        return t.op("slice", value, starts=(0,) * len(sizes), sizes=sizes, steps=(1,) * len(sizes))

    return best(beams.text), best(beams.length), best(total)


def _at(t: Emitter, x: Value, index: Value) -> Value:
    """Elements of the second dimension, (batch, n, ...) by (batch, m)."""
    rest = x.shape[2:]
    wide = t.reshape(index, (*index.shape, *(1,) * len(rest)))
    return t.op("gather_elements", x, t.op("expand", wide, shape=(*index.shape, *rest)), axis=1)


def _step(t: Emitter, beams: _Beams, scores: Value, blank: int) -> _Beams:
    batch, width = t.static(beams.last)
    steps, symbols = t.extent(beams.text, 2), t.extent(scores, 1)
    none, minus = t.scalar(_NONE, "float32"), t.scalar(-1, "int64")
    total = log_sum_of_two(t, beams.blank, beams.other)
    # A text stays as it is: a blank follows, or the last symbol once more.
    ended = t.op("maximum", beams.last, t.scalar(0, "int64"))
    own = t.op("gather_elements", scores, ended, axis=1)
    quiet = t.op("slice", scores, starts=(0, blank), sizes=(batch, 1), steps=(1, 1))
    stays_blank = t.op("add", total, quiet)
    is_empty = t.op("equal", beams.last, minus)
    stays_other = t.op("where", is_empty, none, t.op("add", beams.other, own))
    # Or a symbol follows, (batch, beams, symbols): the last one only after a blank.
    numbers = t.counting(symbols)
    is_last = t.op("equal", t.reshape(beams.last, (batch, width, 1)), numbers)
    before = t.op(
        "where", is_last, t.reshape(beams.blank, (batch, width, 1)), t.reshape(total, (batch, width, 1))
    )  # fmt: skip
    grown = t.op("add", before, t.reshape(scores, (batch, 1, symbols)))
    grown = t.op("where", t.op("equal", numbers, t.scalar(blank, "int64")), none, grown)
    # What another text becomes with one symbol more may be kept already: (batch, the longer one, the shorter one).
    match = _prefixes(t, beams, total)
    by_last = _at(t, t.transpose(grown, (0, 2, 1)), ended)
    gained = t.op("reduce_max", t.op("where", match, by_last, none), axes=(2,), keep_dims=False)
    stays_other = log_sum_of_two(t, stays_other, gained)
    taken = t.op("matmul", t.transpose(t.cast(match, "float32"), (0, 2, 1)), t.cast(is_last, "float32"))
    grown = t.op("where", t.op("greater", taken, t.scalar(0, "float32")), none, grown)
    # The best of all.
    stays = log_sum_of_two(t, stays_blank, stays_other)
    everything = t.op("concat", stays, t.reshape(grown, (batch, width * symbols)), axis=1)
    value, place = t.builder.add_all(
        "top_k", everything, k=(width,), axis=1, sources=t.sources, name=f"{t.name}/beams"
    )  # fmt: skip
    beyond = t.op("sub", place, t.scalar(width, "int64"))
    kept = t.op("less", beyond, t.scalar(0, "int64"))
    beyond = t.op("maximum", beyond, t.scalar(0, "int64"))
    count = t.scalar(symbols, "int64")
    parent = t.op("where", kept, place, t.op("div", beyond, count))
    symbol = t.op("mod", beyond, count, truncated=False)
    text, length = _at(t, beams.text, parent), _at(t, beams.length, parent)
    ends = t.op("equal", t.counting(steps), t.reshape(length, (batch, width, 1)))
    ends = t.op("logical_and", ends, t.reshape(t.op("logical_not", kept), (batch, width, 1)))
    return _Beams(
        t.op("where", ends, t.reshape(symbol, (batch, width, 1)), text),
        t.op("add", length, t.cast(t.op("logical_not", kept), "int64")),
        t.op("where", kept, _at(t, beams.last, parent), symbol),
        t.op("where", kept, _at(t, stays_blank, parent), none),
        t.op("where", kept, _at(t, stays_other, parent), value),
    )


def _prefixes(t: Emitter, beams: _Beams, total: Value) -> Value:
    """Whether a text is another one and one symbol more: (batch, the longer one, the shorter one)."""
    batch, width = t.static(beams.last)
    steps = t.extent(beams.text, 2)
    longer, shorter = t.reshape(beams.length, (batch, width, 1)), t.reshape(beams.length, (batch, 1, width))
    match = t.op("equal", longer, t.op("add", shorter, t.scalar(1, "int64")))
    one, other = t.reshape(beams.text, (batch, width, 1, steps)), t.reshape(beams.text, (batch, 1, width, steps))
    past = t.op("greater_equal", t.counting(steps), t.reshape(beams.length, (batch, 1, width, 1)))
    same = t.op("reduce_all", t.op("logical_or", past, t.op("equal", one, other)), axes=(3,), keep_dims=False)
    there = t.op("greater", total, t.scalar(_LEAST, "float32"))
    there = t.op("logical_and", t.reshape(there, (batch, width, 1)), t.reshape(there, (batch, 1, width)))
    return t.op("logical_and", t.op("logical_and", match, same), there)
