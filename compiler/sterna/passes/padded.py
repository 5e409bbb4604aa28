"""Finds convolutions of which many taps read nothing but padding: one kernel pads and convolves, and leaves those out.

    pad -> conv, bias, activation

With rates near the image's size, as pyramids of dilated convolutions have them, most of the padded image is padding: it
is never stored, and each part of the result adds up the taps that lie within the image
(`schedule.strategies.contraction`). Windows that are long rows would make a part of every position: where channels are
in groups, the padded row of a group is stored for the time of its products, whose loops over taps begin and end for
each tile where it reads the row.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Node
from sterna.ir.integer import as_int
from sterna.passes.decisions import Decide, by_rule
from sterna.passes.fuse import Group
from sterna.passes.partition import Partition
from sterna.schedule.strategies.padding import SHARE_OF_L2
from sterna.targets.target import Target

#: Of all taps, those that may lie within the image for the parts to pay: each is a nest of its own, with tails.
MOST_WITHIN = 0.75
#: Rows of a part that take as long as fewer do: weights are loaded for all of them.
LEAST_ROWS = 2
#: Parts that an axis may be cut into: each is code.
MOST_PARTS = 5
#: Of all taps of a long window, those that may lie within the row for leaving out the others to pay for the copy of it;
#: and results of a tile, which reads what any of them does.
MOST_WITHIN_ROW, TILE = 0.95, 16


def find_padded(partition: Partition, target: Target, decide: Decide = by_rule) -> tuple[tuple[Node, ...], ...]:
    """The nodes of each such kernel, in order."""
    found = []
    for group in partition.groups:
        convolutions = [node for node in group.nodes if node.op == "conv"]
        if len(convolutions) == 1 and (pad := _pad(partition, convolutions[0], group, target)) is not None:
            chain = partition.in_order((pad, *group.nodes))
            if decide("joined", chain, (True, False), True):
                found.append(chain)
    return tuple(found)


def _pad(partition: Partition, conv: Node, group: Group, target: Target) -> Node | None:
    """The pad before a convolution whose taps are worth leaving out; weights are numbers, so that what they are
    multiplied with counts."""
    padded, weights = conv.operands
    pad = partition.producers.get(padded)
    if pad is None or pad.op != "pad" or pad in group.nodes or partition.alone(padded, conv) is None:
        return None
    if pad.attributes["mode"] != "constant" or pad.attributes["value"] != 0 or conv.output.dtype != "float32":
        return None
    (x,) = pad.operands
    ends = [as_int(n) for end in ("before", "after") for n in pad.attributes[end]]
    if not all(n.is_const for n in (*x.shape, *ends)) or conv.output.shape[-1] == 1:
        return None
    if weights.data is None or not np.isfinite(weights.data).all():
        return None
    last = x.type.rank - 1
    if any(pad.attributes[end][d] != 0 for end in ("before", "after") for d in (0, last)):
        return None
    if conv.attributes["groups"] == 1:
        return pad if mostly_padding(conv, pad) else None
    return pad if long_windows(conv, pad, target) else None


def long_windows(conv: Node, pad: Node, target: Target) -> bool:
    """Whether the windows of a convolution in groups slide over rows, and so many taps read padding that they are worth
    leaving out: where groups fill vectors and are tasks enough, and a padded row of one stays in L2."""
    groups, shape = conv.attributes["groups"], conv.operands[0].shape
    channels, columns = int(shape[-1]) // groups, int(conv.output.shape[-1]) // groups
    if len(shape) != 3 or columns < target.lanes(32) or channels == 1 or target.saves_memory:
        return False
    if groups % target.cores and groups < 4 * target.cores:
        return False
    if int(shape[0] * shape[1]) * channels * dtypes.size("float32") > SHARE_OF_L2 * target.l2_bytes:
        return False
    taps = _taps(conv, pad, 1)
    tiles = (taps[n : n + TILE] for n in range(0, len(taps), TILE))
    read = sum(len(set().union(*tile)) * len(tile) for tile in tiles)
    return read <= MOST_WITHIN_ROW * len(taps) * int(conv.operands[1].shape[0])


def mostly_padding(conv: Node, pad: Node) -> bool:
    """Whether so many taps of a convolution read padding that they are worth leaving out."""
    within, last = 1.0, conv.output.type.rank - 1
    for d in range(1, last):
        taps = _taps(conv, pad, d)
        parts = [(len(each), len(list(same))) for each, same in groupby(taps)]
        if len(parts) > MOST_PARTS:
            return False
        # Tiles have rows along the last dimension.
        least = LEAST_ROWS if d == last - 1 else 1
        taps_in_all = len(taps) * int(conv.operands[1].shape[d - 1])
        within *= sum(count * max(rows, least) for count, rows in parts) / taps_in_all
    return within <= MOST_WITHIN


def _taps(conv: Node, pad: Node, d: int) -> list[tuple[int, ...]]:
    """For every position of the result along a dimension, the taps that lie within the image."""
    size, before = int(pad.operands[0].shape[d]), int(as_int(pad.attributes["before"][d]))
    stride, rate = conv.attributes["strides"][d - 1], conv.attributes["dilations"][d - 1]
    taps = range(int(conv.operands[1].shape[d - 1]))
    return [
        tuple(k for k in taps if 0 <= n * stride + k * rate - before < size) for n in range(int(conv.output.shape[d]))
    ]


__all__ = ["find_padded", "mostly_padding"]
