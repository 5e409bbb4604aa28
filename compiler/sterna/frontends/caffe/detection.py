"""Layers of Caffe's forks for detectors and flow: SSD's default boxes, the pooling of regions, correlations."""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends.caffe.translation import Translation
from sterna.frontends.caffe.windows import choice
from sterna.frontends.displacements import Correlation, correlated
from sterna.ir.graph import Value


def roi_pooling(t: Translation) -> Value:
    s = t.settings("roi_pooling_param")
    shape = s.integer("pooled_h", 1), s.integer("pooled_w", 1)
    scale_ = s.number("spatial_scale", 1.0)
    return t.standard("MaxRoiPool", t.x, t.input(1), pooled_shape=shape, spatial_scale=scale_)


def position_pooling(t: Translation) -> Value:
    """R-FCN's: every bin of a region has maps of its own."""
    s = t.settings("psroi_pooling_param")
    results, group = s.integer("output_dim"), s.integer("group_size")
    if results < 1 or group < 1 or t.extent(t.x, 1) != results * group * group:
        raise error("E0108", f"{t.x.type} are not {group} x {group} maps for each of {results} results")
    maps = t.transpose(t.x, (0, 2, 3, 1))
    scale = s.number("spatial_scale", 1.0)
    y = t.op("position_roi_pool", maps, t.input(1), height=group, width=group, group=group, scale=scale)
    return t.transpose(y, (0, 3, 1, 2))


def correlation(t: Translation) -> Value:
    """FlowNet's, and DispNet's along rows (Correlation1D)."""
    s, level = t.settings("correlation_param"), t.kind == "Correlation1D"
    direction = s.integer("single_direction")
    if direction and not level:
        raise t.unsupported("in a single direction")
    products = choice(s, "correlation_type", "MULTIPLY", "SUBTRACT", default="MULTIPLY") == "MULTIPLY"
    if not {"kernel_size", "max_displacement"} <= set(s.fields):
        raise error("E0109", "correlation_param says no kernel_size and max_displacement")
    settings = Correlation(
        s.integer("pad"), s.integer("kernel_size"), s.integer("max_displacement"), s.integer("stride_1", 1),
        s.integer("stride_2", 1), products, level, direction,
    )  # fmt: skip
    return correlated(t, t.x, t.input(1), settings)


def prior_box(t: Translation) -> Value:
    """SSD's default boxes, (1, 2, 4 * boxes): corners, and variances."""
    s = t.settings("prior_box_param")
    high, wide = t.extent(t.x, 2), t.extent(t.x, 3)
    image_high, image_wide = t.extent(t.input(1), 2), t.extent(t.input(1), 3)
    if "img_size" in s.fields or "img_h" in s.fields:
        image_high, image_wide = s.integer("img_h", s.integer("img_size")), s.integer("img_w", s.integer("img_size"))
    step_y, step_x = s.number("step_h", s.number("step")), s.number("step_w", s.number("step"))
    step_y, step_x = step_y or image_high / high, step_x or image_wide / wide
    ratios = [1.0]
    for ratio in s.numbers("aspect_ratio"):
        if ratio > 0 and all(abs(ratio - known) > 1e-6 for known in ratios):
            ratios += [ratio, 1.0 / ratio] if s.flag("flip", True) else [ratio]
    least, most = s.numbers("min_size"), s.numbers("max_size")
    if not least or (most and len(most) != len(least)):
        raise error("E0109", f"min_size is {least}, max_size {most}")
    sizes = []
    for n, small in enumerate(least):
        sizes.append((small, small))
        if most:
            middle = math.sqrt(small * most[n])
            sizes.append((middle, middle))
        sizes += [(small * math.sqrt(r), small / math.sqrt(r)) for r in ratios if abs(r - 1.0) > 1e-6]
    offset = s.number("offset", 0.5)
    y, x = (np.arange(high) + offset) * step_y, (np.arange(wide) + offset) * step_x
    half = np.array(sizes, np.float64) / 2
    grid_y, grid_x = (v[..., None] for v in np.meshgrid(y, x, indexing="ij"))
    corners = np.stack(
        [
            (grid_x - half[:, 0]) / image_wide, (grid_y - half[:, 1]) / image_high, (grid_x + half[:, 0]) / image_wide,
            (grid_y + half[:, 1]) / image_high,
        ],
        axis=-1,
    )  # fmt: skip
    corners = np.clip(corners, 0, 1) if s.flag("clip") else corners
    variance = s.numbers("variance") or [0.1]
    if len(variance) not in (1, 4):
        raise error("E0109", f"variance has {len(variance)} numbers")
    spread = np.broadcast_to(variance, corners.shape)
    return t.numbers(np.stack([corners.reshape(-1), spread.reshape(-1)])[None])
