"""Reductions that the threads of a subgroup share: each has a part in a register, and they combine these in pairs.

After every exchange a thread has combined what twice as many threads have, so that after the last one each has all of
it. What they combine is the same whichever of two threads does it, so that all of them have the same bits.
"""

from __future__ import annotations

from sterna.ir import dtypes
from sterna.ir.integer import ZERO, Symbol, as_int
from sterna.loops import program as P
from sterna.loops.bodies import Bodies, is_better
from sterna.loops.nest import Cursor
from sterna.loops.program import Stmt, seq
from sterna.schedule.decisions import StageSchedule
from sterna.te import expr as E
from sterna.te.expr import Expr, Load, Reduce
from sterna.te.tensor import combine


def combined(bodies: Bodies, cursor: Cursor) -> Stmt:
    """What stands inside all loops of a nest: combines an element of a stage with those of its subgroup's others.

    Raises:
        SternaError: E0303, it is not each thread's own, or threads of a subgroup have different elements.
    """
    s = cursor.nest.stage
    body, values = bodies.bodies[s.name], cursor.nest.axis_values(spatial_only=True)
    assert isinstance(body, Reduce)
    assert not isinstance(values, str)  # lowered before, for what it begins with
    indices = tuple(values[a] for a in s.tensor.axes)
    (threads,) = s.across.values()
    if s.scope is None or not s.scope.is_variables:
        bodies.refuse(f"stage {s.name} is shared across threads and not in registers", "compute_at ... register")
    if any(not bodies.lanes.isdisjoint(index.symbols()) for index in indices):
        bodies.refuse(
            f"threads along x, which share stage {s.name}, have different elements of it",
            "place it outside of loops over thread.x",
        )
    place = bodies.places[s.name]
    own = Load(s.tensor.dtype, tensor=place.buffer, indices=(place.offset(indices),))
    statements: list[Stmt] = []
    distance = threads // 2
    while distance:
        if body.index is None:
            let, other = _exchanged(bodies, s, own, distance)
            statements += [let, P.Store(place.buffer, own.indices[0], combine(body.combiner, own, other))]
        else:
            best = bodies.places[f"{s.name}_best"].buffer
            extreme = Load(best.dtype, tensor=best, indices=(ZERO,))
            first, value = _exchanged(bodies, s, extreme, distance)
            second, index = _exchanged(bodies, s, own, distance)
            # Of two that are equally good the first one wins: neither is better than the other.
            worse = E.unary("logical_not", is_better(body.combiner, extreme, value))
            before = E.binary("and", worse, E.compare("lt", index, own))
            better = P.Variable(bodies.unique(f"{s.name}_better"), "bool", 1)
            wins = P.Let(better, E.binary("or", is_better(body.combiner, value, extreme), before))
            chosen = P.Read("bool", variable=better)
            statements += [
                first,
                second,
                wins,
                P.Store(place.buffer, own.indices[0], E.select(chosen, index, own)),
                P.Store(best, ZERO, E.select(chosen, value, extreme)),
            ]
        distance //= 2
    lane = Symbol(bodies.unique(f"{s.name}_lane"), 0, threads - 1)
    return P.For(lane, as_int(threads), "thread.x", seq(*statements))


def _exchanged(bodies: Bodies, s: StageSchedule, value: Expr, distance: int) -> tuple[P.Let, Expr]:
    """A name for what another thread has of a value, and what it is; exchanged are 32 or 64 bits."""
    dtype = value.dtype
    if dtypes.bits(dtype) < 32 or dtype == "bool":
        dtype = "float32" if dtypes.is_float(dtype) else "int32"
    variable = P.Variable(bodies.unique(f"{s.name}_other"), dtype, 1)
    let = P.Let(variable, P.Exchange(dtype, a=E.cast(value, dtype), distance=distance))
    return let, E.cast(P.Read(dtype, variable=variable), value.dtype)


def check(bodies: Bodies, body: Stmt) -> None:
    """Refuses stages that are shared by more or fewer threads than a task has along x.

    Raises:
        SternaError: E0303.
    """
    shared = [(s.name, n) for s in bodies.stages.values() for n in s.across.values()]
    if not shared:
        return
    have = P.thread_counts(body)["thread.x"]
    if wrong := [(name, n) for name, n in shared if n != have]:
        name, n = wrong[0]
        bodies.refuse(
            f"stage {name} is shared by {n} threads along x, and a task has {have}", f"across ... {have}, or bind {n}"
        )
