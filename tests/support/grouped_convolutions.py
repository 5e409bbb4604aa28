"""Convolutions of groups of channels, as kernels."""

from __future__ import annotations

from sterna.ir.integer import Int
from sterna.te.expr import Expr, cast
from sterna.te.tensor import Kernel, compute, placeholder, reduce_axis, total

#: Height and width of the result, groups, channels of a group that are read, and that are computed, taps, stride.
Layer = tuple[int, int, int, int, int, int, int]


def grouped(layer: Layer, dtype: str) -> Kernel:
    """A convolution of an image that is padded already, with a bias."""
    height, width, groups, deep, many, taps, stride = layer
    high, wide = ((n - 1) * stride + taps for n in (height, width))
    x, w = (
        placeholder("x", (high, wide, groups * deep), dtype),
        placeholder("w", (taps, taps, deep, groups, many), dtype),
    )
    b = placeholder("b", (groups, many), dtype)
    kh, kw, k = reduce_axis("kh", taps), reduce_axis("kw", taps), reduce_axis("ci", deep)

    def element(i: Int, j: Int, g: Int, c: Int) -> Expr:
        read = x[i * stride + kh.var, j * stride + kw.var, g * deep + k.var]
        return total(cast(read, "float32") * cast(w[kh.var, kw.var, k.var, g, c], "float32"), kh, kw, k)

    shape = (height, width, groups, many)
    acc = compute("acc", shape, element)
    out = compute("out", shape, lambda i, j, g, c: cast(acc[i, j, g, c] + cast(b[g, c], "float32"), dtype))
    return Kernel("conv", (x,), (w, b), (out,))
