"""SavedModels, written by tests: a graph, its signature, and its variables in a checkpoint."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from sterna.frontends.tensorflow.schema import message
from support.graph_defs import KINDS, GraphWriter

_MAGIC = 0xDB4775248B80FB57


def _varint(n: int) -> bytes:
    made = bytearray()
    while n > 127:
        made.append(n & 127 | 128)
        n >>= 7
    return bytes((*made, n))


def checkpoint_index(entries: Mapping[bytes, bytes]) -> bytes:
    """A table of LevelDB of one block that is not compressed."""

    def block(rows: list[tuple[bytes, bytes]]) -> bytes:
        rows_ = b"".join(_varint(0) + _varint(len(k)) + _varint(len(v)) + k + v for k, v in rows)
        return rows_ + struct.pack("<II", 0, 1)

    data = block(sorted(entries.items()))
    index = block([(b"~", _varint(0) + _varint(len(data)))])
    start = len(data) + 5
    footer = (_varint(0) + _varint(0) + _varint(start) + _varint(len(index))).ljust(40, b"\0")
    return data + bytes(5) + index + bytes(5) + footer + struct.pack("<Q", _MAGIC)


def checkpoint(variables: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    """The files of a checkpoint of one shard, by their names in a SavedModel."""
    header = message("BundleHeader")
    header.num_shards = 1
    entries, data = {b"": bytes(header.SerializeToString())}, b""
    for name, value in sorted(variables.items()):
        entry = message("BundleEntry")
        entry.dtype, entry.offset, entry.size = KINDS[str(value.dtype)], len(data), value.nbytes
        entry.shape.SetInParent()
        for size in value.shape:
            entry.shape.dim.add(size=size)
        entries[name.encode()] = bytes(entry.SerializeToString())
        data += value.tobytes()
    index = checkpoint_index(entries)
    return {"variables/variables.index": index, "variables/variables.data-00000-of-00001": data}


def saved_model(
    graph: GraphWriter,
    inputs: Mapping[str, tuple[str, tuple[int, ...]]],
    outputs: Mapping[str, str],
    variables: Mapping[str, np.ndarray],
) -> dict[str, bytes]:
    """The files of a SavedModel with one signature.

    Args:
        inputs: name in the signature -> tensor in the graph and its shape; float32, as the outputs are.
        outputs: name in the signature -> tensor in the graph.
        variables: name in the checkpoint -> value.
    """
    saved = message("SavedModel")
    saved.saved_model_schema_version = 1
    meta = saved.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.meta_info_def.tensorflow_version = "2.21.0"
    meta.graph_def.CopyFrom(graph.graph)
    entry = meta.signature_def.add(key="serving_default")
    entry.value.method_name = "tensorflow/serving/predict"
    for name, (tensor, shape) in inputs.items():
        port = entry.value.inputs.add(key=name).value
        port.name, port.dtype = tensor, KINDS["float32"]
        for size in shape:
            port.tensor_shape.dim.add(size=size)
    for name, tensor in outputs.items():
        port = entry.value.outputs.add(key=name).value
        port.name, port.dtype, port.tensor_shape.unknown_rank = tensor, KINDS["float32"], True
    return {"saved_model.pb": bytes(saved.SerializeToString()), **checkpoint(variables)}
