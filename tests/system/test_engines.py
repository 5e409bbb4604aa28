"""Bundles in Node.js and Chromium: `run --on`, `verify --on`, `verify -t browser`, and `Bundle` as it is elsewhere."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

import sterna
from sterna.api import compile_to
from sterna.cli import program
from sterna.emulate.devices import device, machine_of
from sterna.emulate.engines import ENGINES
from sterna.errors import SternaError
from sterna.frontends.tflite.metadata import BUFFER
from sterna.runtime.remote import Functions
from sterna.tuning import worker
from sterna_runtime import library
from sterna_runtime.random_inputs import random_inputs
from support.data_sized import detections, detector
from support.tflite_builder import Scale
from support.tflite_metadata import described, means_of_channels, with_labels
from support.tools import need
from support.trained import sample

MODEL = Path(sterna.__file__).parent / "demo" / "digits.onnx"

pytestmark = pytest.mark.family("wasm32")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    need(request.param, "runs bundles for browsers")
    return str(request.param)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("engines") / "digits"
    options = ("--all-variants", "-g", "llvm", "--golden", 2)
    assert run("compile", MODEL, "-t", "browser", *options, "-o", place).exit_code == 0
    return place


def test_the_command_runs_it_there(engine: str, bundle: Path, tmp_path: Path) -> None:
    """With the output of any other run: values, times of its own clock, nodes, files; on two threads, too."""
    output = tmp_path / "scores.npy"
    more = ("--random", "--repeat", 20, "--profile", "--top", 1, "--json", "-o", output)
    done = run("run", bundle, "--on", engine, "--threads", 2, *more)
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["runs"], len(found["outputs"][0]["top"])) == (20, 1)
    assert [node["sources"] for node in found["nodes"]][-1] == ["softmax"]
    assert 0 < found["median_seconds"] < 0.1
    assert sum(node["median_nanoseconds"] for node in found["nodes"]) < 1e8
    with sterna.load(compile_to(tmp_path / "here", MODEL, generator="llvm")) as here:
        wanted = here.run(random_inputs(here.inputs, 0))["scores"]
    assert np.abs(np.load(output) - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_several_runs_are_timed_by_one_question(engine: str, bundle: Path) -> None:
    """As many as were asked for, of all nodes together; the clocks of pages are coarse."""
    with device(engine):
        loaded = sterna.load(bundle)
    with loaded as there:
        there.run(random_inputs(there.inputs, 0))
        functions, model = there.of_runtime()
        assert isinstance(functions, Functions)
        for runs in (1, 7):
            times = functions.profiled(model, runs)
            assert len(times) == runs
            assert min(times) > 0 or engine != "node"


def test_what_is_shorter_than_a_step_of_the_clock_is_timed(engine: str, bundle: Path, tmp_path: Path) -> None:
    """A page's clock moves in steps of 5 us, in which these kernels run several times: the tuner's costs are those of
    many runs. A run of all nodes takes longer than one of a layer."""
    layer = compile_to(tmp_path / "layer", relu(tmp_path / "relu.onnx"), "browser", generator="llvm")
    costs = []
    with device(engine):
        for place in (layer, bundle):
            with sterna.load(place) as there:
                there.run(random_inputs(there.inputs, 0))
                costs.append((*worker.times(there, engine, False, math.inf), worker._sum_of_nodes(there, 0.03)))
    layer_times, bundle_times = ((min(cost[:-1]), cost[-1]) for cost in costs)  # the fastest, and the sum of nodes
    assert all(0 < one < whole for one, whole in zip(layer_times, bundle_times, strict=True))
    assert max(costs[0]) < 5e-6
    assert len({*costs[0]}) > 1, "no steps"


def relu(place: Path) -> Path:
    """The shortest of models."""
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), place)
    return place


def test_golden_sets_and_models_are_verified_there(engine: str, bundle: Path) -> None:
    # Node.js before 21 has relaxed SIMD behind a flag, which is set.
    models = [(MODEL, "-t", target, "-g", "llvm") for target in ("browser", "browser-relaxed")]
    for asked in ((bundle, "--golden"), *models):
        done = run("verify", *asked, "--on", engine)
        assert done.exit_code == 0, done.output
        assert "agrees with" in done.output


def test_verify_runs_a_target_of_browsers_by_itself() -> None:
    need("node", "runs bundles for browsers")
    done = run("verify", MODEL, "-t", "browser-threads", "-g", "llvm")
    assert done.exit_code == 0, done.output
    assert "agrees with" in done.output


def test_all_that_a_bundle_says_of_itself(engine: str, tmp_path: Path) -> None:
    """Sizes that are open or found in the data, labels, scales, intermediate tensors, states."""
    wakeword, labelled = sample("micro_wakeword_okay_nabu_int8"), tmp_path / "means.tflite"
    model = means_of_channels("int8", Scale(1.0, 3))
    model.metadata(BUFFER, described([127.5] * 3, [127.5, 64.0, 2.0]))
    labelled.write_bytes(with_labels(model.content()))
    for name, given, shapes in (
        ("sizes", detector(12, 2, 8), None), ("labels", labelled, None), ("states", wakeword.file, wakeword.shapes())
    ):  # fmt: skip
        places = [
            compile_to(tmp_path / f"{name}-{target}", given, target, shapes=shapes, generator="llvm", debug=True)
            for target in ("host", "browser")
        ]
        with device(engine):
            elsewhere = sterna.load(places[1])
        with sterna.load(places[0]) as here, elsewhere as there:
            _same(here, there, detections(12, 2) if name == "sizes" else _feeds(here))


def _feeds(bundle: sterna.Bundle) -> list[dict[str, np.ndarray]]:
    return [random_inputs(bundle.inputs, seed) for seed in range(3)]


def _same(here: sterna.Bundle, there: sterna.Bundle, feeds: list[dict[str, np.ndarray]]) -> None:
    assert (there.inputs, there.outputs, there.dims) == (here.inputs, here.outputs, here.dims)
    assert there.memory()["signature"] > 0
    for spec in here.outputs:
        assert there.labels(spec.name) == here.labels(spec.name)
        assert there.quantization(spec.name) == here.quantization(spec.name)
    common = {value.name for value in here.values} & {value.name for value in there.values}
    common -= {spec.name for spec in here.inputs}  # what a run is given is read where it lies
    assert common
    firsts = []
    for feed in feeds:
        wanted, got = here.run(feed), there.run(feed)
        firsts.append(got)
        assert {name: array.shape for name, array in got.items()} == {n: a.shape for n, a in wanted.items()}
        for name, array in wanted.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5)
        for name in common:
            np.testing.assert_allclose(there.intermediate(name), here.intermediate(name), rtol=1e-4, atol=1e-5)
    there.reset_state()
    for name, array in there.run(feeds[0]).items():
        np.testing.assert_array_equal(array, firsts[0][name])


def test_an_engine_that_ends_or_refuses(engine: str, bundle: Path, tmp_path: Path) -> None:
    """Is an error of the run, and the bundle closes all the same; what cannot be loaded says why."""
    with device(engine), sterna.load(bundle) as loaded:
        functions = library.load()
        assert isinstance(functions, Functions)
        [model] = functions._models.values()
        os.kill(model.process.pid, signal.SIGKILL)
        with contextlib.suppress(SternaError):
            for _ in range(1000):  # a page may live for a little longer than its browser
                loaded.run({"image": np.zeros((1, 1, 8, 8), np.float32)})
        for _ in range(2):
            with pytest.raises(SternaError, match=r"E0511.*ended with SIGKILL"):
                loaded.run({"image": np.zeros((1, 1, 8, 8), np.float32)})
    damaged = tmp_path / "damaged"
    compile_to(damaged, MODEL, "browser", generator="llvm")
    (damaged / "params.bin").write_bytes(b"no weights")
    assert "E0505" in run("run", damaged, "--on", engine, "--random").output
    host = compile_to(tmp_path / "host", MODEL, generator="llvm")
    assert "E0507" in run("run", host, "--on", engine, "--random").output
    assert "E0503" in run("run", tmp_path / "nothing", "--on", engine, "--random").output


@pytest.fixture(scope="module")
def on_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("chromium", "runs bundles for WebGPU")
    return compile_to(tmp_path_factory.mktemp("gpu") / "digits", MODEL, "webgpu")


def test_bundles_for_webgpu_run_in_a_page(on_gpu: Path, tmp_path: Path) -> None:
    """On Chromium's GPU, or what stands for one: outputs, times, nodes; a tensor between is refused."""
    with sterna.load(compile_to(tmp_path / "here", MODEL, generator="llvm")) as here:
        feeds = _feeds(here)
        wanted = [here.run(feed)["scores"] for feed in feeds]
    with device("chromium"):
        loaded = sterna.load(on_gpu)
    with loaded as there:
        for feed, scores in zip(feeds, wanted, strict=True):
            np.testing.assert_allclose(there.run(feed)["scores"], scores, rtol=1e-4, atol=1e-5)
        times = [time for time in there.profile(repeat=2) if time.kernel != "copy"]
        assert times[-1].sources[-1] == "softmax"
        assert min(time.nanoseconds for time in times) >= 0
        between = next(v.name for v in there.values if v.name not in ("image", "scores"))
        with pytest.raises(SternaError, match="E0510"):
            there.intermediate(between)
    done = run("verify", MODEL, "-t", "webgpu", "--on", "chromium")
    assert done.exit_code == 0, done.output
    assert "agrees with" in done.output


