"""Small models of the kinds of layers, and of their uses, that the models of `keras_zoo` leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

L, ops = keras.layers, keras.ops


def inception_time() -> Any:
    """Fawaz et al., "InceptionTime", 2020: branches of several lengths, and one past a pool."""
    x = signal = keras.Input((30, 3), name="signal")
    for _ in range(2):
        narrow = L.Conv1D(4, 1, use_bias=False)(x)
        branches = [L.Conv1D(4, size, padding="same", use_bias=False)(narrow) for size in (3, 8, 15)]
        branches.append(L.Conv1D(4, 1)(L.MaxPooling1D(3, 1, padding="same")(x)))
        x = L.ReLU(max_value=6.0, negative_slope=0.1)(L.BatchNormalization()(L.Concatenate()(branches)))
    return keras.Model(signal, L.Dense(5)(L.GlobalAveragePooling1D()(x)))


def signal_autoencoder() -> Any:
    return keras.Sequential([
        keras.Input((36, 2), name="signal"), L.ZeroPadding1D((2, 1)), L.Conv1D(6, 4, strides=2, activation="selu"),
        L.AveragePooling1D(2, padding="same"), L.Conv1DTranspose(6, 3, strides=2, padding="same", activation="elu"),
        L.UpSampling1D(2), L.Conv1DTranspose(2, 4), L.Cropping1D((1, 3)),
    ])  # fmt: skip


def volume_unet() -> Any:
    """Çiçek et al., "3D U-Net", 2016."""
    volume = keras.Input((8, 10, 6, 2), name="volume")
    skip = L.Conv3D(4, 3, padding="same", activation="relu")(volume)
    x = L.Conv3D(6, 3, padding="same", dilation_rate=2)(L.MaxPooling3D(2, padding="same")(skip))
    x = L.Conv3DTranspose(4, 2, strides=2, activation="relu")(L.GroupNormalization(3)(x))
    x = L.Concatenate()([x, skip])
    x = L.UpSampling3D((1, 1, 2))(L.Cropping3D(1)(L.ZeroPadding3D((0, 1, 2))(x)))
    return keras.Model(volume, L.Conv3D(3, 1, groups=1, activation="softmax")(x))


def keyword_separable() -> Any:
    return keras.Sequential([
        keras.Input((40, 6), name="features"), L.SeparableConv1D(8, 5, strides=2, depth_multiplier=2, padding="same"),
        L.BatchNormalization(), L.ReLU(), L.DepthwiseConv1D(3, depth_multiplier=2, padding="same"),
        L.SpatialDropout1D(0.1), L.GRU(6, reset_after=False, return_sequences=True), L.GlobalMaxPooling1D(),
        L.Dense(4),
    ])  # fmt: skip


def masked_attention() -> Any:
    """Steps that are padding neither attend nor count."""
    tokens = keras.Input((12,), dtype="int32", name="tokens")
    x = L.Embedding(20, 8, mask_zero=True)(tokens)
    x = L.Add()([x, L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)])
    x = L.LayerNormalization()(x)
    return keras.Model(tokens, L.Dense(3)(L.GlobalAveragePooling1D()(x)))


def bidirectional_merges() -> Any:
    signal = keras.Input((9, 4), name="signal")
    x = L.Bidirectional(L.LSTM(5, return_sequences=True), merge_mode="mul")(signal)
    x = L.Bidirectional(L.RNN(L.GRUCell(3), return_sequences=True), backward_layer=L.GRU(
        3, go_backwards=True, return_sequences=True
    ))(x)  # fmt: skip
    ahead, back = L.Bidirectional(L.SimpleRNN(4), merge_mode=None)(x)
    return keras.Model(signal, [ahead, back])


def states_between() -> Any:
    """Bidirectional encoder whose four states a decoder of twice the width begins with."""
    source, target = keras.Input((6, 3), name="source"), keras.Input((5, 4), name="target")
    x, h, c, back_h, back_c = L.Bidirectional(L.LSTM(4, return_state=True, return_sequences=True))(source)
    states = [L.Concatenate()([h, back_h]), L.Concatenate()([c, back_c])]
    decoded, *_ = L.LSTM(8, return_sequences=True, return_state=True)(target, initial_state=states)
    return keras.Model([source, target], [L.Dense(3)(decoded), L.Dense(2)(x)])


def frames_cnn_lstm() -> Any:
    """A network of its own for each frame, and a recurrent layer over what it gives."""
    eye = keras.Sequential([
        keras.Input((12, 12, 1)), L.Conv2D(4, 3, activation="relu"), L.MaxPooling2D(2), L.Flatten(), L.Dense(6),
    ], name="eye")  # fmt: skip
    clip = keras.Input((5, 12, 12, 1), name="clip")
    x = L.TimeDistributed(eye)(clip)
    return keras.Model(clip, L.Dense(3)(L.LSTM(5, unroll=True)(L.TimeDistributed(L.LayerNormalization())(x))))


def nested_thrice() -> Any:
    """A model of a model of a model, each of which is called twice. (A layer that stands in two of them Keras itself
    does not load again.)"""
    dense = L.Dense(6, "tanh", name="shared")
    a = keras.Input((6,), name="inner_in")
    inner = keras.Model(a, L.Add()([dense(a), dense(dense(a))]), name="inner")
    b, c = keras.Input((6,), name="left"), keras.Input((6,), name="right")
    middle = keras.Model([b, c], [inner(b), L.Multiply()([inner(c), L.Dense(6)(b)])], name="middle")
    x, y = keras.Input((6,), name="x"), keras.Input((6,), name="y")
    first, second = middle([x, y])
    third, _ = middle([second, first])
    return keras.Model([x, y], L.Concatenate()([third, second]))


def luong_attention() -> Any:
    """Luong et al., "Effective approaches to attention-based neural machine translation", 2015."""
    query, value = keras.Input((5, 6), name="query"), keras.Input((8, 6), name="value")
    dot = L.Attention(use_scale=True)([query, value])
    joined = L.Attention(score_mode="concat")([query, value])
    grouped = L.GroupQueryAttention(3, 4, 1)(query, value)
    crossed = L.MultiHeadAttention(2, 3, output_shape=5)(query, value, return_attention_scores=True)
    return keras.Model([query, value], [L.Concatenate()([dot, joined, grouped]), *crossed])


def prepared_picture() -> Any:
    """Layers that prepare pictures. The converter of TensorFlow.js takes no layers with random numbers."""
    return keras.Sequential([
        keras.Input((30, 36, 3), name="image"), L.CenterCrop(24, 30), L.Resizing(16, 20, interpolation="bicubic"),
        L.Normalization(mean=[120.0, 110.0, 100.0], variance=[400.0, 500.0, 600.0]), L.Resizing(10, 12, "nearest"),
        L.Conv2D(4, 3), L.GlobalAveragePooling2D(),
    ])  # fmt: skip


def weather_conv_lstm() -> Any:
    line = keras.Input((4, 9, 2), name="line")
    block = keras.Input((3, 4, 5, 3, 1), name="block")
    x = L.ConvLSTM1D(3, 3, padding="same", strides=2, return_sequences=True)(line)
    y = L.ConvLSTM3D(2, 2, go_backwards=True)(block)
    return keras.Model([line, block], [L.Flatten()(x), L.GlobalMaxPooling3D()(y)])


def every_activation() -> Any:
    x = keras.Input((12,), name="x")
    names = (
        "relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "softplus", "softsign", "tanh", "sigmoid", "exponential",
        "hard_sigmoid", "silu", "hard_silu", "mish", "log_softmax", "celu", "glu", "hard_shrink", "hard_tanh",
        "log_sigmoid", "soft_shrink", "sparse_plus", "sparsemax", "squareplus", "tanh_shrink", "threshold",
    )  # fmt: skip
    made = [L.Activation(name)(x) for name in names if name not in ("glu", "threshold")]
    made += [L.PReLU()(x), L.LeakyReLU(0.3)(x), L.ELU(0.7)(x), L.Softmax()(x), ops.glu(x), ops.threshold(x, 0.2, 0.1)]
    return keras.Model(x, L.Concatenate()(made))


def every_merge() -> Any:
    x, y = keras.Input((4, 6), name="x"), keras.Input((4, 6), name="y")
    merged = [kind()([x, y]) for kind in (L.Add, L.Subtract, L.Multiply, L.Average, L.Maximum, L.Minimum)]
    dots = [L.Dot((2, 2))([x, y]), L.Dot((1, 1), normalize=True)([x, y])]
    return keras.Model([x, y], [L.Concatenate(axis=1)(merged), *dots])


def every_normalization() -> Any:
    image = keras.Input((8, 8, 6), name="image")
    made = [
        L.BatchNormalization(axis=1, scale=False)(image),
        L.LayerNormalization(axis=[1, 3])(image),
        L.GroupNormalization(-1)(image),
        L.GroupNormalization(2, axis=2)(image),
        L.RMSNormalization()(image),
        L.UnitNormalization(axis=(1, 2))(image),
        L.SpectralNormalization(L.Conv2D(6, 1))(image),
    ]
    return keras.Model(image, L.Concatenate()(made))


def masked_sequences() -> Any:
    """Two masked sequences, one of which goes on with the other's mask."""
    a, b = keras.Input((7, 3), name="a"), keras.Input((7, 2), name="b")
    x, y = L.Masking(0.5)(a), L.Masking(0.0)(b)
    x = L.TimeDistributed(L.Dense(4))(L.LSTM(5, return_sequences=True)(x))
    y = L.GRU(4, return_sequences=True, go_backwards=True)(y)
    return keras.Model([a, b], L.Concatenate()([L.GRU(3)(x), L.SimpleRNN(3)(y)]))


