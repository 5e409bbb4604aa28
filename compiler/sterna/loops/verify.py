"""Proves that a loop program stays within its buffers and within its own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sterna.errors import Diagnostic, SternaError
from sterna.intrinsics import ANY_MEMORY
from sterna.ir.integer import Int, Symbol, as_int, of
from sterna.loops import program as P
from sterna.loops.program import Buffer, Function
from sterna.loops.prove import Range, at_least_zero, divisions, without_remainders
from sterna.te.position import Quotient

#: index < limit, where a statement is reached.
Condition = tuple[Int, Int]


def verify(function: Function) -> Function:
    """Checks every access against the bounds of the loop variables; returns the function.

    Raises:
        SternaError: E0305, listing every access that may leave its buffer; E0308, every buffer that loads and stores
            do not reach; E0309, every operand of an instruction that lies in another memory than it takes.
    """
    _check_reach(function)
    _check_memories(function)
    verifier = _Verifier()
    verifier.visit(function.body, {}, [], breakable=False)
    if verifier.problems:
        problems = dict.fromkeys(verifier.problems)
        raise SternaError([Diagnostic("E0305", f"kernel {function.name} may leave a buffer: {p}") for p in problems])
    return function


def _check_reach(function: Function) -> None:
    """Refuses loads from and stores to memories that only copies and instructions reach."""
    if all(s.buffer.scope.loadable for s in P.walk(function.body) if isinstance(s, P.Alloc)):
        return
    accesses = (
        (word, buffer)
        for s in P.walk(function.body)
        for word, buffer in (
            *(("loaded", load.tensor) for load in P.own_loads(s)),
            *((("stored", s.buffer),) if isinstance(s, P.Store) else ()),
        )
        if isinstance(buffer, Buffer) and not buffer.scope.loadable
    )
    if found := dict.fromkeys(accesses):
        titles = (f"kernel {function.name}: {b.name} is {word}, it lies in {b.scope}" for word, b in found)
        raise SternaError(Diagnostic("E0308", title) for title in titles)


def _check_memories(function: Function) -> None:
    """Refuses operands of instructions in other memories than they work on."""
    problems = []
    for s in P.walk(function.body):
        if isinstance(s, P.Instruction):
            names = [s.intrinsic.behaviour.name, *(t.name for t in s.intrinsic.inputs)]
            for name, part in zip(names, (s.result, *s.operands), strict=True):
                if isinstance(part, P.Slice) and not _lies_in(part.buffer, s.intrinsic.places[name].memory):
                    wanted = s.intrinsic.places[name].memory
                    where = f"{part.buffer.name} lies in {part.buffer.scope}"
                    title = f"kernel {function.name}: {where}, and {s.intrinsic.name} takes {name} from {wanted}"
                    fix = f"place it there: cache_read or cache_write, compute_at ... {wanted}, transfer"
                    problems.append(Diagnostic("E0309", title, (), fix))
    if problems:
        raise SternaError(problems)


def _lies_in(buffer: Buffer, memory: str) -> bool:
    scope = buffer.scope
    if memory == ANY_MEMORY:
        return scope.loadable and not (scope.is_variables or scope.is_tiles)
    return scope.name == memory


@dataclass
class _Accesses:
    """Those of one buffer in one place whose positions differ by constants: the outermost stand for all."""

    buffer: Buffer
    first: Int
    last: Int


class _Verifier:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.waiting: dict[tuple[str, Int], _Accesses] = {}

    def access(self, buffer: Buffer, index: Int, reach: int) -> None:
        lo, hi = index.bounds()
        size = _size(buffer)
        if size.is_const and lo is not None and lo >= 0 and hi is not None and hi + reach < int(size):
            return
        last = index + reach
        place = self.waiting.setdefault((buffer.name, index - index.const), _Accesses(buffer, index, last))
        if index.const < place.first.const:
            place.first = index
        if last.const > place.last.const:
            place.last = last

    def settle(self, ranges: dict[Symbol, Range], known: Sequence[Condition]) -> None:
        """Decides on the accesses that wait."""
        facts = [limit - index - 1 for index, limit in known] if self.waiting else []
        for place in self.waiting.values():
            size = _size(place.buffer)
            low = at_least_zero(place.first, ranges, facts)
            if low and at_least_zero(size - (place.last + 1), ranges, facts):
                continue
            index = place.last if low else place.first
            lo, hi = place.first.bounds()[0], place.last.bounds()[1]
            self.problems.append(f"{place.buffer.name}[{index}] reaches {lo} to {hi}, the buffer has {size} elements")
        self.waiting = {}

    def divided(self, ranges: dict[Symbol, Range], known: Sequence[Condition], *positions: Int) -> None:
        """What is divided by a size must not be negative: all that proofs know of a quotient follows from that."""
        for atom in (a for index in positions if index.expressions() for a in index.atoms()):
            if not isinstance(atom, Quotient):
                continue
            facts = [limit - index - 1 for index, limit in known if not (_divides(index) or _divides(limit))]
            if not at_least_zero(atom.dividend, ranges, facts):
                self.problems.append(f"{atom.dividend} may be negative, and is divided by {atom.divisor}")

    def visit(self, stmt: P.Stmt, ranges: dict[Symbol, Range], known: list[Condition], breakable: bool) -> None:
        """A block of statements, under conditions of its own."""
        outer, self.waiting = self.waiting, {}
        inner = dict(ranges)
        for s in stmt.stmts if isinstance(stmt, P.Seq) else (stmt,):
            self.statement(s, inner, known, breakable)
        self.settle(inner, known)
        self.waiting = outer

    def statement(self, stmt: P.Stmt, ranges: dict[Symbol, Range], known: list[Condition], breakable: bool) -> None:
        if isinstance(stmt, P.Seq):
            self.visit(stmt, ranges, known, breakable)
            return
        if isinstance(stmt, P.LetIndex):
            self.divided(ranges, known, stmt.value)
            self.settle(ranges, known)
            self.named(stmt, ranges, known)
        elif isinstance(stmt, P.For):
            self.loop(stmt, ranges, known)
            return
        elif isinstance(stmt, P.If):
            self.divided(ranges, known, stmt.index, stmt.limit)
            inside = _narrowed(ranges, stmt.index, stmt.limit)
            self.visit(stmt.then, inside, [*known, (stmt.index, stmt.limit)], breakable)
            if stmt.otherwise is not None:
                self.visit(stmt.otherwise, ranges, [*known, (stmt.limit - 1, stmt.index)], breakable)
            return
        elif isinstance(stmt, P.Store):
            last = P.reach(stmt.value.lanes, stmt.stride, stmt.active, stmt.rows, stmt.pitch)
            self.divided(ranges, known, stmt.index)
            self.access(stmt.buffer, stmt.index, last)
        elif isinstance(stmt, P.Copy):
            if stmt.destination.dtype != stmt.source.dtype:
                self.problems.append(f"a copy from {stmt.source.dtype} to {stmt.destination.dtype}")
            self.divided(ranges, known, stmt.to, stmt.at)
            self.access(stmt.destination, stmt.to, stmt.elements - 1)
            self.access(stmt.source, stmt.at, stmt.elements - 1)
        elif isinstance(stmt, P.Prefetch):
            self.access(stmt.buffer, stmt.index, 0)
        elif isinstance(stmt, P.Instruction):
            for part in (stmt.result, *stmt.slices):
                self.divided(ranges, known, part.start)
                least, greatest = part.ends
                self.access(part.buffer, part.start + least, greatest - least)
        elif isinstance(stmt, P.LastTask):
            self.divided(ranges, known, stmt.index)
            self.access(stmt.counters, stmt.index, 0)
            self.settle(ranges, known)
            self.named(P.LetIndex(stmt.symbol, stmt.index), ranges, known)
        elif isinstance(stmt, P.Branch) and (stmt.condition.dtype != "bool" or stmt.condition.lanes != 1):
            kind = f"{stmt.condition.dtype} x{stmt.condition.lanes}"
            self.problems.append(f"a branch on {kind}, which is no truth value")
        elif isinstance(stmt, P.Break) and not breakable:
            self.problems.append("it leaves a loop where there is none to leave")
        for load in P.own_loads(stmt):
            assert isinstance(load.tensor, Buffer)
            last = P.reach(load.lanes, load.stride, load.active, load.rows, load.pitch)
            self.divided(ranges, known, load.indices[0])
            self.access(load.tensor, load.indices[0], last)
        for child in P.children(stmt):
            self.visit(child, ranges, known, breakable)

    def named(self, stmt: P.LetIndex, ranges: dict[Symbol, Range], known: list[Condition]) -> None:
        """A name's bounds must hold: by those of its value, or because an enclosing `If` says so."""
        symbol, (lo, hi) = stmt.symbol, stmt.value.bounds()
        least, greatest = stmt.value, stmt.value
        for index, limit in known:
            # index < limit, so value <= value + limit - 1 - index: that says more where divisions cancel.
            end = without_remainders(stmt.value + (limit - 1 - index))
            if index == stmt.value or divisions(end) < divisions(without_remainders(greatest)):
                least, greatest = stmt.value if lo is None or lo < 0 else as_int(lo), end
                most = end.bounds()[1]
                hi = most if most is not None and (hi is None or most < hi) else hi
        facts = [limit - index - 1 for index, limit in known]
        low = symbol.lo is None or (lo is not None and lo >= symbol.lo)
        high = symbol.hi is None or (hi is not None and hi <= symbol.hi)
        low = low or (symbol.lo is not None and at_least_zero(stmt.value - symbol.lo, ranges, facts))
        high = high or (symbol.hi is not None and at_least_zero(-stmt.value + symbol.hi, ranges, facts))
        if not low or not high:
            self.problems.append(f"{symbol.name} = {stmt.value} is not within its bounds {symbol.lo} to {symbol.hi}")
        ranges[symbol] = Range(least, greatest)

    def loop(self, stmt: P.For, ranges: dict[Symbol, Range], known: list[Condition]) -> None:
        self.divided(ranges, known, stmt.start, stmt.extent)
        end, start = stmt.extent.bounds()[1], stmt.start.bounds()[0]
        hi = stmt.symbol.hi
        if end is None or start is None or start < 0 or hi is None or end - 1 > hi:
            self.problems.append(f"loop over {stmt.symbol.name} runs past its bound")
        inside = {**ranges, stmt.symbol: Range(stmt.start, stmt.extent - 1)}
        self.visit(stmt.body, inside, known, breakable=stmt.kind == "serial")


def _narrowed(ranges: dict[Symbol, Range], index: Int, limit: Int) -> dict[Symbol, Range]:
    """The ranges where index < limit, a sum of multiples of loops' variables and a number: each variable ends where it
    does if the others are least, rounded down, which the condition alone does not say."""
    if not limit.is_const:
        return ranges
    found = dict(ranges)
    for symbol in index.symbols():
        step = index.coefficient(symbol) if symbol in ranges else None
        most = None if step is None else (limit - 1 - (index - of(symbol) * step)).bounds()[1]
        if step is None or step < 1 or most is None:
            continue
        whole, greatest = ranges[symbol], as_int(most // step)
        cut = (whole.greatest - greatest).bounds()[0]
        if whole.least != whole.greatest and cut is not None and cut >= 1:
            found[symbol] = Range(whole.least, greatest)
    return found


def _size(buffer: Buffer) -> Int:
    return as_int(buffer.elements) if buffer.size is None else buffer.size


def _divides(index: Int) -> bool:
    return any(isinstance(a, Quotient) for a in index.atoms())
