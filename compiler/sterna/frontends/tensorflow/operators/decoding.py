"""What makes text of the probabilities of symbols: connectionist temporal classification (Graves and others, 2006)."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.beams import searched
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Value

_MOST = 1 << 24  # symbols of all steps


def greedy(t: Translation) -> tuple[Value, ...]:
    """The likeliest symbol of each step, without blanks and, if they are merged, without repetitions.

    Operands: scores (steps, batch, symbols), and how many steps of each of the batch count.

    Returns:
        Coordinates, symbols and the shape of a sparse tensor (batch, text), and what the likeliest scores add up to,
        negated. How many symbols there are depends on the data.
    """
    x, lengths = t.input(0), t.input(1)
    steps, batch, symbols = t.sizes(x, 3)
    blank = t.option("blank_index", -1)
    blank = symbols + blank if blank < 0 else blank
    total = steps * batch
    if not 0 <= blank < symbols or not 0 < total <= _MOST:
        raise error("E0109", f"blank_index is {blank} for {x.type}")
    rows = t.transpose(x, (1, 0, 2))
    best = t.op("arg_max", rows, axis=2, keep_dims=False)  # (batch, steps)
    counts = t.op("less", t.counting(steps), t.cast(t.reshape(lengths, (batch, 1)), "int64"))
    kept = t.op("logical_and", counts, _differs(t, best, t.scalar(blank, "int64")))
    if t.option("merge_repeated", False):
        before = t.op("slice", best, starts=(0, 0), sizes=(batch, steps - 1), steps=(1, 1)) if steps > 1 else None
        none = t.op("expand", t.scalar(-1, "int64"), shape=(batch, 1))
        before = none if before is None else t.op("concat", none, before, axis=1)
        kept = t.op("logical_and", kept, _differs(t, best, before))
    ones = t.cast(kept, "int64")
    places = t.op("cumulative_sum", ones, axis=1, exclusive=True)
    images = t.op("expand", t.reshape(t.counting(batch), (batch, 1)), shape=(batch, steps))
    columns = [t.reshape(value, (total, 1)) for value in (images, places, best)]
    found, count = t.builder.add_all(
        "compress", t.op("concat", *columns, axis=1), t.reshape(kept, (total,)), axis=0, size=total,
        sources=t.sources, name=f"{t.name}/found",
    )  # fmt: skip
    size = t.builder.bind_size(t.reshape(count, ()), t.builder.name("symbols"), 0, total, sources=t.sources)
    coordinates = t.op("slice", found, starts=(0, 0), sizes=(size, 2), steps=(1, 1))
    values = t.reshape(t.op("slice", found, starts=(0, 2), sizes=(size, 1), steps=(1, 1)), (size,))
    longest = t.op("reduce_max", t.op("reduce_sum", ones, axes=(1,), keep_dims=False), axes=(0,), keep_dims=True)
    shape = t.op("concat", t.constant([batch], "int64"), longest, axis=0)
    peaks = t.op("reduce_max", rows, axes=(2,), keep_dims=False)
    peaks = t.op("where", counts, peaks, t.scalar(0, peaks.dtype))
    return coordinates, values, shape, t.op("neg", t.op("reduce_sum", peaks, axes=(1,), keep_dims=True))


def _differs(t: Translation, a: Value, b: Value) -> Value:
    return t.op("logical_not", t.op("equal", a, b))


def beam_search(t: Translation) -> tuple[Value, ...]:
    """CTCBeamSearchDecoder: for each wanted text, the likeliest first, a sparse tensor; and their log probabilities.

    Returns:
        Coordinates of all texts, then their symbols, then their shapes, and (batch, texts).
    """
    x, lengths = t.cast(t.input(0), "float32"), t.cast(t.input(1), "int64")
    steps, batch, symbols = t.sizes(x, 3)
    width, paths = int(t.option("beam_width", 100)), int(t.option("top_paths", 1))
    if t.option("merge_repeated", True):
        raise t.unsupported("with merge_repeated", "tf.nn.ctc_beam_search_decoder of TensorFlow 2 does without it")
    texts, counts, scores = searched(t, x, lengths, width, paths, symbols - 1)
    total = steps * batch
    images = t.op("expand", t.reshape(t.counting(batch), (batch, 1, 1)), shape=(batch, steps, 1))
    places = t.op("expand", t.reshape(t.counting(steps), (1, steps, 1)), shape=(batch, steps, 1))
    found: list[list[Value]] = [[], [], []]
    for n in range(paths):
        text = t.op("slice", texts, starts=(0, n, 0), sizes=(batch, 1, steps), steps=(1, 1, 1))
        length = t.op("slice", counts, starts=(0, n), sizes=(batch, 1), steps=(1, 1))
        kept = t.reshape(t.op("less", t.counting(steps), length), (total,))
        rows = t.op("concat", images, places, t.reshape(text, (batch, steps, 1)), axis=2)
        made, count = t.builder.add_all(
            "compress", t.reshape(rows, (total, 3)), kept, axis=0, size=total, sources=t.sources,
            name=f"{t.name}/found",
        )  # fmt: skip
        size = t.builder.bind_size(t.reshape(count, ()), t.builder.name("symbols"), 0, total, sources=t.sources)
        found[0].append(t.op("slice", made, starts=(0, 0), sizes=(size, 2), steps=(1, 1)))
        found[1].append(t.reshape(t.op("slice", made, starts=(0, 2), sizes=(size, 1), steps=(1, 1)), (size,)))
        longest = t.op("reduce_max", length, axes=(0, 1), keep_dims=False)
        found[2].append(t.op("concat", t.constant([batch], "int64"), t.reshape(longest, (1,)), axis=0))
    return *found[0], *found[1], *found[2], scores


TRANSLATORS: dict[str, Translator] = {"CTCBeamSearchDecoder": beam_search, "CTCGreedyDecoder": greedy}
