"""The decisions of strategies as data: what a schedule may be like besides what the rules say.

A strategy asks its context wherever it decides: `context.choose("tile", candidates, default)`. What answers is a
chooser. The one that every compilation has gives the default back and never looks at the candidates, so that schedules
are as the rules propose them. A `Trace` answers otherwise, from what it is told, and keeps what was asked: a space is
defined by running the strategies, and one decision may lead to others that its alternatives do not have.

    trace = Trace()
    schedule = propose(kernel, replace(context, chooser=trace))
    trace.knobs     # every decision on the way: its name, what it may be, what the rule says
    trace.choice    # what was chosen: the name of each decision and its value, of JSON's types
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from sterna.targets.target import Target

#: What a decision may be: a number, a word, yes or no, or several numbers.
Value = int | str | bool | tuple[int, ...]
#: The value of each decision, by its name.
Choice = Mapping[str, Value]
V = TypeVar("V", bound=Value)


@dataclass(frozen=True)
class Knob:
    """A decision: the values that it may have, the rule's own first."""

    name: str
    values: tuple[Value, ...]

    @property
    def default(self) -> Value:
        """What the rule says."""
        return self.values[0]


class Chooser(Protocol):
    """Who decides."""

    def choose(self, name: str, candidates: Callable[[], Iterable[V]], default: V) -> V:
        """The value of a decision.

        Args:
            candidates: gives the other values that it may have; the default may be among them.
        """
        ...


class Tuning(Protocol):
    """What was chosen for kernels, by their fingerprints."""

    @property
    def kernels(self) -> int:
        """How many kernels have been compiled by a choice."""
        ...

    @property
    def parts(self) -> int:
        """About how many distinct parts of graphs it has been decided otherwise than the rules do."""
        ...

    @property
    def machines(self) -> tuple[str, ...]:
        """The processors and devices that they were measured on."""
        ...

    @property
    def snapshot(self) -> str:
        """The hash of the choices that were taken."""
        ...

    def algorithms(self, model: str, target: Target, bound: float) -> Mapping[str, Choice] | None:
        """By the name of its result, how each layer of a model is computed that is faster otherwise than the model
        says, within a bound of errors; None where that has not been measured.

        Args:
            model: `fast.model_id`.
        """
        ...

    def refused(self, kernel: str) -> None:
        """Says that the choice for a kernel cannot be had where it is."""
        ...

    def chooser(self, kernel: str, target: Target) -> Chooser:
        """Who decides for a kernel: `BY_RULE` where nothing is known of it."""
        ...

    def part(self, part: str, target: Target) -> Chooser:
        """Who decides about a part of a graph (`passes.decisions`): `BY_RULE` where nothing is known of it."""
        ...


class ByRule:
    """Every decision is as the rule says."""

    def choose(self, name: str, candidates: Callable[[], Iterable[V]], default: V) -> V:
        return default


BY_RULE = ByRule()


@dataclass(frozen=True)
class Otherwise:
    """Decisions by some names are as they are given, wherever they may be so; every other one is as the rule says."""

    given: Choice

    def choose(self, name: str, candidates: Callable[[], Iterable[V]], default: V) -> V:
        value = cast("V", self.given.get(name, default))
        return value if value == default or value in candidates() else default


class Trace:
    """Decisions as somebody picks them, kept.

    Args:
        pick: the value of a knob; without it, each is as its rule says.
    """

    def __init__(self, pick: Callable[[Knob], Value] | None = None):
        self.knobs: list[Knob] = []
        self.choice: dict[str, Value] = {}
        self._asked: Counter[str] = Counter()
        self._pick = pick

    def choose(self, name: str, candidates: Callable[[], Iterable[V]], default: V) -> V:
        name = self._own(name)
        knob = Knob(name, tuple(dict.fromkeys((default, *candidates()))))
        value = default if self._pick is None else cast("V", self._pick(knob))
        if value not in knob.values:
            raise ValueError(f"{name} cannot be {value!r}: one of {', '.join(map(repr, knob.values))}")
        if len(knob.values) > 1:
            self.knobs.append(knob)
            self.choice[name] = value
        return value

    def _own(self, name: str) -> str:
        """The name, with a number where it has been asked before: a kernel may have several tiles."""
        self._asked[name] += 1
        return name if self._asked[name] == 1 else f"{name}.{self._asked[name]}"


def replay(choice: Choice) -> Trace:
    """A trace that decides as it was decided before; what is not in the choice, or no longer possible, as the rule
    says."""

    def pick(knob: Knob) -> Value:
        value = choice.get(knob.name, knob.default)
        return value if value in knob.values else knob.default

    return Trace(pick)


def to_json(choice: Choice) -> dict[str, object]:
    """A choice in JSON's types."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in choice.items()}


def from_json(choice: Mapping[str, object]) -> dict[str, Value]:
    """A choice from JSON's types."""
    return {name: tuple(value) if isinstance(value, list) else cast("Value", value) for name, value in choice.items()}
