"""Compiles what `keras_models.py` wrote: all forms of a model give one set of numbers, which is that of Keras.

    python bench/keras_compare.py FOLDER [NAME ...]

No element of a form may be further from Keras', or from the first form's, than 1e-4 of the largest output. Both
distances are shown: forms are read to one graph, or to one that rounds otherwise, as the converter of TensorFlow.js
folds scales into weights. The exit status is 0 if all agree.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

import sterna

FORMS = {
    ".keras": "model.keras", ".h5": "model.h5", "SavedModel": "saved", "layers": "layers/model.json",
    "layers of .h5": "layers_h5/model.json", "graph": "graph/model.json",
}  # fmt: skip
TOLERANCE = 1e-4
#: What the largest output counts as at least: 1e-4 of it is the rounding of numbers near 1.
LEAST_SCALE = 1e-3


def results_of(model: Path, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What a model computes. Inputs are found by name, or where there is one by its place."""
    first = next(iter(given.values()))
    with sterna.compile(model, generator="llvm", tuning=False, dims={"batch": len(first)}) as bundle:
        names = [tensor.name for tensor in bundle.inputs]
        by_name = given if len(names) > 1 else {names[0]: first}
        found = bundle.run(by_name)
    # The converter of TensorFlow.js lists the outputs of a signature, `Identity_1` ..., in any order.
    numbers = [re.fullmatch(r"(?:Identity|output)(?:_(\d+))?", name) for name in found]
    if not all(numbers):
        return list(found.values())
    order = sorted(
        zip((int(each[1] or 0) for each in numbers if each), found.values(), strict=True), key=lambda p: p[0]
    )
    return [value for _, value in order]


def distance(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """The largest difference as a share of the largest element, infinite where shapes or types differ."""
    if [(a.shape, a.dtype) for a in found] != [(b.shape, b.dtype) for b in wanted]:
        return np.inf
    shares = [
        float(np.abs(a.astype(np.float64) - b).max(initial=0)) / max(LEAST_SCALE, float(np.abs(b).max(initial=0)))
        for a, b in zip(found, wanted, strict=True)
    ]
    return max(shares) if np.isfinite(shares).all() else np.inf


def outcome_of(folder: Path) -> tuple[bool, str]:
    """Whether all forms of a model agree, and the figures."""
    with np.load(folder / "case.npz") as held:
        given = {key[3:]: held[key] for key in held.files if key.startswith("in_")}
        wanted = [held[f"out{n}"] for n in range(sum(key.startswith("out") for key in held.files))]
    told, agree, first = [], True, None
    for form, file in FORMS.items():
        if not (folder / file).exists():
            continue
        try:
            found = results_of(folder / file, given)
        except sterna.SternaError as problem:
            agree = False
            told.append(f"{form}: refused: {'; '.join(each.title for each in problem.diagnostics[:2])}")
            continue
        first = found if first is None else first
        of_keras, of_first = distance(found, wanted), distance(found, first)
        right = max(of_keras, of_first) <= TOLERANCE
        agree &= right
        told.append(f"{form} {of_keras:.1e}" + (f" ({of_first:.1e})" if of_first else "") + ("" if right else " WRONG"))
    return agree and bool(told), ", ".join(told)


def main() -> int:
    folder, chosen = Path(sys.argv[1]), set(sys.argv[2:])
    cases = [case.parent for case in sorted(folder.glob("*/case.npz")) if not chosen or case.parent.name in chosen]
    agreed = 0
    for case in cases:
        agree, text = outcome_of(case)
        agreed += agree
        print(f"{case.name}: {text}", flush=True)
    print(f"{agreed} of {len(cases)}: one set of numbers in all forms, and Keras' (in brackets: beside the first form)")
    return int(agreed < len(cases) or not cases)


if __name__ == "__main__":
    sys.exit(main())
