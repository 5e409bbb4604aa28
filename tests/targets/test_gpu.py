"""Bundles for devices, through the runtime, on PoCL: models, copies between device and CPU, errors.

STERNA_OPENCL=all runs every part of the operators.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import parser

import sterna
from sterna.api import compile_to
from sterna.cli import program
from sterna_runtime import SternaError, devices, hash64, load
from support import device_bundles
from support.compiling import check
from support.control_flow import CHOICE, TRIPS, model, numbers
from support.darknet_networks import drawn, network
from support.data_sized import detections, detector
from support.device_bundles import edited, refused
from support.tools import ROOT, need, run
from support.trained import agree as agrees
from support.trained import digits

pytestmark = pytest.mark.family("opencl")
PARTS = 8
SAMPLED = range(PARTS) if os.environ.get("STERNA_OPENCL") == "all" else (3,)
NETWORKS = (
    "digits",
    "mlperf_tiny_kws_int8",
    "mlperf_tiny_ad_f32",
    "silero_vad_16k_f32",
    "mnist_cntk_f32",
    "movie_review_f32",
)


@pytest.fixture(scope="module", autouse=True)
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """There is a device, which keeps what it compiles in a folder of ours."""
    with device_bundles.opencl(tmp_path_factory.mktemp("pocl")):
        yield


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_to(tmp_path_factory.mktemp("gpu") / "digits", digits().file, "opencl")


@pytest.mark.parametrize("name", NETWORKS)
def test_models(name: str) -> None:
    device_bundles.a_trained_model(name, "opencl")


def test_bytes(tmp_path: Path) -> None:
    device_bundles.bytes_are_multiplied("opencl", tmp_path)


@pytest.mark.parametrize("part", SAMPLED)
def test_every_operator(part: int, tmp_path: Path) -> None:
    device_bundles.a_part_of_the_operators(part, PARTS, "opencl", tmp_path / "bundle")


@pytest.mark.parametrize("seed", range(3))
def test_places_drawn_at_random(seed: int, tmp_path: Path) -> None:
    """A network with nodes here and there computes what it computes here."""
    trained = digits()
    kernels = [k.function.name for k in sterna.api.compile_model(trained.file, "opencl").kernels]
    draw = random.Random(seed)
    given = {f"*{name.split('_', 1)[1]}": "cpu" for name in kernels if draw.random() < 0.5} or {"softmax": "cpu"}
    made = compile_to(tmp_path / "bundle", trained.file, "opencl", device_for=given)
    graph = json.loads((made / "graph.json").read_text())
    assert {node.get("device", 0) for node in graph["nodes"] if "op" not in node} <= {0, 1}
    with load(made) as loaded:
        for number, case in enumerate(trained.cases):
            agrees(trained, number, list(loaded.run(case.inputs).values()))


def test_choices_and_loops() -> None:
    x, y = numbers(3, 4), numbers(4, 4)
    with (
        sterna.compile(parser.parse_model(model(CHOICE)), "opencl") as there,
        sterna.compile(parser.parse_model(model(CHOICE))) as here,
    ):
        for hot in (True, False, True):
            given = {"hot": np.array(hot), "x": x, "y": y}
            check(there.run(given), here.run(given), 1e-5)
    with (
        sterna.compile(parser.parse_model(model(TRIPS)), "opencl") as there,
        sterna.compile(parser.parse_model(model(TRIPS))) as here,
    ):
        for trips in (0, 3, 1):
            given = {"trips": np.array(trips), "first": numbers(4, 4), "x": numbers(4, 4)}
            check(there.run(given), here.run(given), 1e-5)


def test_sizes_that_the_model_computes() -> None:
    source = detector(30, 2, None)
    with sterna.compile(source, "opencl") as there, sterna.compile(source) as here:
        for given in detections(30, 2)[:3]:
            check(there.run(given), here.run(given), 1e-5)


def test_nothing_to_compute(tmp_path: Path) -> None:
    """A bundle without a single kernel: its output has no elements."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        net (float[2, 0] x) => (float[0, 3] y) <int64[2] shape = {0, 3}> { y = Reshape <allowzero = 1> (x, shape) }""")
    for target in ("opencl", "webgpu"):
        assert json.loads((compile_to(tmp_path / target, model, target) / "graph.json").read_text())["library"]
    with load(tmp_path / "opencl") as bundle:
        assert bundle.run({"x": np.zeros((2, 0), np.float32)})["y"].shape == (0, 3)


def test_open_sizes() -> None:
    device_bundles.open_sizes("opencl")


def test_states_are_kept_on_the_device_and_reset() -> None:
    device_bundles.states_are_kept_and_reset("opencl")


