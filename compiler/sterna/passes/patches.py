"""The leading layers of an image model patch by patch, so that none of their tensors is ever there as a whole.

    slice of the image -> [pad] -> conv -> ... -> conv -> its place in the result, once for every patch

The first layers of such models have the largest images and the fewest weights: what they hand each other is most of the
memory that a model takes. Each patch of a later, smaller tensor needs a patch of those before it, and of the pixels
around it: where patches meet, these are computed twice. (MCUNetV2: Lin et al., Memory-efficient Patch-based Inference
for Tiny Deep Learning, 2021.)

Every operator of the layers is applied to a region of its operands. The padding of a region is what lies beyond the
whole image, so results are the same. Slices are views, and each patch is written where the concatenation of all wants
it (`passes.views`). For three patches of the rows of `pad -> conv 3 x 3 -> pad -> conv 3 x 3` on 12 rows:

    rows of the result    of the first convolution    of the image
    0 .. 4                0 .. 5                      0 .. 6
    4 .. 8                3 .. 9                      2 .. 10
    8 .. 12               7 .. 12                     6 .. 12

Which layers are cut, and into how many patches, is decided elsewhere (`sterna.budgets`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from sterna.errors import error
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Node, Value
from sterna.ir.integer import IntLike, as_int
from sterna.ops import operator
from sterna.ops.operator import Fusion
from sterna.ops.pooling import image
from sterna.passes.context import PassContext
from sterna.passes.rewriting import Rewriting

#: For every dimension the first element and the one behind the last.
Region = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Stretch:
    """Nodes that can be computed in patches, in order, the last of which gives `result`; nothing else reads what they
    hand each other. Results of other nodes, and inputs, are read by slices."""

    nodes: tuple[Node, ...]

    @property
    def result(self) -> Value:
        return self.nodes[-1].output

    @property
    def spatial(self) -> tuple[int, ...]:
        """The dimensions of the result along which it can be cut: where the last windows slide."""
        result = self.result
        for node in reversed(self.nodes):
            if node.output is not result:
                continue
            if node.op in _CONVOLUTIONS or node.op in _POOLS:
                rank, first = result.type.rank, 2 if node.op == "conv_planes" or node.attributes.get("planes") else 1
                return tuple(range(first, first + rank - 2))
            if node.op in ("pad", "transpose"):
                return ()
            result = next((v for v in node.operands if v.type.sizes == result.type.sizes), result)
        return ()

    def regions(self, region: Region) -> Mapping[Value, Region] | None:
        """What of every value is needed for a region of the result; None where a patch would be nothing but padding."""
        needed: dict[Value, Region] = {self.result: region}
        for node in reversed(self.nodes):
            for value, read in zip(node.operands, reads(node, needed[node.output]), strict=True):
                if read is None:
                    continue
                if any(first >= last for first, last in read):
                    return None
                known = needed.get(value)
                needed[value] = read if known is None else _around(known, read)
        return needed

    def sizes(self, needed: Mapping[Value, Region]) -> tuple[object, ...]:
        """What the kernels of a patch differ by from those of others: how much of every value they read and make, and
        how much padding. Of patches in the middle of an image that is mostly the same."""
        shapes = (tuple(last - first for first, last in region) for region in needed.values())
        pads = (_padding(n, needed[n.output]) for n in self.nodes if n.op == "pad")
        return (*shapes, *(tuple(pad["before"]) + tuple(pad["after"]) for pad in pads))

    def multiply_adds(self, needed: Mapping[Value, Region]) -> int:
        """Those of a patch; of convolutions, which are what costs."""
        return sum(_elements(needed[n.output]) * _products(n) for n in self.nodes)

    def live_bytes(self, needed: Mapping[Value, Region]) -> int:
        """What a patch keeps in memory at once, beside the result: what the layer with the largest images reads and
        makes. What is read of values from outside lies elsewhere, and pads are no copies."""
        made = {node.output: node for node in self.nodes}
        size = dtypes.size(self.result.dtype)
        most = 0
        for node in self.nodes:
            if node.op not in (*_CONVOLUTIONS, *_POOLS):
                continue
            x = node.operands[0]
            while x in made and made[x].op == "pad":
                (x,) = made[x].operands
            held = _elements(needed[x]) * dtypes.size(x.dtype) if x in made else 0
            last = node.output.shape == self.result.shape and needed[node.output] == needed[self.result]
            most = max(most, held + (0 if last else _elements(needed[node.output]) * size))
        return most


def patches(graph: Graph, context: PassContext) -> Graph:
    """The graph with its leading layers in patches as the options say; computes the same."""
    asked = context.options.patches
    assert asked is not None
    named = [node.output for node in graph.nodes if node.outputs[0].name == asked.result]
    stretch = leading(graph, named[0]) if named else None
    if stretch is None:
        raise error("E0901", f'no layers up to "{asked.result}" can be computed in patches')
    rewriting = Rewriting(graph)
    inside = set(stretch.nodes)
    for node in graph.nodes:
        if node is stretch.nodes[-1]:
            _emit(rewriting, stretch, asked.parts)
        elif node not in inside:
            rewriting.keep(node)
    return rewriting.finish()


def leading(graph: Graph, result: Value) -> Stretch | None:
    """The longest stretch of nodes up to a value that can be computed in patches; None if there is none."""
    needed, nodes = {result}, []
    for node in reversed(graph.nodes):
        if len(node.outputs) == 1 and node.output in needed and splits(node):
            nodes.append(node)
            needed.update(node.operands)
    if not nodes or nodes[0].output is not result:
        return None
    users, inside, outputs = graph.users(), set(nodes), set(graph.outputs)
    between = [node.output for node in nodes[1:]]
    alone = all(value not in outputs and inside.issuperset(users.get(value, ())) for value in between)
    return Stretch(tuple(reversed(nodes))) if alone else None


def cut(sizes: Sequence[int], parts: Sequence[int]) -> Iterator[Region]:
    """The regions of a tensor, row by row: as many parts of each dimension, all but the last of one size."""
    return product(*(_ranges(size, count) for size, count in zip(sizes, parts, strict=True)))


def splits(node: Node) -> bool:
    """Whether a region of a node's result can be computed of regions of its operands."""
    if not all(value.type.is_static for value in (*node.operands, *node.outputs)) or node.regions:
        return False
    if node.op in _CONVOLUTIONS:
        return node.operands[1].is_constant and not node.operands[0].is_constant
    if node.op == "pad":
        return node.attributes["mode"] == "constant" and all(as_int(n).is_const for n in _ends(node))
    if node.op in (*_POOLS, "transpose"):
        return True
    if node.op == "lookup":
        x, table = node.operands
        return x.shape == node.output.shape and table.is_constant
    return operator(node.op).fusion is Fusion.BROADCAST and all(_broadcasts(v, node.output) for v in node.operands)


