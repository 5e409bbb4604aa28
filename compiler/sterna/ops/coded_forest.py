"""Decision trees in few bytes, for flash without caches: what `coded_tree_ensemble` walks over.

A walk compares small integers. Every feature that a tree asks for becomes a code, once for all trees
(`ops/forest_codes.py`). A node holds the place of its first child and, below it, what its code is compared with, such
that adding the code of a feature that is greater carries one into the place: the second child stands next to the
first. That is all of a step:

    at = (nodes[at] + codes[columns[at]]) >> code_bits

Places count from the end of a tree, whose root stands last: a place below zero is a node's, any other one a leaf's. Of
two children of which one is a leaf and one is not, the leaf is a node that leads there whatever is asked.

Leaves with the same weights are one, within a tree and as lists among all trees, and so are subtrees of a tree.
Where `(node, leaf)` and `(leaf, node)` are the children of two nodes, `node, leaf, node` is enough for both.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from sterna.ir.graph import Array
from sterna.ops.forest import smallest
from sterna.ops.forest_codes import HALF, Codes, Columns, codes_of, columns_of
from sterna.ops.forest_trees import ORDERED, Key, Trees, Weights, trees_of

Item = TypeVar("Item", bound=Hashable)
WORD = 32
#: How much slower codes may be than the fastest ones where their tables are smaller.
SLOWER = 1.3


@dataclass(frozen=True)
class Coded:
    """The operands of `coded_tree_ensemble` after its first one, and its attributes that they decide.

    Args:
        features: the feature of every column; None if column n is feature n.
        values: what columns are compared with, in rising order, column after column; None on a grid.
        starts: where the values of a column begin, and their number after the last; None on a grid.
        ranks: the code of every place on the grid; None if places are codes.
        first: `limit` less than the node after the last one of every tree.
        nodes: of int16 or int32.
        columns: of every node; None if the lowest bits of a node are its column.
        leaves: what is added to a leaf's number within a tree to get its number among all; None if nothing is.
        lists: where a leaf's weights begin; None if each leaf has one.
        targets: with lists, twice the score that a weight is added to, and 1 with the last one of a leaf, or None if
            a leaf has one weight and weight n is added to score n; else the score of every tree, or None if that is the
            first of all.
        kinds: which of `weights` each weight is; None if they are all there.
        weights: of all lists.
    """

    features: Array | None
    values: Array | None
    starts: Array | None
    ranks: Array | None
    first: Array
    nodes: Array
    columns: Array | None
    leaves: Array | None
    lists: Array | None
    targets: Array | None
    kinds: Array | None
    weights: Array
    attributes: dict[str, Any]

    def operands(self) -> tuple[Array | None, ...]:
        return (
            self.features, self.values, self.starts, self.ranks, self.first, self.nodes, self.columns, self.leaves,
            self.lists, self.targets, self.kinds, self.weights,
        )  # fmt: skip

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self.operands() if array is not None)


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
    trees = trees_of(operands, attributes, kind)
    if trees is None:
        return None
    columns = columns_of(trees, features)
    found = list(codes_of(columns, kind))
    fastest = min((codes.cost for codes in found), default=0.0)
    given = {name: attributes[name] for name in ("targets", "aggregate")}
    laid_out = [_laid_out(trees, *numbered) for numbered in (_shared(trees), _by_tree(trees))]
    packed = (
        _packed(forest, columns, codes, given)
        for codes in found
        if codes.cost <= SLOWER * fastest
        for forest in laid_out
    )
    result = min((each for each in packed if each is not None), key=lambda each: each.n_bytes, default=None)
    before = sum(array.nbytes for array in operands if array is not None)
    return result if result is not None and result.n_bytes < before else None


def compared(x: str, nodes: Array | None) -> str:
    """The type in which features of type `x` are compared: a float32 number is as much above any other as above the
    float32 number below that one."""
    return "float32" if x == "float32" or nodes is None or nodes.dtype == np.uint32 else "float64"


# ---------------------------------------------------------------- places
#: A node, and the place of its first child or the number of a leaf; None asks nothing and leads to the leaf.
Placed = tuple["Key | None", int]


@dataclass(frozen=True)
class _LaidOut:
    """Where the nodes of all trees stand.

    Args:
        trees: the nodes of every one in their order.
        leaves: what is added to a leaf's number, by tree; None if nothing is. entries: the leaves by number.
        depth: steps of the longest walk; least: of the shortest.
    """

    trees: tuple[tuple[Placed, ...], ...]
    leaves: tuple[int, ...] | None
    entries: tuple[Weights, ...]
    depth: int
    least: int
    targets: tuple[frozenset[int], ...]

    @property
    def limit(self) -> int:
        return max(map(len, self.trees))

    @property
    def child_bits(self) -> int:
        """With the sign."""
        greatest = max(child + 1 for tree in self.trees for _, child in tree)
        return 1 + max((self.limit - 1).bit_length(), greatest.bit_length())


def chain(pairs: Iterable[tuple[Item, Item]], alone: Iterable[Item] = ()) -> list[Item]:
    """Items among which the two of each pair stand beside each other, and some that need no neighbour.

    Pairs that begin with what another one ends with follow it: greedy, from those on that nothing can precede.
    """
    wanted = dict.fromkeys(pairs)
    followers: dict[Item, list[tuple[Item, Item]]] = {}
    for pair in wanted:
        followers.setdefault(pair[0], []).append(pair)
    ends = {second for _, second in wanted}
    items: list[Item] = []
    for pair in sorted(wanted, key=lambda pair: pair[0] in ends):
        if pair not in wanted:
            continue
        items.append(pair[0])
        following: tuple[Item, Item] | None = pair
        while following is not None:
            del wanted[following]
            items.append(following[1])
            following = next((each for each in followers.get(following[1], ()) if each in wanted), None)
    known = set(items)
    return items + [item for item in dict.fromkeys(alone) if item not in known]


def places(items: Sequence[Item]) -> tuple[dict[tuple[Item, Item], int], dict[Item, int]]:
    """Where pairs and items stand for the first time."""
    pairs: dict[tuple[Item, Item], int] = {}
    single: dict[Item, int] = {}
    for n, item in enumerate(items):
        single.setdefault(item, n)
        if n:
            pairs.setdefault((items[n - 1], item), n - 1)
    return pairs, single


#: The leaves of every tree among numbered ones: where pairs and single ones are, by tree; what is added to a number,
#: by tree; the leaves by number.
Numbered = tuple[
    "list[tuple[dict[tuple[Weights, Weights], int], dict[Weights, int]]]", "tuple[int, ...] | None", "list[Weights]"
]


def _asked(tree: tuple[Key, ...], leaves: Sequence[Weights]) -> tuple[list[tuple[Weights, Weights]], list[Weights]]:
    """The leaves of a tree that are the two children of a node, and those that are not."""
    if not tree:
        return [], list(leaves)
    ends = [[leaves[-1 - c] if c < 0 else None for c in key[3:]] for key in tree]
    pairs = [(yes, no) for yes, no in ends if yes is not None and no is not None]
    alone = [leaf for end in ends if None in end for leaf in end if leaf is not None]
    return pairs, alone


def _shared(trees: Trees) -> Numbered:
    """Equal leaves of all trees have one number."""
    asked = [_asked(*each) for each in zip(trees.nodes, trees.leaves, strict=True)]
    leaves = chain((p for pairs, _ in asked for p in pairs), (leaf for _, alone in asked for leaf in alone))
    return [places(leaves)] * len(trees.nodes), None, leaves


def _by_tree(trees: Trees) -> Numbered:
    """Each tree has its own, which are small."""
    every = [chain(*_asked(*each)) for each in zip(trees.nodes, trees.leaves, strict=True)]
    first = np.concatenate([[0], np.cumsum([len(leaves) for leaves in every])[:-1]]).tolist()
    return [places(leaves) for leaves in every], tuple(first), [leaf for leaves in every for leaf in leaves]


def _laid_out(
    trees: Trees, numbers: Sequence[tuple[dict[tuple[Weights, Weights], int], dict[Weights, int]]],
    first: tuple[int, ...] | None, entries: Sequence[Weights],
) -> _LaidOut:  # fmt: skip
    done, depth, least = [], 0, 1 << WORD
    for tree, leaves, (pairs, single) in zip(trees.nodes, trees.leaves, numbers, strict=True):
        root = 0 if tree else -1  # nobody's child
        order = [*chain((yes, no) for *_, yes, no in tree if max(yes, no) >= 0), root]
        beside, _ = places(order)
        placed: list[Placed] = []
        for item in order:
            if item < 0:
                placed.append((None, single[leaves[-1 - item]]))
                continue
            key = tree[item]
            *_, yes, no = key
            if max(yes, no) >= 0:
                placed.append((key, beside[yes, no] - len(order)))
            else:
                placed.append((key, pairs[leaves[-1 - yes], leaves[-1 - no]]))
        done.append(tuple(placed))
        shortest, longest = _steps(placed)
        depth, least = max(depth, longest), min(least, shortest)
    scores = tuple(frozenset(target for leaf in leaves for target, _ in leaf) for leaves in trees.leaves)
    return _LaidOut(tuple(done), first, tuple(entries), depth, least, scores)


def _steps(placed: Sequence[Placed]) -> tuple[int, int]:
    """Of the shortest and the longest walk from the last node to a leaf."""
    size = len(placed)
    level, shortest, longest = {size - 1}, 0, 0
    while level:
        longest += 1
        following: set[int] = set()
        for n in level:
            _, child = placed[n]
            if child >= 0:
                shortest = shortest or longest
            else:
                following.update((child + size, child + size + 1))
        level = following
    return shortest, longest


# ---------------------------------------------------------------- tables
class _Leaves:
    """The tables of leaves and their weights."""

    def __init__(self, forest: _LaidOut):
        leaves, scores = forest.entries, forest.targets
        self.leaves = None if forest.leaves is None else smallest(np.array(forest.leaves))
        self.most = max(map(len, leaves))
        place: dict[Weights, int] = {}
        if all(len(leaf) == 1 for leaf in leaves) and all(len(each) == 1 for each in scores):
            self.lists = None
            targets = np.array([min(each) for each in scores])
            self.targets = smallest(targets) if targets.any() else None
            entries = [leaf[0] for leaf in leaves]
        else:
            entries = []
            by_score = sorted(set(leaves)) if self.most == 1 else dict.fromkeys(leaves)
            for leaf in by_score:
                place[leaf] = len(entries)
                entries += leaf
            self.lists = smallest(np.array([place[leaf] for leaf in leaves]))
            ends = {place[leaf] + len(leaf) - 1 for leaf in place}
            told = np.array([2 * target + (n in ends) for n, (target, _) in enumerate(entries)])
            own = self.most == 1 and [target for target, _ in entries] == list(range(len(entries)))
            self.targets = None if own else smallest(told)
        data = b"".join(bits for _, bits in entries)
        weights: Array = np.frombuffer(data, np.dtype(f"f{len(data) // len(entries)}")).copy()
        bits, number = np.unique(weights.view(f"u{weights.itemsize}"), return_inverse=True)
        kinds = smallest(number.reshape(-1))
        fewer = kinds.nbytes + bits.nbytes < weights.nbytes
        self.kinds = kinds if fewer else None
        self.weights = bits.view(weights.dtype) if fewer else weights


def _packed(forest: _LaidOut, columns: Columns, codes: Codes, given: Mapping[str, Any]) -> Coded | None:
    """Tables in the type of nodes that is the smallest."""
    column_bits = (len(columns.features) - 1).bit_length()
    used = forest.child_bits + codes.bits
    if used > WORD:
        return None
    if used <= HALF or used + column_bits > WORD:  # columns have a table
        column_bits = 0
    apart = used <= HALF or column_bits == 0
    first = np.zeros(len(forest.trees), np.int64)
    table: list[int] = []
    asked: list[int] = []
    # The largest tree stands first: `limit` nodes precede the end of each.
    for n in sorted(range(len(forest.trees)), key=lambda n: -len(forest.trees[n])):
        for key, child in forest.trees[n]:
            column = 0 if key is None else columns.place[key[2], key[0]]
            rest = 0 if key is None else (1 << codes.bits) - 1 - codes.code[column, key[1]]
            asked.append(column)
            table.append(((child << codes.bits) + rest << column_bits) + (0 if apart else column))
        first[n] = len(table) - forest.limit
    leaves = _Leaves(forest)
    return Coded(
        smallest(np.array(columns.features)) if columns.moved else None, codes.values, codes.starts, codes.ranks,
        smallest(first), np.array(table, np.int16 if used <= HALF else np.int32),
        smallest(np.array(asked)) if apart and len(columns.features) > 1 else None,
        leaves.leaves, leaves.lists, leaves.targets, leaves.kinds, leaves.weights,
        {
            **codes.attributes, **given, "columns": len(columns.features), "last": columns.last,
            "most": codes.greatest, "depth": forest.depth, "least_depth": forest.least, "limit": forest.limit,
            "column_bits": column_bits, "code_bits": codes.bits, "leaf_weights": leaves.most,
        },
    )  # fmt: skip