def test_a_state_on_the_device_can_be_read(tmp_path: Path) -> None:
    weights = [drawn(*shape) for shape in ((4,), (4, 192), (4,), (4, 4), (3,), (3, 4))]
    file = network(tmp_path, "[rnn]\nhidden=4\noutput=3\nactivation=tanh\n", weights)
    given = {"data": drawn(1, 4, 6, 8)}
    with sterna.compile(file, "opencl") as there, sterna.compile(file) as here:
        (state,) = {value.name for value in there.values} & {
            value.name for value in here.values if "state" in value.name
        }
        for _ in range(2):
            there.run(given), here.run(given)
            assert here.intermediate(state).any()
            np.testing.assert_allclose(there.intermediate(state), here.intermediate(state), rtol=1e-4)
        there.reset_state()
        assert not there.intermediate(state).any()


def test_tensors_between_kernels() -> None:
    """Those on the device are copied from there when somebody asks."""
    x = digits().cases[0].inputs
    with (
        sterna.compile(digits().file, "opencl", debug=True) as there,
        sterna.compile(digits().file, debug=True) as here,
    ):
        there.run(x), here.run(x)
        names = {v.name for v in there.values} & {v.name for v in here.values}
        assert len(names) > 4
        for name in names:
            np.testing.assert_allclose(there.intermediate(name), here.intermediate(name), rtol=1e-4, atol=1e-5)


def test_times_of_nodes(bundle: Path) -> None:
    device_bundles.nodes_are_timed(bundle)


def test_several_models_at_once(bundle: Path) -> None:
    device_bundles.several_models_at_once(bundle)


