"""Broken and damaged TensorFlow models are refused: with a code, and the name of what is wrong."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sterna.errors import SternaError
from sterna.frontends.formats import describe_model, find, read_model
from sterna.frontends.source import Source
from sterna.frontends.tensorflow.checkpoint import Checkpoint
from sterna.frontends.tfjs_weights import tfjs_weights
from support.graph_defs import Function, GraphWriter
from support.saved_models import checkpoint_index


def small() -> GraphWriter:
    g = GraphWriter()
    g.input("x", (1, 4, 4, 2))
    weights = g.constant(np.ones((2, 2, 2, 3), np.float32), name="weights")
    g.node("Conv2D", ["x", weights], name="conv", strides=[1, 1, 1, 1], padding="SAME")
    g.node("Relu", ["conv"], name="relu")
    g.node("Mean", ["relu", g.constant(np.array([1, 2], np.int32))], name="y")
    return g


def refusal(file: Path) -> SternaError:
    with pytest.raises(SternaError) as caught:
        read_model(file)
    return caught.value


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("dtype", "scale", "least"), [("float32", 1e39, 0.0), ("float32", 1e37, -1e300), ("int32", 1e8, 0.0)]
)
def test_stored_numbers_beyond_their_type(dtype: str, scale: float, least: float) -> None:
    """Of TensorFlow.js; the product is too large, or what it is made with, or an integer."""
    quantization = {"dtype": "uint8", "scale": scale, "min": least}
    weight = {"name": "w", "shape": [2], "dtype": dtype, "quantization": quantization}
    with pytest.raises(SternaError, match="E0103"):
        tfjs_weights([{"paths": ["shard"], "weights": [weight]}], lambda _: bytes([1, 255]))


def test_stored_integers() -> None:
    quantization = {"dtype": "uint16", "scale": 0.5, "min": -2.25}
    weight = {"name": "w", "shape": [2], "dtype": "int32", "quantization": quantization}
    made = tfjs_weights([{"paths": ["shard"], "weights": [weight]}], lambda _: bytes([1, 0, 0, 1]))["w"]
    assert made.dtype == np.int32
    assert made.tolist() == [-2, 126]


def test_all_unknown_operators_are_named(tmp_path: Path) -> None:
    g = small()
    g.node("Wobble", ["y"], name="one")
    g.node("HashTableV2", [], name="table")
    g.node("LookupTableFindV2", ["table", "one"], name="two")
    text = str(refusal(g.write(tmp_path)))
    assert all(name in text for name in ("Wobble", "HashTableV2", "LookupTableFindV2", 'register("tensorflow"'))
    assert len(describe_model(tmp_path / "model.pb").problems) == 3


def test_a_function_that_changes_a_variable(tmp_path: Path) -> None:
    """Its value would be lost after every run."""
    g = GraphWriter()
    g.input("x", (3,))
    inner = [
        ("Neg", ["a"], "made", {}),
        ("VarHandleOp", [], "counter", {"shared_name": "counter"}),
        ("AssignAddVariableOp", ["counter:resource:0", "a"], "count", {}),
    ]
    g.function("f", {"a": "float32"}, inner, {"r": ("made:y:0", "float32")})
    g.node("StatefulPartitionedCall", ["x"], name="y", f=Function("f"))
    mistake = refusal(g.write(tmp_path))
    assert mistake.codes == ("E0113",)
    assert 'function f, node "count"' in str(mistake)


@pytest.mark.parametrize(
    ("inputs", "code"), [(["y", "nowhere"], "E0103"), (["y", "later"], "E0103"), (["weights", "y"], "E0108")]
)
def test_a_broken_node(inputs: list[str], code: str, tmp_path: Path) -> None:
    g = small()
    g.node("MatMul" if code == "E0108" else "AddV2", inputs, name="later")
    assert code in refusal(g.write(tmp_path)).codes


def test_mutated_graphs(tmp_path: Path) -> None:
    """Whatever a byte becomes, the model is read or refused with a code."""
    content, chance = small().content(), random.Random(3)
    file = tmp_path / "model.pb"
    refused, codes = 0, set[str]()
    for _ in range(400):
        mutated = bytearray(content)
        for _ in range(chance.randint(1, 3)):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        file.write_bytes(mutated[: chance.randint(1, len(mutated))] if chance.random() < 0.2 else mutated)
        try:
            read_model(file)
        except SternaError as mistake:
            refused += 1
            codes |= set(mistake.codes)
    assert refused > 100
    assert all(code.startswith("E01") for code in codes), codes


@pytest.mark.parametrize("op", ["ResizeBicubic", "ResizeArea"])
def test_a_size_that_is_too_large(op: str, tmp_path: Path) -> None:
    g = GraphWriter()
    g.input("x", (1, 4, 4, 2))
    g.node(op, ["x", g.constant(np.array([1 << 30, 4], np.int32))], name="y")
    assert refusal(g.write(tmp_path)).codes == ("E0112",)


def test_a_checkpoint(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32)
    entry = bytes([8, 1, 18, 8, 18, 2, 8, 2, 18, 2, 8, 3, 40, 24])  # float32, [2, 3], 24 bytes
    index = checkpoint_index({b"": bytes([8, 1]), b"w": entry})
    found = Checkpoint(index, lambda name, offset, size: values.tobytes()[offset : offset + size])
    np.testing.assert_array_equal(found.weight("w"), values.reshape(2, 3))
    assert found.weight("v") is None
    short = Checkpoint(index, lambda name, offset, size: b"")
    with pytest.raises(SternaError, match="ends within"):
        short.weight("w")
    chance, codes = random.Random(4), set[str]()
    for _ in range(300):
        mutated = bytearray(index)
        mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        try:
            Checkpoint(bytes(mutated), lambda name, offset, size: bytes(min(size, 64))).weight("w")
        except SternaError as mistake:
            codes |= set(mistake.codes)
    assert codes
    assert all(code.startswith("E01") for code in codes), codes


def _page(**changes: object) -> dict[str, object]:
    node = [
        {
            "name": "x",
            "op": "Placeholder",
            "attr": {"dtype": {"type": "DT_FLOAT"}, "shape": {"shape": {"dim": [{"size": "2"}]}}},
        },
        {"name": "w", "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"}}},
        {"name": "y", "op": "AddV2", "input": ["x", "w"]},
    ]
    weights = [{"name": "w", "shape": [2], "dtype": "float32"}]
    manifest = [{"paths": ["shard.bin"], "weights": weights}]
    return {"format": "graph-model", "modelTopology": {"node": node}, "weightsManifest": manifest, **changes}


def test_a_page_s_model(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(_page()))
    assert "shard.bin" in str(refusal(tmp_path / "model.json"))
    (tmp_path / "shard.bin").write_bytes(np.array([1, 2], np.float32).tobytes())
    assert read_model(tmp_path / "model.json").output_names == ("y",)
    (tmp_path / "shard.bin").write_bytes(bytes(7))
    assert refusal(tmp_path / "model.json").codes == ("E0103",)
    outside = [{"paths": ["../shard.bin"], "weights": []}]
    (tmp_path / "model.json").write_text(json.dumps(_page(weightsManifest=outside)))
    assert "outside" in str(refusal(tmp_path / "model.json"))


def test_an_archive_without_a_model_is_none(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    found = find(Source.of(tmp_path / "a.zip"))
    assert found is None or found.name != "tensorflow"
