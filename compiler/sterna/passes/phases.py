"""Transposed convolutions by phases, where their weights are padded: what is padded is not multiplied.

Output o of stride s meets the weights (o + begin) mod s + s j and no others, so the outputs of one phase, s apart, are
an ordinary convolution. `conv_transpose` is one kernel for all phases and has as many weights for each of them: an
extent of 3 with a stride of 2 counts as 4, in two dimensions 16 products where 9 are. Here every phase becomes a
convolution with the weights that it has; their results lie interleaved in one tensor, where the kernels write them.

Groups of threads share what they read of a product only where all rows meet the same weights. So for them phases are
apart where weights are not padded, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from sterna.ir.graph import Array, Graph, Node, Value
from sterna.ir.integer import Int, as_int
from sterna.ops import operator
from sterna.passes.rewriting import Rewriting

#: Of the products of one kernel for all phases, those of a kernel for each that are worth having more of them.
MOST_LEFT = 0.8
#: Products from which on a kernel's call does not count.
LEAST_PRODUCTS = 1 << 18
#: The same of groups of threads, whose launches take longer.
LEAST_BY_GROUPS = 1 << 19
#: Phases along a row from which on they are better apart: of neighbours in a tile, few read the same weights.
MANY_PHASES = 4
#: Phases, each of which is a kernel.
MOST_PHASES = 9


def phases(graph: Graph, groups: bool = False) -> Graph:
    """The graph with the transposed convolutions of padded constant weights as convolutions, one for each phase.

    Args:
        groups: groups of threads run the kernels.
    """
    if not any(node.op == "conv_transpose" for node in graph.nodes):
        return graph
    rewriting, users = Rewriting(graph), graph.users()
    done: set[Node] = set()
    for node in graph.nodes:
        if node in done:
            continue
        weights = _weights(node, groups)
        if weights is None:
            rewriting.keep(node)
            continue
        followers = list(_followers(node, users, graph.outputs))
        done.update(followers)
        last = followers[-1].output if followers else node.output
        rewriting.substitute(last, _Interleaved(rewriting, node, weights, followers).result())
    return rewriting.finish()


def _weights(node: Node, groups: bool) -> Array | None:
    """The weights of a transposed convolution that is worth cutting into phases."""
    if node.op != "conv_transpose" or not node.output.type.is_static or not node.operands[0].type.is_static:
        return None
    weights, settings = node.operands[1].data, node.attributes
    strides = settings["strides"]
    if weights is None or not np.isfinite(weights).all() or prod(strides) > MOST_PHASES:
        return None
    whole = int(node.output.type.elements) * weights.shape[-2] * (weights[..., 0, 0].size // prod(strides))
    if whole < (LEAST_BY_GROUPS if groups else LEAST_PRODUCTS):
        return None
    if strides[-1] >= MANY_PHASES and int(node.output.shape[-2]) >= MANY_PHASES * strides[-1]:
        return weights
    if groups or prod(strides) == 1:  # a convolution, of which other passes know what to leave out
        return weights
    of_all = [_of_phase(weights, phase, strides) for phase in product(*map(range, strides))]
    return weights if sum(w.size for w in of_all) <= MOST_LEFT * weights.size else None


def _of_phase(weights: Array, phase: Sequence[int], strides: Sequence[int]) -> Array:
    """The weights of a phase: from the first one on the box that holds all that are not zero, of at least one."""
    own = weights[tuple(slice(first, None, stride) for first, stride in zip(phase, strides, strict=True))]
    there = np.nonzero(own)[: len(strides)]
    return own[tuple(slice(0, int(n.max()) + 1 if n.size else 1) for n in there)]


def _followers(node: Node, users: Mapping[Value, Sequence[Node]], outputs: Sequence[Value]) -> Iterator[Node]:
    """The element-wise nodes after one, one after the other, that do the same with every position."""
    value = node.output
    while value not in outputs and len(readers := users.get(value, ())) == 1:
        (reader,) = readers
        if reader.regions:
            return
        others = [v for v in reader.operands if v is not value]
        alike = all(v.is_constant and all(n == 1 for n in v.shape[:-1]) for v in others)
        if "elementwise" not in operator(reader.op).tags or not alike or reader.output.shape != value.shape:
            return
        if len(reader.outputs) != 1 or reader.operands.count(value) != 1:
            return
        yield reader
        value = reader.output


@dataclass
class _Interleaved:
    """One transposed convolution in the making, with what is done to each element of it."""

    rewriting: Rewriting
    node: Node
    weights: Array
    followers: Sequence[Node]

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self.node.attributes["strides"])

    @property
    def begins(self) -> tuple[int, ...]:
        return tuple(self.node.attributes["begins"])

    def result(self) -> Value:
        batch, *sizes, channels = (int(n) for n in self.node.output.shape)
        counts = [-(-size // stride) for size, stride in zip(sizes, self.strides, strict=True)]
        x = self.with_room(counts)
        apart = (batch, *(n for count in counts for n in (count, 1)), channels)
        places = list(product(*map(range, self.strides)))
        if len(places) == 1:
            return self.phase(x, places[0], counts)
        parts = [self.add("reshape", self.phase(x, place, counts), shape=apart) for place in places]
        for d, stride in reversed(list(enumerate(self.strides))):
            rows = [parts[n : n + stride] for n in range(0, len(parts), stride)]
            parts = [row[0] if stride == 1 else self.add("concat", *row, axis=2 * d + 2) for row in rows]
        whole = [count * stride for count, stride in zip(counts, self.strides, strict=True)]
        y = self.add("reshape", parts[0], shape=(batch, *whole, channels))
        if whole == sizes:
            return y
        rank = len(sizes) + 2
        return self.add("slice", y, starts=(0,) * rank, sizes=(batch, *sizes, channels), steps=(1,) * rank)

    def with_room(self, counts: Sequence[int]) -> Value:
        """The padded input, with further elements where the last step of a phase that has none reads beyond it."""
        x = self.rewriting.operands(self.node)[0]
        assert x is not None
        after = [0]
        for d, (count, stride, begin) in enumerate(zip(counts, self.strides, self.begins, strict=True)):
            last = (count * stride - 1 + begin) // stride + self.weights.shape[d] // stride
            after.append(max(0, last - int(x.shape[d + 1])))
        after.append(0)
        if not any(after):
            return x
        before: tuple[int, ...] = (0,) * x.type.rank
        inner = self.rewriting.made_by(x, "pad")
        if inner is not None and inner.attributes["mode"] == "constant" and inner.attributes["value"] == 0:
            (x,) = inner.operands
            before = inner.attributes["before"]
            after = [more + n for more, n in zip(after, inner.attributes["after"], strict=True)]
        return self.add("pad", x, before=before, after=tuple(after), mode="constant", value=0.0)

    def phase(self, x: Value, place: Sequence[int], counts: Sequence[int]) -> Value:
        """The elements at a place of every step: a convolution of a part of the padded input."""
        spatial = range(len(self.strides))
        at = [(n + begin) // stride for n, begin, stride in zip(place, self.begins, self.strides, strict=True)]
        phase = [(n + begin) % stride for n, begin, stride in zip(place, self.begins, self.strides, strict=True)]
        own = _of_phase(self.weights, phase, self.strides)
        starts = [at[d] + self.weights.shape[d] // self.strides[d] - own.shape[d] for d in spatial]
        sizes = [counts[d] + own.shape[d] - 1 for d in spatial]
        part, shape = x, (x.shape[0], *map(as_int, sizes), x.shape[-1])
        if shape != x.shape:
            part = self.part(x, (0, *starts, 0), shape)
        turned = np.ascontiguousarray(np.flip(own, axis=tuple(spatial)))
        weights = self.rewriting.builder.constant(turned, f"{self.node.output.name}.phase")
        once = (1,) * len(self.strides)
        groups = self.node.attributes["groups"]
        y = self.add("conv", part, weights, strides=once, dilations=once, groups=groups)
        before = self.node.output
        for node in self.followers:
            operands = [y if v is before else v for v in node.inputs]
            y = self.rewriting.builder.add(node.op, *operands, sources=node.sources, **node.attributes)
            before = node.output
        return y

    def part(self, x: Value, starts: Sequence[int], shape: tuple[Int, ...]) -> Value:
        """A part of the padded input: of the only phase it is padded by less, which other passes understand."""
        inner = self.rewriting.made_by(x, "pad") if prod(self.strides) == 1 else None
        if inner is not None:
            (image,) = inner.operands
            before = [as_int(n) - start for n, start in zip(inner.attributes["before"], starts, strict=True)]
            after = [size - n - b for size, n, b in zip(shape, image.shape, before, strict=True)]
            if all(n.is_const and int(n) >= 0 for n in (*before, *after)):
                return self.add("pad", image, **{**inner.attributes, "before": tuple(before), "after": tuple(after)})
        return self.add("slice", x, starts=tuple(starts), sizes=shape, steps=(1,) * x.type.rank)

    def add(self, op: str, *operands: Value, **attributes: Any) -> Value:
        return self.rewriting.builder.add(op, *operands, sources=self.node.sources, **attributes)
