"""Files of boosted trees that are damaged, contradict themselves or ask for what is not supported."""

from __future__ import annotations

import contextlib
import copy
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.cli import program
from sterna.errors import SternaError
from sterna.frontends.boosted import read
from sterna.frontends.boosted.ubjson import loads
from sterna.frontends.formats import describe_model, format_of, read_model
from sterna.frontends.frontend import ReadOptions

TREE = {
    "tree_param": {"size_leaf_vector": "1"}, "left_children": [1, -1, -1], "right_children": [2, -1, -1],
    "split_indices": [1, 0, 0], "split_conditions": [0.5, -1.0, 2.0], "default_left": [1, 0, 0],
    "split_type": [0, 0, 0], "categories": [], "categories_nodes": [], "categories_segments": [],
    "categories_sizes": [],
}  # fmt: skip
XGBOOST: dict[str, Any] = {
    "learner": {
        "learner_model_param": {"base_score": "5E-1", "num_class": "0", "num_feature": "3", "num_target": "1"},
        "objective": {"name": "reg:squarederror"},
        "gradient_booster": {"name": "gbtree", "model": {"trees": [TREE], "tree_info": [0]}},
    },
    "version": [3, 0, 0],
}
LIGHTGBM = """tree
version=v4
num_class=1
num_tree_per_iteration=1
max_feature_idx=2
objective=regression

Tree=0
num_leaves=3
num_cat=1
split_feature=0 2
threshold=0.5 0
decision_type=2 1
left_child=1 -1
right_child=-2 -3
leaf_value=0.25 -1 2
cat_boundaries=0 2
cat_threshold=6 1

end of trees
"""


def refusal(path: Path, content: bytes | str, **options: Any) -> SternaError:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(SternaError) as caught:
        read(path, format_of(path), **options)
    assert all(d.where[0] == path.name for d in caught.value.diagnostics)
    return caught.value


def ubjson(value: Any) -> bytes:
    """In Universal Binary JSON, floats of a list as a typed array."""
    if isinstance(value, dict):
        return b"{" + b"".join(ubjson(k)[1:] + ubjson(v) for k, v in value.items()) + b"}"
    if isinstance(value, list):
        if value and all(isinstance(v, float) for v in value):
            return b"[$d#L" + struct.pack(f">q{len(value)}f", len(value), *value)
        return b"[#i" + bytes([len(value)]) + b"".join(map(ubjson, value))
    if isinstance(value, str):
        return b"SL" + struct.pack(">q", len(value)) + value.encode()
    return b"l" + struct.pack(">i", value) if isinstance(value, int) else b"d" + struct.pack(">f", value)


def test_both_files_are_read(tmp_path: Path) -> None:
    for name, content in (
        ("a.json", json.dumps(XGBOOST).encode()), ("a.ubj", ubjson(XGBOOST)), ("a.txt", LIGHTGBM.encode()),
    ):  # fmt: skip
        path = tmp_path / name
        path.write_bytes(content)
        assert format_of(path) == ("lightgbm" if name == "a.txt" else "xgboost")
        graph = read_model(path, ReadOptions(dims={"batch": (1, 9)}))
        assert [v.name for v in graph.inputs] == ["X"]
        assert graph.output_names == ("prediction",)


