"""The files of a model: beside each other in a folder, or in a zip archive; nothing is unpacked to a disk."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from sterna.errors import SternaError, error
from sterna.frontends.archives import member_content
from sterna.frontends.source import Source

SAVED_MODEL = "saved_model.pb"
GRAPH_MODEL = "model.json"
#: What the first converters to TensorFlow.js (0.x) wrote: a GraphDef, and the manifest of its weights.
FIRST_MODEL, MANIFEST = "tensorflowjs_model.pb", "weights_manifest.json"
#: What `tf.train.Saver` calls the graph beside a checkpoint.
META = ".meta"
_MAIN = (SAVED_MODEL, GRAPH_MODEL, FIRST_MODEL)
MOST_BYTES = 1 << 31


@dataclass(frozen=True)
class Files:
    """Where the files of a model lie.

    Args:
        folder: of the main file; archive: the zip file in which `prefix` leads to it.
    """

    folder: Path
    main: str
    archive: Path | None = None
    prefix: str = ""

    def read(self, name: str) -> bytes | None:
        """The contents of a file beside the main one; None where there is none.

        Raises:
            SternaError: E0101, it cannot be read, lies elsewhere, or is too large.
        """
        if ".." in name.replace("\\", "/").split("/") or name.startswith(("/", "\\")) or ":" in name:
            raise error("E0101", f'the file "{name}" of the model would lie outside of it')
        try:
            if self.archive is not None:
                with zipfile.ZipFile(self.archive) as archive:
                    try:
                        info = archive.getinfo(self.prefix + name)
                    except KeyError:
                        return None
                    if info.file_size > MOST_BYTES:
                        raise _too_large(name)
                    return member_content(archive, info)
            path = self.folder / name
            if not path.is_file():
                return None
            if path.stat().st_size > MOST_BYTES:
                raise _too_large(name)
            return path.read_bytes()
        except (OSError, ValueError, NotImplementedError, RuntimeError, EOFError, zipfile.BadZipFile) as problem:
            raise error("E0101", f"{name} cannot be read", str(problem)) from None
        except Exception as problem:  # what a damaged archive makes its decompressors raise
            if isinstance(problem, SternaError):
                raise
            raise error("E0101", f"{name} cannot be read", str(problem)) from None

    def part(self, name: str, offset: int, size: int) -> bytes:
        """A part of a file; less where it ends before.

        Raises:
            SternaError: E0101, there is none.
        """
        if self.archive is None:
            path = self.folder / name
            try:
                with path.open("rb") as file:
                    if offset > path.stat().st_size:
                        return b""
                    file.seek(offset)
                    return file.read(min(size, path.stat().st_size - offset))
            except OSError as problem:
                raise error("E0101", f"{path.name} cannot be read", problem.strerror or "") from None
        content = self.read(name)
        if content is None:
            raise error("E0101", f"{name} is missing in {self.archive.name}")
        return content[offset : offset + size]


def _too_large(name: str) -> SternaError:
    return error("E0112", f"{name} is too large")


def files_of(source: Source) -> Files:
    """The files of a model.

    Raises:
        SternaError: E0101, there is no main file.
    """
    path = source.file()
    if path.is_dir():
        for name in _MAIN:
            if (path / name).is_file():
                return Files(path, name)
        raise error("E0101", f"{path} holds no {SAVED_MODEL}")
    for main in _MAIN if source.start.startswith(b"PK\x03\x04") else ():
        for name in source.names:
            if name == main or name.endswith(f"/{main}"):
                return Files(path.parent, main, path, name[: -len(main)])
    return Files(path.parent, path.name)
