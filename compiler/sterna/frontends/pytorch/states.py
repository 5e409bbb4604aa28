"""Buffers that a program changes: states, which one run leaves to the next."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.pytorch.operators import functional, is_view
from sterna.frontends.pytorch.program import Program
from sterna.ir import dtypes
from sterna.ir.graph import Array, State, Value, tensor_type
from sterna.ops import Builder


def written(program: Program) -> set[str]:
    """The names in the graph of buffers that the program changes: by its signature, or in place."""
    by_target = {
        spec.target: str(arg[1])
        for spec, arg in zip(program.inputs, program.graph.inputs, strict=True)
        if spec.kind in ("buffer", "tensor_constant", "parameter")
    }
    found = {
        by_target[spec.target]
        for spec in program.outputs
        if spec.kind in ("buffer_mutation", "parameter_mutation") and spec.target in by_target
    }
    # In place, a buffer is changed through any view of it too.
    memory = {name: name for name in by_target.values()}
    for node in program.graph.nodes:
        first = next((str(arg[1]) for _, arg in node.inputs if arg[0] == "as_tensor"), "")
        target, writes = functional(node.target)
        if writes and first in memory:
            found.add(memory[first])
        if first in memory and (writes or is_view(target)):
            for kind, value in node.outputs:
                names = [value] if kind == "as_tensor" else value if kind == "as_tensors" else ()
                memory.update({str(name): memory[first] for name in names})
    return found


class States:
    """The states of a program.

    Args:
        names: in the graph, of the buffers that change.
    """

    def __init__(self, builder: Builder, names: set[str]):
        self.builder, self.names = builder, names
        self.given: dict[str, Value] = {}
        self.initial: dict[str, Array] = {}
        self.following: dict[str, Value] = {}
        self.targets: dict[str, str] = {}

    def hold(self, name: str, target: str, data: Array) -> Value:
        """What a buffer holds when a run begins."""
        value = Value(self.builder.name(target), tensor_type(dtypes.from_numpy(data.dtype), data.shape))
        self.given[name], self.initial[name], self.targets[target] = value, data, name
        return value

    def leave(self, target: str, value: Value) -> None:
        """Says what a buffer holds when a run ends."""
        name = self.targets.get(target)
        if name is not None:
            self.following[name] = value

    def update(self, name: str, value: Value | None) -> None:
        """The same of one that is changed in place; the signature comes first."""
        if value is not None and name in self.given:
            self.following.setdefault(name, value)

    def finished(self) -> tuple[tuple[State, ...], tuple[Value, ...], tuple[Value, ...]]:
        """The states, what each holds when a run begins, and when it ends.

        Raises:
            SternaError: E0113, one changes its type.
        """
        names = [name for name in self.given if name in self.following]
        for name in names:
            before, after = self.given[name], self.following[name]
            if before.type != after.type:
                raise error("E0113", f'the buffer "{before.name}" changes from {before.type} to {after.type}')
        states = tuple(
            State(self.given[n].name, np.array(self.initial[n], order="C") if self.initial[n].any() else None)
            for n in names
        )
        return states, tuple(self.given[n] for n in names), tuple(self.following[n] for n in names)
