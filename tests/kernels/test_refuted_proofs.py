"""Proofs give the same answers where nothing is refuted by numbers first."""

from __future__ import annotations

from typing import Any

import pytest

from sterna.api import compile_model
from sterna.ir.integer import Int
from sterna.loops import prove, verify
from sterna.loops.refute import Box
from support.open_networks import mobile

#: Questions of a model between those that are asked twice.
EVERY = 9


def test_proofs_give_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the questions that the kernels of a network over open heights and widths ask."""
    asked: list[tuple[Any, ...]] = []

    def note(value: Int, ranges: Any, known: Any = ()) -> bool:
        answer = prove.at_least_zero(value, ranges, known)
        asked.append((value, dict(ranges), tuple(known), answer))
        return answer

    monkeypatch.setattr(verify, "at_least_zero", note)
    compile_model(mobile([(3, 16, 16, 2, False)]), "opencl", dims={"height": (32, 512), "width": (32, 512)})
    assert len(asked) > 50
    # And a little less, which most often is not shown.
    less = [(value - 1, *rest, prove.at_least_zero(value - 1, *rest)) for value, *rest, _ in asked[::EVERY]]
    assert any(not answer for *_, answer in less)
    monkeypatch.setattr(prove, "is_refuted", lambda value: False)
    monkeypatch.setattr(Box, "refutes", lambda *parts: False)
    for each in (prove._least_of_dimensions, prove._plainly):
        each.cache_clear()
    for value, ranges, known, answer in (*asked[::EVERY], *less):
        assert prove.at_least_zero(value, ranges, known) == answer, value
