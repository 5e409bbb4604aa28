"""Which node's results a node reads: from what nodes write to memory, and where.

A tensor may be written under one name and read under another: a reshape is a view, a convolution writes the middle of a
padded buffer, several tensors are the parts of one. What lies in the same buffer belongs together, until the buffer is
written anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Key = tuple[str, int, int, int]


def key_of(value: Mapping[str, Any]) -> Key:
    """The buffer of a value: class, pool, first byte, bytes."""
    storage = value["storage"]
    return storage["class"], storage.get("arena", 0), storage["offset"], storage["bytes"]


@dataclass(frozen=True)
class Link:
    """From the node that writes a value to one that reads it; `back`: in the next iteration of a loop."""

    source: int
    target: int
    value: int
    back: bool = False


def links(graph: Mapping[str, Any]) -> list[Link]:
    """All of a graph, without those from the model's inputs; those of the order first, then those back."""
    values, nodes = graph["values"], graph["nodes"]
    reads: list[list[int]] = [[] for _ in values]
    writes: list[list[int]] = [[] for _ in values]
    for n, node in enumerate(nodes):
        for v in dict.fromkeys(node["in"]):
            reads[v].append(n)
        for v in dict.fromkeys(node["out"]):
            writes[v].append(n)
    together = _together(graph, reads, writes)
    loops = loops_of(graph)
    found: dict[tuple[int, int], Link] = {}
    back: dict[tuple[int, int], Link] = {}
    for v, readers in enumerate(reads):
        whole = _whole(values[v]) and any(nodes[n]["in"] for n in writes[v])
        writers = sorted({n for other in ([v] if whole else together[v]) for n in writes[other]})
        for n in readers:
            before = [m for m in writers if m < n]
            for m in before:
                found.setdefault((m, n), Link(m, n, v))
            if not before:
                back.update({(m, n): Link(m, n, v, back=True) for m in writers if m > n})
            for first, end in loops:
                # What no node before it in the iteration writes, the one before left.
                if first <= n < end and not any(first <= m for m in before):
                    back.update({(m, n): Link(m, n, v, back=True) for m in writers if n < m < end})
    order = sorted(found.values(), key=lambda link: (link.target, link.source))
    return [*order, *back.values()]


def loops_of(graph: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The nodes that loops repeat: the first, and the one after the last."""
    return [(row["nodes"][0], row["nodes"][-1]) for row in graph.get("control", ()) if row["op"] == "loop"]


def _together(
    graph: Mapping[str, Any], reads: Sequence[Sequence[int]], writes: Sequence[Sequence[int]]
) -> list[set[int]]:
    """For every value those that lie in its buffer with it: whose uses overlap; what is written and not read under its
    own name is part of the next; and what is read and not written is made of those before it."""
    values = graph["values"]
    outputs = set(graph.get("outputs", ()))
    parent = list(range(len(values)))

    def root(v: int) -> int:
        while parent[v] != v:
            v = parent[v]
        return v

    groups: dict[Key, list[int]] = {}
    for v, value in enumerate(values):
        if reads[v] or writes[v]:
            groups.setdefault(key_of(value), []).append(v)
    for members in groups.values():
        members.sort(key=lambda v: min((*reads[v], *writes[v])))
        latest = -1  # of all before, the one that is used for longest
        for k, v in enumerate(members):
            first = min((*reads[v], *writes[v]))
            if latest >= 0 and first < max((*reads[latest], *writes[latest])):
                parent[root(v)] = root(latest)
            if latest < 0 or max((*reads[v], *writes[v])) >= max((*reads[latest], *writes[latest])):
                latest = v
            if not writes[v]:
                missing = _elements(values[v])
                for before in reversed(members[:k]):
                    parent[root(v)] = root(before)
                    missing -= _elements(values[before]) if writes[before] else 0
                    if missing <= 0:
                        break
            if not reads[v] and v not in outputs and k + 1 < len(members):
                parent[root(members[k + 1])] = root(v)
    found: dict[int, set[int]] = {}
    for v in range(len(values)):
        found.setdefault(root(v), set()).add(v)
    return [found[root(v)] for v in range(len(values))]


def _elements(value: Mapping[str, Any]) -> int:
    """Of a value whose sizes are known; none of others, which are then taken for the whole of what they are."""
    count = 1
    for size in value["dims"]:
        if isinstance(size, list):
            return 0
        count *= size
    return count


def _whole(value: Mapping[str, Any]) -> bool:
    """Whether a value has every element of its buffer."""
    sizes = value["dims"]
    if any(isinstance(size, list) for size in sizes) or isinstance(value["storage"]["origin"], list):
        return True
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(value["storage"]["strides"]), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return bool(value["storage"]["origin"] == 0)
