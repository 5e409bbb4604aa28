"""What is asked of an object or a linked library, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """`defined`: not left to another file; `exported`: visible to the dynamic linker or to other objects."""

    name: str
    defined: bool
    exported: bool


@dataclass(frozen=True)
class Binary:
    """A file of machine code. `writable` names its sections that hold initialized or zeroed variables."""

    symbols: tuple[Symbol, ...]
    needed: tuple[str, ...]
    writable: tuple[str, ...]

    @property
    def undefined(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.symbols if not s.defined)

    @property
    def exported(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.symbols if s.defined and s.exported)


def text_at(data: bytes, offset: int) -> str:
    """A text that ends with a zero byte. Raises ValueError: there is no such byte."""
    return data[offset : data.index(b"\0", offset)].decode("utf-8", "replace")
