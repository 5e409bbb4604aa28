"""Ensembles of decision trees: one loop program walks from the roots to the leaves, several walks side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sterna.ir.extremum import minimum
from sterna.ir.graph import TensorType
from sterna.ir.integer import Int, as_int
from sterna.loops.build import Array as Memory
from sterna.loops.build import ProgramBuilder, both, either, negated, number, unequal
from sterna.ops.forest import EQUAL, FLAG_BITS, GREATER, LEAF, LESS, MODES, QUIET, UNORDERED, Forest
from sterna.ops.operator import Attribute, Operator, Types, case, opaque, unfit
from sterna.ops.types import INTEGERS, NUMBERS, check_dtype, present
from sterna.te import expr as E
from sterna.te.expr import Expr

WALKS = 8  # side by side
STEPS = 2  # of walks of different lengths, before they are asked whether all have arrived


def _types(types: Types, attributes: Mapping[str, Any]) -> tuple[TensorType, ...]:
    x, roots, nodes, weights = present(types, 0, 1, 3, 6)
    check_dtype(x.dtype, NUMBERS)
    check_dtype(weights.dtype, ("float32", "float64"))
    check_dtype(nodes.dtype, tuple(QUIET))
    for table in (roots, *(t for t in (types[2], types[4], types[5]) if t is not None)):
        check_dtype(table.dtype, INTEGERS)
    if x.rank != 2 or nodes.rank != 2 or attributes["targets"] < 1:
        raise unfit(f"the tables do not fit {x}")
    return (TensorType(weights.dtype, (x.shape[0], as_int(attributes["targets"]))),)


def _program(p: ProgramBuilder, attributes: Mapping[str, Any]) -> None:
    """Blocks of rows walk down one tree after the other, all rows of a block side by side; a row that is left over
    walks down several trees side by side."""
    rows = p.input(0).shape[0]
    walker = _Walker(p, attributes)
    if rows.is_const and int(rows) < WALKS:
        with p.tasks(rows, "row") as row:
            walker.across_trees(row)
        return
    with p.tasks(-(-rows // WALKS), "block") as block:
        first = block * WALKS
        if rows.is_const and int(rows) % WALKS == 0:
            walker.across_rows(first)
            return
        left = p.let(number(rows - first, "int64"))
        with p.when(left >= WALKS):
            walker.across_rows(first)
        with p.otherwise(), p.loop(p.index(left, WALKS), "rest") as rest:
            walker.across_trees(first + rest)


class _Walker:
    """Walks down the trees of one operator."""

    def __init__(self, p: ProgramBuilder, attributes: Mapping[str, Any]):
        self.p, self.attributes = p, attributes
        self.x, self.roots, self.nodes, self.weights = (p.input(n) for n in (0, 1, 3, 6))
        self.depths, self.starts, self.targets = p.inputs[2], p.inputs[4], p.inputs[5]
        self.n_trees = self.roots.shape[0]
        self.word = self.nodes.dtype
        self.compared = "float32" if self.word == "uint32" else "float64"

    def across_rows(self, first: Int) -> None:
        """The scores of `WALKS` rows."""
        p = self.p
        sums = _Sums(self, WALKS)
        at = p.array("at", self.word, (WALKS,))
        with p.loop(self.n_trees, "tree") as tree:
            root = p.let(E.cast(self.roots[tree], self.word))
            p.fill(at, root)
            depth = self.attributes["depth"]
            steps = as_int(depth) if self.depths is None else p.bound(self.depths[tree], depth)
            self._walk(at, lambda walk: first + walk, steps)
            with p.loop(WALKS, "walk") as walk:
                self._add(at[walk], sums, walk)
        with p.loop(WALKS, "walk") as walk:
            sums.store(first + walk, walk)

    def across_trees(self, row: Int) -> None:
        """The scores of one row; groups of trees are as alike in size as can be."""
        p = self.p
        n_trees = int(self.n_trees)
        groups = -(-n_trees // WALKS)
        width = -(-n_trees // groups)
        sums = _Sums(self, 1)
        at = p.array("at", self.word, (width,))
        with p.loop(groups, "group") as group:
            depth = self.attributes["depth"]
            longest = None if self.depths is None else p.variable("longest", 0, "int32")
            # What is beyond the last tree walks it.
            with p.loop(width, "walk") as walk:
                tree = minimum(group * width + walk, n_trees - 1)
                at[walk] = E.cast(self.roots[tree], self.word)
                if longest is not None and self.depths is not None:
                    longest.set(E.maximum(longest.value, E.cast(self.depths[tree], "int32")))
            steps = as_int(depth) if longest is None else p.bound(longest, depth)
            self._walk(at, lambda walk: row, steps)
            with p.loop(minimum(n_trees - group * width, width), "walk") as walk:
                self._add(at[walk], sums, as_int(0))
        sums.store(row, as_int(0))

    def _walk(self, at: Memory, row_of: Callable[[Int], Int], steps: Int) -> None:
        """Every walk makes `steps` steps, unless all stay where they are."""
        p = self.p
        (width,) = at.shape
        if self.attributes["even"]:
            with p.loop(steps, "level"), p.loop(width, "walk") as walk:
                at[walk] = self._step(at[walk], row_of(walk))
            return
        with p.loop(-(-steps // STEPS), "level"):
            for _ in range(STEPS - 1):
                with p.loop(width, "walk") as walk:
                    at[walk] = self._step(at[walk], row_of(walk))
            moving = p.variable("moving", 0, self.word)
            with p.loop(width, "walk") as walk:
                old = at[walk]
                new = p.let(self._step(old, row_of(walk)))
                at[walk] = new
                moving.set(E.binary("or", moving.value, E.binary("xor", old, new)))
            p.leave_if(E.compare("eq", moving.value, 0))

    def _step(self, record: Expr, row: Int) -> Expr:
        """The record that follows."""
        p, bits, flags = self.p, self.attributes["feature_bits"], self.attributes["flags"]
        node = p.known(record, self.nodes.shape[0])
        split = E.bitcast(self.nodes[node, 0], self.compared)
        told = self.nodes[node, 1]
        feature = p.known(E.binary("and", told, (1 << bits) - 1), self.x.shape[1])
        value = p.let(E.cast(self.x[row, feature], self.compared))
        child = E.binary("shift_right", told, bits + FLAG_BITS[flags])
        how = E.binary("shift_right", told, bits)
        if flags == "mixed":
            found: Expr = E.const(0, self.word)
            for name, bit in (("lt", LESS), ("eq", EQUAL), ("gt", GREATER)):
                found = E.binary("or", found, E.select(E.compare(name, value, split), bit, E.const(0, self.word)))
            found = E.select(E.compare("eq", found, 0), E.const(UNORDERED, self.word), found)
            taken = unequal(E.binary("and", how, found), 0)
        else:
            taken = E.compare(self.attributes["mode"], value, split)
            if flags == "missing":
                missing = unequal(E.binary("and", how, 1), 0)
                taken = either(taken, both(missing, E.unary("isnan", value)))
        return child + E.select(taken, E.const(0, self.word), E.const(1, self.word))

    def _add(self, record: Expr, sums: _Sums, walk: Int) -> None:
        """Aggregates the weights of a leaf with those of its row."""
        p = self.p
        _, bits = QUIET[self.word]
        told = self.nodes[p.known(record, self.nodes.shape[0]), 0]
        payload = E.binary("and", told, (1 << bits) - 1)
        if self.starts is None:
            sums.add(walk, p.known(payload, self.weights.shape[0]))
            return
        leaf = p.known(payload, self.starts.shape[0] - 1)
        first = p.let(self.starts[leaf])
        count = p.bound(self.starts[leaf + 1] - first, self.attributes["leaf_weights"])
        with p.loop(count, "n") as n:
            sums.add(walk, p.index(first + number(n, first.dtype), self.weights.shape[0]))


class _Sums:
    """The scores of several rows."""

    def __init__(self, walker: _Walker, rows: int):
        p = self.p = walker.p
        self.walker, self.n_targets = walker, p.output.shape[1]
        self.sums = p.array("sums", p.output.dtype, (rows, self.n_targets))
        p.fill(self.sums, 0)
        self.aggregate = walker.attributes["aggregate"]
        self.seen: Memory | None = None
        if self.aggregate in ("min", "max"):
            self.seen = p.array("seen", "bool", (rows, self.n_targets))
            p.fill(self.seen, False)

    def add(self, row: Int, entry: Int) -> None:
        """Aggregates a weight with those of its target."""
        targets = self.walker.targets
        target = as_int(0) if targets is None else self.p.index(targets[entry], self.n_targets)
        weight, old = self.walker.weights[entry], self.sums[row, target]
        if self.seen is None:
            self.sums[row, target] = old + weight
            return
        better = weight < old if self.aggregate == "min" else weight > old
        self.sums[row, target] = E.select(either(negated(self.seen[row, target]), better), weight, old)
        self.seen[row, target] = True

    def store(self, row: Int, at: Int) -> None:
        p = self.p
        with p.loop(self.n_targets, "target") as n:
            total = self.sums[at, n]
            if self.aggregate == "average":
                total = total / float(int(self.walker.n_trees))
            p.output[row, n] = total


def _forest(n_trees: int, mixed: bool, missing: bool, mode: int, dtype: str, single: bool) -> Forest:
    """Trees of depth 3 and 2 in turns, over 3 features, with two weights at each leaf or one."""
    random = np.random.default_rng(n_trees)
    features: list[int] = []
    modes: list[int] = []
    children: list[tuple[int, int]] = []
    targets: list[int] = []
    roots: list[int] = []
    for tree in range(n_trees):
        base, inner = len(features), 3 if tree % 2 else 7
        roots.append(base)
        for n in range(2 * inner + 1):
            leaf = n >= inner
            features.append(-1 if leaf else int(random.integers(0, 3)))
            modes.append(LEAF if leaf else (mode + n * mixed) % len(MODES))
            children.append((len(targets), 2 - single) if leaf else (base + 2 * n + 1, base + 2 * n + 2))
            if leaf:
                targets += [0, int(random.integers(1, 3))][: 2 - single]
    return Forest(
        np.array(roots), np.array(features), np.array(modes, np.uint8),
        random.uniform(-2, 2, len(features)).astype(dtype), (np.arange(len(features)) % 2 == 0) & missing,
        np.array(children), np.array(targets), random.uniform(-1, 1, len(targets)).astype(dtype),
    )  # fmt: skip


def _case(
    x: Any, mode: str = "le", mixed: bool = False, missing: bool = False, dtype: str = "float32", n_trees: int = 5,
    single: bool = False, aggregate: str = "sum",
) -> Any:  # fmt: skip
    tables = _forest(n_trees, mixed, missing, MODES.index(mode), dtype, single).tables(dtype)
    return case(x, *tables.operands(), targets=3, aggregate=aggregate, **tables.attributes)


_NAN = np.array([[np.nan, 0.5, -1], [1, np.nan, np.nan], [0, 0, 0]], np.float32)
OPERATORS: tuple[Operator, ...] = (
    opaque(
        "tree_ensemble",
        "The scores of decision trees for every row of the first operand: from each root down to a leaf, whose weights "
        "are aggregated by target. The tables are those of `ops/forest.py`, which makes them of any trees.",
        _types,
        _program,
        (
            Attribute("targets", "int", "scores of a row"),
            Attribute("depth", "int", "steps of the longest walk"),
            Attribute("leaf_weights", "int", "the most weights of a leaf"),
            Attribute("even", "bool", "nearly all walks are about as long as the longest of their tree"),
            Attribute("feature_bits", "int", "of the second word of a record that hold the feature"),
            Attribute("flags", "string", "what the next bits say: nothing, whether the comparison holds for NaN too, "
                      "or for which of less, equal, greater and NaN it holds", "same", tuple(FLAG_BITS)),
            Attribute("mode", "string", "how every node compares, unless its flags say so", "le", MODES),
            Attribute("aggregate", "string", "over the trees", "sum", ("sum", "average", "min", "max")),
        ),
        cases=(
            _case(("float32", (4, 3))),
            _case(("float64", (4, 3)), mixed=True, dtype="float64", aggregate="average"),
            _case(_NAN, mode="gt", missing=True, aggregate="min"),
            _case(_NAN, mixed=True, missing=True, aggregate="max"),
            _case(("int64", (2, 3)), mode="lt", single=True),
            _case(("float32", (3, 3)), n_trees=2 * WALKS + 3),
            _case(("float32", (2 * WALKS + 3, 3)), n_trees=3, single=True),
            _case(("float32", (2 * WALKS, 3)), mode="ge", n_trees=2),
        ),
    ),
)  # fmt: skip
