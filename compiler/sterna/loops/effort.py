"""About how many instructions a loop program takes on a processor that computes one element at a time, and how many
bytes of code: what it costs to give several kernels one code is weighed by it, so only proportions matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sterna.ir import dtypes
from sterna.ir.integer import Atom, Int, Symbol
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr

#: Of a loop, each time around: counting, comparing, branching.
LOOP = 3
#: Elements that are filled at once where it is known how many there are: those of a word, for bytes.
_FILLED = 4
#: Bytes of code for each instruction that is counted; those that compilers add among them. Measured on the kernels of
#: int8 networks for Cortex-M4, by gcc: 4.2 to 5.4.
BYTES = 5
#: What another address takes that is an argument away from the others: bytes of code (35 to 80), instructions for
#: every use (3 to 7, as registers are moved to the stack for it).
ADDRESS_BYTES, ADDRESS_INSTRUCTIONS = 40, 5
#: Bytes of code for an argument, and for a call that brings some.
ARGUMENT_BYTES = 10


@dataclass(frozen=True)
class Effort:
    """What a program takes.

    Args:
        instructions: of a run; written: in its code.
        addresses: of a run, and written ones: places that are apart by more than a constant, each of which takes a
            register, or an instruction for every use.
    """

    instructions: float
    written: int
    addresses: float
    written_addresses: int


def effort(function: P.Function, vector_bits: int = 0, sizes: Mapping[Symbol, int] | None = None) -> Effort:
    """What a run of a program takes.

    Args:
        vector_bits: of the processor's vectors, 0 for none; sizes: of the program's dimensions.
    """
    count = _Count(vector_bits, {symbol: float(n) for symbol, n in (sizes or {}).items()})
    count.visit(function.body, 1.0)
    return Effort(count.instructions, count.written, count.addresses, count.written_addresses)


@dataclass(frozen=True)
class Innermost:
    """A loop without others in it; how often a run comes around it, and instructions of its body."""

    loop: P.For
    iterations: float
    written: int


def innermost(
    function: P.Function, vector_bits: int = 0, sizes: Mapping[Symbol, int] | None = None
) -> tuple[Innermost, ...]:
    """The innermost loops of a program, in its order; arguments as of `effort`."""
    count = _Count(vector_bits, {symbol: float(n) for symbol, n in (sizes or {}).items()})
    count.visit(function.body, 1.0)
    return tuple(count.innermost)


class _Count:
    def __init__(self, vector_bits: int, symbols: dict[Symbol, float]):
        self.vector_bits = vector_bits
        self.innermost: list[Innermost] = []
        #: What symbols are: those of loops half way through.
        self.symbols = symbols
        self.instructions = self.addresses = 0.0
        self.written = self.written_addresses = 0

    def visit(self, stmt: P.Stmt, times: float) -> None:
        """A statement that is run so many times."""
        seen: set[tuple[P.Buffer, Int]] = set()
        for each in P.members(stmt):
            self.one(each, times, seen)
        self.addresses += times * len(seen)
        self.written_addresses += len(seen)

    def one(self, s: P.Stmt, times: float, seen: set[tuple[P.Buffer, Int]]) -> None:
        if isinstance(s, P.For):
            first = self.at(s.start)
            trips = max(0.0, self.at(s.extent) - first)
            self.symbols[s.symbol] = first + max(0.0, trips - 1) / 2
            if _fills(s):
                trips /= _FILLED
            self.add(LOOP, times * trips)
            written, inside = self.written, len(self.innermost)
            self.visit(s.body, times * trips)
            if len(self.innermost) == inside:
                self.innermost.append(Innermost(s, times * trips, self.written - written))
            return
        if isinstance(s, P.LetIndex):
            self.symbols[s.symbol] = self.at(s.value)
        if (value := P.value_of(s)) is not None:
            self.add(sum(map(self.node, E.walk(value))), times)
        if isinstance(s, P.Store):
            self.add(self.moved(s.buffer.dtype, s.value.lanes, s.stride), times)
            seen.add((s.buffer, Int(s.index.terms, 0)))
        for load in P.own_loads(s):
            if isinstance(load.tensor, P.Buffer):
                seen.add((load.tensor, Int(load.indices[0].terms, 0)))
        if isinstance(s, P.LastTask):
            self.symbols[s.symbol] = self.at(s.index)
            times /= s.count
        for inner in s.inside():
            self.visit(inner, times)

    def add(self, instructions: int, times: float) -> None:
        self.instructions += instructions * times
        self.written += instructions

    def node(self, node: Expr) -> int:
        """Instructions of a node alone. Conversions of bytes are part of loads, constants and names of operations."""
        if isinstance(node, (E.Const, E.IndexValue, P.Read, E.Cast, E.Bitcast, P.Lane)):
            return 0
        if isinstance(node, P.Apply):
            return max(self.moved(operand.dtype, operand.lanes, 1) for operand in node.operands)
        if isinstance(node, E.Load):
            return self.moved(node.dtype, node.lanes, node.stride)
        return -(-node.lanes * dtypes.bits(node.dtype) // self.vector_bits) if self.vector_bits else node.lanes

    def moved(self, dtype: str, lanes: int, stride: int) -> int:
        """Instructions that load or store so many elements."""
        if stride not in (0, 1):
            return lanes
        return -(-lanes * dtypes.bits(dtype) // max(32, self.vector_bits))

    def at(self, index: Int) -> float:
        def value(atom: Atom) -> float:
            if isinstance(atom, Symbol) and atom in self.symbols:
                return self.symbols[atom]
            return float(atom.hi or 0)

        return float(index.evaluate(value))


def _fills(loop: P.For) -> bool:
    """Whether a loop fills so many elements in a row with one value that compilers see how many."""
    s = loop.body
    if not isinstance(s, P.Store) or not isinstance(s.value, E.Const) or not (loop.extent - loop.start).is_const:
        return False
    return s.index.coefficient(loop.symbol) == 1
