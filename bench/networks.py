"""The networks of the benchmark, written to ONNX and, for peers that start from torch, to TorchScript and torch.export.

    python networks.py FOLDER [NAME ...]

Random weights of a fixed seed, constant shapes, batch 1; NAME_b8 is the same network with batch 8. Statistics of batch
normalization are taken from random input, so that activations keep a sane range through deep networks.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional

from batches import network_and_batch

# ---------------------------------------------------------------- convolutional


def unit(
    inputs: int,
    outputs: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    activation: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """Convolution, batch normalization, activation."""
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Classifier(nn.Module):
    def __init__(self, inputs: int, classes: int):
        super().__init__()
        self.dense = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))


def mobilenet_v1() -> nn.Module:
    """Howard et al., MobileNets (2017), width 1."""
    layers: list[nn.Module] = [unit(3, 32, 3, 2)]
    widths = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    before = 32
    for width, stride in widths:
        layers += [unit(before, before, 3, stride, before), unit(before, width, 1)]
        before = width
    return nn.Sequential(*layers, Classifier(1024, 1000))


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        hidden = inputs * expansion
        expand = [] if expansion == 1 else [unit(inputs, hidden, 1, activation=nn.ReLU6)]
        self.body = nn.Sequential(
            *expand,
            unit(hidden, hidden, kernel, stride, hidden, nn.ReLU6),
            unit(hidden, outputs, 1, activation=None),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


def inverted_residuals(rows: Sequence[tuple[int, int, int, int, int]]) -> nn.Module:
    """Rows of (expansion, channels, repeats, stride, kernel), with the stem and the head of MobileNetV2."""
    layers: list[nn.Module] = [unit(3, 32, 3, 2, activation=nn.ReLU6)]
    before = 32
    for expansion, channels, repeats, stride, kernel in rows:
        for number in range(repeats):
            layers.append(InvertedResidual(before, channels, kernel, stride if number == 0 else 1, expansion))
            before = channels
    return nn.Sequential(*layers, unit(before, 1280, 1, activation=nn.ReLU6), Classifier(1280, 1000))


def mobilenet_v2() -> nn.Module:
    """Sandler et al., MobileNetV2 (2018)."""
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    return inverted_residuals([(*row, 3) for row in rows])


def efficientnet_lite0() -> nn.Module:
    return inverted_residuals(
        [
            (1, 16, 1, 1, 3),
            (6, 24, 2, 2, 3),
            (6, 40, 2, 2, 5),
            (6, 80, 3, 2, 3),
            (6, 112, 3, 1, 5),
            (6, 192, 4, 2, 5),
            (6, 320, 1, 1, 3),
        ]
    )


class BasicBlock(nn.Module):
    width = 1

    def __init__(self, inputs: int, channels: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(unit(inputs, channels, 3, stride), unit(channels, channels, activation=None))
        same = stride == 1 and inputs == channels
        self.short = None if same else unit(inputs, channels, 1, stride, activation=None)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + (x if self.short is None else self.short(x)))


class Bottleneck(nn.Module):
    width = 4

    def __init__(self, inputs: int, channels: int, stride: int):
        super().__init__()
        outputs = 4 * channels
        self.body = nn.Sequential(
            unit(inputs, channels, 1), unit(channels, channels, 3, stride), unit(channels, outputs, 1, activation=None)
        )
        same = stride == 1 and inputs == outputs
        self.short = None if same else unit(inputs, outputs, 1, stride, activation=None)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + (x if self.short is None else self.short(x)))


def resnet(block: type[BasicBlock] | type[Bottleneck], repeats: Sequence[int]) -> nn.Module:
    """He et al., Deep Residual Learning (2015)."""
    layers: list[nn.Module] = [unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for stage, count in enumerate(repeats):
        for number in range(count):
            layers.append(block(before, 64 << stage, 2 if stage and number == 0 else 1))
            before = (64 << stage) * block.width
    return nn.Sequential(*layers, Classifier(before, 1000))


def vgg11() -> nn.Module:
    """Simonyan and Zisserman, Very Deep Convolutional Networks (2014), configuration A."""
    layers: list[nn.Module] = []
    before = 3
    for channels, count in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(count):
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU()]
            before = channels
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), dense(512 * 7 * 7, 4096, 4096, 1000))


class Fire(nn.Module):
    def __init__(self, inputs: int, squeeze: int, expand: int):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.one = nn.Conv2d(squeeze, expand, 1)
        self.three = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.squeeze(x))
        return torch.cat([functional.relu(self.one(x)), functional.relu(self.three(x))], 1)


class SqueezeNet(nn.Module):
    """Iandola et al., SqueezeNet (2016), version 1.1."""

    def __init__(self) -> None:
        super().__init__()

        def pool() -> nn.Module:
            return nn.MaxPool2d(3, 2, ceil_mode=True)

        self.features = nn.Sequential(
            *(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool()),
            *(Fire(128, 32, 128), Fire(256, 32, 128), pool(), Fire(256, 48, 192), Fire(384, 48, 192)),
            *(Fire(384, 64, 256), Fire(512, 64, 256), nn.Conv2d(512, 1000, 1), nn.ReLU()),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(functional.adaptive_avg_pool2d(self.features(x), 1), 1)


class C3(nn.Module):
    """The cross-stage block of YOLOv5."""

    def __init__(self, inputs: int, outputs: int, repeats: int = 1, add: bool = True):
        super().__init__()
        half = outputs // 2
        self.left = unit(inputs, half, 1, activation=nn.SiLU)
        self.right = unit(inputs, half, 1, activation=nn.SiLU)
        self.join = unit(2 * half, outputs, 1, activation=nn.SiLU)
        self.inner = nn.ModuleList(
            nn.Sequential(unit(half, half, 1, activation=nn.SiLU), unit(half, half, activation=nn.SiLU))
            for _ in range(repeats)
        )
        self.add = add

    def forward(self, x: Tensor) -> Tensor:
        y = self.left(x)
        for block in self.inner:
            y = y + block(y) if self.add else block(y)
        return self.join(torch.cat([y, self.right(x)], 1))


class Detector(nn.Module):
    """The shape of YOLOv5n at 320 x 320: three heads, joined to one tensor of (1, 6300, 85)."""

    def __init__(self) -> None:
        super().__init__()

        def down(inputs: int, outputs: int) -> nn.Module:
            return unit(inputs, outputs, 3, 2, activation=nn.SiLU)

        def mix(inputs: int, outputs: int) -> nn.Module:
            return unit(inputs, outputs, 1, activation=nn.SiLU)

        stem = nn.Sequential(nn.Conv2d(3, 16, 6, 2, 2, bias=False), nn.BatchNorm2d(16), nn.SiLU())
        self.to8 = nn.Sequential(stem, down(16, 32), C3(32, 32), down(32, 64), C3(64, 64, 2))
        self.to16 = nn.Sequential(down(64, 128), C3(128, 128, 3))
        self.to32 = nn.Sequential(down(128, 256), C3(256, 256))
        self.pool_in, self.pool_out, self.pool = mix(256, 128), mix(512, 256), nn.MaxPool2d(5, 1, 2)
        self.up32, self.up16 = mix(256, 128), mix(128, 64)
        self.neck16, self.neck8 = C3(256, 128, 1, False), C3(128, 64, 1, False)
        self.down8, self.down16 = down(64, 64), down(128, 128)
        self.out16, self.out32 = C3(128, 128, 1, False), C3(256, 256, 1, False)
        self.heads = nn.ModuleList(nn.Conv2d(channels, 255, 1) for channels in (64, 128, 256))

    def forward(self, x: Tensor) -> Tensor:
        at8 = self.to8(x)
        at16 = self.to16(at8)
        pooled = [self.pool_in(self.to32(at16))]
        for _ in range(3):
            pooled.append(self.pool(pooled[-1]))
        up32 = self.up32(self.pool_out(torch.cat(pooled, 1)))
        up16 = self.up16(self.neck16(torch.cat([functional.interpolate(up32, scale_factor=2.0), at16], 1)))
        maps = [self.neck8(torch.cat([functional.interpolate(up16, scale_factor=2.0), at8], 1))]
        maps.append(self.out16(torch.cat([self.down8(maps[0]), up16], 1)))
        maps.append(self.out32(torch.cat([self.down16(maps[1]), up32], 1)))
        found = []
        for head, features, side in zip(self.heads, maps, (40, 20, 10), strict=True):
            cells = head(features).reshape(x.shape[0], 3, 85, side * side).permute(0, 1, 3, 2)
            found.append(torch.sigmoid(cells.reshape(x.shape[0], 3 * side * side, 85)))
        return torch.cat(found, 1)


class KeywordConvolutions(nn.Module):
    """DS-CNN of MLPerf Tiny: 49 frames of 10 coefficients."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [nn.Sequential(unit(64, 64, 3, 1, 64), unit(64, 64, 1)) for _ in range(4)]
        first = nn.Conv2d(1, 64, (10, 4), 2, padding=(4, 1), bias=False)
        self.features = nn.Sequential(first, nn.BatchNorm2d(64), nn.ReLU(), *blocks, Classifier(64, 12))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.features(x), -1)


