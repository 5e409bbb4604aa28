"""Stack frames and sizes of the functions in objects for 32-bit ARM in Thumb and for RISC-V, read from their code.

Whatever compiled them: the instructions that move the stack pointer down are added up, in whatever branch they stand,
which is the frame where a function has one beginning and a bound where it has several. Where the stack pointer is
aligned further than calls leave it, what that may skip is part of the frame. Who calls whom is in the relocations.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # the same module under its older name

_SHT_SYMTAB, _SHT_REL, _SHT_RELA = 2, 9, 4
_SHF_WRITE, _SHF_ALLOC, _SHF_EXEC = 1, 2, 4
_ARM, _RISCV = 40, 243
#: Relocations of calls and of jumps to other functions.
_CALLS = {_ARM: (10, 30), _RISCV: (17, 18, 19)}
#: What a function of another library may take, as it is not there to be read; of those that compilers bring the file
#: run_time_stack.toml tells.
ELSEWHERE_BYTES = 96
#: The instructions that an object is of: those of 16 bits alone, as on ARMv6-M, all of Thumb, and RISC-V's.
THUMB_1, THUMB_2, RISCV = "thumb1", "thumb2", "riscv"
#: How the stack pointer is aligned when a function of RISC-V begins, and, within one, on ARM.
_RISCV_ALIGNED, _ARM_ALIGNED = 16, 4


@dataclass(frozen=True)
class Frame:
    """Of one function: bytes of stack, None where they are not constant, and the names of what it calls."""

    bytes: int | None
    calls: frozenset[str]

    def joined(self, other: Frame) -> Frame:
        """A frame that bounds both."""
        known = None if self.bytes is None or other.bytes is None else max(self.bytes, other.bytes)
        return Frame(known, self.calls | other.calls)


@dataclass(frozen=True)
class Contents:
    """What an object holds: frames by function, bytes of code, bytes of constant tables, whose instructions, and bytes
    of each function."""

    frames: Mapping[str, Frame]
    code: int
    tables: int
    instructions: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int


def members(archive: bytes) -> list[bytes]:
    """The objects in an archive of ar.

    Raises:
        ValueError: it is none.
    """
    if not archive.startswith(b"!<arch>\n"):
        raise ValueError("not an archive")
    found, at = [], 8
    while at + 60 <= len(archive):
        name, size = archive[at : at + 16].rstrip(), int(archive[at + 48 : at + 58])
        if name not in (b"/", b"//", b"/SYM64/"):
            found.append(archive[at + 60 : at + 60 + size])
        at += 60 + size + size % 2
    return found


def contents(data: bytes) -> Contents:
    """The functions of a relocatable ELF object of 32 bits.

    Raises:
        ValueError: it is another file.
    """
    if data[:5] != b"\x7fELF\x01":
        raise ValueError("not an ELF object of 32 bits")
    (machine,) = struct.unpack_from("<H", data, 18)
    (table,) = struct.unpack_from("<I", data, 32)
    each, count = struct.unpack_from("<HH", data, 46)
    if machine not in _CALLS:
        raise ValueError("not of ARM or RISC-V")
    sections = []
    for n in range(count):
        _, kind, flags, _, offset, size, link, info, _, _ = struct.unpack_from("<IIIIIIIIII", data, table + n * each)
        sections.append(_Section(kind, flags, offset, size, link, info))
    symbols = next((list(_symbols(data, s, sections)) for s in sections if s.kind == _SHT_SYMTAB), [])
    calls = _calls(data, machine, sections, symbols)
    frames, sizes = {}, {}
    instructions = RISCV if machine == _RISCV else THUMB_1
    for name, value, size, kind, section in symbols:
        if kind != 2 or not 0 < section < count:  # STT_FUNC
            continue
        start = value & ~1
        code = data[sections[section].offset + start : sections[section].offset + start + size]
        words = _words_of_data(symbols, section, start, size)
        taken = _thumb(code, words) if machine == _ARM else _riscv(code)
        if machine == _ARM and any(map(_is_of_thumb_2, _instructions(code, words))):
            instructions = THUMB_2
        called = {callee for at, callee in calls.get(section, ()) if start <= at < start + size}
        frames[name], sizes[name] = Frame(taken, frozenset(called)), size
    held = [s for s in sections if s.flags & _SHF_ALLOC and not s.flags & _SHF_WRITE and s.kind == 1]
    code_bytes = sum(s.size for s in held if s.flags & _SHF_EXEC)
    return Contents(frames, code_bytes, sum(s.size for s in held) - code_bytes, instructions, sizes)


def deepest(frames: Mapping[str, Frame], start: str, instructions: str = "") -> int | None:
    """The most stack that a function and what it calls take; None if a frame is not constant, or functions call each
    other in a circle.

    Args:
        instructions: of the core, which what the functions of compilers take depends on.
    """
    elsewhere = _run_time_stack().get(instructions, {})

    def depth(name: str, above: tuple[str, ...]) -> int | None:
        frame = frames.get(name)
        if frame is None:
            return elsewhere.get(name, ELSEWHERE_BYTES)
        if name in above:
            return None
        below = [depth(callee, (*above, name)) for callee in sorted(frame.calls)]
        if frame.bytes is None or None in below:
            return None
        return frame.bytes + max((n for n in below if n is not None), default=0)

    return depth(start, ())


_Symbol = tuple[str, int, int, int, int]  # name, value, size, kind, section


def _symbols(data: bytes, table: _Section, sections: Sequence[_Section]) -> Iterator[_Symbol]:
    strings = sections[table.link].offset
    for at in range(table.offset, table.offset + table.size, 16):
        name, value, size, info, _, section = struct.unpack_from("<IIIBBH", data, at)
        end = data.index(b"\0", strings + name)
        yield data[strings + name : end].decode("utf-8", "replace"), value, size, info & 15, section


def _calls(
    data: bytes, machine: int, sections: Sequence[_Section], symbols: Sequence[_Symbol]
) -> dict[int, list[tuple[int, str]]]:
    """For every section the places of its calls, and the names called."""
    found: dict[int, list[tuple[int, str]]] = {}
    for s in (s for s in sections if s.kind in (_SHT_REL, _SHT_RELA)):
        step = 8 if s.kind == _SHT_REL else 12
        for at in range(s.offset, s.offset + s.size, step):
            place, info = struct.unpack_from("<II", data, at)
            if info & 255 in _CALLS[machine]:
                found.setdefault(s.info, []).append((place, symbols[info >> 8][0]))
    return found


def _words_of_data(symbols: Sequence[_Symbol], section: int, start: int, size: int) -> list[tuple[int, int]]:
    """Ranges of a function that are constants and no instructions, by ARM's mapping symbols."""
    own = [(value, name[:2]) for name, value, _, _, holder in symbols if holder == section]
    marks = sorted((at, mark) for at, mark in own if mark in ("$d", "$t"))
    ends = [at for at, _ in marks[1:]] + [start + size] * bool(marks)
    return [(at - start, end - start) for (at, mark), end in zip(marks, ends, strict=True) if mark == "$d"]