def squeeze_and_excite() -> Any:
    """Hu et al., "Squeeze-and-excitation networks", 2018, in inverted bottlenecks."""
    image = keras.Input((20, 20, 3), name="image")
    x = L.Conv2D(8, 3, strides=2, padding="same", activation="hard_silu")(L.Rescaling(1 / 127.5, -1.0)(image))
    for stride in (1, 2):
        y = L.Activation("hard_silu")(L.BatchNormalization()(L.Conv2D(16, 1, use_bias=False)(x)))
        y = L.DepthwiseConv2D(5, strides=stride, padding="same", use_bias=False)(L.ZeroPadding2D(((0, 1), (1, 0)))(y))
        z = L.GlobalAveragePooling2D(keepdims=True)(y)
        z = L.Conv2D(16, 1, activation="hard_sigmoid")(L.Conv2D(4, 1, activation="relu")(z))
        x = L.Conv2D(8, 1)(L.Multiply()([y, z]))
    return keras.Model(image, L.Dense(4)(L.Flatten()(L.MaxPooling2D(3, 1)(x))))


def atrous_pyramid() -> Any:
    """Chen et al., "Rethinking atrous convolution", 2017."""
    image = keras.Input((24, 20, 3), name="image")
    x = L.SeparableConv2D(8, 3, strides=2, padding="same", activation="relu")(L.Rescaling(1 / 255)(image))
    made = [L.Conv2D(4, 3, padding="same", dilation_rate=rate)(x) for rate in (1, 2, 4)]
    made.append(L.DepthwiseConv2D(3, padding="same", dilation_rate=2)(x))
    pooled = L.Conv2D(4, 1)(L.AveragePooling2D((12, 10))(x))
    made.append(L.UpSampling2D((12, 10), interpolation="bilinear")(pooled))
    x = L.Conv2D(5, 1)(L.Concatenate()(made))
    return keras.Model(image, L.UpSampling2D(2, interpolation="bicubic")(x))


