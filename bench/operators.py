"""One operator a model, at sizes and layouts that networks have: where a single layer would make a user leave.

Sizes are those of torchvision's, timm's and transformers' networks, of detectors and of audio front ends. A row's name
begins with its family. Weights are of a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from convolution_rows import conv, convolutions
from data_rows import data
from integer_rows import integers
from one_operator import FLOAT, HALF, INT64, Array, Row, Shape, one, weights


# ---------------------------------------------------------------- matrix products
def product(left: Shape, right: Shape, constant: bool, dtype: int = FLOAT) -> Callable[[], onnx.ModelProto]:
    if constant:
        return lambda: one("MatMul", {"a": left}, {"b": weights(*right)}, dtype=dtype)
    return lambda: one("MatMul", {"a": left, "b": right}, dtype=dtype)


def gemm(m: int, k: int, n: int, constant: bool, left: int = 0, right: int = 1) -> Callable[[], onnx.ModelProto]:
    a, b = (k, m) if left else (m, k), (n, k) if right else (k, n)
    settings = {"transA": left, "transB": right}
    if constant:
        return lambda: one("Gemm", {"a": a}, {"b": weights(*b), "c": weights(n)}, **settings)
    return lambda: one("Gemm", {"a": a, "b": b}, {"c": weights(n)}, **settings)


def einsum(equation: str, *shapes: Shape) -> Callable[[], onnx.ModelProto]:
    return lambda: one("Einsum", {f"x{n}": shape for n, shape in enumerate(shapes)}, equation=equation)


def products() -> list[Row]:
    rows = []
    for m, k, n in (
        (1, 1280, 1000), (1, 2048, 1000), (1, 4096, 4096), (1, 9216, 4096), (1, 784, 256), (1, 128, 10), (1, 768, 3072),
        (8, 512, 512), (16, 384, 384), (49, 768, 768), (128, 384, 1536), (128, 1536, 384), (128, 768, 2304),
        (197, 768, 3072), (197, 192, 576), (64, 256, 50257 // 8), (512, 64, 64), (3136, 96, 288), (784, 192, 768),
        (1, 40, 3), (100, 13, 7),
    ):  # fmt: skip
        rows.append(Row(f"matmul-{m}-{k}-{n}", product((m, k), (k, n), constant=True)))
    for m, k, n, left, right in (
        (1, 1280, 1000, 0, 1),
        (32, 400, 120, 0, 1),
        (128, 768, 768, 0, 1),
        (64, 64, 64, 1, 0),
    ):
        rows.append(Row(f"gemm-{m}-{k}-{n}-t{left}{right}", gemm(m, k, n, True, left, right)))
    for m, k, n, left, right in (
        (128, 768, 768, 0, 0),
        (128, 768, 768, 0, 1),
        (256, 256, 256, 1, 0),
        (256, 256, 256, 1, 1),
    ):
        rows.append(Row(f"gemm-open-{m}-{k}-{n}-t{left}{right}", gemm(m, k, n, False, left, right)))
    for a, b in (
        ((12, 128, 64), (12, 64, 128)), ((12, 128, 128), (12, 128, 64)), ((3, 197, 64), (3, 64, 197)),
        ((12, 197, 197), (12, 197, 64)), ((64, 3, 49, 32), (64, 3, 32, 49)), ((8, 1, 64), (8, 64, 512)),
        ((12, 1, 512), (12, 512, 64)), ((512, 512), (512, 512)), ((1, 4096), (4096, 512)),
    ):  # fmt: skip
        name = "-".join(map(str, (*a, b[-1])))
        rows.append(Row(f"attention-{name}", product(a, b, constant=False)))
    for name, equation, shapes in (
        ("scores", "bhid,bhjd->bhij", ((1, 12, 128, 64), (1, 12, 128, 64))),
        ("heads-inside", "bihd,bjhd->bhij", ((1, 128, 12, 64), (1, 128, 12, 64))),
        ("values", "bhij,bjhd->bihd", ((1, 12, 128, 128), (1, 128, 12, 64))),
        ("graph", "nctv,nvw->nctw", ((1, 64, 75, 25), (1, 25, 25))),
        ("outer", "i,j->ij", ((512,), (512,))),
    ):
        rows.append(Row(f"einsum-{name}", einsum(equation, *shapes)))
    return rows


# ---------------------------------------------------------------- element by element
def elementwise() -> list[Row]:
    rows = []
    image, tokens = (1, 64, 56, 56), (1, 128, 768)
    for op in (
        "Relu",
        "Sigmoid",
        "Tanh",
        "Exp",
        "Erf",
        "HardSwish",
        "Softplus",
        "Sqrt",
        "Abs",
        "Floor",
        "Neg",
        "Log",
        "Sin",
    ):
        rows.append(Row(f"unary-{op}", lambda op=op: one(op, {"x": image})))
    for op in ("Gelu", "Elu", "LeakyRelu", "HardSigmoid", "Mish"):
        rows.append(Row(f"unary-{op}", lambda op=op: one(op, {"x": tokens})))
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Pow"):
        rows.append(Row(f"binary-{op}", lambda op=op: one(op, {"a": image, "b": image})))
    for name, other in (
        ("channel", (1, 64, 1, 1)),
        ("row", (1, 1, 1, 56)),
        ("pixel", (1, 1, 56, 56)),
        ("scalar", (1,)),
    ):
        rows.append(Row(f"broadcast-{name}", lambda other=other: one("Mul", {"a": image, "b": other})))
    rows += [
        Row("broadcast-outer", lambda: one("Add", {"a": (512, 1), "b": (1, 512)})),
        Row("broadcast-bias", lambda: one("Add", {"a": tokens}, {"b": weights(768)})),
        Row("select-where", lambda: one("Where", {"c": (tokens, onnx.TensorProto.BOOL), "a": tokens, "b": tokens})),
        Row("select-clip", lambda: one("Clip", {"x": image}, {"lo": np.float32(0), "hi": np.float32(6)})),
        Row("select-prelu", lambda: one("PRelu", {"x": image}, {"slope": weights(64, 1, 1)})),
        Row("select-greater", lambda: one("Greater", {"a": tokens, "b": tokens})),
        Row("cast-half", lambda: one("Cast", {"x": tokens}, to=HALF)),
        Row("cast-integer", lambda: one("Cast", {"x": tokens}, to=onnx.TensorProto.INT32)),
        Row("cast-from-long", lambda: one("Cast", {"input_ids": (tokens, INT64)}, to=FLOAT)),
    ]
    return rows


# ---------------------------------------------------------------- reductions and normalizations
def reduced(op: str, shape: Shape, axes: Sequence[int], keep: int = 1) -> Callable[[], onnx.ModelProto]:
    return lambda: one(op, {"x": shape}, {"axes": np.array(axes, np.int64)}, keepdims=keep)


def reductions() -> list[Row]:
    rows = []
    for op, shape, axes in (
        ("ReduceMean", (1, 1280, 7, 7), (2, 3)), ("ReduceMean", (1, 256, 28, 28), (1,)), ("ReduceMean", (1, 128, 768), (2,)),
        ("ReduceMean", (1, 128, 768), (1,)), ("ReduceSum", (256, 1000), (1,)), ("ReduceSum", (1000, 256), (0,)),
        ("ReduceMax", (1, 64, 56, 56), (2, 3)), ("ReduceMax", (1, 64, 56, 56), (1,)), ("ReduceMin", (64, 1000), (1,)),
        ("ReduceL2", (1, 128, 512), (2,)), ("ReduceProd", (64, 100), (1,)), ("ReduceLogSumExp", (64, 1000), (1,)),
        ("ReduceSumSquare", (1, 64, 56, 56), (2, 3)), ("ReduceSum", (1, 64, 56, 56), (0, 1, 2, 3)),
    ):  # fmt: skip
        name = "-".join((op, "x".join(map(str, shape)), "".join(map(str, axes))))
        rows.append(Row(f"reduce-{name}", reduced(op, shape, axes)))
    for shape, axis in (((1, 1000), 1), ((1, 21, 64, 64), 1), ((64, 1000), 1), ((1, 128, 30522 // 8), 2)):
        name = "x".join(map(str, shape))
        rows.append(Row(f"argmax-{name}-{axis}", lambda shape=shape, axis=axis: one("ArgMax", {"x": shape}, axis=axis)))
    for shape, axis in (
        ((1, 1000), -1), ((12, 128, 128), -1), ((128, 1000), -1), ((1, 21, 64, 64), 1), ((1, 4, 16, 8400), 2),
        ((3, 197, 197), -1), ((64, 10), -1), ((8, 1, 512), -1),
    ):  # fmt: skip
        name = "x".join(map(str, shape))
        rows.append(
            Row(f"softmax-{name}-{axis}", lambda shape=shape, axis=axis: one("Softmax", {"x": shape}, axis=axis))
        )
    rows.append(Row("softmax-log", lambda: one("LogSoftmax", {"x": (128, 1000)}, axis=-1)))
    for shape in ((1, 128, 384), (1, 197, 768), (1, 3136, 96), (1, 50, 1024), (1, 1, 4096)):
        constants = {"s": weights(shape[-1]), "b": weights(shape[-1], seed=1)}
        name = "x".join(map(str, shape))
        rows.append(Row(
            f"norm-layer-{name}", lambda shape=shape, constants=constants: one("LayerNormalization", {"x": shape}, constants)
        ))  # fmt: skip
    for shape in ((1, 64, 56, 56), (1, 256, 14, 14), (1, 40, 98)):
        constants = {"s": weights(shape[1]), "b": weights(shape[1], seed=1)}
        name = "x".join(map(str, shape))
        rows.append(Row(
            f"norm-instance-{name}",
            lambda shape=shape, constants=constants: one("InstanceNormalization", {"x": shape}, constants),
        ))  # fmt: skip
        rows.append(Row(
            f"norm-group-{name}",
            lambda shape=shape, constants=constants: one("GroupNormalization", {"x": shape}, constants, num_groups=8),
        ))  # fmt: skip
        batch = {**constants, "m": weights(shape[1], seed=2), "v": np.abs(weights(shape[1], seed=3)) + 1}
        rows.append(Row(
            f"norm-batch-{name}", lambda shape=shape, batch=batch: one("BatchNormalization", {"x": shape}, batch)
        ))  # fmt: skip
    rows.append(Row("norm-lp", lambda: one("LpNormalization", {"x": (64, 512)}, axis=1)))
    rows.append(Row("norm-lrn", lambda: one("LRN", {"x": (1, 64, 55, 55)}, size=5)))
    return rows


# ---------------------------------------------------------------- windows and sizes
def pooled(op: str, channels: int, size: int, kernel: int, stride: int, pad: int = 0) -> Callable[[], onnx.ModelProto]:
    settings = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    return lambda: one(op, {"x": (1, channels, size, size)}, **settings)


def resized(channels: int, size: int, scale: float, mode: str, **settings: Any) -> Callable[[], onnx.ModelProto]:
    constants = {"scales": np.array([1, 1, scale, scale], np.float32)}
    return lambda: one(
        "Resize", {"x": (1, channels, size, size)}, constants, order=("x", "", "scales"), mode=mode, **settings
    )


def windows() -> list[Row]:
    rows = []
    for op, channels, size, kernel, stride, pad in (
        ("MaxPool", 64, 112, 3, 2, 1), ("MaxPool", 64, 56, 2, 2, 0), ("MaxPool", 256, 20, 5, 1, 2), ("MaxPool", 64, 55, 3, 2, 0),
        ("MaxPool", 128, 40, 9, 1, 4), ("MaxPool", 6, 28, 2, 2, 0), ("AveragePool", 64, 56, 3, 1, 1),
        ("AveragePool", 128, 28, 2, 2, 0), ("AveragePool", 192, 35, 3, 1, 1), ("AveragePool", 64, 8, 8, 1, 0),
    ):  # fmt: skip
        rows.append(
            Row(
                f"pool-{op}-{kernel}x{kernel}-{channels}-{size}-s{stride}",
                pooled(op, channels, size, kernel, stride, pad),
            )
        )
    for channels, size in ((1280, 7), (512, 7), (256, 28), (64, 56)):
        shape = (1, channels, size, size)
        rows.append(
            Row(f"pool-global-average-{channels}-{size}", lambda shape=shape: one("GlobalAveragePool", {"x": shape}))
        )
    rows.append(Row("pool-global-max-512-7", lambda: one("GlobalMaxPool", {"x": (1, 512, 7, 7)})))
    floor = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    rows += [
        Row("resize-nearest-64-28", resized(64, 28, 2, "nearest", **floor)),
        Row("resize-nearest-256-13", resized(256, 13, 2, "nearest", **floor)),
        Row("resize-linear-64-28", resized(64, 28, 2, "linear")),
        Row("resize-linear-256-14", resized(256, 14, 2, "linear", coordinate_transformation_mode="align_corners")),
        Row("resize-linear-21-33-x8", resized(21, 33, 8, "linear")),
        Row("resize-linear-3-224-half", resized(3, 224, 0.5, "linear")),
        Row("resize-cubic-3-64", resized(3, 64, 2, "cubic")),
        Row("grid-32-64", lambda: one("GridSample", {"x": (1, 32, 64, 64), "g": (1, 64, 64, 2)})),
        Row(
            "grid-256-32-nearest",
            lambda: one("GridSample", {"x": (1, 256, 32, 32), "g": (1, 32, 32, 2)}, mode="nearest"),
        ),
        Row("grid-1-128", lambda: one("GridSample", {"x": (1, 1, 128, 128), "g": (1, 128, 128, 2)})),
        Row("grid-3-128", lambda: one("GridSample", {"x": (1, 3, 128, 128), "g": (1, 128, 128, 2)})),
        Row("grid-8-100", lambda: one("GridSample", {"x": (8, 32, 100, 100), "g": (8, 300, 4, 2)})),
    ]
    return rows


# ---------------------------------------------------------------- movement
def movement() -> list[Row]:
    rows = []
    for shape, order in (
        ((512, 512), (1, 0)), ((100, 37), (1, 0)), ((1, 14, 14, 512), (0, 3, 1, 2)), ((1, 512, 14, 14), (0, 2, 3, 1)),
        ((1, 224, 224, 3), (0, 3, 1, 2)), ((1, 3, 224, 224), (0, 2, 3, 1)), ((1, 12, 128, 64), (0, 2, 1, 3)),
        ((1, 128, 12, 64), (0, 2, 3, 1)), ((1, 64, 2, 28, 28), (0, 2, 1, 3, 4)), ((1, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5)),
        ((5, 7, 9, 11), (3, 1, 0, 2)), ((1, 16, 5776), (0, 2, 1)),
    ):  # fmt: skip
        name = "x".join(map(str, shape)) + "-" + "".join(map(str, order))
        rows.append(
            Row(f"transpose-{name}", lambda shape=shape, order=order: one("Transpose", {"x": shape}, perm=order))
        )
    for a, b, axis in (
        ((1, 64, 28, 28), (1, 64, 28, 28), 1), ((1, 58, 28, 28), (1, 58, 28, 28), 1), ((1, 128, 768), (1, 1, 768), 1),
        ((1, 128, 300), (1, 128, 212), 2), ((1, 12, 511, 64), (1, 12, 1, 64), 2),
    ):  # fmt: skip
        name = "x".join(map(str, a))
        rows.append(
            Row(f"concat-{name}-{axis}", lambda a=a, b=b, axis=axis: one("Concat", {"a": a, "b": b}, axis=axis))
        )

    def sliced(shape: Shape, starts: Shape, ends: Shape, axes: Shape, steps: Shape) -> onnx.ModelProto:
        named = zip(("starts", "ends", "axes", "steps"), (starts, ends, axes, steps), strict=True)
        return one("Slice", {"x": shape}, {name: np.array(value, np.int64) for name, value in named})

    def padded(shape: Shape, pads: Shape, mode: str) -> onnx.ModelProto:
        return one("Pad", {"x": shape}, {"pads": np.array(pads, np.int64)}, mode=mode)

    rows += [
        Row("slice-every-other", lambda: sliced((1, 12, 320, 320), (0, 0), (320, 320), (2, 3), (2, 2))),
        Row("slice-channels", lambda: sliced((1, 116, 28, 28), (58,), (116,), (1,), (1,))),
        Row("slice-last", lambda: sliced((1, 128, 768), (0,), (256,), (2,), (1,))),
        Row("slice-reversed", lambda: sliced((64, 1000), (-1,), (-(1 << 31),), (1,), (-1,))),
        Row("split-3", lambda: one("Split", {"x": (1, 128, 2304)}, results=3, axis=2, num_outputs=3)),
        Row("pad-constant", lambda: padded((1, 64, 56, 56), (0, 0, 1, 1, 0, 0, 1, 1), "constant")),
        Row("pad-reflect", lambda: padded((1, 3, 224, 224), (0, 0, 3, 3, 0, 0, 3, 3), "reflect")),
        Row("depth-to-space", lambda: one("DepthToSpace", {"x": (1, 64, 32, 32)}, blocksize=2)),
        Row("space-to-depth", lambda: one("SpaceToDepth", {"x": (1, 16, 64, 64)}, blocksize=2)),
        Row("tile-rows", lambda: one("Tile", {"x": (1, 64, 1, 28)}, {"n": np.array((1, 1, 28, 1), np.int64)})),
        Row("expand-rows", lambda: one("Expand", {"x": (1, 64, 1, 1)}, {"n": np.array((1, 64, 28, 28), np.int64)})),
        Row("gather-words", lambda: one("Gather", {"input_ids": ((1, 128), INT64)}, {"w": weights(1000, 384)}, order=("w", "input_ids"))),
        Row("gather-columns", lambda: one("Gather", {"x": (64, 1000)}, {"i": np.arange(999, 0, -3)}, axis=1)),
        Row("gather-elements", lambda: one("GatherElements", {"x": (64, 1000)}, {"i": np.arange(64 * 100).reshape(64, 100) % 997}, axis=1)),
        Row("scatter-nd", lambda: one("ScatterND", {"x": (1000, 64)}, {"i": np.arange(100)[:, None] * 7, "u": weights(100, 64)})),
    ]  # fmt: skip
    return rows


# ---------------------------------------------------------------- choice and order
def boxes(count: int) -> Array:
    """Corners of boxes, many of which overlap."""
    random = np.random.default_rng(5)
    corners = random.uniform(0, 100, (1, count, 2))
    sizes = random.uniform(5, 40, (1, count, 2))
    return np.concatenate([corners, corners + sizes], 2).astype(np.float32)


def choice() -> list[Row]:
    rows = []
    for shape, count in (
        ((1, 1000), 5),
        ((16, 1000), 10),
        ((1, 8400), 100),
        ((1, 21824), 1000),
        ((1, 4000), 4000),
        ((64, 50), 3),
    ):
        name = "x".join(map(str, shape))
        constants = {"k": np.array([count], np.int64)}
        rows.append(
            Row(
                f"topk-{count}-of-{name}",
                lambda shape=shape, constants=constants: one("TopK", {"x": shape}, constants, results=2),
            )
        )
    for shape, axis in (((64, 1000), 1), ((1000, 64), 0), ((1, 16000), 1), ((1, 128, 768), 1)):
        name = "x".join(map(str, shape))
        rows.append(
            Row(
                f"cumsum-{name}-{axis}",
                lambda shape=shape, axis=axis: one("CumSum", {"x": shape}, {"axis": np.array(axis)}),
            )
        )
    for count in (300, 2000):
        place = boxes(count)
        limits = {"most": np.array([100]), "overlap": np.array([0.5], np.float32), "least": np.array([0.2], np.float32)}
        rows.append(Row(
            f"nms-{count}",
            lambda count=count, place=place, limits=limits: one(
                "NonMaxSuppression", {"s": (1, 1, count)}, {"b": place, **limits},
                order=("b", "s", "most", "overlap", "least"),
            ),
        ))  # fmt: skip
    rows.append(Row("nonzero-64x1000", lambda: one("NonZero", {"x": (64, 1000)})))
    return rows


# ---------------------------------------------------------------- recurrences, trees, half
def recurrent(op: str, gates: int, steps: int, inputs: int, hidden: int) -> Callable[[], onnx.ModelProto]:
    constants = {
        "w": weights(1, gates * hidden, inputs) * inputs**0.5 / 8, "r": weights(1, gates * hidden, hidden),
        "b": weights(1, 2 * gates * hidden),
    }  # fmt: skip
    return lambda: one(op, {"x": (steps, 1, inputs)}, constants, hidden_size=hidden)


def forest(trees: int, depth: int, features: int, rows: int) -> onnx.ModelProto:
    """Complete trees with random thresholds."""
    random = np.random.default_rng(7)
    inner, total = 2**depth - 1, 2 ** (depth + 1) - 1
    every = trees * total
    within = np.tile(np.arange(total), trees)
    leaf = within >= inner
    attributes = {
        "nodes_treeids": np.repeat(np.arange(trees), total), "nodes_nodeids": within,
        "nodes_featureids": np.where(leaf, 0, random.integers(0, features, every)),
        "nodes_truenodeids": np.where(leaf, 0, 2 * within + 1), "nodes_falsenodeids": np.where(leaf, 0, 2 * within + 2),
        "target_treeids": np.repeat(np.arange(trees), inner + 1), "target_nodeids": within[leaf],
        "target_ids": np.zeros(trees * (inner + 1), np.int64),
    }  # fmt: skip
    thresholds = np.where(leaf, 0, random.standard_normal(every))
    settings: dict[str, Any] = {name: value.tolist() for name, value in attributes.items()}
    settings["nodes_modes"] = ["LEAF" if each else "BRANCH_LEQ" for each in leaf]
    settings["nodes_values"] = thresholds.astype(np.float32).tolist()
    settings["target_weights"] = random.standard_normal(trees * (inner + 1)).astype(np.float32).tolist()
    return one("TreeEnsembleRegressor", {"x": (rows, features)}, domain="ai.onnx.ml", n_targets=1, **settings)


def others() -> list[Row]:
    rows = [
        Row("lstm-49-40-128", recurrent("LSTM", 4, 49, 40, 128)),
        Row("lstm-100-64-32", recurrent("LSTM", 4, 100, 64, 32)),
        Row("lstm-1-256-512", recurrent("LSTM", 4, 1, 256, 512)),
        Row("gru-49-40-128", recurrent("GRU", 3, 49, 40, 128)),
        Row("gru-200-16-48", recurrent("GRU", 3, 200, 16, 48)),
        Row("rnn-50-64-64", recurrent("RNN", 1, 50, 64, 64)),
    ]
    for trees, depth, features, count in ((100, 6, 30, 1), (500, 4, 20, 1), (30, 10, 64, 1), (100, 6, 30, 64)):
        name = f"trees-{trees}-deep{depth}-rows{count}"
        rows.append(Row(name, lambda sizes=(trees, depth, features, count): forest(*sizes)))
    rows += [
        Row("half-conv-3x3-64-64-56", conv(64, 64, 56, 3, dtype=HALF)),
        Row("half-conv-1x1-144-32-28", conv(144, 32, 28, 1, dtype=HALF)),
        Row("half-depthwise-3x3-144-56", conv(144, 144, 56, 3, groups=144, dtype=HALF)),
        Row("half-matmul-128-384-1536", product((128, 384), (384, 1536), constant=True, dtype=HALF)),
        Row("half-matmul-1-1280-1000", product((1, 1280), (1280, 1000), constant=True, dtype=HALF)),
        Row("half-attention-12-128-64-128", product((12, 128, 64), (12, 64, 128), constant=False, dtype=HALF)),
        Row("half-softmax-12x128x128", lambda: one("Softmax", {"x": (12, 128, 128)}, axis=-1, dtype=HALF)),
        Row("half-add-1x64x56x56", lambda: one("Add", {"a": (1, 64, 56, 56), "b": (1, 64, 56, 56)}, dtype=HALF)),
        Row("half-sigmoid-1x64x56x56", lambda: one("Sigmoid", {"x": (1, 64, 56, 56)}, dtype=HALF)),
        Row("half-norm-layer-1x128x384", lambda: one(
            "LayerNormalization", {"x": (1, 128, 384)}, {"s": weights(384), "b": weights(384, seed=1)}, dtype=HALF
        )),
    ]  # fmt: skip
    return rows


OPERATORS: dict[str, Row] = {
    row.name: row
    for row in (
        *convolutions(), *products(), *elementwise(), *reductions(), *windows(), *movement(), *choice(), *data(), *others(),
        *integers(),
    )
}  # fmt: skip


def families() -> dict[str, list[str]]:
    """Names of rows by family."""
    found: dict[str, list[str]] = {}
    for row in OPERATORS.values():
        found.setdefault(row.family, []).append(row.name)
    return found


def write(name: str, target: Path) -> None:
    """Writes the model of a row."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    partial.write_bytes(OPERATORS[name].make().SerializeToString())
    partial.replace(target)
