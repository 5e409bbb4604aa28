"""The tensors that a graph of ONNX, a branch of it or a function can see."""

from __future__ import annotations

from sterna.errors import error
from sterna.frontends.onnx.nodes import Source
from sterna.frontends.onnx.sequences import Operand, TensorList
from sterna.ir.graph import Value


class Scope:
    """The tensors that a graph, branch or function can see; None stands for one that could not be made."""

    def __init__(self, outer: Scope | None = None):
        self.outer = outer
        self.values: dict[str, Value | None] = {}
        self.lists: dict[str, TensorList] = {}
        self.declared: dict[str, tuple[int, ...]] = {}
        self.origins: dict[str, Source] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.values or name in self.lists or (self.outer is not None and name in self.outer)

    def __getitem__(self, name: str) -> Value | None:
        found = self.item(name)
        if isinstance(found, TensorList):
            raise error("E0104", f'the sequence or optional "{name}" stands where a tensor is needed')
        return found

    def item(self, name: str) -> Operand:
        """The tensor, sequence or optional of a name."""
        if name in self.lists:
            return self.lists[name]
        return self.values[name] if name in self.values or self.outer is None else self.outer.item(name)

    def put(self, name: str, found: Operand) -> None:
        if isinstance(found, TensorList):
            self.lists[name] = found
        else:
            self.values[name] = found

    def get(self, name: str) -> Value | None:
        return self[name] if name in self else None  # noqa: SIM401  this is that method

    def origin(self, name: str) -> Source | None:
        return self.origins.get(name) or (self.outer.origin(name) if self.outer is not None else None)

    def names(self) -> set[str]:
        return {*self.values, *self.lists} | (self.outer.names() if self.outer is not None else set())
