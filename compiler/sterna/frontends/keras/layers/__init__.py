"""Translators of Keras' layers into core operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from sterna.frontends.custom import translations
from sterna.frontends.keras.config import Layer
from sterna.frontends.keras.layers import (
    activations,
    attention,
    convolution,
    core,
    encoding,
    images,
    merging,
    normalization,
    pooling,
    recurrent,
    reshaping,
    spectrograms,
)
from sterna.frontends.keras.layers.operations import operation
from sterna.frontends.keras.translation import Result, Translation, Translator

_MODULES = (
    core, activations, convolution, pooling, normalization, merging, reshaping, images, recurrent, attention, encoding,
    spectrograms,
)  # fmt: skip


@cache
def own_translators() -> Mapping[str, Translator]:
    """Class of a layer -> its translator."""
    table: dict[str, Translator] = {}
    for module in _MODULES:
        table |= module.LAYERS
    return MappingProxyType(table)


def translator_of(layer: Layer) -> Callable[[Translation], Result] | None:
    """What translates a layer: what users registered for its class, or Sterna's own; None if there is nothing."""
    registered = translations("keras")
    for name in (f"{layer.module}>{layer.kind}", layer.kind):
        if name in registered:
            return registered[name]
    if (found := operation(layer.kind, layer.module, dict(layer.config))) is not None:
        return found
    if layer.module and not layer.module.startswith(("keras", "tensorflow", "tf_keras", "builtins")):
        return None
    return own_translators().get(layer.kind)
