"""Translations that users register, of operators that no front end knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: Format -> operator, as `register` names it -> translation.
_TRANSLATIONS: dict[str, dict[str, Callable[[Any], Any]]] = {}


def put(format_: str, operator: str, translate: Callable[[Any], Any]) -> Callable[[], None]:
    """Adds a translation; what it returns takes it away again, and puts back what was there before."""
    table = _TRANSLATIONS.setdefault(format_, {})
    before = table.get(operator)
    table[operator] = translate

    def undo() -> None:
        if before is None:
            table.pop(operator, None)
        else:
            table[operator] = before

    return undo


def translations(format_: str) -> Mapping[str, Callable[[Any], Any]]:
    """The registered translations of a format's operators, by name."""
    return _TRANSLATIONS.get(format_, {})


def how_to_register(format_: str, operator: str) -> str:
    """What to do about an operator that is not known."""
    return f'register a translation of it: sterna.frontends.register("{format_}", "{operator}", translate)'
