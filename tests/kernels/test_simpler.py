"""Schedules that ask less of proofs: a kernel over open sizes whose loops are not proved as the rules say is on the
device by another one, and on the CPU only where none is proved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import onnx
import pytest

from sterna.api import compile_model
from sterna.choices import Otherwise
from sterna.compiled import Compiled
from sterna.errors import error
from sterna.loops import program as P
from sterna.passes import programs
from sterna.passes.kernels import CPU
from support.fragment_products import with_fragments
from support.halves import in_halves
from support.open_networks import OpenGraph

SIZES = {"batch": (0, 8), "length": (0, 300)}


def network() -> onnx.ModelProto:
    """x w, where rows are over two open sizes, in float16."""
    g = OpenGraph(seed=3)
    g.output(g.node("MatMul", g.input("x", ["batch", "length", 64]), g.weight(64, 96)))
    return in_halves(g.finished("rows"))


def is_tiled(function: P.Function) -> bool:
    """Whether threads bring something into shared memory."""
    return any(isinstance(s, P.Alloc) and s.buffer.scope.name == "shared" for s in P.walk(function.body))


def refusing(monkeypatch: pytest.MonkeyPatch, refused: Callable[[P.Function], bool]) -> tuple[Compiled, Counter[str]]:
    """The network where such programs of the device are not proved, and how often each was tried there."""
    tried, real = Counter[str](), programs.finish_lowered

    def finish(call: Any, lowered: P.Function, target: Any) -> Any:
        function = real(call, lowered, target)
        if target.device is not None:
            tried[str(function.body)] += 1
            if refused(function):
                raise error("E0306", "two tasks touch the same element of out")
        return function

    monkeypatch.setattr(programs, "finish_lowered", finish)
    return compile_model(network(), "cuda-sm80", dims=SIZES), tried


@pytest.mark.parametrize(
    ("refused", "fragments", "tiles"),
    [
        (lambda f: False, True, True),
        (lambda f: with_fragments(f.body), False, True),
        (lambda f: with_fragments(f.body) or is_tiled(f), False, False),
    ],
    ids=["fragments", "tiles", "elements"],
)
def test_products(
    monkeypatch: pytest.MonkeyPatch, refused: Callable[[P.Function], bool], fragments: bool, tiles: bool
) -> None:
    made, tried = refusing(monkeypatch, refused)
    (kernel,) = made.kernels
    assert kernel.place == "cuda"
    assert with_fragments(kernel.function.body) == fragments
    assert is_tiled(kernel.function) == tiles
    assert set(tried.values()) == {1}


def test_the_first_problem_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is proved: what was not proved of the schedule by the rules."""
    made, tried = refusing(monkeypatch, lambda f: True)
    assert [call.place for call in made.calls] == [CPU]
    assert made.calls[0].stay is not None
    assert made.calls[0].stay.facts["code"] == "E0306"
    assert len(tried) >= 3
    assert set(tried.values()) == {1}


def test_only_what_is_given_is_otherwise() -> None:
    chooser = Otherwise({"form": "tiles", "depth": 9})
    assert chooser.choose("form", lambda: ("rows", "tiles"), "first") == "tiles"
    assert chooser.choose("form", lambda: ("rows",), "first") == "first", "it cannot be so"
    assert chooser.choose("depth", lambda: (4, 8), 8) == 8
    assert chooser.choose("neighbours", lambda: pytest.fail("nobody asked"), 4) == 4
