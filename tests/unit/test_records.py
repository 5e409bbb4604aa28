"""The tuner's records: what a file keeps, merges and refuses; explorers over a space; what a cost model learns."""

from __future__ import annotations

import json
import math
import random
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sterna.choices import BY_RULE, Choice, Trace
from sterna.errors import SternaError
from sterna.records import (
    Algorithms,
    Confirmed,
    Database,
    Record,
    choice_text,
    export_json,
    import_json,
    merge_file,
    target_id,
)
from sterna.targets.description import load_target
from sterna.tuned import Best, best_of
from sterna.tuning import prior
from sterna.tuning.cost_model import CostModel, is_installed
from sterna.tuning.curves import best_so_far, svg, terminal, terminal_predicted
from sterna.tuning.explorers import EXPLORERS, Space, best, best_and_new
from sterna.tuning.prior import MOST_OF_ONE, rows_of, spread, to_bytes

TARGET = load_target("x86-64-v2")


def record(choice: Choice, cost: float | None, kernel: str = "k", explorer: str = "random", time: float = 0) -> Record:
    samples = () if cost is None else (cost, 1.5 * cost)
    features = tuple(
        float(n) for v in choice.values() for n in (v if isinstance(v, tuple) else (v,)) if not isinstance(n, str)
    )
    return Record(
        kernel, "conv", target_id(TARGET), TARGET.name, "cc 1", "", "s", choice, "[]", samples,
        "" if samples else "E0302", features, explorer, "a machine", time,
    )  # fmt: skip


def confirmed(choice: Choice, before: float = 2.0, after: float = 1.0, device: str = "") -> Confirmed:
    where = ("k", target_id(TARGET), TARGET.name, device)
    return Confirmed(*where, choice, "[]", before, after, "s", "a machine", 0.0)


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    first, failed = (
        record({"tile": (4, 2), "order": "rows"}, 1e-6),
        record({"tile": (9, 9), "keep": True}, None, time=1),
    )
    with Database(tmp_path / "new" / "t.db") as database:
        database.add(first)
        database.add(failed)
        database.add(first)  # The same choice again is the same row.
        database.confirm(confirmed(first.choice))
        assert database.trials() == [first, failed]
        assert database.trials(kernel="other") == []
        assert database.confirmed(target_id(TARGET)) == [confirmed(first.choice)]
        assert (first.cost, failed.cost) == (1e-6, math.inf)
        database.forget("k", target_id(TARGET), "")
        assert database.confirmed() == []
    assert sqlite3.connect(tmp_path / "new" / "t.db").execute("pragma journal_mode").fetchone() == ("wal",)


def algorithms(bound: float, after: float = 1.0) -> Algorithms:
    ways: dict[str, Choice] = {"y": {"tile": (4, 4), "narrow": "", "halves": False}}
    return Algorithms(
        "m", "net", target_id(TARGET), "host", "", bound, ways, bound / 2, "", 2.0, after, "s", "a machine", 1.0
    )


def test_algorithms_are_taken_within_their_bound() -> None:
    best = Best([], [algorithms(1e-3), replace(algorithms(1e-2, 0.5), ways={})])
    assert best.algorithms("m", TARGET, 1e-4) is None
    assert best.algorithms("m", TARGET, 1e-3) == algorithms(1e-3).ways
    assert best.algorithms("m", TARGET, 1e-2) == {}, "the faster one"
    assert best.algorithms("other", TARGET, 1e-2) is None


