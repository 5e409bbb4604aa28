"""Random networks of TensorFlow as SavedModels and frozen graphs.

python -m random_layers.tensorflow_layers FOLDER [--cases N] [--first N] [--seed N]
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from random_layers.drawing import Draw, save_arrays, write_cases

warnings.simplefilter("ignore")
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

Layer = Callable[[Any], Any]
Maker = Callable[[Draw, Any], Layer]


class Weights:
    """Weights that a layer holds as a variable or as a constant."""

    def __init__(self, d: Draw):
        self.draw = d
        self.variables: list[Any] = []

    def __call__(self, *shape: int, positive: bool = False) -> Callable[[], Any]:
        value = self.draw.positive(*shape) if positive else self.draw.floats(*shape) * np.float32(0.7)
        if self.draw.flag():
            made = tf.Variable(value)
            self.variables.append(made)
            return made.read_value
        return lambda: tf.constant(value)


def convolution(d: Draw, x: Any, weights: Weights) -> Layer:
    n, channels = len(x.shape) - 2, x.shape[-1]
    size = [d.whole(1, 4) for _ in range(n)]
    padding, bias = d.of("SAME", "VALID"), d.flag()
    stride, dilation = [1] * n, [1] * n
    if d.flag():
        stride = [d.whole(1, 3) for _ in range(n)]
    else:
        dilation = [d.whole(1, 2) for _ in range(n)]
    if n == 2 and d.flag(0.25):
        kernel, step = weights(*size, channels, d.whole(1, 3)), stride[0]
        return lambda x: tf.nn.depthwise_conv2d(x, kernel(), [1, step, step, 1], padding, dilations=dilation)
    if d.flag(0.25):
        out = d.whole(1, 4)
        kernel = weights(*size, out, channels)
        sizes = [
            n * s if padding == "SAME" else (n - 1) * s + k for n, s, k in zip(x.shape[1:-1], stride, size, strict=True)
        ]
        function = {1: tf.nn.conv1d_transpose, 2: tf.nn.conv2d_transpose, 3: tf.nn.conv3d_transpose}[n]
        shape = [x.shape[0], *sizes, out]
        return lambda x: function(x, kernel(), shape, strides=stride, padding=padding)
    groups = d.divisor(channels) if n == 2 and max(dilation) == 1 and d.flag(0.3) else 1
    out = d.whole(1, 4) * groups
    kernel = weights(*size, channels // groups, out)
    added = weights(out)
    padded: Any = padding
    if n == 2 and d.flag(0.2):
        padded = [[0, 0], [d.whole(0, 2), d.whole(0, 2)], [d.whole(0, 2), d.whole(0, 2)], [0, 0]]
    if n == 2:
        return lambda x: (
            tf.nn.bias_add(tf.nn.conv2d(x, kernel(), stride, padded, dilations=dilation), added()) if bias
            else tf.nn.conv2d(x, kernel(), stride, padded, dilations=dilation)
        )  # fmt: skip
    return lambda x: tf.nn.convolution(x, kernel(), strides=stride, padding=padding, dilations=dilation) + added()


def pool(d: Draw, x: Any, weights: Weights) -> Layer:
    n = len(x.shape) - 2
    size, stride = [d.whole(1, 4) for _ in range(n)], [d.whole(1, 3) for _ in range(n)]
    padding, kind = d.of("SAME", "VALID"), d.of("MAX", "AVG")
    if n == 2 and d.flag(0.2):
        return lambda x: tf.nn.max_pool_with_argmax(x, size, stride, padding).output
    return lambda x: tf.nn.pool(x, size, kind, stride, padding)


def normalization(d: Draw, x: Any, weights: Weights) -> Layer:
    channels, rank = x.shape[-1], len(x.shape)
    mean, variance = weights(channels), weights(channels, positive=True)
    scale, offset, epsilon = weights(channels, positive=True), weights(channels), d.of(1e-3, 1e-5)
    form = d.whole(0, 4)
    if form == 0 and rank == 4:
        return lambda x: tf.compat.v1.nn.fused_batch_norm(
            x, scale(), offset(), mean(), variance(), epsilon, is_training=False
        )[0]
    if form == 1:
        return lambda x: tf.nn.batch_normalization(x, mean(), variance(), offset(), scale(), epsilon)
    if form == 2:
        axes, keep = sorted({n % rank for n in d.axes(rank)}), d.flag()
        return lambda x: tf.nn.moments(x, axes, keepdims=keep)[1]
    if form == 3 and rank == 4:
        depth, bias, alpha = d.whole(1, 3), d.real(0.5, 2), d.real(0.1, 1)
        return lambda x: tf.nn.local_response_normalization(x, depth, bias, alpha, 0.6)
    axis = d.axis(rank)
    return lambda x: tf.math.l2_normalize(x, axis)


UNARY = (
    "abs", "negative", "sign", "exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asinh", "atan", "erf",
    "erfc", "square", "sigmoid", "softplus", "softsign", "floor", "ceil", "round", "rint", "nn.relu", "nn.relu6",
    "nn.elu",
    "nn.selu", "nn.leaky_relu", "nn.gelu", "nn.silu", "nn.swish", "nn.log_softmax", "nn.softmax", "math.log_sigmoid",
    "math.softplus", "math.is_nan", "math.logical_not",
)  # fmt: skip
OF_POSITIVE = ("log", "log1p", "sqrt", "rsqrt", "reciprocal", "acosh", "lgamma")


def named(name: str) -> Callable[..., Any]:
    for place in (tf, tf.math, tf.nn, tf.bitwise):
        found: Any = place
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found
    raise AttributeError(name)


def element(d: Draw, x: Any, weights: Weights) -> Layer:
    if d.flag(0.25):
        function = named(d.of(*OF_POSITIVE))
        return lambda x: function(tf.abs(x) + 1.1)
    function = named(d.of(*UNARY))
    return function


BINARY = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "squared_difference", "atan2", "floordiv",
    "floormod",
    "math.divide_no_nan", "math.multiply_no_nan", "math.xdivy", "truncatemod", "pow", "math.xlogy", "greater",
    "less_equal",
    "equal", "not_equal",
)  # fmt: skip


def binary(d: Draw, x: Any, weights: Weights) -> Layer:
    name = d.of(*BINARY)
    function = named(name)
    other = weights(*[d.of(1, n) for n in x.shape[d.whole(0, len(x.shape)) :]], positive=True)
    if name == "pow":
        return lambda x: function(tf.abs(x), other())
    return (lambda x: function(x, other())) if d.flag(0.7) else (lambda x: function(other(), tf.abs(x) + 0.5))


def reduction(d: Draw, x: Any, weights: Weights) -> Layer:
    rank, keep = len(x.shape), d.flag()
    axes: Any = d.of(None, d.axis(rank), sorted({n % rank for n in d.axes(rank)}))
    form = d.whole(0, 5)
    if form == 0:
        axis, name = d.axis(rank), d.of("argmax", "argmin")
        kind = d.of(tf.int32, tf.int64)
        return lambda x: getattr(tf, name)(x, axis, output_type=kind)
    if form == 1:
        axis, exclusive, reverse = d.axis(rank), d.flag(), d.flag()
        name = d.of("cumsum", "math.cumprod", "math.cumulative_logsumexp")
        return lambda x: named(name)(x, axis, exclusive, reverse)
    if form == 2:
        axis = d.axis(rank)
        order = d.of(1, 2, np.inf, "euclidean")
        return lambda x: tf.norm(x, order, axis=axis, keepdims=keep)
    name = d.of(
        "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_logsumexp", "math.reduce_std",
        "math.reduce_variance", "math.reduce_euclidean_norm", "math.count_nonzero",
    )  # fmt: skip
    return lambda x: named(name)(x, axes, keepdims=keep)


def picking(d: Draw, x: Any, weights: Weights) -> Layer:
    rank, axis = len(x.shape), d.axis(len(x.shape))
    size, form = x.shape[axis], d.whole(0, 11)
    if form <= 1:
        key = tuple(
            d.of(slice(None), slice(d.of(None, d.whole(-n, n)), d.of(None, d.whole(-n, n)), d.of(1, 2, 3, -1)),
                 d.whole(-n, n - 1), tf.newaxis)
            for n in x.shape[: d.whole(1, rank)]
        )  # fmt: skip
        if d.flag(0.3):
            key = (..., d.whole(0, x.shape[-1] - 1))
        return lambda x: x[key]
    if form == 2:
        index = d.integers(0, size - 1, *d.of((3,), (2, 2), ()), dtype=d.of("int32", "int64"))
        return lambda x: tf.gather(x, index, axis=axis)
    if form == 3:
        index = d.integers(0, 0, 3, d.whole(1, rank))
        for n in range(index.shape[1]):
            index[:, n] = d.integers(0, x.shape[n] - 1, 3)
        return lambda x: tf.gather_nd(x, index)
    if form == 4:
        k = d.whole(1, x.shape[-1])
        return lambda x: tf.math.top_k(x, k).values
    if form == 5:
        count = d.divisor(size)
        return lambda x: tf.split(x, count, axis)[-1]
    if form == 6:
        first = d.whole(0, size)
        return lambda x: tf.split(x, [first, size - first], axis)[1 if first < size else 0]
    if form == 7:
        direction = d.of("ASCENDING", "DESCENDING")
        return lambda x: tf.sort(x, axis, direction)
    if form == 8:
        low, high = d.whole(-1, rank), d.whole(-1, rank)
        return lambda x: tf.linalg.band_part(x, low, high)
    if form == 9:
        k = d.whole(-1, 1)
        return lambda x: tf.linalg.diag_part(x, k=k)
    if form == 10:
        index = d.integers(0, x.shape[0] - 1, 2, 1)
        values = weights(2, *x.shape[1:])
        function = d.of(tf.tensor_scatter_nd_update, tf.tensor_scatter_nd_add, tf.tensor_scatter_nd_max)
        if function is tf.tensor_scatter_nd_update:
            index[1] = (index[0] + 1) % max(2, x.shape[0])
        return lambda x: function(x, index, values())
    ids = np.sort(d.integers(0, 2, x.shape[0]))
    function = d.of(tf.math.unsorted_segment_sum, tf.math.unsorted_segment_mean, tf.math.unsorted_segment_max)
    return lambda x: function(x, ids, 3)


def shape_of(d: Draw, x: Any, weights: Weights) -> Layer:
    rank, axis, form = len(x.shape), d.axis(len(x.shape)), d.whole(0, 13)
    if form == 0:
        order = d.order(rank)
        return lambda x: tf.transpose(x, order)
    if form == 1:
        return lambda x: tf.reshape(x, [tf.shape(x)[0], -1])
    if form == 2:
        where = d.whole(-rank - 1, rank)
        return lambda x: tf.expand_dims(x, where)
    if form == 3:
        times = [d.whole(1, 2) for _ in range(rank)]
        return lambda x: tf.tile(x, times)
    if form == 4:
        axes = sorted({n % rank for n in d.axes(rank)})
        return lambda x: tf.reverse(x, axes)
    if form == 5:
        mode = d.of("CONSTANT", "REFLECT", "SYMMETRIC")
        widths = [[d.whole(0, 2), d.whole(0, 2)] for _ in range(rank)]
        value = d.real(-1, 1)
        return lambda x: tf.pad(x, widths, mode, constant_values=value)
    if form == 6:
        return lambda x: tf.concat([x, x * 2.0], axis)
    if form == 7:
        where = d.whole(-rank - 1, rank)
        return lambda x: tf.stack([x, -x], where)
    if form == 8:
        return lambda x: tf.unstack(x, axis=axis)[0]
    if form == 9:
        return lambda x: tf.roll(x, [2, -1], [axis, 0])
    if form == 10 and rank == 4:
        name, order = d.of("depth_to_space", "space_to_depth"), d.of("NHWC")
        return lambda x: getattr(tf.nn, name)(x, 2, order)
    if form == 11 and rank == 4:
        block = [d.whole(1, 2), d.whole(1, 3)]
        widths = [[0, -n % b] for n, b in zip(x.shape[1:3], block, strict=True)]
        return lambda x: tf.space_to_batch(x, block, widths)
    if form == 12:
        shape = [d.whole(1, 2), *x.shape]
        return lambda x: tf.broadcast_to(x, shape)
    times = d.whole(1, 3)
    return lambda x: tf.repeat(x, times, axis)


def product(d: Draw, x: Any, weights: Weights) -> Layer:
    rank, last, form = len(x.shape), x.shape[-1], d.whole(0, 5)
    if form == 0 and rank == 2:
        kernel, bias, turned = d.whole(1, 6), weights(1), d.flag()
        held = weights(*((kernel, last) if turned else (last, kernel)))
        return lambda x: tf.matmul(x, held(), transpose_b=turned) + bias()
    if form == 1:
        kernel = weights(last, d.whole(1, 5))
        return lambda x: tf.tensordot(x, kernel(), 1)
    if form == 2:
        turned = d.flag()
        return lambda x: tf.matmul(x, x, transpose_a=turned, transpose_b=not turned)
    if form == 3:
        kernel = weights(last, 3, 2)
        return lambda x: tf.einsum("...i,ijk->...kj", x, kernel())
    if form == 4 and rank > 2:
        kernel = weights(*[d.of(1, n) for n in x.shape[:-2]], last, 4)
        return lambda x: tf.matmul(x, kernel())
    kernel = weights(x.shape[0], 3)
    return lambda x: tf.tensordot(x, kernel(), [[0], [0]])


def picture(d: Draw, x: Any, weights: Weights) -> Layer:
    form = d.whole(0, 7)
    size = (d.whole(1, 11), d.whole(1, 11))
    if form <= 1:
        kind = d.of("bilinear", "nearest", "bicubic", "area", "lanczos3", "gaussian", "mitchellcubic")
        soft = d.flag(0.3)
        return lambda x: tf.image.resize(x, size, kind, antialias=soft)
    if form == 2:
        name = d.of("resize_bilinear", "resize_nearest_neighbor", "resize_bicubic", "resize_area")
        corners = d.flag()
        centers = not corners and name != "resize_area" and d.flag()
        more = {"half_pixel_centers": True} if centers else {"align_corners": corners}
        return lambda x: getattr(tf.compat.v1.image, name)(x, size, **more)
    if form == 3:
        boxes = np.sort(d.random.uniform(-0.1, 1.1, (3, 2, 2)), 1).reshape(3, 4).astype(np.float32)
        index, kind = d.integers(0, x.shape[0] - 1, 3), d.of("bilinear", "nearest")
        return lambda x: tf.image.crop_and_resize(x, boxes, index, size, kind, 0.5)
    if form == 4:
        ks, st, ra = [1, d.whole(1, 3), d.whole(1, 3), 1], [1, d.whole(1, 2), 1, 1], [1, d.whole(1, 2), 1, 1]
        padding = d.of("SAME", "VALID")
        return lambda x: tf.image.extract_patches(x, ks, st, ra, padding)
    if form == 5:
        kernel, padding = weights(d.whole(1, 3), d.whole(1, 3), x.shape[-1]), d.of("SAME", "VALID")
        function = d.of(tf.nn.dilation2d, tf.nn.erosion2d)
        return lambda x: function(x, kernel(), [1, 1, 1, 1], padding, "NHWC", [1, 1, 1, 1])
    if form == 6:
        name = d.of("rgb_to_hsv", "hsv_to_rgb", "rgb_to_grayscale", "rgb_to_yuv", "rgb_to_yiq")
        return lambda x: getattr(tf.image, name)(tf.sigmoid(x[..., :3]))
    return tf.image.per_image_standardization


def typed(d: Draw, x: Any, weights: Weights) -> Layer:
    form, kind = d.whole(0, 6), d.of(tf.int32, tf.int64, tf.int8, tf.uint8, tf.int16, tf.float64, tf.float16, tf.bool)
    if form <= 1:
        return lambda x: tf.cast(tf.abs(x) * 3.0, kind)
    if form == 2:
        depth, axis = d.whole(2, 5), d.axis(len(x.shape) + 1)
        return lambda x: tf.one_hot(tf.cast(x * 2.0, tf.int32), depth, 0.5, -0.5, axis)
    if form == 3:
        number = d.whole(1, 4)
        name = d.of("floordiv", "floormod", "bitwise.bitwise_and", "bitwise.left_shift", "truncatediv", "truncatemod")
        return lambda x: named(name)(tf.cast(x * 9.0, tf.int32), number)
    if form == 4:
        table = weights(5, d.whole(1, 3))
        return lambda x: tf.nn.embedding_lookup(table(), tf.cast(tf.abs(x) * 3.0, tf.int32) % 5)
    if form == 5:
        return lambda x: tf.where(x > 0, x, x * 0.5 - 1.0)
    low, high = d.real(-2, 0), d.real(0.1, 2)
    return lambda x: tf.quantization.fake_quant_with_min_max_args(x, low, high)


def decomposed(d: Draw, x: Any, weights: Weights) -> Layer:
    """Linear algebra of small symmetric matrices."""
    form = d.whole(0, 5)
    right = weights(x.shape[-1], 2)

    def gram(x: Any) -> Any:
        wide = tf.matmul(x, x, transpose_a=True)
        return wide + tf.eye(x.shape[-1]) * 2.0

    def sides(x: Any) -> Any:
        return tf.broadcast_to(right(), [*x.shape[:-2], *right().shape])

    if form == 0:
        return lambda x: tf.linalg.cholesky(gram(x))
    if form == 1:
        return lambda x: tf.linalg.inv(gram(x))
    if form == 2:
        turned = d.flag()
        return lambda x: tf.linalg.solve(gram(x), sides(x), adjoint=turned)
    if form == 3:
        lower = d.flag()
        return lambda x: tf.linalg.triangular_solve(gram(x), sides(x), lower=lower)
    if form == 4:
        return lambda x: tf.linalg.det(gram(x) * 0.3)
    return lambda x: tf.linalg.trace(gram(x))


def control(d: Draw, x: Any, weights: Weights) -> Layer:
    form, count = d.whole(0, 3), d.whole(1, 4)
    if form == 0:
        return lambda x: tf.cond(tf.reduce_max(tf.abs(x)) > 0.613, lambda: x * 2.0, lambda: x - 1.0)
    if form == 1:
        return lambda x: tf.while_loop(lambda i, v: i < count, lambda i, v: (i + 1, tf.tanh(v) * 1.5), [0, x])[1]
    if form == 2:
        return lambda x: tf.map_fn(lambda r: r * tf.reduce_mean(r), x)
    return lambda x: tf.scan(lambda a, b: a * 0.5 + b, x)


MAKERS: tuple[tuple[Any, range], ...] = (
    (convolution, range(3, 6)), (convolution, range(3, 6)), (pool, range(3, 6)), (normalization, range(2, 6)),
    (element, range(1, 6)), (binary, range(1, 6)), (reduction, range(1, 6)), (picking, range(1, 6)),
    (shape_of, range(1, 6)), (product, range(2, 5)), (picture, range(4, 5)), (picture, range(4, 5)), (typed, range(1,
    5)),
    (decomposed, range(2, 4)), (control, range(1, 5)),
)  # fmt: skip
STEEP = (element, binary, typed, picking, reduction)


def write(d: Draw, folder: Path, number: int) -> str | None:
    rank = d.of(1, 2, 3, 3, 4, 4, 4, 4, 5)
    sizes = [d.whole(1, 3), *(d.whole(1, 9) for _ in range(rank - 1))]
    if rank > 2 and d.flag():
        sizes[-1] = d.of(2, 3, 4, 6)
    first = d.floats(*sizes)
    x, layers, said, weights = tf.constant(first), [], [f"{sizes}"], Weights(d)
    wanted = d.whole(1, 4)
    for _ in range(30):
        if len(layers) == wanted or x.dtype != tf.float32:
            break
        maker, ranks = d.of(*MAKERS)
        if len(x.shape) not in ranks or (layers and maker in STEEP and d.flag(0.6)):
            continue
        before = len(weights.variables)
        try:
            layer = maker(d, x, weights)
            y = layer(x)
        except Exception:  # TensorFlow ends in many ways where it does not take what was drawn
            del weights.variables[before:]
            continue
        if not 0 < np.prod(y.shape, initial=1) < 20000 or not np.abs(np.asarray(y).astype(np.float64)).max() < 1e6:
            continue
        layers.append(layer)
        said.append(f"{maker.__name__}{told(layer)}")
        x = y
    if not layers:
        return None
    module = tf.Module()
    module.held = weights.variables

    def run(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    module.run = tf.function(run, input_signature=[tf.TensorSpec(first.shape, tf.float32, name="x")], autograph=False)
    concrete = module.run.get_concrete_function()
    result = concrete(tf.constant(first)).numpy()
    if number % 2:
        frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=d.flag())
        (folder / "model.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
    else:
        tf.saved_model.save(module, str(folder / "saved"), signatures=concrete)
    save_arrays(folder, {"x": first}, [result])
    return " -> ".join(said)


def told(layer: Any) -> str:
    """What a function holds on to, and what it calls."""
    if not hasattr(layer, "__code__"):
        return f" {getattr(layer, '__name__', layer)}"
    held = dict(zip(layer.__code__.co_freevars, (c.cell_contents for c in layer.__closure__ or ()), strict=True))
    values = {n: list(v.shape) if hasattr(v, "shape") else getattr(v, "__name__", v) for n, v in held.items()}
    values = {n: v for n, v in values.items() if not callable(v)}
    return f"{values}{list(layer.__code__.co_names)}"


if __name__ == "__main__":
    write_cases(write, "random_layers.tensorflow_layers")
