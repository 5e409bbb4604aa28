"""Nodes of ONNX Runtime's own operators (com.microsoft), and what ONNX Runtime makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from sterna.pipeline import optimize

Operands = Sequence[np.ndarray | None]


def model_of(op: str, operands: Operands, fixed: Sequence[int], outputs: int, attributes: Mapping[str, Any]) -> bytes:
    """One node; the operands at the positions `fixed` are initializers."""
    names = ["" if a is None else f"x{n}" for n, a in enumerate(operands)]
    node = helper.make_node(op, names, [f"y{n}" for n in range(outputs)], domain="com.microsoft", **attributes)
    inputs = [
        helper.make_tensor_value_info(f"x{n}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in enumerate(operands)
        if a is not None and n not in fixed
    ]
    weights = [numpy_helper.from_array(a, f"x{n}") for n, a in enumerate(operands) if a is not None and n in fixed]
    graph = helper.make_graph(
        [node], "one", inputs, [helper.make_empty_tensor_value_info(f"y{n}") for n in range(outputs)], weights
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    result: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return result


def check(
    op: str, operands: Operands, fixed: Sequence[int] = (), outputs: int = 1, step: float = 2e-5,
    compared: Mapping[int, Any] | None = None, **attributes: Any,
) -> None:  # fmt: skip
    """ONNX Runtime and the interpreter, before and after optimization, agree.

    Args:
        step: by how much elements may differ; one, for one in twenty, where the result is rounded to few bits.
        compared: output -> the part of it that is defined, where it is not all of it.
    """

    model = model_of(op, operands, fixed, outputs, attributes)
    feeds = {f"x{n}": a for n, a in enumerate(operands) if a is not None and n not in fixed}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(model, options).run(None, feeds)
    graph = read(onnx.load_from_string(model))
    for version in (graph, optimize(graph, check=True)):
        found = list(interpret(version, feeds).values())
        for n, (have, want) in enumerate(zip(found, expected, strict=True)):
            assert have.dtype == want.dtype
            assert have.shape == want.shape
            part = (compared or {}).get(n, ...)
            a, b = have[part].astype(np.float64), want[part].astype(np.float64)
            if want.dtype.kind in "iu":
                assert (a != b).mean() <= (0 if step < 1 else 0.05)
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=step)