def reads(node: Node, region: Region) -> list[Region | None]:
    """What a node reads of each operand for a region of its result; None: weights or a table, as a whole."""
    if (rule := _RULES.get(node.op)) is not None:
        return [rule(node, region), *[None] * (len(node.operands) - 1)]
    return [_broadcast(v, region) for v in node.operands]


def _ranges(size: int, parts: int) -> list[tuple[int, int]]:
    each = -(-size // parts)
    return list(pairwise((*range(0, size, each), size)))


@dataclass(frozen=True)
class _Held:
    """A region of a value, as a value of the new graph."""

    value: Value
    region: Region


def _emit(rewriting: Rewriting, stretch: Stretch, parts: Sequence[int]) -> None:
    """All patches, and the result that is put together of them."""
    builder, last = rewriting.builder, stretch.nodes[-1]
    regions = list(cut(stretch.result.type.sizes, parts))
    made = [_patch(rewriting, stretch, region) for region in regions]
    split = [d for d, count in enumerate(parts) if count > 1]
    for axis in reversed(split):
        count = len({region[axis] for region in regions})
        rows = [made[n : n + count] for n in range(0, len(made), count)]
        final = axis == split[0]
        result = stretch.result if final else None
        made = [builder.add("concat", *row, axis=axis, sources=last.sources, result=result) for row in rows]
    (whole,) = made
    rewriting.substitute(stretch.result, whole)


def _patch(rewriting: Rewriting, stretch: Stretch, region: Region) -> Value:
    needed = stretch.regions(region)
    assert needed is not None
    builder = rewriting.builder
    made: dict[Value, _Held] = {}

    def operand(value: Value, wanted: Region | None) -> Value:
        whole = tuple((0, size) for size in value.type.sizes)
        if wanted is None:
            return value
        held = made.get(value) or _Held(rewriting.value(value), whole)
        if held.region == wanted:
            return held.value
        starts = tuple(first - begin for (first, _), (begin, _) in zip(wanted, held.region, strict=True))
        sizes = tuple(last - first for first, last in wanted)
        return builder.add("slice", held.value, starts=starts, sizes=sizes, steps=(1,) * len(sizes))

    for node in stretch.nodes:
        here = needed[node.output]
        operands = iter(map(operand, node.operands, reads(node, here)))
        inputs = [None if value is None else next(operands) for value in node.inputs]
        settings = dict(node.attributes)
        if node.op == "pad":
            settings |= _padding(node, here)
        name = node.output.name if node.output is not stretch.result else f"{node.output.name}/patch"
        value = builder.add(
            node.op, *inputs, sources=node.sources, name=node.name, result=builder.name(name), **settings
        )
        made[node.output] = _Held(value, here)
    return made[stretch.result].value


def _windows(node: Node, region: Region, kernel: Sequence[int], first: int) -> Region:
    """What windows read: `first` is the first spatial dimension. Other dimensions are the operand's."""
    read = [(0, size) for size in node.operands[0].type.sizes]
    read[0] = region[0]
    steps = zip(kernel, node.attributes["strides"], node.attributes["dilations"], strict=True)
    for d, (size, stride, rate) in enumerate(steps, first):
        low, high = region[d]
        read[d] = low * stride, (high - 1) * stride + (size - 1) * rate + 1
    return tuple(read)


def _convolved(node: Node, region: Region) -> Region:
    return _windows(node, region, node.operands[1].type.sizes[:-2], 1)


def _convolved_planes(node: Node, region: Region) -> Region:
    return _windows(node, region, node.operands[1].type.sizes[1:-1], 2)


def _pooled(node: Node, region: Region) -> Region:
    places = image(node.operands[0].shape, node.attributes)
    read = list(_windows(node, region, node.attributes["kernel"], places.start))
    channels = len(read) - 1 if places.start == 1 else 1
    read[channels] = region[channels]
    return tuple(read)


def _padded(node: Node, region: Region) -> Region:
    (x,) = node.operands
    before = (int(as_int(n)) for n in node.attributes["before"])
    return tuple(
        (min(max(low - n, 0), size), min(max(high - n, 0), size))
        for (low, high), n, size in zip(region, before, x.type.sizes, strict=True)
    )


def _padding(node: Node, region: Region) -> dict[str, tuple[int, ...]]:
    """What is left of a pad's ends for a region of its result."""
    read = _padded(node, region)
    before = tuple(max(0, int(as_int(n)) - low) for (low, _), n in zip(region, node.attributes["before"], strict=True))
    sizes = [high - low for low, high in region]
    after = tuple(size - n - (last - first) for size, n, (first, last) in zip(sizes, before, read, strict=True))
    return {"before": before, "after": after}


def _transposed(node: Node, region: Region) -> Region:
    order = node.attributes["order"]
    return tuple(region[order.index(d)] for d in range(len(order)))


def _looked_up(node: Node, region: Region) -> Region:
    return region


_POOLS = ("max_pool", "sum_pool")
_CONVOLUTIONS = ("conv", "conv_integer", "conv_planes")
_RULES: Mapping[str, Callable[[Node, Region], Region]] = {
    "conv": _convolved,
    "conv_integer": _convolved,
    "conv_planes": _convolved_planes,
    "max_pool": _pooled,
    "sum_pool": _pooled,
    "pad": _padded,
    "transpose": _transposed,
    "lookup": _looked_up,
}


def _broadcasts(value: Value, into: Value) -> bool:
    """Whether an operand meets every element of a result as it lies; a constant is one number, or a row of them, as
    those of channels: larger ones would be stored again in parts."""
    aligned = zip(reversed(value.type.sizes), reversed(into.type.sizes), strict=False)
    if value.type.rank > into.type.rank or any(a not in (1, b) for a, b in aligned):
        return False
    return not value.is_constant or sum(size != 1 for size in value.type.sizes) <= 1


def _broadcast(value: Value, region: Region) -> Region:
    own = region[len(region) - value.type.rank :]
    return tuple((0, 1) if size == 1 else part for size, part in zip(value.type.sizes, own, strict=True))


def _around(a: Region, b: Region) -> Region:
    return tuple((min(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True))


def _elements(region: Region) -> int:
    return math.prod(last - first for first, last in region)


def _products(node: Node) -> int:
    """Multiply-adds of an element of the result."""
    if node.op not in _CONVOLUTIONS:
        return 0
    sizes = node.operands[1].type.sizes
    return math.prod(sizes[:-1])


def _ends(node: Node) -> tuple[IntLike, ...]:
    return (*node.attributes["before"], *node.attributes["after"])


__all__ = ["Region", "Stretch", "cut", "leading", "patches", "reads", "splits"]
