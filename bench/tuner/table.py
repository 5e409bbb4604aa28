"""What every schedule of a kernel costs on a device, measured once and kept: explorers are replayed on it.

A machine that others use as well gives each explorer other times for one candidate; on the table their curves differ
only by what they asked for. Two choices that lead to one schedule have one row.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from sterna.choices import BY_RULE, Choice, Chooser, replay
from sterna.errors import SternaError
from sterna.records import choice_text, target_id
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.tuning.features import features_of
from sterna.tuning.kernels import Task
from sterna.tuning.measure import Measurer
from sterna.tuning.worker import Trial

#: Samples of a schedule that are kept, the fastest.
SAMPLES = 3
_SCHEMA = """
create table if not exists costs (
    device text, target text, kernel text, schedule text, samples text, error text,
    primary key (device, target, kernel, schedule)
);
create table if not exists spaces (
    device text, target text, kernel text, schedules integer,
    primary key (device, target, kernel)
);
create table if not exists runs (
    device text, kernel text, explorer text, seed integer, curve text,
    primary key (device, kernel, explorer, seed)
);
"""


#: A kernel on a device: the device's title, the target, the kernel's fingerprint.
Row = tuple[str, str, str]


class Table:
    """A file of costs and of the curves that came of them."""

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=60)
        self._db.execute("pragma journal_mode = wal")
        self._db.executescript(_SCHEMA)

    def cost(self, key: tuple[str, ...]) -> tuple[str, str] | None:
        """Samples and error of (device, target, kernel, schedule)."""
        asked = "select samples, error from costs where device=? and target=? and kernel=? and schedule=?"
        found: tuple[str, str] | None = self._db.execute(asked, key).fetchone()
        return found

    def add(self, key: tuple[str, ...], trial: Trial) -> None:
        """Keeps a trial: of all samples the fastest."""
        have = self.cost(key)
        samples = sorted([*trial.samples, *(json.loads(have[0]) if have else ())])[:SAMPLES]
        row = (*key, json.dumps(samples), "" if samples else trial.error)
        with self._db:
            self._db.execute("insert or replace into costs values (?, ?, ?, ?, ?, ?)", row)

    def curve(self, device: str, kernel: str, explorer: str, seed: int) -> list[float] | None:
        """The best after each trial of a run, the rules' own first; None where it has not been made."""
        asked = "select curve from runs where device=? and kernel=? and explorer=? and seed=?"
        found = self._db.execute(asked, (device, kernel, explorer, seed)).fetchone()
        return None if found is None else list(json.loads(found[0]))

    def keep(self, device: str, kernel: str, explorer: str, seed: int, curve: Sequence[float]) -> None:
        with self._db:
            row = (device, kernel, explorer, seed, json.dumps([*curve]))
            self._db.execute("insert or replace into runs values (?, ?, ?, ?, ?)", row)

    def forget(self, device: str, kernel: str) -> None:
        """Removes the curves of a kernel whose costs are others now; what was measured stays."""
        with self._db:
            self._db.execute("delete from runs where device=? and kernel=?", (device, kernel))

    def schedules(self, kernel: Row) -> frozenset[str]:
        """The schedules that it has of a kernel."""
        asked = "select schedule from costs where device=? and target=? and kernel=?"
        return frozenset(row[0] for row in self._db.execute(asked, kernel))

    def span(self, kernel: Row, schedules: int) -> None:
        """Keeps how many schedules there are of a kernel."""
        with self._db:
            self._db.execute("insert or replace into spaces values (?, ?, ?, ?)", (*kernel, schedules))

    def spanned(self, kernel: Row) -> int | None:
        """How many schedules there are of a kernel; None where nobody has counted them."""
        asked = "select schedules from spaces where device=? and target=? and kernel=?"
        found = self._db.execute(asked, kernel).fetchone()
        return None if found is None else int(found[0])

    def least(self, kernel: Row) -> float:
        """The least cost of all schedules of a kernel."""
        asked = "select samples from costs where device=? and target=? and kernel=? and error=''"
        return min(min(json.loads(row[0])) for row in self._db.execute(asked, kernel))

    def measured(self) -> int:
        """How many schedules it has."""
        return int(self._db.execute("select count(*) from costs").fetchone()[0])

    def close(self) -> None:
        self._db.close()


