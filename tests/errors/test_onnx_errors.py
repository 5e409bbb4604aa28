"""One test per error code of the ONNX front end, and that damaged files give one of them and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from sterna.debug.interpret import interpret
from sterna.errors import SternaError
from sterna.frontends.onnx import read


def value(name: str, shape: list[Any] | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto] | None = None,
    weights: dict[str, np.ndarray] | None = None,
    outputs: tuple[str, ...] = ("y",),
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of float tensors; its input is x of 2 x 3, unless said otherwise."""
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", [2, 3])] if inputs is None else inputs,
        [value(name, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def refusal(broken: Any, **options: Any) -> SternaError:
    with pytest.raises(SternaError) as caught:
        read(broken, **options)
    return caught.value


RELU = helper.make_node("Relu", ["x"], ["y"], name="relu")


# ---------------------------------------------------------------- E0101: files
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"\0\0\0\0TFL3 and so on", "TensorFlow Lite"),
        (b"PK\x03\x04...", "archive"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        (b"\xff\xfe\xfd not a model", "not an ONNX model"),
        (b"\x08\x07", "no graph"),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    mistake = refusal(path)
    assert mistake.codes == ("E0101",)
    assert said in str(mistake)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent.onnx").codes == ("E0101",)
    assert refusal(tmp_path).codes == ("E0101",)


# ---------------------------------------------------------------- E0102: operator sets
@pytest.mark.parametrize(("opset", "fix"), [(0, "convert"), (999, "pip install")])
def test_operator_sets_out_of_range(opset: int, fix: str) -> None:
    mistake = refusal(model([RELU], opset=opset))
    assert mistake.codes == ("E0102",)
    assert fix in str(mistake)


def test_no_operator_set() -> None:
    broken = model([RELU])
    del broken.opset_import[:]
    assert refusal(broken).codes == ("E0102",)


# ---------------------------------------------------------------- E0103: structure
def test_every_flaw_of_the_structure_is_reported_at_once() -> None:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["c"], name="first"),
        helper.make_node("Relu", ["c"], ["a"], name="second"),  # a cycle
        helper.make_node("Relu", ["nowhere"], ["d"], name="third"),
        helper.make_node("Relu", ["x"], ["b"], name="fourth"),
        helper.make_node("Relu", ["x"], ["b"], name="fifth"),  # defined twice
        helper.make_node("Add", ["a", "d"], ["y"], name="last"),
    ]
    mistake = refusal(model(nodes, outputs=("y", "absent")))
    assert set(mistake.codes) == {"E0103"}
    text = str(mistake)
    for part in ("depend on each other", '"nowhere"', '"b" is defined twice', '"absent"', '"third"'):
        assert part in text


def test_number_of_inputs() -> None:
    assert refusal(model([helper.make_node("Add", ["x"], ["y"])])).codes == ("E0103",)


def test_data_of_the_wrong_size() -> None:
    broken = model([helper.make_node("Add", ["x", "w"], ["y"])], weights={"w": np.ones(3, np.float32)})
    broken.graph.initializer[0].dims[0] = 4
    assert refusal(broken).codes == ("E0103",)


# ---------------------------------------------------------------- E0104, E0105: all at once
def test_unsupported_operators_and_unknown_shapes_come_together() -> None:
    nodes = [
        helper.make_node("StringNormalizer", ["x"], ["a"], name="one"),
        helper.make_node("StringNormalizer", ["x"], ["b"], name="two"),
        helper.make_node("RegexFullMatch", ["a"], ["c"], name="three"),
        helper.make_node("Frobnicate", ["b"], ["d"], name="four", domain="com.acme"),
    ]
    inputs = [value("x", ["batch", 3, "?", 8])]
    mistake = refusal(model(nodes, inputs, outputs=("c", "d")))
    assert sorted(mistake.codes) == ["E0104", "E0104", "E0104", "E0105"]
    text = str(mistake)
    assert 'StringNormalizer is not supported (2 nodes)\n  net, "one", "two"' in text
    assert "com.acme.Frobnicate" in text
    assert 'fix: shapes={"x": (1, 3, <size>, 8)}' in text


def test_named_dimensions_are_offered() -> None:
    broken = model([RELU], [value("x", ["batch", 3])])
    assert 'fix: dims={"batch": 1}  or  shapes={"x": (1, 3)}' in str(refusal(broken))
    assert read(broken, dims={"batch": 4}).inputs[0].type.sizes == (4, 3)
    assert read(broken, shapes={"x": (5, 3)}).inputs[0].type.sizes == (5, 3)


