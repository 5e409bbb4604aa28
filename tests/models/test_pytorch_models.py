"""Trained exported programs of PyTorch, compiled: within the spread of the reference."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import sterna
from support.tools import ROOT

FOLDER = Path(os.environ.get("STERNA_FRONTEND_MODELS", ROOT.parent / "shared" / "models_frontends"))
NAMES = ("torch_digits_cond", "torch_digits_gru", "torch_digits_vit")
GENERATORS = [
    *(pytest.param(name, "llvm", marks=pytest.mark.family("host-llvm")) for name in NAMES),
    pytest.param("torch_digits_cond", "c", marks=pytest.mark.family("host-c")),
]


@pytest.mark.parametrize(("name", "generator"), GENERATORS)
def test_trained_model(name: str, generator: str) -> None:
    """The open dimension takes every batch of the reference, in one bundle."""
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip(f"the development model {name} is not here")
    meta = json.loads((folder / "meta.json").read_text())
    arrays = np.load(folder / "ref.npz")
    spread = max(float(v) for v in meta["spread"].values())
    with sterna.compile(folder / meta["file"], generator=generator) as bundle:
        for case in range(meta["n_cases"]):
            wanted = arrays[f"c{case}_out0"]
            (found,) = bundle.run({"x": arrays[f"c{case}_in0"]}).values()
            tolerance = max(1e-4 * float(np.abs(wanted).max()), 4 * spread)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)
