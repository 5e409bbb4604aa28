"""Proves that a loop program stays within its buffers and within its own rules."""

from __future__ import annotations

from collections.abc import Sequence

from sterna.errors import Diagnostic, SternaError
from sterna.ir.integer import ZERO, FloorDiv, Int, Symbol, as_int
from sterna.loops import program as P
from sterna.loops.program import Buffer, Function
from sterna.loops.prove import Range, at_least_zero, without_remainders

#: index < limit, where a statement is reached.
Condition = tuple[Int, Int]


def verify(function: Function) -> Function:
    """Checks every access against the bounds of the loop variables; returns the function.

    Raises:
        SternaError: E0305, listing every access that may leave its buffer.
    """
    verifier = _Verifier()
    verifier.visit(function.body, {}, [], breakable=False)
    if verifier.problems:
        problems = dict.fromkeys(verifier.problems)
        raise SternaError([Diagnostic("E0305", f"kernel {function.name} may leave a buffer: {p}") for p in problems])
    return function


class _Verifier:
    def __init__(self) -> None:
        self.problems: list[str] = []

    def access(
        self, buffer: Buffer, index: Int, reach: int, ranges: dict[Symbol, Range], known: Sequence[Condition]
    ) -> None:
        lo, hi = index.bounds()
        size = as_int(buffer.elements) if buffer.size is None else buffer.size
        if size.is_const and lo is not None and lo >= 0 and hi is not None and hi + reach < int(size):
            return
        facts = [limit - index - 1 for index, limit in known]
        if at_least_zero(index, ranges, facts) and at_least_zero(size - (index + reach + 1), ranges, facts):
            return
        end = None if hi is None else hi + reach
        self.problems.append(f"{buffer.name}[{index}] reaches {lo} to {end}, the buffer has {size} elements")

    def visit(self, stmt: P.Stmt, ranges: dict[Symbol, Range], known: list[Condition], breakable: bool) -> None:
        if isinstance(stmt, P.Seq):
            inner = dict(ranges)
            for s in stmt.stmts:
                self.visit(s, inner, known, breakable)
            return
        if isinstance(stmt, P.LetIndex):
            self.named(stmt, ranges, known)
        elif isinstance(stmt, P.For):
            self.loop(stmt, ranges, known)
            return
        elif isinstance(stmt, P.If):
            self.visit(stmt.then, dict(ranges), [*known, (stmt.index, stmt.limit)], breakable)
            if stmt.otherwise is not None:
                self.visit(stmt.otherwise, dict(ranges), [*known, (stmt.limit - 1, stmt.index)], breakable)
            return
        elif isinstance(stmt, P.Store):
            reach = (stmt.value.lanes if stmt.active is None else stmt.active) - 1
            self.access(stmt.buffer, stmt.index, reach * stmt.stride, ranges, known)
        elif isinstance(stmt, P.Branch) and (stmt.condition.dtype != "bool" or stmt.condition.lanes != 1):
            kind = f"{stmt.condition.dtype} x{stmt.condition.lanes}"
            self.problems.append(f"a branch on {kind}, which is no truth value")
        elif isinstance(stmt, P.Break) and not breakable:
            self.problems.append("it leaves a loop where there is none to leave")
        for load in P.own_loads(stmt):
            assert isinstance(load.tensor, Buffer)
            reach = (load.lanes if load.active is None else load.active) - 1
            self.access(load.tensor, load.indices[0], reach * load.stride, ranges, known)
        for child in P.children(stmt):
            self.visit(child, dict(ranges), known, breakable)

    def named(self, stmt: P.LetIndex, ranges: dict[Symbol, Range], known: list[Condition]) -> None:
        """A name's bounds must hold: by those of its value, or because an enclosing `If` says so."""
        symbol, (lo, hi) = stmt.symbol, stmt.value.bounds()
        least, greatest = stmt.value, stmt.value
        for index, limit in known:
            # index < limit, so value <= value + limit - 1 - index: that says more where divisions cancel.
            end = without_remainders(stmt.value + (limit - 1 - index))
            if index == stmt.value or _divisions(end) <= _divisions(without_remainders(greatest)):
                least, greatest = ZERO if lo is None else as_int(lo), end
                most = end.bounds()[1]
                hi = most if most is not None and (hi is None or most < hi) else hi
        low = symbol.lo is None or (lo is not None and lo >= symbol.lo)
        high = symbol.hi is None or (hi is not None and hi <= symbol.hi)
        if not low or not high:
            self.problems.append(f"{symbol.name} = {stmt.value} is not within its bounds {symbol.lo} to {symbol.hi}")
        ranges[symbol] = Range(least, greatest)

    def loop(self, stmt: P.For, ranges: dict[Symbol, Range], known: list[Condition]) -> None:
        end, start = stmt.extent.bounds()[1], stmt.start.bounds()[0]
        hi = stmt.symbol.hi
        if end is None or start is None or start < 0 or hi is None or end - 1 > hi:
            self.problems.append(f"loop over {stmt.symbol.name} runs past its bound")
        inside = {**ranges, stmt.symbol: Range(stmt.start, stmt.extent - 1)}
        self.visit(stmt.body, inside, known, breakable=stmt.kind == "serial")


def _divisions(value: Int) -> int:
    return sum(isinstance(atom, FloorDiv) for atom in value.atoms())
