"""Computes whatever depends on constants only."""

from __future__ import annotations

from sterna.ir.graph import Graph, Value, constant
from sterna.ir.sizes import symbols_in
from sterna.ops import operator
from sterna.ops.control import IF
from sterna.ops.evaluate import evaluate
from sterna.passes.rewriting import Rewriting

LARGEST = 1 << 28  # bytes of a result; a model cannot make the compiler fill the memory
SAFE = 1 << 20  # bytes that are always worth it; larger results must not be larger than what they are made of


def fold_constants(graph: Graph) -> Graph:
    """The graph without nodes of constant operands. Views (transpose, reshape, slice, expand) copy nothing.

    Of an `if` with a constant condition, the nodes of the branch that is taken stay.
    """
    rewriting = Rewriting(graph)
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
        if not known or node.regions or not _worth_it(node.op, operands, node.outputs):
            rewriting.keep(node)
            continue
        arrays = [None if value is None else value.data for value in operands]
        results = evaluate(node.op, arrays, node.attributes, [value.type for value in node.outputs])
        for value, array in zip(node.outputs, results, strict=True):
            rewriting.substitute(value, constant(value.name, array))
    return rewriting.finish()


def _worth_it(op: str, operands: tuple[Value | None, ...], results: tuple[Value, ...]) -> bool:
    if not all(value.type.is_static for value in results):
        return False
    if operator(op).view is not None:
        return True
    size = sum(int(value.type.bytes) for value in results)
    given = sum(value.data.nbytes for value in operands if value is not None and value.data is not None)
    return size <= SAFE or (size <= LARGEST and size <= 4 * given)
