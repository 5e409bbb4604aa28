"""Whether zig and LLVM know the processor that a user's target description names: asked before anything is compiled.

Otherwise a typing error in `cpu` ends as generated code that a compiler rejects.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from sterna.errors import Diagnostic, SternaError
from sterna.scratch import scratch_folder
from sterna.targets.tables import line_of
from sterna.targets.target import Target
from sterna.toolchain import zig as zigs
from sterna_runtime.building import zig_environment

#: Makes a machine for LLVM, which says on standard error what it does not know, and goes on.
_ASK_LLVM = """
import sys, llvmlite.binding as llvm
llvm.initialize_all_targets(), llvm.initialize_all_asmprinters()
llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu=sys.argv[2], features=sys.argv[3])
"""
_SECONDS = 60


def check_processor(target: Target) -> None:
    """Asks about a target that a user describes; Sterna's own are known.

    Raises:
        SternaError: E0202, `triple`, `cpu`, `llvm_triple`, `llvm_cpu` or `llvm_features` is not known.
    """
    if not target.file:
        return
    problems = []
    for key, title, fix in (
        *_zig_says(target.triple, target.cpu),
        *_llvm_says(target.llvm_triple, target.llvm_cpu, target.llvm_features),
    ):
        problems.append(Diagnostic("E0202", title, (line_of(Path(target.file), key),), fix))
    if problems:
        raise SternaError(problems)


_Found = tuple[tuple[str, str, str], ...]


@lru_cache(maxsize=32)
def _zig_says(triple: str, cpu: str) -> _Found:
    """(key, what is wrong, what to do) as far as zig complains."""
    if not triple or zigs.find_zig() is None:
        return ()
    with scratch_folder("target") as directory:
        (directory / "empty.c").write_text("")
        machine = ["-target", triple, *([f"-mcpu={cpu}"] if cpu else [])]
        done = subprocess.run(
            [*zigs.zig("cc", *machine), "-ffreestanding", "-c", "empty.c", "-o", "empty.o"],
            cwd=directory, env=zig_environment(directory), capture_output=True, text=True, errors="replace",
            check=False, timeout=_SECONDS,
        )  # fmt: skip
    if done.returncode == 0:
        return ()
    said = next((line.strip() for line in done.stderr.splitlines() if "error" in line), "it failed")
    lower = said.lower()
    if cpu and ("cpu" in lower or "feature" in lower):
        near = _near(cpu, done.stderr)
        fix = f"a name that `zig cc -target {triple} -mcpu=help` lists{f', such as {near}' if near else ''}"
        return (("cpu", f'cpu: zig does not know "{cpu}" for {triple}', fix),)
    return (("triple", f'triple: zig does not take "{triple}": {said}', "such as aarch64-linux-gnu.2.28"),)


def _near(cpu: str, listed: str) -> str:
    """Names that zig lists with its refusal and that are close to what was given."""
    import difflib  # noqa: PLC0415 (only for a mistake)

    names = re.findall(r"^\s+([A-Za-z0-9_]+)\s*$", listed, re.M)
    return ", ".join(difflib.get_close_matches(cpu.partition("+")[0], names, 3))


@lru_cache(maxsize=32)
def _llvm_says(triple: str, cpu: str, features: tuple[str, ...]) -> _Found:
    if not triple:
        return ()
    done = subprocess.run(
        [sys.executable, "-c", _ASK_LLVM, triple, cpu, ",".join(features)],
        capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS,
    )  # fmt: skip
    found = []
    if done.returncode != 0:
        return (
            ("llvm_triple", f'llvm_triple: LLVM has no target for "{triple}"', "such as aarch64-unknown-linux-gnu"),
        )
    for name in dict.fromkeys(re.findall(r"'([^']*)' is not a recognized processor", done.stderr)):
        found.append(("llvm_cpu", f'llvm_cpu: LLVM does not know "{name}" for {triple}', "a processor's name in LLVM"))
    for name in dict.fromkeys(re.findall(r"'([^']*)' is not a recognized feature", done.stderr)):
        fix = "features with + or -, by LLVM's names"
        found.append(("llvm_features", f'llvm_features: LLVM does not know "{name}" for {triple}', fix))
    return tuple(found)
