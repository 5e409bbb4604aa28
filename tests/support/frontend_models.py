"""Trained models of formats other than ONNX and TensorFlow Lite, with references (../shared/models_frontends)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from support.tools import ROOT

FOLDER = Path(os.environ.get("STERNA_FRONTEND_MODELS", ROOT.parent / "shared" / "models_frontends"))


@dataclass(frozen=True)
class FrontendModel:
    """A model: its file, and what its runtime made of some inputs, by position."""

    name: str
    file: Path
    cases: tuple[tuple[list[np.ndarray], list[np.ndarray]], ...]
    spread: float
    outputs: tuple[str, ...]

    def check(self, dims: dict[str, Any] | None = None, **options: Any) -> None:
        """Compiles it and holds it to the reference: 1e-4 of the largest output, or four times the runtimes' spread."""
        with sterna.compile(self.file, dims=dims, **options) as bundle:
            for inputs, outputs in self.cases:
                names = [tensor.name for tensor in bundle.inputs]
                by_name = bundle.run(dict(zip(names, inputs, strict=True)))
                # In the reference's order, where it calls outputs as the model does.
                order = self.outputs if set(self.outputs) == set(by_name) else tuple(by_name)
                found = [by_name[name] for name in order]
                assert len(found) == len(outputs)
                for ours, theirs in zip(found, outputs, strict=True):
                    tolerance = max(1e-4 * float(np.abs(theirs).max()), 4 * self.spread)
                    np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=0, atol=tolerance)


def frontend_model(name: str) -> FrontendModel:
    """A development model, or a skip."""
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip(f"the development model {name} is not here")
    meta = json.loads((folder / "meta.json").read_text())
    arrays = np.load(folder / "ref.npz")

    def side(case: int, kind: str) -> list[np.ndarray]:
        count = sum(key.startswith(f"c{case}_{kind}") for key in arrays)
        return [arrays[f"c{case}_{kind}{n}"] for n in range(count)]

    # OpenCV's batch normalization is another one than DarkNet's.
    spread = {key: value for key, value in (meta.get("spread") or {}).items() if "OpenCV" not in key}
    spreads = [value for value in spread.values() if isinstance(value, (int, float))]
    cases = tuple((side(n, "in"), side(n, "out")) for n in range(meta["n_cases"]))
    outputs = tuple(each["name"] for each in meta["outputs"])
    return FrontendModel(name, folder / meta["file"], cases, max(spreads, default=0.0), outputs)
