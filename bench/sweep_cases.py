"""Operators and small blocks of PyTorch, in forms and sizes that no network of the benchmark has.

A case is a module and its inputs; its name begins with its family. Needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Tensor = torch.Tensor
Case = tuple[str, Callable[[], nn.Module], Callable[[], tuple[Tensor, ...]]]


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(*tensors)


class First(nn.Module):
    """A recurrent layer, without its states."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def rand(*shapes: Sequence[int]) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: tuple(torch.randn(*shape) for shape in shapes)


def f(name: str, function: Callable[..., Any], *shapes: Sequence[int]) -> Case:
    return name, lambda: Function(function), rand(*shapes)


def g(name: str, function: Callable[..., Any], inputs: Callable[[], tuple[Tensor, ...]]) -> Case:
    return name, lambda: Function(function), inputs


def m(name: str, layer: Callable[[], nn.Module], *shapes: Sequence[int]) -> Case:
    return name, layer, rand(*shapes)


def convolutions() -> Iterator[Case]:
    for a, b, k, s, p, o, gr, size in (
        (32, 16, 2, 2, 0, 0, 1, (28, 28)), (64, 32, 3, 2, 1, 1, 1, (28, 28)), (64, 64, 4, 2, 1, 0, 4, (14, 14)),
        (48, 48, 3, 1, 1, 0, 48, (28, 28)), (32, 32, 3, 2, 1, 1, 32, (28, 28)), (24, 8, 5, 3, 2, 0, 1, (17, 19)),
        (16, 16, 3, 2, 1, 1, 8, (32, 32)), (7, 5, 3, 2, 0, 0, 1, (13, 13)),
    ):  # fmt: skip
        name = f"transposed-2d-{a}-{b}-k{k}-s{s}-g{gr}-{size[0]}"
        yield m(
            name, lambda a=a, b=b, k=k, s=s, p=p, o=o, gr=gr: nn.ConvTranspose2d(a, b, k, s, p, o, gr), (1, a, *size)
        )
    yield m("transposed-1d-128-64-k16-s8", lambda: nn.ConvTranspose1d(128, 64, 16, 8, 4), (1, 128, 100))
    yield m("transposed-1d-32-32-k4-s2-g4", lambda: nn.ConvTranspose1d(32, 32, 4, 2, 1, groups=4), (1, 32, 500))
    yield m("transposed-3d-16-8-k2-s2", lambda: nn.ConvTranspose3d(16, 8, 2, 2), (1, 16, 8, 14, 14))
    yield m("transposed-3d-8-8-k3-s2-g2", lambda: nn.ConvTranspose3d(8, 8, 3, 2, 1, 1, groups=2), (1, 8, 7, 9, 9))
    for a, b, k, s, p, d, gr, n in (
        (64, 64, 3, 1, 2, 2, 1, 200), (32, 32, 7, 1, 24, 8, 1, 400), (64, 128, 5, 2, 2, 1, 4, 200), (96, 96, 31, 1, 15, 1, 96, 200),
        (16, 16, 3, 1, 4, 4, 16, 1000), (40, 20, 3, 3, 0, 1, 5, 300), (1, 16, 400, 160, 0, 1, 1, 16000),
    ):  # fmt: skip
        name = f"conv1d-{a}-{b}-k{k}-s{s}-r{d}-g{gr}"
        yield m(name, lambda a=a, b=b, k=k, s=s, p=p, d=d, gr=gr: nn.Conv1d(a, b, k, s, p, d, gr), (1, a, n))
    for a, b, k, s, p, d, gr, n in (
        (32, 32, 3, 1, 3, 3, 1, 28), (48, 48, 3, 1, 2, 2, 4, 28), (48, 96, 3, 2, 1, 1, 12, 28), (24, 24, 5, 1, 8, 4, 24, 32),
        (60, 60, (1, 7), 1, (0, 3), 1, 3, 17), (12, 36, 3, 1, 1, 1, 12, 40), (30, 60, 2, 2, 0, 1, 6, 24),
        (3, 7, 3, 1, 1, 1, 1, 33), (17, 19, 3, 1, 1, 1, 1, 15), (64, 64, 3, 1, 1, 1, 64, 7),
    ):  # fmt: skip
        name = f"conv2d-{a}-{b}-k{k if isinstance(k, int) else '1x7'}-s{s}-r{d}-g{gr}"
        yield m(name, lambda a=a, b=b, k=k, s=s, p=p, d=d, gr=gr: nn.Conv2d(a, b, k, s, p, d, gr), (1, a, n, n))
    for a, b, k, s, p, d, gr in (
        (16, 16, 3, 1, 1, 1, 1), (16, 32, 3, 2, 1, 1, 4), (24, 24, 3, 1, 1, 1, 24), (8, 8, 3, 1, 2, 2, 1), (32, 16, 1, 1, 0, 1, 1),
        (3, 16, (1, 7, 7), (1, 2, 2), (0, 3, 3), 1, 1),
    ):  # fmt: skip
        name = f"conv3d-{a}-{b}-k{k if isinstance(k, int) else '1x7x7'}-s{s if isinstance(s, int) else 2}-r{d}-g{gr}"
        yield m(name, lambda a=a, b=b, k=k, s=s, p=p, d=d, gr=gr: nn.Conv3d(a, b, k, s, p, d, gr), (1, a, 8, 20, 20))


