"""A short run of the fuzzer that reads: damaged models are models or refused."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

from changes import Stock, changed_value, damaged
from format_seeds import SEEDS
from frame import Budget, Finding
from model_mutations import mutated
from read_fuzzer import _Read
from watched import Bad, note

FORMS = ("darknet", "caffe", "mxnet", "tensorflow", "tensorflow_js", "saved_model", "coreml")
COUNT = 25


@pytest.mark.parametrize("form", FORMS)
def test_damaged_models(form: str, tmp_path: Path) -> None:
    models = SEEDS[form]()
    if not models:
        pytest.skip("what its models are made with is not installed")
    read = _Read()
    for number in range(COUNT):
        content = mutated(form, models, Random(f"test:{form}:{number}"))
        bad = read(content, tmp_path)
        assert bad is None or bad.kind == "warning", (number, bad)  # versions of libraries differ in what they warn of
    assert 0 < read.accepted < COUNT


def test_the_same_seed_damages_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it does: archives have no times."""
    models = SEEDS["darknet"]()
    first = mutated("darknet", models, Random(3))
    now = time.localtime()
    monkeypatch.setattr(time, "localtime", lambda *_: time.struct_time((now[0] + 1, *now[1:])))
    assert mutated("darknet", models, Random(3)) == first


def test_damage_names_operators() -> None:
    """A text of a JSON value becomes an operator that there is."""
    drawn = [changed_value({"op": "Relu"}, Random(n), ["Tanh"]) for n in range(40)]
    assert {"op": "Tanh"} in drawn


def test_bytes_are_damaged() -> None:
    assert {damaged(b"abcdefgh", Random(n), Stock()) for n in range(40)} != {b"abcdefgh"}


def test_a_finding_is_saved_at_once(tmp_path: Path) -> None:
    """The smallest input of each place, so that a run that is ended loses nothing."""
    found: dict[str, Finding] = {}
    budget = Budget(60, findings=tmp_path)
    for content in (b"longer", b"short", b"the longest"):
        note(found, Bad("crash", "the same place"), content, budget)
    note(found, Bad("hang", "another place"), b"other", budget)
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == [b"other", b"short"]
