"""Convolutions of 3 x 3 by Winograd's minimal filtering F(2 x 2, 3 x 3): 16 products where 36 are.

A tile of 2 x 2 outputs is A^T [(G g G^T) * (B^T d B)] A, of the 4 x 4 inputs d that it reads and the filter g. Summed
over the channels, the product in the middle is a matrix product of its own for each of its 16 places. (Lavin and Gray,
Fast Algorithms for Convolutional Neural Networks, 2016, 4.1.) The filters are transformed here. Those of inputs and
outputs are sums and differences of slices, written straight into the operand of the product and into the result.

The sums are not those of the definition, so results differ by rounding: an option, never the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sterna.ir.graph import Array, Graph, Node, Value
from sterna.passes.context import PassContext
from sterna.passes.rewriting import Rewriting

#: With at least this many channels on both sides, the transforms cost less than they save.
CHANNELS = 32

_FILTER = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
#: Rows of B^T: element `first` plus `sign` times element `second`.
_INPUT = ((0, 2, -1), (1, 2, 1), (2, 1, -1), (1, 3, -1))
#: Rows of A^T: elements and their signs, the first of them positive.
_OUTPUT = (((0, 1), (1, 1), (2, 1)), ((1, 1), (2, -1), (3, -1)))


def applies(context: PassContext) -> bool:
    """Whether results that are rounded otherwise were asked for."""
    return context.options.winograd


def winograd(graph: Graph) -> Graph:
    """The graph with its dense convolutions of 3 x 3 and stride 1 in minimal form, where sizes are constant."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        weights = _filters(node)
        if weights is None:
            rewriting.keep(node)
        else:
            rewriting.substitute(node.output, _Transformed(rewriting, node, weights).result())
    return rewriting.finish()


def _filters(node: Node) -> Array | None:
    """The weights of a convolution that has a minimal form."""
    if node.op != "conv" or node.output.dtype != "float32" or len(node.output.shape) != 4:
        return None
    weights, settings = node.inputs[1], node.attributes
    if weights is None or weights.data is None or weights.data.shape[:2] != (3, 3) or settings["groups"] != 1:
        return None
    plain = all(n == 1 for n in (*settings["strides"], *settings["dilations"]))
    wide = min(weights.data.shape[2:]) >= CHANNELS
    return weights.data if plain and wide and node.output.type.is_static else None


class _Transformed:
    """One convolution in the making."""

    def __init__(self, rewriting: Rewriting, node: Node, weights: Array):
        self.rewriting, self.node, self.weights = rewriting, node, weights
        self.batch, self.height, self.width, self.channels = (int(n) for n in node.output.shape)
        self.tiles = (-(-self.height // 2), -(-self.width // 2))

    def result(self) -> Value:
        depth, (down, across) = self.weights.shape[2], self.tiles
        count = self.batch * down * across
        x = self.whole_tiles()
        turned = np.einsum("ai,ijck,bj->abck", _FILTER, self.weights.astype(np.float64), _FILTER)
        filters = self.rewriting.builder.constant(turned.reshape(16, depth, -1).astype(np.float32), "filters")
        places = [self.input_place(x, row, column) for row in _INPUT for column in _INPUT]
        places = [self.add("reshape", place, shape=(1, count, depth)) for place in places]
        products = self.add("matmul", self.add("concat", *places, axis=0), filters)
        rows = []
        apart = (self.batch, down, 1, across, 1, self.channels)
        for down_sum in _OUTPUT:
            parts = [self.output_place(products, down_sum, across_sum) for across_sum in _OUTPUT]
            rows.append(self.add("concat", *(self.add("reshape", part, shape=apart) for part in parts), axis=4))
        whole = (self.batch, 2 * down, 2 * across, self.channels)
        y = self.add("reshape", self.add("concat", *rows, axis=2), shape=whole)
        if (2 * down, 2 * across) != (self.height, self.width):
            y = self.slice(y, (0, 0, 0, 0), (self.batch, self.height, self.width, self.channels), (1, 1, 1, 1))
        return y

    def whole_tiles(self) -> Value:
        """The input with a further row and column where a tile reaches beyond it."""
        x = self.rewriting.operands(self.node)[0]
        assert x is not None
        after = (0, 2 * self.tiles[0] - self.height, 2 * self.tiles[1] - self.width, 0)
        if not any(after):
            return x
        before: tuple[int, ...] = (0, 0, 0, 0)
        inner = self.rewriting.made_by(x, "pad")
        if inner is not None and inner.attributes["mode"] == "constant":
            # One pad in place of two: what the further ones hold is never seen.
            (x,) = inner.operands
            before = inner.attributes["before"]
            after = tuple(a + b for a, b in zip(after, inner.attributes["after"], strict=True))
            return self.add("pad", x, before=before, after=after, mode="constant", value=inner.attributes["value"])
        return self.add("pad", x, before=before, after=after, mode="constant", value=0.0)

    def input_place(self, x: Value, row: tuple[int, int, int], column: tuple[int, int, int]) -> Value:
        """One of the 16 places of B^T d B, for all tiles."""
        depth, (down, across) = self.weights.shape[2], self.tiles

        def element(i: int, j: int) -> Value:
            return self.slice(x, (0, i, j, 0), (self.batch, down, across, depth), (1, 2, 2, 1))

        def along(i: int) -> Value:
            first, second, sign = column
            return self.add("add" if sign > 0 else "sub", element(i, first), element(i, second))

        first, second, sign = row
        return self.add("add" if sign > 0 else "sub", along(first), along(second))

    def output_place(
        self, products: Value, down_sum: Sequence[tuple[int, int]], across_sum: Sequence[tuple[int, int]]
    ) -> Value:
        """One of the four outputs of every tile: of A^T m A."""
        (down, across), count = self.tiles, self.batch * self.tiles[0] * self.tiles[1]
        total: Value | None = None
        for i, one in down_sum:
            for j, other in across_sum:
                place = self.slice(products, (4 * i + j, 0, 0), (1, count, self.channels), (1, 1, 1))
                term = self.add("reshape", place, shape=(self.batch, down, across, self.channels))
                total = term if total is None else self.add("add" if one * other > 0 else "sub", total, term)
        assert total is not None
        return total

    def slice(self, x: Value, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Value:
        return self.add("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))

    def add(self, op: str, *operands: Value, **attributes: Any) -> Value:
        return self.rewriting.builder.add(op, *operands, sources=self.node.sources, **attributes)
