"""From calls to the loop programs of the distinct kernels: scheduled, lowered, finished."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from sterna.choices import BY_RULE, Chooser, Otherwise
from sterna.errors import SternaError, error
from sterna.ir import dtypes
from sterna.ir.graph import Array, halves_of
from sterna.ir.integer import Symbol
from sterna.ir.sizes import dimensions, sizes_wanted
from sterna.loops.program import Function, used_dims
from sterna.passes.context import PassContext
from sterna.passes.kernels import CPU, Call
from sterna.passes.programs import Programs
from sterna.passes.stages import Finished, Lowered, Outline, Planned, Scheduled, Sequenced
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import SIMPLER, Context, KnownWeights, propose
from sterna.targets.target import Target
from sterna.te.couples import MOST_SUM
from sterna.te.tensor import Kernel
from sterna.timing import timed
from sterna_runtime.advice import Advice

S = TypeVar("S", bound=Sequenced)
#: Elements of a constant from which on it is looked at whether 16 bits hold it.
LARGE = 256
#: What is said of a schedule that cannot be had, or of loops that cannot be shown to stay within their tensors.
_REFUSED = {"E0302", "E0303", "E0304", "E0305"}
NOTHING_KNOWN = KnownWeights()
#: Calls of a kernel that its comment names.
_MOST_NAMED = 8
#: Codes of programs whose bounds, or whose freedom of races, cannot be proved.
_UNPROVED = frozenset(("E0305", "E0306"))


def round_weights(sequenced: S, target: Target, dtype: str) -> S:
    """The model with the weights that would be stored in that type rounded to it, and still float32."""
    calls = tuple(_rounded(call, target, dtype) for call in sequenced.sequence.calls)
    return replace(sequenced, sequence=replace(sequenced.sequence, calls=calls))


def schedule_kernels(outline: Outline, context: PassContext) -> Scheduled:
    """A schedule for each distinct kernel, as the strategies propose it."""
    halves = frozenset() if context.options.widened else halves_of(outline.graph)
    index: dict[tuple[object, ...], int] = {}
    schedules: list[Schedule | None] = []
    kernel_of: list[int] = []
    placed: list[str] = []
    for call in outline.sequence.calls:
        target = context.target_of(call)
        exact, known = exact_weights(call, halves), known_weights(call, target)
        key = (call.place, call.key, *exact.items(), *known.key)
        if key not in index:
            index[key] = len(schedules)
            placed.append(call.place)
            with timed(_name(len(schedules), call)):
                schedule = _tuned(call, context, exact, known)
                if schedule is None:
                    schedule = _schedule_of(call, outline, context, exact, known)
                schedules.append(schedule)
        kernel_of.append(index[key])
    # The kernels of the library come first, so that it and graph.json count them alike.
    order = sorted(range(len(schedules)), key=lambda n: (placed[n] != CPU, n))
    number = {n: at for at, n in enumerate(order)}
    return Scheduled(
        **vars(outline),
        schedules=tuple(schedules[n] for n in order),
        kernel_of=tuple(number[n] for n in kernel_of),
    )


def lower_kernels(scheduled: Scheduled, context: PassContext) -> Lowered:
    """The loops of each distinct kernel.

    Raises:
        SternaError: E0113, one over open dimensions cannot be shown to stay within its tensors.
    """
    dims = dimensions(scheduled.graph)
    lowered = []
    for n, (call, schedule) in enumerate(zip(scheduled.firsts, scheduled.schedules, strict=True)):
        with timed(_name(n, call)), _proved(call, dims):
            lowered.append(context.programs.lowered(call, schedule, context.target_of(call)))
    return Lowered(**vars(scheduled), lowered=tuple(lowered))


def finish_kernels(lowered: Lowered, context: PassContext) -> Finished:
    """The loop programs that generators render, each handed on once it is there. Errors: as `lower_kernels`."""
    dims = dimensions(lowered.graph)
    kernels = []
    comments = comments_of(lowered.sequence.calls, lowered.kernel_of, len(lowered.lowered))
    planned = zip(lowered.firsts, lowered.schedules, lowered.lowered, comments, strict=True)
    if context.ahead is not None:
        context.ahead.begin(len(comments))
    for n, (call, schedule, function, above) in enumerate(planned):
        with timed(_name(n, call)), _proved(call, dims):
            target = context.target_of(call)
            finished = finish_call(call, function, target, _name(n, call), dims, context.programs)
            kernels.append(Planned(schedule, finished, call.place))
        if context.ahead is not None:
            context.ahead.add(kernels[-1].function, above)
    outline = {name: getattr(lowered, name) for name in ("graph", "views", "sequence", "plan")}
    return Finished(**outline, kernels=tuple(kernels), kernel_of=lowered.kernel_of)


def comments_of(calls: Sequence[Call], kernel_of: Sequence[int], kernels: int) -> tuple[tuple[str, ...], ...]:
    """What stands above each kernel: the nodes of the source model that it computes."""
    comments: list[list[str]] = [[] for _ in range(kernels)]
    for call, k in zip(calls, kernel_of, strict=True):
        if len(comments[k]) < _MOST_NAMED:
            comments[k].append(", ".join(call.sources) or call.name)
    return tuple(map(tuple, comments))


def propose_schedule(
    call: Call,
    target: Target,
    weights: str = "",
    exact: Mapping[str, str] | None = None,
    known: KnownWeights = NOTHING_KNOWN,
    chooser: Chooser = BY_RULE,
) -> Schedule | None:
    """What the strategies propose for a kernel; None for one that is a loop program already.

    Args:
        weights: the type that weights are stored in, if not their own.
        exact: of constants that are stored in 16 bits although `weights` does not say so, by name.
        known: of constants of int8.
        chooser: who decides what strategies ask for.
    """
    if not isinstance(call.kernel, Kernel):
        return None
    strides = {n: layout.strides for n, layout in call.layouts.items()}
    origins = {n: layout.origin for n, layout in call.layouts.items()}
    return propose(call.kernel, Context(target, strides, weights, exact or {}, known, {}, chooser, origins))


def _schedule_of(
    call: Call, outline: Outline, context: PassContext, exact: Mapping[str, str], known: KnownWeights
) -> Schedule | None:
    """The schedule of a kernel: on a device the one that has brought it there."""
    target, stored = context.target_of(call), context.options.stored_weights
    if target.device is not None and is_open(call):
        try:
            return proved_schedule(call, target, dimensions(outline.graph), context.programs, stored, exact, known)
        except SternaError as problem:
            if not _UNPROVED & set(problem.codes):
                raise
    return propose_schedule(call, target, stored, exact, known)


def is_open(call: Call) -> bool:
    """Whether a call is over open sizes."""
    return any(not n.is_const for value in (*call.inputs, *call.outputs) for n in value.shape)


def proved_schedule(
    call: Call,
    target: Target,
    dims: Sequence[Symbol],
    programs: Programs,
    weights: str = "",
    exact: Mapping[str, str] | None = None,
    known: KnownWeights = NOTHING_KNOWN,
) -> Schedule | None:
    """The first schedule of a kernel over open sizes whose loops are proved right: as the strategies propose it, or of
    what asks less of proofs. Arguments as of `propose_schedule` and `finish_call`.

    Raises:
        SternaError: what is not proved of the one that the strategies propose, as none is.
    """
    first: SternaError | None = None
    tried = list[list[str] | None]()
    choosers: list[Chooser] = [BY_RULE, *map(Otherwise, SIMPLER)]
    for chooser in choosers:
        try:
            schedule = propose_schedule(call, target, weights, exact, known, chooser)
            steps = None if schedule is None else [*map(str, schedule.steps)]
            if steps in tried:
                continue
            tried.append(steps)
            realize(call, schedule, target, "tried", dims, programs)
            return schedule
        except SternaError as problem:
            first = first or problem
    assert first is not None
    raise first


def fingerprint(
    call: Call, weights: str = "", exact: Mapping[str, str] | None = None, known: KnownWeights = NOTHING_KNOWN
) -> str:
    """A kernel's name wherever it occurs: of what it computes, of which sizes, where that lies, and how its weights are
    stored. The arguments are those of `propose_schedule`."""
    parts = (call.key, weights, *sorted(f"{name} {dtype}" for name, dtype in (exact or {}).items()), *known.key)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _tuned(call: Call, context: PassContext, exact: Mapping[str, str], known: KnownWeights) -> Schedule | None:
    """The schedule of a kernel that was chosen for it; None where none was, or where that leads to no loops: it was
    measured on tensors that lie densely, and here they may not."""
    options, tuning = context.options, context.options.tuning
    if tuning is None or not isinstance(call.kernel, Kernel):
        return None
    own = fingerprint(call, options.stored_weights, exact, known)
    target = context.target_of(call)
    chooser = tuning.chooser(own, target)
    if chooser is BY_RULE:
        return None
    try:
        schedule = propose_schedule(call, target, options.stored_weights, exact, known, chooser)
        finish_call(call, context.programs.lowered(call, schedule, target), target, "tuned", (), context.programs)
    except SternaError as problem:
        if not set(problem.codes) <= _REFUSED:
            raise
        tuning.refused(own)
        return None
    return schedule


def exact_weights(call: Call, halves: Collection[str]) -> dict[str, str]:
    """The constants in float32 of a kernel that lose nothing in one of these types of 16 bits, and which."""
    if not isinstance(call.kernel, Kernel) or not halves:
        return {}
    found = {p.name: _exact_in(array, halves) for p, array in zip(call.kernel.params, call.constants, strict=True)}
    return {name: dtype for name, dtype in found.items() if dtype}


def known_weights(call: Call, target: Target) -> KnownWeights:
    """What is known of the constants of int8 of a kernel, as far as it matters to an instruction of the target."""
    intrinsics = [target.known_intrinsics[name] for name in target.int_dot]
    if not isinstance(call.kernel, Kernel) or not any(i.bounds for i in intrinsics):
        return NOTHING_KNOWN
    constants = {p.name: c for p, c in zip(call.kernel.params, call.constants, strict=True) if c.ndim and c.size}
    weights = {name: array for name, array in constants.items() if array.dtype == np.int8}
    symmetric = (name for name, array in weights.items() if array.min() > dtypes.limits("int8")[0])
    light: set[tuple[str, str]] = set()
    if any(i.couples > 1 for i in intrinsics):
        added = {"": np.zeros(1, np.int32), **{n: c for n, c in constants.items() if c.dtype == np.int32}}
        light = {(w, c) for w, array in weights.items() for c, term in added.items() if _is_light(array, term)}
    return KnownWeights(frozenset(symmetric), frozenset(light))


def _is_light(weights: Array, added: Array) -> bool:
    """Whether sums of products of bytes, one for each position along the last dimension of the weights, fit in 24 bits
    with what is added to them."""
    if added.size not in (1, weights.shape[-1]):
        return False
    magnitudes = np.abs(weights.astype(np.int64)).reshape(-1, weights.shape[-1]).sum(0)
    most = magnitudes * -dtypes.limits("int8")[0] + np.abs(added.astype(np.int64)).reshape(-1)
    return bool(most.max() <= MOST_SUM)


def _exact_in(array: Array, halves: Collection[str]) -> str:
    if array.dtype != np.float32 or array.size < LARGE:
        return ""
    few = array[tuple(slice(None, None, max(1, n // 8)) for n in array.shape)]  # They tell most others apart.
    with np.errstate(over="ignore", invalid="ignore"):
        for dtype in sorted(halves):
            kind = dtypes.to_numpy(dtype)
            if all(_finite_in(each, kind) for each in (few, array)):
                return dtype
    return ""


def _finite_in(array: Array, kind: np.dtype[Any]) -> bool:
    """Whether every element is finite and one of a type's numbers."""
    narrow = array.astype(kind).astype(np.float32)
    return bool(np.array_equal(narrow, array)) and bool(np.isfinite(narrow).all())


