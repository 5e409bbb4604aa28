"""What tools want to know of a bundle on disk, without loading it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sterna.advice import Advice, Option
from sterna.bundle.ownership import GRAPH_SECTION
from sterna.errors import error
from sterna.toolchain.wasm import custom_section


def read_graph(bundle: str | os.PathLike[str]) -> dict[str, Any]:
    """The contents of graph.json; of a bundle of one file, those of its section.

    Raises:
        SternaError: E0006 the directory holds no bundle, E0504 its graph is not JSON.
    """
    place = Path(bundle)
    path = place / "graph.json"
    try:
        text = (
            path.read_bytes() if path.is_file() else custom_section((place / "model.wasm").read_bytes(), GRAPH_SECTION)
        )
    except (OSError, ValueError):
        text = None
    if text is None:
        raise error(
            "E0006", "not a bundle that a runtime can load", str(place), fix="give the directory that compile wrote"
        )
    try:
        graph = json.loads(text)
    except ValueError as problem:
        raise error("E0504", f"graph.json is not JSON: {problem}", str(place)) from None
    if not isinstance(graph, dict) or "sterna" not in graph:
        raise error("E0504", "graph.json is not that of a bundle", str(place))
    return graph


def bundle_of_browser(bundle: str | os.PathLike[str]) -> dict[str, Any]:
    """The graph of a bundle that browsers can run.

    Raises:
        SternaError: as `read_graph`; E0507 it was compiled for another machine.
    """
    graph = read_graph(bundle)
    triple = str(graph.get("target", {}).get("triple", ""))
    if not triple.startswith("wasm32-freestanding"):
        raise error(
            "E0507",
            f"the bundle was compiled for {triple}",
            str(bundle),
            fix=Advice("compile it with ", Option("target", "browser")),
        )
    return graph


def opened_files(graph: dict[str, Any], bundle: str | os.PathLike[str]) -> list[str]:
    """The files that a runtime opens."""
    if not (Path(bundle) / "graph.json").is_file():
        return [str(graph["library"])]
    return ["graph.json", *sorted(graph["files"])]
