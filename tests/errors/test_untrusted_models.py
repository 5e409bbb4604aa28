"""Models as an attacker writes them: compile time and memory that no small file decides, and refusals that say why.

What random damage finds is in `fuzz/`; here stands one test for each kind of thing that it, or a person, once found.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import sterna
from sterna.api import compile_model
from sterna.cli import program
from sterna.driver import Compiled
from sterna.errors import SternaError
from sterna.frontends import tflite
from sterna.frontends.formats import read_model
from sterna.ir.limits import check_constants, counting, memory_for, memory_of
from sterna.targets.description import load_target
from support.tflite_builder import GraphWriter, ModelWriter, Scale

node = helper.make_node
I64 = TensorProto.INT64
SOURCE_ONLY = replace(load_target("x86-64-v3"), library="", variants=())
MEGABYTE = 1 << 20
X = np.array([[1.5, -2.0, 0.25], [4.0, 3.0, -7.5]], np.float32)


def model(
    nodes: Sequence[onnx.NodeProto],
    sizes: Sequence[int] = (2, 3),
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    **weights: Any,
) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in inputs]
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(list(nodes), "net", given, results, stored)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def compiled(given: onnx.ModelProto, **options: Any) -> Compiled:
    """Everything but machine code."""
    return compile_model(given, SOURCE_ONLY, **options)


def refusal(given: onnx.ModelProto | Path, **options: Any) -> SternaError:
    with pytest.raises(SternaError) as caught:
        compile_model(given, SOURCE_ONLY, **options)
    return caught.value


def chain(length: int, step: Callable[[int, str, str], list[onnx.NodeProto]]) -> list[onnx.NodeProto]:
    """Nodes from x to y; `step` makes those from one tensor to the next."""
    names = ["x", *(f"t{n}" for n in range(1, length)), "y"]
    return [made for n in range(length) for made in step(n, names[n], names[n + 1])]


def seconds(given: onnx.ModelProto) -> float:
    """Of processor time that a model takes up to its source."""
    start = time.process_time()
    compiled(given)
    return time.process_time() - start


# ---------------------------------------------------------------- time
def test_the_sum_of_a_tensor_and_itself_again_and_again() -> None:
    """2^64 paths lead through these 64 nodes."""
    nodes = chain(64, lambda n, a, b: [node("Add", [a, a], [b])])
    assert seconds(model(nodes)) < 10


def test_diamonds_in_a_row() -> None:
    nodes = chain(60, lambda n, a, b: [node("Sin", [a], [f"s{n}"]), node("Mul", [a, f"s{n}"], [b])])
    assert seconds(model(nodes)) < 10


WEIGHT = np.eye(3, dtype=np.float32)
CHAINS: dict[str, Callable[[int, str, str], list[onnx.NodeProto]]] = {
    "element by element": lambda n, a, b: [node("Neg" if n % 2 else "Relu", [a], [b])],
    "products": lambda n, a, b: [node("MatMul", [a, "w"], [b])],
    "reshapes": lambda n, a, b: [
        node("Sin", [a], [f"s{n}"]), node("Reshape", [f"s{n}", "flat" if n % 2 == 0 else "square"], [b]),
    ],
    "transposes": lambda n, a, b: [node("Transpose", [a], [b], perm=[1, 0])],
    "parts": lambda n, a, b: [
        node("Split", [a], [f"p{n}", f"q{n}"], axis=1, num_outputs=2), node("Concat", [f"q{n}", f"p{n}"], [b], axis=1),
    ],
    "pads": lambda n, a, b: [node("Pad", [a, "pads"], [f"p{n}"]), node("Slice", [f"p{n}", "one", "four"], [b])],
}  # fmt: skip


@pytest.mark.parametrize("kind", CHAINS)
def test_chains_take_time_in_proportion(kind: str) -> None:
    """Four times the nodes take four times as long, with room for noise: 16 times would be quadratic."""

    def of(length: int) -> onnx.ModelProto:
        return model(
            chain(length, CHAINS[kind]), (3, 3), w=WEIGHT, flat=np.array([9]), square=np.array([3, 3]),
            pads=np.array([1, 1, 1, 1]), one=np.array([1, 1]), four=np.array([4, 4]),
        )  # fmt: skip

    compiled(of(10))
    short = seconds(of(200))
    assert seconds(of(800)) < 9 * short + 1


@pytest.mark.parametrize("op", ["Concat", "Sum"])
def test_operators_of_many_operands(op: str) -> None:
    def of(count: int) -> onnx.ModelProto:
        names = [f"x{n}" for n in range(count)]
        return model([node(op, names, ["y"], **({"axis": 0} if op == "Concat" else {}))], (2,), names)

    compiled(of(10))
    short = seconds(of(500))
    assert seconds(of(2000)) < 9 * short + 1


def calling(option: str, *graphs: tuple[str, int]) -> ModelWriter:
    """A model whose graphs each hold one operator that names a graph."""
    made = ModelWriter()
    for number, (op, named) in enumerate(graphs):
        g: GraphWriter = made.main if number == 0 else made.graph(f"g{number}")
        if op == "CALL_ONCE":
            g.op(op, [], [], "CallOnceOptions", initSubgraphIndex=named)
            g.outputs.append(g.input(X))
            continue
        settings = (
            {"condSubgraphIndex": named, "bodySubgraphIndex": named} if op == "WHILE"
            else {"thenSubgraphIndex": named, "elseSubgraphIndex": named}
        )  # fmt: skip
        operands = [g.input(np.array([True])), *([] if op == "WHILE" else [g.input(X)])]
        result = g.output("bool", (1,)) if op == "WHILE" else g.output("float32", X.shape)
        g.op(op, operands, [result], {"IF": "IfOptions", "WHILE": "WhileOptions"}[op], **settings)
    return made


@pytest.mark.parametrize("op", ["IF", "WHILE", "CALL_ONCE"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_graphs_that_contain_themselves(op: str, length: int, tmp_path: Path) -> None:
    """Directly, or through one or two others."""
    file = tmp_path / "model.tflite"
    file.write_bytes(calling("", *((op, (n + 1) % length) for n in range(length))).content())
    with pytest.raises(SternaError, match="contains itself") as caught:
        tflite.read(file)
    assert caught.value.codes == ("E0103",)


def test_graphs_that_double_at_every_level(tmp_path: Path) -> None:
    """Seventeen graphs, of which each names the next one eight times."""
    made = ModelWriter()
    for level in range(16):
        g = made.main if level == 0 else made.graph(f"g{level}")
        x, test = g.input(X), g.constant(np.array([True]))
        for _ in range(8):
            y = g.tensor("float32", X.shape)
            g.op("IF", [test, x], [y], "IfOptions", thenSubgraphIndex=level + 1, elseSubgraphIndex=level + 1)
            x = y
        g.outputs.append(x)
    last = made.graph("last")
    last.outputs.append(last.input(X))
    file = tmp_path / "model.tflite"
    file.write_bytes(made.content())
    with pytest.raises(SternaError) as caught:
        tflite.read(file)
    assert caught.value.codes == ("E0112",)


def test_functions_that_call_each_other_in_a_long_row() -> None:
    """Ten thousand functions of which each calls the next."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", f"f{n}", ["a"], ["b"], [node(f"f{n + 1}", ["a"], ["b"], domain="own")], imports)
        for n in range(10_000)
    ]
    functions.append(helper.make_function("own", "f10000", ["a"], ["b"], [node("Neg", ["a"], ["b"])], imports))
    made = model([node("f0", ["x"], ["y"], domain="own")])
    made.functions.extend(functions)
    made.opset_import.append(helper.make_opsetid("own", 1))
    mistake = refusal(made)
    assert mistake.codes == ("E0103",)
    assert "deep" in str(mistake)


