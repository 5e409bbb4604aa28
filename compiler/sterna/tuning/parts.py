"""Decisions above kernels: which nodes are one kernel, and how tensors lie, by what that costs on a device.

Every decision of a model's passes (`passes.decisions`) has the rule's answer and others. For each other one, the calls
of kernels that a model has only by the one or only by the other are taken out of it, compiled by themselves and
measured in turns:

    by the rule:  conv+relu -> pad -> conv         in its place:  conv+relu -> pad+conv

Calls that occur several times are measured once. What is faster stays, and what follows is decided beside it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sterna.bundle.writer import write_bundle
from sterna.choices import BY_RULE, Choice, Chooser, Knob, V
from sterna.errors import SternaError
from sterna.ir.graph import Graph
from sterna.ir.graph import Value as Tensor
from sterna.options import Options
from sterna.passes.context import context_of
from sterna.passes.kernels import Call
from sterna.passes.linearize import CallSequence
from sterna.passes.memory_plan import plan_memory
from sterna.passes.placement import with_transfers
from sterna.passes.stages import Outline, call_multiply_adds
from sterna.pipeline import walk
from sterna.scratch import temporary_directory
from sterna.targets.target import Target
from sterna.tuning.measure import Measurer
from sterna.tuning.unforeseen import UNFORESEEN, internal

#: The last pass that asks nothing, and the one whose calls are compared: those after it leave them as they are.
BEFORE, LAST = "widen-halves", "group-channels"
#: How much faster a part has to be, twice, for another answer than the rule's to stay.
WINS = 0.98
#: What may be decided only after another answer is tried where that takes no longer than this, as a share.
HOPELESS = 1.05
#: What a byte that calls read or write counts beside a multiply-add, where parts are put in order.
_BYTE = 4.0


class Decided:
    """Some decisions above kernels, the others by their rules, and so are kernels: `options.Tuning`.

    Args:
        choices: by the fingerprints of parts.
    """

    kernels, snapshot, machines = 0, "", ()

    def __init__(self, choices: Mapping[str, Choice] | None = None):
        self.choices = choices or {}
        self.asked: dict[str, Knob] = {}

    @property
    def parts(self) -> int:
        return len(self.choices)

    def part(self, part: str, target: Target) -> Chooser:
        return _Asked(self, part)

    def chooser(self, kernel: str, target: Target) -> Chooser:
        return BY_RULE

    def algorithms(self, model: str, target: Target, bound: float) -> None:
        return None

    def refused(self, kernel: str) -> None:
        pass


class _Asked:
    """Answers for one part, and keeps what was asked."""

    def __init__(self, decided: Decided, part: str):
        self._decided, self._part = decided, part

    def choose(self, name: str, candidates: Callable[[], Iterable[V]], default: V) -> V:
        knob = Knob(name, tuple(dict.fromkeys((default, *candidates()))))
        if len(knob.values) > 1:
            self._decided.asked[self._part] = knob
        value = self._decided.choices.get(self._part, {}).get(name, default)
        return value if value in knob.values else default  # type: ignore[return-value]


@dataclass(frozen=True)
class Form:
    """A model by some decisions: its calls, and what was decided on the way."""

    choices: Mapping[str, Choice]
    outline: Outline
    asked: Mapping[str, Knob]

    @property
    def calls(self) -> tuple[Call, ...]:
        return self.outline.sequence.calls


@dataclass(frozen=True)
class Tried:
    """Another answer than the rule's, measured.

    Args:
        part: its fingerprint; name: for people; knob: what may be chosen; choice: what was.
        before, after: costs of the calls that it concerns; error: why there are none.
    """

    part: str
    name: str
    knob: Knob
    choice: Choice
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()
    error: str = ""

    @property
    def rule(self) -> Choice:
        """What the rule says."""
        return {self.knob.name: self.knob.default}

    @property
    def gain(self) -> float:
        """How long it takes, as a share of what it took before; infinite where it failed."""
        if self.error or not self.before or not self.after:
            return float("inf")
        return min(self.after) / min(self.before)


def formed(graph: Graph, options: Options, choices: Mapping[str, Choice]) -> Form:
    """A model by some decisions.

    Args:
        graph: after the passes up to `BEFORE`, which ask nothing.

    Raises:
        SternaError: it cannot be compiled so.
    """
    decided = Decided(choices)
    outline = walk(graph, context_of(replace(options, tuning=decided)), LAST, after=BEFORE)
    assert isinstance(outline, Outline)
    return Form(choices, outline, decided.asked)


class Search:
    """Tries what may be decided otherwise above a model's kernels.

    Args:
        left: how many trials there still are; 0 ends the search.
        known: what was measured before of an answer, as `Tried.gain`; None: nothing.
        keep: is given all that was measured.
    """

    def __init__(
        self,
        graph: Graph,
        options: Options,
        measurer: Measurer,
        left: Callable[[], int],
        known: Callable[[str, Choice], float | None],
        keep: Callable[[Tried], None],
    ):
        self._graph = walk(graph, context_of(options), BEFORE)
        self._options, self._measurer = options, measurer
        self._left, self._known, self._keep = left, known, keep

    def run(self) -> dict[str, Tried]:
        """What is faster than by the rules, by the fingerprints of parts."""
        won: dict[str, Tried] = {}
        base = formed(self._graph, self._options, {})
        for part in self._in_order(base):
            if not self._left():
                break
            if part not in base.asked or part in won:
                continue  # Another decision has taken its nodes.
            best = min(self._alternatives(base, part), key=lambda each: each[0].gain, default=None)
            if best is None or best[0].gain >= WINS:
                continue
            tried, form = best
            again = self._measured(base, form, tried)
            if again.gain < WINS:
                won |= dict.fromkeys(set(form.choices) - set(base.choices), again)
                base = form
        return {part: replace(tried, part=part, choice=base.choices[part]) for part, tried in won.items()}

    def _in_order(self, base: Form) -> list[str]:
        """The parts, those first whose calls do most."""
        work: dict[str, float] = {}
        for part, knob in base.asked.items():
            form = self._formed(base, {part: {knob.name: knob.values[1]}})
            own = () if form is None else differing(base.calls, form.calls)[0]
            work[part] = sum(_work(base.calls[n]) for n in own)
        return sorted((part for part, amount in work.items() if amount), key=lambda part: -work[part])

    def _alternatives(self, base: Form, part: str) -> Iterator[tuple[Tried, Form]]:
        """Every other answer about a part, measured, and with each what may be decided only then."""
        knob = base.asked[part]
        for value in knob.values[1:]:
            first = {part: {knob.name: value}}
            for tried, form in self._one(base, self._formed(base, first), part, knob, first):
                yield tried, form
                if tried.gain > HOPELESS:
                    continue
                for other in sorted(form.asked.keys() - base.asked.keys()):
                    for then in form.asked[other].values[1:]:
                        both = {**first, other: {form.asked[other].name: then}}
                        yield from self._one(base, self._formed(base, both), part, knob, both)

    def _one(
        self, base: Form, form: Form | None, part: str, knob: Knob, more: Mapping[str, Choice]
    ) -> Iterator[tuple[Tried, Form]]:
        if form is None or not self._left() or not any(differing(base.calls, form.calls)):
            return
        choice = {
            name if of == part else f"{name} {of}": value for of, own in more.items() for name, value in own.items()
        }
        if (known := self._known(part, choice)) is not None and known >= 1:
            return  # What has lost is not measured again.
        tried = self._measured(base, form, Tried(part, "", knob, choice))
        self._keep(tried)
        yield tried, form

    def _formed(self, base: Form, more: Mapping[str, Choice]) -> Form | None:
        try:
            return formed(self._graph, self._options, {**base.choices, **more})
        except SternaError:
            return None
        except UNFORESEEN as problem:
            part, choice = next(iter(more.items()))
            self._keep(Tried(part, base.asked[part].name, base.asked[part], choice, error=internal(problem)))
            return None

    def _measured(self, base: Form, form: Form, tried: Tried) -> Tried:
        """The calls that only the one form has, and those that only the other has, in turns."""
        sides = differing(base.calls, form.calls)
        calls = [*(base.calls[n] for n in sides[0]), *(form.calls[n] for n in sides[1])]
        name = next((call.sources[0] for call in calls if call.sources), calls[0].name)
        tried = replace(tried, name=f"{tried.knob.name}: {name}")
        with temporary_directory("part") as folder:
            try:
                outlines = [excerpt(f.outline, own, self._options) for f, own in zip((base, form), sides, strict=True)]
                bundles = [built(o, self._options, Path(folder) / str(n)) for n, o in enumerate(outlines)]
            except SternaError as problem:
                return replace(tried, error=str(problem).split("\n", 1)[0][:200])
            except UNFORESEEN as problem:
                return replace(tried, error=internal(problem))
            found = self._measurer.turns(bundles, part=True)
        if isinstance(found, str):
            return replace(tried, error=found)
        return replace(tried, before=tuple(found[0]), after=tuple(found[1]))


def differing(before: Sequence[Call], after: Sequence[Call]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the calls in which two forms of a model differ; a place that looks like one before it is left
    out, on both sides."""
    old, new = ([f"{call.name}\0{call.key}" for call in calls] for calls in (before, after))
    seen: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    own: list[int] = []
    other: list[int] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        looks = (tuple(call.key for call in before[a:b]), tuple(call.key for call in after[c:d]))
        if kind != "equal" and looks not in seen:
            seen.add(looks)
            own += range(a, b)
            other += range(c, d)
    return tuple(own), tuple(other)


