"""A run as events for Perfetto and chrome://tracing: which worker computed which tasks of which node, and when.

The runtime tells when a node is done. Tasks are told by the kernels themselves: the runtime is given a table whose
entries note the time, call the kernel of the library, and note the time again. That costs some microseconds for each
part of a node that a worker takes, which are in the trace and in no other measurement.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sterna_runtime import Bundle, library
from sterna_runtime.abi import ALIGNMENT
from sterna_runtime.library import ON_NODE
from sterna_runtime.reader import read_graph

#: Nanoseconds by which a node may seem to begin after its first part.
_LATE = 20_000
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)


class _Kernel(ctypes.Structure):
    """sterna_kernel"""

    _fields_ = (
        ("function", ctypes.c_void_p), ("n_tasks", ctypes.c_uint32), ("scratch_bytes", ctypes.c_uint32),
        ("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
    )  # fmt: skip


class _Library(ctypes.Structure):
    """sterna_library"""

    _fields_ = (
        ("size", ctypes.c_uint32), ("abi", ctypes.c_uint32), ("n_kernels", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32), ("kernels", ctypes.POINTER(_Kernel)), ("features", ctypes.c_char_p),
    )  # fmt: skip


class _Call(ctypes.Structure):
    """The beginning of sterna_call, up to the worker's number."""

    _fields_ = (
        ("size", ctypes.c_uint32), ("n_workers", ctypes.c_uint32), ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p), ("params", ctypes.c_void_p), ("scratch", ctypes.c_void_p),
        ("dims", ctypes.c_void_p), ("worker", ctypes.c_uint32),
    )  # fmt: skip


@dataclass
class Part:
    """What one worker did of a node: tasks from `first` to before `last`, from `begin` to `end` in nanoseconds."""

    worker: int
    kernel: int
    first: int
    last: int
    begin: int
    end: int
    node: int = -1


class Tracing:
    """The functions of the C runtime, for models whose kernels note when they run: `library.replaced_by(Tracing())`."""

    def __init__(self) -> None:
        self._here = library.here()
        self._held: list[Any] = []
        self.parts: list[Part] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here, name)

    def sterna_load(self, path: bytes, options: Any, out: Any, problem: Any) -> int:
        """Loads a bundle by its files, with a table of its own."""
        place = Path(os.fsdecode(path))
        graph, text = read_graph(place), (place / "graph.json").read_bytes()
        kernels = ctypes.CDLL(str((place / graph["library"]).resolve()))
        table = getattr(kernels, f"sterna_{graph['model']}_library")
        table.restype = ctypes.POINTER(_Library)
        params = _aligned((place / "params.bin").read_bytes())
        own = self._noting(table().contents)
        self._held += [kernels, text, params, own]
        status: int = self._here.sterna_load_table(
            text,
            ctypes.c_size_t(len(text)),
            ctypes.c_void_p(params.ctypes.data),
            ctypes.c_size_t(params.nbytes),
            ctypes.byref(own),
            ctypes.byref(options),
            out,
            ctypes.byref(problem),
        )
        return status

    def _noting(self, table: _Library) -> _Library:
        rows = (_Kernel * table.n_kernels)()
        for n in range(table.n_kernels):
            known = table.kernels[n]
            function = _FUNCTION(self._noted(n, _FUNCTION(known.function)))
            self._held.append(function)
            address = ctypes.cast(function, ctypes.c_void_p).value
            rows[n] = _Kernel(address, known.n_tasks, known.scratch_bytes, known.flags, 0)
        self._held.append(rows)
        pointer = ctypes.cast(rows, ctypes.POINTER(_Kernel))
        return _Library(ctypes.sizeof(_Library), table.abi, table.n_kernels, 0, pointer, table.features)

    def _noted(self, kernel: int, function: Callable[..., int]) -> Callable[..., int]:
        def run(call: int, first: int, last: int) -> int:
            worker = _Call.from_address(call).worker
            begin = time.perf_counter_ns()
            status = function(call, first, last)
            self.parts.append(Part(worker, kernel, first, last, begin, time.perf_counter_ns()))
            return status

        return run


