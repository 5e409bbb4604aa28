"""Which channels (the last dimension) of a network's tensors are the same ones: segments of channels, from the products
that make them to those that read them, with what works channel by channel between them.

Concatenations, slices and groups of convolutions cut channels into segments. A cut in one tensor is one in all that
have the same channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Node, Value, captured
from sterna.ir.integer import as_int
from sterna.passes.channel_ranges import channels, is_pool, pads_positions

#: Element by element, and finite where all operands are: zeros in the place of a channel stay numbers.
_FINITE = frozenset(
    (
        "abs", "add", "cast", "celu", "clip", "elu", "erf", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu",
        "maximum", "minimum", "mish", "mul", "neg", "prelu", "relu", "selu", "shrink", "sigmoid", "softplus",
        "softsign", "sub", "tanh", "thresholded_relu",
    )
)  # fmt: skip
#: Combine positions of a channel.
_OVER_POSITIONS = ("reduce_mean", "reduce_sum", "reduce_max", "reduce_min")
#: One whose weights' last dimensions are channels that are read and made.
_CONVOLUTIONS = ("conv", "conv_transpose")


@dataclass(frozen=True)
class Alike:
    """So many channels of two tensors, from the first of each on, that are the same ones."""

    one: Value
    first: int
    other: Value
    of_other: int
    many: int


def is_dense(node: Node) -> bool:
    """Whether every channel of the result is a sum over all channels of the first operand, times constants."""
    return _groups(node) == 1


def is_grouped(node: Node) -> bool:
    """Whether it is such a product for each of several groups of channels."""
    return 1 < _groups(node) < channels(node.operands[0])


def is_depthwise(node: Node) -> bool:
    """Whether every channel of the result is a sum over the same channel of the first operand, times constants."""
    return 1 < _groups(node) == channels(node.operands[0]) == channels(node.output)


def _groups(node: Node) -> int:
    """The groups of channels of a product with constants; 0 of anything else."""
    if len(node.inputs) != 2 or node.operands[1].data is None or node.operands[0].is_constant:
        return 0
    if node.op == "matmul":
        return int(node.operands[1].type.rank == 2)
    return int(node.attributes["groups"]) if node.op in _CONVOLUTIONS else 0


class Segments:
    """The segments of all tensors of a graph.

    Attributes:
        cuts: of a tensor that has channels, where segments begin, and its end; of: the number of the segment that
            begins at a channel of a tensor, the same for all that are the same; fixed: those that something else reads
            or makes; convolved: what convolutions with groups read and make, groups are segments.
    """

    def __init__(self, graph: Graph):
        self.cuts: dict[Value, set[int]] = {}
        self.fixed_values = {*graph.inputs, *graph.outputs, *graph.live_in}
        self.grouped: list[tuple[Value, int]] = []
        self.convolved: list[tuple[Value, Value]] = []
        made = {value for node in graph.nodes for value in node.outputs}
        alike = list[Alike]()
        for node in graph.nodes:
            alike += self._relations(node)
            outside = (v for v in node.operands if v not in made and not v.is_constant)
            self.fixed_values.update((*outside, *captured(node)))
        for value in {*self.fixed_values, *made}:
            self._cut(value)
        self._meet(alike)
        self.of: dict[tuple[Value, int], int] = {}
        self._number(alike)
        self.fixed = {self.of[v, n] for v in self.fixed_values for n in self.begins(v)}

    def begins(self, value: Value) -> list[int]:
        """Where the segments of a tensor begin."""
        return sorted(self.cuts[value])[:-1]

    def lengths(self, value: Value) -> list[tuple[int, int]]:
        """The segments of a tensor: number and channels."""
        ends = sorted(self.cuts[value])
        return [(self.of[value, a], b - a) for a, b in pairwise(ends)]

    def _cut(self, value: Value) -> set[int]:
        return self.cuts.setdefault(value, {0, channels(value)})

    def _relations(self, node: Node) -> Iterator[Alike]:
        """What channels of a node's operands are those of its result; what else there is of them is fixed."""
        given = [value for value in node.operands if not value.is_constant]
        known = len(node.outputs) == 1 and dtypes.is_float(node.output.dtype) and channels(node.output)
        if not given or not known:
            self.fixed_values.update((*given, *node.outputs))
        elif is_dense(node):
            self._cut(given[0])
            self._cut(node.output)
        elif is_grouped(node):
            for value in (given[0], node.output):
                each = channels(value) // int(node.attributes["groups"])
                self._cut(value).update(range(0, channels(value), each))
                self.grouped.append((value, each))
            self.convolved.append((given[0], node.output))
        elif node.op == "concat" and node.attributes["axis"] % node.output.type.rank == node.output.type.rank - 1:
            first = 0
            for value in node.operands:
                if value.is_constant:
                    self.fixed_values.add(node.output)
                else:
                    yield Alike(node.output, first, value, 0, channels(value))
                first += channels(value)
        elif node.op == "slice" and _is_part(node):
            yield Alike(given[0], int(node.attributes["starts"][-1]), node.output, 0, channels(node.output))
        elif all(channels(value) == channels(node.output) for value in _wide(node, given)) and _is_along(node, given):
            for value in _wide(node, given):
                yield Alike(node.output, 0, value, 0, channels(value))
        else:
            self.fixed_values.update((*given, node.output))

    def _meet(self, alike: list[Alike]) -> None:
        """Cuts all that are the same channels at the same places."""
        for each in alike:
            self._cut(each.one).update((each.first, each.first + each.many))
            self._cut(each.other).update((each.of_other, each.of_other + each.many))
        more = True
        while more:
            more = False
            for each in alike:
                one, other, by = self.cuts[each.one], self.cuts[each.other], each.of_other - each.first
                there = {n + by for n in one if each.first <= n <= each.first + each.many} - other
                here = {n - by for n in other if each.of_other <= n <= each.of_other + each.many} - one
                one |= here
                other |= there
                more = more or bool(here or there)

    def _number(self, alike: list[Alike]) -> None:
        root: dict[tuple[Value, int], tuple[Value, int]] = {}

        def found(key: tuple[Value, int]) -> tuple[Value, int]:
            while (up := root.get(key, key)) != key:
                root[key] = root.get(up, up)
                key = up
            return key

        for each in alike:
            for n in self.cuts[each.one]:
                if each.first <= n < each.first + each.many:
                    root[found((each.one, n))] = found((each.other, n + each.of_other - each.first))
        for value, size in self.grouped:
            # Groups have as many channels as one another, whatever is made of them.
            if self.cuts[value] != {*range(0, channels(value) + 1, size)}:
                self.fixed_values.add(value)
            for n in self.begins(value):
                root[found((value, n))] = found((value, 0))
        numbers: dict[tuple[Value, int], int] = {}
        for value in self.cuts:
            for n in self.begins(value):
                self.of[value, n] = numbers.setdefault(found((value, n)), len(numbers))


