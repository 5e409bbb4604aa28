"""A small model to tune, and the command line that does it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from sterna.cli import program

DEPTH, COLUMNS = 48, 64


def two_layers(folder: Path) -> Path:
    """Two layers of different sizes, one after the other."""
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal((DEPTH, COLUMNS)), rng.standard_normal((COLUMNS, COLUMNS))]
    constants = [helper.make_tensor(f"w{n}", TensorProto.FLOAT, w.shape, w.ravel()) for n, w in enumerate(weights)]
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["h"]), helper.make_node("MatMul", ["h", "w1"], ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (4, c)) for n, c in (("x", DEPTH), ("y", COLUMNS))]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "layers.onnx")
    return folder / "layers.onnx"


def run(*words: object) -> Result:
    return CliRunner().invoke(program, [*map(str, words)])
