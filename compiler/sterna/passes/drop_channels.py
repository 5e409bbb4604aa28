"""Drops channels of quantized networks that say nothing: those that are always the same number, and those that nothing
reads.

Training pushes channels of networks that are larger than their task to where their activation's clamp holds them, and
weights that read others to zero. A channel belongs to a group: all tensors from the products that make it to those that
read it, with what works channel by channel between them (depthwise convolutions, scaling, pools, sums of two tensors).
It goes if each of those readers has zeros for it or finds one number in it, at the borders too, which becomes part of
the reader's bias: the sums are the same integers. Numbers of channels stay multiples of UNIT, for kernels of whole
vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sterna.ir.graph import Array, Graph, Node, Value, captured
from sterna.passes.channel_ranges import (
    ELEMENTWISE,
    ChannelRanges,
    channels,
    is_dense,
    is_depthwise,
    is_pool,
    pads_positions,
    with_channels,
)
from sterna.passes.rewriting import Rewriting

#: Channels that are kept are a multiple of it, unless there were fewer.
UNIT = 8


def drop_channels(graph: Graph) -> Graph:
    """The graph without such channels; computes the same integers. Tensors that have fewer have names of their own."""
    if not any(is_dense(node) for node in graph.nodes):
        return graph
    kept = _Groups(graph).kept
    if not kept:
        return graph
    ranges, rewriting = ChannelRanges(graph), Rewriting(graph)
    readers: dict[Value, int] = {}
    for node in graph.nodes:
        for value in (*node.operands, *captured(node)):
            readers[value] = readers.get(value, 0) + 1
    bias: dict[Value, Array] = {}
    adds = {node.operands[0]: node for node in graph.nodes if _is_bias(node)}
    for node in graph.nodes:
        if not any(value in kept or value in bias for value in (*node.operands, *node.outputs)):
            rewriting.keep(node)
            continue
        inputs = [*rewriting.operands(node)]
        attributes = dict(node.attributes)
        of_result = kept.get(node.output)
        more: Array | None = None
        if is_dense(node):
            x, weights = node.operands
            data = weights.data
            assert data is not None
            if x in kept:
                more = _of_the_rest(data, kept[x], ranges, x)
                data = data[..., kept[x], :]
            inputs[1] = rewriting.builder.constant(_whole(data, of_result), weights.name)
        elif of_result is not None:
            count = channels(node.output)
            for n, operand in enumerate(node.inputs):
                if operand is not None and operand.data is not None:
                    data = with_channels(operand.data, of_result, count)
                    if operand.data is not data:
                        inputs[n] = rewriting.builder.constant(data, operand.name)
            if is_depthwise(node):
                attributes["groups"] = len(of_result)
            elif node.op == "reshape":
                attributes["shape"] = (*node.attributes["shape"][:-1], len(of_result))
        if node.op == "add" and node.operands[0] in bias:
            given = inputs[1]
            assert given is not None
            assert given.data is not None
            whole = given.data.astype(np.int64) + _whole(bias.pop(node.operands[0]), of_result)
            inputs[1] = rewriting.builder.constant(_wrapped(whole), given.name)
        name = node.output if of_result is None else rewriting.builder.name(f"{node.output.name}/kept")
        made = rewriting.builder.add(node.op, *inputs, sources=node.sources, name=node.name, result=name, **attributes)
        if more is not None and more.any():
            if node.output in adds and readers[node.output] == 1 and node.output not in graph.outputs:
                bias[node.output] = more
            else:
                constant = rewriting.builder.constant(_wrapped(_whole(more, of_result)), "channels")
                made = rewriting.builder.add("add", made, constant, sources=node.sources, name=node.name)
        rewriting.substitute(node.output, made)
    return rewriting.finish()


def _is_bias(node: Node) -> bool:
    """Whether it adds one number for each channel, or one, to the sums of a product."""
    if node.op != "add" or node.operands[0].is_constant or node.output.dtype != "int32":
        return False
    data = node.operands[1].data
    return data is not None and data.size in (1, channels(node.output)) and node.operands[0].shape == node.output.shape


def _of_the_rest(weights: Array, kept: Array, ranges: ChannelRanges, x: Value) -> Array:
    """What the channels that are left out add to every sum."""
    least, _ = ranges.of(x)
    left = np.setdiff1d(np.arange(weights.shape[-2]), kept)
    numbers = np.where(ranges.constant(x), least, 0)[left]  # of the others, the weights are zeros
    taps = weights[..., left, :].astype(np.int64).reshape(-1, len(left), weights.shape[-1]).sum(0)
    return np.asarray(numbers @ taps)


def _whole(data: Array, kept: Array | None) -> Array:
    return np.ascontiguousarray(data if kept is None or not data.shape else data[..., kept])


def _wrapped(data: Array) -> Array:
    """As sums of int32 wrap."""
    return data.astype(np.int64).astype(np.int32)


@dataclass
class _Group:
    """Tensors with the same channels.

    Args:
        readers: products that read one of them; fixed: something reads or makes all channels.
    """

    values: list[Value] = field(default_factory=list)
    readers: list[tuple[Node, Value]] = field(default_factory=list)
    fixed: bool = False


class _Groups:
    def __init__(self, graph: Graph):
        self.of: dict[Value, _Group] = {}
        for value in (*graph.inputs, *graph.outputs, *graph.live_in):
            self.group(value).fixed = True
        made = {value for node in graph.nodes for value in node.outputs}
        for node in graph.nodes:
            self.add(node)
            for value in node.operands:
                if value not in made and not value.is_constant:  # of the graph around a region
                    self.group(value).fixed = True
        ranges = ChannelRanges(graph)
        self.kept: dict[Value, Array] = {}
        for group in {id(g): g for g in self.of.values()}.values():
            if not group.fixed and group.readers:
                kept = _needed(group, ranges)
                if len(kept) < channels(group.values[0]):
                    self.kept.update(dict.fromkeys(group.values, kept))

    def group(self, value: Value) -> _Group:
        if value not in self.of:
            self.of[value] = _Group([value], fixed=not channels(value))
        return self.of[value]

    def join(self, a: Value, b: Value) -> None:
        one, other = self.group(a), self.group(b)
        if one is other:
            return
        one.values += other.values
        one.readers += other.readers
        one.fixed = one.fixed or other.fixed or channels(a) != channels(b)
        for value in other.values:
            self.of[value] = one

    def add(self, node: Node) -> None:
        given = [value for value in node.operands if not value.is_constant]
        if is_dense(node):
            self.group(node.operands[0]).readers.append((node, node.operands[0]))
            self.group(node.output)
        elif len(node.outputs) == 1 and given and self.along(node, given):
            for value in given:
                self.join(node.output, value)
        else:
            for value in (*given, *captured(node), *node.outputs):
                self.group(value).fixed = True

    @staticmethod
    def along(node: Node, given: list[Value]) -> bool:
        """Whether a node works channel by channel."""
        count = channels(node.output)
        if count < 2 or any(channels(value) != count for value in given) or not node.output.type.is_static:
            return False
        if node.op == "reshape":
            return True
        return is_depthwise(node) or is_pool(node) or pads_positions(node) or node.op in ELEMENTWISE


def _needed(group: _Group, ranges: ChannelRanges) -> Array:
    """The channels that some reader needs, and as many of the others as make a multiple of UNIT."""
    count = channels(group.values[0])
    needed = np.zeros(count, bool)
    for node, value in group.readers:
        weights = node.operands[1].data
        assert weights is not None
        reads = (weights != 0).reshape(-1, count, weights.shape[-1]).any((0, 2))
        needed |= reads & ~ranges.constant(value)
    most = min(count, UNIT * max(1, math.ceil(needed.sum() / UNIT)))
    for n in np.flatnonzero(~needed)[: max(0, most - int(needed.sum()))]:
        needed[n] = True
    return np.flatnonzero(needed)