# ---------------------------------------------------------------- transformers


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.width = heads, width

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], self.heads, self.width // self.heads).transpose(1, 2)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        scores = torch.matmul(query, key.transpose(2, 3)) * (1 / math.sqrt(self.width // self.heads)) + mask
        mixed = torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2)
        return self.out(mixed.reshape(query.shape[0], query.shape[2], self.width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.attend(self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x)), mask)


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int):
        super().__init__()
        self.attention, self.first, self.second = Attention(width, heads), nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.first(x + self.attention(x, mask))
        return self.second(x + self.narrow(functional.gelu(self.wide(x))))


class Encoder(nn.Module):
    """The shape of all-MiniLM-L6: six layers of width 384, twelve heads."""

    def __init__(self, tokens: int):
        super().__init__()
        self.words, self.types = nn.Embedding(30522, 384), nn.Embedding(2, 384)
        self.places = nn.Parameter(torch.randn(1, tokens, 384) * 0.02)
        self.norm = nn.LayerNorm(384)
        self.layers = nn.ModuleList(EncoderLayer(384, 12, 1536) for _ in range(6))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        x = self.norm(self.words(input_ids) + self.places + self.types(token_type_ids))
        mask = (1.0 - attention_mask.to(torch.float32)).reshape(x.shape[0], 1, 1, -1) * -1e4
        for layer in self.layers:
            x = layer(x, mask)
        return x


class DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention, self.first, self.second = Attention(width, heads), nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def feed(self, x: Tensor) -> Tensor:
        return x + self.narrow(functional.gelu(self.wide(self.second(x)), approximate="tanh"))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.feed(x + self.attention(self.first(x), mask))


class Decoder(nn.Module):
    """The shape of GPT-2, small: four layers of width 256, four heads, 2,000 words, 64 tokens at once."""

    def __init__(self, tokens: int = 64):
        super().__init__()
        self.words, self.norm, self.out = nn.Embedding(2000, 256), nn.LayerNorm(256), nn.Linear(256, 2000, bias=False)
        self.places = nn.Parameter(torch.randn(1, tokens, 256) * 0.02)
        self.layers = nn.ModuleList(DecoderLayer(256, 4) for _ in range(4))
        self.register_buffer("mask", torch.triu(torch.full((tokens, tokens), -1e4), 1)[None, None])

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids) + self.places
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.out(self.norm(x))


class DecoderStep(nn.Module):
    """One more token of `Decoder`: keys and values of the 63 before it come in; with the new one's they go out."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = Decoder(1)

    def forward(self, input_ids: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.decoder.words(input_ids) + self.decoder.places
        new_keys, new_values = [], []
        for number, layer in enumerate(self.decoder.layers):
            attention, normal = layer.attention, layer.first(x)
            key = torch.cat([keys[number], attention.split(attention.key(normal))], 2)
            value = torch.cat([values[number], attention.split(attention.value(normal))], 2)
            query = attention.split(attention.query(normal))
            x = layer.feed(x + attention.attend(query, key, value, torch.zeros(1, 1, 1, 1)))
            new_keys.append(key)
            new_values.append(value)
        return self.decoder.out(self.decoder.norm(x)), torch.stack(new_keys), torch.stack(new_values)


# ---------------------------------------------------------------- recurrent and dense


class KeywordRecurrence(nn.Module):
    """49 frames of 40 features, two layers of 128."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]):
        super().__init__()
        self.layers, self.out = kind(40, 128, 2, batch_first=True), nn.Linear(128, 12)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.layers(x)[0][:, -1])


