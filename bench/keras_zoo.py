"""Small models as tutorials and products of Keras have them, one or more of every kind of layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

L, ops = keras.layers, keras.ops


def text_cnn() -> Any:
    """Kim, "Convolutional neural networks for sentence classification", 2014."""
    tokens = keras.Input((24,), dtype="int32", name="tokens")
    x = L.SpatialDropout1D(0.2)(L.Embedding(20, 16)(tokens))
    branches = [L.GlobalMaxPooling1D()(L.Conv1D(12, size, activation="relu")(x)) for size in (2, 3, 5)]
    return keras.Model(tokens, L.Dense(4, "softmax")(L.Dropout(0.5)(L.Concatenate()(branches))))


def sentiment_lstm() -> Any:
    return keras.Sequential([
        keras.Input((16,), dtype="int32", name="tokens"), L.Embedding(20, 12, mask_zero=True),
        L.Bidirectional(L.LSTM(8, return_sequences=True)), L.LSTM(6), L.Dense(1, "sigmoid"),
    ])  # fmt: skip


def tagger_gru() -> Any:
    tokens = keras.Input((14,), dtype="int32", name="tokens")
    x = L.Embedding(20, 12, mask_zero=True)(tokens)
    x = L.Bidirectional(L.GRU(7, return_sequences=True), merge_mode="sum")(x)
    return keras.Model(tokens, L.TimeDistributed(L.Dense(5, "softmax"))(x))


def transformer_encoder() -> Any:
    tokens = keras.Input((18,), dtype="int32", name="tokens")
    positions = keras.Input((18,), dtype="int32", name="positions")
    x = L.Embedding(20, 24)(tokens) + L.Embedding(20, 24)(positions)
    for _ in range(2):
        x = L.LayerNormalization()(x + L.MultiHeadAttention(4, 6)(x, x))
        x = L.LayerNormalization()(x + L.Dense(24)(L.Dense(48, "gelu")(x)))
    return keras.Model([tokens, positions], L.Dense(3)(L.GlobalAveragePooling1D()(x)))


def language_decoder() -> Any:
    """Grouped queries, causal, root mean squares and gates, as LLaMA has them."""
    tokens = keras.Input((12,), dtype="int32", name="tokens")
    embedding = L.Embedding(20, 16)
    x = embedding(tokens)
    for _ in range(2):
        y = L.RMSNormalization()(x)
        x = x + L.GroupQueryAttention(4, 4, 2)(y, y, use_causal_mask=True)
        y = L.RMSNormalization()(x)
        x = x + L.Dense(16, use_bias=False)(L.Dense(32, "silu", use_bias=False)(y) * L.Dense(32, use_bias=False)(y))
    return keras.Model(tokens, L.Dense(20, use_bias=False)(L.RMSNormalization()(x)))


def translator_seq2seq() -> Any:
    """An encoder whose state a decoder begins with, and attention between them."""
    source, target = keras.Input((9, 5), name="source"), keras.Input((7, 4), name="target")
    encoded, hidden, cell = L.LSTM(10, return_sequences=True, return_state=True)(source)
    decoded = L.LSTM(10, return_sequences=True)(target, initial_state=[hidden, cell])
    context = L.AdditiveAttention()([decoded, encoded])
    return keras.Model([source, target], L.Dense(6, "softmax")(L.Concatenate()([decoded, context])))


def segmentation_unet() -> Any:
    image = keras.Input((48, 32, 3), name="image")
    x, skipped = L.Rescaling(1 / 255)(image), []
    for width in (8, 16):
        x = L.Conv2D(width, 3, padding="same", activation="relu")(x)
        skipped.append(x)
        x = L.MaxPooling2D()(x)
    x = L.Conv2D(24, 3, padding="same", dilation_rate=2, activation="relu")(x)
    for width, skip in zip((16, 8), reversed(skipped), strict=True):
        x = L.Concatenate()([L.Conv2DTranspose(width, 2, strides=2)(x), skip])
        x = L.Activation("relu")(L.GroupNormalization(4)(L.SeparableConv2D(width, 3, padding="same")(x)))
    return keras.Model(image, L.Conv2D(3, 1, activation="softmax")(x))


def denoising_autoencoder() -> Any:
    """A model of two models."""
    image = keras.Input((16, 16, 1), name="image")
    encoder = keras.Sequential([
        keras.Input((16, 16, 1)), L.GaussianNoise(0.1), L.Conv2D(8, 3, strides=2, padding="same", activation="elu"),
        L.Conv2D(4, 3, strides=2, padding="same", activation="elu"), L.Flatten(), L.Dense(10),
    ], name="encoder")  # fmt: skip
    decoder = keras.Sequential([
        keras.Input((10,)), L.Dense(64, "elu"), L.Reshape((4, 4, 4)),
        L.Conv2DTranspose(8, 3, strides=2, padding="same", activation="elu"),
        L.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid"),
    ], name="decoder")  # fmt: skip
    return keras.Model(image, decoder(encoder(image)))


def generator_dcgan() -> Any:
    return keras.Sequential([
        keras.Input((20,), name="noise"), L.Dense(4 * 4 * 16, use_bias=False), L.BatchNormalization(), L.LeakyReLU(0.2),
        L.Reshape((4, 4, 16)), L.Conv2DTranspose(8, 5, strides=2, padding="same", use_bias=False),
        L.BatchNormalization(), L.LeakyReLU(0.2), L.Conv2DTranspose(3, 4, strides=2, padding="same", activation="tanh"),
    ])  # fmt: skip


def discriminator_spectral() -> Any:
    return keras.Sequential([
        keras.Input((24, 24, 3), name="image"), L.Rescaling(1 / 127.5, -1),
        L.SpectralNormalization(L.Conv2D(8, 4, strides=2, padding="same")), L.LeakyReLU(0.2), L.Dropout(0.3),
        L.SpectralNormalization(L.Conv2D(12, 4, strides=2, padding="same")), L.PReLU(shared_axes=[1, 2]),
        L.ZeroPadding2D(1), L.Cropping2D(((1, 0), (0, 1))), L.Flatten(), L.UnitNormalization(), L.Dense(1),
    ])  # fmt: skip


def video_conv_lstm() -> Any:
    frames = keras.Input((5, 10, 9, 2), name="frames")
    x = L.ConvLSTM2D(4, 3, padding="same", return_sequences=True)(frames)
    x = L.BatchNormalization()(x)
    return keras.Model(frames, L.Conv3D(2, 3, padding="same", activation="sigmoid")(x))


def video_c3d() -> Any:
    return keras.Sequential([
        keras.Input((8, 16, 16, 2), name="clip"), L.Conv3D(6, 3, padding="same", activation="relu"),
        L.MaxPooling3D((1, 2, 2)), L.Conv3D(8, 3, padding="same", activation="relu"), L.AveragePooling3D(2),
        L.TimeDistributed(L.Conv2D(4, 3, activation="relu")), L.GlobalAveragePooling3D(), L.Dense(5),
    ])  # fmt: skip


def temporal_convolutions() -> Any:
    """Bai et al., "An empirical evaluation of generic convolutional and recurrent networks", 2018; gates of WaveNet."""
    signal = keras.Input((40, 3), name="signal")
    x = L.Conv1D(8, 1)(signal)
    for rate in (1, 2, 4, 8):
        gates = [L.Conv1D(8, 2, padding="causal", dilation_rate=rate, activation=a)(x) for a in ("tanh", "sigmoid")]
        x = L.Add()([x, L.Conv1D(8, 1)(L.Multiply()(gates))])
    return keras.Model(signal, L.Dense(4)(L.LayerNormalization()(x)[:, -1]))


def siamese_pictures() -> Any:
    """One network that is called twice."""
    tower = keras.Sequential([
        keras.Input((20, 20, 1)), L.Conv2D(8, 3, activation="relu"), L.AveragePooling2D(3, 2, padding="same"),
        L.DepthwiseConv2D(3, depth_multiplier=2, activation="hard_silu"), L.GlobalAveragePooling2D(), L.Dense(9),
    ], name="tower")  # fmt: skip
    left, right = keras.Input((20, 20, 1), name="left"), keras.Input((20, 20, 1), name="right")
    a, b = tower(left), tower(right)
    distance = ops.sum(ops.square(a - b), axis=-1, keepdims=True)
    return keras.Model([left, right], [L.Dot(1, normalize=True)([a, b]), ops.exp(-ops.sqrt(distance + 1e-6))])


def tabular_wide_and_deep() -> Any:
    """Cheng et al., "Wide & deep learning for recommender systems", 2016, over columns of numbers and of kinds."""
    numbers = keras.Input((6,), name="numbers")
    kinds = keras.Input((3,), dtype="int32", name="kinds")
    bins = L.Embedding(8, 3)(L.Discretization(bin_boundaries=[-1.0, -0.3, 0.2, 0.9])(numbers))
    scaled = L.Normalization(mean=[0.1, 0.2, -0.3, 0.4, 0.0, 0.5], variance=[1.0, 2.0, 0.5, 1.5, 0.7, 1.1])(numbers)
    wide = L.CategoryEncoding(20, output_mode="multi_hot")(kinds)
    deep = L.Concatenate()([scaled, L.Flatten()(L.Embedding(20, 4)(kinds)), L.Flatten()(bins)])
    for width in (24, 12):
        deep = L.BatchNormalization()(L.Dense(width, "selu")(deep))
    return keras.Model([numbers, kinds], L.Dense(1, "sigmoid")(L.Concatenate()([wide, deep])))


def cross_network() -> Any:
    """Wang et al., "DCN V2", 2020, and interactions of pairs as factorization machines have them."""
    x0 = x = keras.Input((10,), name="features")
    for _ in range(3):
        x = L.Add()([L.Multiply()([x0, L.Dense(10)(x)]), x])
    fields = L.Reshape((5, 2))(x0)
    pairs = ops.square(ops.sum(fields, axis=1)) - ops.sum(ops.square(fields), axis=1)
    return keras.Model(x0, L.Dense(2)(L.Concatenate()([x, L.Maximum()([pairs, -pairs]), L.Average()([x, x0])])))


def vision_transformer() -> Any:
    image = keras.Input((32, 32, 3), name="image")
    x = L.Conv2D(16, 8, strides=8)(L.Rescaling(1 / 127.5, -1)(image))
    x = L.Reshape((16, 16))(x)
    x = x + L.EinsumDense("abc,bd->abd", output_shape=(16, 16))(x)
    for _ in range(2):
        y = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([x, L.MultiHeadAttention(2, 8, value_dim=6)(y, y)])
        y = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([x, L.Dense(16)(L.Dense(32, keras.activations.gelu)(y))])
    return keras.Model(image, L.Dense(7)(L.Flatten()(x)))


def mixer() -> Any:
    """Tolstikhin et al., "MLP-Mixer", 2021."""
    x = image = keras.Input((24, 24, 3), name="image")
    x = L.Reshape((9, 12))(L.Conv2D(12, 8, strides=8)(L.Resizing(24, 24)(x)))
    for _ in range(2):
        y = L.Permute((2, 1))(L.LayerNormalization()(x))
        x = x + L.Permute((2, 1))(L.Dense(9)(L.Dense(18, "gelu")(y)))
        x = x + L.Dense(12)(L.Dense(24, "mish")(L.LayerNormalization()(x)))
    return keras.Model(image, L.Dense(5)(L.GlobalMaxPooling1D()(x)))


def super_resolution() -> Any:
    image = keras.Input((12, 14, 3), name="image")
    x = L.PReLU(shared_axes=[1, 2])(L.Conv2D(12, 5, padding="same")(L.Rescaling(1 / 255)(image)))
    x = L.Conv2D(12, 3, padding="same", groups=3, activation="leaky_relu")(x)
    x = ops.reshape(ops.transpose(ops.reshape(x, (-1, 12, 14, 2, 2, 3)), (0, 1, 3, 2, 4, 5)), (-1, 24, 28, 3))
    return keras.Model(image, L.Add()([x, L.UpSampling2D(2, interpolation="bilinear")(image)]))


def pyramid_detector() -> Any:
    """Heads over several sizes of one picture, several outputs."""
    image = keras.Input((64, 64, 3), name="image")
    x, levels = L.Rescaling(1 / 255)(image), []
    for width in (8, 12, 16):
        x = L.BatchNormalization()(L.Conv2D(width, 3, strides=2, padding="same", activation="swish")(x))
        levels.append(L.Conv2D(8, 1)(x))
    top = levels.pop()
    merged = [top]
    while levels:
        top = L.Add()([L.UpSampling2D()(top), levels.pop()])
        merged.append(top)
    head = L.Conv2D(6, 3, padding="same")
    flat = [L.Reshape((-1, 6))(head(level)) for level in merged]
    joined = L.Concatenate(axis=1)(flat)
    return keras.Model(image, {"boxes": joined[..., :4], "scores": ops.sigmoid(joined[..., 4:])})


def stacked_cells() -> Any:
    signal = keras.Input((11, 4), name="signal")
    x = L.Masking(0.0)(signal)
    x = L.RNN([L.LSTMCell(6), L.GRUCell(5, reset_after=False)], return_sequences=True)(x)
    x = L.Bidirectional(L.SimpleRNN(4, activation="relu"), merge_mode="ave")(x)
    return keras.Model(signal, L.RepeatVector(2)(x))


def spoken_words() -> Any:
    """A spectrogram within the model."""
    wave = keras.Input((800, 1), name="wave")
    x = L.STFTSpectrogram(mode="magnitude", frame_length=64, frame_step=32, fft_length=64)(wave)
    x = L.Reshape((-1, 33, 1))(ops.log(x + 1e-3))
    x = L.Conv2D(6, 3, strides=2, activation="relu6")(x)
    x = L.Reshape((x.shape[1], -1))(x)
    return keras.Model(wave, L.Dense(4)(L.GRU(8)(x)))


ZOO: dict[str, Callable[[], Any]] = {
    build.__name__: build
    for build in (
        text_cnn, sentiment_lstm, tagger_gru, transformer_encoder, language_decoder, translator_seq2seq,
        segmentation_unet, denoising_autoencoder, generator_dcgan, discriminator_spectral, video_conv_lstm, video_c3d,
        temporal_convolutions, siamese_pictures, tabular_wide_and_deep, cross_network, vision_transformer, mixer,
        super_resolution, pyramid_detector, stacked_cells, spoken_words,
    )
}  # fmt: skip
