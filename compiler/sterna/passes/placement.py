"""Which calls run on the device, and the copies between its memory and the CPU's that follow.

A target with a device has two places, the CPU and the device. Every buffer of the memory plan has room in both, at the
same offset, and is copied where a call wants it and its newest contents are in the other place (the rule of a cache's
coherence, followed when compiling). So the plan of memory stays one plan, whose order of calls is that of lives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from sterna.ir.graph import Graph, Value
from sterna.passes.kernels import CPU
from sterna.passes.linearize import CallSequence, Choice, Placement, Transfer
from sterna.passes.memory_plan import MemoryPlan
from sterna.passes.views import Views
from sterna.te.layout import dense_strides

#: What is copied as one: the number of a buffer's life in the plan, or the input or output that it is.
Unit = int | Value


@dataclass(frozen=True)
class _Access:
    """A buffer that a call or control touches.

    Args:
        root: the value whose memory it is then; whole: it is written, all of it, and not read.
    """

    unit: Unit
    root: Value
    whole: bool = False


class Coherence:
    """The copies that a choice of places for calls needs.

    Args:
        plan: of memory; calls of control run on the CPU, which reads conditions and counts.
    """

    def __init__(self, graph: Graph, views: Views, sequence: CallSequence, plan: MemoryPlan):
        self._graph, self._views, self._plan = graph, views, plan
        self._unit_of = {value: n for n, life in enumerate(plan.lives) for value in life.members}
        self._calls = [self._accesses(n, sequence) for n in range(len(sequence.calls))]
        self._gathered = self._of_control(sequence)
        self._states = [self._access(value) for value in graph.live_in]
        self._inputs = [self._access(value) for value in graph.arguments]
        self._outputs = [self._access(value) for value in graph.results]

    def placement(self, places: Sequence[str]) -> Placement:
        """The copies, in order, and where buffers are after a run.

        Args:
            places: of the calls.
        """
        homes = self._homes(places)
        newest: dict[Unit, set[str]] = {a.unit: {CPU} for a in self._inputs}
        newest |= {a.unit: {homes.get(a.unit, CPU)} for a in self._states}
        transfers: list[Transfer] = []

        def need(access: _Access, place: str, before: int) -> None:
            has = newest.get(access.unit)
            if has is not None and place not in has and access.root.type.elements != 0:
                transfers.append(Transfer(before, access.root, next(iter(has)), place))
                has.add(place)

        last = len(places)
        for n, (place, (reads, writes)) in enumerate(zip(places, self._calls, strict=True)):
            for access in self._gathered.get(n, ()):
                need(access, CPU, n)
            for access in (*reads, *(a for a in writes if not a.whole)):
                need(access, place, n)
            newest |= {access.unit: {place} for access in writes}
        for access in self._outputs:
            need(access, CPU, last)
        for access in self._states:
            need(access, homes.get(access.unit, CPU), last)
        where = {unit: next(iter(has)) for unit, has in newest.items() if CPU not in has}
        roots = {root: where[unit] for root, unit in self._unit_of.items() if unit in where}
        states = tuple(homes.get(access.unit, CPU) for access in self._states)
        return Placement(tuple(places), tuple(transfers), roots, states)

    def touching(self, n: int) -> set[Unit]:
        """The buffers of a call."""
        reads, writes = self._calls[n]
        return {access.unit for access in (*reads, *writes)}

    def _homes(self, places: Sequence[str]) -> Mapping[Unit, str]:
        """Where states are kept from run to run: on the device if all calls that touch them are there."""
        touched: dict[Unit, set[str]] = {}
        for place, (reads, writes) in zip(places, self._calls, strict=True):
            for access in (*reads, *writes):
                touched.setdefault(access.unit, set()).add(place)
        states = {access.unit for access in self._states}
        return {unit: next(iter(found)) for unit, found in touched.items() if len(found) == 1 and unit in states}

    def _accesses(self, n: int, sequence: CallSequence) -> tuple[tuple[_Access, ...], tuple[_Access, ...]]:
        call = sequence.calls[n]
        reads = tuple(map(self._access, call.inputs))
        read = {access.unit for access in reads}
        writes = []
        for value in call.outputs:
            place = self._views.storage(value)
            dense = place.origin == 0 and place.strides == dense_strides(value.shape)
            whole = len(call.outputs) == 1 and not call.layouts and dense and place.root.shape == value.shape
            access = self._access(value)
            writes.append(_Access(access.unit, access.root, whole and access.unit not in read))
        return reads, tuple(writes)

    def _access(self, value: Value) -> _Access:
        root = self._plan.owner(self._views.storage(value).root)
        return _Access(self._unit_of.get(root, root), root)

    def _of_control(self, sequence: CallSequence) -> dict[int, list[_Access]]:
        """For the first call of every outermost control, the buffers that it and its calls touch."""
        gathered: dict[int, list[_Access]] = {}
        first = end = 0
        for control in sequence.control:
            if control.first >= end:
                first, end = control.first, control.last
                every = [a for side in self._calls[first:end] for accesses in side for a in accesses]
                gathered.setdefault(first, []).extend(every)
            values = (
                (control.condition,)
                if isinstance(control, Choice)
                else (control.trips, control.condition, control.number)
            )
            gathered[first] += [self._access(value) for value in values if value is not None]
        return gathered


def with_transfers(graph: Graph, views: Views, sequence: CallSequence, plan: MemoryPlan) -> CallSequence:
    """Calls that have their places, with the copies that follow; the same where all are on the CPU."""
    places = [call.place for call in sequence.calls]
    if not any(place != CPU for place in places):
        return sequence
    return replace(sequence, placement=Coherence(graph, views, sequence, plan).placement(places))


def controlled(sequence: CallSequence) -> Set[int]:
    """The calls that control is over."""
    return {n for control in sequence.control for n in range(control.first, control.last)}
