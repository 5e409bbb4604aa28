"""Explorers: which choices to try next, from those that were measured.

A space is defined by running the strategies (`sterna.choices`), so that an explorer draws a choice by answering what is
asked, one decision after the other; it never enumerates all. Whatever it proposes has been asked for, and is new.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Protocol

from sterna.choices import Choice, Knob, Trace, Value, from_json
from sterna.errors import SternaError
from sterna.records import choice_text
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.tuning.unforeseen import UNFORESEEN, Bug

#: Draws of a choice, for each that is wanted, before a space counts as exhausted, and where none is needed.
PATIENCE, SOON = 40, 4
#: How many measured choices have children, and of how many of their decisions one is drawn anew.
PARENTS, MUTATION = 8, 0.25
#: Choices of which the cost model picks the first batch, and those that are drawn at random beside the children of a
#: later one, for each that is wanted: what no parent has may be better by far.
FIRST, AFAR = 256, 4
#: What a choice gains in which every value is new, in parts of all ranks.
NEW = 1.0
#: Of annealing: steps of a chain, and the temperature of the first, in parts of a score.
STEPS, HEAT = 12, 0.3
#: Of the genetic one: the fastest that may have children, and of how many a parent is the fastest.
POPULATION, TOURNAMENT = 32, 3
#: Of the Parzen estimator: trials before it is asked, the share of those and the number that count as fast at most, and
#: values drawn for each that is chosen. optuna draws 24, for one choice at a time; a batch would be 16 times the same.
STARTUP, GOOD, MOST_GOOD, DRAWN = 10, 0.1, 25, 2

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
        bug: is told what a strategy did not foresee, and the decisions that led there.
    """

    schedule: Callable[[Trace], object]
    seen: set[str] | None = None
    bug: Bug | None = None

    def draw(self, pick: Callable[[Knob], Value]) -> Choice | None:
        """A whole choice; None where the strategies refuse it, or its schedule has been seen."""
        trace = Trace(pick)
        try:
            found = self.schedule(trace)
        except SternaError:
            return None
        except UNFORESEEN as problem:
            if self.bug is not None:
                self.bug(trace.choice, problem)
            return None
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

    def __init__(self, seed: int = 0, patience: int = PATIENCE):
        self._rng, self._patience = random.Random(seed), patience

    def propose(self, space: Space, costs: Mapping[str, float], n: int, score: Score | None) -> list[Choice]:
        return list(islice(_new((space.random(self._rng) for _ in range(self._patience * n)), costs), n))


