"""What all changes of models are made of: bytes, fields of messages, places of a JSON value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from random import Random
from typing import Any

from google.protobuf.message import Message

INTEGERS = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 64, 100, 127, 128, 255, 256, -1, -2, -3, -128),
    *(2**15, 2**16, 2**20, 2**24, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**31), -(2**63)),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 3e38, -3e38, 1e300, float("nan"), float("inf"), -float("inf"))
SINGLES = tuple(value for value in FLOATS if abs(value) < 1e300 or not isfinite(value))
TEXTS = ("", "x", "y", "\0", "a" * 300, "ä\u202e", "../../x", "1", "-1", "nan", "SAME_UPPER", "VALID")


@dataclass(frozen=True)
class Stock:
    """What changes of a model draw on: other models of its format, and the names of its format's operators."""

    models: Sequence[bytes] = ()
    words: Sequence[str] = ()


def damaged(content: bytes, random: Random, pool: Stock) -> bytes:
    """Some bytes changed, moved, repeated or left out."""
    data = bytearray(content)
    if not data:
        return bytes([random.randrange(256)])
    at = random.randrange(len(data))
    length = random.choice((1, 1, 2, 4, 8, 16, 64))
    kind = random.randrange(8)
    if kind == 0:
        data[at] ^= 1 << random.randrange(8)
    elif kind == 1:
        data[at] = random.randrange(256)
    elif kind == 2:
        size = random.choice((1, 2, 4, 8))
        number = random.choice(INTEGERS) % (1 << 8 * size)
        data[at : at + size] = number.to_bytes(size, random.choice(("little", "big")))
    elif kind == 3:
        del data[at : at + length]
    elif kind == 4:
        data[at:at] = data[at : at + length]
    elif kind == 5:
        data[at:at] = bytes(random.randrange(256) for _ in range(length))
    elif kind == 6:
        del data[at:]
    elif pool.models:
        other = random.choice(pool.models)
        begin = random.randrange(len(other) or 1)
        data[at : at + length] = other[begin : begin + length]
    return bytes(data)


def messages(message: Any) -> list[Any]:
    found = [message]
    for field, value in message.ListFields():
        if _is_map(field):
            found += [inner for item in value.values() if isinstance(item, Message) for inner in messages(item)]
        elif field.message_type is not None:
            for item in [value] if isinstance(value, Message) else list(value):
                found += messages(item)
    return found


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def change_field(chosen: Any, names: Sequence[str], random: Random) -> None:
    """Another value for a field of a message, or none."""
    fields = chosen.DESCRIPTOR.fields
    present = [field for field, _ in chosen.ListFields()]
    field = random.choice(present if present and random.random() < 0.8 else fields)
    if _is_map(field):
        _change_map(getattr(chosen, field.name), names, random)
    elif field.is_repeated:
        _change_list(getattr(chosen, field.name), field, names, random)
    elif field.message_type is not None:
        if random.random() < 0.3:
            chosen.ClearField(field.name)
        else:
            getattr(chosen, field.name).SetInParent()
    elif random.random() < 0.1:
        chosen.ClearField(field.name)
    else:
        setattr(chosen, field.name, _scalar(field, getattr(chosen, field.name), names, random))


def _change_map(values: Any, names: Sequence[str], random: Random) -> None:
    """A key less, or a value under another key; keys are texts or numbers."""
    if not values:
        return
    key = random.choice(sorted(values))
    other = random.choice(sorted(values) if isinstance(key, int) or random.random() < 0.5 else [*names, *TEXTS])
    if random.random() < 0.4:
        del values[key]
    elif isinstance(values[key], Message):
        held = type(values[key])()
        held.CopyFrom(values[key])
        values[other].CopyFrom(held)
    else:
        values[other] = values[key]


def _change_list(values: Any, field: Any, names: Sequence[str], random: Random) -> None:
    kind, count = random.randrange(5), len(values)
    if not count or kind == 0:
        if field.message_type is not None:
            made = values.add()
            if count:
                made.CopyFrom(values[random.randrange(count)])
        else:
            values.append(_scalar(field, values[0] if count else None, names, random))
    elif kind == 1:
        del values[random.randrange(count)]
    elif kind == 2 and count > 1:
        a, b = random.randrange(count), random.randrange(count)
        if field.message_type is None:
            values[a], values[b] = values[b], values[a]
        else:
            held = type(values[a])()
            held.CopyFrom(values[a])
            values[a].CopyFrom(values[b])
            values[b].CopyFrom(held)
    elif field.message_type is None:
        place = random.randrange(count)
        values[place] = _scalar(field, values[place], names, random)
    else:
        del values[:]


def _scalar(field: Any, old: Any, names: Sequence[str], random: Random) -> Any:
    if field.cpp_type == field.CPPTYPE_STRING:
        if field.type == field.TYPE_BYTES:
            return damaged(bytes(old or b""), random, Stock())
        return random.choice(names) if names and random.random() < 0.7 else random.choice(TEXTS)
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return random.choice(SINGLES)
    if field.cpp_type == field.CPPTYPE_ENUM:
        return random.choice(field.enum_type.values).number
    near = (old or 0) + random.choice((-1, 1, 2))
    number = near if random.random() < 0.4 else random.choice(INTEGERS)
    low, high = {
        field.CPPTYPE_INT32: (-(2**31), 2**31 - 1), field.CPPTYPE_UINT32: (0, 2**32 - 1),
        field.CPPTYPE_UINT64: (0, 2**64 - 1),
    }.get(field.cpp_type, (-(2**63), 2**63 - 1))  # fmt: skip
    return min(max(number, low), high)


def changed_value(document: Any, random: Random, words: Sequence[str]) -> Any:
    """A JSON value with one place in it changed."""
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            visit(value[key])

    visit(document)
    if not places:
        return random.choice((document, [], {}, None, 1))
    holder, key = random.choice(places)
    kind = random.randrange(6)
    if isinstance(holder[key], str) and words and random.random() < 0.3:
        holder[key] = random.choice(words)
    elif kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif kind == 2:
        other, from_key = random.choice(places)
        if from_key in other if isinstance(other, dict) else from_key < len(other):
            holder[key] = json.loads(json.dumps(other[from_key]))
    elif kind == 3:
        for _ in range(random.choice((1, 10, 400))):
            holder[key] = [holder[key]]
    elif kind == 4 and isinstance(holder[key], int) and abs(holder[key]) < 1 << 60:
        holder[key] = random.choice((holder[key] + 1, holder[key] - 1, -holder[key], 0))
    else:
        numbers = [str(n) if isinstance(holder[key], str) else n for n in (*INTEGERS, *FLOATS)]
        holder[key] = random.choice([*numbers, *numbers, *TEXTS, None, True, [], {}])
    return document


def texts_of(message: Any) -> list[str]:
    """The texts in a message: names of nodes, operators, tensors."""
    found = set()
    for each in messages(message):
        for field, value in each.ListFields():
            if field.cpp_type == field.CPPTYPE_STRING and field.type != field.TYPE_BYTES:
                found.update([value] if isinstance(value, str) else [text for text in value if isinstance(text, str)])
    return sorted(found)
