"""Constants, numbers in order, and the sizes of tensors."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import as_int


def shape_array(t: Translation) -> Value:
    return t.dimensions(t.input(0).shape)


def size_array(t: Translation) -> Value:
    return t.dimensions([t.elements(t.input(0))])


def filled(t: Translation) -> Value:
    """Constants of a shape. A size that is left open, as in the first states of a layer, is 1: it broadcasts."""
    sizes = t.said.integers("shape", (1,))
    if min(sizes, default=1) < 0 and not (min(sizes) == -1 and not t.is_numpy):
        raise error("E0109", f"{t.kind} of {list(sizes)}")
    shape = [max(size, 0 if t.is_numpy else 1) for size in sizes]
    dtype = t.dtype("float32")
    return t.op("expand", t.scalar(_content(t), dtype), shape=tuple(map(as_int, shape)))


def filled_like(t: Translation) -> Value:
    x = t.input(0)
    dtype = t.dtype(x.dtype)
    return t.op("expand", t.scalar(_content(t), dtype), shape=x.shape)


def _content(t: Translation) -> float:
    if "full" in t.kind:
        return t.said.finite("value" if t.said.has("value") else "fill_value", 0.0)
    return 1.0 if "ones" in t.kind else 0.0


_MOST_NUMBERS = 1 << 24


def arange(t: Translation) -> Value:
    start = t.said.finite("start", 0.0)
    stop = t.said.finite("stop") if t.said.has("stop") else None
    step, times = t.said.finite("step", 1.0), t.said.integer("repeat", 1)
    if t.said.flag("infer_range"):
        raise t.unsupported("whose end is open")
    if stop is None:
        start, stop = 0.0, start
    if step == 0 or times < 1 or abs((stop - start) / step) * times > _MOST_NUMBERS:
        raise error("E0109", f"{t.kind} from {start} to {stop} by {step}")
    return t.constant(np.repeat(np.arange(start, stop, step), times), t.dtype("float32"))


def arange_like(t: Translation) -> Value:
    """Numbers in order, as many as a tensor has elements, or one of its dimensions."""
    x = t.input(0)
    start, step, times = t.said.finite("start", 0.0), t.said.finite("step", 1.0), t.said.integer("repeat", 1)
    axis = t.axis("axis") if t.said.has("axis") else None
    size = t.elements(x) if axis is None else x.shape[axis]
    if times < 1:
        raise error("E0109", f"{t.kind} with {times} repetitions")
    numbers = t.counting(size)
    if times > 1:
        numbers = t.op("div", numbers, t.scalar(times, "int64"))
    y = t.cast(numbers, x.dtype)
    y = t.op("add", t.op("mul", y, t.number(step, y)), t.number(start, y)) if (start, step) != (0, 1) else y
    return t.reshape(y, x.shape) if axis is None else y


def linspace(t: Translation) -> Value:
    count = t.said.integer("num", 50)
    if not 0 <= count <= _MOST_NUMBERS:
        raise error("E0109", f"{t.kind} of {count} numbers")
    values = np.linspace(
        t.said.finite("start"), t.said.finite("stop"), count, endpoint=t.said.flag("endpoint", default=True)
    )
    return t.constant(values, t.dtype("float32"))


def eye(t: Translation) -> Value:
    rows = t.said.integer("N", 0)
    columns = t.said.integer("M", 0) or rows
    if min(rows, columns) < 0 or rows * columns > _MOST_NUMBERS:
        raise error("E0109", f"{t.kind} of {rows} x {columns}")
    return t.constant(np.eye(rows, columns, t.said.integer("k", 0)), t.dtype("float32"))


TRANSLATORS: dict[str, Translator] = {
    **dict.fromkeys(("_arange", "_npi_arange"), arange),
    **dict.fromkeys(("_contrib_arange_like", "_npx_arange_like"), arange_like),
    **dict.fromkeys(("_linspace", "_npi_linspace"), linspace),
    **dict.fromkeys(("_eye", "_npi_eye"), eye),
    **dict.fromkeys(
        ("_full", "_ones", "_zeros", "_zeros_without_dtype", "_npi_full", "_npi_ones", "_npi_zeros"), filled
    ),
    **dict.fromkeys(("ones_like", "zeros_like", "_npi_full_like"), filled_like),
    **dict.fromkeys(("shape_array", "_npx_shape_array"), shape_array),
    "size_array": size_array,
}