def test_what_no_output_needs_is_not_looked_at() -> None:
    nodes = [RELU, helper.make_node("NonZero", ["x"], ["unused"])]
    assert len(read(model(nodes)).nodes) == 1


# ---------------------------------------------------------------- E0106: options
@pytest.mark.parametrize(
    "options",
    [
        {"shapes": {"z": (1, 3)}},
        {"shapes": {"x": (1, 4)}},
        {"shapes": {"x": (1, 3, 1)}},
        {"shapes": {"x": (-1, 3)}},
        {"dims": {"length": 3}, "shapes": {"x": (1, 3)}},
        {"dims": {"batch": -1}},
        {"dims": {"batch": 2}, "shapes": {"x": (1, 3)}},
    ],
)
def test_options_that_contradict_the_model(options: dict[str, Any]) -> None:
    assert "E0106" in refusal(model([RELU], [value("x", ["batch", 3])]), **options).codes


# ---------------------------------------------------------------- E0107 to E0109: nodes
def test_operands_that_must_be_constant() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], to=TensorProto.INT64, name="cast"),
        helper.make_node("Reshape", ["x", "c"], ["y"], name="reshape"),
    ]
    mistake = refusal(model(nodes))
    assert mistake.codes == ("E0107",)
    assert 'node 1, Reshape "reshape"' in str(mistake)
    assert 'input 1 comes from Cast <- "x"' in str(mistake)


def test_every_failing_node_is_reported_but_none_that_depends_on_one() -> None:
    weights = {"w": np.ones(7, np.float32)}
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"], name="bad"),
        helper.make_node("Relu", ["a"], ["b"], name="silent"),
        helper.make_node("MatMul", ["x", "x"], ["c"], name="worse"),
        helper.make_node("Add", ["b", "c"], ["y"], name="last"),
    ]
    mistake = refusal(model(nodes, weights=weights))
    assert mistake.codes == ("E0108", "E0108")
    assert "do not broadcast" in str(mistake)
    assert '"silent"' not in str(mistake)


@pytest.mark.parametrize(
    "attributes",
    [{"axis": 1.5}, {"axis": "last"}, {"axle": 1}, {"axis": [1]}],
    ids=["float", "string", "unknown", "list"],
)
def test_attributes_of_the_wrong_kind(attributes: dict[str, Any]) -> None:
    assert refusal(model([helper.make_node("Softmax", ["x"], ["y"], **attributes)])).codes == ("E0109",)


def test_missing_attribute() -> None:
    assert refusal(model([helper.make_node("Cast", ["x"], ["y"])])).codes == ("E0109",)


# ---------------------------------------------------------------- E0110: external data
@pytest.mark.parametrize(
    ("location", "offset", "length"),
    [
        ("../secret.bin", 0, 12),
        ("/etc/passwd", 0, 12),
        ("absent.bin", 0, 12),
        ("w.bin", 8, 12),
        ("w.bin", 0, 99),
        ("", 0, 12),
        ("w.bin", -4, 12),
    ],
)
def test_external_data(tmp_path: Path, location: str, offset: int, length: int) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (folder / "w.bin").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], weights={"w": np.ones(3, np.float32)})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": "w.bin", "offset": 0, "length": 12}

    def save(**changed: object) -> Path:
        del tensor.external_data[:]
        for key, text in {**entries, **changed}.items():
            tensor.external_data.add(key=key, value=str(text))
        (folder / "net.onnx").write_bytes(proto.SerializeToString())
        return folder / "net.onnx"

    graph = read(save())
    assert [c.data.tolist() for c in graph.constants() if c.data is not None] == [[0.0, 1.0, 2.0]]
    assert refusal(save(location=location, offset=offset, length=length)).codes == ("E0110",)


def test_a_model_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    """Weights in a file with holes: they are mapped, so that only what is looked at takes memory."""
    rows, width, count = 300_000, 1024, 2
    proto = model(
        [
            helper.make_node("Gather", ["a", "x"], ["p"]),
            helper.make_node("Gather", ["b", "x"], ["q"]),
            helper.make_node("Add", ["p", "q"], ["y"]),
        ],
        [value("x", [2], TensorProto.INT64)],
    )
    size = rows * width * 4
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(count * size)
        file.seek(count * size - 4)
        file.write(np.float32(7).tobytes())
    for n, name in enumerate("ab"):
        tensor = proto.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=[rows, width])
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in {"location": "weights.bin", "offset": n * size, "length": size}.items():
            tensor.external_data.add(key=key, value=str(text))
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    assert count * size > 2**31
    found = interpret(read(tmp_path / "net.onnx"), {"x": np.array([0, rows - 1])})["y"]
    assert found.shape == (2, width)
    assert found[1, -1] == 7
    assert not found[:, :-1].any()


