"""Control flow: the two operators whose nodes own regions.

    %y = if(%hot) : float32[4]                                  # regions give what the node gives
      graph then() { %a = mul(%x, 2)  return %a }               # %x is captured from the surrounding graph
      graph else() { %b = neg(%x)     return %b }

    %last, %rows = loop(%trips, none, %first) : float32[4], float32[16, 4]
      graph body(%i: int64[], %s: float32[4]) {                 # the iteration's number, then the carried values
        %t = add(%s, %x)
        return %t, %s }                                         # next carried values, then one row of every list

`if` takes a bool of one element. `loop` takes (trips, condition, initial values ...), the first two may be left out;
it goes on while fewer than `count` (a constant) or `trips` iterations are made and, if it is `conditional`, the
condition holds: the operand before the first iteration (left out: true), then the first result of the region. What
each iteration gives besides is stored as a row of a tensor of `limit` rows. A loop that would go on after `limit`
iterations fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sterna.ir.graph import Graph, Node, TensorType, Value, tensor_type
from sterna.ops.operator import unfit

IF, LOOP = "if", "loop"
#: Iterations of a loop that nothing else bounds: a run ends, whatever the data is.
MOST_ITERATIONS = 2**31 - 1
NUMBER = tensor_type("int64", ())
CONDITION = tensor_type("bool", ())


@dataclass(frozen=True)
class Carried:
    """A value that a loop hands on: before the first iteration, in the body, at its end, after the last iteration."""

    initial: Value
    inside: Value
    following: Value
    result: Value


@dataclass(frozen=True)
class Row:
    """What each iteration gives, and the tensor of all of them."""

    row: Value
    result: Value


@dataclass(frozen=True)
class Loop:
    """A `loop` node, by what its operands and results are for.

    Args:
        count: the number of iterations where it is constant; trips: where it is computed. At most one is there.
        condition: before the first iteration, None for true; following_condition: what the body says.
        number: of the iteration, counted from 0, within the body.
        limit: the most iterations.
    """

    node: Node

    @property
    def body(self) -> Graph:
        return self.node.regions[0]

    @property
    def count(self) -> int | None:
        count: int | None = self.node.attributes["count"]
        return count

    @property
    def limit(self) -> int:
        limit: int = self.node.attributes["limit"]
        return limit

    @property
    def trips(self) -> Value | None:
        return self.node.inputs[0]

    @property
    def condition(self) -> Value | None:
        return self.node.inputs[1]

    @property
    def conditional(self) -> bool:
        return bool(self.node.attributes["conditional"])

    @property
    def number(self) -> Value:
        return self.body.inputs[0]

    @property
    def following_condition(self) -> Value | None:
        return self.body.outputs[0] if self.conditional else None

    @property
    def carried(self) -> tuple[Carried, ...]:
        initial = [value for value in self.node.inputs[2:] if value is not None]
        first = int(self.conditional)
        following = self.body.outputs[first : first + len(initial)]
        results = self.node.outputs[: len(initial)]
        return tuple(Carried(*parts) for parts in zip(initial, self.body.inputs[1:], following, results, strict=True))

    @property
    def rows(self) -> tuple[Row, ...]:
        count = len(self.body.inputs) - 1
        rows = self.body.outputs[count + self.conditional :]
        return tuple(Row(row, result) for row, result in zip(rows, self.node.outputs[count:], strict=True))


def branches(
    condition: Value, regions: tuple[Graph, Graph], results: Sequence[Value], sources: tuple[str, ...], name: str
) -> Node:
    """An `if` node: the first region where the condition holds, the second where not."""
    return Node(IF, (condition,), tuple(results), {}, sources, name, regions)


def loop(
    body: Graph,
    initial: Sequence[Value],
    results: Sequence[Value],
    *,
    sources: tuple[str, ...],
    name: str,
    limit: int,
    count: int | None = None,
    trips: Value | None = None,
    condition: Value | None = None,
    conditional: bool = False,
) -> Node:
    """A `loop` node; the arguments are those of `Loop`.

    Raises:
        SternaError: E0108, the body does not carry on what it is given.
    """
    attributes = {"count": count, "limit": limit, "conditional": conditional}
    node = Node(LOOP, (trips, condition, *initial), tuple(results), attributes, sources, name, (body,))
    control_types(node)
    return node


def control_types(node: Node) -> tuple[TensorType, ...]:
    """The types of a control node's results, by its regions.

    Raises:
        SternaError: E0108, its operands, attributes and regions do not go together.
    """
    if node.op == IF:
        (condition,) = (value.type for value in node.operands)
        then, otherwise = (tuple(value.type for value in region.outputs) for region in node.regions)
        if condition.dtype != "bool" or condition.elements != 1 or then != otherwise:
            raise unfit(f"if {condition} gives {_listed(then)} or {_listed(otherwise)}")
        return then
    return _loop_types(node, node.attributes)


def _loop_types(node: Node, attributes: Mapping[str, Any]) -> tuple[TensorType, ...]:
    (body,) = node.regions
    trips, condition = (None if value is None else value.type for value in node.inputs[:2])
    initial = tuple(value.type for value in node.inputs[2:] if value is not None)
    inside = tuple(value.type for value in body.inputs)
    made = [value.type for value in body.outputs]
    count, limit, conditional = attributes["count"], attributes["limit"], attributes["conditional"]
    if inside != (NUMBER, *initial):
        raise unfit(f"a body of {_listed(inside)} carries {_listed(initial)}")
    if conditional:
        test = made.pop(0)
        if test != CONDITION:
            raise unfit(f"{test} is no condition")
    if tuple(made[: len(initial)]) != initial:
        raise unfit(f"a loop that carries {_listed(initial)} makes {_listed(made)} of it")
    if trips not in (None, NUMBER) or (condition is not None and (condition != CONDITION or not conditional)):
        raise unfit(f"a loop of {trips} iterations while {condition}")
    if (
        count is not None and (trips is not None or (count > limit and not conditional))
    ) or not 0 < limit <= MOST_ITERATIONS:
        raise unfit(f"a loop of {count} and of {trips} iterations, at most {limit}")
    rows = (tensor_type(row.dtype, (limit, *row.shape)) for row in made[len(initial) :])
    return (*initial, *rows)


def _listed(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types)) or "nothing"
