"""Faster R-CNN's regions: of boxes around all places of a map, the best that are large enough and repeat no other.

The layer is written in Python (`rpn.proposal_layer`, whose settings of testing are here) or in C++ (`proposal_param`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.caffe.translation import Translation
from sterna.ir.graph import Array, Value

_MOST = 1 << 20  # boxes
_PAIR = re.compile(r"""['"]?(\w+)['"]?\s*:\s*(\[[^\]]*\]|[^,}\n]+)""")


@dataclass(frozen=True)
class _Settings:
    stride: int = 16
    base: float = 16.0
    least: float = 16.0
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    scales: tuple[float, ...] = (8.0, 16.0, 32.0)
    candidates: int = 6000
    most: int = 300
    overlap: float = 0.7


def _settings(t: Translation) -> _Settings:
    if t.kind == "Proposal":
        s = t.settings("proposal_param")
        found = _Settings(
            s.integer("feat_stride", 16), s.number("base_size", 16.0), s.number("min_size", 16.0),
            tuple(s.numbers("ratio")) or _Settings.ratios, tuple(s.numbers("scale")) or _Settings.scales,
            s.integer("pre_nms_topn", 6000), s.integer("post_nms_topn", 300), s.number("nms_thresh", 0.7),
        )  # fmt: skip
    else:
        found = _of_python(t.settings("python_param").text("param_str"))
    if not 1 <= found.stride < 1 << 16 or min((found.most, *found.ratios, *found.scales, found.base)) <= 0:
        raise error("E0109", f"feat_stride {found.stride}, ratios {found.ratios}, scales {found.scales}")
    return found


def _of_python(text: str) -> _Settings:
    """Settings as the layer's Python reads them: `'feat_stride': 16`, perhaps `'scales': [8, 16]` in braces."""
    found = _Settings()
    for key, value in _PAIR.findall(text):
        try:
            numbers = [float(part) for part in value.strip("[] \t\r'").split(",") if part.strip()]
        except ValueError:
            raise error("E0109", f"param_str is {text[:80]!r}") from None
        if key == "feat_stride" and len(numbers) == 1:
            found = replace(found, stride=int(numbers[0]))
        elif key == "scales" and numbers:
            found = replace(found, scales=tuple(numbers))
        elif key == "ratios" and numbers:
            found = replace(found, ratios=tuple(numbers))
        else:
            raise error("E0109", f"{key} of param_str is not known")
    return found


def _anchors(s: _Settings) -> Array:
    """Corners of the boxes around the first place, the last pixels included: all scales of each ratio."""
    middle, area = (s.base - 1) / 2, s.base * s.base
    rows = []
    for ratio in s.ratios:
        width = np.round(np.sqrt(area / ratio))
        height = np.round(width * ratio)
        for scale in s.scales:
            half_width, half_height = (width * scale - 1) / 2, (height * scale - 1) / 2
            rows.append((middle - half_width, middle - half_height, middle + half_width, middle + half_height))
    return np.array(rows, np.float64)


def proposal(t: Translation) -> list[Value]:
    """Operands: probabilities (1, 2 A, H, W), of the background first; offsets (1, 4 A, H, W); (height, width, scale).

    Returns:
        Regions (found, 5): 0, left, top, right, bottom; how many depends on the data. And their scores.
    """
    s = _settings(t)
    anchors = _anchors(s)
    count, high, wide = len(anchors), t.extent(t.x, 2), t.extent(t.x, 3)
    total = count * high * wide
    if t.extent(t.x, 0) != 1 or t.extent(t.x, 1) != 2 * count or total > _MOST:
        raise error("E0108", f"{t.x.type} are no probabilities of {count} boxes at every place of one picture")
    info = t.reshape(t.input(2), (t.product(t.input(2).shape),))
    if t.sizes(t.input(1), 4) != (1, 4 * count, high, wide) or t.extent(info, 0) < 3:
        raise error("E0108", f"offsets {t.input(1).type} and sizes {t.input(2).type} do not fit {t.x.type}")
    y, x = (grid.reshape(-1, 1) * s.stride for grid in np.mgrid[:high, :wide])
    shifts = np.concatenate([x, y, x, y], axis=1)
    boxes = _moved(t, (shifts[:, None] + anchors).reshape(-1, 4))
    boxes, large = _clipped(t, boxes, info, s.least)
    scores = t.op("slice", t.x, starts=(0, count, 0, 0), sizes=(1, count, high, wide), steps=(1,) * 4)
    scores = t.reshape(t.transpose(scores, (0, 2, 3, 1)), (total,))
    scores = t.op("where", large, scores, t.number(-np.inf))
    return _best(t, s, boxes, scores, total)