# ---------------------------------------------------------------- memory
HUGE = np.int64(1 << 36)


def filled(*then: onnx.NodeProto) -> list[onnx.NodeProto]:
    """z, a matrix of 2^17 x 2^18 zeros that no memory holds; then nodes that read it."""
    return [node("ConstantOfShape", ["shape"], ["z"]), *then]


SHAPE = {"shape": np.array([1 << 17, 1 << 18])}
#: Models of about a hundred bytes each that ask for constants of gigabytes and more.
GREEDY: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "Range": ([node("Range", ["a", "n", "b"], ["y"])], {"a": np.int64(0), "n": HUGE, "b": np.int64(1)}),
    "EyeLike": (filled(node("EyeLike", ["z"], ["y"])), SHAPE),
    "ConstantOfShape": (filled(node("Exp", ["z"], ["y"])), SHAPE),
    "MatMul": (filled(node("MatMul", ["z", "z"], ["y"])), {"shape": np.array([1 << 20, 1 << 20])}),
    "weights": (
        filled(node("MatMul", ["x", "z"], ["y"])), {"shape": np.array([3, 1 << 33])},
    ),
    "ReduceSum": (filled(node("ReduceSum", ["z"], ["y"])), SHAPE),
    "NonZero": (filled(node("NonZero", ["z"], ["y"])), SHAPE),
    "TopK": (filled(node("TopK", ["z", "k"], ["y", ""])), {**SHAPE, "k": np.array([1 << 17])}),
    "OneHot": (
        [node("OneHot", ["i", "n", "v"], ["y"])],
        {"i": np.array([1]), "n": HUGE, "v": np.array([0, 1], np.float32)},
    ),
    "Expand": (
        [node("Expand", ["w", "shape"], ["z"]), node("Add", ["z", "z"], ["y"])], {**SHAPE, "w": np.float32(1)},
    ),
    "Tile": ([node("Tile", ["w", "n"], ["y"])], {"w": np.ones(1, np.float32), "n": np.array([HUGE])}),
    "Pad": ([node("Pad", ["w", "n"], ["y"])], {"w": np.ones(1, np.float32), "n": np.array([0, HUGE])}),
    "Resize": (
        [node("Resize", ["w", "", "", "n"], ["y"], mode="linear")],
        {"w": np.ones((1, 1, 2), np.float32), "n": np.array([1, 1, HUGE])},
    ),
    "Trilu": (filled(node("Trilu", ["z"], ["y"])), SHAPE),
    "DFT": (
        [node("DFT", ["w", "n"], ["y"], axis=1)], {"w": np.ones((1, 4, 1), np.float32), "n": HUGE},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GREEDY)
