"""`sterna tune` elsewhere than on this processor: in Node, in an emulator that counts, on a device beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.driver import reading
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.options import Options
from sterna.records import Confirmed, Database, target_id
from sterna.targets.description import load_target
from sterna.tuning import counted
from sterna.tuning.counted import Counting
from sterna.tuning.kernels import tasks_of
from sterna.tuning.worker import Built
from sterna_runtime.devices import describe
from sterna_runtime.random_inputs import random_inputs
from support import device_bundles
from support.tools import need
from support.tuned_layers import COLUMNS, DEPTH, run, two_layers


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return two_layers(tmp_path)


@pytest.fixture(autouse=True)
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "records" / "tuning.db"
    monkeypatch.setenv("STERNA_TUNING", str(place))
    return place


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--time", "soon"], "E0002", "is no time"),
        (["--on", "moon"], "E0002", "names no device"),
        (["--on", "qemu:raspberrypi4"], "E0507", "runs kernels for aarch64, and those of"),
        (["-t", "raspberrypi4", "--on", "qemu:mps2-an386"], "E0507", "runs firmware"),
        (["-t", "browser", "--on", "qemu:browser"], "E0507", "no emulator of processors runs kernels of browser"),
        (["-t", "raspberrypi4", "--on", "qemu:raspberrypi4", "--dask", "local"], "E0002", "count no instructions"),
        (["--on", "qemu:nothing"], "E0201", 'no target "nothing"'),
        (["--on", "qemu:mps2-an38"], "E0507", "did you mean mps2-an386?"),
        (["-t", "raspberrypi4"], "E0507", "fix: --on rpc://HOST, or --on qemu:raspberrypi4, or --target host"),
        (["-t", "cortex-m4"], "E0507", "fix: --on serial:BOARD.toml, or --on qemu:cortex-m4, or --target host"),
        (["-t", "esp32"], "E0507", "fix: --on serial:BOARD.toml, or --target host"),
        (["-t", "c99"], "E0507", "fix: --target host"),
        (["-t", "metal"], "E0507", "it is for arm64"),
        (["-t", "metal"], "E0507", "fix: --on rpc://HOST, whose server drives such a device, or --target host"),
        (["-t", "cuda"], "E0507", "libcuda.so.1"),
        (["-t", "webgpu"], "E0507", "--on chromium"),
    ],
)
def test_what_cannot_be_tuned_is_refused(words: list[str], code: str, says: str, model: Path) -> None:
    done = run("tune", model, *words)
    assert done.exit_code != 0
    assert code in done.stderr
    assert says in done.stderr


@pytest.mark.family("wasm32")
def test_another_device(model: Path, records: Path) -> None:
    need("node", "it runs kernels in WebAssembly")
    report = sterna.tune(model, "browser", on="node", generator="llvm", trials=2, explorer="grid")
    assert (report.trials, report.unit) == (2, "s")
    assert [p.why for p in report.kernels] == ["", ""]
    with Database(records) as database:
        assert {r.device for r in database.trials()} == {"node"}
        assert all(r.samples for r in database.trials() if r.explorer == "rules")


@pytest.mark.family("arm64")
def test_instructions_of_an_emulated_processor(model: Path, records: Path) -> None:
    """The same each time, so that what wins has won; nothing is measured by the clock."""
    need("qemu-aarch64", "runs what is counted")
    seen = []
    for _ in range(2):
        report = sterna.tune(model, "raspberrypi4", on="qemu:raspberrypi4", trials=3, explorer="grid")
        assert (report.trials, report.unit) == (3, "instructions")
        assert {p.why for p in report.kernels} == {""}
        seen.append(report.before)
    assert seen[0] == seen[1] > DEPTH * COLUMNS / 4
    with Database(records) as database:
        trials = database.trials()
        assert {r.device for r in trials} == {"qemu:raspberrypi4"}
        assert all(r.unit == "instructions" and r.samples for r in trials if not r.error)


@pytest.mark.family("arm64")
def test_a_kernel_that_cannot_be_counted(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel by the rules does not run, there is nothing to compare other choices with: all fail so."""
    need("qemu-aarch64", "runs what is counted")
    options = Options(load_target("raspberrypi4"), "c")
    (task, *_), _ = tasks_of(read_model(Source.of(model), reading(options)), options)
    with Counting(options.target, "qemu:raspberrypi4") as counting:
        with monkeypatch.context() as patch:
            patch.setattr(counting, "_machine", None)
            patch.setattr(counted, "build", lambda task, choice: Built(choice, "[]", (), {}, "broken" * (not choice)))
            for choice in ({}, {"tile": (1, 1)}, {"tile": (1, 1)}):
                assert counting.measure(task, choice).error == "broken"
        assert counting.measure(task, {}).samples


@pytest.mark.family("opencl")
def test_a_device_beside_the_processor(model: Path, records: Path, tmp_path: Path) -> None:
    """Kernels are timed without the copies around them; the records name the device and its driver."""
    with device_bundles.opencl(tmp_path / "pocl"):
        report = sterna.tune(model, "opencl", trials=6, explorer="grid")
        assert {p.why for p in report.kernels} == {""}
        assert report.trials == 6
        with Database(records) as database:
            trials = database.trials()
            names = [{r.machine for r in trials}, {r.toolchain for r in trials}, {r.device for r in trials}]
            assert names == [{describe("opencl")}] * 3
            assert len({len(r.features) for r in trials if r.features}) == 1
            # Times decide how many trials are of kernels, since parts take some; those by the rules are always there.
            best = {r.kernel: r.choice for r in trials if r.explorer in ("rules", "grid") and r.samples}
            for kernel, choice in best.items():
                own = (kernel, target_id(load_target("opencl")), "opencl", "a GPU")
                database.confirm(Confirmed(*own, choice, "[]", 2.0, 1.0, "s", "a GPU", 0.0))
        with sterna.compile(model, "opencl") as tuned, sterna.compile(model) as here:
            feeds = random_inputs(here.inputs, 3)
            np.testing.assert_allclose(tuned.run(feeds)["y"], here.run(feeds)["y"], 1e-4, 1e-4)
        said = run("compile", model, "-t", "opencl", "-o", tmp_path / "bundle").stdout
        assert "as tuned on a GPU" in said
