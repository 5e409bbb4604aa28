"""Compiles what `torch_export.py` wrote and compares the results with PyTorch's.

    python bench/torch_compare.py FOLDER [NAME ...]

A model agrees where no element is further from PyTorch's than 1e-4 of the largest output. One that is refused because
of operators that have no translation is no disagreement, and counted. The exit status is 0 if none disagrees.
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import numpy as np

import sterna
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions

TOLERANCE = 1e-4


def main() -> int:
    folder, chosen = Path(sys.argv[1]), set(sys.argv[2:])
    counts = {"agree": 0, "refused": 0, "disagree": 0}
    for arrays in sorted(folder.glob("*.npz")):
        if not chosen or arrays.stem in chosen:
            outcome, text = compared(arrays)
            counts[outcome] += 1
            print(f"{outcome:9} {arrays.stem}: {text}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 0 if counts["agree"] and not counts["disagree"] else 1


def compared(arrays: Path) -> tuple[str, str]:
    """What became of one model: agree, refused or disagree, and the figures."""
    file = arrays.with_suffix(".pt2")
    with np.load(arrays) as held:
        inputs = [held[f"in{n}"] for n in range(sum(key.startswith("in") for key in held.files))]
        wanted = [held[f"out{n}"] for n in range(sum(key.startswith("out") for key in held.files))]
    try:
        began = time.perf_counter()
        graph = read_model(file, ReadOptions())
        imported = time.perf_counter() - began
        with sterna.compile(file, generator="llvm", tuning=False) as bundle:
            compiled = time.perf_counter() - began - imported
            names = [value.name for value in graph.arguments]
            found = list(bundle.run(dict(zip(names, inputs, strict=False))).values())
    except SternaError as mistake:
        outcome = "refused" if set(mistake.codes) == {"E0104"} else "disagree"
        return outcome, "; ".join(problem.title for problem in mistake.diagnostics[:4])
    if [value.shape for value in found] != [value.shape for value in wanted]:
        return "disagree", f"shapes {[v.shape for v in found]}, not {[v.shape for v in wanted]}"
    largest = max((float(np.abs(value).max()) for value in wanted if value.size), default=0.0)
    error = max((float(np.abs(a - b).max()) for a, b in zip(found, wanted, strict=True) if b.size), default=0.0)
    share = error / largest if largest else math.inf
    text = f"{share:.1e} of the largest output; imported in {imported:.2f} s, compiled in {compiled:.1f} s"
    return "agree" if share <= TOLERANCE else "disagree", text


if __name__ == "__main__":
    sys.exit(main())