def _is_part(node: Node) -> bool:
    """Whether a slice has neighbouring channels, at places that are known."""
    x, starts, steps = node.operands[0], node.attributes["starts"], node.attributes["steps"]
    return bool(channels(x)) and as_int(starts[-1]).is_const and as_int(steps[-1]) == 1


def _wide(node: Node, given: list[Value]) -> list[Value]:
    """The operands that have several channels where the result has; of one channel each meets all."""
    return [value for value in given if channels(value) != 1 or channels(node.output) == 1]


def _is_along(node: Node, given: list[Value]) -> bool:
    """Whether a node works channel by channel, on zeros as on other numbers."""
    rank, x = node.output.type.rank, node.operands[0]
    if node.op in _FINITE or (node.op == "div" and node.operands[1].is_constant):
        return all(_by_channel(value, channels(node.output)) for value in node.operands if value.is_constant)
    if len(_wide(node, given)) != 1 or x not in given:
        return False
    if node.op == "reshape":
        return node.output.type.is_static
    if node.op == "transpose":
        return bool(node.attributes["order"][-1] == rank - 1)
    if node.op in _OVER_POSITIONS:
        return all(axis % x.type.rank != x.type.rank - 1 for axis in node.attributes["axes"])
    if node.op == "resize":
        return bool(node.attributes["scales"][-1] == 1.0)
    if node.op == "gather":
        return bool(node.attributes["axis"] % x.type.rank != x.type.rank - 1)
    if node.op == "gather_nd":
        return int(node.attributes["batch_dims"]) + channels(node.operands[1]) < x.type.rank
    if node.op == "concat":
        return True
    return is_depthwise(node) or is_pool(node) or pads_positions(node)


def _by_channel(constant: Value, count: int) -> bool:
    """Whether a constant is one number for each channel, or the same for all of them."""
    return not constant.shape or channels(constant) in (1, count)
