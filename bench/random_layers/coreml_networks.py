"""Random neural networks of Core ML, with what the comments of NeuralNetwork.proto say that they compute, by PyTorch.

Some of the networks have the mapping of shapes of specification 1 to 3, where a layer of pictures takes (channels,
height, width), others that of specification 4, where tensors keep their shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from coremltools.models import MLModel, datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder

from random_layers.drawing import Draw, save_arrays

Array = np.ndarray
#: Adds a layer of a name, which reads one tensor and makes another one, to a builder.
Add = Callable[[Any, str, str, str], None]
#: A layer of an array: how it is added, and what it computes.
Maker = Callable[[Draw, Array], tuple[Add, Any]]


def tensor(x: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))


def plane(x: Array) -> torch.Tensor:
    """A picture with a batch."""
    return tensor(x).reshape(-1, *x.shape[-3:])


def like(x: Array, made: torch.Tensor) -> torch.Tensor:
    """A result with the leading dimensions of what it was made of."""
    return made.reshape(*x.shape[:-3], *made.shape[-3:])


def edges(d: Draw, sizes: tuple[int, ...], kernel: list[int], strides: list[int], dilations: list[int]) -> Any:
    """Arguments of a layer with windows, and amounts (top, bottom), (left, right)."""
    kind = d.of("valid", "same", "same_lower", "custom")
    if kind == "custom":
        amounts = [(d.whole(0, k // 2), d.whole(0, k // 2)) for k in kernel]
        (top, bottom), (left, right) = amounts
        named = {"padding_top": top, "padding_bottom": bottom, "padding_left": left, "padding_right": right}
        return "valid", {}, named, amounts
    amounts = [(0, 0), (0, 0)]
    if kind != "valid":
        whole = [max((-(-n // s) - 1) * s + g * (k - 1) + 1 - n, 0)
                 for n, k, s, g in zip(sizes, kernel, strides, dilations, strict=True)]  # fmt: skip
        amounts = [(n // 2, n - n // 2) if kind == "same" else (n - n // 2, n // 2) for n in whole]
    mode = {"same_padding_asymmetry_mode": "TOP_LEFT_HEAVY" if kind == "same_lower" else "BOTTOM_RIGHT_HEAVY"}
    return kind.removesuffix("_lower"), mode, {}, amounts


def pads(amounts: list[tuple[int, int]]) -> list[int]:
    return [*amounts[1], *amounts[0]]


def convolution(d: Draw, x: Array) -> tuple[Add, Any]:
    channels, groups = x.shape[-3], d.divisor(x.shape[-3])
    kernel, strides, dilations = ([d.whole(1, most) for _ in range(2)] for most in (4, 3, 2))
    mode, asymmetry, named, amounts = edges(d, x.shape[-2:], kernel, strides, dilations)
    weight = d.floats(groups * d.whole(1, 4), channels // groups, *kernel)
    bias = d.floats(weight.shape[0]) if d.flag() else None

    def add(builder: Any, name: str, source: str, target: str) -> None:
        builder.add_convolution(
            name, channels // groups, weight.shape[0], *kernel, *strides, mode, groups, weight.transpose(2, 3, 1, 0),
            bias, bias is not None, input_name=source, output_name=target, dilation_factors=dilations, **asymmetry,
            **named,
        )  # fmt: skip

    held = None if bias is None else tensor(bias)
    made = F.conv2d(F.pad(plane(x), pads(amounts)), tensor(weight), held, strides, 0, dilations, groups)
    return add, like(x, made)


def deconvolution(d: Draw, x: Array) -> tuple[Add, Any]:
    channels, groups = x.shape[-3], d.divisor(x.shape[-3])
    kernel, strides = ([d.whole(1, most) for _ in range(2)] for most in (4, 3))
    amounts = [(d.whole(0, k // 2), d.whole(0, k // 2)) if d.flag(0.4) else (0, 0) for k in kernel]
    weight = d.floats(channels, d.whole(1, 3), *kernel)
    (top, bottom), (left, right) = amounts

    def add(builder: Any, name: str, source: str, target: str) -> None:
        builder.add_convolution(
            name, channels, weight.shape[1] * groups, *kernel, *strides, "valid", groups, weight.transpose(2, 3, 0, 1),
            None, False, is_deconv=True, input_name=source, output_name=target, padding_top=top, padding_bottom=bottom,
            padding_left=left, padding_right=right,
        )  # fmt: skip

    made = F.conv_transpose2d(plane(x), tensor(weight), None, strides, 0, 0, groups)
    made = made[..., top : made.shape[-2] - bottom, left : made.shape[-1] - right]
    return add, like(x, made)


def pool(d: Draw, x: Array) -> tuple[Add, Any]:
    kind, alone = d.of("MAX", "AVERAGE", "L2"), d.flag()
    if d.flag(0.2):
        v = plane(x)
        made = {"MAX": v.amax((-2, -1), True), "AVERAGE": v.mean((-2, -1), True),
                "L2": (v * v).sum((-2, -1), True).sqrt()}[kind]  # fmt: skip
        return lambda b, n, s, t: b.add_pooling(n, 1, 1, 1, 1, kind, "VALID", s, t, is_global=True), like(x, made)
    kernel, strides = ([d.whole(1, most) for _ in range(2)] for most in (4, 3))
    mode, asymmetry, named, amounts = edges(d, x.shape[-2:], kernel, strides, [1, 1])

    def add(builder: Any, name: str, source: str, target: str) -> None:
        builder.add_pooling(
            name, *kernel, *strides, kind, mode.upper(), source, target, exclude_pad_area=alone, **asymmetry, **named
        )

    v = plane(x)
    if kind == "MAX":
        return add, like(x, F.max_pool2d(F.pad(v, pads(amounts), value=-np.inf), kernel, strides))
    if kind == "L2":
        return add, like(x, (F.avg_pool2d(F.pad(v * v, pads(amounts)), kernel, strides) * np.prod(kernel)).sqrt())
    made = F.avg_pool2d(F.pad(v, pads(amounts)), kernel, strides)
    share = F.avg_pool2d(F.pad(torch.ones_like(v), pads(amounts)), kernel, strides) if alone else 1
    return add, like(x, made / share)


def normalization(d: Draw, x: Array) -> tuple[Add, Any]:
    form, v, c, epsilon = d.whole(0, 5), plane(x), x.shape[-3], d.of(1e-3, 1e-5)
    across = (1, c, 1, 1)
    gamma, beta, mean, variance = d.positive(c), d.floats(c), d.floats(c), d.positive(c)
    if form == 0:
        held = [tensor(a) for a in (mean, variance, gamma, beta)]
        return (
            lambda b, n, s, t: b.add_batchnorm(n, c, gamma, beta, mean, variance, s, t, epsilon=epsilon),
            like(x, F.batch_norm(v, *held, eps=epsilon)),
        )
    if form == 1:
        return (
            lambda b, n, s, t: b.add_scale(n, gamma, beta, True, s, t, [c, 1, 1], [c, 1, 1]),
            like(x, v * tensor(gamma).reshape(across) + tensor(beta).reshape(across)),
        )
    if form == 2:
        return lambda b, n, s, t: b.add_bias(n, beta, s, t, [c, 1, 1]), like(x, v + tensor(beta).reshape(across))
    if form == 3:
        size, alpha, power, k = d.of(1, 3, 5), d.real(0.01, 0.5), d.real(0.3, 1), d.real(1, 2)
        return lambda b, n, s, t: b.add_lrn(n, s, t, alpha, power, size, k), like(
            x, F.local_response_norm(v, size, alpha, power, k))  # fmt: skip
    if form == 4:
        axes, divided = ((-3, -2, -1) if (together := d.flag()) else (-2, -1)), d.flag()
        centred = v - v.mean(axes, keepdim=True)
        root = ((centred * centred).mean(axes, keepdim=True) + epsilon).sqrt()
        return lambda b, n, s, t: b.add_mvn(n, s, t, together, divided, epsilon), like(
            x, centred / root if divided else centred)  # fmt: skip
    root = ((v * v).sum((-3, -2, -1), keepdim=True) + epsilon).sqrt()
    return lambda b, n, s, t: b.add_l2_normalize(n, s, t, epsilon), like(x, v / root)


def activation(d: Draw, x: Array) -> tuple[Add, Any]:
    a, b_, v = d.real(0.1, 0.9), d.real(0.2, 1.5), tensor(x)
    name, params, made = d.of(
        ("RELU", None, F.relu(v)), ("SIGMOID", None, v.sigmoid()), ("TANH", None, v.tanh()),
        ("LEAKYRELU", [a], F.leaky_relu(v, a)), ("ELU", [a], F.elu(v, a)), ("SOFTPLUS", None, F.softplus(v)),
        ("SOFTSIGN", None, F.softsign(v)), ("THRESHOLDEDRELU", [a], torch.where(v >= a, v, 0.0)),
        ("LINEAR", [a, b_], v * a + b_), ("SCALED_TANH", [a, b_], a * torch.tanh(b_ * v)),
        ("SIGMOID_HARD", [a, b_], torch.clamp(a * v + b_, 0, 1)),
    )  # fmt: skip
    return lambda b, n, s, t: b.add_activation(n, name, s, t, params), made


def channelled(d: Draw, x: Array) -> tuple[Add, Any]:
    """Activations with numbers of channels."""
    c, v = x.shape[-3], tensor(x)
    one, two = d.positive(c), d.positive(c)
    a, b_ = (tensor(each).reshape(c, 1, 1) for each in (one, two))
    if d.flag():
        return lambda b, n, s, t: b.add_activation(n, "PRELU", s, t, one), torch.where(v > 0, v, v * a)
    return lambda b, n, s, t: b.add_activation(n, "PARAMETRICSOFTPLUS", s, t, [one, two]), a * F.softplus(v * b_)


def element(d: Draw, x: Array) -> tuple[Add, Any]:
    scale, shift, epsilon = d.real(0.5, 1.5), d.real(0.1, 1), d.of(1e-6, 1e-3)
    name = d.of("sqrt", "rsqrt", "inverse", "power", "exp", "log", "abs", "threshold")
    v = tensor(np.abs(x) if name in {"sqrt", "rsqrt", "inverse", "log", "power"} else x) * scale + shift
    made = {"sqrt": v.sqrt, "rsqrt": lambda: 1 / (v + epsilon).sqrt(), "inverse": lambda: 1 / (v + epsilon),
            "power": lambda: v**1.5, "exp": v.exp, "log": v.log, "abs": v.abs,
            "threshold": lambda: torch.clamp(v, min=0.4)}[name]()  # fmt: skip
    alpha = {"power": 1.5, "threshold": 0.4}.get(name, 1.0)

    def add(b: Any, n: str, s: str, t: str) -> None:
        if name in {"sqrt", "rsqrt", "inverse", "log", "power"}:
            b.add_unary(f"{n}_abs", s, f"{n}_abs", "abs")
            s = f"{n}_abs"
        b.add_unary(n, s, t, name, alpha, shift, scale, epsilon)

    return add, made


def moved(d: Draw, x: Array) -> tuple[Add, Any]:
    """Cropped, padded, enlarged, sliced, reorganized pictures."""
    form, v, (c, h, w) = d.whole(0, 6), plane(x), x.shape[-3:]
    amounts = [(d.whole(0, 2), d.whole(0, 2)) for _ in range(2)]
    (top, bottom), (left, right) = amounts
    if form == 0:
        kind = d.of("constant", "reflection", "replication")
        mode = {"constant": "constant", "reflection": "reflect", "replication": "replicate"}[kind]
        value = d.real(-1, 1) if kind == "constant" else 0.0
        made = F.pad(v, pads(amounts), mode=mode, **({"value": value} if kind == "constant" else {}))
        return lambda b, n, s, t: b.add_padding(n, left, right, top, bottom, value, s, t, kind), like(x, made)
    if form == 1 and h > top + bottom and w > left + right:
        return lambda b, n, s, t: b.add_crop(n, left, right, top, bottom, [0, 0], [s], t), like(
            x, v[..., top : h - bottom, left : w - right])  # fmt: skip
    if form == 2:
        by, linear = (d.whole(1, 3), d.whole(1, 3)), d.flag()
        if not linear:
            made = v.repeat_interleave(by[0], -2).repeat_interleave(by[1], -1)
            return lambda b, n, s, t: b.add_upsample(n, *by, s, t, "NN"), like(x, made)
        aligned = d.flag()
        made = F.interpolate(v, scale_factor=[float(f) for f in by], mode="bilinear", align_corners=aligned)
        how = "ALIGN_CORNERS_TRUE" if aligned else "ALIGN_CORNERS_FALSE"
        return lambda b, n, s, t: b.add_upsample(n, *by, s, t, "BILINEAR", how), like(x, made)
    if form == 3:
        axis = d.of("channel", "height", "width")
        size = {"channel": c, "height": h, "width": w}[axis]
        low, stride = d.whole(0, size - 1), d.whole(1, 2)
        high = d.whole(low + 1, size)
        part = [slice(None)] * 3
        part[("channel", "height", "width").index(axis)] = slice(low, high, stride)
        return lambda b, n, s, t: b.add_slice(n, s, t, axis, low, high, stride), like(x, v[(..., *part)])
    by = 2
    if form == 4 and c % 4 == 0:
        made = v.reshape(-1, by, by, c // 4, h, w).permute(0, 3, 4, 1, 5, 2).reshape(-1, c // 4, h * by, w * by)
        return lambda b, n, s, t: b.add_reorganize_data(n, s, t, "DEPTH_TO_SPACE", by), like(x, made)
    if h % by or w % by:
        raise ValueError("no whole blocks")
    made = v.reshape(-1, c, h // by, by, w // by, by).permute(0, 3, 5, 1, 2, 4).reshape(-1, c * 4, h // by, w // by)
    return lambda b, n, s, t: b.add_reorganize_data(n, s, t, "SPACE_TO_DEPTH", by), like(x, made)


def reduced(d: Draw, x: Array) -> tuple[Add, Any]:
    v, axis = plane(x), d.of("CHW", "HW", "C", "H", "W")
    dims = [-3 + "CHW".index(each) for each in axis]
    name, made = d.of(
        ("sum", v.sum(dims, True)), ("avg", v.mean(dims, True)), ("sumsquare", (v * v).sum(dims, True)),
        ("L1", v.abs().sum(dims, True)), ("L2", (v * v).sum(dims, True).sqrt()), ("max", v.amax(dims, True)),
        ("min", v.amin(dims, True)),
    )  # fmt: skip
    return lambda b, n, s, t: b.add_reduce(n, s, t, axis, name), like(x, made)


def softmax(d: Draw, x: Array) -> tuple[Add, Any]:
    return lambda b, n, s, t: b.add_softmax(n, s, t), tensor(x).softmax(-3)


OF_OLD: tuple[Maker, ...] = (
    convolution, convolution, deconvolution, pool, pool, normalization, activation, channelled, element, moved, reduced,
    softmax,
)  # fmt: skip


# ---------------------------------------------------------------- specification 4
def unary(d: Draw, x: Array) -> tuple[Add, Any]:
    v = tensor(x)
    name, made = d.of(
        ("erf", v.erf()), ("sin", v.sin()), ("cos", v.cos()), ("atan", v.atan()), ("sinh", v.sinh()),
        ("cosh", v.cosh()), ("tanh", v.tanh()), ("asinh", v.asinh()), ("exp2", v.exp2()),
        ("ceil", v.ceil()), ("floor", v.floor()),
        ("round", v.round()), ("sign", v.sign()),
    )  # fmt: skip
    if d.flag(0.3):
        low, high, a = -d.real(0.1, 1), d.real(0.1, 1), d.real(0.1, 0.9)
        mode = d.of("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")
        soft = {"EXACT": F.gelu(v), "TANH_APPROXIMATION": F.gelu(v, approximate="tanh"),
                "SIGMOID_APPROXIMATION": v * torch.sigmoid(1.702 * v)}[mode]  # fmt: skip
        return d.of(
            (lambda b, n, s, t: b.add_clip(n, s, t, low, high), v.clamp(low, high)),
            (lambda b, n, s, t: b.add_gelu(n, s, t, mode), soft),
            (lambda b, n, s, t: b.add_clamped_relu(n, s, t, a, high), torch.clamp(F.leaky_relu(v, a), max=high)),
        )
    return lambda b, n, s, t: getattr(b, f"add_{name}")(n, s, t), made


def binary(d: Draw, x: Array) -> tuple[Add, Any]:
    shape = [size if d.flag(0.7) else 1 for size in x.shape]
    other = d.positive(*shape)
    v, y = tensor(x), tensor(other)
    name, made = d.of(
        ("add_broadcastable", v + y), ("multiply_broadcastable", v * y), ("divide_broadcastable", v / y),
        ("subtract_broadcastable", v - y), ("max_broadcastable", torch.maximum(v, y)), ("min_broadcastable",
        torch.minimum(v, y)), ("floor_div_broadcastable", (v / y).floor()), ("mod_broadcastable", v.remainder(y)),
        ("greater_than", (v > y).float()), ("less_than", (v < y).float()), ("equal", (v == y).float()),
        ("not_equal", (v != y).float()),
    )  # fmt: skip

    def add(b: Any, n: str, s: str, t: str) -> None:
        b.add_load_constant_nd(f"{n}_y", f"{n}_y", other, other.shape)
        getattr(b, f"add_{name}")(n, [s, f"{n}_y"], t)

    return add, made


def shaped(d: Draw, x: Array) -> tuple[Add, Any]:
    form, v, axis, rank = d.whole(0, 8), tensor(x), d.axis(x.ndim), x.ndim
    if form == 0:
        order = d.order(rank)
        return lambda b, n, s, t: b.add_transpose(n, order, s, t), v.permute(order)
    if form == 1:
        times = [d.whole(1, 3) for _ in range(rank)]
        return lambda b, n, s, t: b.add_tile(n, s, t, times), v.repeat(times)
    if form == 2:
        turned = [d.flag() for _ in range(rank)]
        return lambda b, n, s, t: b.add_reverse(n, s, t, turned), v.flip([n for n in range(rank) if turned[n]])
    if form == 3:
        return lambda b, n, s, t: b.add_stack(n, [s, s], t, axis % rank), torch.stack([v, v], axis % rank)
    if form == 4:
        first = d.divisor(int(x.size))
        shape = [first, int(x.size) // first]
        return lambda b, n, s, t: b.add_reshape_static(n, s, t, shape), v.reshape(shape)
    if form == 5:
        return lambda b, n, s, t: b.add_expand_dims(n, s, t, [axis % rank]), v.unsqueeze(axis % rank)
    if form == 6:
        amounts = [d.whole(0, 2) for _ in range(2 * rank)]
        turned = [each for n in reversed(range(rank)) for each in amounts[2 * n : 2 * n + 2]]
        value = d.real(-1, 1)
        return lambda b, n, s, t: b.add_constant_pad(n, [s], t, value, pad_to_given_output_size_mode=False,
                                                     pad_amounts=amounts), F.pad(v, turned, value=value)  # fmt: skip
    if form == 7:
        return lambda b, n, s, t: b.add_concat_nd(n, [s, s], t, axis), torch.cat([v, v], axis)
    low, high = -d.whole(-1, 2), d.whole(-1, 2)
    rows, columns = x.shape[-2:] if rank > 1 else (1, 1)
    away = np.arange(columns)[None] - np.arange(rows)[:, None]
    kept = ((-low < 0) | (-away <= -low)) & ((high < 0) | (away <= high))
    return lambda b, n, s, t: b.add_matrix_band_part(n, s, t, -low, high), torch.where(tensor(kept), v, 0.0)


def sliced(d: Draw, x: Array) -> tuple[Add, Any]:
    begins = [d.whole(0, n - 1) for n in x.shape]
    ends = [d.whole(b + 1, n) for b, n in zip(begins, x.shape, strict=True)]
    strides = [d.whole(1, 2) for _ in x.shape]
    from_start, to_end = ([d.flag(0.3) for _ in x.shape] for _ in range(2))
    part = tuple(slice(None if f else b, None if t else e, s)
                 for b, e, s, f, t in zip(begins, ends, strides, from_start, to_end, strict=True))  # fmt: skip
    return lambda b, n, s, t: b.add_slice_static(
        n, s, t, begins, ends, strides, from_start, to_end), tensor(x[part])  # fmt: skip


def picked(d: Draw, x: Array) -> tuple[Add, Any]:
    form, v, axis = d.whole(0, 5), tensor(x), d.axis(x.ndim)
    size = x.shape[axis]
    if form == 0:
        k, lowest = d.whole(1, size), d.flag()

        def top(b: Any, n: str, s: str, t: str) -> None:
            b.add_topk(n, [s], [t, f"{n}_places"], k, axis, lowest)

        return top, torch.topk(v, k, axis, largest=not lowest)[0]
    if form == 1:
        keep = d.flag() or x.ndim < 3
        most = d.flag()
        made = (v.argmax if most else v.argmin)(axis, keepdim=keep).float()
        return lambda b, n, s, t: (b.add_argmax if most else b.add_argmin)(n, s, t, axis, keep), made
    if form == 2:
        back, exclusive = d.flag(0.3), d.flag(0.3)
        held = v.flip(axis) if back else v
        made = held.cumsum(axis) - (held if exclusive else 0)
        return lambda b, n, s, t: b.add_cumsum(n, [s], t, axis, back, exclusive), made.flip(axis) if back else made
    if form == 3:
        places = d.integers(0, size - 1, d.whole(1, 3))

        def gather(b: Any, n: str, s: str, t: str) -> None:
            b.add_load_constant_nd(f"{n}_i", f"{n}_i", places.astype(np.float32), places.shape)
            b.add_gather(n, [s, f"{n}_i"], t, axis)

        return gather, v.index_select(axis, tensor(places))
    if form == 4:
        return lambda b, n, s, t: b.add_softmax_nd(n, s, t, axis), v.softmax(axis)
    window, step = d.whole(1, size), d.whole(1, 2)
    made = v.unfold(axis % x.ndim, window, step).movedim(-1, axis % x.ndim + 1)
    return lambda b, n, s, t: b.add_sliding_windows(n, s, t, axis, window, step), made


def reduced_nd(d: Draw, x: Array) -> tuple[Add, Any]:
    v, axes, keep = tensor(x), sorted({n % x.ndim for n in d.axes(x.ndim)}), d.flag()
    keep = keep or len(axes) == x.ndim
    name, made = d.of(
        ("sum", v.sum(axes, keep)), ("mean", v.mean(axes, keep)), ("max", v.amax(axes, keep)),
        ("min", v.amin(axes, keep)), ("l1", v.abs().sum(axes, keep)), ("l2", (v * v).sum(axes, keep).sqrt()),
        ("sumsquare", (v * v).sum(axes, keep)), ("logsumexp", v.logsumexp(axes, keep)),
    )  # fmt: skip
    return lambda b, n, s, t: getattr(b, f"add_reduce_{name}")(n, s, t, axes, keep, len(axes) == x.ndim), made


def product(d: Draw, x: Array) -> tuple[Add, Any]:
    v, k, outputs = tensor(x), x.shape[-1], d.whole(1, 5)
    weight, bias = d.floats(k, outputs), d.floats(outputs)
    if d.flag():
        return lambda b, n, s, t: b.add_batched_mat_mul(
            n, [s], t, weight_matrix_rows=k, weight_matrix_columns=outputs, W=weight, bias=bias
        ), v @ tensor(weight) + tensor(bias)
    return lambda b, n, s, t: b.add_inner_product(
        n, weight.T.copy(), bias, k, outputs, True, s, t), v @ tensor(weight) + tensor(bias)  # fmt: skip


def layer_norm(d: Draw, x: Array) -> tuple[Add, Any]:
    shape = x.shape[d.whole(0, x.ndim - 1) :]
    gamma, beta, epsilon = d.positive(*shape), d.floats(*shape), d.of(1e-3, 1e-5)
    return lambda b, n, s, t: b.add_layer_normalization(n, s, t, list(shape), gamma, beta, epsilon), F.layer_norm(
        tensor(x), shape, tensor(gamma), tensor(beta), epsilon)  # fmt: skip


def recurrent(d: Draw, x: Array) -> tuple[Add, Any]:
    """(steps, batch, features, 1, 1); the rows of the gates are as PyTorch has them, but the LSTM's last two."""
    batch, features = x.shape[1:3]
    kind, hidden, whole = d.of("simple_rnn", "gru", "unilstm"), d.whole(1, 5), d.flag()
    back = not whole and d.flag()  # in which order steps come out backwards nothing says
    gates = {"simple_rnn": 1, "gru": 3, "unilstm": 4}[kind]
    w, r, bias = (d.floats(gates, hidden, *n) * np.float32(0.4) for n in ((features,), (hidden,), ()))
    v = tensor(x[..., 0, 0])
    v = v.flip(0) if back else v
    h = c = torch.zeros(batch, hidden)
    seen = []
    wt, rt, bt = tensor(w), tensor(r), tensor(bias)
    for row in v:
        a, u = row @ wt.transpose(1, 2) + bt[:, None], h @ rt.transpose(1, 2)
        if kind == "simple_rnn":
            h = torch.tanh(a[0] + u[0])
        elif kind == "gru":  # update, reset, output
            z, q = torch.sigmoid(a[0] + u[0]), torch.sigmoid(a[1] + u[1])
            h = (1 - z) * torch.tanh(a[2] + (q * h) @ rt[2].T) + z * h
        else:  # input, forget, output, cell
            i, f, o, g = a + u
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        seen.append(h)
    made = torch.stack(seen) if whole else h[None]

    def add(b: Any, n: str, s: str, t: str) -> None:
        parts = ([*r], [*w], [*bias]) if gates > 1 else (r[0], w[0], bias[0])
        names = ([s], [t])
        activations = {"simple_rnn": {"activation": "TANH"}}.get(kind, {"inner_activation": "SIGMOID"})
        getattr(b, f"add_{kind}")(
            n, *parts, hidden, features, input_names=names[0], output_names=names[1], output_all=whole,
            reverse_input=back, **activations,
        )  # fmt: skip

    return add, made[..., None, None]


