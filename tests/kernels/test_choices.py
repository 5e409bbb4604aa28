"""What strategies choose otherwise than by their rules: the same results, whatever is chosen.

Random kernels of every family are compiled with choices drawn at random and compared with the interpreter. A choice may
be refused, by the codes of schedules and loops, and is as the rules say then; anything else that goes wrong is a fault
of a strategy.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.bundle.writer import write_bundle
from sterna.choices import BY_RULE, Chooser, Knob, Trace, V, Value, from_json, replay, to_json
from sterna.codegen.llvm import module_text
from sterna.debug.interpret import interpret
from sterna.driver import compile_graph
from sterna.ir.graph import Value as GraphValue
from sterna.options import Options
from sterna.passes.plan_kernels import finish_call
from sterna.passes.widen_halves import widen_halves
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.schedule.strategies import Context, propose
from sterna.targets.description import host, load_target
from sterna.targets.target import Target
from sterna.tuning import kernels, scoring
from sterna.tuning.cost_model import CostModel
from sterna.tuning.explorers import Space
from sterna.tuning.features import features_of
from sterna.tuning.kernels import Task
from sterna.tuning.scoring import Scorer
from sterna_runtime import load
from support.compiling import check
from support.random_kernels import FAMILIES, Kernels, graph_of
from support.small_kernels import matmul
from support.wrong_description import task_of, wrong

TARGETS = (host(), replace(host(), cores=4, share_cycles=1), wrong(host()))
#: `ci/tune` has more examples, different ones in every run.
MORE = int(os.environ.get("STERNA_EXAMPLES", "1"))


@dataclass
class Drawn:
    """Choices of all kernels, drawn at random; each decision is as often as not left to its rule."""

    seed: int
    traces: list[Trace] = field(default_factory=list)
    snapshot, machines = "", ()
    parts = 0
    refusals: int = 0

    def refused(self, kernel: str) -> None:
        self.refusals += 1

    @property
    def kernels(self) -> int:
        return len(self.traces)

    def chooser(self, kernel: str, target: Target) -> Chooser:
        draw = random.Random(f"{self.seed} {kernel}")

        def pick(knob: Knob) -> Value:
            return draw.choice(knob.values) if draw.random() < 0.5 else knob.default

        self.traces.append(Trace(pick))
        return self.traces[-1]

    def part(self, part: str, target: Target) -> Chooser:
        return BY_RULE


@pytest.mark.family("host-llvm")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_every_choice_computes_the_same(family: Callable[[Kernels], GraphValue]) -> None:
    done, refused = 0, 0

    @settings(
        max_examples=2 * MORE, deadline=None, derandomize=MORE == 1, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.data(), st.integers(0, 1 << 20))
    def run(data: st.DataObject, seed: int) -> None:
        nonlocal done, refused
        graph, feeds = graph_of(data.draw, family, 1)
        target = TARGETS[seed % len(TARGETS)]
        # The C compiler takes ten times as long.
        generator = "c" if MORE > 1 and seed % 4 == 0 else "llvm"
        drawn = Drawn(seed)
        compiled = compile_graph(graph, "small", Options(target, generator, tuning=drawn))
        done, refused = done + drawn.kernels, refused + drawn.refusals
        expected = interpret(widen_halves(graph), feeds)
        with tempfile.TemporaryDirectory() as folder, load(write_bundle(compiled, Path(folder) / "b"), 2) as bundle:
            check(bundle.run(feeds), expected)

    run()
    assert 2 * refused <= done, f"{refused} of {done} choices were refused"


def test_by_rule_asks_for_no_candidates() -> None:
    def candidates() -> Iterable[int]:
        raise AssertionError("nobody needs them")

    assert BY_RULE.choose("tile", candidates, 3) == 3


@pytest.mark.parametrize("kernel", [matmul(20, 64, 33), matmul(1, 300, 64, constant=True)], ids=["matrix", "row"])
def test_a_space_contains_what_the_rules_say_and_replays(kernel: object) -> None:
    context = Context(TARGETS[0])
    by_rule = propose(kernel, context)  # type: ignore[arg-type]
    trace = Trace()
    assert propose(kernel, replace(context, chooser=trace)).steps == by_rule.steps  # type: ignore[arg-type]
    names = [knob.name for knob in trace.knobs]
    assert len(set(names)) == len(names)
    assert {"vector_bits", "family", "tile"} <= set(names)
    assert all(trace.choice[knob.name] == knob.default for knob in trace.knobs)
    tile = next(knob for knob in trace.knobs if knob.name == "tile")
    other = {**trace.choice, "tile": tile.values[-1]}
    chosen = replay(from_json(to_json(other)))
    schedule = propose(kernel, replace(context, chooser=chosen))  # type: ignore[arg-type]
    assert chosen.choice["tile"] == tile.values[-1]
    assert schedule.steps != by_rule.steps
    assert saved.apply(kernel, schedule.steps).steps == schedule.steps  # type: ignore[arg-type]


def test_what_is_not_possible_any_more_is_as_the_rule_says() -> None:
    def ask(chooser: Chooser, name: str, values: tuple[V, ...]) -> V:
        return chooser.choose(name, lambda: values, values[0])

    trace = replay({"tile": (9, 9), "order": "rows"})
    assert ask(trace, "tile", ((1, 2), (2, 2))) == (1, 2)
    assert ask(trace, "order", ("columns", "rows")) == "rows"
    assert ask(trace, "order", ("columns", "rows")) == "columns"  # The second one has a name of its own.
    assert [knob.name for knob in trace.knobs] == ["tile", "order", "order.2"]


def test_picking_what_is_no_candidate_is_refused() -> None:
    with pytest.raises(ValueError, match="tile cannot be 7"):
        Trace(lambda knob: 7).choose("tile", lambda: (1, 2), 1)


@pytest.mark.parametrize("name", ["conv_3x3", "matmul", "matrix_vector", "softmax", "lstm"])
def test_a_wrong_description_has_the_right_schedule_in_its_space(name: str) -> None:
    """A search can find what the right description would have said: wider vectors, more registers, other loops."""
    right = load_target("x86-64-v4")
    asked = Trace()
    wanted = task_of(name, right).schedule(asked)
    own = task_of(name, wrong(right))
    assert own.schedule().steps != wanted.steps
    assert own.schedule(replay(asked.choice)).steps == wanted.steps


def test_wider_vectors_are_those_that_the_features_have() -> None:
    def offered(target: Target) -> list[Value]:
        trace = Trace()
        propose(matmul(20, 64, 33), Context(target, chooser=trace))  # type: ignore[arg-type]
        return [value for knob in trace.knobs if knob.name == "vector_bits" for value in knob.values]

    assert offered(load_target("x86-64-v4")) == [512, 256, 128]
    assert offered(replace(load_target("x86-64-v4"), vector_bits=128)) == [128, 256, 512]
    assert offered(replace(load_target("x86-64-v3"), vector_bits=128)) == [128, 256]
    assert offered(load_target("x86-64-v2")) == []  # one width is no decision
    assert offered(replace(load_target("x86-64-v4"), vector_bits=0)) == []


def test_a_choice_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither scheduled again after it was drawn, nor its features found where another choice led to the same steps."""
    task = task_of("matmul", host())
    scheduled, seen = list[Chooser](), list[Schedule]()
    real = Task.schedule

    def schedule(task: Task, chooser: Chooser = BY_RULE) -> Schedule:
        scheduled.append(chooser)
        return real(task, chooser)

    def features(schedule: Schedule, target: Target) -> tuple[float, ...]:
        seen.append(schedule)
        return features_of(schedule, target)

    monkeypatch.setattr(Task, "schedule", schedule)
    monkeypatch.setattr(scoring, "features_of", features)
    scorer = Scorer(task, CostModel())
    draw, space = random.Random(3), Space(scorer.schedule)
    drawn = [choice for choice in (space.random(draw) for _ in range(12)) if choice is not None]
    found = [scorer.features(choice) for choice in (*drawn, *drawn)]
    assert len(scheduled) == 12
    assert len(seen) == len({saved.to_json(s.steps) for s in seen}) <= len(drawn)
    assert found[: len(drawn)] == found[len(drawn) :]
    for choice, features in zip(drawn, found, strict=False):
        assert features == features_of(task.schedule(replay(choice)), host())


