"""Finds windows over what is padded for them alone and would be copied for that: one kernel pads a few rows at a time.

    pad -> depthwise convolution, pooling, what follows

The rows that a block of results reads stay in a cache (`schedule.strategies.window`). Where the kernel that makes the
tensor can write into the middle of the padded one, only its border is filled, and nothing is to be gained.
"""

from __future__ import annotations

from sterna.ir.graph import Node
from sterna.ir.integer import as_int
from sterna.passes.decisions import Decide, by_rule
from sterna.passes.fuse import Group
from sterna.passes.partition import Partition
from sterna.passes.planes import is_depthwise
from sterna.targets.target import Target

#: Of the most that a kernel reads and writes, what a padded tensor is from which on it counts.
LEAST_SHARE = 0.25

_POOLS = ("max_pool", "sum_pool")


def find_padded_windows(partition: Partition, target: Target, decide: Decide = by_rule) -> tuple[tuple[Node, ...], ...]:
    """The nodes of each such kernel, in order."""
    found = []
    saves = target.saves_memory
    most = max(map(_traffic, partition.groups), default=0) if saves else 0
    # Results of convolutions of floats take the place of what is added to them, where that has no border. In other
    # networks rows that a kernel pads are more than borders.
    adds = saves and any(
        _is_dense(node) and _is_added_to(node, group) for group in partition.groups for node in group.nodes
    )
    for group in partition.groups:
        windows = [
            node
            for node in group.nodes
            if _slides(node) or (saves and _multiplies(node, target)) or (adds and _is_dense(node))
        ]
        if len(windows) != 1 or (pad := _pad(partition, windows[0])) is None or pad in group.nodes:
            continue
        pays, chain = _copied(partition, windows[0], pad, most), partition.in_order((pad, *group.nodes))
        # Where it decides about memory, that is no matter of speed.
        choices = (True, False) if _slides(windows[0]) and not saves else (pays,)
        if decide("joined", chain, choices, pays):
            found.append(chain)
    return tuple(found)


def _slides(node: Node) -> bool:
    """Whether every channel of the result is made of windows of the same channel."""
    if node.op in _POOLS:
        return True
    if node.op == "conv":
        return is_depthwise(node)
    return node.op == "conv_planes" and int(node.operands[1].shape[0]) == 1 and node.attributes["groups"] > 1


def _multiplies(node: Node, target: Target) -> bool:
    """Whether it is a convolution of bytes, whose products read their operand as it lies: depthwise, or with channels
    that fill the groups of the target's dot products."""
    if node.op != "conv_integer":
        return False
    if is_depthwise(node):
        return True
    groups = {target.known_intrinsics[name].group for name in target.int_dot}
    channels = node.operands[0].shape[-1]
    return node.attributes["groups"] == 1 and all(channels % n == 0 for n in groups)


def _is_dense(node: Node) -> bool:
    """Whether it is a convolution of floats of all channels."""
    return node.op == "conv" and bool(node.attributes["groups"] == 1)


def _is_added_to(node: Node, group: Group) -> bool:
    """Whether the kernel of a convolution reads another tensor of its result's size."""
    inside = {value for each in group.nodes for value in each.outputs}
    others = {v for each in group.nodes if each is not node for v in each.operands if v not in inside}
    return any(not v.is_constant and v.shape == node.output.shape for v in others)


def _traffic(group: Group) -> int:
    """Bytes that a kernel reads and writes, without constants; none for what only pads."""
    if all(node.op == "pad" for node in group.nodes):
        return 0
    inside = {value for node in group.nodes for value in node.outputs}
    read = {value for node in group.nodes for value in node.operands if value not in inside and not value.is_constant}
    return sum(int(value.type.bytes) for value in (*read, *group.outputs) if value.type.is_static)


def _pad(partition: Partition, window: Node) -> Node | None:
    """The pad before a window whose rows its kernel can pad."""
    padded = window.operands[0]
    pad = partition.producers.get(padded)
    if pad is None or pad.op != "pad" or pad.attributes["mode"] != "constant":
        return None
    if partition.alone(padded, window) is None:
        return None
    ends = [as_int(n) for end in ("before", "after") for n in pad.attributes[end]]
    static = pad.operands[0].type.is_static and window.output.type.is_static and all(n.is_const for n in ends)
    return pad if static and all(int(n) >= 0 for n in ends) and max(_extents(window)[:-1], default=1) > 1 else None


def _copied(partition: Partition, window: Node, pad: Node, most: int) -> bool:
    """Whether a pad is a copy of its operand.

    Args:
        most: bytes that a kernel reads and writes, where that decides what memory a model takes: any pad whose result
            is a share of it counts; else 0.
    """
    copied = partition.views.written.get(pad) == (False,) and _slides(window)
    large = most > 0 and pad.output.type.is_static and int(pad.output.type.bytes) >= LEAST_SHARE * most
    return copied or large


def _extents(window: Node) -> tuple[int, ...]:
    """How many elements a window has along each spatial dimension. Only if it has several rows are they padded a few
    at a time."""
    if window.op in _POOLS:
        return tuple(int(n) for n in window.attributes["kernel"])
    shape = window.operands[1].shape
    return tuple(int(n) for n in (shape[:-2] if window.op == "conv" else shape[1:-1]))


__all__ = ["find_padded_windows"]
