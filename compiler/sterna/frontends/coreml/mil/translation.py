"""What a translator of an operation is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.emitter import Emitter
from sterna.ir.graph import Array, Value
from sterna.ops import Builder

#: An argument: a tensor, a text, or several (of a tuple).
Argument = Value | str | list[Any] | None
Results = Value | tuple[Any, ...]


class Translation(Emitter):
    """One operation on its way.

    Args:
        arguments: by name.
        blocks: its inner blocks, each a function from arguments to results.
        context: the reader, for states.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        arguments: Mapping[str, Argument],
        builder: Builder,
        blocks: Sequence[Callable[[Sequence[Value]], Sequence[Value | None]]] = (),
        declared: Sequence[Any] = (),
    ):
        tensors = [value for value in arguments.values() if isinstance(value, Value)]
        names = [key for key, value in arguments.items() if isinstance(value, Value)]
        super().__init__(builder, kind, name, tensors, lambda n: f"({names[n]}) is computed when the model runs")
        self.arguments, self.blocks, self.declared = arguments, tuple(blocks), tuple(declared)

    def given(self, name: str) -> bool:
        """Whether an argument is there."""
        return self.arguments.get(name) is not None

    def maybe(self, name: str) -> Value | None:
        """A tensor that may be left out."""
        value = self.arguments.get(name)
        if value is None or isinstance(value, Value):
            return value
        raise error("E0109", f"{name} is no tensor")

    def arg(self, name: str) -> Value:
        """A tensor that must be there.

        Raises:
            SternaError: E0103.
        """
        value = self.maybe(name)
        if value is None:
            raise error("E0103", f"the argument {name} is missing")
        return value

    def many(self, name: str) -> list[Value]:
        """The tensors of a tuple."""
        value = self.arguments.get(name)
        if value is None:
            raise error("E0103", f"the argument {name} is missing")
        return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, Value)]

    def text(self, name: str, default: str = "") -> str:
        value = self.arguments.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise error("E0109", f"{name} is no text")
        return value

    def table(self, name: str) -> Array:
        """A tensor that must be known now.

        Raises:
            SternaError: E0103, E0107.
        """
        value = self.arg(name)
        if value.data is None:
            raise error("E0107", f"{self.kind} needs {name} to be constant", f"it is {value.name}")
        return np.asarray(value.data)

    def ints(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        if default is not None and not self.given(name):
            return list(default)
        held = self.arguments.get(name)
        if not isinstance(held, list):
            return [int(n) for n in self.table(name).reshape(-1)]
        tables = [each.data for each in held if isinstance(each, Value)]
        if len(tables) < len(held) or any(table is None for table in tables):
            raise error("E0107", f"{self.kind} needs {name} to be constant")
        return [int(n) for table in tables for n in np.asarray(table).reshape(-1)]

    def flags(self, name: str, count: int) -> list[bool]:
        return [bool(n) for n in self.ints(name, [0] * count)]

    def number(self, name: str, default: Any = None) -> Any:
        if default is not None and not self.given(name):
            return default
        array = self.table(name)
        if array.size != 1:
            raise error("E0108", f"{name} must be one element, not {list(array.shape)}")
        return array.reshape(-1)[0].item()

    def integer(self, name: str, default: int | None = None) -> int:
        return int(self.number(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.number(name, default)) if self.given(name) else default

    def unsupported(self, what: str) -> SternaError:
        """The error for a setting that is not supported (E0113)."""
        return error("E0113", f"{self.kind} {what} is not supported")

    def i64(self, values: Any) -> Value:
        """A constant list of integers."""
        return self.constant(np.asarray(values, np.int64).reshape(-1), "int64")


Translator = Callable[[Translation], Results]
