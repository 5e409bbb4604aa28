"""Ways to damage a model: in its structure, so that it is still read as one, and in its bytes."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from math import isfinite
from random import Random
from typing import Any

import onnx
from google.protobuf.message import DecodeError, Message

from model_seeds import grown, ubjson
from sterna.frontends.onnx.operators import translators

_INTEGERS = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 64, 100, 127, 128, 255, 256, -1, -2, -3, -128),
    *(2**15, 2**16, 2**20, 2**24, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**31), -(2**63)),
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 3e38, -3e38, 1e300, float("nan"), float("inf"), -float("inf"))
_SINGLES = tuple(value for value in _FLOATS if abs(value) < 1e300 or not isfinite(value))
_TEXTS = ("", "x", "y", "\0", "a" * 300, "ä\u202e", "../../x", "1", "-1", "nan", "SAME_UPPER", "VALID")

Mutation = Callable[[bytes, Random, Sequence[bytes]], bytes]


def mutated(form: str, pool: Sequence[bytes], random: Random) -> bytes:
    """A damaged model of a format.

    Args:
        form: one of `model_seeds.SHARES`.
        pool: models of the format.
    """
    content = grown(random) if form == "grown" else random.choice(pool)
    if form == "grown" and random.random() < 0.7:
        return content
    structural = _STRUCTURAL[form]
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        if random.random() < 0.8:
            try:
                content = structural(content, random, pool)
            except RecursionError:  # nested deeper by every change, until it cannot be written any more
                content = damaged(content, random, pool)
        else:
            content = damaged(content, random, pool)
    return content


# ---------------------------------------------------------------- bytes
def damaged(content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
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
        number = random.choice(_INTEGERS) % (1 << 8 * size)
        data[at : at + size] = number.to_bytes(size, random.choice(("little", "big")))
    elif kind == 3:
        del data[at : at + length]
    elif kind == 4:
        data[at:at] = data[at : at + length]
    elif kind == 5:
        data[at:at] = bytes(random.randrange(256) for _ in range(length))
    elif kind == 6:
        del data[at:]
    elif pool:
        other = random.choice(pool)
        begin = random.randrange(len(other) or 1)
        data[at : at + length] = other[begin : begin + length]
    return bytes(data)


# ---------------------------------------------------------------- ONNX
def _onnx(content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        return damaged(content, random, pool)
    try:
        _change_message(model, random)
        return bytes(model.SerializeToString())
    except (ValueError, RecursionError):  # a name that is no text; more nesting than there is stack
        return damaged(content, random, pool)


def _change_message(model: onnx.ModelProto, random: Random) -> None:
    messages = [m for m in _messages(model) if not isinstance(m, onnx.StringStringEntryProto)]
    nodes = (m for m in messages if isinstance(m, onnx.NodeProto))
    # In a damaged file a name can be bytes that are no text.
    names = sorted({name for n in nodes for name in (*n.input, *n.output) if isinstance(name, str)})
    # Nodes and what they hold are most of what there is to get wrong.
    favoured = [m for m in messages if isinstance(m, (onnx.NodeProto, onnx.AttributeProto, onnx.TensorProto))]
    chosen = random.choice(favoured if favoured and random.random() < 0.7 else messages)
    if isinstance(chosen, onnx.NodeProto) and random.random() < 0.5:
        _change_node(chosen, names, random)
        return
    _change_field(chosen, names, random)


def _change_field(chosen: Any, names: Sequence[str], random: Random) -> None:
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


def _messages(message: Any) -> list[Any]:
    found = [message]
    for field, value in message.ListFields():
        if _is_map(field):
            found += [inner for item in value.values() if isinstance(item, Message) for inner in _messages(item)]
        elif field.message_type is not None:
            for item in [value] if isinstance(value, Message) else list(value):
                found += _messages(item)
    return found


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _change_node(node: onnx.NodeProto, names: Sequence[str], random: Random) -> None:
    """Another operator, or other operands."""
    kind = random.randrange(6)
    if kind == 0:
        node.domain, node.op_type = random.choice(_operators())
    elif kind == 1 and node.input:
        del node.input[random.randrange(len(node.input))]
    elif kind == 2:
        node.input.append(random.choice([*names, ""]))
    elif kind == 3 and node.input:
        node.input[random.randrange(len(node.input))] = random.choice([*names, "", ""])
    elif kind == 4 and len(node.input) > 1:
        order = list(node.input)
        random.shuffle(order)
        node.input[:] = order
    elif node.attribute:
        del node.attribute[random.randrange(len(node.attribute))]


@cache
def _operators() -> list[tuple[str, str]]:
    return sorted(translators())


def _change_map(values: Any, names: Sequence[str], random: Random) -> None:
    """A key less, or a value under another key; keys are texts or numbers."""
    if not values:
        return
    key = random.choice(sorted(values))
    other = random.choice(sorted(values) if isinstance(key, int) or random.random() < 0.5 else [*names, *_TEXTS])
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
            return damaged(bytes(old or b""), random, ())
        return random.choice(names) if names and random.random() < 0.7 else random.choice(_TEXTS)
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return random.choice(_SINGLES)
    if field.cpp_type == field.CPPTYPE_ENUM:
        return random.choice(field.enum_type.values).number
    near = (old or 0) + random.choice((-1, 1, 2))
    number = near if random.random() < 0.4 else random.choice(_INTEGERS)
    low, high = {
        field.CPPTYPE_INT32: (-(2**31), 2**31 - 1), field.CPPTYPE_UINT32: (0, 2**32 - 1),
        field.CPPTYPE_UINT64: (0, 2**64 - 1),
    }.get(field.cpp_type, (-(2**63), 2**63 - 1))  # fmt: skip
    return min(max(number, low), high)


# ---------------------------------------------------------------- TensorFlow Lite
def _tflite(content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
    import flatbuffers  # noqa: PLC0415  the seeds are there, so it is installed
    from ai_edge_litert import schema_py_generated as schema  # noqa: PLC0415

    try:
        model = schema.ModelT.InitFromPackedBuf(content, 0)
        _change_object(model, schema, random)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())
    except Exception:
        return damaged(content, random, pool)


def _change_object(model: Any, schema: Any, random: Random) -> None:
    objects: list[Any] = []
    _objects(model, objects)
    kinds = (schema.OperatorT, schema.TensorT, schema.QuantizationParametersT)
    favoured = [o for o in objects if isinstance(o, kinds) or type(o).__name__.endswith("OptionsT")]
    chosen = random.choice(favoured if favoured and random.random() < 0.8 else objects)
    if isinstance(chosen, schema.OperatorCodeT):
        number = random.choice(sorted(v for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)))
        chosen.builtinCode, chosen.deprecatedBuiltinCode = number, min(number, 127)
        return
    name = random.choice(sorted(vars(chosen)))
    value = getattr(chosen, name)
    setattr(chosen, name, _other(value, random, name))


def _objects(value: Any, found: list[Any]) -> None:
    if isinstance(value, list):
        for item in value:
            _objects(item, found)
    elif hasattr(value, "__dict__"):
        found.append(value)
        for item in vars(value).values():
            _objects(item, found)


def _other(value: Any, random: Random, name: str) -> Any:
    """Another value of the same kind, or none."""
    if value is None or random.random() < 0.08:
        return None if value is not None else random.choice((None, [0], [random.choice((0, 1, 2, -1))], b"x"))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        if name == "type" or name.endswith("Type"):
            return random.randrange(24)
        near = value + random.choice((-1, 1, 2))
        return min(max(near if random.random() < 0.6 else random.choice(_INTEGERS), -(2**31)), 2**31 - 1)
    if isinstance(value, float):
        return random.choice(_SINGLES)
    if isinstance(value, (bytes, str)):
        return random.choice(_TEXTS).encode()
    items = list(value) if not isinstance(value, list) else value
    kind = random.randrange(5)
    if not items or kind == 0:
        return [*items, *(items[:1] or [random.choice((0, 1, -1))])]
    place = random.randrange(len(items))
    if kind == 1:
        return items[:place] + items[place + 1 :]
    if kind == 2:
        other = random.randrange(len(items))
        items[place], items[other] = items[other], items[place]
    elif kind == 3 and not hasattr(items[place], "__dict__"):
        items[place] = _other(items[place].item() if hasattr(items[place], "item") else items[place], random, name)
    elif kind == 4:
        return items[:place]
    return items


# ---------------------------------------------------------------- boosted trees
def _json(content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return damaged(content, random, pool)
    return json.dumps(_changed_value(document, random)).encode()


def _ubjson(content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
    from sterna.frontends.boosted import ubjson as reader  # noqa: PLC0415  only this format needs it

    try:
        document = reader.loads(content)
    except Exception:
        return damaged(content, random, pool)
    return ubjson(_changed_value(_plain(document), random))


def _plain(value: Any) -> Any:
    """Arrays as lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _changed_value(document: Any, random: Random) -> Any:
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
    if kind == 0:
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
    else:
        numbers = [str(n) if isinstance(holder[key], str) else n for n in (*_INTEGERS, *_FLOATS)]
        holder[key] = random.choice([*numbers, *numbers, *_TEXTS, None, True, [], {}])
    return document


