"""TensorFlow.js graph models: a GraphDef as JSON, and weights in shards beside it.

The JSON is that of protobuf's mapping (int64 as text, enumerations by name, bytes in base64); the manifest of weights
is that of tfjs-core's io/types.ts.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sterna.errors import SternaError, error
from sterna.frontends.source import json_fault
from sterna.frontends.tensorflow.files import MANIFEST, Files
from sterna.frontends.tensorflow.model import PAGE, Model, Node, Port, Signature, Type, dtype_of
from sterna.frontends.tensorflow.schema import message
from sterna.frontends.tensorflow.tensors import array_of
from sterna.frontends.tensorflow.translation import UNSAID_TYPE
from sterna.frontends.tfjs_weights import tfjs_weights
from sterna.ir.graph import Array

_AGAIN = "copy it again, or convert the model again"

_ENUM = {
    "DT_FLOAT": 1, "DT_DOUBLE": 2, "DT_INT32": 3, "DT_UINT8": 4, "DT_INT16": 5, "DT_INT8": 6, "DT_STRING": 7,
    "DT_COMPLEX64": 8, "DT_INT64": 9, "DT_BOOL": 10, "DT_QINT8": 11, "DT_QUINT8": 12, "DT_QINT32": 13,
    "DT_BFLOAT16": 14, "DT_UINT16": 17, "DT_HALF": 19, "DT_RESOURCE": 20, "DT_VARIANT": 21, "DT_UINT32": 22,
    "DT_UINT64": 23,
}  # fmt: skip
_DEEPEST = 60


def graph_model(content: bytes, files: Files, decoded: Callable[..., Model]) -> Model:
    """The model of a model.json.

    Raises:
        SternaError: E0101, it is none; E0103, its weights do not fit it.
    """
    try:
        text = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise error(
            "E0101", f"{files.main} is not JSON", json_fault(problem), fix="copy it again, or convert the model again"
        ) from None
    topology = text.get("modelTopology") if isinstance(text, dict) else None
    if not isinstance(topology, dict) or "node" not in topology:
        raise error("E0101", f"{files.main} holds no graph of TensorFlow.js", fix="convert the model again")
    graph = message("Graph")
    try:
        _fill(graph, topology, 0)
        model = decoded(graph, kind=PAGE)
        weights = tfjs_weights(text.get("weightsManifest") or [], partial(_shard, files))
        signature = _signature(text.get("signature") or (text.get("userDefinedMetadata") or {}).get("signature"))
    except SternaError:
        raise
    except (TypeError, ValueError, AttributeError, KeyError, LookupError, OverflowError, binascii.Error) as problem:
        raise error(
            "E0103", f"{files.main} is no model of TensorFlow.js", f"{type(problem).__name__}: {problem}"
        ) from None
    known = {} if signature is None else {"serving_default": signature}
    producer = str(text.get("convertedBy") or text.get("generatedBy") or "")
    return replace(_filled(model, weights), signatures=known, producer=producer)


def first_model(model: Model, files: Files) -> Model:
    """A model as the first converters to TensorFlow.js (0.x) wrote it: a GraphDef without weights, whose manifest is a
    file of its own beside it. Other graphs remain what they are.

    Raises:
        SternaError: E0101, the manifest or a shard cannot be read; E0103, they do not fit each other.
    """
    content = files.read(MANIFEST)
    if content is None:
        return model
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise error(
            "E0101", f"{MANIFEST} is not JSON", json_fault(problem), fix="copy it again, or convert the model again"
        ) from None
    return replace(_filled(model, tfjs_weights(manifest, partial(_shard, files))), kind=PAGE)


def _filled(model: Model, weights: Mapping[str, Array]) -> Model:
    functions = {
        name: replace(function, nodes=_with_weights(function.nodes, weights))
        for name, function in model.functions.items()
    }
    return replace(model, nodes=_with_weights(model.nodes, weights), functions=functions)


#: Element types of TensorFlow -> those that TensorFlow.js has in their place.
_NARROW = {_ENUM["DT_DOUBLE"]: _ENUM["DT_FLOAT"], _ENUM["DT_INT64"]: _ENUM["DT_INT32"]}
#: Operators whose results no attribute says the type of.
_UNSAID = ("Where", "DynamicPartition")


def _with_weights(nodes: Mapping[str, Node], weights: Mapping[str, Array]) -> dict[str, Node]:
    """Nodes whose constants have their values; the constants of functions are called as no others are."""
    return {
        name: replace(node, attributes={key: _single(value) for key, value in node.attributes.items()} | _said(node))
        if node.op != "Const" or name not in weights
        else replace(node, attributes={**node.attributes, "value": weights[name]})
        for name, node in nodes.items()
    }


def _said(node: Node) -> dict[str, Any]:
    return {UNSAID_TYPE: Type(_ENUM["DT_INT32"])} if node.op in _UNSAID else {}


def _single(value: Any) -> Any:
    """An attribute as TensorFlow.js takes it: its weights and results are of single precision where TensorFlow's graph
    says double, and integers of 32 bits where it says 64."""
    if isinstance(value, Type):
        return Type(_NARROW.get(value.number, value.number))
    if hasattr(value, "double_val") and value.dtype in _NARROW:
        return array_of(value).astype(dtype_of(_NARROW[value.dtype]))
    return tuple(map(_single, value)) if isinstance(value, tuple) else value


def _fill(made: Any, given: Mapping[str, Any], depth: int) -> None:
    """The fields of a message from a JSON object; what is not known is passed over."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deep")
    fields = made.DESCRIPTOR.fields_by_name
    for key, value in given.items():
        name = re.sub("([A-Z])", lambda match: "_" + match[1].lower(), key)
        field = fields.get(name) or fields.get(key)
        if field is None or value is None:
            continue
        if field.message_type is not None and "key" in field.message_type.fields_by_name and isinstance(value, dict):
            for entry, content in value.items():
                _fill(getattr(made, field.name).add(), {"key": entry, "value": content}, depth + 1)
        elif field.message_type is not None:
            if isinstance(value, list):
                for content in value:
                    _fill(getattr(made, field.name).add(), content, depth + 1)
            else:
                getattr(made, field.name).SetInParent()
                _fill(getattr(made, field.name), value, depth + 1)
        elif isinstance(value, list):
            getattr(made, field.name).extend(_scalar(field, item) for item in value)
        else:
            setattr(made, field.name, _scalar(field, value))


