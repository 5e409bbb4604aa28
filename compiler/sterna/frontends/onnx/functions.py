"""Operators that ONNX defines as functions of others: their definitions, for a node."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from sterna.frontends.onnx.nodes import Source, schema
from sterna.ir.graph import Value


def definition(source: Source, inputs: Sequence[Value | None]) -> onnx.FunctionProto | None:
    """ONNX's own definition of an operator."""
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
    attributes = list(node.attribute)
    if not any(attribute.ref_attr_name for attribute in attributes):
        return
    given = {a.name: a for a in outer.proto.attribute} if outer.proto is not None else {}
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
