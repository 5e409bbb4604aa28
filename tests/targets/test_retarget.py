"""The same models on other machines: outputs equal the host's.

The loop programs differ only by what targets declare (vector width, registers, fma); each machine runs real bundles.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.api import compile_to
from support import boards, machines
from support.trained import sample

MODELS = ("digits", "torch_digits_cnn", "mnist_cntk_f32", "mtcnn_rnet_f32")
GENERATORS = ("c", "llvm")
BROWSERS = ("browser", "browser-baseline", "browser-relaxed", "browser-threads", "browser-relaxed-threads")
TOLERANCE = 1e-5

pytestmark = pytest.mark.parametrize("name", MODELS)


@dataclass(frozen=True)
class Reference:
    """What this machine computes."""

    file: Path
    shapes: dict[str, tuple[int, ...]]
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]

    def compile(self, target: str, directory: Path, generator: str = "c") -> Path:
        return compile_to(directory / "bundle", self.file, target, shapes=self.shapes, generator=generator)

    def check(self, found: list[np.ndarray], tolerance: float = TOLERANCE) -> None:
        for mine, other in zip(self.outputs, found, strict=True):
            assert np.abs(mine - other).max() <= tolerance * np.abs(mine).max()


@pytest.fixture
def reference(name: str) -> Reference:
    model = sample(name)
    case = model.cases[-1]
    shapes = {key: array.shape for key, array in case.inputs.items()}
    outputs = sterna.compile(model.file, shapes=shapes).run(case.inputs)
    return Reference(model.file, shapes, list(case.inputs.values()), list(outputs.values()))


@pytest.mark.family("arm64")
@pytest.mark.parametrize("generator", GENERATORS)
def test_raspberry_pi(reference: Reference, generator: str, arm64_host: Path, tmp_path: Path) -> None:
    """model.so, opened by the C runtime on an emulated Cortex-A72."""
    bundle = reference.compile("raspberrypi4", tmp_path, generator)
    for threads in (1, 2):
        found = machines.run_arm64(arm64_host, bundle, reference.inputs, reference.outputs, tmp_path, threads)
        reference.check(found)


@pytest.mark.family("wasm32")
@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("target", BROWSERS)
def test_browser(reference: Reference, target: str, generator: str, tmp_path: Path) -> None:
    """model.wasm in Node; a fused multiply-add rounds once where the host may round twice."""
    bundle = reference.compile(target, tmp_path, generator)
    for threads in (1, 2) if "threads" in target else (1,):
        found = machines.run_wasm(bundle, reference.inputs, reference.outputs, tmp_path, threads)
        reference.check(found, TOLERANCE * (10 if "relaxed" in target else 1))


@pytest.mark.family("wasm32")
@pytest.mark.parametrize("generator", GENERATORS)
def test_wasi(reference: Reference, generator: str, tmp_path: Path) -> None:
    """A module that imports nothing and brings its memory, in wasmtime."""
    bundle = reference.compile("wasi", tmp_path, generator)
    reference.check(machines.run_wasmtime(bundle, reference.inputs))


@pytest.mark.family("cortex-m4")
@pytest.mark.parametrize(("generator", "compiler"), [("c", "zig"), ("c", "gcc"), ("c", "archive"), ("llvm", "archive")])
def test_cortex_m4(reference: Reference, generator: str, compiler: str, tmp_path: Path) -> None:
    """Firmware of the generated C with a caller-owned arena: no JSON, no allocation, under 2 KB of stack."""
    bundle = reference.compile("cortex-m4", tmp_path, generator)
    assert not (bundle / "graph.json").exists()
    archive = compiler == "archive"
    how = {"compiler": "zig" if archive else compiler, "library_of_kernels": archive}
    reference.check(boards.run_on_board(bundle, reference.inputs, reference.outputs, **how))


@pytest.mark.family("c99")
@pytest.mark.skipif(platform.system() == "Windows", reason="builds port/posix.c")
def test_c99(reference: Reference, tmp_path: Path) -> None:
    """Sources alone, strictly C99, linked with the C runtime into one program."""
    bundle = reference.compile("c99", tmp_path)
    program = machines.build_c99(bundle, tmp_path)
    reference.check(machines.run_c99(program, bundle, reference.inputs, reference.outputs, tmp_path))
    with pytest.raises(sterna.SternaError, match="E0508"):
        sterna.load(bundle)
