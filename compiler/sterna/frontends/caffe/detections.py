"""SSD's last layer: of boxes that are told by what they differ by from default boxes, those that are found."""

from __future__ import annotations

from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.caffe.prototxt import Message
from sterna.frontends.caffe.translation import Translation
from sterna.ir.graph import Value

_CODES = ("", "CORNER", "CENTER_SIZE", "CORNER_SIZE")
#: Candidates of all classes and images, of which a bundle keeps as many in memory.
_MOST = 1 << 22


def detection_output(t: Translation) -> Value:
    """(1, 1, found, 7): image, class, score, corners; by class, the best of each first. Where nothing is found a row of
    -1 for each image."""
    s = t.settings("detection_output_param")
    classes, background = s.integer("num_classes"), s.integer("background_label_id")
    shared = s.flag("share_location", True)
    batch, priors = t.extent(t.x, 0), t.extent(t.input(2), -1) // 4
    outer = 1 if shared else classes
    if classes < 1 or t.extent(t.input(2), 1) != 2 or t.extent(t.input(1), 1) != priors * classes:
        raise error("E0108", f"{t.input(1).type} are no scores of {priors} boxes in {classes} classes")
    kinds = [n for n in range(classes) if n != background]
    if not kinds or t.extent(t.x, 1) != priors * outer * 4:
        raise error("E0108", f"{t.x.type} are no offsets of {priors} boxes")
    boxes = _boxes(t, s, batch, priors, outer)  # (batch, 1 or classes, priors, 4)
    scores = t.transpose(t.reshape(t.input(1), (batch, priors, classes)), (0, 2, 1))
    places = t.constant(kinds, "int64")
    scores = t.op("gather", scores, places, axis=1)
    if not shared:
        boxes = t.op("gather", boxes, places, axis=1)
    nms = s.message("nms_param")
    if nms.number("eta", 1.0) != 1.0:
        raise t.unsupported(f"with eta {nms.number('eta')}")
    most, kept = nms.integer("top_k", -1), s.integer("keep_top_k", -1)
    most = priors if most < 0 else min(most, priors)
    each = len(kinds) * most
    kept = each if kept < 0 else min(kept, each)
    if most < 1 or kept < 1 or batch * each > _MOST:
        raise error("E0109", f"top_k is {most} and keep_top_k {kept} for {priors} boxes of {len(kinds)} classes")
    scores, order = t.builder.add_all(
        "top_k", scores, k=(most,), axis=2, sources=t.sources, name=f"{t.name}/candidates"
    )  # fmt: skip
    boxes = _chosen(t, boxes, order, batch, len(kinds), shared)  # (batch, kinds, most, 4)
    least = s.number("confidence_threshold", -float(np.finfo(np.float32).max))
    found = _uncovered(t, boxes, scores, least, nms.number("nms_threshold", 0.3))  # (batch, kinds * most), bools
    return _rows(t, boxes, scores, found, kinds, kept)


def _part(t: Translation, x: Value, start: int) -> Value:
    sizes = (*x.shape[:-1], 1)
    return t.op("slice", x, starts=(*(0,) * (x.type.rank - 1), start), sizes=sizes, steps=(1,) * x.type.rank)


def _boxes(t: Translation, s: Message, batch: int, priors: int, outer: int) -> Value:
    """Corners, (batch, outer, priors, 4)."""
    offsets = t.transpose(t.reshape(t.x, (batch, priors, outer, 4)), (0, 2, 1, 3))
    defaults = t.reshape(t.input(2), (1, 2, priors, 4))
    corners, variances = (
        t.op("slice", defaults, starts=(0, n, 0, 0), sizes=(1, 1, priors, 4), steps=(1,) * 4) for n in (0, 1)
    )
    if not s.flag("variance_encoded_in_target"):
        offsets = t.op("mul", offsets, variances)
    code = (s.all("code_type") or ["CORNER"])[-1]
    kind = _CODES[int(code)] if isinstance(code, float) and 1 <= code < len(_CODES) else str(code)
    if kind == "CORNER":
        return t.op("add", corners, offsets)
    left, top, right, bottom = (_part(t, corners, n) for n in range(4))
    width, height = t.op("sub", right, left), t.op("sub", bottom, top)
    if kind == "CORNER_SIZE":
        sizes = t.op("concat", width, height, width, height, axis=3)
        return t.op("add", corners, t.op("mul", offsets, sizes))
    if kind != "CENTER_SIZE":
        raise error("E0109", f"code_type is {code}")
    half = t.number(0.5)
    low, high = [], []
    for n, (start, end, size) in enumerate(((left, right, width), (top, bottom, height))):
        middle = t.op("mul", t.op("add", start, end), half)
        middle = t.op("add", t.op("mul", _part(t, offsets, n), size), middle)
        reach = t.op("mul", t.op("mul", t.op("exp", _part(t, offsets, n + 2)), size), half)
        low.append(t.op("sub", middle, reach))
        high.append(t.op("add", middle, reach))
    return t.op("concat", *low, *high, axis=3)


