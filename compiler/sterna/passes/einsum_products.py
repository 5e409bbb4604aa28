"""Sums of products over labels are taken apart: into sums, matrix products and transposes.

What is summed in one operand alone is summed there, before anything is multiplied. Several operands are multiplied two
at a time, cheapest first, where that takes fewer steps than to walk all labels at once. Of two operands, the labels
of both that stay are a batch, those of one alone rows or columns, and those of both that do not stay what is summed
over. As a matrix product it has contiguous operands, is computed in tiles, and is found by what looks for attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

from sterna.ir.graph import Graph, Node, Value
from sterna.ir.integer import Int
from sterna.loops.build import product
from sterna.passes.rewriting import Rewriting

Labels = tuple[int, ...]
#: What an open size is taken for where ways are compared.
_OPEN = 128
#: The most multiplications of two operands at a time, whose products are stored, as a part of those of all at once.
_WORTH = 2 / 3


@dataclass(frozen=True)
class _Term:
    """An operand, and the label of each of its dimensions."""

    value: Value
    labels: Labels


def einsum_products(graph: Graph) -> Graph:
    """The graph with sums, matrix products and transposes in place of einsums, as far as they are such."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if node.op == "einsum" and _is_plain(node):
            _Einsum(rewriting, node).emit()
        else:
            rewriting.keep(node)
    return rewriting.finish()


def _is_plain(node: Node) -> bool:
    """Whether no operand has a label twice, or is broadcast; of floats, for products of integers are not matrices here.
    Halves of two operands are as wide as their product; more would be rounded in between."""
    labels, result = node.attributes["labels"], node.attributes["to"]
    if any(len(set(row)) != len(row) for row in (*labels, result)):
        return False
    if any(value is None or value.dtype not in ("float16", "bfloat16", "float32", "float64") for value in node.inputs):
        return False
    sizes: dict[int, Int] = {}
    return all(
        sizes.setdefault(label, size) == size
        for value, row in zip(node.operands, labels, strict=True)
        for label, size in zip(row, value.shape, strict=True)
    )


class _Einsum:
    """The nodes that take the place of an einsum."""

    def __init__(self, rewriting: Rewriting, node: Node):
        self.rewriting, self.node = rewriting, node
        self.result: Labels = tuple(node.attributes["to"])
        operands = [value for value in rewriting.operands(node) if value is not None]
        rows: Sequence[Labels] = [tuple(row) for row in node.attributes["labels"]]
        self.terms = [_Term(value, row) for value, row in zip(operands, rows, strict=True)]
        self.sizes = {n: size for t in self.terms for n, size in zip(t.labels, t.value.shape, strict=True)}
        self.exact = operands[0].dtype in ("float32", "float64")

    def emit(self) -> None:
        if self.exact or len(self.terms) == 1:
            self._sum_alone()
        for pair in self._pairs() if self.exact else ():
            first, second = (self.terms[n] for n in pair)
            others = [t for n, t in enumerate(self.terms) if n not in pair]
            labels = self._kept(first.labels, second.labels, [t.labels for t in others])
            self.terms = [*others, _Term(self._product(first, second, labels, self._add), labels)]
        if len(self.terms) == 2:
            self._product(self.terms[0], self.terms[1], self.result, self._last)
        elif len(self.terms) == 1:
            (term,) = self.terms
            self._last("transpose", term.value, order=tuple(term.labels.index(n) for n in self.result))
        else:
            self._last(
                "einsum", *(t.value for t in self.terms), labels=tuple(t.labels for t in self.terms), to=self.result
            )

    def _add(self, op: str, *inputs: Value, **attributes: Any) -> Value:
        node = self.node
        return self.rewriting.builder.add(op, *inputs, sources=node.sources, name=f"{node.name}/{op}", **attributes)

    def _last(self, op: str, *inputs: Value, **attributes: Any) -> Value:
        return self.rewriting.emit(self.node, op, *inputs, **attributes)

    def _sum_alone(self) -> None:
        """Sums what one operand has alone, and the result has not."""
        for place, term in enumerate(self.terms):
            elsewhere = {*self.result, *(n for t in self.terms if t is not term for n in t.labels)}
            axes = tuple(axis for axis, label in enumerate(term.labels) if label not in elsewhere)
            if axes:
                value = self._add("reduce_sum", term.value, axes=axes, keep_dims=False)
                self.terms[place] = _Term(value, tuple(n for n in term.labels if n in elsewhere))

    def _steps(self, labels: Sequence[int]) -> int:
        sizes = (self.sizes[n] for n in set(labels))
        return prod(int(size) if size.is_const else _OPEN for size in sizes)

    def _kept(self, first: Labels, second: Labels, others: Sequence[Labels]) -> Labels:
        """The labels of two operands' product: those that others or the result have, as a matrix product has them."""
        wanted = {*self.result, *(n for row in others for n in row)}
        both = [n for n in first if n in second]
        rows, columns = ([n for n in row if n not in both] for row in (first, second))
        return tuple(n for n in (*both, *rows, *columns) if n in wanted)

    def _pairs(self) -> list[tuple[int, int]]:
        """Which two operands are multiplied first, and so on until two are left, each product behind what is left then;
        none where one walk over all labels is as good."""
        rows = [t.labels for t in self.terms]
        at_once = (len(rows) - 1) * self._steps([n for row in rows for n in row])
        total, pairs = 0, []
        while len(rows) > 1:
            steps, pair = min((self._steps((*rows[a], *rows[b])), (a, b)) for a, b in combinations(range(len(rows)), 2))
            others = [row for n, row in enumerate(rows) if n not in pair]
            rows = [*others, self._kept(rows[pair[0]], rows[pair[1]], others)]
            total += steps
            pairs.append(pair)
        return pairs[:-1] if total <= _WORTH * at_once else []

    def _product(self, left: _Term, right: _Term, result: Labels, add: Callable[..., Value]) -> Value:
        """The product of two operands by `add`, which is told of the last node."""
        first, second = left.labels, right.labels
        both = set(first) & set(second)
        if not both - set(result) or not set(result) >= set(first) ^ set(second):
            return add("einsum", left.value, right.value, labels=(first, second), to=result)
        rows = [n for n in result if n not in second]
        columns = [n for n in result if n not in first]
        if rows and columns and result.index(columns[0]) < result.index(rows[0]):
            left, right, first, second, rows, columns = right, left, second, first, columns, rows
        batch = [n for n in result if n in both]
        inner = [n for n in first if n in second and n not in result]
        matrices = (self._matrix(left, batch, rows, inner), self._matrix(right, batch, inner, columns))
        multiplied = self._add("matmul", *matrices)
        made = (*batch, *rows, *columns)
        shape = tuple(self.sizes[n] for n in made)
        whole = multiplied if shape == multiplied.shape else self._add("reshape", multiplied, shape=shape)
        return add("transpose", whole, order=tuple(made.index(n) for n in result))

    def _matrix(self, term: _Term, batch: Sequence[int], down: Sequence[int], across: Sequence[int]) -> Value:
        value, order, sizes = term.value, (*batch, *down, *across), self.sizes
        if order != term.labels:
            value = self._add("transpose", value, order=tuple(term.labels.index(n) for n in order))
        shape = (*(sizes[n] for n in batch), product([sizes[n] for n in down]), product([sizes[n] for n in across]))
        return value if shape == value.shape else self._add("reshape", value, shape=shape)