def excerpt(outline: Outline, numbers: Sequence[int], options: Options) -> Outline:
    """Some of a model's calls as a model of their own: what they read is given, what others read of it is returned."""
    calls = tuple(outline.sequence.calls[n] for n in numbers)
    views = outline.views

    def roots(values: Sequence[Tensor]) -> list[Tensor]:
        return [views.storage(value).root for value in values]

    written = dict.fromkeys(root for call in calls for root in roots(call.outputs))
    whole = {value for call in calls for value in call.outputs}
    given = dict.fromkeys(root for call in calls for root in roots(call.inputs) if root not in written)
    chosen = set(numbers)
    others = [call for n, call in enumerate(outline.sequence.calls) if n not in chosen]
    read = {*roots(outline.graph.outputs), *(root for call in others for root in roots(call.inputs))}
    # A tensor of which other calls write a part is not compared: it is memory that lies between these.
    returned = [root for root in written if root in read and root in whole] or [*written][-1:]
    graph = Graph("part", tuple(given), tuple(returned), ())
    target = options.target
    plan = plan_memory(graph, calls, views, memories=target.tensor_memories, alignment=target.alignment)
    return Outline(graph, views, with_transfers(graph, views, CallSequence(calls), plan), plan)


def built(outline: Outline, options: Options, folder: Path) -> Path:
    """A bundle of an excerpt, its kernels as the rules say.

    Raises:
        SternaError: it leads to no loops, or the toolchain failed.
    """
    compiled = walk(outline, context_of(replace(options.alone, tuning=None), "part"), after=LAST)
    return write_bundle(compiled, folder)


def _work(call: Call) -> float:
    """About what a call costs; those of open sizes cannot be measured, and count as nothing."""
    values = (*call.inputs, *call.outputs)
    if not all(value.type.is_static for value in values):
        return 0.0
    return float(call_multiply_adds(call)) + _BYTE * sum(int(value.type.bytes) for value in values)


__all__ = ["Decided", "Search", "Tried", "formed"]
