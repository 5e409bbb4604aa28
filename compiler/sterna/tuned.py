"""What a compilation takes from the records: the choice that won for each kernel."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from sterna.choices import BY_RULE, Choice, Chooser, replay, to_json
from sterna.errors import SternaError
from sterna.records import Algorithms, Confirmed, Database, target_id
from sterna.targets.target import Target


class Best:
    """The choices that won, of one target: `options.Tuning`.

    Where several devices have confirmed one, that which gained most is taken.
    """

    def __init__(self, confirmed: Sequence[Confirmed], algorithms: Sequence[Algorithms] = ()):
        self._algorithms = algorithms
        self._choices: dict[tuple[str, str], Confirmed] = {}
        for each in confirmed:
            key = (each.kernel, each.target)
            other = self._choices.get(key)
            if other is None or each.after / each.before < other.after / other.before:
                self._choices[key] = each
        self._used: dict[str, Confirmed] = {}
        self._parts: dict[str, Confirmed] = {}

    def __bool__(self) -> bool:
        return bool(self._choices or self._algorithms)

    def chooser(self, kernel: str, target: Target) -> Chooser:
        found = self._choices.get((kernel, target_id(target)))
        if found is None:
            return BY_RULE
        self._used[kernel] = found
        return replay(found.choice)

    def part(self, part: str, target: Target) -> Chooser:
        if not self._choices or (found := self._choices.get((part, target_id(target)))) is None:
            return BY_RULE
        self._parts[part] = found
        return replay(found.choice)

    def algorithms(self, model: str, target: Target, bound: float) -> Mapping[str, Choice] | None:
        """Of those within the bound, the ways that gained most."""
        own = [a for a in self._algorithms if (a.model, a.target) == (model, target_id(target)) and a.bound <= bound]
        return min(own, key=lambda each: each.after / each.before).ways if own else None

    def refused(self, kernel: str) -> None:
        self._used.pop(kernel, None)

    @property
    def kernels(self) -> int:
        """How many distinct kernels have been compiled by a choice."""
        return len(self._used)

    @property
    def parts(self) -> int:
        """About how many distinct parts of graphs it has been decided otherwise than the rules do."""
        return len(self._parts)

    @property
    def machines(self) -> tuple[str, ...]:
        """The processors and devices that they were measured on."""
        return tuple(sorted({each.machine for each in (self._used | self._parts).values()}))

    @property
    def snapshot(self) -> str:
        """The hash of the choices that were taken."""
        rows = [(kernel, to_json(each.choice)) for kernel, each in sorted((self._used | self._parts).items())]
        return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]


def best_of(place: Path, target: Target) -> Best | None:
    """What the records in a file say of a target; None where they say nothing.

    Records that cannot be read say nothing, and a warning says why.
    """
    if not place.is_file() and not place.is_dir():  # STERNA_TUNING=/dev/null: no records
        return None
    try:
        with Database(place, create=False) as records:
            own = target_id(target)
            return Best(records.confirmed(own), records.algorithms(own)) or None
    except SternaError as mistake:
        why = "; ".join(each.title for each in mistake.diagnostics)
        warnings.warn(f"nothing is compiled as it was tuned: {why}", stacklevel=2)
        return None
