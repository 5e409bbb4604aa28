"""ci/bench-gpu: what it says without a GPU, what it makes of samples, and a run of it on PoCL."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sterna.errors import SternaError
from sterna_runtime import devices
from support.cuda_driver import build
from support.device_bundles import opencl
from support.small_models import SmallModel
from support.tools import ROOT

BENCH = ROOT / "bench"
#: No package is fetched, wherever the tests run.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("compiler", "bench", "tests")),
    "PIP_NO_INDEX": "1",
}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a module of the benchmark, and forgets all of it afterwards."""
    names = {path.stem for path in BENCH.glob("*.py")} - {"__main__"}

    def own() -> set[str]:
        return {name for name in sys.modules if name in names or name.partition(".")[0] == "gpu"}

    kept = {name: sys.modules.pop(name) for name in own()}
    monkeypatch.syspath_prepend(BENCH)
    yield importlib.import_module
    for name in own():
        del sys.modules[name]
    sys.modules.update(kept)


def bench_gpu(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpu", "--work", str(folder), *arguments]
    environment = {**ENVIRONMENT, **more}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


def small(place: Path) -> Path:
    model = SmallModel(1, 8)
    onnx.save(model.done(model("Relu", model("MatMul", "x", model.weight(8, 4)))), place)
    return place


# ---------------------------------------------------------------- what it says
def test_without_a_gpu_it_says_what_to_do(tmp_path: Path) -> None:
    said = bench_gpu(tmp_path, STERNA_CUDA_DEVICE="none of that name")
    assert said.returncode == 2
    assert "error[E0507]: CUDA: " in said.stderr
    assert "ci/bench-gpu --list" in said.stderr
    assert "Traceback" not in said.stderr
    assert not list(tmp_path.iterdir())


def test_wrong_options_are_told_together(tmp_path: Path) -> None:
    wrong = ("--engines", "tensorflow", "--precisions", "fp8", "--python", "tvm", "--rounds", "0", "--starts", "0")
    wrong += ("--turn-ms", "nan", "--bound", "2", "--json", "nowhere/found.json", "--minutes", "0")
    said = bench_gpu(tmp_path, *wrong)
    assert said.returncode == 2
    assert said.stderr.count("error[E0002]") == 9
    assert '--engines has "tensorflow"' in said.stderr


def test_the_list_is_of_all_and_needs_no_gpu(module: Callable[[str], Any], tmp_path: Path) -> None:
    said = bench_gpu(tmp_path, "--list")
    assert said.returncode == 0
    networks = said.stdout.splitlines()[0].removeprefix("networks: ").split(", ")
    batches = [f"{name}_b{batch}" for name in ("resnet50", "minilm_128") for batch in (8, 32)]
    assert networks == [*module("models").COUNTED, *batches]
    for words in ("fp32, tf32, fp16", "onnxruntime-gpu", "tensorrt", "torch-compile", "tvm", "4096^3", "layer_norm"):
        assert words in said.stdout
    assert bench_gpu(tmp_path, "--list", "mlp", "start").stdout.count("\n") == 4


def test_a_reader_that_has_enough(tmp_path: Path) -> None:
    """The list goes to a pipe that nobody reads any more."""
    here, there = os.pipe()
    os.close(here)
    command = [sys.executable, "-m", "gpu", "--work", str(tmp_path), "--list"]
    said = subprocess.run(command, stdout=there, stderr=subprocess.PIPE, text=True, check=False, env=ENVIRONMENT)
    os.close(there)
    assert (said.returncode, said.stderr) == (1, "")


def test_a_compiler_that_failed_is_tried_again(
    module: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it lacked may be there by now; what a peer made is kept."""
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    module("gpu.engines")
    protocol, made = module("protocol"), module("models").Models(tmp_path, None)
    environments = module("environments").Environments(tmp_path, (), {"onnxruntime": sys.executable})
    bench = protocol.Bench(tmp_path, environments, made, protocol.Settings([], [1]))
    (model,) = made.find([str(small(tmp_path / "small.onnx"))])
    for before, name, again in (({"failed": "no"}, "onnxruntime", True), ({"seconds": 9.0}, "onnxruntime", False)):
        kept = bench._own(name, model) / "compile.json"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(before))
        found = bench._compile(name, model)
        assert (found != before) == again
        assert "failed" not in found


def test_a_name_that_is_none(tmp_path: Path) -> None:
    said = bench_gpu(tmp_path, "--list", "mobilenet_v3", "start")
    assert said.returncode == 2
    assert 'error[E0006]: there is no model "mobilenet_v3"' in said.stderr


def test_a_precision_that_the_device_has_not(tmp_path: Path) -> None:
    said = bench_gpu(tmp_path, "--target", "opencl", "--precisions", "tf32", "--list")
    assert said.returncode == 2
    assert "error[E0002]: --precisions has tf32" in said.stderr


def test_environments_that_are_shared_or_given(module: Callable[[str], Any], tmp_path: Path) -> None:
    """Nothing is installed: what has an environment made, it is another engine's, or it was given."""
    module("gpu.engines")
    environments = module("environments")

    class Made(environments.Environments):  # type: ignore[misc, name-defined]
        def _made(self, name: str, packages: Any) -> str:
            return self.given.get(name, f"{name}: {' '.join(packages)}")

    made = Made(tmp_path, ["sterna-device", "onnxruntime-graph", "torch-compile"], {"tensorrt": "/opt/python"})
    assert made.python("onnxruntime-graph") == made.python("onnxruntime-gpu")
    assert made.python("tensorrt-graph") == "/opt/python"
    assert made.networks() == made.python("torch-eager") == "torch-compile: numpy torch onnx"
    assert Made(tmp_path, ["torch-compile"], {"networks": "/opt/torch"}).networks() == "/opt/torch"
    assert environments.Environments(tmp_path, (), {"tvm": "/opt/tvm"}).python("tvm") == "/opt/tvm"


def test_names_of_batches(module: Callable[[str], Any]) -> None:
    of = module("batches").network_and_batch
    assert of("resnet50_b32") == ("resnet50", 32)
    assert [of(name) for name in ("minilm_128", "ds_cnn", "x_b0", "x_b")] == [
        (name, 1) for name in ("minilm_128", "ds_cnn", "x_b0", "x_b")
    ]
    known = module("models")._is_known
    assert known("mlp_b8")
    assert not known("nothing_b8")


# ---------------------------------------------------------------- time that is up
def test_the_round_in_which_the_time_is_up_is_the_last(module: Callable[[str], Any]) -> None:
    class Worker:
        def turn(self, milliseconds: float, patience: float) -> dict[str, Any]:
            return {"us": [2.0], "cpu_us": 1.0}

    protocol = module("protocol")
    settings, rounds = protocol.Settings(["a"], [1], rounds=8, least=30), list[int]()
    found = protocol.interleave({"a": Worker()}, settings, rounds.append, lambda: len(rounds) > 3)
    assert (found["a"].wall, rounds) == ([2.0] * 3, [0, 1, 2, 3])


def test_no_peer_takes_all_of_the_time(module: Callable[[str], Any], tmp_path: Path) -> None:
    """Compilers of peers have half of what is left."""
    bench, protocol, device = module("gpu.bench"), module("protocol"), module("gpu.device")
    models = module("models").Models(tmp_path, None)
    settings = protocol.Settings(["tvm"], [1], compile_seconds=1800, answer_seconds=600)
    running = bench.DeviceBench(models, None, settings, device.Device("cuda", "cuda", "x"), 0.02, seconds=100)
    running._compile = lambda name, workload: {"compile": running.settings.compile_seconds}
    assert 40 < running._compiled(None, "tvm")["compile"] < 50
    assert 90 < running._compiled(None, "sterna-device")["compile"] < 100
    running.end = float("inf")
    assert running._compiled(None, "tvm")["compile"] == 1800


def test_what_was_found_is_shown(
    module: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the time is up before the rest, or somebody ends the run."""
    main, device = module("gpu.__main__"), module("gpu.device")
    monkeypatch.setattr(main, "find", lambda target: device.Device("cuda", "cuda-sm90", "H100", 90))

    def steps(plan: Any, bench: Any, workloads: Any, results: Any, starts: int) -> Iterator[Any]:
        yield "first", lambda: results.networks.extend(found(module).networks)
        if bench.left < 1e9:
            bench.end = 0.0
            yield "second", lambda: pytest.fail("there is no time for it")
        else:
            yield "second", main._end

    monkeypatch.setattr(main, "_steps", steps)
    for more, status, says in (
        (["--minutes", "5"], 0, "second: not measured: the time is up"),
        ([], 143, "the rest: not measured: the run was ended"),
    ):
        json_ = tmp_path / f"{status}.json"
        arguments = main._parser().parse_args(["--work", str(tmp_path), "--json", str(json_), *more, "mlp"])
        assert main._run(arguments) == status
        said = capsys.readouterr().out
        assert says in said
        assert "2.60 of 1" in said
        assert says.partition(":")[0] in json.loads(json_.read_text())["unwritten"]


def test_networks_that_cannot_be_written(module: Callable[[str], Any], tmp_path: Path) -> None:
    """What writes them fails, as with a version of torch that it does not know: said, and no end of all else."""
    module("gpu.engines")
    false = tmp_path / "false"
    false.write_text("#!/bin/sh\nexit 3\n")
    false.chmod(0o755)
    environments = module("environments").Environments(tmp_path, (), {"networks": str(false)})
    for names in (["mlp"], ["mlp", "null"]):
        made = module("gpu.workloads").Workloads(module("models").Models(tmp_path, environments))
        assert made.find(names, ["fp32"]) == []
        assert set(made.failed) == set(names)
        assert f"mlp cannot be written: {false} ended with status 3" in made.failed["mlp"]


# ---------------------------------------------------------------- the device
def test_a_target_that_the_gpu_can_do(module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    device = module("gpu.device")

    def there_is(capability: str, driver: str = "12.4", right: bool = True) -> None:
        name = f"NVIDIA X (compute capability {capability}, driver of CUDA {driver})"
        monkeypatch.setattr(device.devices, "describe", lambda _: name)
        monkeypatch.setattr(device, "multiplies", lambda target: right)

    for capability, target, tf32 in (
        ("12.0", "cuda-sm90", True),
        ("8.6", "cuda-sm80", True),
        ("7.5", "cuda-sm75", False),
    ):
        there_is(capability)
        found = device.find("cuda")
        assert (found.target, "tf32" in found.precisions) == (target, tf32)
        assert found.is_judged
    with pytest.raises(SternaError, match=r"cuda-sm90 needs a compute capability of 9\.0.*(\n.*)*--target cuda-sm75"):
        device.find("cuda-sm90")
    for driver, right, target in (
        ("12.4", True, "cuda-sm90a"),
        ("12.4", False, "cuda-sm90"),
        ("11.8", True, "cuda-sm90"),
    ):
        there_is("9.0", driver, right)
        assert device.find("cuda").target == target
        assert device.find("cuda-sm80").target == "cuda-sm80"
    there_is("6.1")
    with pytest.raises(SternaError, match=r"cuda needs a compute capability of 7\.5") as problem:
        device.find("cuda")
    assert problem.value.codes == ("E0507",)


def test_the_state_of_a_gpu(module: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-smi's line of this GPU; the older name of a field; what it does not know, and no nvidia-smi at all."""
    device = module("gpu.device")
    here = device.Device("cuda", "cuda-sm90", "NVIDIA H100 PCIe (compute capability 9.0, driver of CUDA 12.4)", 90)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert device.state_of(here) == dict.fromkeys(device._QUERIES, "unknown")
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\ncase \"$*\" in *clocks_event*) echo 'not a valid field'; exit 2;; esac\n"
        "echo 'NVIDIA T4, 300, 405, P8, 30, 9.1, 0x1'\n"
        "echo 'NVIDIA H100 PCIe, 1755, 1593, P0, 41, [N/A], 0x0000000000000004'\n"
    )
    program.chmod(0o755)
    wanted = (1755, 1593, "P0", 41, "unknown", "0x0000000000000004")
    assert tuple(device.state_of(here).values()) == wanted
    on_cpu = device.state_of(device.Device("opencl", "opencl", "pthread"))
    assert on_cpu.keys() == device._QUERIES.keys()


# ---------------------------------------------------------------- what it makes of samples
def found(module: Callable[[str], Any], **changes: Any) -> Any:
    """What a run on a GPU found that reaches every goal by 2; `changes` are microseconds by engine."""
    results = module("gpu.results")

    def row(label: str, precision: str, **us: float) -> Any:
        records = {
            name.replace("_", "-"): {
                "compile": {"seconds": 1.0, "files": {"kernels.ptx": 200_000, "params.bin": 9_000_000}},
                "run": {"us": changes.get(name, value), "wrong": False, "error": 0.0, "first_ms": 50.0},
            }
            for name, value in us.items()
        }
        return results.Row(label, label.partition("-")[0], 1, precision, records)

    rivals = {"onnxruntime_gpu": 26.0, "torch_compile": 20.0, "tensorrt": 18.0, "tensorrt_graph": 16.0}
    networks = [row(f"mlp-{precision}", precision, sterna_device=10.0, **rivals) for precision in ("fp32", "fp16")]
    kernels = [
        row("product-4096", "fp16", sterna_device=100.0, torch_eager=140.0),
        row("copy-8192", "fp32", sterna_device=100.0, torch_eager=180.0),
        row("softmax-8192", "fp32", sterna_device=100.0, torch_eager=500.0),
    ]
    starts = {"mobilenet_v2": {"first_ms": 50.0, "samples": [50.0], "alone_ms": 420.0}, "null": {"first_ms": 30.0}}
    device = {"kind": "cuda", "target": "cuda-sm90", "name": "H100", "is_judged": True}
    return results.Results(device, "full", networks, kernels, starts, [{"where": "mlp", "rounds": 0, "clock_mhz": 1.0}])


def test_goals(module: Callable[[str], Any]) -> None:
    told = {goal.name: goal for goal in module("gpu.goals").goals(found(module))}
    assert len(told) == 9
    assert all(goal.is_met for goal in told.values())
    values = {name: round(goal.found, 2) for name, goal in told.items()}
    assert values["fp32, batch 1: times as fast as onnxruntime"] == 2.6
    assert values["fp16, all batches: times as fast as TensorRT"] == 1.6  # the faster of its engines
    assert values["fp16 product: of cuBLAS's rate"] == 140
    assert values["kernels that move memory: of a copy's rate"] == 100  # the fastest copy is Sterna's own
    assert values["bundle without weights"] == 200
    assert "420 ms with opening it" in told["mobilenet_v2: load to the first result"].of
    assert "30 ms of a network of one node" in told["mobilenet_v2: load to the first result"].of


def test_goals_that_are_missed(module: Callable[[str], Any], capsys: pytest.CaptureFixture[str]) -> None:
    goals, main = module("gpu.goals"), module("gpu.__main__")
    slow = found(module, sterna_device=25.0, torch_eager=10.0)
    missed = [goal.name for goal in goals.goals(slow) if goal.is_met is False]
    assert len(missed) == 7  # all but the start and the size
    assert main._show(slow) == 1
    assert capsys.readouterr().out.count("MISSED") == 7
    slow.device["is_judged"] = False
    assert main._show(slow) == 0
    said = capsys.readouterr().out
    assert "MISSED" not in said
    assert "not judged on this device" in said


def test_who_is_wrong_is_marked(module: Callable[[str], Any], capsys: pytest.CaptureFixture[str]) -> None:
    """It has no time and no ratio, the status says so; a peer's failure is told and no defect, one of Sterna is."""
    main, goals = module("gpu.__main__"), module("gpu.goals")
    results = found(module)
    results.networks[0].records["onnxruntime-gpu"]["run"] |= {"wrong": True, "error": 0.5}
    assert main._show(results) == 1
    said = capsys.readouterr().out
    assert "defect: mlp-fp32, onnxruntime-gpu, run: wrong by 5.0e-01 of the largest output" in said
    assert goals.goals(results)[0].found is None
    results = found(module)
    results.networks[0].records["torch-compile"] = {"compile": {"failed": "no such package"}}
    assert main._show(results) == 0
    said = capsys.readouterr().out
    assert "mlp-fp32, torch-compile, compile: no such package" in said
    assert "not measured" in said
    results.networks[1].records["sterna-copies"] = {"compile": {"failed": "E0508"}}
    assert main._show(results) == 1


def test_files_of_several_runs(module: Callable[[str], Any], tmp_path: Path) -> None:
    results = module("gpu.results")
    whole, part = found(module), found(module)
    part.networks, part.starts = part.networks[:1], {}
    part.networks[0].records["sterna-device"]["run"]["us"] = 5.0
    part.write(tmp_path / "a.json")
    whole.write(tmp_path / "b.json")
    joined = results.read([tmp_path / "a.json", tmp_path / "b.json"])
    assert [row.label for row in joined.networks] == ["mlp-fp32", "mlp-fp16"]
    assert joined.networks[0].us("sterna-device") == 5.0
    assert joined.starts == whole.starts
    assert len(joined.states) == 2
    said = bench_gpu(tmp_path, "--read", "a.json", "--read", "b.json")
    assert said.returncode == 0, said.stderr
    assert "5.20" in said.stdout
    whole.device["name"] = "T4"
    whole.write(tmp_path / "c.json")
    (tmp_path / "d.json").write_text("{}")
    (tmp_path / "e.json").write_text("5")
    small = replace(found(module), sizes="small")
    small.write(tmp_path / "f.json")
    for file, words in (
        ("c.json", "of another device: T4 as cuda-sm90, not H100"),
        ("d.json", "is no file of ci/bench-gpu"),
        ("e.json", "is no file of ci/bench-gpu"),
        ("f.json", "kernels of small size"),
    ):
        with pytest.raises(SternaError, match=words) as problem:
            results.read([tmp_path / "a.json", tmp_path / file])
        assert problem.value.codes == ("E0003",)


def test_what_kernels_move(module: Callable[[str], Any]) -> None:
    kernels = module("gpu.kernels")
    sizes = kernels.Sizes(16, 4, 8)
    assert kernels.rate("product", sizes, 1.0) == pytest.approx(2 * 16**3 / 1e3)
    assert kernels.rate("add", sizes, 1.0) == pytest.approx(3 * 32 * 4 / 1e3)
    assert kernels.rate("softmax", sizes, 2.0) == pytest.approx(2 * 32 * 4 / 2e3)
    for kernel in kernels.KERNELS.values():
        onnx.checker.check_model(kernel.make(sizes), full_check=True)
    assert set(module("gpu.engines")._KERNELS) == set(kernels.KERNELS)


def test_workloads_in_every_precision(module: Callable[[str], Any], tmp_path: Path) -> None:
    """float16 has its own file and inputs, and the outputs of the network in float32; TF32 has as much room."""
    models, workloads = module("models"), module("gpu.workloads")
    made = workloads.Workloads(models.Models(tmp_path, None))
    single, tf32, half = made.find([str(small(tmp_path / "small.onnx"))], workloads.PRECISIONS)
    assert [each.label for each in (single, tf32, half)] == ["small", "small-tf32", "small-fp16"]
    assert single.file == tf32.file != half.file
    assert half.case.inputs["x"].dtype == np.float16
    assert all(output.dtype == np.float32 for output in half.case.outputs)
    assert 0 < half.spread == tf32.spread < 0.05
    assert single.spread == 0
    assert single.program is None


# ---------------------------------------------------------------- runs
OPTIONS = ("--rounds", "1", "--turn-ms", "1", "--json", "found.json")


@pytest.mark.family("opencl")
def test_on_pocl(tmp_path: Path) -> None:
    """The whole of it, on a CPU: right results, samples, notes, a kernel; a peer that is absent is told."""
    with opencl(tmp_path):
        small(tmp_path / "small.onnx")
        engines = ("--engines", "sterna-device,onnxruntime,torch-compile")
        own = [word for name in ("onnxruntime", "torch-compile") for word in ("--python", f"{name}={sys.executable}")]
        what = ("--precisions", "fp16", "small.onnx", "product")
        said = bench_gpu(tmp_path, "--target", "opencl", *engines, *own, *OPTIONS, *what)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "small-fp16, torch-compile, compile: " in said.stdout  # no torch, or no program of the model
    assert "not judged on this device" in said.stdout
    written = json.loads((tmp_path / "found.json").read_text())
    (network,), (product,) = written["networks"], written["kernels"]
    for row, engine in ((network, "sterna-device"), (network, "onnxruntime"), (product, "sterna-device")):
        run = row["records"][engine]["run"]
        assert not run["wrong"]
        assert run["us"] > 0
        assert len(run["samples"]) >= 30
    assert {state["where"] for state in written["states"]} == {"small-fp16", "kernels"}


@pytest.mark.family("cuda")
def test_with_the_test_driver(tmp_path: Path) -> None:
    """PTX, arrays in the device's memory and its clock; an ONNX Runtime without CUDA is told; goals are judged."""
    build(tmp_path)
    small(tmp_path / "small.onnx")
    engines = ("--engines", "sterna-device,onnxruntime-gpu", "--python", f"onnxruntime-gpu={sys.executable}")
    what = ("--precisions", "fp32", "small.onnx")
    said = bench_gpu(tmp_path, *engines, *OPTIONS, *what, LD_LIBRARY_PATH=str(tmp_path))
    assert said.returncode == 0, said.stdout + said.stderr
    assert "small, onnxruntime-gpu, run: RuntimeError: this ONNX Runtime has no CUDA provider" in said.stdout
    written = json.loads((tmp_path / "found.json").read_text())
    assert (written["device"]["target"], written["device"]["is_judged"]) == ("cuda-sm75", True)
    records = written["networks"][0]["records"]["sterna-device"]
    assert records["run"]["us"] > 0
    assert not records["run"]["wrong"]
    assert {"graph.json", "kernels.ptx", "params.bin"} <= records["compile"]["files"].keys()
    assert "not measured" in said.stdout
    assert "met" in said.stdout  # the bundle's size


@pytest.mark.family("opencl")
def test_the_first_result(module: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    with opencl(tmp_path):
        made = module("models").Models(tmp_path, None)
        (workload,) = module("gpu.workloads").Workloads(made).find([str(small(tmp_path / "small.onnx"))], ["fp32"])
        settings = module("protocol").Settings(["sterna-copies"], [1])
        device = module("gpu.device").Device("opencl", "opencl", devices.describe("opencl"))
        running = module("gpu.bench").DeviceBench(
            made, module("environments").Environments(tmp_path), settings, device, 0.02
        )
        said = running.starts(workload, 2)
    assert len(said["samples"]) == 2
    assert 0 < said["first_ms"] < 60_000
    assert 0 < said["alone_ms"] < 60_000
