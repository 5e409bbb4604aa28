"""Different elements and slices, what one list has and another lacks, and permutations."""

from __future__ import annotations

import re

from sterna.errors import error
from sterna.frontends.emitter import axes_of
from sterna.frontends.tensorflow.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.integer import as_int


def unique(t: Translation) -> tuple[Value, ...]:
    """UniqueV2 and those that count: different elements or slices as they come, which each is, how often they are."""
    x = t.input(0)
    axis = None
    if t.kind.endswith("V2"):
        axes = t.integers(1, "the axis")
        if len(axes) != 1 and not (x.type.rank == 1 and not axes):
            raise error("E0108", f"{t.kind} of {x.type} along {axes}")
        axis = None if x.type.rank == 1 and not axes else axes_of(axes, x.type.rank)[0]
        axis = None if x.type.rank == 1 else axis
    along = axis or 0
    most = x.shape[along].bounds()[1] if x.type.rank else None
    if not most or (axis is None and x.type.rank != 1):
        raise t.unsupported(f"of {x.type}")
    values, _, inverse, counts, count = t.builder.add_all(
        "unique", x, size=most, axis=axis, sorted=False, sources=t.sources, name=f"{t.name}/unique"
    )
    symbol = t.builder.name("different_" + re.sub(r"\W", "_", t.name))
    size = t.builder.bind_size(count, symbol, 1, most, sources=t.sources)

    def cut(y: Value, place: int) -> Value:
        sizes = [size if n == place else s for n, s in enumerate(y.shape)]
        return t.op("slice", y, starts=(0,) * y.type.rank, sizes=tuple(sizes), steps=(1,) * y.type.rank)

    kind = t.dtype("out_idx", "int32")
    found = cut(values, along), t.cast(inverse, kind)
    return (*found, t.cast(cut(counts, 0), kind)) if "Counts" in t.kind else found


def list_difference(t: Translation) -> tuple[Value, Value]:
    """ListDiff: what of x is not in y, and where it stands."""
    x, y = t.input(0), t.input(1)
    if x.type.rank != 1 or y.type.rank != 1:
        raise error("E0108", f"{t.kind} of {x.type} and {y.type}")
    same = t.op("equal", t.reshape(x, (*x.shape, 1)), t.reshape(y, (1, *y.shape)))
    alone = t.op("logical_not", t.op("reduce_any", same, axes=(1,), keep_dims=False))
    most = x.shape[0].bounds()[1]
    if not most:
        raise t.unsupported(f"of {x.type}")
    places, count = t.builder.add_all("non_zero", alone, size=most, sources=t.sources, name=f"{t.name}/non_zero")
    symbol = t.builder.name("rest_" + re.sub(r"\W", "_", t.name))
    size = t.builder.bind_size(count, symbol, 0, most, sources=t.sources)
    at = t.reshape(t.op("slice", places, starts=(0, 0), sizes=(1, size), steps=(1, 1)), (size,))
    return t.op("gather", x, at, axis=0), t.cast(at, t.dtype("out_idx", "int32"))


def invert_permutation(t: Translation) -> Value:
    x = t.input(0)
    if x.type.rank != 1:
        raise error("E0108", f"{t.kind} of {x.type}")
    zeros = t.op("expand", t.scalar(0, x.dtype), shape=x.shape)
    return t.op(
        "scatter_nd", zeros, t.reshape(x, (*x.shape, 1)), t.counting(as_int(x.shape[0]), x.dtype), reduction="none"
    )


TRANSLATORS: dict[str, Translator] = {
    "InvertPermutation": invert_permutation, "ListDiff": list_difference, "UniqueV2": unique,
    "UniqueWithCountsV2": unique,
}  # fmt: skip
