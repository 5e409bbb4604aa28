"""Graphs of attention for tests."""

from __future__ import annotations

import numpy as np

from sterna.ir.graph import Graph, Value
from sterna.ops import Builder
from support.compiling import input_value


class Attention:
    """softmax(Q K scale + mask) V under construction, its inputs and their data."""

    def __init__(self, seed: int = 0):
        self.builder, self.random = Builder(), np.random.default_rng(seed)
        self.inputs: list[Value] = []
        self.feeds: dict[str, np.ndarray] = {}

    def input(self, *shape: int) -> Value:
        array = self.random.standard_normal(shape).astype(np.float32)
        value = input_value(self.builder, array, f"x{len(self.inputs)}")
        self.inputs.append(value)
        self.feeds[value.name] = array
        return value

    def scores(
        self, batch: tuple[int, ...], queries: int, keys: int, depth: int, mask: str = "", scaled: bool = True
    ) -> Value:
        """With a mask of keys (one of each batch, maybe) or of pairs, or without; "some rows": two see nothing."""
        add, b = self.builder.add, self.builder
        y = add("matmul", self.input(*batch, queries, depth), self.input(*batch, depth, keys))
        if scaled:
            y = add("mul", y, b.constant(np.float32(1 / np.sqrt(depth))))
        if mask == "keys":
            y = add("add", y, self.input(keys))
        elif mask == "keys of each":
            y = add("add", y, self.input(*batch[:1], *(1 for _ in batch[1:]), 1, keys))
        elif mask == "causal":
            seen = np.tril(np.ones((queries, keys), bool), keys - queries)
            y = add("add", y, b.constant(np.where(seen, np.float32(0), np.float32(-1e9))))
        elif mask == "some rows":
            seen = np.tril(np.ones((queries, keys), bool), -2)
            y = add("where", b.constant(seen), y, b.constant(np.float32(-np.inf)))
        return y

    def guarded(self, shares: Value) -> Value:
        """Zeros in the place of what is no number, as exporters of PyTorch have it."""
        zero = self.builder.constant(np.float32(0))
        return self.builder.add("where", self.builder.add("is_nan", shares), zero, shares)

    def graph(self, *outputs: Value) -> Graph:
        return Graph("attention", tuple(self.inputs), outputs, tuple(self.builder.nodes))

    def whole(
        self,
        batch: tuple[int, ...],
        queries: int,
        keys: int,
        depth: int,
        out: int,
        mask: str = "",
        scaled: bool = True,
        guarded: bool = False,
    ) -> Value:
        shares = self.builder.add("softmax", self.scores(batch, queries, keys, depth, mask, scaled), axis=-1)
        shares = self.guarded(shares) if guarded else shares
        return self.builder.add("matmul", shares, self.input(*batch, keys, out))
