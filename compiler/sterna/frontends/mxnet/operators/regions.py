"""Regions of images: proposals of Faster R-CNN, their pooling, and what two images have in common."""

from __future__ import annotations

import math

import numpy as np

from sterna.errors import error
from sterna.frontends.displacements import Correlation, correlated
from sterna.frontends.mxnet.operators.warping import pooled_size, roi_align
from sterna.frontends.mxnet.translation import Translation, Translator
from sterna.ir.graph import Array, Value

_MOST = 1 << 20  # boxes


def correlation(t: Translation) -> Value:
    s = t.said
    return correlated(
        t, t.input(0), t.input(1),
        Correlation(
            s.integer("pad_size", 0), s.integer("kernel_size", 1), s.integer("max_displacement", 1),
            s.integer("stride1", 1), s.integer("stride2", 1), s.flag("is_multiply", True),
        ),
    )  # fmt: skip


# ---------------------------------------------------------------- maps for each bin
def _maps(t: Translation, results: int, group: int) -> Value:
    """The maps, channels last; so many as results and bins ask for."""
    _, channels, _, _ = t.sizes(t.input(0), 4)
    if group < 1 or channels != results * group * group:
        raise error("E0108", f"{t.kind} of {results} results and {group} x {group} bins from {t.input(0).type}")
    return t.transpose(t.input(0), (0, 2, 3, 1))


def position_pooling(t: Translation) -> Value:
    size, results = t.said.integer("pooled_size"), t.said.integer("output_dim")
    group = t.said.integer("group_size", 0) or size
    y = t.op(
        "position_roi_pool", _maps(t, results, group), t.input(1), height=size, width=size, group=group,
        scale=t.said.finite("spatial_scale"),
    )  # fmt: skip
    return t.transpose(y, (0, 3, 1, 2))


def deformable_pooling(t: Translation) -> Value:
    s = t.said
    size, results, group = s.integer("pooled_size"), s.integer("output_dim"), s.integer("group_size")
    parts, rois = s.integer("part_size", 0) or size, t.input(1)
    still = s.flag("no_trans") or not t.has(2)
    moves = t.input(2) if not still else t.op("expand", t.number(0, rois), shape=(rois.shape[0], 2, parts, parts))
    y = t.op(
        "deformable_roi_pool", _maps(t, results, group), rois, moves, height=size, width=size, group=group,
        parts=parts, samples=s.integer("sample_per_part", 1), factor=s.finite("trans_std", 0.0),
        scale=s.finite("spatial_scale"),
    )  # fmt: skip
    return t.transpose(y, (0, 3, 1, 2))


def aligned(t: Translation) -> Value:
    """Sensitive to positions: a bin takes the mean of a map of its own."""
    y = roi_align(t)
    if not t.said.flag("position_sensitive"):
        return y
    height, width = pooled_size(t)
    channels = t.extent(y, 1)
    if channels % (height * width):
        raise error("E0108", f"{t.kind}: {channels} channels are not {height} x {width} for every result")
    results, bins = channels // (height * width), height * width
    y = t.reshape(y, [y.shape[0], results, bins * bins])
    own = t.constant(np.arange(bins) * (bins + 1), "int64")
    return t.reshape(t.op("gather", y, own, axis=2), [y.shape[0], results, height, width])


# ---------------------------------------------------------------- proposals
def _anchors(t: Translation, stride: int) -> Array:
    """Corners of the boxes around the first place, the last pixels included: all scales of each ratio."""
    scales, ratios = t.said.numbers("scales", (4.0, 8.0, 16.0, 32.0)), t.said.numbers("ratios", (0.5, 1.0, 2.0))
    if not scales or not ratios or min(*scales, *ratios) <= 0:
        raise error("E0109", f"{t.kind} with scales {list(scales)}, ratios {list(ratios)}")
    middle, rows = (stride - 1) / 2, []
    for ratio in ratios:
        side = math.floor(math.sqrt(math.floor(stride * stride / ratio)) + 0.5)
        other = math.floor(side * ratio + 0.5)
        for scale in scales:
            half = [(size * scale - 1) / 2 for size in (side, other)]
            rows.append([middle - half[0], middle - half[1], middle + half[0], middle + half[1]])
    return np.array(rows, np.float32)


def _column(t: Translation, x: Value, n: int) -> Value:
    return t.part(x, x.type.rank - 1, n, 1)


def _moved(t: Translation, offsets: Value, anchors: Array) -> Value:
    """Corners (N, boxes, 4) after the offsets: of corners (`iou_loss`), or of centres in sizes and of logarithms."""
    if t.said.flag("iou_loss"):
        return t.op("add", offsets, t.constant(anchors, offsets.dtype))
    low, high = [], []
    for n in range(2):
        size = anchors[:, n + 2 : n + 3] - anchors[:, n : n + 1] + 1
        middle = t.constant(anchors[:, n : n + 1] + 0.5 * (size - 1), offsets.dtype)
        wide = t.constant(size, offsets.dtype)
        centre = t.op("add", t.op("mul", _column(t, offsets, n), wide), middle)
        reach = t.op("mul", t.op("exp", _column(t, offsets, n + 2)), wide)
        reach = t.op("mul", t.op("sub", reach, t.number(1, reach)), t.number(0.5, reach))
        low.append(t.op("sub", centre, reach))
        high.append(t.op("add", centre, reach))
    return t.op("concat", *low, *high, axis=2)