def _moved(t: Translation, anchors: Array) -> Value:
    """(boxes, 4): corners after the offsets of centres, in sizes, and of the sizes' logarithms."""
    offsets = t.reshape(t.transpose(t.input(1), (0, 2, 3, 1)), (len(anchors), 4))
    low, high = [], []
    for n in range(2):
        size = anchors[:, n + 2] - anchors[:, n] + 1
        middle = anchors[:, n] + 0.5 * size
        along, power = (_column(t, offsets, axis, len(anchors)) for axis in (n, n + 2))
        wide, place = t.numbers(size[:, None]), t.numbers(middle[:, None])
        centre = t.op("add", t.op("mul", along, wide), place)
        reach = t.op("mul", t.op("mul", t.op("exp", power), wide), t.number(0.5))
        low.append(t.op("sub", centre, reach))
        high.append(t.op("add", centre, reach))
    return t.op("concat", *low, *high, axis=1)


def _column(t: Translation, x: Value, n: int, rows: int) -> Value:
    return t.op("slice", x, starts=(0, n), sizes=(rows, 1), steps=(1, 1))


def _clipped(t: Translation, boxes: Value, info: Value, least: float) -> tuple[Value, Value]:
    """Boxes within the picture, and whether each is large enough in it."""
    rows, one = t.extent(boxes, 0), t.number(1.0)
    ends = t.op("sub", t.op("gather", info, t.constant([1, 0, 1, 0], "int64"), axis=0), one)
    boxes = t.op("maximum", t.op("minimum", boxes, ends), t.number(0.0))
    scale = t.op("gather", info, t.constant([2], "int64"), axis=0)
    enough: Any = None
    for n in range(2):
        size = t.op("add", t.op("sub", _column(t, boxes, n + 2, rows), _column(t, boxes, n, rows)), one)
        fits = t.op("greater_equal", size, t.op("mul", scale, t.number(least)))
        enough = fits if enough is None else t.op("logical_and", enough, fits)
    return boxes, t.reshape(enough, (rows,))


def _best(t: Translation, s: _Settings, boxes: Value, scores: Value, total: int) -> list[Value]:
    candidates = min(s.candidates, total) if s.candidates > 0 else total
    most = min(s.most, candidates)
    scores, order = t.builder.add_all(
        "top_k", scores, k=(candidates,), axis=0, sources=t.sources, name=f"{t.name}/candidates"
    )
    boxes = t.op("gather", boxes, order, axis=0)
    # The last pixels are part of a box: as corners without them they lie one further.
    corners = t.op("add", boxes, t.constant([0, 0, 1, 1], "float32"))
    chosen, count = t.builder.add_all(
        "non_max_suppression", t.reshape(corners, (1, candidates, 4)), t.reshape(scores, (1, 1, candidates)),
        t.constant(most, "int64"), t.constant(s.overlap, "float32"),
        t.constant(np.finfo(np.float32).min, "float32"), size=most, sources=t.sources, name=f"{t.name}/suppressed",
    )  # fmt: skip
    places = t.reshape(_column(t, chosen, 2, most), (most,))
    places = t.op("maximum", places, t.scalar(0, "int64"))
    rows = t.pad(t.op("gather", boxes, places, axis=0), (0, 1), (0, 0))
    found = t.reshape(t.op("gather", scores, places, axis=0), (most, 1))
    size = t.builder.bind_size(t.reshape(count, ()), t.builder.name("regions"), 0, most, sources=t.sources)
    regions = t.op("slice", rows, starts=(0, 0), sizes=(size, 5), steps=(1, 1))
    return [regions, t.op("slice", found, starts=(0, 0), sizes=(size, 1), steps=(1, 1))]
