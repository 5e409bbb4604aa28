"""Universal Binary JSON, draft 12 (https://ubjson.org), as far as XGBoost writes it."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_NUMBERS = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}
_CONSTANTS: dict[str, Any] = {"Z": None, "T": True, "F": False}
_DEEPEST = 64


class _Reader:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0
        # Entries of containers that say their number: constants take no bytes, and could be claimed without end.
        self.left = len(data)

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise ValueError("the data ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def marker(self) -> str:
        """The next marker; "N" fills places."""
        while (found := chr(self.take(1)[0])) == "N":
            pass
        return found

    def number(self, kind: str) -> Any:
        form = _NUMBERS[kind]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def length(self) -> int:
        kind = self.marker()
        if kind not in "iUIlL":
            raise ValueError(f"a length of type {kind!r}")
        return int(self.number(kind))

    def text(self) -> str:
        return self.take(self.length()).decode("utf-8")

    def value(self, kind: str, depth: int = 0) -> Any:
        if kind in _NUMBERS:
            return self.number(kind)
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == "C":
            return self.take(1).decode("ascii")
        if kind in "SH":
            return self.text()
        if kind in "[{" and depth < _DEEPEST:
            return self.array(depth) if kind == "[" else self.object(depth)
        raise ValueError(f"a value of type {kind!r}")

    def header(self) -> tuple[str, int]:
        """Type and number of the entries of a container, where they are said ahead: ("", -1) where not."""
        kind, count = "", -1
        if self.data[self.at : self.at + 1] == b"$":
            self.at += 1
            kind = self.marker()
        if self.data[self.at : self.at + 1] == b"#":
            self.at += 1
            count = self.length()
        self.left -= max(count, 0)
        if (kind and count < 0) or self.left < 0:
            raise ValueError("a container without a sensible number of entries")
        return kind, count

    def array(self, depth: int) -> list[Any]:
        kind, count = self.header()
        if kind in _NUMBERS:
            form = np.dtype(_NUMBERS[kind])
            result: list[Any] = np.frombuffer(self.take(form.itemsize * count), form).tolist()
            return result
        if count >= 0:
            return [self.value(kind or self.marker(), depth + 1) for _ in range(count)]
        entries = []
        while (found := self.marker()) != "]":
            entries.append(self.value(found, depth + 1))
        return entries

    def object(self, depth: int) -> dict[str, Any]:
        kind, count = self.header()
        members = {}
        while count != 0 and (count > 0 or self.data[self.at : self.at + 1] != b"}"):
            name = self.text()
            members[name] = self.value(kind or self.marker(), depth + 1)
            count -= 1
        if count < 0:
            self.at += 1
        return members


def loads(data: bytes) -> Any:
    """The value that a document holds.

    Raises:
        ValueError: it is not such a document.
    """
    reader = _Reader(data)
    return reader.value(reader.marker())
