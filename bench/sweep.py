"""Operators in forms that no network of the benchmark has, beside PyTorch and ONNX Runtime.

    python bench/sweep.py FOLDER --torch PYTHON [PATTERN ...]
    python bench/sweep.py FOLDER --table [PATTERN ...]              # what has been measured

PYTHON is an interpreter with torch, torchvision, onnxruntime and onnxscript. Cases (`bench/sweep_cases.py`,
`bench/sweep_data.py`) are exported by `torch.export`, compiled for this machine by Sterna's default options, held to
PyTorch's results, and timed in turns in one process: CPU time of one thread, the least of twelve turns. PyTorch runs
eagerly; ONNX Runtime has what PyTorch's exporter writes. The table has the faster peer's time over Sterna's by family,
and every case in which Sterna takes more than `--worst` times as long.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sterna
from sterna.errors import SternaError

TOLERANCE = 1e-3


def matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def compile_all(folder: Path, patterns: Sequence[str], generator: str | None, again: bool) -> Iterator[str]:
    """Bundles of what was exported; yields what is refused or wrong."""
    for file in sorted(folder.glob("*.pt2")):
        bundle = folder / file.stem
        if not matches(file.stem, patterns) or (bundle.exists() and not again):
            continue
        options = {"generator": generator} if generator else {}
        try:
            with sterna.compile(file, tuning=False, output=bundle, **options) as compiled:
                problem = compared(compiled, file.with_suffix(".npz"))
        except SternaError as refused:
            problem = "; ".join(diagnostic.title for diagnostic in refused.diagnostics[:2])
        if problem:
            yield f"{file.stem}: {problem}"


def compared(bundle: Any, arrays: Path) -> str:
    """What differs from PyTorch's results, or nothing."""
    with np.load(arrays) as held:
        inputs = [held[f"in{n}"] for n in range(sum(key.startswith("in") for key in held.files))]
        wanted = [held[f"out{n}"] for n in range(sum(key.startswith("out") for key in held.files))]
    found = list(bundle.run(dict(zip([spec.name for spec in bundle.inputs], inputs, strict=False))).values())
    for have, want in zip(found, wanted, strict=False):
        if have.shape != want.shape:
            return f"shape {have.shape}, not {want.shape}"
        finite = np.isfinite(want)
        error = (
            float(np.abs(np.where(finite, have - want, 0).astype(np.float64)).max(initial=0))
            if want.dtype != bool
            else 0
        )
        if error > TOLERANCE * max(float(np.abs(np.where(finite, want, 0)).max(initial=0)), 1e-30):
            return f"differs by {error:.2g}"
    return ""


def ratio(record: dict[str, Any]) -> float:
    """How often Sterna's time is the faster peer's."""
    return float(record["sterna"] / min(record[peer] for peer in ("torch", "onnxruntime") if peer in record))


def table(folder: Path, patterns: Sequence[str], worst: float) -> Iterator[str]:
    file = folder / "times.json"
    records = [r for r in json.loads(file.read_text()).values() if matches(r["name"], patterns)]
    families: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        families.setdefault(record["name"].split("-")[0], []).append(record)
    yield "| family | cases | x faster peer | least, and where |\n| --- | --- | --- | --- |"
    for family, members in sorted(families.items()):
        mean = math.exp(-sum(math.log(ratio(r)) for r in members) / len(members))
        least = max(members, key=ratio)
        yield f"| {family} | {len(members)} | {mean:.2f} | {1 / ratio(least):.2f}, {least['name']} |"
    mean = math.exp(-sum(math.log(ratio(r)) for r in records) / len(records))
    behind = sorted((r for r in records if ratio(r) > worst), key=ratio, reverse=True)
    yield f"| **all** | {len(records)} | {mean:.2f} | {len(behind)} take more than {worst:g} times as long |\n"
    yield "| case | Sterna us | PyTorch | ONNX Runtime | Sterna over faster |\n| --- | --- | --- | --- | --- |"
    for r in behind:
        other = f"{r['onnxruntime']:.1f}" if "onnxruntime" in r else ""
        yield f"| {r['name']} | {r['sterna']:.1f} | {r['torch']:.1f} | {other} | {ratio(r):.2f} |"


def time_all(folder: Path, python: str, patterns: Sequence[str]) -> None:
    """Adds to FOLDER/times.json."""
    file = folder / "times.json"
    lines = peers(python, "time", folder, patterns).splitlines()
    known = json.loads(file.read_text()) if file.exists() else {}
    for line in lines:
        if line.startswith("{"):
            record = json.loads(line)
            known[record["name"]] = record
    file.write_text(json.dumps(known, indent=0))


def peers(python: str, stage: str, folder: Path, patterns: Sequence[str]) -> str:
    script = Path(__file__).with_name("sweep_peers.py")
    path = os.pathsep.join((str(script.parents[1] / "compiler"), str(script.parent)))
    command = [python, str(script), stage, str(folder), *patterns]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="names of cases, with * and ?")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter with the peers")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--generator", choices=("c", "llvm"))
    parser.add_argument("--again", action="store_true", help="compile anew what is compiled")
    parser.add_argument("--worst", type=float, default=1.5)
    given = parser.parse_intermixed_args()
    if not given.table:
        if not given.torch:
            parser.error("--torch PYTHON is needed")
        print(peers(given.torch, "write", given.folder, given.patterns), end="", flush=True)
        for problem in compile_all(given.folder, given.patterns, given.generator, given.again):
            print(problem, flush=True)
        time_all(given.folder, given.torch, given.patterns)
    print("\n".join(table(given.folder, given.patterns, given.worst)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
