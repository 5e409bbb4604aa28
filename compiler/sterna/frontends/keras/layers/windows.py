"""Functions of keras.ops on windows of pictures and signals, and on the frames of their spectra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.beams import searched
from sterna.frontends.fourier import transform
from sterna.frontends.keras.layers.arguments import option, tensor
from sterna.frontends.keras.layers.convolution import transposed_borders
from sterna.frontends.keras.layers.pooling import adaptive
from sterna.frontends.keras.layers.spectrograms import frequencies, weights_of
from sterna.frontends.keras.translation import Result, Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.limits import check_table


def _several(value: Any, rank: int) -> tuple[int, ...]:
    found = (int(value),) * rank if isinstance(value, (int, np.integer)) else tuple(int(n) for n in value)
    if len(found) != rank or min(found) < 0:
        raise error("E0109", f"{list(found)} for {rank} dimensions")
    return found


def _is_first(t: Translation) -> bool:
    return str(option(t, 99, "data_format", None) or "channels_last") == "channels_first"


def _conv_transpose(t: Translation) -> Value:
    """The kernel is (spatial..., outputs, inputs)."""
    x, first = t.x, _is_first(t)
    kernel = tensor(t, option(t, 1, "kernel", None), x)
    rank = x.type.rank - 2
    if kernel.type.rank != rank + 2:
        raise error("E0108", f"the kernel is {kernel.type} for {x.type}")
    strides, dilations = (
        _several(option(t, n, key, 1), rank) for n, key in ((2, "strides"), (6, "dilation_rate"))
    )  # fmt: skip
    more = option(t, 4, "output_padding", None)
    same = str(option(t, 3, "padding", "valid")).lower() == "same"
    borders = transposed_borders(
        t.static(kernel)[:rank], strides, dilations, same, None if more is None else _several(more, rank)
    )
    weight = t.transpose(kernel, (rank + 1, rank, *range(rank)))
    x = x if first else t.to_first(x)
    y = t.standard("ConvTranspose", x, weight, strides=strides, dilations=dilations, **borders)
    return y if first else t.to_last(y)


def _adaptive(operator: str) -> Translator:
    return lambda t: adaptive(operator, t.x.type.rank - 2)(t)


# ---------------------------------------------------------------- windows
def _taps(t: Translation, x: Value, size: tuple[int, ...], **settings: Any) -> Value:
    """The windows of (N, C, spatial...) as (N, C * elements of a window, spatial...), the channel outside."""
    channels, count = t.extent(x, 1), math.prod(size)
    check_table(channels, count, count)
    kernel = np.tile(np.eye(count, dtype=np.float32).reshape(count, 1, *size), (channels, *(1,) * (len(size) + 1)))
    return t.standard("Conv", x, t.weight(kernel, x), group=channels, **settings)


def _patches(t: Translation) -> Value:
    """Windows of pictures or volumes, each a row of channels: the place in the window outside, the channel inside."""
    x, first = t.x, _is_first(t)
    given = option(t, 1, "size", 1)
    rank = 3 if isinstance(given, (list, tuple)) and len(given) == 3 else 2
    size, strides = _several(given, rank), option(t, 2, "strides", None)
    padding = {"valid": "VALID", "same": "SAME_UPPER"}.get(str(option(t, 4, "padding", "valid")).lower())
    if padding is None or x.type.rank not in (rank + 1, rank + 2):
        raise t.unsupported(f"of {x.type} with windows {list(size)}")
    lone = x.type.rank == rank + 1
    x = t.reshape(x, (1, *x.shape)) if lone else x
    x = x if first else t.to_first(x)
    y = _taps(
        t, x, size, strides=size if strides is None else _several(strides, rank), auto_pad=padding,
        dilations=_several(option(t, 3, "dilation_rate", 1), rank),
    )  # fmt: skip
    spatial = y.shape[2:]
    y = t.reshape(y, (y.shape[0], x.shape[1], math.prod(size), *spatial))
    y = t.transpose(y, (0, 2, 1, *range(3, 3 + rank)))
    y = t.reshape(y, (y.shape[0], x.shape[1] * math.prod(size), *spatial))
    y = y if first else t.to_last(y)
    return t.reshape(y, y.shape[1:]) if lone else y


def _pairs(t: Translation, start: int) -> dict[str, tuple[int, int]]:
    return {
        key: (value[0], value[1])
        for n, (key, default) in enumerate((("dilation", 1), ("padding", 0), ("stride", 1)))
        for value in [_several(option(t, start + n, key, default), 2)]
    }


def _unfold(t: Translation) -> Value:
    """(N, C, height, width) as (N, C * elements of a window, windows)."""
    x, size, said = t.x, _several(option(t, 1, "kernel_size", 1), 2), _pairs(t, 2)
    y = _taps(t, x, size, strides=said["stride"], dilations=said["dilation"], pads=said["padding"] * 2)
    return t.reshape(y, (y.shape[0], y.shape[1], y.shape[2] * y.shape[3]))


def _fold(t: Translation) -> Value:
    """Windows added up at their places."""
    sizes, kernel = (_several(option(t, n + 1, key, 1), 2) for n, key in enumerate(("output_size", "kernel_size")))
    said = _pairs(t, 3)
    return t.standard(
        "Col2Im", t.x, t.constant(sizes, "int64"), t.constant(kernel, "int64"), strides=said["stride"],
        dilations=said["dilation"], pads=said["padding"] * 2,
    )  # fmt: skip


# ---------------------------------------------------------------- spectra of frames
def _framing(t: Translation) -> tuple[int, int, int, Any, bool]:
    """Length of frames, step, length of the transform, window, and whether the signal's ends are mirrored."""
    size, step, length = (int(option(t, n + 1, key, 0)) for n, key in enumerate(_FRAMING))
    window = t.layer.config.get("window", t.kwargs.get("window", "hann"))
    centred = option(t, 99, "center", True)
    if not 0 < size <= length or step < 1:
        raise error("E0109", f"frames of {size} elements, {step} apart, for a transform of {length}")
    return size, step, length, window, bool(centred)


