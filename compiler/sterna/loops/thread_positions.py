"""Where the threads of a loop program are, for many of them at once: positions, values that positions decide, and what
each statement touches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.integer import Atom, Int, Symbol
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.operations import operation
from sterna.te.position import IndexAtom

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Where:
    """What surrounds a statement, by (sample, thread).

    Args:
        symbols: of loops and named positions; values: of variables, None where data decide.
        active: which threads run the statement.
        times: how often each sample stands for.
    """

    symbols: dict[Atom, Array]
    values: dict[P.Variable, Array | None]
    active: Array
    times: Array


class ThreadPositions:
    """The threads of a loop program.

    Attributes:
        tasks: how many there are; grouped: whether each is run by several threads. Otherwise neighbouring tasks are
            run by neighbouring threads of a group.
        groups, threads: how many groups of threads run it, and how many threads are in each.
        number: of every thread of a group along each axis of threads.
    """

    def __init__(self, function: P.Function, subgroup: int):
        self.function, self.subgroup = function, subgroup
        self.counts = P.thread_counts(function.body)
        self.tasks = max(1, P.most(function.n_tasks))
        self.grouped = any(isinstance(s, P.For) and s.kind in P.THREADS for s in P.walk(function.body))
        # Where each thread runs a task of its own, neighbours in a subgroup run neighbouring tasks.
        self.threads = prod(self.counts.values()) if self.grouped else min(subgroup, self.tasks)
        self.groups = self.tasks if self.grouped else ceil(self.tasks / self.threads)
        linear = np.arange(self.threads)
        self.number: dict[str, Array] = {}
        for axis, extent in self.counts.items():
            self.number[axis], linear = linear % extent, linear // extent

    # -- positions and values
    def position(self, index: Int, where: Where) -> Array:
        return np.asarray(index.evaluate(lambda atom: self._atom(atom, where)))

    def _atom(self, atom: Atom, where: Where) -> Any:
        if isinstance(atom, Symbol):
            return where.symbols[atom]
        assert isinstance(atom, IndexAtom)
        known = self.value(atom.value, where)
        if known is not None:
            return known.astype(np.int64)
        # Whatever data make of it: the same for the same positions, and anywhere within its bounds.
        lo, hi = atom.lo or 0, atom.hi if atom.hi is not None else atom.lo or 0
        mixed: Array = np.asarray(0, np.uint64)
        for part in _parts(atom.value):
            mixed = (mixed + self.position(part, where).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        return lo + ((mixed >> np.uint64(33)) % np.uint64(hi - lo + 1)).astype(np.int64)

    def value(self, e: E.Expr, where: Where) -> Array | None:
        """A scalar that positions decide; None where data do, or of vectors."""
        if isinstance(e, E.Const) and e.lanes == 1:
            return np.asarray(e.value, dtypes.to_numpy(e.dtype))
        if isinstance(e, E.IndexValue) and e.lanes == 1:
            return self.position(e.index, where).astype(dtypes.to_numpy(e.dtype))
        if isinstance(e, P.Read):
            return where.values.get(e.variable)
        if e.lanes != 1 or isinstance(e, (E.Load, P.Lane, P.Apply, P.Shuffle, P.Blend, P.Assemble, P.Broadcast)):
            return None
        operands = [self.value(child, where) for child in e.children()]
        known = [each for each in operands if each is not None]
        if len(known) < len(operands):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(operation(e, known)).astype(dtypes.to_numpy(e.dtype))


def is_shared(buffer: P.Buffer) -> bool:
    """Whether the threads of a group have it in a memory of their own; scratch lies in the device's."""
    return buffer.scope.reach == "block" and not buffer.scope.in_scratch


def is_far(buffer: P.Buffer) -> bool:
    """Whether it lies in the device's memory."""
    return not buffer.scope.private and not is_shared(buffer)


#: What reads or writes.
Access = E.Load | P.Store | P.Copy | P.Instruction


def touches(stmt: P.Stmt) -> Iterator[tuple[P.Buffer, Int, Array, Access]]:
    """What a statement itself reads and writes: a buffer, a position, elements from there, and what does it."""
    for load in P.own_loads(stmt):
        assert isinstance(load.tensor, P.Buffer)
        yield load.tensor, load.indices[0], _offsets(load, load.lanes), load
    if isinstance(stmt, P.Store):
        yield stmt.buffer, stmt.index, _offsets(stmt, stmt.value.lanes), stmt
    elif isinstance(stmt, P.Copy):
        run = np.arange(stmt.elements)
        yield stmt.source, stmt.at, run, stmt
        yield stmt.destination, stmt.to, run, stmt
    elif isinstance(stmt, P.Instruction):
        for place in (stmt.result, *stmt.slices):
            runs = [int(at - place.start) + step * np.arange(n) for at, n, step in place.runs()]
            yield place.buffer, place.start, np.concatenate(runs), stmt


def _parts(value: E.Expr) -> Iterator[Int]:
    """The positions that a value is read at."""
    for node in E.walk(value):
        yield from E.positions(node)


def _offsets(access: E.Load | P.Store, lanes: int) -> Array:
    """The elements of an access, from its first."""
    if access.rows:
        row = np.arange(lanes // access.rows)
        return (np.arange(access.rows)[:, None] * access.pitch + row).reshape(-1)
    return np.arange(lanes if access.active is None else access.active) * access.stride
