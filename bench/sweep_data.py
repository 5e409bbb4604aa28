"""Cases of bench/sweep_cases.py that reduce, move, choose and factor: of PyTorch, in forms that no network has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from sweep_cases import Case, Function, f, g, m


def normalizations() -> Iterator[Case]:
    image = (2, 24, 20, 20)
    for groups in (1, 3, 8, 24):
        yield m(f"norm-group-{groups}", lambda groups=groups: nn.GroupNorm(groups, 24), image)
    yield m("norm-instance", lambda: nn.InstanceNorm2d(24, affine=True), image)
    yield m("norm-instance-1d", lambda: nn.InstanceNorm1d(32), (1, 32, 333))
    yield m("norm-batch", lambda: nn.BatchNorm2d(24).eval(), image)
    yield m("norm-layer-20", lambda: nn.LayerNorm(20), image)
    yield m("norm-layer-400", lambda: nn.LayerNorm((20, 20)), image)
    yield m("norm-layer-9600", lambda: nn.LayerNorm((24, 20, 20)), image)
    yield m("norm-layer-333", lambda: nn.LayerNorm(333), (50, 333))
    yield m("norm-rms-300", lambda: nn.RMSNorm(300), (50, 300))
    yield m("norm-rms-2d", lambda: nn.RMSNorm((20, 20)), image)
    yield m("norm-local", lambda: nn.LocalResponseNorm(5), image)
    for p, axis in ((2, 1), (1, 3), (3, 2)):
        yield f(f"normalize-l{p}-axis-{axis}", lambda x, p=p, a=axis: F.normalize(x, p, a), image)
    yield f("std-axis-1", lambda x: x.std(1), image)
    yield f("var-mean-2-3", lambda x: torch.var_mean(x, (2, 3)), image)
    yield f("cosine", lambda a, b: F.cosine_similarity(a, b, dim=1), (100, 64), (100, 64))
    for name, shape, axis in (
        ("0-of-2", (100, 60), 0), ("1-of-3", (8, 50, 30), 1), ("1-of-4", image, 1), ("2-of-4", image, 2), ("17", (500, 17), 1),
        ("1000", (20, 1000), 1), ("3", (1000, 3), 1), ("50257", (1, 50257), 1),
    ):  # fmt: skip
        yield f(f"softmax-{name}", lambda x, a=axis: F.softmax(x, a), shape)
        yield f(f"log-softmax-{name}", lambda x, a=axis: F.log_softmax(x, a), shape)


def reductions() -> Iterator[Case]:
    shape = (6, 14, 20, 25)
    for count in (1, 2, 3, 4):
        for axes in itertools.combinations(range(4), count):
            name = "".join(map(str, axes))
            yield f(f"sum-{name}", lambda x, axes=axes: x.sum(axes), shape)
            yield f(f"amax-{name}", lambda x, axes=axes: x.amax(axes), shape)
    for op in ("mean", "prod", "logsumexp", "argmax", "any", "median", "min", "nanmean", "all"):
        for axis in (0, 1, 2, 3):

            def reduced(x: torch.Tensor, op: str = op, axis: int = axis) -> torch.Tensor | tuple[torch.Tensor, ...]:
                found = getattr(x, op)(axis)
                return tuple(found) if isinstance(found, tuple) else found

            yield f(f"{op}-{axis}", reduced, shape)
    yield f("argmax-all", lambda x: x.argmax(), (10000,))
    yield f("norm-fro", torch.linalg.norm, (300, 300))
    for op in ("cumsum", "cumprod", "cummax", "logcumsumexp"):
        for axis in (0, 1, 2):

            def running(x: torch.Tensor, op: str = op, axis: int = axis) -> torch.Tensor | tuple[torch.Tensor, ...]:
                found = getattr(x, op)(axis)
                return tuple(found) if isinstance(found, tuple) else found

            yield f(f"{op}-{axis}", running, (30, 40, 50))
    yield f("diff", lambda x: x.diff(dim=1), (100, 300))


def choices() -> Iterator[Case]:
    for n, rows in ((7, 1000), (16, 1000), (100, 100), (1000, 10), (10000, 1)):
        yield f(f"sort-{rows}x{n}", lambda x: tuple(x.sort(-1)), (rows, n))
        yield f(f"argsort-{rows}x{n}", lambda x: x.argsort(-1, descending=True), (rows, n))
    yield f("sort-columns", lambda x: tuple(x.sort(0)), (100, 100))
    for k, shape in ((1, (100, 100)), (5, (10, 1000)), (50, (1, 10000)), (5, (1, 50257)), (3, (1000, 10))):
        yield f(f"topk-{k}-{shape[0]}x{shape[1]}", lambda x, k=k: tuple(x.topk(k)), shape)
    yield f("topk-columns", lambda x: tuple(x.topk(5, 0)), (100, 100))
    yield f("kthvalue", lambda x: tuple(x.kthvalue(20, 1)), (100, 100))
    yield g("searchsorted", torch.searchsorted, lambda: (torch.randn(1000).sort().values, torch.randn(5000)))
    yield g("bucketize", torch.bucketize, lambda: (torch.randn(10000), torch.linspace(-2, 2, 31)))
    yield g("histc", lambda x: torch.histc(x, 50, -3.0, 3.0), lambda: (torch.randn(10000),))
    yield g("bincount", lambda x: torch.bincount(x, minlength=100), lambda: (torch.randint(0, 100, (5000,)),))
    yield g("unique", torch.unique, lambda: (torch.randint(0, 500, (5000,)),))
    yield g(
        "unique-float-inverse",
        lambda x: torch.unique(x, return_inverse=True),
        lambda: (torch.randn(2000).round(decimals=1),),
    )
    yield g("nonzero", torch.nonzero, lambda: ((torch.rand(100, 100) > 0.7).float(),))
    yield g("masked-select", lambda x, t: x[t > 0], lambda: (torch.randn(10000), torch.randn(10000)))
    yield g(
        "masked-fill", lambda x, t: x.masked_fill(t > 0, -1.0), lambda: (torch.randn(100, 300), torch.randn(100, 300))
    )
    yield g("where", lambda x, t: torch.where(t > 0, x, t), lambda: (torch.randn(100, 300), torch.randn(100, 300)))
    for count in (100, 1000):

        def boxes(count: int = count) -> tuple[torch.Tensor, ...]:
            at = torch.rand(count, 2) * 100
            return torch.cat([at, at + torch.rand(count, 2) * 30 + 1], 1), torch.rand(count)

        yield g(f"nms-{count}", lambda b, s: torchvision.ops.nms(b, s, 0.5), boxes)
    yield g(
        "roi-align",
        lambda x, b: torchvision.ops.roi_align(x, [b], 7, 0.25, 2),
        lambda: (torch.randn(1, 32, 50, 50), torch.cat([torch.rand(20, 2) * 100, 100 + torch.rand(20, 2) * 90], 1)),
    )


def lookups() -> Iterator[Case]:
    def at(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, high, shape)

    for axis, other in ((0, (30, 50, 20)), (1, (60, 25, 20)), (2, (60, 50, 10))):
        yield g(
            f"gather-{axis}",
            lambda x, i, a=axis: x.gather(a, i),
            lambda o=other, a=axis: (torch.randn(60, 50, 20), at((60, 50, 20)[a], *o)),
        )
        yield g(
            f"scatter-{axis}",
            lambda x, i, v, a=axis: x.scatter(a, i, v),
            lambda o=other, a=axis: (
                torch.randn(60, 50, 20),
                torch.argsort(torch.rand(60, 50, 20), a).narrow(a, 0, o[a]),
                torch.randn(*o),
            ),
        )
        yield g(
            f"scatter-add-{axis}",
            lambda x, i, v, a=axis: x.scatter_add(a, i, v),
            lambda o=other, a=axis: (torch.randn(60, 50, 20), at((60, 50, 20)[a], *o), torch.randn(*o)),
        )
        yield g(
            f"index-select-{axis}",
            lambda x, i, a=axis: x.index_select(a, i),
            lambda a=axis: (torch.randn(60, 50, 20), at(20, 40)),
        )
        yield g(
            f"index-add-{axis}",
            lambda x, i, v, a=axis: x.index_add(a, i, v),
            lambda a=axis: (
                torch.randn(60, 50, 20),
                at(20, 10),
                torch.randn(*[10 if k == a else n for k, n in enumerate((60, 50, 20))]),
            ),
        )
    yield g("index-two", lambda x, i, j: x[i, j], lambda: (torch.randn(60, 50, 20), at(60, 200), at(50, 200)))
    yield g("index-middle", lambda x, i: x[:, i], lambda: (torch.randn(60, 50, 20), at(50, 200)))
    yield g(
        "index-put",
        lambda x, i, j, v: x.index_put((i, j), v),
        lambda: (torch.randn(60, 50, 20), torch.arange(50), torch.arange(50), torch.randn(50, 20)),
    )
    yield g(
        "index-put-add",
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        lambda: (torch.randn(60, 50), at(60, 200), torch.randn(200, 50)),
    )
    yield g(
        "scatter-reduce-amax",
        lambda x, i, v: x.scatter_reduce(0, i, v, "amax"),
        lambda: (torch.randn(60, 50), at(60, 200, 50), torch.randn(200, 50)),
    )
    yield g("take-along", lambda x, i: torch.take_along_dim(x, i, 1), lambda: (torch.randn(60, 50), at(50, 60, 5)))
    yield "embedding-64x300", lambda: nn.Embedding(5000, 300), lambda: (at(5000, 64),)
    yield "embedding-1000x17", lambda: nn.Embedding(5000, 17), lambda: (at(5000, 1000),)
    for mode in ("sum", "mean", "max"):
        yield (
            f"embedding-bag-{mode}",
            lambda mode=mode: nn.EmbeddingBag(5000, 64, mode=mode),
            lambda: (at(5000, 32, 20),),
        )
    yield g("one-hot", lambda x: F.one_hot(x, 100), lambda: (at(100, 500),))
    yield f("roll", lambda x: x.roll((3, -2), (1, 2)), (8, 50, 60))
    yield f("flip", lambda x: x.flip(1, 2), (8, 50, 60))
    yield f("flip-last", lambda x: x.flip(-1), (100, 300))
    yield f("rot90", lambda x: x.rot90(1, (1, 2)), (8, 50, 60))


def movements() -> Iterator[Case]:
    for mode in ("constant", "reflect", "replicate", "circular"):
        yield f(f"pad-{mode}-2d", lambda x, mode=mode: F.pad(x, (3, 2, 1, 4), mode), (1, 16, 40, 40))
        yield f(f"pad-{mode}-1d", lambda x, mode=mode: F.pad(x, (5, 9), mode), (1, 16, 500))
    yield f("pad-crop", lambda x: F.pad(x, (-3, 2, 1, -4)), (1, 16, 40, 40))
    for order in (
        "10",
        "021",
        "102",
        "120",
        "201",
        "210",
        "0213",
        "0231",
        "0312",
        "3210",
        "1032",
        "2031",
        "02413",
        "43210",
        "04123",
        "01324",
        "14203",
    ):
        sizes = {2: (200, 300), 3: (20, 50, 60), 4: (8, 14, 20, 25), 5: (4, 8, 10, 12, 15)}[len(order)]
        axes = tuple(map(int, order))
        yield f(f"transpose-{order}", lambda x, axes=axes: x.permute(axes).contiguous(), sizes)
    for axis in range(4):
        yield f(f"concat-{axis}", lambda a, b, c, axis=axis: torch.cat([a, b, c], axis), *[(6, 14, 20, 25)] * 3)
        yield f(
            f"split-{axis}", lambda x, axis=axis: [p.contiguous() for p in x.tensor_split(3, axis)], (6, 15, 21, 24)
        )
        yield f(f"stack-{axis}", lambda a, b, axis=axis: torch.stack([a, b], axis), *[(14, 20, 25)] * 2)
    yield f("repeat", lambda x: x.repeat(2, 3, 2), (20, 30, 40))
    yield f("repeat-interleave", lambda x: x.repeat_interleave(3, 1), (20, 30, 40))
    yield f("repeat-interleave-last", lambda x: x.repeat_interleave(2, -1), (20, 30, 40))
    yield f("slice-strided", lambda x: x[:, 1::3, ::2].contiguous(), (8, 100, 200))
    yield f("slice-set", lambda x, y: torch.slice_scatter(x, y, 1, 10, 50), (8, 100, 60), (8, 40, 60))
    for k in (-2, 0, 5):
        yield f(f"triu-{k}", lambda x, k=k: x.triu(k), (150, 170))
        yield f(f"tril-{k}", lambda x, k=k: x.tril(k), (4, 33, 33))
    yield f("diagonal", lambda x: x.diagonal(0, 1, 2).contiguous(), (20, 50, 50))
    yield f("diag-embed", torch.diag_embed, (20, 50))
    yield f("meshgrid", lambda a, b: torch.meshgrid(a, b, indexing="ij"), (100,), (200,))
    yield f("unfold-windows", lambda x: x.unfold(1, 16, 4).contiguous(), (8, 400))


def functions() -> Iterator[Case]:
    shape = (40, 1000)
    for op in (
        "erf", "tanh", "exp", "expm1", "log1p", "log2", "log10", "sin", "cos", "tan", "sinh", "asinh", "atan", "acos", "rsqrt", "sqrt",
        "sigmoid", "digamma", "lgamma", "erfc", "erfinv", "frac", "trunc", "round", "sign", "reciprocal", "exp2", "sinc", "i0", "nan_to_num",
        "isnan", "signbit", "deg2rad", "logit", "square", "cosh", "acosh", "atanh", "ceil",
    ):  # fmt: skip
        positive = op in {"log1p", "log2", "log10", "rsqrt", "sqrt", "digamma", "lgamma", "acosh"}
        unit = op in {"acos", "erfinv", "logit", "atanh"}

        def numbers(
            positive: bool = positive, unit: bool = unit, low: float = 1.01 if op == "acosh" else 0.01
        ) -> tuple[torch.Tensor, ...]:
            return (
                (torch.rand(shape) * 0.96 + 0.02)
                if unit
                else (torch.rand(shape) * 8 + low)
                if positive
                else torch.randn(shape) * 2,
            )

        yield g(f"unary-{op}", lambda x, op=op: getattr(torch, op)(x), numbers)
    for op in (
        "gelu",
        "silu",
        "mish",
        "softplus",
        "elu",
        "selu",
        "hardswish",
        "hardtanh",
        "logsigmoid",
        "celu",
        "softsign",
        "tanhshrink",
        "hardshrink",
        "glu",
    ):
        yield f(f"activation-{op}", lambda x, op=op: getattr(F, op)(x), shape)
    yield f("activation-gelu-tanh", lambda x: F.gelu(x, approximate="tanh"), shape)

    def two() -> tuple[torch.Tensor, ...]:
        return torch.rand(shape) * 3 + 0.1, torch.rand(shape) * 3 + 0.1

    for op in (
        "pow",
        "atan2",
        "fmod",
        "remainder",
        "hypot",
        "logaddexp",
        "xlogy",
        "copysign",
        "maximum",
        "floor_divide",
        "nextafter",
        "heaviside",
        "fmax",
    ):
        yield g(f"binary-{op}", lambda a, b, op=op: getattr(torch, op)(a, b), two)
    yield g("pow-2.5", lambda a, b: a**2.5 + b, two)
    yield g("pow-3", lambda a, b: a**3 + b, two)
    yield g("integer-divide", lambda a, b: a // b, lambda: (torch.randint(-99, 99, shape), torch.randint(1, 9, shape)))
    yield g("integer-and", lambda a, b: a & b, lambda: (torch.randint(-99, 99, shape), torch.randint(1, 9, shape)))
    yield g("float64-exp", torch.exp, lambda: (torch.randn(40, 1000, dtype=torch.float64),))
    yield g("float64-add", lambda a, b: a + b * 2, lambda: (torch.randn(40, 1000, dtype=torch.float64),) * 2)
    yield g(
        "complex-multiply",
        lambda a, b: torch.view_as_real(torch.view_as_complex(a) * torch.view_as_complex(b)),
        lambda: (torch.randn(40, 500, 2), torch.randn(40, 500, 2)),
    )
    yield g(
        "polar", lambda a, b: torch.view_as_real(torch.polar(a, b)), lambda: (torch.rand(40, 500), torch.rand(40, 500))
    )
    yield g("lerp", lambda a, b: torch.lerp(a, b, 0.3), two)
    yield g("addcdiv", lambda a, b: torch.addcdiv(a, a, b, value=0.5), two)
    yield g("clamp", lambda a, b: torch.clamp(a, 0.5, 2.0) + b, two)


def transforms() -> Iterator[Case]:
    real = torch.view_as_real
    for n, rows in ((16, 100), (60, 50), (64, 100), (100, 20), (256, 16), (1000, 4), (1024, 4), (1009, 2), (4096, 1)):
        yield f(f"rfft-{rows}x{n}", lambda x: real(torch.fft.rfft(x)), (rows, n))
    yield f("fft-64x64", lambda x: real(torch.fft.fft2(x)), (4, 64, 64))
    yield f("rfft2-56x56", lambda x: real(torch.fft.rfft2(x)), (4, 56, 56))
    yield f("irfft-8x257", lambda x: torch.fft.irfft(torch.view_as_complex(x)), (8, 257, 2))
    yield f("ifft-8x100", lambda x: real(torch.fft.ifft(torch.view_as_complex(x))), (8, 100, 2))
    yield f("fft-axis-0", lambda x: real(torch.fft.rfft(x, dim=0)), (128, 40))
    for size, hop in ((512, 128), (400, 160), (1024, 256)):
        yield g(
            f"stft-{size}",
            lambda x, w, size=size, hop=hop: real(torch.stft(x, size, hop, window=w, return_complex=True)),
            lambda size=size: (torch.randn(1, 16000), torch.hann_window(size)),
        )
    yield f("fftshift", torch.fft.fftshift, (64, 100))


def algebra() -> Iterator[Case]:
    def square(n: int, batch: int = 1) -> torch.Tensor:
        return torch.randn(*([batch] if batch > 1 else []), n, n) + torch.eye(n) * 3

    def positive(n: int, batch: int = 1) -> torch.Tensor:
        a = square(n, batch)
        return a @ a.mT + torch.eye(n)

    for n, batch in ((4, 1), (4, 100), (8, 30), (16, 1), (33, 1), (64, 1), (128, 1)):
        size = f"{n}" if batch == 1 else f"{batch}x{n}"
        yield g(f"cholesky-{size}", torch.linalg.cholesky, lambda n=n, b=batch: (positive(n, b),))
        yield g(
            f"solve-{size}",
            torch.linalg.solve,
            lambda n=n, b=batch: (square(n, b), torch.randn(*([b] if b > 1 else []), n, 3)),
        )
        yield g(f"inv-{size}", torch.linalg.inv, lambda n=n, b=batch: (square(n, b),))
        yield g(f"det-{size}", torch.linalg.det, lambda n=n, b=batch: (square(n, b) / n**0.5,))
        yield g(f"qr-{size}", lambda x: tuple(torch.linalg.qr(x)), lambda n=n, b=batch: (square(n, b),))
    for n in (4, 16, 64):
        yield g(
            f"triangular-{n}",
            lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
            lambda n=n: (positive(n).tril(), torch.randn(n, 8)),
        )
        yield g(f"eigh-{n}", torch.linalg.eigvalsh, lambda n=n: (positive(n),))
        yield g(f"svd-{n}", torch.linalg.svdvals, lambda n=n: (square(n),))
    yield g("slogdet-32", lambda a: tuple(torch.linalg.slogdet(a)), lambda: (square(32),))
    yield g("pinv-20", torch.linalg.pinv, lambda: (torch.randn(30, 20),))
    yield g("matrix-exp-16", torch.linalg.matrix_exp, lambda: (square(16) / 10,))
    yield f("cross", torch.linalg.cross, (1000, 3), (1000, 3))


def attentions() -> Iterator[Case]:
    sdpa = F.scaled_dot_product_attention
    for b, h, q, k, d in (
        (1, 4, 64, 64, 32),
        (2, 8, 100, 100, 64),
        (1, 8, 1, 200, 64),
        (1, 3, 49, 49, 20),
        (16, 2, 17, 17, 16),
    ):
        shapes = ((b, h, q, d), (b, h, k, d), (b, h, k, d))
        yield f(f"attention-{b}x{h}x{q}x{k}x{d}", sdpa, *shapes)
    heads = ((1, 8, 100, 32), (1, 8, 100, 32), (1, 8, 100, 32))
    yield f("attention-causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), *heads)
    yield f("attention-mask", sdpa, *heads, (1, 1, 100, 100))
    yield f("attention-bool-mask", lambda q, k, v, mask: sdpa(q, k, v, mask > -1), *heads, (1, 1, 100, 100))
    grouped = ((1, 8, 64, 32), (1, 2, 64, 32), (1, 2, 64, 32))
    yield f("attention-grouped", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), *grouped)
    yield f("attention-grouped-one", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), (1, 8, 1, 32), *grouped[1:])
    for size, heads_ in ((64, 4), (96, 6)):

        class Self(nn.Module):
            def __init__(self, size: int = size, heads: int = heads_):
                super().__init__()
                self.layer = nn.MultiheadAttention(size, heads, batch_first=True)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.layer(x, x, x, need_weights=False)[0]

        yield m(f"multihead-{size}", Self, (1, 50, size))
    yield m("encoder-layer", lambda: nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0), (1, 40, 64))


def blocks() -> Iterator[Case]:
    yield m("block-residual", lambda: Residual(32), (1, 32, 28, 28))
    yield m("block-squeeze", lambda: Squeeze(48), (1, 48, 20, 20))
    yield m(
        "block-upsample",
        lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(24, 12, 3, padding=1), nn.SiLU()),
        (1, 24, 20, 20),
    )
    yield m(
        "block-grouped",
        lambda: nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, groups=8), nn.GroupNorm(8, 64), nn.GELU()),
        (1, 64, 20, 20),
    )
    yield m(
        "block-mlp-17", lambda: nn.Sequential(nn.Linear(17, 33), nn.Tanh(), nn.Linear(33, 9), nn.Softmax(-1)), (50, 17)
    )
    yield m(
        "block-conv1d",
        lambda: nn.Sequential(
            nn.Conv1d(20, 40, 5, padding=2), nn.BatchNorm1d(40).eval(), nn.ReLU(), nn.MaxPool1d(3), nn.Conv1d(40, 40, 3)
        ),
        (1, 20, 300),
    )


class Residual(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n, n, 3, padding=1), nn.InstanceNorm2d(n), nn.LeakyReLU(0.1), nn.Conv2d(n, n, 3, padding=1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class Squeeze(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(n, n // 4, 1), nn.ReLU(), nn.Conv2d(n // 4, n, 1), nn.Hardsigmoid()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(x)


def families() -> Iterator[Case]:
    for family in (
        normalizations,
        reductions,
        choices,
        lookups,
        movements,
        functions,
        transforms,
        algebra,
        attentions,
        blocks,
    ):
        yield from family()


__all__ = ["Function", "families"]
