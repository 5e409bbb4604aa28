"""Checks of what the stages after the passes over graphs hand on. What they find is a bug of ours.

The graph is checked by `ir.verifier`, loop programs by `loops.finish`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sterna.errors import internal_error
from sterna.ir import dtypes
from sterna.ir.graph import Graph, Node, Value
from sterna.passes.fuse import Group
from sterna.passes.linearize import CallSequence, Choice, Repeat
from sterna.passes.stages import Finished, Grouped, Lowered, Outline, Packed, Scheduled, Sequenced, Viewed, owners
from sterna.targets.target import LEAST_ALIGNMENT
from sterna.te.layout import most_elements
from sterna.te.tensor import Kernel


def verify_views(viewed: Viewed, stage: str) -> None:
    """Every tensor that lies within another is of its type, and leads to one that owns its memory."""
    problems = []
    for value, view in viewed.views.parents.items():
        seen, at = {value}, view.parent
        while at in viewed.views.parents and at not in seen:
            seen.add(at)
            at = viewed.views.parents[at].parent
        if at in seen:
            problems.append(f"{value.name} lies within itself")
        if value.dtype != view.parent.dtype:
            problems.append(f"{value.name} is {value.dtype}, and lies in {view.parent.name} of {view.parent.dtype}")
    _refuse(problems, stage)


def verify_groups(grouped: Grouped, stage: str) -> None:
    """Every node that needs a kernel is in a group, in one alone if its value leaves that; every group stands after
    those that it reads from."""
    problems = []
    for graph, groups in grouped.groups.items():
        problems += _wrong_groups(graph, groups, grouped)
    _refuse(problems, stage)


def _wrong_groups(graph: Graph, groups: Sequence[Group], grouped: Grouped) -> list[str]:
    place: dict[Node, int] = {}
    problems = []
    several = {node for node, count in Counter(n for group in groups for n in group.nodes).items() if count > 1}
    for n, group in enumerate(groups):
        stored = several & {node for node in group.nodes if not set(group.outputs).isdisjoint(node.outputs)}
        problems += [f"{node.name} is in two kernels, and one stores it" for node in group.nodes if node in stored]
        place |= dict.fromkeys(group.nodes, n)
    for node in graph.nodes:
        empty = all(value.type.elements == 0 for value in node.outputs)
        if node not in place and node not in grouped.views.removed and not empty:
            problems.append(f"no kernel computes {node.name}")
    producers = graph.producers()
    for n, group in enumerate(groups):
        read = [v for node in group.nodes for v in node.operands if producers.get(v) not in group.nodes]
        late = [v for v in read if (p := producers.get(v)) and (place.get(p, -1) > n or p in several)]
        problems += [f"{group.nodes[0].name} reads {value.name} before it is computed" for value in late]
    return problems


def verify_sequence(sequenced: Sequenced, stage: str) -> None:
    """Every call reads what an earlier one wrote, or one in the same loop; every output is written."""
    storage, graph = sequenced.views.storage, sequenced.graph
    ends = {storage(v).root for v in graph.inputs}
    written = set(ends)
    problems = _wrong_control(sequenced.sequence)
    loops = [c for c in sequenced.sequence.control if isinstance(c, Repeat)]
    calls = sequenced.sequence.calls
    inside = [{storage(v).root for call in calls[c.first : c.last] for v in call.outputs} for c in loops]
    for n, call in enumerate(calls):
        around = [roots for c, roots in zip(loops, inside, strict=True) if c.first <= n < c.last]
        numbers = {c.number for c in loops if c.first <= n < c.last}
        for value in call.inputs:
            root = storage(value).root
            known = root in written or root in numbers or any(root in roots for roots in around)
            if not known and root.type.elements != 0:
                problems.append(f"{call.name} reads {value.name}, which nothing has written")
        written |= {storage(v).root for v in call.outputs}
    for value, name in zip(graph.outputs, graph.output_names, strict=True):
        if storage(value).root not in written and not value.is_constant and value.type.elements != 0:
            problems.append(f"nothing writes the output {name}")
    _refuse(problems, stage)


def _wrong_control(sequence: CallSequence) -> list[str]:
    problems = []
    for n, control in enumerate(sequence.control):
        middle = control.middle if isinstance(control, Choice) else control.first
        if not 0 <= control.first <= middle <= control.last <= len(sequence.calls) or control.first == control.last:
            problems.append(f"{control.name} is over no range of calls")
        for other in sequence.control[:n]:
            apart = other.last <= control.first or control.last <= other.first
            if not apart and not other.first <= control.first <= control.last <= other.last:
                problems.append(f"{other.name} and {control.name} overlap")
    return problems


def verify_memory(outline: Outline, stage: str) -> None:
    """No two buffers overlap that are in use at one time, unless one is made of the other in its place."""
    lives = _lives(outline)
    roots = [root for root in lives if root in outline.plan.offsets]
    if not roots:
        return
    start = np.array([outline.plan.offsets[root] for root in roots], np.int64)
    size = np.array([most_elements(root.shape) * dtypes.size(root.dtype) for root in roots], np.int64)
    first, last = (np.array([lives[root][end] for root in roots], np.int64) for end in (0, 1))
    end = start + size
    pools = outline.plan.pools
    pool = np.array([outline.plan.pool_of[root] for root in roots], np.int64)
    problems = [
        f"{root.name} leaves the {pools[p].name}"
        for root, e, p in zip(roots, end, pool, strict=True)
        if e > pools[p].bytes
    ]
    problems += [f"{p.name} has no {p.bytes} bytes" for p in pools if p.memory is not None and p.bytes > p.memory.bytes]
    for n, root in enumerate(roots):
        meets = (start < end[n]) & (start[n] < end) & (first <= last[n]) & (first[n] <= last) & (start != start[n])
        meets &= pool == pool[n]
        problems += [f"{root.name} and {roots[m].name} overlap" for m in np.flatnonzero(meets) if m > n]
    _refuse(problems, stage)


def _lives(outline: Outline) -> dict[Value, tuple[int, int]]:
    """The first and last call that touches each buffer; of one that a loop carries, all of the loop's."""
    lives: dict[Value, tuple[int, int]] = {}
    for n, call in enumerate(outline.sequence.calls):
        for value in (*call.inputs, *call.outputs):
            root = outline.plan.owner(outline.views.storage(value).root)
            lives[root] = (lives.get(root, (n, n))[0], n)
    for control in reversed(outline.sequence.control):
        if isinstance(control, Repeat):
            for root, (first, last) in lives.items():
                if first < control.first <= last < control.last:
                    lives[root] = first, control.last
    for value in (*outline.graph.live_in, *(v for call in outline.sequence.calls for v in call.counters)):
        lives[value] = 0, len(outline.sequence.calls)
    return lives


