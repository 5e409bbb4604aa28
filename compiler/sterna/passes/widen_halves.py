"""Networks in float16 or bfloat16 are computed on float32, and rounded where the model says so: at its own casts to 16
bits, where it hands a tensor out, and where control flow or a loop program takes one.

What a product reads then needs no conversion per multiplication, the kernels are those of the float32 network, and no
digit is lost between them. ONNX Runtime does the same on processors; rounding after every operator would be further
from the network in float32. Weights become float32 constants here, which kernels store in 16 bits again
(`schedule.strategies.weights`).

Only where something is multiplied: elsewhere memory is the limit, and half the bytes are half the time. And not where
the target multiplies matrices of 16 bits by fragments, into sums in float32: tensors keep their types there. Nor for a
device whose groups of threads bring operands to memory of their own, and which widens numbers cheaply as they come:
there, too, half the bytes are half the time, but of networks with attention, which is one kernel in float32.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sterna.errors import SternaError
from sterna.ir.graph import Array, Graph, Node, TensorType, Value
from sterna.ops import operator
from sterna.ops.formulas import HALF
from sterna.ops.operator import Fusion
from sterna.passes.rewriting import Rewriting

#: Elements of a constant from which on it stays in 16 bits where no product reads it.
LARGE = 4096


def widen_halves(graph: Graph, narrow: Collection[str] = HALF) -> Graph:
    """The graph with tensors of 16-bit floats between its nodes as float32; inputs and outputs stay as they are.

    Args:
        narrow: the types that become float32.
    """
    return _Widening(graph, narrow).run() if any(_multiplies(node, narrow) for node in graph.nodes) else graph


def multiplies_computed(graph: Graph) -> bool:
    """Whether a node multiplies two operands of 16 bits that both are computed, as attention does."""
    return any(
        _multiplies(node, HALF) and sum(v.dtype in HALF and not v.is_constant for v in node.operands) > 1
        for node in graph.nodes
    )


def _multiplies(node: Node, narrow: Collection[str]) -> bool:
    """Whether a node is a sum of products of some 16-bit floats that are not all known."""
    if node.regions or operator(node.op).fusion is not Fusion.COMPLEX:
        return False
    return any(value.dtype in narrow and not value.is_constant for value in node.operands)


class _Widening:
    """`narrow`: the types that become float32."""

    def __init__(self, graph: Graph, narrow: Collection[str]):
        self.graph, self.narrow = graph, narrow
        self.rewriting = Rewriting(graph)
        self.builder = self.rewriting.builder
        #: By values of 16 bits: what stands for them in float32, before it is rounded if it ever is.
        self.wide: dict[Value, Value] = {}
        #: By the memory of a constant and how it is walked.
        self.constants: dict[tuple[object, ...], Value] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if not self.widened(node):
                self.rewriting.keep(node)
        return self.rewriting.finish()

    def widened(self, node: Node) -> bool:
        """Puts a node on float32 in the place of one on 16 bits, if there is one."""
        halves = [value for value in node.operands if value.dtype in self.narrow]
        if all(value.is_constant for value in halves):
            return False
        if node.op == "cast" and node.output.dtype in (*self.narrow, "float32"):
            (value,) = halves
            if node.output.dtype != "float32":
                return False
            if value not in self.wide:
                self.wide[value] = node.output
                return False
            self.rewriting.substitute(node.output, self.wide[value])
            return True
        kinds = float32_results(node, self.narrow)
        if kinds is None:
            return False
        inputs = [
            value if value is None or value.dtype not in self.narrow else self.float32(value, node)
            for value in self.rewriting.operands(node)
        ]
        results = [
            old if old.type == kind else self.builder.name(f"{old.name}/float32")
            for old, kind in zip(node.outputs, kinds, strict=True)
        ]
        made = self.builder.add_all(
            node.op, *inputs, sources=node.sources, name=node.name, results=results, **node.attributes
        )
        for old, new in zip(node.outputs, made, strict=True):
            if old is not new:
                # Dead code where nothing needs it in 16 bits.
                self.builder.add("cast", new, sources=node.sources, name=f"{node.name}/round", result=old, to=old.dtype)
                self.wide[old] = new
        return True

    def float32(self, value: Value, reader: Node) -> Value:
        """The numbers of a value of 16 bits in float32, for a node."""
        if value.data is not None and (_multiplies(reader, self.narrow) or value.data.size < LARGE):
            return self.constant(value, value.data)
        if value not in self.wide:
            name = f"{value.name}/widen"
            self.wide[value] = self.builder.add("cast", value, sources=reader.sources, name=name, to="float32")
        return self.wide[value]

    def constant(self, value: Value, data: Array) -> Value:
        memory = (data.__array_interface__["data"][0], data.strides, data.shape, value.dtype)
        if memory not in self.constants:
            self.builder.halves.add(value.dtype)
            # Of dimensions that repeat their elements, one.
            once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in data.strides)
            wide = np.broadcast_to(data[once].astype(np.float32), data.shape)
            self.constants[memory] = self.builder.constant(wide, f"{value.name}/float32")
        return self.constants[memory]


def float32_results(node: Node, narrow: Collection[str] = HALF) -> tuple[TensorType, ...] | None:
    """The types of a node's results on float32 in place of 16-bit floats; None where it cannot stand for the node: loop
    programs may round as they go."""

    def wide(kind: TensorType) -> TensorType:
        return TensorType("float32", kind.shape) if kind.dtype in narrow else kind

    if node.regions or operator(node.op).program is not None:
        return None
    try:
        kinds = operator(node.op).types(
            tuple(None if value is None else wide(value.type) for value in node.inputs), node.attributes
        )
    except SternaError:
        return None
    same = (
        old.type in (kind, wide(kind)) or wide(old.type) == kind for old, kind in zip(node.outputs, kinds, strict=True)
    )
    return kinds if all(same) else None
