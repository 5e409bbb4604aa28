"""Explorers: which choices to try next, from those that were measured.

A space is defined by running the strategies (`sterna.choices`), so that an explorer draws a choice by answering what is
asked, one decision after the other; it never enumerates all. Whatever it proposes has been asked for, and is new.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Protocol

from sterna.choices import Choice, Knob, Trace, Value, from_json
from sterna.errors import SternaError
from sterna.records import choice_text
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule

#: Draws of a choice, for each that is wanted, before a space counts as exhausted.
PATIENCE = 40
#: How many measured choices have children, and of how many of their decisions one is drawn anew.
PARENTS, MUTATION = 8, 0.25
#: Of annealing: steps of a chain, and the temperature of the first, in parts of a score.
STEPS, HEAT = 12, 0.3

#: Answers what the strategies ask; gives the whole choice, or None where it leads to no schedule.
Draw = Callable[[Callable[[Knob], Value]], "Choice | None"]
#: The predicted rank of choices: greater is faster.
Score = Callable[[Sequence[Choice]], Sequence[float]]


@dataclass(frozen=True)
class Space:
    """What may be chosen for a kernel.

    Args:
        schedule: runs the strategies with a chooser.
        seen: schedules, as JSON, that are not drawn; None: choices that lead to one schedule are drawn all the same.
            What is drawn is added.
    """

    schedule: Callable[[Trace], object]
    seen: set[str] | None = None

    def draw(self, pick: Callable[[Knob], Value]) -> Choice | None:
        """A whole choice; None where the strategies refuse it, or its schedule has been seen."""
        trace = Trace(pick)
        try:
            found = self.schedule(trace)
        except SternaError:
            return None
        except (AssertionError, IndexError, KeyError, ValueError):
            return None  # What a strategy did not foresee is no schedule either.
        if self.seen is not None and isinstance(found, Schedule):
            steps = saved.to_json(found.steps)
            if steps in self.seen:
                return None
            self.seen.add(steps)
        return trace.choice

    @property
    def default(self) -> Choice:
        """What the rules say."""
        found = self.draw(lambda knob: knob.default)
        assert found is not None
        return found

    def random(self, rng: random.Random) -> Choice | None:
        """Every decision drawn at random."""
        return self.draw(lambda knob: rng.choice(knob.values))


class Explorer(Protocol):
    """Proposes what to measure."""

    name: str

    def propose(self, space: Space, costs: Mapping[str, float], n: int, score: Score | None) -> list[Choice]:
        """Up to n choices that have not been measured; fewer where the space has no more that are found.

        Args:
            costs: what was measured, by `choice_text`; infinite where it failed.
            score: of a cost model, where there is one.
        """
        ...


class Random:
    """Draws at random: what every other one is compared with."""

    name = "random"

    def __init__(self, seed: int = 0):
        self._rng = random.Random(seed)

    def propose(self, space: Space, costs: Mapping[str, float], n: int, score: Score | None) -> list[Choice]:
        return list(islice(_new((space.random(self._rng) for _ in range(PATIENCE * n)), costs), n))


class Grid:
    """All choices in order, the last decision first, as an odometer counts."""

    name = "grid"

    def __init__(self) -> None:
        self._next: list[int] | None = []

    def propose(self, space: Space, costs: Mapping[str, float], n: int, score: Score | None) -> list[Choice]:
        return list(islice(_new(self._walk(space), costs), n))

    def _walk(self, space: Space) -> Iterator[Choice | None]:
        while self._next is not None:
            at, sizes = iter([*self._next]), list[tuple[int, int]]()

            def pick(knob: Knob, at: Iterator[int] = at, sizes: list[tuple[int, int]] = sizes) -> Value:
                position = min(next(at, 0), len(knob.values) - 1)
                sizes.append((position, len(knob.values)))
                return knob.values[position]

            found = space.draw(pick)
            while sizes and sizes[-1][0] + 1 == sizes[-1][1]:
                sizes.pop()
            self._next = [*(p for p, _ in sizes[:-1]), sizes[-1][0] + 1] if sizes else None
            yield found


class Evolutionary:
    """Children of the fastest: every decision from one of two parents, now and then drawn anew; where there is a cost
    model, the best of several times as many."""

    name = "evolution"

    def __init__(self, seed: int = 0, generations: int = 3):
        self._rng, self._generations = random.Random(seed), generations

    def propose(self, space: Space, costs: Mapping[str, float], n: int, score: Score | None) -> list[Choice]:
        rng = self._rng
        parents = fastest(costs, PARENTS)
        if not parents:
            return Random(rng.randrange(1 << 30)).propose(space, costs, n, score)
        drawn = (self._child(space, parents) for _ in range(PATIENCE * n))
        wanted = n if score is None else n * self._generations
        children = list(islice(_new(drawn, costs), wanted))
        if score is None:
            return children
        return best(children, score, n)

    def _child(self, space: Space, parents: Sequence[Choice]) -> Choice | None:
        rng = self._rng
        if rng.random() < 0.1:
            return space.random(rng)
        pair = rng.choice(parents), rng.choice(parents)

        def pick(knob: Knob) -> Value:
            value = rng.choice(pair).get(knob.name)
            if value not in knob.values or rng.random() < MUTATION:
                return rng.choice(knob.values)
            return value

        return space.draw(pick)


class Annealing:
    """Chains of small steps, several side by side, each from a fast choice: a step that the cost model says is worse is
    taken less and less often (S. Kirkpatrick et al., 1983). Without a model, steps go from what is fastest."""

    name = "annealing"

    def __init__(self, seed: int = 0):
        self._rng = random.Random(seed)

    def propose(self, space: Space, costs: Mapping[str, float], n: int, score: Score | None) -> list[Choice]:
        rng = self._rng
        parents = fastest(costs, PARENTS)
        ranks = range(len(parents))  # Of two that are drawn, the faster one: it has more steps.
        starts = [parents[min(rng.choices(ranks, k=2))] for _ in range(n - n // 8) if parents]
        starts += Random(rng.randrange(1 << 30)).propose(space, {}, n - len(starts), None)
        seen: list[Choice | None] = [*starts]
        scores = list(score(starts)) if score is not None and starts else [0.0] * len(starts)
        steps = STEPS if score is not None else 1
        for step in range(steps):
            heat = HEAT * (1 - step / steps)
            moved = [self._neighbour(space, start) or start for start in starts]
            found = list(score(moved)) if score is not None and moved else [0.0] * len(moved)
            for i, (old, new) in enumerate(zip(scores, found, strict=True)):
                if new >= old or rng.random() < math.exp((new - old) / max(heat, 1e-6)):
                    starts[i], scores[i] = moved[i], new
            seen += moved
        fresh = list(_new(iter(seen), costs))
        rng.shuffle(fresh)
        chosen = fresh[:n] if score is None else best(fresh, score, n)
        # Where chains find nothing new around them, something else is tried.
        known = {**costs, **{choice_text(choice): math.inf for choice in chosen}}
        return chosen + Random(rng.randrange(1 << 30)).propose(space, known, n - len(chosen), None)

    def _neighbour(self, space: Space, choice: Choice) -> Choice | None:
        """The choice with one decision drawn anew."""
        name = self._rng.choice([*choice]) if choice else ""

        def pick(knob: Knob) -> Value:
            value = choice.get(knob.name)
            return self._rng.choice(knob.values) if knob.name == name or value not in knob.values else value

        return space.draw(pick)


#: By the names that --explorer takes.
EXPLORERS: dict[str, Callable[[int], Explorer]] = {
    "evolution": Evolutionary,
    "annealing": Annealing,
    "random": Random,
    "grid": lambda seed: Grid(),
}


def fastest(costs: Mapping[str, float], n: int) -> list[Choice]:
    """The fastest choices that were measured."""
    found = sorted((cost, text) for text, cost in costs.items() if math.isfinite(cost))
    return [from_json(json.loads(text)) for _, text in found[:n]]


def best(choices: Sequence[Choice], score: Score, n: int) -> list[Choice]:
    """Those of the highest score."""
    if not choices:
        return []
    ranked = sorted(zip(score(choices), count(), choices, strict=False), key=lambda each: (-each[0], each[1]))
    return [choice for _, _, choice in ranked[:n]]


def _new(drawn: Iterator[Choice | None], costs: Mapping[str, float]) -> Iterator[Choice]:
    """Those that are no choice that was measured or came before."""
    seen = set(costs)
    for choice in drawn:
        if choice is not None and (text := choice_text(choice)) not in seen:
            seen.add(text)
            yield choice
