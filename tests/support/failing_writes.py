"""Writes a bundle again and again, and lets it go wrong at every file operation in turn; prints what was found as JSON.

    python failing_writes.py FOLDER WAY FAILURE

WAY is what stands at the place before: `new` (nothing), `bundle` (an older one, alone), `shared` (an older one with
somebody's files). FAILURE is `kill`, `error` (one operation is refused), `full` (from one on, nothing more can be
written) or `alone` (the folder around may not be written). Every attempt is a process of its own, so that it can die.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sterna.bundle.directory import write_files
from sterna.errors import SternaError
from sterna_runtime import hash64
from sterna_runtime.ownership import GRAPH, entry, owned

OPERATIONS = {
    "open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.scandir", "os.listdir", "fcntl.flock",
    "sterna.exchange",
}  # fmt: skip
WRITES = {"os.mkdir", "os.rename", "os.chmod", "sterna.exchange"}
FOREIGN = {"main.c": b"int main(void) { return 0; }\n", "notes.txt": b"mine", ".git/HEAD": b"ref: refs/heads/main\n"}
MOST = 200  # operations of one write


def bundle(kind: str) -> dict[str, bytes]:
    """Files as the compiler writes them; no two kinds share contents, and one of each kind's names is its own."""
    files = {name: f"/* {name}, {kind} */\n".encode() for name in ("kernels.c", "model.h", "params.bin", "model.so")}
    files["strings.json" if kind == "old" else "golden.bin"] = kind.encode()
    rest = json.dumps({"files": {name: entry(data) for name, data in files.items()}})[1:].encode()
    return {**files, GRAPH: b'{"sterna":1,"hash":"%s",\n' % hash64(rest).encode() + rest}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by path."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def hidden(folder: Path) -> list[str]:
    """What a writer left behind."""
    return [str(p) for p in folder.rglob(".sterna-*")]


def prepare(folder: Path, way: str) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    place = folder / "place"
    if way != "new":
        write_files(bundle("old"), place)
    if way == "shared":
        (place / ".git").mkdir()
        for name, data in FOREIGN.items():
            (place / name).write_bytes(data)
    return place


def fail_at(number: int, failure: str, folder: Path) -> Callable[[], bool]:
    """From now on, file operation `number` of this process fails; returns what says whether it was reached."""
    seen = 0

    def operation(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event not in OPERATIONS:
            return
        path = arguments[0] if isinstance(arguments[0], (str, os.PathLike)) else ""
        writes = event in WRITES or (event == "open" and isinstance(arguments[1], str) and arguments[1][0] in "wx")
        if failure == "alone":
            if writes and Path(path).parent == folder:
                raise OSError(errno.EACCES, "Permission denied")
            return
        seen += 1
        if failure == "full" and seen >= number and writes and event != "os.rename":
            raise OSError(errno.ENOSPC, "No space left on device")
        if seen == number and failure == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if seen == number and failure == "error":
            raise OSError(errno.EIO, "Input/output error")

    sys.addaudithook(operation)
    return lambda: seen >= number


def attempt(place: Path, number: int, failure: str) -> int | None:
    """Writes the new bundle in a process of its own.

    Returns:
        0: written; 1: refused; 2: written, and the operation that should fail was not reached; None: killed.
    """
    child = os.fork()
    if child == 0:
        status = 9
        with contextlib.suppress(BaseException):
            reached = fail_at(number, failure, place.parent)
            try:
                write_files(bundle("new"), place)
                status = 0 if reached() else 2
            except SternaError as problem:
                status = 1 if problem.codes == ("E0204",) else 8
        os._exit(status)
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def problems(place: Path, way: str, failure: str, status: int | None) -> list[str]:
    """What is wrong after an attempt."""
    found = []
    there = contents(place) if place.exists() else {}
    left = {name: data for name, data in there.items() if ".sterna-" not in name}
    foreign = FOREIGN if way == "shared" else {}
    if {name: left.pop(name, None) for name in foreign} != foreign:
        found.append("somebody's files are not what they were")
    old, new = bundle("old") if way != "new" else {}, bundle("new")
    whole = left in (old, new)
    if failure == "kill" and way == "shared":
        whole |= GRAPH not in left  # refused, since without it the others are nothing
    if not whole:
        found.append(f"neither the old bundle nor the new one: {sorted(left)}")
    if status is not None and (status not in (0, 1, 2) or left != (old if status == 1 else new)):
        found.append(f"status {status}, and there is {sorted(left)}")
    if status is not None and hidden(place.parent):
        found.append(f"left behind: {hidden(place.parent)}")
    return found


def main() -> None:
    folder, way, failure = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    found: list[str] = []
    statuses = []
    for number in range(1, MOST):
        place = prepare(folder, way)
        status = attempt(place, number, failure)
        statuses.append(status)
        found += [f"operation {number}: {text}" for text in problems(place, way, failure, status)]
        if status == 2 or failure == "alone":
            break
        # Whatever happened, the next writer succeeds and leaves nothing of it.
        again = attempt(place, MOST, "none")
        if again != 2 or hidden(folder) or owned(place, place) != bundle("new").keys():
            found.append(f"operation {number}: then the next writer ends with {again}, leaving {hidden(folder)}")
    print(json.dumps({"statuses": statuses, "problems": found}))


if __name__ == "__main__":
    main()
