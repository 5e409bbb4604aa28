"""What is asked about a linked WebAssembly module, and what is added to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
#: Bytes of a module before its sections.
PREAMBLE = 8
_IMPORT, _GLOBAL, _EXPORT = 2, 6, 7  # sections
_A_GLOBAL = 3  # kind of an import or export
_I32_CONST = 0x41


def wasm_imports(data: bytes) -> tuple[str, ...]:
    """The functions, tables, memories and globals, "module.name", that a linked WebAssembly module imports.

    Raises:
        ValueError: it is not a module, or is damaged.
    """
    return tuple(name for name, _ in _section(data, _IMPORT, _imports))


def exported_constant(data: bytes, name: str) -> int:
    """The value of an exported constant, such as `__heap_base`: where the module's own data end.

    Raises:
        ValueError: the module is damaged, or exports no such constant.
    """
    first = sum(kind == _A_GLOBAL for _, kind in _section(data, _IMPORT, _imports))
    values = _section(data, _GLOBAL, _globals)
    for exported, kind, index in _section(data, _EXPORT, _exports):
        if exported == name and kind == _A_GLOBAL and first <= index < first + len(values):
            return values[index - first]
    raise ValueError(f"the module exports no constant {name}")


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
    for kind, at, end in _sections(data):
        if kind == 0:
            try:
                name, contents = _name(data, at)
            except IndexError:
                raise ValueError("a damaged WebAssembly module") from None
            yield CustomSection(name, start, contents, end)
        start = end


def _section(data: bytes, wanted: int, entries: Callable[[bytes, int], Iterator[T]]) -> list[T]:
    """What `entries` reads from the first section of that kind; nothing if there is none."""
    for kind, at, _ in _sections(data):
        if kind == wanted:
            try:
                return list(entries(data, at))
            except IndexError:
                raise ValueError("a damaged WebAssembly module") from None
    return []


def _sections(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Kind, first byte and end of every section."""
    if data[:8] != b"\0asm\1\0\0\0":
        raise ValueError("not a WebAssembly module")
    at = PREAMBLE
    while at < len(data):
        kind = data[at]
        try:
            size, at = _leb(data, at + 1)
        except IndexError:
            raise ValueError("a damaged WebAssembly module") from None
        yield kind, at, at + size
        at += size


def _imports(data: bytes, at: int) -> Iterator[tuple[str, int]]:
    count, at = _leb(data, at)
    for _ in range(count):
        module, at = _name(data, at)
        field, at = _name(data, at)
        kind = data[at]
        at += 1
        if kind == 0:  # a function: its type
            _, at = _leb(data, at)
        elif kind == _A_GLOBAL:  # type and mutability
            at += 2
        else:  # a table has a type before its limits
            at += kind == 1
            limits = data[at]
            _, at = _leb(data, at + 1)
            if limits & 1:
                _, at = _leb(data, at)
        yield f"{module}.{field}", kind


def _globals(data: bytes, at: int) -> Iterator[int]:
    """Initial values; all globals of a linked module are i32 constants."""
    count, at = _leb(data, at)
    for _ in range(count):
        if data[at + 2] != _I32_CONST:
            raise ValueError("a global that is not an i32 constant")
        value, at = _leb(data, at + 3, signed=True)
        yield value
        at += 1  # end


def _exports(data: bytes, at: int) -> Iterator[tuple[str, int, int]]:
    count, at = _leb(data, at)
    for _ in range(count):
        name, at = _name(data, at)
        kind = data[at]
        index, at = _leb(data, at + 1)
        yield name, kind, index


def _name(data: bytes, at: int) -> tuple[str, int]:
    length, at = _leb(data, at)
    if at + length > len(data):
        raise IndexError
    return data[at : at + length].decode("utf-8", "replace"), at + length


def _leb(data: bytes, at: int, signed: bool = False) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value - (1 << shift) if signed and byte & 64 else value, at
