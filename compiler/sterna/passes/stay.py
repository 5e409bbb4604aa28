"""Why a call is on the CPU although its target has a device: what the choice of places found, for who reads the bundle.

Reasons and what is told with each are those of graph.json (docs/bundle.md, "Devices"); `sterna_runtime.cli.stay` has
the words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sterna.errors import SternaError
from sterna.ir.integer import ComputedSymbol, Symbol

Reason = Literal["control", "size", "type", "buffers", "unproved", "slower", "copies", "asked"]
"""It stands in a branch or a loop; it computes the size of a dimension; the device lacks an element type; it has too
many buffers; its loops over open sizes are not proved right; the CPU is estimated to be faster, by itself, or because
of copies to and from its neighbours; the user named it."""


@dataclass(frozen=True)
class Stay:
    """Why a call stays.

    Args:
        facts: what is told with the reason, as graph.json has it.
    """

    reason: Reason
    facts: Mapping[str, Any] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        return {"reason": self.reason, **self.facts}


CONTROLLED = Stay("control")


def gives(sizes: Iterable[Symbol]) -> Stay:
    """It computes the size of dimensions."""
    return Stay("size", {"dims": _names(sizes)})


def lacking(types: Iterable[str]) -> Stay:
    """It has elements of types that the device has not."""
    return Stay("type", {"types": sorted(types)})


def crowded(buffers: int, most: int) -> Stay:
    """It has more buffers than the device passes to a kernel."""
    return Stay("buffers", {"buffers": buffers, "most": most})


def unproved(sizes: Iterable[Symbol], problem: SternaError) -> Stay:
    """Its loops over open sizes could not be shown to be right on the device; what was not is an error's title."""
    first = problem.diagnostics[0]
    found = {*sizes}
    computed = {size for size in found if isinstance(size, ComputedSymbol)}
    others = {"computed": _names(computed)} if computed else {}
    told = {"dims": _names(found - computed), **others, "code": first.code, "problem": first.title}
    return Stay("unproved", told)


def asked(pattern: str) -> Stay:
    """Who compiles the model named it."""
    return Stay("asked", {"pattern": pattern})


def estimated(own: tuple[float, float], on_device: float) -> Stay:
    """The estimate says that the CPU is faster: by itself, or with copies.

    Args:
        own: nanoseconds of the kernel alone, on the CPU and on the device.
        on_device: nanoseconds there, with what copies would take more.
    """
    reason: Reason = "slower" if own[0] < own[1] else "copies"
    return Stay(reason, {"cpu_ns": round(own[0]), "device_ns": round(on_device)})


def _names(sizes: Iterable[Symbol]) -> list[str]:
    return sorted({size.name for size in sizes})
