"""What a translator is given: one operator of an MXNet symbol."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.emitter import Emitter, axes_of
from sterna.frontends.mxnet.symbol import NodeInfo
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.ir.integer import Int, IntLike, as_int
from sterna.ops import Builder
from sterna_runtime.advice import Fix

#: A graph inside an operator.
Inner = Callable[[Sequence[Value]], list[Value]]
Translator = Callable[["Translation"], Value | tuple[Value | None, ...]]

#: Names of element types, and their numbers in old files.
_DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")


class Translation(Emitter):
    """One operator on its way.

    Args:
        node: what the symbol says; `said` are its settings.
        is_numpy: shapes are NumPy's: a size of 0 is none, not an unknown one.
        asked: how many of its results are wanted at least.
        graphs: of the operator itself, each from operands to results.
    """

    def __init__(
        self,
        node: NodeInfo,
        inputs: Sequence[Value | None],
        builder: Builder,
        origin: Callable[[int], str],
        is_numpy: bool = False,
        asked: int = 1,
        graphs: Sequence[Inner] = (),
    ):
        super().__init__(builder, node.op, node.name, inputs, origin)
        self.graphs = tuple(graphs)
        self.node, self.said, self.is_numpy, self.asked = node, node.said, is_numpy, asked

    # -- what the operator says
    def axis(self, name: str = "axis", default: int | None = None, rank: int | None = None) -> int:
        """An axis of the first operand, not negative."""
        (found,) = axes_of((self.said.integer(name, default),), self.input(0).type.rank if rank is None else rank)
        return found

    def axes(self, name: str = "axis", exclude: str = "exclude") -> tuple[int, ...]:
        """Axes of the first operand in rising order: all where none are named; the others if `exclude` is set."""
        rank = self.input(0).type.rank
        named = axes_of(self.said.integers(name, ()), rank)
        if len(set(named)) < len(named):
            raise error("E0109", f"{self.kind} names an axis twice: {list(named)}")
        if self.said.has(name) and self.said.flag(exclude):
            return tuple(n for n in range(rank) if n not in named)
        # An empty tuple means all, but for NumPy's operators.
        return tuple(sorted(named)) if named else tuple(range(rank))

    def dtype(self, default: str, name: str = "dtype") -> str:
        """A type, by its name or number; bfloat16 and others are not."""
        text = self.said.text(name, default)
        if text.isdecimal() and int(text) < len(_DTYPES):
            text = _DTYPES[int(text)]
        text = {"bool_": "bool", "float": "float32", "int": "int64"}.get(text, text)
        if text not in _DTYPES:
            raise error("E0111", f"{self.kind} of the type {text[:40]} is not supported")
        return text

    def unsupported(self, what: str, fix: Fix | None = None) -> SternaError:
        """The error for a setting that is not supported (E0113)."""
        return error("E0113", f"{self.kind} {what} is not supported", fix=fix)

    def all_inputs(self) -> list[Value]:
        """All operands, which must be there: at least one."""
        return [self.input(n) for n in range(max(len(self.inputs), 1))]

    # -- building
    def number(self, value: float, like: Value) -> Value:
        """A constant of the type of another value."""
        return self.scalar(value, like.dtype)

    def integral(self, x: Value) -> Value:
        """Indices as int64: MXNet's are often floats, which are cut toward zero."""
        return self.cast(x, "int64")

    def truth(self, x: Value) -> Value:
        """Whether elements are not 0."""
        if x.dtype == "bool":
            return x
        return self.op("logical_not", self.op("equal", x, self.number(0, x)))

    def part(self, x: Value, axis: int, begin: IntLike, size: IntLike, step: int = 1) -> Value:
        """Neighbouring elements along an axis."""
        starts, sizes, steps = [as_int(0)] * x.type.rank, list(x.shape), [1] * x.type.rank
        starts[axis], sizes[axis], steps[axis] = as_int(begin), as_int(size), step
        if tuple(sizes) == x.shape and step == 1:
            return x
        return self.op("slice", x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))

    def squeezed(self, x: Value, axis: int) -> Value:
        """Without an axis of size 1."""
        return self.reshape(x, [*x.shape[:axis], *x.shape[axis + 1 :]])

    def spread(self, x: Value, axis: int) -> Value:
        """With another axis of size 1."""
        return self.reshape(x, [*x.shape[:axis], 1, *x.shape[axis:]])

    def along(self, x: Value, axis: int, rank: int) -> Value:
        """A vector as a tensor of so many dimensions, for broadcasting along an axis."""
        return self.reshape(x, [x.type.elements if n == axis else 1 for n in range(rank)])

    def moved(self, x: Value, source: int, target: int) -> Value:
        """With one axis in another place."""
        order = [n for n in range(x.type.rank) if n != source]
        order.insert(target, source)
        return self.transpose(x, order) if order != list(range(x.type.rank)) else x

    def back(self, x: Value, source: int, target: int) -> Value:
        """What `moved` did, undone."""
        return self.moved(x, target, source)

    def power(self, x: Value, exponent: float) -> Value:
        return self.op("pow", x, self.number(exponent, x))

    def sum(self, x: Value, axes: Sequence[int], keep: bool = True) -> Value:
        return self.op("reduce_sum", x, axes=tuple(axes), keep_dims=keep)

    def mean(self, x: Value, axes: Sequence[int], keep: bool = True) -> Value:
        return self.op("reduce_mean", x, axes=tuple(axes), keep_dims=keep)

    def floats(self, x: Value, dtype: str = "float32") -> Value:
        """Integers as floats; floats as they are."""
        return x if dtypes.is_float(x.dtype) else self.cast(x, dtype)

    def vector(self, values: Sequence[int]) -> Value:
        return self.constant(np.array(values, np.int64), "int64")

    def elements(self, x: Value) -> Int:
        return as_int(x.type.elements)
