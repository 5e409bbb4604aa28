"""The graph: operators over typed tensors in single assignment form.

Everything here is immutable; a pass builds a new graph out of old and new nodes. Values compare by identity: two values
are the same only if they are the same object. Nodes stand in an order in which every value is defined before its use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy.typing as npt

from sterna.ir import dtypes
from sterna.ir.integer import ONE, Int, IntLike, as_int

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorType:
    """Element type (see `ir.dtypes`) and dimensions of a tensor."""

    dtype: str
    shape: tuple[Int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> Int:
        """The number of elements."""
        product = ONE
        for size in self.shape:
            product = product * size
        return product

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a known integer."""
        return all(size.is_const for size in self.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The dimensions as Python integers.

        Raises:
            ValueError: a dimension is symbolic.
        """
        return tuple(int(size) for size in self.shape)

    @property
    def bytes(self) -> Int:
        """Bytes of the compact tensor."""
        return self.elements * dtypes.size(self.dtype)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def tensor_type(dtype: str, shape: Iterable[IntLike]) -> TensorType:
    """A type from Python integers or symbolic ones."""
    return TensorType(dtype, tuple(as_int(size) for size in shape))


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph: an input, a constant (`data` is set, read-only, maybe a strided view) or a node's result.

    Args:
        name: unique in its graph; the source model's name where the value is one of the source model's tensors.
        contents: of a small integer tensor that is computed from dimensions: its elements as `Int` in an object array,
            so that a shape made of them is known although they are not.
        shares: of a small float tensor the same, by which sizes are computed: its elements as `ops.shares.Share`.
    """

    name: str
    type: TensorType
    data: Array | None = None
    contents: Array | None = None
    shares: Array | None = None

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Int, ...]:
        return self.type.shape

    def __repr__(self) -> str:
        return f"Value({self.name}: {self.type}{' = constant' if self.is_constant else ''})"


@dataclass(frozen=True, eq=False)
class Node:
    """One application of an operator.

    Args:
        op: name of a core operator (`sterna.ops.operators()`).
        inputs: operands; None where an optional one is left out.
        outputs: results, which no other node defines.
        attributes: settings, complete: defaults are filled in by the builder.
        sources: names of the source model's nodes that this one came from, for messages and profiles.
        name: unique in its graph.
        regions: bodies of control flow (`if`: two, `loop`: one); empty for everything else.
    """

    op: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    name: str = ""
    regions: tuple[Graph, ...] = ()

    @property
    def output(self) -> Value:
        """The result of a node that has only one."""
        (value,) = self.outputs
        return value

    @property
    def operands(self) -> tuple[Value, ...]:
        """The inputs that are there."""
        return tuple(value for value in self.inputs if value is not None)

    def __repr__(self) -> str:
        return f"Node({self.op}, {self.name})"


@dataclass(frozen=True, eq=False)
class State:
    """A tensor that one run leaves to the next: a recurrent state, a cache.

    Args:
        name: unique among the graph's states.
        initial: what it holds before the first run; None: zeros.
    """

    name: str
    initial: Array | None = None


