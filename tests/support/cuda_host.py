"""Runs the CUDA or Metal text of kernels on the CPU: headers define the built-ins, a C++ compiler does the rest."""

from __future__ import annotations

import ctypes
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sterna.bundle.graph_json import graph_json
from sterna.codegen.generators import KernelSet, source
from sterna.driver import Compiled
from sterna.loops.program import Function, thread_counts
from sterna.targets.description import load_target
from sterna.targets.target import Target
from support.device_memory import DeviceMemory, params_of
from support.tools import need, run

HERE = Path(__file__).parent


def cuda_target() -> Target:
    """Any device of CUDA; source only."""
    return replace(load_target("cuda"), device=None)


def metal_target() -> Target:
    """The target metal as a processor's, whose kernels are all source of one kind."""
    return replace(load_target("metal"), device=None)


@dataclass(frozen=True)
class Language:
    """How the text of a language is compiled for the CPU.

    Args:
        compiler: its command; header: that is read before the text; ignored: warnings.
        given: what follows the number of tasks in a call: the parameters that Metal has built in.
    """

    target: Target
    compiler: tuple[str, ...]
    header: Path
    ignored: tuple[str, ...]
    given: str = ""


CUDA = Language(
    cuda_target(),
    ("g++", "-x", "c++", f"-I{HERE / 'cuda_stub'}"),
    HERE / "cuda_on_cpu.h",
    ("type-limits", "maybe-uninitialized", "unknown-pragmas"),
)
METAL = Language(
    metal_target(),
    ("clang++", "-x", "c++", f"-I{HERE / 'metal_stub'}"),
    HERE / "metal_on_cpu.h",
    ("unknown-attributes", "unknown-pragmas", "unused-const-variable"),
    ", blockIdx, threadIdx, blockDim, gridDim",
)


_OPTIONS = ("-std=c++17", "-O1", "-ffp-contract=off", "-fPIC")
#: Headers as compilers read them fastest, beside links to the headers, until the process ends.
_PRECOMPILED = tempfile.TemporaryDirectory(prefix="sterna-headers-")


@cache
def _precompiled(compiler: tuple[str, ...], header: Path) -> Path:
    """The header to include, compiled once: it takes two thirds of the time of a small kernel."""
    link = Path(_PRECOMPILED.name) / header.name
    link.symlink_to(header)
    kind = "gch" if compiler[0] == "g++" else "pch"
    made = link.with_name(f"{link.name}.{kind}")
    run(*(part if part != "c++" else "c++-header" for part in compiler), *_OPTIONS, header, "-o", made)
    return link


class Program:
    """Kernels without open sizes, compiled.

    Args:
        text: of the kernels; folder: for source and library; language: of the text.
    """

    def __init__(self, functions: Sequence[Function], text: str, folder: Path, language: Language = CUDA) -> None:
        need(language.compiler[0], "compiles text of devices for the CPU")
        self.functions = {f.name: f for f in functions}
        # The loader takes a file of the same name for the library that it has already.
        number = len(list(folder.glob("kernels*.cu")))
        file, library = folder / f"kernels{number}.cu", folder / f"kernels{number}.so"
        file.write_text("\n".join([text, *(_launcher(f, language) for f in functions)]))
        ignored = (*language.ignored, "unused-function", "unused-parameter", "unused-variable")
        quiet = [f"-Wno-{what}" for what in ignored]
        header = _precompiled(language.compiler, language.header)
        command = [*language.compiler, *_OPTIONS, "-shared", "-include", header]
        run(*command, "-Wall", "-Wextra", "-Werror", *quiet, file, "-o", library)
        self.library = ctypes.CDLL(str(library))

    @classmethod
    def of(cls, function: Function, folder: Path, language: Language = CUDA) -> Program:
        """One kernel."""
        text = source(KernelSet("kernel", [function], [()]), language.target)
        return cls([function], text, folder, language)

    def launch(self, name: str, tasks: int, operands: Sequence[np.ndarray], params: np.ndarray, seed: int = 0) -> None:
        """Runs a kernel.

        Args:
            operands: inputs by slot, then outputs; seed: draws the order of threads, 0 for one after another.
        """
        scratch = np.zeros(max(1, self.functions[name].scratch_bytes * tasks), np.uint8)
        status = np.zeros(1, np.int32)
        given = [*operands, params, np.zeros(1, np.int64), scratch, status]
        pointers = (ctypes.c_void_p * len(given))(*(array.ctypes.data for array in given))
        divergent = self.library[f"launch_{name}"](ctypes.c_uint(tasks), ctypes.c_uint(seed), pointers)
        assert not divergent, f"{name}: threads wait at a barrier that others never reach"
        assert status[0] == 0, f"{name}: status {status[0]}"

    def run_function(self, function: Function, memory: dict[str, np.ndarray], seed: int = 0) -> None:
        """Runs one kernel; `memory` as of `opencl_host.Device.run_function`."""
        inputs, outputs = (sorted(b, key=lambda each: each.slot) for b in (function.inputs, function.outputs))
        operands = [memory[b.name] for b in (*inputs, *outputs)]
        self.launch(function.name, int(function.n_tasks), operands, params_of(function, memory), seed)


def run_model(
    compiled: Compiled, inputs: dict[str, np.ndarray], folder: Path, seed: int = 0, language: Language = CUDA
) -> dict[str, np.ndarray]:
    """The outputs of a model without control flow, by name."""
    functions = [k.function for k in compiled.kernels]
    program = Program(functions, compiled.source, folder, language)
    facts: dict[str, Any] = json.loads(graph_json(compiled, {"params.bin": compiled.params}))
    memory = DeviceMemory(facts, compiled.params)
    for index in facts["inputs"]:
        memory.set(index, inputs[facts["values"][index]["name"]])
    for node in facts["nodes"]:
        params = memory.params[node["params_at"] : node["params_at"] + node["params_bytes"]]
        operands = [memory.buffer(index) for index in (*node["in"], *node["out"])]
        program.launch(functions[node["kernel"]].name, node["tasks"], operands, params, seed)
    return {facts["values"][index]["name"]: memory.get(index) for index in facts["outputs"]}


def _launcher(function: Function, language: Language) -> str:
    """A function that launches a kernel with what an array of pointers holds."""
    inputs, outputs = (sorted({b.slot for b in each}) for each in (function.inputs, function.outputs))
    kinds = [*("const uint8_t *" for _ in inputs), *("uint8_t *" for _ in outputs)]
    kinds += ["const uint8_t *", "const int64_t *", "uint8_t *", "int32_t *"]
    given = ", ".join(f"({kind})given[{n}]" for n, kind in enumerate(kinds))
    block = ", ".join(map(str, thread_counts(function.body).values())) if function.has_threads else "1, 1, 1"
    call = f"{function.name}({given}, tasks{language.given});"
    return (
        f'extern "C" int launch_{function.name}(unsigned tasks, unsigned seed, void **given) {{\n'
        f"  return cuda_launch({{tasks, 1, 1}}, {{{block}}}, seed, [=] {{ {call} }});\n}}\n"
    )
