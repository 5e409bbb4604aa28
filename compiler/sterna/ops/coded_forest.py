"""Decision trees in few bytes, for flash without caches: what `coded_tree_ensemble` walks over.

A walk compares small integers. Every feature that a tree asks for becomes a code, once for all trees, such that
`x <= value` holds exactly where `code(x) <= code(value)`: the code counts the steps of a grid that all values of the
ensemble lie on, or the values of that feature that are below x. A node is then one word, or two: its lowest bits are
the column of the code, its highest ones the code that it compares with, and between them stand its two children,
relative to the tree's first node. A child from `limit` on is a leaf.

Leaves with the same weights are one, within a tree and as lists among all trees, and so are subtrees of a tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sterna.ir.graph import Array
from sterna.ops.forest import QUIET, smallest

#: Modes of `tree_ensemble` that compare by order, and what they become when the children change places.
ORDERED = {"le": False, "lt": False, "ge": True, "gt": True}
#: Instructions of a code on a grid, of one step of a search, and for a feature that is not at its column's place.
GRID, SEARCH, MOVED = 14, 9, 2
#: A word: 32 bits. What one of two words has for the column, a child, a code.
WORD, HALF = 32, 16
#: Among NaN's bits, and the least of a float's that is none.
_INFINITE, _SIGN = 0x7F800000, 1 << 31
#: Of a node: feature, value, whether NaN leads to the first child, both children.
Key = tuple[int, float, bool, int, int]
#: Of a leaf: scores, and the bits of what is added to them.
Weights = tuple[tuple[int, bytes], ...]


@dataclass(frozen=True)
class Coded:
    """The operands of `coded_tree_ensemble` after its first one, and its attributes that they decide.

    Args:
        features: the feature of every column; None if column n is feature n.
        values: what columns are compared with, in rising order, column after column; None on a grid.
        starts: where the values of a column begin, and their number after the last; None on a grid.
        first: the first node of every tree.
        nodes: `(nodes, words)` of uint32.
        leaves: what is added to a leaf's number within a tree to get its number among all; None if nothing is.
        lists: where a leaf's weights begin; None if each leaf has one.
        targets: twice the score that a weight is added to, and 1 with the last one of a leaf; if each leaf has one
            weight, the score of every tree. None if that is the first of all.
        weights: of all lists.
    """

    features: Array | None
    values: Array | None
    starts: Array | None
    first: Array
    nodes: Array
    leaves: Array | None
    lists: Array | None
    targets: Array | None
    weights: Array
    attributes: dict[str, Any]

    def operands(self) -> tuple[Array | None, ...]:
        return (
            self.features, self.values, self.starts, self.first, self.nodes, self.leaves, self.lists, self.targets,
            self.weights,
        )  # fmt: skip

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self.operands() if array is not None)


@dataclass(frozen=True)
class _Trees:
    """Trees whose nodes all ask whether a feature is at most a value.

    Args:
        nodes: of every tree, each before those that it leads to: feature, value, whether NaN leads to the first child,
            both children: a node's number, or minus one minus a leaf's number.
        leaves: of every tree, the weights of its leaves: (score, bits of the weight).
        depth: nodes of the longest path; steps: of an average walk through all trees.
    """

    nodes: tuple[tuple[Key, ...], ...]
    leaves: tuple[tuple[Weights, ...], ...]
    depth: int
    steps: float


def coded(operands: Sequence[Array | None], attributes: Mapping[str, Any], x: str, features: int) -> Coded | None:
    """The tables of `tree_ensemble` in few bytes.

    Args:
        operands: of `tree_ensemble`, after its first one.
        attributes: its own.
        x: the type of the features; features: their number.

    Returns:
        None where nodes compare otherwise than by order, results are no sums, or the tables are larger than before.
    """
    if attributes["flags"] == "mixed" or attributes["mode"] not in ORDERED:
        return None
    if attributes["aggregate"] not in ("sum", "average"):
        return None
    kind = compared(x, operands[2])
    trees = _trees(operands, attributes, kind)
    if trees is None:
        return None
    columns = _columns(trees, features)
    candidates = [c for c in (_on_grid(columns, kind), _searched(columns, kind)) if c is not None]
    codes = min(candidates, key=lambda each: each.cost, default=None)
    if codes is None:
        return None
    given = {name: attributes[name] for name in ("targets", "aggregate")}
    result = _packed(trees, columns, codes, given)
    before = sum(array.nbytes for array in operands if array is not None)
    return result if result is not None and result.n_bytes < before else None


def compared(x: str, nodes: Array | None) -> str:
    """The type in which features of type `x` are compared: a float32 number is as much above any other as above the
    float32 number below that one."""
    return "float32" if x == "float32" or nodes is None or nodes.dtype == np.uint32 else "float64"


# ---------------------------------------------------------------- from records to trees
def _trees(operands: Sequence[Array | None], attributes: Mapping[str, Any], kind: str) -> _Trees | None:
    roots, _, records, starts, targets, weights = operands
    assert roots is not None
    assert records is not None
    assert weights is not None
    reader = _Records(records, starts, targets, weights, attributes, kind)
    if reader.odd:
        return None
    nodes, leaves, depth, steps = [], [], 0, 0.0
    for root in roots.tolist():
        tree = _Tree(reader, int(root))
        nodes.append(tuple(tree.nodes))
        leaves.append(tuple(tree.leaves))
        depth, steps = max(depth, tree.depth), steps + tree.steps
        if sum(map(len, nodes)) > 2 * len(records):  # nodes that trees share
            return None
    return _Trees(tuple(nodes), tuple(leaves), depth, steps)


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
        self.depth, self.steps = 0, 0.0
        self._leaf: dict[Weights, int] = {}
        self._made: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._done: dict[int, int] = {}
        first = self._read(root)
        if first < 0:  # a tree of one leaf: a node that leads there whatever it finds
            self._keys, first = [(0, 0.0, False, first, first)], 0
        last = len(self._keys) - 1
        assert first == last
        self.nodes = [
            (feature, value, missing, last - yes if yes >= 0 else yes, last - no if no >= 0 else no)
            for feature, value, missing, yes, no in reversed(self._keys)
        ]
        self._measure()

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

    def _measure(self) -> None:
        """How long walks are; an average one as if each comparison held in every other case."""
        levels, share = [0] * len(self.nodes), [0.0] * len(self.nodes)
        share[0] = 1.0
        for n, (*_, yes, no) in enumerate(self.nodes):
            self.depth, self.steps = max(self.depth, levels[n] + 1), self.steps + share[n]
            for c in (yes, no):
                if c >= 0:
                    levels[c], share[c] = max(levels[c], levels[n] + 1), share[c] + share[n] / 2


# ---------------------------------------------------------------- codes
@dataclass(frozen=True)
class _Columns:
    """What codes are made of.

    Args:
        features: of every column; those for which NaN leads to the second child come first.
        last: columns of that kind.
        values: of every column, in rising order.
    """

    features: tuple[int, ...]
    last: int
    values: tuple[Array, ...]
    place: Mapping[tuple[bool, int], int]

    @property
    def moved(self) -> bool:
        return self.features != tuple(range(len(self.features)))


@dataclass(frozen=True)
class _Codes:
    """Codes of one kind: by column and value; the greatest that a feature may have; instructions of a row."""

    code: Mapping[tuple[int, float], int]
    greatest: int
    cost: float
    attributes: Mapping[str, Any]
    values: Array | None = None
    starts: Array | None = None

    @property
    def bits(self) -> int:
        """Of a node that hold what it compares with."""
        return max(1, max(self.code.values(), default=0).bit_length())


def _columns(trees: _Trees, features: int) -> _Columns:
    asked: dict[tuple[bool, int], set[float]] = {}
    for tree in trees.nodes:
        for feature, value, missing, *_ in tree:
            asked.setdefault((missing, feature), set()).add(value)
    if not any(missing for missing, _ in asked) and len(asked) * (GRID + MOVED) >= features * GRID:
        for feature in range(features):  # all of them, at their places
            asked.setdefault((False, feature), set())
    order = sorted(asked)
    return _Columns(
        tuple(feature for _, feature in order),
        sum(not missing for missing, _ in order),
        tuple(np.array(sorted(asked[each])) for each in order),
        {each: n for n, each in enumerate(order)},
    )


def ordered(values: Array) -> Array:
    """Integers in the order of float32 numbers, 0 for both zeros."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.int64)
    return np.where(bits >= _SIGN, _SIGN - bits, bits)


