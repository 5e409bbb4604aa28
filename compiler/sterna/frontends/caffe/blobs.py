"""Weights of Caffe: the blobs of every layer in a `.caffemodel`, of today's and of older versions.

Field numbers are those of BVLC's caffe.proto; only what holds weights is declared.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from sterna.errors import error
from sterna.frontends.source import content_of
from sterna.ir.graph import Array

_F = descriptor_pb2.FieldDescriptorProto
_MESSAGES: dict[str, list[tuple[str, int, int, str]]] = {
    "BlobShape": [("dim", 1, _F.TYPE_INT64, "packed")],
    "BlobProto": [
        ("num", 1, _F.TYPE_INT32, ""), ("channels", 2, _F.TYPE_INT32, ""), ("height", 3, _F.TYPE_INT32, ""),
        ("width", 4, _F.TYPE_INT32, ""), ("data", 5, _F.TYPE_FLOAT, "packed"),
        ("shape", 7, _F.TYPE_MESSAGE, "BlobShape"),
        ("double_data", 8, _F.TYPE_DOUBLE, "packed"),
    ],
    "LayerParameter": [
        ("name", 1, _F.TYPE_STRING, ""), ("type", 2, _F.TYPE_STRING, ""), ("blobs", 7, _F.TYPE_MESSAGE, "*BlobProto"),
    ],
    "V0LayerParameter": [("name", 1, _F.TYPE_STRING, ""), ("blobs", 50, _F.TYPE_MESSAGE, "*BlobProto")],
    "V1LayerParameter": [
        ("layer", 1, _F.TYPE_MESSAGE, "V0LayerParameter"), ("name", 4, _F.TYPE_STRING, ""),
        ("blobs", 6, _F.TYPE_MESSAGE, "*BlobProto"),
    ],
    "NetParameter": [
        ("name", 1, _F.TYPE_STRING, ""), ("layers", 2, _F.TYPE_MESSAGE, "*V1LayerParameter"),
        ("layer", 100, _F.TYPE_MESSAGE, "*LayerParameter"),
    ],
}  # fmt: skip


@cache
def _net_parameter() -> Any:
    """The class of the messages that a file holds."""
    file = descriptor_pb2.FileDescriptorProto(name="sterna_caffe.proto", package="sterna_caffe", syntax="proto2")
    for name, fields in _MESSAGES.items():
        made = file.message_type.add(name=name)
        for field, number, kind, more in fields:
            repeated = more == "packed" or more.startswith("*")
            label = _F.LABEL_REPEATED if repeated else _F.LABEL_OPTIONAL
            row = made.field.add(name=field, number=number, type=kind, label=label)
            if kind == _F.TYPE_MESSAGE:
                row.type_name = f".sterna_caffe.{more.lstrip('*')}"
            elif more == "packed":
                row.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sterna_caffe.NetParameter"))


def read_blobs(path: Path) -> dict[str, list[Array]]:
    """The blobs of every layer that has some, by its name.

    Raises:
        SternaError: E0101, the file cannot be read; E0103, it is no such file, or a blob contradicts itself.
    """
    try:
        net = _net_parameter().FromString(bytes(content_of(path)))
    except (OSError, ValueError) as problem:
        raise error("E0101", f"{path.name} cannot be read: {problem}") from None
    except DecodeError:
        fix = "copy it again: it is cut off, or another file"
        raise error("E0103", f"{path.name} is not a caffemodel, or is damaged", fix=fix) from None
    found: dict[str, list[Array]] = {}
    for layer in (*net.layers, *net.layer):
        old = layer.layer if hasattr(layer, "layer") else None
        name, blobs = layer.name, layer.blobs
        if old is not None and old.name:
            name, blobs = old.name, old.blobs or layer.blobs
        if blobs:
            found[name] = [_array(blob, f"{path.name}, layer {name}") for blob in blobs]
    return found


def _array(blob: Any, what: str) -> Array:
    data = np.asarray(blob.double_data or blob.data, np.float32)
    shape = list(blob.shape.dim) if blob.HasField("shape") else [blob.num, blob.channels, blob.height, blob.width]
    if any(size < 0 for size in shape) or math.prod(shape) != data.size:
        raise error("E0103", f"{what}: a blob of {data.size} numbers has the shape {shape[:8]}")
    return data.reshape(shape)
