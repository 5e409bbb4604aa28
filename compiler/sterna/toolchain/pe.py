"""PE, the format of libraries and programs of Windows: what is asked about a file (Microsoft, PE Format)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sterna.toolchain.binary import Binary, Symbol, text_at

MAGIC = b"MZ"
PROCESSORS = {0x8664: "x86_64", 0xAA64: "arm64"}
_WIDE = 0x20B
_EXPORTS, _IMPORTS = 0, 1  # places in the table of directories
_WRITE = 0x80000000
_BY_NUMBER = 1 << 63
_MOST = 1 << 20  # names of a library; more are damage


@dataclass(frozen=True)
class Pe(Binary):
    """What is asked about a PE file. Undefined symbols are the functions that it takes from the libraries it needs.

    Args:
        processor: "x86_64", "arm64", or empty for others.
    """

    processor: str


def read_pe(data: bytes) -> Pe:
    """Reads a library or program of 64 bits.

    Raises:
        ValueError: it is not one, or is damaged.
    """
    if data[:2] != MAGIC:
        raise ValueError("not a PE file")
    try:
        (header,) = struct.unpack_from("<I", data, 60)
        signature, machine, count, optional = struct.unpack_from("<4sHH12xH", data, header)
        (kind,) = struct.unpack_from("<H", data, header + 24)
        if signature != b"PE\0\0" or kind != _WIDE:
            raise ValueError("not a PE file of 64 bits")
        first = header + 24 + optional
        sections = [struct.unpack_from("<8sIIII12xI", data, first + 40 * n) for n in range(count)]
        places = [(section[2], section[3], section[4]) for section in sections]
        directories = [struct.unpack_from("<II", data, header + 24 + 112 + 8 * n)[0] for n in range(2)]
        exported = list(_exports(data, places, directories[_EXPORTS])) if directories[_EXPORTS] else []
        imported = list(_imports(data, places, directories[_IMPORTS])) if directories[_IMPORTS] else []
    except (struct.error, IndexError, OverflowError) as problem:
        raise ValueError(f"a damaged PE file: {problem}") from None
    symbols = [Symbol(name, True, True) for name in exported]
    symbols += [Symbol(name, False, False) for _, name in imported]
    writable = [name.rstrip(b"\0").decode("utf-8", "replace") for name, *_, flags in sections if flags & _WRITE]
    needed = dict.fromkeys(library for library, _ in imported)
    return Pe(tuple(symbols), tuple(needed), tuple(writable), PROCESSORS.get(machine, ""))


def _at(places: list[tuple[int, int, int]], address: int) -> int:
    """Where in the file stands what is loaded to an address."""
    for start, size, offset in places:
        if start <= address < start + size:
            return address - start + offset
    raise ValueError("an address outside of the file")


def _exports(data: bytes, places: list[tuple[int, int, int]], directory: int) -> Iterator[str]:
    count, _, names = struct.unpack_from("<III", data, _at(places, directory) + 24)
    if count > _MOST:
        raise ValueError("too many names")
    if count:
        for address in struct.unpack_from(f"<{count}I", data, _at(places, names)):
            yield text_at(data, _at(places, address))


def _imports(data: bytes, places: list[tuple[int, int, int]], directory: int) -> Iterator[tuple[str, str]]:
    """(library in small letters, function), of every function."""
    at = _at(places, directory)
    while True:
        lookup, _, _, name, table = struct.unpack_from("<IIIII", data, at)
        if not name:
            return
        library = text_at(data, _at(places, name)).lower()
        entry = _at(places, lookup or table)
        while (value := struct.unpack_from("<Q", data, entry)[0]) != 0:
            yield library, f"#{value & 0xFFFF}" if value & _BY_NUMBER else text_at(data, _at(places, value) + 2)
            entry += 8
        at += 20
