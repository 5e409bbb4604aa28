"""Which node's results a node reads: from what nodes write to memory, and where.

A tensor may be written under one name and read under another: a reshape is a view, a convolution writes the middle of a
padded buffer, several tensors are the parts of one. What lies in the same buffer belongs together, until the buffer is
written anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass
class _Writes:
    """What has been written to a buffer since it was last filled as a whole: value -> its writers."""

    of: dict[int, list[int]] = field(default_factory=dict)


def links(graph: Mapping[str, Any]) -> list[Link]:
    """All of a graph, without those from the model's inputs; those of the order first, then those back."""
    values, nodes = graph["values"], graph["nodes"]
    keys = [key_of(value) for value in values]
    found: dict[tuple[int, int], Link] = {}
    buffers: dict[Key, _Writes] = {}
    missed: list[tuple[int, int]] = []
    for n, node in enumerate(nodes):
        for v in dict.fromkeys(node["in"]):
            sources = _sources(v, values, nodes, buffers.get(keys[v]))
            for source in sources:
                found.setdefault((source, n), Link(source, n, v))
            if not sources and keys[v][0] in ("arena", "output"):
                missed.append((v, n))
        _write(n, node, values, keys, buffers)
    writers: dict[int, list[int]] = {}
    for n, node in enumerate(nodes):
        for v in node["out"]:
            writers.setdefault(v, []).append(n)
    for v, n in missed:
        for source in writers.get(v, ()):
            if source > n:
                found.setdefault((source, n), Link(source, n, v, back=True))
    return list(found.values())


def _sources(v: int, values: Sequence[Any], nodes: Sequence[Any], writes: _Writes | None) -> list[int]:
    if writes is None:
        return []
    own = writes.of.get(v, ())
    if _whole(values[v]) and any(nodes[n]["in"] for n in own):
        return sorted(set(own))
    return sorted({n for written in writes.of.values() for n in written})


def _write(
    n: int, node: Mapping[str, Any], values: Sequence[Any], keys: Sequence[Key], buffers: dict[Key, _Writes]
) -> None:
    read = {keys[v] for v in node["in"]}
    for v in dict.fromkeys(node["out"]):
        key = keys[v]
        for other in [k for k in buffers if k != key and _overlap(k, key)]:
            del buffers[other]
        writes = buffers.get(key)
        # A node without inputs fills a border; any other that writes the whole of a buffer, or what it reads there
        # too, leaves nothing of what was in it.
        if writes is None or (node["in"] and (key in read or _whole(values[v])) and not _part_of(writes, v, n)):
            writes = buffers[key] = _Writes()
        writes.of.setdefault(v, []).append(n)


def _part_of(writes: _Writes, v: int, n: int) -> bool:
    """Whether a node goes on with what it has just begun: another of its results lies in the same buffer."""
    return any(written and written[-1] == n for value, written in writes.of.items() if value != v)


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


def _overlap(a: Key, b: Key) -> bool:
    return a[:2] == b[:2] and a[2] < b[2] + b[3] and b[2] < a[2] + a[3]
