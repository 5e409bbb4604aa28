"""Finds windows over what is padded for them alone and would be copied for that: one kernel pads a few rows at a time.

    pad -> depthwise convolution, pooling, what follows

The rows that a block of results reads stay in a cache (`schedule.strategies.window`). Where the kernel that makes the
tensor can write into the middle of the padded one, only its border is filled, and nothing is to be gained.
"""

from __future__ import annotations

from sterna.ir.graph import Node
from sterna.ir.integer import as_int
from sterna.passes.fuse import Group
from sterna.passes.partition import Partition
from sterna.passes.planes import is_depthwise
from sterna.targets.target import Target

_POOLS = ("max_pool", "sum_pool")


def find_padded_windows(partition: Partition, target: Target) -> tuple[tuple[Node, ...], ...]:
    """The nodes of each such kernel, in order."""
    found = []
    for group in partition.groups:
        windows = [node for node in group.nodes if _slides(node)]
        if len(windows) == 1 and (pad := _copied(partition, windows[0], group)) is not None:
            found.append(partition.in_order((pad, *group.nodes)))
    return tuple(found)


def _slides(node: Node) -> bool:
    """Whether every channel of the result is made of windows of the same channel."""
    if node.op in _POOLS:
        return True
    if node.op == "conv":
        return is_depthwise(node)
    return node.op == "conv_planes" and int(node.operands[1].shape[0]) == 1 and node.attributes["groups"] > 1


def _copied(partition: Partition, window: Node, group: Group) -> Node | None:
    """The pad before a window that is a copy of its operand."""
    padded = window.operands[0]
    pad = partition.producers.get(padded)
    if pad is None or pad.op != "pad" or pad in group.nodes or partition.alone(padded, window) is None:
        return None
    if pad.attributes["mode"] != "constant" or partition.views.written.get(pad) != (False,):
        return None
    ends = [as_int(n) for end in ("before", "after") for n in pad.attributes[end]]
    static = pad.operands[0].type.is_static and window.output.type.is_static and all(n.is_const for n in ends)
    return pad if static and all(int(n) >= 0 for n in ends) and max(_extents(window)[:-1], default=1) > 1 else None


def _extents(window: Node) -> tuple[int, ...]:
    """How many elements a window has along each spatial dimension. Only if it has several rows are they padded a few
    at a time."""
    if window.op in _POOLS:
        return tuple(int(n) for n in window.attributes["kernel"])
    shape = window.operands[1].shape
    return tuple(int(n) for n in (shape[:-2] if window.op == "conv" else shape[1:-1]))


__all__ = ["find_padded_windows"]
