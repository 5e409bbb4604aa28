"""The core operators, each declared once."""

from sterna.ops.builder import Builder
from sterna.ops.operator import Application, Attribute, Case, Fusion, Onnx, Operator
from sterna.ops.table import add_operator, infer, operator, operators

__all__ = [
    "Application",
    "Attribute",
    "Builder",
    "Case",
    "Fusion",
    "Onnx",
    "Operator",
    "add_operator",
    "infer",
    "operator",
    "operators",
]
