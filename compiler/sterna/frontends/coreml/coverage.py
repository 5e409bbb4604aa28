"""Which operations, layers and models of Core ML there are, and how each is compiled."""

from __future__ import annotations

from sterna.frontends.coreml.classical import TRANSLATORS
from sterna.frontends.coreml.layers.operators import translators as layers
from sterna.frontends.coreml.mil.operators import STRUCTURE
from sterna.frontends.coreml.mil.operators import translators as operations
from sterna.frontends.coreml.pipelines import REFUSED
from sterna.frontends.frontend import Support

#: Layers that no translator is there for.
_MISSING_LAYERS = ("custom", "loopBreak", "loopContinue")


def coverage() -> tuple[Support, ...]:
    """Operations of programs, layers of networks (`layer:`) and other models (`model:`)."""
    known = [(name, "translated") for name in operations()]
    known += [(name, "control flow" if name in ("cond", "while_loop") else "translated") for name in STRUCTURE]
    known += [(f"layer:{name}", "translated") for name in layers()]
    known += [(f"model:{name}", "translated") for name in TRANSLATORS]
    missing = (*(f"layer:{n}" for n in _MISSING_LAYERS), *(f"model:{n}" for n in REFUSED))
    known += [(name, "not supported") for name in missing]
    return tuple(Support(name, how) for name, how in sorted(known))
