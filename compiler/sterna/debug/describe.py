"""Facts about a bundle or a model, without compiling or running it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import inliner

from sterna.advice import Compile
from sterna.bundle.ownership import GRAPH, SINGLE, listed
from sterna.bundle.reader import damaged_files, read_graph
from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.onnx import structure
from sterna.frontends.onnx.file import element_type, load
from sterna.frontends.onnx.nodes import opsets, schema
from sterna.frontends.onnx.operators import translators
from sterna.ir import dtypes
from sterna.runtime.dims import Bounds, Dimension


@dataclass(frozen=True)
class ModelTensor:
    """An input or output as the model declares it: sizes, names, or "?" for what is open; None: not even the rank."""

    name: str
    dtype: str
    dims: tuple[int | str, ...] | None

    def __str__(self) -> str:
        return f"{self.dtype}[{'...' if self.dims is None else ', '.join(map(str, self.dims))}]"


@dataclass(frozen=True)
class OperatorUse:
    """An operator of the model. `support` is "yes", "expanded" (into others, as ONNX defines it), "folded",
    "unrolled" or "no"."""

    name: str
    nodes: int
    support: str


@dataclass(frozen=True)
class Totals:
    """What a run of a model takes.

    Args:
        nodes: kernels that are called.
        arena_bytes: memory for what lies between them; live_bytes: the least that any plan needs.
        multiply_adds: of matrix products, convolutions and recurrences, every node once, at the largest sizes.
        sizes: open dimensions that were given a size to say so, by name.
    """

    nodes: int
    arena_bytes: int
    live_bytes: int
    multiply_adds: int
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelFacts:
    """What a model file holds.

    Args:
        format: the format's name.
        signatures: names of a TensorFlow Lite model's signatures.
        file_bytes: of the file, without external data.
        totals: what it becomes when it is compiled for this machine; None where that cannot be said.
    """

    file: str
    producer: str
    opsets: dict[str, int]
    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]
    operators: tuple[OperatorUse, ...]
    nodes: int
    weights: int
    weight_bytes: int
    problems: tuple[Diagnostic, ...]
    format: str = "ONNX"
    signatures: tuple[str, ...] = ()
    file_bytes: int = 0
    totals: Totals | None = None

    @property
    def open_dims(self) -> tuple[str, ...]:
        """Named dimensions of the inputs that `--dim` can set."""
        names = (d for tensor in self.inputs for d in tensor.dims or () if isinstance(d, str) and d != "?")
        return tuple(dict.fromkeys(names))

    @property
    def open_inputs(self) -> tuple[str, ...]:
        """Inputs with dimensions that must be given."""
        return tuple(t.name for t in self.inputs if t.dims is None or any(isinstance(d, str) for d in t.dims))


def describe_model(path: str | os.PathLike[str]) -> ModelFacts:
    """The facts of an ONNX file.

    Raises:
        SternaError: E0101, it is not a model.
    """
    proto, _ = load(path)
    where = Path(path).name
    problems: list[Diagnostic] = []
    versions: dict[str, int] = {"" if i.domain == "ai.onnx" else i.domain: i.version for i in proto.opset_import}
    try:
        versions = opsets(proto.opset_import)
        proto = inliner.inline_local_functions(proto) if proto.functions else proto
    except SternaError as mistake:
        problems += mistake.diagnostics
    except Exception as problem:  # the inliner's errors have no common type
        problems.append(Diagnostic("E0103", f"{where}: the model's functions cannot be expanded: {problem}"))
    graph = proto.graph
    stored = {tensor.name for tensor in graph.initializer}
    fed = [value for value in graph.input if value.name not in stored]
    positions, broken = structure.order(graph, stored | {value.name for value in fed}, where)
    problems += broken
    problems += structure.unsupported(graph, positions, versions, translators().keys(), where)
    counts = Counter((("" if n.domain == "ai.onnx" else n.domain), n.op_type) for n in graph.node)
    uses = (
        OperatorUse(f"{domain}.{op}" if domain else op, count, _support(domain, op, versions))
        for (domain, op), count in counts.most_common()
    )
    elements = [(t.data_type, _product(t.dims)) for t in graph.initializer]
    return ModelFacts(
        where,
        " ".join(filter(None, (proto.producer_name, proto.producer_version))),
        {domain or "ai.onnx": version for domain, version in versions.items()},
        tuple(map(_tensor, fed)),
        tuple(map(_tensor, graph.output)),
        tuple(uses),
        len(graph.node),
        sum(count for _, count in elements),
        sum(count * _bytes(code) for code, count in elements),
        tuple(problems),
    )


def _support(domain: str, op: str, versions: dict[str, int]) -> str:
    if (domain, op) in translators():
        return "yes"
    if domain == "" and op in structure.CONTROL:
        return "folded" if op == "If" else "unrolled"
    declared = schema(op, versions.get(domain, 0), domain)
    expandable = declared is not None and (declared.has_function or declared.has_context_dependent_function)
    return "expanded" if expandable else "no"


def _tensor(value: onnx.ValueInfoProto) -> ModelTensor:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return ModelTensor(value.name, (value.type.WhichOneof("value") or "unknown").removesuffix("_type"), None)
    try:
        dtype = element_type(kind.elem_type)
    except SternaError:
        dtype = "unsupported"
    if not kind.HasField("shape"):
        return ModelTensor(value.name, dtype, None)
    dims = (d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or "?" for d in kind.shape.dim)
    return ModelTensor(value.name, dtype, tuple(dims))


def _product(dims: Any) -> int:
    result = 1
    for size in dims:
        result *= max(0, int(size))
    return result


def _bytes(code: int) -> int:
    try:
        return dtypes.size(element_type(code))
    except SternaError:
        return 0


@dataclass(frozen=True)
class BundleFacts:
    """What a bundle holds.

    Args:
        graph: contents of graph.json; None for the static form, which has none.
        sizes: bytes of every file.
        intact: whether every hash fits; None where there are none.
    """

    directory: Path
    graph: dict[str, Any] | None
    sizes: dict[str, int]
    intact: bool | None


def describe_bundle(directory: str | os.PathLike[str]) -> BundleFacts:
    """The facts of a bundle for any machine.

    Raises:
        SternaError: E0006 the directory is no bundle, E0503 it cannot be read, E0504 to E0506 of graph.json.
    """
    place = Path(directory)
    try:
        sizes = {path.name: path.stat().st_size for path in sorted(place.iterdir()) if path.is_file()}
    except OSError as problem:
        raise error("E0503", f"{problem.filename} cannot be read: {problem.strerror}") from None
    if GRAPH not in sizes and SINGLE not in sizes:
        if {"kernels.c", "model.c"} <= sizes.keys():
            names = listed(place) or sizes.keys()
            return BundleFacts(place, None, {name: size for name, size in sizes.items() if name in names}, None)
        fix = Compile("MODEL", str(place))
        raise error("E0006", f"{place} is not a bundle: it has no graph.json", fix=fix)
    graph = read_graph(place)
    own = {name: size for name, size in sizes.items() if name in graph["files"] or name == GRAPH}
    return BundleFacts(place, graph, own, not damaged_files(graph, place))


def bundle_totals(graph: Mapping[str, Any]) -> Totals:
    """What a bundle's graph.json says of a run.

    Raises:
        SternaError: E0504, it does not say what it must.
    """
    try:
        symbols = graph.get("symbols", ())
        bounds = {row["name"]: Bounds(row["lo"], row["hi"]) for row in symbols}
        sizes = {name: each.hi for name, each in bounds.items()}
        counts = (Dimension(node.get("multiply_adds", 0), tuple(bounds)).at(sizes) for node in graph["nodes"])
        arena = graph["arena"]
        return Totals(len(graph["nodes"]), arena["bytes"], arena.get("live_bytes", 0), sum(counts), sizes)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise error("E0504", "graph.json is malformed", fix="compile the model again") from None


def dimension_text(size: Any, symbols: Sequence[Mapping[str, Any]]) -> str:
    """A dimension of graph.json for people: a number, or an expression over the symbols (docs/bundle.md)."""
    if not isinstance(size, list):
        return str(size)
    operator, *operands = size
    if operator == "d":
        return str(symbols[operands[0]]["name"])
    texts = [dimension_text(operand, symbols) for operand in operands]
    if operator in ("min", "max"):
        return f"{operator}({', '.join(texts)})"
    return f"({f' {operator} '.join(texts)})"