def _archive(content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
    """An archive with one of its parts changed: a JSON text in one place, others in some bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as given:
            parts = {name: given.read(name) for name in given.namelist()}
        if not parts:
            return damaged(content, random, pool)
        name = random.choice(sorted(parts))
        if name.endswith((".cfg", ".prototxt")):
            parts[name] = _lines(parts[name], random, pool)
        elif name.endswith(".json"):
            parts[name] = json.dumps(_changed_value(json.loads(parts[name]), random)).encode()
        elif name.endswith("saved_model.pb"):
            parts[name] = _saved_model(parts[name], random, pool)
        elif name.endswith(".mlmodel"):
            parts[name] = _coreml(parts[name], random, pool)
        elif parts[name].startswith(b"PK"):
            parts[name] = _archive(parts[name], random, pool)
        else:
            parts[name] = damaged(parts[name], random, pool)
    except (ValueError, OSError, EOFError, NotImplementedError, RecursionError, zipfile.BadZipFile, zlib.error):
        return damaged(content, random, pool)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, held in parts.items():
            archive.writestr(name, held)
    return made.getvalue()


def _message(message: Any, content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
    """A message of protobuf with one of its fields, at whatever depth, changed."""
    try:
        message.ParseFromString(content)
        places = [each for each in _messages(message) if each.DESCRIPTOR.fields]  # some only say that they are there
        _change_field(random.choice(places), _names(message), random)
        return bytes(message.SerializeToString())
    except (DecodeError, ValueError, TypeError, RecursionError):
        return damaged(content, random, pool)


def _names(message: Any) -> list[str]:
    """The texts in a message: names of nodes, operators, tensors."""
    found = set()
    for each in _messages(message):
        for field, value in each.ListFields():
            if field.cpp_type == field.CPPTYPE_STRING and field.type != field.TYPE_BYTES:
                found.update([value] if isinstance(value, str) else [text for text in value if isinstance(text, str)])
    return sorted(found)


def _tensorflow(content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
    from sterna.frontends.tensorflow.schema import message  # noqa: PLC0415  only this format needs it

    return _message(message("Graph"), content, random, pool)


def _saved_model(content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
    from sterna.frontends.tensorflow.schema import message  # noqa: PLC0415  only this format needs it

    return _message(message("SavedModel"), content, random, pool)


def _coreml(content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
    from sterna.frontends.coreml.schema import messages  # noqa: PLC0415  the seeds are there, so it is installed

    return _message(messages().Model(), content, random, pool)


def _lines(content: bytes, random: Random, pool: Sequence[bytes]) -> bytes:
    """A text of lines with one line, or one word of it, changed."""
    lines = content.split(b"\n")
    place, kind = random.randrange(len(lines)), random.randrange(5)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(random.randrange(len(lines)), lines[place])
    else:
        key, equals, value = lines[place].partition(b"=")
        words = value.split(b" ")
        number = random.choice((*_INTEGERS, *_FLOATS))
        words[random.randrange(len(words))] = random.choice((str(number).encode(), b"", b"1", b"-1", b"x"))
        lines[place] = key + equals + b" ".join(words)
    return b"\n".join(lines)


_STRUCTURAL: dict[str, Mutation] = {
    "onnx": _onnx,
    "grown": _onnx,
    "tflite": _tflite,
    "xgboost": _json,
    "ubjson": _ubjson,
    "lightgbm": _lines,
    "pt2": _archive,
    "keras": _archive,
    **dict.fromkeys(("darknet", "caffe", "mxnet", "tensorflow_js", "saved_model", "mlpackage"), _archive),
    "tensorflow": _tensorflow,
    "coreml": _coreml,
}