def test_external_data_through_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    (folder / "w.bin").symlink_to(tmp_path / "secret.bin")
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], weights={"w": np.ones(3, np.float32)})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    (folder / "net.onnx").write_bytes(proto.SerializeToString())
    assert refusal(folder / "net.onnx").codes == ("E0110",)


@pytest.mark.parametrize("kind", ["initializer", "constant"])
def test_external_data_of_a_branch(tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    (tmp_path / "model").mkdir()
    tensor = numpy_helper.from_array(np.ones(3, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.bin")
    add, constant = helper.make_node("Add", ["x", "w"], ["t"]), helper.make_node("Constant", [], ["w"], value=tensor)
    inner = ([add], [tensor]) if kind == "initializer" else ([constant, add], [])
    then = helper.make_graph(inner[0], "then", [], [value("t", None)], inner[1])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["o"])], "else", [], [value("o", None)])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    path = tmp_path / "model" / "net.onnx"
    path.write_bytes(model([choice], [value("x", [2, 3]), value("c", [], TensorProto.BOOL)]).SerializeToString())
    assert refusal(path).codes == ("E0110",)


def test_a_file_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    with (tmp_path / "net.onnx").open("wb") as file:
        file.truncate(2**31)
    mistake = refusal(tmp_path / "net.onnx")
    assert mistake.codes == ("E0101",)
    assert "external data" in str(mistake)


# ---------------------------------------------------------------- E0111 to E0113
def test_element_types() -> None:
    assert refusal(model([RELU], [value("x", [2], TensorProto.COMPLEX64)])).codes == ("E0111",)
    assert refusal(model([RELU], [value("x", [2], TensorProto.STRING)])).codes == ("E0111",)
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.COMPLEX64)
    assert refusal(model([cast])).codes == ("E0111",)
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [2])
    assert refusal(model([RELU], [sequence])).codes == ("E0105",)
    entries = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    assert refusal(model([RELU], [helper.make_value_info("x", entries)])).codes == ("E0111",)


def test_sizes_beyond_reason() -> None:
    assert refusal(model([RELU], [value("x", [2**31, 2**31])])).codes == ("E0112",)
    nodes = [helper.make_node("Range", ["a", "b", "c"], ["y"])]
    bounds = {"a": np.array(0), "b": np.array(2**60), "c": np.array(1)}
    assert refusal(model(nodes, [], bounds)).codes == ("E0116",)


def test_settings_that_are_not_supported() -> None:
    nodes = [helper.make_node("Dropout", ["x", "", "t"], ["y"])]
    assert refusal(model(nodes, weights={"t": np.array(True)})).codes == ("E0113",)


# ---------------------------------------------------------------- what must work
def test_hygiene_that_is_no_mistake() -> None:
    """Unsorted nodes without names, initializers listed as inputs, a constant `If`, an output that is an input."""
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["t"])], "then", [], [value("t", [2, 3])])
    other = helper.make_graph([helper.make_node("NonZero", ["x"], ["o"])], "else", [], [value("o", [2, 3])])
    nodes = [
        helper.make_node("Add", ["a", "w"], ["y"]),
        helper.make_node("If", ["c"], ["a"], then_branch=then, else_branch=other),
    ]
    weights = {"w": np.full(3, np.nan, np.float32), "c": np.array(True)}
    inputs = [value("x", [2, 3]), value("w", [3])]
    graph = read(model(nodes, inputs, weights, outputs=("y", "x")))
    assert [node.op for node in graph.nodes] == ["neg", "add"]
    assert [v.name for v in graph.inputs] == ["x"]
    assert graph.output_names == ("y", "x")


FUZZED = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def small_network() -> bytes:
    weights = {"w": np.ones((4, 3, 3, 3), np.float32), "s": np.array([1, -1]), "d": np.ones((64, 2), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Reshape", ["b", "s"], ["c"], name="flat"),
        helper.make_node("MatMul", ["c", "d"], ["e"], name="dense"),
        helper.make_node("Softmax", ["e"], ["y"], name="soft", axis=-1),
    ]
    return model(nodes, [value("x", [1, 3, 8, 8])], weights).SerializeToString()


NETWORK = small_network()


@FUZZED
@given(st.data())
def test_damaged_files_never_crash(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    content = bytearray(NETWORK)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    path = tmp_path_factory.mktemp("fuzz") / "net.onnx"
    path.write_bytes(content)
    codes: tuple[str, ...] = ()
    try:
        read(path)
    except SternaError as mistake:
        codes = mistake.codes
    assert all(code.startswith("E01") for code in codes)
