"""Layers of DarkNet, as AlexeyAB's fork runs them: `src/parser.c` and the layers' own files are the reference."""

from __future__ import annotations

import numpy as np

from sterna.errors import error
from sterna.frontends.custom import translations
from sterna.frontends.darknet.activations import activated
from sterna.frontends.darknet.products import connected, convolutional, deconvolutional, local
from sterna.frontends.darknet.recurrent import conv_lstm, crnn, gru, lstm, rnn
from sterna.frontends.darknet.translation import Translation, Translator
from sterna.ir.graph import Array, Value


# ---------------------------------------------------------------- weights
def batch_norm(t: Translation) -> Value:
    channels = t.extent(t.x, 1)
    biases, scales, mean, variance = (t.weights.take(channels) for _ in range(4))
    return t.normalized(t.x, scales, mean, variance, biases)


# ---------------------------------------------------------------- pooling
def _strides(t: Translation) -> tuple[int, int]:
    stride = t.section.positive("stride")
    return t.section.positive("stride_y", stride), t.section.positive("stride_x", stride)


def maxpool(t: Translation) -> Value:
    s, x = t.section, t.picture()
    t.refuse("antialiasing")
    if s.integer("maxpool_depth"):
        outputs, channels = s.positive("out_channels"), t.extent(x, 1)
        rest = -channels % outputs
        lowest = float(np.finfo(np.float32).min)
        padded = t.pad(x, (0, 0, 0, 0), (0, rest, 0, 0), lowest)
        grouped = t.reshape(padded, (x.shape[0], (channels + rest) // outputs, outputs, *x.shape[2:]))
        return t.op("reduce_max", grouped, axes=(1,), keep_dims=False)
    return _pooled(t, x, "MaxPool", s.positive("size", s.positive("stride")))


def local_avgpool(t: Translation) -> Value:
    return _pooled(t, t.picture(), "AveragePool", t.section.positive("size", t.section.positive("stride")))


def _pooled(t: Translation, x: Value, operator: str, size: int) -> Value:
    """Windows that begin half of the padding before the picture; what they read beside it does not count."""
    padding, strides = t.section.integer("padding", size - 1), _strides(t)
    before, after = [], []
    for axis, stride in zip((2, 3), strides, strict=True):
        extent = t.extent(x, axis)
        count = (extent + padding - size) // stride + 1
        if count < 1 or padding < 0 or padding // 2 >= size:
            raise error("E0108", f"a window of {size} with padding {padding} does not fit into {extent}")
        before.append(padding // 2)
        after.append(max((count - 1) * stride + size - padding // 2 - extent, 0))
    return t.standard(operator, x, kernel_shape=(size, size), strides=strides, pads=(*before, *after))


def avgpool(t: Translation) -> Value:
    return t.op("reduce_mean", t.picture(), axes=(2, 3), keep_dims=True)


# ---------------------------------------------------------------- several layers
def route(t: Translation) -> Value:
    indices, groups, group = t.section.integers("layers"), t.section.positive("groups"), t.section.integer("group_id")
    if not indices or not 0 <= group < groups:
        raise error("E0109", f"layers is {indices}, group_id {group} of {groups}")
    parts = []
    for index in indices:
        x = t.layer(index)
        count = t.extent(x, 1)
        if count % groups:
            raise error("E0109", f"{count} channels do not fall into {groups} groups")
        parts.append(t.channels(x, group * (count // groups), count // groups) if groups > 1 else x)
    return t.op("concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def shortcut(t: Translation) -> Value:
    """The sum of layers, each perhaps with a weight; of more channels than the layer before, the first count."""
    s, x = t.section, t.x
    others = [_fitted(t, t.layer(index), x) for index in s.integers("from")]
    if not others:
        raise error("E0109", "from names no layer")
    factors = _factors(t, x, len(others) + 1)
    total = x if factors is None else t.op("mul", x, t.per_channel(factors[0], x))
    for n, other in enumerate(others, 1):
        part = other if factors is None else t.op("mul", other, t.per_channel(factors[n], x))
        total = t.op("add", total, part)
    return activated(t, total)


def _fitted(t: Translation, other: Value, x: Value) -> Value:
    if other.type.rank != x.type.rank or other.shape[2:] != x.shape[2:]:
        raise t.unsupported(f"of {other.type} and {x.type}")
    have, want = t.extent(other, 1), t.extent(x, 1)
    if have > want:
        return t.channels(other, 0, want)
    return t.pad(other, (0,) * x.type.rank, (0, want - have, *(0,) * (x.type.rank - 2)))


def _factors(t: Translation, x: Value, count: int) -> list[Array] | None:
    """The weights of the layers that are added, by channel or one for each; None where there are none."""
    kind = t.section.text("weights_type", "none")
    if kind == "none":
        return None
    if kind not in ("per_feature", "per_layer", "per_channel"):
        raise t.unsupported(f"with weights_type={kind}")
    channels = t.extent(x, 1)
    weights = t.weights.take(count, channels if kind == "per_channel" else 1).astype(np.float64)
    normalization = t.section.text("weights_normalization", t.section.text("weights_normalizion", "none"))
    if normalization in ("relu", "avg_relu"):
        weights = np.maximum(weights, 0)
        weights = weights / (weights.sum(0) + 1e-4)
    elif normalization == "softmax":
        weights = np.exp(weights - weights.max(0))
        weights = weights / (weights.sum(0) + 1e-4)
    elif normalization != "none":
        raise t.unsupported(f"with weights_normalization={normalization}")
    return [np.broadcast_to(row, (channels,)) for row in weights]


def scale_channels(t: Translation) -> Value:
    """Another layer times this one: a number for each channel, or with `scale_wh` for each place."""
    other = t.picture(t.layer(t.section.integer("from")))
    return activated(t, t.op("mul", other, t.picture()))


def sam(t: Translation) -> Value:
    other = t.layer(t.section.integer("from"))
    if other.shape != t.x.shape:
        raise error("E0108", f"{other.type} and {t.x.type} differ")
    return activated(t, t.op("mul", t.x, other))


# ---------------------------------------------------------------- places
def upsample(t: Translation) -> Value:
    """Every element `stride` times in both directions; backwards the sum of as many."""
    x, stride, scale = t.picture(), t.section.integer("stride", 2), t.section.number_of("scale", 1.0)
    batch, channels, height, width = x.shape
    count = abs(stride)
    if not 1 <= count <= 64:
        raise error("E0109", f"stride is {stride}")
    if stride > 0:
        wide = t.reshape(x, (batch, channels, height, 1, width, 1))
        wide = t.op("expand", wide, shape=(batch, channels, height, count, width, count))
        y = t.reshape(wide, (batch, channels, height * count, width * count))
    else:
        parts = t.reshape(x, (batch, channels, height // count, count, width // count, count))
        y = t.op("reduce_sum", parts, axes=(3, 5), keep_dims=False)
    return y if scale == 1.0 else t.op("mul", y, t.number(scale))


def _reorganized(t: Translation, x: Value, channels: int, height: int, width: int) -> Value:
    """(channels, height, width): blocks of `stride` become channels, the place in the block first."""
    stride = t.section.positive("stride")
    if height % stride or width % stride:
        raise error("E0108", f"{height} x {width} does not fall into blocks of {stride}")
    blocks = t.reshape(x, (x.shape[0], channels, height // stride, stride, width // stride, stride))
    y = t.transpose(blocks, (0, 3, 5, 1, 2, 4))
    return t.reshape(y, (x.shape[0], channels * stride * stride, height // stride, width // stride))


def reorg3d(t: Translation) -> Value:
    t.refuse("reverse")
    x = t.picture()
    return _reorganized(t, x, t.extent(x, 1), t.extent(x, 2), t.extent(x, 3))


def reorg(t: Translation) -> Value:
    """As YOLO v2 has it: elements are counted as if there were fewer channels of larger pictures."""
    t.refuse("reverse")
    x, stride = t.picture(), t.section.positive("stride")
    channels, height, width = (t.extent(x, n) for n in (1, 2, 3))
    if channels % (stride * stride) or height % stride or width % stride:
        raise error("E0108", f"{x.type} does not fall into blocks of {stride}")
    y = _reorganized(t, x, channels // (stride * stride), height * stride, width * stride)
    return t.reshape(y, (x.shape[0], channels * stride * stride, height // stride, width // stride))


def crop(t: Translation) -> Value:
    """The middle of a picture, as outside of training; its values from -1 to 1 unless they stay."""
    s, x = t.section, t.picture()
    sizes = s.positive("crop_height"), s.positive("crop_width")
    starts = [(t.extent(x, 2 + n) - size) // 2 for n, size in enumerate(sizes)]
    if min(starts) < 0:
        raise error("E0108", f"{x.type} is smaller than {sizes[0]} x {sizes[1]}")
    y = t.op("slice", x, starts=(0, 0, *starts), sizes=(*x.shape[:2], *sizes), steps=(1,) * 4)
    return y if s.integer("noadjust") else t.op("sub", t.op("mul", y, t.number(2.0)), t.number(1.0))


def softmax(t: Translation) -> Value:
    s = t.section
    t.refuse("spatial")
    if s.has("tree"):
        raise t.unsupported("with a tree")
    x, groups, temperature = t.row(), s.positive("groups"), s.number_of("temperature", 1.0)
    size = t.extent(x, 1)
    if size % groups or temperature <= 0:
        raise error("E0109", f"{size} numbers in {groups} groups, temperature {temperature}")
    scaled = x if temperature == 1.0 else t.op("mul", x, t.number(1.0 / temperature))
    grouped = t.reshape(scaled, (x.shape[0], groups, size // groups))
    return t.reshape(t.op("softmax", grouped, axis=2), t.x.shape)


def normalization(t: Translation) -> Value:
    """Local response normalization over channels."""
    s = t.section
    size, alpha, beta, kappa = (
        s.positive("size", 5),
        s.number_of("alpha", 1e-4),
        s.number_of("beta", 0.75),
        s.number_of("kappa", 1.0),
    )
    # ONNX divides alpha by the size.
    return t.standard("LRN", t.picture(), size=size, alpha=alpha * size, beta=beta, bias=kappa)


def unit_length(t: Translation) -> Value:
    """Every place divided by the length of its channels (Redmon's)."""
    x = t.picture()
    length = t.op("sqrt", t.op("reduce_sum", t.op("mul", x, x), axes=(1,), keep_dims=True))
    return t.op("div", x, length)


def implicit(t: Translation) -> Value:
    """What was learned, whatever is read: (batch, filters, atoms, 1)."""
    filters, atoms = t.section.positive("filters", 128), t.section.positive("atoms", 1)
    learned = t.numbers(t.weights.take(filters, atoms, 1)[None])
    return t.op("expand", learned, shape=(t.x.shape[0], filters, atoms, 1))


def unchanged(t: Translation) -> Value:
    """What means something while training only."""
    return t.x


# ---------------------------------------------------------------- detection
def _boxes(t: Translation, entries: int) -> tuple[Value, int]:
    """(batch, boxes, entries, height, width), and how many boxes a place has."""
    x = t.picture()
    channels = t.extent(x, 1)
    if channels % entries:
        raise error("E0108", f"{channels} channels are no boxes of {entries} entries")
    return t.reshape(x, (x.shape[0], channels // entries, entries, *x.shape[2:])), channels // entries


def _entries(t: Translation, boxes: Value, start: int, count: int) -> Value:
    sizes = (*boxes.shape[:2], count, *boxes.shape[3:])
    return t.op("slice", boxes, starts=(0, 0, start, 0, 0), sizes=sizes, steps=(1,) * 5)


def _centered(t: Translation, x: Value) -> Value:
    """Centres of boxes, which `scale_x_y` lets reach the borders of their places."""
    scale = t.section.number_of("scale_x_y", 1.0)
    if scale == 1.0:
        return x
    return t.op("sub", t.op("mul", x, t.number(scale)), t.number(0.5 * (scale - 1.0)))


def yolo(t: Translation) -> Value:
    """YOLO v3 and v4: centres, objectness and classes through the logistic function; sizes as they are."""
    s = t.section
    classes = s.positive("classes", 20)
    boxes, _ = _boxes(t, classes + 5)
    if s.integer("new_coords"):  # the layer before has applied the function
        parts = [_centered(t, _entries(t, boxes, 0, 2)), _entries(t, boxes, 2, classes + 3)]
    else:
        centers, sizes = _entries(t, boxes, 0, 2), _entries(t, boxes, 2, 2)
        parts = [_centered(t, t.logistic(centers)), sizes, t.logistic(_entries(t, boxes, 4, classes + 1))]
    return t.reshape(t.op("concat", *parts, axis=2), t.x.shape)


def gaussian_yolo(t: Translation) -> Value:
    """Of every coordinate its mean and its spread: x, x spread, y, y spread, w, w spread, h, h spread."""
    classes = t.section.positive("classes", 20)
    boxes, _ = _boxes(t, classes + 9)

    def one(n: int, count: int = 1) -> Value:
        return _entries(t, boxes, n, count)

    parts = [
        _centered(t, t.logistic(one(0))), t.logistic(one(1)), _centered(t, t.logistic(one(2))), t.logistic(one(3)),
        one(4), t.logistic(one(5)), one(6), t.logistic(one(7, classes + 2)),
    ]  # fmt: skip
    return t.reshape(t.op("concat", *parts, axis=2), t.x.shape)


def region(t: Translation) -> Value:
    """YOLO v2: (batch, height, width, boxes * entries); objectness is logistic, classes perhaps a softmax."""
    s = t.section
    if s.has("tree"):
        raise t.unsupported("with a tree")
    classes, coords = s.positive("classes", 20), s.positive("coords", 4)
    boxes, _ = _boxes(t, classes + coords + 1)
    parts = [_entries(t, boxes, 0, coords), t.logistic(_entries(t, boxes, coords, 1))]
    scores = _entries(t, boxes, coords + 1, classes)
    parts.append(t.op("softmax", scores, axis=2) if s.integer("softmax") else scores)
    y = t.transpose(t.op("concat", *parts, axis=2), (0, 3, 4, 1, 2))
    return t.reshape(y, (*y.shape[:3], y.shape[3] * y.shape[4]))


def detection(t: Translation) -> Value:
    """YOLO v1: scores of classes at all places, then confidences and boxes."""
    s, x = t.section, t.row()
    if not s.integer("softmax"):
        return x
    places, classes = s.positive("side", 7) ** 2, s.positive("classes")
    size = t.extent(x, 1)
    if size < places * classes:
        raise error("E0108", f"{size} numbers do not hold {classes} scores of {places} places")
    scores = t.reshape(t.channels(x, 0, places * classes), (x.shape[0], places, classes))
    scores = t.reshape(t.op("softmax", scores, axis=2), (x.shape[0], places * classes))
    return t.op("concat", scores, t.channels(x, places * classes, size - places * classes), axis=1)


#: Layers whose results are those of the network, with what they read.
DETECTORS = ("yolo", "gaussian_yolo", "region", "detection")
LAYERS: dict[str, Translator] = {
    "convolutional": convolutional, "connected": connected, "local": local, "batchnorm": batch_norm, "rnn": rnn,
    "crnn": crnn, "gru": gru, "lstm": lstm, "conv_lstm": conv_lstm, "deconvolutional": deconvolutional,
    "maxpool": maxpool, "local_avgpool": local_avgpool, "avgpool": avgpool, "route": route, "shortcut": shortcut,
    "sam": sam,
    "scale_channels": scale_channels, "upsample": upsample, "reorg": reorg, "reorg3d": reorg3d, "crop": crop,
    "softmax": softmax, "normalization": normalization, "yolo": yolo, "gaussian_yolo": gaussian_yolo, "region": region,
    "l2norm": unit_length, "implicit": implicit,
    "detection": detection, "dropout": unchanged, "cost": unchanged, "contrastive": unchanged, "empty": unchanged,
    "activation": lambda t: activated(t, t.x), "logistic": lambda t: t.logistic(t.x),
}  # fmt: skip


def translator_of(kind: str) -> Translator | None:
    """What translates a section: what users registered, or Sterna's own."""
    return translations("darknet").get(kind) or LAYERS.get(kind)
