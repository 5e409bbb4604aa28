"""Refuses objects and libraries that would not load everywhere, or run slowly without saying so.

A kernel library has no undefined symbol and needs no other library, so one file serves every C library. An archive for
firmware may use what every C compiler comes with (its run-time helpers, memcpy); but a helper for single-precision
arithmetic on a processor with an FPU means that the FPU was left off.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sterna.errors import Diagnostic, SternaError
from sterna.targets.fetches import FETCHES
from sterna.targets.target import Target
from sterna.toolchain.binary import Binary, Symbol, text_at
from sterna.toolchain.mach_o import MAGIC, read_mach_o
from sterna.toolchain.pe import MAGIC as PE_MAGIC
from sterna.toolchain.pe import read_pe
from sterna.toolchain.wasm import wasm_imports

#: What firmware always has: a freestanding C compiler may call these, and its own library holds the rest.
_FIRMWARE = frozenset({"memcpy", "memmove", "memset", "memcmp"})
_RUNTIME = re.compile(r"__(aeabi_\w+|(fix|fixuns|float|floatun)[sd][fi][sd][fi]|\w+[sd]f[23]|u?(div|mod)[sd]i3)")
#: Arithmetic and comparison of single precision; conversions to and from 64-bit integers are calls on an FPU too.
_SOFT_FLOAT = re.compile(
    r"__(aeabi_(f(add|sub|rsub|mul|div|cmp\w*|neg|2iz|2uiz)|cf\w*|u?i2f)|(add|sub|mul|div|neg|eq|ne|lt|le|gt|ge|unord)sf[23]"
    r"|fix(uns)?sfsi|floatu?n?sisf)"
)
#: What a library of kernels may have besides: rounding, where the processor has no instruction for it. A program for
#: firmware may have no libm, where C has these functions.
_ROUNDING = re.compile(r"(trunc|floor|ceil|rint|round|roundeven|fma|sqrt)f?")
#: What every library of Apple's systems is linked with; nothing of it is used.
_APPLE = "/usr/lib/libSystem.B.dylib"
_SHT_SYMTAB, _SHT_DYNAMIC, _SHT_DYNSYM = 2, 6, 11
_GLOBAL_OFFSETS = "_GLOBAL_OFFSET_TABLE_"
_SHF_WRITE, _SHF_ALLOC = 1, 2
_DT_NEEDED, _DT_SONAME = 1, 14


@dataclass(frozen=True)
class Elf(Binary):
    """What is asked about an ELF file."""

    bits: int
    machine: int
    relocatable: bool
    soname: str


def read_elf(data: bytes) -> Elf:
    """Reads a little-endian ELF object or shared library.

    Raises:
        ValueError: it is not one, or is damaged.
    """
    if len(data) < 52 or data[:4] != b"\x7fELF" or data[4] not in (1, 2) or data[5] != 1:
        raise ValueError("not a little-endian ELF file")
    wide = data[4] == 2
    try:
        kind, machine = struct.unpack_from("<HH", data, 16)
        (table,) = struct.unpack_from("<Q", data, 40) if wide else struct.unpack_from("<I", data, 32)
        entry, count, names_at = struct.unpack_from("<HHH", data, 58 if wide else 46)
        layout = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
        headers = [struct.unpack_from(layout, data, table + n * entry) for n in range(count)]
        section_names = headers[names_at][4] if count else 0
        symbols: list[Symbol] = []
        needed: list[str] = []
        writable: list[str] = []
        soname = ""
        for name, section_type, flags, _, offset, size, linked, _, _, each in headers:
            if flags & _SHF_WRITE and flags & _SHF_ALLOC and size:
                writable.append(text_at(data, section_names + name))
            if section_type == (_SHT_SYMTAB if kind == 1 else _SHT_DYNSYM):
                symbols += _symbols(data, wide, offset, size // each, headers[linked][4])
            if section_type == _SHT_DYNAMIC:
                for n in range(size // (16 if wide else 8)):
                    tag, value = struct.unpack_from("<qQ" if wide else "<iI", data, offset + n * (16 if wide else 8))
                    if tag == _DT_NEEDED:
                        needed.append(text_at(data, headers[linked][4] + value))
                    elif tag == _DT_SONAME:
                        soname = text_at(data, headers[linked][4] + value)
    except (struct.error, IndexError, ZeroDivisionError, OverflowError) as problem:
        raise ValueError(f"a damaged ELF file: {problem}") from None
    return Elf(tuple(symbols), tuple(needed), tuple(writable), 64 if wide else 32, machine, kind == 1, soname)


def _symbols(data: bytes, wide: bool, offset: int, count: int, strings: int) -> Iterator[Symbol]:
    for n in range(1, count):
        if wide:
            name, info, other, section, _, _ = struct.unpack_from("<IBBHQQ", data, offset + n * 24)
        else:
            name, _, _, info, other, section = struct.unpack_from("<IIIBBH", data, offset + n * 16)
        if info & 15 not in (3, 4) and (text := text_at(data, strings + name)):  # not of a section or a file
            yield Symbol(text, section != 0, info >> 4 != 0 and other & 3 in (0, 3))


def _read(objects: Sequence[bytes]) -> list[Binary]:
    """Those that are ELF, Mach-O or PE; others are left to their linker."""
    readers: dict[bytes, Callable[[bytes], Binary]] = {b"\x7fELF": read_elf, MAGIC: read_mach_o, PE_MAGIC: read_pe}
    return [read(data) for data in objects for magic, read in readers.items() if data.startswith(magic)]


def check_objects(objects: Sequence[bytes], target: Target) -> None:
    """Checks that objects use only symbols of each other. WebAssembly's and Windows's are left to their linkers.

    Raises:
        SternaError: E0404, naming every symbol.
    """
    read = _read(objects)
    wanted = undefined_symbols(read)
    _refuse([w for w in wanted if not _allowed(w, target)], f"the kernels of target {target.name}", target)
    variables = sorted({name for each in read for name in each.writable if not name.startswith(".data.rel.ro")})
    if variables:
        raise SternaError(
            Diagnostic(
                "E0404",
                f"the kernels of target {target.name} have variables",
                (f"sections {', '.join(variables)}",),
                "kernels own no memory: make the data const, or take it from the call record",
            )
        )


def undefined_symbols(objects: Sequence[Binary]) -> list[str]:
    """What objects use and none of them defines."""
    defined = {s.name for each in objects for s in each.symbols if s.defined}
    return sorted({name for each in objects for name in each.undefined} - defined)


def wants_functions(objects: Sequence[bytes]) -> bool:
    """Whether objects call functions that a compiler's run-time library has to bring."""
    return any(name != _GLOBAL_OFFSETS for name in undefined_symbols(_read(objects)))


