"""What was measured, in SQLite: a row for every trial, and those choices that won a confirmation run.

The file is written in SQLite's write-ahead mode, one transaction for each record: a tuner that is killed loses nothing
that was measured, and several may write at once. What a record says of a kernel holds wherever that kernel occurs.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sterna.choices import Choice, from_json, to_json
from sterna.errors import error, system_error
from sterna.targets.target import Target
from sterna_runtime.advice import Advice, Option

#: Of the file's layout; another one is refused.
VERSION = 1
_ELSEWHERE = Advice("name another file by STERNA_TUNING or ", Option("records", "FILE"))
_EXPORT = b'{"sterna_tuning":'
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
_TABLES = {"trials", "confirmed", "algorithms"}
#: What reading a row that somebody else wrote may raise.
_UNREADABLE = (sqlite3.Error, ValueError, KeyError, TypeError, AttributeError, RecursionError)


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
    """What kernels see of a target, whatever it is called and wherever its library goes.

    A property that a later version of Sterna knows changes nothing for targets that do not have it: what was tuned for
    them before still counts.
    """
    own = replace(target, name="", description="", triple="", library="", variants=(), runs_on="", file="")
    return hashlib.sha256(json.dumps(_told(own), sort_keys=True).encode()).hexdigest()[:16]


def _told(value: object) -> object:
    """A value by what differs from its defaults."""
    if isinstance(value, tuple):
        return [_told(each) for each in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return repr(value)
    rows = {field: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {field.name: _told(own) for field, own in rows.items() if own != _default(field)}


def _default(field: dataclasses.Field[Any]) -> object:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


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

    Args:
        create: False: it is there, and is only read. Nothing is written, so it may lie where nobody can write, or on a
            disk that is full.

    Raises:
        SternaError: E0007, it cannot be opened or holds no records; E0010, it does not exist and is not to be made.
    """

    def __init__(self, path: Path, create: bool = True):
        self.path = path
        try:
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._db = sqlite3.connect(path, timeout=30)
                self._check(self._db)
                self._db.execute("pragma journal_mode = wal")
                self._lay_out(self._db)
            else:
                self._db = self._open(path)
        except (sqlite3.Error, OSError) as problem:
            fix: Advice | str = f"sterna tune import {path}" if _is_export(path) else _ELSEWHERE
            raise error("E0007", f"{path} cannot be used for records: {_reason(problem)}", fix=fix) from None

    def _open(self, path: Path) -> sqlite3.Connection:
        """A file that is there, for reading."""
        if not path.is_file():
            if path.exists():
                raise OSError(errno.EINVAL, "it is no file")
            missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            raise system_error(missing, "to read the records", fix="sterna tune MODEL")
        place = f"file:{quote(str(path.resolve()))}"
        found = sqlite3.connect(f"{place}?mode=rw", timeout=30, uri=True)
        try:
            found.execute("pragma user_version")
        except sqlite3.OperationalError:
            found.close()
            # The log that readers share cannot be made there. Where there is none, nobody is writing.
            log = path.with_name(f"{path.name}-wal")
            if log.is_file() and log.stat().st_size:
                raise
            found = sqlite3.connect(f"{place}?immutable=1", uri=True)
        if not self._check(found):
            found.close()
            found = sqlite3.connect(":memory:")  # A file without tables holds no records.
            self._lay_out(found)
        return found

    def _check(self, found: sqlite3.Connection) -> set[str]:
        """The tables of a file; refuses one of another version or program."""
        version = found.execute("pragma user_version").fetchone()[0]
        names = found.execute(
            "select name from sqlite_master where type = 'table' and name not like 'sqlite\\_%' escape '\\'"
        )
        tables = {name for (name,) in names}
        if tables - _TABLES:
            title = f"{self.path} is the database of another program: it has a table {min(tables - _TABLES)}"
            raise error("E0007", title, fix=_ELSEWHERE)
        if version not in (0, VERSION):
            title = f"{self.path} holds records of another version of Sterna ({version}, not {VERSION})"
            raise error("E0007", title, fix=_ELSEWHERE)
        return tables

    @staticmethod
    def _lay_out(made: sqlite3.Connection) -> None:
        with made:
            made.executescript(_SCHEMA)
            made.execute(f"pragma user_version = {VERSION}")

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
        with self._reading():
            rows = self._db.execute(
                f"select {', '.join(names)} from trials{clause} order by time, id", [*where.values()]
            )
            return [_record(dict(zip(names, row, strict=True))) for row in rows]

    def confirmed(self, target: str | None = None) -> list[Confirmed]:
        """The choices that won, of a target or of all."""
        with self._reading():
            return [_confirmed(row) for row in self._rows("confirmed", Confirmed, target, "kernel, device")]

    def algorithms(self, target: str | None = None) -> list[Algorithms]:
        """How models are computed within bounds, of a target or of all."""
        with self._reading():
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
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _UNREADABLE as problem:
            raise error("E0007", f"{self.path} cannot be read: {_reason(problem)}", fix=_ELSEWHERE) from None

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


