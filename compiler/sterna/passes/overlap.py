"""Convolutions of small images by large windows, most of whose taps read padding: products first, then their sum.

    pad -> conv        matmul -> overlap_add

Every element of the image meets every tap once, in one product of matrices, and the products that belong to an element
of the result are added up. A transposed convolution of 4 x 4 on an image of 4 x 4, the second layer of a generator, has
49 results of 16 taps, 784 rows of weights to multiply; the image has 16 elements, 256 rows. Where fewer
parts of the result than `passes.padded` allows have taps in common, those are computed without the others instead.
"""

from __future__ import annotations

from math import prod

import numpy as np

from sterna.ir.graph import Graph, Node
from sterna.ir.integer import as_int
from sterna.passes.padded import mostly_padding
from sterna.passes.rewriting import Rewriting

#: Of the products of a convolution, those of the image's elements that are worth adding up in a kernel of their own.
MOST_LEFT = 0.75
#: Products that an element of a product takes the time of, to be stored and read again.
STORED = 4
#: Products from which on another kernel's call does not count.
LEAST_PRODUCTS = 1 << 18


def overlap(graph: Graph) -> Graph:
    """The graph with such convolutions as products and sums; computes the same."""
    producers = graph.producers()
    pads = {n: producers[n.operands[0]] for n in graph.nodes if n.op == "conv" and n.operands[0] in producers}
    chosen = {conv: pad for conv, pad in pads.items() if _pays(conv, pad)}
    if not chosen:
        return graph
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if node not in chosen:
            rewriting.keep(node)
            continue
        pad, weights = chosen[node], node.operands[1].data
        assert weights is not None
        x = rewriting.value(pad.operands[0])
        *taps, depth, outputs = weights.shape
        rank = len(taps)
        turned = np.flip(weights, axis=tuple(range(rank))).transpose(rank, *range(rank), rank + 1)
        matrix = rewriting.builder.constant(np.ascontiguousarray(turned.reshape(depth, -1)), node.operands[1].name)
        products = rewriting.builder.add("matmul", x, matrix, sources=node.sources)
        shape = (*x.shape[:-1], *taps, outputs)
        products = rewriting.builder.add("reshape", products, shape=shape, sources=node.sources)
        before, rates = pad.attributes["before"][1:-1], node.attributes["dilations"]
        rewriting.emit(
            node,
            "overlap_add",
            products,
            dilations=rates,
            begins=tuple((n - 1) * r - int(as_int(b)) for n, r, b in zip(taps, rates, before, strict=True)),
            sizes=tuple(int(n) for n in node.output.shape[1:-1]),
        )
    return rewriting.finish()


def _pays(conv: Node, pad: Node) -> bool:
    weights, settings = conv.operands[1].data, conv.attributes
    if pad.op != "pad" or pad.attributes["mode"] != "constant" or pad.attributes["value"] != 0:
        return False
    (x,) = pad.operands
    ends = [as_int(n) for end in ("before", "after") for n in pad.attributes[end]]
    if not x.type.is_static or not all(n.is_const for n in ends) or conv.output.dtype != "float32":
        return False
    if weights is None or not np.isfinite(weights).all() or settings["groups"] != 1 or max(settings["strides"]) > 1:
        return False
    if any(pad.attributes[end][d] != 0 for end in ("before", "after") for d in (0, x.type.rank - 1)):
        return False
    if any(int(n) < 0 for n in ends) or mostly_padding(conv, pad):
        return False
    *taps, depth, _ = weights.shape
    now = int(conv.output.type.elements) * prod(taps) * depth
    first = int(x.type.elements) // depth * weights.size
    between = first // depth * STORED + int(conv.output.type.elements) * prod(taps)
    return bool(now >= LEAST_PRODUCTS and first + between <= MOST_LEFT * now)
