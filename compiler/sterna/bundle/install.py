"""Puts files into a directory that others may use: all of them or none, and nothing of anybody else's is touched.

Everything is written into a work folder first, `.sterna-` and eight digits. Then there are two ways:

- **Exchange**, where the directory holds nothing but what is replaced: the work folder is complete and takes its place
  in one step (`renameat2(RENAME_EXCHANGE)` of Linux, `renamex_np(RENAME_SWAP)` of macOS, a plain rename where there was
  nothing). A process that dies at any moment leaves the whole old directory or the whole new one.
- **In place**, where the directory holds other things too, is the working directory or a mount point, or where the
  system has no exchange: file by file, by renames. The manifest, without which the others are nothing, leaves first and
  comes last: a process that dies in between leaves files that are not taken for a whole bundle. Every failure that
  the process survives is rolled back.

What a killed process leaves is a work folder without a lock; the next writer that passes removes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import importlib
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from sterna_runtime.recipe import this_machine

fcntl: Any = None  # Windows has no such locks: work folders that a killed process left stay there
with contextlib.suppress(ImportError):
    fcntl = importlib.import_module("fcntl")

PREFIX = ".sterna-"
_WORK_FOLDER = re.compile(re.escape(PREFIX) + "[0-9a-f]{8}")
_OLD = "old"  # in a work folder: what was replaced in place
_PATIENCE = 30.0  # seconds for another writer to finish
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE and RENAME_SWAP are the same number; AT_FDCWD
#: Of renameat2, where the C library has no function of that name.
_SYSCALL = {"x86_64": 316, "aarch64": 276, "armv7l": 382, "riscv64": 276, "ppc64le": 357, "s390x": 347}

#: Given the directory of a manifest and one of files, which of those files may be replaced.
Owned = Callable[[Path, Path], Collection[str]]


class ClashError(Exception):
    """Files that are not ours stand where ours are to go; `names` says which."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(", ".join(names))
        self.names = tuple(names)