@dataclass(frozen=True, eq=False)
class Measured(Task):
    """A kernel whose space is what a table has of it.

    Args:
        schedules: as `Table.schedules` has them.
    """

    schedules: frozenset[str]

    def schedule(self, chooser: Chooser = BY_RULE) -> Schedule:
        found = super().schedule(chooser)
        if _named(saved.to_json(found.steps)) not in self.schedules:
            raise KeyError("the table does not have this schedule")
        return found


def row_of(device: str, task: Task) -> Row:
    """How a table calls a kernel on a device."""
    return device, target_id(task.options.target), task.kernel


def measured(task: Task, device: str, table: Table) -> Measured:
    """A kernel with the space that a table has of it."""
    return Measured(
        **{f.name: getattr(task, f.name) for f in fields(task)}, schedules=table.schedules(row_of(device, task))
    )


def _named(steps: str) -> str:
    """How a table calls a schedule."""
    return hashlib.sha256(steps.encode()).hexdigest()[:24]


class Stored:
    """A measurer that looks costs up, and measures what is missing."""

    width = 1
    #: What `_scheduled` has found, for all explorers: they ask for the same choices.
    _keys: ClassVar[dict[str, tuple[Choice, str, tuple[float, ...], str]]] = {}

    def __init__(self, table: Table, device: str, inner: Callable[[], Measurer]):
        self._table, self._device, self._start = table, device, inner
        self._inner: Measurer | None = None
        self.devices, self.unit = (device,), "cost"

    def measure(self, task: Task, choice: Choice) -> Trial:
        if not self.has(task, choice):
            self.measure_again(task, choice)
        whole, steps, features, _ = self._scheduled(task, choice)
        found = self._table.cost(self._key(task, choice))
        assert found is not None
        samples, error = found
        return Trial(whole, steps, tuple(json.loads(samples)), error, features, self._device)

    def has(self, task: Task, choice: Choice) -> bool:
        """Whether the table has a choice's schedule."""
        return self._table.cost(self._key(task, choice)) is not None

    def measure_again(self, task: Task, choice: Choice) -> Trial:
        """Measures a choice, whatever the table has of it: the fastest samples of all stay there. Gives back what this
        measurement found alone."""
        trial = self._measurer().measure(task, choice)
        if trial.unanswered:  # Once more: another program may have held it up.
            trial = self._measurer().measure(task, choice)
        self._table.add(self._key(task, choice), trial)
        return trial

    def measure_all(self, task: Task, choices: Sequence[Choice]) -> Generator[Trial, None, None]:
        for choice in choices:
            yield self.measure(task, choice)

    def turns(self, bundles: Sequence[Path], part: bool = False) -> Sequence[Sequence[float]] | str:
        return "only kernels are in the table"

    def _key(self, task: Task, choice: Choice) -> tuple[str, ...]:
        """Of the row of a choice's schedule."""
        return *row_of(self._device, task), self._scheduled(task, choice)[-1]

    def _scheduled(self, task: Task, choice: Choice) -> tuple[Choice, str, tuple[float, ...], str]:
        """The whole choice, the steps and features of its schedule, and the name of its row."""
        text = f"{task.options.target.name} {task.kernel} {choice_text(choice)}"
        if text not in self._keys:
            trace, features = replay(choice), tuple[float, ...]()
            try:
                schedule = task.schedule(trace)
                steps = saved.to_json(schedule.steps)
                features = features_of(schedule, task.options.target)
            except (SternaError, AssertionError, IndexError, KeyError, ValueError, TypeError):
                steps = ""
            self._keys[text] = trace.choice, steps, features, _named(steps or text)
        return self._keys[text]

    def _measurer(self) -> Measurer:
        if self._inner is None:
            self._inner = self._start().__enter__()
        return self._inner

    def __enter__(self) -> Stored:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inner is not None:
            self._inner.__exit__(kind, problem, trace)
            self._inner = None


__all__ = ["Stored", "Table", "closing"]
