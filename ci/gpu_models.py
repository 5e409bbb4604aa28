"""Every float model of the development set, and `sterna demo`'s, as a bundle for OpenCL beside one for this machine."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "compiler"), str(ROOT / "tests")]

import sterna  # noqa: E402
from support.trained import FOLDER, Trained, sample  # noqa: E402

#: Of the largest output.
TOLERANCE = 1e-4


def error_of(model: Trained) -> float:
    """The largest difference from this machine's own results, relative to the largest output; NaN where something is no
    number on one side, and where nothing was compared."""
    shapes, errors = model.shapes(), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        there = sterna.compile(model.file, "opencl", shapes=shapes, output=Path(folder) / "there")
        here = sterna.compile(model.file, "host", shapes=shapes, output=Path(folder) / "here")
        with there, here:
            for case in model.cases[:2]:
                if {name: x.shape for name, x in case.inputs.items()} != shapes:
                    continue
                wanted, found = here.run(case.inputs), there.run(case.inputs)
                for name, want in wanted.items():
                    if want.dtype.kind == "f" and want.size:
                        errors.append(float(np.abs(found[name] - want).max() / max(1e-30, np.abs(want).max())))
    return float(np.max(errors)) if errors else float("nan")


def main() -> int:
    names = sys.argv[1:] or ["digits", *sorted(p.name for p in FOLDER.iterdir() if p.name.endswith("_f32"))]
    bad = []
    for name in names:
        start = time.monotonic()
        try:
            error = error_of(sample(name))
        except sterna.SternaError as problem:
            bad.append(name)
            print(f"{name}: {problem}", flush=True)
            continue
        print(f"{name}: {error:.1e}, {time.monotonic() - start:.0f} s", flush=True)
        bad += [] if error <= TOLERANCE else [name]
    print(f"{len(names) - len(bad)} of {len(names)} within {TOLERANCE:g}" + (f"; not: {', '.join(bad)}" if bad else ""))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
