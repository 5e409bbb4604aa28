"""What a program asserts: of sizes that the data decide, and when it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sterna.frontends.expressions import equality_of
from sterna.frontends.pytorch.control import INLINED
from sterna.frontends.pytorch.program import GraphInfo
from sterna.frontends.pytorch.translation import Translation
from sterna.ir.graph import Value


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


def held(t: Translation, results: Sequence[Any]) -> list[Any]:
    """The results of a graph, the first tensor of them after a test of what the graph asserts."""
    made = list(results)
    place = next((n for n, found in enumerate(made) if isinstance(found, Value)), None)
    if place is not None and t.shared.required:
        condition, *others = dict.fromkeys(t.shared.required)
        for other in others:
            condition = t.op("logical_and", condition, other)
        pairs = made[place] in t.shared.complexes
        made[place] = t.agree(made[place], condition)
        if pairs:
            t.shared.complexes.add(made[place])
    return made
