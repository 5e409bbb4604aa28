"""What layers leave from one run to the next, for formats whose layers follow one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sterna.ir.graph import Value, tensor_type
from sterna.ops import Builder


@dataclass
class States:
    """What a network leaves from one run to the next: name -> the value that a run begins with, and that it leaves."""

    before: dict[str, Value] = field(default_factory=dict)
    after: dict[str, Value] = field(default_factory=dict)


class Memory:
    """The states of one layer.

    Args:
        states: of the network; the layer's are added to them.
        prefix: of their names.
    """

    def __init__(self, states: States, builder: Builder, prefix: str):
        self._states, self._builder, self._prefix = states, builder, prefix
        self._names: dict[str, str] = {}

    def begin(self, name: str, sizes: Sequence[int]) -> Value:
        """What the run before left, float32; zeros at first."""
        full = self._builder.name(f"{self._prefix}_{name}")
        self._names[name] = full
        self._states.before[full] = Value(full, tensor_type("float32", tuple(sizes)))
        return self._states.before[full]

    def leave(self, name: str, value: Value) -> None:
        """What the next run finds in the state."""
        self._states.after[self._names[name]] = value