def test_choices_that_lead_to_one_schedule_are_drawn_once() -> None:
    """Of a row times a matrix many do; those that have been measured are not drawn either."""
    task, draw, seen = task_of("matrix_vector", load_target("x86-64-v2")), random.Random(3), set[str]()
    plain, space = Space(task.schedule), Space(task.schedule, seen)
    every = [choice for choice in (plain.random(draw) for _ in range(100)) if choice is not None]
    once = [choice for choice in (space.random(draw) for _ in range(100)) if choice is not None]
    steps = [saved.to_json(task.schedule(replay(choice)).steps) for choice in once]
    assert len(every) == 100 > len(once)
    assert len({*steps}) == len(steps)
    assert {*steps} == seen
    assert plain.draw(lambda knob: once[0].get(knob.name, knob.default)) == once[0]
    assert space.draw(lambda knob: once[0].get(knob.name, knob.default)) is None


@pytest.mark.parametrize("sums", [1, 2, 4, 8])
def test_every_number_of_sums_becomes_registers(sums: int) -> None:
    """Of a softmax's rows, which are longer than eight vectors."""
    task = task_of("softmax", load_target("x86-64-v2"))
    choice = {**Space(task.schedule).default, "sums": sums, "sums.2": sums}
    trace = replay(choice)
    schedule = task.schedule(trace)
    assert trace.choice["sums"] == trace.choice["sums.2"] == sums
    finish_call(task.call, kernels.lowered(task, schedule), task.options.target, "k0")


def test_llvm_keeps_the_widest_vectors_that_features_have() -> None:
    """A tuned kernel may have wider ones than its target's rules; LLVM would cut them."""
    narrow = replace(load_target("x86-64-v4"), vector_bits=256)
    assert '"prefer-vector-width"="512"' in module_text([], narrow, "m", [])
    assert "prefer-vector-width" not in module_text([], load_target("x86-64-v3"), "m", [])
