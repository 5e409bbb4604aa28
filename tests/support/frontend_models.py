"""Trained models of formats other than ONNX and TensorFlow Lite, with references (../shared/models_frontends)."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sterna
from sterna.frontends.formats import describe_model, read_model
from sterna.frontends.frontend import ReadOptions
from support.tools import ROOT
from support.trained import Case, Trained, agree

FOLDER = Path(os.environ.get("STERNA_FRONTEND_MODELS", ROOT.parent / "shared" / "models_frontends"))

#: Inputs that sizes depend on, by which the number of scales of MTCNN's pyramid is decided.
FIXED = ("min_size", "factor")


def frontend_model_names() -> list[str]:
    """The development models of these formats, by name; none where their folder is not here."""
    return sorted(p.name for p in FOLDER.iterdir() if (p / "meta.json").is_file()) if FOLDER.is_dir() else []


def _given(folder: Path, file: str) -> Path:
    """What a user gives: the folder of a SavedModel or of an .mlpackage, not the file in its depth."""
    return folder / Path(file).parts[0]


@lru_cache
def frontend_model(name: str) -> Trained:
    """A development model, its cases by the names, sizes and types that its graph has, or a skip."""
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip(f"the development model {name} is not here")
    meta = json.loads((folder / "meta.json").read_text())
    if meta["format"].startswith("CoreML") and find_spec("coremltools") is None:
        pytest.skip("Core ML is read with coremltools")
    arrays = np.load(folder / "ref.npz")
    file = _given(folder, meta["file"])

    def side(case: int, kind: str) -> list[np.ndarray]:
        count = sum(key.startswith(f"c{case}_{kind}") for key in arrays)
        return [arrays[f"c{case}_{kind}{n}"] for n in range(count)]

    def name_of(entry: dict[str, Any]) -> str:
        return str(entry["name"]).removesuffix(":0")

    def by_name(array: dict[str, np.ndarray], order: list[str]) -> list[np.ndarray]:
        # Layers models of TensorFlow.js call their outputs otherwise: these are in the model's order.
        return [array[n] for n in order] if set(order) == set(array) else list(array.values())

    values = {each: float(side(0, "in")[n]) for n, each in enumerate(map(name_of, meta["inputs"])) if each in FIXED}
    names = [each.name for each in describe_model(file).inputs]
    cases = []
    for number in range(meta["n_cases"]):
        arrays_in = dict(zip(map(name_of, meta["inputs"]), side(number, "in"), strict=True))
        # Old files call inputs otherwise than the reference does: these stand in the model's order.
        given = dict(zip(names, by_name(arrays_in, names), strict=True))
        given = {key: array for key, array in given.items() if key not in values}
        wanted = dict(zip(map(name_of, meta["outputs"]), side(number, "out"), strict=True))
        graph = read_model(file, ReadOptions(shapes={k: v.shape for k, v in given.items()}, values=values or None))
        ins = zip(graph.inputs, given.values(), strict=False)  # states come after the inputs
        outs = zip(graph.outputs, by_name(wanted, list(graph.output_names)), strict=False)
        sized = [array.reshape(_sizes(value, array)).astype(value.dtype) for value, array in outs]
        cases.append(Case({value.name: array.astype(value.dtype) for value, array in ins}, sized))
    # OpenCV's batch normalization is another one than DarkNet's.
    spread = {key: value for key, value in (meta.get("spread") or {}).items() if "OpenCV" not in key}
    spreads = [value for value in spread.values() if isinstance(value, (int, float))]
    return Trained(name, file, tuple(cases), max(spreads, default=0.0), values=values)


def _sizes(value: Any, array: np.ndarray) -> tuple[int, ...]:
    """The sizes of a result of the graph; of one whose sizes data decide, those of the reference."""
    if not value.type.is_static:
        return array.shape
    return value.type.sizes  # type: ignore[no-any-return]


def holds_to_its_reference(model: Trained, dims: dict[str, Any] | None = None, **options: Any) -> None:
    """Compiles a model and compares all its cases: 1e-4 of the largest output, or four times the runtimes' spread."""
    shapes = {} if dims else {"shapes": model.shapes()}
    with sterna.compile(model.file, dims=dims, **shapes, **options) as bundle:
        for number, case in enumerate(model.cases):
            if not dims and model.shapes(number) != model.shapes():
                continue
            bundle.reset_state()
            agree(model, number, list(bundle.run(case.inputs).values()))