def test_files_are_exported_imported_and_merged(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as a, Database(tmp_path / "b.db") as b:
        a.add(record({"tile": (4, 2)}, 1e-6))
        b.add(record({"tile": (4, 2)}, 3e-6))
        b.add(record({"tile": (2, 2)}, 2e-6))
        b.confirm(confirmed({"tile": (2, 2)}))
        b.decide(algorithms(1e-3))
        assert merge_file(tmp_path / "b.db", a) == (1, 2)
        assert merge_file(tmp_path / "b.db", a) == (0, 0)
        text = export_json(a)
        with Database(tmp_path / "c.db") as c:
            assert import_json(text, c, "export") == (2, 2)
            assert (c.trials(), c.confirmed(), c.algorithms()) == (a.trials(), a.confirmed(), a.algorithms())


@pytest.mark.parametrize(
    "text",
    ["", "[1]", '{"sterna_tuning":9}\n', '{"sterna_tuning":1}\n{"trial":{"kernel":1}}', '{"sterna_tuning":1}\n{"x":0}'],
)
def test_what_is_no_export_is_refused(text: str, tmp_path: Path) -> None:
    with Database(tmp_path / "t.db") as database, pytest.raises(SternaError, match="E0007"):
        import_json(text, database, "file")


def test_a_member_of_another_type_is_refused(tmp_path: Path) -> None:
    with Database(tmp_path / "t.db") as database:
        database.add(record({"tile": (4, 2)}, 1e-6))
        lines = export_json(database).splitlines()
        broken = json.loads(lines[1])
        broken["trial"]["samples"] = 5
        with pytest.raises(SternaError, match="samples is int"):
            import_json("\n".join([lines[0], json.dumps(broken)]), database, "file")


@pytest.mark.parametrize("before", [0, -1.0, float("nan")])
def test_costs_are_positive(before: float, tmp_path: Path) -> None:
    """One is divided by the other to find what gained most."""
    with Database(tmp_path / "t.db") as database:
        database.decide(algorithms(1e-3))
        lines = export_json(database).splitlines()
        broken = json.loads(lines[1])
        broken["algorithms"]["before"] = before
        with pytest.raises(SternaError, match="before is"):
            import_json("\n".join([lines[0], json.dumps(broken)]), database, "file")


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("these are no records, whatever else they may be" * 40)
    with pytest.raises(SternaError, match="E0007"):
        Database(tmp_path / "text.db")
    with pytest.raises(SternaError, match="E0010"):
        Database(tmp_path / "none.db", create=False)
    newer = sqlite3.connect(tmp_path / "newer.db")
    newer.execute("pragma user_version = 99")
    newer.close()
    with pytest.raises(SternaError, match="another version"):
        Database(tmp_path / "newer.db")
    assert best_of(tmp_path / "text.db", TARGET) is None


def test_a_target_is_known_by_what_it_can() -> None:
    assert target_id(replace(TARGET, name="mine", description="a copy", file="x.toml")) == target_id(TARGET)
    assert target_id(replace(TARGET, vector_registers=8)) != target_id(TARGET)
    assert target_id(load_target("x86-64-v3")) != target_id(TARGET)


def test_the_choice_that_gained_most_is_taken() -> None:
    best = Best([confirmed({"tile": (4, 2)}, device="a"), confirmed({"tile": (1, 1)}, 2.0, 1.5, "b")])
    assert (best.kernels, bool(best), bool(Best([]))) == (0, True, False)
    assert best.chooser("other", TARGET) is BY_RULE
    assert best.chooser("k", load_target("x86-64-v3")) is BY_RULE
    nothing = best.snapshot
    assert best.chooser("k", TARGET).choose("tile", lambda: ((1, 1), (4, 2)), (8, 1)) == (4, 2)
    assert best.kernels == 1
    assert best.snapshot != nothing


def asks(trace: Trace) -> None:
    """A space of 4 + 3 choices: rows have blocks; columns have sizes."""
    if trace.choose("order", lambda: ("columns",), "rows") == "rows":
        trace.choose("block", lambda: (1, 2, 4, 8), 1)
    else:
        trace.choose("size", lambda: (1, 2, 3), 2)


ALL = 7


@pytest.mark.parametrize("name", EXPLORERS)
@pytest.mark.parametrize("scored", [False, True])
def test_explorers_find_every_choice_once(name: str, scored: bool) -> None:
    explorer, space, costs = EXPLORERS[name](3), Space(asks), dict[str, float]()
    score: Callable[..., list[float]] = lambda choices: [float(len(str(c))) for c in choices]  # noqa: E731
    for _ in range(12):
        for choice in explorer.propose(space, costs, 3, score if scored else None):
            assert choice_text(choice) not in costs
            costs[choice_text(choice)] = 1.0 + len(costs) if len(costs) % 3 else math.inf
    assert len(costs) == ALL


def large(trace: Trace) -> None:
    for name in "abcdef":
        trace.choose(name, lambda: range(1, 9), 8)


def cost_of(choice: Choice) -> float:
    return 1.0 + sum((int(str(value)) - 3) ** 2 for value in choice.values())


def search(name: str, seed: int, trials: int) -> float:
    explorer, space, costs = EXPLORERS[name](seed), Space(large), dict[str, float]()
    while len(costs) < trials:
        for choice in explorer.propose(space, costs, 8, None):
            costs[choice_text(choice)] = cost_of(choice)
    return min(costs.values())


@pytest.mark.parametrize("name", ["evolution", "annealing", "genetic", "tpe"])
def test_explorers_beat_chance(name: str) -> None:
    """In 262,144 choices, 160 trials, the mean of eight seeds."""
    found, chance = (sum(search(n, seed, 160) for seed in range(8)) / 8 for n in (name, "random"))
    assert found < 0.75 * chance


def trials_of(kernel: str, size: float, rng: random.Random) -> list[Record]:
    """Sixty choices of a kernel, measured; each tenth fails."""
    drawn = [Space(large).random(rng) or {} for _ in range(60)]
    return [record(c, None if n % 10 == 9 else size * cost_of(c), kernel) for n, c in enumerate(drawn)]


def right_pairs(model: CostModel, rng: random.Random) -> float:
    """Of pairs of choices nobody has measured, those that a model puts in the right order."""
    unseen = [c for _ in range(40) if (c := Space(large).random(rng))]
    scores = model.predict([record(c, 1.0).features for c in unseen])
    pairs = [(i, j) for i in range(40) for j in range(i) if cost_of(unseen[i]) != cost_of(unseen[j])]
    return sum((scores[i] > scores[j]) == (cost_of(unseen[i]) < cost_of(unseen[j])) for i, j in pairs) / len(pairs)


def test_values_that_are_new_come_before_the_next_of_the_same() -> None:
    """Ranks alone would take tiles of 8 by 8 only, which differ in tasks."""
    choices: list[Choice] = [{"tile": (8, 8), "tasks": n} for n in range(12)]
    choices += [{"tile": (n, 1), "tasks": 1} for n in range(1, 5)]
    measured = {
        choice_text({"tile": tile, "tasks": n}): 1.0 for tile, n in [((8, 8), 20), *(((9, 9), n) for n in range(12))]
    }

    def score(asked: Sequence[Choice]) -> list[float]:
        return [0.0 if choice["tile"] == (8, 8) else -1.0 for choice in asked]

    chosen = best_and_new(choices, score, 6, measured)
    assert chosen[0] == choices[0]
    assert {choice["tile"] for choice in chosen} > {(8, 8)}
    assert len({choice_text(choice) for choice in chosen}) == 6
    everything = {**measured, **{choice_text(choice): 1.0 for choice in choices}}
    assert best_and_new(choices, score, 6, everything) == best(choices, score, 6)
    assert best_and_new([], score, 6, {}) == []


@pytest.mark.skipif(not is_installed(), reason="xgboost is not installed here")
def test_a_prior_ranks_before_the_first_trial(tmp_path: Path) -> None:
    rng = random.Random(6)
    records = [each for n in range(4) for each in trials_of(f"k{n}", 10.0**-n, rng)]
    rows = rows_of(spread(records), MOST_OF_ONE)
    assert rows is not None
    data = to_bytes(rows)
    assert len(data) < 64 * len(rows.grades)
    (tmp_path / "x.npz").write_bytes(data)
    found = prior._read(tmp_path / "x.npz")
    assert found is not None
    assert (found.groups, [*found.grades]) == (rows.groups, [*rows.grades])
    model = CostModel(found)
    assert model.is_fit
    assert right_pairs(model, rng) > 0.75
    model.fit(trials_of("own", 1.0, rng))
    assert right_pairs(model, rng) > 0.75


def test_a_prior_of_other_features_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of([record({"tile": (1, n)}, 1.0 + n) for n in range(4)], MOST_OF_ONE)
    assert rows is not None
    monkeypatch.setattr(prior, "VERSION", prior.VERSION + 1)
    (tmp_path / "x.npz").write_bytes(to_bytes(rows))
    monkeypatch.undo()
    assert prior._read(tmp_path / "x.npz") is None


def test_priors_that_are_shipped_are_of_this_version() -> None:
    """`ci/bench-tuner prior` makes them anew where features change."""
    places = [*prior._PLACE.glob("*.npz")]
    assert places
    for place in places:
        assert prior._read(place) is not None, place
        assert place.stat().st_size < 300_000


@pytest.mark.skipif(not is_installed(), reason="xgboost is not installed here")
def test_a_model_ranks_better_than_chance() -> None:
    """Of kernels of different size, where only the order within each can be learned; failures come last."""
    rng = random.Random(5)
    model = CostModel()
    model.fit([*trials_of("small", 1e-6, rng), *trials_of("large", 1e-3, rng)])
    assert model.is_fit
    assert right_pairs(model, rng) > 0.75


def test_without_enough_records_there_is_no_model() -> None:
    model = CostModel()
    model.fit([record({"tile": (1, 1)}, 1.0)])
    assert not model.is_fit
    assert model.predict([(1.0,), (2.0,)]) == [0.0, 0.0]


def test_curves_and_pictures() -> None:
    records = [record({"tile": (1, 1)}, 4.0, explorer="rules")]
    records += [record({"tile": (2, n)}, 4.0 / n, explorer="evolution", time=n) for n in (1, 2, 4)]
    records += [record({"tile": (3, n)}, cost, explorer="random", time=n) for n, cost in ((1, None), (2, 2.0))]
    curves = best_so_far(records)
    assert curves == {"evolution": [0.25, 0.25, 0.5, 1.0], "random": [0.25, 0.25, 0.5]}
    assert terminal(curves)[0].endswith("1.000 after 4")
    (line,) = terminal_predicted([(0.1, 0.2), (0.3, 0.4), (0.2, 0.2), (0.9, 1.0)])
    assert (
        line == f"predicted  {chr(0x2582)}{chr(0x2582)}{chr(0x2584)}{chr(0x2588)} rank correlation 0.95 over 4 trials"
    )
    assert terminal_predicted([(0.5, 1.0)]) == []
    pytest.importorskip("pygal", reason="pygal is not installed here")
    best, predicted = svg(records)
    assert b"<svg" in best
    assert b"evolution" in best
    assert b"<svg" in predicted
