"""Which operators of ONNX there are, and how each is compiled."""

from __future__ import annotations

from typing import Any

from onnx import defs

from sterna.frontends.frontend import Support
from sterna.frontends.onnx import structure
from sterna.frontends.onnx.nodes import ML, newest, schema
from sterna.frontends.onnx.operators import MICROSOFT, own_translators
from sterna.frontends.onnx.sequences import OPERATORS as SEQUENCES
from sterna.ops import operators


def coverage() -> tuple[Support, ...]:
    """The operators of ONNX and ONNX-ML that the newest operator sets of the installed package have, and those of
    `com.microsoft` that are supported."""
    found = []
    for domain in ("", ML):
        for name in sorted({s.name for s in defs.get_all_schemas_with_history() if s.domain == domain}):
            declared = schema(name, newest(domain), domain)
            if declared is not None and not (domain == "" and declared.deprecated):
                found.append(Support(f"{domain}.{name}" if domain else name, how(domain, name, declared)))
    microsoft = sorted(name for domain, name in own_translators() if domain == MICROSOFT)
    return (*found, *(Support(f"{MICROSOFT}.{name}", "translated", custom=True) for name in microsoft))


def how(domain: str, name: str, declared: Any) -> str:
    """How an operator is compiled: as a core operator, translated into some, expanded from its definition ..."""
    if (domain, name) in own_translators():
        known = {(m.domain, m.op): operator.name for operator in operators().values() for m in operator.onnx}
        direct = own_translators()[domain, name].__qualname__.startswith("_direct")
        return f"core `{known[domain, name]}`" if direct and (domain, name) in known else "translated"
    if domain == "" and name in structure.CONTROL:
        return "control flow"
    if domain == "" and name in SEQUENCES:
        return "compile time"
    if declared.has_function or declared.has_context_dependent_function:
        return "function"
    return "not supported"
