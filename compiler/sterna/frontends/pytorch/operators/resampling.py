"""Images at other sizes and places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value
from sterna.ir.integer import Int, as_int

_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


def _reaching(size: Int, factor: float) -> float:
    """A factor that gives the same size in float32, which a resize has its factors in: 20 times 0.9 is 18, and less
    there."""
    short = np.float32(factor)
    if size.is_const and math.floor(int(size) * factor) != math.floor(int(size) * float(short)):
        return float(np.nextafter(short, np.float32(np.inf if float(short) < factor else 0)))
    return factor


def _wanted(t: Translation, x: Value) -> tuple[list[float] | None, list[Int] | None]:
    """(factors, sizes) of the spatial dimensions: what positions are computed from comes first."""
    spatial = x.type.rank - 2
    factors = t.arg("scale_factors")
    if factors is None:
        found = [t.arg(name) for name in _SCALES[spatial]]
        factors = found if all(each is not None for each in found) else None
    sizes = t.sizes_of("output_size") if t.arg("output_size") is not None else None
    if factors is None:
        return None, sizes
    numbers = [float(each) for each in factors]
    if sizes is None:
        numbers = [_reaching(n, f) for n, f in zip(x.shape[2:], numbers, strict=True)]
    if sizes is not None:
        reached = [math.floor(int(n) * f) if n.is_const else None for n, f in zip(x.shape[2:], numbers, strict=True)]
        if any(a is None or b != a for a, b in zip(reached, sizes, strict=True)):
            return None, sizes
    return numbers, None


def _resized(mode: str, transform: str = "", rounding: str = "", antialias: bool = False) -> Translator:
    def translate(t: Translation) -> Value:
        x = t.tensor("input" if "input" in t.arguments else "self")
        if x.dtype != "uint8" or mode == "nearest":
            return resized(t, x)
        # PyTorch rounds pictures of bytes to the nearest, by weights of 16 bits.
        level = t.op("floor", t.op("add", resized(t, t.cast(x, "float32")), t.scalar(0.5, "float32")))
        return t.cast(t.op("clip", level, min=0.0, max=255.0), "uint8")

    def resized(t: Translation, x: Value) -> Value:
        factors, sizes = _wanted(t, x)
        if sizes is None and factors is None:
            raise t.unsupported("without a size")
        way = transform or ("align_corners" if t.flag("align_corners") else "half_pixel")
        settings: dict[str, Any] = {
            "mode": mode, "coordinate_transformation_mode": way, "nearest_mode": rounding or None,
            "cubic_coeff_a": (-0.5 if antialias else -0.75) if mode == "cubic" else None,
            "antialias": 1 if antialias else None, "exclude_outside": 1 if antialias else None,
        }  # fmt: skip
        if antialias and way == "align_corners":
            raise t.unsupported("with align_corners", "resize without align_corners")
        if factors is not None:
            return standard(t, "Resize", x, None, t.constant([1.0, 1.0, *factors], "float32"), **settings)
        assert sizes is not None
        return standard(t, "Resize", x, None, None, t.dimensions([*x.shape[:2], *sizes]), **settings)

    return translate


_MODES = ("linear", "nearest", "cubic")
_PADDING = ("zeros", "border", "reflection")


def grid_sampler(t: Translation) -> Value:
    x = t.tensor("input")
    mode, padding = t.integer("interpolation_mode", 0), t.integer("padding_mode", 0)
    if not (0 <= mode < len(_MODES) and 0 <= padding < len(_PADDING)):
        raise error("E0109", f"the mode of {t.kind} is {mode}, and its padding {padding}")
    grid = t.cast(t.tensor("grid"), x.dtype)
    if (_MODES[mode], _PADDING[padding]) == ("cubic", "border"):
        x, grid = _with_border(t, x, grid)
    return standard(
        t, "GridSample", x, grid, mode=_MODES[mode], padding_mode=_PADDING[padding],
        align_corners=int(t.flag("align_corners")),
    )  # fmt: skip


def _with_border(t: Translation, x: Value, grid: Value) -> tuple[Value, Value]:
    """An image with its border repeated, and positions in it: every tap of a cubic is clamped, not its middle."""
    width = 2
    sizes = t.static(x)[2:]
    count = len(sizes)
    pads = t.constant([0, 0, *[width] * count] * 2, "int64")
    factors = []
    for size in reversed(sizes):  # a position's first number is about the last dimension
        wide = size + 2 * width
        factors.append((size - 1) / (wide - 1) if t.flag("align_corners") else size / wide)
    # The border is as wide on either side, so that the middle stays where it is.
    return standard(t, "Pad", x, pads, mode="edge"), t.op("mul", grid, t.constant(factors, grid.dtype))


def affine_grid(t: Translation) -> Value:
    theta = t.tensor("theta")
    size = t.dimensions(t.sizes_of("size"))
    return standard(t, "AffineGrid", theta, size, align_corners=int(t.flag("align_corners")))


def blocks_as_columns(t: Translation) -> Value:
    """Windows of an image as columns (im2col)."""
    x = t.tensor()
    single = x.type.rank == 3
    x = t.unsqueeze(x, 0) if single else x
    kernel, dilation = t.spatial("kernel_size", 2, 1), t.spatial("dilation", 2, 1)
    pads, stride = t.spatial("padding", 2, 0), t.spatial("stride", 2, 1)
    x = t.pad(x, (0, 0, *pads), (0, 0, *pads))
    counts: list[Int] = []
    for n, axis in ((0, 2), (1, 4)):
        count = (x.shape[axis] - dilation[n] * (kernel[n] - 1) - 1) // stride[n] + 1
        starts = t.op("mul", t.counting(count), t.scalar(stride[n], "int64"))
        taps = t.op("mul", t.counting(kernel[n]), t.scalar(dilation[n], "int64"))
        places = t.op("add", t.reshape(taps, (kernel[n], 1)), t.reshape(starts, (1, count)))
        x = t.op("gather", x, places, axis=axis)
        counts.append(as_int(count))
    batch, channels = x.shape[:2]
    x = t.transpose(x, (0, 1, 2, 4, 3, 5))
    y = t.reshape(x, (batch, channels * (kernel[0] * kernel[1]), counts[0] * counts[1]))
    return t.reshape(y, y.shape[1:]) if single else y


def columns_as_blocks(t: Translation) -> Value:
    """The sum of windows at their places (col2im)."""
    x = t.tensor()
    single = x.type.rank == 2
    x = t.unsqueeze(x, 0) if single else x
    pads = t.spatial("padding", 2, 0)
    y = standard(
        t, "Col2Im", x, t.constant(list(t.ints("output_size")), "int64"),
        t.constant(list(t.spatial("kernel_size", 2, 1)), "int64"), dilations=t.spatial("dilation", 2, 1),
        pads=(*pads, *pads), strides=t.spatial("stride", 2, 1),
    )  # fmt: skip
    return t.reshape(y, y.shape[1:]) if single else y


def _both(name: str, function: Translator) -> dict[str, Translator]:
    return {f"aten.{name}.{overload}": function for overload in ("default", "vec")}


TRANSLATORS: dict[str, Translator] = {
    **{key: value for n in (1, 2, 3) for key, value in {
        **_both(f"upsample_nearest{n}d", _resized("nearest", "asymmetric", "floor")),
        **_both(f"_upsample_nearest_exact{n}d", _resized("nearest", "half_pixel", "round_prefer_ceil")),
    }.items()},
    **_both("upsample_linear1d", _resized("linear")), **_both("upsample_bilinear2d", _resized("linear")),
    **_both("upsample_trilinear3d", _resized("linear")), **_both("upsample_bicubic2d", _resized("cubic")),
    **_both("_upsample_bilinear2d_aa", _resized("linear", antialias=True)),
    **_both("_upsample_bicubic2d_aa", _resized("cubic", antialias=True)),
    **{f"aten.{name}.default": grid_sampler for name in ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")},
    "aten.affine_grid_generator.default": affine_grid,
    "aten.im2col.default": blocks_as_columns, "aten.col2im.default": columns_as_blocks,
}  # fmt: skip
