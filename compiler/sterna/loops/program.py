"""The loop program of one kernel: statements over buffers, positions as `Int`, values as `te.expr.Expr`.

Everything a generator needs is explicit: storage scopes, vector lanes, which loop is parallel, partial vectors at
tails. A generator renders these nodes one for one and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sterna.ir.integer import Int, Symbol
from sterna.ir.memory import FRAGMENT, Memory
from sterna.ir.threads import THREADS, ThreadAxis
from sterna.loops.statements import (
    Alloc,
    Assign,
    Barrier,
    Branch,
    Break,
    Commit,
    Copy,
    Declare,
    For,
    If,
    Instruction,
    LastTask,
    Let,
    LetIndex,
    LoopKind,
    Prefetch,
    Reach,
    Require,
    Seq,
    Settle,
    Slice,
    Stmt,
    Store,
    Tiles,
    Wait,
    elements_of,
)
from sterna.loops.values import (
    Apply,
    Assemble,
    Blend,
    Broadcast,
    Buffer,
    Exchange,
    Lane,
    Read,
    Shuffle,
    Variable,
    dense_buffer,
)
from sterna.te import expr as E
from sterna.te.expr import Expr, Load, rewrite
from sterna_runtime.abi import status

ARGUMENTS = ("int16", "int32", "int64")
"""The types in which a call may bring sizes."""
KERNEL_FAILED = status("KERNEL_FAILED")
"""What a kernel returns where a `Require` does not hold."""


@dataclass(frozen=True, eq=False)
class Function:
    """A lowered kernel.

    Args:
        inputs, outputs: buffers by slot of the call record; params: buffers within the node's constants.
        n_tasks: extent of every parallel loop (1 if there is none); it may depend on dimensions.
        dims: dimensions whose sizes the call record brings, and their positions in it; dims_type: of these numbers.
        scratch_bytes: scratch per worker, or, if the kernel has barriers, for all of them.
    """

    name: str
    inputs: tuple[Buffer, ...]
    params: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    n_tasks: Int
    scratch_bytes: int
    body: Stmt
    dims: tuple[tuple[Symbol, int], ...] = ()
    dims_type: str = "int64"

    @property
    def has_barriers(self) -> bool:
        """Whether workers wait for one another within the kernel."""
        return any(isinstance(s, Barrier) and s.reach == "device" for s in walk(self.body))

    @property
    def has_threads(self) -> bool:
        """Whether tasks are run by several threads, or copy asynchronously by themselves."""
        return any(
            (isinstance(s, For) and s.kind in THREADS) or (isinstance(s, Copy) and s.asynchronous and not s.fetched)
            for s in walk(self.body)
        )

    @property
    def has_fetches(self) -> bool:
        """Whether the program around the kernel copies for it."""
        return any(isinstance(s, Copy) and s.fetched for s in walk(self.body))


def most(value: Int) -> int:
    """The greatest value of an integer whose dimensions have bounds."""
    hi = value.bounds()[1]
    if hi is None:
        raise ValueError(f"{value} has no upper bound")
    return hi


def reach(lanes: int, stride: int, active: int | None, rows: int, pitch: int) -> int:
    """Elements from the first to the last that a load or store touches."""
    if rows:
        return (rows - 1) * pitch + lanes // rows - 1
    return ((lanes if active is None else active) - 1) * stride


def thread_counts(body: Stmt) -> dict[ThreadAxis, int]:
    """How many threads a task has along each axis."""
    counts: dict[ThreadAxis, int] = dict.fromkeys(THREADS, 1)
    for s in walk(body):
        if isinstance(s, For) and s.kind in THREADS:
            counts[s.kind] = max(counts[s.kind], most(s.extent - s.start))
    return counts


def is_collective(stmt: Stmt) -> bool:
    """Whether a statement is one of all threads of a subgroup together: on a tile that they hold together."""
    if isinstance(stmt, Store):
        of = stmt.value.tensor if isinstance(stmt.value, Load) else None
        held = isinstance(stmt.value, Read) and stmt.value.variable.threads > 1
        return held or any(isinstance(b, Buffer) and b.scope is FRAGMENT for b in (stmt.buffer, of))
    return isinstance(stmt, (Let, Assign)) and stmt.variable.threads > 1


def is_product_in_memory(value: Expr) -> bool:
    """Whether a value is a product whose operands are read where they lie, until a `Settle`."""
    return isinstance(value, Apply) and value.intrinsic.tiles is not None and value.intrinsic.tiles.in_memory


def subgroup(body: Stmt) -> int:
    """How many threads, neighbours along x, hold tiles together; 1 where none are held so."""
    for s in walk(body):
        if isinstance(s, Tiles) and s.intrinsic.tiles is not None:
            return s.intrinsic.tiles.threads
        if isinstance(s, Store) and s.buffer.scope is FRAGMENT and isinstance(s.value, Apply):
            assert s.value.intrinsic.tiles is not None
            return s.value.intrinsic.tiles.threads
    return 1


def held(body: Stmt) -> int:
    """Registers of 32 bits of a thread that hold tiles together with those of other threads."""
    found = [(sum(rows * n for rows, n in s.shapes), s.intrinsic.tiles) for s in walk(body) if isinstance(s, Tiles)]
    return max((n // (4 * tiles.threads) for n, tiles in found if tiles is not None and tiles.threads > 1), default=0)


def exchanged(body: Stmt) -> int:
    """How many threads, neighbours along x, exchange values in registers with one another; 1 where none do."""
    lets = (s.value for s in walk(body) if isinstance(s, Let))
    return max((2 * value.distance for value in lets if isinstance(value, Exchange)), default=1)


def taken(body: Stmt) -> dict[Memory, int]:
    """The memories of the target that a kernel's storage lies in beside scratch, and how much of each it takes."""
    found: dict[Memory, int] = {}
    for s in walk(body):
        if isinstance(s, Alloc) and isinstance(s.buffer.scope, Memory) and not s.buffer.scope.in_scratch:
            found[s.buffer.scope] = max(found.get(s.buffer.scope, 0), s.buffer.end)
    return found


