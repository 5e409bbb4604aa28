"""The messages of TensorFlow's files, as far as they are read: field numbers of tensorflow/core/{framework,protobuf}.

They stand in a pool of their own, so that an installed TensorFlow is not in the way; none of its files is needed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from sterna.errors import error

_PACKAGE = "sterna.tensorflow"
#: Message -> "number name type" of its fields; "*" before a type: repeated. A map is a repeated Entry of key and value.
_MESSAGES = {
    "Dim": "1 size int64",
    "Shape": "2 dim *Dim; 3 unknown_rank bool",
    "Tensor": (
        "1 dtype int64; 2 tensor_shape Shape; 4 tensor_content bytes; 5 float_val *float; 6 double_val *double; "
        "7 int_val *int32; 8 string_val *bytes; 9 scomplex_val *float; 10 int64_val *int64; 11 bool_val *bool; "
        "12 dcomplex_val *double; 13 half_val *int32; "
        "16 uint32_val *uint32; 17 uint64_val *uint64"
    ),
    "List": "2 s *bytes; 3 i *int64; 4 f *float; 5 b *bool; 6 type *int64; 7 shape *Shape; 8 tensor *Tensor; "
    "9 func *Name",
    "Name": "1 name string",
    "Attribute": (
        "1 list List; 2 s bytes; 3 i int64; 4 f float; 5 b bool; 6 type int64; 7 shape Shape; 8 tensor Tensor; "
        "10 func Name"
    ),
    "AttributeEntry": "1 key string; 2 value Attribute",
    "Node": "1 name string; 2 op string; 3 input *string; 4 device string; 5 attr *AttributeEntry",
    "Argument": "1 name string; 3 type int64; 4 type_attr string; 5 number_attr string; 6 type_list_attr string",
    "Signature": "1 name string; 2 input_arg *Argument; 3 output_arg *Argument",
    "Return": "1 key string; 2 value string",
    "Function": "1 signature Signature; 3 node_def *Node; 4 ret *Return",
    "Library": "1 function *Function",
    "Versions": "1 producer int32",
    "Graph": "1 node *Node; 2 library Library; 3 version int32; 4 versions Versions",
    "TensorInfo": "1 name string; 2 dtype int64; 3 tensor_shape Shape",
    "TensorInfoEntry": "1 key string; 2 value TensorInfo",
    "SignatureDef": "1 inputs *TensorInfoEntry; 2 outputs *TensorInfoEntry; 3 method_name string",
    "SignatureEntry": "1 key string; 2 value SignatureDef",
    "MetaInfo": "4 tags *string; 5 tensorflow_version string",
    "Meta": "1 meta_info_def MetaInfo; 2 graph_def Graph; 5 signature_def *SignatureEntry",
    "SavedModel": "1 saved_model_schema_version int64; 2 meta_graphs *Meta",
    "BundleHeader": "1 num_shards int32; 2 endianness int32",
    "BundleEntry": (
        "1 dtype int64; 2 shape Shape; 3 shard_id int32; 4 offset int64; 5 size int64; 6 crc32c fixed32; "
        "7 slices *bytes"
    ),
}  # fmt: skip
_KINDS = {"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed32": 7, "bool": 8, "string": 9}
_KINDS |= {"bytes": 12, "uint32": 13}
_MESSAGE = 11


@cache
def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="sterna/tensorflow.proto", package=_PACKAGE, syntax="proto3")
    for name, text in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for each in text.split(";"):
            number, field, kind = each.split()
            label = 3 if kind.startswith("*") else 1
            kind = kind.removeprefix("*")
            made = message.field.add(name=field, number=int(number), label=label, type=_KINDS.get(kind, _MESSAGE))
            if kind not in _KINDS:
                made.type_name = f".{_PACKAGE}.{kind}"
        if name == "Attribute":  # which of them stands there says what it is
            message.oneof_decl.add(name="value")
            for field_ in message.field:
                field_.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


def message(kind: str) -> Any:
    """An empty message."""
    return _classes()[kind]()


def parsed(kind: str, content: bytes, where: str) -> Any:
    """A message from its bytes.

    Raises:
        SternaError: E0101, they are none.
    """
    made = message(kind)
    try:
        made.ParseFromString(content)
    except (DecodeError, ValueError) as problem:
        fix = "copy or export it again: it is cut off, or another file"
        raise error("E0101", f"{where} cannot be read as a model of TensorFlow", str(problem), fix=fix) from None
    return made