def test_what_the_driver_made_is_kept(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file for each program, device and driver; one that is damaged is made again."""
    monkeypatch.setattr(devices, "cache", lambda: os.fsencode(tmp_path))
    for _ in range(2):
        load(bundle).close()
    (kept,) = tmp_path.iterdir()
    good = kept.read_bytes()
    assert len(good) > 100
    for bad in (good[:50], good[:-1] + bytes([good[-1] ^ 1]), b""):
        kept.write_bytes(bad)
        with load(bundle) as loaded:
            agrees(digits(), 0, list(loaded.run(digits().cases[0].inputs).values()))
        # Whole again; PoCL's own bytes depend on what it has compiled before.
        again = kept.read_bytes()
        assert int(hash64(again[8:]), 16) == int.from_bytes(again[:8], sys.byteorder)
        assert list(tmp_path.iterdir()) == [kept]


# ---------------------------------------------------------------- what goes wrong


def test_no_such_device(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STERNA_OPENCL_DEVICE", "a device that nobody makes")
    problem = refused(bundle)
    assert problem.codes == ("E0507",)
    assert 'none of the devices is called "a device that nobody makes"' in str(problem)


def test_exchanges_in_subgroups(tmp_path: Path) -> None:
    """A bundle whose threads exchange values says so; where the device does not do that, it is refused."""
    described = tmp_path / "wide.toml"
    described.write_text('extends = "opencl"\ndescription = "exchanges"\n[threads]\nsubgroup = 32\n')
    text = "rows (float[64, 96] x) => (float[64, 96] y) { y = Softmax <axis = -1> (x) }"
    made = compile_to(tmp_path / "rows", parser.parse_model(model(text)), str(described))
    (device,) = json.loads((made / "graph.json").read_text())["devices"]
    assert device["needs"] == ["subgroup_32"]
    said = None
    try:
        with load(made) as loaded:
            x = numbers(64, 96)
            check(loaded.run({"x": x}), sterna.compile(parser.parse_model(model(text))).run({"x": x}), 1e-5)
    except SternaError as problem:
        said = problem
    if said is not None:
        assert said.codes == ("E0507",)
        assert 'fix: compile with target="opencl"' in str(said)


@pytest.mark.parametrize(
    ("old", "says"),
    [
        (False, 'fix: install the driver of the GPU with its OpenCL, or compile with target="host"'),
        (True, 'fix: update the driver, or compile with target="host"'),
    ],
)
def test_no_driver_and_an_old_one(old: bool, says: str, bundle: Path, tmp_path: Path) -> None:
    """In a process of its own, whose loader finds another libOpenCL: what is no library, or one of version 1.1."""
    library = tmp_path / "libOpenCL.so.1"
    if old:
        source = tmp_path / "old.c"
        source.write_text("int clGetPlatformIDs(void) { return 0; }\n")
        gcc = need("gcc", "builds a library in place of the driver")
        run(gcc, "-shared", "-fPIC", f"-Wl,-soname,{library.name}", source, "-o", library)
    else:
        for file in (library, library.with_suffix("")):
            file.write_text("no library")
    words = "import sys, sterna_runtime as s\ntry: s.load(sys.argv[1])\nexcept s.SternaError as e: print(e)"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "compiler")}
    command = [sys.executable, "-c", words, str(bundle)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert "E0507" in said
    assert says in said


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (lambda g: g["devices"][0].update(kind="warp"), "E0507", 'needs the device "warp"'),
        (lambda g: g["devices"][0].update(needs=["wings"]), "E0507", 'needs "wings"'),
        (lambda g: g["devices"][0].update(needs=3), "E0504", "needs"),
        (lambda g: g["devices"][0].update(module="../x.cl"), "E0504", "file name"),
        (lambda g: g["devices"][0].update(params=[0, 1 << 40]), "E0504", "params of a device"),
        (lambda g: g["devices"][0].update(arena_bytes=64), "E0504", "arena"),
        (lambda g: g["devices"][0].update(scratch_bytes=1 << 50), "E0502", 'compile with target="host"'),
        (lambda g: g["devices"].clear(), "E0507", 'needs the device ""'),
        (lambda g: g["kernels"][2].update(shared_bytes=1 << 40), "E0507", "bytes of local memory"),
        (lambda g: g["kernels"][2].update(threads=[1024, 1024, 64]), "E0507", 'fix: compile with target="opencl-mali"'),
        (lambda g: g["kernels"][2].update(threads=[4, 4]), "E0504", "how it is launched"),
        (lambda g: g["kernels"][2].update(exchanging=3), "E0504", "how it is launched"),
        (lambda g: g["kernels"][2].update(exchanging=[{"name": "k", "tasks": 1}]), "E0504", "how it is launched"),
        (
            lambda g: g["kernels"][2].update(exchanging=[{"name": "k", "tasks": 1, "most_threads": 1, "subgroup": 1}]),
            "E0504",
            "how it is launched",
        ),
        (lambda g: g["kernels"][2].update(name="nothing"), "E0511", "nothing"),
        (lambda g: g["kernels"][3].pop("device"), "E0504", "of no device"),
        (lambda g: g["nodes"][2].update(device=2), "E0504", "device is none of the 1"),
        (lambda g: g["nodes"][2].update(kernel=99), "E0504", "kernel"),
        (lambda g: g["nodes"][2].update(tasks=7), "E0508", "tasks"),
        (lambda g: g["nodes"][2].update(params_at=1 << 30, params_bytes=64), "E0504", "parameters"),
        (lambda g: g["nodes"][2].update(out=[0]), "E0504", "writes to"),
        (lambda g: g["nodes"][0].update(to=3), "E0504", "copies no value"),
        (lambda g: g["nodes"][0].update({"from": 1, "to": 0}), "E0504", "only for reading"),
        (lambda g: g["nodes"][0].update(op="jump"), "E0504", "no such op"),
        (lambda g: g["values"][2].update(device=5), "E0504", "device is none of the 1"),
    ],
)  # fmt: skip
def test_a_graph_that_contradicts_itself(tmp_path: Path, change: Any, code: str, says: str) -> None:
    made = compile_to(tmp_path / "bundle", digits().file, "opencl")
    problem = refused(edited(made, change))
    assert problem.codes == (code,), problem
    assert says in str(problem)


def test_a_damaged_module(tmp_path: Path) -> None:
    made = compile_to(tmp_path / "bundle", digits().file, "opencl")
    with (made / "kernels.cl").open("ab") as file:
        file.write(b" ")
    assert refused(made).codes == ("E0505",)
    (made / "kernels.cl").unlink()
    assert refused(made).codes == ("E0503",)


def test_source_that_the_driver_refuses(tmp_path: Path) -> None:
    made = compile_to(tmp_path / "bundle", digits().file, "opencl")
    text = b"__kernel void k0(__global int *x) { *x = unheard_of; }"
    (made / "kernels.cl").write_bytes(text)
    new = {"bytes": len(text), "hash": hash64(text)}
    problem = refused(edited(made, lambda g: g["files"].update({"kernels.cl": new})))
    assert problem.codes == ("E0508",)
    assert "cannot be compiled" in str(problem)
    assert "unheard_of" in str(problem)
    assert "please report it" in str(problem)


def test_a_requirement_that_fails_is_reported() -> None:
    device_bundles.a_requirement_that_fails_is_reported("opencl", 2)


def test_the_runtime_alone_refuses_by_name(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "needed", lambda directory: ())
    problem = refused(bundle)
    assert problem.codes == ("E0507",)
    assert 'needs the device "opencl", which is not here' in str(problem)


# ---------------------------------------------------------------- the command line
def test_commands(tmp_path: Path) -> None:
    made = tmp_path / "digits"
    runner = CliRunner()
    for command, says in (
        (
            ["compile", digits().file, "-t", "opencl", "-o", made, "--device-for", "softmax=cpu"],
            "kernels of the device",
        ),
        (["inspect", made, "--nodes"], "opencl to cpu"),
        (["run", made, "--random"], "scores"),
        (["profile", made, "--trace", tmp_path / "trace.json"], "copy"),
        (["profile", made], "limits of the CPU here"),
        (["report", made, "-o", tmp_path / "report.html"], ""),
        (["verify", digits().file, "-t", "opencl"], "agrees"),
        (["doctor"], "OpenCL"),
    ):
        done = runner.invoke(program, [str(part) for part in command])
        assert done.exit_code == 0, done.output
        assert says in done.output, done.output
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"cpu", "opencl"} <= {row["args"]["name"] for row in rows if row["name"] == "thread_name"}
