"""Writing into directories: all files or none, whatever fails, whenever a process dies."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sterna.bundle import install
from sterna.bundle.directory import write_files
from sterna.bundle.writer import bundle_files
from sterna.driver import Options, compile_graph
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.targets.description import load_target
from sterna_runtime import load
from sterna_runtime.ownership import owned, with_manifest
from support import failing_writes as faults
from support.small_models import SmallModel

ROOT = Path(__file__).resolve().parents[2]
NEW, OLD = faults.bundle("new"), faults.bundle("old")
posix = pytest.mark.skipif(os.name == "nt", reason="processes are forked")


def snapshot(place: Path) -> dict[str, bytes]:
    return faults.contents(place)


@posix
@pytest.mark.parametrize("failure", ["kill", "error", "full", "alone"])
@pytest.mark.parametrize("way", ["new", "bundle", "shared"])
def test_every_file_operation_in_turn_fails(tmp_path: Path, way: str, failure: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    command = [sys.executable, str(ROOT / "tests" / "support" / "failing_writes.py"), str(tmp_path / "f"), way, failure]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problems"] == []
    statuses = report["statuses"]
    if failure == "alone":
        assert statuses == [1 if way == "new" else 2], "where the folder around may not be written, files go in place"
        return
    assert statuses[-1] == 2, "in the end the operations are all through"
    assert len(statuses) > 15
    assert {"kill": None, "error": 1, "full": 1}[failure] in statuses


@pytest.mark.parametrize("exchange", [True, False])
def test_an_older_bundle_is_replaced(tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchange:
        monkeypatch.setattr(install, "_exchanger", lambda: None)
    place = tmp_path / "b"
    write_files(OLD, place)
    inode = place.stat().st_ino
    write_files(NEW, place)
    assert snapshot(place) == NEW, "what only the old one had is gone"
    assert [p.name for p in tmp_path.iterdir()] == ["b"]
    if sys.platform == "linux":
        assert (place.stat().st_ino != inode) == exchange


def test_files_are_renamed_never_rewritten(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("int main;")
    write_files(OLD, tmp_path)
    with (tmp_path / "model.so").open("rb") as mapped:
        write_files(NEW, tmp_path)
        assert mapped.read() == OLD["model.so"]
    assert (tmp_path / "model.so").read_bytes() == NEW["model.so"]


def test_what_else_is_there_stays_and_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref")
    (tmp_path / "main.c").write_text("int main;")
    caplog.set_level("INFO", "sterna")
    for files in (OLD, NEW):
        written = write_files(files, tmp_path)
        assert written.others == (".git/", "main.c")
        assert written.sizes == {name: len(data) for name, data in files.items()}
        assert "also holds .git/, main.c" in caplog.text
    assert snapshot(tmp_path) == {**NEW, ".git/HEAD": b"ref", "main.c": b"int main;"}


@pytest.mark.parametrize("start", ["empty", "bundle", "shared"])
def test_the_working_directory(tmp_path: Path, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "here"
    place.mkdir()
    if start != "empty":
        write_files(OLD, place)
    if start == "shared":
        (place / "main.c").write_text("int main;")
    monkeypatch.chdir(place)
    inode = place.stat().st_ino
    write_files(NEW, ".")
    assert place.stat().st_ino == inode, "a shell that stands in it stays where it is"
    assert {name: data for name, data in snapshot(place).items() if name != "main.c"} == NEW
    assert (place / "main.c").exists() == (start == "shared")
    assert [p.name for p in tmp_path.iterdir()] == ["here"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("made")
    for _ in range(2):
        for name in ("link", "dangling"):
            write_files(NEW, tmp_path / name)
            assert (tmp_path / name).is_symlink()
    assert snapshot(tmp_path / "real") == snapshot(tmp_path / "made") == NEW
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SternaError, match="E0204"):
        write_files(NEW, tmp_path / "loop")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda p: (p / "kernels.c").write_text("/* better */"), "kernels.c"),
        (lambda p: (p / "golden.bin").write_bytes(b"mine"), "golden.bin"),
        (lambda p: (p / "graph.json").write_text("{}"), "graph.json, kernels.c, model.h, model.so, params.bin"),
        (lambda p: ((p / "params.bin").unlink(), (p / "params.bin").mkdir()), "params.bin"),
        (lambda p: ((p / "model.so").unlink(), (p / "model.so").symlink_to("elsewhere")), "model.so"),
    ],
)
def test_e0204_somebodys_files_with_our_names(tmp_path: Path, change: Callable[[Path], object], named: str) -> None:
    place = tmp_path / "b"
    write_files(OLD, place)
    change(place)
    before = snapshot(place)
    with pytest.raises(SternaError) as caught:
        write_files(NEW, place)
    (problem,) = caught.value.diagnostics
    assert (problem.code, problem.title.rpartition(": ")[2]) == ("E0204", named)
    assert snapshot(place) == before
    assert not faults.hidden(tmp_path)


def test_damage_is_no_work_of_anybodys(tmp_path: Path) -> None:
    write_files(OLD, tmp_path / "b")
    (tmp_path / "b" / "params.bin").write_bytes(b"half")
    (tmp_path / "b" / "model.so").unlink()
    write_files(NEW, tmp_path / "b")
    assert snapshot(tmp_path / "b") == NEW


def test_a_manifest_cannot_claim_other_names(tmp_path: Path) -> None:
    """A hostile graph.json that names main.c makes it nobody's to delete."""
    files = {**OLD, "main.c": b"int main;"}
    rest = json.dumps({"files": {n: faults.entry(d) for n, d in files.items()}})[1:].encode()
    files["graph.json"] = b'{"sterna":1,"hash":"%s",\n' % faults.hash64(rest).encode() + rest
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert "main.c" not in owned(tmp_path, tmp_path)
    assert write_files(NEW, tmp_path).others == ("main.c",)


