"""What a translator is given: one node of the source model, its operands, and the means to build core operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sterna.errors import SternaError, error
from sterna.frontends.emitter import Emitter, axes_of, is_float
from sterna.frontends.onnx.nodes import Source
from sterna.ir.graph import Names, Value
from sterna.ir.integer import Int, IntLike, as_int
from sterna.ops import Builder
from sterna_runtime.advice import Fix


@dataclass
class DataSizes:
    """Sizes that the data decide, as those of NonZero's result.

    Args:
        limits: least and greatest ones that the user gives, by the name of the tensor.
        declared: the model's declared shapes decide, where it has them, and the bundle tests that the data agree;
            else, and where it has none, the bundle computes the sizes when it runs.
        computed: set where one is left to the bundle.
        known: results of nodes that were made already: equal ones must have equal sizes.
        names: of dimensions.
    """

    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    declared: bool = False
    computed: bool = False
    known: dict[Hashable, tuple[tuple[Value, ...], Int]] = field(default_factory=dict)
    names: Names = field(default_factory=Names)

    def symbol_name(self, tensor: str) -> str:
        """A name for a dimension of a tensor, such as languages take."""
        wanted = re.sub(r"\W", "_", tensor) or "size"
        return self.names.fresh(wanted if wanted[0].isalpha() or wanted[0] == "_" else f"_{wanted}")

    def bind(self, builder: Builder, count: Value, tensor: str, lo: int, hi: int, **rest: Any) -> Int:
        """A scalar that is computed, as a size of a tensor; `rest` is about the node that computes it."""
        self.computed = True
        return builder.bind_size(count, self.symbol_name(tensor), lo, hi, **rest)


Translator = Callable[["Translation"], Value | tuple[Value | None, ...]]


class Translation(Emitter):
    """One node on its way.

    Args:
        node: what the model says.
        inputs: its operands; None where left out.
        origin: says where an operand comes from, for messages.
        used: for each output, whether anything reads it.
        declared: for each output, its sizes if the model says them.
        sizes: how sizes that the data decide are treated.
    """

    def __init__(
        self, node: Source, inputs: Sequence[Value | None], builder: Builder, *, origin: Callable[[int], str],
        used: Sequence[bool], sources: tuple[str, ...] = (), declared: Sequence[tuple[int, ...] | None] = (),
        sizes: DataSizes | None = None,
    ):  # fmt: skip
        super().__init__(builder, node.op, node.name, inputs, origin, sources)
        self.node, self.used, self.declared = node, tuple(used), tuple(declared)
        self.data_sizes = sizes or DataSizes()

    # -- what the node says
    @property
    def version(self) -> int:
        """The operator set."""
        return self.node.version

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, with the schema's default, else the one given."""
        return self.node.attributes.get(name, default)

    def wanted(self, position: int, what: str, output: int = 0) -> tuple[int, ...]:
        """The declared sizes of a result, for an operand that decides them and is only known at run time.

        Raises:
            SternaError: E0107, the model does not say them.
        """
        sizes = self.declared[output] if output < len(self.declared) else None
        if sizes is None:
            raise self.unknown(position, what)
        return sizes

    def unsupported(self, what: str, fix: Fix | None = None) -> SternaError:
        """The error for a setting that is not supported (E0113)."""
        return error("E0113", f"{self.node.label} {what} is not supported", fix=fix)

    # -- sizes that the data decide
    def declared_size(self, axis: int, output: int = 0) -> int | None:
        """The size that the model declares for a result whose size is in its data, if that is what decides."""
        sizes = self.declared[output] if output < len(self.declared) and self.data_sizes.declared else None
        return None if sizes is None else sizes[axis]

    def size_limits(self, most: IntLike) -> tuple[int, int]:
        """The least and the greatest size of a result with at most so many elements (or slices, or rows)."""
        hi = as_int(most).bounds()[1]
        assert hi is not None
        lo, limit = self.data_sizes.limits.get(self.node.outputs[0], (0, hi))
        return min(lo, hi), min(limit, hi)

    def sized(self, operator: str, *inputs: Value | None, most: IntLike, **attributes: Any) -> tuple[list[Value], Int]:
        """An operator that finds elements and counts them, the count being its last result: the other results, with
        room for `most` elements at most, and how many there are, which is known when the bundle runs."""
        key = (
            self.builder,
            self.builder.scope,
            operator,
            inputs,
            tuple(sorted((k, repr(v)) for k, v in attributes.items())),
        )
        if key not in self.data_sizes.known:
            lo, hi = self.size_limits(most)
            name = f"{self.node.name}/{operator}"
            found = self.builder.add_all(operator, *inputs, sources=self.sources, name=name, size=hi, **attributes)
            size = self.bound_size(found[-1], lo, hi)
            self.data_sizes.known[key] = found, size
        found, size = self.data_sizes.known[key]
        return list(found[:-1]), size

    def bound_size(self, count: Value, lo: int, hi: int) -> Int:
        """A scalar as a size."""
        name = f"{self.node.name}/size"
        return self.data_sizes.bind(self.builder, count, self.node.outputs[0], lo, hi, sources=self.sources, name=name)

    # -- layouts
    def channels_last(self, x: Value) -> Value:
        """(N, C, spatial...) as (N, spatial..., C)."""
        return self.transpose(x, (0, *range(2, x.type.rank), 1))

    def channels_first(self, x: Value) -> Value:
        """(N, spatial..., C) as (N, C, spatial...)."""
        return self.transpose(x, (0, x.type.rank - 1, *range(1, x.type.rank - 1)))


__all__ = ["Translation", "Translator", "axes_of", "is_float"]
