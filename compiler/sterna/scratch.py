"""Folders for temporary files, for which there may be no room."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sterna.errors import system_error
from sterna_runtime.interruption import whole

_FIX = "free space there, or let TMPDIR name a folder that can be written to"


def temporary_directory(purpose: str) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder, with a word for people who find it.

    Raises:
        SternaError: E0010, the system refuses it.
    """
    try:
        with whole:
            return tempfile.TemporaryDirectory(prefix=f"sterna-{purpose}-", ignore_cleanup_errors=True)
    except OSError as problem:
        raise system_error(problem, "a temporary folder", _FIX) from None


@contextlib.contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """The same for what touches no files but those within, and some of the installation.

    Raises:
        SternaError: E0010, the system refuses the folder, or a file in it.
    """
    with temporary_directory(purpose) as folder:
        try:
            yield Path(folder)
        except OSError as problem:
            raise system_error(problem, "a temporary file", _FIX) from None
