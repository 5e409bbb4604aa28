"""Ensembles of trees with random tables, against ONNX Runtime; and tables that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FEATURES = 4


def grown(random: np.random.Generator, n_trees: int, depth: int, modes: tuple[str, ...]) -> dict[str, list[Any]]:
    """Nodes of random trees, in the attributes of operator sets 1 and 3."""
    keys = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing")
    nodes: dict[str, list[Any]] = {key: [] for key in keys}

    def node(tree: int, left: int) -> int:
        mine = nodes["treeids"].count(tree)
        for key in keys:
            nodes[key].append(0)
        at = len(nodes["treeids"]) - 1
        leaf = left == 0 or (left < depth and random.random() < 0.2)
        nodes["treeids"][at], nodes["nodeids"][at] = tree, mine
        nodes["modes"][at] = "LEAF" if leaf else str(random.choice(modes))
        if not leaf:
            nodes["featureids"][at] = int(random.integers(FEATURES))
            nodes["values"][at] = float(random.integers(-2, 3)) / 2
            nodes["missing"][at] = int(random.integers(2))
            nodes["truenodeids"][at] = node(tree, left - 1)
            nodes["falsenodeids"][at] = node(tree, left - 1)
        return mine

    for tree in range(n_trees):
        node(tree, depth)
    return nodes


def weighted(
    random: np.random.Generator, nodes: dict[str, list[Any]], prefix: str, ids: list[int], low: float
) -> dict[str, Any]:
    """Weights at every leaf."""
    leaves = [n for n, mode in enumerate(nodes["modes"]) if mode == "LEAF"]
    entries = [(n, i) for n in leaves for i in ids]
    return {
        f"{prefix}_treeids": [nodes["treeids"][n] for n, _ in entries],
        f"{prefix}_nodeids": [nodes["nodeids"][n] for n, _ in entries],
        f"{prefix}_ids": [i for _, i in entries],
        f"{prefix}_weights": [float(w) for w in random.uniform(low, 1, len(entries)).astype(np.float32)],
    }


def attributes_of(nodes: dict[str, list[Any]], missing: bool) -> dict[str, Any]:
    result = {f"nodes_{key}": values for key, values in nodes.items() if key != "missing"}
    if missing:
        result["nodes_missing_value_tracks_true"] = nodes["missing"]
    return result


def model_of(op: str, x: np.ndarray, outputs: int, **attributes: Any) -> onnx.ModelProto:
    names = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node], "trees", [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_empty_tensor_value_info(name) for name in names],
    )  # fmt: skip
    version = 5 if op == "TreeEnsemble" else 3
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def rows(random: np.random.Generator, dtype: str = "float32", missing: bool = False, count: int = 7) -> np.ndarray:
    x = (random.integers(-3, 4, (count, FEATURES)) / 2).astype(dtype)
    if missing:
        x[random.random(x.shape) < 0.2] = np.nan
    return x


def check(model: onnx.ModelProto, x: np.ndarray, labels: bool = True) -> None:
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found = interpret(read(model), {"x": x})
    for have, want in zip(found.values(), expected, strict=True):
        assert have.shape == want.shape
        assert have.dtype == want.dtype
        if have.dtype == np.int64 and not labels:
            continue
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(24))
def test_regressor(seed: int) -> None:
    random = np.random.default_rng(seed)
    targets = 1 + seed % 3
    modes = MODES if seed % 2 else (MODES[seed % 6],)
    nodes = grown(random, 4, 3, modes)
    dtype = "float64" if seed % 3 and seed >= 12 else "float32"
    missing = seed % 4 == 3
    x = rows(random, dtype, missing)
    extra: dict[str, Any] = {"base_values": [0.25] * targets} if seed % 5 == 0 else {}
    aggregate = ("SUM", "AVERAGE", "MIN", "MAX")[seed // 3 % 4]
    check(
        model_of(
            "TreeEnsembleRegressor", x, 1, n_targets=targets, aggregate_function=aggregate,
            **attributes_of(nodes, missing), **weighted(random, nodes, "target", list(range(targets)), -1), **extra,
        ),
        x,
    )  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("base", [False, True])
def test_classifier_of_several_classes(transform: str, base: bool) -> None:
    random = np.random.default_rng(3)
    nodes = grown(random, 1 if transform == "PROBIT" else 3, 3, MODES[:1])
    x = rows(random)
    weights = weighted(random, nodes, "class", [0, 1, 2], 0.1 if transform == "PROBIT" else -1)
    weights["class_weights"] = [w * 0.5 for w in weights["class_weights"]]
    extra = {"base_values": [0.1, -0.2, 0.05]} if base and transform != "PROBIT" else {}
    check(
        model_of(
            "TreeEnsembleClassifier", x, 2, classlabels_int64s=[3, 5, 9], post_transform=transform,
            **attributes_of(nodes, False), **weights, **extra,
        ),
        x,
    )  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize(("ids", "base"), [([0], 0), ([0], 1), ([1], 0), ([0, 1], 0)])
def test_classifier_of_two_classes(transform: str, low: float, ids: list[int], base: int) -> None:
    random = np.random.default_rng(5)
    nodes = grown(random, 3, 2, MODES[:1])
    x = rows(random)
    weights = weighted(random, nodes, "class", ids, low)
    if low == 0.0:
        weights["class_weights"] = [w / 3 for w in weights["class_weights"]]
    extra = {"base_values": [0.125, 0.125][:base]} if base else {}
    model = model_of(
        "TreeEnsembleClassifier", x, 2, classlabels_int64s=[0, 1], post_transform=transform,
        **attributes_of(nodes, False), **weights, **extra,
    )  # fmt: skip
    check(model, x, labels=len(ids) == 1)  # of two scores ONNX Runtime asks the second one only


def numbered(nodes: dict[str, list[Any]], weights: list[float], n_targets: int, dtype: str) -> dict[str, Any]:
    """The attributes of operator set 5, where the leaves are apart."""
    inner = [n for n, mode in enumerate(nodes["modes"]) if mode != "LEAF"]
    place = {(nodes["treeids"][n], nodes["nodeids"][n]): k for k, n in enumerate(inner)}
    leaves: dict[tuple[int, int], int] = {}
    for n, mode in enumerate(nodes["modes"]):
        if mode == "LEAF":
            leaves[nodes["treeids"][n], nodes["nodeids"][n]] = len(leaves)
    result: dict[str, Any] = {}
    for side in ("true", "false"):
        ids = [(nodes["treeids"][n], nodes[f"{side}nodeids"][n]) for n in inner]
        result[f"nodes_{side}leafs"] = [int(i in leaves) for i in ids]
        result[f"nodes_{side}nodeids"] = [leaves[i] if i in leaves else place[i] for i in ids]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    result |= {
        "tree_roots": [place[t, 0] for t in sorted(set(nodes["treeids"]))],
        "nodes_featureids": [nodes["featureids"][n] for n in inner],
        "nodes_splits": helper.make_tensor("s", kind, (len(inner),), [nodes["values"][n] for n in inner]),
        "nodes_modes": helper.make_tensor(
            "m", TensorProto.UINT8, (len(inner),), [(*MODES, "BRANCH_MEMBER").index(nodes["modes"][n]) for n in inner]
        ),
        "leaf_targetids": [k % n_targets for k in range(len(leaves))],
        "leaf_weights": helper.make_tensor("w", kind, (len(leaves),), weights[: len(leaves)]),
        "n_targets": n_targets,
    }
    return result


def walked(attributes: dict[str, Any], x: np.ndarray, sets: list[set[float]]) -> np.ndarray:
    """The sums as the specification reads, one row and tree after the other. (Of trees like these ONNX Runtime 1.31 and
    onnx.reference get some wrong, each others.)"""
    modes = onnx.numpy_helper.to_array(attributes["nodes_modes"])
    splits = onnx.numpy_helper.to_array(attributes["nodes_splits"])
    weights = onnx.numpy_helper.to_array(attributes["leaf_weights"])
    members = dict(zip(np.flatnonzero(modes == 6).tolist(), sets, strict=True))
    sums = np.zeros((len(x), attributes["n_targets"]), splits.dtype)
    for row, total in zip(x, sums, strict=True):
        for root in attributes["tree_roots"]:
            node, leaf = root, 0
            while not leaf:
                v, s = row[attributes["nodes_featureids"][node]], splits[node]
                holds = (v <= s, v < s, v >= s, v > s, v == s, v != s, float(v) in members.get(node, set()))
                side = "true" if holds[modes[node]] else "false"
                leaf = attributes[f"nodes_{side}leafs"][node]
                node = attributes[f"nodes_{side}nodeids"][node]
            total[attributes["leaf_targetids"][node]] += weights[node]
    return sums


@pytest.mark.parametrize("seed", range(8))
def test_numbered_ensemble(seed: int) -> None:
    random = np.random.default_rng(seed)
    members = seed % 2 == 1
    nodes = grown(random, 3, 3, (*MODES[:4], "BRANCH_MEMBER") if members else MODES)
    dtype = "float64" if seed % 4 == 2 else "float32"
    weights = [float(w) for w in random.uniform(-1, 1, 64).astype(np.float32)]
    attributes = numbered(nodes, weights, 1 + seed % 3, dtype)
    sets: list[set[float]] = []
    if members:
        count = nodes["modes"].count("BRANCH_MEMBER")
        sets = [set(random.choice([-1, 0, 0.5, 2], int(random.integers(1, 4)), False).tolist()) for _ in range(count)]
        flat = [v for values in sets for v in (*sorted(values), np.nan)]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        attributes["membership_values"] = helper.make_tensor("v", kind, (len(flat),), flat)
    x = rows(random, dtype)
    model = model_of("TreeEnsemble", x, 1, aggregate_function=1, post_transform=0, **attributes)
    found = interpret(read(model), {"x": x})["y0"]
    np.testing.assert_allclose(found, walked(attributes, x, sets), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_trees", [1, 11])
def test_blocks_of_rows_and_what_is_left_over(seed: int, n_trees: int) -> None:
    random = np.random.default_rng(seed)
    nodes = grown(random, n_trees, 1 + seed, MODES if seed % 4 == 3 else (MODES[seed % 6],))
    missing, targets = seed % 2 == 1, 1 + seed % 3
    x = rows(random, "float32", missing, 8 * (1 + seed % 2) + seed % 5)
    check(
        model_of(
            "TreeEnsembleRegressor", x, 1, n_targets=targets, **attributes_of(nodes, missing),
            **weighted(random, nodes, "target", [seed % targets] if seed % 3 else list(range(targets)), -1),
        ),
        x,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_nodes_that_several_nodes_lead_to(seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes = grown(random, 3, 4, MODES)
    attributes = numbered(nodes, [float(w) for w in random.uniform(-1, 1, 64)], 2, "float32")
    count = len(attributes["nodes_featureids"])
    for side in ("true", "false"):
        for n in range(count - 1):
            if random.random() < 0.4:  # a node that stands later, so that no path leads back
                attributes[f"nodes_{side}nodeids"][n] = int(random.integers(n + 1, count))
                attributes[f"nodes_{side}leafs"][n] = 0
    attributes["tree_roots"] = [*attributes["tree_roots"], count - 1, 0]
    x = rows(random, count=13)
    model = model_of("TreeEnsemble", x, 1, aggregate_function=1, post_transform=0, **attributes)
    np.testing.assert_allclose(interpret(read(model), {"x": x})["y0"], walked(attributes, x, []), rtol=1e-5, atol=1e-6)


def test_records_of_two_words_of_64_bits() -> None:
    """Features and children that 32 bits do not hold beside each other."""
    random = np.random.default_rng(0)
    nodes = grown(random, 60, 6, MODES[:1])
    assert len(nodes["modes"]) > 1 << 11
    nodes["featureids"] = [0 if mode == "LEAF" else int(random.integers(1 << 21)) for mode in nodes["modes"]]
    x = random.uniform(-1, 1, (1, 1 << 21)).astype(np.float32)
    model = model_of(
        "TreeEnsembleRegressor", x, 1, n_targets=1, **attributes_of(nodes, False),
        **weighted(random, nodes, "target", [0], -1),
    )  # fmt: skip
    assert "uint64" in {value.dtype for value in read(model).constants()}
    check(model, x)


def test_a_value_that_is_nan() -> None:
    """No comparison with it holds, but that of being unequal; NaN may still lead to the first child."""
    nodes: dict[str, list[Any]] = {
        "treeids": [0] * 7, "nodeids": list(range(7)), "featureids": [0, 1, 2, 0, 0, 0, 0],
        "values": [0.5, np.nan, np.nan, 0, 0, 0, 0], "modes": ["BRANCH_GT", "BRANCH_LEQ", "BRANCH_NEQ"] + ["LEAF"] * 4,
        "truenodeids": [1, 3, 5, 0, 0, 0, 0], "falsenodeids": [2, 4, 6, 0, 0, 0, 0], "missing": [0, 1, 0, 0, 0, 0, 0],
    }  # fmt: skip
    x = np.array([[1, 1, 1, 0], [1, np.nan, 1, 0], [0, 1, 1, 0], [0, 1, np.nan, 0], [np.nan, 1, 1, 0]], np.float32)
    weights = {
        "target_treeids": [0] * 4, "target_nodeids": [3, 4, 5, 6], "target_ids": [0] * 4,
        "target_weights": [1.0, 2.0, 3.0, 4.0],
    }  # fmt: skip
    model = model_of("TreeEnsembleRegressor", x, 1, n_targets=1, **attributes_of(nodes, True), **weights)
    assert interpret(read(model), {"x": x})["y0"].reshape(-1).tolist() == [2, 1, 3, 3, 3]


def test_trees_that_are_none_are_refused() -> None:
    random = np.random.default_rng(0)
    nodes = grown(random, 2, 2, MODES[:1])
    x = rows(random)
    good = {**attributes_of(nodes, False), **weighted(random, nodes, "target", [0], -1), "n_targets": 1}
    inner = nodes["modes"].index("BRANCH_LEQ")

    def changed(key: str, position: int, value: Any) -> dict[str, Any]:
        values = list(good[key])
        values[position] = value
        return {**good, key: values}

    for wrong in (
        changed("nodes_truenodeids", inner, 77),
        changed("nodes_truenodeids", inner, inner),
        changed("nodes_nodeids", 1, 0),
        changed("nodes_featureids", inner, 99),
        changed("target_ids", 0, 5),
        changed("target_nodeids", 0, 55),
        changed("nodes_modes", inner, "SOMETIMES"),
        {**good, "nodes_values": good["nodes_values"][1:]},
        {**good, "target_weights": good["target_weights"][1:]},
        {**good, "base_values": [0.0, 1.0, 2.0]},
    ):
        with pytest.raises(SternaError, match=r"E010[89]"):
            read(model_of("TreeEnsembleRegressor", x, 1, **wrong))
