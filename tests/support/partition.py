"""Graphs without control flow, partitioned into calls of kernels."""

from __future__ import annotations

from sterna.ir.graph import Graph
from sterna.passes.fuse import fuse
from sterna.passes.kernels import Call, calls_of
from sterna.passes.views import Views


def build_calls(graph: Graph, views: Views) -> list[Call]:
    """In execution order; every output that is computed has a producer."""
    produced = {*graph.producers(), *graph.inputs}
    assert [v.name for v in graph.outputs if v not in produced and not v.is_constant] == []
    return [call for group in fuse(graph, views) for call in calls_of(group, views)]
