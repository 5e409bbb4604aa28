"""Which files of a directory are a bundle's own: those that its manifest names and that are still what it says.

The manifest of a bundle is `files` in graph.json, in a bundle of one file the same in the section of model.wasm, and
where there is neither (firmware) a comment at the end of model.h. A hostile one is believed little: only names that the
compiler gives are looked at, and source that was edited since belongs to whoever edited it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sterna_runtime import hash64
from sterna_runtime.abi import MAX_GRAPH_BYTES
from sterna_runtime.sections import PREAMBLE, custom_sections, section_header

GRAPH = "graph.json"
HEADER = "model.h"
SINGLE = "model.wasm"
#: Where graph.json and params.bin stand in a bundle of one file: the first section and the last one.
GRAPH_SECTION, PARAMS_SECTION = "sterna.graph", "sterna.params"
#: Names of manifests, the one that a loader looks for first.
MANIFESTS = (GRAPH, SINGLE, HEADER)
#: Every name that the compiler gives to a file of a bundle.
_NAMES = re.compile(
    r"graph\.json|firmware\.json|params\.bin|kernels\.(c|cl|ptx|metal|wgsl)|model\.[ch]|params\.(c|S|ld)|strings\.json|golden\.(json|bin)"
    r"|model(\.[A-Za-z0-9_-]+)?\.(so|dylib|dll|a|lib|wasm)"
)
#: What no runtime opens: a bundle may be without.
AT_COMPILE_TIME = frozenset(("kernels.c", HEADER, "golden.json", "golden.bin"))
#: What people edit. Other files, changed, are no bundle's any more and nobody's work.
_SOURCE = (".c", ".cl", ".h", ".metal", ".ptx", ".S", ".ld", ".wgsl")
_MOST_BYTES = {GRAPH: MAX_GRAPH_BYTES, HEADER: 16 << 20, SINGLE: 2 << 30}  # of a manifest; larger ones are nobody's
_TITLE = "The files of this bundle, their bytes and hashes:"
_COMMENT = re.compile(rb"\n/\* %s\n((?: \* \S+ \d+ [0-9a-f]{16}\n)+) \*/\n\Z" % _TITLE.encode())

Entries = dict[str, tuple[int, str]]


def entry(data: bytes) -> dict[str, Any]:
    """A file as a manifest describes it."""
    return {"bytes": len(data), "hash": hash64(data)}


def in_one_file(library: bytes, graph: bytes, params: bytes) -> bytes:
    """A bundle of one file: a reader that is given its bytes one after the other finds each where it needs it."""
    first, last = section_header(GRAPH_SECTION, len(graph)), section_header(PARAMS_SECTION, len(params))
    return b"".join((library[:PREAMBLE], first, graph, library[PREAMBLE:], last, params))


def parts_of_one_file(data: bytes) -> dict[str, bytes]:
    """Library, graph.json and params.bin of a bundle of one file, by name.

    Raises:
        ValueError: it is none, or is damaged.
    """
    found = list(custom_sections(data))
    if len(found) < 2 or (found[0].name, found[-1].name) != (GRAPH_SECTION, PARAMS_SECTION):
        raise ValueError("not a bundle of one file")
    first, last = found[0], found[-1]
    if first.start != PREAMBLE or last.end != len(data):
        raise ValueError("a bundle of one file with other sections around it")
    library = data[:PREAMBLE] + data[first.end : last.start]
    return {SINGLE: library, GRAPH: data[first.contents : first.end], "params.bin": data[last.contents :]}


def with_manifest(header: bytes, files: Mapping[str, bytes]) -> bytes:
    """model.h with a comment that is the manifest of the other files and of itself, as far as that comment."""
    rows = {**{name: entry(data) for name, data in files.items()}, HEADER: entry(header)}
    lines = [f" * {name} {row['bytes']} {row['hash']}\n" for name, row in sorted(rows.items())]
    comment = f"\n/* {_TITLE}\n{''.join(lines)} */\n"
    return header + comment.encode()


def without_manifest(header: bytes) -> bytes:
    """The header as it was before `with_manifest`, for a folder that has other files."""
    found = _COMMENT.search(header)
    return header if found is None else header[: found.start()]


def owned(manifest: Path, folder: Path) -> frozenset[str]:
    """Names in `folder` of the bundle whose manifest lies in the directory `manifest`; none where there is none."""
    entries = _entries(manifest)
    return frozenset(name for name, row in entries.items() if _is_own(folder / name, *row))


def listed(folder: Path) -> frozenset[str]:
    """Names that the manifest in a directory has, whether the files are there or not."""
    return frozenset(_entries(folder))


def _is_own(path: Path, size: int, digits: str) -> bool:
    try:
        if path.is_symlink() or not path.is_file():
            return False
        if path.suffix not in _SOURCE:
            return True
        data = path.read_bytes()
    except OSError:
        return False
    if path.name == HEADER and (found := _COMMENT.search(data)) is not None:
        data = data[: found.start()]
    return len(data) == size and hash64(data) == digits


def _entries(folder: Path) -> Entries:
    """Size and hash of the files that the directory's manifest names, itself included."""
    try:
        if (data := _read(folder / GRAPH)) is not None:
            return {**_of_graph(data), GRAPH: (0, "")}
        if (data := _read(folder / SINGLE)) is not None:
            entries = _of_graph(parts_of_one_file(data)[GRAPH])
            return {name: row for name, row in entries.items() if name != "params.bin"}  # it is in the library
        if (data := _read(folder / HEADER)) is not None and (found := _COMMENT.search(data)) is not None:
            rows = [line.split()[1:] for line in found[1].decode("ascii").splitlines()]
            return {name: (int(size), digits) for name, size, digits in rows if _NAMES.fullmatch(name)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass  # then it is nobody's manifest
    return {}


def _read(path: Path) -> bytes | None:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST_BYTES[path.name]:
        return None
    return path.read_bytes()


def _of_graph(text: bytes) -> Entries:
    first, _, rest = text.partition(b"\n")
    head = json.loads(first.rstrip(b",") + b"}")
    if not isinstance(head["sterna"], int) or head["hash"] != hash64(rest):
        raise ValueError("not a bundle's graph.json, or a damaged one")
    files = json.loads(text)["files"]
    return {name: (int(row["bytes"]), str(row["hash"])) for name, row in files.items() if _NAMES.fullmatch(name)}
