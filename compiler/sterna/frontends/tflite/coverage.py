"""Which operators of TensorFlow Lite there are, and how each is compiled."""

from __future__ import annotations

from sterna.frontends.frontend import Support
from sterna.frontends.tflite.control import CONTROL_OPERATORS
from sterna.frontends.tflite.operators import custom_translators, translators
from sterna.frontends.tflite.schema import OPERATOR_NAMES
from sterna.frontends.tflite.variables import RESOURCE_OPERATORS


def coverage() -> tuple[Support, ...]:
    """Builtin operators, those that are not supported too, and the custom ones that are."""
    builtin = [
        Support(name, _how(name))
        for number, name in sorted(OPERATOR_NAMES.items(), key=lambda item: item[1])
        if name not in ("CUSTOM", "DELEGATE") and not name.startswith("PLACEHOLDER") and number >= 0
    ]
    return (*builtin, *(Support(name, "translated", custom=True) for name in sorted(custom_translators())))


def _how(name: str) -> str:
    if name in translators():
        return "translated"
    if name in CONTROL_OPERATORS:
        return "control flow"
    return "variables" if name in RESOURCE_OPERATORS else "not supported"
