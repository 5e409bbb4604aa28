"""A cache of files by the hash of what they were made from: objects, libraries, the C runtime, templates.

It lies in `STERNA_CACHE_DIR`, else in `~/.cache/sterna`, and may be deleted at any time. `STERNA_NO_CACHE=1` turns it
off. Entries are written to a temporary file and renamed, and carry the hash of their key and contents: any number of
processes may share the directory, and a damaged entry, or one under the name of another, counts as missing. So does one
that another user of this machine can have written: the hash is no signature, anybody can compute it (`private.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from sterna_runtime.private import cache_directory, make_private, read_private

__all__ = ["Cache", "cache_directory", "key"]

#: Part of every key: entries of another version of the generators are never found.
VERSION = "2"
#: Bytes above which the entries unused for longest are removed.
LIMIT = 512 << 20

_MAGIC = b"sterna-cache "
_HEADER = len(_MAGIC) + 64 + 1
#: The path of an entry, or of one that was never finished.
_ENTRY = re.compile(r"[0-9a-f]{64}|[0-9a-f]{2}\.new-\w+")


def key(*parts: str | bytes) -> str:
    """The key of what is made from these parts: SHA-256 over each with its length, so that none runs into the next."""
    digest = hashlib.sha256(VERSION.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """Entries of one kind, in `directory/kind`; without a directory it holds nothing."""

    #: By directory, the bytes in it as far as this process knows: caches are made anew for every object, and to walk a
    #: full one takes as long as to compile a kernel.
    _bytes: ClassVar[dict[Path, int]] = {}

    def __init__(self, kind: str, directory: Path | None, limit: int = LIMIT):
        self.path = None if directory is None else directory / kind
        self.limit = limit

    def get(self, key: str) -> bytes | None:
        """The entry, if it is there and whole."""
        if self.path is None:
            return None
        path = self._file(key)
        data = read_private(path)
        if data is None:
            return None
        payload = data[_HEADER:]
        if data[:_HEADER] != _header(key, payload):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # what trim goes by
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Writes an entry; a cache that cannot be written is none."""
        if self.path is None:
            return
        path = self._file(key)
        temporary: str | None = None
        try:
            make_private(self.path)
            make_private(path.parent)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(_header(key, payload))
                file.write(payload)
            Path(temporary).replace(path)
            self._grow(len(payload) + _HEADER)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    Path(temporary).unlink()

    def get_or_make(self, key: str, make: Callable[[], bytes]) -> bytes:
        """The entry, made and kept if it is missing."""
        if (found := self.get(key)) is not None:
            return found
        made = make()
        self.put(key, made)
        return made

    def trim(self, limit: int) -> int:
        """Removes the entries unused for longest until `limit` bytes are left; returns what is left.

        Files that have no entry's name are somebody else's, and stay."""
        entries: list[tuple[float, int, Path]] = []
        if self.path is None:
            return 0
        for path in self.path.glob("*/*"):
            if not _ENTRY.fullmatch(f"{path.parent.name}{path.name}"):
                continue
            with contextlib.suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
        return total

    def _file(self, key: str) -> Path:
        assert self.path is not None
        return self.path / key[:2] / key[2:]

    def _grow(self, size: int) -> None:
        # The directory is walked once per process; after that its size is counted along.
        assert self.path is not None
        known = self._bytes.get(self.path)
        total = self.trim(self.limit) if known is None else known + size
        self._bytes[self.path] = total if total <= self.limit else self.trim(self.limit * 4 // 5)


def _header(key: str, payload: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(key.encode() + b"\n" + payload).hexdigest().encode() + b"\n"
