"""Two bundles side by side: what changed in size, time, memory and numbers, as a whole and layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sterna_runtime.cli.reports import duration, size


@dataclass(frozen=True)
class Bounds:
    """By what share B may be slower or larger than A; None: by any."""

    slower: float | None = None
    larger: float | None = None


def compare(
    a: Mapping[str, Any], b: Mapping[str, Any], bounds: Bounds, differences: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The member `comparison` of a report.

    Args:
        a, b: its subjects; differences: of tensors of B from those of A, outputs among them, by name.
    """
    outputs = {row["name"] for row in a["signature"]["outputs"]}
    verdict, ok = _verdict(a, b, bounds)
    verdict += _apart(a, b)
    return {
        "ok": ok,
        "verdict": verdict,
        "totals": _totals(a, b),
        "outputs": [dict(row) for row in differences if row["name"] in outputs],
        "layers": _layers(a, b, {row["name"]: row["error"] for row in differences}),
    }


def comparable(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether both have times, in one unit."""
    return bool(a["time"] and b["time"] and a["time"]["unit"] == b["time"]["unit"])


def _verdict(a: Mapping[str, Any], b: Mapping[str, Any], bounds: Bounds) -> tuple[list[str], bool]:
    words, ok = [], True
    rows: list[tuple[str, float, float, float | None, str]] = []
    if comparable(a, b):
        # Whatever else loads the machine makes runs slower, never faster.
        one, two = a["time"]["fastest"], b["time"]["fastest"]
        clock = a["time"]["unit"] == "ns"
        texts = [duration(n * 1e-9) if clock else f"{n:,} instructions" for n in (one, two)]
        rows.append(("time", one, two, bounds.slower, f"{texts[0]} became {texts[1]}"))
    rows.append(("size", a["bytes"], b["bytes"], bounds.larger, f"{size(a['bytes'])} became {size(b['bytes'])}"))
    for what, one, two, bound, text in rows:
        change = two / one - 1 if one else 0.0
        exceeds = bound is not None and change > bound
        ok = ok and not exceeds
        limit = (
            "" if bound is None else f", {'more than' if exceeds else 'within'} the {100 * bound:g} % that are allowed"
        )
        words.append(f"{what.capitalize()}: {text} ({change:+.1%}){limit}.")
    return words, ok


def _apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """What says that they are not two of one model, or do not take or give the same."""
    words = []
    for side in ("inputs", "outputs"):
        one, two = ([_tensor(tensor) for tensor in each["signature"][side]] for each in (a, b))
        if one != two:
            words.append(f"Other {side}: {', '.join(one)} became {', '.join(two)}.")
    known = {name for node in a["nodes"] for name in node["sources"]}
    if known and not any(name in known for node in b["nodes"] for name in node["sources"]):
        words.append("No node of one model is in the other.")
    return words


def _tensor(tensor: Mapping[str, Any]) -> str:
    return f"{tensor['name']} {tensor['dtype']}[{', '.join(map(str, tensor['shape']))}]"


def _totals(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = [_total("size", "bytes", a["bytes"], b["bytes"])]
    rows.append(_total("weights", "bytes", a["weights_bytes"], b["weights_bytes"]))
    if a["code_bytes"] is not None and b["code_bytes"] is not None:
        rows.append(_total("code", "bytes", a["code_bytes"], b["code_bytes"]))
    if a["totals"] and b["totals"]:
        for key, what, unit in (
            ("arena_bytes", "arena", "bytes"), ("live_bytes", "live-set lower bound", "bytes"),
            ("multiply_adds", "multiply-adds", "count"),
        ):  # fmt: skip
            rows.append(_total(what, unit, a["totals"][key], b["totals"][key]))
    rows.append(_total("nodes", "count", len(a["nodes"]), len(b["nodes"])))
    if comparable(a, b):
        unit = "duration" if a["time"]["unit"] == "ns" else "count"
        for key in ("fastest", "median"):
            rows.append(_total(f"{key} run", unit, a["time"][key], b["time"][key]))
    return rows


def _total(what: str, unit: str, a: float, b: float) -> dict[str, Any]:
    return {"what": what, "unit": unit, "a": a, "b": b}


def _layers(a: Mapping[str, Any], b: Mapping[str, Any], errors: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """Nodes that share nodes of the model, however either bundle fuses them, are one layer."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    sides = (a["nodes"], b["nodes"])
    for nodes in sides:
        for node in nodes:
            first, *rest = _sources(node)
            for other in rest:
                parent[root(other)] = root(first)
    members: dict[str, tuple[list[int], list[int]]] = {}
    names: dict[str, dict[str, None]] = {}
    for which, nodes in enumerate(sides):
        for n, node in enumerate(nodes):
            sources = _sources(node)
            key = root(sources[0])
            members.setdefault(key, ([], []))[which].append(n)
            names.setdefault(key, {}).update(dict.fromkeys(sources))
    return [
        {
            "name": str(sides[0][both[0][0]]["name"] if both[0] else sides[1][both[1][0]]["name"]),
            "sources": list(names[key]),
            "a": _side(a, both[0]),
            "b": _side(b, both[1]),
            "error": _error(a, both[0], errors),
        }
        for key, both in members.items()
    ]


def _sources(node: Mapping[str, Any]) -> list[str]:
    return list(node["sources"]) or [node["name"]]


def _side(subject: Mapping[str, Any], nodes: Sequence[int]) -> dict[str, Any] | None:
    if not nodes:
        return None
    rows = [subject["nodes"][n] for n in nodes]
    code = {row["kernel"]: row["code_bytes"] for row in rows if row["code_bytes"] is not None}
    weights = [row["weights_bytes"] for row in rows if row["weights_bytes"] is not None]
    time = subject["time"]
    return {
        "nodes": list(nodes),
        "time": None if time is None else sum(time["nodes"][n] for n in nodes),
        "weights_bytes": sum(weights) if weights else None,
        "code_bytes": sum(code.values()) if code else None,
    }


def _error(subject: Mapping[str, Any], nodes: Sequence[int], errors: Mapping[str, float | None]) -> float | None:
    names = {subject["tensors"][v]["name"] for n in nodes for v in subject["nodes"][n]["outputs"]}
    found = [error for name in names if (error := errors.get(name)) is not None]
    return max(found, default=None)
