"""Translators of TensorFlow Lite operators into core operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sterna.frontends.tflite.operators import (
    activations,
    arithmetic,
    convolution,
    detection,
    normalizations,
    recurrent,
    reductions,
    selection,
    shapes,
)
from sterna.frontends.tflite.translation import Translator

_MODULES = (activations, arithmetic, convolution, detection, normalizations, recurrent, reductions, selection, shapes)


@cache
def translators() -> Mapping[str, Translator]:
    """Builtin operators; not to be changed."""
    table: dict[str, Translator] = {}
    for module in _MODULES:
        table.update(module.TRANSLATORS)
    return MappingProxyType(table)


@cache
def custom_translators() -> Mapping[str, Translator]:
    """Custom operators, by the name that files give them."""
    table: dict[str, Translator] = {}
    for module in _MODULES:
        own: dict[str, Translator] = getattr(module, "CUSTOM_TRANSLATORS", {})
        table.update(own)
    return MappingProxyType(table)
