"""Functions of keras.ops between layers, many in a model, beside Keras itself."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "numpy")
keras = pytest.importorskip("keras", reason="keras is not installed")

from sterna.frontends.keras.layers.operations import operation  # noqa: E402
from support.keras_cases import Make, check, drawn  # noqa: E402

ops = keras.ops
KERNEL = np.random.default_rng(3).normal(size=(3, 2, 3, 2)).astype(np.float32)
POINT = np.random.default_rng(4).normal(size=(1, 1, 6, 4)).astype(np.float32)
FOURS = np.array([0.5, 2.0, 1.0, -1.0], np.float32)


def of_each(*names: str) -> Make:
    return lambda x: [getattr(ops, name)(x) for name in names]


def of_two(*names: str) -> Make:
    return lambda x, y: [getattr(ops, name)(x, y) for name in names]


S, I = (2, 3, 4), "int32"  # noqa: E741
CASES: dict[str, tuple[Make, tuple[tuple[int, ...], ...], str]] = {
    "elements": (
        of_each(
            "cbrt", "copy", "deg2rad", "erfc", "exp2", "fabs", "i0", "imag", "isfinite", "isinf", "isposinf",
            "logical_not", "nan_to_num", "ones_like", "rad2deg", "real", "signbit", "sinc", "trunc", "zeros_like",
        ),
        (S,),
        "float32",
    ),
    "two operands": (
        of_two(
            "logaddexp", "logaddexp2", "hypot", "heaviside", "fmax", "fmin", "fmod", "isclose", "divide_no_nan",
            "floor_divide", "mod",
        ),
        (S, S),
        "float32",
    ),
    "integers": (
        lambda x, y: [
            *of_two("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")(x, y),
            *of_two("left_shift", "right_shift", "ldexp")(x, y),
            ops.floor_divide(x - 3, y + 1), ops.mod(x - 3, y + 1), ops.multi_hot(x, 6), *ops.unravel_index(x, (2, 3)),
        ],
        (S, S),
        I,
    ),
    "order": (
        lambda x: [
            ops.argsort(x, axis=1), ops.sort(x, axis=-1), ops.median(x, axis=1), ops.quantile(x, 0.3, axis=(1, 2)),
            ops.quantile(x, np.array([0.1, 0.9], np.float32), axis=-1, keepdims=True),
            ops.digitize(x, np.array([-1.0, 0.0, 1.0], np.float32)),
            ops.take_along_axis(x, np.array([[[0, 2, 1, 1]]] * 2), axis=1),
            ops.in_top_k(np.array([0, 2]), x[:, 0], k=2),
        ],
        (S,),
        "float32",
    ),
    "sums": (
        lambda x, y: [
            ops.average(x, axis=1, weights=ops.abs(y)), ops.count_nonzero(ops.relu(x), axis=1), ops.cumsum(x, axis=1),
            ops.cumprod(x, axis=-1), ops.diff(x, n=2), *ops.moments(x, axes=[1]), ops.trapezoid(x, dx=0.5, axis=1),
            ops.segment_sum(x[0], np.array([0, 2, 0]), num_segments=3), ops.norm(x, ord=3, axis=(1,)),
            ops.norm(x, ord="nuc", axis=(1, 2)), ops.norm(x, ord=1, axis=(1, 2)), ops.trace(x, axis1=1, axis2=2),
            ops.ptp(x, axis=1),
        ],
        (S, S),
        "float32",
    ),
    "movement": (
        lambda x, y: [
            ops.append(x, y, axis=1), *ops.array_split(x, 3, axis=2), ops.diag(x[0, 0], k=-2), ops.diag(x[0], k=1),
            ops.diagonal(x, offset=-1, axis1=1, axis2=2), ops.hstack([x, y]), ops.vstack([x, y]),
            ops.rot90(x, k=3, axes=(2, 1)), ops.moveaxis(x, 1, -1), ops.swapaxes(x, 1, 2), ops.roll(x, -3),
            *ops.unstack(x, axis=1), ops.tril(x, k=-1), ops.triu(x, k=1), ops.select([x > 0, y > 0], [x, y], -1.0),
            ops.slice(x, (0, 1, 1), (2, 2, 3)), ops.slice_update(x * 2, (0, 1, 1), ops.ones((2, 1, 2))),
            ops.scatter_update(x * 2, np.array([[0, 1], [1, 2]]), np.ones((2, 4), np.float32)),
            *ops.meshgrid(x[0, 0], y[0, :, 0]),
        ],
        (S, S),
        "float32",
    ),
    "products": (
        lambda x, y: [
            ops.tensordot(x, FOURS[:, None], axes=1), ops.outer(x[0, 0], y[0, 1]), ops.vdot(x, y), ops.inner(x, FOURS),
            ops.cross(x[:, 0, :3], y[:, 0, :3]), ops.cdist(x, y), ops.kron(x[0], y[0]),
        ],
        (S, S),
        "float32",
    ),
    "windows": (
        lambda x: [
            ops.max_pool(x, 2, 1, "same"), ops.average_pool(x, (2, 3), strides=(1, 2)),
            ops.conv(x, KERNEL, strides=(2, 1), padding="same"), ops.depthwise_conv(x, KERNEL),
            ops.separable_conv(x, KERNEL, POINT, padding="same"), ops.image.extract_patches(x, (2, 3), strides=(1, 2)),
            ops.image.rgb_to_grayscale(x), ops.image.resize(x, (7, 4)), ops.image.hsv_to_rgb(ops.sigmoid(x)),
            ops.image.rgb_to_hsv(ops.sigmoid(x)), ops.image.pad_images(x, 1, 2, target_height=9, target_width=10),
            ops.image.crop_images(x, 1, 1, target_height=2, target_width=3),
        ],
        ((2, 5, 6, 3),),
        "float32",
    ),
    "normalization": (
        lambda x: [
            ops.layer_normalization(x, FOURS, FOURS), ops.rms_normalization(x, FOURS),
            ops.batch_normalization(x, FOURS, FOURS**2, axis=-1, offset=FOURS, scale=FOURS),
            ops.binary_crossentropy(ops.sigmoid(x), x, from_logits=True),
            ops.categorical_crossentropy(ops.softmax(x), ops.softmax(x)),
            ops.sparse_categorical_crossentropy(ops.argmax(x, axis=-1), x, from_logits=True),
        ],
        (S,),
        "float32",
    ),
    "attention": (
        lambda x, y: [ops.dot_product_attention(x, y, y), ops.dot_product_attention(x, x, x, is_causal=True)],
        ((2, 5, 4, 8), (2, 6, 4, 8)),
        "float32",
    ),
    "spectra": (
        lambda x, y: [*ops.fft((x, y)), *ops.rfft(x, fft_length=16), ops.irfft((x, y)), ops.extract_sequences(x, 3, 2)],
        ((2, 8), (2, 8)),
        "float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str, tmp_path: Path) -> None:
    make, shapes, dtype = CASES[name]
    check(make, [drawn(shape, dtype, number) for number, shape in enumerate(shapes)], tmp_path)


def test_functions_of_matrices(tmp_path: Path) -> None:
    a = drawn((2, 4, 4), "float32", 0)
    a = (a @ a.transpose(0, 2, 1) + 4 * np.eye(4)).astype(np.float32)
    check(
        lambda x: [
            ops.cholesky(x), ops.det(x), ops.inv(x), *ops.qr(x), ops.svd(x, compute_uv=False), *ops.slogdet(x),
            ops.logdet(x), ops.solve(x, ops.ones((2, 4, 3))), ops.solve_triangular(x, ops.ones((2, 4, 3)), lower=True),
            ops.eigh(x)[0], ops.linalg.pinv(x),
        ],
        [a],
        tmp_path,
        2e-3,
    )  # fmt: skip


def test_what_is_no_number_is_passed_over(tmp_path: Path) -> None:
    x = drawn(S, "float32", 0)
    x[0, 1, 2], x[1, 0, 1] = np.nan, np.nan
    names = ("nansum", "nanmean", "nanmax", "nanmin", "nanprod", "nanstd", "nanvar")
    check(lambda x: [getattr(ops, name)(x, axis=-1) for name in names], [x], tmp_path)


def test_ends_of_numbers(tmp_path: Path) -> None:
    x = np.array([[np.inf, 3.0, np.nan, 0.0]], np.float32)
    check(lambda x: [ops.hypot(x, x), ops.heaviside(x, ops.ones_like(x)), ops.nan_to_num(x)], [x], tmp_path)


def test_integers(tmp_path: Path) -> None:
    x = drawn((4, 6, 3), "int32", 1) * 20
    ids = np.array([2, 0, 2, 1])
    check(lambda x: [ops.segment_max(x[0], ids, 3), ops.image.rgb_to_grayscale(x)], [x[None]], tmp_path)


def test_functions_of_tensorflow_are_not_taken_for_those_of_keras() -> None:
    """tf.cumsum and ops.cumsum have other axes where none is given, tf.sort has a direction."""
    for name, known in (("tf.cumsum", False), ("tf.sort", False), ("tf.image.resize", False), ("tf.math.add", True)):
        assert (operation("TFOpLambda", "", {"function": name}) is not None) == known
