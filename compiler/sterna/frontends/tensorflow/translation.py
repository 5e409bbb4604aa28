"""What a translator is given: one node of a graph, its operands, and the means to build core operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.emitter import Emitter
from sterna.frontends.tensorflow.model import Node, Type, dtype_of
from sterna.ir.graph import Array, Value
from sterna.ops import Builder
from sterna_runtime.advice import Fix


@dataclass(frozen=True)
class Variable:
    """A handle of a variable."""

    name: str


@dataclass(frozen=True)
class Rows:
    """A TensorArray or a TensorList: a tensor of its elements.

    Args:
        value: None as long as nothing was written, and then `size` is how many there are.
        parts: of an array that grows, the elements that were written at known positions, each of its own sizes, in
            place of `value`; None for all others.
    """

    value: Value | None
    size: int | None
    dtype: str
    shape: tuple[int, ...] | None = None
    parts: tuple[Value, ...] | None = None


@dataclass(frozen=True)
class Text:
    """A constant of strings; nothing is computed of it."""

    data: Array


@dataclass(frozen=True)
class Complex:
    """Complex numbers: a tensor whose last dimension is real and imaginary part."""

    value: Value


Item = Value | Variable | Rows | Text | Complex | None
Result = Item | tuple[Item, ...]
Translator = Callable[["Translation"], Result]


@dataclass(frozen=True)
class _Result:
    kind: str
    name: str
    quantization: None = None


#: The attribute of a type that operators of TensorFlow leave unsaid; TensorFlow.js has another one there.
UNSAID_TYPE = "index_type_of_page"
#: Operator -> the attribute that says its result's element type, and its default. Of all others it is that of `T`.
_RESULTS = {
    "ArgMax": ("output_type", "int64"), "ArgMin": ("output_type", "int64"), "Shape": ("out_type", "int32"),
    "ShapeN": ("out_type", "int32"), "Size": ("out_type", "int32"), "TopKV2": ("index_type", "int32"),
    **dict.fromkeys(("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"), ("out_idx", "int32")),
    "Where": (UNSAID_TYPE, "int64"), "DynamicPartition": (UNSAID_TYPE, "int64"),
}  # fmt: skip


class Translation(Emitter):
    """One node on its way.

    Args:
        node: what the model says.
        items: its operands; those that are no tensors stand in `inputs` as None.
        origin: says where an operand comes from, for messages.
        count: how many results are read, at least.
    """

    def __init__(
        self,
        node: Node,
        items: Sequence[Item],
        builder: Builder,
        origin: Callable[[int], str],
        count: int = 1,
        name: str = "",
    ):
        inputs = [item if isinstance(item, Value) else None for item in items]
        super().__init__(builder, node.op, name or node.name, inputs, origin)
        self.node, self.items, self.count = node, tuple(items), count

    # -- what the node says
    @property
    def attributes(self) -> Mapping[str, Any]:
        return self.node.attributes

    def option(self, name: str, default: Any = 0) -> Any:
        """An attribute: a number, text, or sequence; the default where it is left out."""
        value = self.node.attributes.get(name)
        if value is None:
            return default
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, tuple) and value and isinstance(value[0], bytes):
            return tuple(item.decode("utf-8", "replace") for item in value)
        return value

    def integers_of(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """An attribute that is a list of integers."""
        value = self.option(name, default)
        if not isinstance(value, (tuple, list)) or not all(isinstance(n, int) for n in value):
            raise error("E0109", f"{name} of {self.kind} is no list of integers")
        return tuple(int(n) for n in value)

    def dtype(self, name: str, default: str = "float32") -> str:
        """An attribute that is an element type."""
        value = self.node.attributes.get(name)
        return dtype_of(value.number) if isinstance(value, Type) else default

    @property
    def results(self) -> range:
        """As many as the results are, of operators with several."""
        return range(int(self.option("num_split", self.option("num", self.count))))

    def result(self, position: int = 0) -> _Result:
        """A result's element type: what an attribute says, or its default, which files leave out."""
        attribute, default = _RESULTS.get(self.kind, ("T", "int32"))
        return _Result(self.dtype(attribute, default), f"{self.name}_{position}")

    def is_quantized(self, position: int = 0) -> bool:
        """Whether an operand's integers stand for real numbers: never; types of their own do that here."""
        return False

    def item(self, position: int) -> Item:
        """An operand of whatever kind."""
        if position >= len(self.items):
            raise error("E0103", f"input {position} is missing")
        return self.items[position]

    def unsupported(self, what: str, fix: Fix | None = None) -> SternaError:
        """The error for a setting that is not supported (E0113)."""
        return error("E0113", f"{self.kind} {what} is not supported", fix=fix)

    # -- another node in its place
    def again(self, *inputs: Item, **options: Any) -> Translation:
        """The same node with other operands, and other attributes beside its own."""
        node = Node(self.node.name, self.node.op, self.node.inputs, (), {**self.node.attributes, **options})
        return Translation(node, inputs or self.items, self.builder, self.origin, self.count, self.name)

    # -- building
    def activated(self, x: Value) -> Value:
        """What TensorFlow Lite's operators apply in the end; nothing here."""
        return x

    def array_or_none(self, position: int) -> Array | None:
        value = self.optional(position)
        return None if value is None or value.data is None else np.asarray(value.data)

    @property
    def first(self) -> bool:
        """Whether channels stand before the spatial dimensions."""
        return str(self.option("data_format", "NHWC")).startswith("NC")

    def channels_first(self, x: Value) -> Value:
        """(N, spatial..., C) as (N, C, spatial...), whatever the node's layout is."""
        return x if self.first else self.transpose(x, (0, x.type.rank - 1, *range(1, x.type.rank - 1)))

    def back(self, x: Value) -> Value:
        """(N, C, spatial...) in the node's layout."""
        return x if self.first else self.transpose(x, (0, *range(2, x.type.rank), 1))

    def spatial(self, values: Sequence[int]) -> tuple[int, ...]:
        """Those of the spatial dimensions, of one for each dimension."""
        return tuple(values[2:] if self.first else values[1:-1])
