"""The order in which a bundle runs: kernel calls one after another, and control over ranges of them.

A region's calls stand where its node stands. What a loop carries lies in one place: before the loop its initial value
is copied there, at the end of the body the next one. Where the memory plan finds that a value can be made right there,
the copy is dropped, so that a loop copies no state that it computes in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sterna.escape import terminal
from sterna.ir.graph import Graph, Names, Node, Value, constant
from sterna.ops.control import CONDITION, IF, Loop
from sterna.passes.fuse import Group
from sterna.passes.kernels import Call, Formed, calls_of, copy_call, row_call
from sterna.passes.views import Views
from sterna.te.layout import most_elements


@dataclass(frozen=True)
class Choice:
    """Calls first to middle - 1 run where the condition (a bool in memory) holds, middle to last - 1 where not."""

    name: str
    condition: Value
    first: int
    middle: int
    last: int


@dataclass(frozen=True)
class Repeat:
    """Calls first to last - 1 run again and again.

    Args:
        count: the number of iterations, if it is constant; trips: where in memory it stands, an int64, if it does.
            Where neither is there, the condition alone ends the loop.
        condition: a bool in memory that is read before each iteration.
        number: where the iteration's number is to be written, an int64.
        limit: iterations after which one more is a failure.
    """

    name: str
    first: int
    last: int
    count: int | None
    trips: Value | None
    condition: Value | None
    number: Value | None
    limit: int


Control = Choice | Repeat


@dataclass(frozen=True)
class Transfer:
    """A copy of a value's buffer between places, which stands before the call of that number, or behind the last."""

    before: int
    value: Value
    source: str
    destination: str


@dataclass(frozen=True)
class Placement:
    """Where calls run, and buffers are (`passes.placement`).

    Args:
        places: of the calls; transfers: copies, in order.
        homes: of buffers by root, where those are after a run that are not on the CPU.
        states: where each state is kept from run to run.
    """

    places: tuple[str, ...]
    transfers: tuple[Transfer, ...]
    homes: Mapping[Value, str]
    states: tuple[str, ...]


@dataclass(frozen=True)
class CallSequence:
    """Calls in order, and the control over them: outer before inner, and else by their first calls.

    Args:
        placement: over the places of a target with a device.
    """

    calls: tuple[Call, ...]
    control: tuple[Control, ...] = ()
    placement: Placement | None = None

    def without(self, dropped: Callable[[Call], bool]) -> CallSequence:
        """The sequence without some of the calls; control over none goes too."""
        return self.replaced(lambda call: () if dropped(call) else (call,))

    def replaced(self, change: Callable[[Call], tuple[Call, ...]]) -> CallSequence:
        """The sequence with other calls in place of each; control over none goes too."""
        made = [change(call) for call in self.calls]
        place = [0, *np.cumsum([len(calls) for calls in made], dtype=int).tolist()]
        moved: list[Control] = []
        for control in self.control:
            first, last = place[control.first], place[control.last]
            if first == last:
                continue
            if isinstance(control, Choice):
                moved.append(replace(control, first=first, middle=place[control.middle], last=last))
            else:
                moved.append(replace(control, first=first, last=last))
        return CallSequence(tuple(call for calls in made for call in calls), tuple(moved))


def print_sequence(sequence: CallSequence) -> str:
    """One line per call, indented by the control over it."""
    lines: list[str] = []
    open_: list[Control] = []
    waiting = list(sequence.control)
    for n, call in enumerate(sequence.calls):
        while open_ and open_[-1].last <= n:
            open_.pop()
        while waiting and waiting[0].first == n:
            control = waiting.pop(0)
            what = f"if %{control.condition.name}" if isinstance(control, Choice) else _repeat_text(control)
            lines.append("  " * len(open_) + what)
            open_.append(control)
        for depth, control in enumerate(open_):
            if isinstance(control, Choice) and control.middle == n:
                lines.append("  " * depth + "else")
        lines.append("  " * len(open_) + f"{call.name}: {call.kernel.name} <- {', '.join(call.sources)}")
    return "\n".join(map(terminal, lines)) + "\n"


def _repeat_text(control: Repeat) -> str:
    count = f"{control.count} times" if control.trips is None else f"%{control.trips.name} times"
    parts = [] if control.count is None and control.trips is None else [count]
    parts += [] if control.condition is None else [f"while %{control.condition.name}"]
    return f"repeat {', '.join(parts)}, at most {control.limit}"


