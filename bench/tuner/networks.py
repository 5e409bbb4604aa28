"""Whole networks, tuned with few trials: what they gain, and what their records say of a network that was not among
them."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sterna.driver import reading
from sterna.frontends.formats import read_model
from sterna.frontends.source import Source
from sterna.ir.graph import Graph
from sterna.options import Options
from sterna.records import Database, Record
from sterna.targets.description import load_target
from sterna.tuning.prior import LEAST_OF_ONE, MOST_OF_ONE, Rows, family, rows_of, spread
from sterna.tuning.tuner import BATCH, Report, Tuner
from tuner.counted import measurer


def tuned(file: Path, options: Options, on: str, trials: int, records: Database, seed: int = 1) -> Report:
    """Tunes a network with earlier records of it left aside: they count as trials of this run."""
    graph = read_model(Source.of(file), reading(options))
    return Tuner(graph, options, records, on, seed=seed, measurer=measurer(on, options.target)).run(trials)


@dataclass(frozen=True)
class Transfer:
    """A kernel of the network that is left out.

    Args:
        first: the best of the first batch, after the others' records; own: the best of the network's own search.
        alone: the best of the first batch without records; rules: the rules' own.
    """

    name: str
    first: float
    own: float
    alone: float
    rules: float


def transferred(file: Path, options: Options, on: str, records: Database) -> Iterator[Transfer]:
    """What the first batch finds of each kernel that has been searched before, by the records of other kernels alone.

    Args:
        records: of several networks, this one among them.
    """
    graph = read_model(Source.of(file), reading(options))
    whole = Tuner(graph, options, records, on)
    names = {each.task.kernel for each in whole.kernels}
    others = [record for record in records.trials() if record.kernel not in names]
    prior = rows_of(spread(others), MOST_OF_ONE, LEAST_OF_ONE)
    for each in whole.kernels:
        known = records.trials(each.task.kernel, whole.target, on, whole.toolchain)
        if len(known) < 2 * BATCH:
            continue
        best = [_first(graph, options, each.task.kernel, on, have) for have in (prior, None)]
        own = min(record.cost for record in known)
        rules = next((record.cost for record in known if record.explorer == "rules"), math.inf)
        yield Transfer(each.task.name, best[0], min(own, *best), best[1], rules)


def priors(records: Database) -> dict[str, Rows]:
    """What the records say of each family of targets."""
    families: dict[str, list[Record]] = {}
    for record in records.trials():
        families.setdefault(family(load_target(record.target_name)), []).append(record)
    found = {name: rows_of(spread(group), MOST_OF_ONE, LEAST_OF_ONE) for name, group in families.items()}
    return {name: rows for name, rows in found.items() if rows is not None}


def _first(graph: Graph, options: Options, kernel: str, on: str, known: Rows | None) -> float:
    """The best of the first batch; the rules' own is part of it."""
    with (
        tempfile.TemporaryDirectory(prefix="sterna-tuner-") as folder,
        Database(Path(folder) / "r.db") as records,
        measurer(on, options.target) as own,
    ):
        tuner = Tuner(graph, options, records, on, measurer=own, prior=known, model=known is not None)
        tuner.kernels = [each for each in tuner.kernels if each.task.kernel == kernel]
        tuner.search(BATCH)
        return tuner.kernels[0].best if tuner.kernels else math.inf
