"""Lists: tensors of their elements, the first dimension counting them."""

from __future__ import annotations

from dataclasses import dataclass

from sterna.errors import error
from sterna.frontends.coreml.mil.constants import TYPES
from sterna.frontends.coreml.mil.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.limits import check_table


@dataclass(frozen=True)
class Unwritten:
    """A list whose elements have a shape that what is written first decides."""

    length: int
    dtype: str


def _make(t: Translation) -> Value | Unwritten:
    length = t.integer("init_length", 1)
    name = t.text("dtype", "fp32").upper().replace("FP", "FLOAT")
    if length < 0 or name not in TYPES:
        raise error("E0109", f"a list of {length} elements of {name}")
    shape = t.arguments.get("elem_shape")
    sizes = shape if isinstance(shape, list) else [] if shape is None else [shape]
    known = [size for size in sizes if isinstance(size, Value) and size.data is not None]
    if shape is None or len(known) != len(sizes):  # a text stands for a size that is computed
        return Unwritten(length, TYPES[name])
    extents = [int(n) for size in known if size.data is not None for n in size.data.reshape(-1)]
    check_table(length, *extents)
    return t.op("expand", t.scalar(0, TYPES[name]), shape=(length, *extents))


def _held(t: Translation) -> Value:
    """The elements.

    Raises:
        SternaError: E0103, E0107.
    """
    held: object = t.arguments.get("ls")
    if isinstance(held, Unwritten):
        raise error("E0107", f"{t.kind} of a list to which nothing was written needs elements of a constant shape")
    return t.arg("ls")


def _grown(t: Translation, like: tuple[object, ...], dtype: str, most: int | None) -> Value:
    """The elements, zeros at the end where positions up to `most` lie beyond them."""
    held: object = t.arguments.get("ls")
    if isinstance(held, Unwritten):
        x = t.op("expand", t.scalar(0, dtype), shape=(max(held.length, (most or 0) + 1), *like))
    else:
        x = t.arg("ls")
    size = x.shape[0]
    if most is not None and size.is_const and most >= int(size):
        check_table(most + 1, *(int(n) for n in x.shape[1:] if n.is_const))
        zeros = [0] * (x.type.rank - 1)
        x = t.pad(x, (0, *zeros), (most + 1 - int(size), *zeros))
    return x


def _write(t: Translation) -> Value:
    """One element. A list grows where it is written to behind its end, at a position that is known."""
    value, index = t.arg("value"), t.arg("index")
    most = None if index.data is None else int(index.data.reshape(-1)[0])
    x = _grown(t, value.shape, value.dtype, most)
    update = t.reshape(t.cast(value, x.dtype), (1, *value.shape))
    return standard(t, "ScatterND", x, t.reshape(t.cast(index, "int64"), (1, 1)), update)


def _scatter(t: Translation) -> Value:
    """Several elements."""
    value, indices = t.arg("value"), t.arg("indices")
    most = None if indices.data is None or not indices.data.size else int(indices.data.max())
    x = _grown(t, value.shape[1:], value.dtype, most)
    places = t.reshape(t.cast(indices, "int64"), (*indices.shape, 1))
    return standard(t, "ScatterND", x, places, t.cast(value, x.dtype))


def _read(t: Translation) -> Value:
    return standard(t, "Gather", _held(t), t.reshape(t.cast(t.arg("index"), "int64"), ()), axis=0)


def _gather(t: Translation) -> Value:
    return standard(t, "Gather", _held(t), t.cast(t.arg("indices"), "int64"), axis=0)


def _length(t: Translation) -> Value:
    held: object = t.arguments.get("ls")
    if isinstance(held, Unwritten):
        return t.scalar(held.length, "int32")
    return t.reshape(t.cast(t.dimensions([t.arg("ls").shape[0]]), "int32"), ())


TRANSLATORS: dict[str, Translator] = {
    "list_gather": _gather,
    "list_length": _length,
    "list_read": _read,
    "list_scatter": _scatter,
    "list_write": _write,
    "make_list": _make,  # type: ignore[dict-item]
}