def tied_language_model() -> Any:
    tokens = keras.Input((10,), dtype="int32", name="tokens")
    table = L.ReversibleEmbedding(20, 8)
    x = L.GRU(8, return_sequences=True)(table(tokens))
    return keras.Model(tokens, table(x, reverse=True))


def functions_between() -> Any:
    """What models of research have between layers: sorting, gathering, slices, sums of Einstein."""
    x = keras.Input((6, 8), name="x")
    best, _ = ops.top_k(x, 3)
    order = ops.argsort(x, axis=1)
    moved = ops.take_along_axis(x, order, axis=1)
    rolled = ops.roll(x, 2, axis=1) + ops.flip(x, axis=2)[:, ::-1]
    scores = ops.einsum("bij,bkj->bik", moved, rolled)
    mixed = ops.matmul(ops.softmax(scores, axis=-1), ops.where(x > 0, x, ops.exp(x)))
    picked = ops.one_hot(ops.argmax(mixed, axis=-1), 8)
    stacked = ops.stack([ops.cumsum(mixed, axis=1), ops.pad(mixed[:, 1:, :], [[0, 0], [0, 1], [0, 0]])], axis=-1)
    return keras.Model(x, [L.Flatten()(stacked), picked, ops.logsumexp(best, axis=-1), ops.var(x, axis=(1, 2))])