@lru_cache
def _run_time_stack() -> Mapping[str, Mapping[str, int]]:
    """What functions of compilers' run-time libraries take, by instructions and name."""
    tables = tomllib.loads(Path(__file__).with_name("run_time_stack.toml").read_text("utf-8"))
    return {
        instructions: {name: int(taken) for taken, names in table.items() for name in names.split()}
        for instructions, table in tables.items()
    }


#: Its place, and one or two words of 16 bits.
_Instruction = tuple[int, int, int | None]


def _instructions(code: bytes, data: Sequence[tuple[int, int]]) -> Iterator[_Instruction]:
    """The instructions of a function in Thumb; what is data among them is left out."""
    at = 0
    while at + 2 <= len(code):
        skip = next((end for first, end in data if first <= at < end), None)
        if skip is not None:
            at = skip
            continue
        (first,) = struct.unpack_from("<H", code, at)
        if first >> 11 < 0b11101:
            yield at, first, None
            at += 2
            continue
        if at + 4 > len(code):
            return
        yield at, first, struct.unpack_from("<H", code, at + 2)[0]
        at += 4


def _is_of_thumb_2(instruction: _Instruction) -> bool:
    """Whether it has 32 bits and is neither a call nor a barrier or the like, which ARMv6-M has as well."""
    _, first, second = instruction
    return second is not None and not (first & 0xF800 == 0xF000 and second & 0x8000)


def _thumb(code: bytes, data: Sequence[tuple[int, int]]) -> int | None:
    total = 0
    known: dict[int, int] = {}  # of registers, constants that were loaded last
    before: tuple[int, int] | None = None  # the instruction before
    aligned: tuple[int, int] | None = None  # by it: a register, and to how many bytes
    for at, first, second in _instructions(code, data):
        latest, aligned = aligned, _aligns(first, second, before)
        before = first, second or 0
        if second is not None:
            taken = _wide(first, second)
            if taken is None:
                return None
            total += taken
            continue
        if first & 0xF800 == 0x4800:  # ldr register, constant
            place = (at & ~3) + 4 + (first & 255) * 4
            if place + 4 <= len(code):
                (known[first >> 8 & 7],) = struct.unpack_from("<i", code, place)
        if first & 0xFF87 == 0x4485:  # add sp, register
            amount = known.get(first >> 3 & 15)
            if amount is None:
                return None
            total += max(0, -amount)
        if first & 0xFF87 == 0x4685 and latest is not None and latest[0] == first >> 3 & 15:  # mov sp, register
            total += max(0, latest[1] - _ARM_ALIGNED)
        total += _narrow(first)
    return total