# ---------------------------------------------------------------- walking
def seq(*stmts: Stmt | None) -> Stmt:
    """A sequence without nesting or empty members."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Seq):
            flat.extend(stmt.stmts)
        elif stmt is not None:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def members(stmt: Stmt) -> tuple[Stmt, ...]:
    return stmt.stmts if isinstance(stmt, Seq) else (stmt,)


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """Statements directly inside one."""
    return stmt.inside()


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement, outer first."""
    pending = [stmt]
    while pending:
        each = pending.pop()
        yield each
        if inside := each.inside():
            pending += inside[::-1]


def map_children(stmt: Stmt, f: Callable[[Stmt], Stmt]) -> Stmt:
    """The statement with `f` applied to those directly inside it."""
    if isinstance(stmt, Seq):
        return seq(*(f(s) for s in stmt.stmts))
    if isinstance(stmt, (For, Tiles, LastTask)):
        return stmt.changed(body=f(stmt.body))
    if isinstance(stmt, (If, Branch)):
        return stmt.changed(then=f(stmt.then), otherwise=None if stmt.otherwise is None else f(stmt.otherwise))
    return stmt


def positions_of(stmt: Stmt) -> tuple[Int, ...]:
    """The positions that a statement holds itself, apart from those inside its value."""
    return stmt.places()


def positions(stmt: Stmt) -> Iterator[Int]:
    """Every position of a statement itself, not of those inside it."""
    yield from positions_of(stmt)
    value = value_of(stmt)
    if value is not None:
        for node in E.walk(value):
            yield from E.positions(node)


def used_dims(function: Function) -> set[Symbol]:
    """The dimension symbols that a function reads: those that no loop or name of its own defines."""
    used: set[Symbol] = set()
    own: set[Symbol] = set()
    for stmt in walk(function.body):
        if isinstance(stmt, (For, LetIndex, LastTask)):
            own.add(stmt.symbol)
        for position in positions(stmt):
            used |= position.symbols()
    return used - own


def written(stmt: Stmt) -> Buffer | None:
    """The buffer that a statement itself writes to."""
    if isinstance(stmt, Store):
        return stmt.buffer
    if isinstance(stmt, Copy):
        return stmt.destination
    if isinstance(stmt, LastTask):
        return stmt.counters
    return stmt.result.buffer if isinstance(stmt, Instruction) else None


def touched(stmt: Stmt) -> Iterator[Buffer]:
    """The buffers that a statement itself reads and writes."""
    if (buffer := written(stmt)) is not None:
        yield buffer
    if isinstance(stmt, Copy):
        yield stmt.source
    elif isinstance(stmt, Instruction):
        yield from (s.buffer for s in stmt.slices)
    for load in own_loads(stmt):
        assert isinstance(load.tensor, Buffer)
        yield load.tensor


def value_of(stmt: Stmt) -> Expr | None:
    """The value a statement computes itself, apart from positions."""
    return stmt.computes()


def with_value(stmt: Stmt, value: Expr) -> Stmt:
    """The statement with another value in the place of `value_of`'s."""
    if isinstance(stmt, Branch):
        return stmt.changed(condition=value)
    assert isinstance(stmt, (Let, Assign, Store, Require))
    return stmt if value is stmt.value else stmt.changed(value=value)


def map_values(stmt: Stmt, rule: Callable[[Expr], Expr | None], memo: dict[Expr, Expr] | None = None) -> Stmt:
    """Rewrites the values of a statement and of all inside it by `te.expr.rewrite`."""
    if (value := value_of(stmt)) is not None:
        stmt = with_value(stmt, rewrite(value, rule, memo))
    return map_children(stmt, lambda s: map_values(s, rule, memo))


def loads(stmt: Stmt) -> Iterator[Load]:
    """Every load inside a statement, those inside computed positions included."""
    for inner in walk(stmt):
        yield from own_loads(inner)


def own_loads(stmt: Stmt) -> Iterator[Load]:
    """The loads of a statement itself, not those of the statements inside it."""
    value = stmt.computes()
    if value is not None:
        yield from E.loads(value)
    for index in stmt.places():
        for computed in index.expressions():
            yield from E.loads(computed)


#: What stands here, and the values that statements work on.
__all__ = [
    "ARGUMENTS",
    "KERNEL_FAILED",
    "THREADS",
    "Alloc",
    "Apply",
    "Assemble",
    "Assign",
    "Barrier",
    "Blend",
    "Branch",
    "Break",
    "Broadcast",
    "Buffer",
    "Commit",
    "Copy",
    "Declare",
    "Exchange",
    "For",
    "Function",
    "If",
    "Instruction",
    "Lane",
    "LastTask",
    "Let",
    "LetIndex",
    "LoopKind",
    "Prefetch",
    "Reach",
    "Read",
    "Require",
    "Seq",
    "Settle",
    "Shuffle",
    "Slice",
    "Stmt",
    "Store",
    "Tiles",
    "Variable",
    "Wait",
    "children",
    "dense_buffer",
    "elements_of",
    "exchanged",
    "held",
    "is_collective",
    "is_product_in_memory",
    "loads",
    "map_children",
    "map_values",
    "members",
    "most",
    "own_loads",
    "positions",
    "positions_of",
    "reach",
    "seq",
    "subgroup",
    "thread_counts",
    "touched",
    "used_dims",
    "value_of",
    "walk",
    "with_value",
    "written",
]  # fmt: skip