def test_small_models_that_ask_for_much_memory(name: str) -> None:
    """They are refused with a code, or left for the bundle to compute; the compiler itself takes little."""
    nodes, weights = GREEDY[name]
    made = model(nodes, (1, 3), **weights)
    assert made.ByteSize() < 300
    tracemalloc.start()
    codes: set[str] = set()
    try:
        assert len(compiled(made).params) < 100 * MEGABYTE
    except SternaError as mistake:
        codes = set(mistake.codes)
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 500 * MEGABYTE
    assert codes <= {"E0107", "E0108", "E0112", "E0113", "E0116"}


def test_weights_of_more_bytes_than_allowed() -> None:
    """A number that is expanded is written out for the kernel that multiplies by it, in panels of which the last one
    may be longer than what is left."""
    nodes = [node("Expand", ["row", "shape"], ["z"]), node("MatMul", ["x", "z"], ["y"])]
    row = np.arange(1 << 10, dtype=np.float32)
    made = model(nodes, (4, 1 << 10), row=row, shape=np.array([1 << 10, 1 << 10]))
    assert 4 * MEGABYTE <= len(compiled(made).params) < 4.1 * MEGABYTE
    mistake = refusal(made, max_constant_bytes=MEGABYTE)
    assert mistake.codes == ("E0116",)
    assert "max_constant_bytes=" in str(mistake)


def test_the_limit_is_an_option() -> None:
    made = model([node("Range", ["a", "n", "b"], ["y"])], a=np.float32(0), n=np.float32(1 << 16), b=np.float32(1))
    compiled(made)
    mistake = refusal(made, max_constant_bytes=1 << 10)
    assert mistake.codes == ("E0116",)
    compiled(made, max_constant_bytes=1 << 26)
    for wrong in (0, -1, 1.5, True):
        assert refusal(made, max_constant_bytes=wrong).codes == ("E0203",)


def test_the_limit_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    made = model([node("Range", ["a", "n", "b"], ["y"])], a=np.float32(0), n=np.float32(1 << 16), b=np.float32(1))
    file.write_bytes(made.SerializeToString())
    arguments = ["compile", str(file), "-t", "c99", "-o", str(tmp_path / "out"), "--max-constant-bytes"]
    result = CliRunner().invoke(program, [*arguments, "1000"])
    assert result.exit_code == 1
    assert "E0116" in result.output
    assert CliRunner().invoke(program, [*arguments, str(1 << 26)]).exit_code == 0


def test_limits_end_where_they_began() -> None:
    with memory_for(100), pytest.raises(SternaError, match="E0116"):
        check_constants(101, "something")
    check_constants(101, "something")
    with pytest.raises(SternaError, match="E0116"):
        counting(1 << 40)
    assert memory_of(np.broadcast_to(np.float32(1), (1 << 20, 1 << 20))) == 4


