"""Types and ranges of values that declarations give: a core operator's for the ONNX operator that is exactly it."""

from __future__ import annotations

from functools import lru_cache

from onnx import defs

from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.graph import tensor_type
from sterna.ops import Operator, operators
from support.nodes.case import OPSET

ONNX_NAMES = {"float32": "float", "float64": "double"}


@lru_cache
def declaration(op: str) -> Operator | None:
    """The core operator that an ONNX operator is, if it is one."""
    return next((o for o in operators().values() if any((m.domain, m.op) == ("", op) for m in o.onnx)), None)


@lru_cache
def types(op: str) -> tuple[str, ...]:
    """Element types that ONNX's schema allows the first operand, and the declaration's type rule; NumPy's only."""
    operator, schema = declaration(op), defs.get_schema(op, OPSET)
    kind = schema.inputs[0].type_str
    allowed = {name for c in schema.type_constraints if c.type_param_str == kind for name in c.allowed_type_strs}
    known = [d for d in dtypes.ALL if d != "bfloat16" and f"tensor({ONNX_NAMES.get(d, d)})" in allowed]
    return tuple(dtype for dtype in known if operator is None or _accepts(operator, dtype))


def _accepts(operator: Operator, dtype: str) -> bool:
    case = operator.cases[0]
    operands = tuple(None if a is None else tensor_type(dtype, a.shape) for a in case.arrays())
    try:
        operator.types(operands, operator.complete(case.attributes))
    except SternaError:
        return False
    return True


def bounds(op: str) -> tuple[float, float]:
    """The least and greatest value that the declaration tests the operator with."""
    operator = declaration(op)
    return (-3.0, 3.0) if operator is None else (operator.cases[0].low, operator.cases[0].high)
