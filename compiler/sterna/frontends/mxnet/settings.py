"""Settings of MXNet's operators: text in the symbol, as Python writes the values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from sterna.errors import error

_INTEGER = re.compile(r"[+-]?\d{1,19}L?")
_MOST_NUMBERS = 4096  # in one tuple
_TRUE, _FALSE = ("true", "1"), ("false", "0")


class Settings:
    """What a node of a symbol says; every reader raises E0109 for text that is not of its kind.

    Args:
        kind: the operator, for messages.
        given: names and texts.
    """

    def __init__(self, kind: str, given: Mapping[str, str]):
        self.kind, self.given = kind, dict(given)

    def has(self, name: str) -> bool:
        """Whether a value is given, and is not None."""
        return self.given.get(name, "None").strip() not in ("None", "")

    def text(self, name: str, default: str = "") -> str:
        return self.given[name].strip() if self.has(name) else default

    def choice(self, name: str, default: str, *allowed: str) -> str:
        """One of some words; the default is the first of them, or one of them."""
        found = self.text(name, default)
        if found not in allowed:
            raise self._wrong(name, f"one of {', '.join(allowed)}")
        return found

    def integer(self, name: str, default: int | None = None) -> int:
        if not self.has(name):
            if default is None:
                raise error("E0109", f"{self.kind} lacks the setting {name}")
            return default
        text = self.text(name)
        if text.lower() in ("true", "false"):
            return int(text.lower() == "true")
        if not _INTEGER.fullmatch(text):
            raise self._wrong(name, "an integer")
        return int(text.removesuffix("L"))

    def optional(self, name: str) -> int | None:
        """An integer, or None."""
        return self.integer(name) if self.has(name) else None

    def number(self, name: str, default: float | None = None) -> float:
        if not self.has(name):
            if default is None:
                raise error("E0109", f"{self.kind} lacks the setting {name}")
            return default
        text = self.text(name)
        if text.lower() in ("true", "false"):
            return float(text.lower() == "true")
        try:
            return float(text)
        except ValueError:
            raise self._wrong(name, "a number") from None

    def finite(self, name: str, default: float | None = None) -> float:
        value = self.number(name, default)
        if not math.isfinite(value):
            raise self._wrong(name, "a finite number")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in (*_TRUE, *_FALSE):
            raise self._wrong(name, "True or False")
        return text in _TRUE

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A tuple of integers; a single one counts as a tuple."""
        found = self.optional_integers(name, default)
        if any(n is None for n in found):
            raise self._wrong(name, "integers")
        return tuple(n for n in found if n is not None)

    def optional_integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int | None, ...]:
        """A tuple of integers and Nones."""
        if not self.has(name):
            if default is None:
                raise error("E0109", f"{self.kind} lacks the setting {name}")
            return default
        result: list[int | None] = []
        for part in self._parts(name):
            if part == "None":
                result.append(None)
            elif _INTEGER.fullmatch(part):
                result.append(int(part.removesuffix("L")))
            else:
                raise self._wrong(name, "integers")
        return tuple(result)

    def numbers(self, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """A tuple of finite numbers."""
        if not self.has(name):
            return default
        try:
            values = tuple(float(part) for part in self._parts(name))
        except ValueError:
            raise self._wrong(name, "numbers") from None
        if not all(map(math.isfinite, values)):
            raise self._wrong(name, "finite numbers")
        return values

    def _parts(self, name: str) -> list[str]:
        text = self.text(name)
        if text[:1] in ("(", "[") and text[-1:] in (")", "]"):
            text = text[1:-1]
        parts = [part.strip() for part in text.split(",")]
        parts = [part for n, part in enumerate(parts) if part or n < len(parts) - 1]
        if len(parts) > _MOST_NUMBERS:
            raise self._wrong(name, f"at most {_MOST_NUMBERS} values")
        return parts

    def _wrong(self, name: str, wanted: str) -> Exception:
        return error("E0109", f"{self.kind}: {name} is {self.given.get(name, '')[:80]!r}, not {wanted}")
