"""The command line: what it prints, what it writes, its exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import sterna
from sterna.cli import COMMANDS, program
from sterna.cli.output import bar
from sterna.driver import STAGES
from sterna.errors import SternaError
from sterna.pipeline import PIPELINE
from sterna_runtime.cli.files import ImageOptions, read_image, read_inputs
from sterna_runtime.cli.reports import duration, size
from sterna_runtime.describe import dimension_text
from sterna_runtime.error_codes import CODES
from sterna_runtime.inputs import TensorSpec

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
IMAGES = MODEL.parent / "images"


def sterna_cli(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


def as_json(*arguments: object) -> Any:
    result = sterna_cli(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cli") / "digits"
    result = sterna_cli("compile", MODEL, "-o", place)
    assert result.exit_code == 0, result.output
    return place


def test_help_is_quick_and_lists_every_command() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    command = [sys.executable, "-X", "importtime", "-m", "sterna", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    for name, (_, text) in COMMANDS.items():
        assert name in done.stdout
        assert text in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    # NumPy is there: the package imports its runtime at once, so that the first model loads without waiting for it.
    assert not loaded & {"onnx", "llvmlite", "rich", "jinja2", "sterna.driver"}, "the compiler is not imported"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    result = sterna_cli(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: sterna {name}")
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_version() -> None:
    assert sterna_cli("--version").stdout == f"sterna {sterna.__version__}\n"


# ---- compile ----


def test_compile_says_what_it_made(tmp_path: Path) -> None:
    result = sterna_cli("compile", MODEL, "-o", tmp_path / "d")
    assert result.exit_code == 0
    for expected in (
        "image",
        "float32[1, 1, 8, 8]",
        "scores",
        "arena",
        "live-set lower bound",
        "params.bin",
        str(tmp_path),
    ):
        assert expected in result.stdout
    assert sterna.load(tmp_path / "d").inputs[0].name == "image"


def test_compile_as_json(tmp_path: Path) -> None:
    facts = as_json("compile", MODEL, "-o", tmp_path / "d", "--generator", "llvm", "--threads", 2, "--debug")
    assert facts["inputs"] == [{"name": "image", "dtype": "float32", "shape": [1, 1, 8, 8]}]
    assert facts["outputs"] == [{"name": "scores", "dtype": "float32", "shape": [1, 10]}]
    assert (facts["generator"], facts["threads"], facts["debug"]) == ("llvm", 2, True)
    assert 0 < facts["live_bytes"] <= facts["arena_bytes"]
    assert facts["files"] == {p.name: p.stat().st_size for p in (tmp_path / "d").iterdir()}


def test_compile_into_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-o .` among somebody's files, for one machine and then for another: those stay, and are reported."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "main.c").write_text("int main;")
    monkeypatch.chdir(tmp_path)
    for target, library in (("host", "model.so"), ("cortex-m4", "model.a"), ("browser", "model.wasm")):
        facts = as_json("compile", MODEL, "-o", ".", "--target", target, "--golden", 1)
        assert facts["others"] == [".git/", "main.c"]
        assert {p.name for p in tmp_path.iterdir()} == {*facts["files"], ".git", "main.c"}
        assert {library, "golden.json", "golden.bin"} <= facts["files"].keys()
    assert (tmp_path / "main.c").read_text() == "int main;"
    assert "left alone there: .git/, main.c" in sterna_cli("compile", MODEL, "-o", ".").stdout
    assert "golden.json" not in {p.name for p in tmp_path.iterdir()}, "replaced with the bundle"
    assert "left alone there: .git/, main.c" in sterna_cli("demo", "-o", ".").stdout


def test_compile_goes_to_the_models_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert as_json("compile", MODEL)["directory"] == "digits"
    assert as_json("compile", MODEL, "--target", "x86-64-v2")["directory"] == "digits-x86-64-v2"
    assert {p.name for p in tmp_path.iterdir()} == {"digits", "digits-x86-64-v2"}


def test_dumps_of_every_stage(tmp_path: Path) -> None:
    dumps = as_json("compile", MODEL, "-o", tmp_path / "d", "--dump-after", "all")["dumps"]
    assert list(dumps) == list(STAGES)
    assert all(dumps.values())
    result = sterna_cli("compile", MODEL, "-o", tmp_path / "d", "--dump-after", "memory", "--dump-after", "import")
    assert "// after import" in result.stdout
    assert "// after memory" in result.stdout
    assert "// after source" not in result.stdout
    assert "arena" in result.stderr, "what is for people makes way for the dump"


def test_times_of_every_stage(tmp_path: Path) -> None:
    command = ("compile", MODEL, "-o", tmp_path / "d", "--time-passes")
    facts = as_json(*command, "--generator", "llvm")
    rows = {row["name"]: row for row in facts["times"]}
    first, *passes, last = rows
    assert (first, last) == ("import", "write")
    assert passes == [each.name for each in PIPELINE if each.name in passes]
    assert {"layout", "views", "join", "memory", "schedule", "loops", "pack", "source", "libraries"} <= {*passes}
    assert "winograd" not in rows, "it does not apply"
    assert sum(row["share"] for row in facts["times"]) == pytest.approx(1, abs=1e-4)
    assert 0 < sum(row["seconds"] for row in facts["times"]) <= facts["seconds"]
    kernels = [part["name"] for part in rows["lower"]["parts"]]
    assert len(kernels) == facts["kernels"] == len(rows["loops"]["parts"])
    assert any("conv" in name for name in kernels)
    assert [part["name"] for part in rows["libraries"]["parts"]] == ["llvm for host", "link model.so"]
    assert "times" not in as_json(*command[:-1])
    result = sterna_cli(*command)
    assert "materialize-outputs" in result.stderr
    assert "c for host" in result.stderr
    assert "materialize-outputs" not in result.stdout
    assert "compiled in" in result.stdout


# ---- run ----


def test_run_on_a_file_of_every_kind(bundle: Path, tmp_path: Path) -> None:
    array = np.load(IMAGES / "3.npy")
    np.savez(tmp_path / "all.npz", image=array)
    np.savez(tmp_path / "one.npz", whatever=array)
    array.tofile(tmp_path / "raw.bin")
    for given in (
        f"image={IMAGES / '3.npy'}",
        f"{IMAGES / '3.npy'}",
        f"{tmp_path / 'all.npz'}",
        f"image={tmp_path / 'one.npz'}",
        f"image={tmp_path / 'raw.bin'}",
        f"image={ROOT / 'examples' / 'digits' / '3.png'}",
    ):
        (output,) = as_json("run", bundle, "-i", given, "--top", 2)["outputs"]
        assert output["top"][0]["index"] == 3, given
        assert len(output["top"]) == 2


def test_run_prints_results_and_time(bundle: Path) -> None:
    result = sterna_cli("run", bundle, "--random", "--repeat", 5)
    assert result.exit_code == 0
    assert "scores  float32[1, 10]" in result.stdout
    assert "fastest of 5 runs on 1 thread" in result.stdout
    top = sterna_cli("run", bundle, "-i", IMAGES / "8.npy", "--top", 3, "--threads", 2)
    assert top.stdout.splitlines()[1].split()[0] == "8"


def test_run_writes_outputs(bundle: Path, tmp_path: Path) -> None:
    expected = sterna.load(bundle).run([np.load(IMAGES / "5.npy")])["scores"]
    for name in ("out.npz", "out.npy"):
        place = tmp_path / name
        assert sterna_cli("run", bundle, "-i", IMAGES / "5.npy", "-o", place).exit_code == 0
        loaded = np.load(place)
        assert np.array_equal(loaded["scores"] if name == "out.npz" else loaded, expected)


def test_profile(bundle: Path) -> None:
    result = sterna_cli("run", bundle, "--random", "--profile", "--repeat", 3)
    assert result.exit_code == 0
    by_time, in_order = result.stdout.split("Nodes in execution order")
    assert "conv1" in by_time
    rows = [line.split() for line in in_order.splitlines() if line.split()[:1] and line.split()[0].isdigit()]
    nodes = as_json("run", bundle, "--random", "--profile")["nodes"]
    assert [int(row[0]) for row in rows] == [node["index"] for node in nodes] == list(range(len(nodes)))
    assert {"conv1", "conv2", "dense", "softmax"} <= {source for node in nodes for source in node["sources"]}
    assert all(node["median_nanoseconds"] >= node["fastest_nanoseconds"] >= 0 for node in nodes)


def test_random_inputs_are_the_same_every_time(bundle: Path) -> None:
    outputs = [as_json("run", bundle, "--random", "--top", 1, "--seed", seed)["outputs"] for seed in (1, 1, 2)]
    assert outputs[0] == outputs[1] != outputs[2]


# ---- Images ----


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec("x", np.dtype(dtype), shape)


@pytest.fixture
def picture(tmp_path: Path) -> tuple[Path, Any]:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(3).integers(0, 256, (6, 4, 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / "p.png")
    return tmp_path / "p.png", pixels


def test_images_become_tensors(picture: tuple[Path, Any]) -> None:
    path, pixels = picture
    plain = ImageOptions()
    scaled = pixels.astype(np.float32) * np.float32(1 / 255)
    assert np.array_equal(read_image(path, spec(1, 6, 4, 3), plain)[0], scaled)
    assert np.array_equal(read_image(path, spec(6, 4, 3), plain), scaled)
    assert np.array_equal(read_image(path, spec(1, 3, 6, 4), plain)[0], scaled.transpose(2, 0, 1))
    assert np.array_equal(read_image(path, spec(1, 6, 4, 3, dtype="uint8"), plain)[0], pixels)
    options = ImageOptions(mean=(128.0,), scale=(1.0,))
    assert np.array_equal(read_image(path, spec(1, 6, 4, 3, dtype="int8"), options)[0], pixels.astype(int) - 128)
    channels = ImageOptions(mean=(1.0, 2.0, 3.0), scale=(0.5,))
    expected = (pixels - np.array([1, 2, 3], np.float32)) * np.float32(0.5)
    assert np.array_equal(read_image(path, spec(1, 6, 4, 3), channels)[0], expected)
    assert read_image(path, spec(1, 1, 12, 8), plain).shape == (1, 1, 12, 8)
    assert read_image(path, spec(9, 9), plain).shape == (9, 9)


def test_layout_of_images(picture: tuple[Path, Any]) -> None:
    path, _ = picture
    ambiguous = spec(1, 3, 5, 3)
    first = read_image(path, ambiguous, ImageOptions(layout="nchw"))
    last = read_image(path, ambiguous, ImageOptions(layout="nhwc"))
    assert not np.array_equal(first, last)
    assert np.array_equal(first, read_image(path, ambiguous, ImageOptions()))
    for shape in ((2, 3, 4, 4), (1, 7, 4, 5), (3,)):
        with pytest.raises(SternaError) as caught:
            read_image(path, spec(*shape), ImageOptions())
        assert caught.value.codes == ("E0005",)


def test_all_problems_of_inputs_at_once(tmp_path: Path) -> None:
    (tmp_path / "short.bin").write_bytes(b"1234")
    (tmp_path / "x.docx").write_bytes(b"")
    specs = [TensorSpec(name, np.dtype("float32"), (2, 3)) for name in ("a", "b")]
    with pytest.raises(SternaError) as caught:
        read_inputs(specs, [f"a={tmp_path / 'short.bin'}", f"b={tmp_path / 'x.docx'}", "c=/none.npy"], ImageOptions())
    assert caught.value.codes == ("E0005", "E0003", "E0003")


# ---- inspect, targets, doctor ----


def test_inspect_a_bundle(bundle: Path) -> None:
    result = sterna_cli("inspect", bundle)
    assert result.exit_code == 0
    for expected in ("image", "scores", "live-set lower bound", "7 nodes call 7 kernels: 88,064 multiply-adds"):
        assert expected in result.stdout
    assert len(result.stdout.splitlines()) <= 20
    assert "Nodes" not in result.stdout
    nodes, memory = (sterna_cli("inspect", bundle, flag).stdout for flag in ("--nodes", "--memory"))
    assert "Kernels" in nodes
    assert "conv2, relu2" in nodes
    assert "Arena" not in nodes
    assert "Arena" in memory
    assert "Kernels" not in memory
    facts = as_json("inspect", bundle)
    # The convolutions are 8 by 8 of 16 filters of 3 by 3 by 1, then 4 by 4 of 32 of 3 by 3 by 16; the rest is dense.
    assert facts["totals"] == {
        "nodes": 7, "arena_bytes": 7232, "live_bytes": 7232, "multiply_adds": 88064, "sizes": {},
    }  # fmt: skip
    assert sum(node.get("multiply_adds", 0) for node in facts["graph"]["nodes"]) == 88064
    assert facts["intact"] is True
    assert facts["graph"]["model"] == "digits"
    assert set(facts["sizes"]) == {p.name for p in bundle.iterdir()}


def test_inspect_shows_damage(bundle: Path, tmp_path: Path) -> None:
    for path in bundle.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "kernels.c").unlink()
    assert as_json("inspect", tmp_path)["intact"] is True, "what no runtime opens may be missing"
    data = bytearray((tmp_path / "params.bin").read_bytes())
    data[100] ^= 1
    (tmp_path / "params.bin").write_bytes(data)
    assert as_json("inspect", tmp_path)["intact"] is False
    assert "damaged" in sterna_cli("inspect", tmp_path).stdout


def test_inspect_a_bundle_for_firmware(tmp_path: Path) -> None:
    assert sterna_cli("compile", MODEL, "-o", tmp_path / "m4", "--target", "cortex-m4").exit_code == 0
    result = sterna_cli("inspect", tmp_path / "m4")
    assert result.exit_code == 0
    assert "model.c" in result.stdout
    assert as_json("inspect", tmp_path / "m4")["graph"] is None


def test_inspect_a_model() -> None:
    result = sterna_cli("inspect", MODEL)
    assert result.exit_code == 0
    assert "9,930 weights" in result.stdout
    assert "7 nodes, arena 7,232 B, 88,064 multiply-adds" in result.stdout
    assert "operators: Conv 2, Relu 2, Flatten 1" in result.stdout
    assert "supported" in sterna_cli("inspect", MODEL, "--nodes").stdout
    facts = as_json("inspect", MODEL)
    operators = {use["name"]: use["nodes"] for use in facts["operators"]}
    assert operators == {"Conv": 2, "Relu": 2, "Flatten": 1, "Gemm": 1, "Softmax": 1}
    assert facts["opsets"] == {"ai.onnx": 17}
    assert facts["problems"] == []


def test_inspect_a_model_that_cannot_be_compiled(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    node = helper.make_node("Frobnicate", ["x"], ["y"], name="f1", domain="example.org")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", None, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example.org", 1)]
    onnx.save(helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets), tmp_path / "m.onnx")
    facts = as_json("inspect", tmp_path / "m.onnx")
    assert facts["inputs"][0]["dims"] == ["batch", "?", 4]
    assert (facts["open_dims"], facts["open_inputs"]) == (["batch"], ["x"])
    assert [p["code"] for p in facts["problems"]] == ["E0104"]
    text = sterna_cli("inspect", tmp_path / "m.onnx").stdout
    assert "--dim batch=SIZE  or  --shape x=SIZES" in text
    assert "error[E0104]" in text


def test_targets() -> None:
    names = [target["name"] for target in as_json("targets")]
    assert names[0] == "host"
    assert {"x86-64-v3", "raspberrypi4", "c99"} <= set(names)
    assert as_json("targets", "raspberrypi4")["vector_bits"] == 128
    assert "aarch64-linux-gnu" in sterna_cli("targets", "raspberrypi4").stdout
    assert "Raspberry Pi 4" in sterna_cli("targets").stdout


def test_doctor() -> None:
    facts = as_json("doctor")
    assert facts["ok"] is True
    assert {"ziglang", "llvmlite", "gcc", "onnxruntime"} <= {tool["name"] for tool in facts["tools"]}
    assert all("fix" in tool for tool in facts["tools"] if not tool["found"])
    result = sterna_cli("doctor")
    assert result.exit_code == 0
    assert "models can be compiled and run here" in result.stdout


# ---- Numbers for people ----


def test_sizes_and_durations() -> None:
    assert [size(n) for n in (0, 9_999, 10_000, 13_998_848)] == ["0 B", "9,999 B", "10.0 kB", "14.0 MB"]
    assert [duration(s) for s in (5e-8, 2.149e-6, 3.21e-5, 0.0132, 0.25, 3.0)] == [
        "50 ns", "2.15 us", "32.1 us", "13.2 ms", "250 ms", "3.00 s",
    ]  # fmt: skip


def test_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sterna.cli.output.console", lambda: type("", (), {"encoding": "utf-8"}))
    assert [len(bar(share, 4)) for share in (0, 0.01, 0.25, 0.26, 1, 2)] == [0, 0, 1, 1, 4, 4]
    assert bar(1 / 32, 4) == "\u258f"
    assert bar(7 / 32, 4) == "\u2589"
    monkeypatch.setattr("sterna.cli.output.console", lambda: type("", (), {"encoding": "ascii"}))
    assert bar(0.5, 4) == "=="


def test_the_installed_command_runs(bundle: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    command = [sys.executable, "-m", "sterna", "run", str(bundle), "-i", str(IMAGES / "1.npy"), "--top", "1"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[0] == "1"
    assert time.perf_counter() - start < 60


# ---- explain ----


@pytest.mark.parametrize("written", ["E0105", "e0105", "105", "error[E0105]:"])
def test_explain_says_cause_and_fix(written: str) -> None:
    text = sterna_cli("explain", written).stdout
    assert text.startswith("E0105: an input has a dimension of unknown size\n\nCause\n  Sterna plans all memory")
    assert "\nFix\n" in text
    assert "--dim batch=1" in text
    assert max(map(len, text.splitlines())) <= 88


def test_explain_lists_every_code() -> None:
    text = sterna_cli("explain").stdout
    assert [line.split()[0] for line in text.splitlines() if line.startswith("  ")] == list(CODES)
    assert json.loads(sterna_cli("explain", "--json").stdout).keys() == CODES.keys()
    assert json.loads(sterna_cli("explain", "E0604", "--json").stdout)["meaning"] == CODES["E0604"].meaning


def test_explain_knows_no_other_code() -> None:
    for written in ("E0199", "nonsense"):
        result = sterna_cli("explain", written)
        assert result.exit_code == 2
        assert result.stderr.startswith(f'error[E0002]: there is no error code "{written}"')


def test_codes_of_the_command_line_are_listed() -> None:
    assert {f"E00{n:02}" for n in range(1, 12)} == {code for code in CODES if code.startswith("E00")}


def test_open_dimensions_are_readable() -> None:
    symbols = [{"name": "batch", "lo": 1, "hi": 8}, {"name": "width", "lo": 1, "hi": 640}]
    half = ["/", ["+", ["d", 1], -1], 2]
    assert dimension_text(7, symbols) == "7"
    assert dimension_text(["d", 0], symbols) == "batch"
    assert dimension_text(["max", half, 1], symbols) == "max(((width + -1) / 2), 1)"


def test_compile_reports_what_rounded_weights_cost(tmp_path: Path) -> None:
    facts = as_json("compile", MODEL, "-o", tmp_path / "narrow", "--weights", "fp16")
    assert facts["weights"] == "fp16"
    assert 0 < facts["rounding_error"] < 1e-3
    result = sterna_cli("compile", MODEL, "-o", tmp_path / "bf16", "--weights", "bf16")
    assert "weights in bf16: on random inputs the outputs differ" in " ".join(result.stdout.split())
    elsewhere = as_json("compile", MODEL, "-o", tmp_path / "far", "--weights", "fp16", "--target", "arm64")
    assert elsewhere["rounding_error"] is None
