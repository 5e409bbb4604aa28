"""The benchmark: what can be named, how mistakes are told, what the tables count."""

from __future__ import annotations

import ast
import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

from sterna.errors import SternaError, error
from support.small_models import SmallModel
from support.tools import ROOT, need

BENCH = ROOT / "bench"
PEERS = ("sterna", "onnxruntime", "openvino", "litert", "ncnn", "mnn", "executorch", "iree", "tvm", "tvm-tuned")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a module of the benchmark, which is no package, and forgets it afterwards."""
    names = {path.stem for path in BENCH.glob("*.py")}
    kept = {name: sys.modules.pop(name) for name in names & sys.modules.keys() if name != "__main__"}
    monkeypatch.syspath_prepend(BENCH)
    yield importlib.import_module
    for name in names - {"__main__"}:
        sys.modules.pop(name, None)
    sys.modules.update(kept)


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "compiler"), str(BENCH)])}
    command = [sys.executable, str(BENCH), "--work", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


def test_every_network_is_named(module: Callable[[str], Any]) -> None:
    tree = ast.parse((BENCH / "networks.py").read_text())
    tables = [n for n in tree.body if isinstance(n, ast.AnnAssign) and ast.unparse(n.target) == "NETWORKS"]
    (written,) = (ast.literal_eval(ast.Set(n.value.keys)) for n in tables if isinstance(n.value, ast.Dict))
    models = module("models")
    assert set(models.NETWORKS) == written
    assert len(models.COUNTED) == 13


def test_help_lists_models_and_peers(module: Callable[[str], Any], tmp_path: Path) -> None:
    said = bench(tmp_path, "--help")
    assert said.returncode == 0
    words = said.stdout.replace(",", " ").replace(";", " ").split()
    assert {*module("models").NETWORKS, *PEERS, "networks", "integers", "trained"} <= set(words)


def test_wrong_options_are_told_together(tmp_path: Path) -> None:
    said = bench(tmp_path, "--peers", "onxruntime,sterna", "--threads", "0", "--rounds", "0", "--turn-ms", "nan", "mlp")
    assert said.returncode == 2
    assert said.stderr.count("error[E0002]") == 4
    assert 'there is no peer "onxruntime"' in said.stderr
    assert not list(tmp_path.iterdir())


def test_unknown_models_are_told_together(tmp_path: Path) -> None:
    said = bench(tmp_path, "mobilenetv2", "absent.onnx", "no-such-thing_int8")
    assert said.returncode == 1
    assert said.stderr.count("error[E0006]") == 3
    assert "did you mean mobilenet_v2?" in said.stderr
    assert "there is no file absent.onnx" in said.stderr


def test_without_trained_models_their_folder_is_named(
    module: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = module("models")
    monkeypatch.setattr(models, "TRAINED", tmp_path / "absent")
    with pytest.raises(SternaError) as problem:
        models.Models(tmp_path, None).find(["mlperf_tiny_kws_int8"])
    assert problem.value.codes == ("E0006",)
    assert str(tmp_path / "absent") in str(problem.value)
    assert "STERNA_MODELS" in str(problem.value)


def test_operators_of_every_family(module: Callable[[str], Any]) -> None:
    """Enough rows, of distinct names, each of a family; those of a sample are models that ONNX takes."""
    operators = module("operators")
    assert len(operators.OPERATORS) >= 250
    assert sum(map(len, operators.families().values())) == len(operators.OPERATORS)
    for names in operators.families().values():
        onnx.checker.check_model(operators.OPERATORS[names[-1]].make())


def test_families_name_their_cliffs(module: Callable[[str], Any]) -> None:
    tables = module("tables")
    names = module("operators").families()["grouped"][:3]

    def records(own: float, other: float) -> dict[str, Any]:
        return {peer: {"1": {"us": us, "wrong": False}} for peer, us in (("sterna", own), ("onnxruntime", other))}

    results = dict(zip(names, (records(10, 40), records(10, 1), records(10, 9)), strict=True))
    table = tables.by_family(results, 1)
    assert table.title is not None
    assert table.title.startswith("1 threads: 3 operators, 2 below 1, 1 below 0.85")
    family, count, mean, least, cliffs = (next(iter(column.cells)) for column in table.columns)
    assert (family, count, mean, least) == ("grouped", "3", "0.71", "0.10")
    assert cliffs == f"{names[1].removeprefix('grouped-')} 0.10"


def test_architectures_of_three_packages(module: Callable[[str], Any]) -> None:
    """Enough of them, under names that no other model has; those to be quantized are among them."""
    architectures, models = module("architectures"), module("models")
    found = architectures.ARCHITECTURES
    assert len(found) >= 60
    prefixes = {"torchvision": "tv-", "timm": "timm-", "transformers": "hf-"}
    assert {described.package for described in found.values()} == set(prefixes)
    assert all(name.startswith(prefixes[described.package]) for name, described in found.items())
    assert not found.keys() & {*models.NETWORKS, *module("operators").OPERATORS}
    assert models.groups()["architectures"] == tuple(found)
    quantized = models.groups()["architectures-int8"]
    assert len(quantized) == 6
    assert {name.removesuffix("_int8") for name in quantized} <= found.keys()


def test_an_architecture_is_held_to_less(
    module: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sterna's error there has a limit of its own; peers keep theirs."""
    models, protocol = module("models"), module("protocol")
    kept = models.Models(tmp_path, None)
    monkeypatch.setattr(kept, "_exported", lambda name, target: target.write_bytes(b""))
    (tmp_path / "architectures").mkdir()
    (model,) = kept.find(["hf-bert"])
    assert model.file == tmp_path / "architectures" / "hf-bert.onnx"
    running = protocol.Bench(tmp_path, None, kept, protocol.Settings(["sterna"], [1]))
    assert running._limit("sterna", model) == running._limit("sterna-llvm", model) == 1e-5
    assert running._limit("onnxruntime", model) == protocol.WRONG


