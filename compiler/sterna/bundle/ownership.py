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

from sterna.abi import MAX_GRAPH_BYTES
from sterna.runtime import hash64
from sterna.toolchain.wasm import custom_section

GRAPH = "graph.json"
HEADER = "model.h"
SINGLE = "model.wasm"
#: Where graph.json stands in a bundle of one file.
GRAPH_SECTION = "sterna.graph"
#: Names of manifests, the one that a loader looks for first.
MANIFESTS = (GRAPH, SINGLE, HEADER)
#: Every name that the compiler gives to a file of a bundle.
_NAMES = re.compile(
    r"graph\.json|params\.bin|kernels\.c|model\.[ch]|params\.c|strings\.json|golden\.(json|bin)"
    r"|model(\.[A-Za-z0-9_-]+)?\.(so|dylib|dll|a|lib|wasm)"
)
#: What no runtime opens: a bundle may be without.
AT_COMPILE_TIME = frozenset(("kernels.c", HEADER, "golden.json", "golden.bin"))
#: What people edit. Other files, changed, are no bundle's any more and nobody's work.
_SOURCE = (".c", ".h")
_MOST_BYTES = {GRAPH: MAX_GRAPH_BYTES, HEADER: 16 << 20, SINGLE: 2 << 30}  # of a manifest; larger ones are nobody's
_TITLE = "The files of this bundle, their bytes and hashes:"
_COMMENT = re.compile(rb"\n/\* %s\n((?: \* \S+ \d+ [0-9a-f]{16}\n)+) \*/\n\Z" % _TITLE.encode())

Entries = dict[str, tuple[int, str]]


def entry(data: bytes) -> dict[str, Any]:
    """A file as a manifest describes it."""
    return {"bytes": len(data), "hash": hash64(data)}


def with_manifest(header: bytes, files: Mapping[str, bytes]) -> bytes:
    """model.h with a comment that is the manifest of the other files and of itself, as far as that comment."""
    rows = {**{name: entry(data) for name, data in files.items()}, HEADER: entry(header)}
    lines = [f" * {name} {row['bytes']} {row['hash']}\n" for name, row in sorted(rows.items())]
    comment = f"\n/* {_TITLE}\n{''.join(lines)} */\n"
    return header + comment.encode()


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
        if (data := _read(folder / SINGLE)) is not None and (graph := custom_section(data, GRAPH_SECTION)) is not None:
            return {name: row for name, row in _of_graph(graph).items() if name != "params.bin"}  # it is in the library
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
