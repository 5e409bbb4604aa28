"""Checks of a graph's structure before anything is translated: names, order, reachability, supported operators."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx

from sterna.errors import Diagnostic, SternaError
from sterna.frontends.custom import how_to_register
from sterna.frontends.onnx.functions import all_nodes
from sterna.frontends.onnx.nodes import ML, schema
from sterna_runtime.arguments import Dims

#: Operators with sub-graphs: one branch is taken, or a known number of iterations is written out.
CONTROL = ("If", "Loop", "Scan")
#: Domains whose operators only one machine can run, and what to do instead.
_FIXES = {
    "com.microsoft.nchwc": "give the model before ONNX Runtime laid it out for one processor, or save it with "
    "graph_optimization_level = ORT_ENABLE_EXTENDED",
    "ai.onnx.preview.training": "leave it out: it is of training",
}
_OUTSIDE = "export the model that it repeats, and repeat it in the program around it (`sterna run` of one step)"
_TEXT = "tokenize before, and make the numbers an input"
_PAGES = "export the model with GroupQueryAttention and a cache of its own, not with pages of a server"
_ORDERED = "it is of one GPU library's layouts: give the model before it was optimized for TensorRT or cuBLASLt"
_PACKED = "its weights are packed for one library: give the model before, with MatMulNBits or float weights"
_LIBRARY = "it is a program of one vendor's library: give the model before it was compiled for that"
#: Operators of com.microsoft that are known and not translated, and what to do instead.
_MICROSOFT = {
    **dict.fromkeys(("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"), _OUTSIDE),
    **dict.fromkeys(
        ("MurmurHash3", "NGramHashMapping", "Tokenizer", "VarlenNGramHashMapping", "WordConvEmbedding"), _TEXT,
    ),
    **dict.fromkeys(
        ("DynamicSparseAttention", "PackedAttention", "PackedMultiHeadAttention", "PackedSparseAttentionIndexer",
         "PackedSparseAttentionIndexerMerge", "PagedAttention", "SparseAttention", "SparseAttentionIndexer",
         "SparsePagedAttention", "VarlenCausalConvWithState"), _PAGES,
    ),
    **dict.fromkeys(
        ("DequantizeWithOrder", "QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization",
         "QOrderedLongformerAttention", "QOrderedMatMul", "QuantizeWithOrder"), _ORDERED,
    ),
    **dict.fromkeys(
        ("DequantizeBFP", "GatherPacked", "GemmFloat8", "MatMulBlockQuantizedFp4Weight",
         "MatMulBlockQuantizedFp8Weight", "MatMulFpQ4", "MatMulPacked", "MoEPacked", "QuantizeBFP"), _PACKED,
    ),
    **dict.fromkeys(("BifurcationDetector", "DecoderMaskedSelfAttention", "DynamicTimeWarping"), _OUTSIDE),
    **dict.fromkeys(("EPContext", "Snpe"), _LIBRARY),
}  # fmt: skip
_SHOWN = 4  # names that a message lists before it only counts


#: Operators of which the data decide how much they find; of Loop, how many iterations it makes.
DATA_SIZED = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Range", "Unique"})


def data_limits(graph: onnx.GraphProto, dims: Dims) -> tuple[Dims, dict[str, tuple[int, int]]]:
    """The sizes given for dimensions of inputs, and the limits given for results whose sizes the data decide."""
    results: set[str] = set()
    for node in all_nodes(graph.node):
        if node.op_type in DATA_SIZED:
            results |= set(node.output[:1])
        elif node.op_type == "Loop":
            results |= set(node.output[max(len(node.input) - 2, 0) :])
    given = {name: size for name, size in dims.items() if name in results and not isinstance(size, str)}
    limits = {name: size[:2] if isinstance(size, tuple) else (0, size) for name, size in given.items()}
    return {name: size for name, size in dims.items() if name not in given}, limits


def check_imports(model: onnx.ModelProto, versions: Mapping[str, int], where: str) -> None:
    """Refuses standard operators of which the model does not say which version it means.

    Raises:
        SternaError: E0102.
    """
    used = {"" if node.domain == "ai.onnx" else node.domain for node in all_nodes(model.graph.node)}
    missing = sorted(used & {"", ML} - versions.keys())
    if missing:
        names = [domain or "ai.onnx" for domain in missing]
        raise SternaError(Diagnostic("E0102", f"{where} does not say which operator set of {n} it uses") for n in names)


def doubles(graph: onnx.GraphProto, where: str) -> list[Diagnostic]:
    """Inputs and initializers of a graph or sub-graph that stand there twice or have no name."""
    problems = repeated("initializer", [tensor.name for tensor in graph.initializer], where)
    return problems + repeated("input", [value.name for value in graph.input], where)


def repeated(what: str, names: Iterable[str], where: str) -> list[Diagnostic]:
    """Names that stand in a list twice, or are none."""
    seen: set[str] = set()
    problems = []
    for name in names:
        if not name:
            problems.append(Diagnostic("E0103", f"{where}: an {what} has no name"))
        elif name in seen:
            problems.append(Diagnostic("E0103", f'{where}: the {what} "{name}" stands there twice'))
        seen.add(name)
    return problems


def node_names(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """A name for every node: its own, or one made of its operator and position."""
    return [node.name or f"{node.op_type}_{position}" for position, node in enumerate(nodes)]


def listed(names: Collection[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in list(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def subgraph_reads(node: onnx.NodeProto) -> set[str]:
    """Names of the surrounding graph that a node's sub-graphs read."""
    result: set[str] = set()
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            own = {value.name for value in graph.input} | {value.name for value in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            for inner in graph.node:
                result |= ({name for name in inner.input if name} | subgraph_reads(inner)) - own
            result |= {value.name for value in graph.output} - own
    return result


def order(graph: onnx.GraphProto, given: Collection[str], where: str) -> tuple[list[int], list[Diagnostic]]:
    """The positions of the nodes that the outputs need, producers first, and what is wrong with the graph.

    Args:
        given: names that are defined without a node: inputs, initializers, values of the surrounding graph.
    """
    problems: list[Diagnostic] = []
    names = node_names(graph.node)
    producer: dict[str, int] = {}
    for position, node in enumerate(graph.node):
        for name in node.output:
            if not name:
                continue
            if name in producer or name in given:
                text = f'{where}: the tensor "{name}" is defined twice'
                problems.append(Diagnostic("E0103", text, (f'by {node.op_type} "{names[position]}"',)))
            producer[name] = position
    needed = [value.name for value in graph.output]
    for name in needed:
        if name not in producer and name not in given:
            problems.append(Diagnostic("E0103", f'{where}: nothing computes the output "{name}"'))
    result: list[int] = []
    state: dict[int, int] = {}
    missing: dict[str, list[str]] = {}
    stack = [producer[name] for name in reversed(needed) if name in producer]
    while stack:
        position = stack[-1]
        if state.get(position) is not None:
            stack.pop()
            if state[position] == 1:
                state[position] = 2
                result.append(position)
            continue
        state[position] = 1
        node = graph.node[position]
        for name in dict.fromkeys((*node.input, *sorted(subgraph_reads(node)))):
            if not name or name in given:
                continue
            source = producer.get(name)
            if source is None:
                missing.setdefault(name, []).append(names[position])
            elif state.get(source) == 1:
                text = f'{where}: the nodes "{names[source]}" and "{names[position]}" depend on each other'
                problems.append(Diagnostic("E0103", text, (f'through the tensor "{name}"',)))
            elif state.get(source) is None:
                stack.append(source)
    for name, readers in missing.items():
        problems.append(
            Diagnostic("E0103", f'{where}: nothing computes the tensor "{name}"', (f"read by {listed(readers)}",))
        )
    return result, problems


def unsupported(
    graph: onnx.GraphProto,
    positions: Iterable[int],
    versions: Mapping[str, int],
    known: Collection[tuple[str, str]],
    where: str,
) -> list[Diagnostic]:
    """One diagnostic per operator that can neither be translated nor expanded, with its nodes."""
    found: dict[tuple[str, str], list[str]] = {}
    names = node_names(graph.node)
    for position in positions:
        node = graph.node[position]
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) in known or (domain == "" and node.op_type in CONTROL):
            continue
        declared = schema(node.op_type, versions.get(domain, 0), domain) if domain in versions else None
        if declared is not None and (declared.has_function or declared.has_context_dependent_function):
            continue
        found.setdefault((domain, node.op_type), []).append(names[position])
    problems = []
    for (domain, op), nodes in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        label = f"{domain}.{op}" if domain else op
        count = f"{len(nodes)} node" + ("s" if len(nodes) > 1 else "")
        reason = _MICROSOFT.get(op) if domain == "com.microsoft" else None
        fix = _FIXES.get(domain) or reason or how_to_register("onnx", f"{domain}::{op}" if domain else op)
        problems.append(
            Diagnostic("E0104", f"the operator {label} is not supported ({count})", (f"{where}, {listed(nodes)}",), fix)
        )
    return problems
