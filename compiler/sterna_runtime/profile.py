"""Times of a model's nodes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sterna_runtime import library
from sterna_runtime.handle import Handle, text


@dataclass(frozen=True)
class NodeTime:
    """Time that one node takes in a run, all iterations of a loop together; 0 if the run does not reach it.

    `sources` are the names of the source model's nodes that were fused into it.
    """

    index: int
    name: str
    kernel: str
    sources: tuple[str, ...]
    tasks: int
    nanoseconds: int
    """median of all runs"""
    fastest: int
    """least of all runs, in nanoseconds"""
    calls: int
    """how often a run computes it, the median of all runs: more than once in a loop, 0 if runs do not reach it"""


def measure(handle: Handle, repeat: int, run: Callable[[], None]) -> tuple[list[list[int]], list[list[int]]]:
    """Of every node in each of so many runs: nanoseconds, and how often it was computed."""
    functions, pointer = handle.functions, handle.pointer
    times: list[list[int]] = [[] for _ in range(functions.sterna_node_count(pointer))]
    calls: list[list[int]] = [[] for _ in times]

    def on_node(_user: int | None, node: int, _name: bytes, nanoseconds: int) -> None:
        times[node][-1] += nanoseconds
        calls[node][-1] += 1

    callback = library.ON_NODE(on_node)
    functions.sterna_set_on_node(pointer, ctypes.cast(callback, ctypes.c_void_p), None)
    try:
        for _ in range(repeat):
            for measured in (*times, *calls):
                measured.append(0)
            run()
    finally:
        functions.sterna_set_on_node(pointer, None, None)
    return times, calls


def node_times(
    handle: Handle, times: Sequence[Sequence[int]], calls: Sequence[Sequence[int]], sources: Sequence[tuple[str, ...]]
) -> list[NodeTime]:
    """What was measured, with what the nodes are; `sources` by node, or nothing."""
    result = []
    for index, measured in enumerate(times):
        info = library.CNode()
        handle.check(handle.functions.sterna_node_info(handle.pointer, index, info))
        result.append(
            NodeTime(
                index,
                text(info.name),
                text(info.kernel),
                sources[index] if index < len(sources) else (),
                info.tasks,
                int(np.median(measured)),
                min(measured),
                int(np.median(calls[index])),
            )
        )
    return result
