"""What a run found, as `--json` keeps it, and the ratios in it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu.kernels import COPY, SIZES, rate
from sterna.errors import error

FORMAT = "sterna-bench-gpu 1"
OWN = "sterna-device"
Records = Mapping[str, Mapping[str, Any]]
"""Of an engine, by stage: "compile" and "run"."""


@dataclass(frozen=True)
class Row:
    """One network with a batch and a precision, or one kernel, and the records of all engines."""

    label: str
    network: str
    batch: int
    precision: str
    records: Mapping[str, Records]

    def us(self, engine: str) -> float | None:
        """The median, of an engine that ran and was right."""
        run = self.records.get(engine, {}).get("run", {})
        return run["us"] if "us" in run and "failed" not in run and not run["wrong"] else None

    def ratio(self, peers: Iterable[str]) -> float | None:
        """How many times faster than the fastest of these Sterna is."""
        own, others = self.us(OWN), [us for us in map(self.us, peers) if us is not None]
        return min(others) / own if own is not None and others else None


@dataclass
class Results:
    """All of it.

    Args:
        device: kind, target, name, and whether the goals are for it.
        sizes: of the kernels, a name of SIZES.
        starts: of the first result, by network.
        states: the device's, before and after rounds.
        unwritten: what could not be measured at all, and why.
    """

    device: dict[str, Any]
    sizes: str = "full"
    networks: list[Row] = field(default_factory=list)
    kernels: list[Row] = field(default_factory=list)
    starts: dict[str, dict[str, Any]] = field(default_factory=dict)
    states: list[dict[str, Any]] = field(default_factory=list)
    unwritten: dict[str, str] = field(default_factory=dict)

    @property
    def is_judged(self) -> bool:
        return bool(self.device["is_judged"])

    @property
    def engines(self) -> list[str]:
        return list(dict.fromkeys(name for row in (*self.networks, *self.kernels) for name in row.records))

    def ratios(self, precision: str, peers: Collection[str], batch: int | None = None) -> list[float]:
        """Of all networks in a precision, with this batch or any."""
        rows = (row for row in self.networks if row.precision == precision and batch in (None, row.batch))
        return [ratio for row in rows if (ratio := row.ratio(peers)) is not None]

    def rate(self, kernel: str, engine: str) -> float | None:
        """Of a kernel: 10^9 operations or bytes a second."""
        row = next((row for row in self.kernels if row.network == kernel), None)
        us = None if row is None else row.us(engine)
        return None if us is None else rate(kernel, SIZES[self.sizes], us)

    def share_of_copy(self, kernel: str) -> float | None:
        """Of a copy's bytes in a second, what a kernel of Sterna's moves: the copy is the fastest that is there."""
        copies = [found for engine in self.engines if (found := self.rate(COPY, engine)) is not None]
        own = self.rate(kernel, OWN)
        return own / max(copies) if own is not None and copies else None

    def problems(self) -> Iterator[tuple[str, bool]]:
        """Who failed or was wrong, and why; with each whether that is a defect: Sterna's failures and wrong results."""
        for name, why in self.unwritten.items():
            yield f"{name}: {why}", False
        for row in (*self.networks, *self.kernels):
            for engine, stages in row.records.items():
                for stage, record in stages.items():
                    if "failed" in record:
                        yield f"{row.label}, {engine}, {stage}: {record['failed']}", engine.startswith("sterna")
                    elif record.get("wrong"):
                        off = f"wrong by {record['error']:.1e} of the largest output"
                        yield f"{row.label}, {engine}, {stage}: {off}", True
        for name, start in self.starts.items():
            if "failed" in start:
                yield f"{name}, first result: {start['failed']}", True

    def merge(self, other: Results) -> None:
        """Adds what another run found; where both have something, its own stays."""
        for rows, others in ((self.networks, other.networks), (self.kernels, other.kernels)):
            known = {row.label for row in rows}
            rows += [row for row in others if row.label not in known]
        self.starts = {**other.starts, **self.starts}
        self.unwritten = {**other.unwritten, **self.unwritten}
        self.states += other.states

    def write(self, file: Path) -> None:
        content = {"format": FORMAT, **vars(self)}
        content |= {name: [vars(row) for row in content[name]] for name in ("networks", "kernels")}
        file.write_text(json.dumps(content, indent=1))


def read(files: Sequence[Path]) -> Results:
    """What runs on one device wrote; of what several have, the first one's.

    Raises:
        SternaError: E0003, a file is none of these, or of another device or other sizes of kernels than the first.
    """
    found: Results | None = None
    for file in files:
        try:
            content = json.loads(file.read_text())
            if content.pop("format") != FORMAT:
                raise ValueError("another format")
            content |= {name: [Row(**row) for row in content[name]] for name in ("networks", "kernels")}
            own = Results(**content)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as reason:
            raise error(
                "E0003", f"{file} is no file of ci/bench-gpu: {reason}", fix="what `--json FILE` wrote"
            ) from None
        if found is None:
            found = own
            continue
        if own.device != found.device:
            other, first = (f"{each['name']} as {each['target']}" for each in (own.device, found.device))
            raise error("E0003", f"{file} is of another device: {other}, not {first}", fix="show its tables alone")
        if own.sizes != found.sizes:
            title = f"{file} has kernels of {own.sizes} size, {files[0]} of {found.sizes} size"
            raise error("E0003", title, fix="show its tables alone")
        found.merge(own)
    assert found is not None
    return found


def mean(factors: Sequence[float]) -> float:
    """The geometric one."""
    return math.exp(sum(map(math.log, factors)) / len(factors))
