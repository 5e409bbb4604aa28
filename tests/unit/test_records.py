"""The tuner's records: what a file keeps, merges and refuses; explorers over a space; what a cost model learns."""

from __future__ import annotations

import json
import math
import random
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
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
    read_file,
    read_json,
    target_id,
)
from sterna.targets.description import load_target
from sterna.targets.target import Target
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
        assert a.merge(*read_file(tmp_path / "b.db")) == (1, 2)
        assert a.merge(*read_file(tmp_path / "b.db")) == (0, 0)
        text = export_json(a)
        with Database(tmp_path / "c.db") as c:
            assert c.merge(*read_json(text, "export")) == (2, 2)
            assert (c.trials(), c.confirmed(), c.algorithms()) == (a.trials(), a.confirmed(), a.algorithms())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        "[" * 100_000,
        '{"sterna_tuning":9}\n',
        '{"sterna_tuning":1}\n{"trial":{"kernel":1}}',
        '{"sterna_tuning":1}\n{"x":0}',
        '{"sterna_tuning":1}\n[]',
        '{"sterna_tuning":1}\n\n',
        '{"sterna_tuning":1}\n{"trial":7}',
        '{"sterna_tuning":1}\n{"trial":{},"confirmed":{}}',
    ],
)
def test_what_is_no_export_is_refused(text: str) -> None:
    with pytest.raises(SternaError, match="E0007"):
        read_json(text, "file")


def test_a_member_of_another_type_is_refused(tmp_path: Path) -> None:
    with Database(tmp_path / "t.db") as database:
        database.add(record({"tile": (4, 2)}, 1e-6))
        lines = export_json(database).splitlines()
        broken = json.loads(lines[1])
        broken["trial"]["samples"] = 5
        with pytest.raises(SternaError, match="samples is int"):
            read_json("\n".join([lines[0], json.dumps(broken)]), "file")


@pytest.mark.parametrize("before", [0, -1.0, float("nan")])
def test_costs_are_positive(before: float, tmp_path: Path) -> None:
    """One is divided by the other to find what gained most."""
    with Database(tmp_path / "t.db") as database:
        database.decide(algorithms(1e-3))
        lines = export_json(database).splitlines()
        broken = json.loads(lines[1])
        broken["algorithms"]["before"] = before
        with pytest.raises(SternaError, match="before is"):
            read_json("\n".join([lines[0], json.dumps(broken)]), "file")


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
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("create table visits (url text)")
    other.close()
    before = (tmp_path / "other.db").read_bytes()
    for create in (True, False):
        with pytest.raises(SternaError, match="another program: it has a table visits"):
            Database(tmp_path / "other.db", create)
    assert (tmp_path / "other.db").read_bytes() == before
    with pytest.raises(SternaError, match="it is no file"):
        Database(tmp_path, create=False)
    with pytest.warns(UserWarning, match="nothing is compiled as it was tuned: .*text.db"):
        assert best_of(tmp_path / "text.db", TARGET) is None
    assert best_of(tmp_path / "none.db", TARGET) is None


def kept(place: Path) -> Path:
    """A file with a record of each kind."""
    with Database(place) as database:
        database.add(record({"tile": (4, 2)}, 1e-6))
        database.confirm(confirmed({"tile": (4, 2)}))
        database.decide(algorithms(1e-3))
    return place


#: Of tables and columns, what no tuner writes there.
WRONG = {
    "trials": [
        ("samples", "5"), ("samples", '["a"]'), ("samples", "[-1]"), ("samples", "[NaN]"), ("samples", "[true]"),
        ("features", "{}"), ("choice", "[1"), ("choice", '{"tile":null}'), ("choice", '{"tile":[[1]]}'),
        ("choice", "[" * 100_000), ("time", "never"), ("name", b"bytes"), ("samples", "nonsense"),
    ],
    "confirmed": [("choice", "[]"), ("before", 0), ("after", math.inf), ("after", "fast")],
    "algorithms": [("ways", "[]"), ("ways", '{"y": 1}'), ("bound", "x"), ("error", math.inf)],
}  # fmt: skip


