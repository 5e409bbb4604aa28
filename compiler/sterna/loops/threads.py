"""Loop programs whose tasks are run by several threads, one statement of one thread at a time, in any order; so are
tasks.

Between two barriers a thread may run before, after or between the statements of another, and an asynchronous copy
happens element by element at any time until it is waited for. What `loops.races` accepts gives the same result in every
order; a program that it refuses may give several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from sterna.ir.integer import Symbol
from sterna.loops import program as P
from sterna.loops.interpreter import Array, LeftError, Run, prepared
from sterna.te import expr as E

Order = np.random.Generator


def run_threads(
    function: P.Function,
    memory: Mapping[str, Array],
    dims: Mapping[Symbol, int] | None = None,
    order: Order | None = None,
) -> None:
    """Runs all tasks of a loop program, one after another, in any order, and the threads of each.

    Args:
        memory, dims: as for `interpreter.run_function`.
        order: draws whose turn it is, None for one task and thread after another.

    Raises:
        SternaError: E0901, the program leaves a buffer, or some threads wait at a barrier that others never reach.
    """
    run = prepared(function, memory, dims)
    with np.errstate(all="ignore"):
        if any(isinstance(s, P.For) and s.kind == "parallel" for s in P.walk(function.body)):
            _Tasks(run, order).stmt(function.body)
        else:
            _run_task(run, function.body, order)


class _Tasks(Run):
    """What stands outside of a parallel loop is run once; each iteration of the loop is a task."""

    def __init__(self, outer: Run, order: Order | None):
        super().__init__(outer.name, outer.memory, outer.symbols, outer.ready)
        self.order = order

    def loop(self, s: P.For) -> None:
        if s.kind != "parallel":
            super().loop(s)
            return
        tasks = range(self.position(s.start), self.position(s.extent))
        for task in tasks if self.order is None else self.order.permutation(tasks).tolist():
            self.symbols[s.symbol] = task
            _run_task(self, s.body, self.order)


class _Thread(Run):
    """One thread of a task: variables, registers and stack of its own. Of what a subgroup holds together it has a copy,
    and stores a part."""

    def __init__(
        self,
        outer: Run,
        index: Mapping[P.LoopKind, int],
        shared: dict[P.Buffer, Array],
        lane: tuple[int, int],
        products: dict[tuple[object, ...], Array],
        arrived: dict[P.LastTask, bool],
    ):
        super().__init__(outer.name, outer.memory, dict(outer.symbols), outer.ready)
        #: The thread's number in its subgroup, and how many there are.
        self.lane = lane
        #: Of tiles, by what is multiplied and added: the threads of a subgroup all have the same.
        self.products = products
        #: Whether the task is the last one, where it has been counted.
        self.arrived = arrived
        self.variables, self.local = dict(outer.variables), dict(outer.local)
        self.index, self.shared = index, shared
        #: What the thread gives in an exchange, and what it gets.
        self.offered: Array | None = None
        self.given: Array | None = None
        #: Elements that asynchronous copies have yet to move, by group and batch.
        self.pending: dict[tuple[int, int], list[tuple[Array, int, Array, int]]] = {}
        #: Batches that there are of a group.
        self.batches: dict[int, int] = {}

    def steps(self, s: P.Stmt) -> Iterator[P.Barrier | P.LastTask | P.Let | None]:
        """Runs a statement; stops after every simple one that others can see, and at barriers and exchanges, which it
        gives."""
        if isinstance(s, P.Seq):
            for inner in s.stmts:
                if isinstance(inner, (P.Assign, P.Store)):
                    self.stmt(inner)
                    # Others cannot tell when a thread computes with variables of its own.
                    if isinstance(inner, P.Store) or E.loads(inner.value):
                        yield None
                else:
                    yield from self.steps(inner)
        elif isinstance(s, P.For) and s.kind in P.THREADS:
            place = self.position(s.start) + self.index[s.kind]
            if place < self.position(s.extent):
                self.symbols[s.symbol] = place
                yield from self.steps(s.body)
        elif isinstance(s, P.For):
            try:
                for n in range(self.position(s.start), self.position(s.extent)):
                    self.symbols[s.symbol] = n
                    yield from self.steps(s.body)
            except LeftError:
                pass
        elif isinstance(s, (P.If, P.Branch)):
            if (chosen := self.chosen(s)) is not None:
                yield from self.steps(chosen)
        elif isinstance(s, P.Tiles):
            yield from self.steps(s.body)
        elif isinstance(s, P.Barrier):
            yield s
        elif isinstance(s, P.LastTask):
            yield s
            # Behind the barrier the first thread that goes on counts for all.
            if s not in self.arrived:
                self.arrived[s] = self.is_last(s)
            self.symbols[s.symbol] = self.position(s.index)
            if self.arrived[s]:
                yield from self.steps(s.body)
        elif isinstance(s, P.Let) and isinstance(s.value, P.Exchange):
            self.offered = self.value(s.value.a)
            yield s
            self.variables[s.variable] = self.given
            yield None
        elif isinstance(s, P.Copy) and s.asynchronous:
            self.begin(s)
            yield None
        elif isinstance(s, P.Commit):
            self.batches[s.group] = self.batches.get(s.group, 0) + 1
        elif isinstance(s, P.Wait):
            self.wait(s)
            yield None
        elif not (isinstance(s, P.Alloc) and s.buffer in self.shared):
            self.stmt(s)
            yield None

    def store(self, s: P.Store) -> None:
        """Of a tile that a subgroup holds together every thread stores its part, when its turn comes."""
        if not s.rows or s.buffer.scope.is_tiles or not P.is_collective(s):
            super().store(s)
            return
        lane, lanes = self.lane
        array, value, width = self.array(s.buffer), self.value(s.value), s.value.lanes // s.rows
        for n in range(lane, s.value.lanes, lanes):
            at = self.position(s.index) + n // width * s.pitch + n % width
            array[self.places(s.buffer, array, at, 1, 1)] = value[n]

    def product(self, e: P.Apply, operands: list[Array]) -> Array:
        if e.intrinsic.tiles is None:
            return super().product(e, operands)
        key = (e.intrinsic, e.extents, *(each.tobytes() for each in operands))
        if (found := self.products.get(key)) is None:
            found = self.products[key] = super().product(e, operands)
        return found

    def begin(self, s: P.Copy) -> None:
        """Begins an asynchronous copy."""
        target, origin = self.array(s.destination), self.array(s.source)
        to, at = (
            self.places(buffer, array, self.position(index), s.elements, 1).start
            for buffer, array, index in ((s.destination, target, s.to), (s.source, origin, s.at))
        )
        moves = [(target, to + n, origin, at + n) for n in range(s.elements)]
        self.pending.setdefault((s.group, self.batches.get(s.group, 0)), []).extend(moves)

    def wait(self, s: P.Wait) -> None:
        """Moves what is left of a group, or of its batches that may not go on."""
        batches = self.batches.get(s.group, 0)
        for group, batch in [*self.pending]:
            if group == s.group and (not s.in_flight or batch < batches - s.in_flight):
                for move in self.pending.pop((group, batch)):
                    _move(move)

    def happen(self, order: Order) -> None:
        """Lets one element of an asynchronous copy move, whichever, or none."""
        if order.integers(2):
            return
        if groups := [group for group, moves in self.pending.items() if moves]:
            moves = self.pending[groups[order.integers(len(groups))]]
            _move(moves.pop(order.integers(len(moves))))

    def allocate(self, buffer: P.Buffer) -> None:
        super().allocate(buffer)
        if not buffer.scope.private:
            self.shared[buffer] = self.local.pop(buffer)

    def array(self, buffer: P.Buffer) -> Array:
        found = self.shared.get(buffer)
        return super().array(buffer) if found is None else found


def _move(move: tuple[Array, int, Array, int]) -> None:
    target, to, origin, at = move
    target[to] = origin[at]


_Running = tuple[_Thread, Iterator[P.Barrier | P.LastTask | P.Let | None]]


class _Exchanging:
    """The exchanges of a task, at each of which the threads of a subgroup wait for one another.

    Args:
        across: how many threads there are along x; width: how many of these are a subgroup.
    """

    def __init__(self, threads: list[_Thread], across: int, width: int):
        self.places = {thread: divmod(n, across) for n, thread in enumerate(threads)}
        self.width = width
        #: By subgroup, those that have come, by their number along x, and to which exchange.
        self.waiting: dict[tuple[int, int], dict[int, _Running]] = {}
        self.reached: dict[tuple[int, int], P.Let] = {}

    def arrived(self, running: _Running, at: P.Let, outer: Run) -> list[_Running]:
        """A thread has come to an exchange; those that may go on."""
        row, n = self.places[running[0]]
        subgroup = row, n // self.width
        if self.reached.setdefault(subgroup, at) is not at:
            raise outer.error("threads of a subgroup wait for different exchanges")
        here = self.waiting.setdefault(subgroup, {})
        here[n] = running
        if len(here) < self.width:
            return []
        assert isinstance(at.value, P.Exchange)
        for each, (thread, _) in here.items():
            thread.given = here[each ^ at.value.distance][0].offered
        del self.waiting[subgroup], self.reached[subgroup]
        return list(here.values())


def _turns(order: Order | None) -> Iterator[float]:
    """Whose turn it is, as shares of those that are active."""
    while True:
        yield from (0.0,) if order is None else order.random(1024).tolist()


def _run_task(outer: Run, body: P.Stmt, order: Order | None) -> None:
    counts, shared = P.thread_counts(body), {b: a for b, a in outer.local.items() if not b.scope.private}
    lanes, products, arrived = P.subgroup(body), dict[tuple[object, ...], Array](), dict[P.LastTask, bool]()
    threads = [
        _Thread(outer, dict(zip(counts, place[::-1], strict=True)), shared, (n % lanes, lanes), products, arrived)
        for n, place in enumerate(np.ndindex(*reversed(counts.values())))
    ]
    active = [(thread, thread.steps(body)) for thread in threads]
    waiting: list[_Running] = []
    exchange = _Exchanging(threads, counts["thread.x"], P.exchanged(body))
    barrier: P.Barrier | P.LastTask | None = None
    ended = False
    turns = _turns(order)
    while active:
        turn = int(next(turns) * len(active))
        thread, steps = active[turn]
        if order is not None and thread.pending:
            thread.happen(order)
        try:
            reached = next(steps)
        except StopIteration:
            active.pop(turn)
            ended = True
        else:
            if reached is None:
                continue
            if isinstance(reached, P.Let):
                active += exchange.arrived(active.pop(turn), reached, outer)
                continue
            if barrier not in (None, reached):
                raise outer.error("threads of a task wait at different barriers")
            barrier = reached
            waiting.append(active.pop(turn))
        if not active and exchange.waiting:
            raise outer.error("some threads of a subgroup wait for an exchange that others never reach")
        if not active and waiting:
            if ended:
                raise outer.error("some threads of a task wait at a barrier, others have ended")
            active, waiting, barrier = waiting, [], None
