"""TensorArrays (version 3) and TensorLists: tensors of their elements, written one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sterna.errors import SternaError, error
from sterna.frontends.emitter import MOST_PARTS
from sterna.frontends.tensorflow.translation import Item, Rows, Translation, Translator
from sterna.ir.graph import Value
from sterna.ir.limits import check_table


def _list(t: Translation, position: int) -> Rows:
    item = t.item(position)
    if not isinstance(item, Rows):
        raise error("E0108", f"{t.kind} takes a list")
    return item


def _value(t: Translation, rows: Rows) -> Value:
    """The elements as a tensor; zeros where nothing was written."""
    if rows.value is not None:
        return rows.value
    if rows.parts:
        if any(part.type != rows.parts[0].type for part in rows.parts):
            raise error("E0107", f"{t.kind} of a list needs elements of one size")
        ones = [t.reshape(part, (1, *part.shape)) for part in rows.parts]
        return t.op("concat", *ones, axis=0) if len(ones) > 1 else ones[0]
    if rows.shape is None or any(n < 0 for n in rows.shape) or rows.size is None:
        raise error("E0107", f"{t.kind} of a list to which nothing was written needs a constant shape")
    return t.op("expand", t.scalar(0, rows.dtype), shape=(rows.size, *rows.shape))


def _size(t: Translation, position: int) -> int | None:
    try:
        return t.integer_of(position, "a size")
    except SternaError:
        raise t.unknown(position, "the size of a list") from None


def array(t: Translation) -> tuple[Item, ...]:
    shape = t.option("element_shape", None)
    grows = bool(t.option("dynamic_size", False))
    shape = shape if isinstance(shape, tuple) else None
    rows = Rows(None, _size(t, 0), t.dtype("dtype"), shape, () if grows else None)
    return rows, rows


def reserve(t: Translation) -> Item:
    """TensorListReserve: element shape, how many."""
    known = t.array_or_none(0)
    shape = None if known is None or known.ndim == 0 else tuple(int(n) for n in known)
    size = _size(t, 1)
    return Rows(None, size, t.dtype("element_dtype"), shape, () if size == 0 else None)


def empty(t: Translation) -> Item:
    known = t.array_or_none(0)
    shape = None if known is None or known.ndim == 0 else tuple(int(n) for n in known)
    return Rows(None, 0, t.dtype("element_dtype"), shape)


def whole(t: Translation) -> Item:
    x = t.input(0)
    return Rows(x, None, x.dtype)


def _written(t: Translation, rows: Rows, index: Value, value: Value) -> Rows:
    if rows.parts is not None and index.data is not None and rows.value is None:
        at = int(index.data.reshape(-1)[0])
        if 0 <= at < len(rows.parts):
            return replace(rows, parts=(*rows.parts[:at], value, *rows.parts[at + 1 :]), dtype=value.dtype)
        if at == len(rows.parts):
            return replace(rows, parts=(*rows.parts, value), dtype=value.dtype)
        raise t.unsupported("beyond the end of a list that grows")
    if rows.value is None:
        if not rows.size:
            raise t.unsupported("to a list that grows, in a loop whose iterations are not known,")
        zero = t.scalar(0, value.dtype)
        held = t.op("expand", zero, shape=(rows.size, *value.shape))
    else:
        held = rows.value
    update = t.reshape(value, (1, *value.shape))
    made = t.op("scatter_nd", held, t.reshape(t.cast(index, "int64"), (1, 1)), update, reduction="none")
    return Rows(made, rows.size, value.dtype, rows.shape)


def array_write(t: Translation) -> Item:
    """handle, index, value, flow."""
    return _written(t, _list(t, 3), t.input(1), t.input(2))


def set_item(t: Translation) -> Item:
    return _written(t, _list(t, 0), t.input(1), t.input(2))


def _read(rows_at: int) -> Translator:
    def translate(t: Translation) -> Value:
        rows, index = _list(t, rows_at), t.array_or_none(1)
        if rows.parts and index is not None and 0 <= int(index.reshape(-1)[0]) < len(rows.parts):
            return rows.parts[int(index.reshape(-1)[0])]
        return t.op("gather", _value(t, rows), t.input(1), axis=0)

    return translate


def array_scatter(t: Translation) -> Item:
    """handle, indices, values, flow: all elements, in whatever order."""
    rows, value = _list(t, 3), t.input(2)
    places = t.array_or_none(1)
    in_order = places is not None and places.tolist() == list(range(len(places)))
    if in_order or (rows.size == value.shape[0] and places is None and t.input(1).contents is not None):
        return Rows(value, rows.size, value.dtype)
    held = rows.value
    if held is None:
        held = t.op("expand", t.scalar(0, value.dtype), shape=(rows.size, *value.shape[1:]))
    index = t.reshape(t.cast(t.input(1), "int64"), (*t.input(1).shape, 1))
    return Rows(t.op("scatter_nd", held, index, value, reduction="none"), rows.size, value.dtype)


def array_gather(t: Translation) -> Value:
    """handle, indices, flow."""
    return t.op("gather", _value(t, _list(t, 2)), t.input(1), axis=0)


def list_gather(t: Translation) -> Value:
    return t.op("gather", _value(t, _list(t, 0)), t.input(1), axis=0)


def stack(t: Translation) -> Value:
    return _value(t, _list(t, 0))


def _joined(t: Translation, rows: Rows) -> tuple[Value, ...]:
    """The elements along their first dimension; and how long each is."""
    if rows.parts:
        if any(part.type.rank == 0 or part.shape[1:] != rows.parts[0].shape[1:] for part in rows.parts):
            raise error("E0108", f"{t.kind} of elements that do not fit together")
        lengths = t.op("concat", *(t.dimensions([part.shape[0]]) for part in rows.parts), axis=0)
        return (t.op("concat", *rows.parts, axis=0) if len(rows.parts) > 1 else rows.parts[0]), lengths
    x = _value(t, rows)
    count, each = x.shape[0], x.shape[1]
    lengths = t.op("expand", t.reshape(t.cast(t.dimensions([each]), "int64"), ()), shape=(count,))
    return t.reshape(x, (count * each, *x.shape[2:])), lengths


def array_concat(t: Translation) -> tuple[Value, ...]:
    return _joined(t, _list(t, 1))


def list_concat(t: Translation) -> tuple[Value, ...]:
    return _joined(t, _list(t, 0))


def _length(position: int) -> Translator:
    def translate(t: Translation) -> Value:
        rows = _list(t, position)
        if rows.parts is not None and rows.value is None:
            return t.constant(len(rows.parts), "int32")
        if rows.value is not None:
            return t.cast(t.reshape(t.dimensions([rows.value.shape[0]]), ()), "int32")
        return t.constant(rows.size or 0, "int32")

    return translate


def push_back(t: Translation) -> Item:
    rows, x = _list(t, 0), t.input(1)
    one = t.reshape(x, (1, *x.shape))
    return Rows(one if rows.value is None else t.op("concat", rows.value, one, axis=0), None, x.dtype)


def pop_back(t: Translation) -> tuple[Item, ...]:
    rows = _value(t, _list(t, 0))
    size = t.extent(rows, 0)
    if size < 1:
        raise error("E0108", "TensorListPopBack of an empty list")
    last = t.op("gather", rows, t.constant(size - 1, "int64"), axis=0)
    rest = t.op(
        "slice", rows, starts=(0,) * rows.type.rank, sizes=(size - 1, *rows.shape[1:]), steps=(1,) * rows.type.rank
    )
    return Rows(rest, size - 1, rows.dtype), last


def scatter(t: Translation) -> Item:
    """TensorListScatter and its like: tensor, places, and sizes; or a list into which the rows are written."""
    into = t.kind == "TensorListScatterIntoExistingList"
    rows, value, index = _list(t, 0) if into else None, t.input(int(into)), t.input(1 + int(into))
    places = t.array_or_none(1 + int(into))
    if rows is not None and rows.size is None and rows.value is not None:
        size: int | None = t.extent(rows.value, 0)
    elif rows is not None:
        size = rows.size
    elif t.kind == "TensorListScatterV2" and t.integer_of(3, "how many elements") >= 0:
        size = t.integer_of(3, "how many elements")
    elif places is not None:
        size = int(places.max(initial=-1)) + 1
    else:
        raise t.unknown(1, "the places")
    if places is not None and places.tolist() == list(range(size or 0)):
        return Rows(value, size, value.dtype)
    if places is not None and places.size and not 0 <= int(places.min()) <= int(places.max()) < (size or 0):
        raise error("E0108", f"{t.kind} beyond a list of {size} elements")
    held = None if rows is None else rows.value
    if held is None:
        check_table(size or 0, *(t.extent(value, n) for n in range(1, value.type.rank)))
        held = t.op("expand", t.scalar(0, value.dtype), shape=(size or 0, *value.shape[1:]))
    index = t.reshape(t.cast(index, "int64"), (*index.shape, 1))
    return Rows(t.op("scatter_nd", held, index, value, reduction="none"), size, value.dtype)


def parts_of(t: Translation) -> Item:
    """TensorListSplit and TensorArraySplitV3: the parts of a tensor, of known lengths, as elements."""
    of_array = t.kind == "TensorArraySplitV3"
    x = t.input(1 if of_array else 0)
    lengths = t.integers(2, "the lengths of the parts")
    if not x.type.rank or not lengths or min(lengths) < 0 or sum(lengths) != t.extent(x, 0):
        raise error("E0108", f"{t.kind} of {x.type} into {lengths}")
    if len(set(lengths)) == 1:
        each = t.reshape(x, (len(lengths), lengths[0], *x.shape[1:]))
        return Rows(each, len(lengths), x.dtype)
    if len(lengths) > MOST_PARTS:
        raise error("E0112", f"{t.kind} into {len(lengths)} parts")
    parts, start, zeros = [], 0, (0,) * (x.type.rank - 1)
    for length in lengths:
        sizes = (length, *x.shape[1:])
        parts.append(t.op("slice", x, starts=(start, *zeros), sizes=sizes, steps=(1,) * x.type.rank))
        start += length
    return Rows(None, len(lengths), x.dtype, None, tuple(parts))


def resized(t: Translation) -> Item:
    """TensorListResize: the first elements of a list, or zeros after its last one."""
    rows, size = _list(t, 0), _size(t, 1)
    assert size is not None
    if size < 0:
        raise error("E0108", f"{t.kind} to {size} elements")
    if rows.parts is not None and rows.value is None:
        if size > len(rows.parts):
            return rows  # writing beyond the end makes it longer
        return replace(rows, parts=rows.parts[:size], size=size)
    if rows.value is None:
        return replace(rows, size=size)
    x = rows.value
    have, zeros = t.extent(x, 0), (0,) * (x.type.rank - 1)
    check_table(size, *(t.extent(x, n) for n in range(1, x.type.rank)))
    if size > have:
        return Rows(t.pad(x, (0, *zeros), (size - have, *zeros)), size, x.dtype)
    kept = t.op("slice", x, starts=(0, *zeros), sizes=(size, *x.shape[1:]), steps=(1,) * x.type.rank)
    return Rows(kept, size, x.dtype)


def joined_lists(t: Translation) -> Item:
    """TensorListConcatLists: the elements of two lists, one list after the other."""
    a, b = (_list(t, n) for n in (0, 1))
    lists = [_value(t, rows) for rows in (a, b) if rows.value is not None or rows.parts or rows.size]
    if not lists:
        return a
    return Rows(lists[0] if len(lists) == 1 else t.op("concat", *lists, axis=0), None, lists[0].dtype)


def nothing(t: Translation) -> tuple[Any, ...]:
    return ()


TRANSLATORS: dict[str, Translator] = {
    "EmptyTensorList": empty, "TensorArrayCloseV3": nothing, "TensorArrayConcatV3": array_concat,
    "TensorArrayGatherV3": array_gather, "TensorArrayReadV3": _read(2), "TensorArrayScatterV3": array_scatter,
    "TensorArraySizeV3": _length(1), "TensorArrayV3": array, "TensorArrayWriteV3": array_write,
    "TensorListConcat": list_concat, "TensorListConcatV2": list_concat, "TensorListFromTensor": whole,
    "TensorListGather": list_gather, "TensorListGetItem": _read(0), "TensorListLength": _length(0),
    "TensorListPopBack": pop_back, "TensorListPushBack": push_back, "TensorListReserve": reserve,
    "TensorListSetItem": set_item, "TensorListStack": stack, "TensorArraySplitV3": parts_of,
    "TensorListConcatLists": joined_lists, "TensorListResize": resized, "TensorListScatter": scatter,
    "TensorListScatterIntoExistingList": scatter, "TensorListScatterV2": scatter, "TensorListSplit": parts_of,
}  # fmt: skip
