"""Loop programs whose tasks have threads, drawn at random: shared memory, barriers, conditions, asynchronous copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sterna.ir.integer import ZERO, Int, Symbol, as_int, of
from sterna.ir.memory import INPUT, OUTPUT, Memory
from sterna.loops import program as P
from sterna.targets.target import Target, Threads
from sterna.te import expr as E

Draw = Callable[[st.SearchStrategy[Any]], Any]
TASKS = 2


#: What the threads of a task share.
SHARED = Memory("shared", "block", bytes=1 << 16)


def shared(name: str, elements: int, slot: int = 0) -> P.Buffer:
    return P.dense_buffer(name, "int32", (as_int(elements),), SHARED, slot)


def load(buffer: P.Buffer, index: Int) -> E.Expr:
    return E.Load(buffer.dtype, tensor=buffer, indices=(index,))


def function(threads: int, body: Callable[[P.Buffer, P.Buffer, Int], P.Stmt]) -> P.Function:
    """A program of two tasks that reads x and writes y, `threads` elements of each for every task.

    Args:
        body: makes the task's statements from x, y and the first element that is the task's.
    """
    size = as_int(threads * TASKS)
    x, y = (P.dense_buffer(n, "int32", (size,), s) for n, s in (("x", INPUT), ("y", OUTPUT)))
    task = Symbol("task", 0, TASKS - 1)
    loop = P.For(task, as_int(TASKS), "parallel", body(x, y, of(task) * threads))
    return P.Function("threads", (x,), (), (y,), as_int(TASKS), 0, loop)


def over_threads(count: int, body: Callable[[Int], P.Stmt], name: str = "t") -> P.For:
    """A loop over threads."""
    symbol = Symbol(name, 0, count - 1)
    return P.For(symbol, as_int(count), "thread.x", body(of(symbol)))


@dataclass
class Drawn:
    """A program under construction."""

    draw: Draw
    threads: int
    x: P.Buffer
    y: P.Buffer
    first: Int
    buffers: tuple[P.Buffer, ...] = ()
    counter: int = 0
    groups: set[int] = field(default_factory=set)

    def of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def place(self, t: Int, n: Int) -> Int:
        """A position in a shared buffer: the thread's own, a neighbour's, one that depends on the iteration."""
        last = self.threads - 1
        kinds = (
            t,
            t,
            t,
            (t + 1) % self.threads,
            last - t,
            t // 2,
            ZERO,
            (t + n) % self.threads,
            n % 2 * self.threads + t,
        )
        return self.of(*kinds)

    def simple(self, t: Int, n: Int) -> P.Stmt:
        """One statement of a thread."""
        kind, target, source = (
            self.of("store", "store", "read", "result", "copy", "async"),
            *(self.of(*self.buffers) for _ in "ab"),
        )
        if kind == "result":
            return P.Store(self.y, self.first + t, load(source, self.place(t, n)))
        if kind == "read":
            return P.Store(target, self.place(t, n), load(self.x, self.first + t) + load(source, self.place(t, n)))
        if kind == "store":
            return P.Store(target, self.place(t, n), load(self.x, self.first + t))
        group = self.of(0, 1)
        if kind == "async":
            self.groups.add(group)
        return P.Copy(target, self.place(t, n), self.x, self.first + t, 1, kind == "async", group)

    def threaded(self, n: Int) -> P.Stmt:
        """A loop over threads with a few statements, perhaps under a condition."""
        self.counter += 1
        count = self.of(self.threads, self.threads, self.threads, self.threads // 2)

        def body(t: Int) -> P.Stmt:
            statements = [self.simple(t, n) for _ in range(self.of(1, 1, 2))]
            if self.of(False, False, False, True):
                return P.If(t, as_int(self.of(1, count)), P.seq(*statements))
            return P.seq(*statements)

        return over_threads(count, body, f"t{self.counter}")

    def block(self, n: Int, depth: int) -> P.Stmt:
        statements: list[P.Stmt] = []
        for _ in range(self.of(1, 2, 3)):
            kind = self.of("threads", "threads", "threads", "wait", "batch", "loop", "if")
            if kind == "wait":
                statements.append(P.Wait(self.of(0, 1), in_flight=self.of(0, 1, 2)))
            elif kind == "batch":
                statements.append(P.Commit(self.of(0, 1)))
            elif kind == "loop" and depth < 2:
                self.counter += 1
                symbol = Symbol(f"n{self.counter}", 0, 2)
                statements.append(P.For(symbol, as_int(3), "serial", self.block(of(symbol), depth + 1)))
            elif kind == "if" and depth < 2:
                statements.append(P.If(n % 2, as_int(1), self.block(n, depth + 1)))
            else:
                statements.append(self.threaded(n))
            if self.of(True, True, True, False):
                for group in sorted(self.groups) if self.of(True, True, False) else ():
                    statements += [P.Commit(group), P.Wait(group, in_flight=self.of(0, 0, 1))]
                statements.append(P.Barrier("block"))
        return P.seq(*statements)


def drawn(draw: Draw) -> P.Function:
    """A program drawn at random; many are right, many are not."""
    threads = draw(st.sampled_from([2, 4, 5]))

    def body(x: P.Buffer, y: P.Buffer, first: Int) -> P.Stmt:
        buffers = tuple(shared(name, 2 * threads, 8 * threads * n) for n, name in enumerate(("a", "b")))
        program = Drawn(draw, threads, x, y, first, buffers)
        zero = over_threads(
            threads,
            lambda t: P.seq(
                *(P.Store(b, t + half * threads, E.const(0, "int32")) for b in buffers for half in range(2))
            ),
            "z",
        )
        inner = program.block(ZERO, 0)
        waits = [P.Wait(group) for group in sorted(program.groups)]
        end = over_threads(threads, lambda t: P.Store(y, first + t, load(buffers[0], t) + load(buffers[1], t)), "e")
        return P.seq(*map(P.Alloc, buffers), zero, P.Barrier("block"), inner, *waits, P.Barrier("block"), end)

    return function(threads, body)


def memory(program: P.Function) -> dict[str, np.ndarray]:
    """Memory for a program's input and output."""
    return {
        b.name: np.arange(1, b.elements + 1, dtype=np.int32) * (b.scope is INPUT)
        for b in (*program.inputs, *program.outputs)
    }


#: Cases of operators are small: tasks of two threads, and one multiprocessor, leave each thread several neighbours.
WIDE = Threads(preferred=2, multiprocessors=1, access_bytes=16)


def with_wide(target: Target) -> Target:
    """A target whose threads have several elements of small tensors, too."""
    assert target.threads is not None
    return replace(target, threads=replace(WIDE, subgroup=target.threads.subgroup))
