"""What graph.json says of devices (docs/bundle.md, "Devices"): launches of kernels, copies, and memory of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sterna.compiled import Compiled
from sterna.ir import dtypes
from sterna.ir.graph import Value
from sterna.loops import program as P
from sterna.passes.kernels import CPU, Call
from sterna.passes.linearize import Choice, Transfer
from sterna.passes.stages import Planned
from sterna.te import expr as E
from sterna.te.layout import most_elements
from sterna_runtime.abi import aligned

#: Threads of a kernel whose tasks are run by one each; fewer where each has scratch of its own.
_MOST_THREADS, _MOST_WITH_SCRATCH = 1 << 16, 1 << 10


def device_number(compiled: Compiled, place: str) -> int:
    """How graph.json counts places: 0 is the CPU."""
    return 0 if place == CPU or compiled.options.target.device is None else 1


def device_rows(compiled: Compiled) -> list[dict[str, Any]]:
    """The list `devices`; empty where every kernel is on the CPU."""
    device = compiled.options.target.device
    own = [kernel for kernel in compiled.kernels if device is not None and kernel.place == device.kind]
    if device is None or not own:
        return []
    placed = zip(compiled.calls, compiled.params_at, strict=True)
    blocks = [(at, at + size) for call, (at, size) in placed if size and call.place != CPU]
    first = min((at for at, _ in blocks), default=0)
    asked = {name for kernel in own for name in _needs(kernel.function)}
    if (threads := max(P.exchanged(kernel.function.body) for kernel in own)) > 1:
        asked.add(f"subgroup_{threads}")
    needs = {*device.needs, *(name for name in asked if name.partition("_")[0] not in device.emulates)}
    return [
        {
            "name": compiled.options.target.name,
            "kind": device.kind,
            "module": device.module,
            "needs": sorted(needs),
            "arena_bytes": arena_bytes(compiled, device.kind),
            "scratch_bytes": max(_scratch_bytes(kernel.function) for kernel in own),
            "params": [first, max((end for _, end in blocks), default=0) - first],
        }
    ]


def arena_bytes(compiled: Compiled, place: str) -> int:
    """Bytes of the arena of a place: up to the end of the last buffer that is touched there."""
    if compiled.placement is None:
        return compiled.plan.arena_bytes
    offsets = compiled.plan.offsets
    roots = {root for root in _touched(compiled, place) if root in offsets}
    ends = (offsets[root] + most_elements(root.shape) * dtypes.size(root.dtype) for root in roots)
    return aligned(max(ends, default=0))


def _touched(compiled: Compiled, place: str) -> Iterator[Value]:
    """The values whose memory calls, copies and control touch in a place."""
    plan, storage = compiled.plan, compiled.views.storage

    def owner(value: Value) -> Value:
        return plan.owner(storage(value).root)

    for call in compiled.calls:
        if call.place == place:
            yield from map(owner, (*call.inputs, *call.outputs))
    assert compiled.placement is not None
    for transfer in compiled.placement.transfers:
        if place in (transfer.source, transfer.destination):
            yield transfer.value
    for value, where in zip(compiled.graph.live_in, compiled.placement.states, strict=True):
        if where == place:
            yield value
    for control in compiled.control if place == CPU else ():
        read = (
            (control.condition,) if isinstance(control, Choice) else (control.trips, control.condition, control.number)
        )
        yield from (owner(value) for value in read if value is not None)


def launch(compiled: Compiled, kernel: Planned) -> dict[str, Any]:
    """What graph.json says of a kernel beside its name: for one of a device, what its launch takes."""
    function = kernel.function
    if kernel.place == CPU:
        return {}
    row = {"device": device_number(compiled, kernel.place), **_launch(function)}
    row["scratch_bytes"] = function.scratch_bytes
    if any(isinstance(s, P.Require) for s in P.walk(function.body)):
        row["checks"] = True
    if kernel.exchanging:
        row["exchanging"] = [{"subgroup": n, "name": f.name, **_launch(f)} for n, f in kernel.exchanging]
    return row


def _launch(function: P.Function) -> dict[str, Any]:
    row: dict[str, Any] = {"tasks": P.most(function.n_tasks)}
    if function.has_threads:
        row["threads"] = list(P.thread_counts(function.body).values())
        row["shared_bytes"] = _shared_bytes(function)
        if asked := _asked_bytes(function):
            row["asked_bytes"] = asked
    else:
        row["most_threads"] = _most_threads(function)
    return row


def _most_threads(function: P.Function) -> int:
    """Of a kernel whose tasks are run by one thread each."""
    most = _MOST_WITH_SCRATCH if function.scratch_bytes else _MOST_THREADS
    return max(1, min(P.most(function.n_tasks), most))


def _scratch_bytes(function: P.Function) -> int:
    """What all groups or threads of a launch take."""
    running = P.most(function.n_tasks) if function.has_threads else _most_threads(function)
    return function.scratch_bytes * running


def _shared_bytes(function: P.Function) -> int:
    """What a group has in memory that its threads share."""
    shared = (s.buffer for s in P.walk(function.body) if isinstance(s, P.Alloc) and s.buffer.scope.reach == "block")
    return max((b.slot + b.elements * dtypes.size(b.dtype) for b in shared if not b.scope.in_scratch), default=0)


def _asked_bytes(function: P.Function) -> int:
    """What of it the launch asks for: all, where it is more than a group has otherwise."""
    return max((size for memory, size in P.taken(function.body).items() if size > memory.bytes), default=0)


def _needs(function: P.Function) -> Iterator[str]:
    """What a kernel asks of a device that not every one has."""
    if _asked_bytes(function):
        yield "asked_bytes"
    buffers = {b for s in P.walk(function.body) for b in P.touched(s)}
    values = (value for s in P.walk(function.body) if (value := P.value_of(s)) is not None)
    if any(b.dtype == "float64" for b in buffers) or any(x.dtype == "float64" for v in values for x in E.walk(v)):
        yield "float64"


def stay_row(call: Call) -> dict[str, Any]:
    """Why a call is on the CPU, for who looks into the bundle; nothing for others."""
    return {} if call.stay is None else {"stay": call.stay.json()}


def with_copies(
    compiled: Compiled, nodes: list[dict[str, Any]], control: list[dict[str, Any]], index: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Nodes and control with the copies among them, and the device of every node.

    Args:
        index: of a value, in the list of values.
    """
    if compiled.placement is None:
        return nodes, control
    before: list[list[Transfer]] = [[] for _ in range(len(nodes) + 1)]
    for transfer in compiled.placement.transfers:
        before[transfer.before].append(transfer)
    made: list[dict[str, Any]] = []
    at: list[int] = []
    for n, transfers in enumerate(before):
        made += [_copy(compiled, transfer, index(transfer.value)) for transfer in transfers]
        at.append(len(made))
        if n < len(nodes):
            device = device_number(compiled, compiled.calls[n].place)
            made.append({**nodes[n], "device": device} if device else nodes[n])
    return made, [{**row, "nodes": _with_copies_before(row["nodes"], at)} for row in control]


def _with_copies_before(nodes: Sequence[int], at: Sequence[int]) -> list[int]:
    """Where the ranges of a control begin and end among nodes with copies, of which none stands within it: a range ends
    one behind its last node, and one of the two of a choice may be empty.

    Args:
        nodes: where they begin and end without copies; at: where each node is then.
    """
    first, *rest = nodes
    return [at[first], *(at[n - 1] + 1 if n > first else at[first] for n in rest)]


def _copy(compiled: Compiled, transfer: Transfer, value: int) -> dict[str, Any]:
    source, destination = (device_number(compiled, place) for place in (transfer.source, transfer.destination))
    return {"name": f"copy {transfer.value.name}", "op": "copy", "value": value, "from": source, "to": destination}
