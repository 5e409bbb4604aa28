"""From a path or a loaded model to a checked ModelProto and its tensors. Model files are untrusted."""

from __future__ import annotations

import math
import os
from collections.abc import MutableMapping
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped,unused-ignore]
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped,unused-ignore]
from onnx import TensorProto, numpy_helper

from sterna.errors import SternaError, error
from sterna.frontends.onnx.slim import slim
from sterna.frontends.source import LARGE_FILE, START, known_as
from sterna.ir import dtypes
from sterna.ir.graph import Array
from sterna.ops.builder import too_large

OLDEST_OPSET = 1
_LONGEST_SHOWN = 100  # characters of a name in messages
LARGEST_FILE = 2**31 - 1  # what a protobuf message can be; larger models keep their weights in external data

#: ONNX's element types -> ours.
ELEMENT_TYPES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.INT8: "int8",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.BOOL: "bool",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.INT4: "int4",
    TensorProto.UINT4: "uint4",
    TensorProto.STRING: dtypes.STRING,
}
# Those that older releases of the onnx package do not name.
for _name, _dtype in (
    ("FLOAT8E8M0", "float8_e8m0fnu"), ("FLOAT4E2M1", "float4_e2m1fn"), ("INT2", "int2"), ("UINT2", "uint2"),
):  # fmt: skip
    if _name in TensorProto.DataType.keys():  # noqa: SIM118  an enumeration of protobuf is no mapping
        ELEMENT_TYPES[TensorProto.DataType.Value(_name)] = _dtype
#: Bits of an element in a file, where several share a byte.
_PACKED = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}


def element_type(code: int) -> str:
    """Our name of an ONNX element type.

    Raises:
        SternaError: E0111, it is not supported.
    """
    if code not in ELEMENT_TYPES:
        raise error("E0111", f"elements of type {type_name(code)} are not supported")
    return ELEMENT_TYPES[code]


def type_name(code: int) -> str:
    """What ONNX calls an element type."""
    return next((key.lower() for key, value in TensorProto.DataType.items() if value == code), f"number {code}")


def load(model: str | os.PathLike[str] | onnx.ModelProto) -> tuple[onnx.ModelProto, Path | None]:
    """The model, and the folder that its external data must lie in.

    Raises:
        SternaError: E0101, the file cannot be read or is not an ONNX model.
    """
    if isinstance(model, onnx.ModelProto):
        return _checked(model, "the model"), None
    path = Path(model)
    where = f"{path.name}"
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise error("E0101", f"{path} is a folder, not a model file", fix="name the .onnx file inside it")
        if size > LARGEST_FILE:
            raise error(
                "E0101", f"{where} has {size} bytes, more than an ONNX file can have",
                fix="save the model with external data (onnx.save(..., save_as_external_data=True))",
            )  # fmt: skip
        content = _content(path) if size else b""
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else None
        raise error("E0101", f"{path} cannot be read: {reason or problem}") from None
    if not content:
        raise error("E0101", f"{where} is empty")
    if (known := known_as(content[:START])) is not None:
        meaning, fix = known
        raise error("E0101", f"{where} is {meaning}, not an ONNX model", fix=fix or "export the model to ONNX")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError:
        raise error("E0101", f"{where} is not an ONNX model, or is damaged", fix="export or copy it again") from None
    return _checked(proto, where), path.parent


def _content(path: Path) -> bytes:
    """A model file's message, without the weights that can as well be read out of the file when they are wanted."""
    with path.open("rb") as file:
        # Weights in other files must lie in the model's folder, and one that a link leads to does not.
        if path.stat().st_size >= LARGE_FILE and not path.is_symlink():
            with mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
                if (message := slim(mapped, path.name, ELEMENT_TYPES)) is not None:
                    return message
        return file.read()


def name_of(model: str | os.PathLike[str] | onnx.ModelProto, proto: onnx.ModelProto) -> str:
    """How messages call a model that was loaded."""
    return proto.graph.name or "the model" if isinstance(model, onnx.ModelProto) else Path(model).name


