"""What earlier records say of kernels in general: a cost model that knows a family of targets before its first trial.

A prior is data: rows of features and how fast each was beside the others of its kernel. `ci/bench-tuner prior` makes
those in `priors/` of records, one for each architecture, as LLVM's triples name it.
"""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sterna.records import Record
from sterna.targets.target import Target
from sterna.tuning.features import VERSION

#: Ranks that a kernel's trials are put into.
GRADES = 31
#: Trials of one kernel that a prior keeps, and trials of which one is worth learning from.
MOST_OF_ONE, LEAST_OF_ONE = 96, 4
_PLACE = Path(__file__).parent / "priors"


@dataclass(frozen=True)
class Rows:
    """What is learned from.

    Args:
        features: (trials, features) of `tuning.features`; grades: of each trial, 0 to `GRADES`, the fastest of a
            kernel has the highest; groups: trials of each kernel, one after the other.
    """

    features: npt.NDArray[np.float32]
    grades: npt.NDArray[np.float32]
    groups: tuple[int, ...]


#: For a model that begins without knowing anything.
NOTHING = Rows(np.zeros((0, 0), np.float32), np.zeros(0, np.float32), ())


def rows_of(records: Sequence[Record], most: int, least: int = 2) -> Rows | None:
    """The latest trials of each kernel, target and device; None where no kernel has `least`."""
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        if record.features:
            groups[(record.kernel, record.target, record.device)].append(record)
    kept = [group[-most:] for group in groups.values() if len(group) >= least]
    if not kept:
        return None
    width = max(len(record.features) for group in kept for record in group)
    return Rows(
        padded([record.features for group in kept for record in group], width),
        np.concatenate([_grades(group) for group in kept]),
        tuple(map(len, kept)),
    )


def padded(features: Iterable[Sequence[float] | npt.NDArray[np.float32]], width: int) -> npt.NDArray[np.float32]:
    """As an array; features of other versions may be fewer, or more."""
    rows = [*features]
    found = np.zeros((len(rows), width), np.float32)
    for row, each in zip(found, rows, strict=True):
        row[: len(each)] = each[:width]
    return found


def _grades(group: Sequence[Record]) -> npt.NDArray[np.float32]:
    """The fastest has the highest grade, in proportion to speed; failures have none."""
    least = min(record.cost for record in group)
    if not math.isfinite(least):
        return np.zeros(len(group), np.float32)
    return np.array([round(GRADES * least / record.cost) if record.samples else 0 for record in group], np.float32)


def spread(records: Sequence[Record]) -> list[Record]:
    """Of each kernel at most `MOST_OF_ONE` trials: the fastest, and others from fast to slow."""
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[(record.kernel, record.target, record.device)].append(record)
    kept = []
    for group in groups.values():
        ranked = sorted(group, key=lambda record: record.cost)
        kept += [ranked[n] for n in np.unique(np.linspace(0, len(ranked) - 1, MOST_OF_ONE).astype(int))]
    return kept


def to_bytes(rows: Rows) -> bytes:
    """A prior's file: features in half precision, which tells apart what trees do."""
    data = io.BytesIO()
    np.savez_compressed(
        data,
        version=np.array(VERSION),
        features=rows.features.astype(np.float16),
        grades=rows.grades.astype(np.uint8),
        groups=np.array(rows.groups, np.uint16),
    )
    return data.getvalue()


def family(target: Target) -> str:
    """Targets of one family share a prior: those of one architecture."""
    return target.llvm_triple.partition("-")[0]


def prior_of(target: Target) -> Rows | None:
    """The prior that is shipped for a target's family; None where there is none, or none of this version's features."""
    return _read(_PLACE / f"{family(target)}.npz")


@lru_cache
def _read(path: Path) -> Rows | None:
    if not path.is_file():
        return None
    with np.load(path) as found:
        if int(found["version"]) != VERSION:
            return None
        features, grades = found["features"].astype(np.float32), found["grades"].astype(np.float32)
        return Rows(features, grades, tuple(int(n) for n in found["groups"]))
