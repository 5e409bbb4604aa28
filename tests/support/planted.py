"""Faults planted into the compiler, for what is to find them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sterna import pipeline
from sterna.pipeline import Pass


def plant(monkeypatch: pytest.MonkeyPatch, name: str, spoil: Callable[[Any], Any]) -> None:
    """What the pass of that name makes is spoiled from now on; a pass that does not apply still does not."""
    entries = {each.name: each for each in pipeline.PIPELINE}
    real = entries[name]
    spoiled = replace(real, run=lambda state, context: spoil(real.run(state, context)))
    put(monkeypatch, tuple(spoiled if each is real else each for each in pipeline.PIPELINE))


def put(monkeypatch: pytest.MonkeyPatch, entries: tuple[Pass, ...]) -> None:
    """Another pipeline."""
    monkeypatch.setattr(pipeline, "PIPELINE", entries)
