"""What a bundle's memory is taken by, node after node, and what decides how much there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sterna.report.links import Link, key_of
from sterna.report.subject import Subject
from sterna_runtime.describe import bundle_totals

#: Beyond so many nodes no other order is looked for.
_MOST_ORDERED = 4000


def lives(graph: Mapping[str, Any], found: Sequence[Link] = ()) -> list[tuple[int, int] | None]:
    """For every value the first and the last node at which its memory is its own; None of what no node touches.

    Args:
        found: `links` of the graph: what is written under one name may be read under another.
    """
    last_node = len(graph["nodes"]) - 1
    spans: list[list[int] | None] = [None] * len(graph["values"])
    touched: list[set[int]] = [set() for _ in graph["values"]]

    def touch(value: int, node: int) -> None:
        touched[value].add(node)
        own = spans[value]
        spans[value] = [node, node] if own is None else [min(own[0], node), max(own[1], node)]

    for n, node in enumerate(graph["nodes"]):
        for value in (*node["in"], *node["out"]):
            touch(value, n)
    for link in found:
        for value in graph["nodes"][link.source]["out"]:
            if not link.back and key_of(graph["values"][value]) == key_of(graph["values"][link.value]):
                touch(value, link.target)
    loops = [row for row in graph.get("control", ()) if row["op"] == "loop"]
    for row in graph.get("control", ()):
        for key in ("condition", "trips", "number"):
            if key in row:
                touch(row[key], min(row["nodes"][0], last_node))
                if row["op"] == "loop" and key != "trips":
                    touch(row[key], max(0, row["nodes"][-1] - 1))
    for row in reversed(loops):
        # What a loop reads from before lasts to its end; what is read after it is there from its start.
        first, end = row["nodes"][0], row["nodes"][-1] - 1
        for value, own in enumerate(spans):
            if own is None or not any(first <= n <= end for n in touched[value]):
                continue
            if own[0] < first:
                own[1] = max(own[1], end)
            if own[1] > end:
                own[0] = min(own[0], first)
    if graph.get("options", {}).get("debug"):
        spans = [None if own is None else [0, last_node] for own in spans]
    for state in graph.get("states", ()):
        spans[state["value"]] = [0, max(0, last_node)]
    return [None if own is None else (own[0], own[1]) for own in spans]


def buffers_of(graph: Mapping[str, Any], found: Sequence[Link] = ()) -> list[dict[str, Any]]:
    """The blocks of the arena over time. Values of one buffer whose lives meet are one block: views of each other, and
    results made in the place of what they are made of; and the scratch of nodes, where that has its place there."""
    values, when = graph["values"], lives(graph, found)
    groups: dict[Any, list[int]] = {}
    for v, value in enumerate(values):
        if value["storage"]["class"] in ("arena", "state") and when[v] is not None and value["storage"]["bytes"]:
            groups.setdefault(key_of(value), []).append(v)
    every = []
    for (kind, pool, offset, size), members in groups.items():
        blocks: list[dict[str, Any]] = []
        for v in sorted(members, key=lambda v: when[v] or (0, 0)):
            first, last = when[v] or (0, 0)
            if blocks and first <= blocks[-1]["last"]:
                blocks[-1]["last"] = max(blocks[-1]["last"], last)
                blocks[-1]["tensors"].append(v)
            else:
                blocks.append({"class": kind, "pool": pool, "offset": offset, "bytes": size, "first": first,
                               "last": last, "tensors": [v]})  # fmt: skip
        every += blocks
    for n, node in enumerate(graph["nodes"]):
        if "scratch" in node:
            pool, offset, size = node["scratch"]
            every.append({"class": "scratch", "pool": pool, "offset": offset, "bytes": size, "first": n, "last": n,
                          "tensors": []})  # fmt: skip
    return sorted(every, key=lambda block: (block["first"], block["pool"], block["offset"]))


def _covered(spans: Sequence[tuple[int, int, int]]) -> int:
    """Bytes of all spans (pool, begin, end), each byte once."""
    total, at = 0, (-1, 0)
    for pool, begin, end in sorted(spans):
        start = max(begin, at[1]) if pool == at[0] else begin
        if end > start:
            total += end - start
            at = (pool, end)
    return total


def alive(blocks: Sequence[Mapping[str, Any]], nodes: int) -> list[int]:
    """Bytes that are needed at each node."""
    spans: list[list[tuple[int, int, int]]] = [[] for _ in range(nodes)]
    for block in blocks:
        for n in range(block["first"], min(block["last"], nodes - 1) + 1):
            spans[n].append((block["pool"], block["offset"], block["offset"] + block["bytes"]))
    return [_covered(each) for each in spans]


def memory_of(subject: Subject, found: Sequence[Link]) -> dict[str, Any]:
    """The member `memory` of a report's subject."""
    graph = subject.graph
    assert graph is not None
    blocks = buffers_of(graph, found)
    needed = alive(blocks, len(graph["nodes"]))
    arena = bundle_totals(graph).arena_bytes
    pools = [
        {"name": row["memory"], "bytes": row["bytes"], "alignment": row["alignment"]} for row in graph.get("arenas", ())
    ] or [{"name": "arena", "bytes": arena, "alignment": 64}]
    peak = max(range(len(needed)), key=needed.__getitem__, default=None)
    row: dict[str, Any] = {
        "arena_bytes": arena,
        "live_bytes": graph["arena"].get("live_bytes", 0),
        "scratch_bytes": graph.get("scratch_bytes", 0),
        "pools": pools,
        "blocks": blocks,
        "alive": needed,
        "peak": None,
        "choices": [dict(choice) for choice in subject.choices],
    }
    if peak is not None:
        here = [n for n, block in enumerate(blocks) if block["first"] <= peak <= block["last"]]
        row["peak"] = {
            "node": peak,
            "bytes": needed[peak],
            "blocks": sorted(here, key=lambda n: -blocks[n]["bytes"]),
        }
    order = other_order(graph, blocks, found)
    if order is not None and order["bytes"] < max(needed, default=0):
        row["choices"].append(order)
    return row


