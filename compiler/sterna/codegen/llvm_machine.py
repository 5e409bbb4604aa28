"""LLVM's view of a target: the target machine, and what it does without calling a library."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from sterna.errors import internal_error
from sterna.targets.target import Target
from sterna.toolchain.check import read_elf
from sterna.toolchain.wasm import wasm_imports

#: Options of LLVM that the constructors of some back ends (WebAssembly, AArch64, RISC-V) overwrite for the whole
#: process: whatever another back end compiles after them would have other jump tables than before them.
_JUMP_TABLES = ("--min-jump-table-entries=4", "--max-jump-table-size=4294967295")
#: Those that leave them alone.
_LEAVE_THEM = ("x86", "i386", "i686", "armv", "thumb", "nvptx")

#: What every WebAssembly object imports until it is linked.
_WASM_LINKING = {"env.__linear_memory", "env.__stack_pointer", "env.__indirect_function_table"}


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def target_machine(target: Target) -> Any:
    """A new target machine at the highest optimization level; position-independent where libraries must be."""
    _initialize()
    if architecture(target).startswith(_LEAVE_THEM):
        for option in _JUMP_TABLES:
            llvm.set_option("sterna", option)
    triple = full_triple(target)
    static = target.static or architecture(target).startswith(("wasm", "thumb"))
    try:
        found = llvm.Target.from_triple(triple)
    except RuntimeError as problem:
        raise internal_error(f"LLVM has no target {triple} for {target.name}", str(problem)) from None
    features = ",".join(target.llvm_features)
    relocation = "static" if static else "pic"
    return found.create_target_machine(target.llvm_cpu, features, 3, relocation, "default", abiname=_abi(target))


def _abi(target: Target) -> str:
    """How functions take floats, where the triple does not say it to LLVM: on RISC-V as integers otherwise."""
    return "lp64d" if architecture(target) == "riscv64" and "+d" in target.llvm_features else ""


def data_layout(target: Target) -> str:
    """Sizes and alignments of types, without which LLVM assembly is read with those of another machine."""
    return str(target_machine(target).target_data)


def full_triple(target: Target) -> str:
    """The triple with all its four words: where one is missing, LLVM takes `eabihf` for the system's name."""
    words = target.llvm_triple.split("-")
    if len(words) == 3 and words[1] in ("none", "linux"):
        words.insert(1, "unknown")
    return "-".join(words)


def architecture(target: Target) -> str:
    """The first word of the triple: x86_64, aarch64, wasm32, thumbv7em ..."""
    return target.llvm_triple.split("-")[0]


def has_instruction(target: Target, result: str, body: str, *arguments: str) -> bool:
    """Whether LLVM turns a piece of code into instructions, not into a call of a library that bundles do not have.

    It is compiled to see: which processors have what is LLVM's knowledge, not ours.

    Args:
        result: type of the last value; body: instructions that compute %r from %a0, %a1 ...; arguments: their types.
    """
    # ELF and WebAssembly are what we can read; the answer is the processor's, not the file format's.
    name, triple = architecture(target), full_triple(target)
    if not name.startswith(("wasm", "thumb", "nvptx")):
        triple = f"{name.replace('arm64', 'aarch64')}-unknown-linux-gnu{'eabihf' * name.startswith('armv')}"
    processor = Target("", "", "", triple, llvm_cpu=target.llvm_cpu, llvm_features=target.llvm_features)
    return _has_instruction(processor, result, body, arguments)


@lru_cache(maxsize=256)
def _has_instruction(processor: Target, result: str, body: str, arguments: tuple[str, ...]) -> bool:
    parameters = ", ".join(f"{kind} %a{n}" for n, kind in enumerate(arguments))
    head = f'target triple = "{processor.llvm_triple}"\ndefine {result} @f({parameters}) nounwind {{'
    module = llvm.parse_assembly(f"{head}\n{body}\n  ret {result} %r\n}}\n", llvm.create_context())
    machine = target_machine(processor)
    if architecture(processor).startswith("nvptx"):
        return ".extern" not in machine.emit_assembly(module)
    data = machine.emit_object(module)
    if data[:4] == b"\x7fELF":
        return not read_elf(data).undefined
    return set(wasm_imports(data)) <= _WASM_LINKING
