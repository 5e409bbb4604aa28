"""Whether this machine does what its processor says: a product is compiled for a target, run and compared, by another
process, which may die of it.

A processor can have instructions that the operating system does not let a process use, or that a virtual machine gets
wrong. The answer is kept in the cache until the package, the processor or the system changes.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from sterna.cache import Cache, cache_directory, key
from sterna.scratch import temporary_directory
from sterna.version import __version__

#: The module that compiles and compares; it takes the target's name and ends with 0 where all is well.
MODULE = "sterna.debug.self_test"
SECONDS = 120
_PASSED, _FAILED = b"passed", b"failed"


@lru_cache(maxsize=8)
def passes_self_test(target: str) -> bool:
    """Whether kernels for a target compute on this machine what they should."""
    store = Cache("self-tests", cache_directory())
    machine = (llvm.get_host_cpu_name(), repr(sorted(llvm.get_host_cpu_features().items())), platform.platform())
    entry = key("self-test", target, __version__, llvmlite.__version__, *machine)
    return store.get_or_make(entry, lambda: _PASSED if run_self_test(target) else _FAILED) == _PASSED


def run_self_test(target: str, environment: Mapping[str, str] | None = None) -> bool:
    """The same, without the cache; `environment` adds to that of this process."""
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *(str(Path(p).absolute()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(environment or {})}
    try:
        # `-m` looks for modules in the working directory first: one where nobody has put any.
        with temporary_directory("self-test") as folder:
            done = subprocess.run(
                [sys.executable, "-m", MODULE, target],
                env=variables,
                cwd=folder,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
