"""Bundles in an emulator: `run --on`, `verify --on`, `verify -t`, and `Bundle` as it is anywhere else."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import sterna
from sterna.api import compile_to
from sterna.cli import program
from sterna.emulate.devices import machine_of
from sterna.emulate.machines import elsewhere, load_for
from sterna.errors import SternaError
from sterna.runtime import remote
from sterna.targets.description import load_target
from sterna_runtime import library
from sterna_runtime.random_inputs import random_inputs
from support.data_sized import detections, detector
from support.string_models import labels
from support.tools import need

MODEL = Path(sterna.__file__).parent / "demo" / "digits.onnx"
PI = load_target("raspberrypi4")
ON = "qemu:raspberrypi4"

pytestmark = pytest.mark.family("arm64")


@pytest.fixture(scope="module", autouse=True)
def _emulator() -> None:
    need("qemu-aarch64", "runs programs for 64-bit ARM")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("emulated") / "digits"
    assert run("compile", MODEL, "-t", "raspberrypi4", "-g", "llvm", "-o", place, "--golden", 2).exit_code == 0
    return place


def test_the_command_runs_what_is_for_another_processor(bundle: Path, tmp_path: Path) -> None:
    """With the output of any other run: values, times, nodes, files."""
    output = tmp_path / "scores.npy"
    done = run("run", bundle, "--on", ON, "--random", "--repeat", 2, "--profile", "--top", 1, "--json", "-o", output)
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["runs"], len(found["outputs"][0]["top"])) == (2, 1)
    assert [node["sources"] for node in found["nodes"]][-1] == ["softmax"]
    assert all(node["fastest_nanoseconds"] > 0 for node in found["nodes"])
    with sterna.load(compile_to(tmp_path / "here", MODEL, generator="llvm")) as here:
        wanted = here.run(sterna_random(here))["scores"]
    assert np.abs(np.load(output) - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert "an emulator" in run("run", bundle, "--on", ON, "--random").output


def sterna_random(bundle: sterna.Bundle) -> dict[str, np.ndarray]:
    from sterna_runtime.random_inputs import random_inputs

    return random_inputs(bundle.inputs, 0)


def test_who_runs_it_without_is_told_of_the_emulator(bundle: Path, tmp_path: Path) -> None:
    for done in (run("run", bundle, "--random"), run("verify", bundle, "--golden")):
        assert done.exit_code == 1
        assert "E0507" in done.output
        assert "--target host; or run it in an emulator: --on qemu:raspberrypi4" in " ".join(done.output.split())
    compile_to(tmp_path / "dll", MODEL, "windows-x86-64", generator="llvm")
    assert "--on" not in run("run", tmp_path / "dll", "--random").output


def test_golden_sets_are_replayed_there(bundle: Path) -> None:
    done = run("verify", bundle, "--golden", "--on", ON)
    assert done.exit_code == 0
    assert "agrees with" in done.output


def test_verify_runs_a_foreign_target_by_itself() -> None:
    done = run("verify", MODEL, "-t", "raspberrypi-zero", "-g", "llvm")
    assert done.exit_code == 0
    assert "agrees with" in done.output


def test_sizes_that_are_open_or_found_in_the_data(tmp_path: Path) -> None:
    places = [compile_to(tmp_path / t, detector(12, 2, 8), t, generator="llvm") for t in ("host", "raspberrypi4")]
    with sterna.load(places[0]) as here, load_for(places[1], PI) as there:
        assert there.outputs == here.outputs
        for feed in detections(12, 2):
            wanted, got = here.run(feed), there.run(feed)
            assert {name: array.shape for name, array in got.items()} == {n: a.shape for n, a in wanted.items()}
            for name, array in wanted.items():
                np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6)
        assert [value.name for value in there.values] == [value.name for value in here.values]


def test_open_dimensions_and_strings(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[batch, n] x) => (float[batch, n] y) { y = Softmax(x) }"""
    import onnx.parser

    model = onnx.parser.parse_model(text)
    place = compile_to(tmp_path / "open", model, "raspberrypi4", dims={"batch": (1, 4), "n": (1, 9)}, generator="llvm")
    with load_for(place, PI) as there:
        for shape in ((1, 9), (4, 3)):
            got = there.run({"x": np.zeros(shape, np.float32)})["y"]
            np.testing.assert_allclose(got, np.full(shape, 1 / shape[1], np.float32), rtol=1e-6)
        assert there.dim_sizes == {"batch": 4, "n": 3}
        assert there.memory()["signature"] > 0
    words = compile_to(tmp_path / "words", labels(), "raspberrypi4", generator="llvm")
    with load_for(words, PI) as there:
        found = there.run({"x": np.array(["tern", "gull", "kiwi", "auk"], object)})
        assert list(found["group"]) == ["Sternidae", "Laridae", "?", "Alcidae"]


def test_refusals(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("raspberrypi4", "qemu:", "kvm:arm64"):
        with pytest.raises(SternaError, match="E0002"):
            machine_of(text)
    assert "E0201" in run("run", bundle, "--on", "qemu:raspberrypi44", "--random").output
    assert "E0507" in run("run", bundle, "--on", "qemu:browser", "--random").output
    assert "E0507" in run("run", bundle, "--on", "qemu:armv7", "--random").output  # the runtime there refuses it
    assert "E0503" in run("run", tmp_path / "nothing", "--on", ON, "--random").output
    assert "E0002" in run("verify", MODEL, "--on", ON).output
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = run("run", bundle, "--on", ON, "--random")
    assert "E0004" in missing.output
    assert "qemu-aarch64 is not installed" in missing.output


def test_several_runs_are_timed_by_one_question(bundle: Path) -> None:
    with load_for(bundle, PI) as there:
        there.run(random_inputs(there.inputs, 0))
        functions, model = there.of_runtime()
        assert isinstance(functions, remote.Functions)
        for runs in (1, 7):
            times = functions.profiled(model, runs)
            assert len(times) == runs
            assert min(times) > 0


def test_an_emulator_that_ends(bundle: Path) -> None:
    """Is an error of the run, and the bundle closes all the same."""
    with elsewhere(PI), sterna.load(bundle) as loaded:
        functions = library.load()
        assert isinstance(functions, remote.Functions)
        for model in functions._models.values():
            os.kill(model.process.pid, signal.SIGKILL)
            model.process.wait()
        for _ in range(2):
            with pytest.raises(SternaError, match=r"E0511.*emulator ended with SIGKILL"):
                loaded.run({"image": np.zeros((1, 1, 8, 8), np.float32)})
    assert library.load() is library.here()