def test_what_an_engine_does_not_run_says_what_to_do(on_gpu: Path) -> None:
    need("node", "runs bundles for browsers")
    said = " ".join(run("run", on_gpu, "--on", "node", "--random").output.split())
    assert "E0507" in said
    assert "--on chromium` runs it" in said


_KILLED = """
import os, signal, sys, sterna
from sterna.emulate.devices import device
from sterna_runtime import library
with device("chromium"):
    bundle = sterna.load(sys.argv[1])
    [model] = library.load()._models.values()
print(model.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_page_ends_with_who_opened_it(bundle: Path) -> None:
    """A browser does not outlive a process that is killed."""
    need("chromium", "runs bundles for browsers")
    paths = os.pathsep.join(map(str, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, bundle], capture_output=True, env={**os.environ, "PYTHONPATH": paths},
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    browser = Path("/proc", done.stdout.decode().strip())
    end = time.monotonic() + 30
    while browser.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not browser.exists()


def test_who_runs_it_without_is_told(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("node", "runs bundles for browsers")
    done = run("run", bundle, "--random")
    assert "E0507" in done.output
    assert "or run it in Node.js: --on node" in " ".join(done.output.split())
    assert "run it on node or chromium" in " ".join(
        run("run", bundle, "--on", "qemu:browser", "--random").output.split()
    )
    for text in ("nodes", "chromium:x", "raspberrypi4"):
        with pytest.raises(SternaError, match="E0002"):
            machine_of(text)
    assert "did you mean node?" in run("run", bundle, "--on", "nodes", "--random").output
    assert "E0002" in run("verify", MODEL, "--on", "node").output
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    for name, words in (("node", "Node.js is not installed"), ("chromium", "Chromium is not installed")):
        missing = run("run", bundle, "--on", name, "--random")
        assert "E0004" in missing.output
        assert words in missing.output