def test_a_bundle_for_firmware_is_known_by_its_header(tmp_path: Path) -> None:
    files = {name: name.encode() for name in ("kernels.c", "model.c", "params.c", "params.bin", "model.a")}
    firmware = {**files, "model.h": with_manifest(b"#define X 1\n", files)}
    write_files(firmware, tmp_path / "b")
    assert owned(tmp_path / "b", tmp_path / "b") == firmware.keys()
    write_files(NEW, tmp_path / "b")
    assert snapshot(tmp_path / "b") == NEW
    write_files(firmware, tmp_path / "b")
    with (tmp_path / "b" / "model.h").open("r+b") as header:
        header.write(b"#define X 2\n")
    with pytest.raises(SternaError, match=r"overwritten: model\.h"):
        write_files(firmware, tmp_path / "b")


@pytest.mark.parametrize("make", [lambda p: p.write_text("x"), lambda p: (p.parent / "f").write_text("x")])
def test_e0204_where_nothing_can_be_written(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "place")
    place = tmp_path / "place" if (tmp_path / "place").exists() else tmp_path / "f" / "deep" / "place"
    before = snapshot(tmp_path)
    with pytest.raises(SternaError, match="E0204"):
        write_files(NEW, place)
    with pytest.raises(SternaError, match="E0204"):
        write_files(NEW, "nul\0byte")
    with pytest.raises(SternaError, match="E0204"):
        write_files(NEW, tmp_path / "made" / ("long" * 100))
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "made").exists(), "folders that were made on the way are gone"


def test_writers_at_the_same_time(tmp_path: Path) -> None:
    """Of writers to one place, in a directory of their own and in a shared one, one's bundle is there, whole."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "main.c").write_text("int main;")
    failures: list[BaseException] = []

    def write(files: dict[str, bytes], place: Path) -> None:
        try:
            for _ in range(10):
                write_files(files, place)
        except BaseException as problem:
            failures.append(problem)

    places = (tmp_path / "alone", tmp_path / "shared")
    threads = [threading.Thread(target=write, args=(f, p)) for f in (NEW, OLD) for p in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for place in places:
        assert {n: d for n, d in snapshot(place).items() if n != "main.c"} in (OLD, NEW)
    assert not faults.hidden(tmp_path)


@posix
def test_a_directory_that_appears_while_it_is_opened_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer makes the place between this one's look for it and its work there: this one locks it, too."""
    place, exchange, opened, locked = tmp_path / "b", install.exchange, os.open, []

    def open_late(path: Path, *rest: int, **named: int) -> int:
        try:
            return opened(path, *rest, **named)
        except FileNotFoundError:
            monkeypatch.setattr(os, "open", opened)
            write_files(OLD, place)
            raise

    def exchange_locked(one: Path, other: Path) -> None:
        handle = opened(other, os.O_RDONLY)
        try:
            install.fcntl.flock(handle, install.fcntl.LOCK_EX | install.fcntl.LOCK_NB)
        except BlockingIOError:
            locked.append(other)
        finally:
            os.close(handle)
        exchange(one, other)

    monkeypatch.setattr(os, "open", open_late)
    monkeypatch.setattr(install, "exchange", exchange_locked)
    write_files(NEW, place)
    assert snapshot(place) == NEW
    assert locked == [place]
    assert not faults.hidden(tmp_path)


def test_the_mode_of_a_directory_is_kept(tmp_path: Path) -> None:
    write_files(OLD, tmp_path / "b")
    (tmp_path / "b").chmod(0o750)
    write_files(NEW, tmp_path / "b")
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o750


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.npz"
    install.write_file(path, b"one")
    path.chmod(0o640)
    install.write_file(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o640)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        install.write_file(path, b"three")
    assert path.read_bytes() == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["out.npz"]


@posix
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    install.write_file(tmp_path / "pipe", b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def networks() -> list[dict[str, bytes]]:
    """Two bundles of one signature that compute other things: y = x + 1 and y = x + 2."""
    made = []
    for number in (1.0, 2.0):
        m = SmallModel(4)
        graph = read_model(m.done(m("Add", "x", m.constant([number] * 4))))
        files = bundle_files(compile_graph(graph, "plus", Options(load_target("host"), "llvm")))
        made.append(files)
    return made


def test_loaders_while_a_writer_writes(tmp_path: Path) -> None:
    """Whoever loads gets one whole bundle or the other, every time."""
    one, two = networks()
    place = tmp_path / "b"
    write_files(one, place)
    done = threading.Event()
    writes = 0

    def write() -> None:
        nonlocal writes
        while not done.is_set():
            write_files(two, place)
            write_files(one, place)
            writes += 1

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    try:
        # The scheduler decides which of the two a load meets, and how long the writer waits for its turn.
        loads = 0
        while loads < 300 or (writes < 3 and writer.is_alive()):
            loads += 1
            with load(place) as bundle:
                seen.add(tuple(bundle.run({"x": np.zeros(4, np.float32)})["t0"].tolist()))
    finally:
        done.set()
        writer.join()
    assert writes >= 3
    assert seen <= {(1.0,) * 4, (2.0,) * 4}
    assert not faults.hidden(tmp_path)


def test_a_bundle_that_was_replaced_says_so(tmp_path: Path) -> None:
    one, two = networks()
    write_files(one, tmp_path / "b")
    with load(tmp_path / "b") as bundle:
        assert set(bundle.sizes()) == set(one)
        write_files(two, tmp_path / "b")
        assert bundle.run({"x": np.zeros(4, np.float32)})["t0"].tolist() == [1.0] * 4, "the old files are still mapped"
        with pytest.raises(SternaError, match="E0505"):
            bundle.sizes()
