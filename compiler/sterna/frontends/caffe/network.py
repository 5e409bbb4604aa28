"""A Caffe network as it runs outside of training: layers of today's form, and the inputs.

Descriptions of version 1 (`layers`, types in capitals) and of version 0 (a `layer` within each) are brought into
today's form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sterna.errors import error
from sterna.frontends.caffe.prototxt import Message
from sterna.frontends.caffe.upgrade import of_version_0, type_of_version_1

#: Layers that only mean something while training, or that bring data which the program brings itself.
_DATA = ("Data", "ImageData", "HDF5Data", "MemoryData", "WindowData", "DummyData", "AnnotatedData", "Python_Data")
_TRAINING = (
    "Accuracy", "EuclideanLoss", "HingeLoss", "InfogainLoss", "MultinomialLogisticLoss", "ContrastiveLoss",
    "MultiBoxLoss", "SmoothL1Loss", "HDF5Output", "Silence", "DetectionEvaluate",
)  # fmt: skip
#: What a loss is without a label.
_LOSSES = {"SoftmaxWithLoss": "Softmax", "SigmoidCrossEntropyLoss": "Sigmoid"}


@dataclass(frozen=True)
class Layer:
    """A layer.

    Args:
        bottoms, tops: names of what it reads and gives.
        message: with its settings.
    """

    kind: str
    name: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    message: Message

    def settings(self, name: str) -> Message:
        """The message of that name, such as `convolution_param`."""
        return self.message.message(name)


@dataclass(frozen=True)
class Network:
    """A network: its inputs with their sizes, its layers in order."""

    name: str
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    layers: tuple[Layer, ...]

    @property
    def outputs(self) -> list[str]:
        """What no layer reads after it is made, in the order in which it is made."""
        open_: dict[str, None] = {}
        for layer in self.layers:
            for bottom in layer.bottoms:
                open_.pop(bottom, None)
            for top in layer.tops:
                open_[top] = None
        return list(open_)


def network_of(net: Message) -> Network:
    """A description as a network.

    Raises:
        SternaError: E0103, it contradicts itself; E0105, an input has no sizes.
    """
    inputs = _declared_inputs(net)
    layers: list[Layer] = []
    dropped: set[str] = set()
    for n, message in enumerate([*net.messages("layers"), *net.messages("layer")]):
        layer = _layer(message, n)
        if not _is_tested(message) or layer.kind in _TRAINING:
            dropped.update(set(layer.tops) - set(layer.bottoms))
            continue
        if layer.kind == "Input":
            inputs += _input_layer(layer)
            continue
        if layer.kind in _DATA:
            fix = "take the network's deploy.prototxt, whose inputs have sizes"
            raise error("E0105", f'the layer "{layer.name}" reads data ({layer.kind})', fix=fix)
        if layer.kind in _LOSSES:
            layer = Layer(_LOSSES[layer.kind], layer.name, layer.bottoms[:1], layer.tops[:1], layer.message)
        missing = [bottom for bottom in layer.bottoms if bottom in dropped]
        if missing and len(missing) == len(layer.bottoms):
            dropped.update(layer.tops)
            continue
        layers.append(layer)
    if not inputs:
        raise error("E0105", "the network has no inputs", fix="take its deploy.prototxt, which has")
    return Network(net.text("name", "net"), tuple(inputs), tuple(layers))


def _layer(message: Message, position: int) -> Layer:
    inner = message.messages("layer")
    if inner:
        message = of_version_0(message, inner[0])
    kind = type_of_version_1(message.text("type"))
    name = message.text("name", f"layer{position}")
    if not kind:
        raise error("E0103", f'the layer "{name}" has no type')
    if kind == "Python":  # a layer that is code of its own: its class is its kind
        kind = message.message("python_param").text("layer") or kind
    tops = message.texts("top") or []
    return Layer(kind, name, tuple(message.texts("bottom")), tuple(tops), message)


def _is_tested(message: Message) -> bool:
    """Whether a layer runs outside of training."""

    def phases(key: str) -> list[str]:
        return [rule.text("phase").upper() for rule in message.messages(key)]

    included, excluded = phases("include"), phases("exclude")
    own = message.text("phase").upper()
    if own == "TRAIN" or "TEST" in excluded:
        return False
    return not included or any(phase != "TRAIN" for phase in included)


def _declared_inputs(net: Message) -> list[tuple[str, tuple[int, ...]]]:
    """`input:` with `input_dim:`, four for each, or with `input_shape`."""
    names, dims = net.texts("input"), net.integers("input_dim")
    shapes = [tuple(each.integers("dim")) for each in net.messages("input_shape")]
    if not shapes and dims:
        shapes = [tuple(dims[n : n + 4]) for n in range(0, len(dims), 4)]
    return [(name, _sizes(name, shapes[n] if n < len(shapes) else ())) for n, name in enumerate(names)]


def _input_layer(layer: Layer) -> list[tuple[str, tuple[int, ...]]]:
    shapes = [tuple(each.integers("dim")) for each in layer.settings("input_param").messages("shape")]
    shapes = shapes * len(layer.tops) if len(shapes) == 1 else shapes
    return [(top, _sizes(top, shapes[n] if n < len(shapes) else ())) for n, top in enumerate(layer.tops)]


def _sizes(name: str, sizes: Any) -> tuple[int, ...]:
    if not sizes or any(not 0 < size < 1 << 24 for size in sizes):
        raise error(
            "E0105", f'the input "{name}" has the sizes {list(sizes)}', fix="say them in the prototxt: input_shape"
        )
    return tuple(sizes)
