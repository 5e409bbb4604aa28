"""Every error of the command line: code, message, exit status, never a traceback."""

from __future__ import annotations

import builtins
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import sterna
from sterna.api import compile_to
from sterna.cli import program
from sterna.errors import SternaError
from sterna.records import Database
from sterna.scratch import scratch_folder
from sterna_runtime import library
from sterna_runtime.cli.files import ImageOptions, read_inputs
from sterna_runtime.inputs import TensorSpec

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "compiler" / "sterna" / "demo" / "digits.onnx"
PNG = ROOT / "examples" / "digits" / "3.png"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


def fails(code: str, *arguments: object, status: int = 1) -> str:
    """The message of a command that must fail in this way; the same facts come as JSON."""
    result = invoke(*arguments)
    assert result.exit_code == status, result.output
    assert result.stderr.startswith(f"error[{code}]: "), result.stderr
    assert "Traceback" not in result.output
    again = invoke(*arguments, "--json")
    assert again.exit_code == status
    assert json.loads(again.stdout)["errors"][0]["code"] == code
    return result.stderr


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cli") / "digits"
    assert invoke("compile", MODEL, "-o", place).exit_code == 0
    return place


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["frobnicate"], "no such command 'frobnicate'"),
        (["compil", "x"], "did you mean compile?"),
        (["compile"], "missing argument 'MODEL'"),
        (["compile", MODEL, "--shap", "x"], "did you mean --shape"),
        (["compile", MODEL, "--threads", "0"], "--threads"),
        (["compile", MODEL, "--generator", "fortran"], "'fortran' is not one of"),
        (["compile", MODEL, "--dump-after", "nowhere"], "'nowhere' is not one of"),
        (["verify", MODEL, "--tolerance", "-1"], "--tolerance"),
    ],
)
def test_e0001_usage(arguments: list[object], says: str) -> None:
    message = fails("E0001", *arguments, status=2)
    assert says in message
    assert "--help` lists what there is" in message


@pytest.mark.parametrize("text", ["x", "=1,2", "x=1,b", "x=1.5"])
def test_e0002_shapes(text: str) -> None:
    assert "--shape image=1,3,224,224" in fails("E0002", "compile", MODEL, "--shape", text, status=2)


def test_e0002_other_values(bundle: Path) -> None:
    fails("E0002", "compile", MODEL, "--dim", "batch", status=2)
    fails("E0002", "compile", MODEL, "--dim", "batch=1", "--dim", "batch=2", status=2)
    fails("E0002", "run", bundle, "-i", PNG, "--mean", "1,x", status=2)
    fails("E0002", "run", bundle, "-i", PNG, "--scale", "1/0", status=2)
    fails("E0002", "run", bundle, "-i", "image=", status=2)
    fails("E0002", "run", bundle, "-i", f"image={PNG}", "-i", f"image={PNG}", status=2)


def test_e0003_inputs_that_cannot_be_read(bundle: Path, tmp_path: Path) -> None:
    for name in ("bad.npy", "bad.npz", "bad.png", "bad.xyz"):
        (tmp_path / name).write_bytes(b"not what it says")
        assert name in fails("E0003", "run", bundle, "-i", f"image={tmp_path / name}")
    assert "does not exist" in fails("E0003", "run", bundle, "-i", f"image={tmp_path / 'none.npy'}")
    assert "is a directory" in fails("E0003", "run", bundle, "-i", f"image={tmp_path}")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    fails("E0003", "run", bundle, "-i", f"image={tmp_path / 'objects.npy'}")
    fails("E0003", "verify", MODEL, "--inputs", tmp_path / "none.npz")
    fails("E0003", "verify", MODEL, "--inputs", tmp_path / "bad.npz")


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_e0004_packages_that_are_missing(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "PIL")
    assert "pip install pillow" in fails("E0004", "run", bundle, "-i", f"image={PNG}")
    without(monkeypatch, "onnxruntime")
    assert "pip install onnxruntime" in fails("E0004", "verify", MODEL, "--against", "onnxruntime")


def test_e0005_files_that_do_not_fit(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "short.bin").write_bytes(b"1234")
    assert "4 bytes" in fails("E0005", "run", bundle, "-i", f"image={tmp_path / 'short.bin'}")
    np.savez(tmp_path / "two.npz", a=np.zeros(1), b=np.zeros(1))
    assert 'no array "image"' in fails("E0005", "run", bundle, "-i", f"image={tmp_path / 'two.npz'}")
    assert "2 numbers" in fails("E0005", "run", bundle, "-i", f"image={PNG}", "--mean", "1,2")


