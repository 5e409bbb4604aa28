"""Sums of products over labels that are products of matrices become those.

Of two operands, the labels of both that stay are a batch, those of one alone rows or columns, and those of both that
do not stay what is summed over. As a matrix product it has contiguous operands, is computed in tiles, and is found by
what looks for attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Node, Value
from sterna.ir.integer import Int
from sterna.loops.build import product
from sterna.passes.rewriting import Rewriting

Labels = Sequence[int]


def einsum_products(graph: Graph) -> Graph:
    """The graph with matrix products instead of einsums, where they are such."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if node.op != "einsum" or not _is_product(node):
            rewriting.keep(node)
            continue
        left, right = rewriting.operands(node)
        assert left is not None
        assert right is not None
        _multiply(rewriting, node, left, right)
    return rewriting.finish()


def _is_product(node: Node) -> bool:
    labels, result = node.attributes["labels"], node.attributes["to"]
    if len(labels) != 2 or any(len(set(row)) != len(row) for row in (*labels, result)):
        return False
    if not all(value is not None and dtypes.is_float(value.dtype) for value in node.inputs):
        return False
    sizes: dict[int, Int] = {}
    for value, row in zip(node.operands, labels, strict=True):
        for label, size in zip(row, value.shape, strict=True):
            # Sizes that differ are broadcast.
            if sizes.setdefault(label, size) != size:
                return False
    both = set(labels[0]) & set(labels[1])
    return bool(both - set(result)) and set(result) >= set(labels[0]) ^ set(labels[1])


def _multiply(rewriting: Rewriting, node: Node, left: Value, right: Value) -> None:
    (first, second), result = node.attributes["labels"], node.attributes["to"]
    rows = [n for n in result if n not in second]
    columns = [n for n in result if n not in first]
    if rows and columns and result.index(columns[0]) < result.index(rows[0]):
        left, right, first, second, rows, columns = right, left, second, first, columns, rows
    batch = [n for n in result if n in first and n in second]
    inner = [n for n in first if n in second and n not in result]
    sizes = dict(zip((*first, *second), (*left.shape, *right.shape), strict=True))

    def add(op: str, *inputs: Value, **attributes: Any) -> Value:
        return rewriting.builder.add(op, *inputs, sources=node.sources, name=f"{node.name}/{op}", **attributes)

    def matrix(value: Value, labels: Labels, down: Labels, across: Labels) -> Value:
        order = (*batch, *down, *across)
        if order != tuple(labels):
            value = add("transpose", value, order=tuple(labels.index(n) for n in order))
        shape = (*(sizes[n] for n in batch), product([sizes[n] for n in down]), product([sizes[n] for n in across]))
        return value if shape == value.shape else add("reshape", value, shape=shape)

    multiplied = add("matmul", matrix(left, first, rows, inner), matrix(right, second, inner, columns))
    made = (*batch, *rows, *columns)
    shape = tuple(sizes[n] for n in made)
    whole = multiplied if shape == multiplied.shape else add("reshape", multiplied, shape=shape)
    rewriting.emit(node, "transpose", whole, order=tuple(made.index(n) for n in result))
