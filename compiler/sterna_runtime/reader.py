"""What tools want to know of a bundle on disk, without loading it. Nothing in it is believed before it is checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sterna_runtime import hash64
from sterna_runtime.abi import FORMAT, MAX_GRAPH_BYTES, OLDEST_FORMAT
from sterna_runtime.advice import Advice, Option
from sterna_runtime.errors import SternaError, error
from sterna_runtime.ownership import AT_COMPILE_TIME, GRAPH, SINGLE, entry, parts_of_one_file
from sterna_runtime.strings import FILE as STRINGS
from sterna_runtime.validation import check_graph

_FIRST_LINE = re.compile(rb'\{"sterna":(\d{1,6}),"hash":"([0-9a-f]{16})",\n')


def read_graph(bundle: str | os.PathLike[str]) -> dict[str, Any]:
    """The contents of graph.json; of a bundle of one file, those of its section.

    Raises:
        SternaError: E0006 the directory holds no bundle; E0504 its graph is malformed; E0505 it is damaged; E0506 it is
            of another version.
    """
    return parse_graph(_graph_text(Path(bundle)), str(bundle))


def parse_graph(text: bytes, place: str) -> dict[str, Any]:
    """The checked contents of graph.json; errors as of `read_graph`."""
    if len(text) > MAX_GRAPH_BYTES:
        raise error("E0504", f"graph.json has {len(text):,} bytes; at most {MAX_GRAPH_BYTES >> 20} MiB are read", place)
    line = _FIRST_LINE.match(text)
    if line is None:
        raise error("E0504", "graph.json is not that of a bundle: its first line is another", place)
    if not OLDEST_FORMAT <= int(line[1]) <= FORMAT:
        read = f"{OLDEST_FORMAT} to {FORMAT}"
        raise error("E0506", f"graph.json has format version {int(line[1])}; this version reads {read}", place)
    if hash64(text[line.end() :]) != line[2].decode():
        raise error("E0505", "graph.json is damaged: its hash is another", place, fix="compile the model again")
    try:
        graph = json.loads(text, object_pairs_hook=_members)
        check_graph(graph)
    except (ValueError, LookupError, TypeError, RecursionError) as problem:
        reason = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        raise error("E0504", f"graph.json is malformed: {reason}", place, fix="compile the model again") from None
    return dict(graph)


def bundle_of_browser(bundle: str | os.PathLike[str]) -> dict[str, Any]:
    """The graph of a bundle that browsers can run.

    Raises:
        SternaError: as `read_graph`; E0507 it was compiled for another machine.
    """
    graph = read_graph(bundle)
    triple = graph["target"]["triple"]
    if not triple.startswith("wasm32-freestanding"):
        fix = Advice("compile the model for it: ", Option("target", "browser"))
        machine = triple or ", ".join(device["kind"] for device in graph.get("devices", ()))
        raise error("E0507", f"the bundle was compiled for {machine}", str(bundle), fix=fix)
    return graph


def runtime_files(bundle: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The graph of a bundle for browsers, and the contents of all that a runtime opens, by name; all hashes are right.

    Raises:
        SternaError: as `bundle_of_browser`; E0503 a file cannot be read; E0505 one is not what was compiled.
    """
    place = Path(bundle)
    graph = bundle_of_browser(place)
    if not (place / GRAPH).is_file():
        return graph, {SINGLE: _checked_whole(place, graph), **_strings(place, graph)}
    return graph, contents(place, graph)


def contents(place: Path, graph: dict[str, Any], more: Sequence[str] = ()) -> dict[str, bytes]:
    """All files of a bundle that a runtime opens, by name, and those of `more`; all hashes are right.

    Raises:
        SternaError: E0503 a file cannot be read; E0505 one is not what was compiled.
    """
    names = ["params.bin", graph.get("library", "")]
    names += [v[key] for v in graph.get("variants", ()) for key in ("library", "graph") if key in v]
    names += [device["module"] for device in graph.get("devices", ())]
    text = _graph_text(place)
    if parse_graph(text, str(place)) != graph:
        raise error("E0505", "the bundle was replaced while it was read", str(place), fix="try again")
    found = {name: _checked(place, name, graph) for name in dict.fromkeys(filter(None, (*names, *more)))}
    # A variant with a graph of its own names its library there.
    graphs = [
        parse_graph(found[v["graph"]], str(place / v["graph"])) for v in graph.get("variants", ()) if "graph" in v
    ]
    found |= {each["library"]: _checked(place, each["library"], graph) for each in graphs}
    return {GRAPH: text, **found, **_strings(place, graph)}


def damaged_files(graph: dict[str, Any], place: Path) -> list[str]:
    """Files that are not what they were when the bundle was compiled, and those that are missing and are opened."""
    single = not (place / GRAPH).is_file()
    bad = []
    for name in graph["files"]:
        source = name in AT_COMPILE_TIME or (name.startswith("kernels.") and name.endswith(".c"))
        if (source and not (place / name).exists()) or (single and name == "params.bin"):
            continue
        try:
            if single and name == SINGLE:
                _checked_whole(place, graph)
            else:
                _checked(place, name, graph)
        except SternaError:
            bad.append(name)
    return bad


def _strings(place: Path, graph: dict[str, Any]) -> dict[str, bytes]:
    return {STRINGS: _checked(place, STRINGS, graph)} if STRINGS in graph["files"] else {}


def _checked(place: Path, name: str, graph: dict[str, Any]) -> bytes:
    data = _read(place, name)
    _compare(place, name, data, graph)
    return data


def _checked_whole(place: Path, graph: dict[str, Any]) -> bytes:
    """The one file of a bundle, whose library and weights are as compiled."""
    data = _read(place, SINGLE)
    try:
        parts = parts_of_one_file(data)
    except ValueError as problem:
        raise error("E0504", f"{SINGLE}: {problem}", str(place), fix="compile the model again") from None
    for name in (SINGLE, "params.bin"):
        _compare(place, name, parts[name], graph)
    return data


def _compare(place: Path, name: str, data: bytes, graph: dict[str, Any]) -> None:
    row, found = graph["files"][name], entry(data)
    if found != {key: row[key] for key in found}:
        fix = "copy the bundle again, or compile the model again"
        raise error("E0505", f"{name} is damaged: its size or hash is not the one in graph.json", str(place), fix=fix)


def _read(place: Path, name: str) -> bytes:
    try:
        if (place / name).is_symlink() or not (place / name).is_file():
            raise error("E0503", f"{name} is missing, or no regular file", str(place))
        return (place / name).read_bytes()
    except OSError as problem:
        raise error("E0503", f"{name} cannot be read: {problem.strerror}", str(place)) from None


def _graph_text(place: Path) -> bytes:
    """The bytes of graph.json, wherever they are."""
    text = None
    try:
        if (place / GRAPH).is_file():
            text = (place / GRAPH).read_bytes()
        elif (place / SINGLE).is_file():
            text = parts_of_one_file((place / SINGLE).read_bytes())[GRAPH]
    except (OSError, ValueError, IndexError):
        pass
    if text is None:
        raise error(
            "E0006", "not a bundle that a runtime can load", str(place), fix="give the directory that compile wrote"
        )
    return text


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member occurs twice")
    return members
