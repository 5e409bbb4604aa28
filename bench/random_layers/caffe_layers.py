"""Random networks of Caffe, run by OpenCV 4.

python -m random_layers.caffe_layers FOLDER [--cases N] [--first N] [--seed N]
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from random_layers.drawing import Draw, save_arrays, write_cases

Array = np.ndarray


class Written:
    """A description as it grows: layers as text, their weights, and the blob that the next one reads."""

    def __init__(self, shape: Sequence[int]):
        dims = " ".join(f"dim: {n}" for n in shape)
        self.text = f'name: "net"\ninput: "x"\ninput_shape {{ {dims} }}\n'
        self.blobs: dict[str, list[Array]] = {}
        self.kinds: dict[str, str] = {}
        self.last = "x"

    def copy(self) -> Written:
        made = Written(())
        made.text, made.blobs, made.kinds, made.last = self.text, dict(self.blobs), dict(self.kinds), self.last
        return made

    def add(self, kind: str, settings: str = "", *weights: Array, bottoms: Sequence[str] = ()) -> str:
        """A layer of the last blob, or of others; its blob is then the last one."""
        name = f"{kind.lower()}{len(self.kinds)}"
        ends = "".join(f' bottom: "{b}"' for b in bottoms or (self.last,)) + f' top: "{name}"'
        self.text += f'layer {{ name: "{name}" type: "{kind}"{ends} {settings} }}\n'
        self.kinds[name] = kind
        if weights:
            self.blobs[name] = list(weights)
        self.last = name
        return name


Maker = Callable[[Draw, Written, tuple[int, ...]], object]


def fields(group: str, **values: Any) -> str:
    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    lists = {key: value if isinstance(value, list) else [value] for key, value in values.items()}
    said = " ".join(f"{key}: {text(each)}" for key, value in lists.items() for each in value)
    return f"{group} {{ {said} }}"


def convolution(d: Draw, net: Written, shape: tuple[int, ...]) -> None:
    channels, kind = shape[1], d.of("Convolution", "Convolution", "Deconvolution")
    groups, bias = d.divisor(channels), d.flag()
    out = groups * d.whole(1, 4)
    high, wide = d.whole(1, 4), d.whole(1, 4)
    if d.flag():
        size = {"kernel_size": high, "stride": d.whole(1, 3), "pad": d.whole(0, 2), "dilation": d.whole(1, 2)}
        wide = high
    else:
        size = {
            "kernel_h": high, "kernel_w": wide, "stride_h": d.whole(1, 3), "stride_w": d.whole(1, 3),
            "pad_h": d.whole(0, 2), "pad_w": d.whole(0, 2),
        }  # fmt: skip
    kernel = (out, channels // groups, high, wide) if kind == "Convolution" else (channels, out // groups, high, wide)
    weights = [d.floats(*kernel) * np.float32(0.5), *([d.floats(out)] if bias else [])]
    net.add(kind, fields("convolution_param", num_output=out, bias_term=bias, group=groups, **size), *weights)


def pool(d: Draw, net: Written, shape: tuple[int, ...]) -> None:
    kind = d.of("MAX", "AVE")
    if d.flag(0.2):
        net.add("Pooling", fields("pooling_param", pool=kind, global_pooling=True))
    else:
        # Of windows with gaps between them OpenCV has one more than Caffe.
        high, wide = d.whole(1, 4), d.whole(1, 4)
        net.add("Pooling", fields(
            "pooling_param", pool=kind, kernel_h=high, kernel_w=wide,
            stride_h=d.whole(1, min(high, 3)), stride_w=d.whole(1, min(wide, 3)),
            pad_h=d.whole(0, high - 1), pad_w=d.whole(0, wide - 1),
        ))  # fmt: skip


def normalization(d: Draw, net: Written, shape: tuple[int, ...]) -> None:
    channels, form = shape[1], d.whole(0, 5)
    if form <= 1:
        factor = np.array([d.of(1.0, 2.0)], np.float32)
        net.add(
            "BatchNorm",
            fields("batch_norm_param", eps=d.of(1e-5, 1e-3), use_global_stats=True),
            d.floats(channels) * factor,
            d.positive(channels) * factor,
            factor,
        )
        if d.flag():
            net.add("Scale", fields("scale_param", bias_term=True), d.positive(channels), d.floats(channels))
    elif form == 2:
        net.add("LRN", fields(
            "lrn_param", local_size=d.of(1, 3, 5), alpha=d.real(0.01, 0.9), beta=d.real(0.3, 1), k=1,  # all of OpenCV
            norm_region=d.of("ACROSS_CHANNELS", "WITHIN_CHANNEL"),
        ))  # fmt: skip
    elif form == 3:
        net.add("MVN", fields("mvn_param", normalize_variance=d.flag(), across_channels=d.flag(), eps=1e-5))
    elif form == 4:
        net.add(
            "Normalize",
            fields("norm_param", across_spatial=d.flag(), channel_shared=False, eps=1e-10),
            d.positive(channels),
        )
    else:
        bias = d.flag()
        weights = [d.floats(channels), *([d.floats(channels)] if bias else [])]
        net.add("Scale", fields("scale_param", bias_term=bias), *weights)


def activation(d: Draw, net: Written, shape: tuple[int, ...]) -> None:
    form = d.whole(0, 9)
    if form == 0:
        net.add("ReLU", fields("relu_param", negative_slope=d.of(0, d.real(0.05, 0.5))))
    elif form == 1 and len(shape) > 1:
        shared = d.flag(0.3)
        net.add("PReLU", fields("prelu_param", channel_shared=shared), d.positive(1 if shared else shape[1]))
    elif form == 2:
        net.add("ELU", fields("elu_param", alpha=1.0))
    elif form == 3:
        net.add("Power", fields("power_param", power=d.of(1, 2, 3), scale=d.real(0.3, 1), shift=d.real(-1, 1)))
    elif form == 4:
        net.add("Softmax", fields("softmax_param", axis=d.whole(1, len(shape) - 1)))
    elif form == 5:
        net.add("ReLU6")
    elif form == 6:
        net.add("Exp", fields("exp_param", base=d.of(-1, 2), scale=d.real(0.2, 1), shift=d.real(-1, 1)))
    else:
        net.add(d.of("Sigmoid", "TanH", "AbsVal", "BNLL", "Dropout", "Swish", "Split"))


def shape_of(d: Draw, net: Written, shape: tuple[int, ...]) -> None:
    rank, form = len(shape), d.whole(0, 7)
    if form == 0:
        net.add("Flatten", fields("flatten_param", axis=d.whole(1, rank - 1)))
    elif form == 1:
        sizes = [0, *d.of([-1], [-1, 1], [0, -1], [-1, shape[-1]])]
        net.add("Reshape", f"reshape_param {{ {fields('shape', dim=sizes)} }}")
    elif form == 2:
        net.add("Permute", fields("permute_param", order=[0, *(n + 1 for n in d.order(rank - 1))]))
    elif form == 3:
        net.add("ShuffleChannel", fields("shuffle_channel_param", group=d.divisor(shape[1])))
    elif form == 4:
        net.add("Tile", fields("tile_param", axis=d.whole(1, rank - 1), tiles=d.whole(1, 3)))
    elif form == 5:
        axis = d.whole(1, rank - 1)
        if shape[axis] > 1:
            at = d.whole(1, shape[axis] - 1)
            name = f"slice{len(net.kinds)}"
            net.text += f'layer {{ name: "{name}" type: "Slice" bottom: "{net.last}" top: "{name}" top: "{name}b" '
            net.text += f"{fields('slice_param', axis=axis, slice_point=[at])} }}\n"
            net.kinds[name] = "Slice"
            net.last = name
            net.add("Concat", fields("concat_param", axis=axis), bottoms=(f"{name}b", name))
    elif form == 6:
        net.add("Interp", fields("interp_param", height=d.whole(2, 9), width=d.whole(2, 9)))
    else:
        net.add("Reduction", fields("reduction_param", operation=d.of("SUM", "MEAN"), axis=d.whole(1, rank - 1)))


def product(d: Draw, net: Written, shape: tuple[int, ...]) -> None:
    axis, out, bias = d.whole(1, len(shape) - 1), d.whole(1, 6), d.flag()
    weights = [d.floats(out, int(np.prod(shape[axis:]))) * np.float32(0.3), *([d.floats(out)] if bias else [])]
    net.add("InnerProduct", fields("inner_product_param", num_output=out, axis=axis, bias_term=bias), *weights)


def joining(d: Draw, net: Written, shape: tuple[int, ...]) -> None:
    first = net.last
    other = net.add(d.of("TanH", "Sigmoid", "AbsVal"))
    form = d.whole(0, 4)
    if form == 0:
        net.add("Concat", fields("concat_param", axis=d.whole(1, len(shape) - 1)), bottoms=(first, other))
    elif form == 1:
        coeff = [d.real(-2, 2), d.real(-2, 2)]
        net.add("Eltwise", fields("eltwise_param", operation="SUM", coeff=coeff), bottoms=(first, other))
    elif form == 2 and len(shape) == 4:
        high, wide = d.whole(1, shape[2]), d.whole(1, shape[3])
        small = net.add("Pooling", fields("pooling_param", pool="MAX", kernel_h=high, kernel_w=wide, stride=1))
        net.add(
            "Crop",
            fields("crop_param", axis=2, offset=[d.whole(0, high - 1), d.whole(0, wide - 1)]),
            bottoms=(first, small),
        )
    else:
        net.add("Eltwise", fields("eltwise_param", operation=d.of("SUM", "PROD", "MAX")), bottoms=(first, other))


MAKERS: tuple[tuple[Maker, range], ...] = (
    (convolution, range(4, 5)), (convolution, range(4, 5)), (pool, range(4, 5)), (normalization, range(4, 5)),
    (activation, range(2, 5)), (shape_of, range(2, 5)), (product, range(2, 5)), (joining, range(2, 5)),
)  # fmt: skip


# ---------------------------------------------------------------- files
def _number(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _field(number: int, content: bytes) -> bytes:
    return _number(number << 3 | 2) + _number(len(content)) + content


def caffemodel(net: Written) -> bytes:
    """A NetParameter of layers with blobs (caffe.proto)."""
    content = b""
    for name, blobs in net.blobs.items():
        layer = _field(1, name.encode()) + _field(2, net.kinds[name].encode())
        for blob in blobs:
            shape = _field(1, b"".join(_number(n) for n in blob.shape))
            data = struct.pack(f"<{blob.size}f", *blob.ravel().tolist())
            layer += _field(7, _field(7, shape) + _field(5, data))
        content += _field(100, layer)
    return content


def forwarded(net: Written, folder: Path, x: Array) -> Array:
    """What OpenCV makes of the description."""
    (folder / "model.prototxt").write_text(net.text)
    (folder / "model.caffemodel").write_bytes(caffemodel(net))
    read = cv2.dnn.readNetFromCaffe(str(folder / "model.prototxt"), str(folder / "model.caffemodel"))
    for switch in ("enableFusion", "enableWinograd"):
        getattr(read, switch)(False)
    read.setInput(x, "x")
    return np.array(read.forward(net.last))


def write(d: Draw, folder: Path, number: int) -> str | None:
    shape: tuple[int, ...] = (d.whole(1, 2), d.of(1, 2, 3, 4, 6), d.whole(1, 9), d.whole(1, 9))
    x = d.floats(*shape)
    net, wanted, result = Written(shape), d.whole(1, 4), None
    names: list[str] = []
    for _ in range(20):
        if len(names) == wanted:
            break
        maker, ranks = d.of(*MAKERS)
        if len(shape) not in ranks:
            continue
        longer = net.copy()
        try:
            maker(d, longer, shape)
            made = forwarded(longer, folder, x)
        except (cv2.error, ValueError):
            continue
        if longer.last == net.last or not 0 < made.size < 20000:
            continue
        if made.shape[0] != len(x) or not np.isfinite(made).all():
            continue
        net, shape, result = longer, made.shape, made
        names.append(maker.__name__)
    if result is None:
        return None
    result = forwarded(net, folder, x)
    save_arrays(folder, {"x": x}, [result])
    return f"{list(x.shape)} -> " + " ".join(net.text.split("\n")[3:])


cv2.setNumThreads(1)
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

if __name__ == "__main__":
    write_cases(write, "random_layers.caffe_layers")
