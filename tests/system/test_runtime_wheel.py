"""The wheel `sterna-runtime`: small, alone, all that a device needs. ci/runtime-wheels has those of other machines."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sterna.cli import program
from sterna_runtime import recipe
from support.tools import ROOT
from support.trained import digits

PROJECT = ROOT / "runtime_python"
LARGEST = 300_000  # bytes of the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("needs hatchling, of the extra test: builds the wheel")
    out = tmp_path_factory.mktemp("wheel")
    script = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", script, str(out)], cwd=PROJECT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    [found] = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def device(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the wheel and NumPy, and nothing else."""
    place = tmp_path_factory.mktemp("device")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    packages = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (place / name).symlink_to(packages / name)
    return place


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bundle") / "digits"
    done = CliRunner().invoke(program, ["compile", str(digits().file), "-o", str(place), "--golden", "2"])
    assert done.exit_code == 0, done.output
    return place


def on_device(device: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(device), "PATH": os.environ["PATH"], "STERNA_NO_CACHE": "1"}
    command = [sys.executable, "-S", *map(str, words)]
    return subprocess.run(command, cwd=device, env=environment, capture_output=True, text=True, check=False)


def test_it_is_small_and_holds_one_package(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST
    assert wheel.name.endswith(f"-py3-none-{recipe.this_platform().tag}.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [archive.read(name).decode() for name in names if name.endswith("/METADATA")]
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"sterna_runtime"}
    libraries = {recipe.library_name(kind=kind) for kind in ("", *recipe.devices_of())}
    assert {n for n in names if "/_lib/" in n} == {f"sterna_runtime/_lib/{name}" for name in libraries}
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra" not in line]
    assert needs == ["Requires-Dist: numpy>=1.24"]


def test_a_device_runs_inspects_and_verifies(device: Path, bundle: Path) -> None:
    for words, answer in (
        (["verify", bundle, "--golden"], "agrees with"),
        (["inspect", bundle], "image   float32[1, 1, 8, 8]"),
        (["run", bundle, "--random", "--top", "2"], "scores  float32[1, 10]"),
    ):
        done = on_device(device, "-m", "sterna_runtime", *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert answer in done.stdout
    script = (
        "import sys, numpy, sterna_runtime\n"
        "with sterna_runtime.load(sys.argv[1]) as bundle:\n"
        "    print(bundle.verify_golden().ok, sterna_runtime.library.find())\n"
    )
    done = on_device(device, "-c", script, bundle)
    assert done.stdout.split() == ["True", str(device / "sterna_runtime" / "_lib" / recipe.library_name())], done.stderr
    assert "No module named 'sterna'" in on_device(device, "-c", "import sterna").stderr


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("E0001", ["frob"]),
        ("E0002", ["run", "{bundle}", "--dim", "x=y"]),
        ("E0503", ["run", "nowhere"]),
        ("E0601", ["run", "{bundle}"]),
        ("E0006", ["inspect", "sterna_runtime"]),
    ],
)
def test_mistakes_on_a_device_are_coded(code: str, words: list[str], device: Path, bundle: Path) -> None:
    done = on_device(device, "-m", "sterna_runtime", *(word.format(bundle=bundle) for word in words))
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(f"error[{code}]: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("made_for", recipe.WHEELS, ids=lambda platform: platform.tag)
def test_a_tag_and_what_is_built_for_it_name_each_other(
    made_for: recipe.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tag in made_for.tag.split("."):
        monkeypatch.setenv("STERNA_BUILD_PLATFORM", tag)
        found = recipe.platform_of_build()
        assert (found.tag, found.target, found.processor) == (made_for.tag, made_for.target, made_for.processor)
    assert ("musl" in made_for.target) == ("musl" in made_for.tag)


def test_the_licence_is_the_repository_s() -> None:
    assert (PROJECT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
