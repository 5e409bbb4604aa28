"""Models in which the data decide how large tensors are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Feeds = Sequence[Mapping[str, np.ndarray]]


class Net:
    """A model in the making."""

    def __init__(self, **inputs: tuple[int, Sequence[int | str]]):
        self.inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, array: Any, dtype: str = "int64") -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def __call__(self, op: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        out = out or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], f"n{len(self.nodes)}", **attributes))
        return out

    def several(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, list(inputs), list(outputs), f"n{len(self.nodes)}", **attributes))

    def model(self, **outputs: tuple[int, Sequence[int | str | None]]) -> onnx.ModelProto:
        results = [helper.make_tensor_value_info(name, *kind) for name, kind in outputs.items()]
        graph = helper.make_graph(self.nodes, "net", self.inputs, results, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        return model


def detector(boxes: int, classes: int, limit: int | None) -> onnx.ModelProto:
    """The tail of an exported detector: suppression, then boxes, scores and classes of what is left, and one table."""
    net = Net(boxes=(F32, [1, boxes, 4]), scores=(F32, [1, classes, boxes]))
    most = net.constant([limit]) if limit is not None else net.constant([boxes])
    overlap, least = net.constant([0.4], "float32"), net.constant([0.3], "float32")
    chosen = net("NonMaxSuppression", "boxes", "scores", most, overlap, least, out="selected")
    column = [net("Gather", chosen, net.constant([k]), axis=1) for k in range(3)]
    flat = [net("Squeeze", c, net.constant([1])) for c in column]
    net("Gather", net("Squeeze", "boxes", net.constant([0])), flat[2], axis=0, out="picked")
    net("GatherND", "scores", chosen, out="confidence")
    net("Cast", flat[1], to=F32, out="label")
    rows = [net("Unsqueeze", name, net.constant([1])) for name in ("confidence", "label")]
    net("Concat", "picked", *rows, axis=1, out="table")
    best = net("Min", net("Gather", net("Shape", "confidence"), net.constant([0])), net.constant([3]))
    net("Slice", "table", net.constant([0]), best, net.constant([0]), out="top")
    return net.model(
        selected=(I64, [None, 3]), picked=(F32, [None, 4]), confidence=(F32, [None]), label=(F32, [None]),
        table=(F32, [None, 6]), top=(F32, [None, 6]),
    )  # fmt: skip


def detections(boxes: int, classes: int) -> Feeds:
    random = np.random.default_rng(6)
    corner = random.random((1, boxes, 2)) * 20
    place = np.concatenate([corner, corner + 1 + 4 * random.random((1, boxes, 2))], axis=2).astype(np.float32)
    scores = random.random((1, classes, boxes)).astype(np.float32)
    same = np.broadcast_to(place[:, :1], place.shape).copy()
    apart = (place - place + np.arange(boxes)[None, :, None] * 9 + np.array([0, 0, 3, 3])).astype(np.float32)
    return [
        {"boxes": place, "scores": scores}, {"boxes": place, "scores": scores * 0.1}, {"boxes": same, "scores": scores},
        {"boxes": apart, "scores": scores * 0 + np.linspace(0.5, 1, boxes, dtype=np.float32)},
        {"boxes": place, "scores": scores * 0.5},
    ]  # fmt: skip
