"""MobileNetV2, ResNet-18 and ResNet-50 as PyTorch's exporter writes them, with random weights.

The graphs are those of torchvision's classes: Conv (with the batch normalization folded into weight and bias, as the
exporter does in evaluation mode), Relu or Clip(0, 6), Add, GlobalAveragePool, Flatten, Gemm with transB = 1. Weights
are scaled so that activations keep their size from layer to layer; the same seed gives the same model.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Network:
    """Collects nodes and weights of one network.

    Args:
        folded: fold batch normalization into the convolutions; otherwise its nodes stay.
    """

    def __init__(self, name: str, seed: int, folded: bool):
        self.name, self.folded = name, folded
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.count = 0

    def weight(self, name: str, data: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(data, np.float32), name))
        return name

    def node(self, op: str, inputs: list[str], scope: str, **attributes: object) -> str:
        output = f"/{scope}/{op}_output_{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"/{scope}/{op}_{self.count}", **attributes))
        self.count += 1
        return output

    def conv(
        self,
        x: str,
        scope: str,
        cin: int,
        cout: int,
        *,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        gain: float = 2.0,
    ) -> str:
        """Convolution and batch normalization, with the padding that keeps the size at stride 1."""
        fan = cin // groups * kernel * kernel
        shape = (cout, cin // groups, kernel, kernel)
        w = self.weight(f"{scope}.weight", self.random.standard_normal(shape, np.float32) * np.sqrt(gain / fan))
        inputs = [x, w]
        if self.folded:
            inputs.append(self.weight(f"{scope}.bias", self.random.standard_normal(cout, np.float32) * 0.1))
        pad = kernel // 2
        y = self.node("Conv", inputs, scope, dilations=[1, 1], group=groups, kernel_shape=[kernel, kernel],
                      pads=[pad] * 4, strides=[stride, stride])  # fmt: skip
        if self.folded:
            return y
        values = {
            "weight": self.random.uniform(0.8, 1.2, cout),
            "bias": self.random.standard_normal(cout) * 0.1,
            "running_mean": self.random.standard_normal(cout) * 0.1,
            "running_var": self.random.uniform(0.8, 1.2, cout),
        }
        parameters = [self.weight(f"{scope}.bn.{key}", value) for key, value in values.items()]
        return self.node("BatchNormalization", [y, *parameters], f"{scope}.bn", epsilon=1e-5, momentum=0.9)

    def relu(self, x: str, scope: str) -> str:
        return self.node("Relu", [x], scope)

    def relu6(self, x: str, scope: str) -> str:
        if not any(w.name == "relu6.min" for w in self.weights):
            for name, bound in (("relu6.min", 0), ("relu6.max", 6)):
                self.weights.append(numpy_helper.from_array(np.array(bound, np.float32), name))
        return self.node("Clip", [x, "relu6.min", "relu6.max"], scope)

    def add(self, a: str, b: str, scope: str) -> str:
        return self.node("Add", [a, b], scope)

    def finish(self, x: str, channels: int, classes: int, size: int, batch: int | str) -> onnx.ModelProto:
        """Global average, flatten, dense; the model."""
        x = self.node("GlobalAveragePool", [x], "avgpool")
        x = self.node("Flatten", [x], "flatten", axis=1)
        w = self.weight("fc.weight", self.random.standard_normal((classes, channels), np.float32) / np.sqrt(channels))
        b = self.weight("fc.bias", self.random.standard_normal(classes, np.float32) * 0.1)
        self.nodes.append(
            helper.make_node("Gemm", [x, w, b], ["logits"], name="/fc/Gemm", alpha=1.0, beta=1.0, transB=1)
        )
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 3, size, size])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, classes])],
            self.weights,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="pytorch"
        )


def mobilenet_v2(
    size: int = 224, batch: int | str = 1, folded: bool = True, seed: int = 2018, stages: int = 7
) -> onnx.ModelProto:
    """MobileNetV2 1.0 (Sandler et al. 2018), torchvision's graph; or the first of its stages, and its head."""
    net = Network("mobilenet_v2", seed, folded)
    x = net.relu6(net.conv("image", "features.0", 3, 32, kernel=3, stride=2), "features.0")
    channels, block = 32, 1
    for expand, out, repeats, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    )[:stages]:  # fmt: skip
        for n in range(repeats):
            stride = first if n == 0 else 1
            scope = f"features.{block}"
            y, hidden = x, channels * expand
            if expand != 1:
                y = net.relu6(net.conv(y, f"{scope}.expand", channels, hidden, kernel=1), f"{scope}.expand")
            y = net.relu6(
                net.conv(y, f"{scope}.depthwise", hidden, hidden, kernel=3, stride=stride, groups=hidden),
                f"{scope}.depthwise",
            )
            y = net.conv(y, f"{scope}.project", hidden, out, kernel=1, gain=1.0)
            x = net.add(x, y, scope) if stride == 1 and channels == out else y
            channels, block = out, block + 1
    x = net.relu6(net.conv(x, "features.18", channels, 1280, kernel=1), "features.18")
    return net.finish(x, 1280, 1000, size, batch)


def _resnet(
    name: str, layers: tuple[int, ...], bottleneck: bool, *, size: int, batch: int | str, folded: bool, seed: int
) -> onnx.ModelProto:
    net = Network(name, seed, folded)
    x = net.relu(net.conv("image", "conv1", 3, 64, kernel=7, stride=2), "relu")
    x = net.node(
        "MaxPool", [x], "maxpool", ceil_mode=0, dilations=[1, 1], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]
    )
    channels = 64
    for stage, count in enumerate(layers):
        width = 64 << stage
        out = width * 4 if bottleneck else width
        for n in range(count):
            stride = 2 if stage > 0 and n == 0 else 1
            scope = f"layer{stage + 1}.{n}"
            if bottleneck:
                y = net.relu(net.conv(x, f"{scope}.conv1", channels, width, kernel=1), f"{scope}.relu")
                y = net.relu(net.conv(y, f"{scope}.conv2", width, width, kernel=3, stride=stride), f"{scope}.relu_1")
                y = net.conv(y, f"{scope}.conv3", width, out, kernel=1, gain=0.5)
            else:
                y = net.relu(net.conv(x, f"{scope}.conv1", channels, width, kernel=3, stride=stride), f"{scope}.relu")
                y = net.conv(y, f"{scope}.conv2", width, out, kernel=3, gain=0.5)
            if stride != 1 or channels != out:
                x = net.conv(x, f"{scope}.downsample.0", channels, out, kernel=1, stride=stride, gain=1.0)
            x = net.relu(net.add(y, x, scope), f"{scope}.relu_2")
            channels = out
    return net.finish(x, channels, 1000, size, batch)


def resnet18(size: int = 224, batch: int | str = 1, folded: bool = True, seed: int = 2015) -> onnx.ModelProto:
    """ResNet-18 (He et al. 2015), torchvision's graph."""
    return _resnet("resnet18", (2, 2, 2, 2), False, size=size, batch=batch, folded=folded, seed=seed)


def resnet50(size: int = 224, batch: int | str = 1, folded: bool = True, seed: int = 2016) -> onnx.ModelProto:
    """ResNet-50 (v1.5: the stride in the 3 x 3 convolution), torchvision's graph."""
    return _resnet("resnet50", (3, 4, 6, 3), True, size=size, batch=batch, folded=folded, seed=seed)


NETWORKS = {"mobilenet_v2": mobilenet_v2, "resnet18": resnet18, "resnet50": resnet50}