def test_e0006_neither_a_bundle_nor_a_model(tmp_path: Path) -> None:
    assert f"sterna compile {MODEL}" in fails("E0006", "run", MODEL)
    fails("E0006", "inspect", tmp_path)
    fails("E0006", "inspect", tmp_path / "none")


def test_e0007_results_that_cannot_be_written(bundle: Path, tmp_path: Path) -> None:
    fails("E0007", "run", bundle, "--random", "-o", tmp_path / "out.txt")
    none = tmp_path / "none"
    for words in (("run", bundle, "--random", "-o", none / "o.npz"), ("profile", bundle, "--trace", none / "t.json")):
        assert f"fix: mkdir -p {none}" in fails("E0007", *words)
    assert f"fix: mkdir -p {none}" in invoke("report", bundle, "-o", none / "r.html").stderr
    assert "fix: name another file with --output" in fails("E0007", "run", bundle, "--random", "-o", folder(tmp_path))
    assert "STERNA_TUNING or --records FILE" in fails("E0007", "tune", MODEL, "--records", PNG)


def folder(place: Path) -> Path:
    """One that is named as a file with results would be."""
    (place / "folder.npz").mkdir()
    return place / "folder.npz"


def test_e0007_what_is_no_export_of_records(tmp_path: Path) -> None:
    records = ("--records", tmp_path / "t.db")
    done = invoke("tune", "import", PNG, *records)
    assert "error[E0007]" in done.stderr
    assert "fix: sterna tune export" in done.stderr
    assert "error[E0010]" in invoke("tune", "import", tmp_path / "none.jsonl", *records).stderr
    assert not (tmp_path / "t.db").exists()
    done = invoke("tune", "plot", "-o", PNG, "--records", _records(tmp_path))
    assert "cannot be a folder: it is a file" in done.stderr
    assert "fix: name another folder with --output" in done.stderr
    done = invoke("tune", "log", *records)
    assert "error[E0010]" in done.stderr
    assert "fix: sterna tune MODEL" in done.stderr


def _records(place: Path) -> Path:
    with Database(place / "own.db"):
        return place / "own.db"


def test_records_that_cannot_be_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is compiled by the rules then: whoever tuned it for hours is to know."""
    monkeypatch.setenv("STERNA_TUNING", str(PNG))
    done = invoke("compile", MODEL, "-o", tmp_path / "out")
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: nothing is compiled as it was tuned: ")
    assert "warning" not in invoke("compile", MODEL, "--no-tuning", "-o", tmp_path / "out").stderr


def test_e0001_names_the_command_as_it_is_written() -> None:
    """`model` stands for what is no other command of `sterna tune`, and nobody writes it; the options are its own."""
    assert "`sterna tune MODEL --help`" in fails("E0001", "tune", MODEL, "--explorer", "magic", status=2)


def test_results_are_there_whole_or_not_at_all(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full leaves an earlier file as it was, and nothing beside it."""
    place = tmp_path / "out.npz"
    place.write_bytes(b"earlier")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    assert "No space left" in fails("E0007", "run", bundle, "--random", "-o", place)
    assert place.read_bytes() == b"earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]


def test_e0008_an_output_that_differs() -> None:
    message = fails("E0008", "verify", MODEL, "--against", "interpreter", "--tolerance", "0")
    assert "the first tensor that differs" in message
    assert "please report it" in message


def test_e0009_a_reference_that_cannot_run_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no kernel for this node")

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    message = fails("E0009", "verify", MODEL, "--against", "onnxruntime")
    assert "no kernel for this node" in message
    assert "--against interpreter" in message


