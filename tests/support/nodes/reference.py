"""What a node computes: ONNX Runtime, or ONNX's reference where that has no kernel."""

from __future__ import annotations

import numpy as np
import onnx.reference
import onnxruntime

from support.nodes.case import NodeCase

#: Results of few bits, where a quotient on the boundary may fall on either side.
ROUNDED = ("QuantizeLinear", "QLinearMatMul", "DynamicQuantizeLinear")


def expected_of(case: NodeCase) -> list[np.ndarray] | None:
    """What the node computes; None if it is not valid."""
    engines = [_runtime, _reference]
    # ONNX Runtime sums no elements to memory that it never wrote, and keeps dimensions of size 0 that it sums over.
    if any(a is not None and a.size == 0 for n, a in enumerate(case.operands) if n not in case.fixed):
        engines.reverse()
    for engine in engines:
        try:
            return [np.asarray(a) for a in engine(case)]
        except Exception:  # no kernel, or not valid
            continue
    return None


def _runtime(case: NodeCase) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = case.model().SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, case.feeds)


def _reference(case: NodeCase) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return onnx.reference.ReferenceEvaluator(case.model()).run(None, case.feeds)


def agree(case: NodeCase, found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for have, want in zip(found, expected, strict=True):
        assert have.shape == want.shape, case
        assert have.dtype == want.dtype, case
        if want.dtype.kind != "f":
            off = np.abs(have.astype(np.float64) - want.astype(np.float64)).max(initial=0)
            assert off <= (1 if case.op in ROUNDED else 0), (case, have, want)
            continue
        rate = case.loose * (1e-3 if want.dtype.itemsize == 2 else 1e-6)
        a, b = have.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b), err_msg=repr(case))
        finite = np.isfinite(b)
        np.testing.assert_array_equal(a[~finite & ~np.isnan(b)], b[~finite & ~np.isnan(b)], err_msg=repr(case))
        np.testing.assert_allclose(a[finite], b[finite], rtol=rate, atol=rate, err_msg=repr(case))
