"""Constants of a kernel by fetches: panels of them are brought into scratch, and loads read these there.

    for p < positions                    fetch panel 0 to w_panels[0]
      for c < channels                   for n < panels
        ... w[c*K + k] ...          ->     wait for it; fetch panel n + 1 to the other half
                                           for p < positions
                                             for c in panel n
                                               ... w_panels[n % 2][c*K + k] ...

A panel is what some iterations of a loop read, whose index the constant's position grows by. The loop over panels goes
around the whole kernel, so that each element is fetched once: what stands beside that loop is done again for every
panel. That computes the same if no statement reads what the kernel gives, and nothing but results outlives an iteration
of the loop (`Panels.of`). A constant that is small is fetched as a whole.

Two panels, of which one is computed with while the other comes, are the double buffering of machines whose memories are
filled by DMA; without it, one panel is fetched and then used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Int, Symbol, as_int, of
from sterna.ir.memory import SCRATCH
from sterna.loops import program as P
from sterna.te import expr as E
from sterna.te.expr import Expr
from sterna_runtime.abi import aligned

#: Bytes that a fetch moves are a multiple of it, so that words do.
WORD = 4


@dataclass(frozen=True)
class Panels:
    """How a constant is fetched.

    Args:
        param: the constant.
        loops: whose iterations read equal parts of it, one after the other; none where it is fetched as a whole.
        count: of panels.
        doubled: whether there is room for two, and they are fetched while the one before is computed with.
    """

    param: P.Buffer
    loops: tuple[P.For, ...] = ()
    count: int = 1
    doubled: bool = False

    @property
    def elements(self) -> int:
        """Of a panel."""
        return self.param.elements // self.count

    @property
    def bytes(self) -> int:
        """Of scratch."""
        return self.elements * dtypes.size(self.param.dtype) * (2 if self.doubled else 1)

    @staticmethod
    def of(function: P.Function, param: P.Buffer, doubled: bool, in_place: Collection[int] = ()) -> Iterator[Panels]:
        """The ways to fetch a constant, as a whole first.

        Args:
            in_place: slots of inputs in whose memory the result may lie.
        """
        if not _is_plain(function.body, param):
            return
        size = dtypes.size(param.dtype)
        yield Panels(param)
        loops = _loops(function, param, in_place)
        if not loops:
            return
        extent = int(loops[0].extent)
        for count in range(2, extent + 1):
            whole = extent % count == 0 and (param.elements // count * size) % WORD == 0
            if whole and not (doubled and count % 2):
                yield Panels(param, loops, count, doubled)


def fetched(function: P.Function, panels: Panels, group: int) -> P.Function:
    """The function with a constant fetched.

    Args:
        group: of its copies, if it is doubled; no other copies have it.
    """
    param, each = panels.param, panels.elements
    slot = aligned(function.scratch_bytes)
    shape = tuple(as_int(n) for n in ((2, each) if panels.doubled else (each,)))
    name = f"{param.name}_panels"
    room = P.dense_buffer(name, param.dtype, shape, SCRATCH, slot)
    body = function.body
    if not panels.loops:
        body = P.seq(
            P.Alloc(room), P.Copy(room, ZERO, param, ZERO, each, fetched=True), _reading(body, param, room, ZERO)
        )
    else:
        body = P.seq(P.Alloc(room), *_streamed(body, panels, room, group))
    return replace(function, body=body, scratch_bytes=slot + aligned(panels.bytes))


def repeated(function: P.Function, panels: Panels) -> P.Stmt:
    """What is done again for every panel: the function's body without the loops that are cut."""
    return _without(function.body, panels.loops)


def fetches(function: P.Function) -> list[P.Copy]:
    """All fetches of a function."""
    return [s for s in P.walk(function.body) if isinstance(s, P.Copy) and s.fetched]


