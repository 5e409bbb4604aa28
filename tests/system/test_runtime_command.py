"""`sterna-runtime`, the command of the small wheel: the answers of `sterna`, coded errors, nothing of the compiler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from sterna.cli import program
from sterna_runtime.cli import main
from sterna_runtime.error_codes import CODES
from support.tools import ROOT
from support.trained import digits


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("device") / "digits"
    done = CliRunner().invoke(program, ["compile", str(digits().file), "-o", str(place), "--golden", "2"])
    assert done.exit_code == 0, done.output
    return place


def compiler_says(*arguments: str) -> Any:
    done = CliRunner().invoke(program, arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def says(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    return capsys.readouterr().out


def test_it_says_what_the_compiler_s_command_says(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(bundle)
    for arguments in (("inspect", place, "--json"), ("verify", place, "--golden", "--json")):
        assert json.loads(says(capsys, *arguments)) == compiler_says(*arguments)
    run = ("run", place, "--random", "--seed", "3", "--top", "2", "--profile", "--json")
    mine, theirs = json.loads(says(capsys, *run)), compiler_says(*run)
    assert mine.keys() == theirs.keys()
    assert mine["outputs"] == theirs["outputs"]
    assert [node["name"] for node in mine["nodes"]] == [node["name"] for node in theirs["nodes"]]


def test_what_people_read(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, out = str(bundle), tmp_path / "out.npz"
    text = says(capsys, "run", place, "--random", "--top", "1", "-n", "2", "--profile", "-o", str(out))
    assert "scores  float32[1, 10]" in text
    assert "fastest of 2 runs on 1 thread" in text
    assert "sum of the nodes" in text
    assert list(np.load(out)) == ["scores"]
    assert "input   image   float32[1, 1, 8, 8]" in says(capsys, "inspect", place, "--nodes")
    assert "digits agrees with onnxruntime" in says(capsys, "verify", place)


WRONG = {
    "no command": ("E0001", []),
    "no such option": ("E0001", ["run", "{bundle}", "--frob"]),
    "not a size": ("E0002", ["run", "{bundle}", "--dim", "x"]),
    "no input": ("E0601", ["run", "{bundle}"]),
    "no such file": ("E0003", ["run", "{bundle}", "-i", "image=/nowhere.npy"]),
    "no bundle": ("E0503", ["run", "/nowhere"]),
    "a file": ("E0006", ["verify", "{bundle}/graph.json"]),
    "an empty folder": ("E0006", ["inspect", "{empty}"]),
    "no such place for outputs": ("E0007", ["run", "{bundle}", "--random", "-o", "/nowhere/out.npz"]),
    "a zero character": ("E0001", ["run", "a\0b"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_coded(case: str, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, words = WRONG[case]
    arguments = [word.format(bundle=bundle, empty=tmp_path) for word in words]
    assert main([*arguments, "--json"]) == (2 if code in ("E0001", "E0002") else 1)
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error[{code}]: ")
    assert "Traceback" not in printed.err
    assert [row["code"] for row in json.loads(printed.out)["errors"]] == [code]
    assert code in CODES


def test_a_difference_is_a_status(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The largest error is rounding, so that a tolerance of nothing does not hold."""
    assert main(["verify", str(bundle), "--tolerance", "0"]) == 1
    printed = capsys.readouterr()
    assert "does not agree with" in printed.out
    assert printed.err.startswith("error[E0008]")


def test_nothing_of_the_compiler_is_loaded(bundle: Path) -> None:
    """Neither the compiler nor what it needs: all that is not the standard library is NumPy."""
    script = (
        "import sys; before = set(sys.modules); from sterna_runtime.cli import main; main(sys.argv[1:]); "
        "names = {n.split('.')[0] for n in set(sys.modules) - before} - set(sys.stdlib_module_names); "
        # Python's own data of how it was built, in a module that is called after the machine.
        "print(sorted(n for n in names if not n.startswith('_sysconfigdata')))"
    )
    command = [sys.executable, "-c", script, "verify", str(bundle)]
    environment = {"PYTHONPATH": str(ROOT / "compiler"), "PATH": "", "HOME": str(Path.home())}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "['numpy', 'sterna_runtime']"
