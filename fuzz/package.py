"""Python's readers and writers of bundles under hostile ones: `read_graph`, `inspect`, `package`, replacing.

A case is a zip archive of a bundle's files. Mutations change graph.json's members (its own hash is made right again, so
that they get past the first look), the files themselves, and which files there are. Refused is refused: a coded error,
nothing written outside of the output, nothing left behind, within time and memory.
"""

from __future__ import annotations

import io
import json
import random
import re
import resource
import shutil
import signal
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import sterna
from frame import Budget, Finding, Fuzzer
from sterna.bundle.directory import write_files
from sterna.cli import program
from sterna.errors import SternaError
from sterna_runtime import hash64
from sterna_runtime.ownership import in_one_file, parts_of_one_file
from sterna_runtime.reader import read_graph
from support.hostile import NAMES
from support.small_models import SmallModel
from support.string_models import labels

MOST_SECONDS = 10
MOST_BYTES = 2 << 30
_PATHS = ("../../x", "/etc/passwd", "..", "", ".git", "a/b", "C:\\x", "con.bin", "x" * 300, "params.bin", "graph.json")
_NUMBERS = (0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**70), 10**400, 1.5, 1e308, True)
_DEEP: Any = ["d", 0]
for _ in range(60):
    _DEEP = ["+", _DEEP, 1]
_OTHERS = (None, [], {}, [[]], {"": {}}, [None], ["d", 99], ["+"], ["/", 1, 0], _DEEP, ["max", *range(300)], "NaN")
_VALUES = (*_PATHS, *_NUMBERS, *_OTHERS, *NAMES)

Files = dict[str, bytes]


class _TooLongError(Exception):
    """The clock rang."""


def bases(folder: Path) -> list[Files]:
    """Small bundles for browsers, of every form, and one for this machine and for firmware."""
    fixed, open_ = SmallModel(2, 4), SmallModel("batch", 4)
    plain = fixed.done(fixed("Relu", fixed("Add", "x", fixed.weight(4))))
    sized = open_.done(open_("Softmax", open_("Mul", "x", open_.weight(4))))
    made = [
        sterna.compile_to(folder / "plain", plain, "browser", generator="llvm"),
        sterna.compile_to(folder / "open", sized, "browser", dims={"batch": (1, 8)}, generator="llvm"),
        sterna.compile_to(folder / "single", plain, "browser", generator="llvm", single_file=True),
        sterna.compile_to(folder / "strings", labels(), "browser", generator="llvm"),
        sterna.compile_to(folder / "host", sized, dims={"batch": (1, 8)}, generator="llvm"),
        sterna.compile_to(folder / "firmware", plain, "cortex-m4"),
    ]
    return [{path.name: path.read_bytes() for path in sorted(place.iterdir())} for place in made]


