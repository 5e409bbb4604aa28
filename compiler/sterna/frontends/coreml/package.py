"""The files of a model: one `.mlmodel`, or a package (a folder or a zip of it) with weights beside the model."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from mmap import mmap
from pathlib import Path, PurePosixPath
from typing import Any

from sterna.errors import error
from sterna.frontends.archives import is_folder, member_content
from sterna.frontends.coreml.schema import messages
from sterna.frontends.source import Source, content_of

MANIFEST = "Manifest.json"
#: Bytes of a file in an archive that are unpacked at most, and of a model description.
_MOST = 1 << 31
_DAMAGED = (OSError, ValueError, KeyError, NotImplementedError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error)

#: The content of a file beside the model, by its name in the model.
Beside = Callable[[str], "bytes | mmap"]


def load(source: Source) -> tuple[Any, Beside]:
    """The model, and how files beside it are read.

    Raises:
        SternaError: E0101, it cannot be read or is no model of Core ML.
    """
    path = source.file()
    try:
        if source.is_folder:
            return _package(_Folder(path), source.name)
        if source.start.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(path) as archive:
                return _package(_Archive(archive), source.name)
        return parsed(content_of(path), source.name), _nothing
    except _DAMAGED as problem:
        text = f"{type(problem).__name__}: {problem}"
        raise error("E0101", f"{source.name} is not a model of Core ML", text, fix="export it again") from None


def parsed(content: bytes | mmap, name: str) -> Any:
    """The message that a file holds.

    Raises:
        SternaError: E0101.
    """
    model = messages().Model()
    try:
        model.ParseFromString(bytes(content))
    except Exception as problem:  # its errors depend on the implementation of protobuf
        text = f"{type(problem).__name__}: {problem}"
        raise error("E0101", f"{name} is not a model of Core ML", text, fix="export it again") from None
    if model.WhichOneof("Type") is None or not model.specificationVersion:
        raise error("E0101", f"{name} is not a model of Core ML", "it says no kind of model", fix="export it again")
    return model


class _Folder:
    def __init__(self, path: Path):
        self.path = path.resolve()
        inner = [each for each in sorted(path.iterdir()) if each.suffix == ".mlpackage" and each.is_dir()]
        if not (path / MANIFEST).is_file() and len(inner) == 1:
            self.path = inner[0].resolve()

    def read(self, name: str) -> bytes | mmap:
        place = (self.path / name).resolve()
        if not place.is_relative_to(self.path):
            raise ValueError(f"{name} lies outside of the package")
        return content_of(place)


class _Archive:
    def __init__(self, archive: zipfile.ZipFile):
        self.archive = archive
        found = [name for name in archive.namelist() if PurePosixPath(name).name == MANIFEST]
        self.root = min(found, key=len)[: -len(MANIFEST)] if found else ""
        self.kept: dict[str, bytes] = {}
        for each in archive.infolist():
            if each.filename.startswith(self.root) and not is_folder(each):
                if each.file_size > max(1 << 20, 1100 * each.compress_size) or each.file_size > _MOST:
                    raise ValueError(f"{each.filename} claims {each.file_size} bytes")
                if each.file_size + sum(map(len, self.kept.values())) > _MOST:
                    raise ValueError("the files of the archive are too large")
                self.kept[each.filename[len(self.root) :]] = member_content(archive, each)

    def read(self, name: str) -> bytes:
        return self.kept[str(PurePosixPath(name))]


def _package(files: _Folder | _Archive, name: str) -> tuple[Any, Beside]:
    """The root model of a package, by its manifest."""
    manifest = json.load(io.BytesIO(bytes(files.read(MANIFEST))))
    if not isinstance(manifest, dict) or not isinstance(manifest.get("itemInfoEntries"), dict):
        raise ValueError(f"{MANIFEST} lists no items")
    entry = manifest["itemInfoEntries"].get(manifest.get("rootModelIdentifier"))
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise ValueError(f"{MANIFEST} names no root model")
    place = PurePosixPath("Data") / entry["path"]
    model = parsed(files.read(str(place)), name)

    def beside(file: str) -> bytes | mmap:
        inner = PurePosixPath(file.removeprefix("@model_path/"))
        try:
            if inner.is_absolute() or ".." in inner.parts:
                raise ValueError("it lies outside of the package")
            return files.read(str(place.parent / inner))
        except _DAMAGED as problem:
            raise error("E0101", f'the file "{file}" beside the model cannot be read', str(problem)) from None

    return model, beside


def _nothing(file: str) -> bytes:
    raise error("E0101", f'"{file}" lies beside the model in its package', fix="give the .mlpackage folder")


def is_package(names: Sequence[str]) -> bool:
    """Whether names in a folder or archive are those of a package."""
    plain = [name.rstrip("/") for name in names]
    return any(PurePosixPath(name).name == MANIFEST for name in plain) and any(
        "com.apple.CoreML" in name or PurePosixPath(name).name == "Data" for name in plain
    )
