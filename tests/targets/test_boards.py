"""Targets of small boards: each computes, in its emulator, what this machine does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
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


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.family(family(load_target(n))))
        for n in ("raspberrypi-32", "raspberrypi-zero", "riscv64", "raspberrypi4")
    ],
)
def test_numbers_are_rounded_without_an_instruction_for_it(
    name: str, generator: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Vectors, what is left of them, and scalars; to the last bit, the sign of zero among them."""
    target = load_target(name)
    need(target.runs_on.split()[0], "runs programs for other processors")
    edges = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.49999997,
        8388607.5,
        -8388607.5,
        8388609.0,
        4194304.5,
        1e30,
        -1e-30,
    ]
    given = np.array([*edges, np.inf, -np.inf, np.nan, 3.7, -3.2], "float32")
    operators = {"Round": np.rint, "Floor": np.floor, "Ceil": np.ceil}
    nodes, outputs, results = [], [], []
    for size, dtype in ((len(given), "float"), (1, "float"), (len(given), "double")):
        source = f"x{size}" if dtype == "float" else "d"
        for operator, exact in operators.items():
            nodes.append(f"{source}_{operator} = {operator} ({source})")
            outputs.append(f"{dtype}[{size}] {source}_{operator}")
            results.append(exact(given[:size].astype("float64" if dtype == "double" else "float32")))
    count = len(given)
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[{count}] x{count}, float[1] x1, double[{count}] d)
        => ({", ".join(outputs)}) {{ {" ".join(nodes)} }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "rounding.onnx")
    bundle = compile_to(tmp_path / "bundle", tmp_path / "rounding.onnx", name, generator=generator)
    host = machines.arm_host(target.llvm_triple.split("-")[0], tmp_path_factory.getbasetemp())
    inputs = [given, given[:1], given.astype("float64")]
    found = machines.run_emulated(host, bundle, inputs, results, tmp_path, target.runs_on)
    for got, wanted in zip(found, results, strict=True):
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def test_names_with_musl() -> None:
    """Of every target that is one of GNU's Linux, and of no other; nothing but the C library differs."""
    plain, musl = load_target("raspberrypi-32"), load_target("raspberrypi-32-musl")
    assert (musl.triple, musl.llvm_triple) == ("arm-linux-musleabihf", "armv7-unknown-linux-musleabihf")
    assert (plain.cpu, plain.vector_bits, plain.cpu_features) == (musl.cpu, musl.vector_bits, musl.cpu_features)
    assert load_target("x86-64-v3-musl").triple == "x86_64-linux-musl"
    for name in ("browser-musl", "apple-m1-musl", "-musl", "nothing-musl"):
        with pytest.raises(SternaError, match="E0201"):
            load_target(name)
