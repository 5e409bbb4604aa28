"""Functions: those of a model, and the operators that ONNX defines as functions of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import inliner

from sterna.errors import error
from sterna.frontends.onnx.nodes import Source, schema
from sterna.ir.graph import Value

MOST_NODES = 1 << 17  # of a model with its functions expanded
DEEPEST = 256  # functions that call each other

#: A function of a model, by domain, name and overload.
Key = tuple[str, str, str]
Functions = Mapping[Key, onnx.FunctionProto]


def expanded(model: onnx.ModelProto, where: str) -> tuple[onnx.ModelProto, Functions]:
    """The model with its functions expanded, and those that could not be, as they are made of other operator sets.

    Raises:
        SternaError: E0103, a function calls itself, is defined twice or malformed; E0112, that gives too many nodes.
    """
    if not model.functions:
        return model, {}
    functions: dict[Key, onnx.FunctionProto] = {}
    for function in model.functions:
        if (key := _key(function.domain, function.name, function)) in functions:
            raise error("E0103", f"{where}: the function {_label(key)} is defined twice")
        functions[key] = function
    count = _expanded_nodes(model.graph.node, functions, where)
    if count > MOST_NODES:
        raise error("E0112", f"{where} has {count} nodes when its functions are expanded, more than {MOST_NODES}")
    if any(function.attribute_proto for function in model.functions):
        model = _with_defaults(model, functions)
    try:
        result = inliner.inline_local_functions(model)
    except MemoryError:
        raise
    except Exception as problem:  # a malformed function; the inliner's errors have no common type
        raise error("E0103", f"{where}: the model's functions cannot be expanded: {problem}") from None
    return result, {_key(f.domain, f.name, f): f for f in result.functions}


def _with_defaults(model: onnx.ModelProto, functions: Functions) -> onnx.ModelProto:
    """A copy whose calls have all attributes: the inliner leaves out those that a call does not give."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for nodes in (result.graph.node, *(function.node for function in result.functions)):
        for node in all_nodes(nodes):
            function = functions.get(_key(node.domain, node.op_type, node))
            if function is not None:
                given = {attribute.name for attribute in node.attribute}
                node.attribute.extend(a for a in function.attribute_proto if a.name not in given)
    return result


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of the graphs within them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from all_nodes(graph.node)


def _key(domain: str, name: str, of: onnx.FunctionProto | onnx.NodeProto) -> Key:
    return "" if domain == "ai.onnx" else domain, name, getattr(of, "overload", "")


def _label(key: Key) -> str:
    return ".".join(filter(None, key[:2]))


def _expanded_nodes(nodes: Iterable[onnx.NodeProto], functions: Functions, where: str) -> int:
    """How many nodes there are when functions are expanded.

    Raises:
        SternaError: E0103, a function calls itself, or functions call each other too deep.
    """
    counts: dict[Key | None, int] = {}
    path: list[tuple[Key | None, list[Key], Iterator[Key]]] = []
    inside: set[Key | None] = set()

    def enter(key: Key | None, own: Iterable[onnx.NodeProto]) -> None:
        calls = [_key(node.domain, node.op_type, node) for node in all_nodes(own)]
        path.append((key, calls, iter(dict.fromkeys(called for called in calls if called in functions))))

    enter(None, nodes)
    while path:
        key, calls, following = path[-1]
        inner = next(following, None)
        if inner is None:
            path.pop()
            counts[key] = sum(counts.get(called, 1) for called in calls)
            inside.discard(key)
        elif inner in inside:
            raise error("E0103", f"{where}: the function {_label(inner)} calls itself")
        elif inner not in counts:
            if len(path) > DEEPEST:
                raise error("E0103", f"{where}: functions call each other more than {DEEPEST} deep")
            inside.add(inner)
            enter(inner, functions[inner].node)
    return counts[None]


def definition(source: Source, inputs: Sequence[Value | None], own: Functions) -> onnx.FunctionProto | None:
    """What an operator is defined as: by the model's functions, or by ONNX."""
    if source.proto is not None and (found := own.get(_key(source.domain, source.op, source.proto))) is not None:
        return found
    operator = schema(source.op, source.version, source.domain)
    if operator is None or source.proto is None:
        return None
    if operator.has_function:
        body: onnx.FunctionProto = operator.function_body
        return body
    if not operator.has_context_dependent_function:
        return None
    kinds = []
    for value in inputs:
        kind = onnx.TypeProto()
        if value is not None:
            code = {"float32": "FLOAT", "float64": "DOUBLE"}.get(value.dtype, value.dtype.upper())
            kind.tensor_type.elem_type = onnx.TensorProto.DataType.Value(code)
            for size in value.shape:
                dim = kind.tensor_type.shape.dim.add()
                if size.is_const:
                    dim.dim_value = int(size)
        kinds.append(kind.SerializeToString())
    try:
        text = operator.get_context_dependent_function(source.proto.SerializeToString(), kinds)
    except Exception:  # the builder gives up in many ways when a node is not what it expects
        return None
    result = onnx.FunctionProto()
    result.ParseFromString(text)
    return result if result.node else None


def resolve(node: onnx.NodeProto, outer: Source) -> None:
    """Replaces references to attributes of the function's call by those attributes, or their defaults."""
    given = {a.name: a for a in outer.proto.attribute} if outer.proto is not None else {}
    for inner in all_nodes([node]):
        _resolve(inner, given, outer)


def _resolve(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto], outer: Source) -> None:
    attributes = list(node.attribute)
    if not any(attribute.ref_attr_name for attribute in attributes):
        return
    operator = schema(outer.op, outer.version, outer.domain)
    del node.attribute[:]
    for attribute in attributes:
        value = attribute
        if attribute.ref_attr_name:
            value = given.get(attribute.ref_attr_name)
            if value is None and operator is not None and attribute.ref_attr_name in operator.attributes:
                value = operator.attributes[attribute.ref_attr_name].default_value
            if value is None or not value.type:
                continue
        node.attribute.add().CopyFrom(value)
        node.attribute[-1].name = attribute.name
