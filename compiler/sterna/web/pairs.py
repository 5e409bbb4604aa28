"""Two bundles of one model, for WebAssembly and for WebGPU: a page takes that which it can run."""

from __future__ import annotations

import os
from typing import Any

from sterna.errors import error
from sterna_runtime.advice import Advice, Option
from sterna_runtime.reader import read_graph


def kinds_of(graph: dict[str, Any]) -> list[str]:
    """The kinds of devices that a graph has nodes on."""
    return [device["kind"] for device in graph.get("devices", ())]


def gpu_bundle(gpu: str | os.PathLike[str], beside: dict[str, Any], other: str | os.PathLike[str]) -> dict[str, Any]:
    """The graph of a bundle for WebGPU.

    Args:
        beside: the graph of the bundle for WebAssembly; other: its path.

    Raises:
        SternaError: as `read_graph`; E0507 it is not for WebGPU, or nothing of it runs there; E0002 it is of another
            model.
    """
    graph = read_graph(gpu)
    kinds = kinds_of(graph)
    if kinds != ["webgpu"]:
        machine = ", ".join(kinds) or graph["target"]["triple"]
        fix = Advice("compile the model for it: ", Option("target", "webgpu"))
        raise error("E0507", f"the bundle was compiled for {machine}", str(gpu), fix=fix)
    if _signature(graph) != _signature(beside):
        raise error("E0002", f"{gpu} has other inputs or outputs than {other}", fix="give two bundles of one model")
    return graph


def _signature(graph: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = [graph["values"][index] for side in ("inputs", "outputs") for index in graph[side]]
    return [(row["name"], row["dtype"], row["dims"]) for row in rows]
