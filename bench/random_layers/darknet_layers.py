"""Random networks of DarkNet, run by OpenCV 4.

    python -m random_layers.darknet_layers FOLDER [--cases N] [--first N] [--seed N]

OpenCV adds 1e-6 to variances, DarkNet and this compiler 1e-5: variances are drawn large enough for that to stay within
the tolerance.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from random_layers.drawing import Draw, save_arrays, write_cases

Array = np.ndarray
ACTIVATIONS = ("linear", "leaky", "relu", "logistic", "mish", "swish", "tanh")


class Written:
    """A description as it grows, and the weights in the order of the file."""

    def __init__(self, channels: int, height: int, width: int):
        self.text = f"[net]\nchannels={channels}\nheight={height}\nwidth={width}\n"
        self.weights: list[Array] = []
        self.shapes: list[tuple[int, ...]] = [(1, channels, height, width)]

    def copy(self) -> Written:
        made = Written(1, 1, 1)
        made.text, made.weights, made.shapes = self.text, list(self.weights), list(self.shapes)
        return made

    def add(self, kind: str, **settings: Any) -> None:
        self.text += f"[{kind}]\n" + "".join(f"{key}={value}\n" for key, value in settings.items())


def convolution(d: Draw, net: Written) -> None:
    _, channels, high, wide = net.shapes[-1]
    # OpenCV reads beyond planes of one row or column where every channel is a group.
    groups, size, normalized = 1 if min(high, wide) == 1 else d.divisor(channels), d.whole(1, 5), d.flag()
    filters = groups * d.whole(1, 4)
    net.weights.append(d.floats(filters))
    if normalized:
        net.weights += [d.positive(filters), d.floats(filters), d.positive(filters)]
    net.weights.append(d.floats(filters, channels // groups, size, size) * np.float32(0.5))
    net.add(
        "convolutional",
        batch_normalize=int(normalized),
        filters=filters,
        size=size,
        stride=d.whole(1, 3),
        pad=int(d.flag(0.7)),
        groups=groups,
        activation=d.of(*ACTIVATIONS),
    )


def pooling(d: Draw, net: Written) -> None:
    form = d.whole(0, 4)
    if form == 0:
        net.add("avgpool")
    elif form == 1:
        net.add("upsample", stride=d.whole(1, 3))
    elif form == 2 and net.shapes[-1][1] % 4 == 0:
        net.add("reorg", stride=2)
    else:
        size = d.whole(1, 5)
        padding = {"padding": d.whole(0, size - 1)} if d.flag(0.3) else {}
        net.add("maxpool", size=size, stride=d.whole(1, 3), **padding)


def joining(d: Draw, net: Written) -> None:
    here = net.shapes[-1]
    alike = [n for n, shape in enumerate(net.shapes[1:-1]) if shape == here]
    beside = [n for n, shape in enumerate(net.shapes[1:-1]) if shape[2:] == here[2:]]
    form, count = d.whole(0, 4), len(net.shapes) - 1
    if form <= 1 and alike:
        net.add("shortcut", **{"from": d.of(*alike) - d.of(0, count), "activation": d.of("linear", "leaky")})
    elif form == 2 and beside:
        net.add("route", layers=f"-1,{d.of(*beside)}")
    elif form == 3 and here[1] > 1:
        groups = d.divisor(here[1])
        net.add("route", layers=-1, groups=groups, group_id=d.whole(0, groups - 1))
    elif form == 4 and count > 1:
        net.add("route", layers=d.whole(0, count - 2))
    else:
        net.add("dropout", probability=0.5)


def gating(d: Draw, net: Written) -> None:
    """A layer times what another layer says: [sam] element by element, [scale_channels] channel by channel."""
    channels = net.shapes[-1][1]
    if d.flag():
        net.weights += [d.floats(channels), d.floats(channels, channels, 1, 1) * np.float32(0.5)]
        net.add("convolutional", filters=channels, size=1, stride=1, pad=0, activation="logistic")
        net.add("sam", **{"from": -2})
    else:
        net.add("avgpool")
        net.add("scale_channels", **{"from": -2})


def ending(d: Draw, net: Written) -> None:
    """A detector, or scores."""
    boxes, classes = d.whole(1, 3), d.whole(1, 4)
    channels = net.shapes[-1][1]
    if d.flag(0.4):
        # DarkNet's layer is over all elements of a picture, OpenCV's over channels.
        net.add("avgpool")
        net.add("softmax")
        return
    filters = boxes * (5 + classes)
    net.weights += [d.floats(filters), d.floats(filters, channels, 1, 1) * np.float32(0.5)]
    net.add("convolutional", filters=filters, size=1, stride=1, pad=0, activation="linear")


MAKERS = (convolution, convolution, pooling, joining, joining, gating)


def forwarded(net: Written, folder: Path, x: Array) -> list[Array]:
    """What OpenCV makes of all layers."""
    (folder / "model.cfg").write_text(net.text)
    content = struct.pack("<iiiQ", 0, 2, 5, 0) + b"".join(w.astype("<f4").tobytes() for w in net.weights)
    (folder / "model.weights").write_bytes(content)
    read = cv2.dnn.readNetFromDarknet(str(folder / "model.cfg"), str(folder / "model.weights"))
    for switch in ("enableFusion", "enableWinograd"):
        getattr(read, switch)(False)
    read.setInput(x)
    return [np.array(read.forward())]


def write(d: Draw, folder: Path, number: int) -> str | None:
    shape = (1, d.whole(1, 4), d.whole(1, 12), d.whole(1, 12))
    x = np.abs(d.floats(*shape))
    net, wanted, result, names = Written(*shape[1:]), d.whole(1, 4), None, []
    for _ in range(20):
        if len(names) == wanted:
            break
        maker = d.of(*MAKERS) if len(names) + 1 < wanted or d.flag() else ending
        longer = net.copy()
        sections = longer.text.count("[")
        try:
            maker(d, longer)
            (made,) = forwarded(longer, folder, x)
        except (cv2.error, ValueError):
            continue
        if made.ndim != 4 or not 0 < made.size < 20000 or not np.isfinite(made).all():
            continue
        # A layer between, as of [sam], has the shape of the last one or is read by no other.
        between = longer.text.count("[") - sections - 1
        longer.shapes += [(0, 0, 0, 0)] * between + [made.shape]
        net, result = longer, made
        names.append(maker.__name__)
    if result is None:
        return None
    (result,) = forwarded(net, folder, x)
    save_arrays(folder, {"data": x}, [result])
    return " ".join(net.text.split())


cv2.setNumThreads(1)
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

if __name__ == "__main__":
    write_cases(write, "random_layers.darknet_layers")
