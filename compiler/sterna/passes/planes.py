"""Convolutions whose image lies channels first, and whose result is wanted so, are computed on planes.

    transpose -> [pad] -> conv, bias, activation -> transpose

A model of a few convolutions, or one after operators that work channels first, would spend more time on its transposes
than on its products. On planes (`ops.planes`) vectors lie along the rows of the image, and nothing is transposed. Rows
have to be long enough for vectors; neighbouring outputs read neighbouring elements, or such two apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sterna.ir.graph import Array, Graph, Node, Value
from sterna.ops import operator
from sterna.passes.decisions import Decide, by_rule
from sterna.passes.layout import NEAR, Held, LayoutRewriting, Order, channels_first, inverse
from sterna.passes.padded import mostly_padding
from sterna.passes.rewriting import moves_nothing
from sterna.targets.target import Target

#: Cycles that a transpose takes for an element, at the rate of caches.
TRANSPOSED = 0.4
#: Of a vector's time, what a part of it takes: the rest of a row is computed in vectors of half the lanes, a quarter.
PART = 0.7
#: Of L2, what weights may take: they are walked once for every row of the image, or for every few vectors of it.
SHARE_OF_L2 = 0.5


def planes(graph: Graph, target: Target, decide: Decide = by_rule) -> Graph:
    """The graph with convolutions on planes where that spares transposes that would cost more, and with no more of an
    image transposed than a convolution reads."""
    rewriting = _Planes(graph, target, decide)
    return rewriting.run() if any(rewriting.fits(n) or rewriting.thins(n) for n in graph.nodes) else graph


class _Planes(LayoutRewriting):
    def __init__(self, graph: Graph, target: Target, decide: Decide):
        super().__init__(graph)
        self.target, self.decide = target, decide

    def rule(self, node: Node) -> Callable[[Node], bool] | None:
        return self.conv if node.op == "conv" else super().rule(node)

    def conv(self, node: Node) -> bool:
        x, w = node.operands
        held = self.hold(x)
        if not self.on_planes(node, held):
            return self.thins(node) and held[1] == channels_first(x.type.rank) and self.thin(node, held)
        assert w.data is not None
        rank = x.type.rank
        image = self.builder.reshape(held[0], (x.shape[0], x.shape[-1], *x.shape[1:-1]))
        taps = w.data.transpose(rank - 2, *range(rank - 2), rank - 1)
        name = self.builder.name(f"{node.output.name}.channels_first")
        settings = dict(node.attributes)
        if self.is_spread(node):
            image, taps, settings = self.spread(image, taps, node)
        weights = self.builder.constant(np.ascontiguousarray(taps), w.name)
        whole = self.builder.add(
            "conv_planes", image, weights, sources=node.sources, name=node.name, result=name, **settings
        )
        self.held[node.output] = (whole, channels_first(rank))
        return True

    def thins(self, node: Node) -> bool:
        """Whether a convolution of single taps leaves out positions of an image that is transposed for it."""
        if node.op != "conv" or not node.operands[0].type.is_static or max(node.attributes["strides"]) == 1:
            return False
        (x, w), channels = node.operands, channels_first(node.output.type.rank)
        made = self.producers.get(x)
        one = all(size == 1 for size in w.shape[:-2]) and x.shape[-1] != 1
        return one and made is not None and made.op == "transpose" and is_transpose(made, channels)

    def thin(self, node: Node, held: Held) -> bool:
        """The convolution of the positions that it reads, which alone are transposed."""
        (base, order), settings, rank = held, node.attributes, node.output.type.rank
        sizes = (*base.shape[:2], *node.output.shape[1:-1])
        image = self.builder.add(
            "slice", base, starts=(0,) * rank, sizes=sizes, steps=(1, 1, *settings["strides"]), sources=node.sources
        )
        image = self.builder.transpose(image, order, sources=node.sources)
        once = {**settings, "strides": (1,) * (rank - 2)}
        self.builder.add(
            "conv", image, node.operands[1], sources=node.sources, name=node.name, result=node.output, **once
        )
        return True

    def spread(self, image: Value, taps: Array, node: Node) -> tuple[Value, Array, dict[str, Any]]:
        """A row's positions by their remainder of the stride as channels: what neighbouring outputs read lies side by
        side then. `taps`: (channels, spatial..., outputs)."""
        settings, rank = node.attributes, node.output.type.rank
        stride, length = settings["strides"][-1], int(taps.shape[-2])
        needed = (int(node.output.shape[-2]) - 1) * stride + length
        batch, channels, *rows, width = image.shape
        sources = node.sources
        if needed != width:
            sizes = (batch, channels, *rows, needed)
            image = self.builder.add(
                "slice", image, starts=(0,) * rank, sizes=sizes, steps=(1,) * rank, sources=sources
            )
        image = self.builder.reshape(image, (batch, channels, *rows, needed // stride, stride), sources=sources)
        image = self.builder.transpose(image, (0, 1, rank, *range(2, rank)), sources=sources)
        image = self.builder.reshape(image, (batch, channels * stride, *rows, needed // stride), sources=sources)
        apart = taps.reshape(*taps.shape[:-2], length // stride, stride, taps.shape[-1])
        order = (0, rank - 1, *range(1, rank - 1), rank)
        spread = apart.transpose(order).reshape(-1, *taps.shape[1:-2], length // stride, taps.shape[-1])
        return image, spread, {**settings, "strides": (*settings["strides"][:-1], 1)}

    def is_spread(self, node: Node) -> bool:
        """Whether the positions that outputs read can be dealt out by their remainder of the stride, none of which is
        missing a tap; of one group, as its channels become those of the remainders."""
        settings, (_, w) = node.attributes, node.operands
        stride = settings["strides"][-1]
        whole = int(w.shape[-3]) % stride == 0 and settings["dilations"][-1] == 1
        return bool(stride > 1 and whole and settings["groups"] == 1)

    def on_planes(self, node: Node, x: Held) -> bool:
        if node.op != "conv":
            return super().on_planes(node, x)
        base, order = x
        return (order == channels_first(len(order)) or base.shape[-1] == 1) and self.fits(node)

    def fits(self, node: Node) -> bool:
        """Whether a convolution is better done on planes: its image lies so, its result is wanted so, and vectors along
        rows are not so much worse than vectors of channels that transposes are the lesser evil."""
        if node.op != "conv" or node.output.dtype != "float32":
            return False
        x, w = node.operands
        if w.data is None or not x.type.is_static:
            return False
        if not self.is_spread(node) and node.attributes["strides"][-1] > (NEAR if is_depthwise(node) else 1):
            return False
        if not self.lies_first(node) or not self.wanted_first(node.output):
            return False
        return self.decide("planes", (node,), (True, False), self.is_faster(node))

    def lies_first(self, node: Node) -> bool:
        """Whether the image of a convolution was transposed for it, maybe padded; one of a single channel lies either
        way. Where many taps read padding, they are left out instead (`passes.padded`)."""
        (x, _), rank = node.operands, node.output.type.rank
        pad = self.producers.get(x)
        if pad is not None and pad.op == "pad":
            if pad.attributes["mode"] == "constant" and mostly_padding(node, pad):
                return False
            (x,) = pad.operands
        made = self.producers.get(x)
        return x.shape[-1] == 1 or (made is not None and is_transpose(made, channels_first(rank)))

    def wanted_first(self, value: Value) -> bool:
        """Whether all that reads a value transposes it to channels first, maybe after element-wise operators."""
        users = self.users.get(value, ())
        if not users or value in self.outputs:
            return False
        first = inverse(channels_first(value.type.rank))
        return all(
            not user.regions
            and (
                is_transpose(user, first)
                or ("elementwise" in operator(user.op).tags and self.wanted_first(user.output))
            )
            for user in users
        )

    def is_faster(self, node: Node) -> bool:
        (x, w), y = node.operands, node.output
        if int(w.type.bytes) > SHARE_OF_L2 * self.target.l2_bytes:
            return False
        channels, row = int(y.shape[-1]), int(y.shape[-2])
        if all(size == 1 for size in (*w.shape[:-2], *node.attributes["strides"])):
            row = int(y.type.elements) // (int(y.shape[0]) * channels)  # positions of rows are one axis
        depthwise = is_depthwise(node)
        groups = 1 if depthwise else node.attributes["groups"]
        elements = int(y.type.elements)
        products = elements * math.prod(int(n) for n in w.shape[:-1])
        moved = sum(int(value.type.elements) for value in (x, y) if value.shape[-1] != 1)
        last = products / channels * groups * self.vectors(channels // groups) + TRANSPOSED * moved
        # One channel's window shares what it loads with the rows beside it, if there are any next to one another.
        loads = 2 if depthwise and (node.attributes["strides"][-1] > 1 or y.type.rank == 3) else 1
        first = loads * products / row * self.vectors(row)
        return first + (TRANSPOSED * int(x.type.elements) if self.is_spread(node) else 0) <= last

    def vectors(self, elements: int) -> float:
        """Vectors that so many elements in a row take the time of."""
        whole, rest = divmod(elements, self.target.lanes(32))
        return whole + PART * rest.bit_count()


def is_depthwise(node: Node) -> bool:
    """Whether every channel is convolved by itself."""
    return int(node.operands[1].shape[-2]) == 1 and node.attributes["groups"] > 1


def is_transpose(node: Node, order: Order) -> bool:
    """Whether a node permutes dimensions in this order, as a transpose or, where it moves nothing, as a reshape."""
    if node.op == "transpose":
        return tuple(node.attributes["order"]) == order
    if node.op != "reshape":
        return False
    (x,) = node.operands
    moved = tuple(x.shape[n] for n in order) if len(order) == x.type.rank else ()
    return node.output.shape == moved and moves_nothing(order, x)