@dataclass(frozen=True)
class Quantized:
    """How integers stand for real numbers: scale * (q - zero point), one of each or one per element of `axis`."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0


@dataclass(frozen=True, eq=False)
class Graph:
    """A model, or a region of one.

    A function from arguments to results that also carries states from run to run. `inputs` are the `arguments`, then
    the states on entry (`live_in`); `outputs` are the `results`, then the states on exit (`live_out`). The states stand
    in the order of `states` in both, and the runtime joins them.

    Args:
        inputs: the arguments in the source model's order and by its names, then the states on entry.
        outputs: the results, then the states on exit; a value may stand here twice, and may be an input or a constant.
        nodes: producers before consumers.
        output_names: the model's names of the outputs; they survive whatever passes do to the values.
        strings: the strings that the model knows; a tensor of strings holds their places here.
        quantization: of inputs and outputs whose integers stand for real numbers, by name.
        metadata: what the source model says about its inputs and outputs, as JSON.
        halves: 16-bit floats in which the source model held constants that are float32 here, and lose nothing in them.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    output_names: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    quantization: Mapping[str, Quantized] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    halves: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.output_names:
            object.__setattr__(self, "output_names", tuple(value.name for value in self.outputs))

    @property
    def arguments(self) -> tuple[Value, ...]:
        """The inputs that the caller gives: all but `live_in`."""
        return self.inputs[: len(self.inputs) - len(self.states)]

    @property
    def live_in(self) -> tuple[Value, ...]:
        """The states on entry: the last inputs, which hold what the run before left (or their initial values)."""
        return self.inputs[len(self.inputs) - len(self.states) :]

    @property
    def results(self) -> tuple[Value, ...]:
        """The outputs that the caller gets: all but `live_out`."""
        return self.outputs[: len(self.outputs) - len(self.states)]

    @property
    def live_out(self) -> tuple[Value, ...]:
        """The states on exit: the last outputs, which the next run gets as its `live_in`."""
        return self.outputs[len(self.outputs) - len(self.states) :]

    @property
    def result_names(self) -> tuple[str, ...]:
        """The model's names of `results`."""
        return self.output_names[: len(self.results)]

    def producers(self) -> dict[Value, Node]:
        """The node that defines each value."""
        return {value: node for node in self.nodes for value in node.outputs}

    def users(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, in order, each once; graph outputs are not counted."""
        table: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.operands):
                table.setdefault(value, []).append(node)
            for value in dict.fromkeys(captured(node)):
                if value not in node.operands:
                    table.setdefault(value, []).append(node)
        return table

    def values(self) -> Iterator[Value]:
        """Every value once: inputs, then constants and results as they are met."""
        seen: set[Value] = set()
        groups: list[Iterable[Value]] = [self.inputs]
        groups += [(*node.operands, *node.outputs) for node in self.nodes]
        groups.append(self.outputs)
        for group in groups:
            for value in group:
                if value not in seen:
                    seen.add(value)
                    yield value

    def constants(self) -> Iterator[Value]:
        """The constants that some node reads or that are outputs."""
        return (value for value in self.values() if value.is_constant)


def captured(node: Node) -> Iterator[Value]:
    """Values of the surrounding graph that a node's regions read."""
    for region in node.regions:
        own = set(region.inputs)
        for inner in region.nodes:
            for value in (*inner.operands, *captured(inner)):
                if value not in own and not value.is_constant:
                    yield value
            own.update(inner.outputs)
        yield from (value for value in region.outputs if value not in own and not value.is_constant)


class Names:
    """Hands out names that are not taken yet."""

    def __init__(self, taken: Iterable[str] = ()):
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """`wanted`, with a number after it if it is taken."""
        name = wanted
        count = self._next.get(wanted, 0)
        while name in self._taken:
            count += 1
            name = f"{wanted}.{count}"
        self._next[wanted] = count
        self._taken.add(name)
        return name


def constant(name: str, data: Array) -> Value:
    """A constant. The array is used as it is, views included, and must not be changed afterwards.

    Raises:
        KeyError: an element type that `ir.dtypes` does not have.
    """
    return Value(name, tensor_type(dtypes.from_numpy(data.dtype), data.shape), data)


def replace_values(graph: Graph, replacements: Mapping[Value, Value]) -> Graph:
    """Lets every reader of a key, in regions too, read its replacement (followed transitively) instead."""

    def final(value: Value) -> Value:
        while (new := replacements.get(value)) is not None:
            value = new
        return value

    if not replacements:
        return graph
    nodes = tuple(
        with_regions(
            with_inputs(n, tuple(None if v is None else final(v) for v in n.inputs)),
            tuple(replace_values(region, replacements) for region in n.regions),
        )
        for n in graph.nodes
    )
    return replace(graph, nodes=nodes, outputs=tuple(map(final, graph.outputs)))


def with_regions(node: Node, regions: tuple[Graph, ...]) -> Node:
    """The node with other regions; itself if they are the same."""
    if all(a is b for a, b in zip(regions, node.regions, strict=True)):
        return node
    return replace(node, regions=regions)


def halves_of(graph: Graph) -> frozenset[str]:
    """`halves` of a graph and of every region in it."""
    return graph.halves.union(*(halves_of(region) for node in graph.nodes for region in node.regions))


def graphs_within(graph: Graph) -> Iterator[Graph]:
    """A graph and every region in it."""
    yield graph
    for node in graph.nodes:
        for region in node.regions:
            yield from graphs_within(region)


def has_regions(graph: Graph) -> bool:
    """Whether there is control flow in a graph."""
    return any(node.regions for node in graph.nodes)


def with_unique_names(graph: Graph) -> Graph:
    """The graph with values of regions renamed where another value, there or outside, has the name."""
    replacements: dict[Value, Value] = {}
    names = Names(value.name for value in graph.values())

    def renamed(value: Value) -> Value:
        name = names.fresh(value.name)
        if name == value.name:
            return value
        replacements[value] = new = replace(value, name=name)
        return new

    def within(inner: Graph) -> Graph:
        for value in inner.constants():
            if value not in known:
                known.add(value)
                renamed(value)
        inputs = tuple(map(renamed, inner.inputs))
        nodes = tuple(replace(below(node), outputs=tuple(map(renamed, node.outputs))) for node in inner.nodes)
        return replace(inner, inputs=inputs, nodes=nodes)

    def below(node: Node) -> Node:
        return replace(node, regions=tuple(map(within, node.regions))) if node.regions else node

    known = set(graph.constants())
    result = replace(graph, nodes=tuple(map(below, graph.nodes)))
    return replace_values(result, replacements)


def with_inputs(node: Node, inputs: tuple[Value | None, ...]) -> Node:
    """The node on other operands of the same types; itself if they are the same."""
    if len(inputs) == len(node.inputs) and all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    return replace(node, inputs=inputs)


def in_order(nodes: Sequence[Node]) -> tuple[Node, ...] | None:
    """The nodes with producers first, else in the order given; None if they form a cycle."""
    producers = {value: node for node in nodes for value in node.outputs}
    order: list[Node] = []
    state: dict[Node, int] = {}  # 1: being visited, 2: done
    for root in nodes:
        stack = [root]
        while stack:
            node = stack[-1]
            if state.get(node) is None:
                state[node] = 1
                waiting = [
                    producers[value]
                    for value in (*node.operands, *captured(node))
                    if value in producers and state.get(producers[value]) != 2
                ]
                if any(state.get(n) == 1 for n in waiting):
                    return None
                stack.extend(reversed(waiting))
            else:
                stack.pop()
                if state[node] == 1:
                    state[node] = 2
                    order.append(node)
    return tuple(order)
