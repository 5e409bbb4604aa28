"""Tuning on a server of devices that goes away meanwhile."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from sterna.driver import reading
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.options import Options
from sterna.records import Database
from sterna.targets.description import host
from sterna.tuning import measure
from sterna.tuning.measure import Local
from sterna.tuning.tuner import Tuner
from support.rpc_digits import MODEL
from support.rpc_server import full_disk, started

pytestmark = pytest.mark.skipif(
    os.name != "posix" or platform.system() != "Linux", reason="the server is built for Linux"
)


def test_a_device_that_is_lost_ends_the_search(binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no failure of the kernels that were left: it costs no trial, and what was measured is kept."""
    monkeypatch.setattr(measure, "PAUSES", (0.0,))
    options = Options(host(), "llvm")
    graph = read_model(Source.of(MODEL), reading(options))
    server = started([binary], tmp_path / "scratch")
    running = server.__enter__()

    def watch(tuner: Tuner) -> None:
        if tuner.trials == 2:
            running.process.terminate()  # It ends its connections, each of which is a process.
            running.process.wait()

    with Database(tmp_path / "t.db") as records:
        with Local(running.address) as measurer:
            tuner = Tuner(graph, options, records, explorer="random", measurer=measurer, watch=watch)
            with pytest.raises(SternaError, match="what was measured is kept") as lost:
                tuner.search(50)
        kept = records.trials()
    with pytest.raises(AssertionError, match="the server has ended"):
        server.__exit__(None, None, None)
    assert lost.value.codes == ("E0805",)
    assert [record.error for record in kept if record.explorer == "random"] == ["", ""]
    assert not [record.error for record in kept if record.error]


def test_a_full_disk_of_the_device_ends_the_search(
    binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever would have been tried next: no choice is recorded as one that fails."""
    mark = tmp_path / "full"
    monkeypatch.setenv("LD_PRELOAD", str(full_disk(tmp_path)))
    monkeypatch.setenv("FULL_DISK", str(mark))
    options = Options(host(), "llvm")
    graph = read_model(Source.of(MODEL), reading(options))

    def watch(tuner: Tuner) -> None:
        if tuner.trials == 2:
            mark.touch()

    with started([binary], tmp_path / "scratch") as running, Database(tmp_path / "t.db") as records:
        monkeypatch.delenv("LD_PRELOAD")
        with Local(running.address) as measurer:
            tuner = Tuner(graph, options, records, explorer="random", measurer=measurer, watch=watch)
            with pytest.raises(SternaError, match="the disk of the device is full") as full:
                tuner.search(50)
        assert full.value.codes == ("E0806",)
        assert running.address in str(full.value)
        assert "what was measured is kept" in str(full.value)
        assert [record.error for record in records.trials() if record.explorer == "random"] == ["", ""]


def test_a_device_that_was_never_there_is_said_at_once(tmp_path: Path) -> None:
    options = Options(host(), "llvm")
    graph = read_model(Source.of(MODEL), reading(options))
    with Database(tmp_path / "t.db") as records:
        with pytest.raises(SternaError) as refused:
            Tuner(graph, options, records, "rpc://127.0.0.1:1").run(4)
        assert refused.value.codes == ("E0801",)
        assert records.trials() == []
