"""Decision trees as data, and the tables that `tree_ensemble` walks over.

A record of such a table is two words. The first is the value that a node compares a feature with, by its bits. The
second holds, from its lowest bit on, the feature, how the node compares where nodes differ in that, and the record of
the child that follows if the comparison holds; the other child's record is the next one. A leaf's value is NaN, with
which no comparison holds, and its "other child" is itself: a walk that has arrived stays where it is, and needs no
test of its own. What is left of the NaN's bits is the number of the leaf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.ir import dtypes
from sterna.ir.graph import Array

#: How a node compares the feature with its value; the number stands in the table of modes.
MODES = ("le", "lt", "ge", "gt", "eq", "ne")
#: In the table of modes: a leaf.
LEAF = 255

#: What a comparison may find: the feature is less, equal, greater, or one of the two is NaN.
LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
#: What each of `MODES` holds for.
HOLDS = (LESS | EQUAL, LESS, EQUAL | GREATER, GREATER, EQUAL, LESS | GREATER | UNORDERED)
#: How many bits say how a node compares, by how nodes may differ.
FLAG_BITS = {"same": 0, "missing": 1, "mixed": 4}
#: A quiet NaN without anything in its other bits, and how many those are.
QUIET = {"uint32": (0x7FC00000, 22), "uint64": (0x7FF8000000000000, 51)}

#: Below this part of the longest path, an average one is worth being noticed at its end.
EVEN = 0.8


@dataclass(frozen=True)
class Tables:
    """The operands of `tree_ensemble` after its first one, and its attributes that they decide.

    Args:
        roots: a record for every tree.
        depths: steps of the longest walk of every tree; None if all are the same.
        nodes: `(records, 2)` of uint32, or uint64 where float32 or 32 bits are not enough.
        starts: where the weights of a leaf begin, and after the last leaf their number; None if each leaf has one.
        targets: the score that each weight is added to; None if that is the first of all.
        weights: in the order of leaves.
    """

    roots: Array
    depths: Array | None
    nodes: Array
    starts: Array | None
    targets: Array | None
    weights: Array
    attributes: dict[str, Any]

    def operands(self) -> tuple[Array | None, ...]:
        return self.roots, self.depths, self.nodes, self.starts, self.targets, self.weights


@dataclass(frozen=True)
class Forest:
    """Nodes and leaves of all trees; a child is an index among them.

    Args:
        roots: the first node of every tree.
        features: the feature that a node compares.
        modes: how it compares, a position in `MODES`; `LEAF` for a leaf.
        values: what it compares with; float32 or float64, the type in which features are compared.
        missing: whether NaN leads to the first child too.
        children: (if the comparison holds, if not) of a node; (first weight, number of weights) of a leaf.
        targets: the score that a weight of a leaf is added to.
        weights: of all leaves.
    """

    roots: Array
    features: Array
    modes: Array
    values: Array
    missing: Array
    children: Array
    targets: Array
    weights: Array

    @property
    def depth(self) -> int:
        """Nodes of the longest path, without its leaf.

        Raises:
            SternaError: E0109, a path does not end.
        """
        front, depth = np.unique(self.roots), 0
        while True:
            front = front[self.modes[front] != LEAF]
            if not front.size:
                return depth
            depth += 1
            if depth > len(self.features):
                raise error("E0109", "a tree leads back to one of its own nodes")
            front = np.unique(self.children[front].reshape(-1))

    def tables(self, dtype: str) -> Tables:
        """As `tree_ensemble` walks over it.

        Args:
            dtype: in which features are compared and weights added up, float32 or float64.

        Raises:
            SternaError: E0109, a path does not end.
        """
        depth = self.depth
        places = _arranged(self)
        leaves = places.leaf.nonzero()[0]
        node = places.node[leaves]
        first, counts = self.children[node, 0], self.children[node, 1]
        entries = np.repeat(first - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
        targets, weights = self.targets[entries], self.weights[entries].astype(dtypes.to_numpy(dtype))
        single = bool((counts == 1).all())
        paths = places.level[leaves]
        depths = np.zeros(len(self.roots), np.int64)
        np.maximum.at(depths, places.tree[leaves], paths)
        even = bool(paths.mean() >= EVEN * depths[places.tree[leaves]].mean())
        if places.forwards:  # each edge may lead on once more
            depth = 2 * depth + 1
            depths = np.full(len(depths), depth)
        same = bool((depths == depth).all())
        nodes, packing = self._nodes(places, leaves, dtype)
        return Tables(
            smallest(places.roots),
            None if same else smallest(depths),
            nodes,
            None if single else smallest(np.concatenate([[0], np.cumsum(counts)])),
            smallest(targets) if targets.any() else None,
            weights if weights.size else np.zeros(1, weights.dtype),
            {
                **packing,
                "depth": depth,
                "leaf_weights": int(counts.max(initial=0)),
                "even": even and not places.forwards,
            },
        )

    def _nodes(self, places: _Places, leaves: Array, dtype: str) -> tuple[Array, dict[str, Any]]:
        """The records, and how they are to be read."""
        inner = ~places.leaf & ~places.forward
        node = places.node[inner]
        used = np.unique(self.modes[node])
        missing = self.missing[node]
        mixed = used.size > 1 or used.tolist() == [MODES.index("ne")]
        flags = "mixed" if mixed else "missing" if missing.any() else "same"
        count, greatest = len(places.node), int(self.features[node].max(initial=0))
        bits = next(n for n in (8, 16, 32) if greatest < 1 << n)
        if bits + FLAG_BITS[flags] + count.bit_length() > 32:
            bits = max(greatest.bit_length(), 1)
        fits = bits + FLAG_BITS[flags] + count.bit_length() <= 32 and len(leaves) <= 1 << QUIET["uint32"][1]
        word = "uint32" if dtype == "float32" and fits else "uint64"
        quiet, _ = QUIET[word]
        compared = np.dtype(np.float32 if word == "uint32" else np.float64)

        nodes = np.zeros((count, 2), np.uint64)
        values = self.values[node].astype(dtypes.to_numpy(dtype)).astype(compared)
        held = missing.astype(np.uint64)
        if mixed:
            held = np.array(HOLDS, np.uint64)[self.modes[node]] | missing.astype(np.uint64) * UNORDERED
            never = np.isnan(values)  # a value of the model's own: what holds for it does not depend on the feature
            always = np.where(self.modes[node] == MODES.index("ne"), LESS | EQUAL | GREATER | UNORDERED, 0)
            held = np.where(never, always.astype(np.uint64) | held & np.uint64(UNORDERED), held)
            values = np.where(never, compared.type(np.inf), values)
        nodes[:, 0] = quiet
        nodes[inner, 0] = values.view(word)
        nodes[leaves, 0] |= np.arange(len(leaves)).astype(np.uint64)
        # What stays or is led on takes the "other child" at once.
        following = np.where(inner, places.child, np.where(places.forward, places.child, np.arange(count)) - 1)
        nodes[1:, 1] = following[1:].astype(np.uint64) << np.uint64(bits + FLAG_BITS[flags])
        nodes[inner, 1] |= self.features[node].astype(np.uint64)
        if flags != "same":
            nodes[inner, 1] |= held << np.uint64(bits)
        mode = MODES[int(used[0])] if used.size == 1 and not mixed else "le"
        return nodes.astype(word), {"feature_bits": bits, "flags": flags, "mode": mode}


@dataclass(frozen=True)
class _Places:
    """What stands in the records; the first one is empty.

    Args:
        node: of the forest; tree: where the record is met first; level: below its root.
        child: the record of the first child; of a node whose children stand elsewhere, the record of that node.
        leaf, forward: which records are leaves, and which lead on to the same node's record.
        forwards: whether there are any but the empty ones.
    """

    node: Array
    tree: Array
    level: Array
    child: Array
    leaf: Array
    forward: Array
    roots: Array
    forwards: bool


def _arranged(forest: Forest) -> _Places:
    """A record for every node that a walk can reach: tree after tree, level after level, children side by side in the
    same cache line. A node that several lead to has its children once."""
    record = np.full(len(forest.modes), -1, np.int64)  # of each node, where its children are told
    node, tree = forest.roots.astype(np.int64), np.arange(len(forest.roots))
    parts: list[tuple[Array, ...]] = []
    base, level = 0, 0
    while node.size:
        leaf = forest.modes[node] == LEAF
        numbers = base + np.arange(node.size)
        fresh = np.zeros(node.size, np.bool_)
        fresh[np.unique(node, return_index=True)[1]] = True
        fresh &= (record[node] < 0) & ~leaf
        record[node[fresh]] = numbers[fresh]
        forward = ~leaf & ~fresh
        base += node.size
        child = np.where(forward, record[node], -1)
        child[fresh] = base + 2 * np.arange(fresh.sum())
        parts.append((node, tree, np.full(node.size, level), child, leaf, forward))
        node, tree = forest.children[node[fresh]].reshape(-1), np.repeat(tree[fresh], 2)
        level += 1
    node, tree, levels, child, leaf, forward = (np.concatenate(column) for column in zip(*parts, strict=True))
    # A tree has an odd number of records. One before its root makes pairs of children lie at even places.
    order = np.argsort(tree, kind="stable")
    place = np.empty(len(node), np.int64)
    place[order] = np.arange(len(node)) + tree[order] + 1
    count = len(node) + len(forest.roots)

    def placed(column: Array, empty: Any) -> Array:
        result = np.full(count, empty, column.dtype)
        result[place] = column
        return result

    return _Places(
        placed(node, 0), placed(tree, 0), placed(levels, 0), placed(np.where(child < 0, 1, place[child]), 1),
        placed(leaf, False), placed(forward, True), place[: len(forest.roots)], bool(forward.any()),
    )  # fmt: skip


def smallest(values: Array) -> Array:
    """In the smallest type that holds them."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kinds = ("int8", "int16", "int32", "int64")
    return values.astype(next(k for k in kinds if dtypes.limits(k)[0] <= low and high <= dtypes.limits(k)[1]))
