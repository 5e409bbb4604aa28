"""ONNX's own rules, asked where a translation trips: what they have against the node says it best."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import checker, numpy_helper, shape_inference

from sterna.frontends.onnx.file import ELEMENT_TYPES
from sterna.frontends.onnx.nodes import ML, Source, schema
from sterna.ir import dtypes
from sterna.ir.graph import Value

_CODES = {dtype: code for code, dtype in ELEMENT_TYPES.items()}
_MOST_ELEMENTS = 1 << 10  # of constants that the rules are shown


def objection(source: Source, operands: Sequence[object]) -> str:
    """What ONNX has against a node; empty if nothing, as where it has no rules for the operator.

    Args:
        operands: what it is applied to.
    """
    operator = schema(source.op, source.version, source.domain)
    if operator is None or source.domain == ML or source.proto is None:
        return ""
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for name, value in zip(source.inputs, operands, strict=False):
        if not isinstance(value, Value) or value.dtype not in _CODES:
            continue
        sizes = [int(size) if size.is_const else None for size in value.shape]
        types[name] = onnx.helper.make_tensor_type_proto(_CODES[value.dtype], sizes)
        if value.data is not None and value.data.size <= _MOST_ELEMENTS and value.dtype in dtypes.ALL:
            data[name] = numpy_helper.from_array(value.data, name)
    imports = [onnx.helper.make_opsetid(source.domain, source.version)]
    try:
        checker.check_node(source.proto, _context(source))
        shape_inference.infer_node_outputs(operator, source.proto, types, data, opset_imports=imports)
    except Exception as problem:  # its errors have no common type
        return str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
    return ""


def _context(source: Source) -> checker.C.CheckerContext:
    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, {source.domain: source.version}
    return context
