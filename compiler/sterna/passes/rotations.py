"""Elements of a row that change places and signs, as rotary embeddings have it, are read where they lie.

Models say it by parts: `concat(-x[..., h:], x[..., :h])`, or pairs, `stack(-x[..., 1::2], x[..., ::2])`, or of rows
that are in two axes already. Each part would be a kernel that stores a few elements of every row. As one strided
reading of x with a factor of 1 or -1 for each part, it joins the element-wise nodes that follow:

    strided(x) [..., parts, h] * signs [parts, 1] -> reshape [..., parts * h]

These compute in the shape of the parts, too, so that no reshape lies between, and without axes of one element, which
come and go; others see their result reshaped, which is a view. (J. Su et al., RoFormer, 2021)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Node, Value
from sterna.ir.integer import Int
from sterna.ops import operator
from sterna.ops.operator import Fusion
from sterna.passes.eliminate_dead_code import eliminate_dead_code
from sterna.passes.rewriting import Rewriting, splat


@dataclass(frozen=True)
class _Part:
    """sign * row[start], row[start + step] and so on, so many elements of each row of x.

    Args:
        axes: the last ones of x that are its rows; stacked: each element is a row of its own in what parts are joined
            to, so that their elements take turns.
    """

    x: Value
    axes: int
    start: int
    step: int
    size: int
    sign: float = 1.0
    stacked: bool = False


def rotations(graph: Graph) -> Graph:
    """The graph with such concatenations as strided readings."""
    rewriting, merged, pairs = Rewriting(graph, fold=1), dict[Value, Value](), dict[Value, Value]()
    for node in graph.nodes:
        parts = _parts(rewriting, node) if node.op == "concat" else None
        if parts is None:
            kept = rewriting.keep(node)
            before = kept.operands[0] if kept.op == "reshape" else None
            # Pairs are an axis of their own until the model makes one of both.
            if before in pairs and _merges(pairs[before], kept.output):
                merged[kept.output] = pairs[before]
            continue
        value = _turned(rewriting, node, parts)
        whole = rewriting.emit(node, "reshape", value, shape=node.output.shape)
        (pairs if parts[0].stacked else merged)[whole] = value
    if not merged and not pairs:
        return graph
    return eliminate_dead_code(_InParts(rewriting.finish(), merged).run())


# ---------------------------------------------------------------- what is found
def _parts(r: Rewriting, node: Node) -> list[_Part] | None:
    """The parts of a concatenation of elements of one row, evenly apart; None if it is something else."""
    last = node.output.type.rank - 1
    if node.attributes["axis"] % (last + 1) != last or len(node.inputs) < 2:
        return None
    found = [_part(r, r.value(value)) for value in node.operands]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    first, second = parts[:2]
    apart = second.start - first.start
    even = all(replace(first, start=first.start + n * apart, sign=p.sign) == p for n, p in enumerate(parts))
    signed = dtypes.is_float(first.x.dtype) or all(p.sign == 1 for p in parts)
    return parts if even and signed and first.size > 1 else None


def _part(r: Rewriting, value: Value) -> _Part | None:
    """What a value is of the rows that a slice cuts."""
    sign, stacked, shape = 1.0, value.shape[-1] == 1, _long(value.shape)
    while (node := r.made_by(value)) is not None and node.operands:
        x = node.operands[0]
        if node.op == "neg":
            sign = -sign
        elif node.op == "mul" and (factor := _sign(node)) is not None:
            sign, x = sign * factor[0], factor[1]
        elif node.op == "slice" and (found := _cut(node, x)) is not None:
            return replace(found, sign=sign, stacked=stacked)
        elif node.op != "reshape" or _long(x.shape) != shape:
            return None
        value = r.value(x)
    return None


def _sign(node: Node) -> tuple[float, Value] | None:
    """The factor 1 or -1 of a product, and what it multiplies."""
    a, b = node.operands
    for value, other in ((a, b), (b, a)):
        number = splat(other)
        if number in (1.0, -1.0) and value.type == node.output.type:
            return number, value
    return None


def _cut(node: Node, x: Value) -> _Part | None:
    """The part that a slice is of rows of one axis, or of two, one of which it takes a place of."""
    starts, steps = node.attributes["starts"], node.attributes["steps"]
    cut = [d for d, (a, b) in enumerate(zip(x.shape, node.output.shape, strict=True)) if a != b]
    if (
        x.data is not None
        or len(cut) != 1
        or cut[0] < x.type.rank - 2
        or not all(n.is_const for n in x.shape[cut[0] :])
    ):
        return None
    (axis,), last = cut, x.type.rank - 1
    start, step = int(starts[axis]), int(steps[axis])
    if node.output.shape[axis] != 1:
        return _Part(x, 1, start, step, int(node.output.shape[axis])) if axis == last else None
    if not last or not x.shape[-2].is_const:
        return None
    high, wide = map(int, x.shape[-2:])
    return _Part(x, 2, start, wide, high) if axis == last else _Part(x, 2, start * wide, 1, wide)


def _long(shape: Sequence[Int]) -> tuple[Int, ...]:
    """The sizes of a shape that are not one."""
    return tuple(n for n in shape if n != 1)


def _turned(r: Rewriting, node: Node, parts: Sequence[_Part]) -> Value:
    """The parts as one strided reading with their signs: an axis of parts before or behind that of their elements."""
    first, second = parts[:2]
    many, size = (len(parts), second.start - first.start), (first.size, first.step)
    sizes, steps = zip(*((size, many) if first.stacked else (many, size)), strict=True)
    lead = _long(first.x.shape[: -first.axes])
    rows = r.builder.add(
        "reshape", first.x, shape=(*lead, prod(map(int, first.x.shape[-first.axes :]))), sources=node.sources
    )
    value = r.builder.add(
        "strided", rows, axis=len(lead), start=first.start, sizes=sizes, steps=steps, sources=node.sources
    )
    signs = np.array([part.sign for part in parts], dtypes.to_numpy(first.x.dtype))
    if (signs == 1).all():
        return value
    factors = r.builder.constant(signs if first.stacked else signs[:, None])
    return r.builder.add("mul", value, factors, sources=node.sources)


def _merges(value: Value, whole: Value) -> bool:
    """Whether the last axes of a value of two are one of another."""
    return _long(whole.shape) == (*value.shape[:-2], value.shape[-2] * value.shape[-1])


# ---------------------------------------------------------------- what follows
class _InParts:
    """Element-wise nodes after such readings, in the shape of the parts.

    Args:
        merged: results of reshapes, and what they are made of: the last axis in two.
    """

    def __init__(self, graph: Graph, merged: Mapping[Value, Value]):
        self.graph, self.merged = graph, merged
        self.users, self.producers, self.outputs = graph.users(), graph.producers(), set(graph.outputs)

    def run(self) -> Graph:
        tops = {top: value for value in self.merged if (top := self.top(value)) is not None}
        rewriting = Rewriting(self.graph, fold=1)
        for node in self.graph.nodes:
            if node not in tops:
                rewriting.keep(node)
                continue
            value = self.split(rewriting, node.output, node.output, self.merged[tops[node]].shape[-2:])
            rewriting.emit(node, "reshape", value, shape=node.output.shape)
        return rewriting.finish()

    def top(self, value: Value) -> Node | None:
        """The last of the element-wise nodes that follow one another, and of which each has one reader; None if the
        first one is no such node."""
        found = None
        while self.alone(value):
            (user,) = self.users[value]
            if not self.is_inside(user) or _long(user.output.shape) != _long(value.shape):
                break
            found, value = user if user.op != "reshape" else found, user.output
        return found

    def alone(self, value: Value) -> bool:
        return value not in self.outputs and len(self.users.get(value, ())) == 1

    def is_inside(self, node: Node | None) -> bool:
        """Whether a node is element by element, or moves axes of one element."""
        if node is None or node.regions or len(node.outputs) != 1:
            return False
        if node.op == "reshape":
            return _long(node.operands[0].shape) == _long(node.output.shape)
        return operator(node.op).fusion is Fusion.BROADCAST and "elementwise" in operator(node.op).tags

    def split(self, r: Rewriting, value: Value, reader: Value, parts: Sequence[Int]) -> Value:
        """A value that is read element by element for another one, with its last axis in two and none of one element
        that the reader has.

        Args:
            reader: of the shape that the value is expanded to.
        """
        alike = _long(value.shape) == _long(reader.shape)
        if alike and value in self.merged and tuple(self.merged[value].shape[-2:]) == tuple(parts):
            return r.value(self.merged[value])
        node = self.producers.get(value)
        inside = value is reader or (self.alone(value) and alike)
        if node is not None and inside and self.is_inside(node):
            if node.op == "reshape":
                (x,) = node.operands
                return self.split(r, x, x, parts)
            operands = [None if v is None else self.split(r, v, value, parts) for v in node.inputs]
            return r.builder.add(node.op, *operands, sources=node.sources, **node.attributes)
        if not value.type.rank:
            return r.value(value)
        sizes = (*(1 for _ in range(reader.type.rank - value.type.rank)), *value.shape)
        *lead, last = (n for n, whole in zip(sizes, reader.shape, strict=True) if whole != 1)
        return r.builder.add("reshape", r.value(value), shape=(*lead, *((1, 1) if last == 1 else parts)))
