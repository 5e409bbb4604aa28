"""Loops whose iterations are alike for who asks which elements threads touch: all of them, or those that take the same
slot of a ring (`loops.pipelines`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from sterna.ir.integer import Atom, Int, Symbol, of
from sterna.loops import program as P
from sterna.loops.program import Buffer
from sterna.loops.residues import turns, turns_of


class Alike:
    """Compares the iterations of the loops of a task.

    Args:
        written: what the task writes; exchanging: its statements with exchanges.
    """

    def __init__(self, written: Set[Buffer], exchanging: Set[P.Stmt]):
        self.written, self.exchanging = written, exchanging
        #: Conditions that iterations answer each in their own way, and which let none wait: any may take either side.
        self.either: set[P.If] = set()

    def slots(self, s: P.For) -> int:
        """How many slots iterations take in turn, those of the same slot alike; 0 where there are none."""
        found = turns_of(index for inner in P.walk(s.body) for index in P.positions(inner))
        rings = [many for symbol, many in found if symbol == s.symbol]
        if not rings and any(_ends(inner, s.symbol) is not None for inner in P.walk(s.body)):
            rings = [1]  # alike but for what the last ones leave out
        return next((many for many in rings if all(self.is_alike(s, turn) for turn in turns(s.symbol, many))), 0)

    def last(self, s: P.For, extent: int) -> int:
        """Before which iteration all conditions on the loop's number hold."""
        ends = (_ends(inner, s.symbol) for inner in P.walk(s.body))
        return min((int(end) for end in ends if end is not None), default=extent)

    def is_alike(self, s: P.For, turn: Mapping[Atom, Int] | None = None) -> bool:
        """Whether every iteration of a loop reaches the same statements and touches the same elements of all that the
        task writes; copies that go on into later iterations may be waited for in any of them, and none does where the
        loop waits for all that it begins.

        Args:
            turn: what the loop's number is of the iterations that are compared, as far as conditions on it hold; all.
        """
        values = turn or {s.symbol: of(s.symbol)}
        moving = {symbol for value in values.values() for symbol in value.symbols()}
        waited = [inner.group for inner in P.walk(s.body) if isinstance(inner, P.Wait)]
        begun = [inner.group for inner in P.walk(s.body) if isinstance(inner, P.Copy) and inner.asynchronous]
        if {*waited} != {*begun}:
            return False
        for inner in P.walk(s.body):
            if not any(moving & index.substitute(values).symbols() for index in P.positions(inner)):
                continue
            if isinstance(inner, P.LetIndex):
                moving.add(inner.symbol)
            elif isinstance(inner, P.If) and (self.is_private(inner) or (turn and _ends(inner, s.symbol) is not None)):
                continue
            elif isinstance(inner, P.If) and _has_two_sides(inner):
                self.either.add(inner)
            elif not isinstance(inner, (P.Store, P.Let, P.Assign, P.Copy)) or not self.only_reads(
                inner, moving, values
            ):
                return False
        return True

    def is_private(self, s: P.Stmt) -> bool:
        """Whether a statement neither touches what threads share and write, nor lets them wait for each other."""
        for inner in P.walk(s):
            buffer = P.written(inner)
            touched = [load.tensor for load in P.own_loads(inner)] + ([] if buffer is None else [buffer])
            written = [each for each in touched if isinstance(each, Buffer) and each in self.written]
            shared = any(not each.scope.private for each in written)
            waits = isinstance(inner, (P.Barrier, P.Commit, P.Wait, P.Settle, P.Copy, P.Tiles))
            if shared or inner in self.exchanging or waits:
                return False
        return True

    def only_reads(self, s: P.Stmt, moving: Set[Symbol], values: Mapping[Atom, Int]) -> bool:
        """Whether a statement has such symbols only where it reads what the task never writes."""

        def moves(indices: Iterable[Int]) -> bool:
            return any(moving & index.substitute(values).symbols() for index in indices)

        if isinstance(s, P.Copy):
            return not moves([s.to]) and s.source not in self.written
        if moves(P.positions_of(s)):
            return False
        read = (load for load in P.own_loads(s) if moves(load.indices))
        return not any(load.tensor in self.written for load in read)


def _ends(s: P.Stmt, number: Symbol) -> Int | None:
    """Of a condition on the number of an iteration, which has one side, the first for which it does not hold."""
    if not isinstance(s, P.If) or s.otherwise is not None:
        return None
    end = s.limit - (s.index - of(number))
    return end if end.is_const else None


def _has_two_sides(s: P.If) -> bool:
    """Whether one side of a condition takes the place of the other, as zeros that of a copy, and none waits."""
    waiting = (P.Barrier, P.Commit, P.Wait, P.Settle, P.Tiles)
    return s.otherwise is not None and not any(isinstance(inner, waiting) for inner in P.walk(s))


def synchronizes(s: P.Stmt) -> bool:
    """Whether threads wait in a statement, for each other or for what they have begun, or begin what they wait for."""
    return any(
        isinstance(inner, (P.Barrier, P.Commit, P.Wait, P.Settle)) or (isinstance(inner, P.Copy) and inner.asynchronous)
        for inner in P.walk(s)
    )


def events(s: P.Stmt) -> int:
    """The statements of a walk through a loop's body; threads are walked together."""
    inside = sum(map(events, P.children(s)))
    if isinstance(s, P.For) and s.kind not in P.THREADS and s.extent.is_const and s.start.is_const:
        inside *= max(0, int(s.extent) - int(s.start)) if synchronizes(s.body) else 1
    return 1 + inside
