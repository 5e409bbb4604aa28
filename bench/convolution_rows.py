"""Convolutions of bench/operators.py: those of image networks, detectors, audio front ends."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from one_operator import FLOAT, Row, Shape, one, weights


def conv(
    cin: int, cout: int, size: int | Shape, kernel: int | Shape, stride: int = 1, groups: int = 1, rate: int = 1,
    pad: int | None = None, rank: int = 2, dtype: int = FLOAT,
) -> Callable[[], onnx.ModelProto]:  # fmt: skip
    """A convolution with a bias; padded as to keep the size at stride 1, unless `pad` says otherwise."""
    sizes = [size] * rank if isinstance(size, int) else list(size)
    kernels = [kernel] * rank if isinstance(kernel, int) else list(kernel)
    pads = [(k - 1) // 2 * rate if pad is None else pad for k in kernels]
    settings = {
        "kernel_shape": kernels, "strides": [stride] * rank, "dilations": [rate] * rank, "pads": pads * 2, "group": groups,
    }  # fmt: skip
    return lambda: one(
        "Conv", {"x": (1, cin, *sizes)}, {"w": weights(cout, cin // groups, *kernels), "b": weights(cout)},
        dtype=dtype, **settings,
    )  # fmt: skip


def transposed(
    cin: int, cout: int, size: int, kernel: int, stride: int, pad: int = 0, extra: int = 0, rank: int = 2, groups: int = 1
) -> Callable[[], onnx.ModelProto]:  # fmt: skip
    settings = {
        "kernel_shape": [kernel] * rank, "strides": [stride] * rank, "pads": [pad] * (2 * rank),
        "output_padding": [extra] * rank, "group": groups,
    }  # fmt: skip
    constants = {"w": weights(cin, cout // groups, *[kernel] * rank), "b": weights(cout)}
    return lambda: one("ConvTranspose", {"x": (1, cin, *[size] * rank)}, constants, **settings)


def convolutions() -> list[Row]:
    rows = []
    for cin, cout, size, stride in (
        (64, 64, 56, 1), (128, 128, 28, 1), (256, 256, 14, 1), (512, 512, 7, 1), (64, 128, 56, 2), (128, 256, 28, 2),
        (256, 512, 14, 2), (64, 64, 112, 1), (32, 64, 80, 2), (64, 64, 40, 1), (128, 128, 20, 1), (16, 16, 160, 1),
        (24, 24, 112, 1), (48, 96, 40, 2), (80, 192, 35, 1), (96, 96, 35, 1), (384, 256, 13, 1),
    ):  # fmt: skip
        rows.append(Row(f"conv-3x3-{cin}-{cout}-{size}-s{stride}", conv(cin, cout, size, 3, stride)))
    for cin, cout, size in (
        (16, 96, 112), (96, 24, 56), (24, 144, 56), (144, 32, 28), (192, 64, 14), (384, 96, 14), (576, 160, 7),
        (960, 320, 7), (320, 1280, 7), (64, 256, 56), (256, 64, 56), (512, 128, 28), (1024, 256, 14), (2048, 512, 7),
        (40, 240, 28), (672, 112, 14), (64, 85, 40), (128, 255, 20), (256, 21, 28), (48, 48, 64),
    ):  # fmt: skip
        rows.append(Row(f"conv-1x1-{cin}-{cout}-{size}", conv(cin, cout, size, 1)))
    for cin, cout, size in ((64, 128, 56), (256, 512, 28), (512, 1024, 14)):
        rows.append(Row(f"conv-1x1-{cin}-{cout}-{size}-s2", conv(cin, cout, size, 1, 2)))
    for cin, cout, size, kernel in ((48, 64, 35, 5), (64, 192, 27, 5), (128, 192, 17, (1, 7)), (160, 192, 17, (7, 1))):
        name = f"{kernel}x{kernel}" if isinstance(kernel, int) else f"{kernel[0]}x{kernel[1]}"
        rows.append(Row(f"conv-{name}-{cin}-{cout}-{size}", conv(cin, cout, size, kernel)))
    for cout, size, kernel, stride, pad in (
        (64, 224, 7, 2, 3), (32, 224, 3, 2, 1), (16, 320, 6, 2, 2), (64, 227, 11, 4, 2), (96, 224, 4, 4, 0),
        (192, 224, 16, 16, 0), (768, 224, 16, 16, 0), (384, 224, 14, 14, 0),
    ):  # fmt: skip
        rows.append(
            Row(f"stem-{kernel}x{kernel}-3-{cout}-{size}-s{stride}", conv(3, cout, size, kernel, stride, pad=pad))
        )
    for cin, cout, size, kernel in (
        (1, 16, 64, 3), (1, 64, 128, 9), (3, 3, 128, 3), (5, 5, 128, 3), (2, 16, 96, 3), (64, 3, 64, 3), (64, 1, 64, 3),
        (64, 2, 64, 1), (32, 4, 128, 1), (4, 4, 64, 1),
    ):  # fmt: skip
        rows.append(Row(f"few-{kernel}x{kernel}-{cin}-{cout}-{size}", conv(cin, cout, size, kernel)))
    for channels, groups, size, kernel in (
        (128, 32, 56, 3), (256, 32, 28, 3), (512, 32, 14, 3), (1024, 32, 7, 3), (64, 8, 56, 3), (96, 6, 28, 3),
        (240, 15, 28, 3), (448, 8, 14, 3), (48, 3, 56, 3), (232, 8, 28, 3), (112, 7, 28, 3), (64, 2, 28, 3),
        (256, 4, 14, 3), (144, 9, 14, 5), (240, 3, 28, 1), (384, 4, 14, 1), (272, 4, 28, 1), (64, 16, 56, 1),
        (128, 32, 28, 1), (96, 32, 28, 3), (60, 10, 28, 3), (40, 20, 28, 3),
    ):  # fmt: skip
        name = f"grouped-{kernel}x{kernel}-{channels}-g{groups}-{size}"
        rows.append(Row(name, conv(channels, channels, size, kernel, groups=groups)))
    for cin, cout, groups, size in ((64, 128, 16, 56), (48, 96, 8, 28), (96, 48, 12, 28)):
        rows.append(Row(f"grouped-3x3-{cin}-{cout}-g{groups}-{size}-s2", conv(cin, cout, size, 3, 2, groups)))
    for channels, size, kernel, stride in (
        (32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (144, 56, 3, 2), (192, 28, 3, 1), (384, 14, 3, 1),
        (576, 14, 3, 2), (960, 7, 3, 1), (240, 28, 5, 1), (672, 14, 5, 1), (672, 14, 5, 2), (96, 56, 7, 1),
        (192, 28, 7, 1), (384, 14, 7, 1), (768, 7, 7, 1), (36, 40, 3, 1), (20, 64, 3, 2), (64, 25, 9, 1),
    ):  # fmt: skip
        name = f"depthwise-{kernel}x{kernel}-{channels}-{size}-s{stride}"
        rows.append(Row(name, conv(channels, channels, size, kernel, stride, channels)))
    for channels, multiplier, size in ((32, 2, 56), (64, 2, 28), (16, 4, 28), (1, 8, 49), (3, 8, 112)):
        name = f"depthwise-3x3-{channels}-times{multiplier}-{size}"
        rows.append(Row(name, conv(channels, channels * multiplier, size, 3, groups=channels)))
    for cin, cout, size, rate in (
        (256, 64, 24, 6), (256, 64, 24, 12), (256, 64, 24, 18), (512, 256, 33, 12), (128, 128, 28, 2), (256, 256, 28, 4),
        (64, 64, 56, 2), (32, 32, 64, 16),
    ):  # fmt: skip
        rows.append(Row(f"dilated-3x3-{cin}-{cout}-{size}-r{rate}", conv(cin, cout, size, 3, rate=rate)))
    rows.append(Row("dilated-3x3-960-g960-33-r2", conv(960, 960, 33, 3, groups=960, rate=2)))
    for cin, cout, size, kernel, stride, rate, groups in (
        (1, 512, 16000, 10, 5, 1, 1), (512, 512, 1600, 3, 2, 1, 1), (1, 64, 16000, 80, 4, 1, 1), (40, 64, 98, 3, 1, 1, 1),
        (80, 384, 300, 3, 1, 1, 1), (64, 64, 1000, 3, 1, 8, 1), (128, 128, 500, 1, 1, 1, 1), (256, 256, 400, 9, 1, 1, 256),
        (128, 128, 250, 31, 1, 1, 128), (1, 16, 4096, 16, 8, 1, 1), (768, 768, 199, 128, 1, 1, 16), (32, 32, 2000, 5, 1, 1, 1),
    ):  # fmt: skip
        pad = 0 if stride > 1 else None
        name = f"conv1d-{kernel}-{cin}-{cout}-{size}-s{stride}-r{rate}-g{groups}"
        rows.append(Row(name, conv(cin, cout, size, kernel, stride, groups, rate, pad, rank=1)))
    for cin, cout, size, kernel in ((3, 64, (8, 56, 56), 3), (64, 64, (4, 28, 28), 3), (64, 128, (4, 28, 28), 1)):
        rows.append(Row(f"conv3d-{kernel}-{cin}-{cout}", conv(cin, cout, size, kernel, rank=3)))
    for cin, cout, size, kernel, stride, pad, extra, rank in (
        (64, 32, 28, 2, 2, 0, 0, 2), (256, 128, 14, 2, 2, 0, 0, 2), (64, 32, 28, 3, 2, 1, 1, 2), (128, 64, 14, 4, 2, 1, 0, 2),
        (256, 256, 7, 4, 2, 1, 0, 2), (21, 21, 28, 16, 8, 4, 0, 2), (64, 64, 56, 3, 1, 1, 0, 2), (512, 256, 32, 16, 8, 4, 0, 1),
        (128, 64, 256, 4, 2, 1, 0, 1), (100, 128, 4, 4, 1, 0, 0, 2),
    ):  # fmt: skip
        name = f"transposed-{rank}d-{kernel}-{cin}-{cout}-{size}-s{stride}"
        rows.append(Row(name, transposed(cin, cout, size, kernel, stride, pad, extra, rank)))
    rows.append(Row("transposed-2d-4-64-64-28-s2-g64", transposed(64, 64, 28, 4, 2, 1, groups=64)))
    return rows
