"""Every operator at each of its versions: the forms of old operator sets, and random nodes wherever they are legal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from onnx import defs

from sterna.debug.interpret import interpret
from sterna.frontends.onnx import read
from support.nodes import STRATEGIES, NodeCase
from support.nodes.case import Known
from support.nodes.forms import FORMS
from support.nodes.reference import agree, expected_of

SETTINGS = settings(
    max_examples=16, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def check(case: NodeCase, expected: Sequence[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        found = interpret(read(case.model()), case.feeds)
    agree(case, list(found.values()), list(expected))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.case.op}-{form.case.opset}")
def test_forms_of_old_operator_sets(form: Known) -> None:
    expected = expected_of(form.case) if form.expected is None else form.expected
    assert expected is not None, "nothing says what this node computes"
    check(form.case, expected)


def versions(op: str) -> list[int]:
    """The operator sets of the installed onnx package that changed it."""
    return sorted({s.since_version for s in defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", op)})


def legal(case: NodeCase) -> bool:
    """Whether the node has the attributes, operands and types of its operator set."""
    try:
        onnx.checker.check_model(case.model(), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, onnx.defs.SchemaError, RuntimeError):
        return False
    return True


def expected_at(case: NodeCase, sets: Sequence[int]) -> list[np.ndarray] | None:
    """What the node computes; where nothing runs it at its version, by the next version that something does."""
    for opset in sets:
        if opset >= case.opset and legal(later := replace(case, opset=opset)):
            found = expected_of(later)
            if found is not None:
                return found
    return None


@pytest.mark.parametrize("op", sorted(STRATEGIES))
def test_random_nodes_at_every_version(op: str) -> None:
    sets = versions(op)
    left = set(sets)

    @SETTINGS
    @given(st.data())
    def run(data: Any) -> None:
        case = STRATEGIES[op](data.draw)
        for opset in sorted(left):
            at = replace(case, opset=opset)
            if legal(at) and (expected := expected_at(at, sets)) is not None:
                check(at, expected)
                left.discard(opset)

    run()
    # Where no random node is legal, or nothing runs one, its form is written out.
    assert left <= {form.case.opset for form in FORMS if form.case.op == op}, f"{op} at {sorted(left)}"
