"""All translators of layers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sterna.frontends.coreml.layers import images, recurrent, tensors
from sterna.frontends.coreml.layers.translation import Translator
from sterna.frontends.custom import translations


@cache
def translators() -> Mapping[str, Translator]:
    """By the layer's kind; not to be changed."""
    return MappingProxyType({**images.TRANSLATORS, **recurrent.TRANSLATORS, **tensors.TRANSLATORS})


def is_supported(kind: str) -> bool:
    """Whether a layer can be translated."""
    return kind in translations("coreml") or kind in translators()


def translator_of(kind: str) -> Translator:
    """The translator of a layer that is supported: a registered one, or Sterna's own."""
    return translations("coreml").get(kind) or translators()[kind]
