"""Random nodes of every operator, compiled, against ONNX Runtime, or ONNX's reference where that has no kernel.

    STERNA_CASES=2000 pytest tests/ops/test_properties.py      # that many cases, new ones in every run

Without it: some of every operator, the same in every run. What ever failed is kept in FAILED.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import sterna
from nodes import STRATEGIES, NodeCase
from nodes.reference import agree, expected_of

COUNT = int(os.environ.get("STERNA_CASES", "0"))
EACH = max(1, round(COUNT / len(STRATEGIES))) if COUNT else 2
SETTINGS = settings(
    max_examples=EACH, deadline=None, derandomize=not COUNT, database=None, suppress_health_check=list(HealthCheck)
)


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
