"""What was measured, in SQLite: a row for every trial, and those choices that won a confirmation run.

The file is written in SQLite's write-ahead mode, one transaction for each record: a tuner that is killed loses nothing
that was measured, and several may write at once. What a record says of a kernel holds wherever that kernel occurs.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sterna.choices import Choice, from_json, to_json
from sterna.errors import error, system_error
from sterna.targets.target import Target
from sterna_runtime.advice import Advice, Option

#: Of the file's layout; another one is refused.
VERSION = 1
_ELSEWHERE = Advice("name another file by STERNA_TUNING or ", Option("records", "FILE"))
#: Names the file of records in place of the one in the user's data.
PLACE = "STERNA_TUNING"
_SCHEMA = """
create table if not exists trials (
    id integer primary key, kernel text not null, name text not null, target text not null, target_name text not null,
    toolchain text not null, device text not null, unit text not null, choice text not null, steps text not null,
    samples text not null, error text not null, features text not null, explorer text not null, machine text not null,
    time real not null, unique (kernel, target, toolchain, device, choice));
create table if not exists confirmed (
    kernel text not null, target text not null, target_name text not null, device text not null, choice text not null,
    steps text not null, before real not null, after real not null, unit text not null, machine text not null,
    time real not null, unique (kernel, target, device));
create table if not exists algorithms (
    model text not null, name text not null, target text not null, target_name text not null, device text not null,
    bound real not null, ways text not null, error real not null, data text not null, before real not null,
    after real not null, unit text not null, machine text not null, time real not null,
    unique (model, target, device, bound));
"""


@dataclass(frozen=True)
class Record:
    """One trial.

    Args:
        kernel: its fingerprint (`passes.plan_kernels.fingerprint`); name: for people.
        target: `target_id` of what it was compiled for; target_name: for people.
        toolchain: what made the code; device: what it ran on, as --on names it, "" for this machine.
        unit: of samples, "s" or "instructions".
        choice: what was decided; steps: the schedule that it led to, as JSON (`schedule.saved`).
        samples: of one call, one for each measurement; none where it failed.
        error: why it failed, "" where it did not.
        features: of the loop program (`tuning.features`); explorer: who proposed it.
        machine: the processor's name; time: in seconds since 1970.
    """

    kernel: str
    name: str
    target: str
    target_name: str
    toolchain: str
    device: str
    unit: str
    choice: Choice
    steps: str
    samples: tuple[float, ...]
    error: str
    features: tuple[float, ...]
    explorer: str
    machine: str
    time: float

    @property
    def cost(self) -> float:
        """The least of the samples; infinite where it failed."""
        return min(self.samples, default=float("inf"))


@dataclass(frozen=True)
class Confirmed:
    """A choice that was faster than the rules' in a run where both were measured in turns.

    Args:
        before, after: a call's cost by the rules and by the choice, in `unit`.
    """

    kernel: str
    target: str
    target_name: str
    device: str
    choice: Choice
    steps: str
    before: float
    after: float
    unit: str
    machine: str
    time: float


@dataclass(frozen=True)
class Algorithms:
    """How the layers of a model are computed that are faster otherwise than the model says, as was measured.

    Args:
        model: `fast.model_id`; name: for people.
        bound: of errors; error: the largest of an output, relative to its largest magnitude; data: what it was measured
            on, "" for random inputs.
        ways: by the name of a layer's result, its algorithm (`fast.Way.choice`).
        before, after: a run of the model as it says and with these, in `unit`.
    """

    model: str
    name: str
    target: str
    target_name: str
    device: str
    bound: float
    ways: Mapping[str, Choice]
    error: float
    data: str
    before: float
    after: float
    unit: str
    machine: str
    time: float


def target_id(target: Target) -> str:
    """What kernels see of a target, whatever it is called and wherever its library goes."""
    own = replace(target, name="", description="", triple="", library="", variants=(), runs_on="", file="")
    text = json.dumps({f.name: repr(getattr(own, f.name)) for f in dataclasses.fields(own)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def choice_text(choice: Choice) -> str:
    """A choice as the key of records."""
    return json.dumps(to_json(choice), sort_keys=True, separators=(",", ":"))


def default_place() -> Path:
    """Where records are kept: `STERNA_TUNING`, else in the user's data."""
    if given := os.environ.get(PLACE):
        return Path(given)
    data = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA") or str(Path.home() / ".local" / "share")
    return Path(data) / "sterna" / "tuning.db"


