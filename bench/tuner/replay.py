"""Explorers replayed: the tuner itself on one kernel, with a table in place of a device."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from sterna.records import Database
from sterna.tuning import tuner as tuning
from sterna.tuning.prior import NOTHING
from sterna.tuning.tuner import Tuner
from tuner.counted import measurer
from tuner.kernels import Device, graph_of, kernel_of, options_of
from tuner.table import Stored, Table, measured


@dataclass(frozen=True)
class Way:
    """How to search.

    Args:
        explorer: of `EXPLORERS`; model: whether a cost model ranks; trials: of a run.
    """

    title: str
    explorer: str
    model: bool
    trials: int


#: Random's best of so many trials, which the learned explorer has to reach in so many.
TRIALS, WITHIN = 512, 170
LEARNED, RANDOM = "learned", "random"
WAYS = (
    Way(LEARNED, "evolution", True, WITHIN),
    Way(RANDOM, "random", False, TRIALS),
    Way("evolutionary", "evolution", False, TRIALS),
    Way("genetic", "genetic", False, TRIALS),
    Way("grid", "grid", False, TRIALS),
    Way("TPE", "tpe", False, TRIALS),
    Way("annealing, learned", "annealing", True, WITHIN),
)


def replayed(table: Table, device: Device, name: str, way: Way, seed: int, grows: bool = True) -> list[float]:
    """The best after each trial of a run, the rules' own first: from nothing, with no records of other kernels.

    Args:
        grows: whether what the table lacks is measured; otherwise the space is what it has.
    """
    if (known := table.curve(device.title, name, way.title, seed)) is not None:
        return known
    tuning.STILL = 1 << 30  # Curves go on where a user's search would end.
    options, own = options_of(device), kernel_of(name, device)
    curve: list[float] = []

    def watch(tuner: Tuner) -> None:
        curve.append(tuner.kernels[0].best)

    with (
        tempfile.TemporaryDirectory(prefix="sterna-tuner-") as folder,
        Database(Path(folder) / "records.db") as records,
        Stored(table, device.title, lambda: measurer(device.on, options.target)) as stored,
    ):
        tuner = Tuner(
            graph_of(name, options), options, records, device.title, way.explorer, seed, stored, watch, way.model,
            prior=NOTHING,
        )  # fmt: skip
        task = own if grows else measured(own, device.title, table)
        tuner.kernels = [replace(each, task=task) for each in tuner.kernels if each.task.kernel == own.kernel]
        tuner.search(way.trials)
        if tuner.kernels[0].why:
            raise RuntimeError(f"{name} on {device.title}: {tuner.kernels[0].why}")
    table.keep(device.title, name, way.title, seed, curve)
    return curve
