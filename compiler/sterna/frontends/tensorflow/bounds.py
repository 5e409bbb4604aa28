"""Upper bounds of integers that a graph computes: what a size that depends on the data can be at most.

The post-processing of detectors cuts its results to `range(minimum(found, 100))`; memory is planned for the most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Node, Value
from sterna.ops import Builder

_SAME = frozenset(("reshape", "transpose", "slice", "gather", "expand", "identity", "reduce_max", "reduce_min"))
_ORDERED = frozenset(("greater", "greater_equal", "less", "less_equal"))
_DEEPEST = 32


def upper_bound(builder: Builder, value: Value) -> int | None:
    """The largest that an element of an integer or boolean tensor can be, as far as its operators say; else None."""
    makers = {output: node for node in builder.nodes for output in node.outputs}

    def most(value: Value, depth: int) -> int | None:
        if value.dtype == "bool":
            return 1
        if not dtypes.is_integer(value.dtype) or depth > _DEEPEST:
            return None
        if value.data is not None:
            return int(np.max(value.data)) if value.data.size else None
        if value.contents is not None:
            return _largest([n.bounds()[1] for n in value.contents.reshape(-1)])
        node = makers.get(value)
        return None if node is None else made_by(node, depth + 1)

    def made_by(node: Node, depth: int) -> int | None:
        each = [most(operand, depth) for operand in node.operands]
        if node.op == "minimum":
            return min((n for n in each if n is not None), default=None)
        if node.op == "maximum":
            return _largest(each)
        if node.op == "where":
            condition, yes, no = node.operands
            return _largest([chosen(condition, yes, True, depth), chosen(condition, no, False, depth)])
        if node.op == "add":
            known = [n for n in each if n is not None]
            return sum(known) if len(known) == len(each) else None
        if node.op == "reduce_sum":
            count = node.operands[0].type.elements.bounds()[1]
            return None if each[0] is None or count is None else max(each[0], 0) * count
        if node.op == "cast" or node.op in _SAME:
            return each[0]
        return None

    def chosen(condition: Value, value: Value, holds: bool, depth: int) -> int | None:
        """The most of what a condition chooses, which may compare just that: of `where(a > b, b, a)` the lesser."""
        bounds, node = [most(value, depth)], makers.get(condition)
        if node is not None and node.op in _ORDERED:
            greater, less = node.operands if node.op.startswith("greater") is holds else reversed(node.operands)
            if less is value:
                bounds.append(most(greater, depth))
        return min((n for n in bounds if n is not None), default=None)

    return most(value, 0)


def _largest(each: Sequence[int | None]) -> int | None:
    known = [n for n in each if n is not None]
    return max(known) if known and len(known) == len(each) else None
