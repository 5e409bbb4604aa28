"""Leaves out the outer taps of convolutions that read nothing but padding, wherever they are.

At a rate as large as the image all but the middle taps do: what is left is a smaller kernel, with less padding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sterna.ir.graph import Graph, Node
from sterna.ir.integer import as_int
from sterna.passes.rewriting import Rewriting


def crop_taps(graph: Graph) -> Graph:
    """The graph with such convolutions on cropped weights; computes the same."""
    rewriting = Rewriting(graph)
    producers = graph.producers()
    for node in graph.nodes:
        pad = producers.get(node.operands[0]) if node.op == "conv" else None
        kept = _kept(node, pad) if pad is not None else None
        if pad is None or kept is None:
            rewriting.keep(node)
            continue
        _, weights, *rest = node.inputs
        assert weights is not None
        assert weights.data is not None
        rates = node.attributes["dilations"]
        before, after = list(pad.attributes["before"]), list(pad.attributes["after"])
        for d, taps in enumerate(kept):
            before[d + 1] = as_int(before[d + 1]) - taps.start * rates[d]
            after[d + 1] = as_int(after[d + 1]) - (int(weights.shape[d]) - taps.stop) * rates[d]
        settings = {**pad.attributes, "before": tuple(before), "after": tuple(after)}
        x = rewriting.value(pad.operands[0])
        if any(as_int(n) != 0 for n in (*before, *after)):
            x = rewriting.builder.add("pad", x, sources=node.sources, name=pad.name, **settings)
        cropped = weights.data[tuple(slice(taps.start, taps.stop) for taps in kept)]
        weight = rewriting.builder.constant(np.ascontiguousarray(cropped), weights.name)
        others = (None if value is None else rewriting.value(value) for value in rest)
        rewriting.emit(node, "conv", x, weight, *others, **node.attributes)
    return rewriting.finish()


def _kept(conv: Node, pad: Node) -> Sequence[range] | None:
    """For each dimension of the image the taps to keep; None where none can be left out."""
    weights = conv.operands[1].data
    x = pad.operands[0] if pad.op == "pad" else None
    if x is None or weights is None or conv.output.dtype != "float32" or not np.isfinite(weights).all():
        return None
    if pad.attributes["mode"] != "constant" or pad.attributes["value"] != 0:
        return None
    ends = [as_int(n) for end in ("before", "after") for n in pad.attributes[end]]
    if not all(as_int(n).is_const for n in (*x.shape, *conv.output.shape, *ends)):
        return None
    kept = [_within(conv, pad, d) for d in range(1, x.type.rank - 1)]
    whole = all(len(taps) == int(conv.operands[1].shape[d]) for d, taps in enumerate(kept))
    return None if whole or any(not taps for taps in kept) else kept


def _within(conv: Node, pad: Node, d: int) -> range:
    """From the first to the last tap that lies within the image anywhere, along a dimension; all of them where
    leaving others out would leave out a part of the image, too."""
    size, count = int(pad.operands[0].shape[d]), int(conv.operands[1].shape[d - 1])
    before, after = (int(as_int(pad.attributes[end][d])) for end in ("before", "after"))
    stride, rate = conv.attributes["strides"][d - 1], conv.attributes["dilations"][d - 1]
    places = [n * stride - before for n in range(int(conv.output.shape[d]))]
    read = [k for k in range(count) if any(0 <= place + k * rate < size for place in places)]
    if not read:
        return range(0)
    first, end = read[0], read[-1] + 1
    first = first if before >= first * rate else 0
    end = end if after >= (count - end) * rate else count
    return range(first, end)
