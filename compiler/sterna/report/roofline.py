"""Work and traffic of nodes by their time, and how near that is to what the machine can do at most.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore architectures", 2009;
memory is the level of the hierarchy that holds as much as the node reads and writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sterna.report.limits import Limits

_BYTES = ("int8", "uint8")
#: Of a node whose time is not known.
NO_RATES: Mapping[str, Any] = {"gflops": None, "gbytes": None, "roof": None, "bound": None}


def rates(
    nodes: Sequence[Mapping[str, Any]],
    tensors: Sequence[Mapping[str, Any]],
    nanoseconds: Sequence[int],
    calls: Sequence[int],
    limits: Limits | None,
) -> list[dict[str, Any]]:
    """Of every node of a subject: GFLOP/s, GB/s, the share of the roofline, and what that is bound by.

    Args:
        nanoseconds, calls: of each in a run, in which loops compute a node several times.
        limits: of the machine that took them, if they are known.
    """
    measured = zip(nodes, nanoseconds, calls, strict=True)
    return [_rate(node, tensors, taken / max(1, often), limits) for node, taken, often in measured]


def _rate(
    node: Mapping[str, Any], tensors: Sequence[Mapping[str, Any]], taken: float, limits: Limits | None
) -> dict[str, Any]:
    work, moved = 2 * (node["multiply_adds"] or 0), node["moved_bytes"] or 0
    row = dict(NO_RATES)
    if not taken:
        return row
    row["gflops"] = work / taken if work else None
    if not node["inputs"]:  # it fills a part of a tensor, of a size that is not known: the border of a padded one
        return row
    row["gbytes"] = moved / taken if moved else None
    if limits is None or not moved or node["device"] not in (None, "cpu"):  # the limits are those of the CPU
        return row
    narrow = any(tensors[v]["dtype"] in _BYTES for v in node["inputs"])
    peak = limits.gops if narrow and limits.gops else limits.gflops
    reading = limits.rate(moved)
    if work / moved * reading > peak:
        return {**row, "roof": work / taken / peak, "bound": "arithmetic"}
    return {**row, "roof": moved / taken / reading, "bound": "memory"}
