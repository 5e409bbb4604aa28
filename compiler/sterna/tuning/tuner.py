"""The search: trials given to the kernels of a model where they gain most, and what wins is confirmed.

    with Database(place) as records:
        report = Tuner(graph, options, records).run(trials=500, seconds=1200)

Everything measured is in the records before the next trial begins, so that a run may end at any moment and the next one
goes on where it stood: a choice that has been measured on the device is not measured again.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from sterna.choices import Choice, Trace
from sterna.emulate.devices import place_named
from sterna.emulate.engines import ENGINES
from sterna.errors import error
from sterna.fast import Decision, Feeds, model_id
from sterna.ir.graph import Graph
from sterna.options import Options
from sterna.records import Algorithms, Confirmed, Database, Record, choice_text, target_id
from sterna.tuned import Best
from sterna.tuning.algorithms import chosen
from sterna.tuning.cost_model import CostModel, is_installed
from sterna.tuning.explorers import BLACK_BOXES, EXPLORERS, PLAIN, Explorer, Space
from sterna.tuning.kernels import Task, tasks_of
from sterna.tuning.machines import machine, maker
from sterna.tuning.measure import Local, Measurer
from sterna.tuning.parts import Decided, Search, Tried
from sterna.tuning.prior import Rows, prior_of
from sterna.tuning.scoring import Scorer
from sterna.tuning.unforeseen import INTERNAL, internal
from sterna.tuning.whole import Whole, measured
from sterna.tuning.worker import Trial
from sterna_runtime.advice import Advice, Option
from sterna_runtime.interruption import Ended, wish
from sterna_runtime.refusals import advised

#: Trials of a kernel between two decisions of who comes next, and the share of them drawn at random.
BATCH, EPSILON = 16, 0.15
#: Of these, for each device: the last of a batch are measured while other devices wait.
TURN = 8
#: A kernel that gained less than this in so many trials is left.
STILL, LEAST_GAIN = 64, 0.005
#: Of all trials, how many may go to what is decided above kernels.
SHARE_OF_PARTS = 0.25
#: Turns of a confirmation run, and how much faster a choice has to be in it.
TURNS, WINS = 5, 0.99


@dataclass
class Progress:
    """How far a kernel is.

    Args:
        before: a call's cost by the rules; best: the least so far; spent: trials of this run; history: the best after
            each trial.
        why: why it is not tuned, "" where it is; confirmed: whether the best won.
        costs: of what was measured, by `choice_text`; schedules: that they led to, as JSON.
        bugs: errors of this kernel's choices that are bugs of Sterna, each recorded once where no trial met it.
    """

    task: Task
    before: float = float("inf")
    best: float = float("inf")
    choice: Choice | None = None
    steps: str = ""
    spent: int = 0
    still: int = 0
    failed: int = 0
    why: str = ""
    confirmed: bool = False
    after: float = float("inf")
    costs: dict[str, float] = field(default_factory=dict)
    schedules: set[str] = field(default_factory=set)
    bugs: set[str] = field(default_factory=set)

    @property
    def share(self) -> float:
        """Of the model: what all its calls cost."""
        return self.task.calls * min(self.best, self.before)

    @property
    def gain(self) -> float:
        """How many times as fast the confirmed choice is."""
        return self.before / self.after if self.confirmed else 1.0


@dataclass(frozen=True)
class Report:
    """What a run has found.

    Args:
        unit: of costs; left: names of kernels of open sizes; trials: of this run; ended: "trials", "time", "still" or
            "interrupted"; whole: the model by the rules and with what won, which is dropped where that is slower; None
            where nothing won.
        algorithms: what is computed otherwise than the model says, and the error of that; None where all is exact.
        parts: what was decided otherwise than the rules do above kernels, and won.
    """

    kernels: tuple[Progress, ...]
    left: tuple[str, ...]
    unit: str
    trials: int
    seconds: float
    ended: str
    whole: Whole | None = None
    algorithms: Decision | None = None
    parts: tuple[Tried, ...] = ()

    @property
    def before(self) -> float:
        """What the measured kernels of a run of the model cost by the rules."""
        return sum(p.task.calls * p.before for p in self.kernels if not p.why)

    @property
    def after(self) -> float:
        """And with what won."""
        return sum(p.task.calls * (p.after if p.confirmed else p.before) for p in self.kernels if not p.why)

    @property
    def gain(self) -> float:
        """How many times as fast the kernels are, together; 1 where none was measured."""
        return self.before / self.after if self.after else 1.0


Watch = Callable[["Tuner"], None]


class Tuner:
    """The tuning of one model on one device.

    Args:
        device: "" for this machine, else as `Local` has it; measurer: of that device, by default `Local`.
        explorer: one of `explorers.EXPLORERS`.
        watch: called after every trial.
        model: whether a cost model ranks what explorers propose, if xgboost is there.
        feeds: what errors are measured on, where `options.math` leaves a choice of algorithms; None: random inputs.
        prior: what the cost model knows before, `NOTHING` for none; None: what is shipped for the target's family.
    """

    def __init__(
        self,
        graph: Graph,
        options: Options,
        records: Database,
        device: str = "",
        explorer: str = "evolution",
        seed: int = 0,
        measurer: Measurer | None = None,
        watch: Watch | None = None,
        model: bool = True,
        feeds: Feeds | None = None,
        prior: Rows | None = None,
    ):
        self.whole: Whole | None = None
        self.parts: tuple[Tried, ...] = ()
        self.algorithms: Decision | None = None
        self._graph, self._feeds, self._asked = graph, feeds, replace(options, math=0.0)
        self._take(options)
        self.records = records
        self.target = target_id(options.target)
        self.trials, self.started, self.current, self.confirming = 0, time.monotonic(), "", False
        self._explorers: dict[str, Explorer] = {}
        self._scorers: dict[str, Scorer] = {}
        self._measurer, self._explorer = measurer or Local(device), explorer
        self.unit = self._measurer.unit
        self.toolchain = maker(options, self._measurer.devices[0])
        self.machine = machine(options, self._measurer.devices[0])
        self._devices = tuple(map(self._recorded, self._measurer.devices))
        self._watch = watch or (lambda tuner: None)
        known = prior_of(options.target) if prior is None else prior
        self._model = CostModel(known) if model and is_installed() and explorer not in (*PLAIN, *BLACK_BOXES) else None
        self._rng = random.Random(seed)

    def _recorded(self, device: str) -> str:
        """What records call a device of the measurer: one that is driven from here by the name that its driver says,
        since another machine with these records may have another one."""
        return self.machine if self.options.target.device is not None and not device else device

    def run(self, trials: int = 500, seconds: float = float("inf")) -> Report:
        """Searches until so many trials are made, the time is over, nothing gains any more or somebody interrupts;
        then confirms what is best. A second interrupt ends that, too; `Ended` ends everything."""
        with self._measurer:
            was_interrupted = False
            try:
                if self.options.math:
                    self._decide()
                self._decide_parts(trials, seconds)
                ended = self.search(trials, seconds)
            except Ended:
                raise
            except KeyboardInterrupt:
                ended, was_interrupted = "interrupted", True
            try:
                self.confirming = True
                if was_interrupted:
                    wish.taken()
                for each in self.kernels:
                    self._confirm(each)
                self._compare()
            except Ended:
                raise
            except KeyboardInterrupt:
                ended = "interrupted"
        for each in self.kernels:
            if math.isinf(each.before):
                each.why = each.why or "the search was ended before it was measured"
        passed = time.monotonic() - self.started
        return Report(
            tuple(self.kernels), tuple(self.left), self.unit, self.trials, passed, ended, self.whole, self.algorithms,
            self.parts,
        )  # fmt: skip

    def _take(self, options: Options) -> None:
        """The kernels of the model by these options."""
        tasks, self.left = tasks_of(self._graph, options)
        self.options, self.kernels = options, [Progress(task) for task in tasks]

    def _decide(self) -> None:
        """The algorithms of layers, by what is known of their kernels and by the rules where nothing is."""
        found = chosen(self._graph, self.options, self._known_cost, self._feeds)
        if found.ways:
            self.algorithms = found
            self._take(found.options)

    def _decide_parts(self, trials: int, seconds: float) -> None:
        """What becomes a kernel, and how tensors lie, where that is faster otherwise than by the rules; the whole model
        has to be, too."""
        most = self.trials + int(SHARE_OF_PARTS * trials)
        passed = time.monotonic() - self.started
        left = partial(self._parts_left, most, passed + SHARE_OF_PARTS * (seconds - passed))
        found = Search(self._graph, self.options, self._measurer, left, self._known_part, self._keep_part).run()
        if not found:
            return
        tuned = replace(self.options, tuning=Decided({part: tried.choice for part, tried in found.items()}))
        whole = measured(self._graph, replace(self.options, tuning=None), tuned, self._measurer)
        if whole is None or whole.why or whole.is_slower:
            return
        self.whole = whole  # Where the search is interrupted before all is compared.
        self.parts = tuple(found.values())
        for each in self.parts:
            self.records.confirm(
                Confirmed(
                    each.part, self.target, self.options.target.name, self._devices[0], each.choice, "[]",
                    min(each.before), min(each.after), self.unit, self.machine, time.time(),
                )
            )  # fmt: skip
        self._take(tuned)

    def _parts_left(self, most: int, seconds: float) -> int:
        return 0 if self._late(seconds) else max(0, most - self.trials)

    def _known_part(self, part: str, choice: Choice) -> float | None:
        """What a choice for a part was measured to take, as a share of what it took by the rule."""
        own = [
            record
            for device in self._devices
            for record in self.records.trials(part, self.target, device, self.toolchain)
        ]
        rule = next((record.cost for record in own if record.explorer == "rules"), None)
        found = next((record for record in own if choice_text(record.choice) == choice_text(choice)), None)
        return None if rule is None or found is None else found.cost / rule

    def _keep_part(self, tried: Tried) -> None:
        """Writes what was measured of a part: by the rule, and otherwise."""
        self.trials += 1
        self.current = tried.name
        for choice, samples, wrong, explorer in (
            (tried.rule, tried.before, "", "rules"), (tried.choice, tried.after, tried.error, "parts"),
        ):  # fmt: skip
            if samples or wrong:
                self.records.add(
                    Record(
                        tried.part, tried.name, self.target, self.options.target.name, self.toolchain,
                        self._devices[0], self.unit, choice, "[]", samples, wrong, (), explorer, self.machine,
                        time.time(),
                    )
                )  # fmt: skip
        self._watch(self)

    def _known_cost(self, task: Task) -> float:
        self.current = task.name
        own = (task.kernel, self.target)
        costs = [r.cost for on in self._devices for r in self.records.trials(*own, on, self.toolchain)]
        if not costs:
            trial = self._measurer.measure(task, {})
            self._keep(Progress(task), trial, "rules")
            costs = [*trial.samples]
        self._watch(self)
        return min(costs, default=float("inf"))

    def search(self, trials: int, seconds: float = float("inf")) -> str:
        """The search alone: nothing is confirmed. Returns why it ended."""
        self._begin(seconds)
        while (progress := self._next()) is not None:
            if self.trials >= trials or self._late(seconds):
                return "trials" if self.trials >= trials else "time"
            self._batch(progress, min(max(BATCH, TURN * self._measurer.width), trials - self.trials), seconds)
        return "time" if self._late(seconds) else "still"

    def _late(self, seconds: float) -> bool:
        return time.monotonic() - self.started >= seconds

    def _begin(self, seconds: float) -> None:
        """What the rules say of every kernel is measured; what earlier runs have measured is taken over."""
        for each in self.kernels:
            if self._late(seconds):
                each.why = each.why or "no time was left for it"
                continue
            self.current = each.task.name
            default = self._measurer.measure(each.task, {})
            if default.error:
                each.why = default.error
                continue
            each.before = each.best = min(default.samples)
            self._keep(each, default, "rules")
            for device in self._devices:
                for known in self.records.trials(each.task.kernel, self.target, device, self.toolchain):
                    self._count(each, known.choice, known.cost, known.steps)
                    if known.error.startswith(INTERNAL):
                        each.bugs.add(known.error)
            self._watch(self)
        if self.kernels and all(each.why for each in self.kernels) and not self._late(seconds):
            self._refuse(self.kernels[0].why)

    def _refuse(self, why: str) -> None:
        """Raises what no kernel could be measured for, where that is the device's and not the kernels'."""
        device = self._measurer.devices[0]
        if coded := re.match(r"error\[(E\d{4})\]: (.+)", why):
            kinds = () if (driven := self.options.target.device) is None else (driven.kind,)
            title, fix = advised(coded[1], coded[2], kinds, place_named(device) if device else None)
            if coded[1] in ("E0004", "E0507") and not kinds and device not in ENGINES:
                told = "; `sterna rpc doctor` describes it" if device.startswith("rpc:") else ""
                fix = Advice(Option("target"), " has to be what the device is", told)
            elif coded[1].startswith("E08"):  # a trial's error has no more
                fix = f"run a bundle on {device} to see more"
            raise error(coded[1], f"no kernel can be measured: {title}", *filter(None, (device,)), fix=fix)
        if device:
            raise error("E0805", f"no kernel can be measured: {why}", device, fix="see that the device is there")

    def _next(self) -> Progress | None:
        """The kernel whose trials promise most: a large share of the model that still gains. None if nothing does."""
        open_ = [p for p in self.kernels if not p.why and p.still < STILL]
        return max(open_, key=lambda p: p.share * _promise(p), default=None)

    def _batch(self, progress: Progress, n: int, seconds: float) -> None:
        # Many choices lead to one schedule, ten of a matrix times a vector. What others are compared with draws all.
        seen = None if self._explorer in PLAIN else {*progress.schedules}
        bug = partial(self._keep_bug, progress)
        space = Space(progress.task.schedule, seen, bug)
        explorer = self._explorers.setdefault(
            progress.task.kernel, EXPLORERS[self._explorer](self._rng.randrange(1 << 30))
        )
        score = None
        if self._model is not None:
            self._model.fit(self.records.trials())
            if self._model.is_fit:
                scorer = self._scorers.setdefault(progress.task.kernel, Scorer(progress.task, self._model, bug))
                space, score = Space(scorer.schedule, seen, bug), scorer.score
                scorer.forget_drawn()
        drawn = sum(self._rng.random() < EPSILON for _ in range(n)) if score is not None else 0
        choices = explorer.propose(space, progress.costs, n - drawn, score)
        known = {**progress.costs, **{choice_text(c): float("inf") for c in choices}}
        if drawn:
            choices += EXPLORERS["random"](self._rng.randrange(1 << 30)).propose(space, known, drawn, None)
        if not choices:
            progress.still = STILL
            return
        self.current = progress.task.name
        if self._late(seconds):
            return
        with contextlib.closing(self._measurer.measure_all(progress.task, choices)) as measured:
            for trial in measured:
                self.trials += 1
                progress.spent += 1
                self._keep(progress, trial, explorer.name)
                self._watch(self)
                if self._late(seconds):
                    return

    def _keep(self, progress: Progress, trial: Trial, explorer: str) -> None:
        task, name = progress.task, self.options.target.name
        record = Record(
            task.kernel, task.name, self.target, name, self.toolchain, self._recorded(trial.device), self.unit,
            trial.choice, trial.steps, trial.samples, trial.error, trial.features, explorer, self.machine, time.time(),
        )  # fmt: skip
        self.records.add(record)
        before = progress.best
        self._count(progress, trial.choice, record.cost, trial.steps)
        progress.failed += bool(trial.error)
        progress.still = 0 if progress.best < before * (1 - LEAST_GAIN) else progress.still + 1

    def _keep_bug(self, progress: Progress, choice: Choice, problem: BaseException) -> None:
        """Writes what was raised before a trial: no trial is spent, and a choice may be drawn a thousand times."""
        if (why := internal(problem)) in progress.bugs:
            return
        progress.bugs.add(why)
        self.records.add(
            Record(
                progress.task.kernel, progress.task.name, self.target, self.options.target.name, self.toolchain,
                self._devices[0], self.unit, choice, "", (), why, (), self._explorer, self.machine,
                time.time(),
            )
        )  # fmt: skip

    def _count(self, progress: Progress, choice: Choice, cost: float, steps: str) -> None:
        progress.costs[choice_text(choice)] = cost
        if steps:
            progress.schedules.add(steps)
        if cost < progress.best:
            progress.best, progress.choice, progress.steps = cost, choice, steps

    def _confirm(self, progress: Progress) -> None:
        """Measures the best choice and the rules' own in turns; keeps it where it wins."""
        if progress.why or progress.choice is None:
            return
        self.current = progress.task.name
        self._watch(self)
        task, place, before, after = progress.task, "", list[float](), list[float]()
        for _ in range(TURNS):
            rules, own = (self._measurer.measure(task, choice) for choice in ({}, progress.choice))
            if rules.device != place:  # The device of the earlier turns is gone; its times say nothing of this one.
                place, before, after = rules.device, [], []
            if own.device == place:
                before += rules.samples
                after += own.samples
        for device in self._devices:
            self.records.forget(task.kernel, self.target, device)
        if not before or not after or statistics.median(after) >= WINS * statistics.median(before):
            return
        progress.before, progress.after, progress.confirmed = statistics.median(before), statistics.median(after), True
        self.records.confirm(
            Confirmed(
                task.kernel,
                self.target,
                self.options.target.name,
                self._recorded(place),
                progress.choice,
                progress.steps,
                progress.before,
                progress.after,
                self.unit,
                self.machine,
                time.time(),
            )
        )
        self._watch(self)

    def _compare(self) -> None:
        """Measures the whole model, as it says and by the rules, and as tuned; where it is no faster, what this run has
        confirmed is dropped."""
        won = [each for each in self.kernels if each.confirmed]
        if not won and self.algorithms is None and not self.parts:
            return
        tuning, rules = Best(self.records.confirmed(self.target)), replace(self._asked, tuning=None)
        tuned = replace(self.options, tuning=tuning)
        self.whole = measured(self._graph, rules, tuned, self._measurer)
        if self.whole is None:
            return
        if not self.whole.is_slower:
            self._remember()
            return
        dropped, self.algorithms, self.parts = [*(p.part for p in self.parts)], None, ()
        for each in won:
            each.confirmed = False
            dropped.append(each.task.kernel)
        for name in dropped:
            for device in self._devices:
                self.records.forget(name, self.target, device)

    def _remember(self) -> None:
        """Writes what was decided about algorithms, for `compile` to take within the same bound."""
        if self.algorithms is None or self.whole is None or self.whole.why:
            return
        found, name = self.algorithms.measured, self.options.target.name
        self.records.decide(
            Algorithms(
                model_id(self._graph), self._graph.name, self.target, name, self._devices[0], found.bound,
                self.algorithms.ways, found.error, found.data, self.whole.before, self.whole.after, self.unit,
                self.machine, time.time(),
            )
        )  # fmt: skip


def _promise(progress: Progress) -> float:
    """The share of its time that a kernel may still lose: much in the beginning, less after trials that gained
    nothing."""
    return (1 - progress.still / STILL) / (1 + 0.02 * progress.spent)


__all__ = ["Progress", "Report", "Space", "Trace", "Tuner"]
