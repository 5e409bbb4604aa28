"""ONNX as a front end. What reads models is imported when there is one to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sterna.frontends.description import Description
from sterna.frontends.frontend import Confidence, Frontend, ReadOptions, Reference, Runtime, Support
from sterna.frontends.source import Source
from sterna.ir.graph import Array, Graph

if TYPE_CHECKING:
    pass

#: Fields of a ModelProto (onnx.proto) -> their wire type in protobuf.
_VARINT, _LENGTH = 0, 2
_FIELDS = {1: _VARINT, 5: _VARINT, **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), _LENGTH)}


class OnnxFrontend(Frontend):
    """ONNX models: a file, or an `onnx.ModelProto`."""

    name = "onnx"
    title = "ONNX"
    suffixes = (".onnx",)
    runtime = Runtime("onnxruntime", ("onnxruntime",))
    objects = "an onnx.ModelProto"
    from_bytes = "onnx.load_from_string(model)"
    from_stream = "onnx.load(model)"
    takes = frozenset(("values",))

    def detect(self, source: Source) -> Confidence:
        """A file of this format has no magic number: it is a protobuf message with the fields of a model."""
        if is_proto(source.model):
            return Confidence.CERTAIN
        if _is_message(source.start):
            return Confidence.POSSIBLE
        return Confidence.NAMED if source.suffix in self.suffixes and not source.is_folder else Confidence.NO

    def read(self, source: Source, options: ReadOptions) -> Graph:
        from sterna.frontends.onnx.reader import read

        return read(_given(source), options.shapes, options.dims, static=options.static, values=options.values)

    def describe(self, source: Source, options: ReadOptions) -> Description:
        from sterna.frontends.onnx.description import describe

        return describe(_given(source))

    def reference(self, source: Source, options: ReadOptions) -> Reference:
        from sterna.frontends.onnx.reference import run_onnxruntime

        def run(inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
            return run_onnxruntime(_given(source), inputs, tensors, fixed=options.values or {})

        def again(inputs: Mapping[str, Array], tensors: Iterable[str] = ()) -> dict[str, Array]:
            return run_onnxruntime(_given(source), inputs, tensors, optimized=True, fixed=options.values or {})

        def approximated() -> Mapping[str, str]:
            from sterna.frontends.onnx.description import approximated_nodes

            return approximated_nodes(_given(source))

        return Reference(run, again, approximated=approximated)

    def operators(self) -> tuple[Support, ...]:
        from sterna.frontends.onnx.coverage import coverage

        return coverage()

    def as_onnx(self, source: Source) -> Any:
        from sterna.frontends.onnx.file import self_contained

        return self_contained(_given(source))


def _given(source: Source) -> Any:
    """The path, or the model in memory."""
    return source.model if source.path is None else source.path


def is_proto(value: object) -> bool:
    """Whether a value is a loaded ONNX model, without importing ONNX to say no."""
    return type(value).__name__ == "ModelProto" and hasattr(value, "SerializeToString")


def _is_message(start: bytes) -> bool:
    """Whether the fields at the start of a file, as far as they are whole, are those of a ModelProto."""
    position, seen = 0, False
    while position < len(start):
        tag, position = _varint(start, position)
        if tag is None:
            return seen
        if _FIELDS.get(tag >> 3) != tag & 7:
            return False
        seen = True
        value, position = _varint(start, position)
        if value is None:
            return seen
        if tag & 7 == _LENGTH:
            position += value
    return seen


def _varint(data: bytes, position: int) -> tuple[int | None, int]:
    """A number of protobuf and where it ends; None where the data end, or for more than 64 bits."""
    result = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
    return None, position


FRONTENDS = (OnnxFrontend(),)
