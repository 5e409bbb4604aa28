"""Running sums and their like, of rows that the threads of a group share: each combines some neighbouring elements,
they scan what they have, and each walks through its elements again.

Rows whose elements lie side by side come through shared memory, some thousand elements at a time, so that threads side
by side read and write what lies side by side; each has an odd number of them, so that they reach different banks. Short
ones come so, too, as many as there are threads, each of which has one; and so do blocks of few rows that lie side by
side. Of more of them each thread has a part of one, or all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.extremum import minimum
from sterna.ir.integer import Int
from sterna.ir.memory import BANKS, SECTOR
from sterna.loops.build import Array, product, unflatten
from sterna.loops.groups import Combine, GroupBuilder, State, carried
from sterna.te import expr as E
from sterna.te.expr import Expr

#: Elements of a row up to which one thread has it, rather than several.
SHORT = 16
#: Elements of a thread at a time, at most; an odd number.
OWN = 15
#: Elements of a part of a row, at least, where threads have parts.
PART = 8
#: Times that shared memory is filled for a row, at most: the proof that threads are apart looks at each of them.
MOST_CHUNKS = 64
#: Elements of rows that lie side by side, at most: the proof that tasks are apart compares them one by one.
MOST_COMPARED = 1 << 24
#: Rows side by side that a group has.
BESIDE = 32


@dataclass(frozen=True)
class Scan:
    """What is combined along an axis.

    Args:
        identity: of no elements; lift: of one; combine: of two runs, the earlier one first; result: the element that it
            gives.
    """

    identity: State
    lift: Callable[[Expr], State]
    combine: Combine
    result: Callable[[State], Expr]


def shared_scan(p: GroupBuilder, x: Array, y: Array, axis: int, exclusive: bool, reverse: bool, scan: Scan) -> bool:
    """Writes the program where it knows the sizes; else False."""
    if not all(n.is_const and int(n) > 0 for n in x.shape):
        return False
    extent, inner = int(x.shape[axis]), int(product(x.shape[axis + 1 :]))
    writer = _Writer(p, x, y, axis, exclusive, reverse, scan)
    if inner > 1 or extent <= SHORT:
        if int(product(x.shape)) > MOST_COMPARED:
            return False
        if not writer.blocks():
            writer.columns()
        return True
    return writer.row()


class _Writer:
    def __init__(
        self, p: GroupBuilder, x: Array, y: Array, axis: int, exclusive: bool, reverse: bool, scan: Scan
    ) -> None:
        self.p, self.x, self.y, self.axis = p, x, y, axis
        self.exclusive, self.reverse, self.scan = exclusive, reverse, scan
        self.extent = int(x.shape[axis])
        self.others = (*x.shape[:axis], *x.shape[axis + 1 :])

    def place(self, row: Int, n: Int) -> tuple[Int, ...]:
        """The coordinates of the n-th element of a row."""
        rest: Sequence[Int] = unflatten(row, self.others)
        return (*rest[: self.axis], self.forward(n), *rest[self.axis :])

    def states(self, name: str, value: State) -> Callable[[], State]:
        """Variables that hold a state; what they hold."""
        self.variables = [self.p.variable(name, each) for each in value]
        held = self.variables
        return lambda: tuple(each.value for each in held)

    def assign(self, value: State) -> None:
        for variable, each in zip(self.variables, [self.p.let(each) for each in value], strict=True):
            variable.set(each)

    def walked(self, state: Callable[[], State], element: Expr) -> Expr:
        """The result of one more element, which joins the state."""
        before = tuple(self.p.let(each) for each in state())
        after = tuple(self.p.let(each) for each in self.scan.combine(before, self.scan.lift(element)))
        for variable, each in zip(self.variables, after, strict=True):
            variable.set(each)
        return E.cast(self.scan.result(before if self.exclusive else after), self.y.dtype)

    def columns(self) -> None:
        p, rows = self.p, int(product(self.others))
        most = min(p.group.most, 8 * BESIDE)
        beside = min(BESIDE, _power_below(most), _power_above(rows))
        parts = min(most // beside, _power_below(max(1, self.extent // PART)))
        if rows >= p.group.tasks * most or parts == 1:
            parts, beside = 1, min(max(most // 2, 1), _power_above(rows))
        own = -(-self.extent // parts)
        with p.tasks(-(-rows // beside), "block") as block, p.lanes(parts * beside) as lane:
            row, first = block * beside + lane % beside, lane // beside * own
            there = p.named("row", minimum(row, rows - 1))  # behind the last row there is none
            state = self.states("part", self.scan.identity)
            if parts > 1:
                with p.below(row, rows), p.loop(own, "n") as n, p.below(first + n, self.extent):
                    element = p.at(self.x, *self.place(there, first + n))
                    self.assign(self.scan.combine(state(), self.scan.lift(element)))
                before, _ = p.scanned(state(), lane, parts * beside, beside, self.scan.identity, self.scan.combine)
                state = self.states("running", before)
            with p.below(row, rows), p.loop(own, "n") as n, p.below(first + n, self.extent):
                place = self.place(there, first + n)
                p.put(self.y, *place, value=self.walked(state, p.at(self.x, *place)))

    def blocks(self) -> bool:
        """Rows of which a few lie side by side, or that are short: whole ones pass through shared memory."""
        p, extent, kind = self.p, self.extent, carried(self.x.dtype)
        inner, outer = (int(product(n)) for n in (self.x.shape[self.axis + 1 :], self.x.shape[: self.axis]))
        if inner * dtypes.size(self.x.dtype) % SECTOR == 0 or inner >= BESIDE or extent == 1:
            return False
        block = extent * inner
        pitch = block + (inner - block) % BANKS if inner > 1 else block | 1
        room = p.group.memory.bytes // 2 // (pitch * dtypes.size(kind))
        many = min(p.group.most // 2 // inner, room, outer)
        if 2 * many * inner < min(BESIDE, p.group.most // 2, outer * inner):
            return False
        threads = many * inner
        with p.tasks(-(-outer // many), "block") as task, p.lanes(threads) as lane:
            stage = p.shared("elements", kind, (many * pitch,))

            def elements(move: Callable[[Int, Sequence[Int]], None]) -> None:
                """Moves what lies side by side of the rows of a task."""
                with p.loop(extent, "n") as n:
                    at = n * threads + lane
                    own, rest = at // block, at % block
                    with p.below(task * many + own, outer):
                        first = p.named("first", minimum(task * many + own, outer - 1))
                        move(own * pitch + rest, self.place(first * inner + rest % inner, self.forward(rest // inner)))

            elements(lambda at, place: p.put(stage, at, value=E.cast(p.at(self.x, *place), kind)))
            state = self.states("running", self.scan.identity)
            with p.below(task * many + lane // inner, outer), p.loop(extent, "n") as n:
                at = lane // inner * pitch + self.forward(n) * inner + lane % inner
                element = E.cast(p.at(stage, at), self.x.dtype)
                p.put(stage, at, value=E.cast(self.walked(state, element), kind))
            elements(lambda at, place: p.put(self.y, *place, value=E.cast(p.at(stage, at), self.y.dtype)))
        return True

    def forward(self, n: Int) -> Int:
        """The n-th position of a row in the order of memory."""
        return self.extent - 1 - n if self.reverse else n

    def row(self) -> bool:
        p, extent, kind = self.p, self.extent, carried(self.x.dtype)
        threads = min(p.group.most, max(BESIDE, _power_below(extent // 4)))
        fits = p.group.memory.bytes // 2 // (threads * max(dtypes.size(kind), 4))
        own = min(OWN, fits - 1 + fits % 2, -(-extent // threads) // 2 * 2 + 1)
        chunk = threads * own
        chunks = -(-extent // chunk)
        if own < 1 or chunks > MOST_CHUNKS:
            return False
        with p.tasks(product(self.others), "row") as row, p.lanes(threads) as lane:
            stage = p.shared("elements", kind, (chunk,))
            carry = [p.variable("carry", each) for each in self.scan.identity]
            with p.loop(chunks, "chunk") as c:
                with p.loop(own, "n") as n, p.below(c * chunk + n * threads + lane, extent):
                    element = p.at(self.x, *self.place(row, c * chunk + n * threads + lane))
                    p.put(stage, n * threads + lane, value=E.cast(element, kind))
                state = self.states("part", self.scan.identity)
                with p.loop(own, "n") as n, p.below(c * chunk + lane * own + n, extent):
                    element = E.cast(p.at(stage, lane * own + n), self.x.dtype)
                    self.assign(self.scan.combine(state(), self.scan.lift(element)))
                before, total = p.scanned(state(), lane, threads, 1, self.scan.identity, self.scan.combine)
                carried_on = tuple(each.value for each in carry)
                state = self.states("running", self.scan.combine(carried_on, before))
                with p.loop(own, "n") as n, p.below(c * chunk + lane * own + n, extent):
                    element = E.cast(p.at(stage, lane * own + n), self.x.dtype)
                    p.put(stage, lane * own + n, value=E.cast(self.walked(state, element), kind))
                with p.loop(own, "n") as n, p.below(c * chunk + n * threads + lane, extent):
                    value = E.cast(p.at(stage, n * threads + lane), self.y.dtype)
                    p.put(self.y, *self.place(row, c * chunk + n * threads + lane), value=value)
                for variable, each in zip(carry, [p.let(v) for v in self.scan.combine(carried_on, total)], strict=True):
                    variable.set(each)
        return True


def _power_above(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _power_below(n: int) -> int:
    return 1 << max(1, n).bit_length() - 1
