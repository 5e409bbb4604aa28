"""Computes whatever depends on constants only."""

from __future__ import annotations

from sterna.ir.graph import Graph, Node, Value, constant
from sterna.ir.limits import constants_fit
from sterna.ir.sizes import symbols_in
from sterna.ops import operator
from sterna.ops.control import IF
from sterna.ops.evaluate import is_quick
from sterna.passes.rewriting import Rewriting

LARGEST = 1 << 27  # bytes of a result; all results together take half of what constants may
SAFE = 1 << 20  # bytes that are always worth it; larger results must not be larger than what they are made of


def fold_constants(graph: Graph) -> Graph:
    """The graph without nodes of constant operands. Views (transpose, reshape, slice, expand) copy nothing.

    Of an `if` with a constant condition, the nodes of the branch that is taken stay.
    """
    rewriting = Rewriting(graph)
    made = 0
    waiting = list(reversed(graph.nodes))
    while waiting:
        node = waiting.pop()
        operands = rewriting.operands(node)
        known = (
            bool(operands)
            and all(value is None or value.data is not None for value in operands)
            and not symbols_in(node.attributes)
        )
        if known and node.op == IF:
            assert operands[0] is not None
            assert operands[0].data is not None
            taken = node.regions[0 if operands[0].data.reshape(-1)[0] else 1]
            for value, result in zip(node.outputs, taken.outputs, strict=True):
                rewriting.substitute(value, result)
            waiting += reversed(taken.nodes)
            continue
        size = 0 if not known or node.regions else _made_by(node)
        if not known or node.regions or not _worth_it(node, operands, size) or not constants_fit(2 * (made + size)):
            rewriting.keep(node)
            continue
        made += size
        arrays = [None if value is None else value.data for value in operands]
        types = [value.type for value in node.outputs]
        results = rewriting.builder.evaluated(node.op, arrays, node.attributes, types)
        for value, array in zip(node.outputs, results, strict=True):
            rewriting.substitute(value, constant(value.name, array))
    return rewriting.finish()


def _made_by(node: Node) -> int:
    """Bytes that the results of a node would take; views take none."""
    if operator(node.op).view is not None or not all(value.type.is_static for value in node.outputs):
        return 0
    return sum(int(value.type.bytes) for value in node.outputs)


def _worth_it(node: Node, operands: tuple[Value | None, ...], size: int) -> bool:
    if not all(value.type.is_static for value in node.outputs):
        return False
    if operator(node.op).view is not None:
        return True
    arrays = [value.data for value in operands if value is not None and value.data is not None]
    given = sum(array.nbytes for array in arrays)
    return is_quick(node.op, arrays, size) and (size <= SAFE or (size <= LARGEST and size <= 4 * given))