@pytest.mark.parametrize(("table", "column", "value"), [(t, *each) for t, wrong in WRONG.items() for each in wrong])
def test_a_row_that_no_tuner_wrote_is_refused(table: str, column: str, value: object, tmp_path: Path) -> None:
    """By whoever reads it, out of a file or of an export; nothing else of that is taken."""
    place = kept(tmp_path / "t.db")
    direct = sqlite3.connect(place)
    with direct:
        direct.execute(f"update {table} set {column} = ?", [value])
    direct.close()
    with Database(place, create=False) as database, pytest.raises(SternaError, match=r"E0007.*t\.db cannot be read"):
        getattr(database, table)()
    with Database(tmp_path / "own.db") as own:
        with pytest.raises(SternaError, match="E0007"):
            own.merge(*read_file(place))
        if not isinstance(value, bytes):
            lines = export_of(place)
            with pytest.raises(SternaError, match=r"E0007.*line [234]: "):
                own.merge(*read_json("\n".join(lines), "export"))
        assert (own.trials(), own.confirmed(), own.algorithms()) == ([], [], [])
    if table != "trials":
        with pytest.warns(UserWarning, match="cannot be read"):
            assert best_of(place, TARGET) is None


def export_of(place: Path) -> list[str]:
    """What an export would have of rows as they are."""
    direct = sqlite3.connect(place)
    direct.row_factory = sqlite3.Row
    lines = [json.dumps({"sterna_tuning": 1})]
    for table, name in (("trials", "trial"), ("confirmed", "confirmed"), ("algorithms", "algorithms")):
        for row in direct.execute(f"select * from {table}"):
            lines.append(json.dumps({name: {key: row[key] for key in row.keys() if key != "id"}}))  # noqa: SIM118
    direct.close()
    return lines


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_file_is_refused_or_read(seed: int, tmp_path: Path) -> None:
    """Whatever bytes of it have changed: a coded error, or what can still be read."""
    place, rng = kept(tmp_path / "t.db"), random.Random(seed)
    data = bytearray(place.read_bytes())
    for _ in range(rng.choice([1, 20, 400])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    place.write_bytes(data[: rng.randrange(len(data))] if seed % 3 == 0 else data)
    outcome: tuple[str, ...] = ()
    try:
        with Database(place, create=False) as database:
            export_json(database)
    except SternaError as refused:
        outcome = refused.codes
    assert outcome in ((), ("E0007",))


def test_records_are_read_where_nobody_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk of which nothing can be written SQLite makes no log beside the file; nor does a reader change it."""
    place = kept(tmp_path / "t.db")
    before = place.read_bytes()
    real = sqlite3.connect

    class Refusing(sqlite3.Connection):
        def execute(self, *words: object) -> sqlite3.Cursor:  # type: ignore[override]
            raise sqlite3.OperationalError("unable to open database file")

    def connect(where: object, *words: object, **rest: object) -> sqlite3.Connection:
        factory = sqlite3.Connection if "immutable=1" in str(where) else Refusing
        return real(where, *words, **rest, factory=factory)  # type: ignore[arg-type, call-overload, no-any-return]

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect)
        with Database(place, create=False) as database:
            assert [each.choice for each in database.trials()] == [{"tile": (4, 2)}]
        assert best_of(place, TARGET)
        with pytest.raises(SternaError, match="unable to open"):
            Database(place)
        (tmp_path / "t.db-wal").write_bytes(b"what somebody is writing")
        with pytest.raises(SternaError, match="unable to open"):
            Database(place, create=False)
    assert place.read_bytes() == before


def test_an_empty_file_holds_no_records(tmp_path: Path) -> None:
    (tmp_path / "t.db").touch()
    with Database(tmp_path / "t.db", create=False) as database:
        assert (database.trials(), database.confirmed(), database.algorithms()) == ([], [], [])
    assert (tmp_path / "t.db").read_bytes() == b""


def test_a_target_is_known_by_what_it_can() -> None:
    assert target_id(replace(TARGET, name="mine", description="a copy", file="x.toml")) == target_id(TARGET)
    assert target_id(replace(TARGET, vector_registers=8)) != target_id(TARGET)
    assert target_id(load_target("x86-64-v3")) != target_id(TARGET)


@dataclass(frozen=True)
class Later(Target):
    """A target of a later version, with a property more."""

    later: tuple[str, ...] = ()


@pytest.mark.parametrize("name", ["x86-64-v2", "cuda", "cortex-m55"])
def test_a_property_that_is_added_later_leaves_records_valid(name: str) -> None:
    target = load_target(name)
    known = {field.name: getattr(target, field.name) for field in fields(target)}
    assert target_id(Later(**known)) == target_id(target)
    assert target_id(Later(**known, later=("it has",))) != target_id(target)


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
