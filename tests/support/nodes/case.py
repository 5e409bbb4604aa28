"""One ONNX node with its operands, as a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 21


@dataclass(frozen=True, eq=False)
class NodeCase:
    """One node: operands (None: left out), the positions of those that are constants, and attributes.

    Args:
        loose: how much larger than usual the tolerance is, for sums of many products or steps.
    """

    op: str
    operands: tuple[np.ndarray | None, ...]
    fixed: frozenset[int] = frozenset()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    loose: float = 1.0
    opset: int = OPSET

    def __repr__(self) -> str:
        shown = [
            None if a is None else (a.tolist() if a.size < 20 else f"{a.dtype}{list(a.shape)}") for a in self.operands
        ]
        kinds = [None if a is None else f"{a.dtype}{list(a.shape)}" for a in self.operands]
        return f"{self.op}({kinds} = {shown}, constant {sorted(self.fixed)}, {dict(self.attributes)})"

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        return {f"x{n}": a for n, a in enumerate(self.operands) if a is not None and n not in self.fixed}

    def model(self) -> onnx.ModelProto:
        names = ["" if a is None else f"x{n}" for n, a in enumerate(self.operands)]
        results = [f"y{n}" for n in range(self.outputs)]
        node = helper.make_node(self.op, names, results, name="node", **self.attributes)
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for name, a in self.feeds.items()
        ]
        weights = [
            numpy_helper.from_array(a, f"x{n}")
            for n, a in enumerate(self.operands)
            if a is not None and n in self.fixed
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in results]
        graph = helper.make_graph([node], "one", inputs, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        return onnx.shape_inference.infer_shapes(model, data_prop=True)


@dataclass(frozen=True)
class Known:
    """A node, and what it computes where that is said here; otherwise a reference runs it."""

    case: NodeCase
    expected: Sequence[np.ndarray] | None = None
