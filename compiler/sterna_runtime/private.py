"""Folders that no other user of this machine can write to: the cache, and temporary ones.

What lies in the cache becomes machine code that is run, so it counts only where nobody else can have put it there: the
folder is this user's and writable for this user alone, and so is every file that is read. On Windows, folders of a
user's profile are private by their access lists, and nothing is asked here.

Light on imports: a program that runs a bundle reads this too.
"""

from __future__ import annotations

import atexit
import os
import stat
from functools import lru_cache
from pathlib import Path

from sterna_runtime.interruption import whole

#: Folders that Sterna makes are the user's alone.
MODE = 0o700


def user() -> int | None:
    """The number of this process's user; None on systems without such numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def is_private(status: os.stat_result) -> bool:
    """Whether only this user can have written to a file or folder."""
    me = user()
    return me is None or (status.st_uid == me and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def read_private(path: Path) -> bytes | None:
    """The contents of a file that only this user can have written; None for any other, and where there is none.

    It is judged after it was opened, so that nobody can exchange it in between, and a symbolic link is not followed.
    """
    try:
        with open(path, "rb", opener=_opened) as file:
            status = os.fstat(file.fileno())
            return file.read() if stat.S_ISREG(status.st_mode) and is_private(status) else None
    except OSError:  # a folder's, too
        return None


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def close(place: Path) -> None:
    """Takes the rights of others away from one of this user's files or folders."""
    place.chmod(place.stat().st_mode & ~(stat.S_IRWXG | stat.S_IRWXO))


def make_private(folder: Path) -> None:
    """Makes a folder within a private one, or closes one that an older version made.

    Raises:
        OSError: it cannot be made, or is another user's.
    """
    folder.mkdir(mode=MODE, exist_ok=True)
    if not is_private(folder.stat()):
        close(folder)


def cache_place() -> Path | None:
    """Where the cache belongs: STERNA_CACHE_DIR, else the user's cache folder; None where there is no such folder."""
    given = os.environ.get("STERNA_CACHE_DIR")
    if given:
        return Path(given).absolute()
    local = os.environ.get("LOCALAPPDATA") if os.name == "nt" else None
    if local:
        return Path(local) / "sterna" / "cache"
    try:
        # The specification of XDG_CACHE_HOME: a relative path is ignored.
        home = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "sterna"
    except RuntimeError:
        return None


def cache_problem(directory: Path) -> str | None:
    """Why an existing folder is not used as a cache, in words; None if it may be.

    A folder of this user's that its group may write to, as older versions made them under some settings, is closed to
    others and used: what others have put into it is told by its owner.
    """
    try:
        return _problem(directory)
    except OSError as problem:
        return problem.strerror or str(problem)


def _problem(directory: Path) -> str | None:
    status, me = directory.stat(), user()
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if me is not None and status.st_uid != me:
        return f"it belongs to another user (number {status.st_uid}, this is {me})"
    if me is not None and status.st_mode & stat.S_IWOTH:
        return "every user of this machine can write to it; `chmod go-w` it, after looking at what is in it"
    if not is_private(status):
        close(directory)
    # Those of the path as it was given, and those of the place that symbolic links in it lead to.
    for folder in dict.fromkeys((*directory.parents, *directory.resolve().parents)):
        above = folder.stat()
        if me is not None and above.st_uid not in (0, me):
            return f"{folder}, above it, belongs to another user (number {above.st_uid}, this is {me})"
        if me is not None and above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
            return f"every user of this machine can exchange what is in {folder}, above it"
    return None if os.access(directory, os.W_OK | os.X_OK) else "it cannot be written to"


def cache_directory() -> Path | None:
    """The cache's folder, made if need be; None if caching is off or there is no folder that is private."""
    return cache_state()[0]


def cache_state() -> tuple[Path | None, str]:
    """The cache's folder, or why there is none."""
    if os.environ.get("STERNA_NO_CACHE", "0") not in ("", "0"):
        return None, "STERNA_NO_CACHE is set"
    place = cache_place()
    if place is None:
        return None, "this user has no home folder; STERNA_CACHE_DIR names a place"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=MODE, exist_ok=True)
    except OSError as why:
        return None, f"{place}: {why.strerror or why}"
    problem = cache_problem(place)
    return (place, "") if problem is None else (None, f"{place}: {problem}")


def scratch_directory() -> Path:
    """A private folder for what would lie in the cache if there were one; it goes when this process ends.

    Raises:
        OSError: there is no room for it.
    """
    return _scratch(os.getpid())


@lru_cache(maxsize=1)
def _scratch(process: int) -> Path:
    import shutil  # noqa: PLC0415 (seldom needed)
    import tempfile  # noqa: PLC0415

    def remove() -> None:
        if os.getpid() == process:  # not in a child that was forked
            shutil.rmtree(directory, ignore_errors=True)

    with whole:
        directory = Path(tempfile.mkdtemp(prefix="sterna-"))  # mode 0700, under a name that nobody can guess
        atexit.register(remove)
    return directory
