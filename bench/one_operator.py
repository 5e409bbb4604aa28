"""Models of one node, for the rows of bench/operators.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

Array = Any
Shape = Sequence[int]

FLOAT, HALF, INT64 = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.INT64)
OPERATOR_SET = 21


@dataclass(frozen=True)
class Row:
    """A model of one operator; `make` gives it."""

    name: str
    make: Callable[[], onnx.ModelProto]

    @property
    def family(self) -> str:
        return self.name.partition("-")[0]


def weights(*shape: int, seed: int = 0) -> Array:
    """Random numbers whose sums of products stay near 1."""
    inner = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    drawn = np.random.default_rng(seed).standard_normal(shape) / max(inner, 1) ** 0.5
    return drawn.astype(np.float32)


def one(
    op: str,
    inputs: Mapping[str, Shape | tuple[Shape, int]],
    constants: Mapping[str, Array] | None = None,
    order: Sequence[str] = (),
    results: int = 1,
    domain: str = "",
    dtype: int = FLOAT,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node.

    Args:
        inputs: shapes by name, or (shape, type); constants: arrays by name.
        order: names of the node's inputs, "" for one that is left out; inputs, then constants, by default.
        dtype: of inputs of which none is named, and of constants of floats.
    """
    constants = dict(constants or {})
    if dtype == HALF:
        constants = {k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in constants.items()}
    given = []
    for name, shape in inputs.items():
        typed = isinstance(shape, tuple) and len(shape) == 2 and not isinstance(shape[0], int)
        sizes, kind = shape if typed else (shape, dtype)
        given.append(helper.make_tensor_value_info(name, kind, list(sizes)))
    outputs = [f"y{n}" for n in range(results)]
    node = helper.make_node(op, list(order or [*inputs, *constants]), outputs, op.lower(), domain=domain, **attributes)
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    empty = [helper.make_empty_tensor_value_info(name) for name in outputs]
    imports = [helper.make_opsetid("", OPERATOR_SET)] + ([helper.make_opsetid(domain, 3)] if domain else [])
    graph = helper.make_graph([node], "one", given, empty, stored)
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    model = shape_inference.infer_shapes(model, strict_mode=True)
    for result in model.graph.output:  # what inference does not know is as the first input
        if not result.type.tensor_type.elem_type:
            result.type.CopyFrom(model.graph.input[0].type)
    return model
