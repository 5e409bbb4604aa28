"""Reads random cases and compares what they compute with what the framework did.

    python -m random_layers.compare FOLDER [--compile EVERY] [--case N]

All of them are interpreted node by node; each EVERY-th one is compiled as well. A case agrees where no element is
further from the framework's than 1e-4 of the largest (what was computed in float16: 1e-2), with the same shapes and
element types. The largest counts as 1e-3 at least: 1e-7, one unit in the last place of numbers near 1, always passes.
The exit status is 0 if none disagrees; one that is refused because an operator has no translation is
counted and no disagreement.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

import sterna
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions
from sterna.ir import dtypes

TOLERANCE, OF_HALVES = 1e-4, 1e-2
#: What the largest element of an output counts as at least: 1e-4 of it is the rounding of numbers near 1.
LEAST_SCALE = 1e-3
#: What a case's model may be called, the first that is there.
MODELS = (
    "model.pt2", "model.keras", "model.h5", "model.json", "model-symbol.json", "model.mlpackage", "model.mlmodel",
    "model.prototxt", "model.cfg", "model.pb", "saved",
)  # fmt: skip


def difference(found: list[np.ndarray], wanted: list[np.ndarray], halves: bool) -> str:
    """An empty text, or how two lists of outputs differ."""
    if [value.shape for value in found] != [value.shape for value in wanted]:
        return f"shapes {[v.shape for v in found]}, not {[v.shape for v in wanted]}"
    for ours, theirs in zip(found, wanted, strict=True):
        if ours.dtype != theirs.dtype:
            return f"{ours.dtype}, not {theirs.dtype}"
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return "not the same NaN or infinity"
        exact = theirs.dtype.kind in "iub"
        scale = max(LEAST_SCALE, float(np.abs(b[finite]).max(initial=0)))
        error = float(np.abs(a[finite] - b[finite]).max(initial=0))
        if not error <= (0 if exact else (OF_HALVES if halves else TOLERANCE) * scale):
            return f"by {error:.2e} where the largest is {scale:.2e}"
    return ""


def outcome_of(folder: Path, compiled: bool) -> tuple[str, str]:
    """What became of a case: agree, refused or disagree, and why."""
    model = next((folder / name for name in MODELS if (folder / name).exists()), folder)
    with np.load(folder / "case.npz") as held:
        given = [held[key] for key in held.files if key.startswith("in_")]
        names = [key[3:] for key in held.files if key.startswith("in_")]
        wanted = [held[f"out{n}"] for n in range(sum(key.startswith("out") for key in held.files))]
    said = said_of(folder)
    halves = "float16" in said or "half" in said
    options = {"shapes": dict(zip(names, (x.shape for x in given), strict=True))} if model.suffix != ".pt2" else {}
    try:
        graph = read_model(model, ReadOptions(**options))
        inputs = {value.name: value for value in graph.arguments}
        by_name = all(name in inputs for name in names)
        pairs = {(name if by_name else own): x for name, own, x in zip(names, inputs, given, strict=True)}
        fed = {name: x.astype(dtypes.to_numpy(inputs[name].dtype)) for name, x in pairs.items()}
        with np.errstate(all="ignore"):
            results = interpret(graph, fed)
        found = [results[name] for name in graph.result_names]
        wrong = difference(found, wanted, halves)
        if compiled and not wrong:
            with sterna.compile(model, generator="llvm", tuning=False, **options) as bundle:
                wrong = difference(list(bundle.run(fed).values()), wanted, halves)
                wrong = wrong and "compiled: " + wrong
    except SternaError as mistake:
        refused = set(mistake.codes) == {"E0104"}
        text = "; ".join(f"{p.code} {p.title}" for p in mistake.diagnostics[:2])
        return ("refused" if refused else "disagree"), text
    except Exception:  # a mistake of ours is a finding like any other
        return "disagree", "an exception: " + " | ".join(traceback.format_exc().splitlines()[-3:])
    return ("disagree", wrong) if wrong else ("agree", "")


def said_of(folder: Path) -> str:
    """What the writer says of a case."""
    return (folder / "layers.txt").read_text().strip()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compile", type=int, default=20)
    parser.add_argument("--case", type=int)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for folder in sorted(path.parent for path in options.folder.glob("*/layers.txt")):
        number = int(folder.name)
        if options.case in {None, number}:
            outcome, text = outcome_of(folder, options.compile > 0 and number % options.compile == 0)
            counts[outcome] += 1
            if outcome != "agree":
                print(f"{outcome:8} {folder.name}: {text}\n    {said_of(folder)}", flush=True)
    print(", ".join(f"{counts[outcome]} {outcome}" for outcome in ("agree", "refused", "disagree")))
    return 0 if counts["agree"] and not counts["disagree"] else 1


if __name__ == "__main__":
    sys.exit(main())
