"""Where the nodes of a graph stand in its picture: a layered drawing, made when the report is.

Layers by the longest way from a source, order within a layer by barycenters, and places as near to the neighbours' as
the order allows (Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures",
1981).
Whole graphs take milliseconds: libraries that do this in the page took 5 s (dagre) and 19 s (d3-dag) for 1,500 nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Sweeps over all layers, down and up in turns.
_SWEEPS = 6
#: Between neighbours of a layer and between layers, and what an edge that passes a layer takes there.
_GAP, _BETWEEN, _LANE = 28.0, 36.0, 10.0


@dataclass(frozen=True)
class Picture:
    """Centres of nodes, and of each edge the points that it passes; widths and heights are those given."""

    nodes: tuple[tuple[float, float], ...]
    edges: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


@dataclass
class _Item:
    """A node, or a place where an edge passes a layer."""

    width: float
    layer: int
    x: float = 0.0


def lay_out(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], apart: Sequence[tuple[int, int]] = ()
) -> Picture:
    """The picture of an acyclic graph.

    Args:
        sizes: (width, height) of every node, in an order in which edges lead forward.
        edges: (from, to), `from` less than `to`.
        apart: ranges of nodes, nested or disjoint, that have layers of their own: a frame around one holds no other.
    """
    layers = _layers(len(sizes), edges, apart)
    items = [_Item(width, layer) for (width, _), layer in zip(sizes, layers, strict=True)]
    up: list[list[int]] = [[] for _ in items]
    down: list[list[int]] = [[] for _ in items]
    ways = []
    for a, b in edges:
        way = [a]
        for layer in range(layers[a] + 1, layers[b]):
            items.append(_Item(_LANE, layer))
            up.append([])
            down.append([])
            way.append(len(items) - 1)
        way.append(b)
        ways.append(way)
        for first, second in pairwise(way):
            down[first].append(second)
            up[second].append(first)
    rows: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for n, item in enumerate(items):
        rows[item.layer].append(n)
    for row in rows:
        _place(items, row, [0.0] * len(row))
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for row in rows if forward else rows[::-1]:
            wanted = {n: _middle(items, n, up if forward else down) for n in row}
            row.sort(key=lambda n: wanted[n])
            _place(items, row, [wanted[n] for n in row])
    left = min((item.x - item.width / 2 for item in items), default=0.0)
    heights = [max((sizes[n][1] for n in row if n < len(sizes)), default=0.0) for row in rows]
    middles, at = [], 0.0
    for height in heights:
        middles.append(at + height / 2)
        at += height + _BETWEEN
    points = [(round(item.x - left, 1), round(middles[item.layer], 1)) for item in items]
    width = max((item.x + item.width / 2 for item in items), default=0.0) - left
    return Picture(
        tuple(points[: len(sizes)]),
        tuple(tuple(points[n] for n in way) for way in ways),
        round(width, 1),
        round(max(0.0, at - _BETWEEN), 1),
    )


def _layers(count: int, edges: Sequence[tuple[int, int]], apart: Sequence[tuple[int, int]]) -> list[int]:
    """Of each node one more than the greatest of those it comes from; a source right before the first that needs it.
    Where a range that is apart begins or ends, a layer begins that is below all before."""
    sources_of: list[list[int]] = [[] for _ in range(count)]
    users: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        sources_of[b].append(a)
        users[a].append(b)
    cuts = {n for span in apart for n in span}
    layers: list[int] = []
    least, deepest = 0, -1
    lasts = [0] * count  # the last layer that each node may be in
    start = 0
    for n in range(count):
        if n in cuts:
            lasts[start:n] = [deepest] * (n - start)
            least, start = deepest + 1, n
        layers.append(max([least, *(layers[a] + 1 for a in sources_of[n])]))
        deepest = max(deepest, layers[n])
    lasts[start:] = [deepest] * (count - start)
    for n in range(count):
        if users[n] and not sources_of[n]:
            layers[n] = min(lasts[n], min(layers[b] for b in users[n]) - 1)
    return layers


def _middle(items: Sequence[_Item], n: int, neighbours: Sequence[Sequence[int]]) -> float:
    near = neighbours[n]
    return sum(items[m].x for m in near) / len(near) if near else items[n].x


def _place(items: Sequence[_Item], row: Sequence[int], wanted: Sequence[float]) -> None:
    """Puts a row where it wants to be, in its order and without overlap: neighbours that meet become a block, which
    stands where its members want on average."""
    blocks: list[tuple[float, float, int]] = []  # sum of wishes for the first member, its offset, how many
    offsets, at = [], 0.0
    for k, n in enumerate(row):
        if k:
            before = items[row[k - 1]]
            at += (before.width + items[n].width) / 2 + (_GAP if min(before.width, items[n].width) > _LANE else _LANE)
        offsets.append(at)
    for k in range(len(row)):
        blocks.append((wanted[k] - offsets[k], offsets[k], 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][2] > blocks[-1][0] / blocks[-1][2]:
            total, _, count = blocks.pop()
            own, offset, members = blocks.pop()
            blocks.append((own + total, offset, members + count))
    k = 0
    for total, _, count in blocks:
        for _ in range(count):
            items[row[k]].x = total / count + offsets[k]
            k += 1
