"""Times of a model's nodes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from sterna_runtime import library
from sterna_runtime.handle import Handle


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


def measure(handle: Handle, repeat: int, run: Callable[[], None]) -> list[list[int]]:
    """Nanoseconds of every node in each of so many runs."""
    functions, pointer = handle.functions, handle.pointer
    times: list[list[int]] = [[] for _ in range(functions.sterna_node_count(pointer))]

    def on_node(_user: int | None, node: int, _name: bytes, nanoseconds: int) -> None:
        times[node][-1] += nanoseconds

    callback = library.ON_NODE(on_node)
    functions.sterna_set_on_node(pointer, ctypes.cast(callback, ctypes.c_void_p), None)
    try:
        for _ in range(repeat):
            for measured in times:
                measured.append(0)
            run()
    finally:
        functions.sterna_set_on_node(pointer, None, None)
    return times
