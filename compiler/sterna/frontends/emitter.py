"""What every front end is given to translate one node: its operands, and the means to build core operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sterna.errors import SternaError, error
from sterna.ir import dtypes
from sterna.ir.graph import Array, Graph, Value, tensor_type
from sterna.ir.integer import Int, IntLike, as_int
from sterna.ir.limits import walked
from sterna.ir.sizes import sizes_wanted
from sterna.ops import Builder
from sterna.ops.control import NUMBER, loop
from sterna.ops.narrow import wide_type

#: Elements up to which numbers in order are a constant; more are made when the model runs.
MOST_COUNTED = 1 << 20
#: Slices that an operator becomes at most: taps of windows, and parts of a tensor.
MOST_TAPS, MOST_PARTS = 1 << 10, 1 << 16


class Emitter:
    """Builds the core operators that stand for one node.

    Args:
        kind: the source operator, for messages.
        name: the source node's name; what is made for it is named after it.
        inputs: its operands; None where left out.
        origin: says where an operand comes from, for messages.
        sources: names of the source model's nodes that the result comes from.
    """

    def __init__(
        self,
        builder: Builder,
        kind: str,
        name: str,
        inputs: Sequence[Value | None],
        origin: Callable[[int], str],
        sources: tuple[str, ...] = (),
    ):
        self.builder, self.kind, self.name = builder, kind, name
        self.inputs, self.origin = tuple(inputs), origin
        self.sources = sources or (name,)

    # -- operands
    def has(self, position: int) -> bool:
        """Whether an optional operand is there."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def input(self, position: int = 0) -> Value:
        """An operand that must be there.

        Raises:
            SternaError: E0103, it is not.
        """
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            raise error("E0103", f"input {position} is missing")
        return value

    def optional(self, position: int) -> Value | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def array(self, position: int, what: str) -> Array:
        """An operand that must be known now.

        Raises:
            SternaError: E0107, it is computed at run time.
        """
        value = self.input(position)
        if value.data is None:
            raise self.unknown(position, what)
        return walked(value.data)

    def unknown(self, position: int, what: str) -> SternaError:
        """The error for an operand that must be known now (E0107)."""
        return error("E0107", f"{self.kind} needs {what} to be constant", f"input {position} {self.origin(position)}")

    def known(self, *positions: int) -> bool:
        """Whether these operands are left out, constant, or made of the dimensions' sizes."""
        operands = (self.optional(n) for n in positions)
        return all(v is None or v.data is not None or v.contents is not None for v in operands)

    def integers(self, position: int, what: str) -> list[int]:
        """A constant operand as integers, a scalar counting as one.

        Raises:
            SternaError: E0109, some are no numbers or infinite; E0107, they are computed.
        """
        values = np.asarray(self.array(position, what)).reshape(-1)
        if not np.isfinite(values).all():
            raise error("E0109", f"{self.kind} has {what} that are no finite numbers")
        return [int(v) for v in values]

    def dims(self, position: int, what: str) -> list[Int]:
        """An operand that is a list of sizes or positions: constant, or computed from dimensions."""
        value = self.input(position)
        if value.data is None and value.contents is not None:
            return list(value.contents.reshape(-1))
        return [as_int(n) for n in self.integers(position, what)]

    def scalar_of(self, position: int, what: str) -> float | int | bool:
        """A constant operand of one element."""
        array = self.array(position, what)
        if array.size != 1:
            raise error("E0108", f"{what} must be one element, not {list(array.shape)}")
        result: float | int | bool = array.reshape(-1)[0].item()
        return result

    def integer_of(self, position: int, what: str) -> int:
        """A constant operand of one element, as an integer."""
        value = self.scalar_of(position, what)
        if not math.isfinite(value) or abs(value) >= 2**62:
            raise error("E0108", f"{what} is {value}")
        return int(value)

    # -- building
    def op(self, operator: str, *inputs: Value | None, **attributes: Any) -> Value:
        """A core operator with one result."""
        return self.builder.add(operator, *inputs, sources=self.sources, name=f"{self.name}/{operator}", **attributes)

    def reshape(self, x: Value, shape: Sequence[Any]) -> Value:
        return self.builder.reshape(x, shape, sources=self.sources, name=f"{self.name}/reshape")

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        return self.builder.transpose(x, order, sources=self.sources, name=f"{self.name}/transpose")

    def constant(self, data: Any, dtype: str = "") -> Value:
        return self.builder.constant(data, f"{self.name}/constant", dtype)

    def repeat(
        self,
        count: int,
        initial: Sequence[Value],
        step: Callable[[Value, list[Value]], tuple[list[Value], list[Value]]],
    ) -> tuple[list[Value], list[Value]]:
        """A loop of known length.

        Args:
            initial: what is carried from iteration to iteration.
            step: from the iteration's number and what is carried to what is carried on, and a row of every list.

        Returns:
            What is carried in the end, and the lists.
        """
        name = self.builder.name
        number = Value(name(f"{self.name}/step"), NUMBER)
        inside = [Value(name(f"{value.name}/carried"), value.type) for value in initial]
        with self.builder.region() as nodes:
            following, rows = step(number, inside)
        body = Graph(f"{self.name}/body", (number, *inside), (*following, *rows), tuple(nodes))
        kinds = [*(value.type for value in initial), *(tensor_type(r.dtype, (count, *r.shape)) for r in rows)]
        results = [Value(name(f"{self.name}/loop"), kind) for kind in kinds]
        made = loop(body, initial, results, sources=self.sources, name=f"{self.name}/loop", limit=count, count=count)
        self.builder.keep(made)
        return results[: len(initial)], results[len(initial) :]

    def repeat_until(
        self, limit: int, initial: Sequence[Value], step: Callable[[list[Value]], tuple[Value, list[Value]]]
    ) -> list[Value]:
        """A loop that ends after so many iterations at most.

        Args:
            initial: what is carried from iteration to iteration.
            step: from what is carried to whether to go on (bool, one element), and what is carried on.

        Returns:
            What is carried in the end.
        """
        name = self.builder.name
        number = Value(name(f"{self.name}/step"), NUMBER)
        inside = [Value(name(f"{value.name}/carried"), value.type) for value in initial]
        with self.builder.region() as nodes:
            more, following = step(inside)
            more = self.reshape(more, ())
        body = Graph(f"{self.name}/body", (number, *inside), (more, *following), tuple(nodes))
        results = [Value(name(f"{self.name}/loop"), value.type) for value in initial]
        made = loop(
            body, initial, results, sources=self.sources, name=f"{self.name}/loop", limit=limit, count=limit,
            conditional=True,
        )  # fmt: skip
        self.builder.keep(made)
        return results

    def counting(self, count: IntLike, dtype: str = "int64") -> Value:
        """0, 1, ..., count - 1: a constant, unless there are many or their number is open."""
        size = as_int(count)
        if size.is_const and int(size) <= MOST_COUNTED:
            return self.constant(np.arange(int(size)), dtype)
        return self.cast(self.op("arange", start=0, step=1, size=(size,), to="int64"), dtype)

    def scalar(self, value: Any, dtype: str) -> Value:
        """A constant without dimensions, of the element type of `dtype`."""
        return self.constant(value, dtype)

    def dimensions(self, sizes: Sequence[Int]) -> Value:
        """Sizes as an integer tensor; a constant if they are known."""
        return self.op("dimensions", sizes=tuple(sizes))

    def pad(self, x: Value, before: Sequence[IntLike], after: Sequence[IntLike], value: Any = 0) -> Value:
        """`pad` with a constant, where there is anything to pad."""
        if all(n == 0 for n in (*before, *after)):
            return x
        return self.op("pad", x, before=tuple(before), after=tuple(after), value=value)

    def agree(self, x: Value, *conditions: Value) -> Value:
        """`x`, after a test at run time that all conditions (bools) hold everywhere; the kernel fails otherwise."""
        for condition in conditions:
            # The value depends on the test, so that nothing is computed from it where the test fails.
            x = self.op("where", self.op("require", condition), x, self.scalar(0, x.dtype))
        return x

    def cast(self, x: Value, dtype: str, saturate: bool = True, rounding: str = "up") -> Value:
        """`x` in another type; the last two say how floats of 8 bits are made (ONNX, Cast)."""
        if x.dtype == dtype:
            return x
        if x.dtype in dtypes.NARROW:
            return self.cast(self.op("decode", x, kind=x.dtype), dtype, saturate, rounding)
        if dtype in dtypes.NARROW:
            return self.op("encode", self.cast(x, wide_type(dtype)), to=dtype, saturate=saturate, rounding=rounding)
        return self.op("cast", x, to=dtype)

    def sizes(self, x: Value, rank: int) -> tuple[int, ...]:
        """The sizes of an operand that must have so many dimensions.

        Raises:
            SternaError: E0107 or E0108.
        """
        if x.type.rank != rank:
            raise error("E0108", f"{self.kind} takes tensors of {rank} dimensions, not {x.type}")
        return self.static(x)

    def static(self, x: Value) -> tuple[int, ...]:
        """The sizes of an operand that must be known now.

        Raises:
            SternaError: E0107, a dimension is only known at run time.
        """
        if not x.type.is_static:
            raise self.open_sizes(x)
        return x.type.sizes

    def extent(self, x: Value, axis: int) -> int:
        """One size of an operand, which must be known now; the others may be open.

        Raises:
            SternaError: E0107, or E0108 where there is no such axis.
        """
        (position,) = axes_of((axis,), x.type.rank)
        size = x.shape[position]
        if not size.is_const:
            raise self.open_sizes(x, f"needs a size of dimension {position} that is constant")
        return int(size)

    def open_sizes(self, x: Value, what: str = "needs constant sizes") -> SternaError:
        """The error where a size of an operand must be known now, and is not (E0107)."""
        return error("E0107", f"{self.kind} {what}", f"{x.name} is {x.type}", fix=sizes_wanted(x.shape))


def axes_of(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Non-negative axes in the order given.

    Raises:
        SternaError: E0108, an axis does not exist.
    """
    for axis in axes:
        if not -rank <= axis < rank:
            raise error("E0108", f"axis {axis} does not exist in a tensor of {rank} dimensions")
    return tuple(axis % rank for axis in axes)


def is_float(value: Value) -> bool:
    return dtypes.is_float(value.dtype)