def proposals(t: Translation) -> tuple[Value, ...]:
    """Regions (N * most, 5) of pictures, the best first, and their scores (N * most, 1); where fewer are found, they
    are repeated. Operands: probabilities (N, 2 A, H, W), of the background first; offsets (N, 4 A, H, W); (height,
    width, scale) of each picture."""
    scores, stride = t.input(0), t.said.integer("feature_stride", 16)
    batch, channels, high, wide = t.sizes(scores, 4)
    if not 1 <= stride < 1 << 16:
        raise error("E0109", f"{t.kind}: feature_stride is {stride}")
    around = _anchors(t, stride)
    count = len(around)
    total = count * high * wide
    if channels != 2 * count or total > _MOST or t.sizes(t.input(1), 4) != (batch, 4 * count, high, wide):
        raise error("E0108", f"{t.kind}: {scores.type} and {t.input(1).type} are not of {count} boxes at every place")
    info = t.input(2)
    if info.type.rank != 2 or t.static(info) != (batch, 3):
        raise error("E0108", f"{t.kind}: sizes of {batch} pictures are {info.type}")
    rows, columns = (grid.reshape(-1, 1) * stride for grid in np.mgrid[:high, :wide])
    anchors = (np.concatenate([columns, rows] * 2, 1)[:, None] + around).reshape(-1, 4).astype(np.float32)
    offsets = t.transpose(t.reshape(t.input(1), [batch, count, 4, high, wide]), (0, 3, 4, 1, 2))
    boxes = _moved(t, t.reshape(offsets, [batch, total, 4]), anchors)
    one = t.number(1, boxes)
    sizes = t.reshape(t.op("gather", info, t.constant([1, 0, 1, 0], "int64"), axis=1), [batch, 1, 4])
    boxes = t.op("maximum", t.op("minimum", boxes, t.op("sub", sizes, one)), t.number(0, boxes))
    found = t.part(scores, 1, count, count)
    found = t.reshape(t.transpose(found, (0, 2, 3, 1)), [batch, total])
    # Places beyond the picture, which a batch has where its pictures differ, and boxes that are too small, come last.
    beyond: Value | None = None
    for n, places in ((0, rows), (1, columns)):
        limit = t.op("floor", t.op("div", t.part(info, 1, n, 1), t.number(stride, info)))
        place = t.constant((np.repeat(places, count, 0).reshape(1, -1) // stride).astype(np.float32), found.dtype)
        over = t.op("greater_equal", place, limit)
        beyond = over if beyond is None else t.op("logical_or", beyond, over)
    least = t.op("mul", t.part(info, 1, 2, 1), t.number(t.said.integer("rpn_min_size", 16), info))
    small: Value | None = None
    for n in range(2):
        size = t.op("add", t.op("sub", _column(t, boxes, n + 2), _column(t, boxes, n)), one)
        low = t.op("less", t.reshape(size, [batch, total]), least)
        small = low if small is None else t.op("logical_or", small, low)
    assert beyond is not None
    assert small is not None
    found = t.op("where", t.op("logical_or", beyond, small), t.number(-1, found), found)
    half = t.op("mul", t.reshape(least, [batch, 1, 1]), t.constant([-0.5, -0.5, 0.5, 0.5], boxes.dtype))
    boxes = t.op("where", t.spread(small, 2), t.op("add", boxes, half), boxes)
    pairs = [_best(t, n, t.part(boxes, 0, n, 1), t.part(found, 0, n, 1), total) for n in range(batch)]
    regions, best = zip(*pairs, strict=True)
    if batch == 1:
        return regions[0], best[0]
    return t.op("concat", *regions, axis=0), t.op("concat", *best, axis=0)


def _best(t: Translation, image: int, boxes: Value, scores: Value, total: int) -> tuple[Value, Value]:
    """The regions of one picture that no better one covers."""
    before, wanted = t.said.integer("rpn_pre_nms_top_n", 6000), t.said.integer("rpn_post_nms_top_n", 300)
    candidates = min(before, total) if before > 0 else total
    if not 1 <= wanted <= _MOST:
        raise error("E0109", f"{t.kind}: rpn_post_nms_top_n is {wanted}")
    most = min(wanted, candidates)
    scores, order = t.builder.add_all(
        "top_k", t.reshape(scores, [total]), k=(candidates,), axis=0, sources=t.sources, name=f"{t.name}/candidates"
    )
    boxes = t.op("gather", t.reshape(boxes, [total, 4]), order, axis=0)
    # The last pixels are part of a box: as corners without them they lie one further.
    corners = t.op("add", boxes, t.constant([0, 0, 1, 1], boxes.dtype))
    chosen, count = t.builder.add_all(
        "non_max_suppression", t.reshape(corners, [1, candidates, 4]), t.reshape(scores, [1, 1, candidates]),
        t.constant(most, "int64"), t.constant(t.said.finite("threshold", 0.7), "float32"),
        t.constant(np.finfo(np.float32).min, "float32"), size=most, sources=t.sources, name=f"{t.name}/suppressed",
    )  # fmt: skip
    again = t.op("mod", t.counting(wanted), t.cast(t.reshape(count, [1]), "int64"))
    places = t.op("gather", t.reshape(t.part(chosen, 1, 2, 1), [most]), again, axis=0)
    rows = t.op("gather", boxes, places, axis=0)
    number = t.op("expand", t.number(image, rows), shape=(wanted, 1))
    return t.op("concat", number, rows, axis=1), t.reshape(t.op("gather", scores, places, axis=0), [wanted, 1])


TRANSLATORS: dict[str, Translator] = {
    "Correlation": correlation,
    **dict.fromkeys(("_contrib_PSROIPooling", "PSROIPooling"), position_pooling),
    **dict.fromkeys(("_contrib_DeformablePSROIPooling", "DeformablePSROIPooling"), deformable_pooling),
    **dict.fromkeys(("_contrib_Proposal", "Proposal", "_contrib_MultiProposal", "MultiProposal"), proposals),
    "_contrib_ROIAlign": aligned,
}
