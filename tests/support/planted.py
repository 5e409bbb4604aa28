"""Faults planted into the compiler, for what is to find them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sterna import pipeline
from sterna.loops import program as P
from sterna.pipeline import Pass
from sterna.te import expr as E


def plant(monkeypatch: pytest.MonkeyPatch, name: str, spoil: Callable[[Any], Any]) -> None:
    """What the pass of that name makes is spoiled from now on; a pass that does not apply still does not."""
    entries = {each.name: each for each in pipeline.PIPELINE}
    real = entries[name]
    spoiled = replace(real, run=lambda state, context: spoil(real.run(state, context)))
    put(monkeypatch, tuple(spoiled if each is real else each for each in pipeline.PIPELINE))


def put(monkeypatch: pytest.MonkeyPatch, entries: tuple[Pass, ...]) -> None:
    """Another pipeline."""
    monkeypatch.setattr(pipeline, "PIPELINE", entries)


def least_in_place_of_greatest(stmt: P.Stmt) -> P.Stmt:
    """Every maximum of a loop program is a minimum."""

    def rule(node: E.Expr) -> E.Expr | None:
        return replace(node, op="minimum") if isinstance(node, E.Binary) and node.op == "maximum" else None

    if (value := P.value_of(stmt)) is not None:
        stmt = P.with_value(stmt, E.rewrite(value, rule))
    return P.map_children(stmt, least_in_place_of_greatest)
