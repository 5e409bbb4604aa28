"""Operators that work element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from onnx import helper

from support.nodes import declared
from support.nodes.case import NodeCase
from support.nodes.draw import ALPHA, BOOL, FLOATS, INTEGERS, Draw, array, broadcast, one_of, shape_of, some, strategy

_NAMES = """
    Abs Neg Ceil Floor Round Sign Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Sigmoid Tanh Erf
    Softplus Softsign Relu HardSwish Mish Reciprocal Identity IsNaN
"""
UNARY = _NAMES.split()


#: Where the references themselves differ on infinities, NaN and numbers near the ends of the range.
TAME = [
    "Sinh",
    "Cosh",
    "Tan",
    "Sin",
    "Cos",
    "Mish",
    "Erf",
    "Softsign",
    "HardSwish",
    "Sign",
    "Round",
    "Softplus",
    "Relu",
]


@strategy(*UNARY)
def unary(draw: Draw, op: str) -> NodeCase:
    dtype, (low, high) = one_of(draw, "float32", *declared.types(op)), declared.bounds(op)
    x = array(draw, shape_of(draw, 0, 6), dtype, special=op not in TAME, low=low, high=high)
    return NodeCase(op, (x,), loose=4)


@strategy("LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "HardSigmoid", "Gelu", "Shrink", "IsInf")
def parametric(draw: Draw, op: str) -> NodeCase:
    given: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "LeakyRelu": {"alpha": ALPHA}, "Elu": {"alpha": ALPHA}, "ThresholdedRelu": {"alpha": ALPHA},
        "Selu": {"alpha": ALPHA, "gamma": ALPHA}, "Celu": {"alpha": st.sampled_from([0.3, 1.0, 2.0])},
        "HardSigmoid": {"alpha": ALPHA, "beta": ALPHA}, "Gelu": {"approximate": st.sampled_from(["tanh", "none"])},
        "Shrink": {"bias": ALPHA, "lambd": st.sampled_from([0.5, 1.5])},
        "IsInf": {"detect_negative": BOOL, "detect_positive": BOOL},
    }  # fmt: skip
    return NodeCase(
        op, (array(draw, shape_of(draw), special=op == "IsInf"),), attributes=some(draw, **given[op]), loose=4
    )


@strategy("Clip")
def clip(draw: Draw, op: str) -> NodeCase:
    dtype = one_of(draw, "float32", "float64", "int32", "int8", "uint8", "int64")
    bounds = [array(draw, (), dtype) if draw(st.booleans()) else None for _ in range(2)]
    return NodeCase(op, (array(draw, shape_of(draw), dtype), *bounds), frozenset(draw(st.sampled_from([(), (1, 2)]))))


BINARY = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "PRelu",
    "And",
    "Or",
    "Xor",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
]


@strategy(*BINARY)
def binary(draw: Draw, op: str) -> NodeCase:
    dtype, shape = one_of(draw, *declared.types(op)), shape_of(draw, 0, 5)
    is_float = dtype.startswith("float")
    special = op not in ("Pow", "PRelu") and (is_float or op != "Div")
    a, b = array(draw, shape, dtype, special), array(draw, broadcast(draw, shape), dtype, special)
    if op == "Pow":
        a, b = np.abs(a), b if is_float else np.abs(b)
    elif op == "Div" and not is_float:
        b = np.where(b == 0, np.array(1, dtype), b)
    elif op != "PRelu" and draw(st.booleans()):
        a, b = b, a
    return NodeCase(op, (a, b), frozenset(draw(st.sampled_from([(), (1,)]))), loose=4 if op == "Pow" else 1)


@strategy("Mod")
def modulo(draw: Draw, op: str) -> NodeCase:
    dtype = one_of(draw, "float32", "int32", "int64", "uint8", "int8")
    shape = shape_of(draw)
    x, y = array(draw, shape, dtype, low=-20, high=20), array(draw, broadcast(draw, shape), dtype, low=-5, high=5)
    y = np.where(np.abs(y) < 0.25, np.array(3, dtype), y)
    return NodeCase(op, (x, y), attributes={"fmod": 1} if dtype == "float32" else some(draw, fmod=BOOL), loose=10)


@strategy("BitShift")
def shift(draw: Draw, op: str) -> NodeCase:
    dtype, shape = one_of(draw, "uint8", "uint32", "uint64"), shape_of(draw)
    operands = (array(draw, shape, dtype, True), array(draw, broadcast(draw, shape), dtype, low=0, high=7))
    return NodeCase(op, operands, attributes={"direction": one_of(draw, "LEFT", "RIGHT")})


@strategy("Max", "Min", "Sum", "Mean")
def several(draw: Draw, op: str) -> NodeCase:
    shape = shape_of(draw)
    dtype = one_of(draw, "float32", "int32", "float64") if op in ("Max", "Min") else "float32"
    count = draw(st.integers(1, 4))
    return NodeCase(op, tuple(array(draw, broadcast(draw, shape), dtype, op in ("Max", "Min")) for _ in range(count)))


@strategy("Where")
def where(draw: Draw, op: str) -> NodeCase:
    shape, dtype = shape_of(draw), one_of(draw, "float32", "int64", "uint8")
    values = (array(draw, broadcast(draw, shape), dtype, True) for _ in range(2))
    return NodeCase(op, (array(draw, broadcast(draw, shape), "bool"), *values))


@strategy("Not", "BitwiseNot")
def inverted(draw: Draw, op: str) -> NodeCase:
    dtype = "bool" if op == "Not" else one_of(draw, *INTEGERS)
    return NodeCase(op, (array(draw, shape_of(draw), dtype, True),))


@strategy("Cast")
def cast(draw: Draw, op: str) -> NodeCase:
    source, target = one_of(draw, *FLOATS, *INTEGERS, "bool"), one_of(draw, *FLOATS, *INTEGERS, "bool")
    # What a float beyond the range of the integers becomes is not defined.
    low = 0 if target.startswith("u") and source.startswith("float") else -100
    x = array(draw, shape_of(draw), source, not source.startswith("float"), low, 100)
    return NodeCase(op, (x,), attributes={"to": helper.np_dtype_to_tensor_dtype(np.dtype(target))})