def packed(files: Files) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def unpacked(data: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {Path(name).name: archive.read(name) for name in archive.namelist()}


# ---- Mutations ----


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every member and element of a JSON value, as its container and key."""
    for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield node, key
        yield from _places(node[key])


def _mutate_graph(text: bytes, chance: random.Random) -> bytes:
    line, _, rest = text.partition(b"\n")
    graph = json.loads(line.rstrip(b",") + b"," + rest)
    version = graph.pop("sterna")
    graph.pop("hash")
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places = list(_places(graph))
        if not places:
            break
        node, key = chance.choice(places)
        kind = chance.randrange(6)
        if kind == 0:
            del node[key]
        elif kind == 1 and isinstance(node, dict):
            node[str(chance.choice(_VALUES))] = node.pop(key)
        elif kind == 2:
            other, there = chance.choice(places)
            node[key] = json.loads(json.dumps(other[there])) if there in other or isinstance(other, list) else None
        else:
            node[key] = deepcopy(chance.choice(_VALUES))  # later rounds may change it in place
    rest = json.dumps(graph, separators=(",", ":"), ensure_ascii=chance.random() < 0.5)[1:].encode("utf-8", "replace")
    if chance.random() < 0.1:
        rest = _mutate_bytes(rest, chance)
    if chance.random() < 0.05:
        version = chance.choice((0, 3, 999999))
    digits = hash64(rest) if chance.random() < 0.95 else "0" * 16
    return f'{{"sterna":{version},"hash":"{digits}",\n'.encode() + rest


def _mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice((1, 2, 8))):
        at = chance.randrange(len(made) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            made[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            del made[at : at + chance.choice((1, 16, 1024))]
        elif kind == 2:
            made[at:at] = chance.choice((b"[" * 2000, b"\0", b"\xff" * 16, b"1" * 5000, b'"\\ud800"', b"{}"))
        else:
            del made[at:]
    return bytes(made)


def mutated(files: Files, chance: random.Random) -> Files:
    """One mutation or more of a bundle."""
    files = dict(files)
    names = sorted(files)
    kind = chance.randrange(10)
    if kind < 7 and "graph.json" in files:
        files["graph.json"] = _mutate_graph(files["graph.json"], chance)
    elif kind < 7 and "graph.json" not in files and "model.wasm" in files:
        parts = parts_of_one_file(files["model.wasm"])
        graph = _mutate_graph(parts["graph.json"], chance)
        files["model.wasm"] = in_one_file(parts["model.wasm"], graph, parts["params.bin"])
    elif kind == 7:
        del files[chance.choice(names)]
    elif kind == 8:
        files[chance.choice(names)] = files[chance.choice(names)]
    else:
        name = chance.choice(names)
        files[name] = _mutate_bytes(files[name], chance)
    return files


# ---- One case ----


def check(data: bytes, work: Path) -> list[Finding]:
    """Everything that Python does with a bundle on disk, and what may not come of it."""
    bundle, out = work / "bundle", work / "out"
    for folder in (bundle, out):
        shutil.rmtree(folder, ignore_errors=True)
    bundle.mkdir()
    for name, contents in unpacked(data).items():
        (bundle / name).write_bytes(contents)
    before = _state(bundle)
    actions: dict[str, Callable[[], object]] = {
        "read_graph": lambda: read_graph(bundle),
        "inspect": lambda: _command("inspect", bundle),
        "inspect --nodes": lambda: _command("inspect", bundle, "--nodes", "--memory"),
        "inspect --json": lambda: _command("inspect", bundle, "--json"),
        "package": lambda: _command("package", bundle, "--for", "npm", "-o", out / "deep" / "package"),
    }
    found: list[tuple[str, str]] = []
    for what, action in actions.items():
        problem = _guarded(action)
        if problem is not None:
            found.append((problem[0], f"{what}: {problem[1]}"))
        if _state(bundle) != before or {path.name for path in work.iterdir()} - {"bundle", "out"}:
            found.append(("wrong answer", f"{what} wrote where it should not"))
    if out.exists() and not (out / "deep" / "package" / "package.json").is_file():
        found.append(("wrong answer", "package left something behind"))
    if out.exists() and any(not path.resolve().is_relative_to(out.resolve()) for path in out.rglob("*")):
        found.append(("wrong answer", "a package reaches out of its directory"))
    problem = _guarded(lambda: _replace(bundle, before))
    if problem is not None:
        found.append((problem[0], f"replacing: {problem[1]}"))
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MOST_BYTES:
        found.append(("memory", "more than 2 GB"))
    return [Finding(kind, text, data) for kind, text in found]


def _replace(bundle: Path, before: Files) -> None:
    """Another bundle takes the place, or it is refused; somebody's file stays in any case."""
    (bundle / "main.c").write_bytes(b"mine")
    written = {"kernels.c": b"/* new */", "graph.json": b"new"}
    refused = None
    try:
        write_files(written, bundle)
    except SternaError as problem:
        refused = problem.codes
    after = _state(bundle)
    if refused is None and {**after, **written, "main.c": b"mine"} != after:
        raise AssertionError("written, but not whole")
    if refused is not None and (refused != ("E0204",) or after != {**before, "main.c": b"mine"}):
        raise AssertionError(f"refused with {refused}, and changed")


def _command(*arguments: object) -> None:
    result = CliRunner().invoke(program, [str(argument) for argument in arguments])
    if re.search(r"^error\[E0901\]", result.stderr, re.MULTILINE):  # within a line it may be somebody's name
        raise AssertionError(result.stderr[:600])


def _guarded(action: Callable[[], object]) -> tuple[str, str] | None:
    """The kind and text of what went wrong; errors of our own are right."""

    def ring(*_: object) -> None:
        raise _TooLongError

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(MOST_SECONDS)
    try:
        action()
    except SternaError:
        pass
    except _TooLongError:
        return "hang", f"more than {MOST_SECONDS} s"
    except Exception as problem:
        return "uncaught error", f"{type(problem).__name__}: {problem}"
    finally:
        signal.alarm(0)
    return None


def _state(folder: Path) -> Files:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fuzz(budget: Budget, seed: int, work: Path) -> Sequence[Finding]:
    """The corpus, the bases as they are, then mutations of them."""
    chance = random.Random(seed)
    found: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="sterna-fuzz-bases-") as folder:
        started = bases(Path(folder))
    for data in (*FUZZER.corpus(), *map(packed, started)):
        found += check(data, work)
        budget.count()
    while not budget.spent:
        found += check(packed(mutated(chance.choice(started), chance)), work)
        budget.count()
    return found


FUZZER = Fuzzer("package", "bundles through read_graph, inspect, package and replacing, in Python", fuzz, check)