class Database:
    """A file of records.

    Raises:
        SternaError: E0007, it cannot be opened or holds no records; E0010, it does not exist and is not to be made.
    """

    def __init__(self, path: Path, create: bool = True):
        self.path = path
        try:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.is_file():
                missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
                raise system_error(missing, "to read the records", fix="sterna tune MODEL")
            self._db = sqlite3.connect(path, timeout=30)
            self._db.execute("pragma journal_mode = wal")
            found = self._db.execute("pragma user_version").fetchone()[0]
            if found not in (0, VERSION):
                title = f"{path} holds records of another version of Sterna ({found}, not {VERSION})"
                raise error("E0007", title, fix=_ELSEWHERE)
            with self._db:
                self._db.executescript(_SCHEMA)
                self._db.execute(f"pragma user_version = {VERSION}")
        except (sqlite3.Error, OSError) as problem:
            raise error("E0007", f"{path} cannot be used for records: {problem}", fix=_ELSEWHERE) from None

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def add(self, record: Record) -> None:
        """Writes a trial; a second one of the same choice replaces the first."""
        with self._writing():
            self._insert("trials", _row(record))

    def confirm(self, confirmed: Confirmed) -> None:
        """Writes a choice that won; it replaces what was known for the kernel and device."""
        with self._writing():
            self._insert("confirmed", _row(confirmed))

    def decide(self, algorithms: Algorithms) -> None:
        """Writes how a model's layers are computed within a bound; it replaces what was known."""
        with self._writing():
            self._insert("algorithms", _row(algorithms))

    def forget(self, kernel: str, target: str, device: str) -> None:
        """Removes what was confirmed for a kernel: it did not win again."""
        with self._writing():
            self._db.execute(
                "delete from confirmed where kernel = ? and target = ? and device = ?", (kernel, target, device)
            )

    def trials(
        self,
        kernel: str | None = None,
        target: str | None = None,
        device: str | None = None,
        toolchain: str | None = None,
    ) -> list[Record]:
        """Trials in the order in which they were made, of a kernel, target, device and toolchain or of all."""
        asked = {"kernel": kernel, "target": target, "device": device, "toolchain": toolchain}
        where = {name: value for name, value in asked.items() if value is not None}
        clause = f" where {' and '.join(f'{name} = ?' for name in where)}" if where else ""
        names = [f.name for f in dataclasses.fields(Record)]
        rows = self._db.execute(f"select {', '.join(names)} from trials{clause} order by time, id", [*where.values()])
        return [_record(dict(zip(names, row, strict=True))) for row in rows]

    def confirmed(self, target: str | None = None) -> list[Confirmed]:
        """The choices that won, of a target or of all."""
        return [_confirmed(row) for row in self._rows("confirmed", Confirmed, target, "kernel, device")]

    def algorithms(self, target: str | None = None) -> list[Algorithms]:
        """How models are computed within bounds, of a target or of all."""
        return [_algorithms(row) for row in self._rows("algorithms", Algorithms, target, "model, bound, device")]

    def _rows(self, table: str, kind: type, target: str | None, order: str) -> list[dict[str, Any]]:
        names = [f.name for f in dataclasses.fields(kind)]
        clause, values = (" where target = ?", [target]) if target is not None else ("", [])
        rows = self._db.execute(f"select {', '.join(names)} from {table}{clause} order by {order}", values)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def merge(
        self, records: Iterable[Record], confirmed: Iterable[Confirmed], algorithms: Iterable[Algorithms] = ()
    ) -> tuple[int, int]:
        """Adds what another file has and this one has not; returns how many trials, and how many choices that won."""
        before = self._counts()
        with self._writing():
            for table, rows in (("trials", records), ("confirmed", confirmed), ("algorithms", algorithms)):
                for each in rows:
                    self._insert(table, _row(each), "ignore")
        after = self._counts()
        return after[0] - before[0], after[1] - before[1]

    def _counts(self) -> tuple[int, int]:
        tables = ("trials", "confirmed", "algorithms")
        trials, *won = (self._db.execute(f"select count(*) from {name}").fetchone()[0] for name in tables)
        return trials, sum(won)

    def _insert(self, table: str, row: dict[str, object], otherwise: str = "replace") -> None:
        names, places = ", ".join(row), ", ".join("?" * len(row))
        self._db.execute(f"insert or {otherwise} into {table} ({names}) values ({places})", [*row.values()])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._db:
                yield
        except sqlite3.Error as problem:
            raise error("E0007", f"{self.path} cannot be written: {problem}", fix=_ELSEWHERE) from None


