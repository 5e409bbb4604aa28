"""Kernels whose places are tried before they are compiled are lowered, and proved right, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sterna.api import compile_model
from sterna.errors import SternaError, error
from sterna.passes import programs
from sterna.passes.kernels import CPU
from support.open_networks import mobile, rows

SIZES = {"dims": {"height": (32, 512), "width": (32, 512)}}
BLOCK = (3, 16, 16, 2, True)


def test_every_kernel_is_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for devices as they are, and once for each width of subgroups that they may have."""
    finished, real = Counter[tuple[int, str]](), programs.finish_lowered

    def note(call: Any, lowered: Any, target: Any) -> Any:
        finished[target.threads.subgroup, call.key] += 1
        return real(call, lowered, target)

    monkeypatch.setattr(programs, "finish_lowered", note)
    made = compile_model(mobile([BLOCK]), "opencl", **SIZES)
    assert set(finished.values()) == {1}
    plain = made.options.target.threads
    assert plain is not None
    assert sum(width == plain.subgroup for width, _ in finished) == len(made.kernels)
    assert all(call.place == "opencl" for call in made.calls)


def test_programs_are_those_that_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compile_model(mobile([BLOCK]), "opencl", **SIZES)
    monkeypatch.setattr(programs.Programs, "lowered", lambda self, *call: programs.lower_call(*call))
    monkeypatch.setattr(programs.Programs, "finished", lambda self, *call: programs.finish_lowered(*call))
    again = compile_model(mobile([BLOCK]), "opencl", **SIZES)
    assert again.module == made.module
    assert again.source == made.source


def test_what_was_refused_is_refused_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not proved on the device stays on the CPU, whose loops are others."""
    tried, real = Counter[str](), programs.finish_lowered

    def refuse(call: Any, lowered: Any, target: Any) -> Any:
        tried[f"{target.name} {call.kernel.name}"] += 1
        if target.name == "opencl" and call.kernel.name == "softmax":
            raise error("E0306", "not proved")
        return real(call, lowered, target)

    monkeypatch.setattr(programs, "finish_lowered", refuse)
    made = compile_model(rows(), "opencl", dims={"batch": (1, 4), "length": (2, 9)})
    assert [call.kernel.name for call in made.calls if call.place == CPU] == ["softmax"]
    assert tried["opencl softmax"] == 1
    call = next(call for call in made.calls if call.place == CPU)
    known = programs.Programs()
    target = made.options.target
    for _ in range(2):
        with pytest.raises(SternaError, match="not proved"):
            known.finished(call, made.kernels[0].function, target)
    assert tried["opencl softmax"] == 2
