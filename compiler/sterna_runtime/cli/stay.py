"""Why nodes of a bundle for a device stay on the CPU, in words: of one node for a list, of all of them in a sentence.

What is told is the member `stay` of nodes in graph.json (docs/bundle.md, "Devices"): a reason, and facts of it. Reasons
that this version does not know stand for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sterna_runtime.advice import Advice, Option, dims
from sterna_runtime.cli.reports import duration, number_of
from sterna_runtime.dims import given_dimension

#: Nodes that a sentence names, of each reason.
_NAMED = 2

Row = Mapping[str, Any]


def stays(nodes: Iterable[Row]) -> list[Row]:
    """The nodes that say why they are on the CPU."""
    return [node for node in nodes if "stay" in node]


def node_text(stay: Row) -> str:
    """Why one node is on the CPU."""
    words = _WORDS.get(stay["reason"])
    if words is None:
        return str(stay["reason"])
    text = f"{words[0]}{_facts([stay])}"
    return f"{text}: {stay['problem']}" if stay.get("problem") else text


def lines(nodes: Sequence[Row], kind: str | None) -> list[str]:
    """How many nodes are on the CPU and why, and what has them on the device, as a command line says it.

    Args:
        kind: of the device; None where that is not known.
    """
    advice = None if kind is None else ways(nodes, kind)
    return [line for line in (summary(nodes), advice and advice.text("cli")) if line]


def summary(nodes: Sequence[Row]) -> str | None:
    """How many nodes are on the CPU and why, the most frequent reason first; None where nothing is told.

    Args:
        nodes: of graph.json; copies do not count.
    """
    kept, groups = stays(nodes), _by_reason(nodes)
    if not kept:
        return None
    parts = [_part(reason, rows) for reason, rows in sorted(groups.items(), key=lambda item: -len(item[1]))]
    of = sum(node.get("op") != "copy" for node in nodes)
    stay = "stays" if len(kept) == 1 else "stay"
    return f"{len(kept):,} of {number_of(of, 'node')} {stay} on the CPU: {'; '.join(parts)}"


def ways(nodes: Sequence[Row], kind: str) -> Advice | None:
    """What has nodes on the device that stay; None where nothing has.

    Args:
        kind: of the device.
    """
    found = _by_reason(nodes)
    advice: list[Advice] = []
    if names := _all(found.get("unproved", ()), "dims"):
        given = (given_dimension(name)[0] for name in names)
        advice.append(Advice("one size: ", dims(dict.fromkeys(given, "<size>"))))
    if moved := [*found.get("slower", ()), *found.get("copies", ())]:
        advice.append(Advice("against the estimate: ", Option("device_for", {_name(moved[0]): kind})))
    if patterns := dict.fromkeys(node["stay"].get("pattern", "") for node in found.get("asked", ())):
        advice.append(Advice("leave out ", Option("device_for", dict.fromkeys(patterns, "cpu"))))
    return Advice("on the device instead: ", Advice.join("; ", advice)) if advice else None


def _by_reason(nodes: Iterable[Row]) -> dict[str, list[Row]]:
    """The nodes that say why they are on the CPU, by reason."""
    groups: dict[str, list[Row]] = {}
    for node in stays(nodes):
        groups.setdefault(node["stay"]["reason"], []).append(node)
    return groups


def _part(reason: str, rows: Sequence[Row]) -> str:
    """The nodes of one reason."""
    words = _WORDS.get(reason)
    text = reason if words is None else words[len(rows) > 1]
    names = list(dict.fromkeys(map(_name, rows)))
    shown = ", ".join([*names[:_NAMED], *(["..."] if len(names) > _NAMED else [])])
    return f"{len(rows):,} {text}{_facts([row['stay'] for row in rows])} ({shown})"


def _name(node: Row) -> str:
    sources = node.get("sources") or [node["name"]]
    return str(sources[0])


#: What one node does, or what several do.
_WORDS: dict[str, tuple[str, str]] = {
    "control": ("stands in a branch or a loop", "stand in branches or loops"),
    "size": ("computes a size that the data decide", "compute sizes that the data decide"),
    "type": ("has elements that the device lacks", "have elements that the device lacks"),
    "buffers": ("has too many inputs and outputs", "have too many inputs and outputs"),
    "unproved": ("is not proved right for every size", "are not proved right for every size"),
    "slower": ("is estimated to be faster there", "are estimated to be faster there"),
    "copies": ("lies beside those, and copies would take longer", "lie beside those, and copies would take longer"),
    "asked": ("was put there by name", "were put there by name"),
}  # fmt: skip


def _facts(rows: Sequence[Row]) -> str:
    """What is told with the reasons of some nodes, which are one."""
    told = _TOLD.get(rows[0]["reason"])
    text = "" if told is None else told(rows)
    return f": {text}" if text else ""


def _listed(member: str) -> Callable[[Sequence[Row]], str]:
    return lambda rows: ", ".join(_of(rows, member))


def _sizes(rows: Sequence[Row]) -> str:
    return ", ".join(dict.fromkeys((*_of(rows, "dims"), *_of(rows, "computed"))))


def _buffers(rows: Sequence[Row]) -> str:
    return f"{max(row.get('buffers', 0) for row in rows)}, of {rows[0].get('most', 0)}"


def _times(rows: Sequence[Row]) -> str:
    here, there = (sum(row.get(member, 0) for row in rows) / 1e9 for member in ("cpu_ns", "device_ns"))
    return f"{duration(here)}, {duration(there)} on the device"


def _patterns(rows: Sequence[Row]) -> str:
    return ", ".join(dict.fromkeys(row.get("pattern", "") for row in rows))


_TOLD: dict[str, Callable[[Sequence[Row]], str]] = {
    "size": _listed("dims"),
    "type": _listed("types"),
    "buffers": _buffers,
    "unproved": _sizes,
    "slower": _times,
    "copies": _times,
    "asked": _patterns,
}


def _of(rows: Iterable[Row], member: str) -> list[str]:
    """All texts of a list that rows have, once each."""
    return list(dict.fromkeys(text for row in rows for text in row.get(member, ())))


def _all(nodes: Iterable[Row], member: str) -> list[str]:
    return _of((node["stay"] for node in nodes), member)