def self_contained(model: str | os.PathLike[str] | onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model that keeps no weights in other files.

    Raises:
        SternaError: E0101, E0110 or E0112.
    """
    proto, folder = load(model)
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    for tensor in result.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            data = to_array(tensor, folder, f'the weight "{tensor.name}"')
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(data, order="C"), tensor.name))
    return result


def _checked(model: onnx.ModelProto, where: str) -> onnx.ModelProto:
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise error("E0101", f"{where} is not an ONNX model: it has no graph")
    try:
        text = _is_text(model)
    except RecursionError:
        raise error("E0103", f"{where} has graphs nested too deep") from None
    if not text:
        raise error("E0101", f"{where} is damaged: a name in it is not text", fix="export or copy it again")
    if not model.graph.output:
        raise error("E0103", f"{where} has no outputs")
    return model


def _is_text(message: Any) -> bool:
    """Whether every string in a message is one; a damaged file can hold other bytes in their place."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            if not all(isinstance(item, str) for item in ([value] if isinstance(value, (str, bytes)) else value)):
                return False
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            items = [value] if isinstance(value, Message) else value
            if isinstance(items, MutableMapping) or not all(_is_text(item) for item in items if not _is_plain(item)):
                return False
    return True


def _is_plain(message: Any) -> bool:
    """A tensor without names inside, whose data should not be gone through."""
    return isinstance(message, TensorProto) and isinstance(message.name, str) and not message.external_data


def to_array(tensor: onnx.TensorProto, folder: Path | None, what: str) -> Array:
    """The elements of a tensor; a read-only view of the file's bytes where that is possible.

    Args:
        folder: where external data may lie; None if the model came without a file.
        what: the tensor's role and name, for messages.

    Raises:
        SternaError: E0103, E0110, E0111 or E0112.

    Returns:
        An array of its element type; of Python's `str`, as objects, for strings.
    """
    try:
        dtype = element_type(tensor.data_type)
    except SternaError:
        raise error("E0111", f"{what} has elements of a type that is not supported") from None
    shape = tuple(tensor.dims)
    if dtype == dtypes.STRING:
        return _texts(tensor, shape, what)
    if any(size < 0 for size in shape):
        raise error("E0103", f"{what} has negative dimensions: {list(shape)}")
    count = math.prod(shape)
    bits = _PACKED.get(dtype, 0)
    size = -(-count * bits // 8) if bits else count * dtypes.size(dtype)
    if too_large(shape, dtypes.size(dtype)):
        raise error("E0112", f"{what} of shape {list(shape)} would take {size} bytes")
    kind = dtypes.to_numpy(dtype)
    if tensor.data_location == TensorProto.EXTERNAL:
        if bits:
            return _unpacked(_external(tensor, folder, what, np.dtype(np.uint8), size), bits, kind, shape)
        return _external(tensor, folder, what, kind, size).reshape(shape)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        if len(raw) != size:
            raise error("E0103", f"{what} of shape {list(shape)} needs {size} bytes and has {len(raw)}")
        if bits:
            return _unpacked(np.frombuffer(raw, np.uint8), bits, kind, shape)
        return np.frombuffer(raw, kind.newbyteorder("<")).astype(kind, copy=False).reshape(shape)
    stored = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
    if max(map(len, stored)) != (size if bits else count):
        raise error("E0103", f"{what} of shape {list(shape)} needs {count} elements and has {max(map(len, stored))}")
    try:
        return np.asarray(numpy_helper.to_array(tensor)).astype(kind, copy=False).reshape(shape)
    except MemoryError:
        raise
    except Exception as problem:  # whatever a malformed message makes the helper trip over
        raise error("E0103", f"{what} is malformed: {problem}") from None


def _texts(tensor: onnx.TensorProto, shape: tuple[int, ...], what: str) -> Array:
    """The elements of a tensor of strings, as an array of objects."""
    if any(size < 0 for size in shape) or math.prod(shape) != len(tensor.string_data):
        raise error("E0103", f"{what} of shape {list(shape)} has {len(tensor.string_data)} strings")
    try:
        texts = [data.decode() for data in tensor.string_data]
    except UnicodeDecodeError:
        raise error("E0103", f"{what} has a string that is not UTF-8") from None
    return np.array(texts, object).reshape(shape)


def _unpacked(data: Array, bits: int, kind: np.dtype[np.generic], shape: tuple[int, ...]) -> Array:
    """One element per byte from elements that share bytes, the first in the lowest bits."""
    parts = np.stack([(data >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)], axis=-1)
    return parts.reshape(-1)[: math.prod(shape)].astype(np.uint8).view(kind).reshape(shape)


def _external(tensor: onnx.TensorProto, folder: Path | None, what: str, kind: np.dtype[np.generic], size: int) -> Array:
    if folder is None:
        raise error(
            "E0110",
            f"{what} lies in another file, and the model came without a folder",
            fix="give the path of the model instead",
        )
    try:
        said = {entry.key: entry.value for entry in tensor.external_data}
        location = said.get("location", "")
        offset, length = int(said.get("offset") or 0), int(said.get("length") or size)
    except (ValueError, TypeError) as problem:
        raise error("E0110", f"{what}: its reference to another file is malformed: {problem}") from None
    shown = location if len(location) <= _LONGEST_SHOWN else f"{location[:_LONGEST_SHOWN]}..."
    try:
        root = folder.resolve()
        path = (root / location).resolve()
        available = path.stat().st_size if path.is_file() else -1
    except (OSError, ValueError, RuntimeError) as problem:  # too long, a zero byte in it, links in a circle
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise error("E0110", f"{what} refers to {shown!r}, which is no name of a file: {reason}") from None
    if not location or Path(location).is_absolute() or root not in path.parents:
        raise error("E0110", f'{what} refers to "{shown}", which is outside the model\'s folder')
    if available < 0:
        raise error(
            "E0110", f'{what} is stored in "{shown}", which does not exist', fix="keep the model's files together"
        )
    if offset < 0 or length != size or offset + size > available:
        raise error(
            "E0110",
            f'{what} needs bytes {offset} to {offset + size} of "{shown}", which has {available}; it says {length}',
        )
    if size == 0:
        return np.empty(0, kind)
    try:
        return np.asarray(np.memmap(path, kind.newbyteorder("<"), "r", offset, (size // kind.itemsize,)))
    except OSError as problem:
        raise error("E0110", f'{what}: "{shown}" cannot be read: {problem.strerror}') from None
