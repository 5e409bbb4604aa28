"""Computes equal things once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from sterna.ir.graph import Graph, Value
from sterna.passes.rewriting import Rewriting

_COMPARED = 1 << 12  # bytes of a constant up to which its contents are compared


def eliminate_common_subexpressions(graph: Graph) -> Graph:
    """The graph with one node for all of equal operator, operands and attributes, and one of equal small constants."""
    rewriting = Rewriting(graph)
    constants: dict[Hashable, Value] = {}
    known: dict[Hashable, tuple[Value, ...]] = {}
    for value in graph.constants():
        if value.data is not None and value.data.nbytes <= _COMPARED:
            rewriting.substitute(value, constants.setdefault((value.type, value.data.tobytes()), value))
    for node in graph.nodes:
        if node.regions:
            rewriting.keep(node)
            continue
        key = (node.op, rewriting.operands(node), tuple(sorted((k, _key(v)) for k, v in node.attributes.items())))
        earlier = known.get(key)
        if earlier is None:
            known[key] = rewriting.keep(node).outputs
            continue
        for value, same in zip(node.outputs, earlier, strict=True):
            rewriting.substitute(value, same)
    return rewriting.finish()


def _key(value: Any) -> Hashable:
    """Attributes as text that tells 0.0 from -0.0 and 1 from True and 1.0."""
    if isinstance(value, (tuple, list)):
        return "(" + ",".join(str(_key(v)) for v in value) + ")"
    return f"{type(value).__name__}:{value!r}"
