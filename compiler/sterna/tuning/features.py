"""What a cost model sees of a loop program: numbers that hold for kernels of every kind and size.

As AutoTVM and Ansor describe them (T. Chen et al., Learning to Optimize Tensor Programs, 2018; L. Zheng et al., Ansor,
2020): how often each kind of operation is done, how many bytes every level of the nest touches and how often they
come again, what is written out, tails, tasks. All are logarithms.
"""

from __future__ import annotations

from math import log2, prod

from sterna.ir import dtypes
from sterna.loops import program as P
from sterna.loops.program import Function
from sterna.targets.target import Target
from sterna.te import expr as E

#: Of what the numbers mean: priors of another one are not read.
VERSION = 1
#: Loop levels, from the innermost outwards, whose extents and touched bytes are told.
LEVELS = 6


def features_of(function: Function, target: Target) -> tuple[float, ...]:
    """The features of a lowered loop program, before vectors and unrolling, always as many."""
    counts = _Counts()
    counts.add(function.body, 1.0, [], 1.0)
    totals = (
        counts.operations,
        counts.loads,
        counts.stores,
        counts.elements,
        counts.iterations,
        counts.branches,
        counts.written_out,
        float(P.most(function.n_tasks)),
        float(function.scratch_bytes),
        counts.loads / max(1.0, counts.operations),
        counts.stores / max(1.0, counts.operations),
        counts.bytes_loaded,
        counts.bytes_stored,
        float(target.vector_bits),
        float(target.l1_bytes),
        float(target.l2_bytes),
    )
    nest = [each for n in range(LEVELS) for each in (counts.nest[n] if n < len(counts.nest) else (0.0,) * 4)]
    return tuple(round(log2(1.0 + max(0.0, value)), 4) for value in (*totals, *nest))


class _Counts:
    """Sums over a loop program, in instructions: what is within a loop counts as often as it runs, a loop over the
    lanes of a vector as one."""

    def __init__(self) -> None:
        self.operations = self.loads = self.stores = self.elements = self.iterations = self.branches = 0.0
        self.written_out = self.bytes_loaded = self.bytes_stored = 0.0
        #: Of the nest in which most is done, from the innermost level outwards: (iterations, how many of them are
        #: written out, bytes that one iteration touches, how often the level runs).
        self.nest: list[tuple[float, float, float, float]] = []
        self._most = 0.0

    def add(self, stmt: P.Stmt, times: float, loops: list[P.For], lanes: float) -> None:
        """Adds a statement that runs so many times, within loops, in vectors of so many lanes."""
        if isinstance(stmt, P.For):
            extent = float(max(1, P.most(stmt.extent)))
            wide = stmt.kind in ("vectorized", "lanes")
            self.iterations += 0.0 if wide or stmt.kind == "unrolled" else times * extent
            inner = times if wide else times * extent
            self.add(stmt.body, inner, [*loops, stmt], extent if wide else lanes)
            return
        self.branches += times if isinstance(stmt, (P.If, P.Branch)) else 0.0
        if isinstance(stmt, P.Store):
            self.stores += times
            self.bytes_stored += times * lanes * dtypes.bits(stmt.buffer.dtype) / 8
        value = P.value_of(stmt)
        if value is not None:
            self._value(value, times, lanes)
            self._nest(stmt, times, loops)
        for child in P.children(stmt):
            self.add(child, times, loops, lanes)

    def _value(self, value: E.Expr, times: float, lanes: float) -> None:
        for node in E.walk(value):
            if isinstance(node, E.Load):
                self.loads += times
                self.bytes_loaded += times * lanes * dtypes.bits(node.dtype) / 8
            elif not isinstance(node, (E.Const, P.Read)):
                self.operations += times
                self.elements += times * lanes

    def _nest(self, stmt: P.Stmt, times: float, loops: list[P.For]) -> None:
        """Keeps the levels around the statement that runs most often."""
        if times <= self._most:
            return
        self._most = times
        copies = 1.0
        for loop in loops:
            copies *= max(1, P.most(loop.extent)) if loop.kind == "unrolled" else 1
        self.written_out = copies
        self.nest, runs = [], 1.0
        loads = [*P.own_loads(stmt)]
        for n in range(len(loops) - 1, -1, -1):
            extent = float(max(1, P.most(loops[n].extent)))
            runs *= extent
            touched = sum(_touched(load, loops[n:]) for load in loads)
            self.nest.append((extent, extent if loops[n].kind != "serial" else 0.0, touched, times / runs))


def _touched(load: E.Load, loops: list[P.For]) -> float:
    """Bytes that a load reads in all iterations of loops, each place once: those of loops that it depends on."""
    symbols = set().union(*(index.symbols() for index in load.indices))
    extents = (float(max(1, P.most(loop.extent))) for loop in loops if loop.symbol in symbols)
    return prod(extents) * dtypes.bits(load.dtype) / 8
