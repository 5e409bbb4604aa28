"""Tensors of strings: passed through, compared, looked up, given as labels; against ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from sterna.api import compile_to
from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read
from sterna.pipeline import optimize
from sterna_runtime import Bundle, load
from sterna_runtime.strings import FILE

ML = "ai.onnx.ml"
WORDS = np.array([["tern", "gull"], ["", "Küstenseeschwalbe"]], object)


def model(nodes: list[onnx.NodeProto], inputs: dict[str, np.ndarray], outputs: Mapping[str, int]) -> onnx.ModelProto:
    given = [
        helper.make_tensor_value_info(
            n, TensorProto.STRING if a.dtype == object else helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
        )
        for n, a in inputs.items()
    ]
    made = [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()]
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid(ML, 4)]
    return helper.make_model(helper.make_graph(nodes, "words", given, made), opset_imports=opsets, ir_version=9)


def check(made: onnx.ModelProto, inputs: dict[str, np.ndarray], bundle: Bundle | None = None) -> None:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, inputs)
    found = interpret(optimize(read(made), check=True), inputs) if bundle is None else bundle.run(inputs)
    for have, want in zip(found.values(), wanted, strict=True):
        if want.dtype == object:
            assert have.dtype == object
            np.testing.assert_array_equal(have, want)
        else:
            np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


def encoder(**attributes: Any) -> onnx.NodeProto:
    return helper.make_node("LabelEncoder", ["x"], ["y"], domain=ML, **attributes)


TABLES: tuple[tuple[dict[str, Any], np.ndarray, int], ...] = (
    ({"keys_strings": ["gull", "tern"], "values_int64s": [7, 9], "default_int64": 3}, WORDS, TensorProto.INT64),
    ({"keys_strings": ["gull", ""], "values_floats": [0.5, 2.0]}, WORDS, TensorProto.FLOAT),
    ({"keys_strings": ["gull", "tern"], "values_strings": ["tern", "auk"]}, WORDS, TensorProto.STRING),
    (
        {"keys_int64s": [4, 2], "values_strings": ["four", "two"], "default_string": "?"},
        np.array([2, 3, 4]),
        TensorProto.STRING,
    ),
)


@pytest.mark.parametrize(("attributes", "x", "kind"), TABLES)
def test_label_encoder(attributes: dict[str, Any], x: np.ndarray, kind: int) -> None:
    check(model([encoder(**attributes)], {"x": x}, {"y": kind}), {"x": x})


@pytest.mark.parametrize("x", [WORDS, np.array([[1, 2], [5, 1]])], ids=["words", "codes"])
def test_category_mapper(x: np.ndarray) -> None:
    node = helper.make_node(
        "CategoryMapper", ["x"], ["y"], domain=ML, cats_strings=["gull", "tern", ""], cats_int64s=[1, 2, 3],
        default_int64=8, default_string="?",
    )  # fmt: skip
    kind = TensorProto.INT64 if x.dtype == object else TensorProto.STRING
    check(model([node], {"x": x}, {"y": kind}), {"x": x})


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_words_and_pairs_of_words_are_counted(mode: str) -> None:
    x = np.array([["a", "tern", "and", "a", "gull"], ["tern", "and", "tern", "", "auk"]], object)
    node = helper.make_node(
        "TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=1, max_gram_length=2, max_skip_count=1,
        ngram_counts=[0, 3], ngram_indexes=[0, 2, 1, 3, 4], weights=[1.0, 2.0, 0.5, 3.0, 1.5],
        pool_strings=["tern", "a", "gull", "tern", "and", "a", "gull"],
    )  # fmt: skip
    check(model([node], {"x": x}, {"y": TensorProto.FLOAT}), {"x": x})


def moving() -> onnx.ModelProto:
    """Strings moved, compared and looked up."""
    nodes = [
        helper.make_node("Constant", [], ["known"], value_strings=["tern", "auk"]),
        helper.make_node("Concat", ["x", "known_row"], ["rows"], axis=0),
        helper.make_node("Unsqueeze", ["known", "zero"], ["known_row"]),
        helper.make_node("Constant", [], ["zero"], value_ints=[0]),
        helper.make_node("Transpose", ["rows"], ["y"]),
        helper.make_node("Equal", ["x", "known"], ["same"]),
        helper.make_node("Identity", ["x"], ["copy"]),
    ]
    order = [nodes[n] for n in (0, 3, 2, 1, 4, 5, 6)]
    return model(order, {"x": WORDS}, {"y": TensorProto.STRING, "same": TensorProto.BOOL, "copy": TensorProto.STRING})


@pytest.mark.parametrize("generator", ["c", "llvm"])
def test_a_bundle_passes_strings_through(generator: str, tmp_path: Path) -> None:
    """Also those that the model does not know."""
    bundle = load(compile_to(tmp_path / "bundle", moving(), generator=generator))
    assert [str(spec.dtype) for spec in (*bundle.inputs, *bundle.outputs)] == ["object", "object", "bool", "object"]
    check(moving(), {"x": WORDS}, bundle)
    check(moving(), {"x": WORDS[::-1].copy()}, bundle)
    check(moving(), {"x": WORDS})
    np.testing.assert_array_equal(bundle.run([WORDS.tolist()])["copy"], WORDS)


def test_input_and_output_by_name(tmp_path: Path) -> None:
    bundle = load(compile_to(tmp_path / "bundle", moving(), generator="llvm"))
    bundle.set_input("x", np.array([["auk", "auk"], ["tern", "what"]], object))
    bundle.run()
    np.testing.assert_array_equal(bundle.get_output("copy"), [["auk", "auk"], ["tern", ""]])
    np.testing.assert_array_equal(bundle.get_output("same"), [[False, True], [True, False]])


def test_what_is_no_string_is_refused(tmp_path: Path) -> None:
    bundle = load(compile_to(tmp_path / "bundle", moving(), generator="llvm"))
    with pytest.raises(SternaError) as caught:
        bundle.run({"x": np.zeros((2, 2))})
    assert caught.value.codes == ("E0603",)
    with pytest.raises(SternaError) as caught:
        bundle.run({"x": WORDS[0]})
    assert caught.value.codes == ("E0604",)
    with pytest.raises(SternaError) as caught:
        bundle.run({})
    assert caught.value.codes == ("E0601",)


def test_a_damaged_table(tmp_path: Path) -> None:
    path = compile_to(tmp_path / "bundle", moving(), generator="llvm")
    (path / FILE).write_text('{"strings": 3}')
    with pytest.raises(SternaError) as caught:
        load(path)
    assert caught.value.codes == ("E0505",)


X = np.random.default_rng(5).standard_normal((6, 3)).astype(np.float32)


@pytest.mark.parametrize("classes", [2, 3])
def test_labels_of_a_linear_classifier(classes: int) -> None:
    weights = np.random.default_rng(6).standard_normal((classes, 3)).astype(np.float32)
    node = helper.make_node(
        "LinearClassifier", ["x"], ["label", "scores"], domain=ML, coefficients=weights.reshape(-1).tolist(),
        intercepts=[0.1] * classes, classlabels_strings=["tern", "gull", "auk"][:classes], post_transform="SOFTMAX",
    )  # fmt: skip
    check(model([node], {"x": X}, {"label": TensorProto.STRING, "scores": TensorProto.FLOAT}), {"x": X})


@pytest.mark.parametrize("classes", [2, 3])
def test_labels_of_trees(classes: int) -> None:
    ids = list(range(classes)) if classes > 2 else [1, 1]
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain=ML, nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2],
        nodes_featureids=[1, 0, 0], nodes_values=[0.1, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0] * len(ids),
        class_nodeids=[1, 2, 2][: len(ids)], class_ids=ids, class_weights=[0.7, 0.4, 0.6][: len(ids)],
        classlabels_strings=["tern", "gull", "auk"][:classes],
    )  # fmt: skip
    check(model([node], {"x": X}, {"label": TensorProto.STRING, "scores": TensorProto.FLOAT}), {"x": X})


def test_one_hot_encoder() -> None:
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], domain=ML, cats_strings=["gull", "tern", "auk"], zeros=1)
    check(model([node], {"x": WORDS}, {"y": TensorProto.FLOAT}), {"x": WORDS})


@pytest.mark.parametrize("op", ["Unique", "StringNormalizer", "NonZero"])
def test_what_would_look_into_strings_is_refused(op: str) -> None:
    with pytest.raises(SternaError) as caught:
        read(model([helper.make_node(op, ["x"], ["y"])], {"x": WORDS}, {"y": TensorProto.STRING}))
    assert caught.value.codes in (("E0111",), ("E0104",))


def test_numbers_are_no_strings() -> None:
    x = np.zeros((2, 2), np.int64)
    with pytest.raises(SternaError) as caught:
        read(model([helper.make_node("Equal", ["x", "s"], ["y"])], {"x": x, "s": WORDS}, {"y": TensorProto.BOOL}))
    assert caught.value.codes == ("E0108",)


def test_e0505_swapped_strings(tmp_path: Path) -> None:
    """strings.json has a hash: labels cannot be swapped."""
    place = compile_to(tmp_path / "b", moving(), generator="llvm")
    table = (place / "strings.json").read_bytes()
    assert json.loads((place / "graph.json").read_bytes())["files"]["strings.json"]["bytes"] == len(table)
    for data in (table.replace(b"tern", b"gull"), table + b" ", b"{", b""):
        (place / "strings.json").write_bytes(data)
        with pytest.raises(SternaError, match=r"E0505.*strings\.json"):
            load(place)
    (place / "strings.json").unlink()
    with pytest.raises(SternaError, match="E0505"):
        load(place)
    (place / "strings.json").write_bytes(table)
    load(place).close()