def export_json(database: Database) -> str:
    """All records as JSON, one a line."""
    trials = ({"trial": _row(each)} for each in database.trials())
    confirmed = ({"confirmed": _row(each)} for each in database.confirmed())
    algorithms = ({"algorithms": _row(each)} for each in database.algorithms())
    lines = ({"sterna_tuning": VERSION}, *trials, *confirmed, *algorithms)
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def import_json(text: str, database: Database, name: str) -> tuple[int, int]:
    """Adds what was exported; returns how many trials and confirmed choices are new.

    Raises:
        SternaError: E0007, it is no export of records.
    """
    records: list[Record] = []
    confirmed: list[Confirmed] = []
    algorithms: list[Algorithms] = []
    try:
        head, *lines = (json.loads(line) for line in text.splitlines())
        if head != {"sterna_tuning": VERSION}:
            raise ValueError(f"it begins with {json.dumps(head)[:60]}")
        for line in lines:
            if "trial" in line:
                records.append(_record(_checked(line["trial"], Record)))
            elif "algorithms" in line:
                algorithms.append(_algorithms(_checked(line["algorithms"], Algorithms)))
            else:
                confirmed.append(_confirmed(_checked(line["confirmed"], Confirmed)))
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise error("E0007", f"{name} is no export of records: {problem}", fix="sterna tune export FILE") from None
    return database.merge(records, confirmed, algorithms)


def merge_file(path: Path, database: Database) -> tuple[int, int]:
    """Adds what another file of records has; returns how many trials and confirmed choices are new."""
    with Database(path, create=False) as other:
        return database.merge(other.trials(), other.confirmed(), other.algorithms())


def _row(record: Record | Confirmed | Algorithms) -> dict[str, object]:
    """The columns of a record: choices and lists as JSON."""
    row = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    if isinstance(record, Algorithms):
        row["ways"] = json.dumps({layer: to_json(way) for layer, way in record.ways.items()})
    else:
        row["choice"] = choice_text(record.choice)
    return {name: json.dumps(value) if isinstance(value, tuple) else value for name, value in row.items()}


def _record(row: dict[str, str]) -> Record:
    values: dict[str, object] = dict(row)
    values["choice"] = from_json(json.loads(row["choice"]))
    values["samples"], values["features"] = (tuple(json.loads(row[name])) for name in ("samples", "features"))
    return Record(**values)  # type: ignore[arg-type]


def _confirmed(row: dict[str, str]) -> Confirmed:
    values: dict[str, object] = {**row, "choice": from_json(json.loads(row["choice"]))}
    return Confirmed(**values)  # type: ignore[arg-type]


def _algorithms(row: dict[str, str]) -> Algorithms:
    ways = {str(layer): from_json(way) for layer, way in json.loads(row["ways"]).items()}
    return Algorithms(**{**row, "ways": ways})  # type: ignore[arg-type]


def _checked(row: object, kind: type[Record | Confirmed | Algorithms]) -> dict[str, str]:
    """A row of an export: exactly the members of a record, numbers where it has numbers and text elsewhere."""
    if not isinstance(row, dict) or set(row) != (wanted := {f.name for f in dataclasses.fields(kind)}):
        raise ValueError(f"a record has the members {', '.join(sorted(f.name for f in dataclasses.fields(kind)))}")
    numbers = {"time", "before", "after", "bound", "error"} - ({"error"} if kind is Record else set())
    for name in wanted:
        if not isinstance(row[name], (int, float) if name in numbers else str):
            raise ValueError(f"{name} is {type(row[name]).__name__}")
        if name in ("before", "after") and not row[name] > 0:  # one is divided by the other
            raise ValueError(f"{name} is {row[name]}")
    return row