def test_an_export_that_fails_is_told(module: Callable[[str], Any], tmp_path: Path) -> None:
    models = module("models")

    class Broken:
        def exporter(self) -> str:
            return "false"

    with pytest.raises(SternaError, match="hf-bert cannot be exported") as problem:
        models.Models(tmp_path, Broken()).find(["hf-bert"])
    assert problem.value.codes == ("E0004",)


def test_others_go_on_where_an_export_fails(
    module: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = module("models").Models(tmp_path, None)

    def exported(name: str, target: Path) -> None:
        if name == "hf-bert":
            raise error("E0004", "hf-bert cannot be exported: no such class")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"")

    monkeypatch.setattr(kept, "_exported", exported)
    assert [model.label for model in kept.find(["tv-alexnet", "hf-bert", "hf-fnet"])] == ["tv-alexnet", "hf-fnet"]
    assert kept.failed == {"hf-bert": "hf-bert cannot be exported: no such class"}


@pytest.mark.parametrize("row", ["unary-Sqrt", "unary-Log", "binary-Pow", "unary-Sin"])
def test_numbers_lie_where_operators_are_defined(row: str, module: Callable[[str], Any], tmp_path: Path) -> None:
    """No engine gets a time where the right output is not a number; other rows keep numbers of both signs."""
    module("operators").write(row, tmp_path / "row.onnx")
    module("reference").write_reference(tmp_path / "row.onnx", None, tmp_path / "row.npz")
    with np.load(tmp_path / "row.npz") as found:
        assert all(np.isfinite(found[key]).all() for key in found.files)
        assert all((found[key].min() < 0) == (row == "unary-Sin") for key in found.files if key.startswith("in:"))


def test_models_behind_are_listed(module: Callable[[str], Any]) -> None:
    def records(own: float) -> dict[str, Any]:
        return {peer: {"1": {"us": us, "wrong": False}} for peer, us in (("sterna", own), ("onnxruntime", 90.0))}

    said = module("tables").behind({"fast": records(50.0), "slow": records(100.0), "slower": records(180.0)}, 1)
    assert said == "1 threads: 2 of 3 below 0.95: slower 0.50, slow 0.90"