def verify_schedules(scheduled: Scheduled, stage: str) -> None:
    """Every distinct kernel has a schedule of itself, and every call one of them."""
    problems = []
    for call, schedule in zip(scheduled.firsts, scheduled.schedules, strict=True):
        if isinstance(call.kernel, Kernel) != (schedule is not None):
            problems.append(f"{call.name} has {'no' if schedule is None else 'a'} schedule")
    if len(scheduled.kernel_of) != len(scheduled.sequence.calls):
        problems.append("there are calls without a kernel")
    _refuse(problems, stage)


def verify_lowered(lowered: Lowered, stage: str) -> None:
    """Every loop program has the operands of its call."""
    problems = []
    for call, function in zip(lowered.firsts, lowered.lowered, strict=True):
        found = len({b.slot for b in function.inputs}), len({b.slot for b in function.outputs})
        if found != (len(call.inputs), len(call.outputs)) or len(function.params) < len(call.constants):
            problems.append(f"{function.name} has other operands than {call.name}")
    _refuse(problems, stage)


def verify_finished(finished: Finished, stage: str) -> None:
    """Every kernel has a name of its own; what it accesses was proved when it was made."""
    names = [owner.code.name for owner in owners(finished.kernels)]
    names += [function.name for kernel in finished.kernels for _, function in kernel.exchanging]
    _refuse([f"two kernels are named {name}" for name in names if names.count(name) > 1], stage)


def verify_packed(packed: Packed, stage: str) -> None:
    """The weights of every call lie in params.bin, aligned."""
    problems = []
    for call, k, (at, size) in zip(packed.sequence.calls, packed.kernel_of, packed.params_at, strict=True):
        params = packed.kernels[k].function.params
        needed = max((b.slot + b.elements * dtypes.size(b.dtype) for b in params), default=0)
        if at % LEAST_ALIGNMENT or size < needed or at + size > len(packed.params):
            problems.append(f"the weights of {call.name} are {size} bytes at {at} of {len(packed.params)}")
    _refuse(problems, stage)


def _refuse(problems: list[str], stage: str) -> None:
    """E0901, where something is wrong."""
    if problems:
        raise internal_error(f"what {stage} made is malformed", *dict.fromkeys(problems))