def pooling() -> Iterator[Case]:
    image = (1, 32, 45, 45)
    for k, s, p in ((3, 2, 1), (5, 1, 2), (7, 3, 0), (2, 2, 0), ((3, 5), (2, 1), 1)):
        text = f"k{k}-s{s}".replace(" ", "").replace("(", "").replace(")", "").replace(",", "x")
        yield m(f"pool-max-{text}", lambda k=k, s=s, p=p: nn.MaxPool2d(k, s, p), image)
        yield m(f"pool-avg-{text}", lambda k=k, s=s, p=p: nn.AvgPool2d(k, s, p), image)
    yield m("pool-max-dilated", lambda: nn.MaxPool2d(3, 1, 1, 2), image)
    yield m("pool-max-indices", lambda: nn.MaxPool2d(3, 2, 1, return_indices=True), image)
    yield m("pool-lp", lambda: nn.LPPool2d(2, 3, 2), image)
    yield m("pool-max1d", lambda: nn.MaxPool1d(5, 2, 2), (1, 64, 501))
    yield m("pool-avg3d", lambda: nn.AvgPool3d(3, 2, 1), (1, 16, 9, 21, 21))
    yield m("pool-max3d", lambda: nn.MaxPool3d(3, 1, 1), (1, 16, 9, 21, 21))
    for size in (1, 3, 7, (5, 13)):
        name = size if isinstance(size, int) else "5x13"
        yield m(f"pool-adaptive-avg-{name}", lambda size=size: nn.AdaptiveAvgPool2d(size), image)
        yield m(f"pool-adaptive-max-{name}", lambda size=size: nn.AdaptiveMaxPool2d(size), image)


def resizing() -> Iterator[Case]:
    image = (1, 16, 31, 37)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
        for size in ((62, 74), (17, 50), (80, 91)):
            yield f(
                f"resize-{mode}-{size[0]}", lambda x, mode=mode, size=size: F.interpolate(x, size, mode=mode), image
            )
    yield f("resize-bilinear-corners", lambda x: F.interpolate(x, (80, 91), mode="bilinear", align_corners=True), image)
    yield f("resize-bicubic-corners", lambda x: F.interpolate(x, (80, 91), mode="bicubic", align_corners=True), image)
    yield f("resize-antialias", lambda x: F.interpolate(x, (13, 15), mode="bilinear", antialias=True), image)
    yield f("resize-linear", lambda x: F.interpolate(x, 777, mode="linear"), (1, 16, 300))
    yield f("resize-trilinear", lambda x: F.interpolate(x, (12, 20, 20), mode="trilinear"), (1, 8, 7, 13, 13))
    for mode in ("bilinear", "nearest", "bicubic"):
        for pad in ("zeros", "border", "reflection"):
            yield g(
                f"grid-{mode}-{pad}",
                lambda x, at, mode=mode, pad=pad: F.grid_sample(x, at, mode, pad, align_corners=False),
                lambda: (torch.randn(1, 8, 40, 40), torch.rand(1, 50, 50, 2) * 2.2 - 1.1),
            )
    yield g(
        "grid-3d",
        lambda x, at: F.grid_sample(x, at, align_corners=False),
        lambda: (torch.randn(1, 4, 12, 12, 12), torch.rand(1, 10, 16, 16, 3) * 2 - 1),
    )
    yield g(
        "grid-affine",
        lambda x, t: F.grid_sample(x, F.affine_grid(t, [1, 8, 40, 40], align_corners=False), align_corners=False),
        lambda: (torch.randn(1, 8, 40, 40), torch.tensor([[[0.9, 0.1, 0.0], [-0.1, 0.9, 0.1]]])),
    )
    yield f("shuffle-pixel", lambda x: F.pixel_shuffle(x, 3), (1, 36, 20, 20))
    yield f("shuffle-unpixel", lambda x: F.pixel_unshuffle(x, 2), (1, 12, 40, 40))
    yield f("shuffle-channel", lambda x: F.channel_shuffle(x, 4), (1, 48, 28, 28))
    yield f("unfold", lambda x: F.unfold(x, 3, padding=1, stride=2), (1, 16, 32, 32))
    yield f("fold", lambda x: F.fold(x, (32, 32), 4, stride=2, padding=1), (1, 16 * 8, 256))


