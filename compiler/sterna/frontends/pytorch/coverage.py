"""Which operators of PyTorch are compiled, for the tables of the documentation."""

from __future__ import annotations

from sterna.frontends.frontend import Support
from sterna.frontends.pytorch.control import OPERATORS
from sterna.frontends.pytorch.operators import translators


def coverage() -> tuple[Support, ...]:
    """The operators by namespace, name and overload; those of other namespaces than PyTorch's count as custom."""
    table = [Support(name, "translated", custom=_is_custom(name)) for name in sorted(translators())]
    return (*table, *(Support(name, "control flow") for name in sorted(OPERATORS)))


def _is_custom(name: str) -> bool:
    return name.partition(".")[0] not in ("aten", "prims", "_operator", "torch", "math")