def _scalar(field: Any, value: Any) -> Any:
    if field.type == field.TYPE_BYTES:
        # Older writers gave the bytes as a list of numbers.
        return bytes(value) if isinstance(value, list) else base64.b64decode(value)
    if field.type == field.TYPE_BOOL:
        return value in (True, "true")
    if field.type == field.TYPE_STRING:
        return str(value)
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return float(value)
    return _ENUM[value] if isinstance(value, str) and value in _ENUM else int(value)


def _signature(given: Any) -> Signature | None:
    """Inputs and outputs are called by their nodes, as TensorFlow.js calls them."""
    if not isinstance(given, dict) or not given.get("outputs"):
        return None

    def ports(entries: Mapping[str, Any]) -> tuple[Port, ...]:
        made = []
        for key, entry in (entries or {}).items():
            shape = entry.get("tensorShape") or entry.get("shape")
            dims = None if shape is None or shape.get("unknownRank") else shape.get("dim") or []
            sizes = None if dims is None else tuple(int(d.get("size", 0)) for d in dims)
            tensor = str(entry.get("name") or key)
            kind = entry.get("dtype", "DT_FLOAT")
            number = _ENUM.get(kind, 1) if isinstance(kind, str) else int(kind)
            made.append(Port(tensor.removesuffix(":0"), tensor, _NARROW.get(number, number), sizes))
        return tuple(made)

    return Signature(ports(given.get("inputs", {})), ports(given["outputs"]))


def _shard(files: Files, path: str) -> bytes:
    content = files.read(path)
    if content is None:
        raise error("E0101", f'the file "{path}" of the model is missing', f"{files.main} names it")
    return content
