"""The trees of a `tree_ensemble`, read from its records: every node asks whether a feature is at most a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sterna.ir.graph import Array
from sterna.ops.forest import QUIET

#: Modes of `tree_ensemble` that compare by order, and what they become when the children change places.
ORDERED = {"le": False, "lt": False, "ge": True, "gt": True}
#: Of a node: feature, value, whether NaN leads to the first child, both children.
Key = tuple[int, float, bool, int, int]
#: Of a leaf: scores, and the bits of what is added to them.
Weights = tuple[tuple[int, bytes], ...]


@dataclass(frozen=True)
class Trees:
    """Trees whose nodes all ask whether a feature is at most a value.

    Args:
        nodes: of every tree, each before those that it leads to: feature, value, whether NaN leads to the first child,
            both children: a node's number, or minus one minus a leaf's number. A tree that is a leaf has none.
        leaves: of every tree, the weights of its leaves: (score, bits of the weight).
    """

    nodes: tuple[tuple[Key, ...], ...]
    leaves: tuple[tuple[Weights, ...], ...]


def trees_of(operands: Sequence[Array | None], attributes: Mapping[str, Any], kind: str) -> Trees | None:
    roots, _, records, starts, targets, weights = operands
    assert roots is not None
    assert records is not None
    assert weights is not None
    reader = _Records(records, starts, targets, weights, attributes, kind)
    if reader.odd:
        return None
    nodes, leaves = [], []
    for root in roots.tolist():
        tree = _Tree(reader, int(root))
        nodes.append(tuple(tree.nodes))
        leaves.append(tuple(tree.leaves))
        if sum(map(len, nodes)) > 2 * len(records):  # nodes that trees share
            return None
    return Trees(tuple(nodes), tuple(leaves))


class _Records:
    """The records of `tree_ensemble`, read."""

    def __init__(
        self, records: Array, starts: Array | None, targets: Array | None, weights: Array,
        attributes: Mapping[str, Any], kind: str,
    ):  # fmt: skip
        word = str(records.dtype)
        bits, flag = int(attributes["feature_bits"]), int(attributes["flags"] == "missing")
        told = records[:, 1].astype(np.uint64)
        self.feature = (told & np.uint64((1 << bits) - 1)).astype(np.int64)
        missing = (told >> np.uint64(bits) & np.uint64(flag)).astype(bool)
        self.following = (told >> np.uint64(bits + flag)).astype(np.int64)
        values = np.ascontiguousarray(records[:, 0]).view(np.float32 if word == "uint32" else np.float64)
        never = np.isnan(values)
        self.leaf = never & (self.following == np.arange(len(records)) - 1)
        self.led = never & ~self.leaf  # to the second child, whatever the feature is
        #: A value of the model's own that is NaN while NaN leads elsewhere than all else.
        self.odd = bool((self.led & missing).any())
        self.swapped = ORDERED[attributes["mode"]]
        self.value = _at_most(values, attributes["mode"] in ("lt", "ge"), kind)
        self.missing = missing ^ self.swapped
        _, payload = QUIET[word]
        self.number = (records[:, 0].astype(np.uint64) & np.uint64((1 << payload) - 1)).astype(np.int64)
        self.starts, self.targets, self.weights = starts, targets, weights

    def weights_of(self, record: int) -> Weights:
        """A leaf's scores and weights. Adding zero changes no sum that began at zero."""
        n = int(self.number[record])
        begin, end = (n, n + 1) if self.starts is None else (int(self.starts[n]), int(self.starts[n + 1]))
        found = [
            (0 if self.targets is None else int(self.targets[k]), self.weights[k].tobytes())
            for k in range(begin, end)
            if self.starts is None or self.weights[k] != 0
        ]
        return tuple(found) or ((0, np.zeros(1, self.weights.dtype).tobytes()),)


def _at_most(values: Array, below: bool, kind: str) -> Array:
    """The greatest numbers of a type that are at most (less than, if `below`) given ones."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(kind)
        over = (near >= values) if below else (near > values)
        return np.asarray(np.where(over, np.nextafter(near, np.array(-np.inf, kind)), near))


class _Tree:
    """One tree whose equal parts are one; numbers nodes from its first one on."""

    def __init__(self, records: _Records, root: int):
        self.records = records
        self.leaves: list[Weights] = []
        self._leaf: dict[Weights, int] = {}
        self._made: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._done: dict[int, int] = {}
        first = self._read(root)
        if first < 0:
            self.leaves = [self.leaves[-1 - first]]
        last = len(self._keys) - 1
        self.nodes = [
            (feature, value, missing, last - yes if yes >= 0 else yes, last - no if no >= 0 else no)
            for feature, value, missing, yes, no in reversed(self._keys)
        ]

    def _place(self, record: int) -> int:
        """The record that stands for one that only leads on."""
        while self.records.led[record]:
            record = int(self.records.following[record]) + 1
        return record

    def _read(self, root: int) -> int:
        """Children before their parents; a node's number, or minus one minus a leaf's."""
        records, done = self.records, self._done
        waiting = [self._place(root)]
        while waiting:
            record = waiting[-1]
            if record in done:
                waiting.pop()
                continue
            if records.leaf[record]:
                weights = records.weights_of(record)
                if weights not in self._leaf:
                    self._leaf[weights] = len(self.leaves)
                    self.leaves.append(weights)
                done[record] = -1 - self._leaf[weights]
                continue
            following = int(records.following[record])
            children = [self._place(following), self._place(following + 1)]
            if missing := [c for c in children if c not in done]:
                waiting += missing
                continue
            yes, no = (done[c] for c in (reversed(children) if records.swapped else children))
            if yes == no:
                done[record] = yes
                continue
            key = (int(records.feature[record]), float(records.value[record]), bool(records.missing[record]), yes, no)
            if key not in self._made:
                self._made[key] = len(self._keys)
                self._keys.append(key)
            done[record] = self._made[key]
        return self._renumbered(done[self._place(root)])

    def _renumbered(self, root: int) -> int:
        """Without nodes that the root does not lead to, which those were that became their children."""
        if root < 0:
            self._keys = []
            return root
        reached = {root}
        for n in range(root, -1, -1):
            if n in reached:
                reached.update(c for c in self._keys[n][3:] if c >= 0)
        number = {old: new for new, old in enumerate(sorted(reached))}
        self._keys = [
            (feature, value, missing, number.get(yes, yes), number.get(no, no))
            for feature, value, missing, yes, no in (self._keys[n] for n in sorted(reached))
        ]
        return len(self._keys) - 1
