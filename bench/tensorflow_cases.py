"""Writes SavedModels of operators and layers, with inputs and what TensorFlow makes of them.

    python bench/tensorflow_cases.py FOLDER

Every case is a folder: the SavedModel, and `case.npz` with the operands in order (`x0`, `x1`...) and the result `y`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import keras
import numpy as np
import tensorflow as tf

import tensorflow_integer_cases
import tensorflow_raw_cases

RNG = np.random.default_rng(0)
L = keras.layers


def f(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return np.abs(f(*shape)) % 1


def i(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def _in_a_loop(x: Any, size: int, dynamic: bool) -> Any:
    rows = tf.TensorArray(tf.float32, size=size, dynamic_size=dynamic)
    for n in tf.range(5) if size else range(5):
        rows = rows.write(n, x[n] * 2)
    return rows.stack()


def _loop(x: Any) -> Any:
    return tf.while_loop(lambda n, v: tf.reduce_sum(v) < 100.0, lambda n, v: (n + 1, v * v + 1.0), [tf.constant(0), x])[
        1
    ]


def _scattered(x: Any) -> Any:
    """A list whose elements are written at once, then split, and joined again."""
    rows = tf.TensorArray(tf.float32, size=4, element_shape=(3,), infer_shape=False).scatter([2, 0, 3, 1], x)
    parts = tf.TensorArray(tf.float32, size=2, infer_shape=False).split(rows.stack(), [1, 3])
    return parts.concat()


def _stitched(x: Any) -> Any:
    parts = tf.cast(x[:, 0] > 0, tf.int32)
    places = tf.dynamic_partition(tf.range(6), parts, 2)
    rows = tf.dynamic_partition(x, parts, 2)
    return tf.dynamic_stitch(places, [rows[0] * 2, -rows[1]])


def _spectrum(x: Any) -> Any:
    return tf.stack([tf.math.real(x), tf.math.imag(x)], -1)


R = tf.raw_ops
SEGMENTS = np.array([0, 0, 2, 2, 2, 4], np.int32)
SYMMETRIC = np.array([[4, 1, 0.5], [1, 3, -1], [0.5, -1, 2]], np.float32)
W, KERNEL = f(4, 8), f(3, 3, 2, 3)
TABLE = tf.Variable(W)
#: Name -> a function of tensors, and its operands.
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "while": (_loop, (f(3),)),
    "list": (lambda x: _in_a_loop(x, 5, False), (f(5, 3),)),
    "growing list": (lambda x: _in_a_loop(x, 0, True), (f(5, 3),)),
    "scan": (lambda x: tf.scan(lambda a, b: a + b, x), (f(5, 3),)),
    "map_fn": (lambda x: tf.map_fn(lambda r: r / tf.norm(r), x), (f(5, 3),)),
    "cond": (lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x - 1), (f(3),)),
    "switch_case": (
        lambda x: tf.switch_case(tf.cast(tf.reduce_max(x) > 0, tf.int32), [lambda: x * 2, lambda: x - 1]), (f(3),)
    ),
    "nms": (lambda b, s: tf.image.non_max_suppression(b, s, 4, 0.5), (f(10, 4), f(10))),
    "combined nms": (
        lambda b, s: tf.image.combined_non_max_suppression(b, s, 4, 8, 0.5)[0], (f(1, 10, 1, 4), positive(1, 10, 3))
    ),
    **{
        f"resize {kind}": (lambda x, kind=kind: tf.image.resize(x, (9, 5), method=kind), (f(1, 6, 7, 2),))
        for kind in ("bilinear", "nearest", "bicubic", "area", "lanczos3", "gaussian", "mitchellcubic")
    },
    "resize antialias": (lambda x: tf.image.resize(x, (5, 6), antialias=True), (f(1, 16, 17, 2),)),
    "resize align": (
        lambda x: tf.compat.v1.image.resize_bilinear(x, (9, 5), align_corners=True), (f(1, 6, 7, 2),)
    ),
    "crop": (
        lambda x: tf.image.crop_and_resize(x, [[0.1, 0.1, 0.8, 0.9], [0, 0, 1, 1.0]], [0, 1], (4, 4)), (f(2, 6, 7, 2),)
    ),
    "einsum": (lambda a, b: tf.einsum("bij,bjk->bik", a, b), (f(2, 3, 4), f(2, 4, 5))),
    "matmul": (lambda a, b: tf.matmul(a, b, transpose_a=True), (f(2, 4, 3), f(2, 4, 5))),
    "top_k": (lambda x: tf.math.top_k(x, 3).indices, (f(3, 9),)),
    "argsort": (lambda x: tf.argsort(x, direction="DESCENDING"), (f(3, 9),)),
    "segment_sum": (lambda x: tf.math.segment_sum(x, [0, 0, 1, 1, 2, 2]), (f(6, 3),)),
    "segments by name": (lambda x: tf.sparse.segment_mean(x, [4, 1, 0], [0, 0, 1]), (f(6, 3),)),
    "parts": (
        lambda x: tf.dynamic_stitch(
            tf.dynamic_partition(tf.range(6), tf.cast(x[:, 0] > 0, tf.int32), 2),
            [part * (n + 1.0) for n, part in enumerate(tf.dynamic_partition(x, tf.cast(x[:, 0] > 0, tf.int32), 2))],
        ), (f(6, 3),)
    ),
    "unsorted segments": (lambda x: tf.math.unsorted_segment_max(x, [0, 2, 1, 1, 2, 0], 3), (f(6, 3),)),
    "cumsum": (lambda x: tf.cumsum(x, axis=0, exclusive=True, reverse=True), (f(6, 3),)),
    "gather": (lambda x: tf.gather(x, [[0, 2], [1, 3]], batch_dims=1), (f(2, 6, 3),)),
    "scatter": (lambda x: tf.scatter_nd([[1], [3], [0], [1]], x, (5, 3)), (f(4, 3),)),
    "where": (lambda x: tf.where(x > 0, x, -x), (f(4, 3),)),
    "boolean_mask": (lambda x: tf.boolean_mask(x, x > 0), (f(4, 3),)),
    "unique": (lambda x: tf.unique(x)[0], (i(1, 2, 1, 3),)),
    "one_hot": (lambda x: tf.one_hot(x, 4), (i(1, 2, 0),)),
    "pad reflect": (lambda x: tf.pad(x, [[1, 1], [2, 1]], mode="REFLECT"), (f(4, 3),)),
    "pad symmetric": (lambda x: tf.pad(x, [[1, 1], [2, 1]], mode="SYMMETRIC"), (f(4, 3),)),
    "space_to_batch": (lambda x: tf.space_to_batch(x, [2, 3], [[0, 0], [0, 0]]), (f(1, 4, 6, 3),)),
    "depth_to_space": (lambda x: tf.nn.depth_to_space(x, 2), (f(1, 4, 6, 8),)),
    "space_to_depth": (lambda x: tf.nn.space_to_depth(x, 2), (f(1, 4, 6, 2),)),
    "atrous": (lambda x: tf.nn.atrous_conv2d(x, tf.constant(KERNEL), 2, "SAME"), (f(1, 12, 12, 2),)),
    "lrn": (lambda x: tf.nn.lrn(x, 2), (f(1, 5, 5, 8),)),
    "moments": (lambda x: tf.nn.moments(x, [1])[1], (f(3, 5),)),
    "functions": (
        lambda x: tf.nn.selu(x) + tf.nn.elu(x) + tf.nn.softplus(x) + tf.nn.softsign(x) + tf.nn.relu6(x) + tf.nn.gelu(x),
        (f(3, 5),),
    ),
    "trigonometry": (lambda x: tf.sin(x) + tf.atan2(x, x + 2) + tf.asinh(x) + tf.math.expm1(x), (f(3, 5),)),
    "floormod": (lambda x: tf.math.floormod(x, 0.3) + tf.math.floordiv(x, 0.3), (f(3, 5),)),
    "bits": (lambda x: tf.bitwise.bitwise_and(x, 3) + tf.bitwise.left_shift(x, 2), (i(1, 2, 7),)),
    "strided_slice": (lambda x: x[:, ::-1, 1:3, tf.newaxis], (f(3, 5, 4),)),
    "split": (lambda x: tf.split(x, [1, 2, 3], axis=1)[1], (f(3, 6),)),
    "roll": (lambda x: tf.roll(x, [1, 2], [0, 1]), (f(3, 5),)),
    "diagonals": (
        lambda x: x + tf.eye(3) + tf.linalg.diag(tf.linalg.diag_part(x)) + tf.linalg.band_part(x, 1, 0), (f(3, 3),)
    ),
    "rfft": (lambda x: tf.abs(tf.signal.rfft(x)), (f(2, 8),)),
    "rfft2d": (lambda x: tf.abs(tf.signal.rfft2d(x, [4, 16])), (f(2, 6, 12),)),
    "irfft2d": (lambda x: tf.signal.irfft2d(tf.signal.rfft2d(x)), (f(2, 6, 12),)),
    "spoken commands": (
        lambda x: tf.raw_ops.Mfcc(
            spectrogram=tf.raw_ops.AudioSpectrogram(input=x, window_size=480, stride=160, magnitude_squared=True),
            sample_rate=16000, dct_coefficient_count=40,
        ), (f(4000, 1),)
    ),
    "stft": (lambda x: tf.abs(tf.signal.stft(x, 16, 8)), (f(1, 64),)),
    "mel": (
        lambda x: tf.matmul(
            tf.abs(tf.signal.stft(x, 64, 32)), tf.signal.linear_to_mel_weight_matrix(8, 33, 8000)
        ), (f(1, 400),)
    ),
    "clip": (lambda x: tf.clip_by_value(x, -0.5, 0.5) + tf.clip_by_norm(x, 1.0), (f(4),)),
    "fake_quant": (tf.quantization.fake_quant_with_min_max_args, (f(4),)),
    "argmax of pooling": (lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME").argmax, (f(1, 6, 6, 2),)),
    "contrast": (lambda x: tf.image.adjust_contrast(x, 2.0), (positive(1, 4, 4, 3),)),
    "patches": (
        lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME"), (f(1, 8, 8, 2),)
    ),
    "reverse_sequence": (lambda x: tf.reverse_sequence(x, [3, 5], seq_axis=1), (f(2, 5, 3),)),
    "sequence_mask": (lambda x: tf.sequence_mask(x, 4), (i(1, 3),)),
    "float16": (
        lambda x: tf.cast(tf.matmul(tf.cast(x, tf.float16), tf.cast(tf.constant(W), tf.float16)), tf.float32),
        (f(3, 4),),
    ),
    "statistics": (lambda x: tf.norm(x, axis=1) + tf.reduce_logsumexp(x, 1) + tf.math.reduce_std(x, 1), (f(3, 4),)),
    "embedding": (lambda x: tf.nn.embedding_lookup(tf.constant(W), x), (i(1, 2),)),
    "list scatter and split": (_scattered, (f(4, 3),)),
    "partition and stitch": (_stitched, (f(6, 3),)),
    "stitch with gaps": (lambda a, b: tf.dynamic_stitch([[0, 4], [[1, 4]]], [a, b]), (f(2, 3), f(1, 2, 3))),
    "fft2d": (lambda x: _spectrum(tf.signal.fft2d(tf.complex(x, x + 1))), (f(2, 4, 6),)),
    "ifft3d": (lambda x: _spectrum(tf.signal.ifft3d(tf.complex(x, x * x))), (f(3, 4, 5),)),
    "rfft2d longer": (lambda x: _spectrum(tf.signal.rfft2d(x, [5, 8])), (f(2, 4, 9),)),
    "irfft2d whole": (lambda x: tf.signal.irfft2d(tf.signal.rfft2d(x)), (f(2, 4, 7),)),
    "irfft2d length": (lambda x: tf.signal.irfft2d(tf.signal.rfft2d(x), [3, 9]), (f(2, 4, 6),)),
    "rfft3d": (lambda x: tf.signal.irfft3d(tf.signal.rfft3d(x)), (f(2, 3, 4, 6),)),
    "angle": (lambda x: tf.math.angle(tf.complex(x, x - 1)), (f(5),)),
    "conjugate transpose": (
        lambda x: _spectrum(tf.transpose(tf.complex(x, x - 1), [1, 0], conjugate=True)), (f(2, 3),)
    ),
    **{
        f"segment_{kind}": (lambda x, kind=kind: getattr(tf.math, f"segment_{kind}")(x, SEGMENTS), (f(6, 3),))
        for kind in ("sum", "mean", "max", "min", "prod")
    },
    **{
        f"sparse segments {kind}": (
            lambda x, kind=kind: getattr(tf.sparse, f"segment_{kind}")(x, [0, 3, 1, 2], [0, 0, 1, 3], num_segments=5),
            (f(6, 3),),
        )
        for kind in ("sum", "mean", "sqrt_n")
    },
    "scatter sub": (lambda x, u: tf.tensor_scatter_nd_sub(x, [[0], [2], [0]], u), (f(4, 3), f(3, 3))),
    "inplace": (
        lambda x, u: R.InplaceSub(x=R.InplaceUpdate(x=x, i=[2], v=u[:1]), i=[0, 1], v=u), (f(4, 3), f(2, 3))
    ),
    "sparse product": (
        lambda v, b: tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 1], [2, 0]], v, [3, 4]), b), (f(2), f(4, 5))
    ),
    "sparse to dense": (lambda v: tf.sparse.to_dense(tf.SparseTensor([[0, 1], [2, 0]], v, [3, 4]), 7.0), (f(2),)),
    "unique slices": (
        lambda x: R.UniqueV2(x=x, axis=[0])[0], (np.array([[1, 2], [3, 4], [1, 2]], np.float32),)
    ),
    "unique counts": (lambda x: R.UniqueWithCounts(x=x)[2], (i(4, 1, 4, 3, 4),)),
    "setdiff1d": (lambda x, y: R.ListDiff(x=x, y=y)[1], (i(1, 2, 3, 4, 5, 6), i(1, 3, 5))),
    "unravel": (lambda x: tf.unravel_index(x, [3, 4, 5]), (i(7, 59, 0, 33),)),
    "inverse permutation": (tf.math.invert_permutation, (i(3, 0, 2, 1),)),
    "cross": (tf.linalg.cross, (f(4, 3), f(4, 3))),
    "qr": (lambda x: tf.matmul(*tf.linalg.qr(x)), (f(2, 5, 3),)),
    "qr whole": (lambda x: tf.linalg.qr(x, full_matrices=True)[1], (f(5, 3),)),
    "singular values": (lambda x: tf.linalg.svd(x, compute_uv=False), (f(2, 5, 3),)),
    "svd": (lambda x: tf.abs(tf.linalg.svd(x)[2]), (f(5, 3),)),
    "eigh": (lambda x: tf.linalg.eigh(x)[0], (SYMMETRIC,)),
    "eigh of a triangle": (lambda x: tf.linalg.eigvalsh(tf.linalg.band_part(x, -1, 0)), (SYMMETRIC,)),
    "lu": (lambda x: tf.linalg.lu(x)[0], (f(4, 4),)),
    "lu order": (lambda x: tf.linalg.lu(x)[1], (f(4, 4),)),
    "slogdet": (lambda x: tf.stack(tf.linalg.slogdet(x)), (f(3, 4, 4),)),
    "expm": (tf.linalg.expm, (f(3, 3),)),
    "lstsq": (lambda a, b: tf.linalg.lstsq(a, b, l2_regularizer=0.1), (f(5, 3), f(5, 2))),
    "lstsq wide": (tf.linalg.lstsq, (f(3, 5), f(3, 2))),
    "tridiagonal product": (
        lambda x, b: tf.linalg.tridiagonal_matmul(x, b, "compact"), (f(3, 4), f(4, 2))
    ),
    "tridiagonal solve": (
        lambda x, b: tf.linalg.tridiagonal_solve(tf.add(x, [[0.0], [9.0], [0.0]]), b), (f(3, 4), f(4, 2))
    ),
    **{
        f"diagonals {k} {align}": (
            lambda x, k=k, align=align: tf.linalg.diag_part(x, k=k, align=align, padding_value=9.0), (f(2, 4, 5),)
        )
        for k in (0, 2, (-1, 2), (-3, -1), (1, 3)) for align in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT")
    },
    "diag of several": (
        lambda x: tf.linalg.diag(x, k=(-1, 1), num_cols=6, padding_value=8.0), (f(2, 3, 4),)
    ),
    "diag beside": (lambda x: tf.linalg.diag(x, k=-2), (f(2, 3),)),
    "set_diag of several": (lambda x, d: tf.linalg.set_diag(x, d, k=(-1, 1)), (f(2, 4, 5), f(2, 3, 4))),
    "tensor_diag": (tf.linalg.tensor_diag, (f(2, 3),)),
    "tensor_diag_part": (tf.linalg.tensor_diag_part, (f(2, 3, 2, 3),)),
    "histogram": (lambda x: tf.histogram_fixed_width(x, [-1.0, 1.0], 5), (f(50),)),
    "nth element": (lambda x: R.NthElement(input=x, n=2, reverse=True), (f(3, 7),)),
    "population count": (lambda x: tf.cast(R.PopulationCount(x=x), tf.int32), (i(7, -1, 0, 1 << 30),)),
    "cross entropy": (
        lambda x: R.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=[1, 0, 3])[0], (f(3, 4),)
    ),
    "approximate top_k": (lambda x: tf.math.approx_max_k(x, 3)[0], (f(2, 9),)),
    "volume patches": (
        lambda x: tf.raw_ops.ExtractVolumePatches(
            input=x, ksizes=[1, 2, 3, 2, 1], strides=[1, 1, 2, 1, 1], padding="SAME"
        ), (f(1, 4, 5, 4, 2),)
    ),
    "embedding of a variable": (
        lambda x: R.ResourceGather(resource=TABLE.handle, indices=x, dtype=tf.float32), (i(1, 2),)
    ),
    "places in a variable": (
        lambda x: R.ResourceGatherNd(resource=TABLE.handle, indices=x, dtype=tf.float32),
        (np.array([[1, 2], [3, 7]], np.int32),),
    ),
}  # fmt: skip
#: Name -> layers one after the other, and the sizes of an input.
LAYERS: dict[str, tuple[Callable[[], list[Any]], tuple[int, ...]]] = {
    "LSTM": (lambda: [L.LSTM(5)], (1, 6, 4)),
    "GRU": (lambda: [L.GRU(5, return_sequences=True)], (1, 6, 4)),
    "Bidirectional": (lambda: [L.Bidirectional(L.LSTM(3, return_sequences=True)), L.Dense(2)], (1, 6, 4)),
    "SimpleRNN": (lambda: [L.SimpleRNN(3)], (1, 6, 4)),
    "Conv2DTranspose": (
        lambda: [L.Conv2DTranspose(4, 3, strides=2, padding="same"), L.BatchNormalization()], (1, 6, 6, 3)
    ),
    "Conv3D": (lambda: [L.Conv3D(3, 3), L.MaxPooling3D(2)], (1, 5, 6, 6, 2)),
    "SeparableConv2D": (lambda: [L.SeparableConv2D(4, 3), L.UpSampling2D(2, interpolation="bilinear")], (1, 8, 8, 3)),
    "TimeDistributed": (lambda: [L.TimeDistributed(L.Conv2D(2, 3))], (1, 3, 8, 8, 2)),
    "ConvLSTM2D": (lambda: [L.ConvLSTM2D(2, 3)], (1, 3, 6, 6, 2)),
    "LayerNormalization": (lambda: [L.LayerNormalization(), L.Dense(3, activation="gelu")], (1, 6)),
    "GroupNormalization": (lambda: [L.GroupNormalization(2)], (1, 6, 6, 4)),
}  # fmt: skip


def main(folder: Path) -> None:
    further = FUNCTIONS | tensorflow_raw_cases.FUNCTIONS | tensorflow_integer_cases.FUNCTIONS
    for name, (function, operands) in further.items():
        module = tf.Module()
        module.table = TABLE
        kinds = [tf.TensorSpec(x.shape, x.dtype, name=f"x{n}") for n, x in enumerate(operands)]
        module.f = tf.function(function, input_signature=kinds)
        tf.saved_model.save(module, folder / name, signatures=module.f.get_concrete_function())
        write(folder / name, operands, module.f(*operands).numpy())
    for name, (make, sizes) in LAYERS.items():
        model = keras.Sequential([keras.Input(sizes[1:]), *make()])
        for weight in model.weights:
            if "variance" not in weight.path and "seed" not in weight.path:
                weight.assign(f(*weight.shape) * np.float32(0.5))
        x = f(*sizes)
        model.export(folder / name, verbose=False)
        write(folder / name, (x,), model(x).numpy())


def write(folder: Path, operands: tuple[np.ndarray, ...], result: np.ndarray) -> None:
    np.savez(folder / "case.npz", y=result, **{f"x{n}": x for n, x in enumerate(operands)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