def products() -> Iterator[Case]:
    for n in (1, 2, 3, 4, 5, 7, 9, 11, 13, 16, 17):
        yield f(f"mm-{n}x{n}x{n}", torch.matmul, (n, n), (n, n))
    for a, b, c in (
        (17, 100, 13), (100, 100, 100), (5, 1000, 7), (1000, 5, 7), (1, 1000, 17), (17, 1, 1000), (1000, 17, 1000), (3, 1000, 1000),
        (100, 3, 100), (1, 100, 100), (1000, 100, 1), (2, 17, 3), (33, 65, 129), (255, 257, 63),
    ):  # fmt: skip
        yield f(f"mm-{a}x{b}x{c}", torch.matmul, (a, b), (b, c))
        yield m(f"linear-{a}x{b}x{c}", lambda b=b, c=c: nn.Linear(b, c), (a, b))
    for n, a, b, c in (
        (1000, 3, 3, 3), (1000, 4, 4, 4), (4096, 2, 2, 2), (64, 7, 9, 11), (256, 16, 16, 16), (128, 1, 32, 32), (128, 32, 32, 1),
        (16, 17, 64, 17), (300, 5, 6, 7), (12, 100, 64, 100),
    ):  # fmt: skip
        yield f(f"bmm-{n}-{a}x{b}x{c}", torch.bmm, (n, a, b), (n, b, c))
    yield f("bmm-left-t", lambda a, b: a.transpose(1, 2) @ b, (32, 40, 24), (32, 40, 24))
    yield f("bmm-right-t", lambda a, b: a @ b.transpose(1, 2), (32, 24, 40), (32, 24, 40))
    yield f("mv", torch.mv, (300, 500), (500,))
    yield f("dot", torch.dot, (10000,), (10000,))
    yield f("outer", torch.outer, (300,), (500,))
    yield f(
        "baddbmm", lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2.0), (16, 20, 20), (16, 20, 30), (16, 30, 20)
    )
    yield f("bilinear", F.bilinear, (32, 20), (32, 30), (10, 20, 30))
    for name, equation, *shapes in (
        ("bij-bjk", "bij,bjk->bik", (8, 30, 40), (8, 40, 50)), ("bhwc-hkc", "bhwc,hkc->bhwk", (2, 14, 14, 32), (14, 14, 32)),
        ("trace", "ii->i", (200, 200)), ("ij-ik-jk", "ij,ik->jk", (300, 40), (300, 50)), ("abc-cd-e", "abc,cd->abd", (5, 6, 70), (70, 20)),
        ("three", "bi,bj,ijk->bk", (16, 10), (16, 12), (10, 12, 20)), ("sum", "ijk->j", (30, 40, 50)), ("inner", "bi,bi->b", (500, 64)),
        ("perm", "bnhd->bhdn", (1, 100, 8, 32)), ("outer3", "i,j,k->ijk", (20,), (30,), (40,)),
        ("heads", "bqhd,bkhd->bhqk", (2, 50, 4, 16), (2, 60, 4, 16)), ("nd-e", "...id,jd->...ij", (4, 5, 20, 16), (30, 16)),
    ):  # fmt: skip
        yield f(f"einsum-{name}", lambda *x, equation=equation: torch.einsum(equation, *x), *shapes)
    yield f("cdist", torch.cdist, (100, 16), (120, 16))
    yield f("cdist-1", lambda a, b: torch.cdist(a, b, p=1.0), (100, 16), (120, 16))
    yield f("tensordot", lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), (20, 12, 14), (12, 14, 30))
    yield f("kron", torch.kron, (12, 12), (15, 15))
    yield f("matrix-power", lambda a: torch.matrix_power(a / 10, 5), (40, 40))


def recurrences() -> Iterator[Case]:
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        name = kind.__name__.lower()
        for inner, hidden, steps in ((20, 32, 50), (64, 128, 30), (10, 17, 40)):
            yield m(
                f"{name}-{inner}-{hidden}-{steps}", lambda k=kind, i=inner, h=hidden: First(k(i, h)), (steps, 1, inner)
            )
            yield m(
                f"{name}-bi-{inner}-{hidden}-{steps}",
                lambda k=kind, i=inner, h=hidden: First(k(i, h, bidirectional=True, batch_first=True)),
                (1, steps, inner),
            )
        yield m(f"{name}-2-layers-batch-4", lambda k=kind: First(k(32, 48, 2)), (20, 4, 32))
        yield m(f"{name}-batch-16", lambda k=kind: First(k(24, 64)), (12, 16, 24))
    yield m("gru-cell", lambda: nn.GRUCell(64, 96), (1, 64), (1, 96))
    yield m("gru-cell-32", lambda: nn.GRUCell(64, 96), (32, 64), (32, 96))


def families() -> Iterator[Case]:
    yield from convolutions()
    yield from pooling()
    yield from resizing()
    yield from products()
    yield from recurrences()
