"""Reductions over short rows and over what lies around them: around them first, in vectors along their neighbours.

Of float32[6, 40, 30, 5] over dimensions 1 and 3, five numbers lie side by side, and thirty such rows have results of
their own. All at once that is five steps at a time, each of which waits for the one before it; over dimension 1 alone
150 neighbours are combined in vectors, and what is left is as small as they are.
"""

from __future__ import annotations

import math
from typing import Any

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Node, Value
from sterna.ir.integer import as_int
from sterna.passes.rewriting import Rewriting

_REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
#: Of a row that is reduced, numbers that lie side by side, at most: longer ones are reduced in vectors as they are.
MOST_BESIDE = 31
#: Numbers that are reduced for each of those before them, at least.
LEAST_AROUND = 4


def separate_reductions(graph: Graph) -> Graph:
    """The graph with two reductions in place of such ones; means of integers would be rounded twice."""
    r, changed = Rewriting(graph), False
    for node in graph.nodes:
        around = _around(node)
        if not around:
            r.keep(node)
            continue
        changed = True
        (x,) = r.operands(node)
        assert x is not None
        inner = tuple(n for n in node.attributes["axes"] if n not in around)
        wide = x.dtype in dtypes.HALVES and node.op not in ("reduce_max", "reduce_min")

        def add(op: str, value: Value, node: Node = node, **attributes: Any) -> Value:
            return r.builder.add(op, value, sources=node.sources, **attributes)

        # Half floats are added up in float32, and rounded once.
        value = add("cast", x, to="float32") if wide else x
        for axes in (around, inner):
            value = add(node.op, value, axes=axes, keep_dims=True)
        value = add("cast", value, to=x.dtype) if wide else value
        r.emit(node, "reshape", value, shape=node.output.shape)
    return r.finish() if changed else graph


def _around(node: Node) -> tuple[int, ...]:
    """The dimensions that are reduced before those that lie side by side; () where all are as well reduced at once."""
    if node.op not in _REDUCTIONS or (node.op == "reduce_mean" and not dtypes.is_float(node.output.dtype)):
        return ()
    axes, shape = node.attributes["axes"], node.operands[0].shape
    kept = [n for n in range(len(shape)) if n not in axes and shape[n] != 1]
    around = tuple(n for n in axes if kept and n < kept[-1])
    beside, reduced = (
        math.prod((shape[n] for n in axes if (n in around) == first), start=as_int(1)) for first in (False, True)
    )
    most, fewest = beside.bounds()[1], reduced.bounds()[0]
    if most is None or not 1 < most <= MOST_BESIDE or fewest is None or fewest < LEAST_AROUND:
        return ()
    return around
