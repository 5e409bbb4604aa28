"""Pooling over windows, over everything, and to a given size."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.emitter import MOST_TAPS
from sterna.frontends.keras.translation import Translation, Translator
from sterna.ir.graph import Value


def _windows(operator: str, rank: int) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.x
        if x.type.rank != rank + 2:
            raise error("E0108", f"{t.kind} takes tensors of {rank + 2} dimensions, not {x.type}")
        first = x if t.channels_first else t.to_first(x)
        size = t.positive("pool_size" if "pool_size" in t.layer.config else "pool_length", rank, 2)
        strides = t.positive("strides", rank) if t.layer.config.get("strides") is not None else size
        padding = str(t.setting("padding", "valid")).lower()
        if padding not in ("same", "valid"):
            raise t.unsupported(f"with the padding {padding}")
        mode = "SAME_UPPER" if padding == "same" else "VALID"
        y = t.standard(operator, first, kernel_shape=size, strides=strides, auto_pad=mode)
        return y if t.channels_first else t.to_last(y)

    return translate


def _global(operator: str) -> Translator:
    def translate(t: Translation) -> Value:
        x, keep, mask = t.x, bool(t.setting("keepdims", False)), t.mask
        axes = tuple(range(2, x.type.rank) if t.channels_first else range(1, x.type.rank - 1))
        if mask is not None and operator == "reduce_mean" and x.type.rank == 3:
            counts = t.cast(t.reshape(mask, (*mask.shape, 1)), x.dtype)
            sums = t.reduced("reduce_sum", t.op("mul", x, counts), axes, keep)
            return t.op("div", sums, t.reduced("reduce_sum", counts, axes, keep))
        return t.reduced(operator, x, axes, keep)

    return translate


def adaptive(operator: str, rank: int) -> Translator:
    """Windows from floor(i * n / k) to ceil((i + 1) * n / k), one dimension after the other."""

    def translate(t: Translation) -> Value:
        x, sizes = t.x, t.positive("output_size", rank)
        if max(sizes) > MOST_TAPS:
            raise error("E0109", f"output_size is {list(sizes)}; {MOST_TAPS} windows along a dimension are the most")
        for n, size in enumerate(sizes):
            axis = n + (2 if t.channels_first else 1)
            extent = t.extent(x, axis)
            parts = []
            for i in range(size):
                start, end = i * extent // size, -(-(i + 1) * extent // size)
                parts.append(t.reduced(operator, t.part(x, axis, start, end - start), (axis,), keep=True))
            x = t.op("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
        return x

    return translate


_KINDS = (("Max", "MaxPool", "reduce_max"), ("Average", "AveragePool", "reduce_mean"))
LAYERS: dict[str, Translator] = {}
for _name, _pool, _reduce in _KINDS:
    for _rank in (1, 2, 3):
        LAYERS[f"{_name}Pooling{_rank}D"] = _windows(_pool, _rank)
        LAYERS[f"Adaptive{_name}Pooling{_rank}D"] = adaptive(_reduce, _rank)
        LAYERS[f"Global{_name}Pooling{_rank}D"] = _global(_reduce)
