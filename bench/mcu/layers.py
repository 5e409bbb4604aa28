"""Integer layers one by one on an emulated core: instructions for each product, or for each result.

    ci/bench-mcu --layers                           # on Cortex-M4 and M55, all of them
    ci/bench-mcu --layers conv,add --targets cortex-m4 --builds gcc

Each is a TensorFlow Lite model of one operator, and its results are LiteRT's bit for bit. What it is divided by are
multiply-adds where it has some, else elements of the result; of pooling, those that it reads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mcu.firmware import BUILDS
from sterna.api import compile_to
from sterna.errors import SternaError
from sterna.firmware.description import read_firmware
from sterna.firmware.machines import machine_for
from sterna.firmware.measure import How, measure
from support.tflite_builder import ModelWriter, RefusedError, Scale, reference

_TYPES = ("int8", "int16")
_SAME, _VALID = 0, 1


@dataclass(frozen=True)
class Layer:
    """A model of one operator, and what its instructions are divided by.

    Args:
        operator: its name, if the set of reference kernels has it with a flaw.
    """

    name: str
    make: Callable[[str], tuple[ModelWriter, int]]
    types: Sequence[str] = _TYPES
    operator: str = ""


def _values(dtype: str, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def _scale(dtype: str, size: float = 0.02, zero: int = 3) -> Scale:
    return Scale(size / 256, 0) if dtype == "int16" else Scale(size, zero)


def _weights(model: ModelWriter, shape: Sequence[int], axis: int) -> int:
    random = np.random.default_rng(1)
    scales = random.uniform(0.002, 0.01, shape[axis]).astype(np.float32)
    data = random.integers(-127, 128, shape).astype(np.int8)
    return model.main.constant(data, Scale(scales.tolist(), [0] * shape[axis], axis))


def _bias(model: ModelWriter, dtype: str, count: int, unit: float = 0.0001) -> tuple[int, dict[str, int]]:
    data = np.random.default_rng(2).integers(-900, 900, count).astype("int64" if dtype == "int16" else "int32")
    bias = model.main.constant(data, Scale(unit))
    return bias, {"quantizedBiasType": model.main.tensors[bias].type}


def _result(dtype: str, depth: int) -> Scale:
    return _scale(dtype, 0.02 * 0.006 * 70 * 70 * depth**0.5 / 40)


def _convolution(
    shape: Sequence[int], outputs: int, kernel: int, stride: int = 1, groups: int = 1, depthwise: bool = False
) -> Callable[[str], tuple[ModelWriter, int]]:
    def make(dtype: str) -> tuple[ModelWriter, int]:
        model = ModelWriter()
        g, channels = model.main, shape[-1]
        x = g.input(_values(dtype, shape), _scale(dtype))
        inner = 1 if depthwise else channels // groups
        w_shape = (1, kernel, kernel, outputs) if depthwise else (outputs, kernel, kernel, inner)
        weights = _weights(model, w_shape, 3 if depthwise else 0)
        bias, kind = _bias(model, dtype, outputs)
        sizes = [-(-n // stride) for n in shape[1:3]]
        y = g.output(dtype, (shape[0], *sizes, outputs), _result(dtype, kernel * kernel * inner))
        settings = {"padding": _SAME, "strideH": stride, "strideW": stride, "dilationHFactor": 1, "dilationWFactor": 1}
        if depthwise:
            g.op("DEPTHWISE_CONV_2D", [x, weights, bias], [y], "DepthwiseConv2DOptions",
                 depthMultiplier=outputs // channels, **settings)  # fmt: skip
        else:
            g.op("CONV_2D", [x, weights, bias], [y], "Conv2DOptions", **settings, **kind)
        return model, shape[0] * prod(sizes) * outputs * kernel * kernel * inner

    return make


def _transposed(
    shape: Sequence[int], outputs: int, kernel: int, stride: int
) -> Callable[[str], tuple[ModelWriter, int]]:
    def make(dtype: str) -> tuple[ModelWriter, int]:
        model = ModelWriter()
        g = model.main
        x = g.input(_values(dtype, shape), _scale(dtype))
        wanted = (shape[0], shape[1] * stride, shape[2] * stride, outputs)
        weights = _weights(model, (outputs, kernel, kernel, shape[-1]), 0)
        bias, kind = _bias(model, dtype, outputs)
        y = g.output(dtype, wanted, _result(dtype, kernel * kernel * shape[-1] // stride**2))
        g.op("TRANSPOSE_CONV", [g.constant(np.array(wanted, np.int32)), weights, x, bias], [y], "TransposeConvOptions",
             padding=_SAME, strideH=stride, strideW=stride, **kind)  # fmt: skip
        return model, prod(shape) * outputs * kernel * kernel

    return make


def _dense(depth: int, units: int, rows: int = 1) -> Callable[[str], tuple[ModelWriter, int]]:
    def make(dtype: str) -> tuple[ModelWriter, int]:
        model = ModelWriter()
        g = model.main
        x = g.input(_values(dtype, (rows, depth)), _scale(dtype))
        data = np.random.default_rng(1).integers(-127, 128, (units, depth)).astype(np.int8)
        x_scale = _scale(dtype)
        weights = g.constant(data, Scale(0.006))
        bias, kind = _bias(model, dtype, units, float(np.float32(x_scale.scale)) * 0.006)
        y = g.output(dtype, (rows, units), _result(dtype, depth))
        g.op("FULLY_CONNECTED", [x, weights, bias], [y], "FullyConnectedOptions", **kind)
        return model, rows * units * depth

    return make


def _product(batch: int, m: int, k: int, n: int) -> Callable[[str], tuple[ModelWriter, int]]:
    def make(dtype: str) -> tuple[ModelWriter, int]:
        model = ModelWriter()
        g = model.main
        a, b = (g.input(_values(dtype, s, i), _scale(dtype)) for i, s in enumerate(((batch, m, k), (batch, k, n))))
        unit = 0.02 * 0.02 * 70 * 70 * k**0.5 / 40
        y = g.output(dtype, (batch, m, n), _scale(dtype, unit))
        g.op("BATCH_MATMUL", [a, b], [y], "BatchMatMulOptions")
        return model, batch * m * k * n

    return make


def _pool(name: str, shape: Sequence[int], window: int) -> Callable[[str], tuple[ModelWriter, int]]:
    def make(dtype: str) -> tuple[ModelWriter, int]:
        model = ModelWriter()
        g, same = model.main, _scale(dtype)
        y = (shape[0], shape[1] // window, shape[2] // window, shape[3])
        g.op(name, [g.input(_values(dtype, shape), same)], [g.output(dtype, y, same)], "Pool2DOptions",
             padding=_VALID, strideH=window, strideW=window, filterHeight=window, filterWidth=window)  # fmt: skip
        return model, prod(shape)

    return make


def _elements(
    name: str, options: str = "", inputs: int = 1, out: Callable[[str], Scale] = _scale, **settings: Any
) -> Callable[[str], tuple[ModelWriter, int]]:
    """An operator on 1,152 elements in rows of 32."""

    def make(dtype: str) -> tuple[ModelWriter, int]:
        model = ModelWriter()
        g, shape = model.main, (1, 36, 32)
        operands = [g.input(_values(dtype, shape, n), _scale(dtype, 0.02 + 0.01 * n)) for n in range(inputs)]
        g.op(name, operands, [g.output(dtype, shape, out(dtype))], options, **settings)
        return model, prod(shape)

    return make


def _over(name: str, axes: Sequence[int]) -> Callable[[str], tuple[ModelWriter, int]]:
    def make(dtype: str) -> tuple[ModelWriter, int]:
        model = ModelWriter()
        g, shape = model.main, (1, 6, 6, 32)
        kept = [n for d, n in enumerate(shape) if d not in axes]
        operands = [g.input(_values(dtype, shape), _scale(dtype)), g.constant(np.array(axes, np.int32))]
        g.op(name, operands, [g.output(dtype, kept, _scale(dtype))], "ReducerOptions", keepDims=False)
        return model, prod(shape)

    return make


def _curve(dtype: str) -> Scale:
    """What logistic, tanh and softmax give."""
    return Scale(1 / 32768, 0) if dtype == "int16" else Scale(1 / 256, -128)


def _both_sides(dtype: str) -> Scale:
    return Scale(1 / 32768, 0) if dtype == "int16" else Scale(1 / 128, 0)


LAYERS = (
    Layer("conv 1x1 64-64", _convolution((1, 12, 12, 64), 64, 1)),
    Layer("conv 3x3 16-16", _convolution((1, 12, 12, 16), 16, 3)),
    Layer("conv 3x3 3-16 /2", _convolution((1, 24, 24, 3), 16, 3, 2)),
    Layer("conv 5x5 8-12", _convolution((1, 10, 10, 8), 12, 5)),
    Layer("conv 3x3 in 4 groups of 8", _convolution((1, 12, 12, 32), 32, 3, groups=4)),
    Layer("conv 3x3 in 16 groups of 2", _convolution((1, 12, 12, 32), 32, 3, groups=16)),
    Layer("depthwise 3x3 64", _convolution((1, 12, 12, 64), 64, 3, depthwise=True)),
    Layer("depthwise 3x3 64 /2", _convolution((1, 12, 12, 64), 64, 3, 2, depthwise=True)),
    Layer("depthwise 5x5 32", _convolution((1, 10, 10, 32), 32, 5, depthwise=True)),
    Layer("depthwise 3x3 8 x 4", _convolution((1, 12, 12, 8), 32, 3, depthwise=True)),
    Layer("transposed 3x3 16-16 /2", _transposed((1, 6, 6, 16), 16, 3, 2)),
    Layer("transposed 4x4 8-8 /2", _transposed((1, 8, 8, 8), 8, 4, 2)),
    Layer("dense 256-64", _dense(256, 64)),
    Layer("dense 1024-64", _dense(1024, 64)),
    Layer("dense 63-10", _dense(63, 10)),
    Layer("dense 64-32, 16 rows", _dense(64, 32, 16)),
    Layer("product 2 x (16x32)(32x16)", _product(2, 16, 32, 16)),
    Layer("average pool 2x2", _pool("AVERAGE_POOL_2D", (1, 12, 12, 32), 2)),
    Layer("average pool 6x6", _pool("AVERAGE_POOL_2D", (1, 6, 6, 32), 6)),
    Layer("max pool 2x2", _pool("MAX_POOL_2D", (1, 12, 12, 32), 2)),
    Layer("mean over positions", _over("MEAN", (1, 2))),
    Layer("mean over channels", _over("MEAN", (3,))),
    Layer("sum over channels", _over("SUM", (3,)), operator="SUM"),
    Layer("reduce max over channels", _over("REDUCE_MAX", (3,))),
    Layer("add", _elements("ADD", "AddOptions", 2)),
    Layer("sub", _elements("SUB", "SubOptions", 2)),
    Layer("mul", _elements("MUL", "MulOptions", 2)),
    Layer("maximum", _elements("MAXIMUM", "MaximumMinimumOptions", 1 + 1)),
    Layer("softmax of 32", _elements("SOFTMAX", "SoftmaxOptions", out=_curve, beta=1.0)),
    Layer("logistic", _elements("LOGISTIC", out=_curve)),
    Layer("tanh", _elements("TANH", out=_both_sides)),
    Layer("relu", _elements("RELU"), ("int8",)),
    Layer("leaky relu", _elements("LEAKY_RELU", "LeakyReluOptions", alpha=0.1)),
    Layer("hard swish", _elements("HARD_SWISH"), ("int8",)),
    Layer("requantize", _elements("QUANTIZE", out=lambda dtype: _scale(dtype, 0.031, -5 if dtype == "int8" else 0))),
)


def count(layer: Layer, dtype: str, target: str, build: str, folder: Path) -> tuple[float, str]:
    """Instructions of a layer for each of its products or elements, and what is wrong with it."""
    generator, archive, compiler = BUILDS[build]
    model, work = layer.make(dtype)
    content = model.content()
    (folder / "layer.tflite").write_bytes(content)
    try:
        (expected,) = reference(content, [model.feeds], layer.operator)
    except RefusedError as problem:
        return 0.0, f"LiteRT refuses it: {problem}"
    try:
        firmware = read_firmware(compile_to(folder / "bundle", folder / "layer.tflite", target, generator=generator))
        program = folder / "program"
        program.mkdir()
        how = How(compiler, archive, ("-O2",))
        found = measure(firmware, machine_for(firmware), program, list(model.feeds.values()), how)
    except SternaError as problem:
        return 0.0, problem.diagnostics[0].title
    equal = all(np.array_equal(a.reshape(b.shape), b) for a, b in zip(found.outputs, expected, strict=True))
    return found.instructions / work, "" if equal else "results are not LiteRT's"


def table(names: Iterable[str], targets: Sequence[str], build: str) -> int:
    """Prints the layers whose names contain one of some words; the number of those with wrong results."""
    wanted = tuple(names)
    out = Table("layer", *(f"{target} {dtype}" for target in targets for dtype in _TYPES))
    wrong = 0
    for layer in LAYERS:
        if wanted and not any(word in layer.name for word in wanted):
            continue
        cells = []
        for target in targets:
            for dtype in _TYPES:
                if dtype not in layer.types:
                    cells.append("")
                    continue
                with tempfile.TemporaryDirectory(prefix="sterna-mcu-") as folder:
                    taken, problem = count(layer, dtype, target, build, Path(folder))
                wrong += bool(problem)
                cells.append(problem or f"{taken:.2f}")
        print(f"{layer.name}: {', '.join(cells)}", flush=True)
        out.add_row(layer.name, *cells)
    Console().print(out)
    return wrong
