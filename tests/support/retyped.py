"""A network as the same one in other element types, control flow included: how far rounding takes results.

In float64 what was float32 or 16 bits, it is what roundings are measured from. In float16 what was float32, it is what
converters of other projects make: every tensor of float32 is one of float16, but what an operator takes in float32
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sterna.bundle.writer import write_bundle
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, Value
from sterna.ops import operator
from sterna.targets.description import load_target
from sterna_runtime import load

Arrays = Mapping[str, np.ndarray[Any, Any]]
Types = Mapping[str, str]
WIDE: Types = {"float32": "float64", "float16": "float64", "bfloat16": "float64"}
HALF: Types = {"float32": "float16"}
#: The largest number of float16.
LARGEST = 65504.0


@dataclass(frozen=True)
class Retyped:
    """The network in other types.

    Args:
        beyond: constants of which elements are larger than the new type has room for, by name; they are its largest
            numbers, and infinity is infinity.
        kept: operators that do not take the new types, and are computed in the old ones, between casts.
    """

    graph: Graph
    beyond: tuple[str, ...]
    kept: tuple[str, ...]


def in_halves(graph: Graph) -> Retyped:
    """The graph with float16 in the place of float32, its inputs, outputs and states, too."""
    return retyped(graph, HALF)


def in_float64(graph: Graph) -> Retyped:
    """The graph with float64 in the place of float32 and of floats of 16 bits, its inputs, outputs and states, too."""
    return retyped(graph, WIDE)


def run_in_float64(graph: Graph, cases: Sequence[Arrays], place: Path) -> list[dict[str, np.ndarray[Any, Any]]]:
    """What the graph computes of inputs of its own types, one after the other, if nothing is rounded but by float64."""
    options = Options(load_target("host"))
    with load(write_bundle(compile_graph(in_float64(graph).graph, "exact", options), place)) as bundle:
        return [{name: found.copy() for name, found in bundle.run(as_types(inputs, WIDE)).items()} for inputs in cases]


def as_types(arrays: Arrays, types: Types) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays of the types that stand for their own."""
    return {name: _converted(array, types)[0] for name, array in arrays.items()}


def retyped(graph: Graph, types: Types) -> Retyped:
    work = _Retyping(types)
    return Retyped(work.graph(graph, {}), tuple(work.beyond), tuple(work.kept))


def _converted(array: Array, types: Types) -> tuple[Array, bool]:
    """An array in its new type, and whether numbers were beyond it."""
    dtype = types.get(dtypes.from_numpy(array.dtype))
    if dtype is None:
        return array, False
    wanted = dtypes.to_numpy(dtype)
    # Of dimensions that repeat their elements, one.
    once = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
    if dtype != "float16":
        return np.broadcast_to(once.astype(wanted), array.shape), False
    beyond = np.isfinite(once) & (np.abs(once) > LARGEST)
    made = np.where(beyond, np.sign(once) * LARGEST, once).astype(wanted)
    return np.broadcast_to(made, array.shape), bool(beyond.any())


@dataclass
class _Retyping:
    types: Types
    constants: dict[Value, Value] = field(default_factory=dict)
    beyond: dict[str, None] = field(default_factory=dict)
    kept: dict[str, None] = field(default_factory=dict)

    def graph(self, graph: Graph, outer: Mapping[Value, Value]) -> Graph:
        """The graph, or a region that reads values of the graphs around it."""
        new = dict(outer)
        inputs = tuple(self.defined(value, new) for value in graph.inputs)
        nodes = [made for node in graph.nodes for made in self.nodes(node, new)]
        outputs = tuple(self.value(value, new) for value in graph.outputs)
        states = tuple(
            state if state.initial is None else replace(state, initial=_converted(state.initial, self.types)[0])
            for state in graph.states
        )
        return replace(graph, inputs=inputs, nodes=tuple(nodes), outputs=outputs, states=states, halves=frozenset())

    def type_of(self, value: Value) -> str:
        return self.types.get(value.dtype, value.dtype)

    def defined(self, value: Value, new: dict[Value, Value]) -> Value:
        """An input or a result in its new type."""
        kind = replace(value.type, dtype=self.type_of(value))
        new[value] = value if kind == value.type else replace(value, type=kind)
        return new[value]

    def value(self, value: Value, new: Mapping[Value, Value]) -> Value:
        if value.data is None:
            return new[value]
        if value not in self.constants:
            data, beyond = _converted(value.data, self.types)
            if beyond:
                self.beyond[value.name] = None
            kind = replace(value.type, dtype=self.type_of(value))
            self.constants[value] = value if kind == value.type else replace(value, type=kind, data=data)
        return self.constants[value]

    def nodes(self, node: Node, new: dict[Value, Value]) -> list[Node]:
        """The node on new types; where it does not take them, itself between casts."""
        inputs = tuple(None if value is None else self.value(value, new) for value in node.inputs)
        attributes = {key: self.named(value) for key, value in node.attributes.items()}
        if node.regions or self.takes(node, inputs, attributes):
            regions = tuple(self.graph(region, new) for region in node.regions)
            outputs = tuple(self.defined(value, new) for value in node.outputs)
            return [replace(node, inputs=inputs, outputs=outputs, attributes=attributes, regions=regions)]
        self.kept[node.op] = None
        before, after = list[Node](), list[Node]()
        old: list[Value | None] = []
        for was, now in zip(node.inputs, inputs, strict=True):
            if was is None or now is None or was.type == now.type:
                old.append(now)
                continue
            if was.is_constant:
                old.append(was)
                continue
            value = Value(f"{node.name}/{was.name}/{was.dtype}", was.type)
            before.append(_cast(node, now, value))
            old.append(value)
        results = []
        for was in node.outputs:
            now = self.defined(was, new)
            result = was if was.type == now.type else replace(was, name=f"{was.name}/{was.dtype}")
            results.append(result)
            if result.type != now.type:
                after.append(_cast(node, result, now))
        return [*before, replace(node, inputs=tuple(old), outputs=tuple(results)), *after]

    def named(self, value: Any) -> Any:
        return self.types.get(value, value) if isinstance(value, str) else value

    def takes(self, node: Node, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> bool:
        """Whether the operator computes the new types of the new ones."""
        operands = tuple(None if value is None else value.type for value in inputs)
        types: Callable[..., Sequence[Any]] = operator(node.op).types
        try:
            found = types(operands, attributes)
        except SternaError:
            return False
        wanted = [self.type_of(value) for value in node.outputs]
        return [kind.dtype for kind in found] == wanted


def _cast(node: Node, value: Value, result: Value) -> Node:
    return Node("cast", (value,), (result,), {"to": result.dtype}, node.sources, f"{node.name}/{result.name}/cast")