@dataclass(frozen=True)
class Files:
    """What is to be written.

    Args:
        contents: by name; a name may have folders in front, of which the first then belongs to the files as a whole.
        manifests: names without which the others are nothing, now or in what is replaced, the most important one first.
        owned: which files of an earlier time may be replaced; those that `contents` does not have are removed.
        links: symbolic links within folders of the contents, by name, and what each points to.
    """

    contents: Mapping[str, bytes]
    manifests: Sequence[str]
    owned: Owned = lambda manifest, folder: ()
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Of the entries of the directory."""
        return frozenset(name.partition("/")[0] for name in self.contents)


def install(place: Path, files: Files) -> tuple[str, ...]:
    """Writes the files into the directory `place`, which is made if need be; a link to a directory is followed.

    Returns:
        What else is there: names, those of folders with a slash.

    Raises:
        ClashError: others' files have names of ours; nothing was changed.
        OSError: the system refused; nothing was changed.
    """
    made: list[Path] = []
    try:
        place = place.resolve()
        _make_folders(place.parent, made)
        while True:
            with _locked(place) as existed:
                try:
                    return _replace(place, files) if existed else _create(place, files)
                except OSError as problem:
                    if existed or problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise  # else another writer was there first, for the same new place
    except BaseException as problem:
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(problem, RuntimeError):  # a loop of links, before Python 3.13
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(place)) from None
        raise


def write_file(path: Path, data: bytes) -> None:
    """Writes a file: a whole one or none. A link is followed; what is no file (a pipe, a terminal) is written to.

    Raises:
        OSError: the system refused; a file that was there is as before.
    """
    path = path.resolve() if path.is_symlink() else path
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        path.write_bytes(data)
        return
    fresh = path.parent / _work_name()
    try:
        with fresh.open("xb") as file:
            file.write(data)
        if mode is not None:
            fresh.chmod(stat.S_IMODE(mode))
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def exchange(one: Path, other: Path) -> None:
    """Two directories change places, in one step.

    Raises:
        OSError: ENOSYS where the system cannot do that, or what it says.
    """
    sys.audit("sterna.exchange", one, other)
    rename = _exchanger()
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if rename(os.fsencode(one), os.fsencode(other)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


@functools.cache
def _exchanger() -> Callable[[bytes, bytes], int] | None:
    system, machine = platform.system(), this_machine()
    if system not in ("Linux", "Darwin"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    if system == "Darwin":
        swap = getattr(library, "renamex_np", None)
        return None if swap is None else lambda one, other: int(swap(one, other, ctypes.c_uint(_EXCHANGE)))
    if (rename := getattr(library, "renameat2", None)) is not None:
        return lambda one, other: int(rename(_HERE, one, _HERE, other, ctypes.c_uint(_EXCHANGE)))
    if (number := _SYSCALL.get(machine)) is None:
        return None
    call = library.syscall
    return lambda one, other: int(call(ctypes.c_long(number), _HERE, one, _HERE, other, ctypes.c_uint(_EXCHANGE)))


# ---- The two ways ----


def _create(place: Path, files: Files) -> tuple[str, ...]:
    """Makes the directory, whole; ENOTEMPTY or EEXIST if it has come to be meanwhile."""
    _remove_abandoned(place.parent)
    with _WorkFolder(place.parent) as work:
        _fill(work.path, files)
        work.path.rename(place)
    return ()


def _replace(place: Path, files: Files) -> tuple[str, ...]:
    """Puts the files into a directory that is there, and locked where the system can."""
    _remove_abandoned(place.parent)
    mine, others = _look(place, files)
    if others or _is_working_directory(place) or not _exchanged(place, files, mine):
        _install_in_place(place, files, mine)
        for lock in _abandoned(place):
            _remove(lock.path)
            lock.close()
    return others


def _look(place: Path, files: Files) -> tuple[frozenset[str], tuple[str, ...]]:
    """Which files of the directory may be replaced, and what else is there, without what killed writers left.

    Raises:
        ClashError: something else has a name that is wanted.
    """
    mine = set(files.owned(place, place))
    for work in _abandoned(place):
        # In there are the new manifest and, in a folder of its own, the old one.
        mine |= {*files.owned(work.path, place), *files.owned(work.path / _OLD, place)}
        work.close()
    if clash := [name for name in sorted(files.names - mine) if os.path.lexists(place / name)]:
        raise ClashError(clash)
    with os.scandir(place) as entries:
        found = {e.name: e.is_dir(follow_symlinks=False) for e in entries if not _WORK_FOLDER.fullmatch(e.name)}
    others = sorted(f"{name}/" if folder else name for name, folder in found.items() if name not in mine)
    return frozenset(mine & found.keys()), tuple(others)


def _exchanged(place: Path, files: Files, mine: Collection[str]) -> bool:
    """Lets a complete new directory take the place of the old one; False if something is in the way of that."""
    with contextlib.suppress(OSError), _WorkFolder(place.parent) as work:
        _fill(work.path, files)
        shutil.copymode(place, work.path)
        exchange(work.path, place)
        _give_back(work.path, place, mine)
        return True
    return False


def _give_back(old: Path, place: Path, mine: Collection[str]) -> None:
    """What somebody put into the old directory a moment before it was exchanged goes into the new one."""
    with contextlib.suppress(OSError):
        for path in list(old.iterdir()):
            if path.name not in mine and not _WORK_FOLDER.fullmatch(path.name):
                path.rename(place / path.name)


def _install_in_place(place: Path, files: Files, mine: Collection[str]) -> None:
    rank = {name: n for n, name in enumerate(files.manifests)}
    with _WorkFolder(place) as work:
        _fill(work.path, files)
        old = work.path / _OLD
        old.mkdir()
        leaving = sorted(mine, key=lambda name: (rank.get(name, len(rank)), name))
        coming = sorted(files.names, key=lambda name: (-rank.get(name, len(rank)), name))
        moves = [(place / name, old / name) for name in leaving] + [(work.path / name, place / name) for name in coming]
        begun: list[tuple[Path, Path]] = []
        made: list[Path] = []
        try:
            for source, target in moves:
                _make_folders(target.parent, made)
                begun.append((source, target))
                source.rename(target)
        except BaseException:
            for source, target in reversed(begun):
                with contextlib.suppress(OSError):  # the last one may not have happened
                    target.rename(source)
            for folder in reversed(made):
                with contextlib.suppress(OSError):  # somebody may have put something there
                    folder.rmdir()
            raise


def _fill(folder: Path, files: Files) -> None:
    for name, data in files.contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for name, target in files.links.items():
        (folder / name).symlink_to(target)


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Makes a directory and those above it; appends what it made to `made`."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        made.append(each)


def _is_working_directory(place: Path) -> bool:
    """Whether this process, and so probably the shell that started it, stands in that directory."""
    try:
        return place.samefile(Path.cwd())
    except OSError:
        return False


# ---- Work folders and locks ----


def _work_name() -> str:
    return f"{PREFIX}{secrets.token_hex(4)}"


class _WorkFolder:
    """A new folder in a directory, locked as long as its maker lives; it is removed at the end if it is still there."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent

    def __enter__(self) -> _WorkFolder:
        while True:
            self.path = self.parent / _work_name()
            self.path.mkdir()
            self.lock = _Lock(self.path)
            if self.lock.here():
                return self
            self.lock.close()  # somebody took it for abandoned before it was locked

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        _remove(self.path)
        self.lock.close()


