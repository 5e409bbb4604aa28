"""Proves that a loop program stays within its buffers and within its own rules."""

from __future__ import annotations

from sterna.errors import Diagnostic, SternaError
from sterna.ir.integer import Int
from sterna.loops import program as P


def verify(function: P.Function) -> P.Function:
    """Checks every access against the bounds of the loop variables; returns the function.

    Raises:
        SternaError: E0305, listing every access that may leave its buffer.
    """
    problems: list[str] = []

    def access(buffer: object, index: Int, lanes: int, stride: int, active: int | None) -> None:
        assert isinstance(buffer, P.Buffer)
        reach = ((lanes if active is None else active) - 1) * stride
        lo, hi = index.bounds()
        if lo is None or hi is None or lo < 0 or hi + reach >= buffer.elements:
            problems.append(
                f"{buffer.name}[{index}] reaches {lo} to {None if hi is None else hi + reach}, the buffer has {buffer.elements} elements"
            )

    def visit(stmt: P.Stmt, known: list[tuple[Int, Int]], breakable: bool = False) -> None:
        if isinstance(stmt, P.LetIndex):
            lo, hi = stmt.value.bounds()
            for index, limit in known:
                if index == stmt.value and limit.is_const:
                    hi = min(int(limit) - 1, hi) if hi is not None else int(limit) - 1
            symbol = stmt.symbol
            if (
                lo is None
                or (symbol.lo is not None and lo < symbol.lo)
                or (symbol.hi is not None and (hi is None or hi > symbol.hi))
            ):
                problems.append(f"{symbol.name} = {stmt.value} is not within its bounds {symbol.lo} to {symbol.hi}")
        if isinstance(stmt, P.For):
            extent = stmt.extent.bounds()[1]
            start = stmt.start.bounds()[0]
            if extent is None or start is None or stmt.symbol.hi is None or extent - 1 > stmt.symbol.hi or start < 0:
                problems.append(f"loop over {stmt.symbol.name} runs past its bound")
        if isinstance(stmt, P.Store):
            access(stmt.buffer, stmt.index, stmt.value.lanes, stmt.stride, stmt.active)
        if isinstance(stmt, P.Branch) and (stmt.condition.dtype != "bool" or stmt.condition.lanes != 1):
            problems.append(f"a branch on {stmt.condition.dtype} x{stmt.condition.lanes}, which is no truth value")
        if isinstance(stmt, P.Break) and not breakable:
            problems.append("it leaves a loop where there is none to leave")
        for load in P.own_loads(stmt):
            access(load.tensor, load.indices[0], load.lanes, load.stride, load.active)
        if isinstance(stmt, P.If):
            visit(stmt.then, [*known, (stmt.index, stmt.limit)], breakable)
            if stmt.otherwise is not None:
                visit(stmt.otherwise, known, breakable)
            return
        inside = stmt.kind == "serial" if isinstance(stmt, P.For) else breakable
        for child in P.children(stmt):
            visit(child, known, inside)

    visit(function.body, [])
    if problems:
        raise SternaError(
            [Diagnostic("E0305", f"kernel {function.name} may leave a buffer: {p}") for p in dict.fromkeys(problems)]
        )
    return function