def linearize(graph: Graph, views: Views, groups: Mapping[Graph, tuple[Group, ...]]) -> CallSequence:
    """The calls of an optimized graph and of its regions, in the order in which they run.

    Args:
        groups: the nodes of each kernel, of the graph and of every region.
    """
    lowering = _Lowering(graph, views, groups)
    lowering.graph(graph)
    for value, state in zip(graph.live_out, graph.live_in, strict=True):
        lowering.assign(value, state, ())
    return CallSequence(tuple(lowering.calls), tuple(control for control in lowering.control if control is not None))


class _Lowering:
    def __init__(self, graph: Graph, views: Views, groups: Mapping[Graph, tuple[Group, ...]]):
        self.views, self.groups = views, groups
        self.calls: list[Call] = []
        self.formed: dict[str, Formed] = {}
        self.control: list[Control | None] = []
        self.names = Names(_all_names(graph))

    def graph(self, graph: Graph) -> None:
        for group in self.groups[graph]:
            (node, *_rest) = group.nodes
            if not node.regions:
                self.calls += calls_of(group, self.views, self.formed)
            elif node.op == IF:
                self.choice(node)
            else:
                self.repeat(Loop(node))

    def choice(self, node: Node) -> None:
        (condition,) = node.operands
        read = self.readable(condition, node.sources)
        place, first = self.begin()
        ends = []
        for region in node.regions:
            self.graph(region)
            for value, result in zip(region.outputs, node.outputs, strict=True):
                self.assign(value, result, node.sources)
            ends.append(len(self.calls))
        if first < ends[1]:
            self.control[place] = Choice(node.name, read, first, ends[0], ends[1])

    def repeat(self, loop: Loop) -> None:
        sources = loop.node.sources
        for parts in loop.carried:
            self.assign(parts.initial, parts.result, sources)
        state = None
        if loop.conditional:
            state = Value(self.names.fresh(f"{loop.node.name}/condition"), CONDITION)
            true = constant(f"{state.name}/true", np.array(True))
            self.assign(true if loop.condition is None else loop.condition, state, sources)
        trips = None if loop.trips is None else self.readable(loop.trips, sources)
        place, first = self.begin()
        self.graph(loop.body)
        for row in loop.rows:
            if row.row.type.elements != 0:
                self.calls.append(row_call(row.row, loop.number, row.result, sources, self.views))
        self.carry(loop, state)
        if first < len(self.calls):
            self.control[place] = Repeat(
                loop.node.name,
                first,
                len(self.calls),
                loop.count,
                trips,
                state,
                loop.number if self.reads(loop.number, first) else None,
                loop.limit,
            )

    def carry(self, loop: Loop, state: Value | None) -> None:
        """Hands everything to the next iteration, as if all at once: what another copy overwrites is saved first."""
        pairs = [(parts.following, parts.result) for parts in loop.carried if parts.following is not parts.inside]
        if state is not None and loop.following_condition is not None:
            pairs.append((loop.following_condition, state))
        places = {self.views.storage(result).root for _, result in pairs}
        saved: dict[Value, Value] = {}
        for value, _ in pairs:
            if not value.is_constant and self.views.storage(value).root in places and value not in saved:
                saved[value] = Value(self.names.fresh(f"{value.name}/saved"), value.type)
                self.calls.append(copy_call(value, saved[value], loop.node.sources, self.views))
        for value, result in pairs:
            self.assign(saved.get(value, value), result, loop.node.sources)

    def begin(self) -> tuple[int, int]:
        """A place for a control among the others, and the number of its first call."""
        self.control.append(None)
        return len(self.control) - 1, len(self.calls)

    def assign(self, value: Value, place: Value, sources: tuple[str, ...]) -> None:
        if most_elements(value.shape) > 0:
            self.calls.append(copy_call(value, place, sources, self.views, assigns=True))

    def readable(self, value: Value, sources: tuple[str, ...]) -> Value:
        """A value of one element that stands at the beginning of memory of its own."""
        if not value.is_constant and self.views.storage(value).root is value:
            return value
        copy = Value(self.names.fresh(f"{value.name}/read"), value.type)
        self.calls.append(copy_call(value, copy, sources, self.views))
        return copy

    def reads(self, value: Value, first: int) -> bool:
        return any(self.views.storage(v).root is value for call in self.calls[first:] for v in call.inputs)


def _all_names(graph: Graph) -> list[str]:
    names = [value.name for value in graph.values()]
    for node in graph.nodes:
        for region in node.regions:
            names += _all_names(region)
    return names


__all__ = ["CallSequence", "Choice", "Control", "Repeat", "linearize"]
