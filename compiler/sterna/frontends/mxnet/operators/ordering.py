"""The greatest elements, and elements in order."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard_results
from sterna.ir.graph import Value


def ranked(t: Translation, x: Value, axis: int, count: int, *, largest: bool) -> tuple[Value, Value]:
    """(values, positions) of the greatest or the least elements, in order."""
    size = t.extent(x, axis)
    if not 0 < count <= size:
        raise error("E0109", f"{t.kind} of {count} elements of {size}")
    values, places = standard_results(
        t, "TopK", x, t.vector([count]), results=2, axis=axis, largest=int(largest), sorted=1
    )  # fmt: skip
    return values, places


def _chosen(t: Translation) -> tuple[Value, int]:
    """The tensor and the axis; without one all elements in one row."""
    x = t.input(0)
    if t.said.given.get("axis", "-1").strip() == "None":
        return t.reshape(x, [t.elements(x)]), 0
    return x, t.axis("axis", -1)


def top(t: Translation) -> tuple[Value, ...]:
    x, axis = _chosen(t)
    kind = t.said.choice("ret_typ", "indices", "indices", "value", "both", "mask")
    count = t.said.integer("k", 1)
    count = t.extent(x, axis) if count < 1 else count
    values, places = ranked(t, x, axis, count, largest=not t.said.flag("is_ascend"))
    if kind == "mask":
        row = t.op("equal", t.spread(places, x.type.rank), t.counting(x.shape[axis]))
        found = t.cast(t.op("reduce_any", row, axes=(axis,), keep_dims=False), x.dtype)
        return (t.back(found, axis, x.type.rank - 1) if axis != x.type.rank - 1 else found,)
    places = t.cast(places, t.dtype("float32"))
    return {"indices": (places,), "value": (values,), "both": (values, places)}[kind]


def sort(t: Translation) -> Value:
    x, axis = _chosen(t)
    largest = not t.said.flag("is_ascend", default=True)
    return ranked(t, x, axis, t.extent(x, axis), largest=largest)[0]


def argsort(t: Translation) -> Value:
    x, axis = _chosen(t)
    largest = not t.said.flag("is_ascend", default=True)
    places = ranked(t, x, axis, t.extent(x, axis), largest=largest)[1]
    return t.cast(places, t.dtype("int64" if t.kind.startswith("_np") else "float32"))


TRANSLATORS: dict[str, Translator] = {
    **dict.fromkeys(("argsort", "_npi_argsort"), argsort),
    **dict.fromkeys(("sort", "_npi_sort"), sort),
    **dict.fromkeys(("topk", "_npx_topk"), top),
}
