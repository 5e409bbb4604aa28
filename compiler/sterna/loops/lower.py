"""From a schedule to a loop program: the function's arguments, and the nests of the stages that no other contains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sterna.ir import dtypes
from sterna.ir.extremum import maximum, minimum
from sterna.ir.integer import ZERO, Symbol, of
from sterna.ir.memory import INPUT, OUTPUT, PARAM, Scope
from sterna.ir.sizes import reserved
from sterna.loops import exchanges
from sterna.loops.bodies import Place
from sterna.loops.nests import Nests
from sterna.loops.program import Buffer, For, Function, If, LastTask, LetIndex, Stmt, seq
from sterna.loops.scan import Recurrence, sinks
from sterna.schedule.schedule import Schedule
from sterna.te import expr as E
from sterna.te.layout import Layout, dense_layout, dense_strides, most_elements
from sterna.te.tensor import Tensor
from sterna_runtime.abi import ALIGNMENT, aligned


def lower(schedule: Schedule, layouts: Mapping[str, Layout] | None = None, alignment: int = ALIGNMENT) -> Function:
    """The loop program of a scheduled kernel, with loops still marked unrolled and vectorized.

    Args:
        layouts: by tensor name, for inputs and outputs that lie inside other buffers.
        alignment: of each constant.

    Raises:
        SternaError: E0303, a schedule whose loops cannot be built.
    """
    kernel = schedule.kernel
    nests = Nests(schedule, schedule.outputs if kernel.scan is None else sinks(schedule, kernel.scan))
    given = layouts or {}
    inputs = tuple(_argument(nests, t, INPUT, slot, given) for slot, t in enumerate(kernel.inputs))
    outputs = tuple(_argument(nests, t, OUTPUT, slot, given) for slot, t in enumerate(kernel.outputs))
    params = _params(nests, alignment)
    roots = [nests.stages[name].tensor for name in nests.order if nests.stages[name].attach is None]
    parts = _straight(nests, roots) if kernel.scan is None else Recurrence(nests, kernel.scan).statements(roots)
    body = seq(*parts)
    exchanges.check(nests, body)
    return Function(kernel.name, inputs, params, outputs, nests.n_tasks, nests.scratch, body)


def _straight(nests: Nests, roots: Sequence[Tensor]) -> list[Stmt]:
    """One stage after the other."""
    if stray := [t.name for t in roots if t.name not in nests.schedule.outputs]:
        nests.refuse(f"stage {stray[0]} is neither an output, nor inlined, nor placed", "inline it or use compute_at")
    if (joined := next((t for t in roots if nests.stages[t.name].last_of is not None), None)) is not None:
        return [_by_last_tasks(nests, joined, roots)]
    parts = [nests.all_of(t) for t in roots]
    tasks = [part for part in parts if isinstance(part, For) and part.kind == "parallel"]
    if not tasks or len(parts) == 1:
        return parts
    if len(tasks) < len(parts) or any(load.tensor in roots for t in roots for load in E.loads(nests.bodies[t.name])):
        nests.refuse(
            "a kernel of several outputs with a parallel loop that is not around each, or of which one reads another",
            "leave it serial, or make tasks of every output and let none read another",
        )
    return [_side_by_side(nests, tasks)]


def _by_last_tasks(nests: Nests, stage: Tensor, roots: Sequence[Tensor]) -> Stmt:
    """The tasks of one output, the last ones of which do what another one's tasks do (`LastTask`)."""
    found = nests.stages[stage.name].last_of
    assert found is not None
    first, last = nests.all_of(nests.kernel.tensor(found[0])), nests.all_of(stage)
    counters = nests.places[found[1]].buffer
    if len(roots) != 3 or any(not isinstance(part, For) or part.kind != "parallel" for part in (first, last)):
        nests.refuse(f"{stage.name} and {found[0]} are not all that has tasks", "make tasks of both, and nothing else")
    assert isinstance(first, For)
    assert isinstance(last, For)
    nests.n_tasks = first.extent
    known = first.extent.is_const and last.extent.is_const
    many, each = (int(first.extent), int(last.extent)) if known else (1, 0)
    if each < 1 or many % each or each > counters.elements:
        nests.refuse(
            f"{first.extent} tasks of {found[0]} are not shared by {last.extent} of {stage.name}",
            f"a constant number of tasks that divides that, at most {counters.elements}",
        )
    index = of(first.symbol) % each
    return first.changed(body=seq(first.body, LastTask(counters, last.symbol, index, many // each, last.body)))


def _side_by_side(nests: Nests, parts: Sequence[For]) -> Stmt:
    """The tasks of several outputs, one after the other, as those of one loop: each is a task of one of the outputs."""
    total = sum((part.extent for part in parts), ZERO)
    hi = total.bounds()[1]
    task = Symbol(nests.unique("task"), 0, None if hi is None else max(hi - 1, 0))
    end, body = total, None
    for part in reversed(parts):
        end -= part.extent
        place = maximum(minimum(of(task) - end, part.extent - 1), 0)
        here = seq(LetIndex(part.symbol, place), part.body)
        body = here if body is None else If(of(task), end + part.extent, here, body)
    assert body is not None
    nests.n_tasks = total
    return For(task, total, "parallel", body)


def _argument(nests: Nests, t: Tensor, scope: Scope, slot: int, layouts: Mapping[str, Layout]) -> Buffer:
    at = layouts.get(t.name) or dense_layout(t.shape)
    size = reserved(at.size)
    buffer = Buffer(t.name, t.dtype, t.shape, at.strides, at.elements, scope, at.origin, slot, size=size)
    if t.body is not None or scope is not OUTPUT:
        nests.places[t.name] = Place(buffer, tuple(ZERO for _ in t.shape))
    return buffer


def _params(nests: Nests, alignment: int) -> tuple[Buffer, ...]:
    """The constants as the schedule stores them, one after the other."""
    schedule, buffers, offset = nests.schedule, [], 0
    for p in (*nests.kernel.params, *(d.stage for d in schedule.derived.values())):
        stored = schedule.stored_tensor(p)
        elements = most_elements(stored.shape)
        buffer = Buffer(
            stored.name, stored.dtype, stored.shape, dense_strides(stored.shape), elements, PARAM, ZERO, offset
        )
        nests.places[stored.name] = Place(buffer, tuple(ZERO for _ in stored.shape))
        buffers.append(buffer)
        offset += aligned(elements * dtypes.size(stored.dtype), alignment)
    return tuple(buffers)
