"""Finds the depthwise separable convolutions that one kernel computes (`schedule.strategies.separable`).

    conv 1 x 1, bias, clip -> pad -> depthwise conv, bias, clip -> conv 1 x 1, bias, residual

The first convolution takes part if computing the rows twice that two blocks of rows touch costs less than writing the
tensor beyond L2 and reading it again; else the kernel begins with the depthwise one.
"""

from __future__ import annotations

from collections.abc import Iterator

from sterna.ir.graph import Node, Value
from sterna.ir.integer import as_int
from sterna.passes.decisions import Decide, by_rule
from sterna.passes.fuse import Group
from sterna.passes.partition import Partition
from sterna.schedule.strategies.separable import Rows, Sizes
from sterna.targets.target import Target
from sterna.te.layout import most_elements

_FLOAT = 4  # bytes
_RANK = 4  # rows and columns of images, channels last


def find_separable(partition: Partition, target: Target, decide: Decide = by_rule) -> tuple[tuple[Node, ...], ...]:
    """The nodes of each such kernel, in order."""
    if not any(_depthwise(node) for node in partition.graph.nodes):
        return ()
    return _Finder(partition, target, decide).run()


class _Finder:
    def __init__(self, partition: Partition, target: Target, decide: Decide):
        self.partition, self.target, self.decide = partition, target, decide

    def run(self) -> tuple[tuple[Node, ...], ...]:
        # A product between two windows can go with either: it goes where more is gained.
        ranked = sorted((c for group in self.partition.groups for c in self.chains(group)), key=lambda c: -c[0])
        found: list[tuple[Node, ...]] = []
        taken: set[Node] = set()
        for gain, nodes in ranked:
            if not taken.isdisjoint(nodes):
                continue
            chain = self.partition.in_order(nodes)
            if self.decide("joined", chain, (True, False), gain > 0):
                taken.update(chain)
                found.append(chain)
        return tuple(found)

    def chains(self, last: Group) -> Iterator[tuple[float, tuple[Node, ...]]]:
        """The kernels that could end with a group: cycles that each gains, and its nodes."""
        product = _convolution(last)
        if product is None or not _pointwise(product):
            return
        middle = self.partition.alone(product.operands[0], product)
        window = _convolution(middle) if middle is not None else None
        if middle is None or window is None or not _depthwise(window) or len(middle.nodes) < 2:
            return
        wide = window.operands[0]
        # Channels, as they lie where a kernel finds them.
        side_by_side = self.partition.views.storage(wide).strides[-1] == 1
        for before in dict.fromkeys((self.expansion(wide, window), ())):
            if not before and not side_by_side:
                continue
            sizes = _sizes(window, wide, [node for node in before if node.op == "conv"], product)
            yield sizes.gain(self.target, self.target.lanes(32)), (*before, *middle.nodes, *last.nodes)

    def expansion(self, padded: Value, window: Node) -> tuple[Node, ...]:
        """The nodes that make what a window slides over, if that is a padded product made for it alone."""
        parts = self.partition
        pad = parts.producers.get(padded)
        if pad is None or pad.op != "pad" or pad.attributes["mode"] != "constant":
            return ()
        before, after = ([as_int(n) for n in pad.attributes[end]] for end in ("before", "after"))
        if any(not n.is_const for n in (*before, *after)) or any(n != 0 for n in (*before[::3], *after[::3])):
            return ()
        (x,) = pad.operands
        group = parts.made.get(x)
        single = parts.users.get(padded) == [window] and parts.users.get(x) == [pad]
        if group is None or not single or padded in parts.views.parents or {x, padded} & parts.outputs:
            return ()
        product = _convolution(group)
        return (*group.nodes, pad) if product is not None and _pointwise(product) else ()


def _convolution(group: Group) -> Node | None:
    """The convolution of a group that has nothing else but element-wise nodes after it."""
    found = [node for node in group.nodes if node.op == "conv"]
    return found[0] if len(found) == 1 else None


def _image(node: Node) -> bool:
    """Whether a convolution is of images of constant sizes with constant weights, in float32."""
    return (
        node.op == "conv"
        and node.output.type.rank == _RANK
        and node.output.dtype == "float32"
        and node.operands[1].data is not None
        and all(n.is_const and n != 1 for n in (*node.output.shape[1:], *node.operands[0].shape[1:]))
        and node.output.shape[0].is_const
    )


def _pointwise(node: Node) -> bool:
    return (
        _image(node)
        and node.attributes["groups"] == 1
        and all(n == 1 for n in (*node.operands[1].shape[:2], *node.attributes["strides"]))
    )


def _depthwise(node: Node) -> bool:
    if not _image(node) or any(n == 1 for n in node.operands[1].shape[:2]):
        return False
    channels = int(node.output.shape[-1])
    return int(node.operands[0].shape[-1]) == channels == int(node.attributes["groups"])


def _products(node: Node) -> int:
    """Multiply-adds of a convolution of 1 x 1."""
    return most_elements(node.output.shape) * int(node.operands[0].shape[-1])


def _rows(product: Node) -> Rows:
    rows, columns, results = (int(n) for n in product.output.shape[1:])
    return Rows(rows, columns, int(product.operands[0].shape[-1]), results)


def _sizes(window: Node, wide: Value, before: list[Node], product: Node) -> Sizes:
    """What decides about a kernel of a depthwise convolution: from what that reads, the product that makes that, if
    the kernel computes it, and the product that reads its result."""
    rows, columns, channels = (int(n) for n in window.output.shape[1:])
    batch = int(window.output.shape[0])
    taps, dilation = int(window.operands[1].shape[0]), int(window.attributes["dilations"][0])
    return Sizes(
        rows=rows,
        stride=int(window.attributes["strides"][0]),
        window=(taps - 1) * dilation + 1,
        window_row=columns * channels * _FLOAT,
        wide_row=int(wide.shape[2]) * channels * _FLOAT,
        wide_rows=int(wide.shape[1]),
        wide_products=sum(map(_products, before)) // batch,
        products=tuple(map(_rows, (*before, product))),
    )


__all__ = ["find_separable"]
