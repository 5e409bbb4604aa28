"""Which forms of kernels firmware has, and which of them share code: as many bytes as can be saved for so many
instructions, greedily, those first of which the most are saved for each instruction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sterna.loops.effort import ADDRESS_BYTES, ADDRESS_INSTRUCTIONS, ARGUMENT_BYTES, BYTES, Effort, effort
from sterna.loops.generalize import General, are_alike, generalize
from sterna.passes.stages import Planned
from sterna.targets.target import Target


@dataclass(frozen=True)
class Form:
    """A way to run a kernel, by its number, and what that takes; its weights are packed for it."""

    kernel: int
    planned: Planned
    effort: Effort

    @property
    def bytes(self) -> float:
        """Of its code."""
        return self.effort.written * BYTES

    @property
    def weights(self) -> int:
        """Bytes of the constants of a call."""
        return max((b.end for b in self.planned.function.params), default=0)


@dataclass(frozen=True)
class Chosen:
    """A form for every kernel: those that have code for themselves; and those that share, together."""

    alone: tuple[Form, ...]
    sharing: tuple[tuple[Form, ...], ...]


def choose_forms(forms: Sequence[Form], runs: Sequence[int], target: Target, most: float) -> Chosen:
    """The forms to take.

    Args:
        forms: of every kernel, first of all as it was planned.
        runs: of every kernel in a run of the model.
        most: instructions of a run that may be added.
    """
    choice = _Choice(forms, runs, target)
    while (best := max(choice.changes(most), key=lambda each: each.rate, default=None)) is not None:
        most -= best.added
        choice.take(best)
    return choice.result()


@dataclass(frozen=True)
class _Class:
    """Forms that are alike.

    Args:
        instructions: of a run of each by the program for all; bytes: of that program, without arguments.
        argument: bytes of the arguments of one.
    """

    forms: tuple[Form, ...]
    instructions: tuple[float, ...]
    bytes: float
    argument: float


@dataclass(frozen=True)
class _Change:
    """Forms that kernels take, sharing the code of a class or (None) alone; bytes that it saves, instructions that it
    adds to a run of the model."""

    forms: tuple[Form, ...]
    group: int | None
    saved: float
    added: float

    @property
    def rate(self) -> float:
        return self.saved / (1 + max(0.0, self.added))


class _Choice:
    """What every kernel has so far."""

    def __init__(self, forms: Sequence[Form], runs: Sequence[int], target: Target):
        self.forms, self.runs = forms, runs
        self.classes = [_class(each, target) for each in _alike(forms) if len({form.kernel for form in each}) > 1]
        first = {form.kernel: form for form in reversed(forms)}
        self.form = [first[n] for n in range(len(runs))]
        self.instructions = [self.form[n].effort.instructions for n in range(len(runs))]
        self.sharing: list[list[Form]] = [[] for _ in self.classes]
        self.shares: set[int] = set()

    def changes(self, most: float) -> Iterator[_Change]:
        """Those that save bytes and add at most so many instructions."""
        for change in (*self._alone(), *self._together()):
            if change.saved > 0 and change.added <= most:
                yield change

    def take(self, change: _Change) -> None:
        for form in change.forms:
            self.form[form.kernel] = form
            self.instructions[form.kernel] = form.effort.instructions
            if change.group is not None:
                each = self.classes[change.group]
                self.instructions[form.kernel] = each.instructions[each.forms.index(form)]
                self.sharing[change.group].append(form)
                self.shares.add(form.kernel)

    def result(self) -> Chosen:
        alone = tuple(form for n, form in enumerate(self.form) if n not in self.shares)
        together = (tuple(sorted(forms, key=lambda form: form.kernel)) for forms in self.sharing if forms)
        return Chosen(alone, tuple(together))

    def _alone(self) -> Iterator[_Change]:
        for form in self.forms:
            now = self.form[form.kernel]
            if form.kernel not in self.shares and form is not now:
                saved = now.bytes - form.bytes + self._lighter(form)
                yield _Change((form,), None, saved, self._added(form, form.effort.instructions))

    def _together(self) -> Iterator[_Change]:
        """Of every class the kernels that add the least, two or more where nothing has its code yet."""
        for group, each in enumerate(self.classes):
            free: dict[int, tuple[float, Form]] = {}
            for form, instructions in zip(each.forms, each.instructions, strict=True):
                row = (self._added(form, instructions), form)
                known = free.get(form.kernel, row)
                if form.kernel not in self.shares:
                    free[form.kernel] = min(known, row, key=lambda row: (row[0], -self._lighter(row[1])))
            saved, added, taken = (0.0 if self.sharing[group] else -each.bytes), 0.0, list[Form]()
            for more, form in sorted(free.values(), key=lambda row: (row[0], row[1].kernel)):
                saved += self.form[form.kernel].bytes - each.argument + self._lighter(form)
                added += more
                taken.append(form)
                if len(taken) > 1 or self.sharing[group]:
                    yield _Change(tuple(taken), group, saved, added)

    def _lighter(self, form: Form) -> int:
        """Bytes by which the weights of all calls of a kernel become fewer."""
        return self.runs[form.kernel] * (self.form[form.kernel].weights - form.weights)

    def _added(self, form: Form, instructions: float) -> float:
        return self.runs[form.kernel] * (instructions - self.instructions[form.kernel])


def _alike(forms: Sequence[Form]) -> list[list[Form]]:
    classes: list[list[Form]] = []
    for form in forms:
        function = form.planned.function
        # What is like the first may differ from another, as a lower limit from an upper one.
        known = next(
            (
                each
                for each in classes
                if are_alike(each[0].planned.function, function)
                and are_alike(*(other.planned.function for other in each), function)
            ),
            None,
        )
        if known is None:
            classes.append([form])
        else:
            known.append(form)
    return classes


def _class(forms: Sequence[Form], target: Target) -> _Class:
    general = generalize([form.planned.function for form in forms])
    alone, arguments = forms[0].effort, len(general.function.dims)
    written = effort(general.function, target.vector_bits)
    addresses = max(0, written.written_addresses - alone.written_addresses)
    shared = written.written * BYTES + addresses * ADDRESS_BYTES + arguments * ARGUMENT_BYTES
    kept = 4 if general.function.dims_type == "int32" else 2
    instructions = tuple(_instructions(general, n, form, target) for n, form in enumerate(forms))
    return _Class(tuple(forms), instructions, shared, kept * arguments + ARGUMENT_BYTES)


def _instructions(general: General, member: int, form: Form, target: Target) -> float:
    """Of a run of one of the kernels by the program for all."""
    sizes = {symbol: general.arguments[member][n] for symbol, n in general.function.dims}
    shared = effort(general.function, target.vector_bits, sizes)
    addresses = max(0.0, shared.addresses - form.effort.addresses)
    return max(shared.instructions, form.effort.instructions) + addresses * ADDRESS_INSTRUCTIONS