def _on_grid(columns: _Columns, kind: str) -> _Codes | None:
    """Codes that are the ordered bits of a float, shifted."""
    if kind != "float32":
        return None
    keys = [ordered(values) for values in columns.values]
    every = np.unique(np.concatenate(keys))
    gaps = int(np.bitwise_or.reduce(np.diff(every))) if every.size > 1 else 1 << 20
    shift = min((gaps & -gaps).bit_length() - 1, 24)
    least, greatest = int(every[0]) - (1 << shift) + 1, int(every[-1] - every[0] >> shift) + 1
    if greatest >= 1 << HALF or least < -_INFINITE or every[-1] > _INFINITE:
        return None
    code = {
        (n, float(value)): int(key - every[0] >> shift)
        for n, values in enumerate(columns.values)
        for value, key in zip(values, keys[n], strict=True)
    }
    cost = len(columns.features) * (GRID + MOVED * columns.moved)
    return _Codes(code, greatest, cost, {"shift": shift, "least": least, "greatest": greatest, "compared": kind})


def _searched(columns: _Columns, kind: str) -> _Codes | None:
    """Codes that count the values of a feature that are below it."""
    counts = np.array([len(values) for values in columns.values])
    most = int(counts.max())
    if most >= 1 << HALF:
        return None
    code = {(n, float(value)): k for n, values in enumerate(columns.values) for k, value in enumerate(values)}
    cost = SEARCH * float(sum(int(count).bit_length() for count in counts)) + MOVED * len(counts)
    flat = np.concatenate(columns.values).astype(kind)
    starts = smallest(np.concatenate([[0], np.cumsum(counts)]))
    return _Codes(code, most, cost, {"shift": 0, "least": 0, "greatest": most, "compared": kind}, flat, starts)