def _chosen(t: Translation, boxes: Value, order: Value, batch: int, kinds: int, shared: bool) -> Value:
    """The boxes of the best candidates of every class."""
    most = order.shape[2]
    outer = (batch,) if shared else (batch, kinds)
    flat = t.reshape(boxes, (*outer, *boxes.shape[2:]))
    rows: tuple[Any, ...] = (batch, kinds * most, 1) if shared else (batch, kinds, most, 1)
    found = t.op("gather_nd", flat, t.reshape(order, rows), batch_dims=len(outer))
    return t.reshape(found, (batch, kinds, most, 4))


def _uncovered(t: Translation, boxes: Value, scores: Value, least: float, overlap: float) -> Value:
    """Which candidates are good enough, and covered by no better one of their class."""
    batch, kinds, most = (t.extent(scores, n) for n in range(3))
    total = batch * kinds * most
    chosen, _ = t.builder.add_all(
        "non_max_suppression", t.reshape(boxes, (batch * kinds, most, 4)), t.reshape(scores, (batch * kinds, 1, most)),
        t.constant(most, "int64"), t.constant(overlap, "float32"), t.constant(least, "float32"), size=total,
        sources=t.sources, name=f"{t.name}/suppressed",
    )  # fmt: skip
    group, row = (
        t.reshape(t.op("slice", chosen, starts=(0, n), sizes=(total, 1), steps=(1, 1)), (total,)) for n in (0, 2)
    )
    place = t.op("add", t.op("mul", group, t.scalar(most, "int64")), row)
    # Rows beyond the last one chosen go to a place of their own.
    place = t.op("where", t.op("less", row, t.scalar(0, "int64")), t.scalar(total, "int64"), place)
    ones, none = (t.op("expand", t.scalar(n, "int32"), shape=(size,)) for n, size in ((1, total), (0, total + 1)))
    marks = t.op("scatter_elements", none, place, ones, axis=0)
    marks = t.op("slice", marks, starts=(0,), sizes=(total,), steps=(1,))
    return t.op("greater", t.reshape(marks, (batch, kinds * most)), t.scalar(0, "int32"))


def _rows(t: Translation, boxes: Value, scores: Value, found: Value, kinds: list[int], kept: int) -> Value:
    """The best of all classes of an image, in the order of the classes."""
    batch, each = (t.extent(found, n) for n in range(2))
    total, lowest = batch * kept, t.number(-np.inf)
    values = t.op("where", found, t.reshape(scores, (batch, each)), lowest)
    best, place = t.builder.add_all("top_k", values, k=(kept,), axis=1, sources=t.sources, name=f"{t.name}/best")
    # Candidates stand by class, the best first: what is kept needs its old order only.
    there = t.op("greater", best, lowest)
    place, _ = t.builder.add_all(
        "top_k", t.op("where", there, place, t.scalar(each, "int64")), k=(kept,), axis=1, largest=False,
        sources=t.sources, name=f"{t.name}/order",
    )  # fmt: skip
    there = t.op("less", place, t.scalar(each, "int64"))
    place = t.op("minimum", place, t.scalar(each - 1, "int64"))
    image = t.op("expand", t.reshape(t.counting(batch), (batch, 1)), shape=(batch, kept))
    flat = t.reshape(t.op("add", t.op("mul", image, t.scalar(each, "int64")), place), (total,))
    most = each // len(kinds)
    label = t.op("gather", t.constant(kinds, "float32"), t.op("div", place, t.scalar(most, "int64")), axis=0)
    columns = [
        t.reshape(t.cast(image, "float32"), (total, 1)), t.reshape(label, (total, 1)),
        t.reshape(t.op("gather", t.reshape(scores, (batch * each,)), flat, axis=0), (total, 1)),
        t.op("gather", t.reshape(boxes, (batch * each, 4)), flat, axis=0),
    ]  # fmt: skip
    rows = t.op("concat", *columns, axis=1)
    marks = t.reshape(there, (total,))
    taken, count = t.builder.add_all(
        "compress", rows, marks, axis=0, size=total, sources=t.sources, name=f"{t.name}/found"
    )
    none = t.op("equal", count, t.scalar(0, "int64"))
    nothing = t.op("concat", t.reshape(t.counting(batch, "float32"), (batch, 1)), _empty(t, batch), axis=1)
    nothing = t.pad(nothing, (0, 0), (total - batch, 0))
    taken = t.op("where", t.reshape(none, (1, 1)), nothing, taken)
    count = t.op("where", none, t.scalar(batch, "int64"), count)
    size = t.builder.bind_size(t.reshape(count, ()), t.builder.name("detections"), 1, total, sources=t.sources)
    taken = t.op("slice", taken, starts=(0, 0), sizes=(size, 7), steps=(1, 1))
    return t.reshape(taken, (1, 1, size, 7))


def _empty(t: Translation, batch: int) -> Value:
    return t.op("expand", t.number(-1), shape=(batch, 6))
