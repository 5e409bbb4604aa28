"""Golden sets for trained models: what this machine computes for a model's own inputs, in a bundle for another one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

import sterna
from sterna.api import compile_model, compile_to
from sterna.bundle.directory import write_files
from sterna.bundle.writer import bundle_files
from sterna.debug.golden import golden_files
from sterna_runtime.golden import GoldenSet
from support.matrix import NEAR
from support.trained import Trained


def of_this_machine(model: Trained, work: Path) -> tuple[Mapping[str, bytes], float]:
    """The files of a golden set of the model's first case, and its tolerance: floats within NEAR of an output's
    largest, or as far as the reference runtimes themselves are apart.
    """
    compile_to(work / "here", model.file, "host", shapes=model.shapes(), generator="llvm")
    with sterna.load(work / "here") as loaded:
        outputs = dict(loaded.run(model.cases[0].inputs))
    largest = min(
        (float(np.abs(each).max(initial=0)) for each in outputs.values() if each.dtype.kind == "f"), default=0.0
    )
    near = max(NEAR, model.spread / largest) if largest else NEAR
    return golden_files("this machine", [GoldenSet(model.cases[0].inputs, outputs)], near), near


def bundle(model: Trained, target: str, golden: Mapping[str, bytes], work: Path) -> Path:
    """The model compiled for a target, with golden sets."""
    compiled = compile_model(model.file, target, shapes=model.shapes(), generator="llvm")
    write_files(bundle_files(compiled, golden), work / model.name)
    return work / model.name
