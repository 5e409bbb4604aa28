"""Random nodes of every operator, compiled, against ONNX Runtime, or ONNX's reference where that has no kernel.

    STERNA_CASES=2000 pytest tests/ops/test_properties.py      # that many cases, new ones in every run

Without it: some of every operator, the same in every run. What ever failed is kept in FAILED.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import sterna
from support.nodes import STRATEGIES, NodeCase
from support.nodes.case import Known
from support.nodes.reference import agree, expected_of

COUNT = int(os.environ.get("STERNA_CASES", "0"))
EACH = max(1, round(COUNT / len(STRATEGIES))) if COUNT else 2
SETTINGS = settings(
    max_examples=EACH, deadline=None, derandomize=not COUNT, database=None, suppress_health_check=list(HealthCheck)
)


def check(case: NodeCase, expected: Sequence[np.ndarray] | None = None) -> None:
    expected = expected_of(case) if expected is None else expected
    if expected is None:
        reject()
    with sterna.compile(case.model(), generator="llvm") as bundle:
        agree(case, list(bundle.run(case.feeds).values()), list(expected))


@pytest.mark.parametrize("op", sorted(STRATEGIES))
def test_random_nodes(op: str) -> None:
    @SETTINGS
    @given(st.data())
    def run(data: Any) -> None:
        check(STRATEGIES[op](data.draw))

    run()


def _of(op: str, *values: float, **attributes: Any) -> Known:
    return Known(NodeCase(op, (np.array(values, np.float32),), attributes=attributes, loose=20))


def _reduced(op: str, shape: tuple[int, ...], axes: Sequence[int]) -> Known:
    return Known(NodeCase(op, (np.zeros(shape, np.float32), np.array(axes, np.int64)), frozenset({1})))


FAILED: dict[str, Known] = {
    "asinh-overflow": _of("Asinh", np.inf, -np.inf, 3e37, -3e37, 1e-30),
    "acosh-overflow": _of("Acosh", np.inf, 1.5, 3e37, -3e37, 0.5),
    "atanh-ends": _of("Atanh", -0.999, 1.0, -1.0, 0.5, np.inf),
    "variance-of-close-numbers": Known(
        NodeCase(
            "MeanVarianceNormalization",
            (np.array([[1.0, 2.0, 2.9], [1.01, -2.0, 2.901]], np.float32),),
            attributes={"axes": [0]},
            loose=500,
            opset=13,
        )
    ),
    "vector-of-nothing": Known(NodeCase("MatMul", (np.zeros((7, 0), np.float32), np.zeros(0, np.float32)))),
    "sum-of-nothing": _reduced("ReduceSum", (1, 1, 1, 1, 0), [0, 1, 2, -1]),
    "log-sum-of-nothing": _reduced("ReduceLogSumExp", (1, 1, 0), [-1]),
    "last-of-the-least": Known(
        NodeCase("ArgMax", (np.zeros((3, 2), np.uint8),), attributes={"axis": 1, "select_last_index": 1})
    ),
    "last-of-the-greatest": Known(
        NodeCase("ArgMin", (np.full((3, 2), 255, np.uint8),), attributes={"axis": 0, "select_last_index": 1})
    ),
    # The largest integer is the last element where steps go back; ONNX Runtime takes it for the end.
    "backwards-to-the-largest-integer": Known(
        NodeCase(
            "Slice",
            (np.ones((1, 2), np.float32), *(np.array(n) for n in ([0], [2**31 - 1], [0], [-1]))),
            frozenset({1, 2, 3, 4}),
        ),
        [np.zeros((0, 2), np.float32)],
    ),
    # What SAME pads is never negative: the window begins at the first element.
    "stride-beyond-the-window": Known(
        NodeCase(
            "LpPool",
            (np.array([[[1.0, 2.0, 3.0]]], np.float32),),
            attributes={"kernel_shape": [1], "strides": [3], "auto_pad": "SAME_UPPER"},
        ),
        [np.array([[[1.0]]], np.float32)],
    ),
}


@pytest.mark.parametrize("name", FAILED)
def test_what_once_failed(name: str) -> None:
    check(FAILED[name].case, FAILED[name].expected)
