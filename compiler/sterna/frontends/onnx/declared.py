"""Shapes that a model declares for its tensors, for operators whose result's shape an operand decides at run time."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

Sizes = tuple[int, ...]

#: Operators whose result has the shape of their first operand.
_NAMES = """
    Abs Cast CastLike Ceil Clip Cos DequantizeLinear Dropout Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsInf
    IsNaN LeakyRelu Log LogSoftmax Mish Neg Not QuantizeLinear Reciprocal Relu Round Selu Sigmoid Sign Sin Softmax
    Softplus Softsign Sqrt Tanh
"""
_PRESERVING = frozenset(_NAMES.split())


def of_values(values: Iterable[onnx.ValueInfoProto]) -> dict[str, Sizes]:
    """The shapes that are given in full."""
    result: dict[str, Sizes] = {}
    for value in values:
        kind = value.type.tensor_type
        if value.type.HasField("tensor_type") and kind.HasField("shape"):
            dims = kind.shape.dim
            if all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims):
                result[value.name] = tuple(int(d.dim_value) for d in dims)
    return result


def spread(known: dict[str, Sizes], nodes: Iterable[onnx.NodeProto]) -> dict[str, Sizes]:
    """The shapes with those of operands that must have the shape of a result; `nodes` stand in order."""
    result = dict(known)
    for node in reversed(list(nodes)):
        if node.op_type in _PRESERVING and node.input and node.output and node.output[0] in result:
            result.setdefault(node.input[0], result[node.output[0]])
    return result
