"""Forests on a microcontroller: tables in flash and one small loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import sterna
from sterna.api import compile_to
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import machine_for
from sterna.firmware.measure import How, measure
from support import boards
from support.tools import need
from support.trained import agree, trained

skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx: converts the forest")


@pytest.mark.family("cortex-m4")
def test_a_forest_of_a_hundred_trees(tmp_path: Path) -> None:
    """19,351 nodes of 3 bytes, and probabilities that are those of this machine to the bit. An inference makes 785
    comparisons of 6 instructions."""
    need("qemu-system-arm", "emulates boards of microcontrollers")
    need("arm-none-eabi-gcc", "compiles for Cortex-M")
    features, digits = load_digits(return_X_y=True)
    features = features.astype(np.float32)
    forest = RandomForestClassifier(n_estimators=100, random_state=0).fit(features[:1347], digits[:1347])
    model = skl2onnx.to_onnx(forest, features[:1], options={"zipmap": False})
    row = features[1400:1401]
    with sterna.compile(model, shapes={"X": [1, 64]}) as here:
        want = here.run({"X": row})["probabilities"]
    bundle = compile_to(tmp_path / "bundle", model, "cortex-m4", shapes={"X": [1, 64]})
    firmware = read_firmware(bundle)
    (tmp_path / "program").mkdir()
    how = How("gcc", False, ("-O2",))
    found = measure(firmware, machine_for(firmware), tmp_path / "program", [row], how)
    (have,) = (array for array in found.outputs if array.dtype == np.float32)
    np.testing.assert_array_equal(have.reshape(want.shape), want)
    assert found.flash < 60_000
    assert found.code < 1024
    assert found.instructions < 7_900
    assert found.memory < 256


@pytest.mark.family("cortex-m")
@pytest.mark.parametrize(
    ("target", "model"),
    [("cortex-m0plus", "sklearn_rf_digits"), ("cortex-m3", "xgboost_breast_cancer_nan")],
)  # fmt: skip
def test_forests_of_two_formats(target: str, model: str, tmp_path: Path) -> None:
    """Codes on a grid, codes that are sought, and NaN; tests/targets/test_microcontrollers.py has sums in float64."""
    found = trained(model)
    case = found.cases[0]
    bundle = compile_to(tmp_path / "bundle", found.file, target, shapes=found.shapes())
    agree(found, 0, boards.run_on_board(bundle, list(case.inputs.values()), case.outputs, library_of_kernels=False))
