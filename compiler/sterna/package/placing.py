"""Where packages are written: what is in the way, and what cannot be written, is said in one form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sterna.bundle.directory import unwritable
from sterna.bundle.install import ClashError
from sterna.errors import error
from sterna_runtime.advice import Fix


@contextmanager
def placing(place: Path, fix: Fix | None = None) -> Iterator[None]:
    """What is written in this context goes to `place`.

    Args:
        fix: what to do where other files stand there.

    Raises:
        SternaError: E0204, the place is taken or cannot be written.
    """
    try:
        yield
    except ClashError as clash:
        title = f"the output directory has other files of these names: {clash}"
        raise error("E0204", title, str(place), fix=fix) from None
    except (OSError, ValueError) as problem:
        raise unwritable("package", place, problem) from None
