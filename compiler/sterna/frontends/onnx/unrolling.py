"""Loop and Scan of a known, small number of iterations, written out: each iteration is the body once more.

The kernels of all iterations are shared, as they are equal by shape, so that the code does not grow with the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.onnx.nodes import Source
from sterna.frontends.onnx.sequences import Operand, TensorList
from sterna.ir.graph import Value
from sterna.ir.integer import ONE
from sterna.ops import Builder

#: Iterations that are written out if a loop of the graph cannot be made of them.
LONGEST = 64
#: Iterations that are written out in any case: kernels of neighbouring iterations are fused, constants folded.
SHORT = 8

Results = tuple[Operand, ...]


@dataclass(frozen=True)
class Unrolling:
    """A node and the means to write it out.

    Args:
        inputs: its operands; None where left out.
        body: the results of the body for given values of its inputs.
        takes: how many inputs the body has.
        origin: says where an operand comes from, for messages.
        most: iterations that may be written out.
    """

    source: Source
    inputs: Sequence[Operand]
    builder: Builder
    body: Callable[[Sequence[Operand]], Results]
    takes: int
    origin: Callable[[int], str]
    most: int = LONGEST

    @property
    def longest(self) -> int:
        """The most iterations that may be made."""
        count = self._count()
        return self.most if count is None else max(min(count, self.most), 1)

    def run(self) -> Results:
        """The results of the node.

        Raises:
            SternaError: E0103, it does not fit its body; E0107, its iterations are only known at run time; E0113, there
                are too many of them.
        """
        return self._loop() if self.source.op == "Loop" else self._scan()

    def is_short(self) -> bool:
        """Whether it is known to make so few iterations that they are better written out."""
        count = self._count()
        return count is not None and 0 < count <= min(SHORT, self.most)

    def is_long(self) -> bool:
        """Whether it may make more iterations than can be written out."""
        count = self._count()
        return count is None or count > self.most

    def _count(self) -> int | None:
        """The most iterations, if that is known."""
        if self.source.op == "Loop":
            trips = self.inputs[0] if self.inputs else None
            data = trips.data if isinstance(trips, Value) else None
            return int(data.flat[0]) if data is not None and data.size == 1 else None
        last = self.inputs[-1] if self.inputs else None
        axis = (self.source.attributes.get("scan_input_axes") or (0,))[-1] if self.source.version >= 9 else 1
        if not isinstance(last, Value) or not -last.type.rank <= axis < last.type.rank:
            return None
        return int(last.shape[axis]) if last.shape[axis].is_const else None

    # ---------------------------------------------------------------- Loop
    def _loop(self) -> Results:
        carried = [value for value in self.inputs[2:] if value is not None]
        if self.takes != len(carried) + 2:
            raise error("E0103", f"the body of Loop takes {self.takes} inputs, not {len(carried) + 2}")
        trips = self._known(0)
        limit = None if trips is None else int(trips.reshape(-1)[0])
        first = self._known(1)
        going = first is None or bool(first.reshape(-1)[0])
        rows: list[list[Value]] = []
        number = 0
        while going and (limit is None or number < limit):
            if number >= self.most:
                raise self._too_long(limit)
            condition = self.builder.scalar(True, "bool")
            results = self.body([self.builder.scalar(number, "int64"), condition, *carried])
            made = [value for value in results if value is not None]
            if len(made) != len(results):
                return (None,) * len(self.source.outputs)
            goes = made[0]
            if isinstance(goes, TensorList) or goes.data is None:
                raise error("E0107", "Loop needs a constant condition; that of its body is computed at run time")
            going = bool(goes.data.reshape(-1)[0])
            carried, rows = made[1 : 1 + len(carried)], [*rows, self._tensors(made[1 + len(carried) :])]
            number += 1
        if not rows and len(self.source.outputs) > len(carried):
            raise error("E0113", "Loop of no iterations with results of each is not supported")
        return (*carried, *(self._joined([row[n] for row in rows], 0) for n in range(len(rows[0]) if rows else 0)))

    def _known(self, position: int) -> np.ndarray | None:
        """A constant operand, None if it is left out."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            return None
        if isinstance(value, TensorList) or value.data is None or value.data.size != 1:
            what = ("a number of iterations", "a condition")[position]
            raise error("E0107", f"Loop needs {what} to be constant", f"input {position} {self.origin(position)}")
        return value.data

    # ---------------------------------------------------------------- Scan
    def _scan(self) -> Results:
        attributes = self.source.attributes
        batched = self.source.version < 9
        given = self._tensors([value for value in self.inputs[batched:] if value is not None])
        count = int(attributes["num_scan_inputs"])
        if len(given) != len(self.inputs) - batched or self.takes != len(given) or not 0 < count <= len(given):
            raise error("E0103", f"the body of Scan takes {self.takes} inputs; {len(given)} are given, {count} scanned")
        states, sequences = given[: len(given) - count], given[len(given) - count :]
        if batched:
            return self._batches(states, sequences, attributes.get("directions") or (0,) * count)
        axes = [
            self._axis(axis, value.type.rank)
            for axis, value in zip(attributes.get("scan_input_axes") or (0,) * count, sequences, strict=True)
        ]
        swept = self._sweep(states, sequences, axes, attributes.get("scan_input_directions") or (0,) * count)
        if swept is None:
            return (None,) * len(self.source.outputs)
        last, rows = swept
        ways = attributes.get("scan_output_directions") or (0,) * len(rows[0])
        places = attributes.get("scan_output_axes") or (0,) * len(rows[0])
        joined = []
        for n, first in enumerate(rows[0]):
            column = [row[n] for row in rows]
            place = self._axis(places[n], first.type.rank + 1)
            joined.append(self._joined(column[::-1] if ways[n] else column, place))
        return (*last, *joined)

    def _batches(self, states: Sequence[Value], sequences: Sequence[Value], backward: Sequence[int]) -> Results:
        """Scan of operator set 8: every operand has a batch first, and time second."""
        if self.inputs[0] is not None:
            raise error("E0113", "Scan of operator set 8 with sequence_lens is not supported")
        size = sequences[0].shape[0]
        if not size.is_const or not 0 < int(size) <= self.most:
            raise error("E0107", f"Scan needs a constant batch of 1 to {self.most}, not {size}")
        columns: list[list[Value]] = []
        for b in range(int(size)):
            own = [[self._element(v, 0, b) for v in values] for values in (states, sequences)]
            swept = self._sweep(own[0], own[1], [0] * len(sequences), backward)
            if swept is None:
                return (None,) * len(self.source.outputs)
            last, rows = swept
            columns.append([*last, *(self._joined([row[n] for row in rows], 0) for n in range(len(rows[0])))])
        return tuple(self._joined([column[n] for column in columns], 0) for n in range(len(columns[0])))

    def _sweep(
        self, states: Sequence[Value], sequences: Sequence[Value], axes: Sequence[int], backward: Sequence[int]
    ) -> tuple[list[Value], list[list[Value]]] | None:
        """The last states and the other results of every iteration; None where the body could not be made."""
        sizes = dict.fromkeys(value.shape[axis] for axis, value in zip(axes, sequences, strict=True))
        size = next(iter(sizes))
        if len(sizes) != 1 or not size.is_const:
            raise error("E0107", f"Scan needs one constant number of iterations, not {', '.join(map(str, sizes))}")
        length = int(size)
        if not 0 < length <= self.most:
            raise self._too_long(length)
        current, rows = list(states), []
        for number in range(length):
            elements = [
                self._element(value, axis, length - 1 - number if way else number)
                for value, axis, way in zip(sequences, axes, backward, strict=True)
            ]
            results = self.body([*current, *elements])
            made = self._tensors([value for value in results if value is not None])
            if len(made) != len(results):
                return None
            current = made[: len(states)]
            rows.append(made[len(states) :])
        return current, rows

    def _tensors(self, values: Sequence[Value | TensorList]) -> list[Value]:
        """The values, all of which must be tensors."""
        found = [value for value in values if isinstance(value, Value)]
        if len(found) != len(values):
            raise error("E0104", f"{self.source.op} over sequences or optionals is not supported")
        return found

    # ---------------------------------------------------------------- parts of sequences
    def _element(self, value: Value, axis: int, position: int) -> Value:
        """What stands at one place of an axis, without that axis."""
        shape = value.shape
        starts, sizes = [0] * len(shape), list(shape)
        starts[axis], sizes[axis] = position, ONE
        name, sources = f"{self.source.name}/slice", (self.source.name,)
        steps = (1,) * len(shape)
        cut = self.builder.add(
            "slice", value, starts=tuple(starts), sizes=tuple(sizes), steps=steps, name=name, sources=sources
        )
        return self.builder.reshape(cut, (*shape[:axis], *shape[axis + 1 :]), name=name, sources=sources)

    def _joined(self, values: Sequence[Value], axis: int) -> Value:
        """The results of all iterations along a new axis."""
        name, sources = f"{self.source.name}/concat", (self.source.name,)
        rows = [
            self.builder.reshape(v, (*v.shape[:axis], 1, *v.shape[axis:]), name=name, sources=sources) for v in values
        ]
        return rows[0] if len(rows) == 1 else self.builder.add("concat", *rows, axis=axis, name=name, sources=sources)

    def _axis(self, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            raise error("E0108", f"axis {axis} does not exist in a tensor of {rank} dimensions")
        return axis % rank

    def _too_long(self, length: int | None) -> SternaError:
        count = "an unknown number of" if length is None else str(length)
        return error("E0113", f"{self.source.op} of {count} iterations is not supported, only 1 to {self.most}")