def other_order(
    graph: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]], found: Sequence[Link]
) -> dict[str, Any] | None:
    """What the nodes would need in an order that keeps little alive: of the nodes that are ready, always the one after
    which the fewest bytes are. None where control decides the order, or there is only one."""
    nodes = graph["nodes"]
    if graph.get("control") or not 1 < len(nodes) <= _MOST_ORDERED:
        return None
    touches: list[list[int]] = [[] for _ in nodes]
    users = []
    of_value: dict[int, list[int]] = {}
    for b, block in enumerate(blocks):
        for v in block["tensors"]:
            of_value.setdefault(v, []).append(b)
        users.append(0)
    for n, node in enumerate(nodes):
        for v in {*node["in"], *node["out"]}:
            for b in of_value.get(v, ()):
                if blocks[b]["first"] <= n <= blocks[b]["last"] and b not in touches[n]:
                    touches[n].append(b)
                    users[b] += 1
    waits = [0] * len(nodes)
    after: list[list[int]] = [[] for _ in nodes]
    for link in found:
        if not link.back:
            waits[link.target] += 1
            after[link.source].append(link.target)
    ready = [n for n, count in enumerate(waits) if count == 0]
    begun: set[int] = set()
    held, most, order = 0, 0, []
    size = [block["bytes"] for block in blocks]
    kept = {b for b, block in enumerate(blocks) if block["class"] == "state"}
    held = sum(size[b] for b in kept)
    begun |= kept
    while ready:

        def cost(n: int) -> tuple[int, int]:
            grows = sum(size[b] for b in touches[n] if b not in begun)
            frees = sum(size[b] for b in touches[n] if users[b] == 1 and b not in kept)
            return grows - frees, n

        chosen = min(ready, key=cost)
        ready.remove(chosen)
        order.append(chosen)
        for b in touches[chosen]:
            if b not in begun:
                begun.add(b)
                held += size[b]
        most = max(most, held)
        for b in touches[chosen]:
            users[b] -= 1
            if users[b] == 0 and b not in kept:
                held -= size[b]
        for n in after[chosen]:
            waits[n] -= 1
            if waits[n] == 0:
                ready.append(n)
    if order == list(range(len(nodes))):
        return None
    return {"what": "order", "text": "nodes in another order, which keeps as little alive as it can", "bytes": most}
