"""The loss of connectionist temporal classification (Graves et al., 2006), as keras.ops has it."""

from __future__ import annotations

import numpy as np

from sterna.frontends.keras.layers.arguments import option, tensor
from sterna.frontends.keras.translation import Translation, Translator
from sterna.frontends.log_sums import log_sum_of_two
from sterna.ir.graph import Value

#: The logarithm of what is impossible.
_NEVER = -1e5


def _ctc_loss(t: Translation) -> Value:
    """For each of the batch; labels (N, L), logits (N, T, classes), and how many of either count.

    Two logarithms of probabilities go from step to step: of ending in the blank before each label and after the last
    (N, L + 1), and of ending in each label (N, L).
    """
    names = ("target", "output", "target_length", "output_length")
    labels, logits, many, long = (tensor(t, option(t, n, name), None) for n, name in enumerate(names))
    labels, many, long = (t.cast(each, "int64") for each in (labels, many, long))
    blank = int(option(t, 4, "mask_index", 0))
    dtype = "float64" if logits.dtype == "float64" else "float32"
    chances = t.op("log_softmax", t.cast(logits, dtype), axis=-1)
    batch, count, steps = logits.shape[0], t.extent(labels, 1), t.extent(logits, 1)
    places = t.op("expand", t.reshape(labels, (batch, 1, count)), shape=(batch, steps, count))
    of_labels = t.transpose(t.standard("GatherElements", chances, places, axis=2), (1, 0, 2))
    of_blank = t.transpose(t.part(chances, -1, blank, 1), (1, 0, 2))
    never, zero = t.scalar(_NEVER, dtype), t.scalar(0.0, dtype)

    # Where a label comes twice, a blank stands between.
    twice = t.op("equal", t.part(labels, 1, 0, count - 1), t.part(labels, 1, 1, count - 1))
    twice = t.pad(t.cast(twice, dtype), (0, 0), (0, 1))
    if_twice = t.op("mul", twice, never)
    if_once = t.op("mul", t.op("sub", t.scalar(1.0, dtype), twice), never)

    def raised(blanks: Value, more: Value) -> Value:
        """The chances of the blanks after the labels with others added."""
        after = log_sum_of_two(t, t.part(blanks, 1, 1, count), more)
        return t.op("concat", t.part(blanks, 1, 0, 1), after, axis=1)

    def step(number: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        blanks, ends = carried
        here, skip = (t.op("gather", each, number, axis=0) for each in (of_labels, of_blank))
        known = raised(blanks, t.op("add", ends, if_twice))
        new_ends = log_sum_of_two(t, t.op("add", t.part(known, 1, 0, count), here), t.op("add", ends, here))
        new_blanks = raised(t.op("add", known, skip), t.op("add", t.op("add", ends, skip), if_once))
        counts = t.reshape(t.op("less", number, long), (batch, 1))
        return [t.op("where", counts, new_blanks, blanks), t.op("where", counts, new_ends, ends)], []

    start = t.constant(np.array([0.0, *([_NEVER] * count)]), dtype)
    first = [t.op("expand", start, shape=(batch, count + 1)), t.op("expand", never, shape=(batch, count))]
    (blanks, ends), _ = t.repeat(steps, first, step)
    final = raised(blanks, ends)
    last = t.op("equal", t.constant(np.arange(count + 1), "int64"), t.reshape(many, (batch, 1)))
    return t.op("neg", t.reduced("reduce_sum", t.op("where", last, final, zero), (1,)))


OPERATIONS: dict[str, Translator] = {"ctc_loss": _ctc_loss}
