"""Intrinsics of other machines compute what their declarations say, on emulators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiling import compiled_schedule
from dot_products import arrays, product, tiled
from sterna.bundle.writer import write_bundle
from sterna.intrinsics import INTRINSICS
from sterna.targets.target import load_target
from sterna.te.interpreter import run_kernel
from targets import machines


def made(target: str, name: str, generator: str, folder: Path) -> tuple[Path, list[np.ndarray], list[np.ndarray]]:
    """A bundle of a product with every kind of tail, its inputs and what it must give."""
    intrinsic = INTRINSICS[name]
    kernel = product(3, 2 * intrinsic.lanes + 1, 37, intrinsic.operands[0])
    feeds = arrays(kernel, 5)
    machine = load_target(target)
    assert name in machine.int_dot
    compiled = compiled_schedule(tiled(kernel, intrinsic), [feeds[p.name] for p in kernel.params], generator, machine)
    return write_bundle(compiled, folder / "bundle"), [feeds["x"]], [run_kernel(kernel, feeds)["out"]]


@pytest.mark.family("arm64")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(("target", "name"), [("arm64-dotprod", "sdot.128"), ("arm64-i8mm", "usdot.128")])
def test_arm64(tmp_path: Path, arm64_host: Path, target: str, name: str, generator: str) -> None:
    bundle, inputs, outputs = made(target, name, generator, tmp_path)
    found = machines.run_arm64(arm64_host, bundle, inputs, outputs, tmp_path, cpu="max")
    np.testing.assert_array_equal(found[0], outputs[0])


@pytest.mark.family("wasm32")
@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("name", ["i32x4.dot_i16x8_s.128.u8", "i32x4.dot_i16x8_s.128.s8"])
def test_webassembly(tmp_path: Path, name: str, generator: str) -> None:
    bundle, inputs, outputs = made("browser", name, generator, tmp_path)
    found = machines.run_wasm(bundle, inputs, outputs, tmp_path)
    np.testing.assert_array_equal(found[0], outputs[0])
