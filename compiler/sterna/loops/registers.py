"""Turns register-scoped buffers into named scalars and vectors.

After unrolling every index into such a buffer must be constant, and its accesses must agree on how it is cut into
vectors; anything else is refused (E0304), because an array of accumulators that stays in memory costs a factor of four.

An array on the stack of which the same holds, and which is a few vectors, is held in registers, too: a part of a vector
that is read right after it was written in pieces is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sterna.errors import Diagnostic, SternaError
from sterna.ir.integer import Int
from sterna.ir.memory import STACK
from sterna.loops import program as P
from sterna.loops.values import joined
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna.te.position import rewrite_all, rewrite_index

#: Vectors of an array on the stack that registers hold, at most.
_MOST_HELD = 4


@dataclass(frozen=True)
class _Access:
    buffer: P.Buffer
    start: int
    lanes: int
    active: int
    store: bool = False


def promote_registers(function: P.Function) -> P.Function:
    """The function with all storage of scope "register" as variables.

    Raises:
        SternaError: E0304, an index is not constant or accesses overlap in part.
    """
    variables: dict[P.Buffer, dict[int, P.Variable]] = {}
    widest: dict[P.Variable, int] = {}
    accesses: dict[P.Buffer, set[_Access]] = {}
    small = _small_arrays(function)
    for access in _accesses(function, small):
        accesses.setdefault(access.buffer, set()).add(access)
    for buffer, group in accesses.items():
        variables[buffer] = _cut(function, buffer, group)
        for a in group:
            variable = variables[buffer][a.start]
            widest[variable] = max(widest.get(variable, 0), a.active)
    if not accesses:
        return function
    return replace(function, body=_Promotion(variables, widest).statement(function.body))


@dataclass
class _Promotion:
    """Statements on variables in the place of buffers.

    Args:
        variables: by buffer, of every element; widest: the lanes of each that are ever used.
        done: values that are promoted already.
    """

    variables: dict[P.Buffer, dict[int, P.Variable]]
    widest: dict[P.Variable, int]
    done: dict[Expr, Expr] = field(default_factory=dict)

    def load(self, node: Expr) -> Expr | None:
        """A load of a variable as its value."""
        if not isinstance(node, E.Load) or node.tensor not in self.variables:
            return None
        assert isinstance(node.tensor, P.Buffer)
        start, cut = int(node.indices[0]), self.variables[node.tensor]
        variable = cut[start]
        read = _read(variable)
        if node.lanes == variable.lanes:
            return read
        offset = start - _start(cut, variable)
        if 1 < variable.lanes < node.lanes:
            firsts = range(start, start + node.lanes, variable.lanes)
            return joined(*(_read(cut.get(n, variable)) for n in firsts))
        if node.lanes > 1 and variable.lanes > 1:
            return P.Lane(variable.dtype, a=read, lane=offset, lanes=node.lanes)
        if variable.lanes == 1:
            reach = node.lanes if node.active is None else node.active
            scalars = [_read(cut[start + n]) for n in range(reach)]
            zeros = [E.const(0, node.dtype)] * (node.lanes - reach)
            return P.Assemble(node.dtype, elements=(*scalars, *zeros), lanes=node.lanes)
        return P.Lane(variable.dtype, a=read, lane=offset)

    def value(self, expr: Expr) -> Expr:
        """The value from variables, the positions in it that are computed included."""
        return rewrite_all(expr, self.load, self.done)

    def place(self, index: Int) -> Int:
        return rewrite_index(index, self.value)

    def statement(self, s: P.Stmt) -> P.Stmt:
        if isinstance(s, P.Alloc) and (s.buffer.scope.is_variables or s.buffer in self.variables):
            named = dict.fromkeys(
                v for _, v in sorted(self.variables.get(s.buffer, {}).items(), key=lambda item: item[0])
            )
            return P.Seq(tuple(P.Declare(v) for v in named))
        if isinstance(s, P.Store):
            value = self.value(s.value)
            if s.buffer not in self.variables:
                return s.changed(value=value, index=self.place(s.index))
            cut = self.variables[s.buffer]
            variable = cut[int(s.index)]
            if variable.lanes < value.lanes:
                lanes = range(value.lanes if s.active is None else s.active)
                return P.seq(*(P.Assign(cut[int(s.index) + n], _lane(value, n)) for n in lanes))
            if s.active is not None and s.active < self.widest[variable]:
                value = P.Blend(variable.dtype, a=value, b=_read(variable), active=s.active, lanes=variable.lanes)
            return P.Assign(variable, value)
        if (read := P.value_of(s)) is not None:
            s = P.with_value(s, self.value(read))
        return P.map_children(s, self.statement)


def _read(variable: P.Variable) -> P.Read:
    return P.Read(variable.dtype, variable=variable, lanes=variable.lanes)


def _lane(value: Expr, n: int) -> Expr:
    if isinstance(value, E.Const):
        return replace(value, lanes=1)
    return value.a if isinstance(value, P.Broadcast) else P.Lane(value.dtype, a=value, lane=n)


def _start(cut: dict[int, P.Variable], variable: P.Variable) -> int:
    return min(start for start, v in cut.items() if v is variable)


def _small_arrays(function: P.Function) -> set[P.Buffer]:
    """Arrays on the stack of which the same few vectors are written and read, and nothing else."""
    statements = list(P.walk(function.body))
    vectors: dict[P.Buffer, dict[int, tuple[int, int | None]]] = {
        s.buffer: {} for s in statements if isinstance(s, P.Alloc) and s.buffer.scope is STACK
    }
    if not vectors:
        return set()

    def see(buffer: object, index: Int, lanes: int, stride: int, active: int | None) -> None:
        if isinstance(buffer, P.Buffer) and buffer in vectors:
            same = index.is_const and stride == 1 and lanes > 1
            if not same or vectors[buffer].setdefault(int(index), (lanes, active)) != (lanes, active):
                del vectors[buffer]

    for s in statements:
        if isinstance(s, P.Store):
            see(s.buffer, s.index, s.value.lanes, s.stride, s.active)
        elif not isinstance(s, P.Alloc):
            for touched in set(P.touched(s)) - {load.tensor for load in P.own_loads(s)}:
                vectors.pop(touched, None)
        for load in P.own_loads(s):
            see(load.tensor, load.indices[0], load.lanes, load.stride, load.active)
    return {buffer for buffer, found in vectors.items() if len(found) <= _MOST_HELD and not _overlap(found)}


def _overlap(vectors: dict[int, tuple[int, int | None]]) -> bool:
    ends = [start + (lanes if active is None else active) for start, (lanes, active) in sorted(vectors.items())]
    return any(end > start for end, start in zip(ends, sorted(vectors)[1:], strict=False))


def _accesses(function: P.Function, small: Set[P.Buffer]) -> Iterator[_Access]:
    def held(buffer: object) -> bool:
        return isinstance(buffer, P.Buffer) and (buffer.scope.is_variables or buffer in small)

    for s in P.walk(function.body):
        if isinstance(s, P.Store) and held(s.buffer):
            yield _access(function, s.buffer, s.index, s.value.lanes, s.stride, s.active, store=True)
        for load in P.own_loads(s):
            if held(load.tensor):
                assert isinstance(load.tensor, P.Buffer)
                yield _access(function, load.tensor, load.indices[0], load.lanes, load.stride, load.active)


def _access(
    function: P.Function,
    buffer: P.Buffer,
    index: Int,
    lanes: int,
    stride: int,
    active: int | None,
    store: bool = False,
) -> _Access:
    if not index.is_const or (lanes > 1 and stride != 1):
        _refuse(
            function,
            buffer,
            f"index {index}{'' if stride == 1 else f' with stride {stride}'} is not constant after unrolling",
        )
    return _Access(buffer, int(index), lanes, lanes if active is None else active, store)


def _cut(function: P.Function, buffer: P.Buffer, group: set[_Access]) -> dict[int, P.Variable]:
    """Element -> variable that holds it."""
    cut: dict[int, P.Variable] = {}
    owner: dict[int, tuple[int, int]] = {}
    written = {a.start for a in group if a.lanes == 1 and a.store}
    # Vectors of what is written element by element are assembled where they are read, and taken apart where they are
    # written too.
    loose = {a for a in group if a.lanes > 1 and written.intersection(range(a.start, a.start + a.active))}
    scalars = sorted(
        {a.start for a in group if a.lanes == 1} | {e for a in loose for e in range(a.start, a.start + a.active)}
    )
    # Parts of what is written as wider vectors are taken out of those.
    wide = [a for a in group - loose if a.lanes > 1 and a.store]
    group = {a for a in group - loose if a.store or not (any(_within(a, w) for w in wide) or _spans(a, wide))}
    vectors = sorted({(a.start, a.lanes) for a in group if a.lanes > 1})
    reach = {(a.start, a.lanes): a.active for a in group if a.lanes > 1}
    for a in group:
        if a.lanes > 1:
            reach[(a.start, a.lanes)] = max(reach[(a.start, a.lanes)], a.active)
    for start, lanes in vectors:
        end = start + reach[(start, lanes)]
        alone = end - start == buffer.elements
        variable = P.Variable(buffer.name if alone else f"{buffer.name}_{start}", buffer.dtype, lanes)
        for element in range(start, end):
            if element in owner:
                _refuse(function, buffer, f"vectors at {owner[element][0]} and {start} overlap")
            owner[element] = (start, lanes)
            cut[element] = variable
    for start in scalars:
        if start not in cut:
            cut[start] = P.Variable(f"{buffer.name}_{start}" if buffer.elements > 1 else buffer.name, buffer.dtype, 1)
    return cut


def _within(part: _Access, whole: _Access) -> bool:
    """Whether whole lanes of a wider vector are read."""
    inside = whole.start <= part.start and part.start + part.lanes <= whole.start + whole.active
    return 1 < part.lanes < whole.lanes and inside


def _spans(whole: _Access, wide: Sequence[_Access]) -> bool:
    """Whether what is read are the lanes of several vectors that are written one after another."""
    sizes = {a.lanes for a in wide if whole.start <= a.start < whole.start + whole.active}
    if len(sizes) != 1 or (size := sizes.pop()) >= whole.lanes:
        return False
    starts = {a.start for a in wide if a.lanes == size}
    return all(n in starts for n in range(whole.start, whole.start + whole.active, size))


def _refuse(function: P.Function, buffer: P.Buffer, why: str) -> NoReturn:
    raise SternaError(
        Diagnostic(
            "E0304",
            f"register storage {buffer.name} cannot become registers: {why}",
            (f"kernel {function.name}",),
            "unroll the loops that index it, or place it on the stack",
        )
    )