OF_NEW: tuple[tuple[Maker, range], ...] = (
    *((maker, range(4, 5)) for maker in OF_OLD), (activation, range(1, 6)), (element, range(1, 6)),
    (unary, range(1, 6)), (unary, range(1, 6)), (binary, range(1, 6)), (binary, range(1, 6)),
    (shaped, range(2, 5)), (shaped, range(2, 5)),
    (sliced, range(1, 6)), (picked, range(2, 5)), (picked, range(2, 5)), (reduced_nd, range(2, 6)),
    (product, range(2, 4)), (layer_norm, range(2, 5)),
)  # fmt: skip
STEEP = (element, unary, binary, reduced, reduced_nd, picked)


def network(d: Draw, folder: Path) -> str | None:
    """Writes `model.mlmodel` and the case; says what is in it."""
    old = d.flag(0.4)
    rank = 3 if old else d.of(2, 3, 4, 4, 4, 5)
    shape = tuple(d.whole(1, 9) for _ in range(rank))
    if rank >= 3 and d.flag():
        shape = (*shape[:-3], d.of(2, 4, 8, 9), *shape[-2:])
    if not old and d.flag(0.08):
        shape = (d.whole(1, 4), d.whole(1, 3), d.whole(1, 5), 1, 1)
    given = value = d.floats(*shape)
    layers: list[Add] = []
    said, wanted = [f"{list(shape)}{' as of specification 1' if old else ''}"], d.whole(1, 4)
    for _ in range(40):
        if len(layers) == wanted:
            break
        maker, ranks = (d.of(*OF_OLD), range(3, 4)) if old else d.of(*OF_NEW)
        if not old and value.ndim == 5 and value.shape[3:] == (1, 1) and not layers:
            maker, ranks = recurrent, range(5, 6)
        if value.ndim not in ranks or (layers and maker in STEEP and d.flag(0.6)):
            continue
        try:
            add, made = maker(d, value)
        except (ValueError, RuntimeError, IndexError):
            continue  # what was drawn does not go together
        made = np.ascontiguousarray(made.numpy())
        if not made.size or made.size > 20_000 or made.ndim > 5 or not np.isfinite(made).all():
            continue
        layers.append(add)
        said.append(maker.__name__)
        value = made
    if not layers:
        return None
    arrays = datatypes.Array(*shape)
    builder = NeuralNetworkBuilder(
        [("x", arrays)], [("y", datatypes.Array(*value.shape))], disable_rank5_shape_mapping=not old,
        use_float_arraytype=True,
    )  # fmt: skip
    for n, add in enumerate(layers):
        add(builder, f"l{n}", "x" if n == 0 else f"v{n}", "y" if n == len(layers) - 1 else f"v{n + 1}")
    MLModel(builder.spec, skip_model_load=True).save(str(folder / "model.mlmodel"))
    save_arrays(folder, {"x": given}, [value])
    kinds = [layer.WhichOneof("layer") for layer in builder.spec.neuralNetwork.layers]
    return f"{' -> '.join(said)}: {'; '.join(kinds)}"
