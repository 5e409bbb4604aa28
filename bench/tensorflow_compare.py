"""Compiles what bench/tensorflow_cases.py wrote, and compares with what TensorFlow made of it.

python bench/tensorflow_compare.py FOLDER [NAME ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import sterna

TOLERANCE = 1e-4
#: Sums of products in float16 are rounded by both, in an order of their own.
LESS_EXACT = {"float16": 2e-3}


def outcome_of(folder: Path) -> str:
    """An empty text, or what is wrong."""
    case = np.load(folder / "case.npz")
    try:
        with sterna.compile(folder, generator="llvm") as bundle:
            names = sorted(tensor.name for tensor in bundle.inputs)
            operands = [case[f"x{n}"] for n in range(len(case.files) - 1)]
            (found,) = bundle.run(dict(zip(names, operands, strict=True))).values()
    except sterna.SternaError as problem:
        return f"refused: {problem}"
    wanted = case["y"]
    if found.shape != wanted.shape:
        return f"wrong: {found.shape}, not {wanted.shape}"
    error = float(np.abs(found.astype(np.float64) - wanted).max(initial=0))
    return (
        ""
        if error <= LESS_EXACT.get(folder.name, TOLERANCE) * max(1.0, float(np.abs(wanted).max(initial=0)))
        else f"wrong: by {error:.1e}"
    )


def main(folder: Path, wanted: list[str]) -> int:
    cases = sorted(each for each in folder.iterdir() if not wanted or each.name in wanted)
    outcomes = {case.name: outcome_of(case) for case in cases}
    for name, outcome in outcomes.items():
        if outcome:
            print(f"{name}: {outcome}")
    failed = sum(bool(outcome) for outcome in outcomes.values())
    print(f"{len(outcomes) - failed} of {len(outcomes)} as TensorFlow")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
