"""`sterna tune --dask`: builders and devices as workers, some of which die, hang or drift on the way."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import sterna
from sterna.cli import program
from sterna.driver import reading
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.options import Options
from sterna.records import Database, choice_text
from sterna.targets.description import host
from sterna.tuning import cluster, farm, farm_worker, tuner
from sterna.tuning.cluster import Cluster, local
from sterna.tuning.farm import Farm
from sterna.tuning.tuner import Report, Tuner
from support import simulated_devices
from support.simulated_devices import measured, opened

TRIALS = 28


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """One kernel."""
    weights = np.random.default_rng(3).standard_normal((32, 48)).astype(np.float32)
    constant = helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (4, c)) for n, c in (("x", 32), ("y", 48))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "layer", ends[:1], ends[1:], [constant])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "layer.onnx")
    return tmp_path / "layer.onnx"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    measured.clear()
    monkeypatch.setattr(cluster, "CONNECT", 0.5)
    monkeypatch.setattr(tuner, "TURNS", 1)


async def end(worker: Any) -> None:
    """The connection breaks, as where its process is killed."""
    worker.batched_stream.comm.abort()


@contextlib.contextmanager
def threads(*devices: str) -> Iterator[Any]:
    """A cluster in this process: two builders and these devices."""
    with local(devices, builders=2, processes=False) as found:
        yield found


def search(
    model: Path, place: Path, workers: Any, devices: tuple[str, ...], watch: Callable[[Tuner], None] | None = None
) -> tuple[Report, list[str]]:
    """A search at random, and what it said of devices."""
    options, said = Options(host(), "llvm"), list[str]()
    graph = read_model(Source.of(model), reading(options))
    found = Cluster(workers)
    measurer = Farm(found, devices, seconds=30, grace=0.5, opener=opened, told=said.append)
    with contextlib.closing(found), Database(place) as database:
        run = Tuner(graph, options, database, explorer="random", seed=5, measurer=measurer, watch=watch).run
        return run(TRIALS), said


def costs(place: Path) -> dict[str, float]:
    """By choice, of what was tried."""
    with Database(place) as database:
        records = [r for r in database.trials() if r.explorer != "rules"]
    assert all(not r.error for r in records)
    return {choice_text(r.choice): r.cost for r in records}


def test_devices_that_die_or_hang_lose_nothing(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same records, and the same best, as where nothing happens; nothing is measured twice."""
    monkeypatch.setattr(farm_worker, "build", simulated_devices.built)
    with threads("good") as workers:
        plain, _ = search(model, tmp_path / "plain.db", workers, ("good",))
    measured.clear()
    devices = ("good", "hangs-4", "dies", "other")
    killed: list[int] = []

    def kill(search: Tuner) -> None:
        if not killed and sum(r.device == "dies" for r in search.records.trials()) == 2:
            killed.append(search.trials)
            workers.sync(end, workers.workers["on-dies"])

    with threads(*devices) as workers:
        report, said = search(model, tmp_path / "farm.db", workers, devices, kill)
    assert report.trials == plain.trials == TRIALS
    assert costs(tmp_path / "farm.db") == costs(tmp_path / "plain.db")
    assert report.kernels[0].choice == plain.kernels[0].choice
    assert report.after == plain.after
    assert report.whole is not None
    assert (report.whole.before, report.whole.after, report.whole.why) == (2.0, 1.0, "")
    assert sorted(line.split(" is left out: ")[0] for line in said) == ["dies", "hangs-4"]
    assert any("hangs-4 is left out: the reference kernel failed there: no answer" in line for line in said)
    with Database(tmp_path / "farm.db") as database:
        by = {(r.device, choice_text(r.choice)) for r in database.trials() if r.explorer != "rules"}
    assert {device for device, _ in by} == set(devices)
    # A worker that was closed may have had one measured that it did not deliver.
    tried = [(device, choice) for device, choice in measured if choice in costs(tmp_path / "farm.db")]
    best = choice_text(report.kernels[0].choice or {})
    again = [(device, choice) for device, choice in tried if (device, choice) not in by and choice != best]
    assert len(again) <= 1
    assert all(device == "dies" for device, _ in again)
    assert len([each for each in tried if each[1] != best]) == TRIALS - 1 + len(again)


def test_a_device_that_drifts_gets_no_kernel_any_more(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(farm_worker, "build", simulated_devices.built)
    monkeypatch.setattr(farm, "EVERY", 5)
    devices = ("good", "drifts-6")
    with threads(*devices) as workers:
        report, said = search(model, tmp_path / "farm.db", workers, devices)
    assert report.trials == TRIALS
    assert said == ["drifts-6 is left out: the reference kernel takes 2.00 times as long as on good"]
    with Database(tmp_path / "farm.db") as database:
        assert sum(r.device == "drifts-6" for r in database.trials()) == 5


def test_where_no_device_is_left_the_records_are_kept(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next search goes on, on another device."""
    monkeypatch.setattr(farm_worker, "build", simulated_devices.built)
    with threads("hangs-9") as workers, pytest.raises(SternaError, match="no device is left") as refused:
        search(model, tmp_path / "farm.db", workers, ("hangs-9",))
    assert "E0805" in refused.value.codes
    assert len(costs(tmp_path / "farm.db")) == 8  # and the rules' own


def test_real_kernels_by_a_scheduler_s_address(model: Path, tmp_path: Path) -> None:
    with threads("host") as workers:
        report = sterna.tune(
            model, generator="llvm", dask=workers.scheduler_address, trials=1, explorer="random",
            records=tmp_path / "farm.db",
        )  # fmt: skip
    assert report.trials == 1
    assert not report.kernels[0].why
    with Database(tmp_path / "farm.db") as database:
        found = database.trials()
    assert [bool(r.features) for r in found] == [True] * 2
    assert {r.device for r in found} == {""}
    assert all(r.samples for r in found if r.explorer == "rules")


def test_workers_that_are_missing_are_named() -> None:
    with threads("host") as workers:
        found = Cluster(workers)
        with pytest.raises(SternaError, match='"device-rpc://pi:9190"') as refused:
            found.check(["rpc://pi:9190"])
        found.close()
    assert "E0801" in refused.value.codes


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--dask", "here"], "E0002", "names no scheduler"),
        (["--dask", "tcp://:8786"], "E0002", "names no scheduler"),
        (["--dask", "tcp://hub"], "E0002", "names no scheduler"),
        (["--dask", "tcp://hub:port"], "E0002", "names no scheduler"),
        (["--dask", "tcp://hub:70000"], "E0002", "names no scheduler"),
        (["--dask", "tls://hub:8786"], "E0801", "certificates are needed"),
        (["--dask", "tcp://127.0.0.1:9"], "E0801", "no scheduler of Dask answers"),
        (["--on", "node", "--on", "chromium"], "E0002", "several devices need workers"),
        (["--dask", "local", "--on", "moon"], "E0002", "names no device"),
        (["--dask", "local", "-t", "raspberrypi4"], "E0507", "cannot be measured here"),
    ],
)
def test_what_is_no_farm_is_refused(words: list[str], code: str, says: str, model: Path) -> None:
    done = CliRunner().invoke(program, ["tune", str(model), *words])
    assert done.exit_code != 0
    assert code in done.stderr
    assert says in done.stderr


def test_without_dask_the_extra_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = CliRunner().invoke(program, ["tune", str(model), "--dask", "local"])
    assert "E0004" in done.stderr
    assert "sterna[tune]" in done.stderr
