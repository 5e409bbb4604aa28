"""Debian's archives: an `ar` of three members, two of which are compressed tars. The same files give the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

#: Seconds since 1970, of every file: nothing tells when a package was made.
TIME = 1704067200


@dataclass(frozen=True)
class Program:
    """A file that may be started."""

    data: bytes


@dataclass(frozen=True)
class Link:
    """A symbolic link to another name."""

    target: str


Entry = bytes | Program | Link


def package(control: Mapping[str, bytes], files: Mapping[str, Entry]) -> bytes:
    """A .deb.

    Args:
        control: the files of the package's control archive but for `md5sums`, which is made here.
        files: by their places in the system, without the first slash.
    """
    sums = {"md5sums": md5sums(files)}
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": lzma.compress(_tar({**control, **sums}), preset=6),
        "data.tar.xz": lzma.compress(_tar(files), preset=6),
    }
    return b"!<arch>\n" + b"".join(_member(name, data) for name, data in members.items())


def md5sums(files: Mapping[str, Entry]) -> bytes:
    """What `dpkg --verify` compares the files with."""
    rows = []
    for name, entry in sorted(files.items()):
        if not isinstance(entry, Link):
            data = entry.data if isinstance(entry, Program) else entry
            rows.append(f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  {name}\n")
    return "".join(rows).encode()


def kilobytes(files: Mapping[str, Entry]) -> int:
    """What they take in the system, rounded up by file, as dpkg-gencontrol counts."""
    sizes = [len(e.data if isinstance(e, Program) else e) for e in files.values() if not isinstance(e, Link)]
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    return sum(-(-size // 1024) for size in sizes) + len(folders)


def zipped(text: bytes) -> bytes:
    """As Debian wants texts for people."""
    return gzip.compress(text, 9, mtime=0)


def _member(name: str, data: bytes) -> bytes:
    head = f"{name:<16}{TIME:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
    return head + data + b"\n" * (len(data) % 2)


def _tar(files: Mapping[str, Entry]) -> bytes:
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents} - {"."}
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(_info("./", tarfile.DIRTYPE, 0o755))
        for name in sorted({*folders, *files}):
            if name in folders:
                archive.addfile(_info(f"./{name}/", tarfile.DIRTYPE, 0o755))
                continue
            entry = files[name]
            if isinstance(entry, Link):
                archive.addfile(_info(f"./{name}", tarfile.SYMTYPE, 0o777, link=entry.target))
                continue
            content = entry.data if isinstance(entry, Program) else entry
            mode = 0o755 if isinstance(entry, Program) else 0o644
            archive.addfile(_info(f"./{name}", tarfile.REGTYPE, mode, len(content)), io.BytesIO(content))
    return data.getvalue()


def _info(name: str, kind: bytes, mode: int, size: int = 0, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.linkname, info.mtime = kind, mode, size, link, TIME
    info.uname = info.gname = "root"
    return info