def _streamed(body: P.Stmt, panels: Panels, room: P.Buffer, group: int) -> Iterator[P.Stmt]:
    param, each = panels.param, panels.elements
    per_loop = int(panels.loops[0].extent) // panels.count

    def computed(n: Int, half: Int) -> P.Stmt:
        """The body for panel n, which lies in a half of the room."""
        cut = {loop: replace(loop, start=n * per_loop, extent=n * per_loop + per_loop) for loop in panels.loops}
        return _reading(_replaced(body, cut), param, room, n * each - half * each)

    if not panels.doubled:
        n = Symbol(f"{param.name}_panel", 0, panels.count - 1)
        fetch = P.Copy(room, ZERO, param, of(n) * each, each, fetched=True)
        yield P.For(n, as_int(panels.count), "serial", P.seq(fetch, computed(of(n), ZERO)))
        return

    def start(n: Int, half: Int) -> P.Stmt:
        return P.Copy(room, half * each, param, n * each, each, asynchronous=True, group=group, fetched=True)

    pair = Symbol(f"{param.name}_pair", 0, panels.count // 2 - 1)
    parity = Symbol(f"{param.name}_half", 0, 1)
    half = of(parity)
    number = of(pair) * 2 + half
    ahead = P.If(number + 1, as_int(panels.count), start(number + 1, 1 - half))
    inner = P.For(parity, as_int(2), "serial", P.seq(P.Wait(group, fetched=True), ahead, computed(number, half)))
    yield start(ZERO, ZERO)
    yield P.For(pair, as_int(panels.count // 2), "serial", inner)
    yield P.Wait(group, fetched=True)  # for nothing; `loops.races` does not follow the number of the last panel


def _is_plain(body: P.Stmt, param: P.Buffer) -> bool:
    """Whether a constant is read by nothing but loads, of a program that one thread runs from its start to its end."""
    for s in P.walk(body):
        if isinstance(s, (P.Instruction, P.Prefetch, P.Copy, P.Tiles)) and param in (*P.touched(s), *_asked_for(s)):
            return False
        if isinstance(s, (P.Barrier, P.Break)) or (isinstance(s, P.For) and s.kind == "parallel"):
            return False
    return not any(param in map(_buffer, E.loads(e)) for s in P.walk(body) for i in s.places() for e in i.expressions())


def _asked_for(s: P.Stmt) -> tuple[P.Buffer, ...]:
    return (s.buffer,) if isinstance(s, P.Prefetch) else ()


def _buffer(load: E.Load) -> object:
    return load.tensor


def _loops(function: P.Function, param: P.Buffer, in_place: Collection[int]) -> tuple[P.For, ...]:
    """The outermost loops that a constant's positions grow with, which may be cut; none where one of its loads stands
    in no such loop, or where it would not compute the same."""
    found: dict[P.For, int] = {}
    if not all(_collect(s, param, (), found) for s in P.members(function.body)):
        return ()
    loops, steps = tuple(found), set(found.values())
    extents = {loop.extent for loop in loops}
    if len(steps) != 1 or len(extents) != 1 or not (extent := next(iter(extents))).is_const:
        return ()
    # Cut to one panel each, two loops of which one is within the other would leave out what combines two panels.
    if any(s in found for loop in loops for s in P.walk(loop.body)):
        return ()
    if next(iter(steps)) * int(extent) != param.elements or int(extent) < 2:
        return ()
    return loops if _repeats(function, loops, in_place) else ()


def _collect(stmt: P.Stmt, param: P.Buffer, around: tuple[P.For, ...], found: dict[P.For, int]) -> bool:
    """Notes the loops that the loads of a statement would be cut at, with the elements of an iteration."""
    if isinstance(stmt, P.For):
        around = (*around, stmt)
    for load in P.own_loads(stmt):
        if load.tensor is not param:
            continue
        at = _cut(load, around)
        if at is None or found.setdefault(at[0], at[1]) != at[1]:
            return False
    return all(_collect(s, param, around, found) for s in P.children(stmt))


def _cut(load: E.Load, around: tuple[P.For, ...]) -> tuple[P.For, int] | None:
    """The outermost loop that a load's position grows with and by how much, if other loops stay within that."""
    (index,) = load.indices
    own = {loop.symbol for loop in around}
    if load.rows or index.expressions() or not index.symbols() <= own:
        return None
    loop = next((each for each in around if each.symbol in index.symbols()), None)
    if loop is None or loop.kind != "serial" or loop.start != ZERO:
        return None
    step = index.coefficient(loop.symbol)
    if step is None or step <= 0:
        return None
    rest = index - of(loop.symbol) * step
    low, high = rest.bounds()
    span = P.reach(load.lanes, load.stride, load.active, load.rows, load.pitch)
    inside = loop.symbol not in rest.symbols() and low is not None and high is not None and low >= 0
    return (loop, step) if inside and high is not None and high + span < step else None


def _repeats(function: P.Function, loops: tuple[P.For, ...], in_place: Collection[int]) -> bool:
    """Whether all beside the loops can be done again, and iterations of the loops in any order: these read of an input
    that the result takes the place of only what they write."""
    outputs = set(function.outputs)
    overwritten = {b for b in function.inputs if b.slot in in_place}
    if any(isinstance(load.tensor, P.Buffer) and load.tensor in outputs for load in P.loads(function.body)):
        return False
    if any(isinstance(s, (P.Let, P.Declare, P.Assign)) for s in P.walk(function.body)):
        return False
    beside = _without(function.body, loops)
    if any(b in outputs for b in _writes(beside)) or any(load.tensor in overwritten for load in P.loads(beside)):
        return False
    for loop in loops:
        own = {s.buffer for s in P.walk(loop.body) if isinstance(s, P.Alloc)}
        if not all(b in own or b in outputs for b in _writes(loop.body)):
            return False
    given = {*outputs, *(s.buffer for s in P.walk(function.body) if isinstance(s, P.Alloc))}
    return all(b in given for b in _writes(function.body))


def _writes(stmt: P.Stmt) -> Iterator[P.Buffer]:
    for s in P.walk(stmt):
        if (buffer := P.written(s)) is not None:
            yield buffer


def _without(stmt: P.Stmt, loops: tuple[P.For, ...]) -> P.Stmt:
    return P.seq() if stmt in loops else P.map_children(stmt, lambda s: _without(s, loops))


def _replaced(stmt: P.Stmt, new: dict[P.For, P.For]) -> P.Stmt:
    if isinstance(stmt, P.For) and stmt in new:
        return new[stmt]
    return P.map_children(stmt, lambda s: _replaced(s, new))


def _reading(body: P.Stmt, param: P.Buffer, room: P.Buffer, first: Int) -> P.Stmt:
    """A program whose loads of a constant are of the room for its panels, where the element `first` lies first."""

    def moved(e: Expr) -> Expr | None:
        if not isinstance(e, E.Load) or e.tensor is not param:
            return None
        return replace(e, tensor=room, indices=(e.indices[0] - first,))

    return P.map_values(body, moved)
