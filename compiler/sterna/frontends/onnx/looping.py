"""Loop and Scan as a `loop` of the graph: the body stands there once and runs as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.emitter import Emitter
from sterna.frontends.onnx.nodes import Source
from sterna.frontends.onnx.sequences import Operand, TensorList
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Node, Value, tensor_type
from sterna.ir.integer import Int
from sterna.ops import Builder
from sterna.ops.control import MOST_ITERATIONS, NUMBER, loop

Results = tuple[Value | None, ...]


@dataclass(frozen=True)
class Looping:
    """A node and the means to make a loop of it.

    Args:
        inputs: its operands; None where left out.
        body: the results of the body for given values of its inputs.
        takes: how many inputs the body has.
        origin: says where an operand comes from, for messages.
        declared: for each result, its sizes if the model says them.
        used: for each result, whether anything reads it.
    """

    source: Source
    inputs: Sequence[Value | None]
    builder: Builder
    body: Callable[[Sequence[Operand]], Sequence[Operand]]
    takes: int
    origin: Callable[[int], str]
    declared: Sequence[tuple[int, ...] | None]
    used: Sequence[bool]

    def run(self) -> Results:
        """The results of the node.

        Raises:
            SternaError: E0103, it does not fit its body; E0107, a carried value changes its type, or the number of rows
                of a result is only known at run time and not declared; E0113, a Scan of operator set 8.
        """
        return self._loop() if self.source.op == "Loop" else self._scan()

    @property
    def emitter(self) -> Emitter:
        return Emitter(self.builder, self.source.op, self.source.name, self.inputs, self.origin)

    # ---------------------------------------------------------------- Loop
    def _loop(self) -> Results:
        trips, condition = (self._scalar(n) for n in (0, 1))
        initial = [value for value in self.inputs[2:] if value is not None]
        if len(initial) != max(len(self.inputs) - 2, 0) or self.takes != len(initial) + 2:
            raise error("E0103", f"the body of Loop takes {self.takes} inputs, not {len(initial) + 2}")
        count = None
        if trips is not None and trips.data is not None:
            count = min(max(int(trips.data), 0), MOST_ITERATIONS + 1)
        if condition is not None and condition.data is not None:
            count = count if condition.data else 0
            condition = None
        true = self.builder.scalar(True, "bool")
        number, carried, made, nodes = self._body(initial, lambda n, states: [n, true, *states])
        if made is None:
            return (None,) * len(self.source.outputs)
        going, following, rows = made[0], made[1 : 1 + len(initial)], made[1 + len(initial) :]
        if going.dtype != "bool" or going.type.elements != 1:
            raise error("E0108", f"the body of Loop gives the condition {going.type}, not one bool")
        ends = going.data is None or not bool(going.data.reshape(-1)[0])
        conditional = condition is not None or ends
        if count == 0:
            return (*initial, *(self._nothing(row) for row in rows))
        if count is not None and count > MOST_ITERATIONS:
            count = None
        kept = [n for n in range(len(rows)) if self._is_used(len(initial) + n)]
        exact = count if count is not None and not conditional else None
        limit = exact or count or MOST_ITERATIONS
        if kept and exact is None:
            limit = self._declared_rows([len(initial) + n for n in kept])
        if kept and limit == 0:
            raise error("E0107", "Loop with declared results of no iterations needs a constant number of them")
        following, states = list(following), list(carried)
        counts = kept and exact is None and conditional
        if counts:
            with self.builder.region(nodes):
                following.append(self.emitter.op("add", number, self.builder.scalar(1, "int64")))
            states.append(Value(self.builder.name(f"{self.source.name}/made"), NUMBER))
            initial = [*initial, self.builder.scalar(0, "int64")]
        if kept and exact is None and trips is not None and not conditional:
            fits = self.emitter.op("equal", trips, self.builder.scalar(limit, "int64"))
            trips = self.emitter.agree(trips, fits)
        if conditional:
            with self.builder.region(nodes):
                going = self.builder.reshape(going, ())
        results = self._node(
            Graph(
                f"{self.source.name}/body",
                (number, *states),
                (*([going] if conditional else []), *following, *(rows[n] for n in kept)),
                tuple(nodes),
            ),
            initial,
            [rows[n] for n in kept],
            limit=limit,
            count=count,
            trips=None if count is not None else trips if trips is None or trips.data is None else None,
            condition=condition,
            conditional=conditional,
        )
        last, stacked = list(results[: len(initial)]), list(results[len(initial) :])
        if counts:
            made_count = last.pop()
            fits = self.emitter.op("equal", made_count, self.builder.scalar(limit, "int64"))
            stacked = [self.emitter.agree(value, fits) for value in stacked]
        by_row = dict(zip(kept, stacked, strict=True))
        return (*last, *(by_row.get(n) for n in range(len(rows))))

    def _scalar(self, position: int) -> Value | None:
        """An optional operand of one element, without dimensions."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            return None
        if value.type.elements != 1:
            what = ("number of iterations", "condition")[position]
            raise error("E0108", f"the {what} of Loop is {value.type}, not one element")
        value = self.builder.reshape(value, ())
        return self.emitter.cast(value, "int64") if position == 0 else value

    def _declared_rows(self, results: Sequence[int]) -> int:
        """How many iterations the declared sizes of results speak of."""
        sizes = {None if (shape := self._declared(n)) is None else shape[0] for n in results}
        (size, *others) = sizes
        if size is None or others:
            raise error(
                "E0107",
                "Loop with results of every iteration needs a constant number of them, or declared sizes",
                *(f"input {n} {self.origin(n)}" for n in (0, 1) if self._runs(n)),
                fix="declare the shape of those results in the model; the bundle then tests that it is so",
            )
        return size

    def _declared(self, position: int) -> tuple[int, ...] | None:
        return self.declared[position] if position < len(self.declared) else None

    def _runs(self, position: int) -> bool:
        value = self.inputs[position] if position < len(self.inputs) else None
        return value is not None and value.data is None

    def _is_used(self, position: int) -> bool:
        return position < len(self.used) and self.used[position]

    def _nothing(self, row: Value) -> Value:
        if not row.type.is_static:
            raise error("E0107", f"Loop of no iterations with results of {row.type} needs sizes that are constant")
        return self.builder.constant(np.empty((0, *row.type.sizes), dtypes.to_numpy(row.dtype)))

    # ---------------------------------------------------------------- Scan
    def _scan(self) -> Results:
        attributes = self.source.attributes
        if self.source.version < 9:
            raise error("E0113", "Scan of operator set 8 is not supported as a loop")
        given = [value for value in self.inputs if value is not None]
        scanned = int(attributes["num_scan_inputs"])
        if len(given) != len(self.inputs) or self.takes != len(given) or not 0 < scanned <= len(given):
            raise error(
                "E0103", f"the body of Scan takes {self.takes} inputs; {len(given)} are given, {scanned} scanned"
            )
        initial, sequences = given[: len(given) - scanned], given[len(given) - scanned :]
        axes = [
            self._axis(axis, value.type.rank)
            for axis, value in zip(attributes.get("scan_input_axes") or (0,) * scanned, sequences, strict=True)
        ]
        lengths = dict.fromkeys(value.shape[axis] for axis, value in zip(axes, sequences, strict=True))
        length = next(iter(lengths))
        if len(lengths) != 1 or not length.is_const or not 0 < int(length) <= MOST_ITERATIONS:
            raise error("E0107", f"Scan needs one constant number of iterations, not {', '.join(map(str, lengths))}")
        backward = attributes.get("scan_input_directions") or (0,) * scanned

        def arguments(number: Value, states: Sequence[Value]) -> list[Value]:
            parts = [
                self._element(value, axis, number, length, bool(way))
                for value, axis, way in zip(sequences, axes, backward, strict=True)
            ]
            return [*states, *parts]

        number, carried, made, nodes = self._body(initial, arguments)
        if made is None:
            return (None,) * len(self.source.outputs)
        following, rows = made[: len(initial)], made[len(initial) :]
        kept = [n for n in range(len(rows)) if self._is_used(len(initial) + n)]
        body = Graph(
            f"{self.source.name}/body", (number, *carried), (*following, *(rows[n] for n in kept)), tuple(nodes)
        )
        results = self._node(body, initial, [rows[n] for n in kept], limit=int(length), count=int(length))
        stacked: dict[int, Value] = {}
        for n, value in zip(kept, results[len(initial) :], strict=True):
            stacked[n] = self._placed(
                value,
                self._axis((attributes.get("scan_output_axes") or (0,) * len(rows))[n], value.type.rank),
                bool((attributes.get("scan_output_directions") or (0,) * len(rows))[n]),
            )
        return (*results[: len(initial)], *(stacked.get(n) for n in range(len(rows))))

    def _element(self, value: Value, axis: int, number: Value, length: Int, backward: bool) -> Value:
        """What stands at the place of an axis that an iteration's number names, without that axis."""
        if backward:
            number = self.emitter.op("sub", self.builder.scalar(int(length) - 1, "int64"), number)
        return self.emitter.op("gather", value, number, axis=axis)

    def _placed(self, value: Value, axis: int, backward: bool) -> Value:
        """The rows of all iterations, along another axis and in another order."""
        if backward:
            starts = (int(value.shape[0]) - 1, *[0] * (value.type.rank - 1))
            value = self.emitter.op(
                "slice", value, starts=starts, sizes=value.shape, steps=(-1, *[1] * (value.type.rank - 1))
            )
        order = [*range(1, value.type.rank)]
        order.insert(axis, 0)
        return self.emitter.transpose(value, order)

    def _axis(self, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            raise error("E0108", f"axis {axis} does not exist in a tensor of {rank} dimensions")
        return axis % rank

    # ---------------------------------------------------------------- the loop
    def _body(
        self,
        initial: Sequence[Value],
        arguments: Callable[[Value, Sequence[Value]], Sequence[Value]],
    ) -> tuple[Value, list[Value], list[Value] | None, list[Node]]:
        """The iteration's number, the carried values, the body's results (None if it could not be made), its nodes."""
        number = Value(self.builder.name(f"{self.source.name}/number"), NUMBER)
        carried = [Value(self.builder.name(f"{self.source.name}/state"), value.type) for value in initial]
        with self.builder.region() as nodes:
            results = self.body(arguments(number, carried))
        if any(isinstance(value, TensorList) for value in results):
            raise error("E0107", f"{self.source.op} that makes sequences needs a constant number of iterations")
        made = [value for value in results if isinstance(value, Value)]
        if len(made) != len(results):
            return number, carried, None, nodes
        first = int(self.source.op == "Loop")
        if len(made) < first + len(initial):
            raise error("E0103", f"the body of {self.source.op} gives {len(made)} outputs for {len(initial)} states")
        for before, after in zip(initial, made[first:], strict=False):
            if before.type != after.type:
                raise self._changes(before, after)
        return number, carried, made, nodes

    def _changes(self, before: Value, after: Value) -> SternaError:
        return error("E0107", f"{self.source.op} carries a value that is {before.type} first and {after.type} later")

    def _node(
        self,
        body: Graph,
        initial: Sequence[Value],
        rows: Sequence[Value],
        *,
        limit: int,
        count: int | None = None,
        trips: Value | None = None,
        condition: Value | None = None,
        conditional: bool = False,
    ) -> tuple[Value, ...]:
        name = self.source.name
        types = [value.type for value in initial]
        types += [tensor_type(row.dtype, (limit, *row.shape)) for row in rows]
        results = tuple(Value(self.builder.name(f"{name}/result"), kind) for kind in types)
        node = loop(
            body,
            initial,
            results,
            sources=(name,),
            name=name,
            limit=limit,
            count=count,
            trips=trips,
            condition=condition,
            conditional=conditional,
        )
        self.builder.keep(node)
        return results
