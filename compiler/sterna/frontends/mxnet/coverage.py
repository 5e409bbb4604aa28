"""Which operators of MXNet there are, and how each is compiled."""

from __future__ import annotations

from sterna.frontends.frontend import Support
from sterna.frontends.mxnet.operators import REFUSED, translators


def coverage() -> tuple[Support, ...]:
    """Operators that are translated, and those that are refused with a reason."""
    names = sorted({*translators(), *REFUSED}, key=lambda name: (name.lower(), name))
    return tuple(Support(name, "translated" if name in translators() else "not supported") for name in names)
