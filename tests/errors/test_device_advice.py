"""What a bundle for a device is refused with: the way out follows from the reason, and from where it was to run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import sterna
from sterna.api import compile_to
from sterna.bundle.roles import file_role
from sterna.cli import program
from sterna.emulate.devices import check_devices
from sterna.emulate.engines import ENGINES
from sterna.errors import SternaError
from sterna.runtime import programs
from sterna.runtime.remote import EMULATOR
from sterna_runtime.advice import fix_text
from sterna_runtime.refusals import Place, advised

MODEL = Path(sterna.__file__).parent / "demo" / "digits.onnx"


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("webgpu", "`sterna run --on chromium` runs it, and `sterna serve` beside a bundle for browsers"),
        ("cuda", "fix: install NVIDIA's driver, or compile with "),
        ("metal", "fix: run it on macOS or iOS, which have Metal"),
    ],
)
def test_the_way_out_fits_the_device(target: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    place = tmp_path / "bundle"
    compile_to(place, MODEL, target, generator="llvm")
    assert all(file_role(file.name) for file in place.iterdir())
    with pytest.raises(SternaError, match="E0507") as refused:
        sterna.load(place)
    text = str(refused.value)
    assert wanted in text
    assert 'target="host"' in text
    assert "bit pointers" not in text


_SERVER = Place(None, "put the library of the device there")


@pytest.mark.parametrize(
    ("code", "title", "rest", "kind", "place", "fix"),
    [
        ("E0507", "CUDA: kernels are for 9.0, and a T4 has 7.5", ": compile with --target cuda", "cuda", None,
         "compile with --target cuda"),
        ("E0507", "CUDA: the driver is of CUDA 9.2", ": update the driver, or compile with --target opencl or host",
         "cuda", None, "update the driver, or compile with --target opencl or --target host"),
        ("E0507", 'OpenCL: the bundle needs "x", which this runtime does not know', ": update the runtime", "opencl",
         None, "update the runtime"),
        ("E0507", 'OpenCL: none of the devices is called "x"', ": change or unset STERNA_OPENCL_DEVICE", "opencl",
         None, "change or unset STERNA_OPENCL_DEVICE: `sterna doctor` says which"),
        ("E0502", "CUDA (a T4): 9 bytes are needed", ": take a smaller model, or compile with --target host", "cuda",
         None, "take a smaller model, or compile with --target host"),
        ("E0502", "CUDA (a T4): 9 bytes are needed", ": take a smaller model, or compile with --target host", "cuda",
         _SERVER, "take a smaller model, or compile with --target of its CPU"),
        ("E0502", "out of memory: 9 bytes more are needed", "", "cuda", None, "compile the model for smaller sizes"),
        ("E0508", "CUDA (a T4): kernels.ptx: refused", "", "cuda", None,
         "the driver refuses kernels that Sterna wrote: please report it with the model and this message; meanwhile "),
        ("E0508", "libmodel.so: cannot be loaded: close it", "", "cuda", None, "compile the model again"),
        ("E0511", "CUDA (a T4): the device was lost", ": close the models that have it, and load again", "cuda", None,
         "close the models that have it, and load again"),
        ("E0511", "OpenCL (a): CL_OUT_OF_RESOURCES (-5)", ": if the device was lost, unload its models", "opencl",
         None, "if the device was lost, unload its models"),
        ("E0507", 'graph.json: needs the device "cuda", which is not here', "; on the server do that", "cuda", _SERVER,
         "put the library of the device there; or compile the model for the processor there"),
        ("E0507", 'graph.json: needs the device "warp", which is not here', "", "warp", None,
         "install the version of sterna that made the bundle"),
        ("E0507", "WebGPU is not here", ": compile with --target browser, or load with a fallback", "webgpu",
         ENGINES["chromium"].place, "compile with --target browser, or load with a fallback"),
        ("E0507", "graph.json: compiled for aarch64", "", "", EMULATOR,
         "compile the model for the processor there: `sterna targets` lists what --target takes"),
    ],
)  # fmt: skip
def test_the_way_out_follows_from_the_reason(
    code: str, title: str, rest: str, kind: str, place: Place | None, fix: str
) -> None:
    found, advice = advised(code, title + rest, (kind,) if kind else (), place)
    assert found == title
    assert advice is not None
    assert fix_text(advice, "cli").startswith(fix)


@pytest.mark.parametrize(
    ("on", "kind", "fix"),
    [
        ("node", "cuda", "leave out --on; or compile the model with --target browser"),
        (
            "chromium",
            "opencl",
            "compile the model with --target webgpu, which pages run; or ",
        ),
        ("qemu:raspberrypi4", "opencl", "leave out --on; or compile the model for the processor there"),
        ("node", "webgpu", "`sterna run --on chromium` runs it"),
    ],
)
def test_places_without_such_a_device(on: str, kind: str, fix: str) -> None:
    with pytest.raises(SternaError, match="E0507") as refused:
        check_devices(on, (kind,))
    assert f"fix: {fix}" in refused.value.diagnostics[0].text("cli")
    check_devices("rpc://somewhere", (kind,))
    check_devices(on, ())


def test_nothing_is_built_for_a_bundle_that_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def placed(*_: object) -> Path:
        raise AssertionError("a program of the emulator was built")

    monkeypatch.setattr(programs, "placed", placed)
    bundle = compile_to(tmp_path / "bundle", MODEL, "opencl", generator="llvm")
    for command in (["run", bundle, "--random"], ["profile", bundle], ["verify", MODEL, "--target", "opencl"]):
        done = CliRunner().invoke(program, [*map(str, command), "--on", "qemu:raspberrypi4"])
        assert done.exit_code == 1, done.output
        assert "error[E0507]: kernels for devices of opencl do not run on qemu:raspberrypi4" in done.output


def test_the_engine_that_runs_a_bundle_is_named_once(tmp_path: Path) -> None:
    bundle = compile_to(tmp_path / "bundle", MODEL, "webgpu", generator="llvm")
    said = CliRunner().invoke(program, ["run", str(bundle), "--random"]).output
    assert said.count("chromium") == 1
