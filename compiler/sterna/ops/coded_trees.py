"""Ensembles of decision trees for flash without caches: features become codes, and walks compare those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.loops.build import Array as Memory
from sterna.loops.build import ProgramBuilder, number
from sterna.ops.coded_forest import coded
from sterna.ops.forest import LEAF, MODES, Forest
from sterna.ops.operator import Attribute, Operator, Types, case, opaque, unfit
from sterna.ops.types import INTEGERS, NUMBERS, check_dtype, present
from sterna.te import expr as E
from sterna.te.expr import Expr

#: Steps of a walk, before it is asked whether it has been long enough.
STEPS = 8
#: Steps of all walks that stand before the first that may find a leaf.
SURE = 4
WORD = 32
#: Bits of float32 numbers.
_SIGN, _INFINITE = 1 << 31, 0x7F800000


def _types(types: Types, attributes: Mapping[str, Any]) -> tuple[TensorType, ...]:
    x, first, nodes, weights = present(types, 0, 5, 6, 12)
    check_dtype(x.dtype, NUMBERS)
    check_dtype(weights.dtype, ("float32", "float64"))
    check_dtype(nodes.dtype, ("int16", "int32"))
    for table in (first, *(types[n] for n in (1, 3, 4, *range(7, 12)))):
        if table is not None:
            check_dtype(table.dtype, INTEGERS)
    if x.rank != 2 or nodes.rank != 1 or attributes["targets"] < 1:
        raise unfit(f"the tables do not fit {x}")
    return (TensorType(weights.dtype, (x.shape[0], as_int(attributes["targets"]))),)


def _program(p: ProgramBuilder, attributes: Mapping[str, Any]) -> None:
    with p.tasks(p.input(0).shape[0], "row") as row:
        _Row(p, attributes, row).write()


class _Row:
    """The scores of one row."""

    def __init__(self, p: ProgramBuilder, attributes: Mapping[str, Any], row: Int):
        self.p, self.attributes, self.row = p, attributes, row
        self.x, self.first, self.nodes, self.weights = (p.input(n) for n in (0, 5, 6, 12))
        self.features, self.values, self.starts, self.ranks = p.inputs[1:5]
        self.columns, self.leaves, self.lists, self.targets, self.kinds = p.inputs[7:12]
        greatest = int(attributes["most"]) << int(attributes["column_bits"])
        kind = next(kind for kind in ("uint8", "uint16", "uint32") if greatest <= dtypes.limits(kind)[1])
        self.codes = p.array("codes", kind, (attributes["columns"],), on_stack=False)
        self.n_targets = p.output.shape[1]

    def write(self) -> None:
        p, attributes = self.p, self.attributes
        last = attributes["last"]
        code = self._on_grid if self.values is None else self._searched
        for begin, end, nan_is_last in ((0, last, True), (last, attributes["columns"], False)):
            if begin < end:
                with p.loop(end, "column", start=begin) as column:
                    placed = E.binary("shift_left", code(column, nan_is_last), attributes["column_bits"])
                    self.codes[column] = E.cast(placed, self.codes.dtype)
        sums = p.array("sums", p.output.dtype, (self.n_targets,))
        p.fill(sums, 0)
        with p.loop(self.first.shape[0], "tree") as tree:
            self._add(sums, tree, self._walk(tree))
        with p.loop(self.n_targets, "target") as n:
            total = sums[n]
            if attributes["aggregate"] == "average":
                total = total / float(int(self.first.shape[0]))
            p.output[self.row, n] = total

    # -- codes
    def _feature(self, column: Int) -> Expr:
        at = column if self.features is None else self.p.known(self.features[column], self.x.shape[1])
        return self.p.let(E.cast(self.x[self.row, at], self.attributes["compared"]))

    def _on_grid(self, column: Int, nan_is_last: bool) -> Expr:
        """The ordered bits of a number, from the least that matters on, in steps."""
        p, shift, first = self.p, self.attributes["shift"], self.attributes["least"]
        bits = p.let(E.bitcast(self._feature(column), "uint32"))
        if nan_is_last and first >= 0:  # all negative numbers are below the grid, so that signs do not matter
            nan = E.compare("gt", bits, _word(_SIGN + _INFINITE))
            key = E.maximum(p.let(E.bitcast(E.select(nan, _word(_SIGN - 1), bits), "int32")), 0)
            # The greatest number of so many bits: some cores shift and clamp to it at once.
            top = (1 << self.attributes["greatest"].bit_length()) - 1
            return self._ranked(E.cast(E.minimum(E.maximum(_shifted(key - first, shift), 0), top), "uint32"))
        # From -infinity on, so that NaN of either sign is above all; or from the least NaN on, and it is below.
        base = _INFINITE if nan_is_last else (-_INFINITE - 1) % (1 << WORD)
        negative = E.compare("ge", bits, _word(_SIGN))
        key = p.let(E.select(negative, _word(_SIGN + base) - bits, bits + _word(base)))
        least = _word(first + base)
        steps = E.binary("shift_right", E.maximum(key, least) - least, shift)
        return self._ranked(E.minimum(steps, _word(self.attributes["greatest"])))

    def _ranked(self, place: Expr) -> Expr:
        """The code of a place on the grid."""
        if self.ranks is None:
            return place
        return E.cast(self.ranks[self.p.known(self.p.let(place), self.ranks.shape[0])], "uint32")

    def _searched(self, column: Int, nan_is_last: bool) -> Expr:
        """How many values of the column are below the feature, by halves."""
        p = self.p
        assert self.values is not None
        assert self.starts is not None
        x = self._feature(column)
        low = p.variable("low", E.cast(self.starts[column], "int32"))
        begin = low.value
        left = p.variable("left", E.cast(self.starts[column + 1], "int32") - begin)
        start = p.let(begin)
        with p.loop(as_int(self.attributes["greatest"].bit_length()), "halving"):
            p.leave_if(E.compare("le", left.value, 0))
            half = p.let(E.binary("shift_right", left.value, 1))
            value = self.values[p.known(low.value + half, self.values.shape[0])]
            above = E.compare("gt", x, value)
            if nan_is_last:
                above = E.unary("logical_not", E.compare("le", x, value))
            above = p.let(above)
            low.set(E.select(above, low.value + half + 1, low.value))
            left.set(E.select(above, left.value - half - 1, half))
        return E.cast(low.value - start, "uint32")

    # -- walks
    def _walk(self, tree: Int) -> Expr:
        """The number of the leaf that a tree leads to."""
        p, attributes = self.p, self.attributes
        limit, low = attributes["limit"], attributes["column_bits"] + attributes["code_bits"]
        end = p.known(p.let(E.cast(self.first[tree], "int32") + limit), as_int(self.nodes.shape[0]) + 1, limit)
        # A place and, below it, what is left of a sum: the sign says which places are leaves before bits are dropped.
        sum_ = p.variable("sum", -1 << low, "int32")
        sure = min(attributes["least_depth"] - 1, SURE)
        for _ in range(sure):
            sum_.set(self._step(end, _shifted(sum_.value, low)))
        left = attributes["depth"] - sure
        with p.loop(-(-left // STEPS), "level"):
            for _ in range(min(left, STEPS)):
                sum_.set(self._step(end, _shifted(sum_.value, low)))
                p.leave_if(E.compare("ge", sum_.value, 0))
        return _shifted(sum_.value, low)

    def _step(self, end: Int, at: Expr) -> Expr:
        """The place before the end that follows on one, or the number of a leaf, and below it what is left."""
        p, attributes = self.p, self.attributes
        place = end + p.known(p.let(at), 0, -attributes["limit"])
        told = p.let(E.cast(self.nodes[place], "int32"))
        if self.columns is None:
            column = E.binary("and", told, (1 << attributes["column_bits"]) - 1)
        else:
            column = self.columns[place]
        return told + E.cast(self.codes[p.known(p.let(column), self.codes.shape[0])], "int32")

    # -- leaves
    def _add(self, sums: Memory, tree: Int, number_in_tree: Expr) -> None:
        """Adds the weights of a leaf."""
        p = self.p
        leaf = number_in_tree if self.leaves is None else number_in_tree + E.cast(self.leaves[tree], "int32")
        if self.lists is None:
            at = as_int(0) if self.targets is None else p.known(self.targets[tree], self.n_targets)
            sums[at] = sums[at] + self._weight(leaf)
            return
        begin = p.let(E.cast(self.lists[p.known(p.let(leaf), self.lists.shape[0])], "uint32"))
        if self.targets is None:  # one weight, whose number is the score
            at = p.known(begin, self.n_targets)
            sums[at] = sums[at] + self._weight(begin)
            return
        with p.loop(as_int(self.attributes["leaf_weights"]), "n") as n:
            entry = p.let(begin + number(n, "uint32"))
            told = p.let(E.cast(self.targets[p.known(entry, self.targets.shape[0])], "uint32"))
            target = p.known(_shifted(told, 1), self.n_targets)
            sums[target] = sums[target] + self._weight(entry)
            p.leave_if(E.compare("ne", E.binary("and", told, 1), 0))

    def _weight(self, entry: Expr) -> Expr:
        p = self.p
        if self.kinds is not None:
            entry = self.kinds[p.known(p.let(entry), self.kinds.shape[0])]
        return self.weights[p.known(p.let(entry), self.weights.shape[0])]


def _word(value: int) -> Expr:
    return E.const(value % (1 << WORD), "uint32")


def _shifted(value: Expr, bits: int) -> Expr:
    return E.binary("shift_right", value, bits) if bits else value


def _forest(n_trees: int, depth: int, mode: str, missing: bool, single: bool, dtype: str, grid: bool) -> Forest:
    """Complete trees over three features, which are compared with halves, if `grid`, or with any numbers."""
    random = np.random.default_rng(n_trees)
    inner = (1 << depth) - 1
    count = (2 * inner + 1) * n_trees
    node = np.arange(count) % (2 * inner + 1)
    leaf, base = node >= inner, np.arange(count) - node
    modes = np.where(leaf, LEAF, MODES.index(mode)).astype(np.uint8)
    values = random.integers(-4, 5, count) / 2 if grid else random.uniform(-2, 2, count)
    weights = 1 if single else 2
    children = np.stack([base + 2 * node + 1, base + 2 * node + 2], 1)
    children[leaf] = np.stack([np.arange(leaf.sum()) * weights, np.full(leaf.sum(), weights)], 1)
    targets = np.arange(leaf.sum() * weights) % weights
    return Forest(
        np.arange(n_trees) * (2 * inner + 1), np.where(leaf, -1, random.integers(0, 3, count)), modes,
        values.astype(dtype), (node % 2 == 0) & ~leaf & missing, children, targets,
        random.integers(-3, 4, leaf.sum() * weights).astype(dtype) / 4,
    )  # fmt: skip


def _case(
    x: Any, n_trees: int = 5, depth: int = 3, mode: str = "le", missing: bool = False, single: bool = False,
    dtype: str = "float32", grid: bool = True, aggregate: str = "sum",
) -> Any:  # fmt: skip
    tables = _forest(n_trees, depth, mode, missing, single, dtype, grid).tables(dtype)
    kind, size = (str(x.dtype), x.shape[1]) if isinstance(x, np.ndarray) else (x[0], x[1][1])
    given = {"aggregate": aggregate, "targets": 2, **tables.attributes}
    found = coded(tables.operands(), given, kind, size)
    assert found is not None
    return case(x, *found.operands(), **found.attributes)


_VALUES = np.array(
    [[np.nan, 0.5, -1], [-np.nan, np.nan, -np.nan], [0.0, -0.0, 0], [np.inf, -np.inf, 1.5], [2, -2, np.nan]], np.float32
)  # fmt: skip
OPERATORS: tuple[Operator, ...] = (
    opaque(
        "coded_tree_ensemble",
        "The scores of decision trees for every row of the first operand, as `tree_ensemble` computes them, by the "
        "tables of `ops/coded_forest.py`, which are small. A row's features become codes, which the nodes compare.",
        _types,
        _program,
        (
            Attribute("targets", "int", "scores of a row"),
            Attribute("aggregate", "string", "over the trees", "sum", ("sum", "average")),
            Attribute("compared", "string", "of features that become codes", "float32", ("float32", "float64")),
            Attribute("columns", "int", "codes of a row"),
            Attribute("last", "int", "the first column in which NaN is below all other numbers; else it is above"),
            Attribute("shift", "int", "bits of a feature that do not matter on a grid"),
            Attribute("least", "int", "where the grid begins, as the ordered bits of a float"),
            Attribute("greatest", "int", "the last place on a grid, or the most values of a column"),
            Attribute("most", "int", "the greatest code"),
            Attribute("depth", "int", "nodes of the longest walk"),
            Attribute("least_depth", "int", "nodes of the shortest one"),
            Attribute("limit", "int", "the most nodes of a tree"),
            Attribute("column_bits", "int", "of a node, its lowest ones, that hold the column"),
            Attribute("code_bits", "int", "of a node, above those, that hold what a code is added to"),
            Attribute("leaf_weights", "int", "the most weights of a leaf"),
        ),
        cases=(
            _case(("float32", (4, 3))),
            _case(_VALUES, mode="ge", missing=True),
            _case(_VALUES, mode="lt", missing=True, grid=False),
            _case(("float32", (3, 3)), single=True, aggregate="average", mode="gt"),
            _case(("float64", (2, 3)), grid=False, dtype="float64"),
            _case(("float32", (2, 3)), dtype="float64", grid=False, depth=5),
            _case(("int32", (2, 3)), n_trees=2, mode="lt"),
        ),
    ),
)  # fmt: skip
