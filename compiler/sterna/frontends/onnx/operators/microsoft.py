"""ONNX Runtime's own operators (com.microsoft), which its optimizer and quantizer put into models.

Their definitions: ContribOperators.md of ONNX Runtime.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sterna.errors import error
from sterna.frontends.elimination import inverted
from sterna.frontends.onnx.operators import arithmetic, convolution, selection, shapes, spatial
from sterna.frontends.onnx.operators.attention import part, root_normalized
from sterna.frontends.onnx.operators.quantization import TRANSLATORS as QUANTIZATION
from sterna.frontends.onnx.translation import Translation, Translator, axes_of
from sterna.ir.graph import Value
from sterna.ir.limits import check_table

_ACTIVATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Relu": ("relu", ()),
    "Sigmoid": ("sigmoid", ()),
    "Tanh": ("tanh", ()),
    "LeakyRelu": ("leaky_relu", ("alpha",)),
    "HardSigmoid": ("hard_sigmoid", ("alpha", "beta")),
    "Clip": ("clip", ("min", "max")),
}


def plain(t: Translation, inputs: list[Value | None], **attributes: Any) -> Translation:
    """The node with other operands and attributes."""
    node = replace(t.node, attributes={**t.node.attributes, **attributes}, version=13, given=frozenset(attributes))
    return Translation(
        node, inputs, t.builder, origin=t.origin, used=t.used, sources=t.sources, declared=t.declared,
        sizes=t.data_sizes,
    )  # fmt: skip


def activated(t: Translation, y: Value) -> Value:
    name = t.attribute("activation", "")
    if not name:
        return y
    if name not in _ACTIVATIONS:
        raise t.unsupported(f"with the activation {name}")
    operator, settings = _ACTIVATIONS[name]
    values = t.attribute("activation_params") or tuple(
        t.attribute(f"activation_{s}") for s in settings if t.attribute(f"activation_{s}") is not None
    )
    return t.op(operator, y, **dict(zip(settings, values, strict=False)))


def fused_conv(t: Translation) -> Value:
    y = convolution.convolved(t, t.input(0), t.input(1))
    if t.has(2):
        y = t.op("add", y, t.input(2))
    if t.has(3):
        y = t.op("add", y, t.channels_last(t.input(3)))
    return t.channels_first(activated(t, y))


def fused_gemm(t: Translation) -> Value:
    return activated(t, arithmetic.gemm(t))


def fused_matmul(t: Translation) -> Value:
    a, b = (_turned(t, t.input(n), t.attribute(f"trans{key}", 0), t.attribute(f"transBatch{key}", 0))
            for n, key in enumerate("AB"))  # fmt: skip
    y = arithmetic.matmul(plain(t, [a, b]))
    alpha = t.attribute("alpha", 1.0)
    return activated(t, y if alpha == 1.0 else t.op("mul", y, t.scalar(alpha, y.dtype)))


def _turned(t: Translation, x: Value, turned: int, first_to_rows: int) -> Value:
    """The last two dimensions exchanged; before that, the first one moved after those of the batch."""
    rank = x.type.rank
    if rank < 2:
        return x
    order = [*range(1, rank - 1), 0, rank - 1] if first_to_rows else list(range(rank))
    if turned:
        order[-2], order[-1] = order[-1], order[-2]
    return x if order == list(range(rank)) else t.transpose(x, order)


# ---------------------------------------------------------------- activations
def gelu(t: Translation) -> Value:
    return t.op("gelu", t.input(0))


def bias_gelu(t: Translation) -> Value:
    return t.op("gelu", t.op("add", t.input(0), t.input(1)))


def fast_gelu(t: Translation) -> Value:
    x = t.op("add", t.input(0), t.input(1)) if t.has(1) else t.input(0)
    return t.op("gelu", x, approximate="tanh")


def quick_gelu(t: Translation) -> Value:
    x = t.input(0)
    alpha = t.scalar(t.attribute("alpha", 1.702), x.dtype)
    return t.op("mul", x, t.op("sigmoid", t.op("mul", x, alpha)))


def bias_split_gelu(t: Translation) -> Value:
    """The first half of the channels times gelu of the other."""
    x = t.op("add", t.input(0), t.input(1))
    half = t.extent(x, -1) // 2
    left, right = (part(t, x, -1, n * half, half) for n in range(2))
    return t.op("mul", left, t.op("gelu", right))


def bias_add(t: Translation) -> Value:
    return t.op("add", t.op("add", t.input(0), t.input(1)), t.input(2))


# ---------------------------------------------------------------- normalization and embedding
def _normalized(t: Translation, x: Value, gamma: Value, beta: Value | None, epsilon: float) -> Value:
    y = t.op("mul", t.op("layer_norm", x, axis=-1, epsilon=epsilon), gamma)
    return y if beta is None else t.op("add", y, beta)


def skip_layer_normalization(t: Translation) -> tuple[Value | None, ...]:
    total = t.op("add", t.input(0), t.input(1))
    if t.has(4):
        total = t.op("add", total, t.input(4))
    if any(t.used[1:3]):
        raise t.unsupported("with mean and inverse deviation as results")
    return (_normalized(t, total, t.input(2), t.optional(3), t.attribute("epsilon", 1e-12)), None, None, total)


def simplified_layer_normalization(t: Translation) -> Value:
    x = t.input(0)
    if t.attribute("axis", -1) not in (-1, x.type.rank - 1):
        raise t.unsupported("over several dimensions")
    return root_normalized(t, x, t.input(1), t.attribute("epsilon", 1e-5))


def skip_simplified_layer_normalization(t: Translation) -> tuple[Value | None, ...]:
    total = t.op("add", t.input(0), t.input(1))
    if t.has(3):
        total = t.op("add", total, t.input(3))
    return (root_normalized(t, total, t.input(2), t.attribute("epsilon", 1e-5)), None, None, total)


def embedded(t: Translation) -> tuple[Value | None, ...]:
    """The normalized sum of the embeddings of words, places and segments; how many words count; the sum."""
    ids, segments, words, places, kinds, gamma, beta = (t.optional(n) for n in range(7))
    if ids is None or words is None or places is None or gamma is None or beta is None:
        raise error("E0103", "an operand is missing")
    batch, length = t.sizes(ids, 2)
    total = t.op("gather", words, ids, axis=0)
    chosen = t.optional(8) or t.counting(length)
    total = t.op("add", total, t.op("gather", places, chosen, axis=0))
    if segments is not None and kinds is not None:
        total = t.op("add", total, t.op("gather", kinds, segments, axis=0))
    y = _normalized(t, total, gamma, beta, t.attribute("epsilon", 1e-12))
    if t.has(7):
        count = t.op("reduce_sum", t.cast(t.input(7), "int32"), axes=(1,), keep_dims=False)
    else:
        count = t.op("expand", t.scalar(0, "int32"), shape=(batch,))
    return (y, count, total)


# ---------------------------------------------------------------- images, distances, matrices
def crop_and_resize(t: Translation) -> Value:
    """Boxes (y1, x1, y2, x2), in shares of the image, resampled to one size; beyond the image is a given value."""
    x, boxes, image = t.input(0), t.input(1), t.input(2)
    n, c, *extents = t.sizes(x, 4)
    count, sizes = t.sizes(boxes, 2)[0], t.integers(3, "a crop size")
    mode = t.attribute("mode", "bilinear")
    if mode not in ("bilinear", "nearest") or len(sizes) != 2 or min(sizes) < 1:
        raise error("E0109", f"mode {mode}, a crop of {sizes}")

    def do(op: str, a: Value, b: Value | float) -> Value:
        return t.op(op, a, b if isinstance(b, Value) else t.scalar(b, a.dtype))

    def places(axis: int) -> Value:
        """(boxes, size of the crop): the position in the image."""
        begin, end = (part(t, boxes, 1, axis + k, 1) for k in (0, 2))
        last = float(extents[axis] - 1)
        if sizes[axis] == 1:
            return do("mul", do("mul", do("add", begin, end), 0.5), last)
        step = do("div", do("mul", do("sub", end, begin), last), float(sizes[axis] - 1))
        return do("add", do("mul", begin, last), do("mul", step, t.counting(sizes[axis], boxes.dtype)))

    shapes_ = ((count, sizes[0], 1), (count, 1, sizes[1]))
    at = [t.reshape(places(axis), shapes_[axis]) for axis in range(2)]
    rows = t.reshape(t.channels_last(x), (n * extents[0] * extents[1], c))
    first = do("mul", t.reshape(t.cast(image, "int64"), (count, 1, 1)), extents[0] * extents[1])

    def picked(near: list[Value]) -> Value:
        """The elements at integer positions."""
        y, x_ = (t.cast(t.op("clip", p, min=0.0, max=float(extents[axis] - 1)), "int64") for axis, p in enumerate(near))
        return t.op("gather", rows, do("add", do("add", do("mul", y, extents[1]), x_), first), axis=0)

    if mode == "nearest":
        result = picked([t.op("floor", do("add", p, 0.5)) for p in at])
    else:
        low = [t.op("floor", p) for p in at]
        high = [t.op("ceil", p) for p in at]
        share = [
            t.reshape(do("sub", p, q), (*shapes_[axis], 1)) for axis, (p, q) in enumerate(zip(at, low, strict=True))
        ]

        def between(a: Value, b: Value, weight: Value) -> Value:
            return do("add", a, do("mul", do("sub", b, a), weight))

        lines = [between(picked([y, low[1]]), picked([y, high[1]]), share[1]) for y in (low[0], high[0])]
        result = between(lines[0], lines[1], share[0])
    inside = None
    for axis, p in enumerate(at):
        within = t.op(
            "logical_and",
            t.op("less_equal", t.scalar(0, p.dtype), p),
            t.op("less_equal", p, t.scalar(extents[axis] - 1, p.dtype)),
        )
        inside = within if inside is None else t.op("logical_and", inside, within)
    assert inside is not None
    other = t.scalar(t.attribute("extrapolation_value", 0.0), x.dtype)
    kept = t.op("where", t.reshape(inside, (count, *sizes, 1)), result, other)
    return t.channels_first(kept)


def distances(t: Translation) -> Value:
    """The distance of every row of one matrix to every row of another."""
    a, b = t.input(0), t.input(1)
    metric = t.attribute("metric", "sqeuclidean")
    if a.type.rank != 2 or b.type.rank != 2 or metric not in ("sqeuclidean", "euclidean"):
        raise t.unsupported(f"of {a.type} and {b.type} with the metric {metric}")
    left, right = t.reshape(a, (a.shape[0], 1, a.shape[1])), t.reshape(b, (1, *b.shape))
    difference = t.op("sub", left, right)
    y = t.op("reduce_sum", t.op("mul", difference, difference), axes=(2,), keep_dims=False)
    return t.op("sqrt", y) if metric == "euclidean" else y


def inverse(t: Translation) -> Value:
    return inverted(t, t.input(0))


# ---------------------------------------------------------------- as ONNX has them
def _as_onnx(translate: Translator) -> Translator:
    """An operator that ONNX took over, in its form of today."""
    return lambda t: translate(plain(t, list(t.inputs)))


def arange(t: Translation) -> Value:
    """Range, whose step may be left out."""
    step = t.optional(2) or t.scalar(1, t.input(0).dtype)
    return shapes.arange(plain(t, [t.input(0), t.input(1), step]))


def unique(t: Translation) -> tuple[Value | None, ...]:
    """Values in the order of their first appearance, where each element is among them, and how many there are."""
    values, _, places, counts = selection.unique(plain(t, list(t.inputs), sorted=0))
    return (values, places, counts)


def expand_dims(t: Translation) -> Value:
    x, axis = t.input(0), t.integer_of(1, "an axis")
    at = axis if axis >= 0 else axis + x.type.rank + 1
    if not 0 <= at <= x.type.rank:
        raise error("E0108", f"axis {axis} of {x.type}")
    return t.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


def is_all_finite(t: Translation) -> Value:
    if t.attribute("isinf_only", 0) and t.attribute("isnan_only", 0):
        raise error("E0109", "isinf_only and isnan_only exclude each other")
    result = None
    for n in range(len(t.inputs)):
        x = t.input(n)
        tests = [
            name for name, other in (("is_nan", "isinf_only"), ("is_inf", "isnan_only")) if not t.attribute(other, 0)
        ]
        for name in tests:
            found = t.cast(t.op(name, x), "int32")
            most = t.op("reduce_max", found, axes=tuple(range(x.type.rank)), keep_dims=False)
            result = most if result is None else t.op("maximum", result, most)
    if result is None:
        raise error("E0103", "an operand is missing")
    return t.op("equal", t.reshape(result, ()), t.scalar(0, "int32"))


def matmul_integer16(t: Translation) -> Value:
    return arithmetic.matmul(plain(t, [t.cast(t.input(n), "int32") for n in range(2)]))


def unfold(t: Translation) -> Value:
    """Windows along one dimension, their elements in a new last dimension."""
    x, step, size = t.input(0), t.attribute("step", 1), t.attribute("size")
    (axis,) = axes_of((t.attribute("dim", -1),), x.type.rank)
    extent = t.extent(x, axis)
    if not size or not 1 <= size <= extent or step < 1:
        raise error("E0109", f"windows of {size} by {step} in {extent} elements")
    check_table((extent - size) // step + 1, size)
    starts = np.arange((extent - size) // step + 1) * step
    y = t.op("gather", x, t.constant(starts[:, None] + np.arange(size)[None, :]), axis=axis)
    rank = x.type.rank
    return t.transpose(y, [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1])


def _per_axis(name: str) -> Translator:
    """QuantizeLinear and DequantizeLinear, as ONNX has them since operator set 13."""
    return lambda t: QUANTIZATION[name](plain(t, list(t.inputs), axis=t.attribute("axis", 1)))


MICROSOFT_TRANSLATORS: dict[str, Translator] = {
    "BiasAdd": bias_add,
    "BiasGelu": bias_gelu,
    "BiasSplitGelu": bias_split_gelu,
    "CDist": distances,
    "CropAndResize": crop_and_resize,
    "DequantizeLinear": _per_axis("DequantizeLinear"),
    "EmbedLayerNormalization": embedded,
    "ExpandDims": expand_dims,
    "FastGelu": fast_gelu,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "FusedMatMulActivation": fused_matmul,
    "GatherND": _as_onnx(lambda t: t.op("gather_nd", t.input(0), t.input(1))),
    "Gelu": gelu,
    "GridSample": _as_onnx(spatial.grid_sample),
    "Inverse": inverse,
    "IsAllFinite": is_all_finite,
    "MatMulInteger16": matmul_integer16,
    "Pad": _as_onnx(shapes.pad),
    "QuantizeLinear": _per_axis("QuantizeLinear"),
    "QuickGelu": quick_gelu,
    "Range": arange,
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_simplified_layer_normalization,
    "TransposeMatMul": fused_matmul,
    "Trilu": _as_onnx(shapes.trilu),
    "UnfoldTensor": unfold,
    "Unique": unique,
}
#: Standard in ONNX Runtime, unknown to ONNX.
TRANSLATORS: dict[str, Translator] = {"SimplifiedLayerNormalization": simplified_layer_normalization}
