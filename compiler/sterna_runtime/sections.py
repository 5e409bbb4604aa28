"""The sections of a WebAssembly module: a bundle of one file has its graph and its weights in two of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: Bytes of a module before its sections.
PREAMBLE = 8


def section_header(name: str, size: int) -> bytes:
    """What stands before the contents of a custom section of so many bytes: 7 bytes and the name, of at most 127."""
    text = name.encode()
    inside = 1 + len(text) + size
    # Every byte but the last says that another follows: a number may be written longer than it needs.
    number = bytes(inside >> 7 * at & 127 | (128 if at < 4 else 0) for at in range(5))
    return bytes([0, *number, len(text), *text])


@dataclass(frozen=True)
class CustomSection:
    """A custom section, and where in the module it, its contents and what follows begin."""

    name: str
    start: int
    contents: int
    end: int


def custom_sections(data: bytes) -> Iterator[CustomSection]:
    """The custom sections of a module, in their order.

    Raises:
        ValueError: it is not a module, or is damaged.
    """
    start = PREAMBLE
    for kind, at, end in sections(data):
        if kind == 0:
            try:
                name, contents = text_at(data, at)
            except IndexError:
                raise ValueError("a damaged WebAssembly module") from None
            yield CustomSection(name, start, contents, end)
        start = end


def sections(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Kind, first byte and end of every section."""
    if data[:8] != b"\0asm\1\0\0\0":
        raise ValueError("not a WebAssembly module")
    at = PREAMBLE
    while at < len(data):
        kind = data[at]
        try:
            size, at = leb(data, at + 1)
        except IndexError:
            raise ValueError("a damaged WebAssembly module") from None
        yield kind, at, at + size
        at += size


def text_at(data: bytes, at: int) -> tuple[str, int]:
    """The text that begins there, after its length, and where it ends; IndexError if it is cut off."""
    length, at = leb(data, at)
    if at + length > len(data):
        raise IndexError
    return data[at : at + length].decode("utf-8", "replace"), at + length


def leb(data: bytes, at: int, signed: bool = False) -> tuple[int, int]:
    """The number of LEB128 that begins there, and where it ends; IndexError if it is cut off."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value - (1 << shift) if signed and byte & 64 else value, at
