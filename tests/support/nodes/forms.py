"""Nodes as operator sets of their own time write them: attributes that became operands, broadcasts that were asked for.

Each has what it computes by NumPy where it can be said in a line, since ONNX Runtime runs nothing below set 7 by right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import defs

from support.nodes.case import Known, NodeCase
from support.nodes.draw import int64
from support.nodes.reference import expected_of

RANDOM = np.random.default_rng(28)
X = RANDOM.uniform(-2, 2, (2, 3, 4)).astype(np.float32)
Y = RANDOM.uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
ROW, COLUMN, ONE = Y[0, 0], Y[0, :, 0], Y[0, 0, :1]
IMAGE = RANDOM.uniform(-2, 2, (1, 3, 4, 6)).astype(np.float32)
SCALE, BIAS, MEAN, VARIANCE = RANDOM.uniform(0.5, 1.5, (4, 3)).astype(np.float32)


FORMS: list[Known] = []


def form(
    op: str,
    sets: int | Sequence[int],
    *operands: np.ndarray | None,
    expected: Any = None,
    fixed: Sequence[int] | None = None,
    outputs: int = 1,
    **attributes: Any,
) -> None:
    """Adds a node at operator sets, of those that the installed onnx package knows.

    Args:
        fixed: the operands that are constants; without it, all after the first.
    """
    constants = frozenset(range(1, len(operands)) if fixed is None else fixed)
    wanted = None if expected is None else expected if isinstance(expected, list) else [expected]
    for opset in [sets] if isinstance(sets, int) else sets:
        if opset > defs.onnx_opset_version():
            continue
        FORMS.append(Known(NodeCase(op, operands, constants, attributes, outputs, 10, opset), wanted))


# ---------------------------------------------------------------- element by element
for op, function in {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}.items():
    form(op, (1, 6), X, Y, fixed=(), expected=function(X, Y))
    form(op, (1, 6), X, ROW, fixed=(), broadcast=1, expected=function(X, ROW))
    form(op, (1, 6), X, COLUMN, fixed=(), broadcast=1, axis=1, expected=function(X, COLUMN[:, None]))
    form(op, (1, 6), X, ONE, broadcast=1, expected=function(X, ONE))
    form(op, 1, X, Y, consumed_inputs=[0, 0], expected=function(X, Y))
for op, function in {"Greater": np.greater, "Less": np.less, "Pow": np.power}.items():
    form(op, 1, Y, X, fixed=(), expected=function(Y, X))
    form(op, 1, Y, COLUMN, fixed=(), broadcast=1, axis=1, expected=function(Y, COLUMN[:, None]))
for op, function in {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}.items():
    form(op, 1, X > 0, COLUMN > 1, fixed=(), broadcast=1, axis=-2, expected=function(X > 0, COLUMN[:, None] > 1))
counts = np.arange(24, dtype=np.int32).reshape(2, 3, 4) % 3
form("Equal", 1, counts, counts[0, :, 0], broadcast=1, axis=1, expected=counts == counts[0, :, :1])
form("PRelu", (1, 6), X, COLUMN, expected=np.where(X < 0, X * COLUMN[:, None], X))
form("PRelu", (1, 6), X, ONE, expected=np.where(X < 0, X * ONE, X))
form("PRelu", (7, 9, 16), X, ROW, expected=np.where(X < 0, X * ROW, X))
for op, value in {
    "Abs": np.abs(X), "Ceil": np.ceil(X), "Floor": np.floor(X), "Exp": np.exp(X), "Neg": -X, "Relu": np.maximum(X, 0),
    "Reciprocal": 1 / X, "Sigmoid": 1 / (1 + np.exp(-X)), "Tanh": np.tanh(X), "Elu": np.where(X < 0, np.expm1(X), X),
    "LeakyRelu": np.where(X < 0, 0.01 * X, X), "HardSigmoid": np.clip(0.2 * X + 0.5, 0, 1),
}.items():  # fmt: skip
    form(op, 1, X, consumed_inputs=[0], expected=value)
form("Sqrt", 1, Y, consumed_inputs=[0], expected=np.sqrt(Y))
form("Log", 1, Y, consumed_inputs=[0], expected=np.log(Y))
# Until set 6 the default of gamma was another number.
form("Selu", 1, X, consumed_inputs=[0], expected=1.0507 * np.where(X > 0, X, 1.6732 * np.expm1(X)))
form("Selu", (6, 22), X)
form("Clip", (1, 6), X, min=-0.5, max=1.0, expected=np.clip(X, -0.5, 1))
form("Clip", (1, 6), X, max=1.0, expected=np.minimum(X, 1))
form("Clip", (11, 12, 13), X, np.float32(-0.5), np.float32(1), expected=np.clip(X, -0.5, 1))
form("Clip", (11, 12, 13), X, None, np.float32(1), expected=np.minimum(X, 1))
form("Cast", 1, X, to="INT32", expected=X.astype(np.int32))
form("Cast", (6, 9, 13, 19), X, to=6, expected=X.astype(np.int32))
for op, value in {"Sum": X + Y, "Mean": (X + Y) / 2, "Max": np.maximum(X, Y), "Min": np.minimum(X, Y)}.items():
    form(op, (1, 6), X, Y, fixed=(), expected=value)
for sets, attributes in (((1, 6), {"is_test": 1}), ((7, 10), {})):
    form("Dropout", sets, X, expected=X, ratio=0.7, **attributes)
form("Dropout", (12, 13, 22), X, np.float32(0.7), expected=X)
form("Dropout", (12, 13, 22), X, np.float32(0.7), np.array(False), expected=[X, np.ones(X.shape, bool)], outputs=2)

# ---------------------------------------------------------------- along axes
for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
           "ReduceLogSumExp", "ReduceSumSquare"):  # fmt: skip
    old = {"ReduceSum": (1, 11), "ReduceMax": (1, 11, 12, 13), "ReduceMin": (1, 11, 12, 13)}.get(op, (1, 11, 13))
    for axes, keepdims in (([1], 0), ([0, 2], 1)):
        form(op, old, Y, axes=axes, keepdims=keepdims)
        form(op, 13 if op == "ReduceSum" else 18, Y, int64(axes), keepdims=keepdims)
    form(op, 1, Y, keepdims=0)
    form(op, 18, Y, noop_with_empty_axes=1)
stable = np.exp(X - X.max((1, 2), keepdims=True))
form("Softmax", (1, 11), X, expected=stable / stable.sum((1, 2), keepdims=True))
form("LogSoftmax", (1, 11), X, expected=np.log(stable / stable.sum((1, 2), keepdims=True)))
form("Hardmax", (1, 11), X, expected=(X.max((1, 2), keepdims=True) == X).astype(np.float32))
for op in ("Softmax", "LogSoftmax", "Hardmax"):
    form(op, (1, 11), X, axis=2)
    form(op, 11, X, axis=-1)
    form(op, 13, X)
    form(op, 13, X, axis=1)
form("TopK", 1, X, axis=2, k=2, outputs=2, expected=[-np.sort(-X)[..., :2], np.argsort(-X, kind="stable")[..., :2]])
form("TopK", (10, 11, 24), X, int64([2]), axis=2, outputs=2)
form("TopK", (11, 24), X, int64([2]), axis=1, largest=0, outputs=2)
form("ArgMax", (12, 13), counts.astype(np.float32), axis=2, select_last_index=1)
normal = (IMAGE - MEAN.reshape(3, 1, 1)) / np.sqrt(VARIANCE + np.float32(1e-5)).reshape(3, 1, 1)
normal = normal * SCALE.reshape(3, 1, 1) + BIAS.reshape(3, 1, 1)
for sets, attributes in ((1, {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]}), (6, {"is_test": 1}), (7, {}),
                         (9, {}), ((14, 15), {"training_mode": 0})):  # fmt: skip
    form("BatchNormalization", sets, IMAGE, SCALE, BIAS, MEAN, VARIANCE, expected=normal, **attributes)
form("InstanceNormalization", 1, IMAGE, SCALE, BIAS, consumed_inputs=[0, 0, 0], epsilon=1e-5, expected=(
    (IMAGE - IMAGE.mean((2, 3), keepdims=True)) / np.sqrt(IMAGE.var((2, 3), keepdims=True) + 1e-5)
    * SCALE.reshape(3, 1, 1) + BIAS.reshape(3, 1, 1)
))  # fmt: skip
pairs = np.concatenate([IMAGE, IMAGE[:, ::-1] * 2], 1)
form("GroupNormalization", 18, pairs, SCALE[:2], BIAS[:2], num_groups=2)
form("GroupNormalization", 21, pairs, np.tile(SCALE, 2), np.tile(BIAS, 2), num_groups=2)

# ---------------------------------------------------------------- movement
form("Reshape", 1, X, shape=[0, -1], expected=X.reshape(2, 12))
form("Reshape", 1, X, shape=[4, 6], consumed_inputs=[0], expected=X.reshape(4, 6))
form("Reshape", (5, 13, 14, 19), X, int64([0, -1]), expected=X.reshape(2, 12))
thin = X[:, :1]
form("Squeeze", (1, 11), thin, axes=[1], expected=thin[:, 0])
form("Squeeze", (1, 11), thin, expected=thin[:, 0])
form("Unsqueeze", (1, 11), X, axes=[0, 3], expected=X[None, :, :, None])
form("Squeeze", (13, 21, 23), thin, int64([1]), expected=thin[:, 0])
form("Unsqueeze", (13, 21, 23), X, int64([0, -2]), expected=X[None, :, :, None])
form("Slice", 1, X, axes=[1, 2], starts=[1, -3], ends=[3, 1000], expected=X[:, 1:3, -3:])
form("Slice", 1, X, starts=[0, 1], ends=[1, -1], expected=X[0:1, 1:-1])
form("Slice", (10, 11, 13), X, int64([1, -1]), int64([3, -5]), int64([1, 2]), int64([1, -1]), expected=X[:, 1:3, ::-1])
form("Slice", (10, 13), X, int64([1]), int64([2]), expected=X[1:2])
form("Split", 1, X, int64([1, 3]), axis=2, outputs=2, expected=np.split(X, [1], 2))
form("Split", (1, 2, 11), X, axis=2, split=[1, 3], outputs=2, expected=np.split(X, [1], 2))
form("Split", (1, 2, 11, 13), X, axis=2, outputs=2, expected=np.split(X, 2, 2))
form("Split", (13, 18), X, int64([1, 3]), axis=2, outputs=2, expected=np.split(X, [1], 2))
form("Split", 18, X, axis=1, num_outputs=2, outputs=2, expected=np.split(X, [2], 1))
form("Concat", 1, IMAGE, IMAGE, fixed=(), expected=np.concatenate([IMAGE, IMAGE], 1))
form("Concat", (11, 13), X, Y, fixed=(), axis=-1, expected=np.concatenate([X, Y], 2))
form("Tile", 1, X, np.float32(2), np.float32(1), expected=np.tile(X, (1, 2, 1)))
form("Tile", (6, 13), X, int64([1, 2, 1]), expected=np.tile(X, (1, 2, 1)))
for value, mode in ((0.5, "constant"), (0.0, "reflect"), (0.0, "edge")):
    given = {"constant_values": value} if mode == "constant" else {}
    padded = np.pad(X, ((0, 0), (1, 2), (0, 1)), mode, **given)  # type: ignore[call-overload]
    form("Pad", 1, X, paddings=[0, 1, 0, 0, 2, 1], mode=mode, value=value, expected=padded)
    form("Pad", 2, X, pads=[0, 1, 0, 0, 2, 1], mode=mode, value=value, expected=padded)
    form("Pad", (11, 13, 18), X, int64([0, 1, 0, 0, 2, 1]), np.float32(value), mode=mode, expected=padded)
    axes = [-2, 2]
    form("Pad", (18, 21, 25), X, int64([1, 0, 2, 1]), np.float32(value), int64(axes), mode=mode, expected=padded)
form("Pad", 2, X, pads=[0, -1, 0, 0, 1, -2], expected=np.pad(X[:, 1:, :2], ((0, 0), (0, 1), (0, 0))))
form("Shape", (15, 19), X, start=1, expected=int64([3, 4]))
places, updates = int64([[0, 2, 1, 0]]), ROW[None]
form("Scatter", 9, X[0], places, updates, axis=0)
form("ScatterElements", (11, 13), X[0], places, updates, axis=0)
form("ScatterElements", (16, 18), X[0], places, updates, axis=0, reduction="add")
form("ScatterElements", 18, X[0], places, updates, axis=0, reduction="max")
form("ScatterND", (11, 13), X, int64([[1]]), Y[:1], expected=np.stack([X[0], Y[0]]))
form("ScatterND", (16, 18), X, int64([[1]]), Y[:1], reduction="add", expected=np.stack([X[0], X[1] + Y[0]]))
form("GatherND", 11, X, int64([[1, 2], [0, 0]]), expected=X[[1, 0], [2, 0]])
form("GatherND", (12, 13), X, int64([[1], [2]]), batch_dims=1, expected=np.stack([X[0, 1], X[1, 2]]))
form("DepthToSpace", 1, RANDOM.standard_normal((1, 8, 2, 3)).astype(np.float32), blocksize=2)
form("DepthToSpace", (11, 13, 28), RANDOM.standard_normal((1, 8, 2, 3)).astype(np.float32), blocksize=2, mode="CRD")
form("SpaceToDepth", (1, 13), IMAGE, blocksize=2)

# ---------------------------------------------------------------- products and windows
a, b, c = X[0], Y[0].T.copy(), Y[1, :, 0]
form("Gemm", (1, 6), a, b, c, broadcast=1, alpha=0.5, expected=0.5 * a @ b + c)
form("Gemm", (1, 6), a, b, np.tile(c, (3, 1)), beta=2.0, expected=a @ b + 2 * c)
form("Gemm", (7, 9, 11, 13), a, b, c, alpha=0.5, expected=0.5 * a @ b + c)
form("Gemm", (11, 13), a, b, expected=a @ b)
form("LpPool", 1, IMAGE, p=3.0, kernel_shape=[2, 2])
form("LpPool", (2, 11, 18, 22), IMAGE, p=3, kernel_shape=[2, 2])
form("GlobalLpPool", 1, IMAGE, p=2.0, expected=np.sqrt((IMAGE**2).sum((2, 3), keepdims=True)))
form("GlobalLpPool", (2, 22), IMAGE, p=3, expected=np.cbrt((np.abs(IMAGE) ** 3).sum((2, 3), keepdims=True)))
# Set 1 divides by the number of elements without padding; ONNX's reference counts it.
sums, inside = (
    sum(np.pad(v, ((0, 0), (0, 0), (1, 0), (1, 0)))[:, :, i : i + 4, j : j + 6] for i in (0, 1) for j in (0, 1))
    for v in (IMAGE, np.ones_like(IMAGE))
)
form("AveragePool", 1, IMAGE, kernel_shape=[2, 2], pads=[1, 1, 0, 0], expected=sums / inside)
form("AveragePool", (7, 10, 11, 19, 22), IMAGE, kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1)
form("AveragePool", (10, 11, 19, 22), IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
form("AveragePool", (19, 22), IMAGE, kernel_shape=[2, 2], dilations=[2, 2])
form("MaxPool", (1, 8), IMAGE, kernel_shape=[2, 2], pads=[1, 1, 0, 0])
form("MaxPool", (8, 10, 12, 22), IMAGE, kernel_shape=[2, 2], outputs=2)
form("MaxPool", (10, 11, 12, 22), IMAGE, kernel_shape=[2, 2], dilations=[2, 2], strides=[2, 2], ceil_mode=1)
twice = IMAGE.repeat(2, 2).repeat(2, 3)
sizes4, factors = int64([1, 3, 8, 12]), np.array([1, 1, 2, 2], np.float32)
form("Upsample", 1, IMAGE, height_scale=2.0, width_scale=2.0, expected=twice)
form("Upsample", 7, IMAGE, scales=[1.0, 1.0, 2.0, 2.0], expected=twice)
form("Upsample", 7, IMAGE, scales=[1.0, 1.0, 2.0, 2.0], mode="linear")
form("Upsample", 9, IMAGE, factors, mode="nearest", expected=twice)
form("Upsample", 9, IMAGE, factors, mode="linear")
form("Resize", 10, IMAGE, factors, expected=twice)
form("Resize", 10, IMAGE, np.array([1, 1, 0.5, 2], np.float32), mode="linear")
nowhere = np.zeros(0, np.float32)
for mode in ("nearest", "linear", "cubic"):
    form("Resize", (11, 13, 18, 19), IMAGE, nowhere, factors, mode=mode)
    form("Resize", (11, 13, 18, 19), IMAGE, nowhere, nowhere, sizes4, mode=mode)
    form("Resize", (13, 18, 19), IMAGE, None, None, sizes4, mode=mode)
form("Resize", (11, 13), IMAGE, nowhere, factors, mode="linear", coordinate_transformation_mode="tf_half_pixel_for_nn")
form("Resize", (18, 19), IMAGE, None, factors[2:], axes=[2, 3], mode="linear")
form("Resize", (18, 19), IMAGE, None, np.array([0.5, 0.4], np.float32), axes=[2, 3], mode="linear", antialias=1)
for policy in ("not_larger", "not_smaller"):
    sizes2 = int64([7, 7])
    form("Resize", (18, 19), IMAGE, None, None, sizes2, axes=[2, 3], keep_aspect_ratio_policy=policy)
form("Resize", 19, IMAGE, None, factors, mode="linear", coordinate_transformation_mode="half_pixel_symmetric")
where = RANDOM.uniform(-1, 1, (1, 2, 3, 2)).astype(np.float32)
form("GridSample", 16, IMAGE, where, mode="bilinear", align_corners=1)
form("GridSample", (20, 22), IMAGE, where, mode="linear", align_corners=1)
form("GridSample", 16, IMAGE, where, mode="bicubic")
form("GridSample", (20, 22), IMAGE, where, mode="cubic")
boxes = np.array([[0, 0, 3, 3], [1, 0, 5, 2]], np.float32)
form("RoiAlign", 10, IMAGE, boxes, int64([0, 0]), output_height=2, output_width=2)
form("RoiAlign", (16, 22), IMAGE, boxes, int64([0, 0]), output_height=2, coordinate_transformation_mode="half_pixel")
signal = Y[:, :, :, None][:1]
form("DFT", 17, signal, axis=2)
form("DFT", 20, signal, None, np.int64(2))

# ---------------------------------------------------------------- quantized, recurrent, constants
step, zero = np.array([0.1, 0.2, 0.05], np.float32), np.array([3, 100, 128], np.uint8)
form("QuantizeLinear", (10, 13, 19, 21, 23), X, step[0], zero[0])
form("QuantizeLinear", (13, 19, 21, 23), X, step, zero, axis=1)
form("QuantizeLinear", (21, 23), X, step[0], output_dtype=3)
form("QuantizeLinear", (21, 23), X, np.tile(step[:, None], (2, 1, 2)), axis=2, block_size=2)
codes = RANDOM.integers(0, 256, (2, 3, 4)).astype(np.uint8)
form("DequantizeLinear", (10, 13, 19, 21, 23), codes, step[0], zero[0])
form("DequantizeLinear", (13, 19, 21, 23), codes, step, zero, axis=1)
form("DequantizeLinear", 23, codes, step[0], zero[0], output_dtype=10)
for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    w, r = (RANDOM.uniform(-1, 1, (1, gates * 2, n)).astype(np.float32) for n in (4, 2))
    count = 3 if op == "LSTM" else 2
    form(op, (7, 14, 22), X, w, r, hidden_size=2, outputs=count)
    later = expected_of(FORMS[-1].case)
    form(op, (1, 3) if op == "GRU" else 1, X, w, r, hidden_size=2, output_sequence=1, outputs=count, expected=later)
    form(op, (14, 22), X, w, r, hidden_size=2, layout=1, outputs=count)
for attributes, value in (
    ({"value_float": 0.5}, np.float32(0.5)), ({"value_floats": [0.5, 1.0]}, np.array([0.5, 1], np.float32)),
    ({"value_int": 3}, np.int64(3)), ({"value_ints": [3, 4]}, int64([3, 4])),
):  # fmt: skip
    form("Constant", (12, 13, 19), expected=value, **attributes)
