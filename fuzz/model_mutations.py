"""Ways to damage a model: in its structure, so that it is still read as one, and in its bytes."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from changes import FLOATS, INTEGERS, SINGLES, TEXTS, Stock, change_field, changed_value, damaged, messages, texts_of
from format_seeds import archive
from model_seeds import grown, ubjson
from sterna.frontends.formats import frontends
from sterna.frontends.onnx.operators import translators

Mutation = Callable[[bytes, Random, Stock], bytes]

#: Formats whose front ends are called otherwise; that of `h5` reads archives, too.
_FRONTENDS = {
    "grown": "onnx", "pt2": "pytorch", "h5": "keras", "tensorflow_js": "tensorflow", "saved_model": "tensorflow",
    "mlpackage": "coreml", "ubjson": "xgboost",
}  # fmt: skip


@cache
def _words(form: str) -> tuple[str, ...]:
    """The operators of a format, as its files name them."""
    names = {each.operator for each in frontends()[_FRONTENDS.get(form, form)].operators()}
    names |= {name.removeprefix("[").removesuffix("]") for name in names}
    if form == "tensorflow_js":
        names |= {each.operator for each in frontends()["keras"].operators()}
    if form == "pt2":  # as programs name an overload
        names |= {f"torch.ops.{name}" for name in names}
    return tuple(sorted(names))


def mutated(form: str, models: Sequence[bytes], random: Random) -> bytes:
    """A damaged model of a format.

    Args:
        form: one of `model_seeds.SHARES`.
        models: models of the format.
    """
    pool = Stock(models, _words(form))
    content = grown(random) if form == "grown" else random.choice(models)
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


# ---------------------------------------------------------------- ONNX
def _onnx(content: bytes, random: Random, pool: Stock) -> bytes:
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
    held = [m for m in messages(model) if not isinstance(m, onnx.StringStringEntryProto)]
    nodes = (m for m in held if isinstance(m, onnx.NodeProto))
    # In a damaged file a name can be bytes that are no text.
    names = sorted({name for n in nodes for name in (*n.input, *n.output) if isinstance(name, str)})
    # Nodes and what they hold are most of what there is to get wrong.
    favoured = [m for m in held if isinstance(m, (onnx.NodeProto, onnx.AttributeProto, onnx.TensorProto))]
    chosen = random.choice(favoured if favoured and random.random() < 0.7 else held)
    if isinstance(chosen, onnx.NodeProto) and random.random() < 0.5:
        _change_node(chosen, names, random)
        return
    change_field(chosen, names, random)


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


# ---------------------------------------------------------------- TensorFlow Lite
def _tflite(content: bytes, random: Random, pool: Stock) -> bytes:
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
        return min(max(near if random.random() < 0.6 else random.choice(INTEGERS), -(2**31)), 2**31 - 1)
    if isinstance(value, float):
        return random.choice(SINGLES)
    if isinstance(value, (bytes, str)):
        return random.choice(TEXTS).encode()
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
def _json(content: bytes, random: Random, pool: Stock) -> bytes:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return damaged(content, random, pool)
    return json.dumps(changed_value(document, random, pool.words)).encode()


def _ubjson(content: bytes, random: Random, pool: Stock) -> bytes:
    from sterna.frontends.boosted import ubjson as reader  # noqa: PLC0415  only this format needs it

    try:
        document = reader.loads(content)
    except Exception:
        return damaged(content, random, pool)
    return ubjson(changed_value(_plain(document), random, pool.words))


def _plain(value: Any) -> Any:
    """Arrays as lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list) else value


# ---------------------------------------------------------------- files
def _archive(content: bytes, random: Random, pool: Stock) -> bytes:
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
            parts[name] = json.dumps(changed_value(json.loads(parts[name]), random, pool.words)).encode()
        elif name.endswith(".pb"):
            change = _saved_model if name.endswith("saved_model.pb") else _tensorflow
            parts[name] = change(parts[name], random, pool)
        elif name.endswith(".h5") and random.random() < 0.7:
            parts[name] = _hdf5(parts[name], random, pool)
        elif name.endswith(".mlmodel"):
            parts[name] = _coreml(parts[name], random, pool)
        elif parts[name].startswith(b"PK"):
            parts[name] = _archive(parts[name], random, pool)
        else:
            parts[name] = damaged(parts[name], random, pool)
    except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):  # encrypted ones, too
        return damaged(content, random, pool)
    return archive(parts)


