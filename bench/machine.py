"""What this machine can do at most, measured: the figures that everything else is a percentage of."""

from __future__ import annotations

import functools
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """GFLOP/s of fp32 fused multiply-adds, GB/s of reading memory, and GOP/s of dot products of bytes (0: none)."""

    gflops: float
    gbytes: float
    gops: float


@functools.cache
def limits(threads: int) -> Limits:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "peak"
        source = Path(__file__).with_name("peak.c")
        flags = ["-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast", "-fno-sanitize=all"]
        if platform.machine() not in ("x86_64", "AMD64"):
            flags.remove("-mprefer-vector-width=512")
        command = [sys.executable, "-m", "ziglang", "cc", *flags, str(source), "-lpthread", "-o", str(program)]
        subprocess.run(command, check=True)
        said = subprocess.run([str(program), str(threads)], check=True, capture_output=True, text=True).stdout
    return Limits(*map(float, said.split()))


def describe() -> str:
    """The processor's name, for the head of a report."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()
