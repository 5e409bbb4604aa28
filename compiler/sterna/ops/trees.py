"""Ensembles of decision trees, as tables that one loop program walks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sterna.ir import dtypes
from sterna.ir.extremum import minimum
from sterna.ir.graph import Array, TensorType
from sterna.ir.integer import Int, as_int
from sterna.loops.build import Array as Memory
from sterna.loops.build import ProgramBuilder, both, either, equal, negated, number
from sterna.ops.operator import Attribute, Operator, Types, case, opaque, unfit
from sterna.ops.types import INTEGERS, NUMBERS, check_dtype, present
from sterna.te import expr as E
from sterna.te.expr import Expr

#: How a node compares the feature with its value; the number stands in the table of modes.
MODES = ("le", "lt", "ge", "gt", "eq", "ne")
#: Operands of `tree_ensemble`, in order.
OPERANDS = ("x", "roots", "features", "values", "modes", "missing", "children", "targets", "weights")

WALKS = 8  # trees walked side by side


def _types(types: Types, attributes: Mapping[str, Any]) -> tuple[TensorType, ...]:
    x, roots, features, values = present(types, 0, 1, 2, 3)
    children, targets, weights = present(types, 6, 7, 8)
    check_dtype(x.dtype, NUMBERS)
    check_dtype(values.dtype, ("float32", "float64"))
    for table in (roots, features, children, targets):
        check_dtype(table.dtype, INTEGERS)
    if x.rank != 2 or children.rank != 2 or weights.dtype != values.dtype or attributes["targets"] < 1:
        raise unfit(f"the tables do not fit {x}")
    return (TensorType(values.dtype, (x.shape[0], as_int(attributes["targets"]))),)


def _program(p: ProgramBuilder, attributes: Mapping[str, Any]) -> None:
    x, scores = p.input(0), p.output
    features, children, weights = p.input(2), p.input(6), p.input(8)
    n_targets = scores.shape[1]
    aggregate = attributes["aggregate"]
    n_trees = p.input(1).shape[0]
    with p.tasks(x.shape[0], "row") as row:
        sums = p.array("sums", scores.dtype, (n_targets,))
        p.fill(sums, 0)
        seen: Memory | None = None
        if aggregate in ("min", "max"):
            seen = p.array("seen", "bool", (n_targets,))
            p.fill(seen, False)
        nodes = p.array("nodes", "int32", (WALKS,))
        with p.loop(-(-n_trees // WALKS), "group") as group:
            # A step waits for its loads: steps of several trees wait together. What is beyond the last tree walks it.
            with p.loop(WALKS, "walk") as walk:
                nodes[walk] = E.cast(p.input(1)[minimum(group * WALKS + walk, n_trees - 1)], "int32")
            with p.loop(attributes["depth"], "level"):
                moving = p.variable("moving", 0, "int32")
                with p.loop(WALKS, "walk") as walk:
                    node = nodes[walk]
                    at = p.index(node, features.shape[0])
                    feature = p.let(E.cast(features[at], "int32"))
                    inner = p.let(feature >= 0)
                    value = E.cast(x[row, feature], scores.dtype)
                    taken = _decision(p, at, value, attributes["mode"])
                    child = E.cast(E.select(taken, children[at, 0], children[at, 1]), "int32")
                    nodes[walk] = E.select(inner, child, node)
                    moving.set(E.binary("or", moving.value, E.cast(inner, "int32")))
                p.leave_if(equal(moving.value, 0))
            with p.loop(minimum(n_trees - group * WALKS, WALKS), "walk") as walk:
                # A leaf's children are the first of its weights and how many they are.
                at = p.index(nodes[walk], features.shape[0])
                first = E.cast(children[at, 0], "int32")
                count = p.bound(children[at, 1], attributes["leaf_weights"])
                with p.when(features[at] < 0), p.loop(count, "n") as n:
                    _add(p, p.index(first + number(n, "int32"), weights.shape[0]), sums, seen, aggregate)
        with p.loop(n_targets, "n") as n:
            total = sums[n]
            if aggregate == "average":
                total = total / float(int(n_trees))
            scores[row, n] = total


def _add(p: ProgramBuilder, entry: Int, sums: Memory, seen: Memory | None, aggregate: str) -> None:
    """Aggregates a weight of a leaf with those of its target."""
    target = p.index(p.input(7)[entry], sums.shape[0])
    weight, old = p.input(8)[entry], sums[target]
    if seen is None:
        sums[target] = old + weight
        return
    better = weight < old if aggregate == "min" else weight > old
    sums[target] = E.select(either(negated(seen[target]), better), weight, old)
    seen[target] = True


def _decision(p: ProgramBuilder, at: Any, value: Expr, mode: str) -> Expr:
    """Whether the first child follows."""
    modes, missing = p.inputs[4], p.inputs[5]
    split = p.input(3)[at]
    if modes is None:
        taken = E.compare(mode, value, split)
    else:
        given = modes[at]
        taken = both(equal(given, 0), E.compare(MODES[0], value, split))
        for n, name in enumerate(MODES[1:], 1):
            taken = either(taken, both(equal(given, n), E.compare(name, value, split)))
    if missing is not None:
        taken = either(taken, both(missing[at], E.unary("isnan", value)))
    return taken


def _forest(n_trees: int, dtype: str = "float32", seed: int = 0) -> list[Array]:
    """Tables of full binary trees of depth 2 over 3 features, with two weights at each leaf."""
    random = np.random.default_rng(seed)
    features: list[int] = []
    values: list[float] = []
    children: list[tuple[int, int]] = []
    targets: list[int] = []
    weights: list[float] = []
    roots: list[int] = []
    for _ in range(n_trees):
        base = len(features)
        roots.append(base)
        for n in range(7):
            leaf = n >= 3
            features.append(-1 if leaf else int(random.integers(0, 3)))
            values.append(0.0 if leaf else float(random.uniform(-2, 2)))
            children.append((len(weights), 2) if leaf else (base + 2 * n + 1, base + 2 * n + 2))
            if leaf:
                targets += [0, int(random.integers(1, 3))]
                weights += list(random.uniform(-1, 1, 2))
    return [
        np.array(roots, np.int32), np.array(features, np.int8), np.array(values, dtypes.to_numpy(dtype)),
        np.array(children, np.int16), np.array(targets, np.int32), np.array(weights, dtypes.to_numpy(dtype)),
    ]  # fmt: skip


def _case(x: Any, modes: bool, missing: bool, dtype: str = "float32", n_trees: int = 5, **attributes: Any) -> Any:
    roots, features, values, children, targets, weights = _forest(n_trees, dtype)
    table = (np.arange(len(features)) % 6).astype(np.uint8) if modes else None
    tracks = (np.arange(len(features)) % 2).astype(np.bool_) if missing else None
    rest = {"targets": 3, "depth": 3, "leaf_weights": 2, **attributes}
    return case(x, roots, features, values, table, tracks, children, targets, weights, **rest)


_NAN = np.array([[np.nan, 0.5, -1], [1, np.nan, np.nan], [0, 0, 0]], np.float32)
OPERATORS: tuple[Operator, ...] = (
    opaque(
        "tree_ensemble",
        "The scores of decision trees for every row of the first operand: from each root down to a leaf, whose weights "
        "are aggregated by target. A node has a feature (-1: a leaf) and two children: the one that follows if the "
        "feature compares with the node's value as its mode says, and the other. A leaf has the position of its first "
        "weight and how many it has. Where `missing` holds, NaN leads to the first child too.",
        _types,
        _program,
        (
            Attribute("targets", "int", "scores of a row"),
            Attribute("depth", "int", "nodes of the longest path without its leaf"),
            Attribute("leaf_weights", "int", "the most weights of a leaf"),
            Attribute("mode", "string", "how every node compares, where no table says it", "le", MODES),
            Attribute("aggregate", "string", "over the trees", "sum", ("sum", "average", "min", "max")),
        ),
        cases=(
            _case(("float32", (4, 3)), False, False),
            _case(("float64", (4, 3)), True, False, "float64", aggregate="average"),
            _case(_NAN, False, True, mode="gt", aggregate="min"),
            _case(_NAN, True, True, aggregate="max"),
            _case(("int64", (2, 3)), False, False, mode="lt"),
            _case(("float32", (3, 3)), False, False, n_trees=2 * WALKS + 3),
        ),
    ),
)
