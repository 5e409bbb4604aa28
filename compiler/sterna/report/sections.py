"""Bytes of machine code of every kernel, from the library's own tables; nothing is loaded and nothing is run."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

from sterna.toolchain.frames import contents, members

#: Relocation "this address, wherever the library is loaded", by machine: x86-64, ARM, AArch64, RISC-V.
_RELATIVE = {62: 8, 40: 23, 183: 1027, 243: 3}
#: Bytes of an entry of the table of kernels, its function first (sterna_kernel.h), for pointers of 64 bits.
_ENTRY = 24


def code_bytes(library: bytes, names: Sequence[str]) -> dict[str, int]:
    """Of these kernels, in the order of the table; nothing of a format that does not say.

    In a shared library a kernel reaches to the next one, with the helpers that follow it.
    """
    try:
        if library.startswith(b"!<arch>\n"):
            return _of_archive(library, names)
        if library.startswith(b"\x7fELF\x02\x01"):
            return _of_shared(library, names)
    except (ValueError, struct.error, IndexError):
        pass
    return {}


def _of_archive(archive: bytes, names: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for data in members(archive):
        sizes |= contents(data).sizes
    found = {}
    for name in names:
        size = next((n for symbol, n in sizes.items() if symbol == name or symbol.endswith(f"_{name}")), None)
        if size is not None:
            found[name] = size
    return found


def _of_shared(data: bytes, names: Sequence[str]) -> dict[str, int]:
    (machine,) = struct.unpack_from("<H", data, 18)
    (table,) = struct.unpack_from("<Q", data, 40)
    each, count = struct.unpack_from("<HH", data, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + n * each) for n in range(count)]
    pointers = {}
    for _, kind, _, _, offset, size, _, _, _, entry in rows:
        if kind == 4 and entry == 24:  # SHT_RELA
            for at in range(offset, offset + size, entry):
                where, info, addend = struct.unpack_from("<QQq", data, at)
                if info & 0xFFFFFFFF == _RELATIVE.get(machine):
                    pointers[where] = addend
    code = [(address, address + size) for _, _, flags, address, _, size, *_ in rows if flags & 4]
    inside = {at: to for at, to in pointers.items() if any(first <= to < last for first, last in code)}
    start = next((at for at in sorted(inside) if all(at + n * _ENTRY in inside for n in range(len(names)))), None)
    if start is None:
        return {}
    functions = [inside[start + n * _ENTRY] for n in range(len(names))]
    last = max(end for first, end in code if first <= max(functions) < end)
    ends = dict(pairwise(sorted({*functions, *inside.values(), last})))
    return {name: ends[at] - at for name, at in zip(names, functions, strict=True)}
