"""What raises before a trial, while choices are drawn or ranked, is in the records as a bug of Sterna."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sterna.choices import BY_RULE, Choice, Chooser, Trace
from sterna.driver import reading
from sterna.errors import error
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.options import Options
from sterna.records import Database
from sterna.schedule.schedule import Schedule
from sterna.targets.description import host
from sterna.tuning import scoring
from sterna.tuning.cost_model import CostModel
from sterna.tuning.kernels import Task
from sterna.tuning.scoring import Scorer
from sterna.tuning.tuner import Tuner
from sterna.tuning.unforeseen import Bug, internal
from sterna.tuning.worker import Trial


class Pretended:
    """A device on which every choice costs the same."""

    unit, devices, width = "s", ("",), 1

    def measure(self, task: Task, choice: Choice) -> Trial:
        return Trial(choice or {"none": 1}, "", (1.0,), "", (1.0,) * 53)

    def measure_all(self, task: Task, choices: Sequence[Choice]) -> Iterator[Trial]:
        for choice in choices:
            yield self.measure(task, choice)

    def turns(self, bundles: Sequence[Path], part: bool = False) -> str:
        return "nothing is measured"

    def __enter__(self) -> Pretended:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def tuner(database: Database, explorer: str) -> Tuner:
    """Of one product of matrices."""
    weights = np.random.default_rng(3).standard_normal((16, 32)).astype(np.float32)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (4, c)) for n, c in (("x", 16), ("y", 32))]
    constant = helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "product", ends[:1], ends[1:], [constant])
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    options = Options(host(), "llvm")
    return Tuner(read_model(Source.of(model), reading(options)), options, database, "", explorer, 5, Pretended())


def errors(database: Database) -> list[str]:
    return [record.error for record in database.trials() if record.error]


@pytest.mark.parametrize("explorer", ["random", "evolution", "tpe"])
def test_a_strategy_that_raises_while_choices_are_drawn(
    explorer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is recorded once for all choices that it refuses, with the decisions that led there; a run that goes on does not
    record it again, and no trial is spent."""
    whole = Task.schedule

    def broken(self: Task, chooser: Chooser = BY_RULE) -> Schedule:
        found = whole(self, chooser)
        tile = chooser.choice.get("tile") if isinstance(chooser, Trace) else None
        if isinstance(tile, tuple) and tile[0] % 2:
            raise IndexError("rows without a vector")
        return found

    monkeypatch.setattr(Task, "schedule", broken)
    with Database(tmp_path / "t.db") as database:
        for trials in (24, 8):
            search = tuner(database, explorer)
            search.search(trials)
            assert search.trials == trials
            assert not search.kernels[0].failed
        (text,) = errors(database)
        assert text.startswith("error[E0901]: internal error: IndexError: rows without a vector (test_tune_bugs.py")
        (record,) = (each for each in database.trials() if each.error)
        assert record.choice["tile"][0] % 2 == 1  # type: ignore[index]
        assert (record.samples, record.features, record.explorer) == ((), (), explorer)


def test_features_that_raise_while_choices_are_ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are told of with the choice, which ranks by no features; a schedule that is illegal is no bug."""
    with Database(tmp_path / "t.db") as database:
        task = tuner(database, "evolution").kernels[0].task
    illegal = error("E0302", "an illegal step", fix="another one")
    told: list[tuple[Choice, str]] = []
    bug: Bug = lambda choice, problem: told.append((choice, internal(problem)))  # noqa: E731
    for problem in (KeyError("no such nest"), illegal, None):
        scorer = Scorer(task, CostModel(), bug)

        def features(*_: object, problem: Exception | None = problem) -> tuple[float, ...]:
            if problem is not None:
                raise problem
            return (1.0,)

        monkeypatch.setattr(scoring, "features_of", features)
        assert scorer.features({"family": "window"}) == (() if problem else (1.0,))
        assert [*scorer.score([{"family": "window"}] * 2)] == [0.0, 0.0]
    ((choice, text),) = told
    assert choice == {"family": "window"}
    assert text.startswith("error[E0901]: internal error: KeyError: 'no such nest' (test_tune_bugs.py")
