"""The core operators, each declared once."""

from sterna.ops.builder import Builder
from sterna.ops.operator import Attribute, Call, Case, Fusion, Onnx, Operator
from sterna.ops.table import infer, operator, operators

__all__ = ["Attribute", "Builder", "Call", "Case", "Fusion", "Onnx", "Operator", "infer", "operator", "operators"]
