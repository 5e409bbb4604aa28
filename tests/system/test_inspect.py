"""What inspect says: totals, short by default, complete on demand; of hostile files an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from sterna.api import compile_to
from sterna.cli import program
from support import handmade_bundle
from support.networks import mobilenet_v2
from support.tflite_builder import ModelWriter, Scale

MODEL = Path(__file__).resolve().parents[2] / "compiler" / "sterna" / "demo" / "digits.onnx"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(a) for a in arguments])


def facts(*arguments: object) -> Any:
    result = run("inspect", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def lines(*arguments: object) -> list[str]:
    result = run("inspect", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_a_large_network_takes_twenty_lines(tmp_path: Path) -> None:
    onnx.save(mobilenet_v2(), tmp_path / "m.onnx")
    bundle = compile_to(tmp_path / "b", tmp_path / "m.onnx", generator="llvm")
    assert len(lines(bundle)) <= 20
    assert len(lines(tmp_path / "m.onnx")) <= 20
    every = lines(bundle, "--nodes", "--memory")
    assert len(every) > 100
    of_bundle, of_model = facts(bundle)["totals"], facts(tmp_path / "m.onnx")["totals"]
    assert of_bundle == of_model, "what a bundle says is what was said of its model"
    assert 290e6 < of_bundle["multiply_adds"] < 310e6, "300 million, as its paper says"


def many(count: int) -> onnx.ModelProto:
    """A product of matrices of its own for every input and output."""
    names = [f"x{n}" for n in range(count)]
    nodes = [helper.make_node("MatMul", [x, "w"], [f"y{n}"]) for n, x in enumerate(names)]
    graph = helper.make_graph(
        nodes,
        "many",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["rows", 4]) for x in names],
        [helper.make_tensor_value_info(f"y{n}", TensorProto.FLOAT, ["rows", 5]) for n in range(count)],
        [numpy_helper.from_array(np.ones((4, 5), np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_many_tensors_and_open_sizes(tmp_path: Path) -> None:
    onnx.save(many(30), tmp_path / "m.onnx")
    shown = lines(tmp_path / "m.onnx")
    assert len(shown) <= 20
    assert any("inputs   and 28 more" in line for line in shown)
    assert any("600 multiply-adds at rows = 1" in line for line in shown)
    bundle = compile_to(tmp_path / "b", tmp_path / "m.onnx", dims={"rows": (1, 7)}, generator="llvm")
    assert len(lines(bundle)) <= 20
    assert any("4,200 multiply-adds at rows = 7" in line for line in lines(bundle))
    assert facts(bundle)["totals"]["multiply_adds"] == 7 * 30 * 20


@pytest.mark.parametrize(
    ("nodes", "inputs", "weights", "count"),
    [
        # 2 groups, so that every output reads 3 of 6 channels; 5 x 5 windows fit 4 x 4 times.
        ([("Conv", ["x", "w"], {"group": 2})], [1, 6, 8, 8], {"w": (4, 3, 5, 5)}, 4 * 3 * 25 * 16),
        ([("Conv", ["x", "w"], {"group": 6})], [1, 6, 8, 8], {"w": (6, 1, 3, 3)}, 6 * 9 * 36),
        ([("Gemm", ["x", "w"], {"alpha": 0.5, "transB": 1})], [3, 8], {"w": (5, 8)}, 3 * 8 * 5),
        ([("LSTM", ["x", "w", "r"], {"hidden_size": 4})], [6, 1, 8], {"w": (1, 16, 8), "r": (1, 16, 4)}, 6 * 16 * 12),
        ([("Relu", ["x"], {})], [3, 8], {}, 0),
        ([("ReduceSumSquare", ["x"], {})], [3, 8], {}, 0),
        ([("ReduceMean", ["x"], {})], [3, 8], {}, 0),
    ],
)
def test_multiply_adds(
    nodes: list[Any], inputs: list[int], weights: dict[str, tuple[int, ...]], count: int, tmp_path: Path
) -> None:
    made = [helper.make_node(op, names, ["y"], **settings) for op, names, settings in nodes]
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, inputs)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.full(shape, 0.5, np.float32), name) for name, shape in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    assert facts(tmp_path / "m.onnx")["totals"]["multiply_adds"] == count


def test_quantization_is_shown(tmp_path: Path) -> None:
    writer = ModelWriter()
    graph = writer.main
    x = graph.input(np.zeros((1, 4), np.int8), Scale(0.05, -3))
    y = graph.output("int8", (1, 4), Scale(0.05, -3))
    graph.op("RELU", [x], [y])
    (tmp_path / "m.tflite").write_bytes(writer.content())
    bundle = compile_to(tmp_path / "b", tmp_path / "m.tflite", generator="llvm")
    assert sum("0.05 * (q + 3)" in line for line in lines(bundle)) == 2


def test_a_bundle_of_one_file(tmp_path: Path) -> None:
    bundle = compile_to(tmp_path / "b", MODEL, "browser", single_file=True)
    assert facts(bundle)["intact"] is True
    assert facts(bundle)["totals"]["multiply_adds"] == 88064
    data = bytearray((bundle / "model.wasm").read_bytes())
    data[-200] ^= 1
    (bundle / "model.wasm").write_bytes(data)
    assert facts(bundle)["intact"] is False


def test_flags_that_contradict(tmp_path: Path) -> None:
    for arguments, says in (
        ((MODEL, "--memory"), "is a model, which has no arena"),
        ((handmade_bundle.write(tmp_path / "b"), "--signature", "main"), "is a bundle, which has one signature"),
    ):
        result = run("inspect", *arguments)
        assert result.exit_code == 2
        assert "error[E0002]" in result.stderr
        assert says in result.stderr


@pytest.mark.parametrize(
    "member",
    [
        {"inputs": [77]}, {"arena": {}}, {"arena": None}, {"nodes": [{}]}, {"nodes": 3}, {"symbols": [1]},
        {"target": {}}, {"values": [{}]}, {"kernels": 1}, {"files": []}, {"metadata": {"labels": []}},
        {"nodes": [{"name": "n", "kernel": 0, "in": [], "out": [0], "tasks": 1, "multiply_adds": ["d", 99]}]},
    ],
)  # fmt: skip
def test_a_graph_that_is_malformed(member: dict[str, Any], tmp_path: Path) -> None:
    good = handmade_bundle.graph(handmade_bundle.params(), handmade_bundle.kernel_library())
    bundle = handmade_bundle.write(tmp_path / "b", {**good, **member})
    for flags in ((), ("--nodes", "--memory")):
        result = run("inspect", bundle, *flags)
        assert result.exit_code in (0, 1)
        assert result.exit_code == 0 or result.stderr.startswith("error[E0504]"), result.stderr
