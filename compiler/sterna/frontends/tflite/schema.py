"""TensorFlow Lite's flatbuffer as plain data. Model files are untrusted: whatever is wrong with one is E0101 or E0103.

The `tflite` package follows offsets without asking whether they lie in the file; Python refuses to read beyond its end,
and what a file can make this module do is bounded by a count of the things read.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import tflite
from flatbuffers.number_types import Int32Flags

from sterna.errors import error
from sterna.frontends.source import content_of
from sterna.ir.graph import Array

MAGIC = b"TFL3"

_FLOATING = (float, np.floating)
_BLOCKWISE = 2  # of QuantizationDetails
_BUILTIN_CODE = 10  # where a table of OperatorCode says at what offset the field is


@dataclass(frozen=True, eq=False)
class Quantization:
    """How a tensor's integers stand for real numbers: scale * (q - zero point), per tensor or along `axis`."""

    scales: Array
    zero_points: Array
    axis: int


@dataclass(frozen=True, eq=False)
class Sparsity:
    """How a sparse tensor is stored (TensorFlow Lite schema, SparsityParameters); None: a dense dimension.

    Args:
        order: the dimensions, those of blocks after the tensor's own, as they are traversed.
        block_map: the tensor's dimension of each block dimension.
        dimensions: per traversed dimension its size, or (segments, indices) of a compressed one.
    """

    order: tuple[int, ...]
    block_map: tuple[int, ...]
    dimensions: tuple[int | tuple[tuple[int, ...], tuple[int, ...]], ...]


@dataclass(frozen=True, eq=False)
class TensorInfo:
    """A tensor as the file declares it.

    Args:
        kind: its element type, in the schema's spelling in lower case.
        signature: its sizes with -1 for open ones; those of `shape` where the file gives none.
        content: the bytes of a constant; None for what is computed.
    """

    index: int
    name: str
    kind: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    content: Array | None
    quantization: Quantization | None
    sparsity: Sparsity | None
    is_variable: bool


@dataclass(frozen=True, eq=False)
class OperatorInfo:
    """A node.

    Args:
        op: the builtin operator, or the name of a custom one.
        inputs, outputs, intermediates: positions among the sub-graph's tensors; -1 for an operand left out.
        options: settings by name, in lower case with underscores.
    """

    op: str
    is_custom: bool
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    custom: bytes = b""


