"""How long compiling takes, and how much memory.

    python compiling.py MODEL GENERATOR     # one compilation, as JSON

Each is a process of its own without caches, from the model's file to the written bundle. What an installation brings
along, the C runtime, is there before; Python's start and imports count.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sterna.api import compile_model
from sterna.bundle.writer import write_bundle
from sterna_runtime.library import load

#: Compilations of which the fastest counts.
ROUNDS = 3
#: Seconds that a compilation may take on two processors: at all, and for each kernel.
BASE, EACH = 0.5, 0.025
_SECONDS = 600.0


@dataclass(frozen=True)
class Compilation:
    """One compilation.

    Args:
        seconds: by the clock; python, compilers: CPU seconds of this process and of the C compilers.
        memory: bytes, at the peak of this process less those that Python and its modules take; params: the weights'.
    """

    seconds: float
    python: float
    compilers: float
    kernels: int
    memory: int
    params: int

    @property
    def reach(self) -> float:
        """Seconds that it may take."""
        return BASE + EACH * self.kernels


def compilation(model: Path, generator: str, rounds: int = ROUNDS) -> Compilation | str:
    """The fastest of several compilations; the reason where it fails."""
    found = []
    for _ in range(rounds):
        command = [sys.executable, __file__, str(model), generator]
        start = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return f"takes more than {_SECONDS:.0f} s"
        if done.returncode != 0:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}"
        seconds = time.perf_counter() - start
        facts = json.loads(done.stdout)
        found.append(Compilation(**{**facts, "seconds": seconds - facts["seconds"]}))
    return min(found, key=lambda each: each.seconds)


def _measure(model: str, generator: str) -> Compilation:
    """Compiles here; `seconds` are those that it took to prepare, which do not count."""
    start, before = time.perf_counter(), _cpu(resource.RUSAGE_CHILDREN)
    load()
    prepared, built = time.perf_counter() - start, _cpu(resource.RUSAGE_CHILDREN) - before
    os.environ["STERNA_NO_CACHE"] = "1"
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_model(model, generator=generator)
        write_bundle(compiled, Path(folder) / "bundle")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    compilers = _cpu(resource.RUSAGE_CHILDREN) - before - built
    kernels, params = len(compiled.kernels), len(compiled.params)
    return Compilation(prepared, _cpu(resource.RUSAGE_SELF), compilers, kernels, peak - resident, params)


def _cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def rows(found: Sequence[tuple[str, str, Compilation | str]]) -> list[tuple[str, ...]]:
    """The table of (model, generator, what was found), as text."""
    texts = []
    for label, generator, each in found:
        if isinstance(each, str):
            texts.append((label, generator, each, *[""] * 6))
            continue
        within = "" if each.seconds <= each.reach else "  over"
        texts.append(
            (
                label,
                generator,
                f"{each.seconds:.2f} s",
                f"{each.reach:.2f} s{within}",
                str(each.kernels),
                f"{1000 * each.seconds / max(each.kernels, 1):.0f} ms",
                f"{each.python:.2f} s",
                f"{each.compilers:.2f} s",
                f"{each.memory / 1e6:.0f} MB, weights {each.params / 1e6:.0f}",
            )
        )
    return texts


COLUMNS = ("model", "generator", "time", "reach", "kernels", "a kernel", "CPU: Python", "C compilers", "memory")

if __name__ == "__main__":
    print(json.dumps(asdict(_measure(*sys.argv[1:]))))
