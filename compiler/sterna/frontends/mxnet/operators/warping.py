"""Images sampled at computed positions, and regions of them."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.mxnet.operators.layers import spatial
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value


def _affine(t: Translation, theta: Value, sizes: tuple[int, ...]) -> Value:
    """Positions (N, 2, height, width) that matrices of 2 x 3 map an image's to."""
    if len(sizes) != 2 or min(sizes) < 1 or sizes[0] * sizes[1] > 1 << 24:
        raise error("E0109", f"{t.kind} of {list(sizes)}")
    y, x = (np.linspace(-1, 1, n) if n > 1 else np.array([-1.0]) for n in sizes)
    rows, columns = np.meshgrid(y, x, indexing="ij")
    grid = np.stack([columns.ravel(), rows.ravel(), np.ones(sizes[0] * sizes[1])])
    batch = theta.shape[0]
    made = t.op("matmul", t.reshape(theta, [batch, 2, 3]), t.constant(grid, theta.dtype))
    return t.reshape(made, [batch, 2, *sizes])


def grid_generator(t: Translation) -> Value:
    x = t.input(0)
    if t.said.choice("transform_type", "affine", "affine", "warp") == "affine":
        return _affine(t, x, t.said.integers("target_shape", (0, 0)))
    # How far each element is moved, in elements.
    _, channels, height, width = t.sizes(x, 4)
    if channels != 2:
        raise error("E0108", f"{t.kind} of {x.type}")
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    places = t.op("add", x, t.constant(np.stack([columns, rows])[None], x.dtype))
    half = np.array([max(width - 1, 1) / 2, max(height - 1, 1) / 2]).reshape(1, 2, 1, 1)
    return t.op("sub", t.op("div", places, t.constant(half, x.dtype)), t.number(1, x))


def _sampled(t: Translation, x: Value, grid: Value) -> Value:
    return standard(
        t, "GridSample", x, t.transpose(grid, (0, 2, 3, 1)), mode="linear", padding_mode="zeros", align_corners=1
    )  # fmt: skip


def bilinear_sampler(t: Translation) -> Value:
    return _sampled(t, t.input(0), t.input(1))


def spatial_transformer(t: Translation) -> Value:
    return _sampled(t, t.input(0), _affine(t, t.input(1), t.said.integers("target_shape", (0, 0))))


def deformable_convolution(t: Translation) -> Value:
    x, offset = t.input(0), t.input(1)
    modulated = "modulated" in t.kind.lower()
    weight = t.input(3 if modulated else 2)
    bias = None if t.said.flag("no_bias") else t.input(4 if modulated else 3)
    pads = spatial(t, "pad", 2, 0)
    return standard(
        t, "DeformConv", x, weight, offset, bias, t.input(2) if modulated else None,
        strides=spatial(t, "stride", 2, 1), dilations=spatial(t, "dilate", 2, 1), pads=(*pads, *pads),
        group=t.said.integer("num_group", 1), offset_group=t.said.integer("num_deformable_group", 1),
    )  # fmt: skip


def pooled_size(t: Translation) -> tuple[int, int]:
    """Bins of a region: rows and columns."""
    size = t.said.integers("pooled_size")
    if len(size) != 2 or min(size) < 1 or max(size) > 1 << 12:
        raise error("E0109", f"{t.kind} to {list(size)}")
    return size[0], size[1]


def roi_pooling(t: Translation) -> Value:
    return standard(
        t, "MaxRoiPool", t.input(0), t.input(1), pooled_shape=pooled_size(t),
        spatial_scale=t.said.finite("spatial_scale"),
    )  # fmt: skip


def roi_align(t: Translation) -> Value:
    """Regions (image, x, y, x, y)."""
    x, rois = t.input(0), t.input(1)
    if rois.type.rank != 2 or rois.shape[1] != 5:
        raise error("E0108", f"{t.kind} of regions {rois.type}")
    height, width = pooled_size(t)
    images = t.reshape(t.integral(t.part(rois, 1, 0, 1)), [rois.shape[0]])
    return standard(
        t, "RoiAlign", x, t.part(rois, 1, 1, 4), images, mode="avg", output_height=height, output_width=width,
        spatial_scale=t.said.finite("spatial_scale"), sampling_ratio=max(t.said.integer("sample_ratio", -1), 0),
        coordinate_transformation_mode="half_pixel" if t.said.flag("aligned") else "output_half_pixel",
    )  # fmt: skip


TRANSLATORS: dict[str, Translator] = {
    "BilinearSampler": bilinear_sampler,
    "GridGenerator": grid_generator,
    **dict.fromkeys(("ROIPooling", "_npx_roi_pooling"), roi_pooling),
    "SpatialTransformer": spatial_transformer,
    "_contrib_DeformableConvolution": deformable_convolution,
    "_contrib_ModulatedDeformableConvolution": deformable_convolution,
}
