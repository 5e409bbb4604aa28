"""Operators of TensorFlow that older graphs and `tf.raw_ops` have: quantized ones, special functions, projections,
complex numbers; cases as those of `tensorflow_cases`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

R = tf.raw_ops
DRAWN = np.random.default_rng(11)


def f(*shape: int) -> np.ndarray:
    return DRAWN.normal(size=shape).astype(np.float32)


def within(low: float, high: float, *shape: int) -> np.ndarray:
    return DRAWN.uniform(low, high, shape).astype(np.float32)


KERNEL, WEIGHTS = f(3, 3, 2, 4), f(5, 4)
TURN = np.array([[0.913, 0.217, -0.631, -0.309, 1.127, 0.419, 0.01, -0.02]], np.float32)
SQUARE = f(2, 4, 4)
MATRIX = (SQUARE @ SQUARE.swapaxes(-1, -2) + 3 * np.eye(4)).astype(np.float32)
BANDS = within(1.0, 2.0, 2, 3, 5)


def quantized(x: Any, dtype: Any = tf.quint8, mode: str = "MIN_FIRST") -> Any:
    return R.QuantizeV2(
        input=x, min_range=tf.reduce_min(x), max_range=tf.reduce_max(x), T=dtype, mode=mode
    )  # fmt: skip


def numbers(q: Any, mode: str = "MIN_FIRST") -> Any:
    return R.Dequantize(input=q[0], min_range=q[1], max_range=q[2], mode=mode)


def narrowed(q: Any) -> Any:
    """32 bits as 8 bits of the range that there is, as quantized graphs of 2016 have them."""
    low, high = R.RequantizationRange(input=q[0], input_min=q[1], input_max=q[2])
    return R.Requantize(
        input=q[0], input_min=q[1], input_max=q[2], requested_output_min=low, requested_output_max=high,
        out_type=tf.quint8,
    )  # fmt: skip


def convolved(x: Any, strides: int = 1) -> Any:
    a, b = quantized(x), quantized(tf.constant(KERNEL))
    return R.QuantizedConv2D(
        input=a[0], filter=b[0], min_input=a[1], max_input=a[2], min_filter=b[1], max_filter=b[2],
        strides=[1, strides, strides, 1], padding="SAME",
    )  # fmt: skip


def multiplied(x: Any) -> Any:
    a, b = quantized(x), quantized(tf.constant(WEIGHTS))
    return R.QuantizedMatMul(a=a[0], b=b[0], min_a=a[1], max_a=a[2], min_b=b[1], max_b=b[2])


def both(op: Any, x: Any, y: Any, names: tuple[str, str] = ("x", "y")) -> Any:
    a, b = quantized(x), quantized(y)
    ranges = {
        f"{end}_{name}": q[n] for name, q in zip(names, (a, b), strict=True) for n, end in ((1, "min"), (2, "max"))
    }
    return op(**{names[0]: a[0], names[1]: b[0]}, **ranges)


def relu(op: Any, x: Any, **more: Any) -> Any:
    q = quantized(x)
    return numbers(op(features=q[0], min_features=q[1], max_features=q[2], **more))


def pooled(op: Any, x: Any) -> Any:
    q = quantized(x)
    return numbers(
        op(input=q[0], min_input=q[1], max_input=q[2], ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    )


def joined(x: Any, y: Any) -> Any:
    a, b = quantized(x), quantized(y)
    made = R.QuantizedConcat(
        concat_dim=1, values=[a[0], b[0]], input_mins=[a[1], b[1]], input_maxes=[a[2], b[2]]
    )  # fmt: skip
    return numbers(made)


def biased(x: Any) -> Any:
    a, b = quantized(x), quantized(tf.constant(WEIGHTS[0]))
    return numbers(narrowed(R.QuantizedBiasAdd(
        input=a[0], bias=b[0], min_input=a[1], max_input=a[2], min_bias=b[1], max_bias=b[2], out_type=tf.qint32
    )))  # fmt: skip


def shrunk(x: Any) -> Any:
    q = multiplied(x)
    return numbers(R.QuantizeDownAndShrinkRange(input=q[0], input_min=q[1], input_max=q[2], out_type=tf.quint8))


def of_both(x: Any) -> Any:
    return tf.stack([tf.math.real(x), tf.math.imag(x)])


def projected(x: Any, mode: str, way: str) -> Any:
    return R.ImageProjectiveTransformV3(
        images=x, transforms=TURN, output_shape=[6, 9], fill_value=0.5, interpolation=way, fill_mode=mode
    )


def searched(x: Any, what: int) -> Any:
    made = R.CTCBeamSearchDecoder(
        inputs=x, sequence_length=[6, 4], beam_width=8, top_paths=3, merge_repeated=False
    )  # fmt: skip
    return tf.cast(made[what][1], tf.float32) if what < 3 else made[3]


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    **{
        f"quantized {mode} {kind.name}": (
            lambda x, mode=mode, kind=kind: numbers(quantized(x, kind, mode), mode), (f(4, 5),)
        )
        for mode in ("MIN_FIRST", "MIN_COMBINED", "SCALED") for kind in (tf.quint8, tf.qint8)
        if (mode, kind) != ("SCALED", tf.quint8)
    },
    "quantized conv": (lambda x: numbers(narrowed(convolved(x))), (f(2, 6, 7, 2),)),
    "quantized conv strides": (lambda x: numbers(narrowed(convolved(x, 2))), (f(2, 6, 7, 2),)),
    "quantized matmul": (lambda x: numbers(narrowed(multiplied(x))), (f(3, 5),)),
    "quantized matmul bits": (lambda x: tf.bitcast(multiplied(x)[0], tf.int32), (f(3, 5),)),
    "quantized shrink": (shrunk, (f(3, 5),)),
    "quantized relu": (lambda x: relu(R.QuantizedRelu, x), (f(3, 5),)),
    "quantized relu6": (lambda x: relu(R.QuantizedRelu6, x * 8), (f(3, 5),)),
    "quantized max pool": (lambda x: pooled(R.QuantizedMaxPool, x), (f(1, 6, 6, 2),)),
    "quantized average pool": (lambda x: pooled(R.QuantizedAvgPool, x), (f(1, 6, 6, 2),)),
    "quantized concat": (joined, (f(3, 2), f(3, 4))),
    "quantized bias": (biased, (f(3, 4),)),
    "quantized add": (lambda x, y: numbers(narrowed(both(R.QuantizedAdd, x, y))), (f(3, 4), f(3, 4))),
    "quantized mul": (lambda x, y: numbers(narrowed(both(R.QuantizedMul, x, y))), (f(3, 4), f(3, 4))),
    "expint": (tf.math.special.expint, (within(0.01, 20, 60),)),
    "spence": (tf.math.special.spence, (within(0, 9, 60),)),
    "dawsn": (tf.math.special.dawsn, (within(-9, 9, 60),)),
    "fresnel": (
        lambda x: tf.stack([tf.math.special.fresnel_cos(x), tf.math.special.fresnel_sin(x)]), (within(-9, 9, 60),)
    ),
    "betainc": (tf.math.betainc, (within(0.1, 9, 60), within(0.1, 9, 60), within(0, 1, 60))),
    "nextafter": (tf.math.nextafter, (f(9), f(9))),
    "square root of a matrix": (tf.linalg.sqrtm, (MATRIX,)),
    "banded solve": (
        lambda b: tf.stack([
            R.BandedTriangularSolve(matrix=BANDS, rhs=b, lower=lower, adjoint=turned)
            for lower in (True, False) for turned in (True, False)
        ]), (f(2, 5, 2),)
    ),
    **{
        f"projection {mode} {way}": (
            lambda x, mode=mode, way=way: projected(x, mode, way), (f(2, 7, 8, 2),)
        )
        for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST") for way in ("NEAREST", "BILINEAR")
    },
    "suppression by overlaps": (
        lambda o, s: R.NonMaxSuppressionWithOverlaps(
            overlaps=o, scores=s, max_output_size=5, overlap_threshold=0.6, score_threshold=0.2
        ), (within(0, 1, 9, 9), within(0, 1, 9))
    ),
    **{
        f"{op} {normalized} {centered}": (
            lambda x, op=op, n=normalized, c=centered: getattr(R, op)(
                input=x, size=[3, 4], offsets=[[0.2, -0.3], [0.9, 0.7]] if n else [[1.0, 2.0], [-2.0, 1.0]],
                normalized=n, centered=c, noise="zero", uniform_noise=False,
            ), (f(2, 7, 8, 2),)
        )
        for normalized in (True, False) for centered in (True, False) for op in ("ExtractGlimpse", "ExtractGlimpseV2")
    },
    "fused pad conv": (
        lambda x: R.FusedPadConv2D(
            input=x, paddings=[[0, 0], [1, 2], [2, 1], [0, 0]], filter=KERNEL, mode="REFLECT", strides=[1, 1, 1, 1],
            padding="VALID",
        ), (f(1, 6, 7, 2),)
    ),
    "fused resize conv": (
        lambda x: R.FusedResizeAndPadConv2D(
            input=x, size=[8, 9], paddings=[[0, 0], [1, 1], [2, 0], [0, 0]], filter=KERNEL, mode="SYMMETRIC",
            strides=[1, 2, 2, 1], padding="SAME",
        ), (f(1, 6, 7, 2),)
    ),
    "beams": (lambda x: searched(x, 3), (f(6, 2, 4),)),
    "texts of beams": (lambda x: searched(x, 1), (f(6, 2, 4),)),
    "complex numbers": (
        lambda x: of_both(
            (tf.complex(x, x + 1) * tf.constant([1 + 2j, 3 - 1j, 0.5j], tf.complex64) + tf.complex(x, -x))
            / (tf.complex(x, x * 2 + 3) - tf.constant(2 - 1j, tf.complex64))
        ), (f(2, 3),)
    ),
    "movement of complex numbers": (
        lambda x: of_both(tf.reduce_sum(tf.roll(tf.concat([
            tf.reshape(tf.complex(x, x + 1), [3, 2]), tf.transpose(tf.complex(x, -x))
        ], 0)[1:, ::-1], 1, 0), 1)), (f(2, 3),)
    ),
    "matrices of complex numbers": (
        lambda x: of_both(tf.matmul(tf.complex(x, x + 1), tf.complex(x, -x), adjoint_b=True) + tf.exp(
            tf.cast(tf.matmul(x, x, transpose_b=True), tf.complex64) * 0.1j
        )), (f(2, 3),)
    ),
}  # fmt: skip
