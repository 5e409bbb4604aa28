"""FlowNet's correlation of two images, which MXNet and forks of Caffe have alike, and DispNet's, along rows alone."""

from __future__ import annotations

from collections.abc import Sequence
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
        level: displacements are horizontal alone, and so is the padding (DispNet's).
        direction: -1: to the left alone, without the place itself; 1: to the right alone, with it; 0: both.
    """

    pad: int
    kernel: int
    most: int
    stride: int
    step: int
    products: bool = True
    level: bool = False
    direction: int = 0


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
    if s.direction not in (-1, 0, 1):
        raise error("E0109", f"{s}")
    reach = s.most // s.step
    low = {-1: -(reach + 1), 0: -reach, 1: 0}[s.direction]
    across = 2 * reach + 1 if s.direction == 0 else reach + 1
    # By direction, the vertical one first: padding, what is displaced by at most, and how many displacements there are.
    pads, most = (0 if s.level else s.pad, s.pad), (0 if s.level else s.most, s.most)
    counts, lows = (1 if s.level else across, across), (0 if s.level else low, low)
    borders = [far + s.kernel // 2 for far in most]
    extents = [height, width]
    sizes = [-(-(n + 2 * pad - 2 * border) // s.stride) for n, pad, border in zip(extents, pads, borders, strict=True)]
    if min(sizes) < 1 or counts[0] * counts[1] > MOST_PARTS:
        raise error("E0108", f"{t.kind} with displacements up to {s.most} of {a.type} with {s.pad} zeros around it")

    def seen(x: Value, firsts: Sequence[int], more: Sequence[int]) -> Value:
        """The elements from one on that the windows touch, channels last; zeros where the image has not begun, or has
        ended."""
        before = [pad + max(-first, 0) for pad, first in zip(pads, firsts, strict=True)]
        firsts = [max(first, 0) for first in firsts]
        cut = [(size - 1) * s.stride + s.kernel + n for size, n in zip(sizes, more, strict=True)]
        ends = [first + n for first, n in zip(firsts, cut, strict=True)]
        after = [max(end - n - pad, 0) for end, n, pad in zip(ends, extents, before, strict=True)]
        x = t.pad(x, (0, 0, *before), (0, 0, *after))
        x = t.op("slice", x, starts=(0, 0, *firsts), sizes=(batch, channels, *cut), steps=(1,) * 4)
        return t.transpose(x, (0, 2, 3, 1))

    y = t.op(
        "correlation", seen(a, most, (0, 0)),
        seen(b, [far + n * s.step for far, n in zip(most, lows, strict=True)], [(n - 1) * s.step for n in counts]),
        kernel=(s.kernel,) * 2, strides=(s.stride,) * 2, counts=counts, steps=(s.step,) * 2,
        kind="product" if s.products else "difference",
    )  # fmt: skip
    y = t.op("mul", y, t.scalar(1.0 / (s.kernel * s.kernel * channels), y.dtype))
    return t.transpose(y, (0, 3, 1, 2))
