"""What a user gives as a model: a path of a file or a folder, or an object of Python; and what it looks like."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, replace
from functools import cached_property
from mmap import ACCESS_READ, mmap
from pathlib import Path

from sterna.errors import error

START = 4096
"""Bytes at the start of a file in which its format shows."""
LARGE_FILE = 16 << 20
"""Bytes from which on it is worth not to hold a file in memory."""
_ARCHIVE = b"PK\x03\x04"
_LISTED = 10_000  # names in a folder or an archive that are looked at
_SHOWN_BYTES = 8

#: Formats that no front end has to read to say what they are: (where, bytes, what it is, what to do).
_KNOWN = (
    (0, b"\x89HDF", "a Keras or HDF5 file", ""),
    (4, b"TFL3", "a TensorFlow Lite model", ""),
    (0, _ARCHIVE, "an archive, as PyTorch and Keras write", ""),
    (0, b"\x7fELF", "a program", ""),
    (0, b"\x80\x02", "a Python pickle", ""),
    (0, b"\x80\x04", "a Python pickle", ""),
    (0, b"\x93NUMPY", "a NumPy array", ""),
    (0, b"\x89PNG", "an image", ""),
    (0, b"{", "a JSON text", ""),
    (0, b"<!DOCTYPE", "a web page, as a download that failed leaves", "download the model again"),
    (0, b"<html", "a web page, as a download that failed leaves", "download the model again"),
    (
        0, b"version https://git-lfs", "a Git LFS pointer, not the file itself (`git lfs pull` fetches it)",
        "git lfs pull",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A model as it is given.

    Args:
        model: what the user gave.
        path: where it lies; None for an object of Python.
        start: the first bytes of a file, at most `START`; empty for a folder and an object.
        weights: where the user says that its weights lie, if those are in a file of their own.
        kept: what must live as long as the source does, such as the folder that an archive was unpacked to.
    """

    model: object
    path: Path | None = None
    start: bytes = b""
    weights: Path | None = None
    kept: object = None

    @classmethod
    def of(cls, model: object) -> Source:
        """The source that a user's argument stands for.

        Raises:
            SternaError: E0101, there is no such file, or it cannot be read.
        """
        if isinstance(model, Source):
            return model
        if not isinstance(model, (str, os.PathLike)):
            return cls(model)
        path = Path(os.fspath(model))
        try:
            if path.is_dir():
                return cls(model, path)
            with path.open("rb") as file:
                return cls(model, path, file.read(START))
        except (OSError, ValueError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else None
            raise error("E0101", f"{path} cannot be read: {reason or problem}") from None

    def with_weights(self, file: str | os.PathLike[str]) -> Source:
        """The source with weights in that file.

        Raises:
            SternaError: E0101, there is no such file.
        """
        path = Path(os.fspath(file))
        if not path.is_file():
            reason = "it is a folder" if path.is_dir() else "No such file or directory"
            raise error("E0101", f"{path} cannot be read: {reason}")
        return replace(self, weights=path)

    @property
    def is_archive(self) -> bool:
        """Whether it is a zip file."""
        return self.start.startswith(_ARCHIVE)

    @property
    def name(self) -> str:
        """How messages call it."""
        return "the model" if self.path is None else self.path.name or str(self.path)

    @property
    def is_folder(self) -> bool:
        return self.path is not None and self.path.is_dir()

    @property
    def suffix(self) -> str:
        """The ending of a file's name, in lower case; empty for an object."""
        return "" if self.path is None else self.path.suffix.lower()

    def file(self) -> Path:
        """The path, of a source that has one."""
        assert self.path is not None
        return self.path

    def beside(self, suffix: str) -> Path | None:
        """The file of the same name with another ending, as the weights of a pair lie; None if there is none."""
        other = None if self.path is None else self.path.with_suffix(suffix)
        return other if other is not None and other.is_file() else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What lies in a folder, or in a zip archive: names as they stand there, sorted; nothing is unpacked."""
        if self.path is None:
            return ()
        try:
            if self.is_folder:
                found = [entry.name for entry, _ in zip(self.path.iterdir(), range(_LISTED), strict=False)]
            elif self.is_archive:
                with zipfile.ZipFile(self.path) as archive:
                    found = archive.namelist()[:_LISTED]
            else:
                return ()
        except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
            return ()  # a damaged one holds nothing that could be found
        return tuple(sorted(found))

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The file, with its weights where the user says where they are, or all files of a folder, sorted; none of an
        object."""
        if self.path is None:
            return ()
        if not self.is_folder:
            return (self.path,) if self.weights is None else (self.path, self.weights)
        return tuple(sorted(path for path in self.path.rglob("*") if path.is_file()))


def content_of(path: Path) -> bytes | mmap:
    """What stands in a file; a large one is mapped, so that only what is looked at takes memory.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < LARGE_FILE:
            return file.read()
        return mmap(file.fileno(), 0, access=ACCESS_READ)


def known_as(start: bytes) -> tuple[str, str] | None:
    """What a file is that begins like this, and what to do about it (or nothing), where that is well known."""
    for offset, magic, meaning, fix in _KNOWN:
        if start[offset : offset + len(magic)] == magic:
            return meaning, fix
    return None


def looks_like(source: Source) -> str:
    """What a source looks like, for who wonders why it is not read."""
    if source.path is None:
        return f"it is of the type {type(source.model).__module__}.{type(source.model).__qualname__}"
    shown = ", ".join(source.names[:4]) + (f" and {len(source.names) - 4} others" if len(source.names) > 4 else "")
    if source.is_folder:
        return f"it is a folder with {shown}" if shown else "it is an empty folder"
    if not source.start:
        return "it is empty"
    known = known_as(source.start)
    if known is not None:
        return f"it is {known[0]}" + (f", with {shown}" if shown else "")
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in source.start):
        return (
            f'it is a text that begins with "{source.start[:32].decode("ascii").strip().splitlines()[0]}"'
            if (source.start[:32].strip())
            else "it is a text"
        )
    return f"it begins with the bytes {source.start[:_SHOWN_BYTES].hex(' ')}"


def json_fault(problem: Exception) -> str:
    """Why a text is not JSON, as its readers say it, in plain words."""
    if isinstance(problem, RecursionError):
        return "it is nested too deeply"
    if isinstance(problem, UnicodeDecodeError):
        return f"byte {problem.start} is 0x{problem.object[problem.start]:02x}, which is not text"
    return str(problem)[:200]