# ---------------------------------------------------------------- words
def _packed(trees: _Trees, columns: _Columns, codes: _Codes, given: Mapping[str, Any]) -> Coded | None:
    limit = max(map(len, trees.nodes))
    column_bits = (len(columns.features) - 1).bit_length()
    code_bits = codes.bits
    candidates = []
    for numbers, leaves, lists in (_shared(trees), _by_tree(trees)):
        child_bits = (limit + max(map(max, numbers))).bit_length()
        kept = _Leaves(trees, lists, leaves)
        if column_bits + code_bits + 2 * child_bits <= WORD:
            candidates.append(
                _written(trees, columns, codes, numbers, kept, (column_bits, child_bits, 1, limit), given)
            )
        elif max(column_bits, code_bits, child_bits) <= HALF:
            candidates.append(_written(trees, columns, codes, numbers, kept, (HALF, HALF, 2, limit), given))
    return min(candidates, key=lambda each: each.n_bytes, default=None)


#: The number of every leaf of every tree within its tree; what is added to it, by tree; the leaves by number.
Numbered = tuple[list[list[int]], "list[int] | None", list[Weights]]


def _shared(trees: _Trees) -> Numbered:
    """Equal leaves of all trees have one number."""
    known: dict[Weights, int] = {}
    numbers = [[known.setdefault(leaf, len(known)) for leaf in tree] for tree in trees.leaves]
    return numbers, None, list(known)


def _by_tree(trees: _Trees) -> Numbered:
    """Each tree has its own, which are small."""
    sizes = [len(tree) for tree in trees.leaves]
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).tolist()
    return [list(range(size)) for size in sizes], first, [leaf for tree in trees.leaves for leaf in tree]


class _Leaves:
    """The tables of leaves and their weights."""

    def __init__(self, trees: _Trees, leaves: Sequence[Weights], first: Sequence[int] | None):
        self.leaves = None if first is None else smallest(np.array(first))
        scores = [{target for leaf in tree for target, _ in leaf} for tree in trees.leaves]
        self.single = all(len(leaf) == 1 for leaf in leaves) and all(len(each) == 1 for each in scores)
        self.most = max(map(len, leaves))
        lists: Array
        if self.single:
            self.lists = None
            targets = np.array([min(each) for each in scores])
            self.entries = [leaf[0] for leaf in leaves]
        else:
            place: dict[Weights, int] = {}
            self.entries = []
            for leaf in leaves:
                if leaf not in place:
                    place[leaf] = len(self.entries)
                    self.entries += leaf
            lists = np.array([place[leaf] for leaf in leaves])
            self.lists = smallest(lists)
            ends = {place[leaf] + len(leaf) - 1 for leaf in place}
            targets = np.array([2 * target + (n in ends) for n, (target, _) in enumerate(self.entries)])
        self.targets = smallest(targets) if not self.single or targets.any() else None
        self.weights = b"".join(bits for _, bits in self.entries)


def _written(
    trees: _Trees, columns: _Columns, codes: _Codes, numbers: list[list[int]], leaves: _Leaves,
    widths: tuple[int, int, int, int], given: Mapping[str, Any],
) -> Coded:  # fmt: skip
    column_bits, child_bits, words, limit = widths
    code_bits = HALF if words == 2 else codes.bits
    table: list[tuple[int, ...]] = []
    first = np.zeros(len(trees.nodes), np.int64)
    # The largest tree stands last: `limit` nodes follow the first one of each.
    for place in np.argsort([len(tree) for tree in trees.nodes], kind="stable").tolist():
        tree, number, first[place] = trees.nodes[place], numbers[place], len(table)
        for feature, value, missing, *ends in tree:
            column = columns.place[missing, feature]
            yes, no = (c if c >= 0 else limit + number[-1 - c] for c in ends)
            code = codes.code[column, value] << WORD - code_bits
            if words == 1:
                table.append((column | yes << column_bits | no << column_bits + child_bits | code,))
            else:
                table.append((column | code, yes | no << HALF))
    size = len(leaves.entries)
    weights = np.frombuffer(leaves.weights, np.dtype(f"f{len(leaves.weights) // size}")).copy()
    return Coded(
        smallest(np.array(columns.features)) if columns.moved else None, codes.values, codes.starts,
        smallest(first), np.array(table, np.uint32), leaves.leaves, leaves.lists, leaves.targets, weights,
        {
            **codes.attributes, **given, "columns": len(columns.features), "last": columns.last, "depth": trees.depth,
            "limit": limit, "column_bits": column_bits, "child_bits": child_bits,
            "code_bits": code_bits, "leaf_weights": leaves.most,
        },
    )  # fmt: skip
