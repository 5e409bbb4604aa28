"""The table of all core operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sterna.errors import error
from sterna.ir.graph import Node, TensorType
from sterna.ops import (
    activation,
    blocks,
    checks,
    classical,
    coded_trees,
    convolution,
    correlation,
    dimensions,
    eigen,
    elementwise,
    fixed_point,
    gates,
    gather,
    im2col,
    inverse_root,
    movement,
    multiply_shift,
    narrow,
    overlap,
    planes,
    pooling,
    position_regions,
    products,
    quantization,
    random,
    recurrent,
    reduction,
    regions,
    resize,
    sampling,
    scatter,
    selection,
    special,
    suppression,
    trees,
    winograd,
)
from sterna.ops.control import control_types
from sterna.ops.operator import Operator

_MODULES = (
    dimensions,
    elementwise,
    special,
    activation,
    reduction,
    products,
    convolution,
    correlation,
    blocks,
    overlap,
    planes,
    pooling,
    quantization,
    random,
    movement,
    gather,
    im2col,
    narrow,
    fixed_point,
    multiply_shift,
    gates,
    inverse_root,
    resize,
    sampling,
    checks,
    selection,
    suppression,
    eigen,
    recurrent,
    trees,
    coded_trees,
    scatter,
    classical,
    regions,
    position_regions,
    winograd,
)


@cache
def operators() -> Mapping[str, Operator]:
    """Every operator that comes with Sterna, by name; not to be changed."""
    table: dict[str, Operator] = {}
    for module in _MODULES:
        for operator in module.OPERATORS:
            if operator.name in table:
                raise ValueError(f"the operator {operator.name} is declared twice")
            table[operator.name] = operator
    return MappingProxyType(table)


#: Operators that users declare.
_DECLARED: dict[str, Operator] = {}


def add_operator(declaration: Operator) -> Operator:
    """Makes a user's own operator known, so that translations can build it: `t.op(name, ...)`. A later declaration of
    the same name takes its place.

    Raises:
        SternaError: E0203, Sterna has an operator of that name.
    """
    if declaration.name in operators():
        raise error("E0203", f"there is a core operator {declaration.name} already", fix="give it another name")
    _DECLARED[declaration.name] = declaration
    return declaration


def operator(name: str) -> Operator:
    """The declaration of an operator.

    Raises:
        SternaError: E0104, there is none of that name.
    """
    found = operators().get(name) or _DECLARED.get(name)
    if found is None:
        raise error("E0104", f"there is no core operator {name}")
    return found


def infer(node: Node) -> tuple[TensorType, ...]:
    """The types of a node's results by its operator's rule, or its regions' results.

    Raises:
        SternaError: E0108 or E0109, the operands or attributes do not fit.
    """
    if node.regions:
        return control_types(node)
    types = tuple(None if value is None else value.type for value in node.inputs)
    return operator(node.op).types(types, node.attributes)


__all__ = ["add_operator", "infer", "operator", "operators"]
