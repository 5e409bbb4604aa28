"""What a program asserts of sizes that the data decide."""

from __future__ import annotations

from collections.abc import Iterator

from sterna.frontends.pytorch.control import INLINED
from sterna.frontends.pytorch.expressions import equality_of
from sterna.frontends.pytorch.program import GraphInfo


def _texts(graph: GraphInfo) -> Iterator[str | None]:
    for node in graph.nodes:
        if node.target == "aten._assert_scalar.default":
            for _, (kind, value) in node.inputs:
                if kind == "as_sym_bool" and isinstance(value, tuple):
                    yield graph.conditions.get(value[1])
        if node.target in INLINED:
            for inner in node.graphs:
                yield from _texts(inner)


def asserted(graph: GraphInfo) -> dict[str, int]:
    """Expressions of sizes, and the numbers that they are wherever the graph runs; what a branch or a loop's body
    asserts holds only there."""
    return dict(found for text in _texts(graph) if text and (found := equality_of(text)))
