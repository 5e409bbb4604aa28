"""Random nodes of every operator, compiled, against ONNX Runtime, or ONNX's reference where that has no kernel.

    STERNA_CASES=2000 pytest tests/ops/test_properties.py      # that many cases, new ones in every run

Without it: some of every operator, the same in every run. What ever failed is kept in FAILED.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx.reference
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import sterna
from nodes import STRATEGIES, NodeCase

COUNT = int(os.environ.get("STERNA_CASES", "0"))
EACH = max(1, round(COUNT / len(STRATEGIES))) if COUNT else 2
SETTINGS = settings(
    max_examples=EACH, deadline=None, derandomize=not COUNT, database=None, suppress_health_check=list(HealthCheck)
)


def expected_of(case: NodeCase) -> list[np.ndarray] | None:
    """What the node computes; None if it is not valid."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = case.model()
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found: list[np.ndarray] = session.run(None, case.feeds)
    except Exception:
        try:
            with np.errstate(all="ignore"):
                found = onnx.reference.ReferenceEvaluator(model).run(None, case.feeds)
        except Exception:
            return None
    return [np.asarray(a) for a in found]


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


#: Results of few bits, where a quotient on the boundary may fall on either side.
ROUNDED = ("QuantizeLinear", "QLinearMatMul", "DynamicQuantizeLinear")


def check(case: NodeCase) -> None:
    expected = expected_of(case)
    if expected is None:
        reject()
    with sterna.compile(case.model(), generator="llvm") as bundle:
        agree(case, list(bundle.run(case.feeds).values()), expected)


@pytest.mark.parametrize("op", sorted(STRATEGIES))
def test_random_nodes(op: str) -> None:
    @SETTINGS
    @given(st.data())
    def run(data: Any) -> None:
        check(STRATEGIES[op](data.draw))

    run()


def _of(op: str, *values: float, **attributes: Any) -> NodeCase:
    return NodeCase(op, (np.array(values, np.float32),), attributes=attributes, loose=20)


FAILED: dict[str, NodeCase] = {
    "asinh-overflow": _of("Asinh", np.inf, -np.inf, 3e37, -3e37, 1e-30),
    "acosh-overflow": _of("Acosh", np.inf, 1.5, 3e37, -3e37, 0.5),
    "atanh-ends": _of("Atanh", -0.999, 1.0, -1.0, 0.5, np.inf),
    "variance-of-close-numbers": NodeCase(
        "MeanVarianceNormalization",
        (np.array([[1.0, 2.0, 2.9], [1.01, -2.0, 2.901]], np.float32),),
        attributes={"axes": [0]},
        loose=500,
        opset=13,
    ),
}


@pytest.mark.parametrize("name", FAILED)
def test_what_once_failed(name: str) -> None:
    check(FAILED[name])