def read_json(text: str, name: str) -> tuple[list[Record], list[Confirmed], list[Algorithms]]:
    """All that was exported, as `Database.merge` takes it.

    Raises:
        SternaError: E0007, it is no export of records.
    """
    found: tuple[list[Record], list[Confirmed], list[Algorithms]] = ([], [], [])
    kinds: tuple[tuple[str, list[Any], Callable[[Any], object]], ...] = (
        ("trial", found[0], _record), ("confirmed", found[1], _confirmed), ("algorithms", found[2], _algorithms)
    )  # fmt: skip
    number = 0
    try:
        for number, line in enumerate(text.splitlines() or [""], 1):
            row = json.loads(line)
            if number == 1:
                _check_head(row)
                continue
            kind = next((k for k in kinds if isinstance(row, dict) and set(row) == {k[0]}), None)
            if kind is None:
                raise ValueError(f"it is no object with one of {', '.join(name for name, *_ in kinds)}")
            kind[1].append(kind[2](row[kind[0]]))
    except _UNREADABLE as problem:
        title = f"{name} is no export of records: line {number}: {_reason(problem)}"
        raise error("E0007", title, fix="sterna tune export FILE") from None
    return found


def _check_head(row: object) -> None:
    """Raises ValueError if that does not begin an export of this version."""
    if not isinstance(row, dict) or set(row) != {"sterna_tuning"}:
        raise ValueError(f"an export begins with {json.dumps({'sterna_tuning': VERSION})}")
    if row["sterna_tuning"] != VERSION:
        raise ValueError(f"it is of another version of Sterna ({json.dumps(row['sterna_tuning'])[:20]}, not {VERSION})")


def read_file(path: Path) -> tuple[list[Record], list[Confirmed], list[Algorithms]]:
    """All that a file of records has, as `Database.merge` takes it."""
    with Database(path, create=False) as other:
        return other.trials(), other.confirmed(), other.algorithms()


def _row(record: Record | Confirmed | Algorithms) -> dict[str, object]:
    """The columns of a record: choices and lists as JSON."""
    row = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    if isinstance(record, Algorithms):
        row["ways"] = json.dumps({layer: to_json(way) for layer, way in record.ways.items()})
    else:
        row["choice"] = choice_text(record.choice)
    return {name: json.dumps(value) if isinstance(value, tuple) else value for name, value in row.items()}


def _record(row: object) -> Record:
    values: dict[str, Any] = _checked(row, Record)
    values["choice"] = _choice(values["choice"])
    for name in ("samples", "features"):
        values[name] = tuple(_json(values, name, list))
        if any(not _is_number(each) or (name == "samples" and each < 0) for each in values[name]):
            raise ValueError(f"{name} are no numbers that a measurement gives")
    return Record(**values)


def _confirmed(row: object) -> Confirmed:
    values: dict[str, Any] = _checked(row, Confirmed)
    values["choice"] = _choice(values["choice"])
    return Confirmed(**values)


def _algorithms(row: object) -> Algorithms:
    values: dict[str, Any] = _checked(row, Algorithms)
    values["ways"] = {layer: _choice(json.dumps(way)) for layer, way in _json(values, "ways", dict).items()}
    return Algorithms(**values)


def _choice(text: str) -> Choice:
    found = from_json(_json({"choice": text}, "choice", dict))
    for name, value in found.items():
        if not all(isinstance(each, (int, str)) for each in (value if isinstance(value, tuple) else (value,))):
            raise ValueError(f"the decision {name} is {value!r}")
    return found


def _json(row: Mapping[str, str], name: str, kind: type) -> Any:
    """What a column holds as JSON."""
    try:
        found = json.loads(row[name])
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, kind):
        raise ValueError(f"{name} is {row[name][:40]!r}")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _checked(row: object, kind: type[Record | Confirmed | Algorithms]) -> dict[str, Any]:
    """A row, of a file or of an export: exactly the members of a record, numbers where it has those, text elsewhere."""
    wanted = {f.name for f in dataclasses.fields(kind)}
    if not isinstance(row, dict) or set(row) != wanted:
        raise ValueError(f"a record has the members {', '.join(sorted(wanted))}")
    numbers = {"time", "before", "after", "bound", "error"} - ({"error"} if kind is Record else set())
    for name in wanted:
        if not (_is_number(row[name]) if name in numbers else isinstance(row[name], str)):
            raise ValueError(f"{name} is {row[name] if isinstance(row[name], float) else type(row[name]).__name__}")
        if name in ("before", "after") and not row[name] > 0:  # one is divided by the other
            raise ValueError(f"{name} is {row[name]}")
    return dict(row)


def _is_export(path: Path) -> bool:
    """Whether a file is what `export_json` made, and no database."""
    try:
        with path.open("rb") as file:
            return file.read(len(_EXPORT)) == _EXPORT
    except OSError:
        return False


def _reason(problem: Exception) -> str:
    """An exception's words, without Python's own about files."""
    if isinstance(problem, json.JSONDecodeError):
        return f"it is no JSON (character {problem.colno}: {problem.msg})"
    return (isinstance(problem, OSError) and problem.strerror) or str(problem)
