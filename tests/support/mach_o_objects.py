"""Objects and libraries for Apple's systems, made into programs for Linux: the same bytes of code and data, relocated
by an ELF linker.

`assembly` writes every section of Mach-O objects as bytes, its symbols as labels, and its relocations as those that ELF
has for the same instructions. `build` links that with `mach_o_main.c`, which has what the systems' C libraries do
otherwise, as arguments of variadic functions lie elsewhere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sterna.runtime.programs import FLAGS
from support.mach_o_images import Image, is_library
from support.machines import HERE, RUNTIME
from support.tools import ROOT, ZIG, run

#: What the two C libraries do not have in common; of processors on which variadic functions differ, those besides.
_OTHERS = ("sysctlbyname", "bzero", "__bzero")
_VARIADIC = ("snprintf", "vsnprintf")
TRIPLES = {"arm64": "aarch64-linux-musl", "x86_64": "x86_64-linux-musl"}
_EXTERN, _PRIVATE, _KIND, _DEBUG, _SECTION = 0x01, 0x10, 0x0E, 0xE0, 0x0E


@dataclass(frozen=True)
class _Section:
    name: str
    segment: str
    address: int
    size: int
    offset: int
    align: int
    relocations: int
    count: int
    zeros: bool


def _function(name: str, arm: bool) -> str:
    """What a function of the C library is called here, without the underscore."""
    return f"apple_{name}" if name in _OTHERS or (arm and name in _VARIADIC) else name


class _Object:
    """A Mach-O object; `number` keeps its local symbols apart from those of others."""

    def __init__(self, data: bytes, number: int, processor: str) -> None:
        self.data, self.number, self.arm = data, number, processor == "arm64"
        self.sections: list[_Section] = []
        self.symbols: list[tuple[str, int, int, int]] = []
        at = 32
        for _ in range(struct.unpack_from("<I", data, 16)[0]):
            command, size = struct.unpack_from("<II", data, at)
            if command == 0x19:
                for n in range(struct.unpack_from("<I", data, at + 64)[0]):
                    row = struct.unpack_from("<16s16sQQIIIII", data, at + 72 + 80 * n)
                    name, segment = (text.rstrip(b"\0").decode() for text in row[:2])
                    self.sections.append(_Section(name, segment, *row[2:8], row[8] & 255 == 1))
            elif command == 0x2:
                table, count, strings, _ = struct.unpack_from("<IIII", data, at + 8)
                for n in range(count):
                    text, kind, section, _, value = struct.unpack_from("<IBBHQ", data, table + 16 * n)
                    assert not kind & _DEBUG
                    start = strings + text
                    self.symbols.append((data[start : data.index(b"\0", start)].decode(), kind, section, value))
            at += size

    def label(self, number: int) -> str:
        """What a symbol is called in the assembly."""
        name, kind, _, _ = self.symbols[number]
        if not kind & _EXTERN:
            return f"local_{self.number}_{number}"
        return _function(name.removeprefix("_"), self.arm)

    def text(self, file: str) -> Iterator[str]:
        """The lines, which read the object from a file."""
        for n, section in enumerate(self.sections):
            if section.segment == "__LD" or section.name == "__eh_frame":
                continue
            code = section.name == "__text"
            yield f'.section .apple.{self.number}.{n},"{"ax" if code else "aw"}"'
            yield f".p2align {section.align}"
            yield f"section_{self.number}_{n + 1}:"
            yield f".zero {section.size}" if section.zeros else f'.incbin "{file}", {section.offset}, {section.size}'
            for number, (_, kind, where, value) in enumerate(self.symbols):
                if kind & _KIND == _SECTION and where == n + 1:
                    yield f".set {self.label(number)}, section_{self.number}_{n + 1} + {value - section.address}"
                    if kind & _EXTERN:
                        yield f".globl {self.label(number)}"
            yield from self.relocations(n)

    def relocations(self, n: int) -> Iterator[str]:
        section, extra, taken = self.sections[n], 0, -1
        here = f"section_{self.number}_{n + 1}"
        for row in range(section.count):
            at, word = struct.unpack_from("<iI", self.data, section.relocations + 8 * row)
            symbol, length, external, kind = word & 0xFFFFFF, word >> 25 & 3, word >> 27 & 1, word >> 28
            place = section.offset + at
            if self.arm and kind == 10:
                extra = symbol - (1 << 24) if symbol >> 23 else symbol
                continue
            if kind == (1 if self.arm else 5):
                taken = symbol
                continue
            inside = struct.unpack_from("<q" if length == 3 else "<i", self.data, place)[0]
            if taken >= 0:  # the distance of two labels, of which the first one is in this section
                _, _, where, value = self.symbols[taken]
                assert external
                assert where == n + 1
                addend = inside + at - (value - section.address)
                yield f'.reloc {here}+{at}, {self.distance(length)}, "{self.label(symbol)}"+{addend}'
                taken = -1
                continue
            wanted = f'"{self.label(symbol)}"' if external else f"section_{self.number}_{symbol}"
            base = 0 if external else self.sections[symbol - 1].address
            if self.arm:
                name = self.arm_kind(kind, struct.unpack_from("<I", self.data, place)[0], length)
                addend = extra if kind else inside - base
            else:
                name, addend = self.intel_kind(kind, length), inside
                if kind:  # relative to what follows
                    addend = inside - 4 if external else inside + section.address + at - base
                    assert external or kind not in (3, 4)
                else:
                    addend = inside - base
            yield f".reloc {here}+{at}, {name}, {wanted}+{addend}"
            extra = 0

    def distance(self, length: int) -> str:
        return (
            {2: "R_AARCH64_PREL32", 3: "R_AARCH64_PREL64"}[length]
            if self.arm
            else {2: "R_X86_64_PC32", 3: "R_X86_64_PC64"}[length]
        )

    @staticmethod
    def arm_kind(kind: int, word: int, length: int) -> str:
        if kind == 4:  # the low bits of an address, as what they are added to or loaded by takes them
            if word & 0x7F800000 == 0x11000000:
                return "R_AARCH64_ADD_ABS_LO12_NC"
            wide = 128 if word >> 26 & 1 and word >> 23 & 1 and word >> 30 == 0 else 8 << (word >> 30)
            return f"R_AARCH64_LDST{wide}_ABS_LO12_NC"
        return {
            0: {2: "R_AARCH64_ABS32", 3: "R_AARCH64_ABS64"}[length],
            2: "R_AARCH64_CALL26",
            3: "R_AARCH64_ADR_PREL_PG_HI21",
            5: "R_AARCH64_ADR_GOT_PAGE",
            6: "R_AARCH64_LD64_GOT_LO12_NC",
        }[kind]

    @staticmethod
    def intel_kind(kind: int, length: int) -> str:
        if kind == 0:
            return {2: "R_X86_64_32", 3: "R_X86_64_64"}[length]
        return {2: "R_X86_64_PLT32", 3: "R_X86_64_GOTPCREL", 4: "R_X86_64_GOTPCREL"}.get(kind, "R_X86_64_PC32")


def build(objects: Sequence[bytes], processor: str, model: str, directory: Path) -> Path:
    """A program of a model's objects and the runtime's, or of their libraries: `program OUT-PREFIX in0.bin ...`."""
    lines: list[str] = []
    for n, data in enumerate(objects):
        (directory / f"object{n}").write_bytes(data)
        if is_library(data):
            name = partial(_function, arm=processor == "arm64")
            lines += Image(data, f"image_{n}", processor).text(f"object{n}", name)
        else:
            lines += _Object(data, n, processor).text(f"object{n}")
    (directory / "all.s").write_text("\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""]))
    program = directory / "program"
    flags = [*FLAGS, f"-I{RUNTIME / 'include'}", f"-I{ROOT / 'runtime_apple' / 'include'}"]
    flags += [f"-DLINKED=sterna_{model}_linked"]
    files = [str(HERE / "mach_o_main.c"), "all.s"]
    run(*ZIG, "cc", "-target", TRIPLES[processor], "-static", *flags, *files, "-o", program, cwd=directory)
    return program