def _message(message: Any, content: bytes, random: Random, pool: Stock) -> bytes:
    """A message of protobuf with one of its fields, at whatever depth, changed."""
    try:
        message.ParseFromString(content)
        places = [each for each in messages(message) if each.DESCRIPTOR.fields]  # some only say that they are there
        some = random.sample(pool.words, min(3, len(pool.words)))
        change_field(random.choice(places), [*texts_of(message), *some], random)
        return bytes(message.SerializeToString())
    except (DecodeError, ValueError, TypeError, RecursionError):
        return damaged(content, random, pool)


def _tensorflow(content: bytes, random: Random, pool: Stock) -> bytes:
    from sterna.frontends.tensorflow.schema import message  # noqa: PLC0415  only this format needs it

    return _message(message("Graph"), content, random, pool)


def _saved_model(content: bytes, random: Random, pool: Stock) -> bytes:
    from sterna.frontends.tensorflow.schema import message  # noqa: PLC0415  only this format needs it

    return _message(message("SavedModel"), content, random, pool)


def _coreml(content: bytes, random: Random, pool: Stock) -> bytes:
    from sterna.frontends.coreml import schema  # noqa: PLC0415  the seeds are there, so it is installed

    return _message(schema.messages().Model(), content, random, pool)


def _lines(content: bytes, random: Random, pool: Stock) -> bytes:
    """A text of lines with one line, or one word of it, changed."""
    lines = content.split(b"\n")
    place, kind = random.randrange(len(lines)), random.randrange(5)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(random.randrange(len(lines)), lines[place])
    else:
        key, equals, value = lines[place].partition(b"=")
        if not equals and pool.words and random.random() < 0.5:
            return b"\n".join([*lines[:place], _renamed(lines[place], random.choice(pool.words)), *lines[place + 1 :]])
        words = value.split(b" ")
        number = random.choice((*INTEGERS, *FLOATS))
        words[random.randrange(len(words))] = random.choice((str(number).encode(), b"", b"1", b"-1", b"x"))
        lines[place] = key + equals + b" ".join(words)
    return b"\n".join(lines)


def _renamed(line: bytes, word: str) -> bytes:
    """A section `[word]`, or a layer of `type: "word"`, in place of the one that a line names."""
    if line.startswith(b"["):
        return f"[{word}]".encode()
    head, quote, rest = line.partition(b'type: "')
    return head + quote + word.encode() + rest[max(rest.find(b'"'), 0) :] if quote else line


def _hdf5(content: bytes, random: Random, pool: Stock) -> bytes:
    """An HDF5 file with one of its objects changed: an attribute's JSON text, a tensor, a name."""
    import h5py  # noqa: PLC0415  only this format needs it

    if content not in pool.models:  # HDF5's own library may hang in a damaged file
        return damaged(content, random, pool)
    file = io.BytesIO(content)
    try:
        with h5py.File(file, "r+") as held:
            _change_hdf5(held, random, pool)
    except Exception:  # h5py and HDF5 raise anything for files that are damaged already
        return damaged(content, random, pool)
    return file.getvalue()


def _change_hdf5(held: Any, random: Random, pool: Stock) -> None:
    import h5py  # noqa: PLC0415  only this format needs it

    names: list[str] = []
    held.visit(names.append)
    name = random.choice(["/", *names])
    place = held[name]
    attributes = sorted(place.attrs)
    if attributes and random.random() < 0.6:
        key = random.choice(attributes)
        value = place.attrs[key]
        text = value.decode() if isinstance(value, bytes) else value
        if isinstance(text, str) and text.startswith("{"):
            place.attrs[key] = json.dumps(changed_value(json.loads(text), random, pool.words))
        elif random.random() < 0.3:
            del place.attrs[key]
        else:
            place.attrs[key] = random.choice((*TEXTS, 3, b"x", [b"a", b"b"], [1.5]))
    elif name != "/":
        del held[name]
        if isinstance(place, h5py.Dataset) and random.random() < 0.8:
            shape = tuple(random.choice((0, 1, 2, 3, 4, 8)) for _ in range(random.randrange(5)))
            held.create_dataset(name, shape, random.choice(("f4", "f2", "i8", "u1", "S3", "c8")))


_STRUCTURAL: dict[str, Mutation] = {
    "onnx": _onnx,
    "grown": _onnx,
    "tflite": _tflite,
    "xgboost": _json,
    "ubjson": _ubjson,
    "lightgbm": _lines,
    "pt2": _archive,
    "keras": _archive,
    "h5": _hdf5,
    **dict.fromkeys(("darknet", "caffe", "mxnet", "tensorflow_js", "saved_model", "mlpackage"), _archive),
    "tensorflow": _tensorflow,
    "coreml": _coreml,
}