def _aligns(first: int, second: int | None, before: tuple[int, int] | None) -> tuple[int, int] | None:
    """The register that an instruction rounds down, with the one before it maybe, and to a multiple of what."""
    if second is None:
        n, source, register = first >> 6 & 31, first >> 3 & 7, first & 7
        shifted_right = before is not None and before[0] == 0x0800 | n << 6 | before[0] & 0x38 | register
        if first >> 11 == 0 and n and source == register and shifted_right:  # lsrs and lsls
            return register, 1 << n
        return None
    register = second >> 8 & 15
    if first == 0xF36F and second & 0xF0C0 == 0:  # bfc register, 0, n
        return register, 2 << (second & 31)
    if first & 0xFBF0 == 0xF020 and not second & 0x8000:  # bic register, register, constant
        return register, _expanded((first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 255) + 1
    return None


def _narrow(word: int) -> int:
    """Bytes by which an instruction of 16 bits lowers the stack pointer: push, and sub sp, constant."""
    if word & 0xFE00 == 0xB400:
        return 4 * (word & 0x1FF).bit_count()
    return (word & 0x7F) * 4 if word & 0xFF80 == 0xB080 else 0


def _wide(first: int, second: int) -> int | None:
    """The same of an instruction of 32 bits; None for a sub of a register."""
    if first == 0xE92D:  # push.w
        return 4 * second.bit_count()
    if first == 0xF84D and second & 0x0F00 == 0x0D00:  # str register, [sp, -n]!
        return second & 255
    if first == 0xE96D:  # strd registers, [sp, -n]!
        return 4 * (second & 255)
    if first & 0xFFBF == 0xED2D and second & 0x0E00 == 0x0A00:  # vpush
        return 4 * (second & 255)
    if second & 0x8F00 == 0x0D00 and first & 0xFBFF in (0xF1AD, 0xF2AD):  # sub.w and subw sp, sp, constant
        constant = (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 255
        return constant if first & 0xFBFF == 0xF2AD else _expanded(constant)
    if first & 0xFFEF == 0xEBAD and second & 0x0F00 == 0x0D00:  # sub.w sp, sp, register
        return None
    return 0


def _expanded(constant: int) -> int:
    """An immediate of Thumb: a byte, once or repeated, or rotated with its highest bit set (ARM DDI 0403, A5.3.2)."""
    byte = constant & 255
    if constant >> 10 == 0:
        return (byte, byte * 0x10001, byte * 0x1000100, byte * 0x1010101)[constant >> 8 & 3]
    turn, value = constant >> 7, 0x80 | constant & 0x7F
    return (value >> turn | value << (32 - turn)) & 0xFFFFFFFF


def _riscv(code: bytes) -> int | None:
    total, at = 0, 0
    while at + 2 <= len(code):
        (word,) = struct.unpack_from("<H", code, at)
        if word & 3 != 3:
            total += _compressed(word)
            at += 2
            continue
        if at + 4 > len(code):
            break
        (word,) = struct.unpack_from("<I", code, at)
        if word & 0xFFFFF == 0x10113:  # addi sp, sp, constant
            total += max(0, -(word >> 20 if word < 1 << 31 else (word >> 20) - 4096))
        elif word & 0xFFFFF == 0x17113 and word >= 1 << 31:  # andi sp, sp, constant
            total += max(0, 4096 - (word >> 20) - _RISCV_ALIGNED)
        elif word & 0x01FFFFF == 0x0010133 or word & 0xFE0FFFFF == 0x40010133:  # add or sub sp, sp, register
            return None
        at += 4
    return total


def _compressed(word: int) -> int:
    """Bytes by which a compressed instruction lowers the stack pointer."""
    if word & 0xEF83 == 0x6101:  # c.addi16sp
        n = (
            (word >> 12 & 1) << 9
            | (word >> 3 & 3) << 7
            | (word >> 5 & 1) << 6
            | (word >> 2 & 1) << 5
            | (word >> 6 & 1) << 4
        )
        return max(0, 1024 - n) if n >= 512 else 0
    if word & 0xEF83 == 0x0101:  # c.addi sp
        n = (word >> 12 & 1) << 5 | word >> 2 & 31
        return max(0, 64 - n) if n >= 32 else 0
    return 0
