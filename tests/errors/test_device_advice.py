"""What a bundle for a device is refused with where that device is not: the way out differs by its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

import sterna
from sterna.api import compile_to
from sterna.bundle.roles import file_role
from sterna.errors import SternaError
from sterna_runtime.handle import _device_fix

MODEL = Path(sterna.__file__).parent / "demo" / "digits.onnx"


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("webgpu", "`sterna run --on chromium` runs it, and `sterna serve` in your browser"),
        ("cuda", "install the driver of such a device"),
        ("metal", "install the driver of such a device"),
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


def test_a_device_that_the_environment_names() -> None:
    """It is what the user has to change; a driver is there."""
    said = 'OpenCL: none of the devices is called "x", as STERNA_OPENCL_DEVICE says'
    assert str(_device_fix(("opencl",), said)).startswith("change or unset STERNA_OPENCL_DEVICE: ")
