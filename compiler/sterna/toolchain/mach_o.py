"""Mach-O, the format of objects and libraries of Apple's systems: what is asked about a file, and files that hold
one for each of several architectures.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sterna.toolchain.binary import Binary, Symbol, text_at

MAGIC = b"\xcf\xfa\xed\xfe"  # 64 bits, little-endian
_FAT_MAGIC = 0xCAFEBABE
#: Processors by the first word of LLVM's triples -> kind and variant.
PROCESSORS = {"arm64": (0x0100000C, 0), "x86_64": (0x01000007, 3)}
_PLATFORMS = {1: "macos", 2: "ios", 7: "ios-simulator"}
_SEGMENT, _SYMBOLS, _LOAD_LIBRARY, _OWN_NAME, _BUILD_VERSION = 0x19, 0x2, 0xC, 0xD, 0x32
_EXTERNAL, _PRIVATE, _KIND, _DEBUG, _UNDEFINED = 0x01, 0x10, 0x0E, 0xE0, 0x00
#: Symbols that linkers add to every library.
_LINKER = frozenset({"_mh_dylib_header", "__mh_dylib_header", "___dso_handle", "dyld_stub_binder"})
_PAGE = 14  # the binary logarithm of the largest page
_MOST = 1 << 32


@dataclass(frozen=True)
class MachO(Binary):
    """What is asked about a Mach-O file.

    Args:
        processor: "arm64" or "x86_64"; platform: "ios", "ios-simulator", "macos", or empty if it does not say.
        minimum: (major, minor) of the oldest system that it runs on.
        own_name: by which other files load a library.
    """

    processor: str
    platform: str
    minimum: tuple[int, int]
    own_name: str


def read_mach_o(data: bytes) -> MachO:
    """Reads an object or a library of 64 bits.

    Raises:
        ValueError: it is not one, or is damaged.
    """
    if data[:4] != MAGIC:
        raise ValueError("not a Mach-O file of 64 bits")
    try:
        kind = struct.unpack_from("<I", data, 4)[0]
        processor = next((name for name, (number, _) in PROCESSORS.items() if number == kind), "")
        symbols: list[Symbol] = []
        needed: list[str] = []
        writable: list[str] = []
        platform, own_name, minimum = "", "", (0, 0)
        for command, at in _commands(data):
            if command == _SEGMENT:
                writable += _variables(data, at)
            elif command == _SYMBOLS:
                symbols += _symbols(data, at)
            elif command in (_LOAD_LIBRARY, _OWN_NAME):
                name = text_at(data, at + struct.unpack_from("<I", data, at + 8)[0])
                own_name = name if command == _OWN_NAME else own_name
                needed += [name] * (command == _LOAD_LIBRARY)
            elif command == _BUILD_VERSION:
                number, version = struct.unpack_from("<II", data, at + 8)
                platform, minimum = _PLATFORMS.get(number, str(number)), (version >> 16, version >> 8 & 255)
    except struct.error as problem:
        raise ValueError(f"a damaged Mach-O file: {problem}") from None
    return MachO(tuple(symbols), tuple(needed), tuple(writable), processor, platform, minimum, own_name)


def _commands(data: bytes) -> Iterator[tuple[int, int]]:
    """Every load command: its kind, and where it begins."""
    at = 32
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        command, size = struct.unpack_from("<II", data, at)
        if size < 8:
            raise ValueError("a damaged Mach-O file: an empty command")
        yield command, at
        at += size


def _variables(data: bytes, at: int) -> Iterator[str]:
    for n in range(struct.unpack_from("<I", data, at + 64)[0]):
        section, segment, _, size = struct.unpack_from("<16s16sQQ", data, at + 72 + 80 * n)
        name = section.rstrip(b"\0").decode("utf-8", "replace")
        if size and segment.rstrip(b"\0") == b"__DATA" and name != "__const":
            yield f"__DATA,{name}"


def _symbols(data: bytes, at: int) -> Iterator[Symbol]:
    table, count, strings, _ = struct.unpack_from("<IIII", data, at + 8)
    for n in range(count):
        name, kind, _, _, _ = struct.unpack_from("<IBBHQ", data, table + 16 * n)
        if not kind & _DEBUG:
            shared = bool(kind & _EXTERNAL) and not kind & _PRIVATE
            text = text_at(data, strings + name)
            if text not in _LINKER:
                yield Symbol(text.removeprefix("_"), kind & _KIND != _UNDEFINED, shared)


def universal(files: Sequence[tuple[str, bytes]]) -> bytes:
    """One file of the files for several processors, which `PROCESSORS` names; of a single one, that itself.

    Apple's `lipo` writes the same; it is on no other system, and the ziglang package has none.

    Raises:
        ValueError: the file would have more than 4 GB.
    """
    if len(files) == 1:
        return files[0][1]
    head = struct.pack(">II", _FAT_MAGIC, len(files))
    at, body = 1 << _PAGE, b""
    for processor, data in files:
        if at + len(data) >= _MOST:
            raise ValueError("the libraries for all processors together have more than 4 GB")
        head += struct.pack(">IIIII", *PROCESSORS[processor], at, len(data), _PAGE)
        body += bytes(at - (1 << _PAGE) - len(body)) + data
        at += -(-len(data) >> _PAGE) << _PAGE
    return head.ljust(1 << _PAGE, b"\0") + body
