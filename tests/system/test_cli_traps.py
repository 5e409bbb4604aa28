"""Traps of the command line: what a stranger gives, and what is said of it, once and rightly."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import sterna
from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.frontends.formats import frontends, references
from sterna.targets.description import load_target
from support.tflite_builder import ModelWriter, Scale

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
IMAGES = MODEL.parent / "images"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


def as_json(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(code: str, *arguments: object) -> str:
    """What is said to standard error: one problem, coded, and not called a bug of ours."""
    result = run(*arguments)
    assert result.exit_code in (1, 2), result.output
    assert result.stderr.startswith(f"error[{code}]: "), result.stderr
    assert result.stderr.count("error[") == 1, result.stderr
    assert "Traceback" not in result.output
    return result.stderr


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_to(tmp_path_factory.mktemp("traps") / "digits", MODEL, generator="llvm")


@pytest.fixture(scope="module")
def open_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = onnx.load(MODEL)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    place = tmp_path_factory.mktemp("traps") / "batch.onnx"
    onnx.save(model, place)
    return place


# ---- Inputs ----


def test_the_only_array_is_the_only_input(bundle: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", picture=np.load(IMAGES / "3.npy"))
    for given in (tmp_path / "one.npz", f"image={tmp_path / 'one.npz'}"):
        (output,) = as_json("run", bundle, "-i", given, "--top", 1)["outputs"]
        assert output["top"][0]["index"] == 3
    assert run("verify", MODEL, "-g", "llvm", "--inputs", tmp_path / "one.npz").exit_code == 0
    np.savez(tmp_path / "two.npz", picture=np.load(IMAGES / "3.npy"), more=np.zeros(1))
    assert 'has no input "picture"' in run("run", bundle, "-i", tmp_path / "two.npz").stderr


def test_a_file_with_channels_last_is_not_reshaped(bundle: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 8, 8, 1), np.float32))
    text = refused("E0604", "run", bundle, "-i", tmp_path / "x.npy")
    assert "fix: array.transpose(0, 3, 1, 2)" in text
    assert "reshape" not in text
    np.save(tmp_path / "y.npy", np.zeros((1, 1, 9, 8), np.float32))
    assert "--shape image=1,1,9,8" in refused("E0604", "run", bundle, "-i", tmp_path / "y.npy")


def test_top_shows_what_integers_stand_for(tmp_path: Path) -> None:
    writer = ModelWriter()
    graph = writer.main
    x = graph.input(np.array([[-128, 0, 127, 64]], np.int8), Scale(1 / 256, -128))
    y = graph.output("int8", (1, 4), Scale(1 / 256, -128))
    graph.op("RELU", [x], [y])
    (tmp_path / "m.tflite").write_bytes(writer.content())
    bundle = compile_to(tmp_path / "b", tmp_path / "m.tflite", generator="llvm")
    np.save(tmp_path / "x.npy", np.array([[-128, 0, 127, 64]], np.int8))
    (output,) = as_json("run", bundle, "-i", tmp_path / "x.npy", "--top", 2)["outputs"]
    assert output["top"] == [
        {"index": 2, "value": 255 / 256, "raw": 127}, {"index": 3, "value": 0.75, "raw": 64},
    ]  # fmt: skip
    text = run("run", bundle, "-i", tmp_path / "x.npy", "--top", 2).stdout
    assert "0.75" in text
    assert "(64)" in text


@pytest.mark.parametrize("target", ["cortex-m4", "browser"])
def test_bundles_that_cannot_run_here_say_what_they_are(target: str, tmp_path: Path) -> None:
    place = compile_to(tmp_path / "b", MODEL, target, generator="llvm", single_file=target == "browser")
    text = refused("E0507", "run", place, "--random")
    assert ("a bundle for firmware" if target == "cortex-m4" else "one file for WebAssembly") in text
    assert "compile the model with --target host" in text
    with pytest.raises(SternaError, match='compile the model with target="host"'):
        sterna.load(place)


# ---- Options ----


def test_sizes_that_make_no_sense(open_model: Path, bundle: Path, tmp_path: Path) -> None:
    for size in ("0", "-1", "4..1", "-3..4", "0..0"):
        text = refused("E0106", "compile", open_model, "--dim", f"batch={size}", "-o", tmp_path / "b")
        assert f"the dimension batch cannot be {size}" in text
        assert "--dim batch=1, or --dim batch=0..8 for one that may be empty" in text
        assert not (tmp_path / "b").exists()
    with pytest.raises(SternaError, match="the dimension batch cannot be 0"):
        sterna.compile(open_model, dims={"batch": 0})
    assert "all sizes of this bundle are fixed" in refused("E0002", "run", bundle, "--random", "--dim", "batch=1")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--scale", "1/0"], "E0002", '--scale "1/0" divides by zero'),
        (["--scale", "1/"], "E0002", '--scale "1/" is not a list of numbers'),
        (["--mean", "nan"], "E0002", '--mean "nan" is not a list of numbers'),
        (["--mean", "1e999"], "E0002", "is not a list of numbers"),
        (["--seed", "-1"], "E0001", "-1 is not in the range x>=0"),
        (["--threads", "99999999999"], "E0001", "is not in the range 1<=x<=1024"),
        (["--repeat", "0"], "E0001", "0 is not in the range"),
        (["--top", "0"], "E0001", "0 is not in the range"),
        (["--taget"], "E0001", "no such option '--taget'"),
        (["--layout", "chwn"], "E0001", "'chwn' is not one of"),
    ],
)
def test_values_out_of_range(bundle: Path, arguments: list[str], code: str, says: str) -> None:
    text = refused(code, "run", bundle, "--random", *arguments)
    assert says in text
    assert text.count("'") % 2 == 0, "quotes come in pairs"


def test_options_are_guessed() -> None:
    text = refused("E0001", "compile", MODEL, "--taget", "host")
    assert "no such option '--taget'\n" in text
    assert "did you mean --target? " in text
    for value in ("nan", "inf", "-1"):
        assert "--tolerance" in refused("E0001", "verify", MODEL, "--tolerance", value)
    refused("E0001", "quantize", MODEL, "--data", "x.npz", "--bound", "nan")


def test_doctor_lists_what_is_used() -> None:
    tools = {tool["name"]: tool for tool in as_json("doctor")["tools"]}
    runtimes = [each.runtime for each in frontends().values() if each.runtime is not None]
    assert {runtime.distributions[0] for runtime in runtimes} <= tools.keys(), "the references of verify"
    assert len(runtimes) == len(references()) - 2
    assert not tools.keys() & {"nvcc", "qemu-riscv64"}, "nothing uses them"


# ---- Files of every wrong kind ----


@pytest.fixture
def wrong_files(tmp_path: Path) -> dict[str, Path]:
    files = {
        "missing": tmp_path / "none.onnx",
        "empty": tmp_path / "empty.onnx",
        "noise": tmp_path / "noise.onnx",
        "text": tmp_path / "model.txt",
        "directory": tmp_path / "folder.onnx",
        "latin": tmp_path / os.fsdecode(b"mod\xe9l.onnx"),
        "long": tmp_path / ("x" * 255),
        "nul": Path("a\0b.onnx"),
    }
    files["empty"].write_bytes(b"")
    files["noise"].write_bytes(bytes(range(256)) * 9)
    files["text"].write_text("a letter, not a model")
    files["directory"].mkdir()
    files["latin"].write_bytes(b"\x08\x07")
    return files


@pytest.mark.parametrize("command", ["compile", "verify", "inspect", "quantize", "run", "package", "serve"])
def test_files_of_every_wrong_kind(command: str, wrong_files: dict[str, Path]) -> None:
    """No traceback, no bug of ours, no empty message."""
    more = {"quantize": ["--data", "none.npz"], "run": ["--random"], "package": ["--for", "npm"]}.get(command, [])
    for kind, path in wrong_files.items():
        result = run(command, path, *more)
        assert result.exit_code in (1, 2), (kind, result.output)
        assert result.stderr.startswith("error[E"), (kind, result.stderr, result.exception)
        assert "E0901" not in result.stderr, (kind, result.stderr)
        assert "Traceback" not in result.output, kind


@pytest.mark.parametrize(
    ("command", "option"),
    [("run", "-i"), ("verify", "--inputs"), ("quantize", "--data"), ("compile", "--target"), ("verify", "--target")],
)
def test_other_files_of_every_wrong_kind(command: str, option: str, bundle: Path, wrong_files: dict[str, Path]) -> None:
    subject = bundle if command == "run" else MODEL
    for kind, path in wrong_files.items():
        for ending in ("", ".npz", ".npy", ".toml", ".png", ".bin"):
            given = Path(f"{path}{ending}") if kind != "directory" else path
            if ending and kind in ("empty", "noise", "text", "latin"):
                given.write_bytes(path.read_bytes())
            result = run(command, subject, option, given)
            assert result.exit_code in (1, 2), (kind, ending, result.output)
            assert result.stderr.startswith("error[E"), (kind, ending, result.stderr, result.exception)
            assert "E0901" not in result.stderr, (kind, ending, result.stderr)


# ---- Descriptions of targets ----


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('cpu = "cortex_a999"', 2, 'cpu: zig does not know "cortex_a999"'),
        ('llvm_cpu = "cortex-b7"', 2, 'llvm_cpu: LLVM does not know "cortex-b7"'),
        ('\nllvm_features = ["+neon", "+wings"]', 3, 'llvm_features: LLVM does not know "+wings"'),
        ('triple = "aarch64-atlantis-gnu"', 2, 'triple: zig does not take "aarch64-atlantis-gnu"'),
        ('triple = "x86_64-linux-gnu"', 2, "is of another architecture than llvm_triple"),
        ("pointer_bits = 32", 2, 'pointer_bits is 32; those of "aarch64-linux-gnu'),
        ("pointer_bits = 48", 2, "pointer_bits is 48"),
        ("vector_bits = 100", 2, "vector_bits is 100"),
        ("vector_bits = -128", 2, "vector_bits is -128"),
        ("vector_registers = 0", 2, "vector_registers is 0"),
        ("vector_registers = 1000000", 2, "vector_registers is 1000000"),
        ("loads_per_cycle = nan", 2, "loads_per_cycle is nan"),
        ("l1_bytes = -1", 2, "l1_bytes is -1"),
        ("l1_ways = 0", 2, "l1_ways is 0"),
        ("line_bytes = 0", 2, "line_bytes is 0"),
        ("cores = 0", 2, "cores is 0"),
        ('library = "../model.so"', 2, 'library is "../model.so"'),
        ("vectr_bits = 128", 2, "unknown key vectr_bits"),
        ('file = "x"', 2, "unknown key file"),
        ('cores = "four"', 2, "key cores has a value of type str"),
    ],
)
def test_a_key_of_a_target_is_blamed(text: str, line: int, says: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'extends = "arm64"\n{text}\n')
    message = refused("E0202", "compile", MODEL, "--target", file, "-o", tmp_path / "b")
    assert says in message
    assert f"{file}, line {line}\n" in message
    assert "fix: " in message
    assert not (tmp_path / "b").exists()


def test_descriptions_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "none.toml does not exist" in refused("E0201", "compile", MODEL, "--target", tmp_path / "none.toml")
    (tmp_path / "folder.toml").mkdir()
    assert "is a directory" in refused("E0201", "targets", tmp_path / "folder.toml")
    monkeypatch.setenv("STERNA_TARGETS", str(tmp_path))
    (tmp_path / "a.toml").write_text('extends = "b"\n')
    (tmp_path / "b.toml").write_text('extends = "a"\n')
    (tmp_path / "c.toml").write_text('extends = "nowhere"\n')
    (tmp_path / "d.toml").write_text("extends = 3\n")
    assert "a description that starts from itself: a.toml <- b.toml <- a.toml" in refused("E0202", "targets", "a")
    assert f"{tmp_path / 'c.toml'}, line 1" in refused("E0201", "targets", "c")
    assert "key extends has a value of type int" in refused("E0202", "targets", "d")


def test_a_good_description_of_a_users_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "arm64"\ndescription = "mine"\ncpu = "cortex_a72"\nllvm_cpu = "cortex-a72"\n')
    target = load_target(str(file))
    assert target.file == str(file)
    assert load_target("arm64").file == ""
    assert run("compile", MODEL, "-g", "llvm", "--target", file, "-o", tmp_path / "b").exit_code == 0
