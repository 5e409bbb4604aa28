"""A bundle's directory: its files come there all at once, and nothing else of it is touched."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sterna.bundle.install import ClashError, Files, install
from sterna.errors import SternaError, error
from sterna_runtime.ownership import MANIFESTS, owned

_log = logging.getLogger("sterna")


@dataclass(frozen=True)
class Written:
    """A bundle on disk.

    Args:
        directory: as it was given.
        sizes: bytes of its files, by name.
        others: what else is in the directory, left alone; names of folders end with a slash.
    """

    directory: Path
    sizes: dict[str, int]
    others: tuple[str, ...]


def write_files(files: Mapping[str, bytes], directory: str | os.PathLike[str]) -> Written:
    """Writes the files of a bundle; an older bundle in the same place is replaced, anything else is left alone.

    What else is there goes into the log ("sterna", level INFO).

    Raises:
        SternaError: E0204, files that are not a bundle's have the names of ours, or the system refused. Nothing was
            changed.
    """
    place = Path(directory)
    try:
        others = install(place, Files(files, MANIFESTS, owned))
    except ClashError as clash:
        raise error(
            "E0204",
            f"the output directory holds files that would be overwritten: {', '.join(clash.names)}",
            str(place),
            "no bundle wrote them, or they were changed since",
            fix="move or delete them, or name another directory with -o",
        ) from None
    except (OSError, ValueError) as problem:
        raise unwritable("bundle", place, problem) from None
    if others:
        _log.info("%s also holds %s, left alone", place, ", ".join(others))
    return Written(place, {name: len(data) for name, data in sorted(files.items())}, others)


def unwritable(what: str, place: Path, problem: OSError | ValueError) -> SternaError:
    """The error E0204 of what cannot be written to a place."""
    reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
    fix = "name a directory that you may write, with free space"
    return error("E0204", f"the {what} cannot be written: {reason}", str(place), fix=fix)