def test_an_operator_is_measured(tmp_path: Path) -> None:
    options = ("--peers", "sterna", "--threads", "1", "--rounds", "1", "--turn-ms", "1")
    said = bench(tmp_path, *options, "operators-cast", "half-softmax-12x128x128")
    assert said.returncode == 0, said.stderr
    assert "│ cast-half" in said.stdout
    assert "wrong by" not in said.stdout


def test_an_operator_is_measured_in_node(tmp_path: Path) -> None:
    need("node", "runs WebAssembly")
    records = tmp_path / "records.json"
    options = ("--on", "node", "--peers", "sterna-web", "--rounds", "1", "--turn-ms", "1", "--json", str(records))
    said = bench(tmp_path, *options, "cast-half", "cast-from-long", "select-where")
    assert said.returncode == 0, said.stderr
    for found in json.loads(records.read_text()).values():
        once = found["sterna-web"]["1"]  # one thread alone
        assert once["us"] > 0
        assert once["error"] < 1e-5
        assert not once["wrong"]


def test_in_node_its_own_engine_is_compared(module: Callable[[str], Any]) -> None:
    tables = module("tables")
    found = {peer: {"1": {"us": us, "wrong": False}} for peer, us in (("sterna-web", 4.0), ("onnxruntime-web", 10.0))}
    assert tables.ratio(found, "1") == pytest.approx(2.5)


