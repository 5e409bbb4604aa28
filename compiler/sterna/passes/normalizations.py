"""Normalizations that a model spells out, as what the compiler has for them.

(x - mean) / sqrt(variance + epsilon), with statistics over some dimensions of x, is what exporters make of layer, group
and instance normalization. Over the last dimensions it is `layer_norm`, one kernel. Over groups of channels that lie
last (group normalization with channels last) sums would go over few numbers side by side at every step: sums of every
channel come first, in vectors, then those of a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sterna.ir.graph import Graph, Node, Value
from sterna.ir.integer import Int, as_int
from sterna.passes.eliminate_dead_code import eliminate_dead_code
from sterna.passes.rewriting import Rewriting

#: Of a group, numbers that lie side by side, at most: longer runs are summed in vectors as they are.
MOST_CHANNELS = 32
#: Places that a group has at least, if its sums are to be made in two steps.
LEAST_PLACES = 8


@dataclass(frozen=True)
class Normalization:
    """What of which tensor, over which dimensions; then times `factor` and plus `shift`, if there are any."""

    x: Value
    axes: tuple[int, ...]
    epsilon: float
    factor: Value | None = None
    shift: Value | None = None


@dataclass(frozen=True)
class _Statistics:
    """One over the deviation of `x`, and its mean, as values of the graph."""

    normalization: Normalization
    mean: Value


#: The last step of a normalization: operator, operand, attributes.
_Step = tuple[str, Value, dict[str, Any]]


def layer_normalizations(graph: Graph) -> Graph:
    """Normalizations over the last dimensions as `layer_norm`, if their sizes are known: a row of open length in one
    kernel is one thread's on devices."""

    def last_step(r: Rewriting, node: Node, found: Normalization) -> _Step | None:
        first = found.axes[0]
        if found.axes != tuple(range(first, found.x.type.rank)):
            return None
        if not all(size.is_const for size in found.x.shape[first:]):
            return None
        return "layer_norm", found.x, {"axis": first, "epsilon": found.epsilon}

    return _rewritten(graph, last_step)


def group_statistics(graph: Graph) -> Graph:
    """Normalizations of groups of channels that lie last, by sums of every channel."""

    def last_step(r: Rewriting, node: Node, found: Normalization) -> _Step | None:
        lead, shape, rank = found.axes[0], found.x.shape, found.x.type.rank
        kept = next((n for n in range(lead, rank) if n not in found.axes), rank)
        if kept >= rank - 1 or found.axes != (*range(lead, kept), *range(kept + 1, rank)):
            return None
        places, channels = math.prod(shape[lead:kept], start=as_int(1)), math.prod(shape[kept + 1 :], start=as_int(1))
        fewest, most = places.bounds()[0], channels.bounds()[1]
        if fewest is None or fewest < LEAST_PLACES or most is None or most > MOST_CHANNELS:
            return None
        return _by_channels(r, node, found, (shape[:lead], places, shape[kept], channels))

    return _rewritten(graph, last_step)


def _by_channels(r: Rewriting, node: Node, found: Normalization, sizes: tuple[tuple[Int, ...], Int, Int, Int]) -> _Step:
    """The normalization of (batch..., places..., groups, channels...) as one of (batch..., places, all channels)."""
    batch, places, groups, channels = sizes
    b, lead, every = r.builder, len(batch), groups * channels

    def add(op: str, *operands: Value, **attributes: Any) -> Value:
        return b.add(op, *operands, sources=node.sources, **attributes)

    def mean_of(value: Value) -> Value:
        """Means over a group: (batch, groups, 1)."""
        per_channel = add("reduce_mean", value, axes=(lead,), keep_dims=False)
        return add("reduce_mean", b.reshape(per_channel, (*batch, groups, channels)), axes=(lead + 1,), keep_dims=True)

    def per_channel(value: Value) -> Value:
        return b.reshape(add("expand", value, shape=(*batch, groups, channels)), (*batch, 1, every))

    flat = b.reshape(found.x, (*batch, places, every))
    centered = add("sub", flat, per_channel(mean_of(flat)))
    variance = mean_of(add("mul", centered, centered))
    scale = add("reciprocal", add("sqrt", add("add", variance, b.scalar(found.epsilon, flat.dtype))))
    return "reshape", add("mul", centered, per_channel(scale)), {"shape": found.x.shape}


def _rewritten(graph: Graph, last_step: Callable[[Rewriting, Node, Normalization], _Step | None]) -> Graph:
    r, changed = Rewriting(graph), False
    for node in graph.nodes:
        found = _Pattern(r).of(node) if node.op in ("div", "mul", "add") else None
        step = None if found is None else last_step(r, node, found)
        if found is None or step is None:
            r.keep(node)
            continue
        changed = True
        op, x, attributes = step
        operands: tuple[Value, ...] = (x,)
        for following, operand in (("mul", found.factor), ("add", found.shift)):
            if operand is not None:
                operands = (r.builder.add(op, *operands, sources=node.sources, **attributes), operand)
                op, attributes = following, {}
        r.emit(node, op, *operands, **attributes)
    return eliminate_dead_code(r.finish()) if changed else graph


