"""Random convolutions, matrix products and pooling."""

from __future__ import annotations

import numpy as np

from support.tflite_builder import GraphWriter, ModelWriter, Scale
from support.tflite_nodes.draw import Draw, activation, register

_KINDS = ("float32", "int8", "uint8", "int16", "hybrid", "int4")
_LAYERS = (*_KINDS, "hybrid int2")


def _sum_scale(d: Draw, dtype: str, x: Scale | None, scales: np.ndarray, depth: int) -> Scale | None:
    """A scale of the result in which sums of so many products neither all saturate nor all vanish."""
    if x is None:
        return None
    spread = float(np.max(scales)) * float(np.asarray(x.scale).max()) * np.sqrt(depth) * 70 * 70
    unit = spread / (40 if dtype != "int16" else 9000) * float(d.random.uniform(0.3, 3))
    if dtype == "int16":
        unit *= 128 * 128 / 70 / 70
    return Scale(float(np.float32(unit)), 0 if dtype == "int16" else d.scale(dtype).zero)  # type: ignore[union-attr]


def _bias(d: Draw, g: GraphWriter, dtype: str, x: Scale | None, scales: np.ndarray, count: int) -> int:
    if dtype == "float32":
        return g.constant(d.elements("float32", (count,)))
    assert x is not None
    kind = "int64" if dtype == "int16" and d.chance(0.7) else "int32"
    data = d.random.integers(-9000, 9000, count).astype(kind)
    return g.constant(data, Scale((scales * np.float32(x.scale)).tolist(), [0] * len(scales)))


def _bias_type(g: GraphWriter, bias: int) -> dict[str, int]:
    """How the runtime is told that activations of 16 bits go with a bias of 32."""
    return {"quantizedBiasType": g.tensors[bias].type} if bias >= 0 else {}


def _operands(d: Draw, kind: str) -> tuple[str, str, Scale | None]:
    """Element types of activations and weights, and the scale of the activations."""
    if kind.startswith("hybrid"):
        return "float32", kind.partition(" ")[2] or "int8", None
    if kind == "int4":
        return "int8", "int4", d.scale("int8", 0.004, 0.05)
    weights = {"float32": "float32", "uint8": "uint8"}.get(kind, "int8")
    return kind, weights, d.scale(kind, 0.004, 0.05)


