"""Translators of ONNX operators into core operators."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sterna.frontends.custom import translations
from sterna.frontends.onnx.narrow_weights import INNER
from sterna.frontends.onnx.nodes import ML
from sterna.frontends.onnx.operators import (
    arithmetic,
    attention,
    block_weights,
    classical,
    convolution,
    microsoft,
    microsoft_experts,
    microsoft_models,
    microsoft_quantized,
    microsoft_states,
    quantization,
    random,
    recurrent,
    resampling,
    selection,
    shapes,
    signal,
    spatial,
    text,
    trees,
)
from sterna.frontends.onnx.translation import Translation, Translator
from sterna.ir.graph import Value
from sterna.ops import Onnx, Operator, operators

_MODULES = (
    arithmetic,
    attention,
    classical,
    convolution,
    block_weights,
    microsoft,
    microsoft_experts,
    microsoft_models,
    microsoft_quantized,
    microsoft_states,
    quantization,
    random,
    recurrent,
    resampling,
    selection,
    shapes,
    signal,
    spatial,
    text,
    trees,
)
MICROSOFT = "com.microsoft"


def translators() -> Mapping[tuple[str, str], Translator]:
    """(domain, operator) -> its translator: those that users registered, then Sterna's own."""
    registered = {operator_key(name): translate for name, translate in translations("onnx").items()}
    return ChainMap(registered, dict(own_translators())) if registered else own_translators()


def operator_key(name: str) -> tuple[str, str]:
    """(domain, operator) of a name as users register it, `domain::operator`."""
    domain, _, op = name.rpartition("::")
    return ("" if domain == "ai.onnx" else domain), op


@cache
def own_translators() -> Mapping[tuple[str, str], Translator]:
    """Translators written by hand, and the operators declared to be ONNX's own."""
    table: dict[tuple[str, str], Translator] = {}
    for operator in operators().values():
        for mapping in operator.onnx:
            table[mapping.domain, mapping.op] = _direct(operator, mapping)
    for module in _MODULES:
        for domain, attribute in (
            ("", "TRANSLATORS"), (ML, "ML_TRANSLATORS"), (MICROSOFT, "MICROSOFT_TRANSLATORS"),
            (INNER, "INNER_TRANSLATORS"),
        ):  # fmt: skip
            own: dict[str, Translator] = getattr(module, attribute, {})
            table.update({(domain, name): translator for name, translator in own.items()})
    return MappingProxyType(table)


def _direct(operator: Operator, mapping: Onnx) -> Translator:
    kinds = {attribute.name: attribute.kind for attribute in operator.attributes}

    def translate(t: Translation) -> Value:
        attributes = {}
        for key, value in t.node.attributes.items():
            name = mapping.attributes.get(key, key)
            attributes[name] = bool(value) if kinds.get(name) == "bool" else value
        return t.op(operator.name, *t.inputs, **attributes)

    return translate
