"""What an ONNX file holds, without compiling it."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import onnx
from onnx import inliner

from sterna.errors import Diagnostic, SternaError
from sterna.frontends.description import Description, ModelTensor, OperatorUse
from sterna.frontends.onnx import structure
from sterna.frontends.onnx.file import element_type, load, name_of
from sterna.frontends.onnx.nodes import opsets, schema
from sterna.frontends.onnx.operators import MICROSOFT, translators
from sterna.frontends.onnx.operators.microsoft_quantized import APPROXIMATED
from sterna.ir import dtypes


def describe(model: str | os.PathLike[str] | onnx.ModelProto) -> Description:
    """The facts of an ONNX model.

    Raises:
        SternaError: E0101, it is not a model.
    """
    proto, _ = load(model)
    where = name_of(model, proto)
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
    return Description(
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
        "ONNX",
    )


def approximated_nodes(model: str | os.PathLike[str] | onnx.ModelProto) -> dict[str, str]:
    """Nodes of the main graph whose import differs from ONNX Runtime by design: name -> how."""
    nodes = load(model)[0].graph.node
    return {
        name: APPROXIMATED[node.op_type]
        for name, node in zip(structure.node_names(nodes), nodes, strict=True)
        if node.domain == MICROSOFT and node.op_type in APPROXIMATED
    }


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
