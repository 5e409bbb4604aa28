"""What this machine can do at most, measured: the figures that everything else is a percentage of."""

from __future__ import annotations

import functools
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sterna.cache import Cache, cache_directory, key
from sterna.scratch import temporary_directory


@dataclass(frozen=True)
class Limits:
    """GFLOP/s of fp32 fused multiply-adds, GOP/s of products of bytes, vectors or tiles (0: none), and GB/s of reading.

    Args:
        reading: bytes that a thread reads again and again, and its rate; the last of them are beyond all caches.
    """

    gflops: float
    gops: float
    reading: tuple[tuple[int, float], ...]

    @property
    def gbytes(self) -> float:
        """GB/s from memory."""
        return self.reading[-1][1]

    def rate(self, between: int) -> float:
        """GB/s of reading what is read again when so many bytes have been read."""
        return next((rate for size, rate in self.reading if between <= size), self.gbytes)


@functools.cache
def limits(threads: int) -> Limits:
    """Of so many threads, measured now by `peak.c`."""
    with temporary_directory("peak") as folder:
        program = Path(folder) / "peak"
        source = Path(__file__).with_name("peak.c")
        flags = ["-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast", "-fno-sanitize=all"]
        if platform.machine() not in ("x86_64", "AMD64"):
            flags.remove("-mprefer-vector-width=512")
        command = [sys.executable, "-m", "ziglang", "cc", *flags, str(source), "-lpthread", "-o", str(program)]
        subprocess.run(command, check=True, capture_output=True)
        said = subprocess.run([str(program), str(threads)], check=True, capture_output=True, text=True).stdout
    return _read(said)


def _read(said: str) -> Limits:
    gflops, gops, *rates = map(float, said.split())
    return Limits(gflops, gops, tuple(zip(map(int, rates[::2]), rates[1::2], strict=True)))


def known_limits(threads: int) -> Limits | None:
    """Those of this machine, measured once and kept; None where they cannot be measured, as on Windows."""
    store = Cache("limits", cache_directory())
    entry = key("limits", describe(), platform.machine(), str(threads), Path(__file__).with_name("peak.c").read_bytes())
    if (kept := store.get(entry)) is not None:
        return _read(kept.decode())
    try:
        found = limits(threads)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    rates = " ".join(f"{size} {rate}" for size, rate in found.reading)
    store.put(entry, f"{found.gflops} {found.gops} {rates}".encode())
    return found


def describe() -> str:
    """The processor's name, for the head of a report."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()
