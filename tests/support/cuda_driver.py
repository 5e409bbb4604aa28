"""The test driver of CUDA: `cuda_driver.cpp` as this process's libcuda.so.1, so that bundles for CUDA run here."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

from support.tools import need, run

HERE = Path(__file__).parent
#: How kernels are compiled.
KERNELS = ("-std=gnu++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-w")


def build(folder: Path, *flags: str) -> Path:
    """The library, with what it compiles beside it in the folder."""
    compiler = need("g++", "compiles the test driver of CUDA, and kernels for it")
    library = folder / "libcuda.so.1"
    names = {
        "FOLDER": folder,
        "PYTHON": sys.executable,
        "SUPPORT": HERE,
        "COMPILER": compiler,
        "OPTIONS": " ".join(KERNELS),
    }
    defined = [f'-D{name}="{value}"' for name, value in names.items()]
    options = ["-std=gnu++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", *defined, *flags]
    # What every kernel includes, once.
    header = "ptx_on_cpu.h"
    run(compiler, "-x", "c++-header", *KERNELS, HERE / header, "-o", folder / f"{header}.gch")
    run(compiler, *options, "-Wl,-soname,libcuda.so.1", HERE / "cuda_driver.cpp", "-o", library, "-ldl")
    return library


class Driver:
    """The driver, opened: what opens libcuda.so.1 after that gets it."""

    def __init__(self, library: Path):
        self.library: Any = ctypes.CDLL(str(library))
        self.library.test_cuda_calls.restype = ctypes.c_long
        self.library.test_cuda_held.restype = ctypes.c_long
        self.library.test_cuda_current.restype = ctypes.c_long

    def set(self, key: str, value: int) -> None:
        """`version`, `capability`, `memory`, `devices`, `seed`; `unannounced`: nothing was said of
        the shared memory that launches ask for; `kept`: another library uses the context, too; `lose kernel`: the
        number of the launch that fails on the device; `fail NAME`: what the next call of it gives."""
        self.library.test_cuda_set(key.encode(), ctypes.c_long(value))

    def calls(self, name: str) -> int:
        return int(self.library.test_cuda_calls(name.encode()))

    @property
    def held(self) -> int:
        return int(self.library.test_cuda_held())

    @property
    def contexts(self) -> int:
        """Of the calling thread."""
        return int(self.library.test_cuda_current())

    def reset(self) -> None:
        self.library.test_cuda_reset()
