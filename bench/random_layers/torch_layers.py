"""Random networks of PyTorch as exported programs.

python -m random_layers.torch_layers FOLDER [--cases N] [--first N] [--seed N]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from random_layers.drawing import Draw, save_arrays, write_cases
from random_layers.torch_movement import Layer, picking, shape_of, tensor, writing

warnings.simplefilter("ignore")
torch.set_num_threads(1)

Maker = Callable[[Draw, Any], Layer]


class Network(nn.Module):
    """Layers one after the other, some of them added to what they are given."""

    def __init__(self, layers: list[Layer]):
        super().__init__()
        self.held = nn.ModuleList([layer for layer in layers if isinstance(layer, nn.Module)])
        self.layers = layers

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def pair(d: Draw, n: int, low: int, high: int) -> Any:
    """One number for all dimensions, or one for each."""
    return d.whole(low, high) if d.flag() else tuple(d.whole(low, high) for _ in range(n))


def convolution(d: Draw, x: Any) -> Layer:
    n, channels = x.dim() - 2, x.shape[1]
    groups = d.divisor(channels)
    kind = getattr(nn, f"Conv{n}d")
    mode = d.of("zeros", "zeros", "reflect", "replicate", "circular")
    stride = pair(d, n, 1, 3)
    padding: Any = pair(d, n, 0, 2)
    if d.flag(0.2):
        stride, padding = 1, d.of("same", "valid")
    return kind(
        channels, groups * d.whole(1, 4), pair(d, n, 1, 4), stride=stride, padding=padding, groups=groups,
        dilation=pair(d, n, 1, 2), bias=d.flag(), padding_mode=mode,
    )  # fmt: skip


def transposed(d: Draw, x: Any) -> Layer:
    n, channels = x.dim() - 2, x.shape[1]
    groups = d.divisor(channels)
    return getattr(nn, f"ConvTranspose{n}d")(
        channels, groups * d.whole(1, 3), pair(d, n, 1, 4), stride=pair(d, n, 1, 3), padding=pair(d, n, 0, 2),
        output_padding=pair(d, n, 0, 1), groups=groups, dilation=pair(d, n, 1, 2), bias=d.flag(),
    )  # fmt: skip


def pool(d: Draw, x: Any) -> Layer:
    n = x.dim() - 2
    kind = d.of("Max", "Avg", "LP", "AdaptiveAvg", "AdaptiveMax")
    if kind.startswith("Adaptive"):
        return getattr(nn, f"{kind}Pool{n}d")(pair(d, n, 1, 5))
    if kind == "LP":
        return getattr(nn, f"LPPool{n}d")(2.0, pair(d, n, 1, 3), ceil_mode=d.flag())
    settings: dict[str, Any] = {"stride": pair(d, n, 1, 3), "padding": pair(d, n, 0, 1), "ceil_mode": d.flag()}
    if kind == "Max":
        settings["dilation"] = pair(d, n, 1, 2)
    else:
        settings["count_include_pad"] = d.flag()
        if n > 1 and d.flag(0.3):
            settings["divisor_override"] = d.whole(1, 9)
    return getattr(nn, f"{kind}Pool{n}d")(pair(d, n, 1, 4), **settings)


def drawn_statistics(d: Draw, module: Any) -> Layer:
    for name, held in (*module.named_parameters(), *module.named_buffers()):
        if held.is_floating_point():
            positive = any(word in name for word in ("var", "weight"))
            held.data = torch.from_numpy(d.positive(*held.shape) if positive else d.floats(*held.shape))
    return module


def normalization(d: Draw, x: Any) -> Layer:
    n, channels = x.dim() - 2, x.shape[1]
    affine = d.flag()
    kind = d.of("batch", "instance", "group", "layer", "rms", "local", "norm")
    if kind == "batch":
        made = getattr(nn, f"BatchNorm{max(n, 1)}d")(channels, affine=affine, eps=d.of(1e-5, 1e-3))
    elif kind == "instance":
        made = getattr(nn, f"InstanceNorm{n}d")(channels, affine=affine, track_running_stats=d.flag())
    elif kind == "group":
        made = nn.GroupNorm(d.divisor(channels), channels, affine=affine)
    elif kind in {"layer", "rms"}:
        sizes = list(x.shape[-d.whole(1, x.dim() - 1) :])
        made = (nn.LayerNorm if kind == "layer" else nn.RMSNorm)(sizes, elementwise_affine=affine)
    elif kind == "local":
        made = nn.LocalResponseNorm(d.whole(1, 4), alpha=d.real(0.01, 0.5), beta=d.real(0.3, 1), k=d.real(1, 2))
    else:
        p, dim = d.of(1.0, 2.0, 3.0), d.axis(x.dim())
        return lambda x: F.normalize(x, p=p, dim=dim)
    return drawn_statistics(d, made)


ACTIVATIONS: tuple[Callable[[Draw], Layer], ...] = (
    lambda d: nn.ReLU(), lambda d: nn.ReLU6(), lambda d: nn.LeakyReLU(d.real(0.01, 0.4)), lambda d: nn.ELU(d.real(0.2,
    2)),
    lambda d: nn.CELU(d.real(0.2, 2)), lambda d: nn.SELU(), lambda d: nn.GELU(d.of("none", "tanh")),
    lambda d: nn.SiLU(),
    lambda d: nn.Mish(), lambda d: nn.Hardswish(), lambda d: nn.Hardsigmoid(), lambda d: nn.Hardtanh(-0.5, d.real(0,
    2)),
    lambda d: nn.Hardshrink(d.real(0.1, 1)), lambda d: nn.Softshrink(d.real(0.1, 1)), lambda d: nn.Tanhshrink(),
    lambda d: nn.Softplus(d.real(0.5, 3), d.of(20.0, 1.0)), lambda d: nn.Softsign(), lambda d: nn.LogSigmoid(),
    lambda d: nn.Threshold(d.real(-1, 1), d.real(-1, 1)), lambda d: nn.Tanh(), lambda d: nn.Sigmoid(),
)  # fmt: skip


def activation(d: Draw, x: Any) -> Layer:
    if x.dim() > 1 and d.flag(0.1):
        return drawn_statistics(d, nn.PReLU(d.of(1, x.shape[1])))
    if d.flag(0.15):
        dim = d.axis(x.dim())
        function = d.of(F.softmax, F.log_softmax, F.softmin, F.glu)
        return lambda x: function(x, dim=dim)
    return d.of(*ACTIVATIONS)(d)


UNARY = (
    "exp", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "asinh", "tanh", "erf", "erfc", "abs", "neg", "square",
    "sigmoid", "exp2", "sinc", "frac", "trunc", "round", "floor", "ceil", "sign", "sgn", "positive", "deg2rad",
    "rad2deg",
    "relu", "logical_not", "isnan", "isfinite", "signbit", "nan_to_num", "angle", "digamma", "lgamma", "erfinv", "i0",
)  # fmt: skip
OF_POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "acosh", "logit")


def element(d: Draw, x: Any) -> Layer:
    if d.flag(0.3):
        function = getattr(torch, d.of(*OF_POSITIVE))
        return lambda x: function(torch.sigmoid(x))
    function = getattr(torch, d.of(*UNARY))
    return function


BINARY = (
    "add", "sub", "mul", "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "copysign", "logaddexp", "xlogy",
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_xor", "heaviside", "logaddexp2", "ldexp", "isclose",
)  # fmt: skip


def binary(d: Draw, x: Any) -> Layer:
    """An operation with a constant that is broadcast, a scalar, or with the tensor itself turned round."""
    form = d.whole(0, 4)
    if form == 0:
        scalar = d.of(d.real(-2, 2), d.whole(1, 4))
        name = d.of("add", "sub", "mul", "div", "remainder", "fmod", "pow", "rsub")
        return lambda x: getattr(torch, name)(x.abs() + 0.5 if name == "pow" else x, scalar)
    if form == 1:
        name, mode = "div", d.of(None, "floor", "trunc")
        other = torch.from_numpy(d.positive(*x.shape[-d.whole(1, x.dim()) :]))
        return lambda x: torch.div(x, other, rounding_mode=mode)
    name = d.of(*BINARY)
    function = getattr(torch, name)
    if form == 2:
        dim = d.axis(x.dim())
        return lambda x: function(x, x.flip(dim))
    sizes = [d.of(1, n) for n in x.shape[d.whole(0, x.dim()) :]]
    other = tensor(d, *sizes)
    if name in {"add", "sub"} and d.flag():
        alpha = d.real(-2, 2)
        return lambda x: function(x, other, alpha=alpha)
    return (lambda x: function(x, other)) if d.flag() else (lambda x: function(other, x))


REDUCTIONS = ("sum", "mean", "amax", "amin", "logsumexp", "nansum", "all", "any")


def reduction(d: Draw, x: Any) -> Layer:
    keep, dim, axes = d.flag(), d.axis(x.dim()), d.axes(x.dim())
    form = d.whole(0, 8)
    if form == 0:
        name = d.of("argmax", "argmin")
        return lambda x: getattr(torch, name)(x, dim=dim, keepdim=keep)
    if form == 1:
        name = d.of("max", "min", "median")
        return lambda x: torch.cat([v.to(torch.float32) for v in getattr(torch, name)(x, dim=dim, keepdim=True)], 0)
    if form == 2:
        name, correction = d.of("var", "std"), d.whole(0, 1)
        return lambda x: getattr(torch, name)(x, dim=axes, correction=correction, keepdim=keep)
    if form == 3:
        order = d.of(1, 2, 3, float("inf"), 0)
        return lambda x: torch.linalg.vector_norm(x, order, dim=axes, keepdim=keep)
    if form == 4:
        name = d.of("prod", "cumsum", "cumprod", "logcumsumexp")
        return lambda x: getattr(torch, name)(x, dim=dim)
    if form == 5:
        name = d.of("cummax", "cummin")
        return lambda x: getattr(torch, name)(x, dim=dim).values
    if form == 6:
        name = d.of("sum", "mean", "prod", "argmax", "max", "all", "norm", "std")
        return getattr(torch, name)
    name = d.of(*REDUCTIONS)
    return lambda x: getattr(torch, name)(x, dim=axes, keepdim=keep)


def product(d: Draw, x: Any) -> Layer:
    last, form = x.shape[-1], d.whole(0, 8)
    if form <= 1:
        return nn.Linear(last, d.whole(1, 7), bias=d.flag())
    if form == 2:
        other = tensor(d, *([d.of(1, x.shape[0])] if x.dim() > 2 and d.flag() else []), last, d.whole(1, 5))
        return lambda x: torch.matmul(x, other)
    if form == 3:
        return lambda x: torch.matmul(x, x.transpose(-1, -2))
    if form == 4:
        other = tensor(d, d.whole(1, 5), x.shape[-2])
        return lambda x: torch.matmul(other, x)
    if form == 5:
        bias, beta, alpha = tensor(d, d.of(1, 3)), d.real(0, 2), d.real(0.2, 2)
        other = tensor(d, last, 3)
        return lambda x: torch.addmm(bias, x.reshape(-1, last), other, beta=beta, alpha=alpha)
    if form == 6:
        other = tensor(d, last, 4, last)
        return lambda x: torch.einsum("...i,ikj->...kj", x, other)
    if form == 7:
        other = tensor(d, x.shape[0], 3)
        return lambda x: torch.tensordot(x, other, dims=([0], [0]))
    order = d.of(1.0, 2.0, 3.0)
    return lambda x: torch.cdist(x, x[..., :2, :] * 2, p=order)


def attention(d: Draw, x: Any) -> Layer:
    batch, steps, wide = x.shape
    heads = d.divisor(wide)
    form = d.whole(0, 3)
    if form == 0:
        made = nn.MultiheadAttention(wide, heads, batch_first=True, bias=d.flag(), add_bias_kv=d.flag(0.2))
        return Attended(made)
    if form == 1:
        return nn.TransformerEncoderLayer(
            wide, heads, d.whole(4, 9), batch_first=True, norm_first=d.flag(), activation=d.of("relu", "gelu")
        )
    causal, scale = d.flag(), d.of(None, 0.3)
    some = torch.from_numpy(d.integers(0, 1, steps, steps).astype(bool)) | torch.eye(steps, dtype=torch.bool)
    mask = None if causal else some
    return lambda x: F.scaled_dot_product_attention(
        x.reshape(batch, steps, heads, -1).transpose(1, 2), x.reshape(batch, steps, heads, -1).transpose(1, 2) * 0.5,
        x.reshape(batch, steps, heads, -1).transpose(1, 2), attn_mask=mask, is_causal=causal, scale=scale,
    )  # fmt: skip


class Attended(nn.Module):
    def __init__(self, made: Any):
        super().__init__()
        self.made = made

    def forward(self, x: Any) -> Any:
        return self.made(x, x, x, need_weights=True)[0]


def recurrent(d: Draw, x: Any) -> Layer:
    return Recurrent(d, x.shape[-1])


class Recurrent(nn.Module):
    def __init__(self, d: Draw, wide: int):
        super().__init__()
        kind = d.of(nn.LSTM, nn.GRU, nn.RNN)
        more = {"nonlinearity": d.of("tanh", "relu")} if kind is nn.RNN else {}
        if kind is nn.LSTM and d.flag(0.2):
            more["proj_size"] = 2
        self.made = kind(
            wide, d.whole(3, 5), d.whole(1, 2), batch_first=d.flag(), bidirectional=d.flag(), bias=d.flag(0.8), **more
        )
        self.last = d.flag(0.3)

    def forward(self, x: Any) -> Any:
        y, h = self.made(x)
        return (h[0] if isinstance(h, tuple) else h) if self.last else y


def picture(d: Draw, x: Any) -> Layer:
    n, form = x.dim() - 2, d.whole(0, 5)
    if form <= 1:
        modes = {1: ("nearest", "linear", "nearest-exact", "area"), 3: ("nearest", "trilinear", "nearest-exact")}
        mode = d.of(*modes.get(n, ("nearest", "bilinear", "bicubic", "nearest-exact", "area")))
        given: dict[str, Any] = {}
        if d.flag():
            given["size"] = tuple(d.whole(1, 12) for _ in range(n))
        else:
            given["scale_factor"] = tuple(d.of(0.5, 1.5, 2.0, 0.7, 2.3) for _ in range(n))
            given["recompute_scale_factor"] = d.of(None, True)
        if mode in {"linear", "bilinear", "bicubic", "trilinear"}:
            given["align_corners"] = d.flag()
            given["antialias"] = n == 2 and mode != "trilinear" and d.flag(0.2)
        return lambda x: F.interpolate(x, mode=mode, **given)
    if form == 2:
        return d.of(nn.PixelShuffle, nn.PixelUnshuffle)(2)
    if form == 3:
        return nn.ChannelShuffle(d.divisor(x.shape[1]))
    if form == 4:
        grid = torch.from_numpy(d.floats(x.shape[0], *[d.whole(1, 5) for _ in range(n)], n)) * 0.7
        mode, padding, corners = d.of("bilinear", "nearest", "bicubic"), d.of("zeros", "border", "reflection"), d.flag()
        return lambda x: F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners)
    size = pair(d, 2, 1, 3)
    return nn.Unfold(size, dilation=pair(d, 2, 1, 2), padding=pair(d, 2, 0, 1), stride=pair(d, 2, 1, 2))


def typed(d: Draw, x: Any) -> Layer:
    form = d.whole(0, 5)
    if form == 0:
        kind = d.of(torch.float64, torch.int32, torch.int64, torch.uint8, torch.bool, torch.int8, torch.int16)
        return lambda x: (x.abs() * 3).to(kind)
    if form == 1:
        kind, m = d.of(torch.int32, torch.int64), d.whole(1, 5)
        return lambda x: (x * 5).to(kind) // m + (x * 7).to(kind) % m
    if form == 2:
        return lambda x: ((x * 9).to(torch.int32) & 5) | ((x * 3).to(torch.int32) << 1) ^ 3
    if form == 3:
        return lambda x: F.one_hot((x.abs() * 2).to(torch.int64).clamp(max=4), 5)
    if form == 4:
        edges = torch.tensor([-1.0, 0.0, 0.5, 1.0])
        right = d.flag()
        return lambda x: torch.bucketize(x, edges, right=right)
    table, wide = d.whole(3, 9), d.whole(1, 4)
    made = nn.Embedding(table, wide, padding_idx=d.of(None, 0))
    return Embedded(made, table)


class Embedded(nn.Module):
    def __init__(self, made: Any, rows: int):
        super().__init__()
        self.made, self.rows = made, rows

    def forward(self, x: Any) -> Any:
        return self.made((x.abs() * 4).to(torch.int64) % self.rows)


#: Makers, and the ranks they take.
MAKERS: tuple[tuple[Maker, range], ...] = (
    (convolution, range(3, 6)), (convolution, range(3, 6)), (transposed, range(3, 6)), (pool, range(3, 6)),
    (normalization, range(2, 6)), (activation, range(1, 7)), (binary, range(1, 7)), (reduction, range(1, 7)),
    (picking, range(1, 7)), (writing, range(1, 7)), (shape_of, range(1, 7)), (product, range(2, 6)),
    (attention, range(3, 4)), (recurrent, range(3, 4)), (picture, range(3, 6)), (element, range(1, 7)),
    (typed, range(1, 6)),
)  # fmt: skip
#: Makers whose functions may jump: after other layers they are drawn less often.
STEEP = (element, binary, reduction, typed, picking, writing)


def write(d: Draw, folder: Path, number: int) -> str | None:
    torch.manual_seed(int(d.random.integers(1 << 30)))
    rank = d.of(1, 2, 3, 3, 4, 4, 4, 4, 5)
    sizes = [d.whole(1, 3), *(d.whole(1, 9) for _ in range(rank - 1))]
    if rank > 2 and d.flag():
        sizes[1] = d.of(2, 4, 6, 8)
    x = tensor(d, *sizes)
    first, layers, said = x, [], [f"{sizes}"]
    wanted = d.whole(1, 4)
    for _ in range(30):
        if len(layers) == wanted:
            break
        maker, ranks = d.of(*MAKERS)
        if x.dim() not in ranks or (layers and maker in STEEP and d.flag(0.7)):
            continue
        if not x.is_floating_point():
            break
        try:
            layer = maker(d, x)
            if isinstance(layer, nn.Module):
                layer.eval()
            with torch.no_grad():
                y = layer(x)
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, AttributeError):
            continue
        if y.numel() > 20000 or y.numel() == 0 or not torch.isfinite(y.float()).all():
            continue
        layers.append(layer)
        said.append(str(layer) if isinstance(layer, nn.Module) else f"{maker.__name__}{told(layer)}")
        x = y
    if not layers:
        return None
    network = Network(layers).eval()
    with torch.no_grad():
        result = network(first)
    program = torch.export.export(network, (first,))
    if d.flag(0.3):
        program = program.run_decompositions()
    torch.export.save(program, folder / "model.pt2")
    save_arrays(folder, {"x": first.numpy()}, [result.contiguous().numpy()])
    return " -> ".join(" ".join(part.split()) for part in said)


def told(layer: Any) -> str:
    """What a function holds on to."""
    if not hasattr(layer, "__code__"):
        return f" {layer.__name__}"
    names, cells = layer.__code__.co_freevars, layer.__closure__ or ()
    held = {n: c.cell_contents for n, c in zip(names, cells, strict=True)}
    values = {n: list(v.shape) if hasattr(v, "shape") else getattr(v, "__name__", v) for n, v in held.items()}
    return f"{values}{list(layer.__code__.co_names)}"


if __name__ == "__main__":
    write_cases(write)
