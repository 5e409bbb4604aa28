"""What `--dump-after` prints of the stages that follow the passes over graphs."""

from __future__ import annotations

import hashlib

import numpy as np

from sterna.escape import terminal
from sterna.loops.printer import print_function
from sterna.passes.linearize import print_sequence
from sterna.passes.stages import Finished, Grouped, Lowered, Outline, Packed, Scheduled, Sequenced, Viewed, owners
from sterna.passes.views import Permuted, Window
from sterna.te.printer import print_kernel
from sterna.te.tensor import Kernel


def views_text(viewed: Viewed) -> str:
    """Which tensors lie within others, and which nodes need no kernel for it."""
    lines = []
    for value, view in viewed.views.parents.items():
        how = "as it is"
        if isinstance(view, Window):
            how = f"from [{', '.join(map(str, view.offsets))}] in steps of {list(view.steps)}"
        elif isinstance(view, Permuted):
            how = f"with dimensions {list(view.order)}"
        lines.append(f"{value.name} lies in {view.parent.name} {how}")
    lines += sorted(f"no kernel for {node.op} {node.name}" for node in viewed.views.removed)
    return _lines(lines or ["every tensor lies by itself"])


def groups_text(grouped: Grouped) -> str:
    """The nodes of every kernel; those of regions are indented."""
    lines = []
    for graph, groups in grouped.groups.items():
        indent = "" if graph is grouped.graph else "  "
        for group in groups:
            names = ", ".join(value.name for value in group.outputs)
            lines.append(f"{indent}{names} = {' '.join(node.op for node in group.nodes)}")
    return _lines(lines or ["no kernels"])


def sequence_text(sequenced: Sequenced) -> str:
    """The calls in order, and control."""
    return print_sequence(sequenced.sequence)


def kernels_text(sequenced: Sequenced) -> str:
    """The kernels as tensor expressions."""
    calls = sequenced.sequence.calls
    return "\n".join(print_kernel(c.kernel) for c in calls if isinstance(c.kernel, Kernel)) or "no kernels\n"


def memory_text(outline: Outline) -> str:
    """Where every buffer lies."""
    plan = outline.plan
    lines = []
    for n, pool in enumerate(plan.pools):
        bound = "" if n else f", live-set lower bound {plan.live_bytes}"
        lines.append(f"{pool.name} {pool.bytes} bytes{bound}")
        lines += [
            f"  {value.name}: {value.type} at {offset}"
            for value, offset in sorted(plan.offsets.items(), key=lambda item: item[1])
            if plan.pool_of[value] == n
        ]
    return _lines(lines)


def places_text(outline: Outline) -> str:
    """Where every call runs, and the copies between."""
    sequence = outline.sequence
    lines: list[str] = []
    transfers = () if sequence.placement is None else sequence.placement.transfers
    for n, call in enumerate((*sequence.calls, None)):
        for t in transfers:
            if t.before == n:
                lines.append(f"copy {t.value.name} from {t.source or 'cpu'} to {t.destination or 'cpu'}")
        if call is not None:
            lines.append(f"{call.place or 'cpu'}: {call.name}: {call.kernel.name}")
    return _lines(lines or ["no calls"])


def constants_text(outline: Outline) -> str:
    """The weights of every call, by what identifies their bytes."""
    lines = []
    for call in outline.sequence.calls:
        for array in call.constants:
            digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
            lines.append(f"{call.name}: {array.dtype}{list(array.shape)} {digest}")
    return _lines(lines or ["no weights"])


def schedules_text(scheduled: Scheduled) -> str:
    """The steps of every distinct kernel's schedule."""
    texts = []
    for n, (call, schedule) in enumerate(zip(scheduled.firsts, scheduled.schedules, strict=True)):
        steps = schedule.steps if schedule else ("a loop program",)
        texts.append(f"k{n}_{call.kernel.name}\n" + "".join(f"  {step}\n" for step in steps))
    return "\n".join(texts) or "no kernels\n"


def lowered_text(lowered: Lowered) -> str:
    """The loops of every distinct kernel."""
    return "\n".join(map(print_function, lowered.lowered)) or "no kernels\n"


def loops_text(finished: Finished) -> str:
    """The loop programs that generators render."""
    return "\n".join(print_function(kernel.function) for kernel in finished.kernels) or "no kernels\n"


def exchanging_text(finished: Finished) -> str:
    """The loop programs for devices with subgroups."""
    texts = [
        f"with subgroups of {threads} threads, in place of {kernel.function.name}\n{print_function(function)}"
        for kernel in finished.kernels
        for threads, function in kernel.exchanging
    ]
    return "\n".join(texts) or "no kernel exchanges values where a device has subgroups\n"


def shared_text(finished: Finished) -> str:
    """The loop programs that several kernels have in common, each with its arguments."""
    texts = []
    for owner in owners(finished.kernels):
        if owner.general is not None:
            users = [kernel for kernel in finished.kernels if kernel.general is owner.general]
            rows = (f"  {k.function.name}({', '.join(map(str, k.arguments))})\n" for k in users)
            texts.append(print_function(owner.general) + "runs\n" + "".join(rows))
    return "\n".join(texts) or "no kernels share code\n"


def params_text(packed: Packed) -> str:
    """Where the weights of every call lie, and what states hold first."""
    lines = [f"params.bin {len(packed.params)} bytes"]
    for call, (at, size) in zip(packed.sequence.calls, packed.params_at, strict=True):
        lines += [f"  {call.name}: {size} bytes at {at}"] if size else []
    for value, place in zip(packed.graph.live_in, packed.states_at, strict=True):
        lines.append(f"  state {value.name}: {'zeros' if place is None else f'at {place}'}")
    return _lines(lines)


def _lines(lines: list[str]) -> str:
    return "\n".join(map(terminal, lines)) + "\n"