def test_inspect(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_text(LIGHTGBM)
    facts = describe_model(path)
    assert facts.format == "LightGBM, regression or ranking"
    assert (str(facts.inputs[0]), str(facts.outputs[0])) == ("float32[batch, 3]", "float64[batch]")
    shown = CliRunner().invoke(program, ["inspect", str(path)])
    assert shown.exit_code == 0
    assert "decision tree" in shown.output
    path.write_text(LIGHTGBM.replace("num_leaves=3", "num_leaves=0"))
    assert "E0103" in CliRunner().invoke(program, ["inspect", str(path)]).output


def changed(change: Callable[[dict[str, Any]], None]) -> str:
    learner = copy.deepcopy(XGBOOST)
    change(learner["learner"])
    return json.dumps(learner)


def tree(**members: Any) -> Callable[[dict[str, Any]], None]:
    return lambda learner: learner["gradient_booster"]["model"]["trees"][0].update(members)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda m: m.pop("objective"), "E0101", "damaged"),
        (lambda m: m["objective"].update(name="reg:mine"), "E0104", "reg:mine"),
        (lambda m: m["gradient_booster"].update(name="gbforest"), "E0104", "gbforest"),
        (lambda m: m["learner_model_param"].update(base_score="[1,2]"), "E0103", "base_score"),
        (lambda m: (m["learner_model_param"].update(base_score="0"), m["objective"].update(name="binary:logistic")),
         "E0103", "base_score"),
        (lambda m: m["learner_model_param"].update(num_class="9"), "E0103", "9 scores"),
        (lambda m: m["gradient_booster"]["model"].update(tree_info=[1]), "E0103", "score 1 of 1"),
        (lambda m: m["gradient_booster"]["model"].update(tree_info=[0, 0]), "E0103", "1 trees"),
        (tree(tree_param={"size_leaf_vector": "4"}), "E0104", "vector"),
        (tree(left_children=[7, -1, -1]), "E0103", "does not exist"),
        (tree(right_children=[-1, -1, -1]), "E0103", "does not exist"),
        (tree(left_children=[0, -1, -1]), "E0109", "leads back"),
        (tree(split_indices=[3, 0, 0]), "E0108", "feature 3 of 3"),
        (tree(split_conditions=["a", 0, 0]), "E0101", "damaged"),
        (tree(split_type=[1, 0, 0]), "E0101", "damaged"),
    ],
)  # fmt: skip
def test_xgboost(tmp_path: Path, change: Any, code: str, said: str) -> None:
    mistake = refusal(tmp_path / "model.json", changed(change))
    assert mistake.codes == (code,)
    assert said in str(mistake)


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("objective=regression", "objective=mine", "E0104", "mine"),
        ("num_leaves=3", "num_leaves=3\nis_linear=1", "E0104", "linear"),
        ("max_feature_idx=2\n", "", "E0101", "damaged"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=2", "E0103", "2 scores"),
        ("leaf_value=0.25", "leaf_value=", "E0103", "leaf_value"),
        ("left_child=1", "left_child=2", "E0103", "does not exist"),
        ("left_child=1", "left_child=0", "E0109", "leads back"),
        ("split_feature=0", "split_feature=7", "E0108", "feature 7 of 3"),
        ("threshold=0.5 0", "threshold=0.5 4", "E0101", "damaged"),
        ("num_leaves=3", "num_leaves=0", "E0103", "no leaves"),
    ],
)
def test_lightgbm(tmp_path: Path, old: str, new: str, code: str, said: str) -> None:
    mistake = refusal(tmp_path / "model.txt", LIGHTGBM.replace(old, new))
    assert mistake.codes == (code,)
    assert said in str(mistake)


@pytest.mark.parametrize(
    "options", [{"shapes": {"Y": (1, 3)}}, {"shapes": {"X": (3,)}}, {"dims": {"rows": 3}}, {"dims": {"batch": 0}}]
)
def test_wrong_sizes(tmp_path: Path, options: dict[str, Any]) -> None:
    assert refusal(tmp_path / "model.txt", LIGHTGBM, **options).codes == ("E0106",)


def test_a_row_of_another_length(tmp_path: Path) -> None:
    assert refusal(tmp_path / "model.txt", LIGHTGBM, shapes={"X": (1, 2)}).codes == ("E0108",)


def test_constants_that_take_no_bytes_are_counted() -> None:
    """A container of 900 entries in some bytes, 900 times: the file has fewer bytes than they are."""
    inner = b"$T#I" + struct.pack(">h", 900)
    with pytest.raises(ValueError, match="number of entries"):
        loads(b"[$[#I" + struct.pack(">h", 900) + inner * 900)


CONTENTS = (json.dumps(XGBOOST).encode(), ubjson(XGBOOST), LIGHTGBM.encode())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files(tmp_path: Path, data: st.DataObject) -> None:
    """A file cut short, or with some bytes changed, is read or refused."""
    content = bytearray(data.draw(st.sampled_from(CONTENTS)))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(40, len(content) - 1), st.integers(0, 255)), max_size=4)):
        content[at] = byte
    del content[data.draw(st.integers(60, len(content))) :]
    path = tmp_path / "model"
    path.write_bytes(content)
    with contextlib.suppress(SternaError):
        read_model(path)