@dataclass(frozen=True, eq=False)
class SubgraphInfo:
    """A graph or the body of control flow; operators stand in the order in which they run."""

    name: str
    tensors: tuple[TensorInfo, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[OperatorInfo, ...]


@dataclass(frozen=True, eq=False)
class SignatureInfo:
    """A named way to call a sub-graph: names of arguments and results, and the tensors they are."""

    key: str
    subgraph: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class ModelInfo:
    """A whole file.

    Args:
        metadata: buffers that say something of the model, by name.
        content: all of the file; constants that are not changed are views of it.
    """

    description: str
    subgraphs: tuple[SubgraphInfo, ...]
    signatures: tuple[SignatureInfo, ...]
    metadata: Mapping[str, bytes]
    content: bytes | mmap = b""


def load(path: str | os.PathLike[str]) -> ModelInfo:
    """The model in a file.

    Raises:
        SternaError: E0101, the file cannot be read or is no TensorFlow Lite model; E0103, it contradicts itself.
    """
    place = Path(path)
    try:
        content = content_of(place)
    except OSError as problem:
        raise error("E0101", f"{place} cannot be read: {problem.strerror or problem}") from None
    return parse(content, place.name)


def parse(content: bytes | mmap, where: str) -> ModelInfo:
    """The model in a file's bytes; `where` names it in messages."""
    if content[4:8] != MAGIC:
        raise error(
            "E0101", f"{where} is not a TensorFlow Lite model", fix="export or copy it again" if content else None
        )
    try:
        return _Parser(content, where).model()
    # Offsets that lead out of the file, lengths that are none, text that is not text.
    except (ValueError, TypeError, IndexError, OverflowError, KeyError, AttributeError, struct.error):
        raise error(
            "E0101", f"{where} is damaged: it does not follow its schema", fix="export or copy it again"
        ) from None


def _names(enumeration: type) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


OPERATOR_NAMES = _names(tflite.BuiltinOperator)
TYPE_NAMES = {code: name.lower() for code, name in _names(tflite.TensorType).items()} | {19: "int2", 20: "uint4"}
_OPTIONS = (_names(tflite.BuiltinOptions), _names(tflite.BuiltinOptions2))
_VECTORS = {1: (tflite.Int32Vector, "i32"), 2: (tflite.Uint16Vector, "u16"), 3: (tflite.Uint8Vector, "u8")}
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: What an options table may be asked for, apart from its fields.
_NOT_FIELDS = re.compile(r"Init$|GetRootAs|.*(BufferHasIdentifier|AsNumpy|Length|IsNone)$|_")


@cache
def _fields(kind: type) -> tuple[tuple[str, str, bool], ...]:
    """(the schema's name in lower case, the accessor, whether it is a vector) of a table's fields."""
    names = [name for name in vars(kind) if not _NOT_FIELDS.match(name)]
    return tuple((_WORDS.sub("_", n).lower(), n, f"{n}Length" in vars(kind)) for n in names)


#: Operators whose inner graph joins two elements, and where they say which graph that is.
_REDUCING = {
    "STABLEHLO_REDUCE": "body_subgraph_index", "STABLEHLO_REDUCE_WINDOW": "body_subgraph_index",
    "STABLEHLO_SCATTER": "update_computation_subgraph_index", "STABLEHLO_SORT": "comparator_subgraph_index",
}  # fmt: skip
_DIRECTIONS = {3: ">", 5: "<"}


def _name_reducers(subgraphs: Sequence[SubgraphInfo]) -> None:
    """Notes as the option `reducer` which operator an inner graph of one operator has: "=" where it gives what is new
    as it is, "<" and ">" for comparisons."""
    for node in (node for graph in subgraphs for node in graph.operators if not node.is_custom):
        number = node.options.get(_REDUCING.get(node.op, ""), -1)
        if not 0 <= number < len(subgraphs):
            continue
        inner = subgraphs[number]
        if not inner.operators and inner.outputs == inner.inputs[1:] and len(inner.inputs) == 2:
            node.options["reducer"] = "="
        elif len(inner.operators) == 1 and inner.operators[0].outputs == inner.outputs:
            only = inner.operators[0]
            is_turned = tuple(only.inputs) == tuple(inner.inputs)[::-1]
            if sorted(only.inputs) == sorted(inner.inputs):
                name = only.op
                if name == "STABLEHLO_COMPARE":
                    name = _DIRECTIONS.get(int(only.options.get("comparison_direction", 0)), "")
                node.options["reducer"] = "" if is_turned and name in ("<", ">", "LESS", "GREATER") else name


class _Parser:
    def __init__(self, content: bytes | mmap, where: str):
        self.content, self.where = content, where
        self.root = tflite.Model.GetRootAs(content, 0)
        # Every table takes some bytes, but a damaged file can count the same ones many times.
        self.left = len(content) + 1024

    def spend(self, count: int) -> None:
        self.left -= max(count, 1)
        if self.left < 0:
            raise ValueError("the file claims more than it can hold")

    def table(self, get: Callable[[int], Any], count: int) -> list[Any]:
        self.spend(count)
        rows = [get(n) for n in range(count)]
        if any(row is None for row in rows):
            raise ValueError("a table is missing")
        return rows

    def integers(self, holder: Any, name: str) -> tuple[int, ...]:
        """A vector of integers; empty where it is left out."""
        self.spend(getattr(holder, f"{name}Length")())
        array = getattr(holder, f"{name}AsNumpy")()
        return () if isinstance(array, int) else tuple(array.tolist())

    def array(self, holder: Any, name: str, dtype: str) -> Array:
        self.spend(getattr(holder, f"{name}Length")())
        array = getattr(holder, f"{name}AsNumpy")()
        return np.zeros(0, dtype) if isinstance(array, int) else np.array(array, dtype)

    def text(self, value: bytes | None) -> str:
        return "" if value is None else value.decode("utf-8", "replace")

    # ---------------------------------------------------------------- tables
    def model(self) -> ModelInfo:
        root = self.root
        codes = [self.code(c) for c in self.table(root.OperatorCodes, root.OperatorCodesLength())]
        buffers = [self.buffer(b) for b in self.table(root.Buffers, root.BuffersLength())]
        subgraphs = tuple(self.subgraph(g, codes, buffers) for g in self.table(root.Subgraphs, root.SubgraphsLength()))
        if not subgraphs:
            raise error("E0101", f"{self.where} is not a model: it has no graph")
        _name_reducers(subgraphs)
        metadata: dict[str, bytes] = {}
        for entry in self.table(root.Metadata, root.MetadataLength()):
            content = buffers[entry.Buffer()] if entry.Buffer() < len(buffers) else None
            metadata[self.text(entry.Name())] = b"" if content is None else content.tobytes()
        signatures = tuple(self.signature(s) for s in self.table(root.SignatureDefs, root.SignatureDefsLength()))
        return ModelInfo(self.text(root.Description()), subgraphs, signatures, metadata, self.content)

    def code(self, code: Any) -> tuple[str, bool, int]:
        """(name, whether it is a custom one, version) of an operator."""
        # Old files have the code in a byte, new ones in both fields while it fits, some in the newer one only: then the
        # package's own accessor passes over it.
        table = code._tab
        place = table.Offset(_BUILTIN_CODE)
        newer = table.Get(Int32Flags, place + table.Pos) if place else 0
        number = max(code.DeprecatedBuiltinCode(), newer)
        name = OPERATOR_NAMES.get(number, f"number {number}")
        custom = name == "CUSTOM"
        return (self.text(code.CustomCode()) if custom else name), custom, code.Version()

    def buffer(self, buffer: Any) -> Array | None:
        if buffer.Offset() > 1:  # large files keep their weights after the flatbuffer
            start, size = buffer.Offset(), buffer.Size()
            if start + size > len(self.content):
                raise ValueError("weights outside of the file")
            return np.frombuffer(self.content, np.uint8, size, start)
        data = buffer.DataAsNumpy()
        return None if isinstance(data, int) or not data.size else data

    def subgraph(
        self, graph: Any, codes: Sequence[tuple[str, bool, int]], buffers: Sequence[Array | None]
    ) -> SubgraphInfo:
        name = self.text(graph.Name())
        rows = self.table(graph.Tensors, graph.TensorsLength())
        tensors = tuple(self.tensor(t, n, buffers) for n, t in enumerate(rows))
        operators = tuple(self.operator(o, codes) for o in self.table(graph.Operators, graph.OperatorsLength()))
        inputs, outputs = self.integers(graph, "Inputs"), self.integers(graph, "Outputs")
        used = {*inputs, *outputs} | {
            n for o in operators for n in (*o.outputs, *o.inputs, *o.intermediates) if n != -1
        }
        if any(not 0 <= n < len(tensors) for n in used):
            raise error("E0103", f'{self.where}: the graph "{name}" names a tensor that is not there')
        return SubgraphInfo(name, tensors, inputs, outputs, operators)

    def tensor(self, tensor: Any, index: int, buffers: Sequence[Array | None]) -> TensorInfo:
        number = tensor.Buffer()
        if number >= len(buffers):
            raise ValueError("a buffer that is not there")
        shape = self.integers(tensor, "Shape")
        signature = self.integers(tensor, "ShapeSignature")
        name, quantization = self.text(tensor.Name()) or f"tensor {index}", tensor.Quantization()
        if quantization is not None and quantization.DetailsType() == _BLOCKWISE:
            fix = "quantize it with one scale per tensor or per channel"
            raise error("E0113", f'{self.where}: the tensor "{name}" has a scale for each of its blocks', fix=fix)
        return TensorInfo(
            index,
            name,
            TYPE_NAMES.get(tensor.Type(), f"number {tensor.Type()}"),
            shape,
            signature if len(signature) == len(shape) else shape,
            buffers[number] if number else None,
            self.quantization(quantization),
            self.sparsity(tensor.Sparsity()),
            bool(tensor.IsVariable()),
        )

    def quantization(self, given: Any) -> Quantization | None:
        if given is None:
            return None
        scales = self.array(given, "Scale", "float32")
        if not scales.size:
            return None
        zeros = self.array(given, "ZeroPoint", "int64")
        return Quantization(
            scales, zeros if zeros.size else np.zeros(len(scales), np.int64), given.QuantizedDimension()
        )

    def sparsity(self, given: Any) -> Sparsity | None:
        if given is None:
            return None
        dimensions: list[int | tuple[tuple[int, ...], tuple[int, ...]]] = []
        for row in self.table(given.DimMetadata, given.DimMetadataLength()):
            if row.Format() == tflite.DimensionType.DENSE:
                dimensions.append(row.DenseSize())
            else:
                segments = self.vector(row.ArraySegmentsType(), row.ArraySegments())
                dimensions.append((segments, self.vector(row.ArrayIndicesType(), row.ArrayIndices())))
        return Sparsity(self.integers(given, "TraversalOrder"), self.integers(given, "BlockMap"), tuple(dimensions))

    def vector(self, kind: int, table: Any) -> tuple[int, ...]:
        holder = _VECTORS[kind][0]()
        holder.Init(table.Bytes, table.Pos)
        return self.integers(holder, "Values")

    def operator(self, operator: Any, codes: Sequence[tuple[str, bool, int]]) -> OperatorInfo:
        name, custom, version = codes[operator.OpcodeIndex()]
        options: dict[str, Any] = {}
        for kinds, code, table in (
            (_OPTIONS[0], operator.BuiltinOptionsType(), operator.BuiltinOptions()),
            (_OPTIONS[1], operator.BuiltinOptions2Type(), operator.BuiltinOptions2()),
        ):
            if table is not None and code:
                options |= self.options(getattr(tflite, kinds[code]), table)
        given = operator.CustomOptionsAsNumpy()
        return OperatorInfo(
            name, custom, version, self.integers(operator, "Inputs"), self.integers(operator, "Outputs"),
            self.integers(operator, "Intermediates"), options, b"" if isinstance(given, int) else given.tobytes(),
        )  # fmt: skip

    def options(self, kind: type, table: Any) -> dict[str, Any]:
        holder = kind()
        holder.Init(table.Bytes, table.Pos)
        result: dict[str, Any] = {}
        for name, accessor, is_vector in _fields(kind):
            if is_vector:
                if hasattr(holder, f"{accessor}AsNumpy"):
                    result[name] = self.integers(holder, accessor)
                continue
            value = getattr(holder, accessor)()
            if isinstance(value, (bool, int, float, np.number)):
                result[name] = float(value) if isinstance(value, _FLOATING) else value
            elif isinstance(value, bytes):
                result[name] = self.text(value)
        return result

    def signature(self, given: Any) -> SignatureInfo:
        inputs = self.table(given.Inputs, given.InputsLength())
        outputs = self.table(given.Outputs, given.OutputsLength())
        return SignatureInfo(
            self.text(given.SignatureKey()),
            given.SubgraphIndex(),
            tuple((self.text(m.Name()), m.TensorIndex()) for m in inputs),
            tuple((self.text(m.Name()), m.TensorIndex()) for m in outputs),
        )
