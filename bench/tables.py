"""The tables of the benchmark, from the records of `protocol.Bench`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.table import Table

from layers import Layer
from machine import Limits
from models import COUNTED
from operators import OPERATORS

Records = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By peer, then stage."""

OWN = "sterna"
#: Below so many times a peer's speed, one layer makes a user leave.
CLIFF = 0.85


def _time(us: float) -> str:
    return f"{us:.1f} us" if us < 1000 else f"{us / 1e3:.2f} ms"


def figures(records: Records, stage: str) -> dict[str, float]:
    """Microseconds of every peer that ran and was right."""
    rows = {peer: stages.get(stage, {}) for peer, stages in records.items()}
    return {p: r["us"] for p, r in rows.items() if "us" in r and "failed" not in r and not r["wrong"]}


def own(records: Records) -> str:
    """Which of Sterna's engines is compared: the first."""
    return next((peer for peer in records if peer.startswith(OWN)), OWN)


def ratio(records: Records, stage: str) -> float | None:
    """How many times faster Sterna is than the fastest peer."""
    found, ours = figures(records, stage), own(records)
    peers = [us for peer, us in found.items() if not peer.startswith(OWN)]
    return min(peers) / found[ours] if ours in found and peers else None


def latency(
    results: Mapping[str, Records],
    threads: int,
    work: Mapping[str, int],
    peak: float,
    counted: Sequence[str] = COUNTED,
) -> Table:
    """Times and ratios; `peak`: 10^9 operations a second that the machine can do at most."""
    peers = list(dict.fromkeys(peer for records in results.values() for peer in records))
    what = "CPU time of a call" if threads == 1 else "best decile of a call"
    title = f"{threads} thread{'s' if threads > 1 else ''}: {what} (the machine's peak: {peak:.0f} GOP/s)"
    table = Table("model", *peers, "x fastest peer", "% of peak", title=title)
    ratios = []
    for name, records in results.items():
        found = figures(records, str(threads))
        factor = ratio(records, str(threads))
        if factor is not None and name in counted:
            ratios.append(factor)
        ours = own(records)
        share = 2 * work.get(name, 0) / found[ours] / 1e3 / peak if ours in found else 0
        table.add_row(
            name,
            *(_time(found[p]) if p in found else "-" for p in peers),
            f"{factor:.2f}" if factor else "-",
            f"{100 * share:.0f}" if share else "-",
        )
    if ratios:
        mean = _mean(ratios)
        label = f"geometric mean of {len(ratios)} of {len(counted)}"
        table.add_row(label, *("" for _ in peers), f"{mean:.2f}", f"least {min(ratios):.2f}")
    return table


def by_family(results: Mapping[str, Records], threads: int) -> Table:
    """Operators by family: how far ahead of the fastest peer, and which rows are behind; the slowest family first."""
    found: dict[str, dict[str, float]] = {}
    for name, records in results.items():
        if name in OPERATORS and (factor := ratio(records, str(threads))) is not None:
            found.setdefault(OPERATORS[name].family, {})[name] = factor
    every = [factor for rows in found.values() for factor in rows.values()]
    behind = sum(factor < 1 for factor in every)
    title = (
        f"{threads} threads: {len(every)} operators, {behind} below 1, {sum(f < CLIFF for f in every)} below {CLIFF}"
    )
    table = Table("family", "rows", "x fastest peer", "least", f"rows below {CLIFF}", title=title)
    for family, rows in sorted(found.items(), key=lambda item: _mean(item[1].values())):
        slow = [f"{name.removeprefix(family + '-')} {factor:.2f}" for name, factor in rows.items() if factor < CLIFF]
        mean, least = _mean(rows.values()), min(rows.values())
        table.add_row(family, str(len(rows)), f"{mean:.2f}", f"{least:.2f}", ", ".join(slow))
    if every:
        table.add_row("all", str(len(every)), f"{_mean(every):.2f}", f"{min(every):.2f}", "")
    return table


def behind(results: Mapping[str, Records], threads: int, least: float = 0.95) -> str:
    """The models that run below so many times their fastest peer's speed, the slowest first."""
    factors = {name: ratio(records, str(threads)) for name, records in results.items()}
    slow = sorted((factor, name) for name, factor in factors.items() if factor is not None and factor < least)
    names = ", ".join(f"{name} {factor:.2f}" for factor, name in slow)
    return f"{threads} threads: {len(slow)} of {len(factors)} below {least}{': ' if slow else ''}{names}"


def _mean(factors: Collection[float]) -> float:
    """The geometric one."""
    return math.exp(sum(map(math.log, factors)) / len(factors))


def start(results: Mapping[str, Records]) -> Table:
    """Load with first inference, memory, and what has to be shipped beside the weights."""
    peers = list(dict.fromkeys(peer for records in results.values() for peer in records))
    table = Table(
        "model", *peers, title="first: CPU ms from load to the first result; MB of memory; MB of files; compiled in s"
    )
    for name, records in results.items():
        cells = []
        for peer in peers:
            once, built = records.get(peer, {}).get("1", {}), records.get(peer, {}).get("compile", {})
            if "first_ms" not in once or "seconds" not in built:
                cells.append("-")
                continue
            sizes = f"{once['memory_mb']:.0f}; {built['bytes'] / 1e6:.2f}; {built['seconds']:.1f}"
            cells.append(f"{once['first_cpu_ms']:.1f}; {sizes}")
        table.add_row(name, *cells)
    return table


def problems(results: Mapping[str, Records]) -> list[str]:
    """Who failed, or was wrong, and why."""
    lines = []
    for name, records in results.items():
        for peer, stages in records.items():
            for stage, record in stages.items():
                if "failed" in record:
                    lines.append(f"{name}, {peer}, {stage}: {record['failed']}")
                elif record.get("wrong"):
                    lines.append(f"{name}, {peer}, {stage}: wrong by {record['error']:.1e} of the largest output")
    return lines


def by_layer(name: str, layers: Sequence[Layer], limits: Limits, least: float = 0.01) -> Table:
    """Kernels that take at least the part `least` of the model's time, the longest first."""
    total = sum(layer.us for layer in layers)
    bound = sum(layer.bound(limits)[0] for layer in layers)
    title = f"{name}: {_time(total)}, {100 * bound / total:.0f} % of the roofline"
    table = Table("node", "kernel", "us", "% of model", "GFLOP/s", "GB/s", "% of its limit", "limit", title=title)
    for layer in sorted(layers, key=lambda layer: -layer.us):
        if layer.us < least * total:
            break
        bound, limit = layer.bound(limits)
        rates = (2 * layer.multiply_adds / layer.us / 1e3, max(layer.nbytes, layer.streamed) / layer.us / 1e3)
        cells = (f"{layer.us:.1f}", f"{100 * layer.us / total:.1f}", f"{rates[0]:.1f}", f"{rates[1]:.1f}")
        table.add_row(layer.name, layer.kernel, *cells, f"{100 * bound / layer.us:.0f}", limit)
    return table
