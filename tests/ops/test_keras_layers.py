"""Every layer of Keras with its settings, and operations between layers, beside Keras itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "numpy")
keras = pytest.importorskip("keras", reason="keras is not installed")

from sterna.debug.interpret import interpret  # noqa: E402
from sterna.frontends.formats import read_model  # noqa: E402
from sterna.frontends.frontend import ReadOptions  # noqa: E402
from sterna.ir.graph import Graph  # noqa: E402
from support import keras_files as files  # noqa: E402

L, ops = keras.layers, keras.ops
Make = Callable[[Any], Any]


def drawn(model: Any) -> None:
    """Gives all variables values that none of them has by itself."""
    random = np.random.default_rng(11)
    for variable in model.variables:
        if "seed" in variable.name:
            continue
        value = random.normal(size=variable.shape) * 0.4
        positive = any(word in variable.path for word in ("variance", "gamma"))
        variable.assign((np.abs(value) + 0.3 if positive else value).astype(variable.dtype))


def graph_of(model: Any, folder: Path, batch: int, ending: str = "keras") -> Graph:
    path = folder / f"model.{ending}"
    model.save(path)
    return read_model(path, ReadOptions(dims={"batch": batch}))


def fed(shape: Sequence[int], dtype: str, number: int, most: int) -> np.ndarray:
    random = np.random.default_rng(100 + number)
    if dtype.startswith("int"):
        return random.integers(0, most, shape).astype(dtype)
    return random.normal(size=shape).astype(dtype)


def check(
    model: Any, folder: Path, batch: int = 2, most: int = 7, ending: str = "keras", tolerance: float = 2e-5
) -> None:
    """A model beside what is read of its file."""
    drawn(model)
    graph = graph_of(model, folder, batch, ending)
    data = [
        fed([batch if n is None else n for n in each.shape], each.dtype, number, most)
        for number, each in enumerate(model.inputs)
    ]
    expected = model(data if len(data) > 1 else data[0], training=False)
    expected = keras.tree.flatten(expected)
    found = list(interpret(graph, dict(zip((v.name for v in graph.inputs), data, strict=True))).values())
    assert len(found) == len(expected)
    for ours, theirs in zip(found, map(np.asarray, expected), strict=True):
        assert ours.shape == theirs.shape
        scale = max(float(np.abs(theirs.astype(np.float64)).max(initial=0)), 1.0)
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), atol=tolerance * scale, rtol=0)


def of_one(make: Make, shape: Sequence[int | None], dtype: str = "float32") -> Any:
    x = keras.Input(shape, dtype=dtype, name="x")
    return keras.Model(x, make(x))


ROW, STEPS, PLANE, CUBE, WAVES = (6,), (7, 5), (9, 8, 4), (5, 6, 4, 3), (30, 2)
ACTIVATIONS = (
    "linear", "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "softplus", "softsign", "tanh", "sigmoid",
    "exponential", "hard_sigmoid", "silu", "swish", "hard_silu", "hard_swish", "mish", "softmax", "log_softmax",
    "log_sigmoid", "hard_tanh", "tanh_shrink", "soft_shrink", "hard_shrink", "sparse_plus", "sparse_sigmoid",
    "sparsemax", "squareplus", "glu",
)  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str, tmp_path: Path) -> None:
    check(of_one(L.Activation(name), (*STEPS[:1], 6)), tmp_path)


LAYERS: dict[str, tuple[Any, Sequence[int | None]]] = {
    "dense": (lambda: L.Dense(4, activation="gelu"), STEPS),
    "dense-plain": (lambda: L.Dense(3, use_bias=False), PLANE),
    "einsum-dense": (lambda: L.EinsumDense("abc,cde->abde", output_shape=(None, 3, 2), bias_axes="de"), STEPS),
    "einsum-dense-dots": (lambda: L.EinsumDense("...x,xy->...y", output_shape=4, bias_axes="y"), PLANE),
    "relu": (lambda: L.ReLU(max_value=1.5, negative_slope=0.1, threshold=0.2), ROW),
    "leaky": (lambda: L.LeakyReLU(0.15), ROW),
    "prelu": (lambda: L.PReLU(shared_axes=[1]), STEPS),
    "elu": (lambda: L.ELU(0.7), ROW),
    "softmax": (lambda: L.Softmax(axis=1), STEPS),
    "batch-norm": (L.BatchNormalization, PLANE),
    "batch-norm-axis": (lambda: L.BatchNormalization(axis=1, scale=False, epsilon=0.01), PLANE),
    "batch-norm-plain": (lambda: L.BatchNormalization(center=False), ROW),
    "layer-norm": (L.LayerNormalization, STEPS),
    "layer-norm-axes": (lambda: L.LayerNormalization(axis=[1, 2], epsilon=1e-5), PLANE),
    "layer-norm-first": (lambda: L.LayerNormalization(axis=1, center=False), STEPS),
    "group-norm": (lambda: L.GroupNormalization(2), PLANE),
    "group-norm-all": (lambda: L.GroupNormalization(-1, scale=False), PLANE),
    "group-norm-axis": (lambda: L.GroupNormalization(3, axis=1), PLANE),
    "rms-norm": (L.RMSNormalization, STEPS),
    "unit-norm": (lambda: L.UnitNormalization(axis=[1, 2]), STEPS),
    "spectral": (lambda: L.SpectralNormalization(L.Dense(3)), ROW),
    "rescaling": (lambda: L.Rescaling(0.5, -1.0), PLANE),
    "normalization": (lambda: L.Normalization(mean=[1.0, 2, 3, 4], variance=[1.0, 4, 9, 2]), PLANE),
    "normalization-one": (lambda: L.Normalization(axis=None, mean=1.5, variance=4.0, invert=True), PLANE),
    "flatten": (L.Flatten, PLANE),
    "flatten-first": (lambda: L.Flatten(data_format="channels_first"), PLANE),
    "reshape": (lambda: L.Reshape((3, -1, 4)), PLANE),
    "permute": (lambda: L.Permute((3, 1, 2)), PLANE),
    "repeat": (lambda: L.RepeatVector(3), ROW),
    "pad-1": (lambda: L.ZeroPadding1D((1, 2)), STEPS),
    "pad-2": (lambda: L.ZeroPadding2D(((1, 2), (0, 3))), PLANE),
    "pad-2-first": (lambda: L.ZeroPadding2D(2, data_format="channels_first"), PLANE),
    "pad-3": (lambda: L.ZeroPadding3D((1, 0, 2)), CUBE),
    "crop-1": (lambda: L.Cropping1D((2, 1)), STEPS),
    "crop-2": (lambda: L.Cropping2D(((1, 2), (3, 0))), PLANE),
    "crop-3": (lambda: L.Cropping3D(1), CUBE),
    "up-1": (lambda: L.UpSampling1D(3), STEPS),
    "up-2": (lambda: L.UpSampling2D((2, 3)), PLANE),
    "up-2-linear": (lambda: L.UpSampling2D(2, interpolation="bilinear"), PLANE),
    "up-2-first": (lambda: L.UpSampling2D(2, data_format="channels_first"), PLANE),
    "up-3": (lambda: L.UpSampling3D(2), CUBE),
    "resizing": (lambda: L.Resizing(5, 11), PLANE),
    "resizing-crop": (lambda: L.Resizing(6, 4, crop_to_aspect_ratio=True), PLANE),
    "resizing-pad": (lambda: L.Resizing(12, 6, pad_to_aspect_ratio=True), PLANE),
    "center-crop": (lambda: L.CenterCrop(5, 3), PLANE),
    "auto-contrast": (lambda: L.AutoContrast(value_range=(-1, 2)), PLANE),
    "auto-contrast-flat": (L.AutoContrast, (1, 1, 3)),
    **{
        f"stft-{mode}": (partial(L.STFTSpectrogram, mode=mode, frame_length=8, frame_step=3), WAVES)
        for mode in ("log", "magnitude", "psd", "real", "imag", "stft")
    },
    "stft-same": (lambda: L.STFTSpectrogram(frame_length=8, fft_length=20, padding="same", expand_dims=True), WAVES),
    "stft-first": (lambda: L.STFTSpectrogram("psd", 6, scaling=None, data_format="channels_first"), (2, 30)),
    "stft-first-wide": (
        lambda: L.STFTSpectrogram(frame_length=6, padding="same", expand_dims=True, data_format="channels_first"),
        (2, 30),
    ),
    "mel": (lambda: L.MelSpectrogram(fft_length=32, sequence_stride=12, num_mel_bins=5), (100,)),
    "mel-channels": (
        lambda: L.MelSpectrogram(
            33, 7, 20, "hamming", 8000, 6, 50.0, 3000.0, top_db=9.0, mag_exp=1.5, ref_power=2.0, min_power=1e-3
        ),
        (2, 100),
    ),
    "mel-powers": (lambda: L.MelSpectrogram(16, 8, 10, None, power_to_db=False, mag_exp=1.0, num_mel_bins=4), (2, 50)),
    "dropout": (lambda: L.Dropout(0.5), ROW),
    "random-flip": (L.RandomFlip, PLANE),
    "time-distributed": (lambda: L.TimeDistributed(L.Conv2D(3, 2, padding="same")), CUBE),
    **{
        f"{kind}-pool-{rank}-{pad}-{size}": (
            partial(getattr(L, f"{kind}Pooling{rank}D"), size, padding=pad, strides=2),
            shape,
        )
        for kind in ("Max", "Average")
        for rank, shape in ((1, STEPS), (2, PLANE), (3, CUBE))
        for pad in ("valid", "same")
        for size in (2, 3)
    },
    "max-pool-first": (lambda: L.MaxPooling2D(2, data_format="channels_first"), PLANE),
    **{
        f"global-{kind}-{rank}": (
            partial(getattr(L, f"Global{kind}Pooling{rank}D"), keepdims=rank == 2), shape,
        )
        for kind in ("Max", "Average")
        for rank, shape in ((1, STEPS), (2, PLANE), (3, CUBE))
    },
    "conv-1": (lambda: L.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="relu"), STEPS),
    "conv-1-stride": (lambda: L.Conv1D(4, 3, strides=2, padding="same"), STEPS),
    "conv-2": (lambda: L.Conv2D(5, (3, 2), strides=(2, 1), padding="same"), PLANE),
    "conv-2-even": (lambda: L.Conv2D(5, 4, strides=2, padding="same"), PLANE),
    "conv-2-groups": (lambda: L.Conv2D(6, 3, groups=2, use_bias=False), PLANE),
    "conv-2-dilated": (lambda: L.Conv2D(3, 3, dilation_rate=(2, 1), padding="same"), PLANE),
    "conv-2-first": (lambda: L.Conv2D(3, 3, data_format="channels_first"), PLANE),
    "conv-3": (lambda: L.Conv3D(2, 2, padding="same", strides=2), CUBE),
    "depthwise-1": (lambda: L.DepthwiseConv1D(3, depth_multiplier=2), STEPS),
    "depthwise-2": (lambda: L.DepthwiseConv2D(3, strides=2, padding="same", depth_multiplier=3), PLANE),
    "depthwise-2-first": (lambda: L.DepthwiseConv2D(3, data_format="channels_first"), PLANE),
    "separable-1": (lambda: L.SeparableConv1D(4, 3, padding="same"), STEPS),
    "separable-2": (lambda: L.SeparableConv2D(5, 3, depth_multiplier=2, activation="swish"), PLANE),
    "transposed-1": (lambda: L.Conv1DTranspose(4, 3, strides=2, padding="same"), STEPS),
    "transposed-2": (lambda: L.Conv2DTranspose(3, (3, 4), strides=2), PLANE),
    "transposed-2-same": (lambda: L.Conv2DTranspose(3, 4, strides=2, padding="same"), PLANE),
    "transposed-2-wide": (lambda: L.Conv2DTranspose(3, 2, strides=3, padding="same"), PLANE),
    "transposed-2-gaps": (lambda: L.Conv2DTranspose(3, 2, strides=3), PLANE),
    "transposed-2-extra": (lambda: L.Conv2DTranspose(3, 3, strides=2, padding="same", output_padding=1), PLANE),
    "transposed-2-dilated": (lambda: L.Conv2DTranspose(3, 3, dilation_rate=2), PLANE),
    "transposed-3": (lambda: L.Conv3DTranspose(2, 3, strides=2, padding="same"), CUBE),
    "lstm": (lambda: L.LSTM(4), STEPS),
    "lstm-all": (lambda: L.LSTM(4, return_sequences=True, return_state=True, use_bias=False), STEPS),
    "lstm-back": (lambda: L.LSTM(4, return_sequences=True, go_backwards=True, activation="relu"), STEPS),
    "lstm-gelu": (lambda: L.LSTM(4, activation="gelu", return_sequences=True), STEPS),
    "lstm-hard": (lambda: L.LSTM(4, recurrent_activation="hard_sigmoid"), STEPS),
    "gru": (lambda: L.GRU(4, return_sequences=True), STEPS),
    "gru-before": (lambda: L.GRU(4, reset_after=False), STEPS),
    "gru-before-swish": (lambda: L.GRU(4, reset_after=False, activation="swish"), STEPS),
    "gru-swish-back": (lambda: L.GRU(4, activation="swish", go_backwards=True, return_sequences=True), STEPS),
    "simple-rnn": (lambda: L.SimpleRNN(4, return_sequences=True, return_state=True), STEPS),
    "simple-rnn-mish": (lambda: L.SimpleRNN(4, activation="mish"), STEPS),
    "rnn-cell": (lambda: L.RNN(L.LSTMCell(3), return_sequences=True), STEPS),
    "rnn-stacked": (lambda: L.RNN([L.LSTMCell(3), L.GRUCell(4), L.SimpleRNNCell(2)], return_state=True), STEPS),
    "bidirectional": (lambda: L.Bidirectional(L.LSTM(3, return_sequences=True)), STEPS),
    "bidirectional-sum": (lambda: L.Bidirectional(L.GRU(3), merge_mode="sum"), STEPS),
    "bidirectional-ave": (lambda: L.Bidirectional(L.GRU(3, return_sequences=True), merge_mode="ave"), STEPS),
    "bidirectional-none": (lambda: L.Bidirectional(L.GRU(3), merge_mode=None), STEPS),
    "bidirectional-state": (lambda: L.Bidirectional(L.LSTM(3, return_state=True)), STEPS),
    "conv-lstm-1": (lambda: L.ConvLSTM1D(2, 3, padding="same", return_sequences=True), (4, 6, 2)),
    "conv-lstm-2": (lambda: L.ConvLSTM2D(2, 3, strides=2), CUBE),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, tmp_path: Path) -> None:
    make, shape = LAYERS[name]
    check(of_one(make(), shape), tmp_path)


def test_a_softmax_over_two_axes(tmp_path: Path) -> None:
    """Which not all of Keras' backends have."""
    graph = graph_of(of_one(L.Softmax(axis=[1, 2]), STEPS), tmp_path, 2)
    data = fed((2, *STEPS), "float32", 0, 7)
    power = np.exp(data)
    (found,) = interpret(graph, {"x": data}).values()
    np.testing.assert_allclose(found, power / power.sum((1, 2), keepdims=True), atol=1e-6)


