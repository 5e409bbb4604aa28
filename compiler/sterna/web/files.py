"""What the server gives out: files of named directories, and named files in memory.

A name is served if a directory lists it, never because the system accepts it: a system also accepts other spellings
(`INDEX.HTML`, `index.html.`, `INDEX~1.HTM`, `index.html::$DATA`), devices (`NUL`) and names that are too long to exist.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

#: A directory, or the contents of files by name.
Root = Path | Mapping[str, bytes]
INDEX = "index.html"
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))


@dataclass(frozen=True)
class Served:
    """A file that is open for reading: its name, and how many bytes it had when it was opened."""

    name: str
    size: int
    file: BinaryIO


def open_file(roots: Mapping[str, Root], target: str) -> Served | None:
    """The file that a request's target names; None: there is none, or it lies in no directory served, or is hidden.

    Args:
        roots: by the first part of the path, "" for the page itself; directories are absolute and without links.
        target: of the request, with its escapes.
    """
    parts = _parts(target)
    if parts is None:
        return None
    name = parts[0] if parts and parts[0] in roots else ""
    root = roots.get(name)
    if root is None:
        return None
    rest = parts[1:] if name else parts
    try:
        return _from_directory(root, rest) if isinstance(root, Path) else _from_memory(root, rest)
    except (OSError, RuntimeError):  # gone or forbidden; links in a circle
        return None


def _parts(target: str) -> list[str] | None:
    """The names between the slashes; None for a target that is no path of ours."""
    if not target.startswith("/"):
        return None
    try:
        path = unquote(target.partition("?")[0].partition("#")[0], errors="strict")
    except UnicodeDecodeError:
        return None
    parts = [part for part in path.split("/") if part]
    return None if any(_is_hidden(part) for part in parts) else parts


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def _from_memory(files: Mapping[str, bytes], parts: Sequence[str]) -> Served | None:
    name = "/".join(parts) or INDEX
    data = files.get(name)
    return None if data is None else Served(name, len(data), io.BytesIO(data))


def _from_directory(root: Path, parts: Sequence[str]) -> Served | None:
    at = root
    for part in parts:
        found = _entry(root, at, part)
        if found is None:
            return None
        at = found
    if at.is_dir():
        return _from_directory(root, [*parts, INDEX]) if INDEX not in parts[-1:] else None
    handle = os.open(at, _FLAGS)
    try:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode):
            return Served(at.name, status.st_size, os.fdopen(handle, "rb", closefd=True))
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _entry(root: Path, directory: Path, name: str) -> Path | None:
    """What a directory lists under a name, links followed, unless they lead out of the root or to what is hidden."""
    if not directory.is_dir() or all(entry.name != name for entry in directory.iterdir()):
        return None
    found = (directory / name).resolve(strict=True)
    if not found.is_relative_to(root) or any(map(_is_hidden, found.relative_to(root).parts)):
        return None
    return found
