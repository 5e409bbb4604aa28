"""Random networks of Keras as .keras, .h5 and layers models of TensorFlow.js, on the backend that KERAS_BACKEND names.

KERAS_BACKEND=numpy python -m random_layers.keras_layers FOLDER [--cases N] [--first N] [--seed N]
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "numpy")
import keras
import numpy as np

from random_layers.drawing import Draw, save_arrays, write_cases
from random_layers.tfjs_files import write_layers_model, write_numbered_layers_model

L, ops = keras.layers, keras.ops
#: What applies a layer to a symbolic tensor.
Layer = Callable[[Any], Any]
ACTIVATIONS = (
    "linear", "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "softplus", "softsign", "tanh", "sigmoid",
    "exponential", "hard_sigmoid", "silu", "hard_silu", "mish", "softmax", "log_softmax", "log_sigmoid", "hard_tanh",
    "tanh_shrink", "soft_shrink", "hard_shrink", "sparse_plus", "sparse_sigmoid", "squareplus",
)  # fmt: skip


def several(d: Draw, n: int, low: int, high: int) -> Any:
    return d.whole(low, high) if d.flag() else tuple(d.whole(low, high) for _ in range(n))


def layout(d: Draw) -> str:
    return d.of("channels_last", "channels_last", "channels_first")


def spacing(d: Draw, n: int) -> dict[str, Any]:
    """Strides or dilation: Keras takes one of them."""
    return {"strides": several(d, n, 1, 3)} if d.flag() else {"dilation_rate": several(d, n, 1, 2)}


def convolution(d: Draw, x: Any) -> Layer:
    n, how = x.ndim - 2, layout(d)
    channels = x.shape[-1 if how == "channels_last" else 1]
    groups = d.divisor(channels)
    kind, more = d.of("Conv", "Conv", "Depthwise", "Separable", "Transpose"), spacing(d, n)
    settings = {"data_format": how, "use_bias": d.flag(), "activation": d.of(None, *ACTIVATIONS[:14]), **more}
    size = several(d, n, 1, 4)
    padding = d.of("valid", "same", *(["causal"] if n == 1 and kind == "Conv" and how == "channels_last" else []))
    if kind == "Conv":
        name = f"Conv{n}D"
        return getattr(L, name)(groups * d.whole(1, 4), size, padding=padding, groups=groups, **settings)
    if kind == "Transpose":
        if "strides" in settings and padding == "valid" and d.flag(0.3):
            settings["strides"] = stride = d.whole(2, 3)
            settings["output_padding"] = d.whole(0, stride - 1)
        return getattr(L, f"Conv{n}DTranspose")(d.whole(1, 4), size, padding=padding, **settings)
    stride = settings.get("strides")
    if not isinstance(stride, int | None):
        settings["strides"] = stride[0]
    name = f"{kind}Conv{n}D"
    if kind == "Depthwise":
        return getattr(L, name)(size, padding=padding, depth_multiplier=d.whole(1, 3), **settings)
    return getattr(L, name)(d.whole(1, 4), size, padding=padding, depth_multiplier=d.whole(1, 2), **settings)


def pool(d: Draw, x: Any) -> Layer:
    n, how = x.ndim - 2, layout(d)
    kind = d.of("Max", "Average", "GlobalMax", "GlobalAverage", "AdaptiveAverage", "AdaptiveMax")
    layer = getattr(L, f"{kind}Pooling{n}D")
    if kind.startswith("Global"):
        return layer(data_format=how, keepdims=d.flag())
    if kind.startswith("Adaptive"):
        return layer(several(d, n, 1, 4), data_format=how)
    return layer(
        several(d, n, 1, 4), strides=d.of(None, several(d, n, 1, 3)), padding=d.of("valid", "same"), data_format=how
    )


def normalization(d: Draw, x: Any) -> Layer:
    axis, epsilon = d.whole(1, x.ndim - 1), d.of(1e-3, 1e-5)
    kind = d.of("Batch", "Layer", "Group", "RMS", "Unit", "Spectral", "Normalization")
    if kind == "Batch":
        return L.BatchNormalization(axis=axis - d.of(0, x.ndim), epsilon=epsilon, center=d.flag(), scale=d.flag())
    if kind == "Layer":
        axes = d.of(axis, -1, sorted({axis, x.ndim - 1}))
        return L.LayerNormalization(axis=axes, epsilon=epsilon, center=d.flag(), scale=d.flag())
    if kind == "Group":
        return L.GroupNormalization(
            d.divisor(x.shape[axis]), axis=axis, epsilon=epsilon, center=d.flag(), scale=d.flag()
        )
    if kind == "RMS":
        return L.RMSNormalization(epsilon=epsilon)  # along others Keras takes scales along the last dimension
    if kind == "Unit":
        return L.UnitNormalization(axis=axis)
    if kind == "Spectral":
        return L.SpectralNormalization(L.Dense(3))
    size = x.shape[-1]
    return L.Normalization(mean=d.floats(size).tolist(), variance=d.positive(size).tolist(), invert=d.flag())


def activation(d: Draw, x: Any) -> Layer:
    form = d.whole(0, 8)
    if form == 0:
        return L.PReLU(shared_axes=d.of(None, [1], list(range(1, x.ndim))))
    if form == 1:
        return L.ReLU(d.of(None, 1.5), d.of(0.0, 0.1), d.of(0.0, 0.2))
    if form == 2:
        return L.Softmax(axis=d.of(-1, d.whole(1, x.ndim - 1)))
    if form == 3:
        return d.of(L.LeakyReLU, L.ELU)(d.real(0.1, 0.9))
    if form == 4:
        return d.of(L.Dropout(0.4), L.GaussianNoise(0.3), L.ActivityRegularization(0.1), L.AlphaDropout(0.2))
    return L.Activation(d.of(*ACTIVATIONS))


def shape_of(d: Draw, x: Any) -> Layer:
    n, how = x.ndim - 2, layout(d)
    form = d.whole(0, 8)
    if form == 0:
        return L.Flatten(data_format=how)
    if form == 1:
        sizes = list(x.shape[1:])
        d.random.shuffle(sizes)
        return L.Reshape((-1, *(int(s) for s in sizes[1:])))
    if form == 2:
        return L.Permute([int(p) + 1 for p in d.random.permutation(x.ndim - 1)])
    if form == 3 and x.ndim == 2:
        return L.RepeatVector(d.whole(1, 4))
    if form in {4, 5} and 1 <= n <= 3:
        wide: Any = d.whole(0, 2)
        if d.flag():
            wide = tuple((d.whole(0, 2), d.whole(0, 2)) for _ in range(n)) if n > 1 else (d.whole(0, 2), d.whole(0, 2))
        kind = d.of("ZeroPadding", "Cropping")
        return getattr(L, f"{kind}{n}D")(wide, **({"data_format": how} if n > 1 or kind == "ZeroPadding" else {}))
    if form == 6 and 1 <= n <= 3:
        size = d.whole(1, 3) if n == 1 else several(d, n, 1, 3)
        more = {"data_format": how} if n > 1 else {}
        if n == 2:
            more["interpolation"] = d.of("nearest", "bilinear", "bicubic")
        return getattr(L, f"UpSampling{n}D")(size, **more)
    if form == 7 and n == 2:
        kind = d.of("nearest", "bilinear", "bicubic")
        fit = d.of({}, {"crop_to_aspect_ratio": True}, {"pad_to_aspect_ratio": True})
        return L.Resizing(d.whole(2, 9), d.whole(2, 9), interpolation=kind, **fit)
    if form == 8 and n == 2:
        return L.CenterCrop(d.whole(1, x.shape[1]), d.whole(1, x.shape[2]))
    return L.Rescaling(d.real(-2, 2), d.real(-1, 1))


def dense(d: Draw, x: Any) -> Layer:
    if x.ndim == 3 and d.flag(0.3):
        return L.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes=d.of(None, "de", "e"))
    return L.Dense(d.whole(1, 7), activation=d.of(None, *ACTIVATIONS), use_bias=d.flag())


def recurrent(d: Draw, x: Any) -> Layer:
    if x.ndim != 3:
        kind = getattr(L, f"ConvLSTM{x.ndim - 3}D")
        return kind(
            d.whole(1, 3), several(d, x.ndim - 3, 1, 3), padding=d.of("valid", "same"), return_sequences=d.flag(),
            strides=d.whole(1, 2), use_bias=d.flag(), go_backwards=d.flag(0.3), data_format="channels_last",
        )  # fmt: skip
    kind, units = d.of(L.LSTM, L.GRU, L.SimpleRNN), d.whole(1, 5)
    settings = {
        "return_sequences": d.flag(), "use_bias": d.flag(0.8), "activation": d.of("tanh", "relu", "sigmoid"),
        "go_backwards": d.flag(0.3),
    }  # fmt: skip
    if kind is L.GRU:
        settings["reset_after"] = d.flag()
    if d.flag(0.2):
        cells = [getattr(L, f"{kind.__name__}Cell")(d.whole(1, 4)) for _ in range(2)]
        return L.RNN(cells, return_sequences=settings["return_sequences"])
    if d.flag(0.3):
        settings["go_backwards"] = False
        return L.Bidirectional(kind(units, **settings), merge_mode=d.of("concat", "sum", "mul", "ave"))
    return kind(units, **settings)


def attention(d: Draw, x: Any) -> Layer:
    heads, form = d.whole(1, 3), d.whole(0, 3)
    if form == 0:
        made = L.MultiHeadAttention(heads, d.whole(1, 4), value_dim=d.of(None, 3), use_bias=d.flag())
        causal = d.flag()
        return lambda x: made(x, x, use_causal_mask=causal)
    if form == 1:
        made = d.of(L.Attention(use_scale=d.flag(), score_mode=d.of("dot", "concat")), L.AdditiveAttention())
        return lambda x: made([x, x])
    if form == 2:
        made = L.GroupQueryAttention(d.whole(1, 4), 4, 2, use_bias=d.flag())
        return lambda x: made(x, x)
    return L.TimeDistributed(L.Dense(3))


def merging(d: Draw, x: Any) -> Layer:
    other = d.of(L.Activation("tanh"), L.Rescaling(0.5, 0.2))
    form = d.whole(0, 7)
    if form == 0:
        made: Any = L.Concatenate(axis=d.of(-1, d.whole(1, x.ndim - 1)))
    elif form == 1 and x.ndim == 3:
        axes = d.of(1, 2, (2, 2))
        made = L.Dot(axes, normalize=d.flag())
    else:
        made = d.of(L.Add, L.Subtract, L.Multiply, L.Average, L.Maximum, L.Minimum)()
    return lambda x: made([x, other(x)])


ELEMENT = (
    "exp", "sin", "cos", "tanh", "arctan", "abs", "square", "sign", "floor", "ceil", "round", "erf", "expm1", "sinh",
    "cosh", "arcsinh", "negative", "relu", "sigmoid", "log1p", "sqrt", "log", "rsqrt", "reciprocal",
)  # fmt: skip


def operation(d: Draw, x: Any) -> Layer:
    """A function of keras.ops."""
    form, axis = d.whole(0, 9), d.whole(1, x.ndim - 1)
    if form <= 1:
        name = d.of(*ELEMENT)
        safe = name in ELEMENT[19:]
        return lambda x: getattr(ops, name)(ops.abs(x) + 0.5 if safe else x)
    if form == 2:
        name, keep = d.of("sum", "mean", "max", "min", "prod", "std", "var", "logsumexp"), d.flag()
        return lambda x: getattr(ops, name)(x, axis=axis, keepdims=keep)
    if form == 3:
        name, number = d.of("add", "subtract", "multiply", "divide", "maximum", "minimum", "mod"), d.real(0.3, 2)
        return lambda x: getattr(ops, name)(x, number)
    if form == 4:
        return lambda x: ops.flip(x, axis)
    if form == 5:
        order = [0, *(int(n) + 1 for n in d.random.permutation(x.ndim - 1))]
        return lambda x: ops.transpose(x, order)
    if form == 6:
        start, step = d.whole(0, x.shape[axis] - 1), d.whole(1, 2)
        key = tuple(slice(None) if n != axis else slice(start, None, step) for n in range(x.ndim))
        return lambda x: x[key]
    if form == 7:
        return lambda x: ops.stack([x, x * 2.0], axis=axis)
    if form == 8:
        mode = d.of("constant", "reflect", "symmetric")
        widths = [(0, 0), *((d.whole(0, n > 1), d.whole(0, n > 1)) for n in x.shape[1:])]
        return lambda x: ops.pad(x, widths, mode=mode)
    index = [int(n) for n in d.integers(0, x.shape[axis] - 1, 3)]
    return lambda x: ops.take(x, np.array(index), axis=axis)


MAKERS: tuple[tuple[Callable[[Draw, Any], Layer], range], ...] = (
    (convolution, range(3, 6)), (convolution, range(3, 6)), (pool, range(3, 6)), (normalization, range(2, 6)),
    (activation, range(2, 6)), (shape_of, range(2, 6)), (dense, range(2, 6)), (recurrent, range(3, 6)),
    (attention, range(3, 4)), (merging, range(2, 6)), (operation, range(2, 6)),
)  # fmt: skip


def drawn_weights(d: Draw, model: Any) -> None:
    """Gives every variable values that it does not have by itself."""
    for variable in model.variables:
        if "seed" not in variable.name:
            positive = any(word in variable.path for word in ("variance", "gamma"))
            value = d.positive(*variable.shape) if positive else d.floats(*variable.shape) * np.float32(0.5)
            variable.assign(value.astype(variable.dtype))


def drawn_model(d: Draw) -> tuple[Any, np.ndarray] | None:
    """A model and an input, or None where nothing fitted."""
    ndim = d.of(2, 3, 3, 4, 4, 4, 5)
    batch, sizes = d.whole(1, 3), [d.whole(1, 9) for _ in range(ndim - 1)]
    if ndim > 2 and d.flag():
        sizes[-1] = d.of(2, 4, 6)
    x = first = keras.Input(tuple(sizes), name="x")
    layers, wanted = 0, d.whole(1, 4)
    for _ in range(30):
        if layers == wanted:
            break
        maker, ranks = d.of(*MAKERS)
        if x.ndim not in ranks:
            continue
        try:
            y = maker(d, x)(x)
        except (ValueError, TypeError, NotImplementedError, IndexError, AttributeError, ZeroDivisionError):
            continue
        if any(size is None or size <= 0 for size in y.shape[1:]) or np.prod(y.shape[1:]) > 20000:
            continue
        x, layers = y, layers + 1
    if not layers:
        return None
    model = keras.Model(first, x)
    drawn_weights(d, model)
    return model, d.floats(batch, *sizes)


FILES = ("model.keras", "model.h5", "model.json")


def write(d: Draw, folder: Path, number: int) -> str | None:
    keras.backend.clear_session()
    made = drawn_model(d)
    if made is None:
        return None
    model, x = made
    y = np.asarray(model(x, training=False))
    if not np.isfinite(y).all():
        return None
    file = folder / FILES[number % len(FILES)]
    if file.suffix == ".json" and number % 2:
        write_layers_model(model, file)
    elif file.suffix == ".json":
        model.save(folder / "whole.keras")
        write_numbered_layers_model(folder / "whole.keras", file)
    else:
        model.save(file)
    save_arrays(folder, {"x": x}, [y])
    told = [f"{layer.name} {settings_of(layer)}" for layer in model.layers[1:]]
    return f"{file.name}: {list(x.shape)} -> " + " -> ".join(told)


def settings_of(layer: Any) -> dict[str, Any]:
    dull = ("initializer", "regularizer", "constraint", "name", "dtype", "trainable", "ragged", "input_shape")
    return {
        key: value for key, value in layer.get_config().items()
        if value is not None and not any(word in key for word in dull)
    }  # fmt: skip


if __name__ == "__main__":
    write_cases(write)
