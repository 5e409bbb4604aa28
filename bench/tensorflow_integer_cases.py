"""Operators of TensorFlow with scales and zero points, ragged tensors, and pictures of integers; cases as those of
`tensorflow_cases`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.util.quantization import uniform_quant_ops_attr_pb2

R = tf.raw_ops
DRAWN = np.random.default_rng(3)
LEAST, MOST = -(2**31), 2**31 - 1


def floats(*shape: int) -> np.ndarray:
    return DRAWN.normal(size=shape).astype(np.float32)


def whole(low: int, high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
    return DRAWN.integers(low, high, shape).astype(dtype)


def real(*values: float) -> Any:
    return tf.constant(values[0] if len(values) == 1 else values, tf.float32)


def integer(*values: int) -> Any:
    return tf.constant(values[0] if len(values) == 1 else values, tf.int32)


def bounds(**bits: int) -> dict[str, int]:
    """The attributes of the least and the greatest of operands and results, by their bits."""
    return {
        f"{name}_quantization_{end}_val": (-(1 << (n - 1)) if end == "min" else (1 << (n - 1)) - 1)
        for name, n in bits.items()
        for end in ("min", "max")
    }


WEIGHTS = whole(-128, 128, 6, 3, dtype=np.int8)
KERNEL = whole(-128, 128, 3, 2, 3, 3, dtype=np.int8)
NHWC = uniform_quant_ops_attr_pb2.UniformQuantizedConvolutionDimensionNumbersAttr(
    input_batch_dimension=0, input_feature_dimension=3, input_spatial_dimensions=[1, 2],
    kernel_input_feature_dimension=2, kernel_output_feature_dimension=3, kernel_spatial_dimensions=[0, 1],
    output_batch_dimension=0, output_feature_dimension=3, output_spatial_dimensions=[1, 2],
).SerializeToString()  # fmt: skip
ONE, EACH = (real(0.03), integer(2)), (real(0.03, 0.01, 0.2), integer(0, 0, 0))
RESULTS = {-1: (real(0.01), integer(-5)), 1: (real(0.001, 0.02, 0.01), integer(1, 2, 3))}


def right(each: bool, axis: int) -> dict[str, Any]:
    scales, zeros = EACH if each else ONE
    return {
        "rhs_scales": scales, "rhs_zero_points": zeros, "rhs_quantization_axis": axis if each else -1,
        **bounds(rhs=8),
    }  # fmt: skip


def scaled(axis: int, at: int) -> dict[str, Any]:
    """What says the left operand and the result."""
    scales, zeros = RESULTS[axis]
    return {
        "lhs_scales": real(0.05), "lhs_zero_points": integer(-3), "output_scales": scales, "output_zero_points": zeros,
        "output_quantization_axis": at if axis >= 0 else -1, "Tout": tf.qint32, **bounds(lhs=8, output=32),
    }  # fmt: skip


def dot(x: Any, each: bool, axis: int) -> Any:
    w = tf.bitcast(tf.constant(WEIGHTS), tf.qint8)
    made = R.UniformQuantizedDot(lhs=tf.bitcast(x, tf.qint8), rhs=w, **right(each, 1), **scaled(axis, 1))
    return tf.bitcast(made, tf.int32)


def hybrid_dot(x: Any, each: bool) -> Any:
    w = tf.bitcast(tf.constant(WEIGHTS), tf.qint8)
    return R.UniformQuantizedDotHybrid(lhs=x, rhs=w, Tout=tf.float32, **right(each, 1))


def windows(padding: str, last: bool) -> dict[str, Any]:
    return {
        "padding": padding, "window_strides": [2, 1], "rhs_dilation": [1, 1],
        "explicit_padding": [1, 0, 2, 1] if padding == "EXPLICIT" else [], "dimension_numbers": NHWC if last else b"",
    }  # fmt: skip


def kernel(last: bool) -> Any:
    return tf.bitcast(tf.constant(KERNEL.transpose(2, 3, 1, 0) if last else KERNEL), tf.qint8)


def conv(x: Any, padding: str, last: bool, each: bool) -> Any:
    made = R.UniformQuantizedConvolution(
        lhs=tf.bitcast(x, tf.qint8), rhs=kernel(last), **right(each, 3 if last else 0),
        **scaled(1 if each else -1, 3 if last else 1), **windows(padding, last),
    )  # fmt: skip
    return tf.bitcast(made, tf.int32)


def hybrid_conv(x: Any, padding: str, last: bool, each: bool) -> Any:
    return R.UniformQuantizedConvolutionHybrid(
        lhs=x, rhs=kernel(last), Tout=tf.float32, **right(each, 3 if last else 0), **windows(padding, last)
    )


COLUMNS = real(0.1, 0.2, 0.3, 0.4, 0.5, 0.6), integer(0, 1, 2, 3, 4, 5)


def added(x: Any, y: Any, columns: bool) -> Any:
    a, b, c = (
        [COLUMNS] * 3 if columns else [(real(0.05), integer(3)), (real(0.02), integer(-8)), (real(0.03), integer(11))]
    )
    made = R.UniformQuantizedAdd(
        lhs=tf.bitcast(x, tf.qint32), rhs=tf.bitcast(y, tf.qint32), lhs_scales=a[0], lhs_zero_points=a[1],
        rhs_scales=b[0], rhs_zero_points=b[1], output_scales=c[0], output_zero_points=c[1],
        lhs_quantization_axis=1 if columns else -1, rhs_quantization_axis=0 if columns else -1,
        output_quantization_axis=1 if columns else -1, **bounds(lhs=32, rhs=32, output=32),
    )  # fmt: skip
    return tf.bitcast(made, tf.int32)


def clipped(x: Any, columns: bool) -> Any:
    low, high = (
        (integer(-500, *[-400] * 5), integer(700, 800, 9, 10, 2000, 5)) if columns else (integer(-500), integer(7))
    )
    made = R.UniformQuantizedClipByValue(
        operand=tf.bitcast(x, tf.qint32), min=tf.bitcast(low, tf.qint32), max=tf.bitcast(high, tf.qint32),
        scales=COLUMNS[0] if columns else real(0.1), zero_points=COLUMNS[1] if columns else integer(0),
        quantization_min_val=LEAST, quantization_max_val=MOST, quantization_axis=1 if columns else -1,
    )  # fmt: skip
    return tf.bitcast(made, tf.int32)


def requantized(x: Any, columns: bool) -> Any:
    scales, zeros = COLUMNS if columns else (real(0.01), integer(3))
    made = R.UniformRequantize(
        input=tf.bitcast(x, tf.qint32), input_scales=scales, input_zero_points=zeros, output_scales=real(0.5),
        output_zero_points=integer(-4), Tout=tf.qint8, input_quantization_axis=1 if columns else -1,
        **bounds(input=32, output=8),
    )  # fmt: skip
    return tf.bitcast(made, tf.int8)


def dense(values: Any, shape: list[int], parts: list[Any], kinds: list[str], default: Any = -1.0) -> Any:
    return R.RaggedTensorToTensor(
        shape=tf.constant(shape, tf.int64), values=values, default_value=tf.constant(default),
        row_partition_tensors=parts, row_partition_types=kinds,
    )  # fmt: skip


def gathered(values: Any) -> Any:
    made = R.RaggedGather(
        params_nested_splits=[tf.constant(SPLITS)], params_dense_values=values,
        indices=tf.constant([[2, 0], [3, 1]], tf.int64), OUTPUT_RAGGED_RANK=2,
    )  # fmt: skip
    return tf.concat([made[1], *(tf.cast(each, tf.float32) for each in made[0])], 0)


def resized(x: Any, corners: bool, half: bool) -> Any:
    made = R.QuantizedResizeBilinear(
        images=tf.bitcast(x, tf.quint8), size=integer(8, 7), min=real(-1.0), max=real(3.0), align_corners=corners,
        half_pixel_centers=half,
    )  # fmt: skip
    return tf.cast(tf.bitcast(made[0], tf.uint8), tf.int32)


VALUES, SPLITS = floats(7), np.array([0, 2, 2, 5, 7], np.int64)
IMAGE = whole(-128, 128, 2, 2, 7, 6, dtype=np.int8)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    **{
        f"uniform dot {each} {axis}": (
            lambda x, each=each, axis=axis: dot(x, each, axis), (whole(-128, 128, 4, 6, dtype=np.int8),)
        )
        for each, axis in ((False, -1), (True, -1), (True, 1))
    },
    **{f"uniform dot hybrid {each}": (lambda x, each=each: hybrid_dot(x, each), (floats(4, 6),)) for each in (0, 1)},
    **{
        f"uniform conv {padding} {last} {each}": (
            lambda x, p=padding, last=last, each=each: conv(x, p, last, each),
            (np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)) if last else IMAGE,),
        )
        for padding in ("SAME", "VALID", "EXPLICIT") for last in (False, True) for each in (False, True)
    },
    **{
        f"uniform conv hybrid {padding} {last} {each}": (
            lambda x, p=padding, last=last, each=each: hybrid_conv(x, p, last, each),
            (floats(2, 7, 6, 2) if last else floats(2, 2, 7, 6),),
        )
        for padding in ("SAME", "EXPLICIT") for last in (False, True) for each in (False, True)
    },
    "uniform add": (lambda x, y: added(x, y, False), (whole(-9000, 9000, 4, 6), whole(-9000, 9000, 4, 6))),
    "uniform add columns": (lambda x, y: added(x, y, True), (whole(-9000, 9000, 4, 6), whole(-9000, 9000, 6))),
    "uniform clip": (lambda x: clipped(x, False), (whole(-900, 900, 4, 6),)),
    "uniform clip columns": (lambda x: clipped(x, True), (whole(-900, 900, 4, 6),)),
    "uniform requantize": (lambda x: requantized(x, False), (whole(-9000, 9000, 4, 6),)),
    "uniform requantize columns": (lambda x: requantized(x, True), (whole(-900, 900, 4, 6),)),
    "ragged dense": (lambda v, s: dense(v, [4, 3], [s], ["ROW_SPLITS"]), (VALUES, SPLITS)),
    "ragged dense cut": (lambda v, s: dense(v, [-1, 2], [s], ["ROW_SPLITS"]), (VALUES, SPLITS)),
    "ragged dense rows": (
        lambda v, r: dense(
            v, [3, 4, 2], [tf.constant(5, tf.int64), r], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"], [-1.0, 7.0]
        ),
        (floats(7, 2), np.array([0, 0, 1, 3, 3, 3, 4], np.int64)),
    ),
    "ragged dense nested": (
        lambda v, s, u: dense(v, [2, 3, 3], [s, u], ["ROW_SPLITS", "ROW_SPLITS"]),
        (VALUES, np.array([0, 1, 4], np.int64), SPLITS),
    ),
    "ragged sparse": (
        lambda v, s, u: R.RaggedTensorToSparse(rt_nested_splits=[s, u], rt_dense_values=v)[0],
        (VALUES, np.array([0, 1, 4], np.int64), SPLITS),
    ),
    "ragged gather": (gathered, (VALUES,)),
    **{
        f"quantized resize {corners} {half}": (
            lambda x, corners=corners, half=half: resized(x, corners, half),
            (whole(0, 256, 2, 5, 4, 3, dtype=np.uint8),),
        )
        for corners, half in ((False, False), (True, False), (False, True))
    },
}  # fmt: skip
