"""Reductions by an instruction over memory that the target declares: an accelerator's product of small matrices, say.

The axes of a stage are cut into blocks of the instruction's size. A block of results stays in memory while the
reduction runs; operands that the instruction takes from a memory of its own are copied there block by block, and waited
for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from sterna.intrinsics import ANY_MEMORY, Form, Intrinsic
from sterna.ir import dtypes
from sterna.ir.integer import Atom, Int, as_int
from sterna.ir.memory import STACK, Memory
from sterna.schedule.matching import Match, match
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies.analysis import (
    Context,
    expanded_loads,
    inline_elementwise,
    product,
    reductions,
    stored_apart,
    stride_of,
)
from sterna.te.axis import Axis
from sterna.te.expr import Load
from sterna.te.layout import dense_strides
from sterna.te.tensor import Kernel


@dataclass(frozen=True)
class _Fit:
    """How an intrinsic computes a stage.

    Args:
        axes: of the stage, in the order of the behaviour's.
        staged: the tensors that are copied, and where to.
    """

    intrinsic: Intrinsic
    axes: tuple[Axis, ...]
    staged: Mapping[str, Memory]


def propose(kernel: Kernel, context: Context) -> Schedule | None:
    """The schedule of a kernel with one reduction that an instruction of the target computes faster than vectors."""
    stages = reductions(kernel)
    if not context.target.intrinsics or len(stages) != 1 or len(kernel.outputs) != 1 or kernel.scan is not None:
        return None
    (stage,) = stages
    s = Schedule(kernel, context.target.known_intrinsics, context.target.memories)
    acc, out = stored_apart(s, stage)
    inline_elementwise(s)
    axes, body = s.stages[out].tensor.axes, s.stages[out].body
    read = [load.indices for load in expanded_loads(s, body) if load.tensor.name == acc]
    if any(indices != tuple(a.var for a in axes) for indices in read):
        return None
    fit = next(_fits(s, acc, context), None)
    if fit is None:
        return None
    sizes = {a.name: int(own.extent) for a, own in zip(fit.axes, fit.intrinsic.axes, strict=True)}
    names = {a.name: o.name for a, o in zip(stage.axes, axes, strict=True)}
    outer = [s.split(out, names[a.name], sizes[a.name])[0] if a.name in sizes else names[a.name] for a in stage.axes]
    s.reorder(out, *outer, *(leaf for leaf in s.stages[out].leaves if leaf not in outer))
    result = fit.intrinsic.places[fit.intrinsic.behaviour.name].memory
    s.compute_at(acc, out, outer[-1], STACK if result == ANY_MEMORY else result)
    inner = {a.name: s.split(acc, a.name, sizes[a.name])[1] for a in fit.axes}
    blocks = [leaf for leaf in s.stages[acc].leaves if leaf not in inner.values()]
    s.reorder(acc, *blocks, *(inner[a.name] for a in fit.axes))
    for tensor, memory in fit.staged.items():
        copy = s.cache_read(tensor, acc)
        s.compute_at(copy, acc, blocks[-1], memory)
        s.transfer(copy, asynchronous=True)
    s.tensorize(acc, *(inner[a.name] for a in fit.axes), fit.intrinsic.name)
    return s


def _fits(s: Schedule, acc: str, context: Context) -> Iterator[_Fit]:
    """The ways in which an intrinsic of the target computes a stage, those first that the target names first."""
    state = s.stages[acc]
    for intrinsic in (context.target.known_intrinsics[d.name] for d in context.target.intrinsics):
        fits = intrinsic.form is Form.MEMORY and intrinsic.accumulates
        if not fits or not _is_faster(s.kernel, intrinsic, context):
            continue
        for axes in _choices(intrinsic, state.axes):
            roles: dict[Atom, frozenset[str]] = {
                a: frozenset({own.name}) for a, own in zip(axes, intrinsic.axes, strict=True)
            }
            found = match(state.body, intrinsic, roles)
            if isinstance(found, Match) and (staged := _staged(s, acc, intrinsic, axes, found, context)) is not None:
                yield _Fit(intrinsic, axes, staged)


def _choices(intrinsic: Intrinsic, axes: tuple[Axis, ...]) -> Iterator[tuple[Axis, ...]]:
    """Axes that could stand for those of an intrinsic, of as many iterations or a multiple, inner ones first."""
    for chosen in permutations(reversed(axes), len(intrinsic.axes)):
        if all(
            a.reduction == own.reduction and a.extent.is_const and int(a.extent) % int(own.extent) == 0
            for a, own in zip(chosen, intrinsic.axes, strict=True)
        ):
            yield chosen


def _staged(
    s: Schedule, acc: str, intrinsic: Intrinsic, axes: tuple[Axis, ...], found: Match, context: Context
) -> dict[str, Memory] | None:
    """The tensors that have to be copied, and where to; None if operands do not lie as the intrinsic takes them."""
    target, staged, taken = context.target, dict[str, Memory](), dict[Memory, int]()
    ours = {own.name: a for a, own in zip(axes, intrinsic.axes, strict=True)}
    sizes = {a: int(own.extent) for a, own in zip(axes, intrinsic.axes, strict=True)}

    def take(memory: Memory, shape: Sequence[Int], dtype: str) -> None:
        at = -(-taken.get(memory, 0) // memory.boundary) * memory.boundary
        taken[memory] = at + product(shape) * dtypes.size(dtype)

    result = s.stages[acc].tensor
    place = intrinsic.places[intrinsic.behaviour.name]
    home = target.memory(place.memory)
    block = _block([a.var for a in result.axes], sizes)
    steps = dict(zip(result.axes, dense_strides(block), strict=True))
    own_steps = [steps[ours[a.name]] for a in intrinsic.behaviour.axes]
    if any(want is not None and step != want for step, want in zip(own_steps, place.strides, strict=True)):
        return None
    if home is not None:
        if not home.loadable:
            return None
        take(home, block, result.dtype)
    for load, expr in found.places:
        name = load.tensor.name
        if name not in intrinsic.places:
            continue
        if not isinstance(expr, Load) or expr.tensor not in (*s.kernel.inputs, *s.kernel.params):
            return None
        place = intrinsic.places[name]
        memory, shape = target.memory(place.memory), _block(expr.indices, sizes)
        strides = context.strides if memory is None else {expr.tensor.name: dense_strides(shape)}
        for index, want in zip(load.indices, place.strides, strict=True):
            own = next((a for a in intrinsic.axes if index == a.var), None)
            step = None if own is None else stride_of(expr, ours[own.name], strides)
            if step is None or (want is not None and step != want):
                return None
        if memory is not None and expr.tensor.name not in staged:
            staged[expr.tensor.name] = memory
            take(memory, shape, expr.dtype)
    return staged if all(taken[m] <= m.bytes for m in taken) else None


def _block(indices: Sequence[Int], sizes: Mapping[Axis, int]) -> tuple[Int, ...]:
    """What positions along the dimensions of a tensor one instruction touches."""
    steps = [[(abs(i.coefficient(a) or 0), n) for a, n in sizes.items()] for i in indices]
    return tuple(as_int(1 + sum(step * (n - 1) for step, n in each)) for each in steps)


def _is_faster(kernel: Kernel, intrinsic: Intrinsic, context: Context) -> bool:
    """Whether an instruction, with the copies for it, takes less than vectors for as much."""
    work = product([a.extent for a in intrinsic.axes])
    moved = sum(
        product(t.shape) * dtypes.size(t.dtype) / memory.bytes_per_cycle
        for t in intrinsic.inputs
        if (place := intrinsic.places.get(t.name)) is not None
        and (memory := context.target.memory(place.memory)) is not None
    )
    return intrinsic.cycles + moved < work / (context.lanes(kernel) * context.target.rate)
