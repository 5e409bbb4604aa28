"""Fills channels up by some of zeros, so that the rows of a tensor of a GPU begin at multiples of what threads copy.

A position's channels are a row. One of 58 halves begins in the midst of a run of 16 bytes, so that threads copy
elements one by one; of 728 every other one begins in the midst of a sector of memory, and every step in depth asks for
a sector more than it fills. With 64 and 736 channels neither is so. What the weights make of the channels that are
added is zero, and what they make from it, too: the sums are the same. Between products they pass what works channel by
channel, and makes nothing infinite of zeros (`passes/channel_segments.py`). Frameworks for GPUs lay out channels so in
place of the model's own (NVIDIA's TensorRT: NHWC8, NHWC16).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value
from sterna.ir.memory import SECTOR
from sterna.passes.channel_ranges import channels
from sterna.passes.channel_segments import Segments, is_dense, is_depthwise, is_grouped
from sterna.passes.rewriting import Rewriting

#: Bytes of a copy, which rows are multiples of; bytes of rows from which on they are whole sectors.
RUN, LONG = 16, 256
#: Channels for each one more: of rows that are no whole runs, of groups of convolutions, and of others. Groups for each
#: one more are as channels of the first.
FOR_RUNS, FOR_GROUPS, FOR_SECTORS = 3, 5, 8


def fill_channels(graph: Graph) -> Graph:
    """The graph with such channels; computes the same sums. Tensors that have more have names of their own."""
    if not any(is_dense(node) or is_grouped(node) for node in graph.nodes):
        return graph
    places = _places(graph)
    if not places:
        return graph
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if not any(value in places for value in (*node.operands, *node.outputs)):
            rewriting.keep(node)
            continue
        made = places.get(node.output)
        inputs, attributes = [*rewriting.operands(node)], dict(node.attributes)
        if is_dense(node) or is_grouped(node) or is_depthwise(node):
            data = _weights(node, places)
            inputs[1] = rewriting.builder.constant(data, node.operands[1].name)
            if is_depthwise(node):
                attributes["groups"] = data.shape[-1]
            elif is_grouped(node):
                attributes["groups"] = channels(rewriting.value(node.operands[0])) // data.shape[-2]
        elif made is not None:
            for n, value in enumerate(node.inputs):
                if value is not None and value.data is not None and channels(value) == channels(node.output) > 1:
                    constant = _filled(value.data, made, int(node.op == "div"))
                    inputs[n] = rewriting.builder.constant(constant, value.name)
        attributes |= _sizes(node, places)
        name = node.output if made is None else rewriting.builder.name(f"{node.output.name}/filled")
        new = rewriting.builder.add(node.op, *inputs, sources=node.sources, name=node.name, result=name, **attributes)
        rewriting.substitute(node.output, new)
    return rewriting.finish()


def _places(graph: Graph) -> dict[Value, Array]:
    """Of each tensor that is filled up, the channel of the model at each of its channels, -1 where there is none."""
    segments = Segments(graph)
    groups = {segments.of[value, 0] for pair in segments.convolved for value in pair}
    whole: dict[int, int] = {}
    for value in segments.cuts:
        parts = segments.lengths(value)
        for number, length in parts:
            if number not in segments.fixed:
                for_sectors = FOR_GROUPS if number in groups else FOR_SECTORS
                wanted = _wanted(length, dtypes.size(value.dtype), len(parts) > 1, for_sectors)
                whole[number] = max(whole.get(number, 0), wanted)
    more = _more_groups(segments, whole)
    places: dict[Value, Array] = {}
    for value in segments.cuts:
        parts, first, own = segments.lengths(value), 0, list[Array]()
        for number, length in parts:
            own += [np.arange(first, first + length), np.full(whole.get(number, length) - length, -1)]
            first += length
        own += [np.full(more[number] * whole[number], -1) for number, _ in parts[-1:] if number in more]
        if own and sum(map(len, own)) > first:
            places[value] = np.concatenate(own)
    return places


def _more_groups(segments: Segments, whole: dict[int, int]) -> dict[int, int]:
    """By the number of a segment that is a group of channels, how many groups are added behind the last one so that a
    row is whole sectors."""
    rows: dict[int, set[tuple[int, int]]] = {}
    for value in segments.cuts:
        parts = segments.lengths(value)
        for number in {number for number, _ in parts}:
            alone = len(parts) if all(other == number for other, _ in parts) else 0
            rows.setdefault(number, set()).add((alone, dtypes.size(value.dtype)))
    linked: dict[int, set[int]] = {}
    for pair in segments.convolved:
        both = {n for value in pair for n in linked.get(segments.of[value, 0], {segments.of[value, 0]})}
        linked.update(dict.fromkeys(both, both))
    more: dict[int, int] = {}
    for number, together in linked.items():
        kinds = {(many, each * whole.get(n, 0)) for n in together for many, each in rows[n]}
        many = max(many for many, _ in kinds)
        if {many} == {n for n, _ in kinds} and not together & segments.fixed:
            added = (n for n in range(many // FOR_RUNS + 1) if not any((many + n) * row % SECTOR for _, row in kinds))
            more[number] = next(added, 0)
    return more


def _wanted(length: int, each: int, beside: bool, for_sectors: int) -> int:
    """Channels that a segment is to have.

    Args:
        each: bytes of a channel; beside: whether other segments are in the same row; for_sectors: channels for each one
            more for the sake of whole sectors.
    """

    def up(to: int, for_each: int) -> int:
        more = -length % (to // each)
        return length + more if length >= for_each * more else length

    runs = up(RUN, FOR_RUNS)
    return max(runs, up(SECTOR, for_sectors)) if beside or length * each > LONG else runs


def _weights(node: Node, places: dict[Value, Array]) -> Array:
    """The constants of a product, with zeros for channels that were not there."""
    x, weights = node.operands
    data = weights.data
    assert data is not None
    read, made = places.get(x), places.get(node.output)
    if read is not None and not is_depthwise(node):
        # Of groups the weights have the channels of one.
        groups = int(node.attributes.get("groups", 1))
        own = read if groups == 1 else read[: int(np.flatnonzero(read == channels(x) // groups)[0])]
        data = np.moveaxis(_filled(np.moveaxis(data, -2, -1), own), -1, -2)
    return _filled(data, made)


def _filled(data: Array, places: Array | None, by: int = 0) -> Array:
    """A constant with another number in its last dimension where there is no channel; one number for all stays."""
    if places is None:
        return np.ascontiguousarray(data)
    return np.where(places >= 0, data[..., places], np.asarray(by, data.dtype))


def _sizes(node: Node, places: dict[Value, Array]) -> dict[str, Any]:
    """The attributes of a node that say how many channels there are."""
    x, made = node.operands[0], places.get(node.output)
    count = channels(node.output) if made is None else len(made)
    if node.op == "reshape":
        return {"shape": (*node.attributes["shape"][:-1], count)}
    if node.op == "resize":
        return {"sizes": (*node.attributes["sizes"][:-1], count)}
    if node.op == "slice":
        first = node.attributes["starts"][-1]
        if x in places and channels(node.output):
            first = int(np.flatnonzero(places[x] == int(first))[0])
        return {
            "starts": (*node.attributes["starts"][:-1], first),
            "sizes": (*node.attributes["sizes"][:-1], count),
        }
    return {}
