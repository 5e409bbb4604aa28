"""Gives every tile of a loop program a register of the hardware.

Storage of scope "tile" becomes variables, one for every index; the operands of products are loaded into variables of
their own, once in a run of statements. All of a function's tiles are configured together at its entry and released at
its end: to configure them takes as long as a dozen products, and threads that hold no tiles are cheaper to switch. So a
register has one shape throughout. One that the threads of a subgroup hold together also is the same operand throughout;
the hardware's real ones are given out by the compiler of the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import NoReturn

from sterna.errors import Diagnostic, SternaError
from sterna.intrinsics import Form, TileShape, TileUnit
from sterna.ir import dtypes
from sterna.ir.integer import Atom, Int, of
from sterna.ir.threads import NUMBER, THREADS
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr

#: What numbers a subgroup, whose threads are neighbours along the first axis.
_SUBGROUPS = {NUMBER[axis] for axis in THREADS[1:]}


def place_tiles(function: P.Function) -> P.Function:
    """The function with its tiles in registers.

    Raises:
        SternaError: E0304, an index is not constant, a product is not added to its own accumulators, or there are not
            enough registers.
    """
    found = {
        e.intrinsic
        for s in P.walk(function.body)
        if (value := P.value_of(s)) is not None
        for e in E.walk(value)
        if isinstance(e, P.Apply) and e.intrinsic.form is Form.TILES
    }
    if not found:
        return function
    units = [i.tiles for i in found if i.tiles is not None]
    if any(unit is not units[0] for unit in units):
        _refuse(function.name, "tiles of two kinds", "use one kind in a kernel")
    intrinsic, unit = min(found, key=lambda i: i.name), units[0]
    if unit.threads > 1 and len(found) > 1:
        _refuse(function.name, "fragments of several kinds", "use one intrinsic in a kernel")
    named = _Naming(function.name, unit, known=_by_threads(function.body)).block(function.body)
    for s in P.walk(named):
        if stray := next((b for b in P.touched(s) if b.scope.is_tiles), None):
            fix = "let a stage from_tiles store them to memory, and read that"
            _refuse(function.name, f"elements of {stray.name} are read one by one", fix)
    least = _Registers(function.name, unit)
    least.block(named)
    if unit.threads > 1:
        shapes, operands = zip(*((shape, operand) for operand, shape in least.kinds), strict=True)
        return replace(function, body=P.Tiles(intrinsic, shapes, least.of, named, operands))
    # Those that are left let loads go ahead of the products that read the register before.
    loads = dict.fromkeys(_kind(s.variable) for s in P.walk(named) if isinstance(s, P.Let) and s.variable.rows)
    spare = islice(cycle(loads), unit.registers - len(least.kinds))
    places = _Registers(function.name, unit, [*least.kinds, *spare])
    places.block(named)
    return replace(function, body=P.Tiles(intrinsic, tuple(shape for _, shape in places.kinds), places.of, named))


def _by_threads(body: P.Stmt) -> dict[Atom, Int]:
    """Positions in terms of the numbers of threads."""
    known: dict[Atom, Int] = {}
    for s in P.walk(body):
        if isinstance(s, P.LetIndex):
            known[s.symbol] = s.value.substitute(known)
        elif isinstance(s, P.For) and s.kind in THREADS:
            known[s.symbol] = s.start + of(NUMBER[s.kind])
    return known


@dataclass
class _Naming:
    """Turns tile storage and tile loads into variables."""

    kernel: str
    unit: TileUnit
    variables: dict[tuple[P.Buffer, int], P.Variable] = field(default_factory=dict)
    count: int = 0
    #: What positions stand for that depend on the threads of a task.
    known: Mapping[Atom, Int] = field(default_factory=dict)
    #: By buffer, which of its tiles a subgroup has, as its number says.
    owners: dict[P.Buffer, Int] = field(default_factory=dict)
    #: Whether a product of what lies in memory goes on until it is said that it ends; else it ends at once.
    goes_on: bool = False

    def block(self, stmt: P.Stmt) -> P.Stmt:
        out: list[P.Stmt] = []
        loaded: dict[tuple[int, Expr], P.Variable] = {}
        members, before = P.members(stmt), self.goes_on
        self.goes_on = before or any(isinstance(s, P.Settle) and s.in_flight for s in members)
        for n, s in enumerate(members):
            if isinstance(s, P.Alloc) and s.buffer.scope.is_tiles:
                out.extend(P.Declare(v) for v in self.declared(s.buffer, members[n + 1 :]))
            elif isinstance(s, P.Store) and s.buffer.scope.is_tiles:
                out.extend(self.assigned(s, loaded))
            elif isinstance(s, P.Store) and s.rows:
                out.append(replace(s, value=self.read(s.value)))
            else:
                out.append(P.map_children(s, self.block) if P.children(s) else s)
            if not isinstance(s, P.Store) or not s.buffer.scope.is_tiles:
                # A loop or a branch may write anything, and other threads have when all have waited.
                if P.children(s) or isinstance(s, (P.Barrier, P.Commit, P.Wait, P.Settle)):
                    loaded = {}
                written = P.written(s)
                loaded = {key: v for key, v in loaded.items() if _buffer(key[1]) is not written}
        self.goes_on = before
        return P.seq(*out)

    def declared(self, buffer: P.Buffer, scope: Sequence[P.Stmt]) -> list[P.Variable]:
        """The variables that tile storage becomes, by the stores in its scope."""
        stores = [s for each in scope for s in P.walk(each) if isinstance(s, P.Store) and s.buffer is buffer]
        for s in stores:
            key = (buffer, self.index(s.buffer, s))
            name = f"{buffer.name}_{key[1]}"
            if key not in self.variables:
                self.variables[key] = P.Variable(name, buffer.dtype, s.value.lanes, s.rows, self.unit.threads)
            elif self.variables[key].lanes != s.value.lanes:
                _refuse(self.kernel, f"{name} has two shapes", "split its rows by what divides them")
        return [v for (owner, _), v in self.variables.items() if owner is buffer]

    def index(self, buffer: P.Buffer, node: P.Store | E.Load) -> int:
        index = (node.index if isinstance(node, P.Store) else node.indices[0]).substitute(self.known)
        owner = index - index.const
        if self.owners.setdefault(buffer, owner) != owner:
            _refuse(
                self.kernel,
                f"a subgroup reads tiles of {buffer.name} that another one has",
                "count off tiles by threads where they are stored as where they are computed",
            )
        if not owner.symbols() <= _SUBGROUPS:
            _refuse(
                self.kernel,
                f"index {index} of tiles {buffer.name} is not constant after unrolling",
                "unroll the loops that index it",
            )
        return int(index.const)

    def read(self, e: Expr) -> P.Read:
        assert isinstance(e, E.Load)
        assert isinstance(e.tensor, P.Buffer)
        variable = self.variables[e.tensor, self.index(e.tensor, e)]
        return P.Read(variable.dtype, variable=variable, lanes=variable.lanes)

    def assigned(self, s: P.Store, loaded: dict[tuple[int, Expr], P.Variable]) -> list[P.Stmt]:
        """An assignment to a tile, with loads of the operands that are not there yet before it."""
        variable = self.variables[s.buffer, self.index(s.buffer, s)]
        if not isinstance(s.value, P.Apply):
            return [P.Assign(variable, s.value)]
        lets: list[P.Stmt] = []
        sums, *operands = s.value.operands
        if self.read(sums).variable is not variable:
            _refuse(
                self.kernel,
                f"{variable.name} is assigned the sums of another tile",
                "add to the accumulators themselves",
            )
        reads: list[Expr] = [self.read(sums)]
        if self.unit.in_memory:
            product = P.Assign(variable, s.value.with_children((*reads, *operands)))
            return [product] if self.goes_on else [product, P.Settle()]
        for n, operand in enumerate(operands, 1):
            assert isinstance(operand, E.Load)
            # A fragment is loaded as the operand that it is.
            number = n if self.unit.threads > 1 else 0
            if (known := loaded.get((number, operand))) is None:
                name = f"tile{self.count}"
                known = P.Variable(name, operand.dtype, operand.lanes, operand.rows, self.unit.threads, number)
                self.count += 1
                loaded[number, operand] = known
                lets.append(P.Let(known, operand))
            reads.append(P.Read(known.dtype, variable=known, lanes=known.lanes))
        return [*lets, P.Assign(variable, s.value.with_children(tuple(reads)))]


def _buffer(e: Expr) -> object:
    assert isinstance(e, E.Load)
    return e.tensor


@dataclass
class _Registers:
    """Hands out registers, from where a tile is declared or loaded to its last use in that block."""

    kernel: str
    unit: TileUnit
    kinds: list[tuple[int, TileShape]] = field(default_factory=list)
    of: dict[P.Variable, int] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)
    taken: dict[int, int] = field(default_factory=dict)

    def block(self, stmt: P.Stmt) -> None:
        members = P.members(stmt)
        last = {v: n for n, s in enumerate(members) for v in _used(s)}
        mine: list[P.Variable] = []
        for n, s in enumerate(members):
            if isinstance(s, (P.Declare, P.Let)) and s.variable.rows:
                self.take(s.variable)
                mine.append(s.variable)
            for child in P.children(s):
                self.block(child)
            for v in [v for v in mine if last.get(v, n) <= n]:
                mine.remove(v)
                self.busy.discard(self.of[v])

    def take(self, v: P.Variable) -> None:
        kind = _kind(v)
        free = [n for n, k in enumerate(self.kinds) if k == kind and n not in self.busy]
        if not free and len(self.kinds) < self.unit.registers:
            free = [len(self.kinds)]
            self.kinds.append(kind)
        if not free:
            _refuse(
                self.kernel,
                f"{v.name} finds none of {self.unit.registers} registers",
                "use smaller blocks of tiles",
            )
        # In turns: the one taken longest ago.
        self.of[v] = chosen = min(free, key=lambda n: self.taken.get(n, 0))
        self.taken[chosen] = len(self.of)
        self.busy.add(chosen)


def _kind(v: P.Variable) -> tuple[int, TileShape]:
    """What a register has to be to hold a tile: which operand, and of which shape."""
    return v.operand, (v.rows, v.lanes // v.rows * dtypes.size(v.dtype))


def _used(stmt: P.Stmt) -> set[P.Variable]:
    """Tile variables that a statement reads or assigns."""
    used: set[P.Variable] = set()
    for s in P.walk(stmt):
        value = P.value_of(s)
        if value is not None:
            used |= {e.variable for e in E.walk(value) if isinstance(e, P.Read) and e.variable.rows}
        if isinstance(s, (P.Assign, P.Let)) and s.variable.rows:
            used.add(s.variable)
    return used


def _refuse(kernel: str, why: str, fix: str) -> NoReturn:
    raise SternaError(Diagnostic("E0304", f"tiles cannot become registers: {why}", (f"kernel {kernel}",), fix))
