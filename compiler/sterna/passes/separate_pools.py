"""The greatest element of a large window as the greatest of its columns' greatest ones.

A window of 9 x 9 elements has 81, one of 9 x 1 and one of 1 x 9 together 18, and columns are shared by all windows of a
row. The result is the same to the last bit: an extreme does not depend on the order, and NaN stays.
"""

from __future__ import annotations

from math import prod
from typing import Any

from sterna.ir.graph import Graph, Node
from sterna.ops.pooling import image
from sterna.passes.rewriting import Rewriting

#: Comparisons that writing and reading an element of the tensor in between take the time of.
BETWEEN = 4
#: Of the comparisons of whole windows, those that are worth another kernel.
MOST_LEFT = 0.75
#: Of a pool, those that have a number for every spatial axis.
_ATTRIBUTES = ("kernel", "strides", "dilations")


def separate_pools(graph: Graph) -> Graph:
    """The graph with the large windows of maxima taken one axis after the other."""
    if not any(node.op == "max_pool" for node in graph.nodes):
        return graph
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if not _pays(node):
            rewriting.keep(node)
            continue
        (x,) = rewriting.operands(node)
        assert x is not None
        axes = [axis for axis, size in enumerate(node.attributes["kernel"]) if size > 1]
        for axis in axes[:-1]:
            x = rewriting.builder.add("max_pool", x, sources=node.sources, name=node.name, **_along(node, axis))
        rewriting.emit(node, "max_pool", x, **_along(node, axes[-1]))
    return rewriting.finish()


def _along(node: Node, axis: int) -> dict[str, Any]:
    """The window's attributes along one spatial axis; those of a window of one element along the others."""
    along = {name: tuple(n if i == axis else 1 for i, n in enumerate(node.attributes[name])) for name in _ATTRIBUTES}
    return {**node.attributes, **along}


def _pays(node: Node) -> bool:
    """Whether a pool's window is so large that its axes, one after the other, take less."""
    if node.op != "max_pool" or not node.output.type.is_static or not node.operands[0].type.is_static:
        return False
    kernel = node.attributes["kernel"]
    # Axes of one element may skip some, too: the last axis with a window would not do that.
    if sum(size > 1 for size in kernel) < 2 or any(
        s > 1 for k, s in zip(kernel, node.attributes["strides"], strict=True) if k == 1
    ):
        return False
    places = image(node.output.shape, node.attributes)
    sizes = [int(size) for size in node.operands[0].shape[places]]
    results = [int(size) for size in node.output.shape[places]]
    whole = prod(kernel) * prod(results)
    parts = 0
    axes = [axis for axis, size in enumerate(kernel) if size > 1]
    for axis in axes:
        sizes[axis] = results[axis]
        parts += prod(sizes) * (kernel[axis] + (BETWEEN if axis != axes[-1] else 0))
    return bool(parts <= MOST_LEFT * whole)
