"""Trees in tables for flash: the sums of the tables that other targets have, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.ir import dtypes
from sterna.ir.graph import Graph, Value, tensor_type
from sterna.ops import Builder
from sterna.ops.coded_forest import Coded, chain, coded, places
from sterna.ops.evaluate import evaluate
from sterna.ops.forest import LEAF, MODES, Forest
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.pipeline import optimize
from sterna.targets.description import load_target

FEATURES = 5
SPECIAL = (0.0, -0.0, np.inf, -np.inf, 1e-42, -1e-42, 3.4e38, -3.4e38)


def grown(
    random: np.random.Generator, n_trees: int, depth: int, mode: str, values: np.ndarray, missing: bool,
    weights_of_a_leaf: int, shared: bool = False,
) -> Forest:  # fmt: skip
    """Random trees over two scores; some nodes lead to the same child, and with `shared` to one that others lead to."""
    features, modes, compared, track, children = [], [], [], [], []
    weights: list[float] = []
    known: list[int] = []

    def node(left: int) -> int:
        if shared and known and random.random() < 0.2:
            return int(random.choice(known))
        at = len(features)
        leaf = left == 0 or random.random() < 0.15
        features.append(-1 if leaf else int(random.integers(FEATURES)))
        modes.append(LEAF if leaf else MODES.index(mode))
        compared.append(0.0 if leaf else random.choice(values))
        track.append(bool(missing and random.integers(2)))
        if leaf:
            children.append((len(weights), weights_of_a_leaf))
            weights.extend(random.choice([0.0, 0.25, 0.1, -1.5], weights_of_a_leaf))
        else:
            children.append((0, 0))
            yes = node(left - 1)
            children[at] = (yes, yes if random.random() < 0.1 else node(left - 1))
        known.append(at)
        return at

    roots = [node(depth) for _ in range(n_trees)]
    return Forest(
        np.array(roots), np.array(features), np.array(modes, np.uint8), np.array(compared, values.dtype),
        np.array(track), np.array(children), np.arange(len(weights)) % weights_of_a_leaf,
        np.array(weights, values.dtype),
    )  # fmt: skip


def rows(random: np.random.Generator, values: np.ndarray, dtype: str, count: int = 8) -> np.ndarray:
    """What is compared with, its neighbours, both kinds of NaN, and what lies far away."""
    near = values.astype(dtype)
    with np.errstate(over="ignore"):
        beside = [near, np.nextafter(near, np.array(np.inf, dtype)), np.nextafter(near, np.array(-np.inf, dtype))]
    nan = np.array([np.nan, -np.nan], dtype)
    return random.choice(np.concatenate([*beside, nan, np.array(SPECIAL, dtype)]), (count, FEATURES))


def compare(forest: Forest, dtype: str, x: np.ndarray, aggregate: str = "sum") -> Coded | None:
    tables = forest.tables(dtype)
    attributes = {**tables.attributes, "targets": 2, "aggregate": aggregate}
    found = coded(tables.operands(), attributes, dtypes.from_numpy(x.dtype), FEATURES)
    if found is None:
        return None
    kinds = [tensor_type(dtype, (len(x), 2))]
    (want,) = evaluate("tree_ensemble", [x, *tables.operands()], attributes, kinds)
    (have,) = evaluate("coded_tree_ensemble", [x, *found.operands()], found.attributes, kinds)
    assert have.tobytes() == want.tobytes()
    return found


GRID = np.arange(-12, 13, dtype=np.float32) / 4


@pytest.mark.parametrize("seed", range(14))
def test_sums_are_equal_to_the_bit(seed: int) -> None:
    random = np.random.default_rng(seed)
    mode = MODES[seed % 4]
    wide = seed % 3 == 2
    values = GRID if seed % 2 else np.append(random.normal(size=60), SPECIAL)
    values = values.astype(np.float64 if wide else np.float32)
    forest = grown(random, 7, 1 + seed % 6, mode, values, seed % 5 < 2, 1 + seed % 2, shared=seed % 7 == 3)
    x = rows(random, values, "float64" if seed % 6 == 5 else "float32")
    found = compare(forest, "float64" if wide else "float32", x, "average" if seed % 4 == 1 else "sum")
    if found is not None and seed % 6 != 5:
        assert found.attributes["compared"] == "float32"


@pytest.mark.parametrize("mode", MODES[:4])
def test_values_on_a_grid_need_no_table(mode: str) -> None:
    random = np.random.default_rng(0)
    forest = grown(random, 9, 5, mode, GRID, False, 2)
    found = compare(forest, "float32", rows(random, GRID, "float32"))
    assert found is not None
    assert found.values is None


def test_trees_of_one_leaf_and_of_equal_children() -> None:
    random = np.random.default_rng(0)
    forest = grown(random, 6, 4, "le", GRID, False, 1)
    for alone in (forest.roots[:1], forest.roots[2:3]):
        forest.modes[alone] = LEAF
        forest.children[alone] = (0, 1)
    assert compare(forest, "float32", rows(random, GRID, "float32")) is not None


def test_columns_that_do_not_fit_a_node() -> None:
    """Codes and children take 32 bits, or 16: columns have a table."""
    random = np.random.default_rng(1)
    values = random.normal(size=6000).astype(np.float32)
    found = compare(grown(random, 2, 14, "le", values, False, 1), "float32", rows(random, values, "float32", 4))
    assert found is not None
    assert found.values is not None
    assert found.attributes["most"] > 255
    positive = GRID[GRID > 0]
    found = compare(grown(random, 9, 4, "le", positive, False, 1), "float32", rows(random, GRID, "float32"))
    assert found is not None
    assert found.nodes.dtype == np.int16
    assert found.columns is not None


def test_columns_below_the_codes_of_a_node() -> None:
    random = np.random.default_rng(2)
    values = random.normal(size=300).astype(np.float32)
    found = compare(grown(random, 40, 9, "le", values, False, 1), "float32", rows(random, values, "float32"))
    assert found is not None
    assert found.nodes.dtype == np.int32
    assert found.columns is None


def test_only_places_that_are_compared_with_are_codes() -> None:
    """From 1/8 to 1,024 there are more places on the grid of floats than 9 bits hold, of which three matter."""
    random = np.random.default_rng(3)
    values = np.array([0.125, 9.125, 1024], np.float32)
    found = compare(grown(random, 30, 8, "le", values, False, 1), "float32", rows(random, values, "float32"))
    assert found is not None
    assert found.ranks is not None
    assert found.attributes["most"] == 3


def test_leaves_of_one_class_need_no_targets() -> None:
    """As forests have them that were grown until no leaf has examples of two classes."""
    random = np.random.default_rng(4)
    forest = grown(random, 20, 6, "le", GRID, False, 1)
    targets = random.integers(0, 2, len(forest.weights))
    forest = replace(forest, targets=targets, weights=np.full(len(targets), 0.05, np.float32))
    found = compare(forest, "float32", rows(random, GRID, "float32"), "average")
    assert found is not None
    assert found.lists is not None
    assert found.targets is None


@given(pairs=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6))), alone=st.lists(st.integers(0, 9)))
def test_pairs_stand_beside_each_other(pairs: list[tuple[int, int]], alone: list[int]) -> None:
    items = chain(pairs, alone)
    beside, single = places(items)
    assert set(pairs) <= set(beside)
    assert {*alone} <= set(single)
    assert all((items[n], items[n + 1]) == pair for pair, n in beside.items())
    assert len(items) <= 2 * len(set(pairs)) + len(set(alone))


def test_what_does_not_compare_by_order_stays() -> None:
    random = np.random.default_rng(2)
    for mode in MODES[4:]:
        forest = grown(random, 3, 4, mode, GRID, False, 1)
        assert compare(forest, "float32", rows(random, GRID, "float32")) is None
    tables = grown(random, 3, 4, "le", GRID, False, 1).tables("float32")
    attributes = {**tables.attributes, "targets": 1, "aggregate": "max"}
    assert coded(tables.operands(), attributes, "float32", FEATURES) is None


@pytest.mark.parametrize(("target", "op"), [("cortex-m0plus", "coded_tree_ensemble"), ("c99", "tree_ensemble")])
def test_targets_whose_weights_lie_in_flash_have_them(target: str, op: str) -> None:
    tables = grown(np.random.default_rng(3), 5, 4, "le", GRID, False, 2).tables("float32")
    b = Builder()
    x = Value("x", tensor_type("float32", (1, FEATURES)))
    operands = [None if a is None else b.constant(a) for a in tables.operands()]
    y = b.add("tree_ensemble", x, *operands, targets=2, aggregate="sum", **tables.attributes)
    graph = Graph("trees", (x,), (y,), tuple(b.nodes), ("x",), ("y",))
    context = context_of(Options(load_target(target)))
    assert op in {node.op for node in optimize(graph, context, check=True).nodes}
