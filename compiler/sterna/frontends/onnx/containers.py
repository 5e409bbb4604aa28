"""Sequences and optionals in a model's signature: a bundle takes and gives their tensors, one by one.

A sequence `x` is the tensors `x[0]`, `x[1]` ...: no type says how many an input has, so the shapes given for them do.
An optional is its tensor, or, with None for a shape, it is absent; so is a sequence without elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx
from onnx import helper

from sterna.errors import Diagnostic, SternaError, error
from sterna.frontends.onnx.inputs import Shapes
from sterna.frontends.onnx.sequences import Operand
from sterna.ir.graph import Value
from sterna_runtime.advice import Advice
from sterna_runtime.advice import shapes as shapes_given

#: Sizes of inputs; None for a sequence or an optional that holds nothing.
Given = Mapping[str, Sequence[int] | None]


def spelled_out(graph: onnx.GraphProto, shapes: Given, where: str) -> tuple[onnx.GraphProto, Shapes]:
    """The graph with tensors for inputs, of which nodes make the sequences and optionals.

    Raises:
        SternaError: E0105, how many elements an input has is not known. E0106, an input that is a tensor has no shape.
    """
    sizes = {name: shape for name, shape in shapes.items() if shape is not None}
    problems = [
        Diagnostic("E0106", f'the tensor "{value.name}" cannot be absent', (where,))
        for value in graph.input
        if value.type.HasField("tensor_type") and value.name in shapes and value.name not in sizes
    ]
    if problems:
        raise SternaError(problems)
    if all(value.type.HasField("tensor_type") for value in graph.input):
        return graph, sizes
    result = onnx.GraphProto()
    result.CopyFrom(graph)
    del result.input[:]
    del result.node[:]
    for value in graph.input:
        name, optional = value.name, value.type.HasField("optional_type")
        kind = onnx.TypeProto()
        kind.CopyFrom(value.type.optional_type.elem_type if optional else value.type)
        absent = name in shapes and name not in sizes
        if optional and absent:
            result.node.append(helper.make_node("Optional", [], [name], type=kind))
        elif kind.HasField("sequence_type"):
            count = 0 if absent else _count(name, shapes)
            if not count and not absent:
                text = f'nothing says how many elements the sequence "{name}" has'
                first, nothing = shapes_given({f"{name}[0]": ("<size>", "...")}), shapes_given({name: None})
                fix = Advice(first, " for each, or ", nothing)
                problems.append(Diagnostic("E0105", text, (f"{where}, an input",), fix))
            elements = [f"{name}[{n}]" for n in range(count)]
            for dim in kind.sequence_type.elem_type.tensor_type.shape.dim:
                dim.ClearField("dim_param")  # a name in the type of all elements is no size that they share
            result.input.extend(onnx.ValueInfoProto(name=e, type=kind.sequence_type.elem_type) for e in elements)
            op = "SequenceConstruct" if elements else "SequenceEmpty"
            result.node.append(helper.make_node(op, elements, [name]))
        else:
            result.input.append(onnx.ValueInfoProto(name=name, type=kind))
    if problems:
        raise SternaError(problems)
    result.node.extend(graph.node)
    return result, sizes


def _count(name: str, shapes: Given) -> int:
    """How many elements of a sequence have a shape."""
    places = (re.fullmatch(re.escape(name) + r"\[(\d+)\]", key) for key in shapes)
    return max((int(place[1]) + 1 for place in places if place), default=0)


def results(outputs: Iterable[onnx.ValueInfoProto], get: Callable[[str], Operand]) -> tuple[list[Value], list[str]]:
    """The tensors that a graph gives, and their names."""
    values: list[Value] = []
    names: list[str] = []
    for output in outputs:
        name = output.name
        found = get(name)
        if found is None:
            raise error("E0113", f'the output "{name}" is a result that is not computed, which is not supported')
        if isinstance(found, Value):
            values.append(found)
            names.append(name)
        else:
            values += found.values
            names += [name if found.optional else f"{name}[{n}]" for n in range(len(found.values))]
    return values, names