def dense(*widths: int) -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


# ---------------------------------------------------------------- all of them

Input = tuple[str, tuple[int, ...]]
IMAGE: list[Input] = [("x", (1, 3, 224, 224))]


def words(tokens: int) -> list[Input]:
    return [(name, (1, tokens)) for name in ("input_ids", "attention_mask", "token_type_ids")]


NETWORKS: dict[str, tuple[Callable[[], nn.Module], list[Input]]] = {
    "mobilenet_v1": (mobilenet_v1, IMAGE),
    "mobilenet_v2": (mobilenet_v2, IMAGE),
    "resnet18": (lambda: resnet(BasicBlock, (2, 2, 2, 2)), IMAGE),
    "resnet50": (lambda: resnet(Bottleneck, (3, 4, 6, 3)), IMAGE),
    "vgg11": (vgg11, IMAGE),
    "squeezenet": (SqueezeNet, IMAGE),
    "efficientnet_lite0": (efficientnet_lite0, IMAGE),
    "yolov5n": (Detector, [("x", (1, 3, 320, 320))]),
    "minilm_128": (lambda: Encoder(128), words(128)),
    "gpt2": (Decoder, [("input_ids", (1, 64))]),
    "lstm": (lambda: KeywordRecurrence(nn.LSTM), [("x", (1, 49, 40))]),
    "gru": (lambda: KeywordRecurrence(nn.GRU), [("x", (1, 49, 40))]),
    "ds_cnn": (KeywordConvolutions, [("x", (1, 1, 49, 10))]),
    "mlp": (lambda: dense(784, 256, 128, 10), [("x", (1, 784))]),
    "autoencoder": (lambda: dense(640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640), [("x", (1, 640))]),
    "minilm_16": (lambda: Encoder(16), words(16)),
    "minilm_256": (lambda: Encoder(256), words(256)),
    "gpt2_step": (DecoderStep, [("input_ids", (1, 1)), ("keys", (4, 1, 4, 63, 64)), ("values", (4, 1, 4, 63, 64))]),
    "null": (nn.ReLU, [("x", (1, 4))]),
}


def sample(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    if name == "attention_mask":
        return torch.ones(shape, dtype=torch.int64)
    if name == "token_type_ids":
        return torch.zeros(shape, dtype=torch.int64)
    if name == "input_ids":
        return torch.arange(math.prod(shape)).reshape(shape) * 37 % 999 + 1
    return torch.randn(*shape, generator=generator)


def write(name: str, folder: Path) -> None:
    """Writes NAME.onnx, NAME.pt and NAME.pt2."""
    network, batch = network_and_batch(name)
    make, inputs = NETWORKS[network]
    torch.manual_seed(0)
    model = make()
    generator = torch.Generator().manual_seed(1)
    normalizations = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    if normalizations:
        for m in normalizations:
            m.momentum = None
        model.train()
        with torch.no_grad():
            for _ in range(4):
                model(torch.randn(*inputs[0][1], generator=generator))
    model.eval()
    values = tuple(sample(key, (batch * shape[0], *shape[1:]), generator) for key, shape in inputs)
    with torch.no_grad():
        target = folder / f"{name}.onnx"
        torch.onnx.export(
            model, values, str(target), opset_version=17, input_names=[key for key, _ in inputs], dynamo=False
        )
        onnx.checker.check_model(str(target))
        torch.export.save(torch.export.export(model, values), str(folder / f"{name}.pt2"))
        torch.jit.save(torch.jit.trace(model, values, check_trace=False), str(folder / f"{name}.pt"))


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NETWORKS:
        if not (folder / f"{name}.pt").exists():
            write(name, folder)


if __name__ == "__main__":
    main()
