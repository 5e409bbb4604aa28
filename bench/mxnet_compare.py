"""Compiles what `mxnet_cases.py` wrote and compares the results with MXNet's.

    python bench/mxnet_compare.py FOLDER [NAME ...]

The exit status is 0 if no case disagrees; an operator without a translation is counted, and no disagreement.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.formats import read_model
from sterna.frontends.frontend import ReadOptions

TOLERANCE = 1e-4


def compared(folder: Path) -> tuple[str, str]:
    """What became of a case, and why."""
    held = np.load(folder / "ref.npz")
    inputs = {key[3:]: held[key] for key in held if key.startswith("in_")}
    wanted = [held[f"out{n}"] for n in range(sum(key.startswith("out") for key in held))]
    try:
        shapes = {key: value.shape for key, value in inputs.items()}
        graph = read_model(folder / "model-symbol.json", ReadOptions(shapes=shapes))
        found = list(interpret(graph, {v.name: inputs[v.name].astype(v.dtype) for v in graph.inputs}).values())
    except SternaError as mistake:
        outcome = "refused" if set(mistake.codes) == {"E0104"} else "disagree"
        return outcome, mistake.diagnostics[0].title
    if [value.shape for value in found] != [value.shape for value in wanted]:
        return "disagree", f"shapes {[v.shape for v in found]}, not {[v.shape for v in wanted]}"
    errors = [
        float(np.nanmax(np.abs(ours.astype(np.float64) - theirs), initial=0))
        / max(1.0, float(np.abs(theirs).max(initial=0)))
        for ours, theirs in zip(found, wanted, strict=True)
    ]
    return ("agree" if max(errors) < TOLERANCE else "disagree"), f"{max(errors):.1e}"


def main() -> int:
    root, chosen = Path(sys.argv[1]), set(sys.argv[2:])
    counts = {"agree": 0, "refused": 0, "disagree": 0}
    for folder in sorted(root.iterdir()):
        if not chosen or folder.name in chosen:
            outcome, text = compared(folder)
            counts[outcome] += 1
            if outcome != "agree":
                print(f"{outcome:9} {folder.name}: {text}", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 0 if counts["agree"] and not counts["disagree"] else 1


if __name__ == "__main__":
    sys.exit(main())
