"""Float models as bundles for OpenCL beside ones for this machine: the development set's and `sterna demo`'s, or the
networks of ci/bench."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("compiler", "tests", "bench")]

import sterna  # noqa: E402
from environments import Environments  # noqa: E402
from models import COUNTED, Models  # noqa: E402
from support.trained import FOLDER, sample  # noqa: E402

#: Of the largest output.
TOLERANCE = 1e-4
Inputs = Mapping[str, np.ndarray[Any, Any]]


def error_of(model: Path, cases: Sequence[Inputs], shapes: Mapping[str, Any], target: str) -> float:
    """The largest difference from this machine's own results, relative to the largest output; NaN where something is no
    number on one side, and where nothing was compared."""
    errors = list[float]()
    with tempfile.TemporaryDirectory() as folder:
        there = sterna.compile(model, target, shapes=shapes, output=Path(folder) / "there")
        here = sterna.compile(model, "host", shapes=shapes, output=Path(folder) / "here")
        with there, here:
            for inputs in cases:
                if shapes and {name: x.shape for name, x in inputs.items()} != shapes:
                    continue
                wanted, found = here.run(inputs), there.run(inputs)
                for name, want in wanted.items():
                    if want.dtype.kind in "fiub" and want.size:
                        off = np.abs(found[name].astype(np.float64) - want).max()
                        errors.append(float(off / max(1e-30, np.abs(want.astype(np.float64)).max())))
    return float(np.max(errors)) if errors else float("nan")


def trained(names: Sequence[str], target: str) -> Iterator[tuple[str, Callable[[], float]]]:
    for name in names or ["digits", *sorted(p.name for p in FOLDER.iterdir() if p.name.endswith("_f32"))]:
        model = sample(name)
        yield name, partial(error_of, model.file, [case.inputs for case in model.cases[:2]], model.shapes(), target)


def networks(names: Sequence[str], target: str, work: Path) -> Iterator[tuple[str, Callable[[], float]]]:
    models = Models(work, Environments(work / "environments"))
    for model in models.find(names or COUNTED):
        yield model.label, partial(error_of, model.file, [models.inputs(model)], {}, target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of models; all, if none is named")
    parser.add_argument("--networks", action="store_true", help="those of ci/bench, which torch writes once")
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench", help="where these are kept")
    arguments = parser.parse_args()
    if arguments.networks:
        rows = networks(arguments.names, arguments.target, arguments.work.resolve())
    else:
        rows = trained(arguments.names, arguments.target)
    good, bad = 0, list[str]()
    for name, measured in rows:
        start = time.monotonic()
        try:
            error = measured()
        except sterna.SternaError as problem:
            bad.append(name)
            print(f"{name}: {problem}", flush=True)
            continue
        print(f"{name}: {error:.1e}, {time.monotonic() - start:.0f} s", flush=True)
        good += error <= TOLERANCE
        bad += [] if error <= TOLERANCE else [name]
    print(f"{good} of {good + len(bad)} within {TOLERANCE:g}" + (f"; not: {', '.join(bad)}" if bad else ""))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
