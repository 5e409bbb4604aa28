"""Random networks of MXNet as symbols with parameters; MXNet 1.9.1 needs a NumPy before 1.24.

python -m random_layers.mxnet_layers FOLDER [--cases N] [--first N] [--seed N]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

np.bool = bool  # MXNet asks for it under this name

import mxnet as mx  # noqa: E402

from random_layers.drawing import Draw, save_arrays, write_cases  # noqa: E402

warnings.simplefilter("ignore")
S = mx.sym
#: A layer: a symbol of a symbol; shapes are those of what it is given.
Maker = Callable[[Draw, Any, tuple[int, ...]], Any]


def several(d: Draw, n: int, low: int, high: int) -> tuple[int, ...]:
    return tuple(d.whole(low, high) for _ in range(n))


def convolution(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    n, channels = len(shape) - 2, shape[1]
    groups = d.divisor(channels)
    return S.Convolution(
        x, kernel=several(d, n, 1, 4), num_filter=groups * d.whole(1, 4), stride=several(d, n, 1, 3), num_group=groups,
        pad=several(d, n, 0, 2), dilate=several(d, n, 1, 2), no_bias=d.flag(),
    )  # fmt: skip


def deconvolution(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    n, groups = len(shape) - 2, d.divisor(shape[1])
    settings: dict[str, Any] = {"pad": several(d, n, 0, 1), "adj": several(d, n, 0, 1)}
    if d.flag(0.2):
        settings = {"target_shape": several(d, n, 6, 12)}
    return S.Deconvolution(
        x, kernel=several(d, n, 1, 4), num_filter=groups * d.whole(1, 3), stride=several(d, n, 1, 3), num_group=groups,
        dilate=several(d, n, 1, 2), no_bias=d.flag(), **settings,
    )  # fmt: skip


def pool(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    n = len(shape) - 2
    kind = d.of("max", "avg", "sum", "lp")
    if d.flag(0.2):
        return S.Pooling(x, kernel=(1,) * n, global_pool=True, pool_type=kind, p_value=2)
    if n == 2 and d.flag(0.2):
        return mx.sym.contrib.AdaptiveAvgPooling2D(x, output_size=several(d, 2, 1, 4))
    kernel = several(d, n, 1, 4)
    return S.Pooling(
        x, kernel=kernel, stride=several(d, n, 1, 3), pad=tuple(d.whole(0, min(1, k - 1)) for k in kernel),
        pool_type=kind, p_value=2,
        pooling_convention=d.of("valid", "full", *(["same"] if n == 1 else [])), count_include_pad=d.flag(),
    )  # fmt: skip


def normalization(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    rank, form = len(shape), d.whole(0, 6)
    axis, epsilon = d.axis(rank), d.of(1e-3, 1e-5)
    if form <= 1:
        return S.BatchNorm(x, fix_gamma=d.flag(), eps=epsilon, axis=d.of(1, -1, axis % rank))
    if form == 2:
        return S.LayerNorm(x, axis=axis, eps=epsilon)
    if form == 3:
        return S.InstanceNorm(x, eps=epsilon)
    if form == 4:
        return S.GroupNorm(x, num_groups=d.divisor(shape[1]), eps=epsilon)
    if form == 5:
        return S.L2Normalization(x, mode=d.of("instance", "channel", "spatial"))
    return S.LRN(x, nsize=d.of(1, 3, 5), alpha=d.real(0.01, 0.5), beta=d.real(0.3, 1), knorm=d.real(1, 2))


def activation(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    form = d.whole(0, 3)
    if form == 0:
        return S.Activation(x, act_type=d.of("relu", "sigmoid", "tanh", "softrelu", "softsign"))
    if form == 1:
        return S.LeakyReLU(x, act_type=d.of("leaky", "elu", "prelu", "selu", "gelu", "rrelu"), slope=d.real(0.05, 0.5))
    if form == 2:
        name = d.of("softmax", "log_softmax", "softmin")
        return getattr(S, name)(x, axis=d.axis(len(shape)), temperature=d.of(None, 2.0))
    return d.of(S.hard_sigmoid(x), S.SoftmaxActivation(x, mode="channel"), S.Dropout(x))


ELEMENT = (
    "abs", "sign", "round", "rint", "ceil", "floor", "fix", "trunc", "square", "exp", "expm1", "sin", "cos", "tan",
    "tanh",
    "sinh", "cosh", "arctan", "arcsinh", "degrees", "radians", "sigmoid", "relu", "negative", "erf", "softsign", "cbrt",
    "logical_not", "gammaln", "gamma", "erfinv",
)  # fmt: skip
OF_POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "rcbrt", "reciprocal")


def element(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    if d.flag(0.3):
        return getattr(S, d.of(*OF_POSITIVE))(S.abs(x) + 0.5)
    name = d.of(*ELEMENT)
    if name in {"gammaln", "gamma"}:
        x = S.abs(x) + 0.5
    return getattr(S, name)(S.tanh(x) * 0.9 if name == "erfinv" else x)


BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "hypot", "equal", "greater", "lesser_equal", "power", "mod")


def binary(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    form, number = d.whole(0, 3), d.real(0.3, 2)
    if form == 0:
        return d.of(
            x + number, number - x, x * number, number / (x * x + 1), x > number, x % number, S.abs(x) ** number,
            S.maximum(x, number), x == number, S.hypot(x, number), S.clip(x, -number, number), S.smooth_l1(x,
            scalar=number),
        )  # fmt: skip
    held = S.var(f"other{d.whole(0, 9999)}", shape=tuple(d.of(1, n) for n in shape))
    name = d.of(*BINARY)
    if name in {"power", "mod", "div"}:
        return getattr(S, f"broadcast_{name}")(S.abs(x) + 0.5, S.abs(held) + 0.5)
    return getattr(S, f"broadcast_{name}")(x, held)


def reduction(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    rank, keep, form = len(shape), d.flag(), d.whole(0, 5)
    axes = tuple(sorted({n % rank for n in d.axes(rank)}))
    if form <= 1:
        name = d.of("sum", "mean", "max", "min", "prod", "nansum", "nanprod")
        more = {"exclude": d.flag()} if d.flag(0.3) else {}
        return getattr(S, name)(x, axis=axes, keepdims=keep, **more)
    if form == 2:
        return d.of(S.argmax, S.argmin)(x, axis=d.axis(rank), keepdims=keep)
    if form == 3:
        return S.norm(x, ord=d.of(1, 2), axis=axes[:2], keepdims=keep)
    if form == 4:
        return S.cumsum(x, axis=d.axis(rank))
    # The variance alone is not what it is beside the mean in MXNet 1.9.1.
    return S.moments(x, axes=axes, keepdims=keep)[0]


def picking(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    rank, axis, form = len(shape), d.axis(len(shape)), d.whole(0, 10)
    size = shape[axis]
    if form == 0:
        begin = [d.whole(0, n - 1) for n in shape]
        end = [d.whole(b + 1, n) for b, n in zip(begin, shape, strict=True)]
        return S.slice(x, begin=begin, end=end, step=[d.whole(1, 2) for _ in shape])
    if form == 1:
        begin = d.whole(0, size - 1)
        return S.slice_axis(x, axis=axis, begin=begin - d.of(0, size), end=d.of(None, d.whole(begin + 1, size)))
    if form == 2:
        index = mx.sym.arange(0, d.whole(1, 4)) % size
        return S.take(x, index, axis=axis, mode=d.of("clip", "wrap"))
    if form == 3:
        return S.topk(x, axis=axis, k=d.whole(1, size), ret_typ=d.of("value", "indices", "mask"), is_ascend=d.flag())
    if form == 4:
        return d.of(S.sort, S.argsort)(x, axis=axis, is_ascend=d.flag())
    if form == 5:
        count = d.divisor(size)
        parts = S.split(x, num_outputs=count, axis=axis % rank, squeeze_axis=size == count and d.flag())
        return parts[count - 1] if count > 1 else parts
    if form == 6:
        return S.pick(x, S.argmax(x * -1.0, axis=axis), axis=axis, keepdims=d.flag())
    if form == 7:
        return S.one_hot(S.floor(S.abs(x)), d.whole(2, 5), on_value=d.real(0.5, 2), off_value=-0.5)
    if form == 8:
        return S.where(x > 0, x * 2, x - 1)
    if form == 9:
        return S.diag(x, k=d.whole(-1, 1)) if rank <= 2 else S.diag(x, k=d.whole(-1, 1), axis1=0, axis2=rank - 1)
    return S.Embedding(S.floor(S.abs(x)) % 4, input_dim=4, output_dim=d.whole(1, 4))


def shape_of(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    rank, axis, form = len(shape), d.axis(len(shape)), d.whole(0, 15)
    if form == 0:
        return S.transpose(x, axes=d.order(rank))
    if form == 1:
        return S.reshape(x, shape=d.of((-1,), (0, -1), (-3, -2), (0, 0, -1), (-1, 0), (-2, 1)), reverse=d.flag(0.2))
    if form == 2:
        return S.Flatten(x)
    if form == 3:
        return S.expand_dims(x, axis=d.whole(-rank - 1, rank))
    if form == 4:
        return S.tile(x, reps=several(d, d.whole(1, rank + 1), 1, 2))
    if form == 5:
        return S.reverse(x, axis=axis % rank)
    if form == 6 and rank in {4, 5}:
        widths = [0, 0, 0, 0, *several(d, 2 * (rank - 2), 0, 2)]
        modes = ("constant", "edge", "reflect") if min(shape[2:]) > 2 else ("constant", "edge")
        return S.Pad(x, mode=d.of(*modes), pad_width=widths, constant_value=d.real(-1, 1))
    if form == 7:
        return S.concat(x, x * 2, S.tanh(x), dim=axis)
    if form == 8:
        return S.stack(x, x - 1, axis=d.whole(-rank - 1, rank))
    if form == 9:
        return S.repeat(x, repeats=d.whole(1, 3), axis=axis)
    if form == 10:
        return S.swapaxes(x, dim1=axis % rank, dim2=d.whole(0, rank - 1))
    if form == 11 and rank == 4:
        return d.of(S.depth_to_space, S.space_to_depth)(x, 2)
    if form == 12 and rank == 4:
        return S.UpSampling(x, scale=d.whole(1, 3), sample_type="nearest")
    if form == 13 and rank == 4:
        return mx.sym.contrib.BilinearResize2D(x, height=d.whole(1, 9), width=d.whole(1, 9), align_corners=d.flag())
    if form == 14:
        return S.squeeze(x)
    return S.broadcast_axis(S.sum(x, axis=axis, keepdims=True), axis=axis % rank, size=d.whole(1, 4))


def product(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    rank, last, form = len(shape), shape[-1], d.whole(0, 4)
    if form <= 1:
        return S.FullyConnected(x, num_hidden=d.whole(1, 6), flatten=d.flag(), no_bias=d.flag())
    held = S.var(f"held{d.whole(0, 9999)}", shape=(last, d.whole(1, 5)))
    if form == 2:
        return S.dot(x, held)
    if form == 3 and rank == 3:
        return S.batch_dot(x, x, transpose_b=True) if d.flag() else S.batch_dot(x, x, transpose_a=True)
    if form == 4 and rank == 3:
        return S.linalg.gemm2(x, x, transpose_a=True, alpha=d.real(0.2, 2))
    return S.dot(held, x, transpose_a=True, transpose_b=rank == 2)


def recurrent(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    if d.flag(0.3):
        lengths = S.floor(S.abs(S.sum(S.slice_axis(x, axis=0, begin=0, end=1), axis=(0, 2)))) % shape[0] + 1
        function = d.of(S.SequenceMask, S.SequenceReverse, S.SequenceLast)
        return function(x, lengths, use_sequence_length=True)
    mode, layers, both = d.of("lstm", "gru", "rnn_tanh", "rnn_relu"), d.whole(1, 2), d.flag()
    units, rows = d.whole(1, 4), layers * (2 if both else 1)
    name = f"rnn{d.whole(0, 9999)}"
    state = S.zeros((rows, shape[1], units))
    more: dict[str, Any] = {"state_cell": S.zeros((rows, shape[1], units))} if mode == "lstm" else {}
    more |= {"state_size": units, "num_layers": layers, "mode": mode, "bidirectional": both}
    return S.RNN(x, S.var(f"{name}_parameters"), state, **more)


def picture(d: Draw, x: Any, shape: tuple[int, ...]) -> Any:
    form = d.whole(0, 3)
    if form == 0:
        flow = S.tanh(S.slice_axis(S.concat(x, x, dim=1), axis=1, begin=0, end=2)) * 0.9
        return S.BilinearSampler(x, flow)
    if form == 1:
        rois = S.var("rois", shape=(2, 5))
        return S.ROIPooling(x, S.abs(rois) * 0.5, pooled_size=several(d, 2, 1, 3), spatial_scale=1.0)
    if form == 2:
        rois = S.var("rois", shape=(2, 5))
        place = mx.sym.concat(S.zeros((2, 1)), S.abs(S.slice_axis(rois, axis=1, begin=1, end=5)) * 3, dim=1)
        return mx.sym.contrib.ROIAlign(x, place, pooled_size=several(d, 2, 1, 3), spatial_scale=0.8, sample_ratio=2)
    return S.LRN(x, nsize=3)


MAKERS: tuple[tuple[Maker, range], ...] = (
    (convolution, range(3, 6)), (convolution, range(3, 6)), (deconvolution, range(3, 5)), (pool, range(3, 6)),
    (normalization, range(3, 5)), (activation, range(2, 6)), (element, range(1, 6)), (binary, range(1, 6)),
    (reduction, range(2, 6)), (picking, range(1, 6)), (shape_of, range(1, 6)), (product, range(2, 5)),
    (recurrent, range(3, 4)), (picture, range(4, 5)),
)  # fmt: skip
STEEP = (element, binary, reduction, picking)


def write(d: Draw, folder: Path, number: int) -> str | None:
    rank = d.of(2, 3, 3, 4, 4, 4, 5)
    shape = first = (d.whole(1, 3), *(d.whole(1, 9) for _ in range(rank - 1)))
    if rank > 2 and d.flag():
        shape = first = (shape[0], d.of(2, 4, 6, 8), *shape[2:])
    x, said, wanted = S.var("x"), [f"{list(first)}"], d.whole(1, 4)
    for _ in range(30):
        if len(said) == wanted + 1:
            break
        maker, ranks = d.of(*MAKERS)
        if len(shape) not in ranks or (len(said) > 1 and maker in STEEP and d.flag(0.6)):
            continue
        try:
            made = maker(d, x, shape)
            y = made[0] if len(made.list_outputs()) > 1 else made
            (out,) = y.infer_shape(x=first)[1]
        except (mx.MXNetError, ValueError, TypeError, AttributeError, IndexError):
            continue
        if not out or not all(out) or np.prod(out) > 20000:
            continue
        x, shape = y, tuple(out)
        said.append(maker.__name__)
    if len(said) == 1:
        return None
    bound = x.simple_bind(mx.cpu(), grad_req="null", x=first)
    given = d.floats(*first)
    held = {f"arg:{name}": drawn(d, name, a) for name, a in bound.arg_dict.items() if name != "x"}
    held |= {f"aux:{name}": drawn(d, name, a) for name, a in bound.aux_dict.items()}
    bound.arg_dict["x"][:] = given
    results = [result.asnumpy() for result in bound.forward(is_train=False)]
    if not all(np.isfinite(result).all() for result in results):
        return None
    x.save(str(folder / "model-symbol.json"))
    mx.nd.save(str(folder / "model-0000.params"), held or {"arg:unused": mx.nd.zeros((1,))})
    save_arrays(folder, {"x": given}, results)
    attributes = x.attr_dict()
    nodes = [name for name in x.get_internals().list_outputs() if name.endswith("output")]
    return f"{' -> '.join(said)}: {'; '.join(nodes)} {attributes}"


def drawn(d: Draw, name: str, array: Any) -> Any:
    """Values for a weight, which it then has."""
    positive = any(word in name for word in ("gamma", "var"))
    value = d.positive(*array.shape) if positive else d.floats(*array.shape) * np.float32(0.6)
    array[:] = value
    return mx.nd.array(value)


if __name__ == "__main__":
    write_cases(write, "random_layers.mxnet_layers")