def test_e0010_what_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device", "/somewhere")

    monkeypatch.setattr("sterna.cli.targets.load_target", refuse)
    assert "No space left on device\n  /somewhere" in fails("E0010", "targets")


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_e0010_a_full_disk(generator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of temporary files, from the command line and from Python: a coded error, and no bundle."""

    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device", "/tmp/sterna-new")

    library.here()  # which a checkout builds when it is first needed
    monkeypatch.setenv("STERNA_NO_CACHE", "1")
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    message = fails("E0010", "compile", MODEL, "-g", generator, "-o", tmp_path / "out")
    assert "a temporary folder: No space left on device\n  /tmp/sterna-new\n  fix: free space there" in message
    assert not list(tmp_path.iterdir())
    with pytest.raises(SternaError, match="E0010"):
        compile_to(tmp_path / "out", MODEL, generator=generator)
    with pytest.raises(SternaError, match="E0010"):
        sterna.compile(MODEL, generator=generator)


def test_e0010_a_disk_that_becomes_full() -> None:
    places = []

    def write() -> None:
        with scratch_folder("test") as folder:
            places.append(folder)
            raise OSError(28, "No space left on device")

    with pytest.raises(SternaError, match=r"E0010.*a temporary file: No space left"):
        write()
    assert not places[0].exists()


def test_errors_of_what_lies_below(bundle: Path, tmp_path: Path) -> None:
    assert "--input image=FILE, or --random" in fails("E0601", "run", bundle)
    fails("E0602", "run", bundle, "--random", "-i", f"picture={PNG}")
    np.save(tmp_path / "wide.npy", np.zeros((1, 1, 8, 8)))
    fails("E0603", "run", bundle, "-i", f"image={tmp_path / 'wide.npy'}")
    np.save(tmp_path / "flat.npy", np.zeros(64, np.float32))
    fails("E0604", "run", bundle, "-i", f"image={tmp_path / 'flat.npy'}")
    fails("E0101", "compile", tmp_path / "none.onnx")
    fails("E0106", "compile", MODEL, "--dim", "batch=1")
    fails("E0201", "compile", MODEL, "--target", "raspbery")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "kernels.c").write_text("my own")
    assert "kernels.c" in fails("E0204", "compile", MODEL, "-o", tmp_path / "taken")
    assert (tmp_path / "taken" / "kernels.c").read_text() == "my own"
    assert [p.name for p in (tmp_path / "taken").iterdir()] == ["kernels.c"]
    fails("E0402", "compile", MODEL, "--cc", "no-such-compiler", "-o", tmp_path / "d")
    fails("E0503", "run", tmp_path / "none", "--random")
    fails("E0507", "verify", MODEL, "--target", "esp32")
    (tmp_path / "graph.json").write_text("{")
    fails("E0504", "inspect", tmp_path)


def test_e0502_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sterna.cli.targets.load_target", refuse)
    fails("E0502", "targets")


def test_e0901_internal_errors_say_how_to_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("sterna.cli.targets.load_target", broken)
    monkeypatch.delenv("STERNA_DEBUG", raising=False)
    message = fails("E0901", "targets")
    assert "internal error: ZeroDivisionError: division by zero" in message
    assert "please report it" in message
    assert "in cli/targets.py" in message.replace(os.sep, "/")
    monkeypatch.setenv("STERNA_DEBUG", "1")
    assert "Traceback" in invoke("targets").stderr


def test_several_errors_stand_apart(bundle: Path, tmp_path: Path) -> None:
    result = invoke("run", bundle, "-i", "image=/none.npy", "-i", "image=/none.bin")
    assert result.exit_code == 1
    assert result.stderr.count("\n\nerror[E0003]") == 1


@pytest.mark.skipif(os.name == "nt", reason="signals of another kind")
def test_interruption_is_clean(tmp_path: Path) -> None:
    text = "import sys, time, sterna.cli, sterna.cli.targets as t\n"
    text += "t.load_target = lambda name: (print('ready', flush=True), time.sleep(60))\n"
    text += "sys.argv = ['sterna', 'targets']\nsterna.cli.main()\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "compiler")}
    with subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.strip() == "interrupted"


@pytest.mark.parametrize("size", [10**9, 10**12, 2**62])
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_headers_that_ask_for_much_memory(size: int, ending: str, tmp_path: Path) -> None:
    """An array of 4 GB or more is announced, and nothing follows."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({size},), }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    file = tmp_path / f"x.{ending}"
    if ending == "npy":
        file.write_bytes(data)
    else:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("x.npy", data)
    spec = TensorSpec("x", np.dtype(np.float32), (4,))
    with pytest.raises(SternaError) as caught:
        read_inputs([spec], (f"x={file}",), ImageOptions())
    assert caught.value.codes == ("E0003",)
