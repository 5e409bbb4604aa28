"""Targets of small boards: each computes, in its emulator, what this machine does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.api import compile_to
from sterna.errors import SternaError
from sterna.targets.description import load_target
from sterna_runtime.random_inputs import random_inputs
from support import machines
from support.matrix import family
from support.tools import need

MODEL = Path(sterna.__file__).parent / "demo" / "digits.onnx"
BOARDS = (
    *("raspberrypi5", "raspberrypi3", "raspberrypi-zero2-musl", "raspberrypi-32", "raspberrypi-zero"),
    *("armv7-musl", "riscv64", "riscv64-v-musl"),
)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs, and what this machine computes from them."""
    with sterna.load(compile_to(tmp_path_factory.mktemp("here") / "bundle", MODEL)) as bundle:
        inputs = random_inputs(bundle.inputs, 0)
        return list(inputs.values()), list(bundle.run(inputs).values())


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.family(family(load_target(n)))) for n in BOARDS])
def test_a_board_computes_what_this_machine_does(
    name: str,
    generator: str,
    expected: tuple[list[np.ndarray], list[np.ndarray]],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    target = load_target(name)
    need(target.runs_on.split()[0], "runs programs for other processors")
    bundle = compile_to(tmp_path / "bundle", MODEL, name, generator=generator)
    architecture = target.llvm_triple.split("-")[0]
    host = machines.arm_host(architecture, tmp_path_factory.getbasetemp())
    inputs, outputs = expected
    for got, wanted in zip(
        machines.run_emulated(host, bundle, inputs, outputs, tmp_path, target.runs_on), outputs, strict=True
    ):
        assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_names_with_musl() -> None:
    """Of every target that is one of GNU's Linux, and of no other; nothing but the C library differs."""
    plain, musl = load_target("raspberrypi-32"), load_target("raspberrypi-32-musl")
    assert (musl.triple, musl.llvm_triple) == ("arm-linux-musleabihf", "armv7-unknown-linux-musleabihf")
    assert (plain.cpu, plain.vector_bits, plain.cpu_features) == (musl.cpu, musl.vector_bits, musl.cpu_features)
    assert load_target("x86-64-v3-musl").triple == "x86_64-linux-musl"
    for name in ("browser-musl", "apple-m1-musl", "-musl", "nothing-musl"):
        with pytest.raises(SternaError, match="E0201"):
            load_target(name)
