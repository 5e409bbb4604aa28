"""Activations of bytes get the sign that the target multiplies, where it takes one and not the other.

Some dot products take unsigned bytes alone (x86's vpdpbusd), some signed ones alone (ARM's sdot), so that a schedule
would flip the highest bit of every group of the other kind as it repeats them; fragments of matrices, on GPUs, take the
sign that the weights have. Here the layer that makes them adds 128 (takes 128 off) before it stores them, most often to
a zero point that it adds anyway, and every reader undoes it: a product by constant weights in its bias, arithmetic in
the zero point, while padding, pooling and tables only know other bytes. All results stay what they are, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value, captured
from sterna.passes.context import PassContext
from sterna.passes.rewriting import Rewriting, constant_data

#: What is added to bytes of one type to make them the other's, by the type that they get.
_OFFSETS = {"uint8": 128, "int8": -128}
_OTHER = {"uint8": "int8", "int8": "uint8"}
#: Whose results are some of the bytes of operand 0, or the greatest of some.
_MOVES = frozenset(("max_pool", "pad", "reshape", "slice", "transpose"))
#: Types in which adding 128 and taking it off again is exact.
_EXACT = frozenset(("float32", "int32"))
#: What may be added to a number of 31 bits, and a byte's offset too, within 32.
_ROOM = 1 << 29
_PRODUCTS = frozenset(("conv_integer", "matmul_integer"))


def applies(context: PassContext) -> bool:
    """Whether the target has instructions for activations of one sign and no others. Every tensor of a debug bundle is
    as the model has it."""
    return bool(context.multiplied_bytes) and not context.options.debug


def byte_signs(graph: Graph, context: PassContext) -> Graph:
    """The graph with activations of the sign that the target multiplies."""
    chosen = _chosen(graph, context.multiplied_bytes)
    return _Offset(graph, chosen).run() if chosen else graph


# ---------------------------------------------------------------- which
def _chosen(graph: Graph, taken: Mapping[str, str]) -> dict[Value, str]:
    """The values that are to change, and the type that each gets: those that a product reads, and what is moved on the
    way to it.

    Args:
        taken: the type of activations that products take, by that of the weights.
    """
    users, outputs = graph.users(), set(graph.outputs)
    producer = {output: node for node in graph.nodes for output in node.outputs}
    chosen: dict[Value, str] = {}
    for node in graph.nodes:
        if not _is_rounded(node, producer):
            continue
        family, waiting = set[Value](), [node.output]
        wanted, is_free = set[str](), True
        while waiting and is_free:
            value = waiting.pop()
            family.add(value)
            is_free = value not in outputs
            for user in users.get(value, ()):
                if user.op in _MOVES:
                    waiting.append(user.output)
                elif user.op in _PRODUCTS and user.inputs[0] is value and _has_plain_weights(user):
                    weights = user.inputs[1]
                    assert weights is not None
                    if _is_dense(user) and weights.dtype in taken:
                        wanted.add(taken[weights.dtype])
                elif not (user.op == "cast" and user.attributes["to"] in _EXACT) and user.op != "lookup":
                    is_free = False
        if is_free and wanted == {_OTHER[node.output.dtype]}:
            chosen |= dict.fromkeys(family, _OTHER[node.output.dtype])
    return chosen


def _is_rounded(node: Node, producer: Mapping[Value, Node]) -> bool:
    """Whether a node makes bytes of floats, or of int32 numbers that were clipped to their range."""
    if node.op not in ("round_to_integer", "cast") or node.output.dtype not in _OTHER:
        return False
    if node.op == "round_to_integer":
        return True
    assert node.inputs[0] is not None
    made = producer.get(node.inputs[0])
    if made is None or made.op != "clip" or made.output.dtype != "int32":
        return False
    (least, most), low, high = dtypes.limits(node.output.dtype), made.attributes["min"], made.attributes["max"]
    return low is not None and high is not None and bool(least <= low <= high <= most)


def _has_plain_weights(node: Node) -> bool:
    weights = constant_data(node.inputs[1])
    return weights is not None and (node.op != "matmul_integer" or weights.ndim == 2)


def _is_dense(node: Node) -> bool:
    """Whether dot products compute it: it adds up neighbouring elements."""
    weights = node.inputs[1]
    assert weights is not None
    return node.attributes.get("groups", 1) == 1 and bool(weights.shape[-2] != 1)


# ---------------------------------------------------------------- how
class _Offset:
    """Args: chosen: the values that change, and the type that each gets."""

    def __init__(self, graph: Graph, chosen: Mapping[Value, str]):
        self.graph, self.chosen = graph, chosen
        self.rewriting = Rewriting(graph)
        self.moved: dict[Value, Value] = {}  # by the old value: its form of the other sign
        #: By the old value, a sum or a number: what is there in its place, and how much more that is.
        self.excess: dict[Value, tuple[Value, Array]] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if not self.visit(node):
                self.settle(node, (*node.inputs, *captured(node)))
                self.rewriting.keep(node)
        for value in self.graph.outputs:
            self.settle(self.graph.nodes[-1], (value,))
        return self.rewriting.finish()

    def visit(self, node: Node) -> bool:
        """Whether the node was taken care of."""
        x = node.inputs[0] if node.inputs else None
        if len(node.outputs) == 1 and node.output in self.chosen:
            self.moved[node.output] = self.stored(node) if x not in self.moved else self.same(node)
            return True
        if x in self.moved:
            assert x is not None
            u = self.moved[x]
            if node.op == "lookup":
                self.rewriting.emit(node, "lookup", u, self.rewriting.operands(node)[1])
                return True
            rest = self.rewriting.operands(node)[1:]
            made = self.add(node, node.op, u, *rest, **node.attributes)
            self.excess[node.output] = made, _excess(node, _OFFSETS[self.chosen[x]])
            return True
        return node.op in ("add", "sub") and self.absorbed(node)

    def add(self, node: Node, op: str, *inputs: Value | None, **attributes: Any) -> Value:
        return self.rewriting.builder.add(op, *inputs, sources=node.sources, name=node.name, **attributes)

    def stored(self, node: Node) -> Value:
        """The conversion of numbers that are 128 more or less than they were."""
        (clipped,) = self.rewriting.operands(node)
        assert clipped is not None
        to = self.chosen[node.output]
        offset = _OFFSETS[to]
        if node.op == "round_to_integer":
            settings = {**node.attributes, "to": to, "zero": node.attributes["zero"] + offset}
            return self.add(node, node.op, clipped, **settings)
        clip = self.rewriting.made_by(clipped, "clip")
        assert clip is not None
        x = clip.inputs[0]
        assert x is not None
        builder = self.rewriting.builder
        if not self.has_room(x):
            more = builder.constant(np.array(offset, np.int32))
            return self.add(node, "cast", self.add(node, "add", clipped, more), to=to)
        added = self.rewriting.made_by(x, "add")
        constant = None if added is None else constant_data(added.inputs[1])
        if added is not None and constant is not None:
            x, constant = added.inputs[0], np.asarray(constant + np.int32(offset), np.int32)
        else:
            constant = np.array(offset, np.int32)
        if constant.any():
            x = self.add(node, "add", x, builder.constant(constant))
        bounds = {name: clip.attributes[name] + offset for name in ("min", "max")}
        return self.add(node, "cast", self.add(node, "clip", x, **bounds), to=to)

    def has_room(self, x: Value) -> bool:
        """Whether int32 numbers, or what a constant was added to, were halved at least and the constant is small: then
        128 more or less of them does not wrap. Of others, which may have been saturated, the clamped ones are moved."""
        added = self.rewriting.made_by(x, "add")
        constant = None if added is None else constant_data(added.inputs[1])
        if added is not None and constant is not None:
            x = added.inputs[0] or x
            if not np.all(np.abs(constant.astype(np.int64)) < _ROOM):
                return False
        made = self.rewriting.made_by(x, "fixed_multiply", "bit_shift")
        if made is None or made.attributes.get("direction", "RIGHT") != "RIGHT":
            return False
        count = constant_data(made.inputs[2 if made.op == "fixed_multiply" else 1])
        return count is not None and bool(np.all(count >= 1))

    def same(self, node: Node) -> Value:
        """What moves the bytes."""
        u = self.moved[node.inputs[0]]  # type: ignore[index]
        attributes = dict(node.attributes)
        if node.op == "pad" and attributes["mode"] == "constant":
            attributes["value"] += _OFFSETS[self.chosen[node.output]]
        return self.add(node, node.op, u, *self.rewriting.operands(node)[1:], **attributes)

    def absorbed(self, node: Node) -> bool:
        """A constant that is added or taken off takes the excess of the other operand with it."""
        x, other = node.inputs
        constant = constant_data(other)
        if x not in self.excess or constant is None or not _is_whole(constant):
            return False
        made, excess = self.excess[x]
        changed = np.asarray(constant + (excess if node.op == "sub" else -excess), constant.dtype)
        if changed.any() or node.output.type != made.type:
            self.rewriting.emit(node, node.op, made, self.rewriting.builder.constant(changed))
        else:
            self.rewriting.substitute(node.output, made)
        return True

    def settle(self, node: Node, read: Iterable[Value | None]) -> None:
        """Takes the excess off what is read where nothing else does."""
        for old in read:
            if old in self.excess and self.rewriting.value(old) is old:
                made, excess = self.excess[old]
                self.rewriting.substitute(old, self.add(node, "sub", made, self.rewriting.builder.constant(excess)))


def _excess(node: Node, offset: int) -> Array:
    """The excess in what a reader of such activations computes, which are so much more."""
    if node.op == "cast":
        return np.array(offset, node.attributes["to"])
    weights = constant_data(node.inputs[1])
    assert weights is not None
    inner = (0,) if node.op == "matmul_integer" else tuple(range(weights.ndim - 1))
    return np.asarray(offset * weights.astype(np.int64).sum(inner), np.int32)


def _is_whole(constant: Array) -> bool:
    """Whether adding 128 to a constant, or taking it off, is exact."""
    return constant.dtype != np.float32 or bool(np.all((constant == np.rint(constant)) & (np.abs(constant) < 1 << 20)))
