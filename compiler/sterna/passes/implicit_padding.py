"""Padding that groups of threads do not store: kernels of windows read a number beyond the ends of the tensor itself.

    pad -> convolution, pooling, what follows

A padded tensor in memory has a border, which is a kernel of its own to fill: a launch before every convolution. Threads
compare positions for each run of channels that they read, beside memory that they wait for. Every kernel that reads the
padded tensor pads for itself, and the tensor lies dense, for others that read it as it is.

What stays stored: padding of channels, whose neighbours are one access; what something else reads, or leaves the graph;
sizes of padding that are open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sterna.ir.graph import Graph, Node, Value
from sterna.ir.integer import as_int
from sterna.passes.context import PassContext
from sterna.passes.decisions import Decide
from sterna.passes.fuse import LIMIT, Group
from sterna.passes.partition import Partition
from sterna.passes.stages import Grouped

#: Operators whose first operand is what a window slides over, its last dimension channels.
_WINDOWS = ("conv", "conv_integer", "conv_transpose", "max_pool", "sum_pool")


def applies(context: PassContext) -> bool:
    return context.target.threads is not None


def pad_implicitly(grouped: Grouped, context: PassContext) -> Grouped:
    """The groups, with pads in those of the windows that slide over them."""
    groups: dict[Graph, tuple[Group, ...]] = {}
    computed: set[Node] = set()
    for graph, apart in grouped.groups.items():
        partition = Partition(graph, grouped.views, apart)
        groups[graph] = _padded(partition, context.decide, computed)
    return Grouped(grouped.graph, grouped.views.computing(computed) if computed else grouped.views, groups)


def _padded(partition: Partition, decide: Decide, computed: set[Node]) -> tuple[Group, ...]:
    """The groups of a graph; adds the pads that they have taken in, and slices of these."""
    groups = [*partition.groups]
    for group in partition.groups:
        (pad, *others) = group.nodes
        readers = {} if others or not _is_padding(pad) else _readers(partition, pad, groups)
        part = [pad, *(node for each in readers for node in each.nodes)]
        if not readers or not decide("joined", part, (True, False), True):
            continue
        groups.remove(group)
        for each, slices in readers.items():
            nodes = partition.in_order((pad, *slices, *each.nodes))
            groups[groups.index(each)] = replace(each, nodes=nodes)
            computed.update((pad, *slices))
    return tuple(groups)


def _is_padding(node: Node) -> bool:
    """Whether a node writes one number around what windows may slide over."""
    if node.op != "pad" or node.attributes["mode"] != "constant":
        return False
    ends = [[as_int(n) for n in node.attributes[end]] for end in ("before", "after")]
    return all(n.is_const and int(n) >= 0 for each in ends for n in each) and all(each[-1] == 0 for each in ends)


def _readers(partition: Partition, pad: Node, groups: Sequence[Group]) -> dict[Group, list[Node]]:
    """The groups that can pad for themselves, all that read a padded tensor, and the slices of it that each reads, as
    phases of a transposed convolution do; none where one cannot."""
    found: dict[Group, list[Node]] = {}
    reading = {node: each for each in groups for node in each.nodes}
    todo: list[tuple[Value, list[Node]]] = [(pad.output, [])]
    while todo:
        value, slices = todo.pop()
        if value in partition.outputs or (not slices and value in partition.views.parents):
            return {}
        for node in partition.users.get(value, ()):
            if node.op == "slice" and node in partition.views.removed and not slices:
                todo.append((node.output, [node]))
                continue
            each = reading.get(node)
            if each is None or node.op not in _WINDOWS or node.operands.index(value) or each in found:
                return {}
            found[each] = slices
            if len(each.nodes) + len(slices) >= LIMIT:
                return {}
    return found


__all__ = ["applies", "pad_implicitly"]