def _aligned(data: bytes) -> Any:
    room = np.zeros(len(data) + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return room[start : start + len(data)]


@dataclass(frozen=True)
class Step:
    """A node of a run: its number, when it ended and how long it took, in nanoseconds."""

    node: int
    end: int
    nanoseconds: int


def traced_run(model: Bundle, tracing: Tracing) -> tuple[list[Step], list[Part]]:
    """One run of a model that was loaded while `tracing` was in place, on its current inputs."""
    functions, pointer = model.of_runtime()
    steps: list[Step] = []
    model.run()
    tracing.parts.clear()

    def on_node(_user: int | None, node: int, _name: bytes, nanoseconds: int) -> None:
        for part in reversed(tracing.parts):
            if part.node >= 0:
                break
            part.node = node
        steps.append(Step(node, time.perf_counter_ns(), nanoseconds))

    callback = ON_NODE(on_node)
    functions.sterna_set_on_node(pointer, ctypes.cast(callback, ctypes.c_void_p), None)
    try:
        model.run()
    finally:
        functions.sterna_set_on_node(pointer, None, None)
    return steps, list(tracing.parts)


def events(
    subject: Mapping[str, Any], steps: Sequence[Step], parts: Sequence[Part], title: Callable[[int], str]
) -> dict[str, Any]:
    """The trace, in the Trace Event Format: a track of nodes (of each device, where there are several), and one of each
    worker.

    Args:
        subject: as `data.describe` gives it; title: of a node.
    """
    nodes = subject["nodes"]
    devices = list(dict.fromkeys(str(nodes[step.node]["device"] or "nodes") for step in steps)) or ["nodes"]
    workers = sorted({part.worker for part in parts})
    named = [*devices, *(f"worker {worker}" for worker in workers)]
    rows: list[dict[str, Any]] = [_metadata("process_name", 0, f"sterna: {subject['name']}")]
    for track, name in enumerate(named):
        rows += [_metadata("thread_name", track, name), _metadata("thread_sort_index", track, track)]
    steps = [_around(step, [part for part in parts if part.node == step.node]) for step in steps]
    start = min((step.end - step.nanoseconds for step in steps), default=0)
    for step in steps:
        node = nodes[step.node]
        told = ("sources", "multiply_adds", "moved_bytes")
        kernel = subject["kernels"][node["kernel"]]["name"]
        arguments = {"node": step.node, "kernel": kernel, **{key: node[key] for key in told}}
        track = devices.index(str(node["device"] or "nodes"))
        begin = step.end - step.nanoseconds - start
        rows.append(_event(title(step.node), "node", track, begin, step.nanoseconds, arguments))
    for part in parts:
        name = subject["kernels"][part.kernel]["name"]
        arguments = {"node": part.node, "tasks": [part.first, part.last]}
        track = len(devices) + workers.index(part.worker)
        rows.append(_event(name, "tasks", track, part.begin - start, part.end - part.begin, arguments))
    return {"displayTimeUnit": "ns", "traceEvents": rows}


def _around(step: Step, parts: Sequence[Part]) -> Step:
    """A node with its parts within it: the runtime's callback comes a little after the last of them."""
    own = [part for part in parts if step.end - step.nanoseconds - _LATE <= part.begin and part.end <= step.end]
    if not own:
        return step
    end = max(part.end for part in own)
    return Step(step.node, end, end - min(part.begin for part in own))


def in_sequence(nanoseconds: Sequence[int]) -> list[Step]:
    """Nodes one after another by their medians: of a run elsewhere, which tells no more."""
    steps, at = [], 0
    for node, taken in enumerate(nanoseconds):
        at += taken
        steps.append(Step(node, at, taken))
    return steps


def _metadata(kind: str, track: int, value: str | int) -> dict[str, Any]:
    key = "sort_index" if kind.endswith("sort_index") else "name"
    return {"ph": "M", "pid": 1, "tid": track, "name": kind, "args": {key: value}}


def _event(name: str, category: str, track: int, begin: int, taken: int, arguments: dict[str, Any]) -> dict[str, Any]:
    times = {"ts": begin / 1000, "dur": taken / 1000}
    return {"ph": "X", "pid": 1, "tid": track, "name": name, "cat": category, **times, "args": arguments}
