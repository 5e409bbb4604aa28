"""What NVIDIA's ptxas says of kernels: the registers of their threads, what spills, and how many threads of a
multiprocessor that leaves room for. Neither compiling nor running needs it; `pip install nvidia-cuda-nvcc` brings it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sterna.scratch import temporary_directory

#: By compute capability, threads, groups and bytes of shared memory that a multiprocessor has room for (CUDA C++
#: Programming Guide, "Compute Capabilities").
LIMITS = {"sm_75": (1024, 16, 64 << 10), "sm_80": (2048, 32, 164 << 10), "sm_90": (2048, 32, 228 << 10)}
LIMITS["sm_90a"] = LIMITS["sm_90"]
#: Registers of a multiprocessor; a warp, which is so many threads, is given a multiple of so many of them.
REGISTERS, WARP, UNIT = 65536, 32, 256
#: Bytes of shared memory that the system takes of each group, from 8.0 on.
RESERVED = 1024


@dataclass(frozen=True)
class Registers:
    """What ptxas says of a kernel.

    Args:
        registers: of a thread; spilled: bytes that a thread stores and loads for want of them.
        shared_bytes: of a group.
    """

    name: str
    registers: int
    spilled: int
    shared_bytes: int

    def occupancy(self, capability: str, threads: int, shared_bytes: int = 0) -> float:
        """The share of a multiprocessor's threads that there is room for at a time, in groups of so many.

        Args:
            shared_bytes: of a group, with what its launch asks for.
        """
        most, groups, memory = LIMITS[capability]
        warps = -(-threads // WARP)
        of_warp = -(-self.registers * WARP // UNIT) * UNIT
        shared = max(self.shared_bytes, shared_bytes) + (0 if capability == "sm_75" else RESERVED)
        fits = [most // (warps * WARP), groups, REGISTERS // (of_warp * warps), memory // shared if shared else groups]
        return min(fits) * warps * WARP / most


def find() -> Path | None:
    """The program: on the path, or among this Python's packages; None where it is not installed."""
    if found := shutil.which("ptxas"):
        return Path(found)
    programs = (program for place in sys.path for program in Path(place).glob("nvidia/*/bin/ptxas"))
    return next(programs, None)


def registers_of(module: str, capability: str, program: Path) -> Mapping[str, Registers]:
    """What ptxas says of the kernels of a module of PTX, by their names.

    Raises:
        RuntimeError: it refuses the module.
    """
    with temporary_directory("ptxas") as folder:
        file = Path(folder) / "kernels.ptx"
        file.write_text(module)
        return said_of([program, f"-arch={capability}", "-v", file, "-o", file.with_suffix(".cubin")])


def nvcc(program: Path, capability: str, file: Path) -> list[str | Path]:
    """The command that compiles CUDA C++ as `registers_of` does PTX, by the nvcc beside ptxas."""
    flags = [f"-arch={capability}", "-cubin", "-fmad=false", "-Xptxas", "-v"]
    return [program.with_name("nvcc"), *flags, file, "-o", file.with_suffix(".cubin")]


def said_of(command: list[str | Path]) -> Mapping[str, Registers]:
    """What a command prints of kernels that ends with ptxas.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode != 0:
        raise RuntimeError("\n".join(line for line in said.splitlines() if "rror" in line)[:2000] or said[:2000])
    found = map(_read, said.split("Compiling entry function")[1:])
    return {each.name: each for each in found}


def _read(said: str) -> Registers:
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    registers, shared = re.search(r"Used (\d+) registers", said), re.search(r"(\d+) bytes smem", said)
    return Registers(
        said.split("'")[1],
        int(registers[1]) if registers else 0,
        sum(map(int, spills.groups())) if spills else 0,
        int(shared[1]) if shared else 0,
    )