def test_no_memory_is_not_a_malformed_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sterna.frontends.onnx.reader.decode", none_left)
    made = model([node("Relu", ["x"], ["y"])])
    assert refusal(made).codes == ("E0117",)
    with pytest.raises(SternaError, match="E0117"):
        sterna.compile(made)


# ---------------------------------------------------------------- errors
def test_operands_are_counted_before_anything_reads_them() -> None:
    """QuantizeLinear without a scale, as what recognizes groups of such nodes would meet it."""
    nodes = [node("QuantizeLinear", ["x"], ["q"]), node("DequantizeLinear", ["q"], ["y"])]
    mistake = refusal(model(nodes))
    assert mistake.codes == ("E0103", "E0103")
    assert "takes 2 to 3" in str(mistake)


def reference() -> onnx.NodeProto:
    """A quantization whose axis is that of a function, in none."""
    made = node("QuantizeLinear", ["x", "scales"], ["y"])
    made.attribute.add(name="axis", ref_attr_name="axis", type=onnx.AttributeProto.INT)
    return made


ODD: dict[str, list[onnx.NodeProto]] = {
    "an attribute of no function": [reference()],
    "fewer than no dimensions": [
        node("Cast", ["x"], ["i"], to=I64), node("GatherND", ["x", "i"], ["y"], batch_dims=-1),
    ],
    "a result that is not computed": [
        node("SkipSimplifiedLayerNormalization", ["x", "x", "scales"], ["z", "y"], domain="com.microsoft"),
    ],
    "no dimensions": [node("ReduceSum", ["x"], ["s"], keepdims=0), node("LRN", ["s"], ["y"], size=3)],
    "a scalar for an image": [node("ReduceSum", ["x"], ["s"], keepdims=0), node("MaxRoiPool", ["s", "x"], ["y"])],
    "a matrix without rows": [
        node("ReduceSum", ["x"], ["s"], keepdims=0), node("Inverse", ["s"], ["y"], domain="com.microsoft"),
    ],
    "an attribute of another kind": [node("LRN", ["x"], ["y"], size="three")],
    "no outputs": [node("Relu", ["x"], []), node("Relu", ["x"], ["y"])],
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_operators_on_what_they_do_not_take(name: str) -> None:
    codes = set(refusal(model(ODD[name], scales=np.ones(3, np.float32))).codes)
    assert codes <= {"E0103", "E0108", "E0109", "E0113"}


@pytest.mark.parametrize("location", ["a\0b", "x" * 100_000, "loop", "/etc/passwd", "../weights", "\ud800"])
def test_names_of_external_data(location: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    made = model([node("Add", ["x", "w"], ["y"])], w=np.ones(3, np.float32))
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key = "location"
    file = tmp_path / "model.onnx"
    if location.isprintable() or "\0" in location:
        entry.value = location
        file.write_bytes(made.SerializeToString())
    else:
        entry.value = "surrogate"
        file.write_bytes(made.SerializeToString().replace(b"surrogate", b"\xed\xa0\x80rogate"))
    assert set(refusal(file).codes) <= {"E0101", "E0110"}


def nested(depth: int) -> str:
    return '{"learner": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize(
    "content",
    [
        nested(100_000),
        '{"learner": {"learner_model_param": 3}}',
        '{"learner": {"learner_model_param": {"num_feature": "1e400", "num_class": "0", "base_score": "0"}}}',
        '{"learner"',
        '{"learner": {"learner_model_param": {"num_feature": "3"}, "objective": {"name": "reg:squarederror"}}}',
    ],
    ids=["deep", "a number for an object", "infinite", "half", "half of what there is"],
)
def test_boosted_documents(content: str, tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    file.write_text(content)
    assert set(refusal(file).codes) <= {"E0101", "E0103"}


def test_a_deep_binary_document(tmp_path: Path) -> None:
    file = tmp_path / "model.ubj"
    file.write_bytes(b"{L" + (7).to_bytes(8, "big") + b"learner" + b"[" * 100_000)
    assert refusal(file).codes == ("E0101",)


def quantized_convolution(**settings: Any) -> tuple[ModelWriter, dict[str, int]]:
    made = ModelWriter()
    g = made.main
    depthwise = "depthMultiplier" in settings
    shape = (1, 1, 1, 3) if depthwise else (5, 1, 1, 3)
    tensors = {
        "x": g.input(np.zeros((1, 4, 4, settings.pop("channels", 3)), np.int8), Scale(0.1, 3)),
        "w": g.constant(np.ones(shape, np.int8), Scale(0.01)),
        "bias": g.constant(np.zeros(settings.pop("bias", shape[3] if depthwise else shape[0]), np.int32), Scale(0.001)),
    }
    made_of = g.output("int8", (1, 4, 4, 3 if depthwise else 5), Scale(0.2, -7))
    name, table = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
    g.op(name, list(tensors.values()), [made_of], table, strideH=1, strideW=1, **settings)
    return made, tensors


def without_operands(name: str, options: str = "", outputs: int = 1) -> ModelWriter:
    made = ModelWriter()
    g = made.main
    g.input(X)
    g.op(name, [], [g.output("float32", X.shape) for _ in range(outputs)], options)
    if not outputs:
        g.outputs.append(g.inputs[0])
    return made


def odd_top_k() -> ModelWriter:
    made = ModelWriter()
    g = made.main
    operands = [g.input(X), g.constant(np.array([[1, 2], [3, 4]], np.int32))]
    g.op("TOPK_V2", operands, [g.output("float32", (2, 1)), g.output("int32", (2, 1))], "TopKV2Options")
    return made


def no_number() -> ModelWriter:
    made = ModelWriter()
    g = made.main
    x = g.input(np.zeros((2, 3), np.int8), Scale(0.1))
    g.op("LEAKY_RELU", [x], [g.output("int8", (2, 3), Scale(0.1))], "LeakyReluOptions", alpha=float("nan"))
    return made


def odd_gather() -> ModelWriter:
    made = ModelWriter()
    g = made.main
    operands = [g.input(X), g.constant(np.zeros(2, np.int32))]
    g.op("GATHER", operands, [g.output("float32", (2, 3))], "GatherOptions", axis=0, batchDims=-(2**31))
    return made


ODD_TFLITE: dict[str, Callable[[], ModelWriter]] = {
    "no channels": lambda: quantized_convolution(depthMultiplier=0, channels=0)[0],
    "other channels": lambda: quantized_convolution(depthMultiplier=1, channels=2)[0],
    "a short bias": lambda: quantized_convolution(bias=2)[0],
    "a long bias": lambda: quantized_convolution(bias=6)[0],
    "ASSIGN_VARIABLE of nothing": lambda: without_operands("ASSIGN_VARIABLE", outputs=0),
    "READ_VARIABLE of nothing": lambda: without_operands("READ_VARIABLE"),
    "VAR_HANDLE to nothing": lambda: without_operands("VAR_HANDLE", outputs=0),
    "ADD of nothing": lambda: without_operands("ADD", "AddOptions"),
    "CONCATENATION of nothing": lambda: without_operands("CONCATENATION", "ConcatenationOptions"),
    "SPLIT of nothing": lambda: without_operands("SPLIT", "SplitOptions"),
    "a matrix for the number of TOPK_V2": odd_top_k,
    "a factor that is no number": no_number,
    "fewer than no dimensions of GATHER": odd_gather,
}


@pytest.mark.parametrize("name", ODD_TFLITE)
def test_tflite_operators_on_what_they_do_not_take(name: str, tmp_path: Path) -> None:
    file = tmp_path / "model.tflite"
    file.write_bytes(ODD_TFLITE[name]().content())
    assert set(refusal(file).codes) <= {"E0103", "E0105", "E0108", "E0109", "E0113", "E0114"}


def test_half_a_file(tmp_path: Path) -> None:
    """Of every format, cut at many places."""
    whole = {
        "onnx": model([node("MatMul", ["x", "w"], ["y"])], w=WEIGHT).SerializeToString(),
        "tflite": quantized_convolution()[0].content(),
        "json": json.dumps({"learner": {"learner_model_param": {}}, "version": [3, 0, 0]}).encode(),
        "txt": b"tree\nversion=v4\nnum_class=1\nmax_feature_idx=2\nobjective=regression\n\nTree=0\nnum_leaves=3\n",
    }
    for ending, content in whole.items():
        file = tmp_path / f"model.{ending}"
        for end in range(0, len(content), max(len(content) // 40, 1)):
            file.write_bytes(content[:end])
            codes: tuple[str, ...] = ()
            try:
                read_model(file)
            except SternaError as mistake:
                codes = mistake.codes
            assert "E0901" not in codes