class Grid:
    """All choices in order, the last decision first, as an odometer counts."""

    name = "grid"

    def __init__(self) -> None:
        self._next: list[int] | None = []

    def propose(self, space: Space, costs: Mapping[str, float], n: int, score: Score | None) -> list[Choice]:
        return list(islice(_new(self.walk(space), costs), n))

    def walk(self, space: Space) -> Iterator[Choice | None]:
        """The choices in order, from where the last walk ended; None for each that the space refuses."""
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
        if score is None:
            return list(islice(_new(drawn, costs), n))
        children = list(islice(_new(drawn, costs), n * self._generations))
        if len(parents) < PARENTS:  # The first batch: what the model knows of other kernels says where to begin.
            known = {**costs, **{choice_text(choice): math.inf for choice in children}}
            children += Random(rng.randrange(1 << 30)).propose(space, known, FIRST - len(children), None)
            # It has not seen this one yet: half of the batch is drawn without it.
            chosen = best(children, score, n - n // 2)
            rest = [choice for choice in children if choice not in chosen]
            return chosen + rng.sample(rest, min(n // 2, len(rest)))
        known = {**costs, **{choice_text(choice): math.inf for choice in children}}
        children += Random(rng.randrange(1 << 30), SOON).propose(space, known, AFAR * n, None)
        return best_and_new(children, score, n, costs)

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
        chosen = fresh[:n] if score is None else best_and_new(fresh, score, n, costs)
        return _filled(chosen, space, costs, n, rng)  # Where chains find nothing new around them.

    def _neighbour(self, space: Space, choice: Choice) -> Choice | None:
        """The choice with one decision drawn anew."""
        name = self._rng.choice([*choice]) if choice else ""

        def pick(knob: Knob) -> Value:
            value = choice.get(knob.name)
            return self._rng.choice(knob.values) if knob.name == name or value not in knob.values else value

        return space.draw(pick)


class Genetic:
    """A plain genetic algorithm (J. Holland, 1975) to compare with: a tournament picks each parent from the fastest,
    decisions come from either, one in as many as there are is drawn anew. It asks no cost model."""

    name = "genetic"

    def __init__(self, seed: int = 0):
        self._rng = random.Random(seed)

    def propose(self, space: Space, costs: Mapping[str, float], n: int, score: Score | None) -> list[Choice]:
        population = fastest(costs, POPULATION)
        if len(population) < n:  # The first generation.
            return _filled([], space, costs, n, self._rng)
        children = (self._child(space, population) for _ in range(PATIENCE * n))
        return _filled(islice(_new(children, costs), n), space, costs, n, self._rng)

    def _child(self, space: Space, population: Sequence[Choice]) -> Choice | None:
        rng = self._rng
        pair = [population[min(rng.randrange(len(population)) for _ in range(TOURNAMENT))] for _ in range(2)]
        rate = 1 / max(1, len(pair[0]))

        def pick(knob: Knob) -> Value:
            value = rng.choice(pair).get(knob.name)
            return rng.choice(knob.values) if value not in knob.values or rng.random() < rate else value

        return space.draw(pick)


class Parzen:
    """The tree-structured Parzen estimator (J. Bergstra et al., Algorithms for Hyper-Parameter Optimization, 2011) of
    decisions among values, as optuna has it: each value is the one, of some drawn as often as among the fast choices,
    that is most frequent there beside all others. It asks no cost model. (optuna itself would bring SQLAlchemy and
    alembic for these lines.)"""

    name = "tpe"

    def __init__(self, seed: int = 0):
        self._rng = random.Random(seed)

    def propose(self, space: Space, costs: Mapping[str, float], n: int, score: Score | None) -> list[Choice]:
        if len(costs) < STARTUP:
            return _filled([], space, costs, n, self._rng)
        ranked = fastest(costs, len(costs))
        # What failed tells what to avoid.
        failed = [from_json(json.loads(text)) for text, cost in costs.items() if not math.isfinite(cost)]
        most = min(MOST_GOOD, math.ceil(len(ranked) * GOOD))
        good, rest = _Frequencies(ranked[:most]), _Frequencies([*ranked[most:], *failed])

        def pick(knob: Knob) -> Value:
            likely = [good.of(knob, value) for value in knob.values]
            drawn = self._rng.choices(range(len(likely)), likely, k=DRAWN)
            return knob.values[max(drawn, key=lambda n: likely[n] / rest.of(knob, knob.values[n]))]

        proposed = (space.draw(pick) for _ in range(PATIENCE * n))
        return _filled(islice(_new(proposed, costs), n), space, costs, n, self._rng)


class _Frequencies:
    """How often a decision had a value in some choices; every value counts once besides."""

    def __init__(self, choices: Sequence[Choice]):
        self._pairs = Counter((name, value) for choice in choices for name, value in choice.items())
        self._names = Counter(name for choice in choices for name in choice)

    def of(self, knob: Knob, value: Value) -> float:
        return (self._pairs[knob.name, value] + 1 / len(knob.values)) / (self._names[knob.name] + 1)


#: By the names that --explorer takes.
EXPLORERS: dict[str, Callable[[int], Explorer]] = {
    "evolution": Evolutionary,
    "annealing": Annealing,
    "random": Random,
    "grid": lambda seed: Grid(),
    "genetic": Genetic,
    "tpe": Parzen,
}
#: Explorers that know of nothing but their own draws, and those that go by what was measured, but by no cost model.
PLAIN, BLACK_BOXES = ("random", "grid"), ("genetic", "tpe")


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


def best_and_new(choices: Sequence[Choice], score: Score, n: int, costs: Mapping[str, float]) -> list[Choice]:
    """Those of the highest rank, where a choice gains by values that no choice has which was measured or comes before
    it: of those a model knows nothing, and the choices that it ranks first differ in little. (T. Chen et al., 2018,
    choose batches by score and by how many values they cover, too.)"""
    ranked = best(choices, score, len(choices))
    rank = {id(choice): place / len(ranked) for place, choice in enumerate(ranked)}
    known = {pair for text in costs for pair in from_json(json.loads(text)).items()}
    chosen = list[Choice]()
    while ranked and len(chosen) < n:
        found = max(ranked, key=lambda c: NEW * len(c.items() - known) / max(1, len(c)) - rank[id(c)])
        ranked.remove(found)
        chosen.append(found)
        known |= found.items()
    return chosen


def _filled(
    found: Iterable[Choice], space: Space, costs: Mapping[str, float], n: int, rng: random.Random
) -> list[Choice]:
    """Those, and as many drawn at random as are missing of n."""
    chosen = [*found]
    known = {**costs, **{choice_text(choice): math.inf for choice in chosen}}
    return chosen + Random(rng.randrange(1 << 30)).propose(space, known, n - len(chosen), None)


def _new(drawn: Iterator[Choice | None], costs: Mapping[str, float]) -> Iterator[Choice]:
    """Those that are no choice that was measured or came before."""
    seen = set(costs)
    for choice in drawn:
        if choice is not None and (text := choice_text(choice)) not in seen:
            seen.add(text)
            yield choice
