"""Vectors of truth values on processors whose `char` has no sign: masks of bytes select what is wider."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import sterna
from sterna.api import compile_to
from sterna.targets.description import load_target
from support import machines
from support.matrix import family
from support.tools import need

#: Truth values from memory, of comparisons of bytes and of floats, and of both together; 35 elements leave a tail.
MODEL = """
    <ir_version: 9, opset_import: ["": 18]>
    masks (bool[5, 7] given, uint8[5, 7] u, uint8[5, 7] v, float[5, 7] a, float[5, 7] b)
        => (float[5, 7] memory, float[5, 7] bytes, float[5, 7] both, float[5, 7] equal, float[5, 7] byte) {
        memory = Where (given, a, b)
        same = Equal (u, v)
        bytes = Where (same, a, b)
        less = Less (a, b)
        less_given = And (less, given)
        mixed = Xor (less_given, same)
        both = Where (mixed, a, b)
        alike = Equal (given, less)
        equal = Where (alike, a, b)
        truth = Cast <to = 9> (u)
        byte = Where (truth, a, b)
    }
"""


@pytest.mark.parametrize("generator", ["c", "llvm"])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.family(family(load_target(n)))) for n in ("arm64", "armv7", "riscv64")]
)
def test_masks_of_bytes_select_floats(
    name: str, generator: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = load_target(name)
    need(target.runs_on.split()[0], "runs programs for other processors")
    model = onnx.parser.parse_model(MODEL)
    rng = np.random.default_rng(0)
    given, u, v = (rng.integers(0, 2, (5, 7)) for _ in range(3))
    a, b = (rng.standard_normal((5, 7)).astype(np.float32) for _ in range(2))
    inputs = [given.astype(bool), u.astype(np.uint8), v.astype(np.uint8), a, b]
    truths = [given, u == v, ((a < b) & (given != 0)) ^ (u == v), (given != 0) == (a < b), u]
    expected = [np.where(truth, a, b) for truth in truths]
    names = ("given", "u", "v", "a", "b")
    here = sterna.compile(model, generator=generator).run(dict(zip(names, inputs, strict=True)))
    np.testing.assert_array_equal(list(here.values()), expected)

    bundle = compile_to(tmp_path / "bundle", model, name, generator=generator)
    host = machines.arm_host(target.llvm_triple.split("-")[0], tmp_path_factory.getbasetemp())
    found = machines.run_emulated(host, bundle, inputs, expected, tmp_path, target.runs_on)
    np.testing.assert_array_equal(found, expected)