class _Pattern:
    """Finds what a node computes by what its operands are made of."""

    def __init__(self, r: Rewriting):
        self.r = r

    def of(self, node: Node) -> Normalization | None:
        a, b = (*self.r.operands(node), None)[:2]
        if a is None or b is None or len(node.outputs) != 1 or node.output.dtype not in ("float32", "float64"):
            return None
        if node.op == "div":
            found = self.centered(a, self.deviation(b))
        elif node.op == "mul":
            found = self.centered(a, self.inverse(b)) or self.centered(b, self.inverse(a))
        else:
            found = self.shifted(a, b) or self.shifted(b, a)
        return found if found is not None and found.x.type == node.output.type else None

    def centered(self, value: Value, found: _Statistics | None) -> Normalization | None:
        """x - mean, of these statistics."""
        if found is None or not self.is_gap(value, found.normalization.x, found.mean):
            return None
        return found.normalization

    def shifted(self, product: Value, rest: Value) -> Normalization | None:
        """x * scale + (shift - mean * scale), where scale is inverse * factor: how batch normalization is written."""
        scaled = self.made(product, "mul")
        if scaled is None:
            return None
        for x, scale in (scaled.operands, scaled.operands[::-1]):
            for inverse, factor in ((scale, None), *self.factors(scale)):
                found = self.inverse(inverse)
                if found is None or found.normalization.x is not x:
                    continue
                holds, shift = self.offset(rest, found.mean, scale)
                return replace(found.normalization, factor=factor, shift=shift) if holds else None
        return None

    def factors(self, value: Value) -> tuple[tuple[Value, Value], ...]:
        node = self.made(value, "mul")
        return () if node is None else ((node.operands[0], node.operands[1]), (node.operands[1], node.operands[0]))

    def offset(self, value: Value, mean: Value, scale: Value) -> tuple[bool, Value | None]:
        """Whether a value is shift - mean * scale, in any of its forms; and the shift, where there is one."""
        if self.is_negated(value, mean, scale):
            return True, None
        node = self.made(value, "sub", "add")
        if node is None:
            return False, None
        a, b = node.operands
        if node.op == "sub":
            return self.is_product(b, mean, scale), a
        for shift, negated in ((a, b), (b, a)):
            if self.is_negated(negated, mean, scale):
                return True, shift
        return False, None

    def is_negated(self, value: Value, mean: Value, scale: Value) -> bool:
        """-mean * scale, the sign in any place."""
        negated = self.made(value, "neg")
        if negated is not None:
            return self.is_product(negated.operands[0], mean, scale)
        for one, other in self.factors(value):
            sign = self.made(one, "neg")
            if other is scale and sign is not None and sign.operands[0] is mean:
                return True
        return False

    def is_product(self, value: Value, mean: Value, scale: Value) -> bool:
        return any(one is mean and other is scale for one, other in self.factors(value))

    def inverse(self, value: Value) -> _Statistics | None:
        """1 / sqrt(variance + epsilon)."""
        node = self.made(value, "reciprocal", "div")
        if node is None or (node.op == "div" and not _is(node.operands[0], 1.0)):
            return None
        return self.deviation(node.operands[-1])

    def deviation(self, value: Value) -> _Statistics | None:
        """sqrt(variance + epsilon)."""
        root = self.made(value, "sqrt")
        total = None if root is None else self.made(root.operands[0], "add")
        if total is None:
            return None
        for variance, epsilon in (total.operands, total.operands[::-1]):
            number = _number(epsilon)
            found = None if number is None or number < 0 else self.variance(variance)
            if found is not None:
                x, axes, mean = found
                return _Statistics(Normalization(x, axes, number or 0.0), mean)
        return None

    def variance(self, value: Value) -> tuple[Value, tuple[int, ...], Value] | None:
        """The mean of the squared distance from the mean; or that of squares less the square of the mean."""
        mean = self.mean(value)
        if mean is not None:
            square = self.made(mean[0], "mul")
            gap = None if square is None else self.made(square.operands[0], "sub")
            if square is None or gap is None or not self.same(*square.operands):
                return None
            x, own = gap.operands
            inner = self.mean(own)
            return (x, mean[1], own) if inner is not None and inner[0] is x and inner[1] == mean[1] else None
        node = self.made(value, "sub")
        if node is None:
            return None
        of_squares, squared = self.mean(node.operands[0]), self.made(node.operands[1], "mul")
        square = None if of_squares is None else self.made(of_squares[0], "mul")
        if of_squares is None or squared is None or square is None or len({*square.operands, *squared.operands}) != 2:
            return None
        (x, again), (own, too) = square.operands, squared.operands
        inner = self.mean(own)
        fits = x is again and own is too and inner is not None and inner[0] is x and inner[1] == of_squares[1]
        return (x, of_squares[1], own) if fits else None

    def mean(self, value: Value) -> tuple[Value, tuple[int, ...]] | None:
        """What a mean that keeps its dimensions is of, and over which of them."""
        node = self.made(value, "reduce_mean", "reshape")
        if node is not None and node.op == "reshape":
            node = self.made(node.operands[0], "reduce_mean")
        if node is None:
            return None
        x = node.operands[0]
        axes = tuple(sorted(n % x.type.rank for n in node.attributes["axes"]))
        kept = tuple(as_int(1) if n in axes else size for n, size in enumerate(x.shape))
        return (x, axes) if axes and value.shape == kept else None

    def is_gap(self, value: Value, x: Value, mean: Value) -> bool:
        node = self.made(value, "sub")
        return node is not None and node.operands[0] is x and self.same(node.operands[1], mean)

    def same(self, a: Value, b: Value) -> bool:
        """Whether two values are one, or made alike of the same ones."""
        if a is b:
            return True
        first, second = self.made(a), self.made(b)
        if first is None or second is None or first.op != second.op or first.attributes != second.attributes:
            return False
        return len(first.operands) == len(second.operands) and all(map(self.same, first.operands, second.operands))

    def made(self, value: Value, *ops: str) -> Node | None:
        return self.r.made_by(value, *ops)


def _number(value: Value) -> float | None:
    """A constant of one element."""
    return float(value.data.reshape(-1)[0]) if value.data is not None and value.data.size == 1 else None


def _is(value: Value, number: float) -> bool:
    return _number(value) == number
