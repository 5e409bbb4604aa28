"""What llvm-mca says of the code that ran: cycles on processors of which LLVM has a model.

Counts of instructions reward slow instructions; these do not. A piece of straight code is taken to run over and over,
which holds of loops, where the time goes: what one run of it costs, times how often it ran. Memory is taken to be near.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from sterna.errors import error

#: Cores that cycles are estimated for.
CORES = ("cortex-a55", "cortex-a72", "cortex-a76", "apple-m1")
#: LLVM's model of a core, where it goes by another name. LLVM has only Cortex-A57's for "cortex-a76"; Neoverse N1 has
#: the pipeline of the A76, and since LLVM 16 a model of its own.
_MODELS = {"cortex-a76": "neoverse-n1"}
#: Features that the cores of a name lack: of code with such instructions nothing can be said for them.
_ATTRIBUTES = "+dotprod,+i8mm,+bf16,+fullfp16,+rdm,+lse"
#: Of all instructions, so many are in the pieces that are looked at; the others are taken to be alike.
SHARE = 0.97
_RUNS = 64
_VERSIONS = (*(f"-{n}" for n in range(24, 13, -1)), "")


def tool(name: str) -> str:
    """The newest installed version of a program of LLVM.

    Raises:
        SternaError: E0004, it is not installed.
    """
    found = next((path for version in _VERSIONS if (path := shutil.which(f"{name}{version}"))), None)
    if found is None:
        raise error("E0004", f"{name} is not installed: it estimates cycles", fix="apt-get install llvm-19")
    return found


def version() -> str:
    """Whose estimates these are: those of two versions do not compare."""
    done = subprocess.run([tool("llvm-mca"), "--version"], capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split("\n", 1)[0].split())


def estimate(blocks: Mapping[tuple[str, ...], int], cores: Iterable[str] = CORES) -> dict[str, float]:
    """Cycles of all pieces of code on each core; cores without the instructions are left out."""
    every = sum(len(words) * count for words, count in blocks.items())
    taken, covered = [], 0
    for words, count in sorted(blocks.items(), key=lambda item: -len(item[0]) * item[1]):
        taken.append((words, count))
        covered += len(words) * count
        if covered >= SHARE * every:
            break
    texts = _assembly([words for words, _ in taken])
    found = {}
    for core in cores:
        per_run = _cycles(texts, core)
        if per_run is not None:
            cycles = sum(cycles * count for cycles, (_, count) in zip(per_run, taken, strict=True))
            found[core] = cycles * every / covered
    return found


def _assembly(pieces: Sequence[tuple[str, ...]]) -> list[str]:
    """Every piece as text."""
    lines = []
    for words in pieces:
        for word in words:
            octets = bytes.fromhex(word)[::-1]
            lines.append(" ".join(f"0x{octet:02x}" for octet in octets))
    command = [tool("llvm-mc"), "--disassemble", "-triple=aarch64-linux-gnu", f"-mattr={_ATTRIBUTES},+v8.6a"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    texts = [line.strip() for line in done.stdout.splitlines() if line.startswith("\t") and ".text" not in line]
    if len(texts) != len(lines):
        raise error("E0004", f"llvm-mc does not read the code that ran: {done.stderr.strip()[:200]}")
    found, at = [], 0
    for words in pieces:
        found.append("\n".join(texts[at : at + len(words)]))
        at += len(words)
    return found


def _cycles(texts: Sequence[str], core: str) -> list[float] | None:
    """Of a run of each piece; None if the core's model lacks an instruction."""
    regions = (f"# LLVM-MCA-BEGIN r{n}\n{text}\n# LLVM-MCA-END\n" for n, text in enumerate(texts))
    model = _MODELS.get(core, core)
    command = [tool("llvm-mca"), "-mtriple=aarch64-linux-gnu", f"-mcpu={model}", f"-mattr={_ATTRIBUTES}"]
    command += [f"-iterations={_RUNS}", "-instruction-info=0", "-resource-pressure=0"]
    done = subprocess.run(command, input="".join(regions), capture_output=True, text=True, check=False)
    found = [int(n) / _RUNS for n in re.findall(r"^Total Cycles:\s+(\d+)", done.stdout, re.M)]
    return found if done.returncode == 0 and len(found) == len(texts) else None