def check_library(library: bytes, target: Target, export: str) -> None:
    """Checks that a linked library exports `export` alone and needs nothing.

    Raises:
        SternaError: E0404.
    """
    subject = f"the kernel library of target {target.name}"
    for read in _read([library]):
        needed = [name for name in read.needed if name != _APPLE]
        _refuse([*read.undefined, *(f"{name} (a library)" for name in needed)], subject, target)
        if read.exported != (export,):
            raise SternaError(
                Diagnostic("E0404", f"{subject} exports {', '.join(read.exported) or 'nothing'}, not {export} alone")
            )
    if library[:4] == b"\0asm":
        _refuse([name for name in wasm_imports(library) if name != "env.memory"], subject, target)


def _allowed(name: str, target: Target) -> bool:
    if name == _GLOBAL_OFFSETS:
        return True
    if not target.library.endswith(".a") and not target.run_time_functions:
        return False
    hard_float = target.llvm_triple.endswith("hf") or "d" in target.cpu_features
    if hard_float and _SOFT_FLOAT.fullmatch(name):
        return False
    if target.run_time_functions and not target.library.endswith(".a") and _ROUNDING.fullmatch(name):
        return True
    if target.flash is not None and name in FETCHES:
        return True
    return name in _FIRMWARE or _RUNTIME.fullmatch(name) is not None


def _refuse(names: Sequence[str], subject: str, target: Target) -> None:
    if not names:
        return
    fix = "a bundle must not need a library; this is a bug in Sterna unless the source is yours, please report it"
    if any(_SOFT_FLOAT.fullmatch(name) for name in names):
        fix = f"the compiler did not use the FPU: cpu or flags in the description of {target.name} are incomplete"
    listed = f"{', '.join(names[:8])}{' ...' if len(names) > 8 else ''}"
    raise SternaError(Diagnostic("E0404", f"undefined symbols in {subject}: {listed}", (), fix))