def test_a_package_of_npm_that_cannot_be_installed_is_reported(
    module: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = module("environments")
    failed = subprocess.CompletedProcess((), 1, "", "npm error code E404\n")
    monkeypatch.setattr(environments.subprocess, "run", lambda *_, **__: failed)
    made = environments.Environments(tmp_path)
    for _ in range(2):
        with pytest.raises(SternaError, match="npm error code E404") as problem:
            made.modules("onnxruntime-web")
        assert problem.value.codes == ("E0004",)
    assert made.modules("sterna-web") == tmp_path / "sterna-web" / "node_modules"


def test_a_file_is_measured(tmp_path: Path) -> None:
    model = SmallModel(1, 8)
    onnx.save(model.done(model("Relu", model("MatMul", "x", model.weight(8, 4)))), tmp_path / "small.onnx")
    records = tmp_path / "records.json"
    options = ("--peers", "sterna", "--threads", "1", "--rounds", "1", "--turn-ms", "1", "--json", str(records))
    said = bench(tmp_path, *options, "small.onnx")
    assert said.returncode == 0, said.stderr
    once = json.loads(records.read_text())["small"]["sterna"]["1"]
    assert once["error"] < 1e-5
    assert not once["wrong"]
    assert once["us"] > 0
    assert "│ small" in said.stdout
    assert "small, sterna" not in said.stdout  # no failure is reported


def test_a_peer_that_cannot_be_installed_is_reported(
    module: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = module("environments")

    def without_pip(place: Path, **_: Any) -> None:
        (place / "bin").mkdir(parents=True)
        python = place / "bin" / "python"
        python.write_text("#!/bin/sh\necho ERROR: No matching distribution >&2\nexit 1\n")
        python.chmod(0o755)

    monkeypatch.setattr(environments.venv, "create", without_pip)
    made = environments.Environments(tmp_path)
    for _ in range(2):
        with pytest.raises(SternaError, match="No matching distribution") as problem:
            made.python("ncnn")
        assert problem.value.codes == ("E0004",)
    protocol, models = module("protocol"), module("models")
    (tmp_path / "small.onnx").write_bytes(b"")
    running = protocol.Bench(tmp_path, made, models.Models(tmp_path, made), protocol.Settings(["ncnn"], [1]))
    monkeypatch.setattr(running.models, "arrays", lambda model: tmp_path / "small.npz")
    records = running.measure(models.Model("small", tmp_path / "small.onnx"))
    assert "No matching distribution" in records["ncnn"]["compile"]["failed"]
    assert "No matching distribution" in module("tables").problems({"small": records})[0]


def test_torch_is_installed_once_where_a_converter_needs_it(
    module: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = module("environments")
    installed: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        installed.append([word for word in command if not word.startswith(("-", "/"))])
        return subprocess.CompletedProcess((), 0, "", "")

    monkeypatch.setattr(environments.venv, "create", lambda place, **_: place.mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(environments.subprocess, "run", run)
    made = environments.Environments(tmp_path, ["onnxruntime", "litert"])
    assert made.networks() == made.converter("litert")
    assert len(installed) == 1
    assert {"torch", "onnx", "litert-torch"} <= set(installed[0])
    assert environments.Environments(tmp_path, ["onnxruntime"]).networks() != made.networks()
    assert len(installed) == 2
    # What was installed for other packages is no longer complete.
    (tmp_path / "networks" / "complete").write_text("torch")
    environments.Environments(tmp_path).networks()
    assert len(installed) == 3


def test_who_is_wrong_is_not_the_fastest(module: Callable[[str], Any]) -> None:
    tables = module("tables")

    def record(us: float, wrong: bool = False, **more: Any) -> dict[str, Any]:
        return {"1": {"us": us, "error": 0.1 * wrong, "wrong": wrong, **more}}

    records = {
        "sterna": record(10.0),
        "right": record(15.0),
        "wrong": record(1.0, wrong=True),
        "failing": record(2.0, failed="stopped"),
        "sterna-llvm": record(3.0),
    }
    assert tables.ratio(records, "1") == pytest.approx(1.5)
    assert tables.ratio({"sterna": record(10.0)}, "1") is None
    assert len(tables.problems({"net": records})) == 2


def test_deviation(module: Callable[[str], Any]) -> None:
    deviation = module("worker").deviation
    assert deviation([np.array([1.0, 3.0])], [np.array([1.0, 4.0])]) == pytest.approx(0.25)
    assert deviation([np.array([1.0])], [np.array([1.0, 2.0])]) == math.inf
    assert deviation([np.array([math.nan])], [np.array([1.0])]) == math.inf
    assert deviation([], [np.array([1.0])]) == math.inf


def test_a_reference_case_is_taken_where_there_is_one(module: Callable[[str], Any], tmp_path: Path) -> None:
    model = SmallModel("rows", 3)
    onnx.save(model.done(model("Neg", "x")), tmp_path / "neg.onnx")
    models, reference = module("models"), module("reference")
    kept = models.Models(tmp_path, None)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with np.load(kept.arrays(models.Model("given", tmp_path / "neg.onnx", reference.Case({"x": x}, [x])))) as arrays:
        np.testing.assert_array_equal(arrays["in:x"], x)
        np.testing.assert_array_equal(arrays["out:0"], x)
    with np.load(kept.arrays(models.Model("drawn", tmp_path / "neg.onnx"))) as arrays:
        np.testing.assert_array_equal(arrays["out:0"], -arrays["in:x"])


def test_compiling_is_measured(module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "compiler"))
    compiling, digits = module("compiling"), ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
    found = compiling.compilation(digits, "llvm", rounds=1)
    assert found.kernels == 7
    assert found.python > 0
    assert found.memory > 0
    assert found.params > 10_000
    assert found.reach == 0.5 + 7 * 0.025
    missing = compiling.compilation(digits.with_name("none.onnx"), "llvm", rounds=1)
    table = compiling.rows([("digits", "llvm", found), ("none", "llvm", missing)])
    assert {len(row) for row in table} == {len(compiling.COLUMNS)}
    assert "cannot be read" in missing
    slow = compiling.Compilation(9.0, 8.0, 1.0, 10, 1, 1)
    assert compiling.rows([("slow", "c", slow)])[0][3] == "0.75 s  over"


def test_a_curve_is_told_whether_or_not_its_schedules_were_counted(module: Callable[[str], ModuleType]) -> None:
    own = module("tuner.curves")
    curves = {own.LEARNED: [[2.0, 1.0]], own.RANDOM: [[2.0, 1.5]]}
    told = [own.Panel("here", "dense", 2.0, 1.0, curves, 1500, count) for count in (1500, 2400, None)]
    assert [line.split(" | ")[2] for line in own.table_of(told)[2:]] == ["1,500", "1,500 of 2,400", "1,500 of ?"]
