"""torchvision's own operators."""

from __future__ import annotations

from sterna.frontends.pytorch.operators.found import sized
from sterna.frontends.pytorch.translation import Translation, Translator
from sterna.frontends.standard import standard
from sterna.ir.graph import Value


def suppressed(t: Translation) -> Value:
    """The boxes that overlap no better one by more than the threshold, the best first."""
    boxes, scores = t.cast(t.tensor("dets"), "float32"), t.cast(t.tensor("scores"), "float32")
    count = boxes.shape[0]
    most = t.constant([t.extent(boxes, 0)], "int64")
    (found,), size = sized(
        t, "non_max_suppression", t.reshape(boxes, (1, count, 4)), t.reshape(scores, (1, 1, count)),
        most, t.constant([t.number("iou_threshold")], "float32"), None, most=count,
    )  # fmt: skip
    return t.take(t.cut(found, 0, 0, size), 1, 2)


def roi_align(t: Translation) -> Value:
    x, rois = t.tensor("input"), t.tensor("rois")
    batch = t.reshape(t.cut(rois, 1, 0, 1), (rois.shape[0],))
    ratio = t.integer("sampling_ratio", -1)
    return standard(
        t, "RoiAlign", x, t.cut(rois, 1, 1, 4), t.cast(batch, "int64"), mode="avg",
        output_height=t.integer("pooled_height"), output_width=t.integer("pooled_width"),
        sampling_ratio=max(ratio, 0), spatial_scale=t.number("spatial_scale"),
        coordinate_transformation_mode="half_pixel" if t.flag("aligned") else "output_half_pixel",
    )  # fmt: skip


def roi_pool(t: Translation) -> tuple[Value, None]:
    """The second result, where each maximum was, only training needs."""
    shape = (t.integer("pooled_height"), t.integer("pooled_width"))
    scale = t.number("spatial_scale")
    y = standard(t, "MaxRoiPool", t.tensor("input"), t.tensor("rois"), pooled_shape=shape, spatial_scale=scale)
    return y, None


def deformed(t: Translation) -> Value:
    pads = (t.integer("pad_h"), t.integer("pad_w"))
    mask = t.maybe("mask") if t.flag("use_mask") else None
    return standard(
        t, "DeformConv", t.tensor("input"), t.tensor("weight"), t.tensor("offset"), t.maybe("bias"), mask,
        strides=(t.integer("stride_h"), t.integer("stride_w")), pads=(*pads, *pads),
        dilations=(t.integer("dilation_h"), t.integer("dilation_w")), group=t.integer("groups"),
        offset_group=t.integer("offset_groups"),
    )  # fmt: skip


TRANSLATORS: dict[str, Translator] = {
    "torchvision.nms.default": suppressed,
    "torchvision.roi_align.default": roi_align,
    "torchvision.roi_pool.default": roi_pool,
    "torchvision.deform_conv2d.default": deformed,
}