def categories() -> Any:
    kinds = keras.Input((4,), dtype="int32", name="kinds")
    number = keras.Input((1,), name="number")
    counted = L.CategoryEncoding(20, output_mode="count")(kinds)
    one = L.CategoryEncoding(6, output_mode="one_hot")(L.Discretization(bin_boundaries=[-1.0, 0.0, 0.5, 1.0])(number))
    x = L.Concatenate()([counted, one, L.Flatten()(L.Embedding(20, 3)(kinds)), L.UnitNormalization()(number)])
    x = L.Dense(8, "relu")(L.GaussianDropout(0.2)(L.AlphaDropout(0.1)(x)))
    return keras.Model([kinds, number], L.Dense(2)(L.ActivityRegularization(0.1)(x)))


def adaptive_pools() -> Any:
    image, signal = keras.Input((11, 7, 3), name="image"), keras.Input((13, 2), name="signal")
    made = [L.Flatten()(L.AdaptiveAveragePooling2D((4, 3))(image)), L.Flatten()(L.AdaptiveMaxPooling2D((3, 2))(image))]
    made += [L.Flatten()(kind(5)(signal)) for kind in (L.AdaptiveAveragePooling1D, L.AdaptiveMaxPooling1D)]
    return keras.Model([image, signal], L.Dense(3)(L.Concatenate()(made)))


def mel_recognizer() -> Any:
    wave = keras.Input((1600,), name="wave")
    x = L.MelSpectrogram(num_mel_bins=16, sampling_rate=8000, sequence_stride=160, fft_length=256, max_freq=4000)(wave)
    x = L.Permute((2, 1))(x)
    return keras.Model(wave, L.Dense(4)(L.Bidirectional(L.GRU(5))(L.LayerNormalization()(x))))


def graph_convolution() -> Any:
    """Kipf and Welling, "Semi-supervised classification with graph convolutional networks", 2017."""
    nodes, edges = keras.Input((7, 5), name="nodes"), keras.Input((7, 7), name="edges")
    near = ops.sigmoid(edges) + ops.eye(7)
    scale = ops.rsqrt(ops.sum(near, axis=-1, keepdims=True))
    near = near * scale * ops.transpose(scale, (0, 2, 1))
    x = nodes
    for width in (8, 4):
        x = L.Activation("relu")(L.Dot((2, 1))([near, L.Dense(width)(x)]))
    return keras.Model([nodes, edges], L.Dense(2)(ops.max(x, axis=1)))


ZOO: dict[str, Callable[[], Any]] = {
    build.__name__: build
    for build in (
        inception_time, signal_autoencoder, volume_unet, keyword_separable, masked_attention, bidirectional_merges,
        states_between, frames_cnn_lstm, nested_thrice, luong_attention, prepared_picture, weather_conv_lstm,
        every_activation, every_merge, every_normalization, masked_sequences, squeeze_and_excite, atrous_pyramid,
        tied_language_model, functions_between, categories, adaptive_pools, mel_recognizer, graph_convolution,
    )
}  # fmt: skip