def realize(
    call: Call,
    schedule: Schedule | None,
    target: Target,
    name: str,
    dims: Sequence[Symbol] = (),
    programs: Programs | None = None,
) -> Planned:
    """The loop program that a schedule gives for a kernel; the same steps give the same program.

    Args:
        programs: those that were made before.
    """
    known = programs or Programs()
    return Planned(schedule, finish_call(call, known.lowered(call, schedule, target), target, name, dims, known))


def finish_call(
    call: Call,
    lowered: Function,
    target: Target,
    name: str,
    dims: Sequence[Symbol] = (),
    programs: Programs | None = None,
) -> Function:
    """A kernel's loop program as generators render it.

    Args:
        dims: of the graph, in the order in which kernels are given them.
        programs: those that were made before.

    A program of groups of threads that cannot be proved gives way to the plain one.
    """
    known = programs or Programs()
    try:
        function = known.finished(call, lowered, target)
    except SternaError as problem:
        if call.shared is None or not isinstance(call.kernel, Function) or not _UNPROVED & set(problem.codes):
            raise
        function = known.finished(call, known.plain(call, target), target)
    used = used_dims(function)
    return replace(function, name=name, dims=tuple((s, n) for n, s in enumerate(dims) if s in used))


def _name(number: int, call: Call) -> str:
    return f"k{number}_{call.kernel.name}"


@contextmanager
def _proved(call: Call, dims: Sequence[Symbol]) -> Iterator[None]:
    """What cannot be proved of a kernel over open dimensions is the user's to mend, by other sizes."""
    try:
        yield
    except SternaError as problem:
        if not dims or "E0305" not in problem.codes:
            raise
        title = f"{call.kernel.name} over open dimensions: it cannot be shown to stay within its tensors at every size"
        where = f'from "{", ".join(call.sources) or call.name}"'
        shapes = (n for value in (*call.inputs, *call.outputs) for n in value.shape)
        fix = Advice("least sizes greater than 0, or ", sizes_wanted(shapes) or "other sizes")
        raise error("E0113", title, where, problem.diagnostics[0].title, fix=fix) from problem


def _rounded(call: Call, target: Target, dtype: str) -> Call:
    schedule = propose_schedule(call, target, dtype)
    if schedule is None or not schedule.narrowed:
        return call
    kind = dtypes.to_numpy(dtype)
    with np.errstate(over="ignore"):
        constants = tuple(
            array.astype(kind).astype(array.dtype) if param.name in schedule.narrowed else array
            for array, param in zip(call.constants, schedule.kernel.params, strict=True)
        )
    return replace(call, constants=constants)