class _Lock:
    """An advisory lock on a directory, which ends with the process; nothing where the system has none.

    `missing` says that there was no such directory when it was opened. It may be there a moment later, unlocked.
    """

    def __init__(self, path: Path, wait: bool = False) -> None:
        self.path, self.handle, self.held, self.missing = path, None, False, False
        if fcntl is None:
            self.missing = not path.exists()
            return
        try:
            self.handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            self.missing = True
        except OSError:  # such as one that may not be read
            pass
        late = time.monotonic() + _PATIENCE
        while self.handle is not None and not self.held:
            try:
                fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.held = True
            except BlockingIOError:
                if not wait:
                    return
                if time.monotonic() > late:
                    self.close()
                    raise OSError(errno.EBUSY, "another process is writing there", str(path)) from None
                time.sleep(0.01)
            except OSError:  # a file system without locks
                return

    def here(self) -> bool:
        """Whether the directory that is locked still has this path; True where there are no locks."""
        if self.handle is None or not self.held:
            return self.path.exists()
        try:
            return os.path.samestat(os.fstat(self.handle), self.path.lstat())
        except OSError:
            return False

    def close(self) -> None:
        if self.handle is not None:
            with contextlib.suppress(OSError):
                os.close(self.handle)
            self.handle = None


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[bool]:
    """Keeps other writers out of a directory; False where there is none, and so no lock either."""
    while True:
        lock = _Lock(place, wait=True)
        if lock.missing or lock.here():
            break
        lock.close()  # another writer has exchanged it
    try:
        yield not lock.missing
    finally:
        lock.close()


def _remove_abandoned(folder: Path) -> None:
    for lock in _abandoned(folder):
        if not (lock.path / _OLD).exists():  # that one says what in the directory around it is ours
            _remove(lock.path)
        lock.close()


def _abandoned(folder: Path) -> list[_Lock]:
    """Work folders of this user in it whose makers are dead, now locked by us."""
    if fcntl is None:
        return []
    try:
        with os.scandir(folder) as entries:
            named = [e for e in entries if _WORK_FOLDER.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]
            found = [e.name for e in named if e.stat(follow_symlinks=False).st_uid == os.geteuid()]
    except OSError:
        return []
    locks = [_Lock(folder / name) for name in found]
    for lock in locks:
        if not lock.held:
            lock.close()
    return [lock for lock in locks if lock.held]


def _remove(folder: Path) -> None:
    """Removes a work folder, as far as the system lets us; twice, since a scanner may hold a file for a moment."""
    for _ in range(2):
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
