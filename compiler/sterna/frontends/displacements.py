"""FlowNet's correlation of two images, which MXNet and forks of Caffe have alike."""

from __future__ import annotations

from dataclasses import dataclass

from sterna.errors import error
from sterna.frontends.emitter import MOST_PARTS, Emitter
from sterna.ir.graph import Value


@dataclass(frozen=True)
class Correlation:
    """Settings of a correlation.

    Args:
        pad: zeros around both images.
        kernel: size of the windows, odd.
        most: the largest displacement, in elements; multiples of `step` are looked at.
        stride: from window to window.
        products: means of products; otherwise of sizes of differences.
    """

    pad: int
    kernel: int
    most: int
    stride: int
    step: int
    products: bool = True


def correlated(t: Emitter, a: Value, b: Value, s: Correlation) -> Value:
    """(N, displacements, rows, columns) of images (N, C, H, W); the vertical displacement outside.

    Raises:
        SternaError: E0108, the images do not go together or leave no place; E0109, settings are out of range.
    """
    if min(s.kernel, s.stride, s.step) < 1 or s.kernel % 2 == 0 or min(s.pad, s.most) < 0:
        raise error("E0109", f"{s}")
    batch, channels, height, width = t.sizes(a, 4)
    if a.type != b.type:
        raise error("E0108", f"{t.kind} of {a.type} and {b.type}")
    reach = s.most // s.step
    count = 2 * reach + 1
    border = s.most + s.kernel // 2
    sizes = [-(-(extent + 2 * s.pad - 2 * border) // s.stride) for extent in (height, width)]
    if min(sizes) < 1 or count * count > MOST_PARTS:
        raise error("E0108", f"{t.kind} with displacements up to {s.most} of {a.type} with {s.pad} zeros around it")

    def seen(x: Value, first: int, more: int) -> Value:
        """The elements from one on that the windows touch, channels last; zeros where the image has ended."""
        needed = [first + (size - 1) * s.stride + s.kernel + more for size in sizes]
        after = [max(n - extent - s.pad, 0) for n, extent in zip(needed, (height, width), strict=True)]
        x = t.pad(x, (0, 0, s.pad, s.pad), (0, 0, *after))
        cut = [n - first for n in needed]
        x = t.op("slice", x, starts=(0, 0, first, first), sizes=(batch, channels, *cut), steps=(1,) * 4)
        return t.transpose(x, (0, 2, 3, 1))

    y = t.op(
        "correlation", seen(a, s.most, 0), seen(b, s.most - reach * s.step, (count - 1) * s.step),
        kernel=(s.kernel,) * 2, strides=(s.stride,) * 2, counts=(count,) * 2, steps=(s.step,) * 2,
        kind="product" if s.products else "difference",
    )  # fmt: skip
    y = t.op("mul", y, t.scalar(1.0 / (s.kernel * s.kernel * channels), y.dtype))
    return t.transpose(y, (0, 3, 1, 2))
