"""Dynamic libraries for Apple's systems as assembly for Linux: what `mach_o_objects` does with objects.

The image lies in one section, as it does in memory: code finds data by distances, which stay. What the systems' loader
does is left to the linker: pointers into the image, and those to functions of other libraries, the lazy ones too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

_DYLIB, _EXTERN, _KIND, _SECTION = 6, 0x01, 0x0E, 0x0E
#: What linkers add to libraries, and nothing here calls.
_LINKERS = ("mh_dylib_header", "dso_handle")
_WORD = 0xFFFFFFFFFFFFFFFF


def is_library(data: bytes) -> bool:
    return struct.unpack_from("<I", data, 12)[0] == _DYLIB


class Image:
    """A library; `name`: what its labels begin with."""

    def __init__(self, data: bytes, name: str, processor: str) -> None:
        self.data, self.name = data, name
        self.pointer = "R_AARCH64_ABS64" if processor == "arm64" else "R_X86_64_64"
        self.segments: list[tuple[str, int, int, int, int]] = []
        self.symbols: dict[str, int] = {}
        self.rebases, self.binds = (0, 0), [(0, 0), (0, 0)]
        at = 32
        for _ in range(struct.unpack_from("<I", data, 16)[0]):
            command, size = struct.unpack_from("<II", data, at)
            if command == 0x19:
                title, *places = struct.unpack_from("<16sQQQQ", data, at + 8)
                self.segments.append((title.rstrip(b"\0").decode(), *places))
            elif command == 0x2:
                self._read_symbols(*struct.unpack_from("<IIII", data, at + 8)[:3])
            elif command == 0x80000022:
                rows = struct.unpack_from("<10I", data, at + 8)
                assert rows[5] == 0, "weak symbols"
                self.rebases, self.binds = rows[:2], [rows[2:4], rows[6:8]]
            assert command != 0x80000034, "chained fixups"
            at += size

    def _read_symbols(self, table: int, count: int, strings: int) -> None:
        for n in range(count):
            text, kind, _, _, value = struct.unpack_from("<IBBHQ", self.data, table + 16 * n)
            name = self.data[strings + text : self.data.index(b"\0", strings + text)].decode()
            if kind & _EXTERN and kind & _KIND == _SECTION and name.lstrip("_") not in _LINKERS:
                self.symbols[name.removeprefix("_")] = value

    def text(self, file: str, label: Callable[[str], str]) -> Iterator[str]:
        """The lines, which read the library from a file; `label`: what a function of another library is called."""
        yield f'.section .apple.{self.name},"awx"'
        yield ".p2align 14"
        yield f"{self.name}:"
        end = 0
        for title, address, size, offset, inside in self.segments:
            if title == "__LINKEDIT":
                continue
            assert address >= end
            yield f".zero {address - end}"
            yield f'.incbin "{file}", {offset}, {inside}'
            yield f".zero {size - inside}"
            end = address + size
        for symbol, value in self.symbols.items():
            yield f".set {symbol}, {self.name} + {value}"
            yield f".globl {symbol}"
        for address in self._rebased():
            (value,) = struct.unpack_from("<Q", self.data, self._offset(address))
            yield f".reloc {self.name}+{address}, {self.pointer}, {self.name}+{value}"
        for address, symbol in self._bound():
            if symbol != "dyld_stub_binder":  # nothing is lazy here
                yield f".reloc {self.name}+{address}, {self.pointer}, {label(symbol)}"

    def _offset(self, address: int) -> int:
        return next(o + address - a for _, a, size, o, _ in self.segments if a <= address < a + size)

    def _rebased(self) -> Iterator[int]:
        """Addresses of pointers into the image: `REBASE_OPCODE_` of mach-o/loader.h."""
        at, end = self.rebases[0], sum(self.rebases)
        address = 0
        while at < end:
            opcode, low, at = self.data[at] & 0xF0, self.data[at] & 15, at + 1
            count, step = 0, 8
            if opcode == 0x20:
                far, at = _number(self.data, at)
                address = self.segments[low][1] + far
            elif opcode == 0x30:
                far, at = _number(self.data, at)
                address = (address + far) & _WORD
            elif opcode == 0x40:
                address += 8 * low
            elif opcode == 0x50:
                count = low
            elif opcode == 0x60:
                count, at = _number(self.data, at)
            elif opcode == 0x70:
                far, at = _number(self.data, at)
                count, step = 1, 8 + far
            elif opcode == 0x80:
                count, at = _number(self.data, at)
                far, at = _number(self.data, at)
                step = 8 + far
            else:
                assert opcode in (0x00, 0x10), hex(opcode)
            for _ in range(count):
                yield address
                address = (address + step) & _WORD

    def _bound(self) -> Iterator[tuple[int, str]]:
        """Addresses of pointers to functions of other libraries, and those: `BIND_OPCODE_` of mach-o/loader.h."""
        for start, size in self.binds:
            at, address, symbol = start, 0, ""
            while at < start + size:
                opcode, low, at = self.data[at] & 0xF0, self.data[at] & 15, at + 1
                count, step = 0, 8
                if opcode == 0x40:
                    end = self.data.index(b"\0", at)
                    symbol, at = self.data[at:end].decode(), end + 1
                elif opcode == 0x70:
                    far, at = _number(self.data, at)
                    address = self.segments[low][1] + far
                elif opcode == 0x80:
                    far, at = _number(self.data, at)
                    address = (address + far) & _WORD
                elif opcode == 0x90:
                    count = 1
                elif opcode == 0xA0:
                    far, at = _number(self.data, at)
                    count, step = 1, 8 + far
                elif opcode == 0xB0:
                    count, step = 1, 8 + 8 * low
                elif opcode == 0xC0:
                    count, at = _number(self.data, at)
                    far, at = _number(self.data, at)
                    step = 8 + far
                else:
                    assert opcode in (0x00, 0x10, 0x50), hex(opcode)  # the end, which library, which kind
                for _ in range(count):
                    yield address, symbol.removeprefix("_") if symbol != "dyld_stub_binder" else symbol
                    address = (address + step) & _WORD


def _number(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 and where it ends; distances back wrap around 64 bits."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value & _WORD, at