_FRAMING = ("sequence_length", "sequence_stride", "fft_length")


def _frames(t: Translation) -> Result:
    size, step, length, window, centred = _framing(t)
    y = frequencies(t, t.x, length, size, step, window, centred)
    return [t.reshape(t.part(y, -1, n, 1), y.shape[:-1]) for n in (0, 1)]


def _signal(t: Translation) -> Value:
    """istft: frames times the window, added up, and divided by what the squares of the windows add up to."""
    size, step, length, window, centred = _framing(t)
    parts = [t.reshape(x, (*x.shape, 1)) for x in t.several]
    x = t.op("concat", *parts, axis=parts[0].type.rank - 1)
    rank = x.type.rank - 1
    batch, count = x.shape[: rank - 2], t.extent(x, rank - 2)
    frames = transform(t, x, rank - 1, length, True, True)
    frames = t.reshape(frames, frames.shape[:rank])
    before = (length - size) // 2
    weights = np.ones(length) if window is None else np.zeros(length)
    if window is not None:
        weights[before : before + size] = weights_of(t, window, size)
    total = length + step * (count - 1)
    check_table(total)
    squares = np.zeros(total)
    for n in range(count):
        squares[n * step : n * step + length] += weights**2
    frames = t.op("mul", frames, t.weight(weights, frames))
    rows: Any = 1
    for each in batch:
        rows = each * rows
    frames = t.transpose(t.reshape(frames, (rows, count, length)), (0, 2, 1))
    y = t.standard("Col2Im", frames, t.constant([total], "int64"), t.constant([length], "int64"), strides=(step,))
    # Without a window Keras leaves the frames as many times as they overlap.
    share = length / step if window is None else 1.0
    y = t.op("mul", t.reshape(y, (*batch, total)), t.weight(share / np.where(squares > 1e-10, squares, 1.0), y))
    start = length // 2 if centred else 0
    wanted = option(t, 99, "length", None)
    end = start + int(wanted) if wanted is not None else total - start
    short = max(end - total, 0)
    y = t.part(y, -1, start, end - short - start)
    return t.pad(y, (0,) * y.type.rank, (*(0,) * (y.type.rank - 1), short))


# ---------------------------------------------------------------- text of probabilities
def _decoded(t: Translation) -> Result:
    """ctc_decode: (paths, batch, steps), -1 after the end, and the scores (batch, paths)."""
    x = t.x if t.x.dtype == "float32" else t.cast(t.x, "float32")
    batch, steps, symbols = t.sizes(x, 3)
    lengths = t.cast(tensor(t, option(t, 1, "sequence_lengths", None), None), "int64")
    blank = int(option(t, 99, "mask_index", 0))
    if not 0 <= blank < symbols:
        raise error("E0109", f"mask_index is {blank} of {symbols}")
    if str(option(t, 2, "strategy", "greedy")) != "greedy":
        width, paths = int(option(t, 99, "beam_width", 100)), int(option(t, 99, "top_paths", 1))
        texts, _, scores = searched(t, t.transpose(x, (1, 0, 2)), lengths, width, paths, blank)
        return [t.transpose(t.cast(texts, "int32"), (1, 0, 2)), scores]
    counted = t.op("less", t.counting(steps), t.reshape(lengths, (batch, 1)))
    best = t.op("arg_max", x, axis=2, keep_dims=False)
    best = t.op("where", counted, best, t.scalar(blank, "int64"))
    kept = t.op("logical_not", t.op("equal", best, t.scalar(blank, "int64")))
    if option(t, 99, "merge_repeated", True) and steps > 1:
        again = t.op("equal", t.part(best, 1, 1, steps - 1), t.part(best, 1, 0, steps - 1))
        first = t.op("expand", t.constant(True, "bool"), shape=(batch, 1))
        kept = t.op("logical_and", kept, t.op("concat", first, t.op("logical_not", again), axis=1))
    place = t.op("cumulative_sum", t.cast(kept, "int64"), axis=1, exclusive=True)
    place = t.op("where", kept, place, t.scalar(steps, "int64"))
    texts = t.op("expand", t.scalar(-1, "int64"), shape=(batch, steps + 1))
    texts = t.part(t.op("scatter_elements", texts, place, best, axis=1, reduction="none"), 1, 0, steps)
    peaks = t.op("where", counted, t.reduced("reduce_max", x, (2,)), t.scalar(0, x.dtype))
    score = t.op("neg", t.reduced("reduce_sum", peaks, (1,), True))
    return [t.reshape(t.cast(texts, "int32"), (1, batch, steps)), score]


OPERATIONS: dict[str, Translator] = {
    "adaptive_average_pool": _adaptive("reduce_mean"),
    "adaptive_max_pool": _adaptive("reduce_max"),
    "conv_transpose": _conv_transpose,
    "ctc_decode": _decoded,
    "extract_patches": _patches,
    "fold": _fold,
    "istft": _signal,
    "stft": _frames,
    "unfold": _unfold,
}
