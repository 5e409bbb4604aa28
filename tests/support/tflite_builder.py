"""TensorFlow Lite models written for tests, and what the reference kernels make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import pytest

from sterna.frontends.tflite.reference import NO_REFERENCE_KERNEL

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="ai-edge-litert is not installed")


@dataclass(frozen=True)
class Scale:
    """How integers stand for real numbers: one scale, or one per element of an axis."""

    scale: float | Sequence[float]
    zero: int | Sequence[int] = 0
    axis: int = 0


@dataclass
class GraphWriter:
    """One graph of a model: tensors and operators in the order in which they are added.

    `inputs` and `outputs` are positions of tensors; `feeds` what the inputs are to be given.
    """

    owner: ModelWriter
    name: str = "main"
    tensors: list[Any] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)

    def tensor(
        self,
        dtype: str,
        shape: Sequence[int],
        scale: Scale | None = None,
        data: np.ndarray | None = None,
        *,
        is_variable: bool = False,
        name: str = "",
    ) -> int:
        made = schema.TensorT()
        made.name = (name or f"t{len(self.tensors)}").encode()
        made.shape = list(shape)
        made.type = getattr(schema.TensorType, dtype.upper())
        made.isVariable = is_variable
        made.buffer = 0 if data is None else self.owner.buffer(np.ascontiguousarray(data).tobytes())
        if scale is not None:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = np.atleast_1d(np.asarray(scale.scale, np.float32)).tolist()
            made.quantization.zeroPoint = np.atleast_1d(np.asarray(scale.zero, np.int64)).tolist()
            made.quantization.quantizedDimension = scale.axis
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, data: np.ndarray, scale: Scale | None = None, dtype: str = "") -> int:
        return self.tensor(dtype or data.dtype.name, data.shape, scale, data)

    def input(self, data: np.ndarray, scale: Scale | None = None) -> int:
        """An input and what it is given."""
        position = self.tensor(data.dtype.name, data.shape, scale)
        self.inputs.append(position)
        self.feeds[f"t{position}"] = data
        return position

    def output(self, dtype: str, shape: Sequence[int] = (), scale: Scale | None = None) -> int:
        position = self.tensor(dtype, shape, scale)
        self.outputs.append(position)
        return position

    def op(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str = "",
        /,
        *,
        custom: bytes = b"",
        intermediates: Sequence[int] = (),
        **settings: Any,
    ) -> None:
        """An operator; its settings are fields of a table of options, as in AddOptions."""
        made = schema.OperatorT()
        made.opcodeIndex = self.owner.code(name)
        made.inputs, made.outputs = list(inputs), list(outputs)
        made.intermediates = list(intermediates) or None
        if custom:
            made.customOptions = list(custom)
        if options:
            table = getattr(schema, f"{options}T")()
            for key, value in settings.items():
                assert hasattr(table, key), (options, key)
                setattr(table, key, value)
            newer = hasattr(schema.BuiltinOptions2, options)
            kinds = schema.BuiltinOptions2 if newer else schema.BuiltinOptions
            setattr(made, "builtinOptions2" if newer else "builtinOptions", table)
            setattr(made, "builtinOptions2Type" if newer else "builtinOptionsType", getattr(kinds, options))
        self.operators.append(made)


class ModelWriter:
    """A model; `main` is its first graph."""

    def __init__(self) -> None:
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.operatorCodes, self.model.subgraphs = [], []
        self.model.metadata, self.model.signatureDefs = [], []
        self.model.buffers = [schema.BufferT()]
        self.graphs: list[GraphWriter] = []
        self.main = self.graph("main")

    def graph(self, name: str) -> GraphWriter:
        self.graphs.append(GraphWriter(self, name))
        return self.graphs[-1]

    def buffer(self, content: bytes) -> int:
        made = schema.BufferT()
        made.data = np.frombuffer(content, np.uint8)
        self.model.buffers.append(made)
        return len(self.model.buffers) - 1

    def code(self, name: str) -> int:
        made = schema.OperatorCodeT()
        number = getattr(schema.BuiltinOperator, name, None)
        made.builtinCode = schema.BuiltinOperator.CUSTOM if number is None else number
        made.customCode = name.encode() if number is None else None
        made.deprecatedBuiltinCode = min(made.builtinCode, 127)
        made.version = _VERSIONS.get(name, 1)
        self.model.operatorCodes.append(made)
        return len(self.model.operatorCodes) - 1

    def metadata(self, name: str, content: bytes) -> None:
        made = schema.MetadataT()
        made.name, made.buffer = name.encode(), self.buffer(content)
        self.model.metadata.append(made)

    def signature(self, key: str, graph: int, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        made = schema.SignatureDefT()
        made.signatureKey, made.subgraphIndex = key.encode(), graph
        made.inputs, made.outputs = ([self._named(n, t) for n, t in m.items()] for m in (inputs, outputs))
        self.model.signatureDefs.append(made)

    @staticmethod
    def _named(name: str, tensor: int) -> Any:
        made = schema.TensorMapT()
        made.name, made.tensorIndex = name.encode(), tensor
        return made

    def content(self) -> bytes:
        self.model.subgraphs = []
        for graph in self.graphs:
            made = schema.SubGraphT()
            made.name = graph.name.encode()
            made.tensors, made.operators = graph.tensors, graph.operators
            made.inputs, made.outputs = graph.inputs, graph.outputs
            self.model.subgraphs.append(made)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        return self.main.feeds

    def take(self, other: ModelWriter) -> None:
        """Adds what another model's graph does beside what this one's does; the other model is not to be used again."""
        graph, taken = self.main, other.main
        assert len(other.graphs) == 1
        tensors, buffers, codes = len(graph.tensors), len(self.model.buffers), len(self.model.operatorCodes)
        for n, tensor in enumerate(taken.tensors):
            tensor.name = f"t{tensors + n}".encode()
            tensor.buffer = tensor.buffer and tensor.buffer + buffers - 1
        for operator in taken.operators:
            operator.opcodeIndex += codes
            for names in ("inputs", "outputs", "intermediates"):
                positions = getattr(operator, names)
                if positions is not None:
                    setattr(operator, names, [n + tensors if n >= 0 else n for n in positions])
        self.model.buffers += other.model.buffers[1:]
        self.model.operatorCodes += other.model.operatorCodes
        graph.tensors += taken.tensors
        graph.operators += taken.operators
        graph.feeds.update({f"t{tensors + n}": taken.feeds[f"t{n}"] for n in taken.inputs})
        graph.inputs += [tensors + n for n in taken.inputs]
        graph.outputs += [tensors + n for n in taken.outputs]


#: Versions that the reference runtime wants to see for what the tests write; it takes newer ones for older features.
_VERSIONS = {
    "BATCH_MATMUL": 4, "BIDIRECTIONAL_SEQUENCE_LSTM": 3, "BROADCAST_TO": 2,
    "CONV_2D": 5, "DEPTHWISE_CONV_2D": 6, "DEQUANTIZE": 3,
    "FULLY_CONNECTED": 9, "LSTM": 4, "RNN": 3, "SVDF": 4, "TRANSPOSE_CONV": 3, "UNIDIRECTIONAL_SEQUENCE_LSTM": 3,
    "UNIDIRECTIONAL_SEQUENCE_RNN": 3,
}  # fmt: skip


class RefusedError(Exception):
    """The reference runtime does not take a model."""


#: Operators that the set of reference kernels lacks, or has with a flaw: SUM reads int8 as uint8.
_BY_THE_DEFAULT_KERNELS = {*NO_REFERENCE_KERNEL, "SUM"}


def reference(content: bytes, feeds: Sequence[Mapping[str, np.ndarray]], operator: str = "") -> list[list[np.ndarray]]:
    """The outputs of the reference kernels, one list per run of one interpreter.

    Args:
        operator: what the model is about, if it is one operator.

    Raises:
        RefusedError: it does not take the model.
    """
    kinds = litert.OpResolverType
    is_other = operator in _BY_THE_DEFAULT_KERNELS
    resolver = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if is_other else kinds.BUILTIN_REF
    try:
        runner = litert.Interpreter(model_content=content, experimental_op_resolver_type=resolver, num_threads=1)
        runner.allocate_tensors()
        runner.reset_all_variables()
        results = []
        for row in feeds:
            for spec in runner.get_input_details():
                runner.set_tensor(spec["index"], row[spec["name"]])
            runner.invoke()
            results.append([np.array(runner.get_tensor(spec["index"])) for spec in runner.get_output_details()])
        return results
    except (RuntimeError, ValueError) as problem:
        raise RefusedError(str(problem)) from None
