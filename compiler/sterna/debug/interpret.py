"""A graph run with the reference interpreter, node by node: what everything compiled is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sterna.errors import Diagnostic, SternaError, error
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Node, TensorType, Value, captured
from sterna.ir.integer import Symbol
from sterna.ir.sizes import at_sizes, defined_size
from sterna.ops.control import IF, Loop
from sterna.ops.evaluate import evaluate


def interpret(
    graph: Graph, inputs: Mapping[str, Array], observe: Callable[[Value, Array], None] | None = None
) -> dict[str, Array]:
    """The outputs for some inputs.

    Args:
        inputs: one array per graph input, by name, of its static shape and element type. A state that is not among
            them holds what it does before the first run.
        observe: called with every intermediate value of the graph, not of its regions, as it is computed.

    Returns:
        The outputs by their names in the model, in its order, then what the states hold, by the states' names.

    Raises:
        SternaError: E0601, E0603 or E0604, an input is missing or does not fit; E0511, a test of the model fails.
    """
    values: dict[Value, Array] = {}
    problems: list[Diagnostic] = []
    strings = Strings(graph)
    initial = dict(zip(graph.live_in, (state.initial for state in graph.states), strict=True))
    for value in graph.inputs:
        if value in initial and value.name not in inputs:
            first = initial[value]
            values[value] = np.zeros(value.type.sizes, dtypes.to_numpy(value.dtype)) if first is None else first
            continue
        if value.name not in inputs:
            problems.append(Diagnostic("E0601", f'the input "{value.name}" is missing'))
            continue
        array = np.asarray(inputs[value.name])
        if value.dtype == dtypes.STRING and array.dtype == object:
            array = strings.numbered(array)
        if array.dtype != dtypes.to_numpy(value.dtype):
            problems.append(Diagnostic("E0603", f'the input "{value.name}" is {array.dtype}, not {value.dtype}'))
        elif array.shape != value.type.sizes:
            problems.append(
                Diagnostic("E0604", f'the input "{value.name}" is {list(array.shape)}, not {list(value.type.sizes)}')
            )
        else:
            values[value] = array
    if problems:
        raise SternaError(problems)
    _run(graph, values, {}, observe)
    names = (*graph.result_names, *(value.name for value in graph.live_in))
    found = zip(names, graph.outputs, strict=True)
    return {name: strings.texts(np.array(_array(values, v))) for name, v in found}


class Strings:
    """The numbers of strings; those that the graph does not know come after its own."""

    def __init__(self, graph: Graph):
        self.known = list(graph.strings)

    def numbered(self, array: Array) -> Array:
        self.known += [text for text in dict.fromkeys(array.reshape(-1).tolist()) if text not in self.known]
        numbers = np.array([self.known.index(text) for text in array.reshape(-1)], np.int64)
        return numbers.reshape(array.shape).view(dtypes.to_numpy(dtypes.STRING))

    def all_numbered(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Arrays by name, those of strings as numbers."""
        found = {name: np.asarray(array) for name, array in arrays.items()}
        return {name: self.numbered(array) if array.dtype == object else array for name, array in found.items()}

    def texts(self, array: Array) -> Array:
        """The array, one of strings as objects."""
        if array.dtype != dtypes.to_numpy(dtypes.STRING):
            return array
        return np.asarray(np.array(self.known, object)[array.view(np.int64)], object)


def _array(values: Mapping[Value, Array], value: Value) -> Array:
    return value.data if value.data is not None else values[value]


def _run(
    graph: Graph,
    values: dict[Value, Array],
    sizes: dict[Symbol, int],
    observe: Callable[[Value, Array], None] | None = None,
) -> None:
    """Computes the nodes of a graph or region, whose inputs and captured values are there; notes computed sizes."""
    last_use = {value: node for node in graph.nodes for value in (*node.operands, *captured(node))}
    own = {value for node in graph.nodes for value in node.outputs} | set(graph.inputs)
    kept = set(graph.outputs)
    for node in graph.nodes:
        if node.regions:
            results = _branch(node, values, sizes) if node.op == IF else _loop(Loop(node), values, sizes)
        else:
            operands = [None if v is None else _array(values, v) for v in node.inputs]
            types = [TensorType(v.dtype, at_sizes(v.shape, sizes)) for v in node.outputs]
            given = node.attributes
            attributes = {key: at_sizes(value, sizes) for key, value in given.items()} if sizes else given
            results = evaluate(node.op, operands, attributes, types)
            if (size := defined_size(node)) is not None:
                sizes[size[0]] = int(results[0])
        if node.op == "require" and not results[0]:
            raise error("E0511", f"{', '.join(node.sources)}: the model does not allow the values of an input")
        for value, array in zip(node.outputs, results, strict=True):
            values[value] = array
            if observe is not None:
                observe(value, array)
        for value in (*node.operands, *captured(node)):
            if last_use[value] is node and value in own and value not in kept and value in values:
                del values[value]


def _branch(node: Node, values: dict[Value, Array], sizes: dict[Symbol, int]) -> tuple[Array, ...]:
    (condition,) = node.operands
    region = node.regions[0 if _array(values, condition).reshape(-1)[0] else 1]
    _run(region, values, sizes)
    return tuple(_array(values, value) for value in region.outputs)


def _loop(loop: Loop, values: dict[Value, Array], sizes: dict[Symbol, int]) -> tuple[Array, ...]:
    name = ", ".join(loop.node.sources)
    count = loop.count
    if loop.trips is not None:
        count = int(_array(values, loop.trips).reshape(-1)[0])
    going = loop.condition is None or bool(_array(values, loop.condition).reshape(-1)[0])
    carried = [_array(values, parts.initial) for parts in loop.carried]
    rows = [np.zeros(row.result.type.sizes, dtypes.to_numpy(row.result.dtype)) for row in loop.rows]
    number = 0
    while going and (count is None or number < count):
        if number >= loop.limit:
            raise error("E0511", f"a loop makes more than its {loop.limit} iterations ({name})")
        values[loop.number] = np.asarray(number, np.int64)
        values |= {parts.inside: array for parts, array in zip(loop.carried, carried, strict=True)}
        _run(loop.body, values, sizes)
        carried = [_array(values, parts.following) for parts in loop.carried]
        for row, array in zip(loop.rows, rows, strict=True):
            array[number] = _array(values, row.row)
        if loop.following_condition is not None:
            going = bool(_array(values, loop.following_condition).reshape(-1)[0])
        number += 1
    return (*carried, *rows)
