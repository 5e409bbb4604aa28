"""What is asked about a linked WebAssembly module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from sterna_runtime.sections import leb, sections, text_at

T = TypeVar("T")
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


def _section(data: bytes, wanted: int, entries: Callable[[bytes, int], Iterator[T]]) -> list[T]:
    """What `entries` reads from the first section of that kind; nothing if there is none."""
    for kind, at, _ in sections(data):
        if kind == wanted:
            try:
                return list(entries(data, at))
            except IndexError:
                raise ValueError("a damaged WebAssembly module") from None
    return []


def _imports(data: bytes, at: int) -> Iterator[tuple[str, int]]:
    count, at = leb(data, at)
    for _ in range(count):
        module, at = text_at(data, at)
        field, at = text_at(data, at)
        kind = data[at]
        at += 1
        if kind == 0:  # a function: its type
            _, at = leb(data, at)
        elif kind == _A_GLOBAL:  # type and mutability
            at += 2
        else:  # a table has a type before its limits
            at += kind == 1
            limits = data[at]
            _, at = leb(data, at + 1)
            if limits & 1:
                _, at = leb(data, at)
        yield f"{module}.{field}", kind


def _globals(data: bytes, at: int) -> Iterator[int]:
    """Initial values; all globals of a linked module are i32 constants."""
    count, at = leb(data, at)
    for _ in range(count):
        if data[at + 2] != _I32_CONST:
            raise ValueError("a global that is not an i32 constant")
        value, at = leb(data, at + 3, signed=True)
        yield value
        at += 1  # end


def _exports(data: bytes, at: int) -> Iterator[tuple[str, int, int]]:
    count, at = leb(data, at)
    for _ in range(count):
        name, at = text_at(data, at)
        kind = data[at]
        index, at = leb(data, at + 1)
        yield name, kind, index
