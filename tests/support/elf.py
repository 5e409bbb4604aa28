"""Reads ELF libraries as Android's linker does: what they need, offer, and how they are laid out in memory."""

from __future__ import annotations

import struct
from dataclasses import dataclass

MACHINES = {"arm64-v8a": 183, "armeabi-v7a": 40, "x86_64": 62, "x86": 3}
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _SYMTAB, _SONAME, _STRSZ = 1, 5, 6, 14, 10


@dataclass(frozen=True)
class Library:
    """An ELF library; `page` is the least alignment of its segments, `writable_code` whether one is both, `code` the
    bytes of those that can be executed."""

    machine: int
    soname: str
    needed: list[str]
    exported: list[str]
    imported: list[str]
    page: int
    writable_code: bool
    code: int
    hard_float: bool


def read(data: bytes) -> Library:
    """A library for a little-endian machine, of 32 or 64 bits."""
    assert data[:4] == b"\x7fELF"
    wide = data[4] == 2
    machine = struct.unpack_from("<H", data, 18)[0]
    programs, sections = struct.unpack_from("<QQ" if wide else "<II", data, 32 if wide else 28)
    flags, _, size, count, section_size, section_count = struct.unpack_from("<IHHHHH", data, 48 if wide else 36)
    loads, dynamic = [], (0, 0)
    for n in range(count):
        row = struct.unpack_from("<IIQQQQQQ" if wide else "<IIIIIIII", data, programs + n * size)
        if wide:
            kind, access, at, address, _, in_file, _, align = row
        else:
            kind, at, address, _, in_file, _, access, align = row
        if kind == _LOAD:
            loads.append((at, address, in_file, access, align))
        if kind == _DYNAMIC:
            dynamic = at, in_file

    def place(address: int) -> int:
        return next(address - start + at for at, start, length, _, _ in loads if start <= address < start + length)

    word = "<qQ" if wide else "<iI"
    rows = list(struct.iter_unpack(word, data[dynamic[0] : dynamic[0] + dynamic[1]]))
    facts = dict(rows)
    strings = place(facts[_STRTAB])

    def text(offset: int) -> str:
        return data[strings + offset : data.index(b"\0", strings + offset)].decode()

    symbols = []
    for n in range(section_count):
        header = struct.unpack_from("<IIQQQQ" if wide else "<IIIIII", data, sections + n * section_size)
        if header[1] == 11:  # SHT_DYNSYM
            symbols = [
                data[header[4] + k : header[4] + k + (24 if wide else 16)]
                for k in range(0, header[5], 24 if wide else 16)
            ]
    exported, imported = [], []
    for symbol in symbols[1:]:
        name = text(struct.unpack_from("<I", symbol)[0])
        section = struct.unpack_from("<H", symbol, 6 if wide else 14)[0]
        (exported if section else imported).append(name)
    return Library(
        machine,
        text(facts[_SONAME]),
        [text(value) for tag, value in rows if tag == _NEEDED],
        sorted(exported),
        sorted(imported),
        min(align for *_, align in loads),
        any(access & 3 == 3 for *_, access, _ in loads),
        sum(in_file for _, _, in_file, access, _ in loads if access & 1),
        bool(flags & 0x400),
    )
