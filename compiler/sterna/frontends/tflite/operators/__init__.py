"""Translators of TensorFlow Lite operators into core operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sterna.errors import error
from sterna.frontends.custom import translations
from sterna.frontends.tflite.operators import (
    activations,
    arithmetic,
    convolution,
    detection,
    drawn,
    normalizations,
    recurrent,
    reductions,
    segments,
    selection,
    shapes,
    signal,
    stablehlo,
)
from sterna.frontends.tflite.schema import OperatorInfo
from sterna.frontends.tflite.translation import Translator

_MODULES = (
    activations,
    arithmetic,
    convolution,
    detection,
    drawn,
    normalizations,
    recurrent,
    reductions,
    segments,
    selection,
    shapes,
    signal,
    stablehlo,
)


def is_translated(node: OperatorInfo) -> bool:
    """Whether there is a translator of an operator."""
    return node.op in translations("tflite") or node.op in (custom_translators() if node.is_custom else translators())


@cache
def translators() -> Mapping[str, Translator]:
    """Builtin operators; not to be changed."""
    table: dict[str, Translator] = {}
    for module in _MODULES:
        table.update(module.TRANSLATORS)
    return MappingProxyType(table)


def translator_of(node: OperatorInfo, is_complex: bool) -> Translator:
    """The translator of an operator, which there is.

    Args:
        is_complex: whether an operand or a result is a complex tensor.

    Raises:
        SternaError: E0111, it does not take complex tensors.
    """
    if (registered := translations("tflite").get(node.op)) is not None:
        return registered
    table = custom_translators() if node.is_custom else translators()
    if not is_complex:
        return table[node.op]
    if node.is_custom or node.op not in signal.COMPLEX_TRANSLATORS:
        raise error("E0111", f"{node.op} of complex numbers is not supported")
    return signal.COMPLEX_TRANSLATORS[node.op]


@cache
def custom_translators() -> Mapping[str, Translator]:
    """Custom operators, by the name that files give them."""
    table: dict[str, Translator] = {}
    for module in _MODULES:
        own: dict[str, Translator] = getattr(module, "CUSTOM_TRANSLATORS", {})
        table.update(own)
    return MappingProxyType(table)