def _weights(
    d: Draw, g: GraphWriter, dtype: str, shape: tuple[int, ...], axis: int, per_channel: bool | None = None
) -> tuple[int, np.ndarray]:
    if dtype not in ("int4", "int2"):
        return d.weights(g, dtype, shape, axis, symmetric=dtype != "uint8", per_channel=per_channel)
    bits = int(dtype[3:])
    each, most = 8 // bits, (1 << (bits - 1)) - 1
    values = d.random.integers(-most, most + 1, shape).astype(np.int8).reshape(-1)
    rows = np.append(values, np.zeros(-values.size % each, np.int8)).astype(np.uint8).reshape(-1, each)
    packed = np.bitwise_or.reduce((rows & ((1 << bits) - 1)) << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
    scales = np.exp(d.random.uniform(np.log(0.02), np.log(0.1), shape[axis])).astype(np.float32)
    made = g.tensor(dtype, shape, Scale(scales.tolist(), [0] * len(scales), axis), packed)
    return made, scales


def _window(d: Draw, size: int) -> tuple[int, int, int, int, int]:
    """(padding, extent, stride, dilation, result) along one dimension."""
    extent, stride, dilation = d.below(min(size, 4) + 1, 1), d.below(4, 1), d.number(1, 1, 2)
    if (extent - 1) * dilation + 1 > size:
        dilation = 1
    return 0, extent, stride, dilation, size


def _result(size: int, extent: int, stride: int, dilation: int, padding: int) -> int:
    return -(-size // stride) if padding == 0 else (size - (extent - 1) * dilation - 1) // stride + 1


def _convolution(d: Draw, depthwise: bool) -> ModelWriter:
    model = ModelWriter()
    g = model.main
    dtype, w_type, x_scale = _operands(d, d.pick(_KINDS))
    n, h, w, c = d.below(3, 1), d.below(9, 1), d.below(9, 1), d.below(10, 1)
    padding = d.below(2)
    (_, kh, sh, dh, _), (_, kw, sw, dw, _) = _window(d, h), _window(d, w)
    if depthwise:
        sw = sh
    rows, columns = _result(h, kh, sh, dh, padding), _result(w, kw, sw, dw, padding)
    groups = c if depthwise else d.number(1, 1, 1, 2 if c % 2 == 0 and w_type in ("float32", "int8") else 1)
    outputs = c * d.below(3, 1) if depthwise else groups * d.below(9, 1)
    shape = (1, kh, kw, outputs) if depthwise else (outputs, kh, kw, c // groups)
    x = d.input(g, dtype, (n, h, w, c), x_scale)
    weights, scales = _weights(
        d, g, w_type, shape, 3 if depthwise else 0, per_channel=True if depthwise and dtype == "float32" else None
    )
    operands = [x, weights, _bias(d, g, dtype, x_scale, scales, outputs)]
    y_scale = _sum_scale(d, dtype, x_scale, scales, kh * kw * (1 if depthwise else c // groups))
    y = g.output(dtype, (n, rows, columns, outputs), y_scale)
    settings = {"padding": padding, "strideH": sh, "strideW": sw, "dilationHFactor": dh, "dilationWFactor": dw,
                "fusedActivationFunction": activation(d)}  # fmt: skip
    if depthwise:
        g.op("DEPTHWISE_CONV_2D", operands, [y], "DepthwiseConv2DOptions", depthMultiplier=outputs // c, **settings)
    else:
        g.op("CONV_2D", operands, [y], "Conv2DOptions", **settings, **_bias_type(g, operands[2]))
    return model


@register("CONV_2D")
def conv_2d(d: Draw) -> ModelWriter:
    return _convolution(d, depthwise=False)


@register("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(d: Draw) -> ModelWriter:
    return _convolution(d, depthwise=True)


@register("CONV_3D")
def conv_3d(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, padding = model.main, d.below(2)
    n, sizes, c, outputs = d.below(3, 1), d.shape(3, 5), d.below(4, 1), d.below(5, 1)
    windows = [_window(d, size) for size in sizes]
    kernel, strides = [w[1] for w in windows], [w[2] for w in windows]
    y = [_result(s, k, t, 1, padding) for s, k, t in zip(sizes, kernel, strides, strict=True)]
    operands = [d.input(g, "float32", (n, *sizes, c)), g.constant(d.elements("float32", (*kernel, c, outputs)))]
    operands.append(g.constant(d.elements("float32", (outputs,))))
    settings = {f"stride{a}": s for a, s in zip("DHW", strides, strict=True)}
    g.op("CONV_3D", operands, [g.output("float32", (n, *y, outputs))], "Conv3DOptions", padding=padding,
         dilationDFactor=1, dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=activation(d),
         **settings)  # fmt: skip
    return model


@register("TRANSPOSE_CONV")
def transpose_conv(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g = model.main
    dtype, w_type, x_scale = _operands(d, d.pick(("float32", "int8", "uint8", "int16", "hybrid")))
    n, h, w, c, outputs = d.below(3, 1), *d.shape(2, 6), d.below(6, 1), d.below(6, 1)
    (kh, kw), sh, sw, padding = d.shape(2, 5), d.below(4, 1), d.below(4, 1), d.below(2)
    if padding == 1:
        rows, columns = (h - 1) * sh + kh, (w - 1) * sw + kw
    else:
        rows, columns = h * sh, w * sw
    x = d.input(g, dtype, (n, h, w, c), x_scale)
    weights, scales = _weights(d, g, w_type, (outputs, kh, kw, c), 0)
    operands = [g.constant(np.array([n, rows, columns, outputs], np.int32)), weights, x]
    if d.chance():
        operands.append(_bias(d, g, dtype, x_scale, scales, outputs))
    bias = operands[3] if len(operands) > 3 else -1
    y_scale = _sum_scale(d, dtype, x_scale, scales, kh * kw * c)
    g.op("TRANSPOSE_CONV", operands, [g.output(dtype, (n, rows, columns, outputs), y_scale)], "TransposeConvOptions",
         padding=padding, strideH=sh, strideW=sw, fusedActivationFunction=activation(d),
         **_bias_type(g, bias))  # fmt: skip
    return model


@register("CONV_3D_TRANSPOSE")
def conv_3d_transpose(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, padding = model.main, d.below(2)
    n, sizes, c, outputs = d.below(3, 1), d.shape(3, 4), d.below(4, 1), d.below(4, 1)
    kernel, strides = d.shape(3, 3), d.shape(3, 3)
    pairs = zip(sizes, kernel, strides, strict=True)
    wanted = (n, *(s * t if padding == 0 else (s - 1) * t + k for s, k, t in pairs), outputs)
    operands = [g.constant(np.array(wanted, np.int32)), g.constant(d.elements("float32", (*kernel, outputs, c)))]
    operands.append(d.input(g, "float32", (n, *sizes, c)))
    if d.chance():
        operands.append(g.constant(d.elements("float32", (outputs,))))
    settings = {f"stride{a}": s for a, s in zip("DHW", strides, strict=True)}
    g.op("CONV_3D_TRANSPOSE", operands, [g.output("float32", wanted)], "Conv3DOptions", padding=padding,
         dilationDFactor=1, dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=activation(d),
         **settings)  # fmt: skip
    return model


@register("FULLY_CONNECTED")
def fully_connected(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g = model.main
    dtype, w_type, x_scale = _operands(d, d.pick(_LAYERS))
    depth, units, keep = d.below(33, 1), d.below(17, 1), d.chance(0.4)
    outer = d.shape(d.below(4, 1), 4)
    x = d.input(g, dtype, (*outer, depth), x_scale)
    weights, scales = _weights(d, g, w_type, (units, depth), 0)
    bias = _bias(d, g, dtype, x_scale, scales, units) if d.chance(0.8) else -1
    y_scale = _sum_scale(d, dtype, x_scale, scales, depth)
    shape = (*outer, units) if keep else (int(np.prod(outer)), units)
    g.op("FULLY_CONNECTED", [x, weights, bias], [g.output(dtype, shape, y_scale)], "FullyConnectedOptions",
         keepNumDims=keep, fusedActivationFunction=activation(d), **_bias_type(g, bias),
         asymmetricQuantizeInputs=w_type in ("int8", "int2") and dtype == "float32" and d.chance())  # fmt: skip
    return model


@register("BATCH_MATMUL")
def batch_matmul(d: Draw) -> ModelWriter:
    model = ModelWriter()
    g, dtype = model.main, d.pick(("float32", "int8", "int16", "hybrid"))
    outer, (m, k, n) = d.shape(d.below(3), 3), d.shape(3, 9)
    if dtype == "hybrid" and len(outer) == 2:  # the reference kernel mixes up the scales of more than one dimension
        outer = (1, outer[1])
    settings = {"adjX": d.chance(), "adjY": d.chance()}
    shapes = (*outer, *((k, m) if settings["adjX"] else (m, k))), (*outer, *((n, k) if settings["adjY"] else (k, n)))
    if dtype == "hybrid":
        settings["asymmetricQuantizeInputs"] = d.chance()
        a, y = d.input(g, "float32", shapes[0]), None
        scale = Scale(float(np.float32(d.random.uniform(0.002, 0.05))))
        b = g.constant(d.elements("int8", shapes[1]), scale) if d.chance() else d.input(g, "int8", shapes[1], scale)
        dtype = "float32"
    else:
        scales = d.scale(dtype, 0.01, 0.05), d.scale(dtype, 0.01, 0.05)
        a, b = (d.input(g, dtype, shape, scale) for shape, scale in zip(shapes, scales, strict=True))
        unit = None if scales[1] is None else np.array([scales[1].scale], np.float32)
        y = _sum_scale(d, dtype, scales[0], np.ones(1) if unit is None else unit, k)
    g.op("BATCH_MATMUL", [a, b], [g.output(dtype, (*outer, m, n), y)], "BatchMatMulOptions", **settings)
    return model


def _pool(d: Draw, name: str, types: tuple[str, ...]) -> ModelWriter:
    model = ModelWriter()
    g, dtype = model.main, d.pick(types)
    n, h, w, c, padding = d.below(3, 1), *d.shape(2, 9), d.below(9, 1), d.below(2)
    (_, kh, sh, _, _), (_, kw, sw, _, _) = _window(d, h), _window(d, w)
    same = d.scale(dtype)
    shape = (n, _result(h, kh, sh, 1, padding), _result(w, kw, sw, 1, padding), c)
    g.op(name, [d.input(g, dtype, (n, h, w, c), same)], [g.output(dtype, shape, same)], "Pool2DOptions",
         padding=padding, strideH=sh, strideW=sw, filterHeight=kh, filterWidth=kw,
         fusedActivationFunction=activation(d))  # fmt: skip
    return model


@register("AVERAGE_POOL_2D")
def average_pool(d: Draw) -> ModelWriter:
    return _pool(d, "AVERAGE_POOL_2D", ("float32", "int8", "uint8", "int16"))


@register("MAX_POOL_2D")
def max_pool(d: Draw) -> ModelWriter:
    return _pool(d, "MAX_POOL_2D", ("float32", "int8", "uint8", "int16"))


@register("L2_POOL_2D")
def l2_pool(d: Draw) -> ModelWriter:
    return _pool(d, "L2_POOL_2D", ("float32",))
