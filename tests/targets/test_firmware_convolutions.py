"""Convolutions of integers on microcontrollers, over their class: windows, strides, rates, channels, multipliers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from sterna.cli import program
from sterna.ir.graph import Graph
from sterna.ops import Builder
from sterna.options import Options
from sterna.pipeline import outline_of
from sterna.targets.description import load_target
from support.compiling import input_value
from support.tools import need

pytestmark = pytest.mark.family("cortex-m")

#: Channels, groups, outputs, image, window, strides, dilations, padding at each end.
Layer = tuple[int, int, int, tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int], int]

DEPTHWISE: list[Layer] = [
    *((9, 9, 9, (9, 8), (k, k), (1, 1), (1, 1), k // 2) for k in range(1, 8)),
    (16, 16, 16, (9, 11), (3, 3), (2, 2), (1, 1), 1),
    (5, 5, 5, (12, 9), (3, 5), (2, 1), (1, 1), 0),
    (33, 33, 33, (7, 7), (3, 3), (1, 1), (2, 2), 2),
    (8, 8, 16, (6, 6), (3, 3), (1, 1), (1, 1), 1),
    (3, 3, 9, (7, 5), (3, 3), (2, 2), (1, 1), 1),
    (20, 20, 20, (4, 1), (4, 1), (1, 1), (1, 1), 0),
]
FEW_CHANNELS: list[Layer] = [
    (1, 1, 16, (21, 10), (10, 4), (2, 2), (1, 1), 1),
    (1, 1, 7, (9, 9), (5, 5), (1, 1), (1, 1), 0),
    (1, 1, 20, (9, 12), (7, 3), (1, 2), (1, 1), 1),
    (2, 1, 12, (12, 7), (5, 2), (1, 1), (2, 1), 0),
    (2, 1, 16, (9, 9), (5, 3), (1, 1), (1, 2), 0),
    (3, 1, 32, (9, 8), (5, 3), (2, 2), (1, 1), 1),
    (1, 1, 64, (12, 3), (12, 3), (1, 1), (1, 1), 0),
]


def model(layers: list[Layer], left: str) -> onnx.ModelProto:
    """A convolution for each, of an input and with a result of its own."""
    random = np.random.default_rng(5)
    nodes, fed, made, weights = [], [], [], []
    for n, (channels, groups, outputs, image, window, strides, rates, pad) in enumerate(layers):
        values = random.integers(-128, 128, (outputs, channels // groups, *window)).astype(np.int8)
        weights.append(numpy_helper.from_array(values, f"w{n}"))
        settings = {"group": groups, "strides": strides, "dilations": rates, "pads": [pad] * 4}
        nodes.append(helper.make_node("ConvInteger", [f"x{n}", f"w{n}"], [f"y{n}"], **settings))
        dtype = TensorProto.INT8 if left == "int8" else TensorProto.UINT8
        fed.append(helper.make_tensor_value_info(f"x{n}", dtype, [1, channels, *image]))
        made.append(helper.make_tensor_value_info(f"y{n}", TensorProto.INT32, None))
    graph = helper.make_graph(nodes, "convolutions", fed, made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("target", "generator", "left"),
    [
        ("cortex-m4", "c", "int8"),
        ("cortex-m55", "c", "int8"),
        ("cortex-m55", "llvm", "int8"),
        ("cortex-m55", "llvm", "uint8"),
    ],
)
def test_integers_are_exact(target: str, generator: str, left: str, tmp_path: Path) -> None:
    """As the interpreter of tensor expressions has them, bit for bit."""
    need("qemu-system-arm", "emulates boards of microcontrollers")
    onnx.save(model([*DEPTHWISE, *FEW_CHANNELS], left), tmp_path / "convolutions.onnx")
    asked = ["verify", str(tmp_path / "convolutions.onnx"), "-t", target, "--generator", generator]
    done = CliRunner().invoke(program, asked)
    assert done.exit_code == 0, done.output


def kernels(layer: Layer, target: str) -> list[str]:
    channels, groups, outputs, image, window, strides, rates, _ = layer
    b = Builder()
    x = input_value(b, np.zeros((1, *image, channels), np.int8))
    w = b.constant(np.ones((*window, channels // groups, outputs), np.int8))
    y = b.add("conv_integer", x, w, strides=strides, dilations=rates, groups=groups)
    graph = Graph("convolution", (x,), (y,), tuple(b.nodes))
    return [call.kernel.name for call in outline_of(graph, Options(load_target(target))).sequence.calls]


def test_windows_are_laid_out_where_that_saves_products() -> None:
    """Ten rows of four bytes: three products of sixteen instead of ten. Not for three rows of nine, nor where four
    bytes are a product."""
    assert kernels((1, 1, 16, (21, 10), (10, 4), (2, 2), (1, 1), 0), "cortex-m55") == ["im2col_conv_integer"]
    for layer, target in (
        ((3, 1, 16, (9, 9), (3, 3), (1, 1), (1, 1), 0), "cortex-m55"),
        ((16, 1, 16, (9, 9), (3, 3), (1, 1), (1, 1), 0), "cortex-m55"),
        ((1, 1, 16, (10, 4), (10, 4), (1, 1), (1, 1), 0), "cortex-m55"),
        ((1, 1, 16, (21, 10), (10, 4), (2, 2), (1, 1), 0), "cortex-m4"),
    ):
        assert kernels(layer, target) == ["conv_integer"], (layer, target)
