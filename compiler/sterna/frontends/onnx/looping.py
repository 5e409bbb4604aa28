"""Loop and Scan as a `loop` of the graph: the body stands there once and runs as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sterna.errors import SternaError, error
from sterna.frontends.emitter import Emitter
from sterna.frontends.onnx.nodes import Source
from sterna.frontends.onnx.sequences import Operand, TensorList
from sterna.frontends.onnx.translation import DataSizes
from sterna.ir import dtypes
from sterna.ir.extremum import maximum
from sterna.ir.graph import Graph, Node, Value, captured, tensor_type
from sterna.ir.integer import ZERO, ComputedSymbol, Int, as_int, of
from sterna.ir.sizes import BIND, all_definitions, mentioned_sizes, symbols_of
from sterna.ops import Builder
from sterna.ops.builder import check_size
from sterna.ops.contents import scalar
from sterna.ops.control import MOST_ITERATIONS, NUMBER, loop
from sterna_runtime.advice import Advice, dims

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
        sizes: how sizes that are only known at run time are treated.
        counting: the number of an iteration may be a size inside the body, which the bundle computes.
    """

    source: Source
    inputs: Sequence[Value | None]
    builder: Builder
    body: Callable[[Sequence[Operand]], Sequence[Operand]]
    takes: int
    origin: Callable[[int], str]
    declared: Sequence[tuple[int, ...] | None]
    used: Sequence[bool]
    sizes: DataSizes
    counting: bool = False

    def run(self) -> Results:
        """The results of the node.

        Raises:
            SternaError: E0103, it does not fit its body; E0107, a carried value changes its type, or nothing bounds the
                number of rows of a result; E0113, a Scan of operator set 8.
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
        length = None if trips is None else _length(trips)
        if condition is not None and condition.data is not None:
            length = length if condition.data else ZERO
            condition = None
        most = None if length is None else length.bounds()[1]
        kept = [n for n in range(len(self.source.outputs) - len(initial)) if self._is_used(len(initial) + n)]
        limits = self._limits([len(initial) + n for n in kept], most) if kept else None
        true = self.builder.scalar(True, "bool")
        initial, number, carried, made, nodes = self._body(
            initial,
            lambda n, states: [n, true, *states],
            most or (MOST_ITERATIONS if limits is None else limits[1]),
        )
        if made is None:
            return (None,) * len(self.source.outputs)
        going, following, rows = made[0], made[1 : 1 + len(initial)], made[1 + len(initial) :]
        kept = [n for n in kept if n < len(rows)]
        if going.dtype != "bool" or going.type.elements != 1:
            raise error("E0108", f"the body of Loop gives the condition {going.type}, not one bool")
        ends = going.data is None or not bool(going.data.reshape(-1)[0])
        conditional = condition is not None or ends
        if length == 0:
            return (*initial, *(self._nothing(row) for row in rows))
        if trips is None and not conditional:
            raise error("E0103", "Loop has neither a number of iterations nor a condition that ends it")
        size = None if conditional else length
        lo, hi = 0, most or MOST_ITERATIONS
        if kept and size is None:
            if limits is None:
                raise self._unbounded([len(initial) + n for n in kept])
            lo, hi = limits
            if hi == 0:
                raise error("E0107", "Loop with declared results of no iterations needs a constant number of them")
        following, states = list(following), list(carried)
        counts = kept and size is None and conditional
        if counts:
            with self.builder.region(nodes):
                following.append(self.emitter.op("add", number, self.builder.scalar(1, "int64")))
            states.append(Value(self.builder.name(f"{self.source.name}/made"), NUMBER))
            initial = [*initial, self.builder.scalar(0, "int64")]
        if kept and size is None and not conditional and trips is not None:
            if lo == hi:
                trips = self.emitter.agree(trips, self._is(trips, hi))
            else:
                size = self._bound(self.emitter.op("maximum", trips, self.builder.scalar(0, "int64")), lo, hi)
        if conditional:
            with self.builder.region(nodes):
                going = self.builder.reshape(going, ())
        count = int(length) if length is not None and length.is_const else None
        results = self._node(
            self._graph(
                (number, *states), (*([going] if conditional else []), *following, *(rows[n] for n in kept)), nodes
            ),
            initial,
            [rows[n] for n in kept],
            limit=hi,
            count=count,
            trips=None if count is not None or trips is None or trips.data is not None else trips,
            condition=condition,
            conditional=conditional,
        )
        last, stacked = list(results[: len(initial)]), list(results[len(initial) :])
        if counts:
            made_count = last.pop()
            if lo == hi:
                stacked = [self.emitter.agree(value, self._is(made_count, hi)) for value in stacked]
            else:
                size = self._bound(made_count, lo, hi)
        by_row = dict(zip(kept, (self._first(value, size) for value in stacked), strict=True))
        return (*last, *(by_row.get(n) for n in range(len(rows))))

    def _limits(self, results: Sequence[int], most: int | None) -> tuple[int, int] | None:
        """The least and the greatest number of rows of results, where the number is only known at run time.

        They are equal if the model declares it, unless another one was asked for; None if nothing bounds it.
        """
        names = [self.source.outputs[n] for n in results]
        given = [self.sizes.limits[name] for name in names if name in self.sizes.limits]
        if self.sizes.declared or not given:
            shapes = [self.declared[n] for n in results if n < len(self.declared)]
            declared = {shape[0] for shape in shapes if shape}
            if len(declared) == 1 and len(shapes) == len(results) and None not in shapes:
                (size,) = declared
                return size, size
        bounds = [hi for _, hi in given] + ([] if most is None else [most])
        if not bounds:
            return None
        hi = min(bounds)
        return min(hi, max((lo for lo, _ in given), default=0)), hi

    def _unbounded(self, results: Sequence[int]) -> SternaError:
        name = self.source.outputs[results[0]]
        return error(
            "E0107",
            "Loop with results of every iteration needs a bound for their number",
            *(f"input {n} {self.origin(n)}" for n in (0, 1) if self._runs(n)),
            fix=Advice(
                dims({name: (0, "N")}), ", N being the most; or declare the shape of those results in the model"
            ),
        )

    def _is(self, value: Value, wanted: int) -> Value:
        return self.emitter.op("equal", value, self.builder.scalar(wanted, "int64"))

    def _bound(self, count: Value, lo: int, hi: int) -> Int:
        """A number of iterations, as a size."""
        name, source = next(filter(None, self.source.outputs)), self.source.name
        return self.sizes.bind(self.builder, count, name, lo, hi, sources=(source,), name=f"{source}/size")

    def _first(self, rows: Value, size: Int | None) -> Value:
        """So many rows of those for which there is memory; None for all."""
        if size is None or rows.shape[0] == size:
            return rows
        rank = rows.type.rank
        return self.emitter.op("slice", rows, starts=(0,) * rank, sizes=(size, *rows.shape[1:]), steps=(1,) * rank)

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

    def _runs(self, position: int) -> bool:
        value = self.inputs[position] if position < len(self.inputs) else None
        return value is not None and value.data is None

    def _is_used(self, position: int) -> bool:
        return position < len(self.used) and self.used[position]

    def _nothing(self, row: Value) -> Value:
        if not row.type.is_static:
            raise error("E0107", f"Loop of no iterations with results of {row.type} needs constant sizes")
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
        most = length.bounds()[1]
        if len(lengths) != 1 or most is None or not 0 < most <= MOST_ITERATIONS:
            raise error("E0107", f"Scan needs one number of iterations, not {', '.join(map(str, lengths))}")
        count = int(length) if length.is_const else None
        trips = None if length.is_const else self.builder.reshape(self.emitter.dimensions([length]), ())
        backward = attributes.get("scan_input_directions") or (0,) * scanned
        end = self.builder.reshape(self.emitter.dimensions([length - 1]), ()) if any(backward) else None

        def arguments(number: Value, states: Sequence[Value]) -> list[Value]:
            parts = [
                self._element(value, axis, number, end if way else None)
                for value, axis, way in zip(sequences, axes, backward, strict=True)
            ]
            return [*states, *parts]

        initial, number, carried, made, nodes = self._body(initial, arguments, most)
        if made is None:
            return (None,) * len(self.source.outputs)
        following, rows = made[: len(initial)], made[len(initial) :]
        kept = [n for n in range(len(rows)) if self._is_used(len(initial) + n)]
        body = self._graph((number, *carried), (*following, *(rows[n] for n in kept)), nodes)
        results = self._node(body, initial, [rows[n] for n in kept], limit=most, count=count, trips=trips)
        stacked: dict[int, Value] = {}
        for n, value in zip(kept, results[len(initial) :], strict=True):
            stacked[n] = self._placed(
                self._first(value, length),
                self._axis((attributes.get("scan_output_axes") or (0,) * len(rows))[n], value.type.rank),
                bool((attributes.get("scan_output_directions") or (0,) * len(rows))[n]),
            )
        return (*results[: len(initial)], *(stacked.get(n) for n in range(len(rows))))

    def _element(self, value: Value, axis: int, number: Value, end: Value | None) -> Value:
        """What stands at the place of an axis that an iteration's number names, without that axis.

        Args:
            end: the last place, for those which are gone through backward.
        """
        if end is not None:
            number = self.emitter.op("sub", end, number)
        return self.emitter.op("gather", value, number, axis=axis)

    def _placed(self, value: Value, axis: int, backward: bool) -> Value:
        """The rows of all iterations, along another axis and in another order."""
        if backward:
            starts = (value.shape[0] - 1, *[0] * (value.type.rank - 1))
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
        initial: list[Value],
        arguments: Callable[[Value, Sequence[Value]], Sequence[Value]],
        most: int,
    ) -> tuple[list[Value], Value, list[Value], list[Value] | None, list[Node]]:
        """What is carried into the first iteration, the iteration's number, the carried values, the body's results
        (None if it could not be made), its nodes.

        Args:
            most: iterations.
        """
        size = None
        if self.counting and most > 1:
            size = ComputedSymbol(self.sizes.symbol_name(f"{self.source.name}_number"), 0, most - 1)
        contents = None if size is None else scalar(of(size))
        number = Value(self.builder.name(f"{self.source.name}/number"), NUMBER, contents=contents)
        carried = [Value(self.builder.name(f"{self.source.name}/state"), value.type) for value in initial]
        with self.builder.region() as nodes:
            results = self.body(arguments(number, carried))
        if any(isinstance(value, TensorList) for value in results):
            raise error("E0107", f"{self.source.op} that makes sequences needs a constant number of iterations")
        made = [value for value in results if isinstance(value, Value)]
        if len(made) != len(results):
            return initial, number, carried, None, nodes
        first = int(self.source.op == "Loop")
        if len(made) < first + len(initial):
            raise error("E0103", f"the body of {self.source.op} gives {len(made)} outputs for {len(initial)} states")
        following = made[first : first + len(initial)]
        read = {value for node in nodes for value in (*node.operands, *captured(node))} | set(made)
        fitting = [
            self._fitting(before, after, state in read)
            for before, after, state in zip(initial, following, carried, strict=True)
        ]
        if fitting != initial:
            return self._body(fitting, arguments, most)
        if size is not None:
            self._bind_number(number, size, nodes)
        inner = all_definitions(Graph("body", (), (), tuple(nodes)))
        for value in made:
            if not inner.keys().isdisjoint(symbols_of([value.shape])):
                raise error("E0107", f"every iteration of {self.source.op} gives {value.type}, of its own size")
        return initial, number, carried, made, nodes

    def _bind_number(self, number: Value, size: ComputedSymbol, nodes: list[Node]) -> None:
        """Makes the number of an iteration a size, where the body has it as one."""
        if any(size in mentioned_sizes(node) for node in nodes):
            self.sizes.computed = True
            with self.builder.region() as front:
                self.builder.add(BIND, number, size=(of(size),), name=f"{self.source.name}/size")
            nodes[:0] = front

    def _graph(self, inputs: Sequence[Value], outputs: Sequence[Value], nodes: Sequence[Node]) -> Graph:
        """The body; its results are numbered, as one value may be several of them."""
        names = tuple(map(str, range(len(outputs))))
        return Graph(f"{self.source.name}/body", tuple(inputs), tuple(outputs), tuple(nodes), names)

    def _fitting(self, before: Value, after: Value, read: bool) -> Value:
        """What is carried into the first iteration, of the type that later ones carry.

        Args:
            read: whether the body reads it. Paddle carries any number in the place of what an iteration sets first.

        Raises:
            SternaError: E0107, the types differ in more.
        """
        if before.type == after.type:
            return before
        if has_fewer_dimensions(before, after):
            return self.builder.reshape(before, after.shape)
        if not read and after.type.is_static:
            return self.emitter.op("expand", self.builder.scalar(0, after.dtype), shape=after.shape)
        raise error("E0107", f"{self.source.op} carries a value that is {before.type} first and {after.type} later")

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
        for kind in types:
            check_size(self.source.op, kind)
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


def _length(trips: Value) -> Int | None:
    """A number of iterations that is constant or made of dimensions, not negative; None if it is computed otherwise."""
    if trips.data is not None:
        length = as_int(max(int(trips.data), 0))
    elif trips.contents is not None:
        length = maximum(trips.contents.reshape(-1)[0], 0)
    else:
        return None
    most = length.bounds()[1]
    return length if most is not None and most <= MOST_ITERATIONS else None


def has_fewer_dimensions(a: Value, b: Value) -> bool:
    """Whether two numbers differ in that alone: exporters begin with a scalar and go on with a vector of one."""
    return a.dtype == b.dtype and a.type.elements == b.type.elements == 1 and a.type.rank < b.type.rank
