"""Refuses sizes that are open where a target needs every size at compile time."""

from __future__ import annotations

from sterna.errors import error
from sterna.ir.graph import Graph
from sterna.ir.sizes import all_definitions, open_dimensions
from sterna.passes.context import PassContext
from sterna_runtime.advice import dims


def applies(context: PassContext) -> bool:
    """Whether the target knows no open sizes."""
    return context.target.static


def check_sizes(graph: Graph, context: PassContext) -> Graph:
    """The same graph, all sizes of which are known.

    Raises:
        SternaError: E0203, naming those that are not.
    """
    title = f"the target {context.target.name} needs every size at compile time"
    if given := open_dimensions(graph):
        sizes = dims({s.name: s.hi for s in given})
        raise error("E0203", title, f"open dimensions: {', '.join(s.name for s in given)}", fix=sizes)
    if computed := all_definitions(graph):
        where = [f"{s.name} (at most {s.hi}) comes from {', '.join(n.sources)}" for s, n in computed.items()]
        fix = "declare the result's shape in the model, which the bundle then checks, or leave that node to the program"
        raise error("E0203", title, "sizes that depend on the data:", *where, fix=fix)
    return graph