def test_the_angles_of_a_spectrogram(tmp_path: Path) -> None:
    """Beside each other on the circle: -pi and pi are neighbours."""
    layer = L.STFTSpectrogram("angle", 8, 3)
    check(of_one(lambda x: ops.concatenate([ops.cos(y := layer(x)), ops.sin(y)], axis=-1), WAVES), tmp_path)


#: Layers of training, which of integers make floats or leave them as they are.
AUGMENTATIONS: dict[str, Callable[[], Any]] = {
    "RandomFlip": L.RandomFlip, "RandomZoom": partial(L.RandomZoom, 0.1), "Solarization": L.Solarization,
    "RandomElasticTransform": L.RandomElasticTransform, "RandomErasing": L.RandomErasing, "CutMix": L.CutMix,
    "RandomContrast": partial(L.RandomContrast, 0.1), "RandomCrop": partial(L.RandomCrop, 9, 8), "MixUp": L.MixUp,
    "MaxNumBoundingBoxes": partial(L.MaxNumBoundingBoxes, 3), "RandomHue": partial(L.RandomHue, 0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", AUGMENTATIONS)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_layers_of_training(name: str, dtype: str, tmp_path: Path) -> None:
    model = of_one(AUGMENTATIONS[name](), (9, 8, 3), dtype)
    check(model, tmp_path)
    (output,) = graph_of(model, tmp_path, 2).outputs
    assert output.dtype == np.asarray(model(fed((2, 9, 8, 3), dtype, 0, 7), training=False)).dtype


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_a_pipeline(ending: str, tmp_path: Path) -> None:
    """Two of its layers are of one class, and called otherwise than in a model that had them alone."""
    layers = [L.Rescaling(0.5), L.Dense(3), L.BatchNormalization(), L.Dense(4)]
    check(of_one(L.Pipeline(layers), PLANE), tmp_path, ending=ending)


def test_equalization(tmp_path: Path) -> None:
    """Does nothing outside of training; Keras on NumPy cannot build a model with it."""
    described = files.layer("Equalization", "e", ["x"])
    graph = read_model(files.archive(files.functional(described), files.weights(), tmp_path))
    data = fed((1, 4), "float32", 0, 7)
    (found,) = interpret(graph, {"x": data}).values()
    np.testing.assert_array_equal(found, data)


@pytest.mark.parametrize("ending", ["keras", "h5"])
@pytest.mark.parametrize("tied", [True, False])
def test_scores_by_an_embedding(tied: bool, ending: str, tmp_path: Path) -> None:
    layer = L.ReversibleEmbedding(7, 4, tie_weights=tied, logit_soft_cap=1.5)
    check(of_one(lambda x: layer(ops.sin(layer(x)), reverse=True), (5,), "int32"), tmp_path, ending=ending)


EMBEDDED = (5,)


def embedded(*layers: Any) -> Any:
    """Numbers of words, of which 0 does not count, and what reads them."""
    x = keras.Input(EMBEDDED, dtype="int32", name="x")
    y = L.Embedding(7, 4, mask_zero=True)(x)
    for layer in layers:
        y = layer(y)
    return keras.Model(x, y)


@pytest.mark.parametrize(
    "layers",
    [
        lambda: (L.LSTM(3),),
        lambda: (L.GRU(3, return_sequences=True), L.GlobalAveragePooling1D()),
        lambda: (L.SimpleRNN(3, return_sequences=True), L.SimpleRNN(2)),
        lambda: (L.Bidirectional(L.LSTM(3, return_sequences=True)), L.Dense(2), L.LSTM(2)),
        lambda: (L.Bidirectional(L.GRU(3)),),
        lambda: (L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode="sum"), L.Dense(2)),
        lambda: (L.Dropout(0.1), L.LayerNormalization(), L.GlobalAveragePooling1D()),
        lambda: (L.Dense(3), L.Flatten()),
    ],
    ids=["lstm", "gru", "rnn", "bidirectional", "bidirectional-last", "bidirectional-zeros", "average", "flat"],
)
def test_masks(layers: Callable[[], Sequence[Any]], tmp_path: Path) -> None:
    check(embedded(*layers()), tmp_path, most=3)


def test_masking(tmp_path: Path) -> None:
    x = keras.Input(STEPS, name="x")
    check(keras.Model(x, L.LSTM(3)(L.Masking(0.0)(ops.relu(x)))), tmp_path)


def attended(make: Callable[..., Any], **kwargs: Any) -> Any:
    query, value = keras.Input((4, 6), name="q"), keras.Input((5, 6), name="v")
    return keras.Model([query, value], make(query, value, **kwargs))


ATTENTIONS: dict[str, Callable[[], Any]] = {
    "dot": lambda: attended(lambda q, v: L.Attention()([q, v])),
    "dot-scaled": lambda: attended(lambda q, v: L.Attention(use_scale=True)([q, v], return_attention_scores=True)),
    "dot-causal": lambda: attended(lambda q, v: L.Attention()([q, v, ops.sin(v)], use_causal_mask=True)),
    "concat": lambda: attended(lambda q, v: L.Attention(score_mode="concat", use_scale=True)([q, v])),
    "additive": lambda: attended(lambda q, v: L.AdditiveAttention()([q, v])),
    "heads": lambda: attended(L.MultiHeadAttention(3, 2)),
    "heads-scores": lambda: attended(
        lambda q, v: L.MultiHeadAttention(2, 2, output_shape=5)(q, v, ops.cos(v), return_attention_scores=True)
    ),
    "heads-causal": lambda: attended(
        lambda q, v: L.MultiHeadAttention(2, 3, use_bias=False)(q, q, use_causal_mask=True)
    ),
    "heads-grouped": lambda: attended(L.GroupQueryAttention(2, 4, 2)),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str, tmp_path: Path) -> None:
    check(ATTENTIONS[name](), tmp_path)


def joined(make: Callable[[list[Any]], Any], *shapes: Sequence[int]) -> Any:
    inputs = [keras.Input(shape, name=f"x{n}") for n, shape in enumerate(shapes)]
    return keras.Model(inputs, make(inputs))


@pytest.mark.parametrize("name", ["Add", "Multiply", "Maximum", "Minimum", "Average", "Subtract", "Concatenate"])
def test_merging(name: str, tmp_path: Path) -> None:
    shapes = (STEPS, STEPS) if name == "Subtract" else (STEPS, STEPS, STEPS)
    check(joined(getattr(L, name)(), *shapes), tmp_path)


@pytest.mark.parametrize(("axes", "normalize"), [((2, 2), False), ((1, 1), True), (-1, False)])
def test_dot(axes: Any, normalize: bool, tmp_path: Path) -> None:
    check(joined(L.Dot(axes, normalize=normalize), STEPS, STEPS), tmp_path)


def test_dot_of_rows(tmp_path: Path) -> None:
    check(joined(L.Dot(1), ROW, ROW), tmp_path)


OPERATIONS: dict[str, Make] = {
    "arithmetic": lambda x: (1.0 - x) * 2.0 / (x * x + 1.5) ** 0.5 + abs(-x),
    "compare": lambda x: ops.where(ops.logical_and(x > 0.1, x <= 1.0), x, ops.square(x)),
    "sliced": lambda x: x[:, 1:-1, ::2] * x[:, 0:1, 1][:, :, None],
    "index": lambda x: x[:, -1],
    "reduce": lambda x: ops.mean(x, axis=1) + ops.max(x, axis=1) - ops.min(x, axis=1) + ops.sum(x, axis=1),
    "spread": lambda x: ops.std(x, axis=-1, keepdims=True) + ops.var(x, axis=-1, keepdims=True),
    "norm": lambda x: ops.normalize(x, axis=-1),
    "shape": lambda x: ops.reshape(ops.transpose(x, (0, 2, 1)), (-1, 35)),
    "stack": lambda x: ops.stack([x, ops.exp(x)], axis=1),
    "split": lambda x: ops.concatenate(ops.split(x, [2, 4], axis=1)[::-1], axis=1),
    "argmax": lambda x: ops.argmax(x, axis=-1),
    "one-hot": lambda x: ops.one_hot(ops.argmax(x, axis=-1), 5),
    "take": lambda x: ops.take(x, [0, 2, 2], axis=1),
    "tile": lambda x: ops.tile(ops.repeat(x, 2, axis=1), (1, 1, 2)),
    "pad": lambda x: ops.pad(x, ((0, 0), (1, 2), (0, 1)), mode="reflect"),
    "einsum": lambda x: ops.einsum("bij,bkj->bik", x, x),
    "matmul": lambda x: ops.matmul(x, ops.transpose(x, (0, 2, 1))),
    "clip": lambda x: ops.clip(x, -0.5, 0.7) + ops.maximum(x, 0.2),
    "squeeze": lambda x: ops.squeeze(ops.expand_dims(x, 1), 1),
    "flip": lambda x: ops.flip(x, axis=1),
    "unary": lambda x: ops.log1p(ops.abs(x)) + ops.expm1(x) + ops.rsqrt(x * x + 1.0) + ops.sign(x) + ops.floor(x),
    "cast": lambda x: ops.cast(ops.cast(x * 3, "int32"), "float32"),
    "angle": lambda x: (
        ops.arctan2(x, ops.flip(x, axis=1)) + ops.arctan2(ops.concatenate([x[:, :3], x[:, 3:] * 0.0], axis=1), 0.0)
    ),
    "activations": lambda x: ops.gelu(x, approximate=True) + ops.softmax(x, axis=1) + ops.leaky_relu(x, 0.3),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str, tmp_path: Path) -> None:
    check(of_one(OPERATIONS[name], STEPS), tmp_path)


def encoded(layer: Any, shape: Sequence[int], dtype: str) -> Any:
    return of_one(layer, shape, dtype)


@pytest.mark.parametrize("mode", ["one_hot", "multi_hot", "count"])
def test_categories(mode: str, tmp_path: Path) -> None:
    check(encoded(L.CategoryEncoding(7, output_mode=mode), (1,) if mode == "one_hot" else (4,), "int32"), tmp_path)


def test_bins(tmp_path: Path) -> None:
    check(of_one(L.Discretization(bin_boundaries=[-0.5, 0.0, 0.4]), (6,)), tmp_path)


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_models_within_models(ending: str, tmp_path: Path) -> None:
    """Layers that are called twice, models within models and within sequential ones."""
    inner = keras.Sequential([L.Input((6,)), L.Dense(5, activation="relu"), L.BatchNormalization()], name="inner")
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    shared = L.Dense(4, name="shared")
    first, second = inner(a), inner(b)
    middle = keras.Model(first_in := keras.Input((5,)), [shared(first_in), L.Dense(2)(first_in)], name="middle")
    one, two = middle(first)
    other, _ = middle(second)
    outer = keras.Model([a, b], [L.Concatenate(name="joined")([one, two]), L.Add(name="sum")([one, other])])
    check(outer, tmp_path, ending=ending)
    assert list(graph_of(outer, tmp_path, 1, ending).output_names) == ["joined", "sum"]


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_all_kinds_of_weights_in_either_form(ending: str, tmp_path: Path) -> None:
    x = keras.Input(PLANE, name="x")
    y = L.SeparableConv2D(4, 3, padding="same")(x)
    y = L.DepthwiseConv2D(2)(L.PReLU(shared_axes=[1, 2])(y))
    y = L.TimeDistributed(L.Bidirectional(L.LSTM(3, return_sequences=True)))(y)
    y = L.Reshape((-1, 6))(y)
    y = L.MultiHeadAttention(2, 3)(y, y)
    y = L.RNN([L.GRUCell(3), L.LSTMCell(2)])(L.LayerNormalization()(y))
    check(keras.Model(x, y), tmp_path, ending=ending)


def test_a_state_lives_from_run_to_run(tmp_path: Path) -> None:
    x = keras.Input(batch_shape=(2, 3, 4), name="x")
    model = keras.Model(x, L.LSTM(3, stateful=True)(x))
    drawn(model)
    for variable in model.non_trainable_variables:
        if "seed" not in variable.name:
            variable.assign(np.zeros(variable.shape, np.float32))
    model.save(tmp_path / "model.keras")
    graph = read_model(tmp_path / "model.keras", ReadOptions())
    held: dict[str, np.ndarray] = {}
    for n in range(3):
        data = fed((2, 3, 4), "float32", n, 7)
        found = interpret(graph, {"x": data, **held})
        np.testing.assert_allclose(found.pop(graph.output_names[0]), np.asarray(model(data)), atol=2e-5)
        held = found
    assert len(graph.states) == 2


def test_a_model_in_memory() -> None:
    model = keras.Sequential([keras.Input((6,), name="x"), L.Dense(3)])
    drawn(model)
    graph = read_model(model, ReadOptions(dims={"batch": 2}))
    data = fed((2, 6), "float32", 0, 7)
    (found,) = interpret(graph, {"x": data}).values()
    np.testing.assert_allclose(found, np.asarray(model(data)), atol=1e-5)


def test_an_open_batch(tmp_path: Path) -> None:
    model = of_one(L.Dense(3), ROW)
    model.save(tmp_path / "model.keras")
    graph = read_model(tmp_path / "model.keras", ReadOptions(dims={"batch": (1, 8)}))
    assert [str(size) for size in graph.inputs[0].shape] == ["batch", "6"]
