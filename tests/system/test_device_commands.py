"""What the commands say of bundles for devices; none of it needs a device."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import sterna
from sterna.api import compile_to, options_of
from sterna.cli import program
from sterna.errors import SternaError
from sterna_runtime.cli import main

MODEL = Path(sterna.__file__).parent / "demo" / "digits.onnx"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_to(tmp_path_factory.mktemp("devices") / "cuda", MODEL, "cuda", generator="llvm")


def said(*words: object, status: int = 0) -> str:
    done = CliRunner().invoke(program, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done.output


def test_inspect_names_what_is_on_the_device(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said("inspect", made)
    assert "on cuda, which must have cuda_10.0, sm_75, by kernels.ptx: " in shown
    assert "generator" not in shown, "it made no kernel of these"
    assert main(["inspect", str(made), "--nodes"]) == 0
    plain = capsys.readouterr().out
    assert "any processor" in plain
    assert "on cuda, which must have cuda_10.0, sm_75, by kernels.ptx" in plain
    assert "copy image" in plain


def test_a_device_that_no_node_is_on(tmp_path: Path) -> None:
    words = ("--target", "opencl", "--generator", "llvm", "--device-for", "*=cpu", "-o", tmp_path / "made")
    says = "no node is on opencl: all run on the CPU"
    assert says in said("compile", MODEL, *words)
    shown = said("inspect", tmp_path / "made")
    assert says in shown
    assert "generator llvm," in shown
    assert "5 files; the 4 largest:" in shown


def test_both_places(tmp_path: Path) -> None:
    words = ("--target", "opencl", "--generator", "llvm", "--device-for", "softmax=cpu", "-o", tmp_path / "made")
    said("compile", MODEL, *words)
    assert "generator llvm on the CPU," in said("inspect", tmp_path / "made")


@pytest.mark.parametrize("kind", ["android", "ios"])
def test_packages_without_kernels_of_devices(kind: str, made: Path, tmp_path: Path) -> None:
    refused = said("package", made, "--for", kind, "-o", tmp_path / "package", status=1)
    assert f"is a bundle for devices of cuda; packages for {kind} have no kernels of these" in refused
    assert "it then runs on the CPU; --for c writes sources that drive its device" in refused


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("--target", "metal"), "--on rpc://HOST, whose server drives such a device, or --target host"),
        (("--target", "webgpu"), "--on chromium, or --target host"),
        (("--target", "opencl", "--on", "node"), "leave out --on; or compile the model with --target browser"),
    ],
)
def test_where_kernels_of_devices_are_tuned(words: tuple[str, ...], fix: str, tmp_path: Path) -> None:
    refused = said("tune", MODEL, *words, "--records", tmp_path / "records", status=1)
    assert "E0507" in refused
    assert f"fix: {fix}" in refused


def test_places_are_a_mapping() -> None:
    with pytest.raises(SternaError, match="E0203") as refused:
        options_of("opencl", device_for="softmax=cpu")  # type: ignore[arg-type]
    assert 'fix: device_for={"softmax": "cpu"}' in str(refused.value)
    assert "fix: --device-for softmax=cpu" in refused.value.diagnostics[0].text("cli")
