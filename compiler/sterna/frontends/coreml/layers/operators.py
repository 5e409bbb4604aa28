"""All translators of layers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sterna.frontends.coreml.layers import flow, images, recurrent, spatial, tensors
from sterna.frontends.coreml.layers.translation import Translator
from sterna.frontends.custom import translations


@cache
def translators() -> Mapping[str, Translator]:
    """By the layer's kind; not to be changed."""
    table: dict[str, Translator] = {}
    for module in (flow, images, recurrent, spatial, tensors):
        table.update(module.TRANSLATORS)
    return MappingProxyType(table)


def is_supported(kind: str) -> bool:
    """Whether a layer can be translated."""
    return kind in translations("coreml") or kind in translators()


def translator_of(kind: str) -> Translator:
    """The translator of a layer that is supported: a registered one, or Sterna's own."""
    return translations("coreml").get(kind) or translators()[kind]
