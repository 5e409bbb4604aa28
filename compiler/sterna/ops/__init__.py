"""The core operators, each declared once."""

from sterna.ops.builder import Builder
from sterna.ops.operator import Application, Attribute, Case, Fusion, Onnx, Operator
from sterna.ops.table import infer, operator, operators

__all__ = [
    "Application",
    "Attribute",
    "Builder",
    "Case",
    "Fusion",
    "Onnx",
    "Operator",
    "infer",
    "operator",
    "operators",
]
