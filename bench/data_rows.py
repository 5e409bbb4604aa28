"""What moves, chooses and reduces: along other axes, of other types and sizes than the rows of bench/operators.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from one_operator import INT64, Array, Row, Shape, one, weights

BOOL, INT8, INT32, UINT8 = (
    onnx.TensorProto.BOOL,
    onnx.TensorProto.INT8,
    onnx.TensorProto.INT32,
    onnx.TensorProto.UINT8,
)
Made = Callable[[], onnx.ModelProto]


def _along(op: str, shape: Shape, axis: int) -> Row:
    name = "-".join((op.lower().replace("logsoftmax", "softmax-log"), "x".join(map(str, shape)), str(axis)))
    return Row(name, lambda: one(op, {"x": shape}, axis=axis))


def across() -> list[Row]:
    """Along axes that do not lie side by side."""
    softmax = [
        ((1, 2, 256, 256), 1),
        ((1000, 64), 0),
        ((8, 10, 1000), 1),
        ((1, 3, 85, 400), 2),
        ((64, 49, 49), 2),
        ((1000, 28), 1),
    ]
    arguments = [((1000, 64), 0), ((16, 100, 33), 1), ((8400, 80), 1), ((10000, 3), 1), ((3584, 56), 1)]
    rows = [_along("Softmax", shape, axis) for shape, axis in softmax]
    rows.append(_along("LogSoftmax", (1, 21, 64, 64), 1))
    rows += [_along("ArgMax", shape, axis) for shape, axis in arguments]
    for shape, axis, settings in (
        ((1000, 64), 0, {"reverse": 1}),
        ((64, 1000), 1, {"exclusive": 1}),
        ((8, 100, 64), 1, {}),
    ):
        name = "-".join(("cumsum", "x".join(map(str, shape)), str(axis), *settings))
        rows.append(Row(
            name, lambda shape=shape, axis=axis, settings=settings: one(
                "CumSum", {"x": shape}, {"axis": np.array(axis)}, **settings
            ),
        ))  # fmt: skip
    for op in ("ReduceSum", "ReduceMax"):
        for shape, axis in (((128, 40, 50), 0), ((16, 100, 33), 1), ((10000, 3), 1), ((8400, 80), 1), ((1000, 24), 1)):
            rows.append(Row(
                f"reduce-{op}-{'x'.join(map(str, shape))}-{axis}",
                lambda op=op, shape=shape, axis=axis: one(op, {"x": shape}, {"axes": np.array([axis])}),
            ))  # fmt: skip
    return rows


def _padded(shape: Shape, before: Sequence[int], after: Sequence[int], mode: str) -> Made:
    return lambda: one("Pad", {"x": shape}, {"pads": np.array((*before, *after), np.int64)}, mode=mode)


def _resized(shape: Shape, sizes: Shape, mode: str, transform: str = "half_pixel") -> Made:
    return lambda: one(
        "Resize", {"x": shape}, {"sizes": np.array(sizes)}, order=("x", "", "", "sizes"), mode=mode,
        coordinate_transformation_mode=transform,
    )  # fmt: skip


def rearranged() -> list[Row]:
    """Padded, resized, cut and repeated."""
    box = {name: np.array(value) for name, value in (("starts", (16, 16)), ("ends", (208, 208)), ("axes", (1, 2)))}
    rows = [
        Row("pad-edge-64-56", _padded((1, 64, 56, 56), (0, 0, 1, 1), (0, 0, 1, 1), "edge")),
        Row("pad-reflect-64-56", _padded((1, 64, 56, 56), (0, 0, 1, 1), (0, 0, 1, 1), "reflect")),
        Row("pad-reflect-16000", _padded((1, 1, 16000), (0, 0, 200), (0, 0, 200), "reflect")),
        Row("slice-bytes-224", lambda: one("Slice", {"x": ((1, 224, 224, 3), UINT8)}, box)),
        Row("tile-columns", lambda: one("Tile", {"x": (64, 100)}, {"n": np.array((1, 3))})),
        Row("space-to-depth-3-320", lambda: one("SpaceToDepth", {"x": (1, 3, 320, 320)}, blocksize=2)),
        Row("space-to-depth-3-224-by-7", lambda: one("SpaceToDepth", {"x": (1, 3, 224, 224)}, blocksize=7)),
        Row("resize-linear-64-28-corners", _resized((1, 64, 28, 28), (1, 64, 56, 56), "linear", "align_corners")),
        Row("resize-linear-128-20-33", _resized((1, 128, 20, 20), (1, 128, 33, 33), "linear")),
        Row("resize-linear-21-33-264", _resized((1, 21, 33, 33), (1, 21, 264, 264), "linear", "align_corners")),
        Row("resize-linear-16-8x16x16", _resized((1, 16, 8, 16, 16), (1, 16, 16, 32, 32), "linear")),
        Row("resize-cubic-384-14-16", _resized((1, 384, 14, 14), (1, 384, 16, 16), "cubic")),
        Row("resize-cubic-16-32-corners", _resized((1, 16, 32, 32), (1, 16, 64, 64), "cubic", "align_corners")),
    ]
    for shape, order in (((40, 50, 60), (1, 2, 0)), ((1, 84, 8400), (0, 2, 1)), ((1, 197, 3, 12, 64), (2, 0, 3, 1, 4))):
        name = "x".join(map(str, shape)) + "-" + "".join(map(str, order))
        rows.append(
            Row(f"transpose-{name}", lambda shape=shape, order=order: one("Transpose", {"x": shape}, perm=order))
        )
    return rows


def _regions(count: int) -> Array:
    """Corners of regions of an image of 224 x 224 pixels."""
    random = np.random.default_rng(0)
    low, high = random.uniform(0, 100, (count, 2)), random.uniform(100, 220, (count, 2))
    return np.concatenate([low, high], 1).astype(np.float32)


def chosen() -> list[Row]:
    """Chosen by position and by value."""
    random = np.random.default_rng(0)
    regions, images = _regions(100), np.zeros(100, np.int64)
    align = {"output_height": 7, "output_width": 7, "spatial_scale": 0.25}
    pooled = np.concatenate([np.zeros((100, 1), np.float32), regions], 1)
    scattered = {"i": random.permutation(1000)[:100, None] * np.ones((1, 64), np.int64), "u": weights(100, 64)}
    kept, points = random.random(1000) < 0.3, random.integers(0, 200, (1000, 2))
    classes = {"d": np.array([1000]), "v": np.array([0, 1], np.float32)}

    def aligned(shape: Shape, samples: int) -> Made:
        return lambda: one("RoiAlign", {"x": shape}, {"r": regions, "b": images}, sampling_ratio=samples, **align)

    def added(reduction: str) -> Made:
        return lambda: one("ScatterElements", {"x": (1000, 64)}, scattered, axis=0, reduction=reduction)

    rows = [
        Row("region-align-64", aligned((1, 64, 56, 56), 2)),
        Row("region-align-256-adaptive", aligned((1, 256, 50, 50), 0)),
        Row("region-pool-64", lambda: one(
            "MaxRoiPool", {"x": (1, 64, 56, 56)}, {"r": pooled}, pooled_shape=[7, 7], spatial_scale=0.25
        )),
        Row("compress-rows", lambda: one("Compress", {"x": (1000, 64)}, {"c": kept}, axis=0)),
        Row("compress-elements", lambda: one("Compress", {"x": (64, 1000), "c": ((64000,), BOOL)})),
        Row("unique-1000", lambda: one("Unique", {"x": ((1000,), INT64)}, results=4)),
        Row("onehot-1000", lambda: one("OneHot", {"input_ids": ((64,), INT64)}, classes)),
        Row("trilu-512", lambda: one("Trilu", {"x": (1, 512, 512)}, {"k": np.array(1)})),
        Row("gather-points", lambda: one("GatherND", {"x": (200, 300)}, {"i": points})),
        Row("scatter-elements", added("none")),
        Row("scatter-elements-add", added("add")),
    ]  # fmt: skip
    for shape, count in (((1000, 10), 1), ((64, 200), 5), ((1, 24000), 300), ((64, 100), 16)):
        name = "x".join(map(str, shape))
        rows.append(Row(
            f"topk-{count}-of-{name}",
            lambda shape=shape, count=count: one("TopK", {"x": shape}, {"k": np.array([count])}, results=2),
        ))  # fmt: skip
    return rows


def quantized() -> list[Row]:
    scale, shape = np.float32(0.02), (1, 64, 56, 56)
    whole = {"s": scale, "z": np.uint8(128)}
    channels = {"s": np.abs(weights(64)) + np.float32(0.01), "z": np.zeros(64, np.int8)}
    return [
        Row("quantize-bytes", lambda: one("QuantizeLinear", {"x": shape}, whole)),
        Row("quantize-channels", lambda: one("QuantizeLinear", {"x": shape}, channels, axis=1)),
        Row("dequantize-bytes", lambda: one("DequantizeLinear", {"x": (shape, UINT8)}, whole)),
        Row("dequantize-channels", lambda: one("DequantizeLinear", {"x": (shape, INT8)}, channels, axis=1)),
        Row("dequantize-sums", lambda: one("DequantizeLinear", {"x": ((1, 128, 768), INT32)}, {"s": scale})),
    ]


def data() -> list[Row]:
    return [*across(), *rearranged(), *chosen(), *quantized()]
