"""Zip archives around a model: a pair of files, or a folder, that a format does not read out of an archive itself.

An archive is untrusted: what leads out of it, what is no plain file and what would become too large is refused before
anything is unpacked.
"""

from __future__ import annotations

import stat
import weakref
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from sterna.errors import SternaError, error
from sterna.frontends.source import Source
from sterna.scratch import temporary_directory

MOST_FILES = 10_000
MOST_BYTES = 1 << 32
#: How many times its size in the archive all that is unpacked may take, beyond what always may.
MOST_TIMES, ALWAYS = 200, 64 << 20
_PIECE = 1 << 20
#: What archivers of operating systems add.
_ADDED = ("__MACOSX", ".DS_Store", "Thumbs.db")
#: What unpacks in pieces of a size that the reader says; Python's other decompressors make all of a piece at once.
_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGED = (OSError, ValueError, NotImplementedError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error)


class Unpacked:
    """What an archive held, in a folder that goes when this object does.

    Args:
        source: the archive.

    Attributes:
        folder: in which it lies: past folders that hold nothing but one folder.

    Raises:
        SternaError: E0101, it is damaged, or something in it leads out of it; E0112, it is too large.
    """

    def __init__(self, source: Source):
        directory = temporary_directory("model")
        weakref.finalize(self, directory.cleanup)
        self.folder = Path(directory.name)
        try:
            with zipfile.ZipFile(source.file()) as archive:
                _unpack(archive, self.folder, source.name)
        except SternaError:
            raise
        except _DAMAGED as problem:
            raise error("E0101", f"{source.name} cannot be read", str(problem)) from None
        while len(inside := list(self.folder.iterdir())) == 1 and inside[0].is_dir():
            self.folder = inside[0]


def _unpack(archive: zipfile.ZipFile, folder: Path, name: str) -> None:
    members = [each for each in archive.infolist() if not is_folder(each) and not _is_added(each.filename)]
    if len(members) > MOST_FILES:
        raise error("E0112", f"{name} holds {len(members)} files, more than {MOST_FILES}")
    for member in members:
        _check(member, name)
    packed = sum(member.compress_size for member in members)
    most = min(MOST_BYTES, MOST_TIMES * packed + ALWAYS)
    whole = sum(member.file_size for member in members)
    if whole > most:
        raise error("E0112", f"{name} would take {whole} bytes unpacked, more than {most}")
    for member in members:
        place = folder.joinpath(*PurePosixPath(member.filename).parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        left = member.file_size
        with archive.open(member) as packed_file, place.open("wb") as file:
            while left > 0 and (piece := packed_file.read(min(left, _PIECE))):
                file.write(piece)
                left -= len(piece)


def member_content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """A file of an archive: the caller has seen that `member.file_size` is not too much, and no more is unpacked.

    Raises:
        NotImplementedError: it is compressed by something else than deflate; others, as of `zipfile`.
    """
    if member.compress_type not in _KINDS:
        raise NotImplementedError(f"{member.filename} is compressed by something else than deflate")
    with archive.open(member) as file:
        return file.read(member.file_size)


def is_folder(member: zipfile.ZipInfo) -> bool:
    """Whether an entry is a folder; `ZipInfo.is_dir` fails for an empty name in Python before 3.13."""
    return member.filename.endswith("/")


def _is_added(name: str) -> bool:
    return any(part in _ADDED for part in name.split("/"))


def _check(member: zipfile.ZipInfo, name: str) -> None:
    """Refuses what would lie outside of the folder, and what is no plain file."""
    text = member.filename
    parts = text.split("/")
    if text.startswith("/") or ".." in parts or "" in parts or "\\" in text or ":" in text or "\0" in text:
        raise error("E0101", f'the file "{text}" of {name} would lie outside of it')
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise error("E0101", f'"{text}" of {name} is no plain file')
    if member.flag_bits & 1:
        raise error("E0101", f'"{text}" of {name} is encrypted', fix="unpack it, and give what was in it")
    if member.compress_type not in _KINDS:
        title = f'"{text}" of {name} is compressed by something else than deflate'
        raise error("E0101", title, fix="unpack it, and give what was in it")
