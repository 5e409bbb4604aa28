"""The cost model's score of choices of one kernel, each looked at once.

A choice is scheduled in 0.3 to 1.3 ms of CPU time; its features take 0.2 to 1 ms and the trees 0.1. The explorer has
scheduled what it draws already, several choices lead to one schedule, and annealing comes back to the same choices.
"""

from __future__ import annotations

from collections.abc import Sequence

from sterna.choices import Choice, Trace, replay
from sterna.errors import SternaError
from sterna.records import choice_text
from sterna.schedule import saved
from sterna.schedule.schedule import Schedule
from sterna.tuning.cost_model import CostModel
from sterna.tuning.features import features_of
from sterna.tuning.kernels import Task
from sterna.tuning.unforeseen import UNFORESEEN, Bug

Features = tuple[float, ...]


class Scorer:
    """Scores choices of a task. `schedule` is for the space that they are drawn from.

    Args:
        bug: is told of choices whose schedule or features raise what nobody foresaw.
    """

    def __init__(self, task: Task, model: CostModel, bug: Bug | None = None):
        self._task, self._model, self._bug = task, model, bug
        self._drawn: dict[str, Schedule] = {}
        self._by_choice: dict[str, Features] = {}
        self._by_steps: dict[str, Features] = {}

    def schedule(self, trace: Trace) -> Schedule:
        """What the strategies propose, kept until it is scored."""
        found = self._task.schedule(trace)
        self._drawn[choice_text(trace.choice)] = found
        return found

    def forget_drawn(self) -> None:
        """Drops schedules that were drawn; features are kept."""
        self._drawn.clear()

    def score(self, choices: Sequence[Choice]) -> Sequence[float]:
        """Of each, greater where it is faster."""
        return self._model.predict([self.features(choice) for choice in choices])

    def features(self, choice: Choice) -> Features:
        """Those of a choice; none where it leads to no schedule."""
        key = choice_text(choice)
        if key not in self._by_choice:
            self._by_choice[key] = self._looked_at(key, choice)
        return self._by_choice[key]

    def _looked_at(self, key: str, choice: Choice) -> Features:
        try:
            schedule = self._drawn.pop(key, None)
            if schedule is None:
                schedule = self._task.schedule(replay(choice))
            steps = saved.to_json(schedule.steps)
            if steps not in self._by_steps:
                self._by_steps[steps] = features_of(schedule, self._task.options.target)
            return self._by_steps[steps]
        except SternaError:
            return ()
        except UNFORESEEN as problem:
            if self._bug is not None:
                self._bug(choice, problem)
            return ()
