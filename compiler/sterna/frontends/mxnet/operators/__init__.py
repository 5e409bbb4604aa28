"""Translators of MXNet's operators into core operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sterna.frontends.custom import translations
from sterna.frontends.mxnet.operators import (
    activations,
    arithmetic,
    attention,
    contrib,
    control,
    detection,
    filling,
    images,
    indexing,
    layers,
    linear_algebra,
    numpy_elements,
    numpy_found,
    numpy_matrices,
    numpy_movement,
    numpy_statistics,
    ordering,
    pooling,
    quantized,
    random,
    recurrent,
    reductions,
    regions,
    shapes,
    warping,
)
from sterna.frontends.mxnet.operators.aliases import ALIASES
from sterna.frontends.mxnet.operators.refused import REFUSED as REFUSED
from sterna.frontends.mxnet.translation import Translator

_MODULES = (
    activations,
    arithmetic,
    attention,
    contrib,
    control,
    detection,
    filling,
    images,
    indexing,
    layers,
    linear_algebra,
    numpy_elements,
    numpy_found,
    numpy_matrices,
    numpy_movement,
    numpy_statistics,
    ordering,
    pooling,
    quantized,
    random,
    recurrent,
    reductions,
    regions,
    shapes,
    warping,
)


def is_translated(op: str) -> bool:
    """Whether there is a translator of an operator."""
    return op in translations("mxnet") or op in translators()


@cache
def translators() -> Mapping[str, Translator]:
    """All operators; not to be changed."""
    table: dict[str, Translator] = {}
    for module in _MODULES:
        table.update(module.TRANSLATORS)
    table |= {alias: table[name] for alias, name in ALIASES.items()}
    return MappingProxyType(table)


def translator_of(op: str) -> Translator:
    """The translator of an operator, which there is; a registered one comes first."""
    return translations("mxnet").get(op) or translators()[op]
