"""All translators of operations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sterna.frontends.coreml.mil import (
    compression,
    convolution,
    elementwise,
    images,
    lists,
    random,
    recurrent,
    selection,
    shapes,
)
from sterna.frontends.coreml.mil.translation import Translator
from sterna.frontends.custom import translations

_MODULES = (compression, convolution, elementwise, images, lists, random, recurrent, selection, shapes)
#: Operations that the reader itself knows.
STRUCTURE = ("classify", "cond", "const", "coreml_update_state", "read_state", "while_loop", "write_state")


@cache
def translators() -> Mapping[str, Translator]:
    """By the operation's name; not to be changed."""
    table: dict[str, Translator] = {}
    for module in _MODULES:
        table.update(module.TRANSLATORS)
    return MappingProxyType(table)


def translator_of(kind: str) -> Translator | None:
    """A registered one, or Sterna's own."""
    return translations("coreml").get(kind) or translators().get(kind)


def is_supported(kind: str) -> bool:
    """Whether an operation can be translated."""
    return kind in STRUCTURE or translator_of(kind) is not None
