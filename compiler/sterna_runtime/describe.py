"""Facts about a bundle, without running it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sterna_runtime.advice import Compile
from sterna_runtime.dims import Bounds, Dimension
from sterna_runtime.errors import error
from sterna_runtime.graph_file import FIRMWARE
from sterna_runtime.ownership import GRAPH, SINGLE, listed
from sterna_runtime.reader import damaged_files, read_graph


@dataclass(frozen=True)
class Totals:
    """What a run of a model takes.

    Args:
        nodes: kernels that are called.
        arena_bytes: memory for what lies between them; live_bytes: the least that any plan needs.
        multiply_adds: of matrix products, convolutions and recurrences, every node once, at the largest sizes.
        sizes: open dimensions that were given a size to say so, by name.
    """

    nodes: int
    arena_bytes: int
    live_bytes: int
    multiply_adds: int
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class BundleFacts:
    """What a bundle holds.

    Args:
        graph: contents of graph.json; None for the static form, which has none.
        sizes: bytes of every file.
        intact: whether every hash fits; None where there are none.
    """

    directory: Path
    graph: dict[str, Any] | None
    sizes: dict[str, int]
    intact: bool | None


def describe_bundle(directory: str | os.PathLike[str]) -> BundleFacts:
    """The facts of a bundle for any machine.

    Raises:
        SternaError: E0006 the directory is no bundle, E0503 it cannot be read, E0504 to E0506 of graph.json.
    """
    place = Path(directory)
    try:
        sizes = {path.name: path.stat().st_size for path in sorted(place.iterdir()) if path.is_file()}
    except OSError as problem:
        raise error("E0503", f"{problem.filename} cannot be read: {problem.strerror}") from None
    if GRAPH not in sizes and SINGLE not in sizes:
        if FIRMWARE in sizes:
            names = listed(place) or sizes.keys()
            return BundleFacts(place, None, {name: size for name, size in sizes.items() if name in names}, None)
        fix = Compile("MODEL", str(place))
        raise error("E0006", f"{place} is not a bundle: it has no graph.json", fix=fix)
    graph = read_graph(place)
    own = {name: size for name, size in sizes.items() if name in graph["files"] or name == GRAPH}
    return BundleFacts(place, graph, own, not damaged_files(graph, place))


def bundle_totals(graph: Mapping[str, Any]) -> Totals:
    """What a bundle's graph.json says of a run.

    Raises:
        SternaError: E0504, it does not say what it must.
    """
    try:
        symbols = graph.get("symbols", ())
        bounds = {row["name"]: Bounds(row["lo"], row["hi"]) for row in symbols}
        sizes = {name: each.hi for name, each in bounds.items()}
        counts = (Dimension(node.get("multiply_adds", 0), tuple(bounds)).at(sizes) for node in graph["nodes"])
        arena = graph["arena"]
        # Every place has the same plan, of which it needs a part.
        most = max([arena["bytes"], *(device["arena_bytes"] for device in graph.get("devices", ()))])
        return Totals(len(graph["nodes"]), most, arena.get("live_bytes", 0), sum(counts), sizes)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise error("E0504", "graph.json is malformed", fix="compile the model again") from None


def dimension_text(size: Any, symbols: Sequence[Mapping[str, Any]]) -> str:
    """A dimension of graph.json for people: a number, or an expression over the symbols (docs/bundle.md)."""
    if not isinstance(size, list):
        return str(size)
    operator, *operands = size
    if operator == "d":
        return str(symbols[operands[0]]["name"])
    texts = [dimension_text(operand, symbols) for operand in operands]
    if operator in ("min", "max"):
        return f"{operator}({', '.join(texts)})"
    return f"({f' {operator} '.join(texts)})"


def place_names(graph: Mapping[str, Any]) -> list[str]:
    """The places that nodes of a bundle run in, as graph.json counts them: the CPU, then devices."""
    return ["cpu", *(device["kind"] for device in graph.get("devices", ()))]


def as_calls(graph: Mapping[str, Any]) -> Mapping[str, Any]:
    """A graph as if its copies were calls of a kernel "copy", each node with the name of its place as `device`, for who
    lists nodes; a graph of one place as it is."""
    places = place_names(graph)
    if len(places) == 1:
        return graph
    nodes = []
    for node in graph["nodes"]:
        place = node.get("device", 0)
        row = {**node, "device": places[place]}
        if node.get("op") == "copy":
            value, place = node["value"], node["from"] or node["to"]
            row |= {"kernel": len(graph["kernels"]), "in": [value], "out": [value], "tasks": 1, "device": places[place]}
        nodes.append(row)
    return {**graph, "nodes": nodes, "kernels": [*graph["kernels"], {"name": "copy"}]}
