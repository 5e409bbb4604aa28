"""Elements by their positions."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.pytorch.operators.found import places_of
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.ir.graph import Value


def gather(t: Translation) -> Value:
    x, index = t.tensor(), t.cast(t.tensor("index"), "int64")
    if not x.type.rank:
        return t.expand(x, index.shape)
    if index.type.rank != x.type.rank:  # an index without dimensions takes one element
        index = t.reshape(index, (1,) * x.type.rank)
        return t.reshape(t.op("gather_elements", x, index, axis=t.dim()), ())
    axis = t.dim()
    # The index may be smaller than the tensor along the other dimensions.
    for n in range(x.type.rank):
        if n != axis and index.shape[n] != x.shape[n]:
            x = t.cut(x, n, 0, index.shape[n])
    return t.op("gather_elements", x, index, axis=axis)


def take_along(t: Translation) -> Value:
    x, index = t.tensor(), t.tensor("indices")
    if t.arg("dim") is None:
        flat = t.reshape(x, (x.type.elements,))
        index = t.reshape(index, (index.type.elements,))
        return t.op("gather_elements", flat, index, axis=0)
    axis = t.dim()
    wide = [size if n != axis else index.shape[n] for n, size in enumerate(t.broadcast(
        t.cut(x, axis, 0, 1), t.cut(index, axis, 0, 1)))]  # fmt: skip
    x_shape = [size if n != axis else x.shape[n] for n, size in enumerate(wide)]
    return t.op("gather_elements", t.expand(x, x_shape), t.expand(index, wide), axis=axis)


def index_select(t: Translation) -> Value:
    x, index = t.tensor(), t.tensor("index")
    if not x.type.rank:
        return x
    flat = t.reshape(index, (index.type.elements,))
    return t.op("gather", x, flat, axis=t.dim())


def embedding(t: Translation) -> Value:
    return t.op("gather", t.tensor("weight"), t.tensor("indices"), axis=0)


def take(t: Translation) -> Value:
    x, index = t.tensor(), t.tensor("index")
    return t.op("gather", t.reshape(x, (x.type.elements,)), t.clamp_index(index, x.type.elements), axis=0)


def indices_of(t: Translation, x: Value) -> list[Value | None]:
    """The index of every dimension, masks as positions; None where all elements are meant."""
    found: list[Value | None] = []
    for item in t.arg("indices", []):
        if item is None:
            found.append(None)
            continue
        index = t.as_value(item)
        if index.dtype in ("bool", "uint8"):
            found += places_of(t, t.cast(index, "bool"))
        else:
            found.append(t.cast(index, "int64"))
    if len(found) > x.type.rank:
        raise error("E0108", f"{len(found)} indices for {x.type}")
    return found + [None] * (x.type.rank - len(found))


def masked_indices(t: Translation, mask: Value) -> list[Value | None]:
    """The indices where a mask holds, and 0, which is always there, elsewhere."""
    given = [each if each is None else t.as_value(each) for each in t.arg("indices", [])]
    return [each if each is None else t.op("where", mask, each, t.scalar(0, each.dtype)) for each in given]


def layout_of(indices: list[Value | None]) -> tuple[list[int], list[int], int]:
    """(indexed dimensions, the others, where the index's dimensions go in the result)."""
    indexed = [n for n, index in enumerate(indices) if index is not None]
    rest = [n for n, index in enumerate(indices) if index is None]
    together = bool(indexed) and indexed == list(range(indexed[0], indexed[-1] + 1))
    return indexed, rest, indexed[0] if together else 0


def index(t: Translation) -> Value:
    """x[i, :, j] with tensors as indices, which broadcast (advanced indexing of NumPy)."""
    x = t.tensor()
    indices = indices_of(t, x)
    indexed, rest, place = layout_of(indices)
    values = [each for each in indices if each is not None]
    if not values:
        return x
    if len(indexed) == 1:
        return t.op("gather", x, t.clamp_index(values[0], x.shape[indexed[0]]), axis=indexed[0])
    shape = t.broadcast(*values)
    parts = [
        t.unsqueeze(t.expand(t.clamp_index(each, x.shape[n]), shape), len(shape))
        for each, n in zip(values, indexed, strict=True)
    ]
    found = t.op("gather_nd", t.transpose(x, (*indexed, *rest)), t.op("concat", *parts, axis=len(shape)))
    count = len(shape)
    if not place:
        return found
    order = [*range(count, count + place), *range(count), *range(count + place, found.type.rank)]
    return t.transpose(found, order)


def index_by_mask(t: Translation) -> Value:
    """x[i, j] where a mask holds, and one number elsewhere, where the indices do not count (_unsafe_masked_index)."""
    mask = t.tensor("mask")
    found = index(t.having(indices=masked_indices(t, mask)))
    return t.op("where", mask, found, t.as_value(t.arg("fill", 0), found.dtype))


def _named(function: Translator, *names: str) -> dict[str, Translator]:
    return {f"aten.{name}": function for name in names}


TRANSLATORS: dict[str, Translator] = {
    **_named(gather, "gather.default"), **_named(take_along, "take_along_dim.default"),
    **_named(index_select, "index_select.default"), **_named(embedding, "embedding.default"),
    **_named(take, "take.default"),
    **_named(index_by_mask, "_unsafe_masked_index.default"),
    **_named(index, "index.Tensor", "_unsafe_index.Tensor", "_index.Tensor"),
}  # fmt: skip
