"""Random operators on single elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from support.tflite_builder import ModelWriter, Scale
from support.tflite_nodes.draw import INTEGERS, Draw, activation, broadcasting, register


def _binary(name: str, types: tuple[str, ...], options: str = "", *, fused: bool = False, result: str = "") -> None:
    def make(d: Draw) -> ModelWriter:
        model = ModelWriter()
        g, dtype = model.main, d.pick(types)
        a, b, y = broadcasting(d, d.below(5, 1))
        if name == "ATAN2":
            a = b = y
        same = d.scale(dtype) if name in ("MAXIMUM", "MINIMUM") else None
        first, second = d.elements(dtype, a), d.elements(dtype, b)
        if name in ("DIV", "FLOOR_DIV", "FLOOR_MOD"):
            second = np.where(np.abs(second.astype(np.float64)) < 0.5, 2, second).astype(dtype)
        scales = [same or d.scale(dtype) for _ in range(2)]
        if name == "DIV" and scales[1] is not None:  # of what is divided by zero nothing is said
            second = np.where(second == scales[1].zero, second ^ 1, second).astype(dtype)
        if name == "POW":
            first, second = np.abs(first), np.clip(second, 0, 3)
        operands = [g.input(x, scale) for x, scale in zip((first, second), scales, strict=True)]
        y_scale = None if result else same or d.scale(dtype)
        if name == "DIV" and y_scale is not None and scales[0] is not None and scales[1] is not None:
            # Beyond these scales the reference kernel shifts by more bits than there are.
            unit = float(scales[0].scale) / float(scales[1].scale) / d.random.uniform(64, 500)  # type: ignore[arg-type]
            y_scale = Scale(float(np.float32(unit)), y_scale.zero)
        out = g.output(result or dtype, y, y_scale)
        settings = {"fusedActivationFunction": activation(d) if dtype in ("float32", *INTEGERS) else 0} if fused else {}
        if name in ("ADD", "SUB"):
            settings["potScaleInt16"] = False
        g.op(name, operands, [out], options, **settings)
        return model

    register(name)(make)


_NUMBERS = ("float32", "int32", *INTEGERS)
_binary("ADD", _NUMBERS, "AddOptions", fused=True)
_binary("SUB", _NUMBERS, "SubOptions", fused=True)
_binary("MUL", _NUMBERS, "MulOptions", fused=True)
_binary("DIV", ("float32", "int32", "uint8"), "DivOptions", fused=True)
_binary("MAXIMUM", ("float32", "int32", "int8", "uint8", "int16"))
_binary("MINIMUM", ("float32", "int32", "int8", "uint8", "int16"))
_binary("SQUARED_DIFFERENCE", ("float32", "int32", "int8"))
_binary("POW", ("float32", "int32"))
_binary("FLOOR_DIV", ("float32", "int32", "int8", "int16"))
_binary("FLOOR_MOD", ("float32", "int32", "int64"))
_binary("ATAN2", ("float32",))
_binary("BITWISE_XOR", ("int32", "int8", "uint8"))
for _name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
    _binary(_name, ("float32", "int32", "int64", "int8", "uint8"), result="bool")
for _name in ("LOGICAL_AND", "LOGICAL_OR"):
    _binary(_name, ("bool",))


@register("RIGHT_SHIFT")
def right_shift(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, dtype, shape = model.main, d.pick(("int32", "int8", "uint8")), d.shape(2)
    x = g.input(d.elements(dtype, shape))
    count = g.input(d.random.integers(0, 7, shape).astype(dtype))
    g.op("RIGHT_SHIFT", [x, count], [g.output(dtype, shape)])
    return model


def _unary(
    name: str,
    types: tuple[str, ...],
    options: str = "",
    *,
    span: tuple[float, float] = (-4.0, 4.0),
    y_scale: Callable[[str], Scale | None] | None = None,
    settings: Callable[[Draw], dict[str, float]] = lambda d: {},
    same: bool = False,
    positive: bool = False,
) -> None:
    def make(d: Draw) -> ModelWriter:
        model = ModelWriter()
        g, dtype, shape = model.main, d.pick(types), d.shape(d.below(5, 1), 9)
        data = d.elements(dtype, shape, *span)
        x_scale = d.scale(dtype)
        if positive and x_scale is not None:  # the function is not defined below zero
            x_scale = Scale(x_scale.scale, int(np.iinfo(dtype).min) if dtype != "int16" else 0)
            data = np.maximum(data, 1) if dtype == "int16" else np.maximum(data, np.iinfo(dtype).min + 1)
        known = None if y_scale is None else y_scale(dtype)
        result = x_scale if same else known or d.scale(dtype)
        g.op(name, [g.input(data, x_scale)], [g.output(dtype, shape, result)], options, **settings(d))
        return model

    register(name)(make)


def _unit(shift: float) -> Callable[[str], Scale | None]:
    """The scale that the runtime wants for results between 0 (or -1) and 1."""

    def scale(dtype: str) -> Scale | None:
        if dtype == "int8":
            return Scale(1 / 256, -128) if not shift else Scale(1 / 128, 0)
        if dtype == "uint8":
            return Scale(1 / 256, 0) if not shift else Scale(1 / 128, 128)
        return Scale(1 / 32768, 0) if dtype == "int16" else None

    return scale


_ALL = ("float32", *INTEGERS)
_unary("ABS", ("float32", "int32", "int8", "int16"), "AbsOptions")
_unary("NEG", ("float32", "int32", "int64"), "NegOptions")
_unary("EXP", ("float32", "int8", "int16"), "ExpOptions")
_unary("LOG", ("float32", "int8", "int16"), span=(0.01, 9.0), positive=True)
_unary("SQRT", ("float32", "int8", "int16"), span=(0.0, 9.0), positive=True)
_unary("RSQRT", ("float32", "int8", "int16"), span=(0.01, 9.0), positive=True)
_unary("SIN", ("float32",), span=(-30.0, 30.0))
_unary("COS", ("float32",), "CosOptions", span=(-30.0, 30.0))
_unary("FLOOR", ("float32",))
_unary("CEIL", ("float32",))
_unary("ROUND", ("float32",))
_unary("SIGN", ("float32", "int32"))
_unary("SQUARE", ("float32",), "SquareOptions")
_unary("ZEROS_LIKE", ("float32", "int32"), "ZerosLikeOptions")
_unary("LOGICAL_NOT", ("bool",), "LogicalNotOptions")
_unary("LOGISTIC", _ALL, y_scale=_unit(0.0))
_unary("TANH", _ALL, y_scale=_unit(0.5))
_unary("RELU", _ALL)
_unary("RELU6", ("float32", "int8", "uint8", "int16"))
_unary("RELU_N1_TO_1", ("float32", "int8", "uint8"))
_unary("RELU_0_TO_1", ("float32", "int8", "uint8"))
_unary("ELU", ("float32", "int8"))
_unary("GELU", ("float32", "int8", "uint8"), "GeluOptions", settings=lambda d: {"approximate": d.chance()})
_unary("HARD_SWISH", ("float32", "int8", "uint8"), "HardSwishOptions")
_unary("LEAKY_RELU", _ALL, "LeakyReluOptions", settings=lambda d: {"alpha": float(d.random.uniform(0.0, 0.9))})
_unary("FAKE_QUANT", ("float32",), "FakeQuantOptions",
       settings=lambda d: {"min": -float(d.random.uniform(0.1, 3)), "max": float(d.random.uniform(0.1, 3)),
                           "numBits": d.number(8, 8, 4, 16), "narrowRange": False})  # fmt: skip


@register("PRELU")
def prelu(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, dtype, shape = model.main, d.pick(("float32", "int8", "uint8")), d.shape(4, 5)
    slope = (1, 1, shape[3]) if d.chance() else tuple(shape[1:])
    alpha = g.constant(d.elements(dtype, slope, -0.5, 0.9), d.scale(dtype, 0.002, 0.02))
    g.op("PRELU", [d.input(g, dtype, shape), alpha], [g.output(dtype, shape, d.scale(dtype))])
    return model


@register("CAST")
def cast(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, shape = model.main, d.shape(2, 9)
    types = ("float32", "int32", "int64", "int8", "uint8", "int16", "bool")
    source, target = d.pick(types), d.pick(types)
    data = d.elements(source, shape, 0, 100)
    if target in ("uint8", "int8", "int16"):
        data = np.clip(data.astype(np.float64), 0, 100).astype(source)
    x, y = g.input(data), g.output(target, shape)
    g.op("CAST", [x], [y], "CastOptions", inDataType=g.tensors[x].type, outDataType=g.tensors[y].type)
    return model


@register("QUANTIZE")
def quantize(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, shape = model.main, d.shape(d.below(5, 1))
    source, target = d.pick(("float32", *INTEGERS)), d.pick(INTEGERS)
    if "int16" in (source, target) and "uint8" in (source, target):
        source = "float32"
    g.op("QUANTIZE", [d.input(g, source, shape)], [g.output(target, shape, d.scale(target))])
    return model


@register("DEQUANTIZE")
def dequantize(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, shape, dtype = model.main, d.shape(d.below(5, 1)), d.pick((*INTEGERS, "float16"))
    if dtype == "float16":  # weights: a constant that something uses
        half, y = g.constant(d.elements("float16", shape)), g.tensor("float32", shape)
        g.op("DEQUANTIZE", [half], [y])
        g.op("ADD", [d.input(g, "float32", shape), y], [g.output("float32", shape)], "AddOptions")
        return model
    g.op("DEQUANTIZE", [d.input(g, dtype, shape)], [g.output("float32", shape)])
    return model


@register("SOFTMAX")
def softmax(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, dtype, shape = model.main, d.pick(_ALL), d.shape(d.below(5, 1), 12)
    to = "int16" if dtype == "int8" and d.chance(0.2) else dtype
    unit = Scale(1 / 32768, 0) if to == "int16" else _unit(0.0)(to)
    g.op("SOFTMAX", [d.input(g, dtype, shape)], [g.output(to, shape, unit)], "SoftmaxOptions",
         beta=1.0 if d.chance(0.7) else float(d.random.uniform(0.2, 2)))  # fmt: skip
    return model


@register("LOG_SOFTMAX")
def log_softmax(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, dtype, shape = model.main, d.pick(("float32", "int8", "uint8")), d.shape(d.below(5, 1), 12)
    unit = None if dtype == "float32" else Scale(1 / 16, int(np.iinfo(dtype).max))
    x = d.input(g, dtype, shape, d.scale(dtype, 0.01, 0.2))
    g.op("LOG_SOFTMAX", [x], [g.output(dtype, shape, unit)], "LogSoftmaxOptions")
    return model


@register("L2_NORMALIZATION")
def l2_normalization(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, dtype, shape = model.main, d.pick(("float32", "int8", "uint8")), d.shape(4, 6)
    g.op("L2_NORMALIZATION", [d.input(g, dtype, shape)], [g.output(dtype, shape, _unit(0.5)(dtype))], "L2NormOptions")
    return model


@register("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, shape = model.main, d.shape(4, 6)
    g.op("LOCAL_RESPONSE_NORMALIZATION", [d.input(g, "float32", shape)], [g.output("float32", shape)],
         "LocalResponseNormalizationOptions", radius=d.below(4), bias=1.0, alpha=0.3, beta=0.6)  # fmt: skip
    return model


@register("ADD_N")
def add_n(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, dtype, shape = model.main, d.pick(("float32", "int32")), d.shape(3)
    operands = [d.input(g, dtype, shape) for _ in range(d.below(5, 2))]
    g.op("ADD_N", operands, [g.output(dtype, shape)], "AddNOptions")
    return model


@register("SELECT", "SELECT_V2")
def select(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, dtype = model.main, d.pick(("float32", "int32", "int8", "int16", "uint8"))
    first, second, shape = broadcasting(d, d.below(5, 1))
    version_2 = d.chance()
    condition = tuple(1 if d.chance(0.2) else n for n in shape) if version_2 else shape
    same = d.scale(dtype)
    operands = [g.input(d.elements("bool", condition))]
    operands += [d.input(g, dtype, s if version_2 else shape, same) for s in (first, second)]
    name = "SELECT_V2" if version_2 else "SELECT"
    shape = tuple(max(a, b) for a, b in zip(shape, condition, strict=True))
    g.op(name, operands, [g.output(dtype, shape, same)], f"Select{'V2' if version_2 else ''}Options")
    return model
